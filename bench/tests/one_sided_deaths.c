// ranks: 3 5
// launch: --ft --timeout 60
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// A rank dies while it holds a lock of another one's memory: whoever waits for that lock, for a fence or for a flush of the dead one's
// memory gets an error and does not hang, and the window can be freed. (MPI 5.0, section 12.5; ULFM)
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { VICTIM = 1, COUNT = 1000, WINDOWS = 2 };

static int class_of(int code) {
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) OK(MPI_Error_class(code, &class));
    return class;
}

/* The lock is free for whoever comes first behind the dead one, or the error says who is dead. */
static void is_right(int class) { CHECK(class == MPI_SUCCESS || class == MPIX_ERR_PROC_FAILED); }

static void dies_with_locks(MPI_Win *windows) {
    static long values[COUNT];
    section("a rank locks, puts and dies");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == VICTIM) {
        for (int at = 0; at < WINDOWS; at++) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, windows[at]));
            OK(MPI_Put(values, COUNT, MPI_LONG, 0, 0, COUNT, MPI_LONG, windows[at]));
        }
        for (int rank = 0; rank < check_size; rank++)
            if (rank != VICTIM) OK(MPI_Send(NULL, 0, MPI_INT, rank, 1, MPI_COMM_WORLD));
        fflush(NULL);
        raise(SIGKILL);
    }
    OK(MPI_Recv(NULL, 0, MPI_INT, VICTIM, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void outlived(MPI_Win window, const char *name) {
    static long values[COUNT];
    section(name);
    int code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    is_right(class_of(code));
    if (code == MPI_SUCCESS) {
        is_right(class_of(MPI_Get(values, COUNT, MPI_LONG, 0, 0, COUNT, MPI_LONG, window)));
        is_right(class_of(MPI_Win_unlock(0, window)));
    }
    code = MPI_Win_lock_all(0, window);
    is_right(class_of(code));
    if (code == MPI_SUCCESS) {
        is_right(class_of(MPI_Get(values, COUNT, MPI_LONG, VICTIM, 0, COUNT, MPI_LONG, window)));
        is_right(class_of(MPI_Win_flush(VICTIM, window)));
        is_right(class_of(MPI_Win_unlock_all(window)));
    }
    SAME(class_of(MPI_Win_fence(0, window)), MPIX_ERR_PROC_FAILED);
    OK(MPI_Win_free(&window));
}

int main(int argc, char **argv) {
    static long memory[COUNT];
    MPI_Win windows[WINDOWS];
    MPI_Comm living;
    void *base;
    int size = 0;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Win_create(memory, sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &windows[0]));
    OK(MPI_Win_allocate(sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &windows[1]));
    for (int at = 0; at < WINDOWS; at++) OK(MPI_Win_set_errhandler(windows[at], MPI_ERRORS_RETURN));
    dies_with_locks(windows);
    outlived(windows[0], "a window of memory of the program's");
    outlived(windows[1], "a window that the library allocates");
    section("the survivors go on");
    OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &living));
    OK(MPI_Comm_size(living, &size));
    SAME(size, check_size - 1);
    OK(MPI_Comm_free(&living));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
