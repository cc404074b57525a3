// ranks: 20
// exit: 9
// says: all who live have noticed
// not libfabric: who is lost there is told by a connection, later than this test waits
// A member of each of some communicators is killed where the others wait for it in a collective operation of few bytes: in one
// that goes by lines which all of a node see, in the one before which they agree on such lines, as a root and as rank 0.
// All others get an error, in that operation or a later one, and in each that follows. (docs/decisions/0013, 0004)
//
// The launcher would end the job: so each rank is a child of what it has started, which stays when the rank dies.
#define _DEFAULT_SOURCE 1
#include "child.h"

#include <mpix_ft.h>

#include <sys/time.h>

enum {
    IN_BARRIER,       /* known to each other for long, one does not come */
    AT_ANY_TIME,      /* the same, wherever it is just then */
    AS_ROOT,          /* whose values the others wait for */
    BEFORE_LINES,     /* the last member, in the operation before which they agree */
    FIRST_BEFORE_LINES, /* rank 0 there, by whom the others know */
    WAYS
};

static const char *const names[] = {"in a barrier", "at any time", "as a root", "before there are lines",
                                    "rank 0 before there are lines"};
static int group, way;

/* The rank in the world. */
static int victim_of(int of_group, int size) {
    return of_group * size + (of_group % WAYS == FIRST_BEFORE_LINES ? 0 : size - 1);
}

static void die(void) {
    raise(SIGKILL);
}

static int any_operation(MPI_Comm comm, int number, int size) {
    double mine = number, sum = 0;
    MPI_Request request;
    int code;
    switch (number % 4) {
    case 0: return MPI_Barrier(comm);
    case 1: return MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    case 2:
        code = MPI_Iallreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm, &request);
        return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
    default: return MPI_Bcast(&mine, 1, MPI_DOUBLE, number % size, comm);
    }
}

/* A death may end an operation for those who are still in it, though the victim is through: so it waits until all are. */
static void all_are_through(MPI_Comm comm, int is_victim, int size) {
    int victim = way == FIRST_BEFORE_LINES ? 0 : size - 1;
    if (!is_victim) OK(MPI_Send(NULL, 0, MPI_BYTE, victim, 3, comm));
    for (int other = 0; is_victim && other < size; other++)
        if (other != victim) OK(MPI_Recv(NULL, 0, MPI_BYTE, other, 3, comm, MPI_STATUS_IGNORE));
}

/* All operations until one fails. The victim never comes back. */
static int until_lost(MPI_Comm comm, int is_victim, int size) {
    double value = 1;
    int before = way == BEFORE_LINES || way == FIRST_BEFORE_LINES ? 3 : 8, code = MPI_SUCCESS;
    for (int i = 0; i < before; i++) OK(MPI_Barrier(comm));
    all_are_through(comm, is_victim, size);
    if (is_victim && way == AT_ANY_TIME) {
        struct itimerval soon = {.it_value = {0, 500 + 700 * group}};
        signal(SIGALRM, SIG_DFL);
        CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    } else if (is_victim) {
        die();
    }
    for (int i = 0; code == MPI_SUCCESS; i++)
        code = way == AT_ANY_TIME ? any_operation(comm, i, size)
               : way == AS_ROOT   ? MPI_Bcast(&value, 1, MPI_DOUBLE, size - 1, comm)
                                  : MPI_Barrier(comm);
    return code;
}

/* Until all have their communicators: a death ends what is under way among all. Messages between two it does not. */
static void all_are_here(void) {
    for (int other = 1; check_rank == 0 && other < check_size; other++)
        OK(MPI_Recv(NULL, 0, MPI_BYTE, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int other = 1; check_rank == 0 && other < check_size; other++)
        OK(MPI_Send(NULL, 0, MPI_BYTE, other, 2, MPI_COMM_WORLD));
    if (check_rank != 0)
        OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, 0, 2, NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv) {
    MPI_Comm comm;
    const char *fabric = getenv("WEFT_FABRIC");
    /* By messages, somebody can wait for one who has given up: only two have nobody else to wait for. */
    int size = fabric != NULL && strstr(fabric, "shm") != NULL ? 4 : 2, is_victim;
    be_a_child();
    check_open(argc, argv);
    group = check_rank / size;
    way = group % WAYS;
    OK(MPI_Comm_split(MPI_COMM_WORLD, group, 0, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    section("all are here");
    all_are_here();
    is_victim = check_rank == victim_of(group, size);
    section(names[way]);
    CLASS(until_lost(comm, is_victim, size), MPIX_ERR_PROC_FAILED);
    section("once more");
    CLASS(MPI_Barrier(comm), MPIX_ERR_PROC_FAILED);
    section("telling");
    if (check_rank != 0) {
        OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
        for (;;) pause();
    }
    for (int from = 1; from < check_size; from++)
        if (from != victim_of(from / size, size)) OK(MPI_Recv(NULL, 0, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    printf("all who live have noticed\n");
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 9);
    return 1;
}
