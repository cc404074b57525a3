// ranks: 3 5
// launch: --ft=rebuild --max-restarts=4
// says: is started again
// not libfabric: what a provider tells of a dead process differs from one to the next
// FT-MPI's names, as its programs use them (rules R8, G4): who is told of a failure jumps to the place where it recovers by
// MPI_Comm_dup; a process that was started again learns it from MPI_Init, and goes straight on to what all do next.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ftmpi.h>
#include <setjmp.h>

static jmp_buf recovery_point;
static MPI_Comm workers = MPI_COMM_NULL;
static int round_number;

static int *attribute(int key) {
    int *value = NULL, flag = 0;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flag));
    CHECK(flag && value);
    return value;
}

static void go_on_if(int code) {
    if (code == MPI_SUCCESS) return;
    CLASS(code, MPI_ERR_OTHER);
    longjmp(recovery_point, 1);
}

/* All have the same round, and a communicator of all but the first: what the new ones know of they are told. */
static int build(int is_new) {
    int mine = is_new ? -1 : round_number, none = 0;
    MPI_Group world, others;
    section("building");
    go_on_if(MPI_Allreduce(&mine, &round_number, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_excl(world, 1, &none, &others));
    go_on_if(MPI_Comm_create(MPI_COMM_WORLD, others, &workers));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&others));
    return is_new;
}

static void recover(void) {
    MPI_Comm newcomm = FT_MPI_CHECK_RECOVER;
    int size = -1, rank = -1;
    section("R8: recovering");
    CHECK(*attribute(FTMPI_NUM_FAILED_PROCS) > 0);
    if (workers != MPI_COMM_NULL) OK(MPI_Comm_free(&workers));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &newcomm));
    CHECK(newcomm == MPI_COMM_WORLD);
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    SAME(size, check_size);
    SAME(rank, check_rank);
    SAME(*attribute(FTMPI_NUM_FAILED_PROCS), 0);
}

/* The victim dies in the middle of what all do; two of them, one after the other. */
static void work(int is_new) {
    int one = 1, sum = 0;
    section("working");
    for (; round_number < 2; round_number++) {
        if (check_rank == 2 - round_number && !is_new) {
            fflush(NULL);
            raise(SIGKILL);
        }
        for (int turn = 0; turn < 100; turn++) {
            go_on_if(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
            SAME(sum, check_size);
            if (workers == MPI_COMM_NULL) continue;
            go_on_if(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, workers));
            SAME(sum, check_size - 1);
        }
        is_new = 0;
    }
}

static void facts(void) {
    MPI_Comm copy = MPI_COMM_NULL, again;
    int result = -1;
    section("R8: the rest");
    SAME(*attribute(FTMPI_COMM_MODE), MPIX_FT_MODE_REBUILD);
    SAME(*attribute(FTMPI_MSG_MODE), MPIX_FT_MSG_RESET);
    SAME(*attribute(FTMPI_COLL_MODE), MPIX_FT_COLL_LOCAL);
    SAME(*attribute(FTMPI_RECOVERY_MODE), FTMPI_RECOVERY_MANUAL);
    CLASS(MPI_Comm_set_attr(MPI_COMM_WORLD, FTMPI_COMM_MODE, NULL), MPI_ERR_KEYVAL);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_compare(copy, MPI_COMM_WORLD, &result));
    SAME(result, MPI_CONGRUENT);
    /* One that has lost nobody and is to recover stays as it is. */
    again = FT_MPI_CHECK_RECOVER;
    OK(MPIX_Comm_set_ft_mode(copy, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    OK(MPI_Comm_dup(copy, &again));
    CHECK(again == copy);
    OK(MPI_Comm_free(&copy));
}

int main(int argc, char **argv) {
    int incarnation = -1;
    volatile int code = MPI_Init(&argc, &argv), is_new = 0;
    check_world();
    CHECK(code == MPI_SUCCESS || code == MPI_INIT_RESTARTED_NODE);
    OK(MPIX_Process_incarnation(&incarnation));
    SAME(code == MPI_INIT_RESTARTED_NODE, incarnation > 0);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    is_new = incarnation > 0;
    if (setjmp(recovery_point)) {
        recover();
        is_new = 0;
    }
    work(build(is_new));
    facts();
    return check_close();
}
