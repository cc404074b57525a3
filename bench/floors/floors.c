/* floors NAME [options]: see floors.h and USAGE. */
#define _GNU_SOURCE
#include "floors.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char USAGE[] =
    "floors NAME [options]\n"
    "  --min BYTES, --max BYTES   sizes (K, M are understood)\n"
    "  --iterations N             operations per size; a tenth of it above 8 KiB\n"
    "  --ranks N                  processes, where a floor can have any number\n"
    "  --cpus A,B                 the cpus to pin to\n"
    "  --apart LEAST,MOST         wait until a line takes so many ns from one cpu to the other\n"
    "  --address A.B.C.D          address of the first process, for sockets\n"
    "  --namespaces A,B           network namespaces of the two processes\n"
    "  --provider NAME            of libfabric, by its whole name\n"
    "  --library PATH             libfabric's\n"
    "names:\n";

enum { SECONDS_MAX = 240, LARGE_BYTES = 8192, WINDOW = 64, WINDOW_BYTES = 8 << 20 };

struct settings {
    const struct floor_kind *kind;
    size_t bytes_min, bytes_max;
    int iterations, ranks, cpus[2];
    struct apart apart;
    struct network network;
};

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void fail(const char *what) {
    fprintf(stderr, "floors: %s: %s\n", what, strerror(errno));
    exit(1);
}

int window_of(size_t bytes) {
    size_t fitting = WINDOW_BYTES / (bytes == 0 ? 1 : bytes);
    if (fitting < 2) fitting = 2;
    return fitting < WINDOW ? (int)fitting : WINDOW;
}

/* ---- flags ---- */

void spin_until(const struct line *line, unsigned long value) {
    while (atomic_load_explicit(&line->word, memory_order_acquire) < value) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

void publish(struct line *line, unsigned long value) {
    atomic_store_explicit(&line->word, value, memory_order_release);
}

void meet(struct run *run) {
    static unsigned long round;
    round++;
    atomic_fetch_add(&run->shared->meet.word, 1);
    while (atomic_load(&run->shared->meet.word) < round * (unsigned long)run->ranks) sched_yield();
}

/* ---- contents ---- */

static unsigned char pattern(size_t at, unsigned seed) {
    return (unsigned char)(at * 13u + (at >> 8) * 7u + seed * 101u + 1u);
}

static void fill(unsigned char *buffer, size_t bytes, unsigned seed, int flip) {
    for (size_t at = 0; at < bytes; at++) buffer[at] = pattern(at, seed) ^ (flip ? 0xff : 0);
}

static void compare(const unsigned char *buffer, size_t bytes, unsigned seed) {
    for (size_t at = 0; at < bytes; at++) {
        if (buffer[at] == pattern(at, seed)) continue;
        fprintf(stderr, "floors: byte %zu of %zu did not arrive\n", at, bytes);
        exit(1);
    }
}

/* ---- the sweep ---- */

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static int operations_of(const struct settings *settings, size_t bytes) {
    int all = settings->iterations;
    if (bytes > LARGE_BYTES) all /= 10;
    if (settings->kind->windowed) all /= 8;
    return all < BLOCKS ? 1 : all / BLOCKS;
}

static double block(const struct settings *settings, struct run *run, size_t bytes, unsigned number) {
    unsigned seed = 2 * number;
    size_t all = settings->kind->windowed ? bytes * (size_t)window_of(bytes) : bytes;
    if (settings->kind->contents != NO_CONTENTS) {
        fill(run->out, all, seed + (unsigned)run->rank, 0);
        fill(run->in, all, seed + (unsigned)(1 - run->rank), 1);
    }
    meet(run);
    if (!apart_settle(&run->apart, run->rank)) {
        fprintf(stderr, "floors: the cpus were never as far apart as --apart says\n");
        exit(1);
    }
    double seconds = settings->kind->block(run, bytes, operations_of(settings, bytes));
    meet(run);
    if (settings->kind->contents == OF_BOTH || (settings->kind->contents == OF_RANK_0 && run->rank == 1))
        compare(run->in, all, seed + (unsigned)(1 - run->rank));
    return seconds;
}

/* The samples of the best variant, in order. */
static void sample(const struct settings *settings, struct run *run, size_t bytes, double *best) {
    const size_t *chunk = settings->kind->chunks;
    best[BLOCKS / 2] = 1e9;
    do {
        double samples[BLOCKS];
        run->chunk = *chunk;
        for (unsigned i = 0; i < 2; i++) block(settings, run, bytes, i);
        for (unsigned i = 0; i < BLOCKS; i++) samples[i] = block(settings, run, bytes, i);
        qsort(samples, BLOCKS, sizeof *samples, ascending);
        if (samples[BLOCKS / 2] < best[BLOCKS / 2]) memcpy(best, samples, sizeof samples);
    } while (*chunk != 0 && *++chunk != 0);
}

static void tell(const struct settings *settings, const struct run *run, size_t bytes, const double *samples) {
    double least = samples[0], median = (samples[BLOCKS / 2 - 1] + samples[BLOCKS / 2]) / 2;
    double messages = settings->kind->windowed ? window_of(bytes) : 1, moved = messages * (double)bytes;
    printf("{\"benchmark\":\"floor\",\"label\":\"%s\",\"ranks\":%d,\"bytes\":%zu,\"min_us\":%.4f,"
           "\"median_us\":%.4f,\"best_mb_s\":%.4f,\"median_mb_s\":%.4f,\"best_msg_s\":%.1f,"
           "\"median_msg_s\":%.1f,\"library\":\"%s\"}\n",
           settings->kind->name, run->ranks, bytes, least * 1e6, median * 1e6, moved / least / 1e6,
           moved / median / 1e6, messages / least, messages / median, run->library);
    fflush(stdout);
}

static void sweep(const struct settings *settings, struct run *run) {
    double samples[BLOCKS] = {0};
    for (size_t bytes = settings->bytes_min; bytes <= settings->bytes_max; bytes = bytes == 0 ? 1 : 2 * bytes) {
        sample(settings, run, bytes, samples);
        if (run->rank == 0) tell(settings, run, bytes, samples);
        if (settings->bytes_max == 0) break;
    }
}

/* ---- processes ---- */

static void pin(const struct settings *settings, int rank) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)settings->cpus[settings->kind->one_cpu ? 0 : rank % 2], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) fail("cannot pin to a cpu");
}

/* Strided data take twice their bytes, and a window has a slot for each message. */
static size_t room(const struct settings *settings) {
    size_t twice = 2 * settings->bytes_max + 1;
    return settings->kind->windowed && twice < WINDOW_BYTES ? WINDOW_BYTES : twice;
}

static void be_rank(const struct settings *settings, struct run *run, int rank) {
    run->rank = rank;
    run->pids[rank] = getpid();
    alarm(SECONDS_MAX);
    pin(settings, rank);
    /* Every page is this process's own before anything is timed. */
    memset(run->out, rank + 1, room(settings));
    memset(run->in, rank + 3, room(settings));
    if (settings->kind->sockets) run->socket = connect_pair(run, &settings->network);
    if (settings->kind->provider) open_provider(run, &settings->network);
    sweep(settings, run);
    if (settings->kind->provider) close_provider(run);
}

static void *memory(size_t bytes, int kind) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail("no memory");
    return at;
}

static int start(const struct settings *settings) {
    static struct run run;
    run.ranks = settings->ranks;
    run.socket = -1;
    run.shared = memory(sizeof *run.shared, MAP_SHARED);
    memset(run.shared, 0, sizeof *run.shared);
    run.apart = settings->apart;
    run.apart.lines = &run.shared->apart;
    run.out = memory(room(settings), MAP_PRIVATE);
    run.in = memory(room(settings), MAP_PRIVATE);
    pid_t parent = run.pids[0] = getpid();
    /* A child may read its sibling and its parent, where the kernel wants to be asked. */
    prctl(PR_SET_PTRACER, (unsigned long)-1, 0, 0, 0);
    for (int rank = 1; rank < settings->ranks; rank++) {
        pid_t child = fork();
        if (child < 0) fail("cannot fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            prctl(PR_SET_PTRACER, (unsigned long)-1, 0, 0, 0);
            if (getppid() != parent) exit(1);
            be_rank(settings, &run, rank);
            exit(0);
        }
        run.pids[rank] = child;
    }
    be_rank(settings, &run, 0);
    int status, failed = 0;
    while (wait(&status) > 0) failed |= status != 0;
    return failed;
}

/* ---- command line ---- */

static const struct floor_kind *const ALL[] = {MEMORY_FLOORS, SOCKET_FLOORS, YIELD_FLOORS, PROVIDER_FLOORS};

static const struct floor_kind *find(const char *name) {
    for (size_t list = 0; list < sizeof ALL / sizeof *ALL; list++)
        for (const struct floor_kind *kind = ALL[list]; kind->name != NULL; kind++)
            if (strcmp(kind->name, name) == 0) return kind;
    return NULL;
}

static int usage(void) {
    fputs(USAGE, stderr);
    for (size_t list = 0; list < sizeof ALL / sizeof *ALL; list++)
        for (const struct floor_kind *kind = ALL[list]; kind->name != NULL; kind++)
            fprintf(stderr, "  %s\n", kind->name);
    return 2;
}

static size_t bytes_of(const char *text) {
    char *end;
    size_t value = strtoul(text, &end, 10);
    return *end == 'K' ? value << 10 : *end == 'M' ? value << 20 : value;
}

static int option(struct settings *settings, const char *name, char *value) {
    if (strcmp(name, "--min") == 0) settings->bytes_min = bytes_of(value);
    else if (strcmp(name, "--max") == 0) settings->bytes_max = bytes_of(value);
    else if (strcmp(name, "--iterations") == 0) settings->iterations = atoi(value);
    else if (strcmp(name, "--ranks") == 0) settings->ranks = atoi(value);
    else if (strcmp(name, "--address") == 0) settings->network.address = value;
    else if (strcmp(name, "--provider") == 0) settings->network.provider = value;
    else if (strcmp(name, "--library") == 0) settings->network.library = value;
    else if (strcmp(name, "--apart") == 0) {
        if (sscanf(value, "%lf,%lf", &settings->apart.least, &settings->apart.most) != 2) return 0;
        settings->apart.least *= 1e-9;
        settings->apart.most *= 1e-9;
    } else if (strcmp(name, "--cpus") == 0)
        return sscanf(value, "%d,%d", &settings->cpus[0], &settings->cpus[1]) == 2;
    else if (strcmp(name, "--namespaces") == 0) {
        settings->network.namespaces[0] = strtok(value, ",");
        settings->network.namespaces[1] = strtok(NULL, ",");
        return settings->network.namespaces[1] != NULL;
    } else return 0;
    return 1;
}

int main(int argc, char **argv) {
    struct settings settings = {.iterations = 2000, .ranks = 2, .cpus = {0, 1}};
    settings.network.address = "127.0.0.1";
    settings.network.provider = "tcp;ofi_rxm";
    settings.network.library = "libfabric.so.1";
    settings.kind = argc < 2 ? NULL : find(argv[1]);
    if (settings.kind == NULL) return usage();
    settings.bytes_min = settings.kind->bytes_min;
    settings.bytes_max = settings.kind->bytes_max;
    for (int i = 2; i < argc; i += 2)
        if (i + 1 == argc || !option(&settings, argv[i], argv[i + 1])) return usage();
    if (settings.apart.most > 0 && settings.ranks != 2) return usage();
    if (settings.ranks < 1 || settings.ranks > RANKS_MAX || settings.iterations < 1) return usage();
    return start(&settings);
}
