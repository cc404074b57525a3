/* Blocked: what a rank costs that waits for a message which does not come for a long time, and how
 * long it takes to notice the message in the end. Rank 0 computes nothing meanwhile: it sleeps outside
 * of MPI. Told are the time from before the send to after the receive, in microseconds, and the share
 * of a cpu that the waiting rank used, in percent. Both ranks must run on one machine. */
#define _XOPEN_SOURCE 700
#include "bench.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

enum { TAG = 1, LONG_MS = 250, SHORT_MS = 25, LONGS = 3 };

static double machine_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* One message after a pause. The receiver's answer: the time under way; `cpu` is its share. */
static double late_message(struct bench *bench, int pause_ms, double *cpu) {
    double sent = 0, seconds = 0;
    MPI_Sendrecv(NULL, 0, MPI_BYTE, 1 - bench->rank, TAG, NULL, 0, MPI_BYTE, 1 - bench->rank, TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (bench->rank == 0) {
        nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000L}, NULL);
        sent = machine_seconds();
        MPI_Send(&sent, 1, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD);
        MPI_Recv(&seconds, 1, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(cpu, 1, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return seconds;
    }
    double start = machine_seconds(), before = cpu_seconds();
    MPI_Recv(&sent, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double end = machine_seconds();
    *cpu = (cpu_seconds() - before) / (end - start);
    seconds = end - sent;
    if (!(0 <= seconds && sent - start < 60)) bench_wrong(bench, sizeof sent, "the message's time is wrong");
    MPI_Send(&seconds, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD);
    MPI_Send(cpu, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD);
    return seconds;
}

static int least_first(const double *samples, int count) {
    int least = 0;
    for (int i = 1; i < count; i++)
        if (samples[i] < samples[least]) least = i;
    return least;
}

/* The middle one of three. */
static double middle(const double *three) {
    int least = least_first(three, LONGS), rest = least == 0 ? 1 : 0;
    double a = three[rest], b = three[3 - least - rest];
    return a < b ? a : b;
}

int main(int argc, char **argv) {
    struct bench bench;
    double samples[BLOCKS], shares[LONGS], share;
    bench_open(&bench, "blocked", argc, argv, 8, 8, 2);
    bench_heading(&bench, MICROSECONDS);
    if (bench.rank < 2) {
        for (int i = 0; i < BLOCKS; i++) samples[i] = late_message(&bench, SHORT_MS, &share);
        for (int i = 0; i < LONGS; i++) late_message(&bench, LONG_MS, &shares[i]);
        bench_row(&bench, MICROSECONDS, 8, samples, 8, 1);
    }
    if (bench.rank == 0) {
        FILE *file = bench.json_file;
        if (file != NULL)
            fprintf(file,
                    "{\"benchmark\":\"blocked_cpu\",\"label\":\"\",\"ranks\":2,\"bytes\":8,\"min_us\":0,"
                    "\"median_us\":0,\"median_mb_s\":0,\"median_msg_s\":0,\"cpu_percent\":%.4f}\n",
                    100 * middle(shares));
        else printf("# the waiting rank used %.3f %% of a cpu\n", 100 * middle(shares));
    }
    return bench_close(&bench);
}
