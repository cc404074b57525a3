// ranks: 1
// An abort, and an error that is fatal, end the process without the program's handlers for its exit and without destructors, which
// would hide the first error by a second; what was written before is not lost.
#define _GNU_SOURCE 1
#include "check.h"

#include <sys/wait.h>

static void at_exit(void) {
    if (write(1, "handler", 7) < 0) _exit(1);
}

__attribute__((destructor)) static void at_end(void) {
    if (getenv("ABORTS") != NULL && write(1, "destructor", 10) < 0) _exit(1);
}

static int abort_as(const char *how, int argc, char **argv) {
    int value = 0;
    atexit(at_exit);
    printf("written before");
    if (strcmp(how, "outside")) MPI_Init(&argc, &argv);
    if (!strcmp(how, "fatal")) MPI_Send(&value, 1, MPI_INT, 5, 0, MPI_COMM_WORLD);
    if (!strcmp(how, "errors_abort")) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ABORT);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
        MPI_Send(&value, 1, MPI_INT, 5, 0, MPI_COMM_WORLD);
    }
    MPI_Abort(MPI_COMM_WORLD, 7);
    return 0;
}

/* This program again, as a job of its own. */
static void check_abort(char *program, const char *how) {
    int ends[2], status;
    char text[1024], how_told[64], path[4096];
    ssize_t bytes, all = 0;
    pid_t child;
    const char *libraries = getenv("LD_LIBRARY_PATH");
    section(how);
    CHECK(pipe(ends) == 0);
    child = fork();
    if (child == 0) {
        char *arguments[] = {program, NULL}, *environment[] = {how_told, path, NULL};
        snprintf(how_told, sizeof how_told, "ABORTS=%s", how);
        snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", libraries ? libraries : "");
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execve(program, arguments, environment);
        _exit(126);
    }
    close(ends[1]);
    while ((bytes = read(ends[0], text + all, sizeof text - 1 - (size_t)all)) > 0) all += bytes;
    text[all] = '\0';
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    if (strcmp(text, "written before")) fprintf(stderr, "%s: \"%s\"\n", how, text);
    CHECK(!strcmp(text, "written before"));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    if (strstr("outside MPI_Abort", how)) SAME(WEXITSTATUS(status), 7);
}

int main(int argc, char **argv) {
    const char *ways[] = {"MPI_Abort", "outside", "fatal", "errors_abort"};
    if (getenv("ABORTS") != NULL) return abort_as(getenv("ABORTS"), argc, argv);
    check_open(argc, argv);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) check_abort("/proc/self/exe", ways[i]);
    return check_close();
}
