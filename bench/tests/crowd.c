// ranks: 64
// not libfabric: it measures memory, of which a provider takes megabytes when it is opened
// bare: it measures memory, of which a sanitizer takes some for itself
// All ranks send a megabyte to one, which receives nothing yet: its memory does not grow with it. Then all of it comes, and
// nobody waits for ever, in whatever order it is received. (MPI 5.0, section 3.5)
#include "check.h"
#include "own_memory.h"

enum { BYTES = 1 << 20, ROUNDS = 3, GROWTH_KIB_MAX = 16 << 10 };

static unsigned seed(int from, int round) { return (unsigned)(from * 7 + round); }

static void receive_all(unsigned char *buffer, int round) {
    MPI_Status status;
    for (int i = 1; i < check_size; i++) {
        int from = round == 0 ? MPI_ANY_SOURCE : round == 1 ? check_size - i : i;
        OK(MPI_Recv(buffer, BYTES, MPI_BYTE, from, round, MPI_COMM_WORLD, &status));
        if (from != MPI_ANY_SOURCE) SAME(status.MPI_SOURCE, from);
        VERIFY(buffer, BYTES, seed(status.MPI_SOURCE, round));
        section("receiving");
    }
}

int main(int argc, char **argv) {
    long before = 0, growth;
    unsigned char *buffer;
    MPI_Request request;
    check_open(argc, argv);
    buffer = malloc(BYTES);
    for (int round = 0; round < ROUNDS; round++) {
        section("everybody sends");
        fill(buffer, BYTES, seed(check_rank, round));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        before = own_kib(0);
        if (check_rank > 0) OK(MPI_Isend(buffer, BYTES, MPI_BYTE, 0, round, MPI_COMM_WORLD, &request));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        growth = own_kib(0) - before;
        section("receiving");
        if (check_rank > 0) {
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            printf("%d MiB are on the way: %ld KiB more than before\n", check_size - 1, growth);
            CHECK(before > 0); /* or the kernel does not tell */
            if (!check_library_is("MPICH")) CHECK(growth < GROWTH_KIB_MAX);
            receive_all(buffer, round);
        }
    }
    section("blocking sends, nobody receives in the order in which they begin");
    fill(buffer, BYTES, seed(check_rank, 1));
    if (check_rank > 0) OK(MPI_Send(buffer, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
    else receive_all(buffer, 1);
    free(buffer);
    return check_close();
}
