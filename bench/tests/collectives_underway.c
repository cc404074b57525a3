// ranks: 1 2 3 5 8
// Collective operations that are under way while the program does something else: many at once on one communicator, ended
// in any order, beside messages and blocking operations; and described ones that are begun again and again with other
// data, whose datatypes and operators were freed meanwhile. (MPI 5.0, sections 6.12 and 6.13)
#include "check.h"

enum { MANY = 40, ROUNDS = 12, LENGTH = 3000 };

static int sum_of_ranks(int factor) { return factor * check_size * (check_size - 1) / 2; }

/* Four kinds in turn, all begun before any is waited for, and ended from the back. */
static void many(void) {
    static int given[MANY][LENGTH], got[MANY][LENGTH];
    MPI_Request requests[MANY];
    section("many at once");
    for (int i = 0; i < MANY; i++) {
        int count = i % 3 == 0 ? LENGTH : 1 + i;
        for (int at = 0; at < count; at++) given[i][at] = check_rank * (i + 1) + at;
        memset(got[i], -1, sizeof got[i]);
        switch (i % 4) {
        case 0: OK(MPI_Iallreduce(given[i], got[i], count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i])); break;
        case 1: OK(MPI_Ibcast(check_rank == i % check_size ? given[i] : got[i], count, MPI_INT, i % check_size,
                              MPI_COMM_WORLD, &requests[i])); break;
        case 2: OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[i])); break;
        default: OK(MPI_Iscan(given[i], got[i], count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]));
        }
    }
    /* A blocking one and messages between do not mind. */
    int one = 1, all = 0, token = -1, next = (check_rank + 1) % check_size;
    OK(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    SAME(all, check_size);
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, next, 5, &token, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    SAME(token, (check_rank + check_size - 1) % check_size);
    for (int i = MANY; i-- > 0;) {
        int count = i % 3 == 0 ? LENGTH : 1 + i, root = i % check_size;
        OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        CHECK(requests[i] == MPI_REQUEST_NULL);
        for (int at = 0; at < count; at++) {
            if (i % 4 == 0) SAME(got[i][at], sum_of_ranks(i + 1) + check_size * at);
            if (i % 4 == 1 && check_rank != root) SAME(got[i][at], root * (i + 1) + at);
            if (i % 4 == 3) SAME(got[i][at], (i + 1) * check_rank * (check_rank + 1) / 2 + (check_rank + 1) * at);
        }
    }
}

/* Nobody waits in the operation itself: the last rank begins it after the others have talked about it. */
static void progress(void) {
    MPI_Request request;
    int flag = 0, go = 0, last = check_size - 1;
    section("a barrier under way among messages");
    if (check_size == 1) return;
    if (check_rank != last) {
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
        for (int i = 0; i < 50; i++) OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        SAME(flag, 0);
        OK(MPI_Send(&go, 1, MPI_INT, last, 7, MPI_COMM_WORLD));
    } else {
        for (int i = 0; i < last; i++) OK(MPI_Recv(&go, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    }
    while (!flag) OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    CHECK(request == MPI_REQUEST_NULL);
}

static void add_pairs(void *in, void *inout, int *count, MPI_Datatype *datatype) {
    int *left = in, *right = inout;
    (void)datatype;
    for (int i = 0; i < *count; i++) {
        right[3 * i] += left[3 * i];
        right[3 * i + 2] += left[3 * i + 2];
    }
}

/* With a type that has a gap and an operator of the program, both freed before the first start. */
static void again(void) {
    int given[2][3], got[2][3], counts[64], places[64];
    MPI_Datatype pair, spread;
    MPI_Op add;
    MPI_Request requests[3];
    section("described operations");
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &pair));
    OK(MPI_Type_create_resized(pair, 0, 3 * sizeof(int), &spread));
    OK(MPI_Type_commit(&spread));
    OK(MPI_Op_create(add_pairs, 1, &add));
    OK(MPI_Allreduce_init(given, got, 2, spread, add, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    int *mine = calloc((size_t)check_rank + 1, sizeof *mine), *all = calloc(64 * 65, sizeof *all), at = 0;
    for (int r = 0; r < check_size; r++) counts[r] = r + 1, places[r] = at, at += r + 1;
    OK(MPI_Allgatherv_init(mine, check_rank + 1, MPI_INT, all, counts, places, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                           &requests[2]));
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&spread));
    OK(MPI_Op_free(&add));
    for (int round = 0; round < ROUNDS; round++) {
        memset(got, -1, sizeof got);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 3; j++) given[i][j] = check_rank + round + i + j;
        for (int i = 0; i <= check_rank; i++) mine[i] = 100 * round + check_rank;
        memset(all, -1, 64 * 65 * sizeof *all);
        if (round % 2) OK(MPI_Startall(3, requests));
        else for (int i = 0; i < 3; i++) OK(MPI_Start(&requests[i]));
        OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < 2; i++) {
            SAME(got[i][0], sum_of_ranks(1) + check_size * (round + i));
            SAME(got[i][1], -1);
            SAME(got[i][2], sum_of_ranks(1) + check_size * (round + i + 2));
        }
        for (int r = 0; r < check_size; r++)
            for (int i = 0; i <= r; i++) SAME(all[places[r] + i], 100 * round + r);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(requests[i] != MPI_REQUEST_NULL);
        OK(MPI_Request_free(&requests[i]));
    }
    free(mine);
    free(all);
}

/* Members plan in one order and begin in any; what else is begun between does not matter. */
static void in_any_order(void) {
    enum { PLANS = 5 };
    int given[PLANS], got[PLANS];
    MPI_Request plans[PLANS], other;
    section("described operations, begun in another order at each member");
    for (int i = 0; i < PLANS; i++)
        OK(MPI_Bcast_init(&got[i], 1, MPI_INT, i % check_size, MPI_COMM_WORLD, MPI_INFO_NULL, &plans[i]));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PLANS; i++) {
            given[i] = 1000 * round + i;
            got[i] = i % check_size == check_rank ? given[i] : -1;
        }
        for (int i = 0; i < PLANS; i++) {
            if (i == (check_rank + round) % PLANS) OK(MPI_Ibarrier(MPI_COMM_WORLD, &other));
            OK(MPI_Start(&plans[(i * (1 + check_rank % 4) + round) % PLANS]));
        }
        OK(MPI_Waitall(PLANS, plans, MPI_STATUSES_IGNORE));
        OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
        for (int i = 0; i < PLANS; i++) SAME(got[i], given[i]);
    }
    for (int i = 0; i < PLANS; i++) OK(MPI_Request_free(&plans[i]));
}

static void add_and_ask(void *in, void *inout, int *count, MPI_Datatype *datatype) {
    int bytes = 0, rank = -1;
    MPI_Type_size(*datatype, &bytes);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < *count; i++) ((int *)inout)[i] += ((int *)in)[i] + (bytes != sizeof(int)) + (rank != check_rank);
}

/* An operator asks the library while a freed request is under way, which each call looks after. */
static void operators_ask(void) {
    enum { LONG = 200000 };
    static char far[LONG], near[LONG];
    MPI_Op add;
    MPI_Request request;
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size, sum = 0, one = 1;
    section("an operator that asks beside a freed request");
    OK(MPI_Op_create(add_and_ask, 1, &add));
    for (int begun = 0; begun < 2; begun++) {
        OK(MPI_Isend(far, LONG, MPI_CHAR, next, 9, MPI_COMM_WORLD, &request));
        OK(MPI_Request_free(&request));
        if (begun) {
            OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, add, MPI_COMM_WORLD, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, add, MPI_COMM_WORLD));
        }
        SAME(sum, check_size);
        OK(MPI_Recv(near, LONG, MPI_CHAR, before, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    OK(MPI_Op_free(&add));
}

static void look_until_over(MPI_Request request) {
    for (int flag = 0; !flag;) OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
}

/* All members take part to the end, which is not near while the last one has not begun: the request is refused, and stays what
 * it was. */
static void refuses(MPI_Request *request) {
    int go = 0, last = check_size - 1;
    if (check_rank == last) return;
    CLASS(MPI_Cancel(request), MPI_ERR_REQUEST);
    CLASS(MPI_Request_free(request), MPI_ERR_REQUEST);
    OK(MPI_Send(&go, 1, MPI_INT, last, 11, MPI_COMM_WORLD));
}

static void last_one_waits(void) {
    int go, last = check_size - 1;
    if (check_rank != last) return;
    for (int i = 0; i < last; i++) OK(MPI_Recv(&go, 1, MPI_INT, i, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void not_given_up(void) {
    int one = 1, sum = 0;
    MPI_Request begun, planned;
    MPI_Comm copy;
    if (check_size == 1) return;
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (int is_freed = 0; is_freed < 2; is_freed++) {
        section("collective operations under way are neither cancelled nor given up; those that have completed may be freed");
        sum = 0;
        last_one_waits();
        OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &begun));
        refuses(&begun);
        if (is_freed) look_until_over(begun);
        OK(is_freed ? MPI_Request_free(&begun) : MPI_Wait(&begun, MPI_STATUS_IGNORE));
        CHECK(begun == MPI_REQUEST_NULL);
        SAME(sum, check_size);
        section("the same of a planned one");
        OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &planned));
        last_one_waits();
        OK(MPI_Start(&planned));
        refuses(&planned);
        if (is_freed) look_until_over(planned);
        else OK(MPI_Wait(&planned, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&planned));
        CHECK(planned == MPI_REQUEST_NULL);
        section("the same of a communicator that is being made");
        last_one_waits();
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &copy, &begun));
        refuses(&begun);
        if (is_freed) look_until_over(begun);
        OK(is_freed ? MPI_Request_free(&begun) : MPI_Wait(&begun, MPI_STATUS_IGNORE));
        OK(MPI_Barrier(copy));
        OK(MPI_Comm_free(&copy));
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    many();
    progress();
    again();
    in_any_order();
    operators_ask();
    not_given_up();
    return check_close();
}
