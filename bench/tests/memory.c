// ranks: 2 3 32
// not libfabric: it measures memory, of which a provider takes megabytes when it is opened
// bare: it measures memory, of which a sanitizer takes some for itself
// What a rank that has only started costs: its own memory beside that of any program, and nothing for each rank
// that it has not spoken to. Measured in the same process before and after, by what the kernel counts.
#include "check.h"
#include "own_memory.h"

int main(int argc, char **argv) {
    long before = own_kib(1), after;
    MPI_Init(&argc, &argv);
    after = own_kib(1);
    check_world();
    CHECK(before > 0); /* or the kernel does not tell */
    printf("rank %d: %ld KiB before MPI_Init, %ld KiB after\n", check_rank, before, after);
    /* A table with a page for each of 32 ranks would be 128 KiB more. */
    if (!check_library_is("MPICH")) CHECK(after < 2 * before);
    return check_close();
}
