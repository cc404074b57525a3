// ranks: 2 4
// Communicators that are made and freed again and again leave nothing behind: what the heap holds in the end is what it
// held after the first few, whatever the number of cycles. `communicator_cycles N` does N of each kind.
#include "check.h"

#include <malloc.h>

/* What rests for a while (numbers that were just in use) is bounded, and smaller than this; one small object that stays
 * behind in each cycle is more. */
enum { CYCLES = 1000, SLACK_BYTES = 256 << 10 };

static MPI_Group world, half;

/* Nothing is asked of an allocator that does not count, as under a sanitizer. */
static size_t held(void) { return mallinfo2().uordblks; }

static long resident_kib(void) {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) return -1;
    if (fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = -1;
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void duplicate(MPI_Comm *made) { OK(MPI_Comm_dup(MPI_COMM_WORLD, made)); }
static void split(MPI_Comm *made) { OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, -check_rank, made)); }
static void create(MPI_Comm *made) { OK(MPI_Comm_create(MPI_COMM_WORLD, half, made)); }
static void create_group(MPI_Comm *made) { OK(MPI_Comm_create_group(MPI_COMM_WORLD, world, 3, made)); }
static void create_from_group(MPI_Comm *made) {
    OK(MPI_Comm_create_from_group(world, "weft://cycles", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, made));
}

static void cycle(const char *name, void (*make)(MPI_Comm *), int cycles) {
    section(name);
    size_t before = 0, after;
    long resident = 0;
    for (int done = -cycles / 4; done < cycles; done++) {
        MPI_Comm made = MPI_COMM_NULL;
        if (done == 0) before = held(), resident = resident_kib();
        if (done % 10000 == 0) check_watchdog();
        make(&made);
        /* Some are used, so that what is kept for the next time is there, too. */
        if (done % 16 == 0 && made != MPI_COMM_NULL) OK(MPI_Barrier(made));
        if (made != MPI_COMM_NULL) OK(MPI_Comm_free(&made));
    }
    after = held();
    printf("%s: rank %d, %d cycles: %zu bytes before, %zu after; resident %ld KiB, %ld KiB\n", name, check_rank, cycles,
           before, after, resident, resident_kib());
    if (check_library_is("MPICH") || before == 0) return;
    CHECK(after < before + SLACK_BYTES);
}

int main(int argc, char **argv) {
    int cycles = argc > 1 ? atoi(argv[1]) : CYCLES;
    check_open(argc, argv);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    int even[1][3] = {{0, check_size - 1, 2}};
    OK(MPI_Group_range_incl(world, 1, even, &half));
    cycle("dup", duplicate, cycles);
    cycle("split", split, cycles);
    cycle("create", create, cycles);
    cycle("create_group", create_group, cycles);
    cycle("create_from_group", create_from_group, cycles);
    OK(MPI_Group_free(&half));
    OK(MPI_Group_free(&world));
    return check_close();
}
