/* What the tests here share: checks that stop the job and say where, a watchdog that says in
 * which section a rank hung, and the closing `ok`.
 *
 * A test begins with a comment that tells the runner what to do:
 *     // ranks: 1 2 3 8      with how many ranks to run it
 *     // exit: 7             the exit status that is right (0 when not given)
 * and prints one line, `ok`, from rank 0 when all went well. */
#ifndef WEFT_CHECK_H
#define WEFT_CHECK_H

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What libraries of an older standard do not have; only ours is asked for it. */
#if MPI_VERSION < 5
#define MPI_ERR_ERRHANDLER MPI_ERR_ARG
#endif
#if MPI_VERSION < 4
#define MPI_Win_create_c MPI_Win_create
#endif

/* Seconds without the next section after which a rank is taken to hang. */
#ifndef CHECK_WATCHDOG_SECONDS
#define CHECK_WATCHDOG_SECONDS 60
#endif

static int check_rank = -1, check_size = -1;
static const char *volatile check_section = "start";

/* Only calls that are allowed in a signal handler. */
static void check_hung(int signal_number) {
    char text[256] = "watchdog: rank ", digits[4];
    (void)signal_number;
    digits[0] = (char)('0' + check_rank / 100 % 10);
    digits[1] = (char)('0' + check_rank / 10 % 10);
    digits[2] = (char)('0' + check_rank % 10);
    digits[3] = '\0';
    strcat(text, check_rank < 0 ? "?" : digits);
    strcat(text, " hangs in: ");
    strncat(text, check_section, 200);
    strcat(text, "\n");
    if (write(2, text, strlen(text)) < 0) _exit(98);
    _exit(99);
}

static void check_watchdog(void) {
    signal(SIGALRM, check_hung);
    alarm(CHECK_WATCHDOG_SECONDS);
}

/* Names what comes next, for a failing check and for the watchdog. */
static inline void section(const char *name) {
    check_section = name;
    alarm(CHECK_WATCHDOG_SECONDS);
}

static void check_failed(const char *file, int line, const char *text) {
    fprintf(stderr, "%s:%d: rank %d of %d, in \"%s\": %s\n", file, line, check_rank, check_size,
            check_section, text);
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static inline void check_same(long long got, long long right, const char *file, int line, const char *what) {
    char text[512];
    if (got == right) return;
    snprintf(text, sizeof text, "%s is %lld, not %lld", what, got, right);
    check_failed(file, line, text);
}

static inline void check_class(int code, int right, const char *file, int line, const char *what) {
    char text[2 * MPI_MAX_ERROR_STRING + 300], got[MPI_MAX_ERROR_STRING], wanted[MPI_MAX_ERROR_STRING];
    int class_got = -1, length;
    if (code == MPI_SUCCESS && right == MPI_SUCCESS) return;
    MPI_Error_class(code, &class_got);
    if (class_got == right) return;
    MPI_Error_string(code, got, &length);
    MPI_Error_string(right, wanted, &length);
    snprintf(text, sizeof text, "%.200s answers class %d (%s), not %d (%s)", what, class_got, got, right, wanted);
    check_failed(file, line, text);
}

#define CHECK(condition) \
    do { \
        if (!(condition)) check_failed(__FILE__, __LINE__, "not so: " #condition); \
    } while (0)
/* Two whole numbers, whatever their types. */
#define SAME(got, right) check_same((long long)(got), (long long)(right), __FILE__, __LINE__, #got)
/* An MPI call and the error class that it must answer. */
#define CLASS(call, right) check_class((call), (right), __FILE__, __LINE__, #call)
#define OK(call) CLASS(call, MPI_SUCCESS)

static void check_world(void) {
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    check_watchdog();
}

static inline void check_open(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    check_world();
}

static inline int check_close(void) {
    section("closing");
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}

/* The standard leaves it open how well a library looks at wrong arguments. Ours is to look at all of
 * them; the checks that MPICH 5.0.2 is known to fail, or to crash in, are left out there. */
static inline int check_library_is(const char *name) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    return strstr(version, name) != NULL;
}

#define STRICT_CLASS(call, right) \
    do { \
        if (!check_library_is("MPICH")) CLASS(call, right); \
    } while (0)

/* Byte `at` of the message called `seed`. */
static inline unsigned char pattern(size_t at, unsigned seed) {
    return (unsigned char)(at * 13u + (at >> 8) * 7u + seed * 101u + 1u);
}

static inline void fill(void *buffer, size_t bytes, unsigned seed) {
    unsigned char *to = (unsigned char *)buffer;
    for (size_t at = 0; at < bytes; at++) to[at] = pattern(at, seed);
}

static inline void verify(const void *buffer, size_t bytes, unsigned seed, const char *file, int line) {
    const unsigned char *from = (const unsigned char *)buffer;
    char text[128];
    for (size_t at = 0; at < bytes; at++) {
        if (from[at] == pattern(at, seed)) continue;
        snprintf(text, sizeof text, "byte %zu of %zu of message %u is 0x%02x, not 0x%02x", at, bytes, seed,
                 from[at], pattern(at, seed));
        check_failed(file, line, text);
    }
}
#define VERIFY(buffer, bytes, seed) verify(buffer, bytes, seed, __FILE__, __LINE__)

/* All bytes are `value`: that what must not be touched was not. */
static inline void untouched(const void *buffer, size_t bytes, int value, const char *file, int line) {
    const unsigned char *from = (const unsigned char *)buffer;
    for (size_t at = 0; at < bytes; at++)
        check_same(from[at], value, file, line, "a byte that must not be touched");
}
#define UNTOUCHED(buffer, bytes, value) untouched(buffer, bytes, value, __FILE__, __LINE__)

#endif
