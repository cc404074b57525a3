// ranks: 2 3 32
// not libfabric: it measures memory, of which a provider takes megabytes when it is opened
// bare: it measures memory, of which a sanitizer takes some for itself
// What a rank that has only started costs: its own memory beside that of any program, and nothing for each rank
// that it has not spoken to. Measured in the same process before and after, by what the kernel counts.
#include "check.h"

/* Memory of this process in KiB: anonymous, and its share of what it shares with other ranks. The pages of the
 * program and of libraries are left out: they are there once for all. */
static long own_kib(void) {
    char line[256];
    long sum = 0, value;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (file == NULL) return -1;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "Pss_Anon: %ld", &value) == 1 || sscanf(line, "Pss_Shmem: %ld", &value) == 1)
            sum += value;
    }
    fclose(file);
    return sum;
}

int main(int argc, char **argv) {
    long before = own_kib(), after;
    MPI_Init(&argc, &argv);
    after = own_kib();
    check_world();
    CHECK(before > 0); /* or the kernel does not tell */
    printf("rank %d: %ld KiB before MPI_Init, %ld KiB after\n", check_rank, before, after);
    /* A table with a page for each of 32 ranks would be 128 KiB more. */
    if (!check_library_is("MPICH")) CHECK(after < 2 * before);
    return check_close();
}
