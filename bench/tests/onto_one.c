// ranks: 64
// launch: -x WEFT_UNEXPECTED_BYTES=16777216
// not libfabric: it measures memory, of which a provider takes megabytes when it is opened
// bare: it measures memory, of which a sanitizer takes some for itself
// 63 ranks send to one that receives nothing for a while: a mebibyte each, in a row and with gaps, and four in small messages. Its
// memory stays under the budget for messages without a receive (16 MiB), what it takes to know of a message, and what is under
// way when it says so: a ring, and the mebibyte that a sender sends between two looks. Sockets hold all four mebibytes. Nobody
// waits for ever, and all is right when it comes. (MPI 5.0, section 3.5)
#define CHECK_WATCHDOG_SECONDS 180
#include "check.h"
#include "own_memory.h"

enum { MIB = 1 << 20, SMALL = 4096, TAG = 7, GO = 8, BUDGET_KIB = 16 << 10, RING_KIB = 1536, SOCKET_KIB = 4400, KNOWN_BYTES = 200, BLOCK = 256, BATCH = 4 * MIB / SMALL };

static unsigned char text[4 * MIB], room[2 * MIB];

/* Rank 0 waits for something else until everybody has begun to send, with all that comes meanwhile. */
static void measure(long before, long messages) {
    MPI_Request *requests = malloc((size_t)check_size * sizeof *requests);
    const char *fabric = getenv("WEFT_FABRIC");
    long held = fabric != NULL && strcmp(fabric, "tcp") == 0 ? SOCKET_KIB : RING_KIB;
    long after, limit = BUDGET_KIB + check_size * held + messages * KNOWN_BYTES / 1024;
    for (int from = 1; from < check_size; from++) OK(MPI_Irecv(NULL, 0, MPI_BYTE, from, GO, MPI_COMM_WORLD, &requests[from]));
    OK(MPI_Waitall(check_size - 1, requests + 1, MPI_STATUSES_IGNORE));
    after = own_kib(1);
    printf("%s: %ld KiB more, and may be %ld KiB\n", check_section, after - before, limit);
    if (!check_library_is("MPICH")) CHECK(after - before < limit);
    free(requests);
}

static void one_message(const char *name, MPI_Datatype type, int count, size_t stride) {
    section(name);
    memset(room, 0, sizeof room);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank > 0) {
        MPI_Request request;
        for (size_t at = 0; at < MIB; at += BLOCK) fill(text + at / BLOCK * stride, BLOCK, (unsigned)(check_rank + (int)(at / BLOCK)));
        OK(MPI_Isend(text, count, type, 0, TAG, MPI_COMM_WORLD, &request));
        OK(MPI_Send(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        return;
    }
    measure(own_kib(1), check_size);
    char *seen = calloc((size_t)check_size, 1);
    for (int i = 1; i < check_size; i++) {
        MPI_Status status;
        OK(MPI_Recv(room, count, type, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status));
        SAME(seen[status.MPI_SOURCE]++, 0);
        for (size_t at = 0; at < MIB; at += BLOCK)
            VERIFY(room + at / BLOCK * stride, BLOCK, (unsigned)(status.MPI_SOURCE + (int)(at / BLOCK)));
    }
    free(seen);
}

static void small_messages(void) {
    static MPI_Request requests[BATCH];
    int *next = calloc((size_t)check_size, sizeof *next);
    section("small messages");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank > 0) {
        for (int i = 0; i < BATCH; i++) {
            fill(text + i * SMALL, SMALL, (unsigned)(check_rank * 31 + i));
            OK(MPI_Isend(text + i * SMALL, SMALL, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Send(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD));
        OK(MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE));
    } else {
        measure(own_kib(1), (long)check_size * BATCH);
        for (int i = 0; i < (check_size - 1) * BATCH; i++) {
            MPI_Status status;
            if (i % BATCH == 0) section("small messages, received");
            OK(MPI_Recv(room, SMALL, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status));
            VERIFY(room, SMALL, (unsigned)(status.MPI_SOURCE * 31 + next[status.MPI_SOURCE]++));
        }
        for (int from = 1; from < check_size; from++) SAME(next[from], BATCH);
    }
    free(next);
}

int main(int argc, char **argv) {
    MPI_Datatype gaps;
    check_open(argc, argv);
    memset(text, 1, sizeof text);
    OK(MPI_Type_vector(MIB / BLOCK, BLOCK, 2 * BLOCK, MPI_BYTE, &gaps));
    OK(MPI_Type_commit(&gaps));
    one_message("a mebibyte each", MPI_BYTE, MIB, BLOCK);
    one_message("a mebibyte each, with gaps", gaps, 1, 2 * BLOCK);
    small_messages();
    OK(MPI_Type_free(&gaps));
    return check_close();
}
