// ranks: 4 8 12
// launch: --ft
// not libfabric: what a provider tells of a dead process differs from one to the next
// Members die in the middle of collective operations and messages of all lengths, and who is left goes on: nobody waits for
// ever, who succeeds has everybody's part (rule D2), nothing is written outside of what was given (D3), and all agree on how a
// step has ended.
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "dice.h"

#include <mpix_ft.h>
#include <time.h>

enum { TAG = 7, COUNT_MAX = 1 << 17, STEPS_BEFORE_DEATH_MAX = 12, GUARD = 16, UNTOUCHED = -77 };

/* Each step has the first of these, and whatever becomes of it leaves alone what is behind. */
static int numbers[COUNT_MAX + GUARD], result[COUNT_MAX + GUARD], gathered[64 + GUARD];

static void guard(int count) {
    for (int at = 0; at < GUARD; at++) numbers[count + at] = result[count + at] = UNTOUCHED;
}

static void check_guard(int count) {
    for (int at = 0; at < GUARD; at++) {
        SAME(numbers[count + at], UNTOUCHED);
        SAME(result[count + at], UNTOUCHED);
    }
}

/* How many more are alive after this one in its communicator; the numbers of the processes, in their ranks' order. */
static int world_ranks[64], size, rank;

static void name_members(MPI_Comm comm) {
    MPI_Group all, members;
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Comm_group(comm, &members));
    for (int at = 0; at < size; at++) OK(MPI_Group_translate_ranks(members, 1, &at, all, &world_ranks[at]));
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&members));
}

static const char *const names[] = {"allreduce", "bcast", "allgather", "barrier", "ring", "dup"};

/* One of several operations; the first error. What has succeeded is right. */
static int step(MPI_Comm comm, int kind, int count, int step_number) {
    int code, sum = 0, root = step_number % size;
    MPI_Request requests[2];
    for (int at = 0; at < size; at++) sum += world_ranks[at] + step_number;
    for (int at = 0; at < count; at++) numbers[at] = check_rank + step_number;
    guard(count);
    for (int at = 0; at < GUARD; at++) gathered[size + at] = UNTOUCHED;
    switch (kind) {
        case 0:
            code = MPI_Allreduce(numbers, result, count, MPI_INT, MPI_SUM, comm);
            if (code == MPI_SUCCESS) SAME(result[0] + (long long)result[count - 1], 2LL * sum);
            break;
        case 1:
            code = MPI_Bcast(numbers, count, MPI_INT, root, comm);
            if (code == MPI_SUCCESS) SAME(numbers[count - 1], world_ranks[root] + step_number);
            break;
        case 2:
            code = MPI_Allgather(numbers, 1, MPI_INT, gathered, 1, MPI_INT, comm);
            for (int at = 0; code == MPI_SUCCESS && at < size; at++) SAME(gathered[at], world_ranks[at] + step_number);
            break;
        case 3: code = MPI_Barrier(comm); break;
        case 4:
            code = MPI_Irecv(result, count, MPI_INT, (rank + size - 1) % size, TAG, comm, &requests[0]);
            if (code == MPI_SUCCESS) {
                code = MPI_Isend(numbers, count, MPI_INT, (rank + 1) % size, TAG, comm, &requests[1]);
                if (code != MPI_SUCCESS) requests[1] = MPI_REQUEST_NULL;
                if (draw(2)) linger(200);
                /* A neighbour may have given up: whoever sees an error frees the others. */
                int ended = 0;
                while (!ended && code == MPI_SUCCESS) {
                    code = MPI_Testall(2, requests, &ended, MPI_STATUSES_IGNORE);
                    if (code != MPI_SUCCESS) break;
                }
                if (code != MPI_SUCCESS) {
                    MPIX_Comm_revoke(comm);
                    (void)MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
                }
                if (code == MPI_SUCCESS) SAME(result[count - 1], world_ranks[(rank + size - 1) % size] + step_number);
            }
            break;
        default: {
            MPI_Comm copy = MPI_COMM_NULL;
            code = MPI_Comm_dup(comm, &copy);
            if (code == MPI_SUCCESS) code = MPI_Barrier(copy);
            if (copy != MPI_COMM_NULL) OK(MPI_Comm_free(&copy));
        }
    }
    check_guard(count);
    for (int at = 0; at < GUARD; at++) SAME(gathered[size + at], UNTOUCHED);
    return code;
}

int main(int argc, char **argv) {
    MPI_Comm comm, smaller;
    int number = 0, left, seed = 0, steps = 0;
    check_open(argc, argv);
    if (check_rank == 0) seed = (int)(getpid() * 2654435761u >> 4);
    OK(MPI_Bcast(&seed, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (check_rank == 0) fprintf(stderr, "seed %d\n", seed);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    name_members(comm);
    dice = (unsigned)(seed + 77 * check_rank);
    /* Two stay to the end. */
    left = check_rank < 2 ? -1 : (int)draw(STEPS_BEFORE_DEATH_MAX * (unsigned)check_size);
    while (size > 2 || steps < 20) {
        unsigned common = (unsigned)(seed + number * 7919);
        int kind = (int)(common % 6u), count = 1 << (common / 7u % 18u), good, code;
        section(names[kind]);
        steps++;
        if (left-- == 0) {
            /* A moment from now, wherever it is then. */
            if (fork() == 0) {
                linger(1500);
                kill(getppid(), SIGKILL);
                _exit(0);
            }
        }
        good = step(comm, kind, count, number) == MPI_SUCCESS;
        number++;
        section("was it good everywhere");
        code = MPIX_Comm_agree(comm, &good);
        if (good && code == MPI_SUCCESS) continue;
        section("shrinking");
        OK(MPIX_Comm_revoke(comm));
        OK(MPIX_Comm_shrink(comm, &smaller));
        OK(MPI_Comm_free(&comm));
        comm = smaller;
        name_members(comm);
        if (size <= 2) steps = 0;
    }
    section("who is left");
    OK(MPI_Comm_free(&comm));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
