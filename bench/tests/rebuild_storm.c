// ranks: 4 8
// launch: --ft=rebuild --max-restarts=40 --timeout 300
// says: is started again
// not libfabric: what a provider tells of a dead process differs from one to the next
// Ranks are killed at any moment, every 50 to 500 milliseconds, within recoveries too, and come back each time; what all have done
// together is right each time that it succeeds (D1, D2, R1, R9). At the end nothing is left over: no descriptor more than one
// recovery needs, and no memory that grows. STORM_SECONDS says how long, and then --max-restarts must allow for it; with STORM_OUTSIDE
// somebody else kills (cargo system-tests soak).
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "dice.h"

#include <dirent.h>
#include <mpix_ft.h>
#include <time.h>

enum { TAG = 7, COUNT_MAX = 1 << 15 };

static int numbers[COUNT_MAX], result[COUNT_MAX];
static int step_number, recoveries, drawn = -1, descriptors_first = -1;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return 0;
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

/* One of several operations; the first error. What has succeeded is right. */
static int step(int number) {
    int code = MPI_SUCCESS, sum = 0, kind = number % 6, count = 1 << (number * 7 % 16);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Comm copy = MPI_COMM_NULL;
    for (int at = 0; at < check_size; at++) sum += at + number;
    for (int at = 0; at < count; at++) numbers[at] = check_rank + number;
    switch (kind) {
        case 0:
            code = MPI_Allreduce(numbers, result, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (code == MPI_SUCCESS) SAME(result[count - 1], sum);
            break;
        case 1:
            code = MPI_Bcast(numbers, count, MPI_INT, number % check_size, MPI_COMM_WORLD);
            if (code == MPI_SUCCESS) SAME(numbers[count - 1], number % check_size + number);
            break;
        case 2: code = MPI_Barrier(MPI_COMM_WORLD); break;
        case 3:
            code = MPI_Sendrecv(numbers, count, MPI_INT, next, TAG, result, count, MPI_INT, before, TAG, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE);
            if (code == MPI_SUCCESS) SAME(result[count - 1], before + number);
            break;
        case 4:
            code = MPI_Allgather(numbers, 1, MPI_INT, result, 1, MPI_INT, MPI_COMM_WORLD);
            for (int at = 0; code == MPI_SUCCESS && at < check_size; at++) SAME(result[at], at + number);
            break;
        default:
            code = MPI_Comm_dup(MPI_COMM_WORLD, &copy);
            if (code == MPI_SUCCESS) code = MPI_Barrier(copy);
            if (copy != MPI_COMM_NULL) OK(MPI_Comm_free(&copy));
    }
    return code;
}

int main(int argc, char **argv) {
    const char *asked = getenv("STORM_SECONDS"), *outside = getenv("STORM_OUTSIDE");
    double seconds = asked ? atof(asked) : 3;
    /* In seconds of a clock that all share; who comes later learns it from the others. */
    int end = 0, incarnation, mode = -1;
    timer_t lot = NULL;
    check_open(argc, argv);
    dice = (unsigned)getpid() * 2654435761u;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPIX_Process_incarnation(&incarnation));
    OK(MPIX_Comm_get_ft_mode(MPI_COMM_WORLD, &mode, &(int){0}, &(int){0}, &(int){0}));
    SAME(mode, MPIX_FT_MODE_REBUILD);
    if (incarnation == 0) end = (int)(now() + seconds);
    for (;;) {
        int state[3] = {step_number, end, end && now() > end}, most[3] = {0, 0, 0}, good, over;
        MPIX_Recover_info info;
        section("where are we");
        good = MPI_Allreduce(state, most, 3, MPI_INT, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS;
        over = good && most[2];
        if (good) {
            step_number = most[0];
            end = most[1];
        }
        section("a step");
        if (good && !over) {
            /* Now and then it is somebody's turn to die, a while later; the last rank lives to see whether anything is left over. */
            if (!outside && drawn < 0 && check_rank < check_size - 1 && (unsigned)(now() / 0.3) * 7919u % (unsigned)check_size == (unsigned)check_rank) {
                drawn = 50 + (int)draw(450);
                lot = die_after((unsigned)drawn * 1000);
            }
            good = step(step_number) == MPI_SUCCESS;
            step_number++;
        }
        section("was it good everywhere");
        good = good << 1 | (over && good);
        (void)MPIX_Comm_agree(MPI_COMM_WORLD, &good);
        if (good & 1) break;
        if (good & 2) continue;
        section("recovering");
        OK(MPIX_Comm_recover(MPI_COMM_WORLD, 0, NULL, &info));
        SAME(info.mode, MPIX_FT_MODE_REBUILD);
        OK(MPI_Group_free(&info.failed));
        recoveries++;
        if (recoveries == 2) descriptors_first = descriptors();
    }
    if (drawn >= 0) timer_delete(lot);
    /* Whatever a recovery leaves open would be there many times. */
    if (recoveries > 4) CHECK(descriptors() < descriptors_first + 8);
    if (check_rank == check_size - 1) fprintf(stderr, "%d steps, %d recoveries\n", step_number, recoveries);
    section("closing");
    if (check_rank == check_size - 1) printf("ok\n"); /* the only one of whom it is sure */
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
