/* Floors of memory: a line that travels, copies within a process, and copies between two. */
#define _GNU_SOURCE
#include "floors.h"

#include <string.h>
#include <sys/uio.h>

/* Half a round trip of a line that both write in turn. */
static double bounce_one(struct run *run, size_t bytes, int operations) {
    struct line *ball = &run->shared->ping;
    double start = seconds_now();
    (void)bytes;
    for (int i = 0; i < operations; i++, run->sequence += 2) {
        if (run->rank == 0) publish(ball, run->sequence + 1), spin_until(ball, run->sequence + 2);
        else spin_until(ball, run->sequence + 1), publish(ball, run->sequence + 2);
    }
    return (seconds_now() - start) / operations / 2;
}

/* The same with a line for each direction. */
static double bounce_two(struct run *run, size_t bytes, int operations) {
    struct line *ping = &run->shared->ping, *pong = &run->shared->pong;
    double start = seconds_now();
    (void)bytes;
    for (int i = 0; i < operations; i++) {
        run->sequence++;
        if (run->rank == 0) publish(ping, run->sequence), spin_until(pong, run->sequence);
        else spin_until(ping, run->sequence), publish(pong, run->sequence);
    }
    return (seconds_now() - start) / operations / 2;
}

/* Both write a line of their own and wait for the other's: what a barrier of two costs at least. */
static double exchange(struct run *run, size_t bytes, int operations) {
    struct line *mine = run->rank == 0 ? &run->shared->ping : &run->shared->pong;
    struct line *other = run->rank == 0 ? &run->shared->pong : &run->shared->ping;
    double start = seconds_now();
    (void)bytes;
    for (int i = 0; i < operations; i++) {
        run->sequence++;
        publish(mine, run->sequence);
        spin_until(other, run->sequence);
    }
    return (seconds_now() - start) / operations;
}

/* A window of cells one way, each with its number as its flag; answered like a window of messages. */
static double cells(struct run *run, size_t bytes, int operations) {
    int window = window_of(bytes);
    struct shared *shared = run->shared;
    double start = seconds_now();
    for (int i = 0; i < operations; i++) {
        for (int k = 0; k < window; k++) {
            struct line *cell = &shared->cells[++run->sequence % CELLS];
            if (run->rank == 0) memset(cell->payload, (int)run->sequence, 8), publish(cell, run->sequence);
            else spin_until(cell, run->sequence), memcpy(run->in, cell->payload, 8);
        }
        if (run->rank == 0) spin_until(&shared->credit, run->sequence);
        else publish(&shared->credit, run->sequence);
    }
    return (seconds_now() - start) / operations;
}

/* ---- one process ---- */

static double copy(struct run *run, size_t bytes, int operations) {
    double start = seconds_now();
    if (run->rank != 0) return 0;
    for (int i = 0; i < operations; i++) {
        memcpy(run->in, run->out, bytes);
        __asm__ volatile("" ::: "memory");
    }
    return (seconds_now() - start) / operations;
}

/* Every other block into one piece, block by block: what sending strided data costs before it travels. */
static double pack_8(struct run *run, size_t bytes, int operations) {
    double start = seconds_now();
    if (run->rank != 0) return 0;
    for (int i = 0; i < operations; i++) {
        for (size_t at = 0; at < bytes; at += 8) memcpy(run->in + at, run->out + 2 * at, 8);
        __asm__ volatile("" ::: "memory");
    }
    return (seconds_now() - start) / operations;
}

static double pack_64(struct run *run, size_t bytes, int operations) {
    double start = seconds_now();
    if (run->rank != 0) return 0;
    for (int i = 0; i < operations; i++) {
        for (size_t at = 0; at < bytes; at += 64) memcpy(run->in + at, run->out + 2 * at, 64);
        __asm__ volatile("" ::: "memory");
    }
    return (seconds_now() - start) / operations;
}

/* ---- between two processes ---- */

static void pull_bytes(struct run *run, int from, size_t at, size_t bytes) {
    while (bytes > 0) {
        struct iovec here = {run->in + at, bytes}, there = {run->out + at, bytes};
        ssize_t moved = process_vm_readv(run->pids[from], &here, 1, &there, 1, 0);
        if (moved <= 0) fail("process_vm_readv");
        at += (size_t)moved, bytes -= (size_t)moved;
    }
}

static void push_bytes(struct run *run, int to, size_t at, size_t bytes) {
    while (bytes > 0) {
        struct iovec here = {run->out + at, bytes}, there = {run->in + at, bytes};
        ssize_t moved = process_vm_writev(run->pids[to], &here, 1, &there, 1, 0);
        if (moved <= 0) fail("process_vm_writev");
        at += (size_t)moved, bytes -= (size_t)moved;
    }
}

/* One message from `sender`, of which the receiver reads the first part and the sender writes the
 * rest; both know when all is done. Buffers have the same addresses on both sides. */
static void one_copy(struct run *run, int sender, size_t bytes, size_t read_bytes) {
    struct shared *shared = run->shared;
    unsigned long number = ++run->sequence;
    if (run->rank == sender) {
        publish(&shared->ready, number);
        if (read_bytes < bytes) push_bytes(run, 1 - sender, read_bytes, bytes - read_bytes);
        publish(&shared->done[0], number);
        spin_until(&shared->done[1], number);
    } else {
        spin_until(&shared->ready, number);
        pull_bytes(run, sender, 0, read_bytes);
        publish(&shared->done[1], number);
        spin_until(&shared->done[0], number);
    }
}

static double cma(struct run *run, size_t bytes, int operations) {
    double start = seconds_now();
    for (int i = 0; i < operations; i++) one_copy(run, 0, bytes, bytes), one_copy(run, 1, bytes, bytes);
    return (seconds_now() - start) / operations / 2;
}

static double split(struct run *run, size_t bytes, int operations) {
    size_t half = (bytes / 2 + 4095) / 4096 * 4096;
    if (half > bytes) half = bytes;
    double start = seconds_now();
    for (int i = 0; i < operations; i++) one_copy(run, 0, bytes, half), one_copy(run, 1, bytes, half);
    return (seconds_now() - start) / operations / 2;
}

/* One message through slots of shared memory: the sender copies in while the receiver copies out. */
static void through_slots(struct run *run, int sender, size_t bytes, unsigned long *number) {
    struct shared *shared = run->shared;
    for (size_t at = 0; at < bytes; at += run->chunk) {
        size_t slot = *number % SLOTS, piece = bytes - at < run->chunk ? bytes - at : run->chunk;
        if (run->rank == sender) {
            if (*number >= SLOTS) spin_until(&shared->taken[sender], *number - SLOTS + 1);
            memcpy(shared->slots[sender][slot], run->out + at, piece);
            publish(&shared->full[sender][slot], *number + 1);
        } else {
            spin_until(&shared->full[sender][slot], *number + 1);
            memcpy(run->in + at, shared->slots[sender][slot], piece);
            publish(&shared->taken[sender], *number + 1);
        }
        ++*number;
    }
}

static double double_copy(struct run *run, size_t bytes, int operations) {
    static unsigned long numbers[2];
    double start = seconds_now();
    for (int i = 0; i < operations; i++) {
        through_slots(run, 0, bytes, &numbers[0]);
        through_slots(run, 1, bytes, &numbers[1]);
    }
    return (seconds_now() - start) / operations / 2;
}

const struct floor_kind MEMORY_FLOORS[] = {
    {.name = "bounce-one-line", .block = bounce_one, .bytes_min = 8, .bytes_max = 8},
    {.name = "bounce-two-lines", .block = bounce_two, .bytes_min = 8, .bytes_max = 8},
    {.name = "exchange", .block = exchange},
    {.name = "cells", .block = cells, .bytes_min = 8, .bytes_max = 8, .windowed = 1},
    {.name = "copy", .block = copy, .bytes_min = 1024, .bytes_max = 4 << 20},
    {.name = "pack-8", .block = pack_8, .bytes_min = 1024, .bytes_max = 4 << 20},
    {.name = "pack-64", .block = pack_64, .bytes_min = 1024, .bytes_max = 4 << 20},
    {.name = "cma", .block = cma, .bytes_min = 4096, .bytes_max = 4 << 20, .contents = OF_BOTH},
    {.name = "split", .block = split, .bytes_min = 8192, .bytes_max = 4 << 20, .contents = OF_BOTH},
    {.name = "double-copy",
     .block = double_copy,
     .bytes_min = 4096,
     .bytes_max = 4 << 20,
     .chunks = {32 << 10, 64 << 10, 128 << 10},
     .contents = OF_BOTH},
    {.name = NULL},
};
