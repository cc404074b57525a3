// ranks: 1 2 3
// Buffered sends: they return whether or not a receive is posted, out of memory that the program
// lends. (MPI 5.0, sections 3.4 and 3.6)
#include "check.h"

enum { MESSAGES = 10, BYTES = 5000 };

static void send_before_receive(int next, int previous) {
    static unsigned char out[BYTES], in[BYTES];
    section("bsend before the receive");
    for (int i = 0; i < MESSAGES; i++) {
        fill(out, BYTES, (unsigned)(check_rank + i));
        OK(MPI_Bsend(out, BYTES, MPI_BYTE, next, i, MPI_COMM_WORLD));
        memset(out, 0, BYTES); /* the buffer is ours again at once */
    }
    for (int i = MESSAGES - 1; i >= 0; i--) {
        OK(MPI_Recv(in, BYTES, MPI_BYTE, previous, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        VERIFY(in, BYTES, (unsigned)(previous + i));
    }
}

static void nonblocking(int next, int previous) {
    static unsigned char out[BYTES], in[BYTES];
    MPI_Request request;
    section("ibsend");
    fill(out, BYTES, (unsigned)check_rank);
    OK(MPI_Ibsend(out, BYTES, MPI_BYTE, next, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Recv(in, BYTES, MPI_BYTE, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    VERIFY(in, BYTES, (unsigned)previous);
}

static void too_small(int next) {
    static unsigned char out[BYTES];
    section("a buffer too small");
    CLASS(MPI_Bsend(out, BYTES, MPI_BYTE, next, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
}

int main(int argc, char **argv) {
    void *memory, *detached = NULL;
    int bytes = MESSAGES * (BYTES + MPI_BSEND_OVERHEAD), bytes_detached = -1;
    check_open(argc, argv);
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    memory = malloc((size_t)bytes);
    OK(MPI_Buffer_attach(memory, bytes));
    send_before_receive(next, previous);
    section("detach");
    OK(MPI_Buffer_detach(&detached, &bytes_detached)); /* waits until all of it has been sent */
    OK(MPI_Buffer_attach(memory, bytes));
    nonblocking(next, previous);
    OK(MPI_Buffer_detach(&detached, &bytes_detached));
    CHECK(detached == memory);
    SAME(bytes_detached, bytes);
    OK(MPI_Buffer_attach(memory, 100 + MPI_BSEND_OVERHEAD));
    too_small(next);
    OK(MPI_Buffer_detach(&detached, &bytes_detached));
    free(memory);
    return check_close();
}
