// ranks: 3 4 5
// not libfabric: it is about memory that ranks share
// Few bytes go by lines that all ranks of a node see, and many by messages. Where calls do not fit together, some member finds it out
// and gives the operation up; those who wait for what it would have sent later are told so as well, however many stand
// between. So everybody ends, without WEFT_CHECK, and whoever cannot have what it has asked for ends with an error.
// (docs/decisions/0004)
#define CHECK_WATCHDOG_SECONDS 20
#include "lined.h"

enum { FEW = 1, MANY = 1 << 11, LONG = 1 << 17, RANKS_MAX = 5, LENGTHS = 2 };

static const int lengths[LENGTHS] = {MANY, LONG};
static double mine[RANKS_MAX * LONG], all[RANKS_MAX * LONG];
static MPI_Comm comm;
static char name[200];

static void fresh(const char *what, int many, int odd_one) {
    snprintf(name, sizeof name, "%s, %d numbers, the odd one is rank %d", what, many, odd_one);
    section(name);
    comm = lined(mine, all, MANY);
}

/* Some ranks must fail; the others may. */
static void ended(int code, int must_fail) {
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_NOT_SAME || class == MPI_ERR_TRUNCATE || (class == MPI_SUCCESS && !must_fail));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Comm_free(&comm));
}

static int waited(int code, MPI_Request *request) {
    return code != MPI_SUCCESS ? code : MPI_Wait(request, MPI_STATUS_IGNORE);
}

static int bcast(int count, int root, int begun) {
    MPI_Request request;
    if (!begun) return MPI_Bcast(mine, count, MPI_DOUBLE, root, comm);
    return waited(MPI_Ibcast(mine, count, MPI_DOUBLE, root, comm, &request), &request);
}

static int allreduce(int count, int begun) {
    MPI_Request request;
    if (!begun) return MPI_Allreduce(mine, all, count, MPI_DOUBLE, MPI_SUM, comm);
    return waited(MPI_Iallreduce(mine, all, count, MPI_DOUBLE, MPI_SUM, comm, &request), &request);
}

static int allgather(int count, int begun) {
    MPI_Request request;
    if (!begun) return MPI_Allgather(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, comm);
    return waited(MPI_Iallgather(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, comm, &request), &request);
}

static int alltoall(int count, int begun) {
    MPI_Request request;
    if (!begun) return MPI_Alltoall(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, comm);
    return waited(MPI_Ialltoall(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, comm, &request), &request);
}

static int scatter(int count, int root, int begun) {
    MPI_Request request;
    if (!begun) return MPI_Scatter(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, root, comm);
    return waited(MPI_Iscatter(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, root, comm, &request), &request);
}

static int gather(int count, int root, int begun) {
    MPI_Request request;
    if (!begun) return MPI_Gather(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, root, comm);
    return waited(MPI_Igather(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, root, comm, &request), &request);
}

/* The one gives many and the others few, or the other way round. */
static void roots(int many, int begun) {
    for (int odd_one = 0; odd_one < check_size; odd_one++) {
        int odd = check_rank == odd_one;
        for (int root = 0; root < check_size; root += check_size - 1) {
            int is_root = check_rank == root;
            fresh("bcast: the odd one has few", many, odd_one);
            ended(bcast(odd ? FEW : many, root, begun), !is_root && (odd || root == odd_one));
            fresh("bcast: the odd one has many", many, odd_one);
            ended(bcast(odd ? many : FEW, root, begun), !is_root && (odd || root == odd_one));
            fresh("scatter: the odd one has few", many, odd_one);
            ended(scatter(odd ? FEW : many, root, begun), !is_root && (odd || root == odd_one));
            fresh("gather: the odd one has few", many, odd_one);
            ended(gather(odd ? FEW : many, root, begun), is_root);
        }
    }
}

static void everybody(int many, int begun) {
    for (int odd_one = 0; odd_one < check_size; odd_one++) {
        int odd = check_rank == odd_one;
        fresh("allreduce: the odd one has few", many, odd_one);
        ended(allreduce(odd ? FEW : many, begun), 1);
        fresh("allreduce: the odd one has many", many, odd_one);
        ended(allreduce(odd ? many : FEW, begun), 1);
        fresh("allreduce: half of them have many", many, odd_one);
        ended(allreduce((check_rank + odd_one) % 2 ? many : FEW, begun), 1);
        fresh("allgather: the odd one has few", many, odd_one);
        ended(allgather(odd ? FEW : many, begun), 1);
        fresh("alltoall: the odd one has few", many, odd_one);
        ended(alltoall(odd ? FEW : many, begun), 1);
    }
}

/* By messages alone: the odd one gives less than the others, and the same way is taken. */
static void by_messages(int many, int begun) {
    for (int odd_one = 0; odd_one < check_size; odd_one++) {
        int odd = check_rank == odd_one;
        fresh("allreduce: the odd one has a little less", many, odd_one);
        ended(allreduce(many - (odd ? 8 : 0), begun), odd);
    }
}

int main(int argc, char **argv) {
    const char *fabric = getenv("WEFT_FABRIC");
    check_open(argc, argv);
    /* Elsewhere all go by messages, and nothing is told of who gives up. */
    if (fabric != NULL && strstr(fabric, "shm") == NULL) return check_close();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    for (int begun = 0; begun < 2; begun++) {
        for (int length = 0; length < LENGTHS; length++) {
            roots(lengths[length], begun);
            everybody(lengths[length], begun);
            by_messages(lengths[length], begun);
        }
    }
    return check_close();
}
