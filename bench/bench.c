/* See bench.h. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t LARGE_BYTES = 8192;

static const char USAGE[] =
    "options:\n"
    "  --min BYTES        smallest message (K, M, G are understood)\n"
    "  --max BYTES        largest message\n"
    "  --iterations N     operations per size (a tenth of it above 8 KiB)\n"
    "  --warmup N         operations before timing starts\n"
    "  --window N         messages under way at once (bandwidth, message rate)\n"
    "  --window-bytes N   memory of a window at most; large messages have fewer under way\n"
    "  --block BYTES      one piece of strided data (vector_latency): a power of two, 8 at least\n"
    "  --threads N        threads of each rank (thread_rate)\n"
    "  --tests N          tests of a request while the program computes (overlap)\n"
    "  --fresh yes|no     write what is given before each operation, and read what is gotten behind it, within\n"
    "                     the time that is told (collectives; default no)\n"
    "  --apart LEAST,MOST,FILE  wait before each block until a cache line takes so many ns from one rank's\n"
    "                     cpu to the other's; two ranks on one node, which share this file\n"
    "  --validate yes|no  compare the contents after each block (default yes)\n"
    "  --json FILE        also write one JSON object per line; - for stdout, without the table\n"
    "  --label TEXT       name of this series in the JSON (default: $WEFT_FABRIC)\n";

/* ---- command line ---- */

static int parse_bytes(const char *text, size_t *bytes) {
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || text[0] == '-') return 0;
    if (*end == 'K' || *end == 'k') value <<= 10, end++;
    else if (*end == 'M' || *end == 'm') value <<= 20, end++;
    else if (*end == 'G' || *end == 'g') value <<= 30, end++;
    *bytes = (size_t)value;
    return *end == '\0';
}

static int parse_count(const char *text, int least, int *count) {
    char *end = NULL;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < least || value > 1000000000) return 0;
    *count = (int)value;
    return 1;
}

static int parse_yes(const char *text, int *yes) {
    *yes = strcmp(text, "yes") == 0;
    return *yes || strcmp(text, "no") == 0;
}

static int parse_option(struct options *options, const char *name, const char *value) {
    if (strcmp(name, "--min") == 0) return parse_bytes(value, &options->bytes_min);
    if (strcmp(name, "--max") == 0) return parse_bytes(value, &options->bytes_max);
    if (strcmp(name, "--iterations") == 0) return parse_count(value, 1, &options->iterations);
    if (strcmp(name, "--warmup") == 0) return parse_count(value, 0, &options->warmup);
    if (strcmp(name, "--window") == 0) return parse_count(value, 1, &options->window);
    if (strcmp(name, "--window-bytes") == 0) return parse_bytes(value, &options->window_bytes);
    if (strcmp(name, "--block") == 0)
        return parse_bytes(value, &options->block_bytes) && options->block_bytes >= 8 &&
               (options->block_bytes & (options->block_bytes - 1)) == 0;
    if (strcmp(name, "--threads") == 0)
        return parse_count(value, 1, &options->threads) && options->threads <= BENCH_THREADS_MAX;
    if (strcmp(name, "--tests") == 0) return parse_count(value, 1, &options->tests);
    if (strcmp(name, "--fresh") == 0) return parse_yes(value, &options->fresh);
    if (strcmp(name, "--validate") == 0) return parse_yes(value, &options->validate);
    if (strcmp(name, "--apart") == 0) return options->apart = value, 1;
    if (strcmp(name, "--json") == 0) return options->json = value, 1;
    if (strcmp(name, "--label") == 0) return options->label = value, 1;
    return 0;
}

static void stop(const struct bench *bench, const char *sentence, const char *detail) {
    if (bench->rank == 0) fprintf(stderr, "%s: %s%s\n%s", bench->name, sentence, detail, USAGE);
    MPI_Finalize();
    exit(2);
}

static void parse(struct bench *bench, int argc, char **argv) {
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--help") == 0) stop(bench, "a benchmark of MPI", "");
        if (i + 1 == argc) stop(bench, "a value is missing after ", argv[i]);
        if (!parse_option(&bench->options, argv[i], argv[i + 1]))
            stop(bench, "cannot understand ", argv[i]);
    }
    if (bench->options.bytes_max < bench->options.bytes_min)
        stop(bench, "--max is less than --min", "");
    if (bench->options.bytes_max > 1u << 30)
        stop(bench, "--max is more than 1G, the largest size supported", "");
}

/* ---- opening and closing ---- */

static int to_stdout(const struct bench *bench) {
    return bench->options.json != NULL && strcmp(bench->options.json, "-") == 0;
}

static void open_json(struct bench *bench) {
    int opened = 1;
    if (bench->rank == 0 && bench->options.json != NULL) {
        bench->json_file = to_stdout(bench) ? stdout : fopen(bench->options.json, "w");
        opened = bench->json_file != NULL;
    }
    MPI_Bcast(&opened, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!opened) stop(bench, "cannot write ", bench->options.json);
}

/* Both ranks map the file; whoever is the first makes it long enough. */
static void open_apart(struct bench *bench) {
    int file = -1, used = 0;
    double least, most;
    if (bench->options.apart == NULL) return;
    if (sscanf(bench->options.apart, "%lf,%lf,%n", &least, &most, &used) != 2 || used == 0 || least < 0 || most <= least)
        stop(bench, "cannot understand --apart ", bench->options.apart);
    if (bench->size != 2) stop(bench, "--apart is for two ranks", "");
    file = open(bench->options.apart + used, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct apart_lines)) != 0) stop(bench, "cannot write ", bench->options.apart + used);
    bench->apart.lines = mmap(NULL, sizeof(struct apart_lines), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (bench->apart.lines == MAP_FAILED) stop(bench, "cannot map ", bench->options.apart + used);
    close(file);
    /* What an earlier run has left in it. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench->rank == 0) memset(bench->apart.lines, 0, sizeof *bench->apart.lines);
    MPI_Barrier(MPI_COMM_WORLD);
    bench->apart.least = least * 1e-9;
    bench->apart.most = most * 1e-9;
}

static void open_at(struct bench *bench, int wanted, const char *name, int argc, char **argv,
                    size_t bytes_min, size_t bytes_max, int ranks_min) {
    const char *fabric = getenv("WEFT_FABRIC");
    int allowed;
    memset(bench, 0, sizeof *bench);
    bench->name = name;
    bench->options = (struct options){.bytes_min = bytes_min,
                                      .bytes_max = bytes_max,
                                      .iterations = 2000,
                                      .warmup = 100,
                                      .window = 64,
                                      .window_bytes = 8u << 20,
                                      .block_bytes = 8,
                                      .threads = 4,
                                      .tests = 10,
                                      .validate = 1,
                                      .label = fabric != NULL ? fabric : ""};
    MPI_Init_thread(&argc, &argv, wanted, &allowed);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench->size);
    parse(bench, argc, argv);
    if (allowed < wanted) stop(bench, "this library does not let several threads call", "");
    if (bench->size < ranks_min) stop(bench, "this benchmark needs two ranks or more: ", "-n 2");
    open_json(bench);
    open_apart(bench);
}

void bench_open(struct bench *bench, const char *name, int argc, char **argv, size_t bytes_min,
                size_t bytes_max, int ranks_min) {
    open_at(bench, MPI_THREAD_SINGLE, name, argc, argv, bytes_min, bytes_max, ranks_min);
}

void bench_open_threads(struct bench *bench, const char *name, int argc, char **argv, size_t bytes_min,
                        size_t bytes_max, int ranks_min) {
    open_at(bench, MPI_THREAD_MULTIPLE, name, argc, argv, bytes_min, bytes_max, ranks_min);
}

int bench_close(struct bench *bench) {
    long wrong = 0;
    MPI_Allreduce(&bench->wrong_bytes, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (bench->rank == 0 && wrong > 0)
        fprintf(stderr, "%s: %ld bytes were not as they were sent\n", bench->name, wrong);
    if (bench->json_file != NULL && !to_stdout(bench)) fclose(bench->json_file);
    MPI_Finalize();
    return wrong > 0;
}

/* ---- the sweep ---- */

size_t bench_next(size_t bytes) {
    return bytes == 0 ? 1 : 2 * bytes;
}

int bench_block_operations(const struct bench *bench, size_t bytes) {
    int iterations = bench->options.iterations;
    /* Of more than two ranks each is a root once at least: where one call is a block, who comes late from the barrier before it
     * finds all done. */
    int least = bench->size > 2 ? bench->size : 1;
    if (bytes > LARGE_BYTES) iterations /= 10;
    return iterations < BLOCKS * least ? least : iterations / BLOCKS;
}

void bench_settle(struct bench *bench) {
    if (bench->rank > 1 || apart_settle(&bench->apart, bench->rank)) return;
    fprintf(stderr, "%s: the cpus were never as far apart as --apart says\n", bench->name);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

int bench_window(const struct bench *bench, size_t bytes) {
    size_t most = bench->options.window_bytes, fitting = bytes == 0 ? most : most / bytes;
    if (fitting < 2) fitting = 2;
    return fitting < (size_t)bench->options.window ? (int)fitting : bench->options.window;
}

/* ---- buffers ---- */

unsigned char *bench_buffer(size_t bytes) {
    void *memory = NULL;
    if (bytes == 0) bytes = 1;
    if (posix_memalign(&memory, 4096, bytes) != 0) {
        fprintf(stderr, "no memory for a buffer of %zu bytes; try a smaller --max\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memset(memory, 0xa5, bytes);
    return memory;
}

static unsigned char pattern(size_t at, unsigned seed) {
    return (unsigned char)(at * 13u + (at >> 8) * 7u + seed * 101u + 1u);
}

void bench_fill(unsigned char *buffer, size_t bytes, unsigned seed) {
    for (size_t at = 0; at < bytes; at++) buffer[at] = pattern(at, seed);
}

void bench_spoil(unsigned char *buffer, size_t bytes, unsigned seed) {
    for (size_t at = 0; at < bytes; at++) buffer[at] = (unsigned char)~pattern(at, seed);
}

void bench_verify(struct bench *bench, const unsigned char *buffer, size_t bytes, unsigned seed) {
    size_t wrong = 0, first = 0;
    if (!bench->options.validate) return;
    for (size_t at = bytes; at-- > 0;) {
        if (buffer[at] == pattern(at, seed)) continue;
        wrong++;
        first = at;
    }
    if (wrong == 0) return;
    fprintf(stderr, "%s: rank %d: byte %zu of %zu is 0x%02x, not 0x%02x\n", bench->name,
            bench->rank, first, bytes, buffer[first], pattern(first, seed));
    bench->wrong_bytes += (long)wrong;
}

void bench_wrong(struct bench *bench, size_t wrong, const char *what) {
    fprintf(stderr, "%s: rank %d: %s\n", bench->name, bench->rank, what);
    bench->wrong_bytes += (long)wrong;
}

/* ---- sums ---- */

double bench_element(int rank, size_t at, unsigned seed) {
    return (double)((at * 31 + seed * 17 + (unsigned)rank * 7) % 1021);
}

double bench_sum(int first, int last, size_t at, unsigned seed) {
    double sum = 0;
    for (int rank = first; rank <= last; rank++) sum += bench_element(rank, at, seed);
    return sum;
}

void bench_fill_elements(const struct bench *bench, void *out, void *in, size_t count, unsigned seed) {
    double *values = out, *sums = in;
    for (size_t at = 0; at < count; at++) {
        values[at] = bench_element(bench->rank, at, seed);
        sums[at] = -1;
    }
}

void bench_verify_sums(struct bench *bench, const void *in, size_t count, size_t begin, int first, int last, unsigned seed) {
    const double *sums = in;
    for (size_t at = 0; at < count; at++) {
        char text[128];
        double right = bench_sum(first, last, begin + at, seed);
        if (sums[at] == right) continue;
        snprintf(text, sizeof text, "element %zu of %zu is %g, not %g", at, count, sums[at], right);
        bench_wrong(bench, sizeof *sums, text);
        return;
    }
}

/* ---- telling ---- */

void bench_heading(const struct bench *bench, enum unit unit) {
    static const char *columns[] = {"min us       median us", "best MB/s    median MB/s",
                                    "best msg/s   median msg/s", "least %      median %",
                                    "least times  median times"};
    if (bench->rank != 0 || to_stdout(bench)) return;
    printf("# %s, %d ranks%s%s%s\n# bytes      %s\n", bench->name, bench->size,
           bench->options.validate ? ", contents verified" : "",
           bench->options.label[0] != '\0' ? ", " : "", bench->options.label, columns[unit]);
    fflush(stdout);
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The label comes from the command line and may hold anything; JSON may not. */
static void write_json_string(FILE *file, const char *text) {
    fputc('"', file);
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') fprintf(file, "\\%c", byte);
        else if (byte < 0x20) fprintf(file, "\\u%04x", byte);
        else fputc(byte, file);
    }
    fputc('"', file);
}

/* The beginning of a row; what follows are numbers. */
static void open_json_row(struct bench *bench, size_t bytes) {
    fprintf(bench->json_file, "{\"benchmark\":\"%s\",\"label\":", bench->name);
    write_json_string(bench->json_file, bench->options.label);
    fprintf(bench->json_file, ",\"ranks\":%d,\"bytes\":%zu", bench->size, bytes);
}

static void write_json(struct bench *bench, size_t bytes, double least, double median,
                       double bytes_per_operation, double messages_per_operation) {
    FILE *file = bench->json_file;
    if (file == NULL) return;
    open_json_row(bench, bytes);
    fprintf(file,
            ",\"min_us\":%.4f,\"median_us\":%.4f,"
            "\"best_mb_s\":%.4f,\"median_mb_s\":%.4f,\"best_msg_s\":%.1f,\"median_msg_s\":%.1f}\n",
            least * 1e6, median * 1e6, bytes_per_operation / least / 1e6,
            bytes_per_operation / median / 1e6, messages_per_operation / least,
            messages_per_operation / median);
    fflush(file);
}

/* What is no time. */
static void tell_number(struct bench *bench, size_t bytes, double least, double median) {
    if (bench->json_file != NULL) {
        open_json_row(bench, bytes);
        fprintf(bench->json_file, ",\"min\":%.4f,\"median\":%.4f}\n", least, median);
        fflush(bench->json_file);
    }
    if (to_stdout(bench)) return;
    printf("%-12zu %-12.2f %.2f\n", bytes, least, median);
    fflush(stdout);
}

double bench_median(const double *samples) {
    double sorted[BLOCKS];
    memcpy(sorted, samples, sizeof sorted);
    qsort(sorted, BLOCKS, sizeof *sorted, ascending);
    return (sorted[BLOCKS / 2 - 1] + sorted[BLOCKS / 2]) / 2;
}

void bench_row(struct bench *bench, enum unit unit, size_t bytes, double *samples,
               double bytes_per_operation, double messages_per_operation) {
    double scale[] = {1e6, bytes_per_operation / 1e6, messages_per_operation};
    if (bench->rank != 0) return;
    qsort(samples, BLOCKS, sizeof *samples, ascending);
    double median = bench_median(samples);
    if (unit == PERCENT || unit == TIMES) {
        tell_number(bench, bytes, samples[0], median);
        return;
    }
    /* A clock too coarse for a tiny block must not become a division by zero. */
    double least = samples[0] > 1e-12 ? samples[0] : 1e-12;
    if (median < least) median = least;
    write_json(bench, bytes, least, median, bytes_per_operation, messages_per_operation);
    if (to_stdout(bench)) return;
    if (unit == MICROSECONDS) printf("%-12zu %-12.3f %.3f\n", bytes, least * scale[0], median * scale[0]);
    else printf("%-12zu %-12.2f %.2f\n", bytes, scale[unit] / least, scale[unit] / median);
    fflush(stdout);
}

/* ---- collectives ---- */

double bench_slowest(double seconds, MPI_Comm comm) {
    double most = 0;
    MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, comm);
    return most;
}

enum { LINE = 64 };

/* Writes each line as it is: it is in this rank's cache alone then, as if the program had just made what stands there. */
static void make_anew(volatile unsigned char *data, size_t bytes) {
    for (size_t at = 0; at < bytes; at += LINE) data[at] = data[at];
}

static void look_through(const volatile unsigned char *data, size_t bytes) {
    for (size_t at = 0; at < bytes; at += LINE) (void)data[at];
}

static size_t places_of(const struct bench *bench, const struct collective *collective) {
    return collective->per_rank ? (size_t)bench->size : collective->blocks ? (size_t)collective->blocks : 1;
}

static void call_fresh(struct bench *bench, const struct collective *collective, unsigned char *out, unsigned char *in,
                       size_t bytes, int operation) {
    size_t all = bytes * places_of(bench, collective);
    make_anew(out, all);
    collective->call(bench, out, in, bytes, operation);
    look_through(in, all);
}

static void collective_size(struct bench *bench, const struct collective *collective,
                            unsigned char *out, unsigned char *in, size_t bytes) {
    int operations = bench_block_operations(bench, bytes);
    double samples[BLOCKS];
    collective->prepare(bench, out, in, bytes, 0);
    for (int i = 0; i < bench->options.warmup; i++) collective->call(bench, out, in, bytes, i);
    for (int block = 0; block < BLOCKS; block++) {
        collective->prepare(bench, out, in, bytes, (unsigned)block + 1);
        bench_settle(bench);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        if (bench->options.fresh)
            for (int i = 0; i < operations; i++) call_fresh(bench, collective, out, in, bytes, i);
        else
            for (int i = 0; i < operations; i++) collective->call(bench, out, in, bytes, i);
        samples[block] = bench_slowest((MPI_Wtime() - start) / operations, MPI_COMM_WORLD);
        if (bench->options.validate)
            collective->verify(bench, in, bytes, (unsigned)block + 1, operations - 1);
    }
    bench_row(bench, MICROSECONDS, bytes, samples, (double)bytes, 1);
}

void bench_collective(struct bench *bench, const struct collective *collective) {
    size_t places = places_of(bench, collective);
    unsigned char *out = bench_buffer(bench->options.bytes_max * places);
    unsigned char *in = bench_buffer(bench->options.bytes_max * places);
    bench_heading(bench, MICROSECONDS);
    for (size_t bytes = bench->options.bytes_min; bytes <= bench->options.bytes_max; bytes = bench_next(bytes))
        collective_size(bench, collective, out, in, bytes);
    free(out);
    free(in);
}
