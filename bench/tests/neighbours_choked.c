// ranks: 2 4 5
// launch: -x WEFT_UNEXPECTED_BYTES=1024
// An exchange between neighbours that keep more messages than they may already: no send of it is on its way before its
// receive is there, so nobody may wait for one receive before the others have begun.
#include "check.h"

enum { MESSAGES = 64, SHORT = 512, BLOCK = 1000 };

int main(int argc, char **argv) {
    static char kept[2 * MESSAGES][SHORT], mine[2 * BLOCK], got[2 * BLOCK];
    MPI_Request requests[2 * MESSAGES], begun;
    MPI_Comm ring;
    int periods[1] = {1}, around[2], count = 0;
    check_open(argc, argv);
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &check_size, periods, 0, &ring));
    OK(MPI_Cart_shift(ring, 0, 1, &around[0], &around[1]));
    section("more than the receivers may keep");
    for (int i = 0; i < MESSAGES; i++)
        for (int way = 0; way < 2; way++, count++)
            OK(MPI_Isend(kept[count], SHORT, MPI_CHAR, around[way], 7 + way, ring, &requests[count]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int way = 0; way < 2; way++) fill(mine + way * BLOCK, BLOCK, (unsigned)(2 * check_rank + way));
    section("an exchange");
    OK(MPI_Neighbor_alltoall(mine, BLOCK, MPI_CHAR, got, BLOCK, MPI_CHAR, ring));
    for (int way = 0; way < 2; way++) VERIFY(got + way * BLOCK, BLOCK, (unsigned)(2 * around[way] + 1 - way));
    section("an exchange that is begun and then waited for");
    memset(got, 0, sizeof got);
    OK(MPI_Ineighbor_alltoall(mine, BLOCK, MPI_CHAR, got, BLOCK, MPI_CHAR, ring, &begun));
    OK(MPI_Wait(&begun, MPI_STATUS_IGNORE));
    for (int way = 0; way < 2; way++) VERIFY(got + way * BLOCK, BLOCK, (unsigned)(2 * around[way] + 1 - way));
    section("the messages before it");
    for (int i = 0; i < MESSAGES; i++)
        for (int way = 0; way < 2; way++)
            OK(MPI_Recv(got, SHORT, MPI_CHAR, around[way], 8 - way, ring, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Comm_free(&ring));
    return check_close();
}
