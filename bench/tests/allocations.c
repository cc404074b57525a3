// ranks: 2 4 9
// bare: it brings an allocator of its own, which counts
// Small collective operations that come again and again take no memory from the heap: their schedules, their room
// and their messages are there from the first few times. Only a rank that is overtaken, so that a message comes
// before it is asked for, has to keep it; with these numbers of ranks that is rare. (Three ranks that share cores
// tell each other directly, and overtake each other all the time.)
#include "check.h"

#include <errno.h>

/* The allocator behind the public names, which count here what anybody in this process takes. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static volatile long allocations;

void *malloc(size_t bytes) {
    allocations++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    allocations++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
    allocations++;
    return __libc_realloc(old, bytes);
}

int posix_memalign(void **place, size_t alignment, size_t bytes) {
    allocations++;
    *place = __libc_memalign(alignment, bytes);
    return *place == NULL ? ENOMEM : 0;
}

enum { WARM_UP = 200, CALLS = 1000 };

static void barrier(void) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void allreduce(void) {
    double mine = check_rank, sum = -1;
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum, check_size * (check_size - 1) / 2);
}

static void count(const char *name, void (*call)(void)) {
    section(name);
    for (int i = 0; i < WARM_UP; i++) call();
    long before = allocations;
    for (int i = 0; i < CALLS; i++) call();
    long taken = allocations - before;
    const char *fabric = getenv("WEFT_FABRIC");
    printf("%s: rank %d took memory %ld times in %d calls\n", name, check_rank, taken, CALLS);
    /* One in a call would be CALLS. */
    if (fabric != NULL && strcmp(fabric, "tcp") != 0) CHECK(taken < CALLS / 4);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    CHECK(allocations > 0); /* or nothing is counted */
    count("barrier", barrier);
    count("allreduce", allreduce);
    return check_close();
}
