// ranks: 3 6
// exit: 9
// says: all have learned
// not libfabric: who is lost there is told by a connection, later than this test waits
// Where no launcher tells who has failed, one rank alone sees a death, and an agreement tells the others: they know whom it names, and
// can acknowledge it. So does shrinking: what they had posted for the dead ends.
//
// The launcher would end the job: so each rank is a child of what it has started, which stays when the rank dies.
#define _DEFAULT_SOURCE 1
#include "child.h"

#include <mpix_ft.h>

/* One rank dies, and rank 0 sees it. */
static void dies(int victim) {
    if (check_rank == victim) {
        OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
        raise(SIGKILL);
    }
    if (check_rank == 0) {
        OK(MPI_Recv(NULL, 0, MPI_BYTE, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CLASS(MPI_Recv(NULL, 0, MPI_BYTE, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    }
}

static void know(int expected) {
    int known = -1;
    MPI_Group failed;
    OK(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed));
    OK(MPI_Group_size(failed, &known));
    OK(MPI_Group_free(&failed));
    SAME(known, expected);
}

int main(int argc, char **argv) {
    int victim, flag = 3, living = -1;
    MPI_Comm survivors;
    MPI_Request posted;
    be_a_child();
    check_open(argc, argv);
    victim = check_size - 1;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    section("one sees it");
    dies(victim);
    section("all agree");
    if (check_rank % 2 == 0) {
        CLASS(MPIX_Comm_agree(MPI_COMM_WORLD, &flag), MPIX_ERR_PROC_FAILED);
    } else {
        MPI_Request request;
        OK(MPIX_Comm_iagree(MPI_COMM_WORLD, &flag, &request));
        CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    }
    SAME(flag, 3);
    section("all know it");
    know(1);
    section("all acknowledge it");
    OK(MPIX_Comm_failure_ack(MPI_COMM_WORLD));
    OK(MPIX_Comm_agree(MPI_COMM_WORLD, &flag));
    section("one sees the second death");
    victim--;
    if (check_rank != victim) OK(MPI_Irecv(NULL, 0, MPI_BYTE, victim, 3, MPI_COMM_WORLD, &posted));
    dies(victim);
    section("all shrink");
    if (check_rank % 2 == 0) {
        OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &survivors));
    } else {
        MPI_Request request;
        OK(MPIX_Comm_ishrink(MPI_COMM_WORLD, &survivors, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    OK(MPI_Comm_size(survivors, &living));
    SAME(living, victim);
    section("all know the second death");
    know(2);
    CLASS(MPI_Wait(&posted, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    if (check_rank != 0) {
        OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD));
        for (;;) pause();
    }
    for (int from = 1; from < victim; from++) OK(MPI_Recv(NULL, 0, MPI_BYTE, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    printf("all have learned\n");
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 9);
    return 1;
}
