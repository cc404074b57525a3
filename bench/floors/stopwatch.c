/* stopwatch SECONDS PROGRAM [ARGUMENTS]: runs a program, tells the time from its start to its end as
 * a JSON line, and sees to it that nothing of it is left: what outlives the program, or runs longer
 * than the seconds allowed, is killed. The status is that of the program, or 124 out of time. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t late;

static void out_of_time(int signal) {
    (void)signal;
    late = 1;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Orphans of the program become our own children; kills them until there are none. */
static void sweep(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (;;) {
        FILE *file = fopen(path, "r");
        int child, any = 0;
        while (file != NULL && fscanf(file, "%d", &child) == 1) kill(child, SIGKILL), any = 1;
        if (file != NULL) fclose(file);
        if (!any) return;
        /* One at a time: when a child dies, its own children are ours, and alive. */
        waitpid(-1, NULL, 0);
    }
}

static int wait_for(pid_t child) {
    int status = 0;
    for (;;) {
        pid_t ended = waitpid(-1, &status, 0);
        if (ended == child) break;
        if (late) {
            kill(child, SIGTERM); /* a launcher may want to clean up */
            usleep(300000);
            return 124;
        }
        if (ended < 0 && errno != EINTR) return 1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
    if (argc < 3 || atoi(argv[1]) < 1) {
        fputs("stopwatch SECONDS PROGRAM [ARGUMENTS]\n", stderr);
        return 2;
    }
    /* No SA_RESTART: the alarm has to end the wait. */
    struct sigaction action = {.sa_handler = out_of_time};
    sigaction(SIGALRM, &action, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    double start = seconds_now();
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execvp(argv[2], argv + 2);
        fprintf(stderr, "stopwatch: %s: %s\n", argv[2], strerror(errno));
        _exit(127);
    }
    if (child < 0) return perror("fork"), 1;
    alarm((unsigned)atoi(argv[1]));
    int status = wait_for(child);
    double seconds = seconds_now() - start;
    sweep();
    if (status == 124) fprintf(stderr, "still running after %s s, killed\n", argv[1]);
    printf("{\"benchmark\":\"stopwatch\",\"label\":\"\",\"ranks\":1,\"bytes\":0,\"min_us\":%.1f,"
           "\"median_us\":%.1f,\"median_mb_s\":0,\"median_msg_s\":0}\n",
           seconds * 1e6, seconds * 1e6);
    return status;
}
