// ranks: 3 4
// launch: --ft=rebuild --max-restarts=12
// says: is started again
// not libfabric: what a provider tells of a dead process differs from one to the next
// Many operations that were begun are under way in several communicators when a member dies, after it has begun some of them. Each
// that succeeds has the part of everybody (D2), and all others end (D1): before the recovery, behind it, and where their communicator
// has been freed. The lines by which they go are used again by communicators that are made later: the memory in common
// does not grow from one recovery to the next.
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "dice.h"

#include <dirent.h>
#include <mpix_ft.h>
#include <stdint.h>
#include <sys/stat.h>

enum { ROUNDS = 12, COPIES = 8, UNDERWAY = 20, GROWN_BYTES_MAX = 1 << 20 };

static MPI_Comm copies[COPIES];
static MPI_Request requests[COPIES][UNDERWAY];
static int64_t given[COPIES][UNDERWAY], got[COPIES][UNDERWAY];

static int64_t part(int rank, int which, int at) { return (1 + rank) * 1000 + which * UNDERWAY + at; }

static int64_t sum_of_all(int which, int at) {
    int64_t sum = 0;
    for (int rank = 0; rank < check_size; rank++) sum += part(rank, which, at);
    return sum;
}

/* What the memory that all have in common takes; 0 where there is none. */
static int64_t bytes_in_common(void) {
    int64_t bytes = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[300], name[300] = "";
        struct stat about;
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, name, sizeof name - 1) <= 0 || strncmp(name, "/memfd:weft-shm", 15) != 0) continue;
        if (stat(path, &about) == 0) bytes = (int64_t)about.st_blocks * 512;
    }
    closedir(folder);
    return bytes;
}

/* All have a communicator of their own for each heap of operations, and its lines are there. */
static void make(void) {
    section("making");
    for (int which = 0; which < COPIES; which++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &copies[which]));
        for (int round = 0; round < 5; round++) OK(MPI_Barrier(copies[which]));
    }
    /* Nobody dies before all have come so far; somebody may before all have heard of it. */
    (void)MPIX_Comm_agree(MPI_COMM_WORLD, &(int){1});
}

/* Whoever is to die begins some of them, not as many in each communicator; the others all, as long as they may. */
static void begin(int is_victim) {
    section("beginning");
    for (int which = 0; which < COPIES; which++) {
        int end = is_victim ? (int)draw(UNDERWAY + 1) : UNDERWAY;
        for (int at = 0; at < UNDERWAY; at++) {
            requests[which][at] = MPI_REQUEST_NULL;
            given[which][at] = part(check_rank, which, at);
            got[which][at] = -1;
        }
        for (int at = 0; at < end; at++) {
            int code = MPI_Iallreduce(&given[which][at], &got[which][at], 1, MPI_INT64_T, MPI_SUM, copies[which], &requests[which][at]);
            if (code == MPI_SUCCESS) continue;
            CLASS(code, MPIX_ERR_PROC_FAILED);
            break;
        }
    }
    if (!is_victim) return;
    fflush(NULL);
    raise(SIGKILL);
}

static void end(int which) {
    for (int at = UNDERWAY - 1; at >= 0; at--) {
        int is_underway = requests[which][at] != MPI_REQUEST_NULL, code = MPI_Wait(&requests[which][at], MPI_STATUS_IGNORE), code_class;
        if (is_underway && code == MPI_SUCCESS) SAME(got[which][at], sum_of_all(which, at));
        if (code == MPI_SUCCESS) continue;
        OK(MPI_Error_class(code, &code_class));
        CHECK(code_class == MPIX_ERR_PROC_FAILED || code_class == MPIX_ERR_REVOKED);
    }
}

/* Those that live do it again, where the dead one's place is blank. */
static void again_among_living(int which) {
    int lives = 0;
    OK(MPIX_Comm_live_size(copies[which], &lives));
    SAME(lives, check_size - 1);
    for (int round = 0; round < 5; round++) OK(MPI_Barrier(copies[which]));
    for (int at = 0; at < UNDERWAY; at++) {
        given[which][at] = 1 << at;
        OK(MPI_Iallreduce(&given[which][at], &got[which][at], 1, MPI_INT64_T, MPI_SUM, copies[which], &requests[which][at]));
    }
    OK(MPI_Waitall(UNDERWAY, requests[which], MPI_STATUSES_IGNORE));
    for (int at = 0; at < UNDERWAY; at++) SAME(got[which][at], (int64_t)lives << at);
}

/* One dies; what was under way ends for those who live. */
static void lose_one(int round) {
    int with_all = round % 2;
    begin(check_rank == round % check_size);
    section("D1, D2: ending before the recovery");
    for (int which = 0; which < COPIES; which += 3) end(which);
    section("freeing what they are under way in");
    for (int which = 1; which < COPIES; which += 3) OK(MPI_Comm_free(&copies[which]));
    section("recovering");
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, with_all ? MPIX_RECOVER_ALL : 0, NULL, NULL));
    section("D1, D2: ending behind the recovery");
    for (int which = COPIES - 1; which >= 0; which--)
        if (which % 3 != 0) end(which);
    for (int which = 0; which < COPIES; which++) {
        if (copies[which] == MPI_COMM_NULL) continue;
        section("R7: again, among those who live");
        if (with_all) again_among_living(which);
        OK(MPI_Comm_free(&copies[which]));
    }
}

int main(int argc, char **argv) {
    /* Which round it is, and what the memory took after the first; new ones know neither. */
    int64_t mine[2] = {0, 0}, known[2], bytes;
    int incarnation = 0;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPIX_Process_incarnation(&incarnation));
    dice = (unsigned)(check_rank + 100 * incarnation);
    for (;;) {
        section("meeting");
        bytes = bytes_in_common();
        OK(MPI_Allreduce(mine, known, 2, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD));
        memcpy(mine, known, sizeof mine);
        if (mine[0] == 3) OK(MPI_Allreduce(&bytes, &mine[1], 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD));
        if (mine[0] == ROUNDS) break;
        make();
        lose_one((int)mine[0]);
        mine[0]++;
    }
    if (bytes > mine[1] + GROWN_BYTES_MAX) {
        fprintf(stderr, "rank %d: %lld KiB in common after 3 recoveries, and %lld at the end\n", check_rank, (long long)mine[1] >> 10,
                (long long)bytes >> 10);
        CHECK(bytes <= mine[1] + GROWN_BYTES_MAX);
    }
    return check_close();
}
