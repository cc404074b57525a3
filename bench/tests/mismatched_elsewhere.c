// ranks: 2 4
// not libfabric: it is about memory that ranks share
// Few bytes go by lines that all ranks of a node see, and many by messages. Where calls do not fit together, so that some ranks go
// the one way and some the other, nobody waits for ever: whoever waits for what cannot come any more is told so, without
// WEFT_CHECK, whichever way it went. (docs/decisions/0004)
#include "lined.h"

enum { FEW = 1, MANY = 1 << 14, LONG = 1 << 18, RANKS_MAX = 4 };

static double mine[LONG], all[RANKS_MAX * MANY];
static MPI_Comm comm;

static void fresh(const char *name) {
    section(name);
    comm = lined(mine, all, MANY);
}

/* What `is_told` says of this rank; none of the others hangs either. */
static void told(int code, int is_told) {
    if (is_told) CLASS(code, MPI_ERR_NOT_SAME);
    else OK(code);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Comm_free(&comm));
}

/* Two that have cores of their own, and more that share cores, may go the same way here, and see that the lengths differ. */
static void told_either_way(int code, int is_told) {
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    told(is_told && class == MPI_ERR_TRUNCATE ? MPI_ERR_NOT_SAME : code, is_told);
}

/* Who only sends may be through with it before it can be known that nobody receives. */
static void told_or_sent(int code, int is_sender) {
    told_either_way(is_sender && code == MPI_SUCCESS ? MPI_ERR_NOT_SAME : code, 1);
}

static void blocking(void) {
    int first = check_rank == 0;
    fresh("a root gathers many, and the others give few");
    told_either_way(MPI_Gather(mine, first ? MANY : FEW, MPI_DOUBLE, all, MANY, MPI_DOUBLE, 0, comm), first);

    fresh("a root gives few, and the last one expects many");
    int last = check_rank == check_size - 1;
    told_either_way(MPI_Bcast(mine, last ? MANY : FEW, MPI_DOUBLE, 0, comm), last);

    fresh("a root gives much, and the others expect few");
    told_or_sent(MPI_Bcast(mine, first ? LONG : FEW, MPI_DOUBLE, 0, comm), first);

    fresh("one rank sums many, and the others few");
    told_either_way(MPI_Allreduce(mine, all, first ? MANY : FEW, MPI_DOUBLE, MPI_SUM, comm), 1);

    fresh("one rank gathers much, and the others are in a barrier");
    told_either_way(first ? MPI_Gather(mine, MANY, MPI_DOUBLE, all, MANY, MPI_DOUBLE, 0, comm) : MPI_Barrier(comm), 1);

    fresh("rank 0 takes rank 1 for the root, and the others take rank 0");
    told(MPI_Bcast(mine, FEW, MPI_DOUBLE, first, comm), 1);
}

static int waited(MPI_Request request) {
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void begun(void) {
    MPI_Request request;
    int first = check_rank == 0;
    fresh("begun: one rank sums many, and the others few");
    OK(MPI_Iallreduce(mine, all, first ? MANY : FEW, MPI_DOUBLE, MPI_SUM, comm, &request));
    told(waited(request), 1);

    fresh("begun: a root gives much, and the others expect few");
    OK(MPI_Ibcast(mine, first ? LONG : FEW, MPI_DOUBLE, 0, comm, &request));
    told_or_sent(waited(request), first);

    fresh("begun: a root gathers many, and the others give few; they go on to a barrier");
    OK(MPI_Igather(mine, first ? MANY : FEW, MPI_DOUBLE, all, MANY, MPI_DOUBLE, 0, comm, &request));
    told(waited(request), first);

    fresh("begun at one rank, and by messages; the others block, and few");
    if (first) OK(MPI_Iallreduce(mine, all, MANY, MPI_DOUBLE, MPI_SUM, comm, &request));
    told(first ? waited(request) : MPI_Allreduce(mine, all, FEW, MPI_DOUBLE, MPI_SUM, comm), 1);
}

int main(int argc, char **argv) {
    const char *fabric = getenv("WEFT_FABRIC");
    check_open(argc, argv);
    /* Elsewhere all go by messages: lengths that differ are another error, and roots that differ are none. */
    if (fabric != NULL && strstr(fabric, "shm") == NULL) return check_close();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    blocking();
    begun();
    return check_close();
}
