// ranks: 4 7
// launch: --ft=shrink
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// Communicators that shrink and keep their handles (rules R3, R4, R5, K12), and the world with all that was made from it (R7, R14):
// who lives has another rank there, and what was begun before ends or is gone (R6).
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { TAG = 7, OF_BEFORE = 8, NEVER = 9, RANKS_MAX = 8, WORLD = 0, COPY, HALF, PAIR, GRID, LISTS };

/* Who is in what, by the ranks of the beginning. */
struct list {
    MPI_Comm comm;
    int members[RANKS_MAX], count, generation;
};
static struct list lists[LISTS];
static MPI_Comm blanked;
static int key;

static void name(struct list *list, MPI_Comm comm) {
    OK(MPI_Comm_size(comm, &list->count));
    OK(MPI_Allgather(&check_rank, 1, MPI_INT, list->members, 1, MPI_INT, comm));
    list->comm = comm;
}

static void take_out(int rank) {
    for (int at = 0; at < LISTS; at++) {
        struct list *list = &lists[at];
        int left = 0;
        for (int member = 0; member < list->count; member++)
            if (list->members[member] != rank) list->members[left++] = list->members[member];
        list->count = left;
    }
}

/* It has the members that it should have, in their order, and they do something together. */
static void works(const struct list *list) {
    MPI_Comm comm = list->comm, part;
    int size, rank, got = -1, generation, all[RANKS_MAX], one = 1, sum = 0;
    if (comm == MPI_COMM_NULL) return;
    OK(MPI_Comm_size(comm, &size));
    SAME(size, list->count);
    OK(MPI_Comm_rank(comm, &rank));
    SAME(list->members[rank], check_rank);
    OK(MPI_Allgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, comm));
    for (int at = 0; at < size; at++) SAME(all[at], list->members[at]);
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, (rank + 1) % size, TAG, &got, 1, MPI_INT, MPI_ANY_SOURCE, TAG, comm, MPI_STATUS_IGNORE));
    SAME(got, list->members[(rank + size - 1) % size]);
    OK(MPIX_Comm_generation(comm, &generation));
    SAME(generation, list->generation);
    OK(MPIX_Comm_live_size(comm, &got));
    SAME(got, size);
    OK(MPI_Comm_split(comm, 0, -rank, &part));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, part));
    SAME(sum, size);
    OK(MPI_Comm_free(&part));
}

static void make(void) {
    int open = 1, ends[2] = {0, 2};
    MPI_Group world, two;
    MPI_Comm comm;
    section("making");
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    name(&lists[WORLD], MPI_COMM_WORLD);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_attr(comm, key, &lists[COPY]));
    OK(MPI_Comm_set_name(comm, "the copy"));
    name(&lists[COPY], comm);
    OK(MPI_Comm_split(lists[COPY].comm, check_rank % 2, 0, &comm));
    name(&lists[HALF], comm);
    OK(MPI_Cart_create(lists[COPY].comm, 1, &check_size, &open, 0, &comm));
    name(&lists[GRID], comm);
    OK(MPI_Comm_dup(lists[COPY].comm, &blanked));
    OK(MPIX_Comm_set_ft_mode(blanked, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    lists[PAIR].comm = MPI_COMM_NULL;
    OK(MPI_Comm_group(lists[COPY].comm, &world));
    OK(MPI_Group_incl(world, 2, ends, &two));
    if (check_rank == 0 || check_rank == 2) {
        OK(MPI_Comm_create_group(lists[COPY].comm, two, 1, &comm));
        OK(MPI_Cart_create(comm, 1, (int[]){2}, &open, 0, &lists[PAIR].comm));
        OK(MPI_Comm_free(&comm));
        name(&lists[PAIR], lists[PAIR].comm);
    }
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&two));
}

/* An operation among all of a communicator fails sooner or later. */
static void until_it_fails(MPI_Comm comm) {
    int code, class = -1;
    do code = MPI_Barrier(comm);
    while (code == MPI_SUCCESS);
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED);
}

/* Nobody is in what was before any more. */
static void dies(int rank) {
    (void)MPI_Barrier(lists[COPY].comm);
    if (check_rank == rank) {
        fflush(NULL);
        raise(SIGKILL);
    }
    take_out(rank);
}

static void tells(MPI_Comm comm, const MPIX_Recover_info *info, int generation, int failed) {
    MPIX_Recover_info last;
    int count = -1, flag = -1;
    SAME(info->generation, generation);
    SAME(info->mode, MPIX_FT_MODE_SHRINK);
    OK(MPI_Group_size(info->failed, &count));
    SAME(count, failed);
    OK(MPIX_Comm_last_recovery(comm, &flag, &last));
    SAME(flag, generation > 0);
    if (flag) {
        SAME(last.generation, generation);
        OK(MPI_Group_free(&last.failed));
    }
}

static void set_mode(MPI_Comm comm, int messages) {
    OK(MPIX_Comm_set_ft_mode(comm, MPIX_FT_MODE_SHRINK, messages, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
}

static void r4_r5_nothing_changes(void) {
    MPI_Comm comm = lists[COPY].comm, new = MPI_COMM_NULL;
    MPIX_Recover_info info;
    section("R4, R5: nothing changes");
    OK(MPIX_Comm_recover(comm, MPIX_RECOVER_IN_PLACE, NULL, NULL));
    OK(MPIX_Comm_recover(comm, MPIX_RECOVER_IN_PLACE, &new, &info));
    CHECK(new == comm);
    tells(comm, &info, 0, 0);
    OK(MPI_Group_free(&info.failed));
    CLASS(MPIX_Comm_recover(comm, check_rank == 1 ? MPIX_RECOVER_IN_PLACE : 0, &new, NULL), MPI_ERR_ARG);
    CLASS(MPIX_Comm_recover(comm, 4, &new, NULL), MPI_ERR_ARG);
    set_mode(comm, MPIX_FT_MSG_CONT);
    CLASS(MPIX_Comm_recover(comm, MPIX_RECOVER_IN_PLACE, &new, NULL), MPI_ERR_ARG);
    set_mode(comm, MPIX_FT_MSG_RESET);
    works(&lists[COPY]);
}

/* The handler of the world is fatal meanwhile: nothing is told there. */
static void r3_one_shrinks(void) {
    MPI_Comm comm = lists[COPY].comm, new = MPI_COMM_NULL;
    MPI_Request wait, wait_in_blanked;
    MPIX_Recover_info info;
    char name[MPI_MAX_OBJECT_NAME];
    void *value;
    int flag = -1, length, got;
    section("R3: one that has lost a member");
    if (check_rank == 0) OK(MPI_Send(&check_rank, 1, MPI_INT, 2, OF_BEFORE, comm));
    OK(MPI_Irecv(&got, 1, MPI_INT, check_rank == 0 ? 2 : 0, NEVER, comm, &wait));
    OK(MPI_Irecv(&got, 1, MPI_INT, check_rank == 0 ? 2 : 0, NEVER, blanked, &wait_in_blanked));
    dies(1);
    until_it_fails(comm);
    OK(MPIX_Comm_recover(comm, MPIX_RECOVER_IN_PLACE, &new, &info));
    CHECK(new == comm);
    lists[COPY].generation = 1;
    tells(comm, &info, 1, 1);
    OK(MPI_Group_free(&info.failed));
    until_it_fails(blanked);
    OK(MPIX_Comm_recover(blanked, 0, NULL, NULL));
    section("R6, G5: what was begun before is told to its own handler");
    CLASS(MPI_Wait(&wait_in_blanked, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    OK(MPI_Comm_free(&blanked));
    CLASS(MPI_Wait(&wait, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, OF_BEFORE, comm, &flag, MPI_STATUS_IGNORE));
    SAME(flag, 0);
    works(&lists[COPY]);
    section("K12: what hangs on it");
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK(strcmp(name, "the copy") == 0);
    OK(MPI_Comm_get_attr(comm, key, &value, &flag));
    CHECK(flag && value == &lists[COPY]);
    works(&lists[PAIR]);
}

static void r13_revoked(void) {
    MPI_Comm comm = lists[COPY].comm;
    int flag = 0;
    section("R13: revoked");
    if (check_rank == 0) OK(MPIX_Comm_revoke(comm));
    while (!flag) OK(MPIX_Comm_is_revoked(comm, &flag));
    OK(MPIX_Comm_recover(comm, MPIX_RECOVER_IN_PLACE, NULL, NULL));
    lists[COPY].generation++;
    OK(MPIX_Comm_is_revoked(comm, &flag));
    SAME(flag, 0);
    works(&lists[COPY]);
}

/* Each waits in something else for somebody who has gone to recover. */
static void r7_all_shrink(int victim, int failed) {
    MPIX_Recover_info info;
    int kind;
    section("R7, R14: the world and all that was made");
    dies(victim);
    if (check_rank == 2) CLASS(MPI_Recv(&kind, 1, MPI_INT, 0, NEVER, lists[PAIR].comm, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    else until_it_fails(check_rank % 2 ? lists[HALF].comm : lists[COPY].comm);
    CLASS(MPIX_Comm_recover(lists[COPY].comm, 4, NULL, NULL), MPI_ERR_ARG);
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, MPIX_RECOVER_ALL | MPIX_RECOVER_IN_PLACE, NULL, &info));
    for (int at = 0; at < LISTS; at++) lists[at].generation++;
    tells(MPI_COMM_WORLD, &info, lists[WORLD].generation, failed);
    OK(MPI_Group_free(&info.failed));
    for (int at = 0; at < LISTS; at++) works(&lists[at]);
    section("K7: a grid stays one where no cell is lost");
    OK(MPI_Topo_test(lists[GRID].comm, &kind));
    SAME(kind, MPI_UNDEFINED);
    if (lists[PAIR].comm != MPI_COMM_NULL) {
        int got[2] = {-1, -1}, other = check_rank == 0 ? 2 : 0;
        OK(MPI_Topo_test(lists[PAIR].comm, &kind));
        SAME(kind, MPI_CART);
        OK(MPI_Neighbor_allgather(&check_rank, 1, MPI_INT, got, 1, MPI_INT, lists[PAIR].comm));
        SAME(got[0], other);
        SAME(got[1], other);
    }
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, MPIX_RECOVER_ALL | MPIX_RECOVER_IN_PLACE, NULL, &info));
    tells(MPI_COMM_WORLD, &info, lists[WORLD].generation, 0);
    OK(MPI_Group_free(&info.failed));
    for (int at = 0; at < LISTS; at++) works(&lists[at]);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    make();
    r4_r5_nothing_changes();
    r3_one_shrinks();
    r13_revoked();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    r7_all_shrink(check_size - 1, 2);
    if (check_size > 4) r7_all_shrink(3, 1);
    /* By hand, with a handle of its own. */
    section("R3: another handle");
    {
        MPI_Comm new = MPI_COMM_NULL;
        OK(MPIX_Comm_recover(MPI_COMM_WORLD, 0, &new, NULL));
        CHECK(new != MPI_COMM_WORLD && new != MPI_COMM_NULL);
        OK(MPI_Comm_free(&new));
    }
    for (int at = COPY; at < LISTS; at++)
        if (lists[at].comm != MPI_COMM_NULL) OK(MPI_Comm_free(&lists[at].comm));
    OK(MPI_Comm_free_keyval(&key));
    return check_close();
}
