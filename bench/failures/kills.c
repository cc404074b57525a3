/* Whether each death of a process is noticed, by everybody and once, how soon, and that nobody is told of one who lives:
 *
 *     weftrun --ft=rebuild --max-restarts 1000 -n 4 ./kills FILE KILLS MESSAGES MEBIBYTES SEED
 *
 * In each of so many rounds all exchange messages, hear of nobody's end, and then one rank kills itself while
 * the others wait for it: in a receive from it, in a reduction, or in a receive from anybody. It is started
 * again, and the next round begins. FILE is memory in common, which no death takes away, and holds what came
 * of it (`cargo system-tests kills` reads it): of each round when the rank died, how many have noticed, and
 * how late the last was. MESSAGES go round in a ring in each round; a victim has MEBIBYTES of memory, all of
 * it touched, which the system takes away when it ends. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <mpi.h>
#include <mpix_ft.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 1, PATIENCE_SECONDS = 60 };

/* What came of a round. */
struct round {
    uint64_t died_ns;
    uint64_t last_notice_ns;
    uint32_t noticed;
    uint32_t invented;
};

static int rank, size;
static uint64_t seed;

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void must(int code, const char *what) {
    if (code == MPI_SUCCESS) return;
    fprintf(stderr, "kills: rank %d: %s answers %d\n", rank, what, code);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The same at all ranks, those started again too. */
static unsigned chance(int round, int what, unsigned sides) {
    uint64_t word = seed * 0x9e3779b97f4a7c15u + (uint64_t)round * 0xbf58476d1ce4e5b9u + (uint64_t)what * 0x94d049bb133111ebu;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return (unsigned)((word ^ word >> 31) >> 33) % sides;
}

static struct round *map(const char *path, int rounds) {
    size_t bytes = (size_t)rounds * sizeof(struct round);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory;
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) must(MPI_ERR_FILE, path);
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) must(MPI_ERR_NO_MEM, "mmap");
    return memory;
}

/* Those who are known to have failed; `only` must be all of them, where there is one. */
static int known_failed(int only) {
    int count, there, place;
    MPI_Group failed, all;
    must(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed), "MPIX_Comm_get_failed");
    must(MPI_Group_size(failed, &count), "MPI_Group_size");
    must(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
    for (there = 0; there < count; there++) {
        must(MPI_Group_translate_ranks(failed, 1, &there, all, &place), "MPI_Group_translate_ranks");
        if (place != only) break;
    }
    must(MPI_Group_free(&failed), "MPI_Group_free");
    must(MPI_Group_free(&all), "MPI_Group_free");
    return there < count ? -1 : count;
}

static void exchange(int messages) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int at = 0; at < messages; at++) {
        int64_t mine = at, theirs = -1;
        must(MPI_Sendrecv(&mine, 1, MPI_INT64_T, next, TAG, &theirs, 1, MPI_INT64_T, before, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                "MPI_Sendrecv while all live");
        if (theirs != at) must(MPI_ERR_OTHER, "a wrong message");
    }
}

static void die(struct round *round, int number, size_t mebibytes) {
    struct timespec pause = {0, (long)chance(number, 3, 3000) * 1000};
    if (mebibytes > 0) {
        char *memory = malloc(mebibytes << 20);
        if (!memory) must(MPI_ERR_NO_MEM, "malloc");
        for (size_t at = 0; at < mebibytes << 20; at += 4096) ((volatile char *)memory)[at] = 1;
    }
    must(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier while all live");
    nanosleep(&pause, NULL);
    __atomic_store_n(&round->died_ns, now_ns(), __ATOMIC_RELEASE);
    raise(SIGKILL);
}

/* One who waits for the dead hears of it, of nobody else, and not before it has died. */
static void notice(struct round *round, int number, int victim) {
    /* Who is late to the barrier may hear of it there. */
    int code = MPI_Barrier(MPI_COMM_WORLD), word = 0, sum = 0, code_class;
    uint64_t noticed, last;
    switch (code == MPI_SUCCESS ? chance(number, 2, 3) : 3) {
        case 0: code = MPI_Recv(&word, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); break;
        case 1: code = MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
        case 2: code = MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    noticed = now_ns();
    must(code == MPI_SUCCESS ? MPI_ERR_OTHER : MPI_SUCCESS, "waiting for the dead");
    must(MPI_Error_class(code, &code_class), "MPI_Error_class");
    if (code_class != MPIX_ERR_PROC_FAILED || known_failed(victim) != 1 || !__atomic_load_n(&round->died_ns, __ATOMIC_ACQUIRE))
        __atomic_fetch_add(&round->invented, 1, __ATOMIC_RELAXED);
    last = __atomic_load_n(&round->last_notice_ns, __ATOMIC_RELAXED);
    while (noticed > last && !__atomic_compare_exchange_n(&round->last_notice_ns, &last, noticed, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    __atomic_fetch_add(&round->noticed, 1, __ATOMIC_RELEASE);
}

int main(int argc, char **argv) {
    int incarnation, number = 0, kills, messages;
    size_t mebibytes;
    struct round *rounds;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    must(argc == 6 && size > 1 ? MPI_SUCCESS : MPI_ERR_ARG, "a job of two ranks with FILE KILLS MESSAGES MEBIBYTES SEED");
    kills = atoi(argv[2]);
    messages = atoi(argv[3]);
    mebibytes = (size_t)atoi(argv[4]);
    seed = strtoull(argv[5], NULL, 10);
    rounds = map(argv[1], kills);
    must(MPIX_Process_incarnation(&incarnation), "MPIX_Process_incarnation");
    for (;;) {
        int latest, victim;
        MPIX_Recover_info info;
        /* A death that is missed ends here. */
        alarm(PATIENCE_SECONDS);
        must(MPI_Allreduce(&number, &latest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce while all live");
        number = latest;
        if (number == kills) break;
        victim = (int)chance(number, 1, (unsigned)size);
        exchange(messages);
        if (known_failed(-1) != 0) __atomic_fetch_add(&rounds[number].invented, 1, __ATOMIC_RELAXED);
        if (rank == victim) die(&rounds[number], number, mebibytes);
        notice(&rounds[number], number, victim);
        must(MPIX_Comm_recover(MPI_COMM_WORLD, 0, NULL, &info), "MPIX_Comm_recover");
        if (info.mode != MPIX_FT_MODE_REBUILD || info.restarted != 1) must(MPI_ERR_OTHER, "a recovery of something else");
        must(MPI_Group_free(&info.failed), "MPI_Group_free");
        number++;
    }
    MPI_Finalize();
    return 0;
}
