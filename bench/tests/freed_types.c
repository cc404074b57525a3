// ranks: 2 3
// A datatype that is freed while reductions need it: the operator gets a handle that works, until they are done, and
// nobody else does. (MPI 5.0, sections 5.1.9, 6.9.5)
#include "check.h"

enum { COUNT = 5 };

static int calls;

/* Of each element two ints, with a gap between. */
static void add(void *in, void *inout, int *length, MPI_Datatype *datatype) {
    MPI_Aint low, extent;
    int bytes, integers, addresses, datatypes, combiner, name_bytes;
    char name[MPI_MAX_OBJECT_NAME];
    OK(MPI_Type_size(*datatype, &bytes));
    OK(MPI_Type_get_extent(*datatype, &low, &extent));
    OK(MPI_Type_get_envelope(*datatype, &integers, &addresses, &datatypes, &combiner));
    OK(MPI_Type_get_name(*datatype, name, &name_bytes));
    SAME(bytes, 2 * sizeof(int));
    SAME(extent, 3 * sizeof(int));
    SAME(combiner, MPI_COMBINER_VECTOR);
    CHECK(strcmp(name, "gapped") == 0);
    for (int element = 0; element < *length; element++)
        for (int part = 0; part < 3; part += 2) ((int *)inout)[3 * element + part] += ((int *)in)[3 * element + part];
    calls++;
}

static MPI_Datatype gapped(void) {
    MPI_Datatype datatype;
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &datatype));
    OK(MPI_Type_commit(&datatype));
    OK(MPI_Type_set_name(datatype, "gapped"));
    return datatype;
}

static void set(int *values, int factor) {
    for (int at = 0; at < 3 * COUNT; at++) values[at] = factor * (at + 1);
}

static void is_sum(const int *values) {
    int ranks = check_size * (check_size + 1) / 2;
    for (int at = 0; at < 3 * COUNT; at++)
        if (at % 3 != 1) SAME(values[at], ranks * (at + 1));
}

/* Whoever is not called for a reduction finds no datatype behind the handle. */
static void is_gone(MPI_Datatype datatype) {
    int bytes;
    MPI_Datatype copy = datatype;
    STRICT_CLASS(MPI_Type_size(datatype, &bytes), MPI_ERR_TYPE);
    STRICT_CLASS(MPI_Type_free(&copy), MPI_ERR_TYPE);
}

static void begun(MPI_Op op) {
    section("begun");
    MPI_Datatype datatype = gapped(), copy = datatype, another;
    MPI_Request request;
    int mine[3 * COUNT], all[3 * COUNT], word = 1;
    set(mine, check_rank + 1);
    set(all, 0);
    /* Rank 0 combines what comes when it has freed the datatype. */
    if (check_rank > 0) OK(MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Iallreduce(mine, all, COUNT, datatype, op, MPI_COMM_WORLD, &request));
    OK(MPI_Type_free(&datatype));
    SAME(datatype, MPI_DATATYPE_NULL);
    if (!check_library_is("MPICH")) is_gone(copy);
    for (int to = 1; check_rank == 0 && to < check_size; to++) OK(MPI_Send(&word, 1, MPI_INT, to, 0, MPI_COMM_WORLD));
    /* What is made and freed meanwhile takes nothing of it. */
    another = gapped();
    OK(MPI_Type_free(&another));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    is_sum(all);
}

static void planned(MPI_Op op) {
    section("planned");
    MPI_Datatype datatype = gapped(), another;
    MPI_Request request;
    int mine[3 * COUNT], all[3 * COUNT];
    OK(MPI_Allreduce_init(mine, all, COUNT, datatype, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    OK(MPI_Type_free(&datatype));
    for (int round = 0; round < 3; round++) {
        another = gapped();
        set(mine, check_rank + 1);
        set(all, 0);
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        is_sum(all);
        OK(MPI_Type_free(&another));
    }
    OK(MPI_Request_free(&request));
}

int main(int argc, char **argv) {
    MPI_Op op;
    int called;
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_Op_create(add, 1, &op));
    begun(op);
    planned(op);
    OK(MPI_Op_free(&op));
    OK(MPI_Allreduce(&calls, &called, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(called > 0);
    return check_close();
}
