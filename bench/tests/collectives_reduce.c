// ranks: 1 2 3 4 5 8
// Reductions: every predefined operator on every type that it is defined for, every root, in place
// and not, and operators of the program's own, commuting and not. (MPI 5.0, section 6.9 to 6.12)
#include "check.h"

#include <complex.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { LENGTH = 37 };

static MPI_Comm comm;
static int rank, size;

/* Small values: exact in any floating type, and where a narrow integer wraps around, it does so to
 * the same value in any order. */
static int small(int from, int at) { return (from * 5 + at * 3) % 4 + (at % 7 == 0); }

/* Defines `test_NAME`: allreduce with `op` on a C type, compared with a fold in rank order. */
#define FOLD(name, type, step) \
    static void name(MPI_Datatype datatype, MPI_Op op, const char *what) { \
        type mine[LENGTH], got[LENGTH]; \
        section(what); \
        for (int i = 0; i < LENGTH; i++) mine[i] = (type)small(rank, i); \
        memset(got, 0, sizeof got); \
        OK(MPI_Allreduce(mine, got, LENGTH, datatype, op, comm)); \
        for (int i = 0; i < LENGTH; i++) { \
            type a = (type)small(0, i); \
            for (int from = 1; from < size; from++) { \
                type b = (type)small(from, i); \
                a = (type)(step); \
            } \
            if (got[i] != a) check_failed(__FILE__, __LINE__, what); \
        } \
    }
#define ARITHMETIC(name, type) \
    FOLD(name##_sum, type, a + b) \
    FOLD(name##_prod, type, a * b) \
    FOLD(name##_min, type, a < b ? a : b) \
    FOLD(name##_max, type, a > b ? a : b)
#define BITS(name, type) \
    FOLD(name##_band, type, a & b) \
    FOLD(name##_bor, type, a | b) \
    FOLD(name##_bxor, type, a ^ b)
#define LOGICAL(name, type) \
    FOLD(name##_land, type, a && b) \
    FOLD(name##_lor, type, a || b) \
    FOLD(name##_lxor, type, !a != !b)
#define RUN(name, suffix, datatype, op) name##_##suffix(datatype, op, #op " of " #datatype)
#define RUN_ARITHMETIC(name, datatype) \
    RUN(name, sum, datatype, MPI_SUM); \
    RUN(name, prod, datatype, MPI_PROD); \
    RUN(name, min, datatype, MPI_MIN); \
    RUN(name, max, datatype, MPI_MAX)
#define RUN_BITS(name, datatype) \
    RUN(name, band, datatype, MPI_BAND); \
    RUN(name, bor, datatype, MPI_BOR); \
    RUN(name, bxor, datatype, MPI_BXOR)
#define RUN_LOGICAL(name, datatype) \
    RUN(name, land, datatype, MPI_LAND); \
    RUN(name, lor, datatype, MPI_LOR); \
    RUN(name, lxor, datatype, MPI_LXOR)

#define INTEGER_TYPES(USE) \
    USE(char_, char, MPI_CHAR) \
    USE(schar, signed char, MPI_SIGNED_CHAR) \
    USE(uchar, unsigned char, MPI_UNSIGNED_CHAR) \
    USE(short_, short, MPI_SHORT) \
    USE(ushort_, unsigned short, MPI_UNSIGNED_SHORT) \
    USE(int_, int, MPI_INT) \
    USE(uint_, unsigned, MPI_UNSIGNED) \
    USE(long_, long, MPI_LONG) \
    USE(ulong_, unsigned long, MPI_UNSIGNED_LONG) \
    USE(llong, long long, MPI_LONG_LONG) \
    USE(ullong, unsigned long long, MPI_UNSIGNED_LONG_LONG) \
    USE(i8, int8_t, MPI_INT8_T) \
    USE(i16, int16_t, MPI_INT16_T) \
    USE(i32, int32_t, MPI_INT32_T) \
    USE(i64, int64_t, MPI_INT64_T) \
    USE(u8, uint8_t, MPI_UINT8_T) \
    USE(u16, uint16_t, MPI_UINT16_T) \
    USE(u32, uint32_t, MPI_UINT32_T) \
    USE(u64, uint64_t, MPI_UINT64_T) \
    USE(aint, MPI_Aint, MPI_AINT) \
    USE(offset, MPI_Offset, MPI_OFFSET) \
    USE(mpi_count, MPI_Count, MPI_COUNT)
#define FLOAT_TYPES(USE) \
    USE(float_, float, MPI_FLOAT) \
    USE(double_, double, MPI_DOUBLE) \
    USE(ldouble, long double, MPI_LONG_DOUBLE)

#define DEFINE_INTEGER(name, type, datatype) ARITHMETIC(name, type) BITS(name, type) LOGICAL(name, type)
#define DEFINE_FLOAT(name, type, datatype) ARITHMETIC(name, type)
INTEGER_TYPES(DEFINE_INTEGER)
FLOAT_TYPES(DEFINE_FLOAT)
LOGICAL(c_bool, bool)
BITS(byte, unsigned char)
FOLD(complex_sum, double complex, a + b)
FOLD(complex_prod, double complex, a * b)
FOLD(fcomplex_sum, float complex, a + b)
FOLD(fcomplex_prod, float complex, a * b)

static void predefined(void) {
#define RUN_INTEGER(name, type, datatype) RUN_ARITHMETIC(name, datatype); RUN_BITS(name, datatype); RUN_LOGICAL(name, datatype);
#define RUN_FLOAT(name, type, datatype) RUN_ARITHMETIC(name, datatype);
    INTEGER_TYPES(RUN_INTEGER)
    FLOAT_TYPES(RUN_FLOAT)
    RUN_LOGICAL(c_bool, MPI_C_BOOL);
    RUN_BITS(byte, MPI_BYTE);
    RUN(complex, sum, MPI_C_DOUBLE_COMPLEX, MPI_SUM);
    RUN(complex, prod, MPI_C_DOUBLE_COMPLEX, MPI_PROD);
    RUN(fcomplex, sum, MPI_C_FLOAT_COMPLEX, MPI_SUM);
    RUN(fcomplex, prod, MPI_C_FLOAT_COMPLEX, MPI_PROD);
}

/* Signed and unsigned differ at the edges of their range; a sum wraps nowhere here. */
static void edges(void) {
    unsigned char high = rank == 0 ? 200 : 100, most = 0;
    signed char low = rank == 0 ? -100 : 100, least = 0;
    unsigned long long large = rank == 0 ? ULLONG_MAX : 1, largest = 0;
    long long negative = rank == 0 ? LLONG_MIN : 1, smallest = 0;
    section("edges of the range");
    OK(MPI_Allreduce(&high, &most, 1, MPI_UNSIGNED_CHAR, MPI_MAX, comm));
    SAME(most, 200);
    OK(MPI_Allreduce(&low, &least, 1, MPI_SIGNED_CHAR, MPI_MIN, comm));
    SAME(least, -100);
    OK(MPI_Allreduce(&large, &largest, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, comm));
    CHECK(largest == ULLONG_MAX);
    OK(MPI_Allreduce(&negative, &smallest, 1, MPI_LONG_LONG, MPI_MIN, comm));
    CHECK(smallest == LLONG_MIN);
}

/* Of equal values the smallest index wins. */
#define LOCATIONS(name, type, datatype) \
    static void name(void) { \
        struct { type value; int index; } mine[9], got[9]; \
        section("minloc, maxloc of " #datatype); \
        for (int i = 0; i < 9; i++) mine[i].value = (type)((rank + i) % 3), mine[i].index = 10 * rank + i; \
        for (int greatest = 0; greatest < 2; greatest++) { \
            memset(got, 0, sizeof got); \
            OK(MPI_Allreduce(mine, got, 9, datatype, greatest ? MPI_MAXLOC : MPI_MINLOC, comm)); \
            for (int i = 0; i < 9; i++) { \
                int best = 0; \
                for (int from = 1; from < size; from++) { \
                    int this = (from + i) % 3, that = (best + i) % 3; \
                    if (greatest ? this > that : this < that) best = from; \
                } \
                CHECK(got[i].value == (type)((best + i) % 3)); \
                SAME(got[i].index, 10 * best + i); \
            } \
        } \
    }
LOCATIONS(location_float, float, MPI_FLOAT_INT)
LOCATIONS(location_double, double, MPI_DOUBLE_INT)
LOCATIONS(location_long, long, MPI_LONG_INT)
LOCATIONS(location_int, int, MPI_2INT)
LOCATIONS(location_short, short, MPI_SHORT_INT)
LOCATIONS(location_ldouble, long double, MPI_LONG_DOUBLE_INT)

static int sum_of(int at) {
    int sum = 0;
    for (int from = 0; from < size; from++) sum += from * 7 + at;
    return sum;
}

static int *vector(int length) {
    int *mine = malloc((size_t)(length + 1) * sizeof(int));
    for (int i = 0; i < length; i++) mine[i] = rank * 7 + i;
    mine[length] = -7;
    return mine;
}

static void roots(int length) {
    section("reduce, every root");
    for (int root = 0; root < size; root++) {
        int *mine = vector(length), *got = malloc((size_t)(length + 1) * sizeof(int));
        memset(got, 0xee, (size_t)(length + 1) * sizeof(int));
        if (rank == root && root % 2 == 1) {
            memcpy(got, mine, (size_t)length * sizeof(int));
            OK(MPI_Reduce(MPI_IN_PLACE, got, length, MPI_INT, MPI_SUM, root, comm));
        } else {
            OK(MPI_Reduce(mine, rank == root ? got : NULL, length, MPI_INT, MPI_SUM, root, comm));
        }
        if (rank == root) {
            for (int i = 0; i < length; i++) SAME(got[i], sum_of(i));
        } else {
            UNTOUCHED(got, (size_t)length * sizeof(int), 0xee);
        }
        UNTOUCHED(got + length, sizeof(int), 0xee);
        for (int i = 0; i < length; i++) SAME(mine[i], rank * 7 + i);
        free(mine);
        free(got);
    }
}

static void to_all(int length) {
    int *mine = vector(length), *got = vector(length);
    section("allreduce, in place and not");
    OK(MPI_Allreduce(MPI_IN_PLACE, got, length, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < length; i++) SAME(got[i], sum_of(i));
    memset(got, 0, (size_t)length * sizeof(int));
    OK(MPI_Allreduce(mine, got, length, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < length; i++) SAME(got[i], sum_of(i));
    SAME(got[length], -7);
    free(mine);
    free(got);
}

/* Rank r takes r % 3 * share elements; so some take none. */
static void scattered(int share) {
    int total = 0, before = 0, *counts = malloc((size_t)size * sizeof(int));
    section("reduce_scatter");
    for (int r = 0; r < size; r++) {
        counts[r] = r % 3 * share;
        if (r < rank) before += counts[r];
        total += counts[r];
    }
    for (int in_place = 0; in_place < 2; in_place++) {
        /* MPICH 5.0.2 stops itself here: it copies a piece onto the same piece */
        if (in_place && share > 10000 && check_library_is("MPICH")) continue;
        int *mine = vector(total), *got = in_place ? mine : vector(total);
        OK(MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : mine, got, counts, MPI_INT, MPI_SUM, comm));
        for (int i = 0; i < counts[rank]; i++) SAME(got[i], sum_of(before + i));
        if (!in_place) SAME(got[counts[rank]], counts[rank] == total ? -7 : rank * 7 + counts[rank]);
        if (!in_place) free(got);
        free(mine);
    }
    section("reduce_scatter_block");
    for (int in_place = 0; in_place < 2; in_place++) {
        int *mine = vector(share * size), *got = in_place ? mine : vector(share);
        OK(MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : mine, got, share, MPI_INT, MPI_SUM, comm));
        for (int i = 0; i < share; i++) SAME(got[i], sum_of(share * rank + i));
        if (!in_place) SAME(got[share], -7);
        if (!in_place) free(got);
        free(mine);
    }
    free(counts);
}

static int sum_up_to(int last, int at) {
    int sum = 0;
    for (int from = 0; from <= last; from++) sum += from * 7 + at;
    return sum;
}

static void scans(int length) {
    for (int in_place = 0; in_place < 2; in_place++) {
        int *mine = vector(length), *got = in_place ? mine : vector(length);
        section("scan");
        OK(MPI_Scan(in_place ? MPI_IN_PLACE : mine, got, length, MPI_INT, MPI_SUM, comm));
        for (int i = 0; i < length; i++) SAME(got[i], sum_up_to(rank, i));
        if (!in_place) free(got);
        free(mine);
        section("exscan");
        mine = vector(length), got = in_place ? mine : vector(length);
        /* The first rank gets nothing, and need not say where (MPI 5.0 section 6.11.2). */
        OK(MPI_Exscan(in_place ? MPI_IN_PLACE : mine, rank == 0 && !in_place ? NULL : got, length, MPI_INT, MPI_SUM, comm));
        if (rank > 0)
            for (int i = 0; i < length; i++) SAME(got[i], sum_up_to(rank - 1, i));
        if (!in_place) free(got);
        free(mine);
    }
}

/* ---- operators of the program's own ---- */

/* 2 x 2 matrices modulo a prime: the product does not commute, so an operand out of place shows. */
struct matrix { long cell[4]; };
enum { PRIME = 99991, MATRICES = 5 };

static MPI_Datatype matrix_type;

static struct matrix product(const struct matrix *a, const struct matrix *b) {
    struct matrix c = {{(a->cell[0] * b->cell[0] + a->cell[1] * b->cell[2]) % PRIME,
                        (a->cell[0] * b->cell[1] + a->cell[1] * b->cell[3]) % PRIME,
                        (a->cell[2] * b->cell[0] + a->cell[3] * b->cell[2]) % PRIME,
                        (a->cell[2] * b->cell[1] + a->cell[3] * b->cell[3]) % PRIME}};
    return c;
}

static void multiply(void *left, void *right, int *length, MPI_Datatype *datatype) {
    struct matrix *a = left, *b = right;
    CHECK(*datatype == matrix_type);
    for (int i = 0; i < *length; i++) b[i] = product(&a[i], &b[i]);
}

static struct matrix matrix_of(int from, int at) {
    struct matrix m = {{from + 2, at + 1, 3 * from + 1, at + from + 5}};
    return m;
}

static void expect_product(const struct matrix *got, int first, int last, int at) {
    struct matrix right = matrix_of(first, at);
    for (int from = first + 1; from <= last; from++) {
        struct matrix next = matrix_of(from, at);
        right = product(&right, &next);
    }
    for (int i = 0; i < 4; i++) SAME(got->cell[i], right.cell[i]);
}

static void not_commuting(void) {
    enum { RANKS_MAX = 8 };
    struct matrix mine[MATRICES * RANKS_MAX], got[MATRICES * RANKS_MAX];
    MPI_Op op;
    int commutes = -1;
    section("an operator that does not commute");
    OK(MPI_Type_contiguous(4, MPI_LONG, &matrix_type));
    OK(MPI_Type_commit(&matrix_type));
    OK(MPI_Op_create(multiply, 0, &op));
    OK(MPI_Op_commutative(op, &commutes));
    SAME(commutes, 0);
    for (int i = 0; i < MATRICES * size; i++) mine[i] = matrix_of(rank, i);
    for (int root = 0; root < size; root++) {
        OK(MPI_Reduce(mine, got, MATRICES, matrix_type, op, root, comm));
        if (rank == root)
            for (int i = 0; i < MATRICES; i++) expect_product(&got[i], 0, size - 1, i);
    }
    OK(MPI_Allreduce(mine, got, MATRICES, matrix_type, op, comm));
    for (int i = 0; i < MATRICES; i++) expect_product(&got[i], 0, size - 1, i);
    OK(MPI_Reduce_scatter_block(mine, got, MATRICES, matrix_type, op, comm));
    for (int i = 0; i < MATRICES; i++) expect_product(&got[i], 0, size - 1, MATRICES * rank + i);
    OK(MPI_Scan(mine, got, MATRICES, matrix_type, op, comm));
    for (int i = 0; i < MATRICES; i++) expect_product(&got[i], 0, rank, i);
    OK(MPI_Exscan(mine, got, MATRICES, matrix_type, op, comm));
    for (int i = 0; i < MATRICES && rank > 0; i++) expect_product(&got[i], 0, rank - 1, i);
    OK(MPI_Op_free(&op));
    CHECK(op == MPI_OP_NULL);
    OK(MPI_Type_free(&matrix_type));
}

/* Greatest common divisor. */
static void divisor(void *left, void *right, int *length, MPI_Datatype *datatype) {
    int *a = left, *b = right;
    CHECK(*datatype == MPI_INT);
    for (int i = 0; i < *length; i++) {
        int x = a[i], y = b[i];
        while (y != 0) { int rest = x % y; x = y; y = rest; }
        b[i] = x;
    }
}

static void commuting(void) {
    static int mine[20000], got[20000];
    MPI_Op op;
    int commutes = -1;
    section("an operator that commutes");
    OK(MPI_Op_create(divisor, 1, &op));
    OK(MPI_Op_commutative(op, &commutes));
    SAME(commutes, 1);
    for (int i = 0; i < 20000; i++) mine[i] = (i % 50 + 1) * (rank + 1);
    OK(MPI_Allreduce(mine, got, 20000, MPI_INT, op, comm));
    for (int i = 0; i < 20000; i++) SAME(got[i], i % 50 + 1);
    int a[3] = {12, 18, 35}, b[3] = {8, 27, 49};
    OK(MPI_Reduce_local(a, b, 3, MPI_INT, op));
    SAME(b[0], 4);
    SAME(b[1], 9);
    SAME(b[2], 7);
    OK(MPI_Reduce_local(a, b, 3, MPI_INT, MPI_SUM));
    SAME(b[2], 42);
    OK(MPI_Op_commutative(MPI_SUM, &commutes));
    SAME(commutes, 1);
    OK(MPI_Op_free(&op));
}

/* A sum of fractions depends on the order; all ranks must see the very same one, and the same
 * call again must give it again. */
static void same_bits(void) {
    static double mine[5000], got[5000], again[5000], least[5000];
    section("same bits on all ranks");
    for (int i = 0; i < 5000; i++) mine[i] = 1.0 / (3 + i + 17 * rank);
    OK(MPI_Allreduce(mine, got, 5000, MPI_DOUBLE, MPI_SUM, comm));
    OK(MPI_Allreduce(mine, again, 5000, MPI_DOUBLE, MPI_SUM, comm));
    CHECK(memcmp(got, again, sizeof got) == 0);
    OK(MPI_Allreduce(got, least, 5000, MPI_DOUBLE, MPI_MIN, comm));
    CHECK(memcmp(got, least, sizeof got) == 0);
}

static void all_on(MPI_Comm on) {
    static const int LENGTHS[] = {0, 1, 2, 100, 5003, 150000};
    comm = on;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    predefined();
    edges();
    location_float();
    location_double();
    location_long();
    location_int();
    location_short();
    location_ldouble();
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        roots(LENGTHS[i]);
        to_all(LENGTHS[i]);
        scattered(LENGTHS[i] / 4);
        scans(LENGTHS[i]);
    }
    not_commuting();
    commuting();
    same_bits();
}

int main(int argc, char **argv) {
    MPI_Comm backwards;
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &backwards));
    all_on(MPI_COMM_WORLD);
    all_on(backwards);
    OK(MPI_Comm_free(&backwards));
    return check_close();
}
