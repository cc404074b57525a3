// ranks: 4 7
// launch: --ft
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// Inter-communicators that lose a member of each group, or a whole group: agreeing and shrinking over both groups, blank ranks in
// collective operations (rule C15), what is made from two groups with blank ranks (K10), and recovery (R3, R7, R13).
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { TAG = 7, RANKS_MAX = 8, UNTOUCHED = -77, NOBODY_READS = -5 };

static int half, side, first, here, locals, remotes; /* this group begins at `first`; the other one at `there` */
static int there;
static MPI_Comm group = MPI_COMM_NULL, inter, other, lonely = MPI_COMM_NULL, forsaken = MPI_COMM_NULL;
static MPI_Request planned;
static int planned_gets[RANKS_MAX];

static int is_victim(int rank) { return rank == 1 || rank == check_size - 1; }

static int living(int from, int count) {
    int number = 0;
    for (int rank = from; rank < from + count; rank++) number += !is_victim(rank);
    return number;
}

static void make(void) {
    section("making");
    half = check_size / 2;
    side = check_rank >= half;
    first = side ? half : 0;
    there = side ? 0 : half;
    here = check_rank - first;
    locals = side ? check_size - half : half;
    remotes = check_size - locals;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &group));
    OK(MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, there, TAG, &inter));
    OK(MPI_Comm_dup(inter, &other));
    OK(MPI_Allgather_init(&check_rank, 1, MPI_INT, planned_gets, 1, MPI_INT, inter, MPI_INFO_NULL, &planned));
    if (check_rank < 2) {
        OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - check_rank, TAG, &lonely));
        OK(MPI_Comm_dup(lonely, &forsaken));
        OK(MPI_Comm_set_errhandler(lonely, MPI_ERRORS_RETURN));
        OK(MPI_Comm_set_errhandler(forsaken, MPI_ERRORS_RETURN));
    }
}

static void until_it_fails(MPI_Comm comm) {
    int code;
    do code = MPI_Barrier(comm);
    while (code == MPI_SUCCESS);
    CLASS(code, MPIX_ERR_PROC_FAILED);
}

static void set_mode(MPI_Comm comm, int mode, int messages) {
    OK(MPIX_Comm_set_ft_mode(comm, mode, messages, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
}

/* An inter-communicator of those who live, in their order. */
static void is_of_the_living(MPI_Comm comm) {
    int flag, size, remote, rank, next, got = -1, all[RANKS_MAX], at = 0;
    OK(MPI_Comm_test_inter(comm, &flag));
    SAME(flag, 1);
    OK(MPI_Comm_size(comm, &size));
    SAME(size, living(first, locals));
    OK(MPI_Comm_remote_size(comm, &remote));
    SAME(remote, living(there, remotes));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Barrier(comm));
    OK(MPI_Allgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, comm));
    for (next = there; next < there + remotes; next++)
        if (!is_victim(next)) SAME(all[at++], next);
    if (rank == 0) {
        OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, 0, TAG, &got, 1, MPI_INT, MPI_ANY_SOURCE, TAG, comm, MPI_STATUS_IGNORE));
        SAME(got, all[0]);
    }
}

static void shrinking(void) {
    MPI_Comm smaller;
    MPI_Request request;
    int known = 0, flag = side ? 3 : 6;
    section("agreeing over both groups");
    until_it_fails(inter);
    while (known < 2) {
        MPI_Group failed;
        OK(MPIX_Comm_get_failed(inter, &failed));
        OK(MPI_Group_size(failed, &known));
        OK(MPI_Group_free(&failed));
    }
    OK(MPIX_Comm_ack_failed(inter, 2, &known));
    SAME(known, 2);
    OK(MPIX_Comm_agree(inter, &flag));
    SAME(flag, 2);
    section("shrinking both groups");
    OK(MPIX_Comm_shrink(inter, &smaller));
    if (check_size > 4) is_of_the_living(smaller);
    else OK(MPI_Barrier(smaller));
    OK(MPI_Comm_free(&smaller));
    OK(MPIX_Comm_ishrink(inter, &smaller, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(smaller));
    OK(MPI_Comm_free(&smaller));
}

/* Ranks, sizes and blank places are those of the beginning. */
static void has_blanks(MPI_Comm comm) {
    int number, flag;
    MPI_Group blank;
    OK(MPI_Comm_rank(comm, &number));
    SAME(number, here);
    OK(MPI_Comm_size(comm, &number));
    SAME(number, locals);
    OK(MPI_Comm_remote_size(comm, &number));
    SAME(number, remotes);
    OK(MPIX_Comm_live_size(comm, &number));
    SAME(number, check_size - 2);
    OK(MPIX_Comm_blank_group(comm, &blank));
    OK(MPI_Group_size(blank, &number));
    SAME(number, 2);
    OK(MPI_Group_free(&blank));
    for (int rank = 0; rank < remotes; rank++) {
        OK(MPIX_Comm_is_blank(comm, rank, &flag));
        SAME(flag, is_victim(there + rank));
    }
    CLASS(MPIX_Comm_is_blank(comm, remotes, &flag), MPI_ERR_RANK);
}

static void recovered(void) {
    MPIX_Recover_info info;
    int number = -1;
    section("R3: blank ranks in both groups");
    set_mode(inter, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET);
    OK(MPIX_Comm_recover(inter, 0, NULL, &info));
    SAME(info.generation, 1);
    OK(MPI_Group_size(info.failed, &number));
    SAME(number, 2);
    OK(MPI_Group_free(&info.failed));
    has_blanks(inter);
}

/* Messages go by the ranks of the beginning; those with blank ranks are over at once. */
static void messages(MPI_Comm comm) {
    MPI_Request requests[2 * RANKS_MAX];
    MPI_Status status;
    int got[RANKS_MAX], count = 0;
    section("messages over two groups with blank ranks");
    for (int rank = 0; rank < remotes; rank++) {
        got[rank] = UNTOUCHED;
        OK(MPI_Irecv(&got[rank], 1, MPI_INT, rank, TAG, comm, &requests[count++]));
        OK(MPI_Isend(&check_rank, 1, MPI_INT, rank, TAG, comm, &requests[count++]));
    }
    OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    for (int rank = 0; rank < remotes; rank++) SAME(got[rank], is_victim(there + rank) ? UNTOUCHED : there + rank);
    for (int rank = 0; rank < remotes; rank++)
        if (is_victim(there + rank)) {
            OK(MPI_Recv(got, 1, MPI_INT, rank, TAG, comm, &status));
            SAME(status.MPI_SOURCE, MPI_PROC_NULL);
        }
}

static void expect_all(const int *all, int factor) {
    for (int rank = 0; rank < remotes; rank++) SAME(all[rank], is_victim(there + rank) ? UNTOUCHED : (there + rank) * factor);
}

static void leave(int *all) {
    for (int at = 0; at < RANKS_MAX; at++) all[at] = UNTOUCHED;
}

static int sum_of_living(int from, int count) {
    int sum = 0;
    for (int rank = from; rank < from + count; rank++) sum += is_victim(rank) ? 0 : rank;
    return sum;
}

static void c15_rooted(MPI_Comm comm, int root_side, int root) {
    int ours = root_side == side, blank = is_victim((root_side ? half : 0) + root);
    int named = !ours ? root : root == here ? MPI_ROOT : MPI_PROC_NULL, wanted = blank && !ours ? MPI_ERR_ROOT : MPI_SUCCESS;
    int counts[RANKS_MAX], places[RANKS_MAX], all[RANKS_MAX], got = UNTOUCHED, value = check_rank;
    int by = (root_side ? half : 0) + root, is_root = named == MPI_ROOT;
    for (int rank = 0; rank < remotes; rank++) {
        counts[rank] = is_victim(there + rank) ? NOBODY_READS : 1;
        places[rank] = is_victim(there + rank) ? NOBODY_READS : rank;
    }
    CLASS(MPI_Bcast(&value, 1, MPI_INT, named, comm), wanted);
    SAME(value, ours || blank ? check_rank : by);
    leave(all);
    CLASS(MPI_Gather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, named, comm), wanted);
    if (is_root) expect_all(all, 1);
    leave(all);
    CLASS(MPI_Gatherv(&check_rank, 1, MPI_INT, all, counts, places, MPI_INT, named, comm), wanted);
    if (is_root) expect_all(all, 1);
    for (int rank = 0; rank < remotes; rank++) all[rank] = 100 * check_rank + rank;
    CLASS(MPI_Scatter(all, 1, MPI_INT, &got, 1, MPI_INT, named, comm), wanted);
    SAME(got, ours || blank ? UNTOUCHED : 100 * by + here);
    got = UNTOUCHED;
    CLASS(MPI_Scatterv(all, counts, places, MPI_INT, &got, 1, MPI_INT, named, comm), wanted);
    SAME(got, ours || blank ? UNTOUCHED : 100 * by + here);
    got = UNTOUCHED;
    CLASS(MPI_Reduce(&check_rank, &got, 1, MPI_INT, MPI_SUM, named, comm), wanted);
    SAME(got, is_root ? sum_of_living(there, remotes) : UNTOUCHED);
}

static void c15_of_all(MPI_Comm comm) {
    int all[RANKS_MAX], gives[RANKS_MAX], counts[RANKS_MAX], places[RANKS_MAX], got = UNTOUCHED, total = locals * remotes;
    int vector[RANKS_MAX * RANKS_MAX], parts[RANKS_MAX], each[RANKS_MAX];
    MPI_Request request;
    for (int rank = 0; rank < remotes; rank++) {
        counts[rank] = is_victim(there + rank) ? NOBODY_READS : 1;
        places[rank] = is_victim(there + rank) ? NOBODY_READS : rank;
        gives[rank] = check_rank * (there + rank + 1);
    }
    OK(MPI_Barrier(comm));
    leave(all);
    OK(MPI_Allgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, comm));
    expect_all(all, 1);
    leave(all);
    OK(MPI_Allgatherv(&check_rank, 1, MPI_INT, all, counts, places, MPI_INT, comm));
    expect_all(all, 1);
    leave(all);
    OK(MPI_Iallgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect_all(all, 1);
    leave(all);
    OK(MPI_Alltoall(gives, 1, MPI_INT, all, 1, MPI_INT, comm));
    expect_all(all, check_rank + 1);
    leave(all);
    OK(MPI_Alltoallv(gives, counts, places, MPI_INT, all, counts, places, MPI_INT, comm));
    expect_all(all, check_rank + 1);
    OK(MPI_Allreduce(&check_rank, &got, 1, MPI_INT, MPI_SUM, comm));
    SAME(got, sum_of_living(there, remotes));
    /* Each rank of a group has as many elements of the result as the other group has ranks; a blank one, too. */
    for (int at = 0; at < total; at++) vector[at] = at + 1;
    for (int rank = 0; rank < locals; rank++) each[rank] = remotes;
    leave(parts);
    OK(MPI_Reduce_scatter(vector, parts, each, MPI_INT, MPI_SUM, comm));
    for (int at = 0; at < remotes; at++) SAME(parts[at], living(there, remotes) * (here * remotes + at + 1));
    SAME(parts[remotes], UNTOUCHED);
    leave(parts);
    OK(MPI_Reduce_scatter_block(vector, parts, remotes, MPI_INT, MPI_SUM, comm));
    for (int at = 0; at < remotes; at++) SAME(parts[at], living(there, remotes) * (here * remotes + at + 1));
}

static void c15_operations(MPI_Comm comm) {
    section("C15: operations over two groups with blank ranks");
    for (int of = 0; of < 2; of++)
        for (int root = 0; root < (of ? check_size - half : half); root++) c15_rooted(comm, of, root);
    c15_of_all(comm);
}

static void works(MPI_Comm comm) {
    has_blanks(comm);
    messages(comm);
    c15_operations(comm);
}

static void c14_planned(void) {
    section("C14: planned before");
    for (int round = 0; round < 2; round++) {
        leave(planned_gets);
        OK(MPI_Start(&planned));
        OK(MPI_Wait(&planned, MPI_STATUS_IGNORE));
        expect_all(planned_gets, 1);
    }
    OK(MPI_Request_free(&planned));
}

static void k10_made(void) {
    MPI_Comm made, part;
    MPI_Request request;
    MPI_Group local;
    int size, got;
    section("K10: copies");
    OK(MPI_Comm_dup(inter, &made));
    works(made);
    OK(MPI_Comm_free(&made));
    OK(MPI_Comm_idup(inter, &made, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    works(made);
    OK(MPI_Comm_free(&made));
    section("K10: created");
    OK(MPI_Comm_group(inter, &local));
    OK(MPI_Comm_create(inter, local, &made));
    works(made);
    OK(MPI_Comm_free(&made));
    OK(MPI_Group_free(&local));
    section("K10: split");
    OK(MPI_Comm_split(inter, 0, 0, &made));
    OK(MPI_Comm_size(made, &size));
    SAME(size, living(first, locals));
    OK(MPI_Barrier(made));
    OK(MPI_Comm_free(&made));
    section("K10: merged");
    OK(MPI_Intercomm_merge(inter, side, &made));
    OK(MPI_Comm_size(made, &size));
    SAME(size, check_size);
    OK(MPI_Comm_rank(made, &size));
    SAME(size, check_rank);
    OK(MPIX_Comm_live_size(made, &size));
    SAME(size, check_size - 2);
    OK(MPI_Allreduce(&check_rank, &got, 1, MPI_INT, MPI_SUM, made));
    SAME(got, sum_of_living(0, check_size));
    OK(MPI_Comm_free(&made));
    section("K10: connected");
    OK(MPI_Comm_dup(inter, &part));
    set_mode(group, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET);
    OK(MPIX_Comm_recover(group, 0, NULL, NULL));
    OK(MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, there, TAG, &made));
    works(made);
    OK(MPI_Comm_free(&made));
    OK(MPI_Comm_free(&part));
}

/* Nobody is in what was before, so that who revokes something now ends nothing of it. */
static void all_are_here(void) {
    int flag = 1;
    OK(MPIX_Comm_agree(inter, &flag));
}

static void r13_revoked(void) {
    int flag = 0, generation;
    section("R13: a revoked one recovers");
    all_are_here();
    if (check_rank == 0) OK(MPIX_Comm_revoke(inter));
    while (!flag) OK(MPIX_Comm_is_revoked(inter, &flag));
    CLASS(MPI_Barrier(inter), MPIX_ERR_REVOKED);
    OK(MPIX_Comm_recover(inter, 0, NULL, NULL));
    OK(MPIX_Comm_generation(inter, &generation));
    SAME(generation, 2);
    works(inter);
}

/* Nobody of the other group lives. */
static void c15_forsaken(void) {
    int value = 1, size;
    MPI_Comm smaller;
    section("C15: a group that is gone");
    if (check_rank != 0) return;
    set_mode(lonely, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET);
    OK(MPIX_Comm_recover(lonely, 0, NULL, NULL));
    CLASS(MPI_Barrier(lonely), MPIX_ERR_PROC_FAILED);
    CLASS(MPI_Bcast(&value, 1, MPI_INT, MPI_ROOT, lonely), MPIX_ERR_PROC_FAILED);
    CLASS(MPI_Bcast(&value, 1, MPI_INT, 0, lonely), MPI_ERR_ROOT);
    CLASS(MPI_Allreduce(&value, &size, 1, MPI_INT, MPI_SUM, lonely), MPIX_ERR_PROC_FAILED);
    OK(MPI_Send(&value, 1, MPI_INT, 0, TAG, lonely));
    OK(MPIX_Comm_shrink(forsaken, &smaller));
    OK(MPI_Comm_remote_size(smaller, &size));
    SAME(size, 0);
    CLASS(MPI_Barrier(smaller), MPIX_ERR_PROC_FAILED);
    OK(MPI_Intercomm_merge(smaller, 0, &forsaken));
    OK(MPI_Comm_size(forsaken, &size));
    SAME(size, 1);
}

/* The copy of the beginning has lost its members, too, and goes on with the world. */
static void r7_with_the_world(void) {
    section("R7: with the world");
    all_are_here();
    set_mode(MPI_COMM_WORLD, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET);
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, MPIX_RECOVER_ALL, NULL, NULL));
    works(other);
    works(inter);
}

static void r3_in_place(void) {
    MPI_Comm copy;
    section("R3: shrinking in place");
    OK(MPI_Comm_dup(other, &copy));
    set_mode(copy, MPIX_FT_MODE_SHRINK, MPIX_FT_MSG_RESET);
    if (check_rank == 0) OK(MPIX_Comm_revoke(copy));
    for (int flag = 0; !flag;) OK(MPIX_Comm_is_revoked(copy, &flag));
    OK(MPIX_Comm_recover(copy, MPIX_RECOVER_IN_PLACE, NULL, NULL));
    if (check_size > 4) is_of_the_living(copy);
    else OK(MPI_Barrier(copy));
    OK(MPI_Comm_free(&copy));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    make();
    if (is_victim(check_rank)) {
        (void)MPI_Barrier(MPI_COMM_WORLD);
        fflush(NULL);
        raise(SIGKILL);
    }
    (void)MPI_Barrier(MPI_COMM_WORLD);
    shrinking();
    recovered();
    works(inter);
    c14_planned();
    k10_made();
    r13_revoked();
    c15_forsaken();
    r7_with_the_world();
    r3_in_place();
    return check_close();
}
