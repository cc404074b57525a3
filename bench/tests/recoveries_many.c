// ranks: 3
// launch: --ft
// not libfabric: what a provider tells of a dead process differs from one to the next
// bare: it measures memory, of which a sanitizer takes some for itself
// A job recovers as often as it likes, by each mode and from nothing but revocations: what a communicator was before is given back
// when another one is in its place, so that the memory of a process does not grow with what it has survived. Two of them are
// held by their handles all the time: the world, and one that is made from it.
#include "check.h"

#include <malloc.h>
#include <mpix_ft.h>

enum { WARMUP = 400, ROUNDS = 2000, BYTES_MAX = 256 };

/* What the C library has given out, in all of its areas. */
static long in_use(void) {
    struct mallinfo2 all = mallinfo2();
    return (long)(all.uordblks + all.hblkhd);
}

/* Who is done with the round revokes the communicator for the next one, and others may be in it still. */
static void recover(MPI_Comm comm, int flags) {
    MPIX_Recover_info info;
    int one = 1, sum = 0, code;
    OK(MPIX_Comm_revoke(comm));
    OK(MPIX_Comm_recover(comm, flags, NULL, &info));
    OK(MPI_Group_free(&info.failed));
    code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (code == MPI_SUCCESS)
        SAME(sum, check_size);
    else
        CLASS(code, MPIX_ERR_REVOKED);
}

static void many(MPI_Comm comm, int mode, int messages, int flags) {
    long before = 0, grown;
    OK(MPIX_Comm_set_ft_mode(comm, mode, messages, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    for (int round = -WARMUP; round < ROUNDS; round++) {
        if (round == 0) before = in_use();
        recover(comm, flags);
    }
    grown = in_use() - before;
    printf("rank %d: mode %d, messages %d: %ld bytes for each of %d recoveries\n", check_rank, mode, messages, grown / ROUNDS, ROUNDS);
    CHECK(grown < (long)BYTES_MAX * ROUNDS);
}

int main(int argc, char **argv) {
    MPI_Comm copy;
    int here = 1;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    /* Nobody revokes it before all have it. */
    OK(MPIX_Comm_agree(MPI_COMM_WORLD, &here));
    for (int messages = MPIX_FT_MSG_RESET; messages <= MPIX_FT_MSG_CONT; messages++) {
        section("the world is made anew");
        many(MPI_COMM_WORLD, MPIX_FT_MODE_REBUILD, messages, 0);
    }
    section("shrinking in place");
    many(copy, MPIX_FT_MODE_SHRINK, MPIX_FT_MSG_RESET, MPIX_RECOVER_IN_PLACE);
    many(MPI_COMM_WORLD, MPIX_FT_MODE_SHRINK, MPIX_FT_MSG_RESET, MPIX_RECOVER_IN_PLACE);
    for (int messages = MPIX_FT_MSG_RESET; messages <= MPIX_FT_MSG_CONT; messages++) {
        section("blank places");
        many(copy, MPIX_FT_MODE_BLANK, messages, 0);
        many(MPI_COMM_WORLD, MPIX_FT_MODE_BLANK, messages, 0);
    }
    section("all at once");
    many(MPI_COMM_WORLD, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_RECOVER_ALL);
    OK(MPI_Comm_free(&copy));
    return check_close();
}
