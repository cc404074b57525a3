/* See apart.h. */
#define _POSIX_C_SOURCE 200809L
#include "apart.h"

#include <sched.h>
#include <time.h>

enum { TURNS = 40, BATCHES = 5, SECONDS_MAX = 300 };
enum { YES = 1, NOT_NOW, NEVER };

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void publish(unsigned long *word, unsigned long value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void await(const unsigned long *word, unsigned long value) {
    for (int looks = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) < value; looks++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        /* The other one may want this cpu. */
        if (looks > 10000) sched_yield();
    }
}

/* So many turns there and back; seconds of half a turn. */
static double take_turns(struct apart *apart, int rank, int turns) {
    struct apart_lines *lines = apart->lines;
    double start = now_seconds();
    for (int i = 0; i < turns; i++) {
        unsigned long turn = ++apart->turn;
        if (rank == 0) publish(&lines->there[0], turn);
        else await(&lines->there[0], turn);
        if (rank == 1) publish(&lines->back[0], turn);
        else await(&lines->back[0], turn);
    }
    return (now_seconds() - start) / turns / 2;
}

/* The middle of a few: one of them may have been interrupted. */
static double distance(struct apart *apart, int rank) {
    double halves[BATCHES];
    take_turns(apart, rank, 10); /* both are here now */
    for (int batch = 0; batch < BATCHES; batch++) {
        double half = take_turns(apart, rank, TURNS);
        int at = batch;
        for (; at > 0 && halves[at - 1] > half; at--) halves[at] = halves[at - 1];
        halves[at] = half;
    }
    return halves[BATCHES / 2];
}

int apart_settle(struct apart *apart, int rank) {
    double begun = now_seconds();
    if (apart->most <= 0) return 1;
    for (;;) {
        unsigned long *word = &apart->lines->verdict[0], verdict;
        double half = distance(apart, rank);
        /* The first process judges, behind the number of the turn. */
        if (rank == 0) {
            if (apart->least <= half && half <= apart->most) verdict = YES;
            else verdict = now_seconds() - begun < SECONDS_MAX ? NOT_NOW : NEVER;
            publish(word, 4 * apart->turn + verdict);
        } else {
            await(word, 4 * apart->turn);
            verdict = __atomic_load_n(word, __ATOMIC_ACQUIRE) - 4 * apart->turn;
        }
        if (verdict != NOT_NOW) return verdict == YES;
        /* Who sleeps may wake elsewhere. */
        struct timespec nap = {0, 2000000};
        nanosleep(&nap, NULL);
    }
}
