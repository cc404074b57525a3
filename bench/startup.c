/* Start-up: what a job costs before it does anything. The time is taken from outside; here every rank
 * starts, speaks to its neighbours and to all, and tells how much memory it takes (its share of what
 * is shared, "PSS"), where it may run, and on which library. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64 };

/* The first number or word behind `name:` in a file of /proc. */
static void proc_word(const char *path, const char *name, char *word) {
    char line[512];
    FILE *file = fopen(path, "r");
    strcpy(word, "");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0) sscanf(line + strlen(name), ": %63s", word);
    if (file != NULL) fclose(file);
}

static int ascending(const void *left, const void *right) {
    long a = *(const long *)left, b = *(const long *)right;
    return (a > b) - (a < b);
}

static void tell(struct bench *bench, long *kib, const char *cpus) {
    FILE *file = bench->json_file;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\r\n")] = '\0';
    qsort(kib, (size_t)bench->size, sizeof *kib, ascending);
    if (file == NULL) file = stdout;
    fprintf(file,
            "{\"benchmark\":\"startup\",\"label\":\"\",\"ranks\":%d,\"bytes\":%d,\"min_us\":0,\"median_us\":0,"
            "\"median_mb_s\":0,\"median_msg_s\":0,\"pss_kib\":%ld,\"pss_most_kib\":%ld,\"cpus\":\"",
            bench->size, bench->size, kib[bench->size / 2], kib[bench->size - 1]);
    for (int rank = 0; rank < bench->size; rank++)
        fprintf(file, "%s%s", rank > 0 ? " " : "", cpus + rank * WORD_MAX);
    fputs("\",\"library\":\"", file);
    for (const char *at = version; *at != '\0'; at++)
        if (*at != '"' && *at != '\\' && (unsigned char)*at >= ' ') fputc(*at, file);
    fputs("\"}\n", file);
    fflush(file);
}

/* A little of what every program does first. */
static void speak(struct bench *bench) {
    int mine = bench->rank + 1, got = 0;
    int right = (bench->rank + 1) % bench->size, left = (bench->rank + bench->size - 1) % bench->size;
    long sum = 0, one = mine, all = (long)bench->size * (bench->size + 1) / 2;
    MPI_Sendrecv(&mine, 1, MPI_INT, right, 1, &got, 1, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (got != left + 1) bench_wrong(bench, sizeof got, "the neighbour's word is wrong");
    MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (sum != all) bench_wrong(bench, sizeof sum, "the sum over all ranks is wrong");
}

int main(int argc, char **argv) {
    struct bench bench;
    char word[WORD_MAX] = "";
    bench_open(&bench, "startup", argc, argv, 0, 0, 1);
    speak(&bench);
    proc_word("/proc/self/smaps_rollup", "Pss", word);
    long mine = atol(word), *kib = calloc((size_t)bench.size, sizeof *kib);
    char *cpus = calloc((size_t)bench.size, WORD_MAX);
    if (kib == NULL || cpus == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
    proc_word("/proc/self/status", "Cpus_allowed_list", word);
    MPI_Gather(&mine, 1, MPI_LONG, kib, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    MPI_Gather(word, WORD_MAX, MPI_CHAR, cpus, WORD_MAX, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (bench.rank == 0) tell(&bench, kib, cpus);
    free(kib);
    free(cpus);
    return bench_close(&bench);
}
