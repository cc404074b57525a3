// ranks: 4 7
// launch: --ft=blank
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// Members die two by two, at about the same time, while all are in atomic operations of several communicators. Whoever gets an error
// recovers everything, from wherever it is: nobody waits at the end of an operation for one who has gone to do so (rules D5, R7, R14).
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "dice.h"

#include <mpix_ft.h>

enum { STEPS = 30, COPY = 0, HALF, PART, MADE };

static MPI_Comm made[MADE];

/* Each in its own order, as far as that is not another one's: halves and parts lie across each other. */
static int step(void) {
    int one = 1, sum = 0, code;
    MPI_Request begun[2];
    code = MPI_Barrier(made[HALF]);
    if (code == MPI_SUCCESS) code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made[PART]);
    if (code == MPI_SUCCESS) code = MPI_Ibarrier(made[COPY], &begun[0]);
    if (code != MPI_SUCCESS) return code;
    code = MPI_Ibcast(&one, 1, MPI_INT, 1, made[COPY], &begun[1]);
    if (code != MPI_SUCCESS) (void)MPI_Wait(&begun[0], MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS) code = MPI_Waitall(2, begun, MPI_STATUSES_IGNORE);
    if (code == MPI_SUCCESS) code = MPI_Bcast(&one, 1, MPI_INT, 0, made[COPY]);
    return code;
}

/* Steps until so many are dead and all that is left works. What is told of the end is the same at all, since the world is atomic. */
static void until_dead(int *dead, int target) {
    MPIX_Recover_info info;
    int good = 0, is_over = 0, all_over = 0, count = 0;
    while (!all_over) {
        int code = step();
        good += code == MPI_SUCCESS;
        is_over = *dead == target && good >= STEPS;
        if (code == MPI_SUCCESS) code = MPI_Allreduce(&is_over, &all_over, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (code == MPI_SUCCESS) continue;
        all_over = 0;
        OK(MPIX_Comm_recover(MPI_COMM_WORLD, MPIX_RECOVER_ALL, NULL, &info));
        OK(MPI_Group_size(info.failed, &count));
        OK(MPI_Group_free(&info.failed));
        *dead += count;
        good = 0;
    }
}

int main(int argc, char **argv) {
    int dead = 0, flag = 0;
    check_open(argc, argv);
    dice = (unsigned)getpid();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPIX_Comm_set_ft_mode(MPI_COMM_WORLD, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_ATOMIC, MPIX_FT_P2P_PROC_NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &made[COPY]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &made[HALF]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank / 3, 0, &made[PART]));
    section("D5, R7: nobody dies");
    until_dead(&dead, 0);
    for (int target = 2; check_size - target >= 2; target += 2) {
        section("D5, R7: two die");
        /* Nobody is in what was before, in which a death now would be noticed. */
        (void)MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
        if (check_rank >= check_size - target) (void)die_after(draw(20000));
        until_dead(&dead, target);
    }
    section("all is freed");
    for (int at = 0; at < MADE; at++) OK(MPI_Comm_free(&made[at]));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
