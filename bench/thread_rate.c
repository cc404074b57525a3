/* Messages of many threads at once: thread `t` of rank 0 exchanges messages with thread `t` of rank 1. Three results:
 * windows of nonblocking messages where all threads use one communicator and each pair its own tag, the same where each
 * pair has a communicator of its own, and blocking messages there and back on one communicator. What all threads move
 * in a second is told, by the slowest of them. Further ranks wait. */
#define _POSIX_C_SOURCE 200809L
#include "window.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG_ANSWER = 1000 };

struct crowd;

/* One thread of this rank. */
struct member {
    struct crowd *crowd;
    pthread_t thread;
    int number;
    MPI_Comm comm;
    unsigned char *out, *in; /* a slot for each message of a window */
    MPI_Request *requests;
};

/* The threads of this rank, and what they do. */
struct crowd {
    struct bench *bench;
    pthread_barrier_t gate; /* all threads, and the one that takes the time */
    void (*step)(struct member *);
    size_t bytes;
    int window, steps;
    int stops;
    struct member members[BENCH_THREADS_MAX];
};

static void windows(struct member *me) {
    struct crowd *crowd = me->crowd;
    int sends = crowd->bench->rank == 0, partner = sends ? 1 : 0, bytes = (int)crowd->bytes;
    for (int i = 0; i < crowd->window; i++) {
        size_t at = (size_t)i * crowd->bytes;
        if (sends) MPI_Isend(me->out + at, bytes, MPI_BYTE, partner, me->number, me->comm, &me->requests[i]);
        else MPI_Irecv(me->in + at, bytes, MPI_BYTE, partner, me->number, me->comm, &me->requests[i]);
    }
    MPI_Waitall(crowd->window, me->requests, MPI_STATUSES_IGNORE);
    int tag = TAG_ANSWER + me->number;
    if (sends) MPI_Recv(NULL, 0, MPI_BYTE, partner, tag, me->comm, MPI_STATUS_IGNORE);
    else MPI_Send(NULL, 0, MPI_BYTE, partner, tag, me->comm);
}

static void there_and_back(struct member *me) {
    struct crowd *crowd = me->crowd;
    int first = crowd->bench->rank == 0, partner = first ? 1 : 0, bytes = (int)crowd->bytes;
    if (first) MPI_Send(me->out, bytes, MPI_BYTE, partner, me->number, me->comm);
    MPI_Recv(me->in, bytes, MPI_BYTE, partner, me->number, me->comm, MPI_STATUS_IGNORE);
    if (!first) MPI_Send(me->out, bytes, MPI_BYTE, partner, me->number, me->comm);
}

/* A thread waits for its block, does it, and waits until all have done theirs. */
static void *work(void *argument) {
    struct member *me = argument;
    struct crowd *crowd = me->crowd;
    for (;;) {
        pthread_barrier_wait(&crowd->gate);
        if (crowd->stops) return NULL;
        for (int i = 0; i < crowd->steps; i++) crowd->step(me);
        pthread_barrier_wait(&crowd->gate);
    }
}

static unsigned seed_of(int sender, const struct member *member, int block, int slot) {
    return (unsigned)(sender * 7919 + member->number * 131 + block * 67 + slot);
}

static void prepare(struct crowd *crowd, int block) {
    for (int t = 0; t < crowd->bench->options.threads; t++) {
        struct member *member = &crowd->members[t];
        for (int slot = 0; slot < crowd->window; slot++) {
            size_t at = (size_t)slot * crowd->bytes;
            bench_fill(member->out + at, crowd->bytes, seed_of(crowd->bench->rank, member, block, slot));
            bench_spoil(member->in + at, crowd->bytes, seed_of(1 - crowd->bench->rank, member, block, slot));
        }
    }
}

static void verify(struct crowd *crowd, int block, int slots) {
    for (int t = 0; t < crowd->bench->options.threads; t++) {
        struct member *member = &crowd->members[t];
        for (int slot = 0; slot < slots; slot++)
            bench_verify(crowd->bench, member->in + (size_t)slot * crowd->bytes, crowd->bytes,
                         seed_of(1 - crowd->bench->rank, member, block, slot));
    }
}

/* The time of a block at the slower rank. Block -1 warms up. */
static double block_of(struct crowd *crowd, int block, int both_ways) {
    int busy = crowd->bench->rank < 2;
    double mine;
    if (busy) prepare(crowd, block);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    if (busy) {
        pthread_barrier_wait(&crowd->gate);
        pthread_barrier_wait(&crowd->gate);
    }
    mine = MPI_Wtime() - begun;
    if (busy && (both_ways || crowd->bench->rank == 1)) verify(crowd, block, both_ways ? 1 : crowd->window);
    return bench_slowest(mine, MPI_COMM_WORLD) / crowd->steps;
}

static void sweep(struct crowd *crowd, const char *name, void (*step)(struct member *), int both_ways) {
    struct bench *bench = crowd->bench;
    double samples[BLOCKS];
    bench->name = name;
    crowd->step = step;
    bench_heading(bench, MESSAGES_PER_SECOND);
    for (size_t bytes = bench->options.bytes_min; bytes <= bench->options.bytes_max; bytes = bench_next(bytes)) {
        crowd->bytes = bytes;
        crowd->window = both_ways ? 1 : bench_window(bench, bytes);
        crowd->steps = bench_block_operations(bench, bytes);
        if (!both_ways && crowd->steps >= 8) crowd->steps /= 8; /* an operation is a window */
        for (int block = -1; block < BLOCKS; block++) {
            double time = block_of(crowd, block, both_ways);
            if (block >= 0) samples[block] = time;
        }
        double messages = (double)bench->options.threads * (both_ways ? 2 : crowd->window);
        bench_row(bench, MESSAGES_PER_SECOND, bytes, samples, messages * (double)bytes, messages);
    }
}

static void open_crowd(struct crowd *crowd, struct bench *bench) {
    size_t room = flow_bytes_max(bench);
    *crowd = (struct crowd){.bench = bench};
    pthread_barrier_init(&crowd->gate, NULL, (unsigned)bench->options.threads + 1);
    for (int t = 0; bench->rank < 2 && t < bench->options.threads; t++) {
        struct member *member = &crowd->members[t];
        *member = (struct member){.crowd = crowd, .number = t, .comm = MPI_COMM_WORLD};
        member->out = bench_buffer(room);
        member->in = bench_buffer(room);
        member->requests = malloc((size_t)bench->options.window * sizeof *member->requests);
        if (member->requests == NULL || pthread_create(&member->thread, NULL, work, member) != 0) {
            fprintf(stderr, "%s: no memory or no thread; try fewer --threads\n", bench->name);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
}

static void close_crowd(struct crowd *crowd) {
    if (crowd->bench->rank >= 2) return;
    crowd->stops = 1;
    pthread_barrier_wait(&crowd->gate);
    for (int t = 0; t < crowd->bench->options.threads; t++) {
        struct member *member = &crowd->members[t];
        pthread_join(member->thread, NULL);
        free(member->out);
        free(member->in);
        free(member->requests);
    }
    pthread_barrier_destroy(&crowd->gate);
}

int main(int argc, char **argv) {
    struct bench bench;
    static struct crowd crowd;
    MPI_Comm own[BENCH_THREADS_MAX];
    bench_open_threads(&bench, "thread_rate", argc, argv, 1, 4096, 2);
    open_crowd(&crowd, &bench);
    sweep(&crowd, "thread_rate_one_communicator", windows, 0);
    sweep(&crowd, "thread_rate_there_and_back", there_and_back, 1);
    for (int t = 0; t < bench.options.threads; t++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &own[t]);
        crowd.members[t].comm = own[t];
    }
    sweep(&crowd, "thread_rate_own_communicators", windows, 0);
    close_crowd(&crowd);
    for (int t = 0; t < bench.options.threads; t++) MPI_Comm_free(&own[t]);
    return bench_close(&bench);
}
