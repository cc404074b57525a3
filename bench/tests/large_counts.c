// ranks: 1 2 3
// The forms whose counts are MPI_Count: they do what the short ones do. (MPI 5.0, section 2.5.8)
#include "check.h"

enum { LENGTH = 3000 };

static int out[LENGTH * 8], in[LENGTH * 8];
static int next, previous;

static void start(void) {
    for (int i = 0; i < LENGTH * 8; i++) out[i] = check_rank * 100000 + i;
    memset(in, 0xee, sizeof in);
}

static void expect(int from, int count) {
    for (int i = 0; i < count; i++) SAME(in[i], from * 100000 + i);
    UNTOUCHED(in + count, sizeof(int), 0xee);
}

static void messages(void) {
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Message message;
    MPI_Count count = -1;
    section("messages");
    start();
    OK(MPI_Irecv_c(in, LENGTH, MPI_INT, previous, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Send_c(out, LENGTH, MPI_INT, next, 1, MPI_COMM_WORLD));
    OK(MPI_Wait(&requests[0], &status));
    OK(MPI_Get_count_c(&status, MPI_INT, &count));
    SAME(count, LENGTH);
    OK(MPI_Get_elements_c(&status, MPI_INT, &count));
    SAME(count, LENGTH);
    expect(previous, LENGTH);
    start();
    OK(MPI_Isend_c(out, LENGTH, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Recv_c(in, LENGTH, MPI_INT, previous, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    expect(previous, LENGTH);
    start();
    OK(MPI_Issend_c(out, 10, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Mprobe(previous, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    OK(MPI_Mrecv_c(in, 10, MPI_INT, &message, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    expect(previous, 10);
    start();
    OK(MPI_Sendrecv_c(out, 7, MPI_INT, next, 4, in, LENGTH, MPI_INT, previous, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    expect(previous, 7);
    OK(MPI_Sendrecv_replace_c(out, 7, MPI_INT, next, 5, previous, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 7; i++) SAME(out[i], previous * 100000 + i);
}

static void data(void) {
    MPI_Count counts[8];
    MPI_Aint places[8];
    section("collectives of data");
    start();
    memcpy(in, out, 100 * sizeof(int));
    OK(MPI_Bcast_c(in, 100, MPI_INT, check_size - 1, MPI_COMM_WORLD));
    expect(check_size - 1, 100);
    start();
    OK(MPI_Allgather_c(out, 50, MPI_INT, in, 50, MPI_INT, MPI_COMM_WORLD));
    for (int from = 0; from < check_size; from++)
        for (int i = 0; i < 50; i++) SAME(in[from * 50 + i], from * 100000 + i);
    for (int r = 0; r < check_size; r++) counts[r] = r + 1, places[r] = 10 * r;
    start();
    OK(MPI_Allgatherv_c(out, counts[check_rank], MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD));
    for (int from = 0; from < check_size; from++)
        for (int i = 0; i <= from; i++) SAME(in[10 * from + i], from * 100000 + i);
    UNTOUCHED(in + 10 * check_size - 1, sizeof(int), 0xee);
    start();
    OK(MPI_Gatherv_c(out, counts[check_rank], MPI_INT, in, counts, places, MPI_INT, 0, MPI_COMM_WORLD));
    for (int from = 0; from < check_size && check_rank == 0; from++) SAME(in[10 * from + from], from * 100000 + from);
    start();
    OK(MPI_Alltoall_c(out, 20, MPI_INT, in, 20, MPI_INT, MPI_COMM_WORLD));
    for (int from = 0; from < check_size; from++) SAME(in[20 * from + 3], from * 100000 + 20 * check_rank + 3);
    for (int r = 0; r < check_size; r++) counts[r] = 5;
    start();
    OK(MPI_Alltoallv_c(out, counts, places, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD));
    for (int from = 0; from < check_size; from++) SAME(in[10 * from + 4], from * 100000 + 10 * check_rank + 4);
}

static void maximum(void *left, void *right, MPI_Count *length, MPI_Datatype *datatype) {
    int *a = left, *b = right;
    CHECK(*datatype == MPI_INT);
    for (MPI_Count i = 0; i < *length; i++)
        if (a[i] > b[i]) b[i] = a[i];
}

static void reductions(void) {
    MPI_Op op;
    MPI_Count counts[8];
    section("reductions");
    start();
    OK(MPI_Allreduce_c(out, in, 100, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    expect(check_size - 1, 100);
    OK(MPI_Op_create_c(maximum, 1, &op));
    start();
    OK(MPI_Reduce_c(out, in, LENGTH, MPI_INT, op, 0, MPI_COMM_WORLD));
    if (check_rank == 0) expect(check_size - 1, LENGTH);
    start();
    OK(MPI_Scan_c(out, in, 10, MPI_INT, op, MPI_COMM_WORLD));
    expect(check_rank, 10);
    for (int r = 0; r < check_size; r++) counts[r] = 4;
    start();
    OK(MPI_Reduce_scatter_c(out, in, counts, MPI_INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < 4; i++) SAME(in[i], (check_size - 1) * 100000 + 4 * check_rank + i);
    start();
    OK(MPI_Reduce_scatter_block_c(out, in, 4, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    for (int i = 0; i < 4; i++) SAME(in[i], (check_size - 1) * 100000 + 4 * check_rank + i);
    OK(MPI_Op_free(&op));
}

static void types(void) {
    MPI_Datatype lot;
    MPI_Count lower = -1, extent = -1, bytes = -1;
    int narrow = 0;
    section("types beyond 2 GiB");
    OK(MPI_Type_contiguous_c((MPI_Count)3 << 30, MPI_INT, &lot));
    OK(MPI_Type_commit(&lot));
    OK(MPI_Type_size_c(lot, &bytes));
    SAME(bytes, (long long)12 << 30);
    OK(MPI_Type_get_extent_c(lot, &lower, &extent));
    SAME(extent, (long long)12 << 30);
    OK(MPI_Type_size(lot, &narrow)); /* too large for an int */
    SAME(narrow, MPI_UNDEFINED);
    OK(MPI_Type_free(&lot));
}

static void wrong(void) {
    section("wrong counts");
    CLASS(MPI_Send_c(out, -1, MPI_INT, next, 1, MPI_COMM_WORLD), MPI_ERR_COUNT);
    CLASS(MPI_Bcast_c(out, -1, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    messages();
    data();
    reductions();
    types();
    wrong();
    return check_close();
}
