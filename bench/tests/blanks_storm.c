// ranks: 4 8 12
// launch: --ft=blank
// not libfabric: what a provider tells of a dead process differs from one to the next
// Members die in the middle of operations of communicators with blank ranks, and in the middle of recoveries: nobody waits for
// ever (D1), who succeeds has the part of everybody who is not blank (D2), and all have the same blanks (R1, R2). In every other
// run nobody sends or receives between a failure and the recovery (RESET); in the others members revoke.
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "dice.h"

#include <mpix_ft.h>
#include <time.h>

enum { TAG = 7, COUNT_MAX = 1 << 16, STEPS_BEFORE_DEATH_MAX = 12, UNTOUCHED = -77, RANKS_MAX = 16 };

static int numbers[COUNT_MAX], result[COUNT_MAX], others[RANKS_MAX];
static MPI_Comm comm;
static int live[RANKS_MAX], lives, place, strict;

/* Who lives, and where this one is among them. */
static void look(void) {
    lives = 0;
    for (int at = 0; at < check_size; at++) {
        int is_blank = -1;
        OK(MPIX_Comm_is_blank(comm, at, &is_blank));
        if (at == check_rank) {
            SAME(is_blank, 0);
            place = lives;
        }
        if (!is_blank) live[lives++] = at;
    }
}

static int is_live(int rank) {
    for (int at = 0; at < lives; at++)
        if (live[at] == rank) return 1;
    return 0;
}

static const char *const names[] = {"allreduce", "bcast", "allgather", "barrier", "ring", "dup", "gather", "scan",
    "alltoall", "iallreduce", "ring from anybody"};
enum { KINDS = sizeof names / sizeof names[0] };

static void must_be(const int *got, int add) {
    for (int at = 0; at < check_size; at++) SAME(got[at], is_live(at) ? at + add : UNTOUCHED);
}

/* One of several operations; the first error. What has succeeded is right. */
static int step(int kind, int count, int number) {
    int code = MPI_SUCCESS, sum = 0, before = 0, all[RANKS_MAX], root = live[number % lives];
    int next = live[(place + 1) % lives], previous = live[(place + lives - 1) % lives];
    MPI_Request requests[2];
    for (int at = 0; at < lives; at++) sum += live[at] + number;
    for (int at = 0; at <= place; at++) before += live[at] + number;
    for (int at = 0; at < count; at++) numbers[at] = check_rank + number;
    for (int at = 0; at < RANKS_MAX; at++) {
        all[at] = UNTOUCHED;
        others[at] = check_rank + number;
    }
    switch (kind) {
        case 0:
            code = MPI_Allreduce(numbers, result, count, MPI_INT, MPI_SUM, comm);
            if (code == MPI_SUCCESS) SAME(result[0] + (long long)result[count - 1], 2LL * sum);
            break;
        case 1:
            code = MPI_Bcast(numbers, count, MPI_INT, root, comm);
            if (code == MPI_SUCCESS) SAME(numbers[count - 1], root + number);
            break;
        case 2:
            code = MPI_Allgather(numbers, 1, MPI_INT, all, 1, MPI_INT, comm);
            if (code == MPI_SUCCESS) must_be(all, number);
            break;
        case 3: code = MPI_Barrier(comm); break;
        case 4:
        case 10: {
            int ended = 0, from = kind == 4 ? previous : MPI_ANY_SOURCE;
            code = MPI_Irecv(result, count, MPI_INT, from, TAG, comm, &requests[0]);
            if (code != MPI_SUCCESS) break;
            code = MPI_Isend(numbers, count, MPI_INT, next, TAG, comm, &requests[1]);
            if (code != MPI_SUCCESS) requests[1] = MPI_REQUEST_NULL;
            if (draw(2)) linger(200);
            while (!ended && code == MPI_SUCCESS) code = MPI_Testall(2, requests, &ended, MPI_STATUSES_IGNORE);
            if (code != MPI_SUCCESS) {
                if (!strict) OK(MPIX_Comm_revoke(comm));
                (void)MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            } else {
                SAME(result[count - 1], previous + number);
            }
            break;
        }
        case 5: {
            MPI_Comm copy = MPI_COMM_NULL;
            code = MPI_Comm_dup(comm, &copy);
            if (code == MPI_SUCCESS) code = MPI_Allgather(numbers, 1, MPI_INT, all, 1, MPI_INT, copy);
            if (code == MPI_SUCCESS) must_be(all, number);
            if (copy != MPI_COMM_NULL) OK(MPI_Comm_free(&copy));
            break;
        }
        case 6:
            code = MPI_Gather(numbers, 1, MPI_INT, all, 1, MPI_INT, root, comm);
            if (code == MPI_SUCCESS && check_rank == root) must_be(all, number);
            break;
        case 7:
            code = MPI_Scan(numbers, result, count, MPI_INT, MPI_SUM, comm);
            if (code == MPI_SUCCESS) SAME(result[count - 1], before);
            break;
        case 8:
            code = MPI_Alltoall(others, 1, MPI_INT, all, 1, MPI_INT, comm);
            if (code == MPI_SUCCESS) must_be(all, number);
            break;
        default:
            code = MPI_Iallreduce(numbers, result, count, MPI_INT, MPI_SUM, comm, &requests[0]);
            if (code == MPI_SUCCESS) code = MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            if (code == MPI_SUCCESS) SAME(result[count - 1], sum);
    }
    return code;
}

static void recover(void) {
    MPIX_Recover_info info;
    int generation = -1, failed = -1, mask = 0, all = 0;
    section("recovering");
    OK(MPIX_Comm_generation(comm, &generation));
    OK(MPIX_Comm_recover(comm, 0, NULL, &info));
    OK(MPI_Group_size(info.failed, &failed));
    OK(MPI_Group_free(&info.failed));
    CHECK(info.generation == generation + 1 || (failed == 0 && strict));
    look();
    section("all have the same blanks");
    for (int at = 0; at < lives; at++) mask |= 1 << live[at];
    all = mask;
    (void)MPIX_Comm_agree(comm, &all);
    SAME(all, mask);
}

int main(int argc, char **argv) {
    int number = 0, left, seed = 0, steps = 0, mode[4];
    check_open(argc, argv);
    if (check_rank == 0) seed = (int)((getpid() * 2654435761u) >> 4);
    OK(MPI_Bcast(&seed, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (check_rank == 0) fprintf(stderr, "seed %d\n", seed);
    strict = seed / 16 % 2 == 0;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPIX_Comm_set_ft_mode(comm, MPIX_FT_MODE_BLANK, strict ? MPIX_FT_MSG_RESET : MPIX_FT_MSG_CONT,
            MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    section("what the launcher says is the mode of the world");
    OK(MPIX_Comm_get_ft_mode(MPI_COMM_WORLD, &mode[0], &mode[1], &mode[2], &mode[3]));
    SAME(mode[0], MPIX_FT_MODE_BLANK);
    look();
    dice = (unsigned)(seed + 77 * check_rank);
    /* Two stay to the end. */
    left = check_rank < 2 ? -1 : (int)draw(STEPS_BEFORE_DEATH_MAX * (unsigned)check_size);
    while (lives > 2 || steps < 20) {
        unsigned common = (unsigned)(seed + number * 7919);
        int kind = (int)(common % KINDS), count = 1 << (common / 7u % 17u), good, code;
        section(names[kind]);
        steps++;
        if (left-- == 0 && fork() == 0) {
            /* A moment from now, wherever it is then. */
            linger(1500);
            kill(getppid(), SIGKILL);
            _exit(0);
        }
        good = step(kind, count, number) == MPI_SUCCESS;
        number++;
        section("was it good everywhere");
        code = MPIX_Comm_agree(comm, &good);
        if (good && code == MPI_SUCCESS) continue;
        if (!strict) OK(MPIX_Comm_revoke(comm));
        recover();
        if (lives <= 2) steps = 0;
    }
    section("who is left");
    OK(MPI_Comm_free(&comm));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
