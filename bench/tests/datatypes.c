// ranks: 1 2 3
// Predefined datatypes, their sizes and extents, and contiguous runs of them.
// (MPI 5.0, sections 3.2.2, 5.1.2 and 5.1.5)
#include "check.h"

#include <complex.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

struct float_int { float value; int index; };
struct double_int { double value; int index; };
struct long_int { long value; int index; };
struct short_int { short value; int index; };
struct long_double_int { long double value; int index; };

/* name, bytes of data, distance to the next one */
#define PLAIN(datatype, type) {#datatype, datatype, sizeof(type), sizeof(type)}
#define PAIR(datatype, type, first) {#datatype, datatype, sizeof(first) + sizeof(int), sizeof(type)}
struct predefined { const char *name; MPI_Datatype datatype; size_t bytes, extent; };

static void sizes(void) {
    const struct predefined all[] = {
        PLAIN(MPI_CHAR, char), PLAIN(MPI_SIGNED_CHAR, signed char), PLAIN(MPI_UNSIGNED_CHAR, unsigned char),
        PLAIN(MPI_BYTE, char), PLAIN(MPI_PACKED, char), PLAIN(MPI_WCHAR, wchar_t),
        PLAIN(MPI_SHORT, short), PLAIN(MPI_UNSIGNED_SHORT, unsigned short),
        PLAIN(MPI_INT, int), PLAIN(MPI_UNSIGNED, unsigned), PLAIN(MPI_LONG, long),
        PLAIN(MPI_UNSIGNED_LONG, unsigned long), PLAIN(MPI_LONG_LONG, long long),
        PLAIN(MPI_LONG_LONG_INT, long long), PLAIN(MPI_UNSIGNED_LONG_LONG, unsigned long long),
        PLAIN(MPI_FLOAT, float), PLAIN(MPI_DOUBLE, double), PLAIN(MPI_LONG_DOUBLE, long double),
        PLAIN(MPI_C_BOOL, _Bool), PLAIN(MPI_INT8_T, int8_t), PLAIN(MPI_INT16_T, int16_t),
        PLAIN(MPI_INT32_T, int32_t), PLAIN(MPI_INT64_T, int64_t), PLAIN(MPI_UINT8_T, uint8_t),
        PLAIN(MPI_UINT16_T, uint16_t), PLAIN(MPI_UINT32_T, uint32_t), PLAIN(MPI_UINT64_T, uint64_t),
        PLAIN(MPI_AINT, MPI_Aint), PLAIN(MPI_COUNT, MPI_Count), PLAIN(MPI_OFFSET, MPI_Offset),
        PLAIN(MPI_C_COMPLEX, float complex), PLAIN(MPI_C_FLOAT_COMPLEX, float complex),
        PLAIN(MPI_C_DOUBLE_COMPLEX, double complex), PLAIN(MPI_C_LONG_DOUBLE_COMPLEX, long double complex),
        PAIR(MPI_FLOAT_INT, struct float_int, float), PAIR(MPI_DOUBLE_INT, struct double_int, double),
        PAIR(MPI_LONG_INT, struct long_int, long), PAIR(MPI_SHORT_INT, struct short_int, short),
        PAIR(MPI_LONG_DOUBLE_INT, struct long_double_int, long double), {"MPI_2INT", MPI_2INT, 8, 8},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int bytes = -1;
        MPI_Count bytes_c = -1;
        MPI_Aint lower = -1, extent = -1;
        section(all[i].name);
        OK(MPI_Type_size(all[i].datatype, &bytes));
        SAME(bytes, all[i].bytes);
        OK(MPI_Type_size_c(all[i].datatype, &bytes_c));
        SAME(bytes_c, all[i].bytes);
        OK(MPI_Type_get_extent(all[i].datatype, &lower, &extent));
        SAME(lower, 0);
        SAME(extent, all[i].extent);
    }
}

/* Round the ring, sent as one type and received as another of the same signature. */
static void around(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type) {
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    OK(MPI_Sendrecv(out, out_count, out_type, next, 1, in, in_count, in_type, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void contiguous(void) {
    MPI_Datatype three, twelve, none;
    MPI_Aint lower, extent;
    int bytes, out[24], in[25];
    section("contiguous");
    OK(MPI_Type_contiguous(3, MPI_INT, &three));
    OK(MPI_Type_contiguous(4, three, &twelve));
    OK(MPI_Type_contiguous(0, MPI_INT, &none));
    OK(MPI_Type_commit(&three));
    OK(MPI_Type_commit(&twelve));
    OK(MPI_Type_commit(&twelve)); /* again does no harm */
    OK(MPI_Type_commit(&none));
    OK(MPI_Type_size(twelve, &bytes));
    SAME(bytes, 12 * sizeof(int));
    OK(MPI_Type_get_extent(twelve, &lower, &extent));
    SAME(lower, 0);
    SAME(extent, 12 * sizeof(int));
    OK(MPI_Type_size(none, &bytes));
    SAME(bytes, 0);
    for (int i = 0; i < 24; i++) out[i] = i * i;
    memset(in, 0xee, sizeof in);
    around(out, 2, twelve, in, 8, three);
    for (int i = 0; i < 24; i++) SAME(in[i], i * i);
    memset(in, 0xee, sizeof in);
    around(out, 24, MPI_INT, in, 2, twelve);
    for (int i = 0; i < 24; i++) SAME(in[i], i * i);
    memset(in, 0xee, sizeof in);
    around(out, 5, none, in, 5, none);
    UNTOUCHED(in, sizeof in, 0xee);
    OK(MPI_Type_free(&three)); /* what was made of it stays */
    CHECK(three == MPI_DATATYPE_NULL);
    around(out, 1, twelve, in, 12, MPI_INT);
    for (int i = 0; i < 12; i++) SAME(in[i], i * i);
    OK(MPI_Type_free(&twelve));
    OK(MPI_Type_free(&none));
}

/* A type may be freed while a message of it is under way. */
static void freed_while_busy(void) {
    MPI_Datatype lot;
    MPI_Request requests[2];
    enum { COUNT = 50000 };
    static int out[COUNT], in[COUNT];
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    section("type freed while busy");
    for (int i = 0; i < COUNT; i++) out[i] = i ^ 0x55;
    OK(MPI_Type_contiguous(COUNT, MPI_INT, &lot));
    OK(MPI_Type_commit(&lot));
    OK(MPI_Irecv(in, 1, lot, previous, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(out, 1, lot, next, 1, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Type_free(&lot));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COUNT; i++) SAME(in[i], i ^ 0x55);
}

/* A message that ends in the middle of an element has no count, but has its basic elements. */
static void parts(void) {
    MPI_Datatype three;
    MPI_Status status;
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    int out[7] = {0}, in[9], count = -1;
    section("counts of parts");
    OK(MPI_Type_contiguous(3, MPI_INT, &three));
    OK(MPI_Type_commit(&three));
    OK(MPI_Sendrecv(out, 7, MPI_INT, next, 1, in, 3, three, previous, 1, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, three, &count));
    SAME(count, MPI_UNDEFINED);
    OK(MPI_Get_elements(&status, three, &count));
    SAME(count, 7);
    OK(MPI_Get_count(&status, MPI_INT, &count));
    SAME(count, 7);
    OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
    SAME(count, MPI_UNDEFINED);
    OK(MPI_Sendrecv(out, 6, MPI_INT, next, 1, in, 3, three, previous, 1, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, three, &count));
    SAME(count, 2);
    OK(MPI_Type_free(&three));
}

/* Pairs have a hole in them; what lies in the receiver's hole stays, or at least the data is right. */
static void pairs(void) {
    struct double_int out[3], in[3];
    section("pairs");
    for (int i = 0; i < 3; i++) out[i].value = 1.5 * i, out[i].index = i;
    memset(in, 0, sizeof in);
    around(out, 3, MPI_DOUBLE_INT, in, 3, MPI_DOUBLE_INT);
    for (int i = 0; i < 3; i++) {
        CHECK(in[i].value == 1.5 * i);
        SAME(in[i].index, i);
    }
    struct short_int small[5], got[5];
    memset(got, 0, sizeof got);
    for (int i = 0; i < 5; i++) small[i].value = (short)(i - 2), small[i].index = i << 20;
    around(small, 5, MPI_SHORT_INT, got, 5, MPI_SHORT_INT);
    for (int i = 0; i < 5; i++) {
        SAME(got[i].value, i - 2);
        SAME(got[i].index, i << 20);
    }
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    sizes();
    contiguous();
    freed_while_busy();
    parts();
    pairs();
    return check_close();
}
