/* How much memory this process has. */
#ifndef WEFT_OWN_MEMORY_H
#define WEFT_OWN_MEMORY_H

#include <stdio.h>

/* In KiB: what no other process has, and if asked for its share of what it shares with other ranks; -1 where the kernel does not
 * tell. The pages of the program and of libraries are left out: they are there once for all. */
static long own_kib(int with_shared) {
    char line[256];
    long sum = 0, value;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (file == NULL) return -1;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "Pss_Anon: %ld", &value) == 1) sum += value;
        if (with_shared && sscanf(line, "Pss_Shmem: %ld", &value) == 1) sum += value;
    }
    fclose(file);
    return sum;
}

#endif
