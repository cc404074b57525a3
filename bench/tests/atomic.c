// ranks: 4 7
// launch: --ft=blank
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// A member dies anywhere within a row of collective operations. With MPIX_FT_COLL_ATOMIC all who live have seen the same of them
// succeed (rule D5); without it a recovery tells how many have succeeded everywhere, and how many somewhere (rule D6).
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "dice.h"

#include <mpix_ft.h>

enum { OPERATIONS = 100000, LONG = 20000 };

static MPI_Comm comm;
static int lives;

static void set_mode(int collectives) {
    OK(MPIX_Comm_set_ft_mode(comm, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, collectives, MPIX_FT_P2P_PROC_NULL));
}

/* Operation `at` of the row: with a root that needs nobody, with one that needs all, long ones, begun ones, and one that makes
 * something. */
static int operation(int at) {
    static int from[LONG], to[LONG];
    int one = 1, sum, code;
    MPI_Request begun[2];
    MPI_Comm made;
    switch (at % 8) {
        case 0: return MPI_Bcast(&one, 1, MPI_INT, at % 3 % lives, comm);
        case 1: return MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, at % 2, comm);
        case 2: return MPI_Barrier(comm);
        case 3: return MPI_Allreduce(from, to, LONG, MPI_INT, MPI_SUM, comm);
        case 4: return MPI_Bcast(from, LONG, MPI_INT, 0, comm);
        case 5:
            code = MPI_Ibcast(&one, 1, MPI_INT, 0, comm, &begun[0]);
            if (code != MPI_SUCCESS) return code;
            code = MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &begun[1]);
            if (code != MPI_SUCCESS) (void)MPI_Wait(&begun[0], MPI_STATUS_IGNORE);
            return code != MPI_SUCCESS ? code : MPI_Waitall(2, begun, MPI_STATUSES_IGNORE);
        case 6:
            code = MPI_Comm_split(comm, 0, 0, &made);
            return code == MPI_SUCCESS ? MPI_Comm_free(&made) : code;
        default: return MPI_Scan(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    }
}

/* So many operations of the row succeed here until one does not. */
static int row(int round) {
    int at = 0;
    if (check_rank == lives - 1) (void)die_after(draw(round % 2 ? 30000 : 3000));
    while (at < OPERATIONS && operation(at) == MPI_SUCCESS) at++;
    SAME(at < OPERATIONS || check_rank == lives - 1, 1);
    while (check_rank == lives - 1) pause();
    return at;
}

static void lose_one(int round, int is_atomic) {
    MPIX_Recover_info info;
    MPI_Count before = -1, counts[2], least[2];
    int done, flag = 0, all[2], seen[2];
    section(is_atomic ? "D5" : "D6");
    /* Nobody is in what was before, in which a death now would be noticed. */
    (void)MPIX_Comm_agree(comm, &flag);
    flag = 0;
    set_mode(is_atomic ? MPIX_FT_COLL_ATOMIC : MPIX_FT_COLL_LOCAL);
    done = row(round);
    lives--;
    OK(MPIX_Comm_coll_count(comm, &before));
    OK(MPIX_Comm_recover(comm, 0, NULL, &info));
    OK(MPI_Group_free(&info.failed));
    SAME(info.generation, round + 1);
    CHECK(info.coll_min <= before && before <= info.coll_max);
    /* What all say now is what the recovery has told. */
    counts[0] = before;
    counts[1] = -before;
    OK(MPI_Allreduce(counts, least, 2, MPI_COUNT, MPI_MIN, comm));
    SAME(least[0], info.coll_min);
    SAME(-least[1], info.coll_max);
    all[0] = done;
    all[1] = -done;
    OK(MPI_Allreduce(all, seen, 2, MPI_INT, MPI_MIN, comm));
    if (is_atomic) SAME(seen[0], -seen[1]);
    if (is_atomic) SAME(info.coll_min, info.coll_max);
    OK(MPIX_Comm_last_recovery(comm, &flag, &info));
    SAME(flag, 1);
    SAME(info.generation, round + 1);
    SAME(info.coll_min, least[0]);
    OK(MPI_Group_free(&info.failed));
}

/* Rank 1 has a long block for rank 0, and the others a short one. */
static void gather_long_and_short(void) {
    enum { LONG = 5000, SHORT = 10 };
    static char block[LONG], blocks[LONG + SHORT * 64];
    int counts[64], places[64], at = 0;
    CHECK(check_size <= 64);
    for (int rank = 0; rank < check_size; rank++) {
        counts[rank] = rank == 1 ? LONG : SHORT;
        places[rank] = at;
        at += counts[rank];
    }
    OK(MPI_Gatherv(block, counts[check_rank], MPI_CHAR, blocks, counts, places, MPI_CHAR, 0, comm));
}

int main(int argc, char **argv) {
    MPIX_Recover_info none;
    MPI_Count count = -1;
    int flag = -1, mode = -1, other;
    check_open(argc, argv);
    lives = check_size;
    dice = (unsigned)getpid();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    section("D6: counting");
    OK(MPIX_Comm_last_recovery(comm, &flag, &none));
    SAME(flag, 0);
    OK(MPIX_Comm_coll_count(comm, &count));
    SAME(count, 0);
    for (int at = 0; at < 20; at++) OK(MPI_Barrier(comm));
    OK(MPIX_Comm_coll_count(comm, &count));
    SAME(count, 20);
    /* One operation is one, also where a short block goes another way than a long one. */
    gather_long_and_short();
    OK(MPIX_Comm_coll_count(comm, &count));
    SAME(count, 21);
    set_mode(MPIX_FT_COLL_ATOMIC);
    for (int at = 0; at < 20; at++) OK(operation(at));
    OK(MPIX_Comm_get_ft_mode(comm, &other, &other, &mode, &other));
    SAME(mode, MPIX_FT_COLL_ATOMIC);
    for (int round = 0; lives > 2; round++) lose_one(round, round % 2 == 0);
    OK(MPI_Comm_free(&comm));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
