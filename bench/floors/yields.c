/* Floors of shared cpus: processes that have to let each other run. */
#define _GNU_SOURCE
#include "floors.h"

#include <sched.h>

static void yield_until(const struct line *line, unsigned long value) {
    while (atomic_load_explicit(&line->word, memory_order_acquire) < value) sched_yield();
}

/* Two processes on one cpu that hand over to each other. */
static double hand_over(struct run *run, size_t bytes, int operations) {
    struct line *ball = &run->shared->ping;
    double start = seconds_now();
    (void)bytes;
    for (int i = 0; i < operations; i++, run->sequence += 2) {
        if (run->rank == 0) publish(ball, run->sequence + 1), yield_until(ball, run->sequence + 2);
        else yield_until(ball, run->sequence + 1), publish(ball, run->sequence + 2);
    }
    return (seconds_now() - start) / operations / 2;
}

/* Any number of processes count up one word; the last one opens the door. */
static double yield_barrier(struct run *run, size_t bytes, int operations) {
    struct shared *shared = run->shared;
    double start = seconds_now();
    (void)bytes;
    for (int i = 0; i < operations; i++) {
        unsigned long number = ++run->sequence;
        if (atomic_fetch_add(&shared->count.word, 1) + 1 == number * (unsigned long)run->ranks)
            publish(&shared->turn, number);
        else yield_until(&shared->turn, number);
    }
    return (seconds_now() - start) / operations;
}

const struct floor_kind YIELD_FLOORS[] = {
    {.name = "hand-over", .block = hand_over, .one_cpu = 1},
    {.name = "yield-barrier", .block = yield_barrier},
    {.name = NULL},
};
