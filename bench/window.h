/* A window of messages in flight, for the benchmarks that stream: every message of a window has
 * its own slot on both sides, since the standard forbids receives that overlap. */
#ifndef WEFT_BENCH_WINDOW_H
#define WEFT_BENCH_WINDOW_H

#include "bench.h"

struct flow;

/* Who sends what to whom. */
struct traffic {
    enum unit unit;
    void (*step)(struct flow *); /* one window, answered */
    int pairs, directions;
    int sends, receives;         /* what this rank does; neither: it only waits */
    int partner;
    int together;                /* all ranks take part, and the slowest one counts */
};

struct flow {
    struct bench *bench;
    const struct traffic *traffic;
    size_t bytes;
    int window;
    unsigned char *out, *in; /* `window` slots each */
    MPI_Request *requests;   /* room for a window out and a window in */
    int active;
};

/* Starts a window of sends, or of receives. */
void flow_send(struct flow *flow, int to);
void flow_receive(struct flow *flow, int from);
/* Completes all that was started. */
void flow_wait(struct flow *flow);
/* The small message that ends a window. */
void flow_answer(int to);
void flow_receive_answer(int from);

/* Room for the largest window of any size of the sweep, in bytes. */
size_t flow_bytes_max(const struct bench *bench);

/* Runs the sweep over all sizes. Every rank that has traffic calls it; with `together`, all do. */
void flow_sweep(struct bench *bench, const struct traffic *traffic);

#endif
