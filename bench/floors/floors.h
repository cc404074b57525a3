/* What the machine itself can do, with no library between: the floors that benchmarks of MPI stand on.
 *
 * A floor is measured by processes of its own, each pinned to a cpu, over memory that they share,
 * over a raw socket, or over a provider of libfabric. All processes run the same function; the one of rank 0 tells the result, in
 * JSON lines like those of the benchmarks. */
#ifndef WEFT_FLOORS_H
#define WEFT_FLOORS_H

#include "../apart.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

enum { BLOCKS = 20, LINE = 128, CELLS = 256, SLOTS = 4, SLOT_BYTES_MAX = 128 << 10, RANKS_MAX = 256 };

/* A word with its line, and the neighbour that the hardware fetches with it, to itself. */
struct line {
    _Alignas(LINE) _Atomic unsigned long word;
    unsigned char payload[56];
};

/* Where an endpoint of libfabric is reached. */
struct endpoint_name {
    size_t bytes;
    char text[256];
};

/* Memory that all processes of a floor share. Zero at the start. */
struct shared {
    struct line meet, gone;     /* the barrier between blocks */
    struct line ping, pong;     /* one line each way; `ping` alone for both ways */
    struct line ready, done[2]; /* one copy under way */
    struct line credit;
    struct line cells[CELLS];
    struct line full[2][SLOTS], taken[2]; /* of the slots, one ring each way */
    struct line count, turn;    /* the barrier that is measured */
    struct apart_lines apart;
    struct endpoint_name names[2];
    unsigned char slots[2][SLOTS][SLOT_BYTES_MAX];
};

/* One process of a floor. */
struct run {
    int rank, ranks;
    struct shared *shared;
    pid_t pids[RANKS_MAX];
    unsigned char *out, *in;    /* private, at the same address in every process */
    struct apart apart;         /* how far apart the cpus are to be */
    int socket;                 /* to the other rank, or -1 */
    char library[64];           /* what is measured, where that is a library */
    size_t chunk;               /* variant of the floor, see `chunks` */
    unsigned long sequence;     /* operations of this kind so far: what flags count in */
};

/* After a block `in` must hold the other's `out`: at nobody, at both, at rank 1 alone. Before each block both are written
 * anew then, as the benchmarks do it. */
enum contents { NO_CONTENTS, OF_BOTH, OF_RANK_0 };

/* One kind of floor. */
struct floor_kind {
    const char *name;
    double (*block)(struct run *, size_t bytes, int operations); /* seconds of one operation */
    size_t bytes_min, bytes_max; /* unless the command line says otherwise */
    size_t chunks[4];            /* variants, the best of which counts; ends with 0 */
    int windowed;                /* an operation moves a window of messages */
    int sockets;                 /* needs a connection */
    int provider;                /* needs an endpoint of libfabric */
    int one_cpu;                 /* all processes on the first cpu */
    enum contents contents;
};

extern const struct floor_kind MEMORY_FLOORS[], SOCKET_FLOORS[], YIELD_FLOORS[], PROVIDER_FLOORS[];

double seconds_now(void);
void fail(const char *what);
/* All processes wait for each other. */
void meet(struct run *run);
/* Messages of this size in a window: as in the benchmarks. */
int window_of(size_t bytes);

/* Waits while spinning until the word is at least `value`. */
void spin_until(const struct line *line, unsigned long value);
void publish(struct line *line, unsigned long value);

struct network {
    const char *namespaces[2]; /* of rank 0 and rank 1, or null */
    const char *address;       /* of rank 0 */
    const char *provider;      /* of libfabric, by its whole name */
    const char *library;       /* libfabric's */
};
/* Connects rank 0 and rank 1; the port travels through shared memory. */
int connect_pair(struct run *run, const struct network *network);
/* Opens an endpoint of libfabric that knows its peer; closes it when both are done. */
void open_provider(struct run *run, const struct network *network);
void close_provider(struct run *run);

#endif
