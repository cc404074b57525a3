/* See window.h. */
#include "window.h"

#include <stdlib.h>

enum { TAG_DATA = 1, TAG_ANSWER = 2, TAG_START = 3 };

void flow_send(struct flow *flow, int to) {
    for (int i = 0; i < flow->window; i++)
        MPI_Isend(flow->out + (size_t)i * flow->bytes, (int)flow->bytes, MPI_BYTE, to, TAG_DATA,
                  MPI_COMM_WORLD, &flow->requests[flow->active++]);
}

void flow_receive(struct flow *flow, int from) {
    for (int i = 0; i < flow->window; i++)
        MPI_Irecv(flow->in + (size_t)i * flow->bytes, (int)flow->bytes, MPI_BYTE, from, TAG_DATA,
                  MPI_COMM_WORLD, &flow->requests[flow->active++]);
}

void flow_wait(struct flow *flow) {
    MPI_Waitall(flow->active, flow->requests, MPI_STATUSES_IGNORE);
    flow->active = 0;
}

void flow_answer(int to) {
    MPI_Send(NULL, 0, MPI_BYTE, to, TAG_ANSWER, MPI_COMM_WORLD);
}

void flow_receive_answer(int from) {
    MPI_Recv(NULL, 0, MPI_BYTE, from, TAG_ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* ---- one size ---- */

/* Operations are windows here: fewer of them for the same number of messages. */
static int windows(const struct flow *flow) {
    int count = bench_block_operations(flow->bench, flow->bytes) / 8;
    return count < 1 ? 1 : count;
}

static void start_together(const struct flow *flow) {
    if (flow->traffic->together) {
        MPI_Barrier(MPI_COMM_WORLD);
        return;
    }
    MPI_Sendrecv(NULL, 0, MPI_BYTE, flow->traffic->partner, TAG_START, NULL, 0, MPI_BYTE,
                 flow->traffic->partner, TAG_START, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static unsigned slot_seed(int sender, int number, int slot) {
    return (unsigned)(sender * 7919 + number * 67 + slot);
}

static void fill(struct flow *flow, int number) {
    for (int slot = 0; slot < flow->window; slot++) {
        size_t at = (size_t)slot * flow->bytes;
        bench_fill(flow->out + at, flow->bytes, slot_seed(flow->bench->rank, number, slot));
        bench_spoil(flow->in + at, flow->bytes, slot_seed(flow->traffic->partner, number, slot));
    }
}

static void verify(struct flow *flow, int number) {
    for (int slot = 0; slot < flow->window; slot++)
        bench_verify(flow->bench, flow->in + (size_t)slot * flow->bytes, flow->bytes,
                     slot_seed(flow->traffic->partner, number, slot));
}

static double block(struct flow *flow, int number) {
    int busy = flow->traffic->sends || flow->traffic->receives, count = windows(flow);
    if (busy) fill(flow, number);
    bench_settle(flow->bench);
    start_together(flow);
    double start = MPI_Wtime();
    for (int i = 0; busy && i < count; i++) flow->traffic->step(flow);
    double seconds = (MPI_Wtime() - start) / count;
    if (flow->traffic->receives) verify(flow, number);
    return seconds;
}

static double slowest(const struct flow *flow, double seconds) {
    double most = seconds;
    if (flow->traffic->together)
        MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static void one_size(struct flow *flow) {
    const struct traffic *traffic = flow->traffic;
    double samples[BLOCKS];
    double messages = (double)flow->window * traffic->pairs * traffic->directions;
    int busy = traffic->sends || traffic->receives;
    for (int i = 0; busy && i < (flow->bench->options.warmup + 9) / 10; i++) traffic->step(flow);
    for (int i = 0; i < BLOCKS; i++) samples[i] = slowest(flow, block(flow, i));
    bench_row(flow->bench, traffic->unit, flow->bytes, samples, messages * (double)flow->bytes, messages);
}

size_t flow_bytes_max(const struct bench *bench) {
    size_t most = 0;
    for (size_t bytes = bench->options.bytes_min; bytes <= bench->options.bytes_max; bytes = bench_next(bytes)) {
        size_t all = bytes * (size_t)bench_window(bench, bytes);
        if (all > most) most = all;
    }
    return most;
}

void flow_sweep(struct bench *bench, const struct traffic *traffic) {
    size_t room = flow_bytes_max(bench);
    struct flow flow = {.bench = bench, .traffic = traffic};
    flow.out = bench_buffer(room);
    flow.in = bench_buffer(room);
    flow.requests = malloc(2 * (size_t)bench->options.window * sizeof *flow.requests);
    if (flow.requests == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
    for (size_t bytes = bench->options.bytes_min; bytes <= bench->options.bytes_max; bytes = bench_next(bytes)) {
        flow.bytes = bytes;
        flow.window = bench_window(bench, bytes);
        one_size(&flow);
    }
    free(flow.out);
    free(flow.in);
    free(flow.requests);
}
