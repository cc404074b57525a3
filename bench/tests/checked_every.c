// ranks: 2 3 5
// launch: -x WEFT_CHECK=1
// With WEFT_CHECK=1 every collective operation, called, begun and described, is told from another one, from one with another
// root and, where the standard wants lengths to be the same everywhere, from one with another length; and all that fits goes on as
// it does without. (docs/decisions/0012; MPI 5.0, sections 6.3 to 6.13)
#include "check.h"
#include "reported.h"

#include <ctype.h>

enum { ROOM = 64, CALLED, BEGUN, DESCRIBED };

static int numbers[ROOM], others[ROOM], counts[ROOM], places[ROOM], offsets[ROOM];
static MPI_Datatype types[ROOM];
static int root, count;

static int ended(int code, MPI_Request *request) {
    if (code == MPI_SUCCESS) OK(MPI_Request_free(request));
    CHECK(*request == MPI_REQUEST_NULL);
    return code;
}

#define OPERATION(name, begun, ...)                                                                             \
    static int call_##name(int way, MPI_Comm comm) {                                                            \
        MPI_Request request = MPI_REQUEST_NULL;                                                                 \
        if (way == CALLED) return MPI_##name(__VA_ARGS__ comm);                                                 \
        if (way == DESCRIBED)                                                                                   \
            return ended(MPI_##name##_init(__VA_ARGS__ comm, MPI_INFO_NULL, &request), &request);               \
        OK(MPI_##begun(__VA_ARGS__ comm, &request));                                                            \
        return MPI_Wait(&request, MPI_STATUS_IGNORE);                                                           \
    }

#define EACH numbers, count, MPI_INT, others, count, MPI_INT
#define SUMS numbers, others, count, MPI_INT, MPI_SUM
#define LISTED others, counts, places, MPI_INT

OPERATION(Barrier, Ibarrier, )
OPERATION(Bcast, Ibcast, numbers, count, MPI_INT, root, )
OPERATION(Gather, Igather, EACH, root, )
OPERATION(Gatherv, Igatherv, numbers, count, MPI_INT, LISTED, root, )
OPERATION(Scatter, Iscatter, EACH, root, )
OPERATION(Scatterv, Iscatterv, numbers, counts, places, MPI_INT, others, count, MPI_INT, root, )
OPERATION(Allgather, Iallgather, EACH, )
OPERATION(Allgatherv, Iallgatherv, numbers, count, MPI_INT, LISTED, )
OPERATION(Alltoall, Ialltoall, EACH, )
OPERATION(Alltoallv, Ialltoallv, numbers, counts, places, MPI_INT, LISTED, )
OPERATION(Alltoallw, Ialltoallw, numbers, counts, offsets, types, others, counts, offsets, types, )
OPERATION(Reduce, Ireduce, SUMS, root, )
OPERATION(Allreduce, Iallreduce, SUMS, )
OPERATION(Reduce_scatter_block, Ireduce_scatter_block, SUMS, )
OPERATION(Reduce_scatter, Ireduce_scatter, numbers, others, counts, MPI_INT, MPI_SUM, )
OPERATION(Scan, Iscan, SUMS, )
OPERATION(Exscan, Iexscan, SUMS, )

#define NAMED(name, rooted, counted) {#name, call_##name, rooted, counted}

static const struct operation {
    const char *name;
    int (*call)(int way, MPI_Comm comm);
    int rooted, counted;
} OPERATIONS[] = {
    NAMED(Barrier, 0, 0),   NAMED(Bcast, 1, 1),      NAMED(Gather, 1, 1),     NAMED(Gatherv, 1, 0),
    NAMED(Scatter, 1, 1),   NAMED(Scatterv, 1, 0),   NAMED(Allgather, 0, 1),  NAMED(Allgatherv, 0, 1),
    NAMED(Alltoall, 0, 1),  NAMED(Alltoallv, 0, 0),  NAMED(Alltoallw, 0, 0),  NAMED(Reduce, 1, 1),
    NAMED(Allreduce, 0, 1), NAMED(Reduce_scatter_block, 0, 1), NAMED(Reduce_scatter, 0, 1), NAMED(Scan, 0, 1),
    NAMED(Exscan, 0, 1),
};
enum { OPERATION_COUNT = sizeof OPERATIONS / sizeof *OPERATIONS };

/* `MPI_Bcast`, `MPI_Ibcast`, `MPI_Bcast_init`. */
static const char *name_of(const struct operation *operation, int way) {
    static char names[2][64];
    static int turn;
    char *name = names[turn++ % 2];
    snprintf(name, sizeof names[0], "MPI_%s%s%s", way == BEGUN ? "I" : "", operation->name, way == DESCRIBED ? "_init" : "");
    if (way == BEGUN) name[5] = (char)tolower(name[5]);
    return name;
}

static void set(int a_root, int a_count) {
    root = a_root, count = a_count;
    for (int rank = 0; rank < check_size; rank++) {
        counts[rank] = count, places[rank] = rank * count, types[rank] = MPI_INT;
        offsets[rank] = places[rank] * (int)sizeof(int);
    }
}

static void told(const struct operation *operation, int way, MPI_Comm comm) {
    int last = check_size - 1, here = check_rank == last;
    const struct operation *other = &OPERATIONS[(operation - OPERATIONS + 5) % OPERATION_COUNT];
    char theirs[32];
    section(name_of(operation, way));
    set(0, 1);
    reported((here ? other : operation)->call(way, comm), name_of(operation, way), name_of(other, way));
    if (operation->rooted) {
        set(here ? last : 0, 1);
        snprintf(theirs, sizeof theirs, "root %d", last);
        reported(operation->call(way, comm), "root 0", theirs);
    }
    if (operation->counted) {
        char text[MPI_MAX_ERROR_STRING];
        int length, code;
        set(0, here ? 2 : 1);
        code = operation->call(way, comm);
        CLASS(code, MPI_ERR_NOT_SAME);
        OK(MPI_Error_string(code, text, &length));
        CHECK(strstr(text, name_of(operation, way)) != NULL);
    }
    set(last, 2);
    OK(operation->call(way, comm));
}

int main(int argc, char **argv) {
    MPI_Comm comm;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int way = CALLED; way <= DESCRIBED; way++)
        for (int i = 0; i < OPERATION_COUNT; i++) told(&OPERATIONS[i], way, comm);
    OK(MPI_Comm_free(&comm));
    return check_close();
}
