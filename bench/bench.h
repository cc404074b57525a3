/* What every benchmark here shares: options, buffers with verifiable contents, samples, and the
 * two ways of telling the result (a table for people, JSON lines for programs).
 *
 * A benchmark is a sweep over message sizes. At each size it runs a number of timed blocks; each
 * block gives one sample, and the minimum and the median of the samples are told. Between blocks,
 * outside of the timed part, the buffers are filled anew and what arrived is compared with what
 * was sent, so that no library is flattered by pages never touched or bytes never moved. */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include "apart.h"

#include <mpi.h>
#include <stddef.h>

struct options {
    size_t bytes_min;    /* smallest message of the sweep */
    size_t bytes_max;    /* largest message of the sweep */
    int iterations;      /* operations per size, over all blocks; a tenth of it above 8 KiB */
    int warmup;          /* operations before the first block, not timed */
    int window;          /* messages under way at once, where a benchmark has several */
    size_t window_bytes; /* memory that a window may take */
    size_t block_bytes;  /* one piece of strided data, where a benchmark has such */
    int threads;         /* threads of a rank, where a benchmark has several */
    int tests;           /* tests of a request that is under way, where a benchmark makes them */
    int validate;        /* compare contents after each block */
    int fresh;           /* what is given is written before each operation, what is gotten is read behind it */
    const char *apart;   /* how far apart the cpus of two ranks are to be: see USAGE; or null */
    const char *json;    /* file for JSON lines, "-" for stdout in place of the table, or null */
    const char *label;   /* name of the series in the JSON output */
};

/* One benchmark under way: who I am, what was asked for, and what was found. */
struct bench {
    const char *name;
    int rank, size;
    struct options options;
    void *json_file;
    struct apart apart;
    long wrong_bytes;    /* contents that were not as sent, seen by this rank */
};

enum { BLOCKS = 20, BENCH_THREADS_MAX = 64 };

/* What is told of the samples: a time of each operation, bytes moved in a second, or messages
 * moved in a second; or they are no times, but hundredths of something or times as much as something. */
enum unit { MICROSECONDS, MEGABYTES_PER_SECOND, MESSAGES_PER_SECOND, PERCENT, TIMES };

/* Starts MPI and reads the command line. Ends the program, with a sentence from rank 0, when an
 * option is wrong (status 2) or when there are fewer than `ranks_min` ranks (status 2). */
void bench_open(struct bench *bench, const char *name, int argc, char **argv, size_t bytes_min,
                size_t bytes_max, int ranks_min);

/* The same for a benchmark whose threads all call MPI; also ends when the library does not allow it. */
void bench_open_threads(struct bench *bench, const char *name, int argc, char **argv, size_t bytes_min,
                        size_t bytes_max, int ranks_min);

/* Tells the verdict over all ranks and ends MPI. The answer is the exit status of the program:
 * 0, or 1 when any rank saw wrong contents. */
int bench_close(struct bench *bench);

/* The size after `bytes` in the sweep: 0, 1, 2, 4, 8, ... */
size_t bench_next(size_t bytes);

/* Operations in one timed block at this message size, at least one. */
int bench_block_operations(const struct bench *bench, size_t bytes);

/* Before each timed block, at both of two ranks: waits until their cpus are as far apart as was asked for, if it was. Ends the job
 * where they never are. */
void bench_settle(struct bench *bench);

/* Messages of this size that are kept under way: the window asked for, made smaller (to two at
 * least) so that the slots of all of them stay within `window_bytes`. */
int bench_window(const struct bench *bench, size_t bytes);

/* Page-aligned memory of at least one byte, every page of it written. */
unsigned char *bench_buffer(size_t bytes);

/* Writes the pattern that belongs to `seed`; spoils a buffer in which that pattern is to arrive, so
 * that every byte that does not arrive is wrong; compares. */
void bench_fill(unsigned char *buffer, size_t bytes, unsigned seed);
void bench_spoil(unsigned char *buffer, size_t bytes, unsigned seed);
void bench_verify(struct bench *bench, const unsigned char *buffer, size_t bytes, unsigned seed);

/* Counts `wrong` bytes that a benchmark found by other means, with one line to stderr. */
void bench_wrong(struct bench *bench, size_t wrong, const char *what);

/* Element `at` of what a rank puts into a sum, and the sum of what ranks `first` up to `last` put in. Small whole numbers:
 * their sums are exact in any order and on any number of ranks. */
double bench_element(int rank, size_t at, unsigned seed);
double bench_sum(int first, int last, size_t at, unsigned seed);

/* Writes this rank's `count` elements, and spoils the place where their sums are to arrive; compares `count` sums of what ranks
 * `first` up to `last` have put in, of which the first is that of element `begin`. */
void bench_fill_elements(const struct bench *bench, void *out, void *in, size_t count, unsigned seed);
void bench_verify_sums(struct bench *bench, const void *in, size_t count, size_t begin, int first, int last, unsigned seed);

/* The longest of the times that the ranks give. */
double bench_slowest(double seconds, MPI_Comm comm);

/* The median of `BLOCKS` samples, which stay as they are. */
double bench_median(const double *samples);

void bench_heading(const struct bench *bench, enum unit unit);

/* Tells the row of one size on rank 0. `samples` holds `BLOCKS` times in seconds, one operation
 * each, and is sorted; `bytes_per_operation` and `messages_per_operation` turn a time into a rate.
 * What is no time is told in JSON as `min` and `median`. */
void bench_row(struct bench *bench, enum unit unit, size_t bytes, double *samples,
               double bytes_per_operation, double messages_per_operation);

/* A collective benchmark: one call, timed back to back on all ranks, where the slowest rank of a
 * block counts. `bytes` is the size of the sweep, as the heading of each program explains it. */
struct collective {
    int per_rank; /* buffers of `bytes` for each rank, in place of `bytes` in all */
    int blocks;   /* or for so many blocks, where that is not 0 */
    void (*prepare)(struct bench *, unsigned char *out, unsigned char *in, size_t bytes, unsigned seed);
    void (*call)(struct bench *, unsigned char *out, unsigned char *in, size_t bytes, int operation);
    void (*verify)(struct bench *, unsigned char *in, size_t bytes, unsigned seed, int last_operation);
};

void bench_collective(struct bench *bench, const struct collective *collective);

#endif
