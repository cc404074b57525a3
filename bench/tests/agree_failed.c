// ranks: 1 3 4 8
// launch: --ft
// not libfabric: what a provider tells of a dead process differs from one to the next
// Agreeing on who has failed: the same group, in the same order, at all who live; with nobody dead, with one dead that one member alone
// need know of, with members that die meanwhile, in a revoked communicator, with blank ranks, and between two groups.
#define _XOPEN_SOURCE 700
#include "check.h"

#include <mpix_ft.h>
#include <sys/time.h>

enum { ROUNDS = 20, SOON_US = 3000 };

static int size_of(MPI_Group group) {
    int size = -1;
    OK(MPI_Group_size(group, &size));
    return size;
}

/* The ranks in the world of a group's members, as bits. */
static int mask_of(MPI_Group group) {
    MPI_Group world;
    int mask = 0;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int at = 0, last = -1; at < size_of(group); at++) {
        int rank = -1;
        OK(MPI_Group_translate_ranks(group, 1, &at, world, &rank));
        CHECK(rank > last);
        last = rank;
        mask |= 1 << rank;
    }
    OK(MPI_Group_free(&world));
    return mask;
}

/* What was agreed on, which is freed: as bits, which are the same at all. */
static int alike(MPI_Comm comm, MPI_Group *failed) {
    int mask = mask_of(*failed), same = mask, opposite = ~mask;
    if (size_of(*failed) == 0) {
        SAME(*failed == MPI_GROUP_EMPTY, 1);
    } else {
        OK(MPI_Group_free(failed));
    }
    /* Others may have failed since: that is another error, and the bits are agreed on all the same. */
    (void)MPIX_Comm_agree(comm, &same);
    (void)MPIX_Comm_agree(comm, &opposite);
    SAME(same, mask);
    SAME(opposite, ~mask);
    return mask;
}

static int agreed(MPI_Comm comm, int waits) {
    MPI_Group failed = MPI_GROUP_NULL;
    if (waits) {
        MPI_Request request;
        OK(MPIX_Comm_iagree_failed(comm, &failed, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        OK(MPIX_Comm_agree_failed(comm, &failed));
    }
    return alike(comm, &failed);
}

static int known(MPI_Comm comm) {
    MPI_Group failed, world;
    int mask = 0;
    OK(MPIX_Comm_get_failed(comm, &failed));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int at = 0; at < size_of(failed); at++) {
        int rank = -1;
        OK(MPI_Group_translate_ranks(failed, 1, &at, world, &rank));
        mask |= 1 << rank;
    }
    if (failed != MPI_GROUP_EMPTY) OK(MPI_Group_free(&failed));
    OK(MPI_Group_free(&world));
    return mask;
}

static void die(int signal_number) {
    (void)signal_number;
    raise(SIGKILL);
}

static void without_failures(void) {
    MPI_Group failed, other;
    MPI_Request requests[3];
    MPI_Comm comm;
    int flag = 5;
    section("nobody has failed");
    SAME(agreed(MPI_COMM_WORLD, 0), 0);
    SAME(agreed(MPI_COMM_WORLD, 1), 0);
    SAME(agreed(MPI_COMM_SELF, 0), 0);
    section("beside other agreements, and other operations");
    OK(MPIX_Comm_iagree_failed(MPI_COMM_WORLD, &failed, &requests[0]));
    OK(MPIX_Comm_iagree(MPI_COMM_WORLD, &flag, &requests[1]));
    /* The last to begin is rank 0, so that it cannot be over yet at the others. */
    if (check_rank != 0) {
        OK(MPIX_Comm_iagree_failed(MPI_COMM_WORLD, &other, &requests[2]));
        CLASS(MPI_Request_free(&requests[2]), MPI_ERR_REQUEST);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) OK(MPIX_Comm_iagree_failed(MPI_COMM_WORLD, &other, &requests[2]));
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    CHECK(failed == MPI_GROUP_EMPTY && other == MPI_GROUP_EMPTY);
    SAME(flag, 5);
    section("in a revoked communicator");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPIX_Comm_revoke(comm));
    SAME(agreed(comm, 0), 0);
    SAME(agreed(comm, 1), 0);
    OK(MPI_Comm_free(&comm));
    section("nowhere to write");
    CLASS(MPIX_Comm_agree_failed(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    CLASS(MPIX_Comm_iagree_failed(MPI_COMM_WORLD, NULL, &requests[0]), MPI_ERR_ARG);
    CLASS(MPIX_Comm_iagree_failed(MPI_COMM_WORLD, &failed, NULL), MPI_ERR_ARG);
    CLASS(MPIX_Comm_agree_failed(MPI_COMM_NULL, &failed), MPI_ERR_COMM);
    SAME(agreed(MPI_COMM_WORLD, 0), 0);
}

/* The last rank dies at some moment of what the others do; they have no other word of it. */
static void one_dies_meanwhile(int waits) {
    int last = 1 << (check_size - 1), mask;
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    /* Nobody dies before all have it. */
    SAME(agreed(comm, 0), 0);
    section("a member dies while all agree again and again");
    if (check_rank == check_size - 1) {
        struct itimerval soon = {{0, 0}, {0, 1 + (check_size * 977 + waits * 1999) % SOON_US}};
        signal(SIGALRM, die);
        OK(setitimer(ITIMER_REAL, &soon, NULL));
    }
    do {
        mask = agreed(comm, waits);
        CHECK(mask == 0 || mask == last);
    } while (mask == 0);
    section("who was agreed on is known, and not acknowledged");
    SAME(known(comm), last);
    int flag = 1;
    CLASS(MPIX_Comm_agree(comm, &flag), MPIX_ERR_PROC_FAILED);
    section("it stays so");
    for (int round = 0; round < ROUNDS; round++) SAME(agreed(comm, round % 2), last);
    OK(MPI_Comm_free(&comm));
}

/* Those whom all take for alive make a communicator of themselves. */
static void others_make_their_own(MPI_Comm from, int *lives) {
    MPI_Group failed, all, rest;
    MPI_Comm made;
    int one = 1, sum = 0;
    section("the others make a communicator of themselves");
    OK(MPIX_Comm_agree_failed(from, &failed));
    OK(MPI_Comm_group(from, &all));
    OK(MPI_Group_difference(all, failed, &rest));
    OK(MPI_Comm_create_group(from, rest, 4, &made));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made));
    SAME(sum, size_of(rest));
    *lives = sum;
    OK(MPI_Comm_free(&made));
    OK(MPI_Group_free(&failed));
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&rest));
}

/* The last one that lives fails, in a communicator that has blank ranks already. */
static void with_blank_ranks(int lives) {
    MPI_Comm comm;
    MPI_Group world, rest;
    int dead = (1 << (check_size - 1)), range[1][3] = {{0, lives - 1, 1}}, mask;
    section("blank ranks are among them");
    OK(MPIX_Comm_set_ft_mode(MPI_COMM_WORLD, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, 0, NULL, NULL));
    SAME(agreed(MPI_COMM_WORLD, 0), dead);
    SAME(agreed(MPI_COMM_WORLD, 1), dead);
    section("beside blank ranks one dies");
    if (lives > 2) {
        if (check_rank == lives - 1) raise(SIGKILL);
        do {
            mask = agreed(MPI_COMM_WORLD, lives % 2);
        } while (mask == dead);
        SAME(mask, dead | 1 << (lives - 1));
        lives--;
        range[0][1] = lives - 1;
    }
    section("a group of the living alone has nobody who failed");
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_range_incl(world, 1, range, &rest));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, rest, 5, &comm));
    SAME(agreed(comm, 0), 0);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&rest));
    OK(MPI_Group_free(&world));
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, 0, NULL, NULL));
}

/* Of two groups both are told of both. */
static void between_two_groups(void) {
    MPI_Comm half, inter;
    int high = check_rank % 2, victim = check_size - 2, mask;
    section("two groups");
    OK(MPI_Comm_split(MPI_COMM_WORLD, high, 0, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !high, 6, &inter));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    /* Nobody dies before all have it. */
    SAME(agreed(inter, 0), 0);
    if (check_rank == victim) raise(SIGKILL);
    section("one of two groups loses a member");
    do {
        mask = agreed(inter, high);
    } while (mask == 0);
    SAME(mask, 1 << victim);
    SAME(known(inter), 1 << victim);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, 0, NULL, NULL));
}

int main(int argc, char **argv) {
    int lives;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    without_failures();
    if (check_size == 1) return check_close();
    if (check_size == 4) {
        OK(MPIX_Comm_set_ft_mode(MPI_COMM_WORLD, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
        between_two_groups();
        return check_close();
    }
    one_dies_meanwhile(check_size == 8);
    others_make_their_own(MPI_COMM_WORLD, &lives);
    SAME(lives, check_size - 1);
    with_blank_ranks(lives);
    return check_close();
}
