// ranks: 1
// external32: sizes, bytes and both ways, in pieces and of derived datatypes; what is refused.
// (MPI 5.0, sections 5.3 and 14.5.2)
#include "check.h"

#include <complex.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

static char external32[] = "external32";

static MPI_Aint size_of(MPI_Datatype datatype, int count) {
    MPI_Aint bytes = -1;
    OK(MPI_Pack_external_size(external32, count, datatype, &bytes));
    return bytes;
}

static void sizes(void) {
    const struct { MPI_Datatype datatype; int bytes; } table[] = {
        {MPI_PACKED, 1}, {MPI_BYTE, 1}, {MPI_CHAR, 1}, {MPI_UNSIGNED_CHAR, 1}, {MPI_SIGNED_CHAR, 1}, {MPI_WCHAR, 2},
        {MPI_SHORT, 2}, {MPI_UNSIGNED_SHORT, 2}, {MPI_INT, 4}, {MPI_UNSIGNED, 4}, {MPI_LONG, 4}, {MPI_UNSIGNED_LONG, 4},
        {MPI_LONG_LONG_INT, 8}, {MPI_UNSIGNED_LONG_LONG, 8}, {MPI_FLOAT, 4}, {MPI_DOUBLE, 8}, {MPI_LONG_DOUBLE, 16},
        {MPI_C_BOOL, 1}, {MPI_INT8_T, 1}, {MPI_INT16_T, 2}, {MPI_INT32_T, 4}, {MPI_INT64_T, 8}, {MPI_UINT8_T, 1},
        {MPI_UINT16_T, 2}, {MPI_UINT32_T, 4}, {MPI_UINT64_T, 8}, {MPI_AINT, 8}, {MPI_COUNT, 8}, {MPI_OFFSET, 8},
        {MPI_C_FLOAT_COMPLEX, 8}, {MPI_C_DOUBLE_COMPLEX, 16}, {MPI_C_LONG_DOUBLE_COMPLEX, 32},
        {MPI_FLOAT_INT, 8}, {MPI_DOUBLE_INT, 12}, {MPI_LONG_INT, 8}, {MPI_SHORT_INT, 6}, {MPI_LONG_DOUBLE_INT, 20},
    };
    /* MPICH 5.0.2 has no sizes for pairs, which stand at the end. */
    const size_t count = sizeof table / sizeof *table - (check_library_is("MPICH") ? 5 : 0);
    section("sizes");
    for (size_t i = 0; i < count; i++) {
        MPI_Count bytes = -1;
        SAME(size_of(table[i].datatype, 3), 3 * table[i].bytes);
        OK(MPI_Pack_external_size_c(external32, 3, table[i].datatype, &bytes));
        SAME(bytes, 3 * table[i].bytes);
    }
}

/* Packs one element, compares its bytes, and unpacks it again. */
#define BOTH_WAYS(type, datatype, value, ...)                                                                \
    do {                                                                                                     \
        const unsigned char expected[] = {__VA_ARGS__};                                                      \
        unsigned char packed[40];                                                                            \
        MPI_Aint position = 1;                                                                               \
        type before = value, after;                                                                          \
        memset(&after, 0, sizeof after);                                                                     \
        memset(packed, 0xee, sizeof packed);                                                                 \
        section(#datatype);                                                                                  \
        OK(MPI_Pack_external(external32, &before, 1, datatype, packed, sizeof packed, &position));           \
        SAME(position, 1 + sizeof expected);                                                                 \
        CHECK(memcmp(packed + 1, expected, sizeof expected) == 0);                                           \
        CHECK(packed[0] == 0xee && packed[position] == 0xee);                                                \
        position = 1;                                                                                        \
        OK(MPI_Unpack_external(external32, packed, sizeof packed, &position, &after, 1, datatype));          \
        SAME(position, 1 + sizeof expected);                                                                 \
        CHECK(after == before);                                                                              \
    } while (0)

static void bytes(void) {
    BOTH_WAYS(char, MPI_CHAR, 'w', 'w');
    BOTH_WAYS(wchar_t, MPI_WCHAR, 0x20ac, 0x20, 0xac);
    BOTH_WAYS(short, MPI_SHORT, -2, 0xff, 0xfe);
    BOTH_WAYS(int, MPI_INT, 0x01020304, 1, 2, 3, 4);
    BOTH_WAYS(long, MPI_LONG, -3, 0xff, 0xff, 0xff, 0xfd);
    BOTH_WAYS(unsigned long, MPI_UNSIGNED_LONG, 0xfffffffe, 0xff, 0xff, 0xff, 0xfe);
    BOTH_WAYS(long long, MPI_LONG_LONG, 0x0102030405060708, 1, 2, 3, 4, 5, 6, 7, 8);
    BOTH_WAYS(int64_t, MPI_INT64_T, -1, 255, 255, 255, 255, 255, 255, 255, 255);
    BOTH_WAYS(_Bool, MPI_C_BOOL, 1, 1);
    BOTH_WAYS(float, MPI_FLOAT, 1.5f, 0x3f, 0xc0, 0, 0);
    BOTH_WAYS(double, MPI_DOUBLE, -2.0, 0xc0, 0, 0, 0, 0, 0, 0, 0);
    BOTH_WAYS(float complex, MPI_C_FLOAT_COMPLEX, 1.0f - 1.5f * I, 0x3f, 0x80, 0, 0, 0xbf, 0xc0, 0, 0);
    BOTH_WAYS(MPI_Count, MPI_COUNT, (MPI_Count)1 << 40, 0, 0, 1, 0, 0, 0, 0, 0);
    BOTH_WAYS(long double, MPI_LONG_DOUBLE, -1.25L, 0xbf, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

struct record { short kind; long size; double place[2]; long double weight; };

/* A record with gaps, in three pieces and by the form with large counts. */
static void derived(void) {
    enum { COUNT = 700 };
    static struct record before[COUNT], after[COUNT];
    static unsigned char packed[COUNT * 38];
    const int lengths[4] = {1, 1, 2, 1};
    const MPI_Aint places[4] = {offsetof(struct record, kind), offsetof(struct record, size),
                                offsetof(struct record, place), offsetof(struct record, weight)};
    const MPI_Datatype types[4] = {MPI_SHORT, MPI_LONG, MPI_DOUBLE, MPI_LONG_DOUBLE};
    MPI_Datatype parts, record;
    MPI_Aint position = 0;
    MPI_Count place = 0;
    section("derived datatypes");
    OK(MPI_Type_create_struct(4, lengths, places, types, &parts));
    OK(MPI_Type_create_resized(parts, 0, sizeof(struct record), &record));
    OK(MPI_Type_commit(&record));
    SAME(size_of(record, COUNT), COUNT * (2 + 4 + 16 + 16));
    for (int i = 0; i < COUNT; i++)
        before[i] = (struct record){(short)-i, 1000L * i - 7, {i / 3.0, -i * 1e100}, i / 7.0L};
    OK(MPI_Pack_external(external32, before, 300, record, packed, sizeof packed, &position));
    SAME(position, 300 * 38);
    OK(MPI_Pack_external(external32, before + 300, 0, record, packed, sizeof packed, &position));
    OK(MPI_Pack_external(external32, before + 300, 400, record, packed, sizeof packed, &position));
    SAME(position, sizeof packed);
    OK(MPI_Unpack_external_c(external32, packed, sizeof packed, &place, after, COUNT, record));
    SAME(place, sizeof packed);
    for (int i = 0; i < COUNT; i++) {
        SAME(after[i].kind, before[i].kind);
        SAME(after[i].size, before[i].size);
        CHECK(after[i].place[0] == before[i].place[0] && after[i].place[1] == before[i].place[1]);
        CHECK(after[i].weight == before[i].weight);
    }
    place = 0;
    memset(packed, 0, sizeof packed);
    OK(MPI_Pack_external_c(external32, before, 2, record, packed, sizeof packed, &place));
    SAME(place, 2 * 38);
    SAME(packed[38 + 1], 0xff); /* kind of the second is -1 */
    OK(MPI_Type_free(&parts));
    OK(MPI_Type_free(&record));
}

static void refused(void) {
    int values[2] = {1, 2};
    long large = 1L << 31;
    unsigned char packed[8];
    char native[] = "native";
    MPI_Aint position = 4, size = 77;
    MPI_Datatype uncommitted;
    section("refused");
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    memset(packed, 0xee, sizeof packed);
    STRICT_CLASS(MPI_Pack_external(native, values, 1, MPI_INT, packed, 8, &position), MPI_ERR_UNSUPPORTED_DATAREP);
    STRICT_CLASS(MPI_Unpack_external(native, packed, 8, &position, values, 1, MPI_INT), MPI_ERR_UNSUPPORTED_DATAREP);
    STRICT_CLASS(MPI_Pack_external_size(native, 1, MPI_INT, &size), MPI_ERR_UNSUPPORTED_DATAREP);
    STRICT_CLASS(MPI_Pack_external(external32, values, -1, MPI_INT, packed, 8, &position), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Pack_external(external32, values, 1, MPI_DATATYPE_NULL, packed, 8, &position), MPI_ERR_TYPE);
    STRICT_CLASS(MPI_Pack_external(external32, values, 2, MPI_INT, packed, 8, &position), MPI_ERR_TRUNCATE);
    STRICT_CLASS(MPI_Unpack_external(external32, packed, 8, &position, values, 2, MPI_INT), MPI_ERR_TRUNCATE);
    STRICT_CLASS(MPI_Pack_external(external32, &large, 1, MPI_LONG, packed, 8, &position), MPI_ERR_VALUE_TOO_LARGE);
    OK(MPI_Type_contiguous(2, MPI_INT, &uncommitted));
    STRICT_CLASS(MPI_Pack_external(external32, values, 1, uncommitted, packed, 8, &position), MPI_ERR_TYPE);
    OK(MPI_Type_free(&uncommitted));
    SAME(position, 4);
    SAME(size, 77);
    SAME(values[1], 2);
    UNTOUCHED(packed, sizeof packed, 0xee);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    sizes();
    if (!check_library_is("MPICH")) { /* 5.0.2 stops itself at some of these datatypes */
        bytes();
        derived();
    }
    refused();
    return check_close();
}
