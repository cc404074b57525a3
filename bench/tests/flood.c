// ranks: 2
// not libfabric: it measures memory, of which a provider takes megabytes when it is opened
// bare: it measures memory, of which a sanitizer takes some for itself
// A million messages for a rank that receives none of them: its memory stays under the budget for messages without a
// receive (64 MiB, and what it takes to know of a message), and later all of them come in their order.
// (MPI 5.0, section 3.5)
#include "check.h"
#include "own_memory.h"

enum { MESSAGES = 1000000, BYTES = 1024, TAG = 5, GO = 6, PIECE = 20000, BUDGET_KIB = 64 << 10, KNOWN_BYTES = 200 };

static unsigned char text[MESSAGES + BYTES];

/* Message i begins at byte i: all of them differ, and none needs memory of its own. */
static void fill_text(void) {
    unsigned long state = 88172645463325252UL;
    for (size_t i = 0; i < sizeof text; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        text[i] = (unsigned char)(state >> 24);
    }
}

static void send_all(void) {
    MPI_Request *requests = malloc(MESSAGES * sizeof *requests);
    section("a million sends");
    for (int i = 0; i < MESSAGES; i++) OK(MPI_Isend(text + i, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Send(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD));
    for (int i = 0; i < MESSAGES; i += PIECE) {
        section("their ends");
        OK(MPI_Waitall(PIECE, requests + i, MPI_STATUSES_IGNORE));
    }
    free(requests);
}

static void receive_all(void) {
    unsigned char got[BYTES];
    long before = own_kib(0), after, limit = BUDGET_KIB + (long)MESSAGES * KNOWN_BYTES / 1024;
    MPI_Status status;
    int count = -1;
    section("waiting for something else");
    OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    after = own_kib(0);
    printf("%d messages of %d bytes are waiting: %ld KiB, and may be %ld KiB\n", MESSAGES, BYTES, after - before, limit);
    CHECK(before > 0); /* or the kernel does not tell */
    if (!check_library_is("MPICH")) CHECK(after - before < limit);
    for (int i = 0; i < MESSAGES; i++) {
        if (i % PIECE == 0) section("a million receives");
        OK(MPI_Recv(got, BYTES, MPI_BYTE, i % 2 ? 0 : MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        SAME(count, BYTES);
        if (memcmp(got, text + i, BYTES) != 0) {
            printf("message %d is another one\n", i);
            CHECK(0);
        }
    }
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    fill_text();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) send_all();
    else receive_all();
    return check_close();
}
