// ranks: 4 5
// launch: --ft -x WEFT_CHECK=1
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// With WEFT_CHECK=1: what goes wrong in a communicator with blank ranks is told in its own ranks, and what a revocation has ended
// is told as revoked.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { VICTIM = 1 };

static void has(const char *text, const char *part) {
    if (!strstr(text, part)) check_failed(__FILE__, __LINE__, text);
}

int main(int argc, char **argv) {
    char text[MPI_MAX_ERROR_STRING], mine[64];
    int code, length, flag = 0, one = 1, sum = 0;
    MPIX_Recover_info info;
    MPI_Comm comm, copy;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPIX_Comm_set_ft_mode(comm, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == VICTIM) {
        fflush(NULL);
        raise(SIGKILL);
    }
    CLASS(MPI_Barrier(comm), MPIX_ERR_PROC_FAILED);
    OK(MPIX_Comm_recover(comm, 0, NULL, &info));
    OK(MPI_Group_free(&info.failed));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    SAME(sum, check_size - 1);
    section("calls in another order: who has called what");
    code = check_rank == check_size - 1 ? MPI_Barrier(comm) : MPI_Bcast(&one, 1, MPI_INT, 0, comm);
    CLASS(code, MPI_ERR_NOT_SAME);
    OK(MPI_Error_string(code, text, &length));
    snprintf(mine, sizeof mine, "rank %d:", check_rank);
    has(text, mine);
    has(text, check_size == 4 ? "at ranks 0, 2" : "at ranks 0, 2-3");
    snprintf(mine, sizeof mine, "at rank %d", check_size - 1);
    has(text, mine);
    section("a revoked communicator is told as revoked");
    OK(MPI_Comm_dup(comm, &copy));
    if (check_rank == 0) OK(MPIX_Comm_revoke(copy));
    do {
        OK(MPIX_Comm_is_revoked(copy, &flag));
    } while (!flag);
    code = MPI_Barrier(copy);
    CLASS(code, MPIX_ERR_REVOKED);
    OK(MPI_Error_string(code, text, &length));
    snprintf(mine, sizeof mine, "rank %d", check_rank);
    has(text, mine);
    section("the end");
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&comm));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
