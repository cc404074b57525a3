// ranks: 2 3
// launch: -x WEFT_CHECK=1
// With WEFT_CHECK=1 a message whose elements are others than those of its receive is an error of the receive, in every
// way to send and to receive; layouts may differ as they like. (MPI 5.0, section 3.3)
#define _GNU_SOURCE 1
#include "check.h"

#include <stddef.h>
#include <sys/mman.h>

enum { COUNT = 12, LARGE = 100000 };

static int next, previous;

struct record {
    int number;
    double value;
};

static MPI_Datatype records(int gap) {
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {offsetof(struct record, number), offsetof(struct record, value) + 16 * gap};
    MPI_Datatype kinds[2] = {MPI_INT, MPI_DOUBLE}, made, resized;
    OK(MPI_Type_create_struct(2, lengths, places, kinds, &made));
    OK(MPI_Type_create_resized(made, 0, (MPI_Aint)sizeof(struct record) + 16 * gap, &resized));
    OK(MPI_Type_commit(&resized));
    OK(MPI_Type_free(&made));
    return resized;
}

static void alike(void) {
    int out[COUNT], in[COUNT * 3];
    MPI_Datatype sparse;
    MPI_Status status;
    int count = -1;
    section("other layouts of the same elements");
    for (int i = 0; i < COUNT; i++) out[i] = check_rank * 100 + i;
    OK(MPI_Type_vector(COUNT, 1, 3, MPI_INT, &sparse));
    OK(MPI_Type_commit(&sparse));
    OK(MPI_Sendrecv(out, COUNT, MPI_INT, next, 1, in, 1, sparse, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < COUNT; i++) SAME(in[3 * i], previous * 100 + i);
    OK(MPI_Type_free(&sparse));
    section("fewer elements than there is room for");
    OK(MPI_Sendrecv(out, 5, MPI_INT, next, 1, in, COUNT, MPI_INT, previous, 1, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    SAME(count, 5);
    section("structures with other gaps, large and small");
    for (int length = 3; length <= LARGE; length = length == 3 ? LARGE : LARGE + 1) {
        MPI_Datatype here = records(0), there = records(1);
        struct record *from = calloc((size_t)length, sizeof *from);
        char *to = calloc((size_t)length, sizeof *from + 16);
        for (int i = 0; i < length; i++) from[i].number = i, from[i].value = i / 2.0;
        OK(MPI_Sendrecv(from, length, here, next, 2, to, length, there, previous, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < length; i++) SAME(*(int *)(void *)(to + (size_t)i * (sizeof *from + 16)), i);
        free(from);
        free(to);
        OK(MPI_Type_free(&here));
        OK(MPI_Type_free(&there));
    }
    section("packed messages are what they are unpacked as");
    char packed[200];
    int position = 0;
    OK(MPI_Pack(out, COUNT, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD));
    OK(MPI_Sendrecv(packed, position, MPI_PACKED, next, 3, in, COUNT, MPI_INT, previous, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(in[4], previous * 100 + 4);
    OK(MPI_Sendrecv(out, COUNT, MPI_INT, next, 3, packed, sizeof packed, MPI_PACKED, previous, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* Ints go to a receive of floats, by all ways there are. */
static void other_kinds(int count) {
    int *out = calloc((size_t)count, sizeof *out);
    float *in = calloc((size_t)count, sizeof *in);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Message message;
    section("recv");
    OK(MPI_Isend(out, count, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[0]));
    CLASS(MPI_Recv(in, count, MPI_FLOAT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    section("recv in a communicator of the program's own");
    MPI_Comm copy;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Isend(out, count, MPI_INT, next, 1, copy, &requests[0]));
    CLASS(MPI_Recv(in, count, MPI_FLOAT, previous, 1, copy, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&copy));
    section("irecv, posted first");
    OK(MPI_Irecv(in, count, MPI_FLOAT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Issend(out, count, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[1]));
    CLASS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    CLASS(statuses[0].MPI_ERROR, MPI_ERR_TYPE);
    CLASS(statuses[1].MPI_ERROR, MPI_SUCCESS);
    SAME(statuses[0].MPI_SOURCE, previous);
    section("mrecv");
    OK(MPI_Isend(out, count, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Mprobe(previous, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    CLASS(MPI_Mrecv(in, count, MPI_FLOAT, &message, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    section("sendrecv and isendrecv");
    CLASS(MPI_Sendrecv(out, count, MPI_INT, next, 4, in, count, MPI_FLOAT, previous, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    OK(MPI_Isendrecv(out, count, MPI_INT, next, 4, in, count, MPI_FLOAT, previous, 4, MPI_COMM_WORLD, &requests[0]));
    CLASS(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    section("persistent");
    OK(MPI_Send_init(out, count, MPI_INT, next, 5, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Recv_init(in, count, MPI_FLOAT, previous, 5, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Startall(2, requests));
    CLASS(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    section("buffered");
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    OK(MPI_Bsend(out, count, MPI_INT, next, 6, MPI_COMM_WORLD));
    CLASS(MPI_Recv(in, count, MPI_FLOAT, previous, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    void *detached;
    int size;
    OK(MPI_Buffer_detach(&detached, &size));
    free(out);
    free(in);
}

/* The order counts, and so does where a message ends. */
static void other_orders(void) {
    struct record out[4] = {{1, 1.5}, {2, 2.5}, {3, 3.5}, {4, 4.5}}, in[4];
    MPI_Datatype here = records(0), turned;
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {offsetof(struct record, value), offsetof(struct record, number)};
    MPI_Datatype kinds[2] = {MPI_DOUBLE, MPI_INT};
    section("the same elements in another order");
    OK(MPI_Type_create_struct(2, lengths, places, kinds, &turned));
    OK(MPI_Type_commit(&turned));
    memset(in, 0xee, sizeof in);
    CLASS(MPI_Sendrecv(out, 4, here, next, 1, in, 4, turned, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    UNTOUCHED(in, sizeof in, 0xee);
    section("half of a number");
    CLASS(MPI_Sendrecv(out, 3, MPI_INT, next, 1, in, 4, MPI_DOUBLE, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    CLASS(MPI_Sendrecv(out, 4, MPI_INT, next, 1, in, 16, MPI_BYTE, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    section("truncation is told as that");
    CLASS(MPI_Sendrecv(out, 4, MPI_INT, next, 1, in, 2, MPI_FLOAT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    section("and all goes on");
    OK(MPI_Sendrecv(out, 4, here, next, 1, in, 4, here, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(in[3].number, 4);
    OK(MPI_Type_free(&here));
    OK(MPI_Type_free(&turned));
}

/* A layout that reaches beyond the memory that there is: of MPI_Alloc_mem's, and up to a page that nobody may touch. */
static void beyond(void) {
    long page = sysconf(_SC_PAGESIZE);
    int *allocated, ints = (int)(page / (long)sizeof(int));
    char *pages = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MPI_Datatype every_third;
    MPI_Request request = MPI_REQUEST_NULL;
    int flag = 1;
    section("beyond the memory that there is");
    OK(MPI_Type_vector(10, 1, 3, MPI_INT, &every_third));
    OK(MPI_Type_commit(&every_third));
    OK(MPI_Alloc_mem(30 * sizeof(int), MPI_INFO_NULL, &allocated));
    memset(allocated, 0, 30 * sizeof(int));
    CLASS(MPI_Send(allocated, 2, every_third, next, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CLASS(MPI_Send(allocated + 3, 1, every_third, next, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CLASS(MPI_Irecv(allocated, 31, MPI_INT, previous, 1, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER);
    CLASS(MPI_Recv_init(allocated + 10, 21, MPI_INT, previous, 1, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER);
    CHECK(pages != MAP_FAILED && mprotect(pages + page, (size_t)page, PROT_NONE) == 0);
    CLASS(MPI_Recv(pages + page - 27 * (long)sizeof(int), 1, every_third, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
    CLASS(MPI_Isend(pages, ints + 1, MPI_INT, next, 1, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER);
    CHECK(request == MPI_REQUEST_NULL);
    CHECK(mprotect(pages, (size_t)page, PROT_READ) == 0);
    CLASS(MPI_Recv(pages, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
    section("gaps alone may lie there");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(mprotect(pages, (size_t)page, PROT_READ | PROT_WRITE) == 0);
    memset(pages, 1, (size_t)page);
    OK(MPI_Sendrecv(pages + page - 28 * (long)sizeof(int), 1, every_third, next, 1, allocated + 2, 1, every_third, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(allocated[29], 0x01010101);
    SAME(allocated[28], 0);
    OK(MPI_Type_free(&every_third));
    OK(MPI_Free_mem(allocated));
    munmap(pages, 2 * (size_t)page);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    next = (check_rank + 1) % check_size;
    previous = (check_rank + check_size - 1) % check_size;
    alike();
    if (!check_library_is("MPICH")) {
        other_kinds(COUNT);
        other_kinds(LARGE);
        other_orders();
        beyond();
    }
    return check_close();
}
