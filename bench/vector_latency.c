/* Latency of strided data: half of a round trip of a vector of small blocks with gaps as large as the
 * blocks (MPI_Type_vector), sent and received as such. The size is that of the data without the gaps;
 * `--block` is that of one block. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { TAG = 1, GAP_BYTE = 0x5a };

struct strided {
    size_t block;
    unsigned char *out, *in, *packed;
    MPI_Datatype type;
};

static void round_trip(const struct bench *bench, struct strided *strided) {
    if (bench->rank == 0) {
        MPI_Send(strided->out, 1, strided->type, 1, TAG, MPI_COMM_WORLD);
        MPI_Recv(strided->in, 1, strided->type, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(strided->in, 1, strided->type, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(strided->out, 1, strided->type, 0, TAG, MPI_COMM_WORLD);
    }
}

/* Puts `bytes` of packed data into their places. */
static void scatter(const struct strided *strided, unsigned char *to, size_t bytes) {
    for (size_t at = 0; at < bytes; at += strided->block)
        memcpy(to + 2 * at, strided->packed + at, strided->block);
}

/* Packs what came, and counts bytes of the gaps that were written: nobody may touch them. */
static size_t gather(const struct strided *strided, size_t bytes) {
    size_t touched = 0;
    for (size_t at = 0; at < bytes; at += strided->block) {
        memcpy(strided->packed + at, strided->in + 2 * at, strided->block);
        for (size_t gap = 0; gap < strided->block && at + strided->block < bytes; gap++)
            touched += strided->in[2 * at + strided->block + gap] != GAP_BYTE;
    }
    return touched;
}

static double block(struct bench *bench, struct strided *strided, size_t bytes, int number) {
    int operations = bench_block_operations(bench, bytes);
    unsigned mine = 2 * (unsigned)number + (unsigned)bench->rank, other = mine ^ 1;
    memset(strided->in, GAP_BYTE, 2 * bytes);
    bench_fill(strided->packed, bytes, mine);
    scatter(strided, strided->out, bytes);
    bench_spoil(strided->packed, bytes, other);
    scatter(strided, strided->in, bytes);
    bench_settle(bench);
    MPI_Sendrecv(NULL, 0, MPI_BYTE, 1 - bench->rank, TAG, NULL, 0, MPI_BYTE, 1 - bench->rank, TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double start = MPI_Wtime();
    for (int i = 0; i < operations; i++) round_trip(bench, strided);
    double seconds = MPI_Wtime() - start;
    if (bench->options.validate) {
        size_t touched = gather(strided, bytes);
        if (touched > 0) bench_wrong(bench, touched, "bytes between the blocks were written");
        bench_verify(bench, strided->packed, bytes, other);
    }
    return seconds / operations / 2;
}

static void sweep(struct bench *bench, struct strided *strided) {
    double samples[BLOCKS];
    for (size_t bytes = bench->options.bytes_min; bytes <= bench->options.bytes_max; bytes = bench_next(bytes)) {
        int words = (int)(strided->block / sizeof(double));
        MPI_Type_vector((int)(bytes / strided->block), words, 2 * words, MPI_DOUBLE, &strided->type);
        MPI_Type_commit(&strided->type);
        for (int i = 0; i < bench->options.warmup; i++) round_trip(bench, strided);
        for (int i = 0; i < BLOCKS; i++) samples[i] = block(bench, strided, bytes, i);
        MPI_Type_free(&strided->type);
        bench_row(bench, MICROSECONDS, bytes, samples, (double)bytes, 1);
    }
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "vector_latency", argc, argv, 64, 4u << 20, 2);
    struct strided strided = {.block = bench.options.block_bytes};
    if (bench.options.bytes_min < strided.block) bench.options.bytes_min = strided.block;
    strided.out = bench_buffer(2 * bench.options.bytes_max);
    strided.in = bench_buffer(2 * bench.options.bytes_max);
    strided.packed = bench_buffer(bench.options.bytes_max);
    bench_heading(&bench, MICROSECONDS);
    if (bench.rank < 2) sweep(&bench, &strided);
    free(strided.out);
    free(strided.in);
    free(strided.packed);
    return bench_close(&bench);
}
