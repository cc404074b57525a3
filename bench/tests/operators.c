// ranks: 1 2 3
// Every predefined operator with every predefined datatype: those that the standard lists, or that MPICH and Open MPI take
// as well, give the right number, all others are refused; operators of the program in both forms. (MPI 5.0, sections 6.9.2
// to 6.9.7.) `operators table` prints instead which pairs the library takes, for `crates/datatype/tables/operators.csv`.
#include "check.h"

#include <complex.h>
#include <stdint.h>
#include <wchar.h>

/* Open MPI 5.0, which is asked for its table, has no large counts. */
#if MPI_VERSION < 4
#define MPI_Op_create_c(function, commutes, op) MPI_Op_create(((void)(function), multiply_int), commutes, op)
#endif

enum class { C_INTEGER = 1, FORTRAN_INTEGER = 2, FLOATING = 4, LOGICAL = 8, COMPLEX = 16, BYTE = 32, MULTI = 64, PAIR = 128, CHARACTER = 256, OTHER = 0 };

struct type { const char *name; MPI_Datatype datatype; int classes, fortran; };
#define TYPE(datatype, classes) {#datatype, datatype, classes, 0}
#define FORTRAN(datatype, classes) {#datatype, datatype, classes, 1}
static struct type types[80];
static int type_count;

static void list(void) {
    const struct type all[] = {
        TYPE(MPI_INT, C_INTEGER), TYPE(MPI_LONG, C_INTEGER), TYPE(MPI_SHORT, C_INTEGER), TYPE(MPI_UNSIGNED_SHORT, C_INTEGER),
        TYPE(MPI_UNSIGNED, C_INTEGER), TYPE(MPI_UNSIGNED_LONG, C_INTEGER), TYPE(MPI_LONG_LONG_INT, C_INTEGER),
        TYPE(MPI_UNSIGNED_LONG_LONG, C_INTEGER), TYPE(MPI_SIGNED_CHAR, C_INTEGER), TYPE(MPI_UNSIGNED_CHAR, C_INTEGER),
        TYPE(MPI_INT8_T, C_INTEGER), TYPE(MPI_INT16_T, C_INTEGER), TYPE(MPI_INT32_T, C_INTEGER), TYPE(MPI_INT64_T, C_INTEGER),
        TYPE(MPI_UINT8_T, C_INTEGER), TYPE(MPI_UINT16_T, C_INTEGER), TYPE(MPI_UINT32_T, C_INTEGER), TYPE(MPI_UINT64_T, C_INTEGER),
        FORTRAN(MPI_INTEGER, FORTRAN_INTEGER), FORTRAN(MPI_INTEGER1, FORTRAN_INTEGER), FORTRAN(MPI_INTEGER2, FORTRAN_INTEGER),
        FORTRAN(MPI_INTEGER4, FORTRAN_INTEGER), FORTRAN(MPI_INTEGER8, FORTRAN_INTEGER),
        TYPE(MPI_FLOAT, FLOATING), TYPE(MPI_DOUBLE, FLOATING), TYPE(MPI_LONG_DOUBLE, FLOATING), FORTRAN(MPI_REAL, FLOATING),
        FORTRAN(MPI_DOUBLE_PRECISION, FLOATING), FORTRAN(MPI_REAL4, FLOATING),
        FORTRAN(MPI_REAL8, FLOATING), FORTRAN(MPI_REAL16, FLOATING), TYPE(MPI_C_BOOL, LOGICAL), FORTRAN(MPI_CXX_BOOL, LOGICAL),
        FORTRAN(MPI_LOGICAL, LOGICAL), FORTRAN(MPI_LOGICAL1, LOGICAL), FORTRAN(MPI_LOGICAL2, LOGICAL),
        FORTRAN(MPI_LOGICAL4, LOGICAL), FORTRAN(MPI_LOGICAL8, LOGICAL), TYPE(MPI_C_FLOAT_COMPLEX, COMPLEX), TYPE(MPI_C_DOUBLE_COMPLEX, COMPLEX),
        TYPE(MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX), FORTRAN(MPI_CXX_FLOAT_COMPLEX, COMPLEX), FORTRAN(MPI_CXX_DOUBLE_COMPLEX, COMPLEX),
        FORTRAN(MPI_CXX_LONG_DOUBLE_COMPLEX, COMPLEX), FORTRAN(MPI_COMPLEX, COMPLEX), FORTRAN(MPI_DOUBLE_COMPLEX, COMPLEX),
        FORTRAN(MPI_COMPLEX8, COMPLEX), FORTRAN(MPI_COMPLEX16, COMPLEX),
        TYPE(MPI_BYTE, BYTE), TYPE(MPI_AINT, MULTI), TYPE(MPI_OFFSET, MULTI), TYPE(MPI_COUNT, MULTI), TYPE(MPI_FLOAT_INT, PAIR),
        TYPE(MPI_DOUBLE_INT, PAIR), TYPE(MPI_LONG_INT, PAIR), TYPE(MPI_2INT, PAIR), TYPE(MPI_SHORT_INT, PAIR),
        TYPE(MPI_LONG_DOUBLE_INT, PAIR), FORTRAN(MPI_2REAL, PAIR), FORTRAN(MPI_2DOUBLE_PRECISION, PAIR), FORTRAN(MPI_2INTEGER, PAIR),
        TYPE(MPI_CHAR, CHARACTER), TYPE(MPI_WCHAR, OTHER), FORTRAN(MPI_CHARACTER, OTHER), TYPE(MPI_PACKED, OTHER),
#if MPI_VERSION >= 5 /* which Open MPI 5.0 does not know */
        FORTRAN(MPI_REAL2, FLOATING), FORTRAN(MPI_COMPLEX4, COMPLEX), FORTRAN(MPI_COMPLEX32, COMPLEX),
        FORTRAN(MPI_INTEGER16, FORTRAN_INTEGER), FORTRAN(MPI_LOGICAL16, LOGICAL),
#endif
    };
    type_count = sizeof all / sizeof *all;
    memcpy(types, all, sizeof all);
}

struct operator { const char *name; MPI_Op op; int classes; };
#define ANY_INTEGER (C_INTEGER | FORTRAN_INTEGER | MULTI | CHARACTER)
#define TRUTH (C_INTEGER | LOGICAL | MULTI | CHARACTER)
#define OPERATOR(op, classes) {#op, op, classes}
enum { OPERATORS = 14 };
static struct operator operators[OPERATORS];

/* Characters of C, and the logic of addresses, offsets and counts, are not in the standard's table. */
static void list_operators(void) {
    const struct operator all[OPERATORS] = {
        OPERATOR(MPI_SUM, ANY_INTEGER | FLOATING | COMPLEX), OPERATOR(MPI_MIN, ANY_INTEGER | FLOATING),
        OPERATOR(MPI_MAX, ANY_INTEGER | FLOATING), OPERATOR(MPI_PROD, ANY_INTEGER | FLOATING | COMPLEX),
        OPERATOR(MPI_BAND, ANY_INTEGER | BYTE), OPERATOR(MPI_BOR, ANY_INTEGER | BYTE), OPERATOR(MPI_BXOR, ANY_INTEGER | BYTE),
        OPERATOR(MPI_LAND, TRUTH), OPERATOR(MPI_LOR, TRUTH), OPERATOR(MPI_LXOR, TRUTH), OPERATOR(MPI_MINLOC, PAIR),
        OPERATOR(MPI_MAXLOC, PAIR), OPERATOR(MPI_REPLACE, OTHER), OPERATOR(MPI_NO_OP, OTHER),
    };
    memcpy(operators, all, sizeof all);
}

/* Every call that combines with a predefined operator, on zeroes, of which every operator makes zeroes, so that bytes of any
 * datatype can be held against them; what operators make of numbers is held against a reference in the library's own
 * tests, and below. */
static int combined(int call, const void *in, void *inout, MPI_Datatype datatype, MPI_Op op) {
    const int counts[] = {2, 0, 0};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm comm = MPI_COMM_WORLD;
    int code;
    switch (call) {
    case 0: return MPI_Reduce_local(in, inout, 2, datatype, op);
    case 1: return MPI_Allreduce(in, inout, 2, datatype, op, comm);
    case 2: return MPI_Reduce(in, inout, 2, datatype, op, 0, comm);
    case 3: return MPI_Scan(in, inout, 2, datatype, op, comm);
    case 4: return MPI_Exscan(in, inout, 2, datatype, op, comm);
    case 5: return MPI_Reduce_scatter(in, inout, counts, datatype, op, comm);
    case 6: return MPI_Reduce_scatter_block(in, inout, 1, datatype, op, comm);
    case 7: code = MPI_Iallreduce(in, inout, 2, datatype, op, comm, &request); break;
    case 8: code = MPI_Ireduce(in, inout, 2, datatype, op, 0, comm, &request); break;
    case 9: code = MPI_Iscan(in, inout, 2, datatype, op, comm, &request); break;
    case 10: code = MPI_Iexscan(in, inout, 2, datatype, op, comm, &request); break;
    case 11: code = MPI_Ireduce_scatter(in, inout, counts, datatype, op, comm, &request); break;
    case 12: code = MPI_Ireduce_scatter_block(in, inout, 1, datatype, op, comm, &request); break;
#if MPI_VERSION >= 4
    case 13: return MPI_Reduce_local_c(in, inout, 2, datatype, op);
    case 14: code = MPI_Allreduce_init(in, inout, 2, datatype, op, comm, MPI_INFO_NULL, &request); break;
    case 15: code = MPI_Reduce_init(in, inout, 2, datatype, op, 0, comm, MPI_INFO_NULL, &request); break;
    case 16: code = MPI_Scan_init(in, inout, 2, datatype, op, comm, MPI_INFO_NULL, &request); break;
    case 17: code = MPI_Exscan_init(in, inout, 2, datatype, op, comm, MPI_INFO_NULL, &request); break;
    case 18: code = MPI_Reduce_scatter_init(in, inout, counts, datatype, op, comm, MPI_INFO_NULL, &request); break;
    default: code = MPI_Reduce_scatter_block_init(in, inout, 1, datatype, op, comm, MPI_INFO_NULL, &request); break;
#else
    default: return MPI_Reduce_local(in, inout, 2, datatype, op);
#endif
    }
    if (code != MPI_SUCCESS) return code;
    if (call >= 14) OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (call >= 14) OK(MPI_Request_free(&request));
    return MPI_SUCCESS;
}
enum { CALLS = 20 };

static void legality(void) {
    int pairs = 0;
    for (int t = 0; t < type_count; t++) {
        int bytes;
        section(types[t].name);
        OK(MPI_Type_size(types[t].datatype, &bytes));
        if (bytes == MPI_UNDEFINED) { /* an optional datatype that the library does not have */
            CHECK(types[t].fortran);
            continue;
        }
        for (int o = 0; o < OPERATORS; o++) {
            int legal = types[t].classes & operators[o].classes;
            for (int call = 0; call < CALLS; call++) {
                char in[3 * 96] = {0}, inout[96] = {0};
                int code = combined(call, in, inout, types[t].datatype, operators[o].op);
                if (legal) {
                    OK(code);
                    UNTOUCHED(inout, sizeof inout, 0);
                } else {
                    STRICT_CLASS(code, MPI_ERR_OP);
                }
            }
            pairs += legal != 0;
        }
    }
    CHECK(pairs > 350);
}

/* Which pairs the library takes, a datatype a line. */
static void table(void) {
    for (int t = 0; t < type_count; t++) {
        int bytes;
        OK(MPI_Type_size(types[t].datatype, &bytes));
        printf("%s", types[t].name);
        for (int o = 0; o < OPERATORS; o++) {
            char in[96] = {0}, inout[96] = {0};
            int code = MPI_Reduce_local(in, inout, 2, types[t].datatype, operators[o].op);
            CHECK((code == MPI_SUCCESS) == (MPI_Allreduce(in, inout, 2, types[t].datatype, operators[o].op, MPI_COMM_WORLD) == MPI_SUCCESS));
            if (bytes != MPI_UNDEFINED && code == MPI_SUCCESS) printf(" %s", operators[o].name);
        }
        puts("");
    }
}

#define NUMBERS(type, datatype)                                                                  \
    do {                                                                                         \
        type mine[3] = {(type)(check_rank + 1), (type)2, (type)(10 - check_rank)}, all[3];        \
        section(#datatype);                                                                      \
        OK(MPI_Allreduce(mine, all, 3, datatype, MPI_SUM, MPI_COMM_WORLD));                      \
        CHECK(all[0] == (type)(n * (n + 1) / 2) && all[1] == (type)(2 * n));                      \
        OK(MPI_Allreduce(mine, all, 3, datatype, MPI_PROD, MPI_COMM_WORLD));                     \
        CHECK(all[0] == (type)(n == 1 ? 1 : n == 2 ? 2 : 6) && all[1] == (type)(1 << n));         \
        OK(MPI_Allreduce(mine, all, 3, datatype, MPI_MAX, MPI_COMM_WORLD));                      \
        CHECK(all[0] == (type)n && all[2] == (type)10);                                          \
        OK(MPI_Allreduce(mine, all, 3, datatype, MPI_MIN, MPI_COMM_WORLD));                      \
        CHECK(all[0] == (type)1 && all[2] == (type)(11 - n));                                    \
    } while (0)

static void numbers(void) {
    int n = check_size, quadruple = 0;
    (void)quadruple;
    NUMBERS(int8_t, MPI_INT8_T);
    NUMBERS(unsigned char, MPI_UNSIGNED_CHAR);
    NUMBERS(short, MPI_SHORT);
    NUMBERS(uint16_t, MPI_UINT16_T);
    NUMBERS(int, MPI_INT);
    NUMBERS(unsigned, MPI_UNSIGNED);
    NUMBERS(long, MPI_LONG);
    NUMBERS(uint64_t, MPI_UINT64_T);
    NUMBERS(char, MPI_CHAR);
    NUMBERS(MPI_Count, MPI_COUNT);
    NUMBERS(MPI_Offset, MPI_OFFSET);
    NUMBERS(MPI_Aint, MPI_AINT);
    NUMBERS(float, MPI_FLOAT);
    NUMBERS(double, MPI_DOUBLE);
    NUMBERS(long double, MPI_LONG_DOUBLE);
#ifdef __SIZEOF_FLOAT128__
    __extension__ typedef __float128 quadruple_number;
    MPI_Type_size(MPI_REAL16, &quadruple);
    if (quadruple != MPI_UNDEFINED) NUMBERS(quadruple_number, MPI_REAL16);
#endif
}

/* Two by two matrices, whose product depends on the order. */
struct matrix { int a, b, c, d; };

static void multiply(const struct matrix *in, struct matrix *inout, MPI_Count length) {
    for (MPI_Count i = 0; i < length; i++) {
        struct matrix l = in[i], r = inout[i];
        inout[i] = (struct matrix){l.a * r.a + l.b * r.c, l.a * r.b + l.b * r.d, l.c * r.a + l.d * r.c, l.c * r.b + l.d * r.d};
    }
}

static void multiply_int(void *in, void *inout, int *length, MPI_Datatype *datatype) {
    (void)datatype;
    multiply(in, inout, *length);
}

static void multiply_count(void *in, void *inout, MPI_Count *length, MPI_Datatype *datatype) {
    (void)datatype;
    multiply(in, inout, *length);
}

/* Adds the first and the third of four ints, through the datatype's own gaps. */
static void add_apart(void *in, void *inout, int *length, MPI_Datatype *datatype) {
    MPI_Aint lower, extent;
    MPI_Type_get_extent(*datatype, &lower, &extent);
    for (int i = 0; i < *length; i++) {
        int *from = (int *)((char *)in + i * extent), *to = (int *)((char *)inout + i * extent);
        to[0] += from[0];
        to[2] += from[2];
    }
}

static void own(void) {
    enum { COUNT = 2000 };
    static struct matrix mine[COUNT], all[COUNT];
    static int apart[4 * COUNT], sums[4 * COUNT];
    MPI_Datatype matrix, spread, wide;
    MPI_Op op, op_c, add;
    int commutes = -1;
    section("operators of the program");
    OK(MPI_Type_contiguous(4, MPI_INT, &matrix));
    OK(MPI_Type_commit(&matrix));
    OK(MPI_Op_create(multiply_int, 0, &op));
    OK(MPI_Op_create_c(multiply_count, 0, &op_c));
    OK(MPI_Op_commutative(op_c, &commutes));
    SAME(commutes, 0);
    OK(MPI_Op_commutative(MPI_SUM, &commutes));
    CHECK(commutes);
    for (int form = 0; form < 2; form++) {
        for (int i = 0; i < COUNT; i++) mine[i] = (struct matrix){1, check_rank + i, check_rank, 1};
        OK(MPI_Allreduce(mine, all, COUNT, matrix, form ? op_c : op, MPI_COMM_WORLD));
        for (int i = 0; i < COUNT; i++) {
            struct matrix right = {1, i, 0, 1};
            for (int rank = 1; rank < check_size; rank++) {
                struct matrix next = {1, rank + i, rank, 1};
                multiply(&right, &next, 1);
                right = next;
            }
            CHECK(memcmp(&all[i], &right, sizeof right) == 0);
        }
        OK(MPI_Reduce_local(mine, all, 1, matrix, form ? op_c : op));
    }
    section("an operator on elements with gaps");
    OK(MPI_Op_create(add_apart, 1, &add));
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &spread));
    OK(MPI_Type_create_resized(spread, 0, 4 * sizeof(int), &wide));
    OK(MPI_Type_commit(&wide));
    for (int i = 0; i < 4 * COUNT; i++) apart[i] = i + check_rank, sums[i] = -7;
    OK(MPI_Allreduce(apart, sums, COUNT, wide, add, MPI_COMM_WORLD));
    for (int i = 0; i < 4 * COUNT; i++)
        SAME(sums[i], i % 2 ? -7 : check_size * i + check_size * (check_size - 1) / 2);
    for (int i = 0; i < 4 * COUNT; i++) sums[i] = 1;
    OK(MPI_Reduce_local(apart, sums, COUNT, wide, add));
    for (int i = 0; i < 4 * COUNT; i++) SAME(sums[i], i % 2 ? 1 : 1 + i + check_rank);
    STRICT_CLASS(MPI_Reduce_local(apart, sums, 1, wide, MPI_SUM), MPI_ERR_OP);
    STRICT_CLASS(MPI_Reduce_local(apart, sums, -1, MPI_INT, MPI_SUM), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Reduce_local(apart, sums, 1, MPI_INT, MPI_OP_NULL), MPI_ERR_OP);
    OK(MPI_Type_free(&spread));
    OK(MPI_Type_free(&wide));
    OK(MPI_Type_free(&matrix));
    OK(MPI_Op_free(&op));
    CHECK(op == MPI_OP_NULL);
    OK(MPI_Op_free(&op_c));
    OK(MPI_Op_free(&add));
    op = MPI_SUM;
    STRICT_CLASS(MPI_Op_free(&op), MPI_ERR_OP);
}

/* What a Fortran program has asked for by precision and range is combined as the datatype is that it got. */
static void parameterized(void) {
    MPI_Datatype integer, real, complex_, copy;
    long long number = check_rank + 1, product = 0;
    double value = check_rank + 0.5, least = -1;
    double complex turned = 1 + check_rank * I, sum = 0;
    section("datatypes by precision and range");
    OK(MPI_Type_create_f90_integer(15, &integer));
    OK(MPI_Type_create_f90_real(14, 200, &real));
    OK(MPI_Type_create_f90_complex(14, 200, &complex_));
    OK(MPI_Allreduce(&number, &product, 1, integer, MPI_PROD, MPI_COMM_WORLD));
    SAME(product, check_size == 3 ? 6 : check_size);
    OK(MPI_Allreduce(&value, &least, 1, real, MPI_MIN, MPI_COMM_WORLD));
    CHECK(least == 0.5);
    OK(MPI_Allreduce(&turned, &sum, 1, complex_, MPI_SUM, MPI_COMM_WORLD));
    CHECK(creal(sum) == check_size && cimag(sum) == check_size * (check_size - 1) / 2);
    OK(MPI_Reduce_local(&number, &product, 1, integer, MPI_BXOR));
    SAME(product, (check_size == 3 ? 6 : check_size) ^ (check_rank + 1));
    STRICT_CLASS(MPI_Reduce_local(&value, &least, 1, real, MPI_BAND), MPI_ERR_OP);
    STRICT_CLASS(MPI_Reduce_local(&turned, &sum, 1, complex_, MPI_MAX), MPI_ERR_OP);
    OK(MPI_Type_dup(real, &copy));
    STRICT_CLASS(MPI_Reduce_local(&value, &least, 1, copy, MPI_MIN), MPI_ERR_OP);
    OK(MPI_Type_free(&copy));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    list();
    list_operators();
    if (argc > 1 && strcmp(argv[1], "table") == 0) {
        table();
        return check_close();
    }
    legality();
    numbers();
    own();
    parameterized();
    return check_close();
}
