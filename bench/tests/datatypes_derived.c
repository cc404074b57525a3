// ranks: 1 2 3
// Messages of datatypes from every constructor, against the list of places that each names: packed, unpacked, sent and
// received as something else of the same signature, short and long, by every kind of send, and in collectives.
// (MPI 5.0, sections 3.3, 5.1 and 5.2)
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "check.h"

#include <sys/mman.h>

enum { PLACES = 64, TAG = 9 };

/* A datatype of ints, and where each of its ints stands, in ints from the address of the buffer. */
struct kind {
    const char *name;
    MPI_Datatype type;
    int places, at[PLACES], extent, low, high;
};

static struct kind kinds[24];
static int kind_count;

static struct kind *note(const char *name, int extent) {
    struct kind *kind = &kinds[kind_count++];
    kind->name = name;
    kind->extent = extent;
    return kind;
}

static void place(struct kind *kind, int at) {
    kind->at[kind->places++] = at;
    if (at < kind->low) kind->low = at;
    if (at + 1 > kind->high) kind->high = at + 1;
}

static void make_plain(void) {
    struct kind *k = note("contiguous", 5);
    OK(MPI_Type_contiguous(5, MPI_INT, &k->type));
    for (int i = 0; i < 5; i++) place(k, i);
    k = note("vector", 10);
    OK(MPI_Type_vector(3, 2, 4, MPI_INT, &k->type));
    for (int i = 0; i < 6; i++) place(k, i / 2 * 4 + i % 2);
    k = note("vector_c that goes down", 10);
    OK(MPI_Type_vector_c(3, 2, -4, MPI_INT, &k->type));
    for (int i = 0; i < 6; i++) place(k, i % 2 - i / 2 * 4);
    k = note("hvector", 7);
    OK(MPI_Type_create_hvector(4, 1, 2 * sizeof(int), MPI_INT, &k->type));
    for (int i = 0; i < 4; i++) place(k, 2 * i);
    k = note("indexed", 9);
    OK(MPI_Type_indexed(3, (int[]){2, 0, 3}, (int[]){5, 100, -2}, MPI_INT, &k->type));
    for (int i = 0; i < 5; i++) place(k, i < 2 ? 5 + i : i - 4);
    k = note("indexed_c", 9);
    OK(MPI_Type_indexed_c(2, (MPI_Count[]){1, 2}, (MPI_Count[]){0, 7}, MPI_INT, &k->type));
    for (int i = 0; i < 3; i++) place(k, i < 1 ? 0 : 6 + i);
    k = note("hindexed", 6);
    OK(MPI_Type_create_hindexed(2, (int[]){1, 2}, (MPI_Aint[]){4 * sizeof(int), -1 * (int)sizeof(int)}, MPI_INT, &k->type));
    place(k, 4), place(k, -1), place(k, 0);
    k = note("indexed_block", 12);
    OK(MPI_Type_create_indexed_block(3, 2, (int[]){10, 0, 4}, MPI_INT, &k->type));
    for (int i = 0; i < 6; i++) place(k, (const int[]){10, 0, 4}[i / 2] + i % 2);
    k = note("hindexed_block", 4);
    OK(MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){3 * sizeof(int), 0}, MPI_INT, &k->type));
    place(k, 3), place(k, 0);
    k = note("subarray in the order of C", 4 * 5);
    OK(MPI_Type_create_subarray(2, (int[]){4, 5}, (int[]){2, 3}, (int[]){1, 2}, MPI_ORDER_C, MPI_INT, &k->type));
    for (int i = 0; i < 6; i++) place(k, (1 + i / 3) * 5 + 2 + i % 3);
    k = note("subarray in the order of Fortran", 4 * 5);
    OK(MPI_Type_create_subarray_c(2, (MPI_Count[]){4, 5}, (MPI_Count[]){2, 3}, (MPI_Count[]){1, 2}, MPI_ORDER_FORTRAN,
                                  MPI_INT, &k->type));
    for (int i = 0; i < 6; i++) place(k, (2 + i / 2) * 4 + 1 + i % 2);
    k = note("darray", 10);
    OK(MPI_Type_create_darray(2, 1, 1, (int[]){10}, (int[]){MPI_DISTRIBUTE_CYCLIC}, (int[]){2}, (int[]){2}, MPI_ORDER_C,
                              MPI_INT, &k->type));
    for (int i = 0; i < 4; i++) place(k, 2 + i / 2 * 4 + i % 2);
    k = note("resized to less than its data", 2);
    OK(MPI_Type_create_resized(kinds[3].type, 0, 2 * sizeof(int), &k->type));
    place(k, 0); /* of the hvector only the first int, so that elements do not overlap */
    OK(MPI_Type_free(&k->type));
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &k->type));
}

static void make_nested(void) {
    struct kind *vector = &kinds[1], *k = note("duplicate", vector->extent);
    MPI_Datatype row, two;
    OK(MPI_Type_dup(vector->type, &k->type));
    for (int i = 0; i < vector->places; i++) place(k, vector->at[i]);
    k = note("struct", 40);
    OK(MPI_Type_create_struct(3, (int[]){2, 1, 3}, (MPI_Aint[]){0, 20 * sizeof(int), 30 * sizeof(int)},
                              (MPI_Datatype[]){vector->type, MPI_INT, MPI_INT}, &two));
    OK(MPI_Type_create_resized(two, 0, 40 * sizeof(int), &k->type));
    OK(MPI_Type_free(&two));
    for (int i = 0; i < 12; i++) place(k, i / 6 * 10 + vector->at[i % 6]);
    place(k, 20);
    for (int i = 0; i < 3; i++) place(k, 30 + i);
    k = note("columns of a matrix", 2);
    OK(MPI_Type_vector(6, 1, 8, MPI_INT, &row));
    OK(MPI_Type_create_resized(row, 0, sizeof(int), &two));
    OK(MPI_Type_create_hvector_c(2, 1, sizeof(int), two, &k->type));
    OK(MPI_Type_free(&row));
    OK(MPI_Type_free(&two));
    for (int i = 0; i < 12; i++) place(k, i / 6 + i % 6 * 8);
    k->extent = 0; /* elements would overlap: sent one at a time */
    k = note("nothing", 0);
    OK(MPI_Type_vector(0, 3, 4, MPI_INT, &k->type));
}

static int *base(const struct kind *kind, int *memory) { return memory - kind->low; }
static int span(const struct kind *kind, int count) { return kind->high - kind->low + kind->extent * (count - 1); }

/* Fills the places of some elements, or holds them against what was filled; the gaps hold -7. */
static void write_out(const struct kind *kind, int count, int *memory, int seed) {
    for (int i = 0; i < span(kind, count); i++) memory[i] = -7;
    for (int n = 0; n < count; n++)
        for (int i = 0; i < kind->places; i++)
            base(kind, memory)[n * kind->extent + kind->at[i]] = seed + n * kind->places + i;
}

static void hold(const struct kind *kind, int count, const int *memory, int seed) {
    int *expected = malloc(sizeof(int) * (size_t)(span(kind, count) + 1));
    write_out(kind, count, expected, seed);
    for (int i = 0; i < span(kind, count); i++) SAME(memory[i], expected[i]);
    free(expected);
}

static void facts(const struct kind *kind) {
    int bytes, lowest = kind->places ? kind->at[0] : 0, highest = lowest - 1;
    MPI_Aint lower, extent, true_lower, true_extent;
    MPI_Count lower_x, extent_x;
    for (int i = 0; i < kind->places; i++) {
        if (kind->at[i] < lowest) lowest = kind->at[i];
        if (kind->at[i] > highest) highest = kind->at[i];
    }
    OK(MPI_Type_size(kind->type, &bytes));
    SAME(bytes, kind->places * sizeof(int));
    OK(MPI_Type_get_true_extent(kind->type, &true_lower, &true_extent));
    SAME(true_lower, lowest * (int)sizeof(int));
    SAME(true_extent, (highest + 1 - lowest) * (int)sizeof(int));
    OK(MPI_Type_get_true_extent_c(kind->type, &lower_x, &extent_x));
    SAME(extent_x, true_extent);
    OK(MPI_Type_get_extent(kind->type, &lower, &extent));
    OK(MPI_Type_get_extent_x(kind->type, &lower_x, &extent_x));
    CHECK(lower == lower_x && extent == extent_x);
    if (kind->extent > 0) SAME(extent, kind->extent * (int)sizeof(int));
}

static void packing(const struct kind *kind, int count) {
    int ints = kind->places * count, bytes, at = 0;
    int *memory = malloc(sizeof(int) * (size_t)(span(kind, count) + 1)), *packed = malloc(sizeof(int) * (size_t)(ints + 2));
    MPI_Count at_c = sizeof(int);
    OK(MPI_Pack_size(count, kind->type, MPI_COMM_WORLD, &bytes));
    SAME(bytes, ints * (int)sizeof(int));
    write_out(kind, count, memory, 5);
    OK(MPI_Pack(base(kind, memory), count, kind->type, packed, bytes + 4, &at, MPI_COMM_WORLD));
    SAME(at, bytes);
    for (int i = 0; i < ints; i++) SAME(packed[i], 5 + i);
    at = 0;
    write_out(kind, count, memory, -1000000);
    OK(MPI_Unpack(packed, bytes, &at, base(kind, memory), count, kind->type, MPI_COMM_WORLD));
    hold(kind, count, memory, 5);
    OK(MPI_Pack_c(base(kind, memory), count, kind->type, packed, bytes + 4, &at_c, MPI_COMM_WORLD));
    SAME(at_c, bytes + 4);
    for (int i = 0; i < ints; i++) SAME(packed[1 + i], 5 + i);
    free(memory);
    free(packed);
}

/* Out as one datatype, in as another with as many ints, in every way there is to send. */
static void sending(const struct kind *out, int outs, const struct kind *in, int ins, int way) {
    int *from = malloc(sizeof(int) * (size_t)(span(out, outs) + 1)), *to = malloc(sizeof(int) * (size_t)(span(in, ins) + 1));
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size, count;
    MPI_Request requests[2];
    MPI_Status status;
    write_out(out, outs, from, check_rank * 10);
    write_out(in, ins, to, -1000000);
    int *source = base(out, from), *room = base(in, to);
    if (way == 0) {
        OK(MPI_Sendrecv(source, outs, out->type, next, TAG, room, ins, in->type, previous, TAG, MPI_COMM_WORLD, &status));
    } else {
        OK(MPI_Irecv(room, ins, in->type, way == 1 ? previous : MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &requests[0]));
        if (way == 1) OK(MPI_Isend(source, outs, out->type, next, TAG, MPI_COMM_WORLD, &requests[1]));
        else OK(MPI_Issend(source, outs, out->type, next, TAG, MPI_COMM_WORLD, &requests[1]));
        OK(MPI_Wait(&requests[0], &status));
        OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    }
    OK(MPI_Get_elements(&status, in->type, &count));
    SAME(count, ins * in->places);
    hold(in, ins, to, previous * 10);
    hold(out, outs, from, check_rank * 10);
    free(from);
    free(to);
}

static struct kind plain = {"MPI_INT", MPI_DATATYPE_NULL, 1, {0}, 1, 0, 1};

static void each(void) {
    static const int counts[] = {1, 3, 40, 5000};
    for (int k = 0; k < kind_count; k++) {
        struct kind *kind = &kinds[k], *other = &kinds[(k + 3) % kind_count];
        section(kind->name);
        OK(MPI_Type_commit(&kind->type));
        OK(MPI_Type_commit(&other->type));
        facts(kind);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            int count = kind->extent == 0 ? 1 : counts[i];
            packing(kind, count);
            sending(kind, count, &plain, count * kind->places, (int)i % 3);
            sending(&plain, count * kind->places, kind, count, (int)(i + 1) % 3);
            if (kind->extent > 0 && other->extent > 0)
                sending(kind, count * other->places, other, count * kind->places, (int)(i + 2) % 3);
        }
    }
}

static void collectives(void) {
    for (int k = 0; k < kind_count; k++) {
        struct kind *kind = &kinds[k];
        enum { EACH = 30 };
        int each = kind->extent == 0 ? 1 : EACH, ints = each * kind->places;
        if (kind->extent == 0 && check_size > 1 && kind->places > 0) continue;
        if (kind->places == 0 && check_library_is("MPICH")) continue; /* 5.0.2 hangs there */
        int all = each * check_size;
        int *memory = malloc(sizeof(int) * (size_t)(span(kind, all) + 1)), *row = malloc(sizeof(int) * (size_t)(ints * check_size + 1));
        section("broadcast");
        write_out(kind, each, memory, check_rank == 0 ? 77 : -1000000);
        OK(MPI_Bcast(base(kind, memory), each, kind->type, 0, MPI_COMM_WORLD));
        hold(kind, each, memory, 77);
        section("gather and alltoall");
        for (int i = 0; i < ints; i++) row[i] = check_rank * ints + i;
        write_out(kind, all, memory, -1000000);
        OK(MPI_Gather(row, ints, MPI_INT, base(kind, memory), each, kind->type, check_size - 1, MPI_COMM_WORLD));
        if (check_rank == check_size - 1) hold(kind, all, memory, 0);
        for (int i = 0; i < ints * check_size; i++) row[i] = check_rank * ints + i % (ints ? ints : 1);
        write_out(kind, all, memory, -1000000);
        OK(MPI_Alltoall(row, ints, MPI_INT, base(kind, memory), each, kind->type, MPI_COMM_WORLD));
        hold(kind, all, memory, 0);
        free(memory);
        free(row);
    }
}

/* Absolute addresses, and ints that are sent twice. */
static void elsewhere(void) {
    int first[3] = {1, 2, 3}, second = 4, in[6], next = (check_rank + 1) % check_size;
    int previous = (check_rank + check_size - 1) % check_size;
    MPI_Aint places[2];
    MPI_Datatype both, twice;
    section("MPI_BOTTOM");
    OK(MPI_Get_address(first, &places[0]));
    OK(MPI_Get_address(&second, &places[1]));
    OK(MPI_Type_create_struct(2, (int[]){3, 1}, places, (MPI_Datatype[]){MPI_INT, MPI_INT}, &both));
    OK(MPI_Type_commit(&both));
    OK(MPI_Sendrecv(MPI_BOTTOM, 1, both, next, TAG, in, 4, MPI_INT, previous, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 4; i++) SAME(in[i], i + 1);
    OK(MPI_Sendrecv((int[]){9, 8, 7, 6}, 4, MPI_INT, next, TAG, MPI_BOTTOM, 1, both, previous, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(first[0] * 1000 + first[1] * 100 + first[2] * 10 + second, 9876);
    OK(MPI_Type_free(&both));
    section("overlapping source");
    OK(MPI_Type_vector(3, 2, 1, MPI_INT, &twice));
    OK(MPI_Type_commit(&twice));
    OK(MPI_Sendrecv((int[]){1, 2, 3, 4}, 1, twice, next, TAG, in, 6, MPI_INT, previous, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 6; i++) SAME(in[i], 1 + i / 2 + i % 2);
    OK(MPI_Type_free(&twice));
}

/* MPICH asks that it is committed for some of these. */
static void uncommitted(MPI_Datatype type) {
    MPI_Count bytes, upper, lower, extent;
    MPI_Status status;
    MPI_Datatype copy;
    OK(MPI_Type_get_extent_c(type, &lower, &extent));
    OK(MPI_Type_size_c(type, &bytes));
    OK(MPI_Pack_size_c(5, type, MPI_COMM_WORLD, &upper));
    SAME(upper, 5 * bytes);
    OK(MPI_Pack_external_size_c("external32", 5, type, &upper));
    SAME(upper, 5 * bytes);
    OK(MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 1, NULL, 0, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_SELF, &status));
    OK(MPI_Get_count_c(&status, type, &upper));
    SAME(upper, 0);
    OK(MPI_Status_set_elements_c(&status, type, 3));
    OK(MPI_Get_elements_c(&status, type, &upper));
    SAME(upper, 3);
    OK(MPI_Type_dup(type, &copy));
    OK(MPI_Type_free(&copy));
}

/* Two doubles that are more than 4 GiB apart, and counts that no int holds. */
static void far(void) {
    const size_t bytes = (size_t)5 << 30;
    const MPI_Count apart = (MPI_Count)9 << 29;
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size, short_size;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    double in[4] = {0};
    MPI_Datatype wide, many;
    MPI_Aint lower, extent;
    MPI_Count size;
    section("far apart");
    CHECK(memory != MAP_FAILED);
    OK(MPI_Type_create_hvector_c(2, 1, apart, MPI_DOUBLE, &wide));
    OK(MPI_Type_commit(&wide));
    OK(MPI_Type_get_extent(wide, &lower, &extent));
    SAME(extent, apart + 8);
    *(double *)memory = 1.5, *(double *)(memory + apart) = check_rank;
    OK(MPI_Sendrecv(memory, 1, wide, next, TAG, in, 2, MPI_DOUBLE, previous, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(in[0] == 1.5 && in[1] == previous);
    in[0] = 2.5, in[1] = 3.5;
    OK(MPI_Sendrecv(in, 2, MPI_DOUBLE, next, TAG, memory, 1, wide, previous, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(*(double *)memory == 2.5 && *(double *)(memory + apart) == 3.5);
    OK(MPI_Type_free(&wide));
    munmap(memory, bytes);
    section("many");
    OK(MPI_Type_contiguous_c((MPI_Count)3 << 31, MPI_INT, &many));
    OK(MPI_Type_size_c(many, &size));
    SAME(size, (MPI_Count)3 << 33);
    OK(MPI_Type_size_x(many, &size));
    SAME(size, (MPI_Count)3 << 33);
    OK(MPI_Type_size(many, &short_size));
    SAME(short_size, MPI_UNDEFINED);
    section("what describes and does not communicate takes a type that is not committed");
    if (!check_library_is("MPICH")) uncommitted(many);
    OK(MPI_Type_commit(&many));
    OK(MPI_Pack_size_c(5, many, MPI_COMM_WORLD, &size));
    SAME(size, (MPI_Count)15 << 33);
    OK(MPI_Pack_size(5, many, MPI_COMM_WORLD, &short_size));
    SAME(short_size, MPI_UNDEFINED);
    OK(MPI_Type_free(&many));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    plain.type = MPI_INT;
    make_plain();
    make_nested();
    each();
    collectives();
    elsewhere();
    far();
    for (int k = 0; k < kind_count; k++) OK(MPI_Type_free(&kinds[k].type));
    return check_close();
}
