// ranks: 4 6
// launch: --ft=rebuild --max-restarts=6
// says: is started again
// not libfabric: what a provider tells of a dead process differs from one to the next
// The world is rebuilt, and what survivors had made from it goes on with blank places, in which new processes have no part (rule
// R7). The new ones can ask who else is new (R10), what hangs on the world stays (K12), and all make the same communicators from
// then on, whatever they had made before (R12).
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { TAG = 5, ROUNDS = 2, PARTS = 4 };

static MPI_Comm copy = MPI_COMM_NULL, pair = MPI_COMM_NULL;
static int round_number, mark = 17, keyval = MPI_KEYVAL_INVALID;

/* Two die at once in the first round. */
static int is_victim(int round, int rank) { return rank == check_size - 1 || (round == 0 && rank == check_size - 2); }

static int sum_of(MPI_Comm comm) {
    int one = 1, sum = -1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    return sum;
}

static void who_is_new(int round) {
    MPIX_Recover_info info;
    MPI_Group world;
    int flag = 0, number = -1, count = -1, rank = -1;
    section("R10: who is new");
    OK(MPIX_Comm_last_recovery(MPI_COMM_WORLD, &flag, &info));
    SAME(flag, 1);
    SAME(info.mode, MPIX_FT_MODE_REBUILD);
    OK(MPIX_Comm_generation(MPI_COMM_WORLD, &number));
    SAME(info.generation, number);
    SAME(info.restarted, round == 0 ? 2 : 1);
    CHECK(0 <= info.coll_min && info.coll_min <= info.coll_max);
    OK(MPI_Group_size(info.failed, &count));
    SAME(count, info.restarted);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int at = 0; at < count; at++) {
        OK(MPI_Group_translate_ranks(info.failed, 1, &at, world, &rank));
        CHECK(is_victim(round, rank));
    }
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&info.failed));
}

/* All make the same, and it works. */
static void make_together(void) {
    MPI_Comm one, two, three;
    MPI_Group group;
    int got = -1, next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    section("R12: made together");
    SAME(sum_of(MPI_COMM_WORLD), check_size);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &one));
    OK(MPI_Comm_split(one, 0, -check_rank, &two));
    OK(MPI_Comm_group(one, &group));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &three));
    SAME(sum_of(one) + sum_of(two) + sum_of(three), 3 * check_size);
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, next, TAG, &got, 1, MPI_INT, before, TAG, three, MPI_STATUS_IGNORE));
    SAME(got, before);
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_free(&one));
    OK(MPI_Comm_free(&two));
    OK(MPI_Comm_free(&three));
}

/* Those who have lived on have it as before, and nobody is in the places of the dead. */
static void made_before(int lives) {
    int number = -1, got = -1, *value = NULL;
    section("R7: what was made before");
    OK(MPIX_Comm_live_size(copy, &number));
    SAME(number, lives);
    SAME(sum_of(copy), lives);
    for (int rank = 0; rank < check_size; rank++) {
        OK(MPIX_Comm_is_blank(copy, rank, &number));
        SAME(number, rank >= lives);
    }
    OK(MPI_Recv(&got, 1, MPI_INT, check_size - 1, TAG, copy, MPI_STATUS_IGNORE));
    SAME(got, -1);
    if (pair != MPI_COMM_NULL) {
        SAME(sum_of(pair), 2);
        OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, 1 - check_rank, TAG, &got, 1, MPI_INT, 1 - check_rank, TAG, pair, MPI_STATUS_IGNORE));
        SAME(got, 1 - check_rank);
    }
    section("K12: what hangs on the world");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, &value, &number));
    SAME(number, 1);
    SAME(*value, 17);
}

static void make(void) {
    MPI_Group world, two;
    int range[1][3] = {{0, 1, 1}};
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_range_incl(world, 1, range, &two));
    if (check_rank < 2) OK(MPI_Comm_create_group(MPI_COMM_WORLD, two, 1, &pair));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&two));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &mark));
}

/* Rank 0 sends to rank 1 in partitions: one that was described before the recovery with CONT, and one behind it. What comes for one
 * of them does not get to the other, though both have the same tag. */
static MPI_Request described[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
static int parts[2][PARTS];

static void describe(int which) {
    if (check_rank == 0)
        OK(MPI_Psend_init(parts[which], PARTS, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &described[which]));
    if (check_rank == 1)
        OK(MPI_Precv_init(parts[which], PARTS, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &described[which]));
}

static void in_partitions(int count) {
    if (check_rank > 1) return;
    for (int which = count - 1; which >= 0; which--) {
        for (int at = 0; at < PARTS; at++) parts[which][at] = check_rank == 0 ? 100 * which + at : -1;
        OK(MPI_Start(&described[which]));
    }
    /* They are all waited for in the other order than they are sent in. */
    if (check_rank == 1 && count > 1) OK(MPI_Send(NULL, 0, MPI_INT, 0, TAG, MPI_COMM_WORLD));
    if (check_rank == 0 && count > 1) OK(MPI_Recv(NULL, 0, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int which = 0; which < count && check_rank == 0; which++) OK(MPI_Pready_range(0, PARTS - 1, described[which]));
    OK(MPI_Waitall(count, described, MPI_STATUSES_IGNORE));
    for (int which = 0; which < count; which++)
        for (int at = 0; at < PARTS; at++) SAME(parts[which][at], 100 * which + at);
}

static void set_modes(int messages) {
    MPI_Comm all[3] = {MPI_COMM_WORLD, copy, pair};
    for (int at = 0; at < 3; at++)
        if (all[at] != MPI_COMM_NULL)
            OK(MPIX_Comm_set_ft_mode(all[at], MPIX_FT_MODE_REBUILD, messages, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
}

/* Whoever is to die does so, and the others recover until the world is as it should be: deaths may be seen one by one. */
static void lose_some(int round) {
    MPI_Group failed;
    int known = 0;
    section("dying");
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (is_victim(round, check_rank)) {
        fflush(NULL);
        raise(SIGKILL);
    }
    while (known < (round == 0 ? 2 : 1)) {
        OK(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed));
        OK(MPI_Group_size(failed, &known));
        OK(MPI_Group_free(&failed));
    }
    section("R7: recovering");
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, MPIX_RECOVER_ALL, NULL, NULL));
}

int main(int argc, char **argv) {
    int incarnation = -1, is_new;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPIX_Process_incarnation(&incarnation));
    is_new = incarnation > 0;
    if (!is_new) make();
    for (round_number = 0; round_number < ROUNDS; round_number++) {
        if (!is_new) {
            set_modes(round_number == 0 ? MPIX_FT_MSG_RESET : MPIX_FT_MSG_CONT);
            section("R6: in partitions, before");
            if (round_number == 1) describe(0);
            if (round_number == 1) in_partitions(1);
            lose_some(round_number);
        }
        section("meeting");
        OK(MPI_Bcast(&round_number, 1, MPI_INT, 0, MPI_COMM_WORLD));
        who_is_new(round_number);
        make_together();
        if (copy != MPI_COMM_NULL) made_before(check_size - 2);
        section("R6: in partitions, before a recovery with CONT and behind it");
        if (round_number == 1) describe(1);
        if (round_number == 1) in_partitions(2);
        /* From now on it takes part as all do, but for what it does not have. */
        is_new = 0;
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    for (int which = 0; which < 2 && check_rank < 2; which++) OK(MPI_Request_free(&described[which]));
    return check_close();
}
