// ranks: 4 7
// launch: --ft=blank
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// The world recovers, and all that was made from it (rule R7), whoever waited in what (R14); messages of before it are gone or
// still there, by what was made from the world as well (R6, R12); and what was left out once is repaired the next time.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { TAG = 7, OF_BEFORE = 8, NEVER = 9, COPY = 0, HALF, FIRST_TWO, GRID, MADE };

static MPI_Comm made[MADE];
static int lives, generations[MADE], world_generation;

static void make(void) {
    int open = 1;
    MPI_Group world, two;
    int range[1][3] = {{0, 1, 1}};
    section("making");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &made[COPY]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &made[HALF]));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_range_incl(world, 1, range, &two));
    made[FIRST_TWO] = MPI_COMM_NULL;
    if (check_rank < 2) OK(MPI_Comm_create_group(MPI_COMM_WORLD, two, 1, &made[FIRST_TWO]));
    OK(MPI_Cart_create(made[COPY], 1, &check_size, &open, 0, &made[GRID]));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&two));
}

static void set_modes(int messages) {
    OK(MPIX_Comm_set_ft_mode(MPI_COMM_WORLD, MPIX_FT_MODE_BLANK, messages, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    for (int at = 0; at < MADE; at++)
        if (made[at] != MPI_COMM_NULL)
            OK(MPIX_Comm_set_ft_mode(made[at], MPIX_FT_MODE_BLANK, messages, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
}

/* Those who live do something together, by two and all, and the others are blank. */
static void works(MPI_Comm comm) {
    int size, rank, before, next, one = 1, sum = 0, got = -1, living = 0, flag = -1, all[16];
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Allgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, comm));
    for (int at = 0; at < size; at++) {
        OK(MPIX_Comm_is_blank(comm, at, &flag));
        living += !flag;
        if (!flag) CHECK(all[at] < lives);
    }
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    SAME(sum, living);
    /* Ranks follow those of the world everywhere here, so who is blank comes last. */
    next = (rank + 1) % living;
    before = (rank + living - 1) % living;
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, next, TAG, &got, 1, MPI_INT, before, TAG, comm, MPI_STATUS_IGNORE));
    SAME(got, before);
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, next, TAG, &got, 1, MPI_INT, MPI_ANY_SOURCE, TAG, comm, MPI_STATUS_IGNORE));
    SAME(got, before);
}

/* How many members of a communicator live. */
static int living_in(MPI_Comm comm) {
    int count = 0, size;
    MPI_Group group, world;
    OK(MPI_Comm_group(comm, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_size(group, &size));
    for (int at = 0, rank; at < size; at++) {
        OK(MPI_Group_translate_ranks(group, 1, &at, world, &rank));
        count += rank < lives;
    }
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    return count;
}

/* Everything works; with RESET all has begun anew, and else what has lost somebody now. */
static void all_work(int messages, const int before[MADE]) {
    int live = 0, generation = 0;
    works(MPI_COMM_WORLD);
    for (int at = 0; at < MADE; at++) {
        if (made[at] == MPI_COMM_NULL) continue;
        OK(MPIX_Comm_live_size(made[at], &live));
        SAME(live, living_in(made[at]));
        generations[at] += messages == MPIX_FT_MSG_RESET || live < before[at];
        OK(MPIX_Comm_generation(made[at], &generation));
        SAME(generation, generations[at]);
        works(made[at]);
    }
}

static void look(int before[MADE]) {
    for (int at = 0; at < MADE; at++) before[at] = made[at] == MPI_COMM_NULL ? 0 : living_in(made[at]);
}

/* The last of the living dies when all others are here. */
static void last_dies(void) {
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == lives - 1) {
        fflush(NULL);
        raise(SIGKILL);
    }
    lives--;
}

/* An operation among all of a communicator fails sooner or later. */
static int until_it_fails(MPI_Comm comm) {
    int code, class = -1;
    do code = MPI_Barrier(comm);
    while (code == MPI_SUCCESS);
    OK(MPI_Error_class(code, &class));
    return class;
}

static void recover_all(int failed) {
    MPIX_Recover_info info;
    int count = -1;
    section("R7");
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, MPIX_RECOVER_ALL, NULL, &info));
    world_generation += failed > 0;
    SAME(info.generation, world_generation);
    OK(MPI_Group_size(info.failed, &count));
    SAME(count, failed);
    OK(MPI_Group_free(&info.failed));
}

/* Who waits for somebody who has gone to recover learns of it, though nobody has failed there: one after the other. */
static void with_reset(void) {
    int before[MADE], value = 1, is_there = -1, class;
    section("R14: they wait for each other");
    set_modes(MPIX_FT_MSG_RESET);
    look(before);
    if (check_rank == 0) OK(MPI_Send(&value, 1, MPI_INT, 1, OF_BEFORE, made[FIRST_TWO]));
    last_dies();
    switch (check_rank) {
        case 0: (void)until_it_fails(MPI_COMM_WORLD); break;
        case 1: CLASS(MPI_Recv(&value, 1, MPI_INT, 0, NEVER, made[FIRST_TWO], MPI_STATUS_IGNORE), MPIX_ERR_REVOKED); break;
        default:
            class = until_it_fails(check_rank % 2 ? made[HALF] : made[GRID]);
            CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED);
    }
    recover_all(1);
    section("R12: with RESET");
    if (check_rank == 1) {
        OK(MPI_Iprobe(0, OF_BEFORE, made[FIRST_TWO], &is_there, MPI_STATUS_IGNORE));
        SAME(is_there, 0);
    }
    all_work(MPIX_FT_MSG_RESET, before);
    recover_all(0);
    look(before);
    all_work(MPIX_FT_MSG_CONT, before);
}

/* With CONT what goes between two who live goes on, in whatever was made. */
static void with_cont(void) {
    int before[MADE], got[2] = {-1, -1};
    MPI_Request wait;
    section("R12: with CONT");
    set_modes(MPIX_FT_MSG_CONT);
    /* That all have set them is known when nobody is in what was before. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    look(before);
    /* One is received afterwards in what has lost somebody; one was asked for before where nobody is lost. */
    if (check_rank == 0) OK(MPI_Send(&check_rank, 1, MPI_INT, 1, OF_BEFORE, made[COPY]));
    if (check_rank == 1) OK(MPI_Irecv(&got[1], 1, MPI_INT, 0, OF_BEFORE, made[FIRST_TWO], &wait));
    last_dies();
    (void)until_it_fails(MPI_COMM_WORLD);
    recover_all(1);
    if (check_rank == 1) OK(MPI_Recv(&got[0], 1, MPI_INT, 0, OF_BEFORE, made[COPY], MPI_STATUS_IGNORE));
    if (check_rank == 0) OK(MPI_Send(&check_rank, 1, MPI_INT, 1, OF_BEFORE, made[FIRST_TWO]));
    if (check_rank == 1) OK(MPI_Wait(&wait, MPI_STATUS_IGNORE));
    if (check_rank == 1) SAME(got[0] + got[1], 0);
    all_work(MPIX_FT_MSG_CONT, before);
}

/* What one recovery leaves out, a later one finds, though nothing has happened since. */
static void left_out(void) {
    int before[MADE];
    section("R7: left out");
    look(before);
    last_dies();
    (void)until_it_fails(MPI_COMM_WORLD);
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, 0, NULL, NULL));
    world_generation++;
    works(MPI_COMM_WORLD);
    CLASS(MPI_Barrier(made[COPY]), MPIX_ERR_PROC_FAILED);
    recover_all(0);
    all_work(MPIX_FT_MSG_CONT, before);
}

static void refused(void) {
    section("R5: what cannot be");
    CLASS(MPIX_Comm_recover(MPI_COMM_WORLD, 4, NULL, NULL), MPI_ERR_ARG);
    CLASS(MPIX_Comm_recover(made[COPY], MPIX_RECOVER_ALL, NULL, NULL), MPI_ERR_COMM);
    CLASS(MPIX_Comm_recover(MPI_COMM_WORLD, check_rank == 1 ? MPIX_RECOVER_ALL : 0, NULL, NULL), MPI_ERR_ARG);
    OK(MPIX_Comm_set_ft_mode(MPI_COMM_WORLD, MPIX_FT_MODE_SHRINK, 0, 0, 0));
    CLASS(MPIX_Comm_recover(MPI_COMM_WORLD, MPIX_RECOVER_ALL, NULL, NULL), MPI_ERR_ARG);
    set_modes(MPIX_FT_MSG_RESET);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    lives = check_size;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    make();
    refused();
    recover_all(0);
    with_reset();
    with_cont();
    if (check_size > 4) with_reset();
    set_modes(MPIX_FT_MSG_CONT);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    left_out();
    for (int at = 0; at < MADE; at++)
        if (made[at] != MPI_COMM_NULL) OK(MPI_Comm_free(&made[at]));
    return check_close();
}
