// ranks: 2 3 5
// launch: -x WEFT_CHECK=1
// With WEFT_CHECK=1 collective operations that are begun or described are compared, too: those begun give the error with
// their request, and many may be under way at once; partitioned sends are compared with their receives.
// (docs/decisions/0012, 0017)
#include "check.h"
#include "reported.h"

#include <stddef.h>

static int numbers[64], others[64];

static int waited(MPI_Request *request) {
    return MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void begun(MPI_Comm comm) {
    MPI_Request request;
    int last = check_size - 1, here = check_rank == last, code;
    section("begun in another order");
    if (check_rank == 0) OK(MPI_Ibcast(numbers, 4, MPI_INT, 0, comm, &request));
    else OK(MPI_Ibarrier(comm, &request));
    reported(waited(&request), "MPI_Ibcast, root 0, 4 of MPI_INT at rank 0", "MPI_Ibarrier at rank");
    section("begun here, waited for there");
    code = MPI_SUCCESS;
    if (here) {
        code = MPI_Allreduce(numbers, others, 1, MPI_INT, MPI_SUM, comm);
    } else {
        OK(MPI_Iallreduce(numbers, others, 1, MPI_INT, MPI_SUM, comm, &request));
        code = waited(&request);
    }
    reported(code, "MPI_Iallreduce, MPI_SUM, 1 of MPI_INT at rank", "MPI_Allreduce, MPI_SUM");
    section("roots, counts, types and operators that differ");
    OK(MPI_Ibcast(numbers, 4, MPI_INT, here ? last : 0, comm, &request));
    reported(waited(&request), "root 0", "root");
    OK(MPI_Ibcast(numbers, here ? 5 : 4, MPI_INT, 0, comm, &request));
    reported(waited(&request), "4 of MPI_INT", "5 of MPI_INT");
    OK(MPI_Iallreduce(numbers, others, 2, here ? MPI_FLOAT : MPI_INT, MPI_SUM, comm, &request));
    reported(waited(&request), "MPI_INT", "MPI_FLOAT");
    OK(MPI_Ireduce(numbers, others, 2, MPI_INT, here ? MPI_MAX : MPI_SUM, 0, comm, &request));
    reported(waited(&request), "MPI_SUM", "MPI_MAX");
    OK(MPI_Iallgather(numbers, here ? 2 : 1, MPI_INT, others, here ? 2 : 1, MPI_INT, comm, &request));
    reported(waited(&request), "1 of", "2 of");
}

/* Several at once, of which one does not fit, waited for in any order; and all go on counting alike. */
static void many(MPI_Comm comm) {
    enum { MANY = 40, WRONG = 17 };
    MPI_Request requests[MANY];
    MPI_Comm copy;
    int sums[MANY], code;
    section("many at once");
    for (int i = 0; i < MANY; i++) {
        numbers[i] = check_rank + i;
        if (i == WRONG && check_rank == 0) OK(MPI_Ibarrier(comm, &requests[i]));
        else OK(MPI_Iallreduce(&numbers[i], &sums[i], 1, MPI_INT, MPI_SUM, comm, &requests[i]));
        if (i == 20) OK(MPI_Barrier(comm));
    }
    OK(MPI_Comm_dup(comm, &copy));
    for (int i = MANY - 1; i >= 0; i--) {
        code = waited(&requests[i]);
        if (i == WRONG) {
            reported(code, "MPI_Ibarrier at rank 0", "MPI_Iallreduce");
        } else {
            OK(code);
            SAME(sums[i], check_size * (check_size - 1) / 2 + check_size * i);
        }
    }
    OK(MPI_Barrier(copy));
    OK(MPI_Comm_free(&copy));
}

/* One goes on before it is known that what it has called differs, and the others when they know: they count alike all the same. */
static void copies_behind(MPI_Comm comm) {
    MPI_Request wrong, copying;
    MPI_Comm copy;
    int code, sum = 0;
    section("a copy begun behind calls that differ");
    if (check_rank == 0) {
        OK(MPI_Ibarrier(comm, &wrong));
        OK(MPI_Comm_idup(comm, &copy, &copying));
        code = waited(&wrong);
    } else {
        code = MPI_Barrier(comm);
        OK(MPI_Comm_idup(comm, &copy, &copying));
    }
    reported(code, "MPI_Ibarrier at rank 0", "MPI_Barrier");
    OK(waited(&copying));
    OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, copy));
    SAME(sum, check_size * (check_size - 1) / 2);
    OK(MPI_Comm_free(&copy));
}

static void described(MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    int here = check_rank == check_size - 1, sum = 0, one = 1, code;
    section("described");
    reported(MPI_Bcast_init(numbers, here ? 5 : 4, MPI_INT, 0, comm, MPI_INFO_NULL, &request), "MPI_Bcast_init, root 0, 4 of",
             "5 of MPI_INT");
    code = here ? MPI_Barrier_init(comm, MPI_INFO_NULL, &request)
                : MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
    reported(code, "MPI_Allreduce_init, MPI_SUM", "MPI_Barrier_init at rank");
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request));
    for (int round = 0; round < 3; round++) {
        sum = 0;
        OK(MPI_Start(&request));
        OK(waited(&request));
        SAME(sum, check_size);
    }
    OK(MPI_Request_free(&request));
}

static void across(MPI_Comm comm) {
    MPI_Comm half, inter;
    MPI_Request request;
    int low = check_size / 2, second = check_rank >= low, here = check_rank == check_size - 1, root;
    section("across two groups");
    OK(MPI_Comm_split(comm, second, 0, &half));
    OK(MPI_Intercomm_create(half, 0, comm, second ? 0 : low, 1, &inter));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    root = second ? 0 : check_rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    OK(MPI_Ibcast(numbers, 4, MPI_INT, root, inter, &request));
    OK(waited(&request));
    if (here) OK(MPI_Ibarrier(inter, &request));
    else OK(MPI_Ibcast(numbers, 4, MPI_INT, root, inter, &request));
    reported(waited(&request), "MPI_Ibcast", "MPI_Ibarrier at rank");
    OK(MPI_Ibarrier(inter, &request));
    OK(waited(&request));
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
}

/* Pairs of ranks: an even one sends to the next. */
static void partitioned(MPI_Comm comm) {
    struct record { int number; double value; } records[8];
    MPI_Datatype record;
    MPI_Request request;
    MPI_Status status;
    int sends = check_rank % 2 == 0, partner = sends ? check_rank + 1 : check_rank - 1, flag, code, length;
    char text[MPI_MAX_ERROR_STRING];
    int spread[12][2];
    float floats[12];
    if (partner >= check_size) partner = MPI_PROC_NULL;
    section("partitioned, alike, in other pieces");
    for (int i = 0; i < 12; i++) numbers[i] = sends ? i : -1;
    if (sends) OK(MPI_Psend_init(numbers, 4, 3, MPI_INT, partner, 1, comm, MPI_INFO_NULL, &request));
    else OK(MPI_Precv_init(numbers, 2, 6, MPI_INT, partner, 1, comm, MPI_INFO_NULL, &request));
    for (int round = 0; round < 2; round++) {
        OK(MPI_Start(&request));
        if (sends) OK(MPI_Pready_range(0, 3, request));
        OK(waited(&request));
        SAME(numbers[11], 11);
    }
    OK(MPI_Request_free(&request));
    section("partitioned, other elements");
    if (sends) OK(MPI_Psend_init(numbers, 4, 3, MPI_INT, partner, 2, comm, MPI_INFO_NULL, &request));
    else OK(MPI_Precv_init(floats, 2, 6, MPI_FLOAT, partner, 2, comm, MPI_INFO_NULL, &request));
    OK(MPI_Start(&request));
    if (sends) OK(MPI_Pready_range(0, 3, request));
    code = MPI_Wait(&request, &status);
    if (sends) {
        OK(code);
    } else {
        CLASS(code, MPI_ERR_TYPE);
        OK(MPI_Error_string(code, text, &length));
        if (!strstr(text, "MPI_Precv_init expects 2 partitions of 6 of MPI_FLOAT") ||
            !strstr(text, "sends 4 partitions of 12 bytes"))
            check_failed(__FILE__, __LINE__, text);
    }
    OK(MPI_Request_free(&request));
    section("partitioned, fewer elements");
    if (sends) OK(MPI_Psend_init(numbers, 3, 3, MPI_INT, partner, 4, comm, MPI_INFO_NULL, &request));
    else OK(MPI_Precv_init(numbers, 2, 6, MPI_INT, partner, 4, comm, MPI_INFO_NULL, &request));
    OK(MPI_Start(&request));
    if (sends) OK(MPI_Pready_range(0, 2, request));
    code = MPI_Wait(&request, &status);
    if (sends) {
        OK(code);
    } else {
        CLASS(code, MPI_ERR_TYPE);
        OK(MPI_Error_string(code, text, &length));
        if (!strstr(text, "sends 3 partitions of 12 bytes which are fewer elements")) check_failed(__FILE__, __LINE__, text);
    }
    OK(MPI_Request_free(&request));
    section("partitioned, fewer elements, with gaps: what came is in its place");
    OK(MPI_Type_create_resized(MPI_INT, 0, sizeof spread[0], &record));
    OK(MPI_Type_commit(&record));
    memset(spread, 0x5a, sizeof spread);
    for (int i = 0; i < 9; i++) numbers[i] = i + 7;
    if (sends) OK(MPI_Psend_init(numbers, 3, 3, MPI_INT, partner, 5, comm, MPI_INFO_NULL, &request));
    else OK(MPI_Precv_init(spread, 2, 6, record, partner, 5, comm, MPI_INFO_NULL, &request));
    OK(MPI_Start(&request));
    if (sends) OK(MPI_Pready_range(0, 2, request));
    else for (flag = 0; !flag && partner != MPI_PROC_NULL;) OK(MPI_Parrived(request, 0, &flag));
    for (int i = 0; i < 6 && !sends && partner != MPI_PROC_NULL; i++) SAME(spread[i][0], i + 7);
    code = MPI_Wait(&request, &status);
    if (sends || partner == MPI_PROC_NULL) OK(code);
    else CLASS(code, MPI_ERR_TYPE);
    for (int i = 0; i < 9 && !sends && partner != MPI_PROC_NULL; i++) SAME(spread[i][0], i + 7);
    UNTOUCHED(spread[9], 3 * sizeof spread[0], 0x5a);
    OK(MPI_Request_free(&request));
    OK(MPI_Type_free(&record));
    section("partitioned, other elements, with gaps: nothing is touched");
    OK(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, offsetof(struct record, value)}, (MPI_Datatype[]){MPI_INT, MPI_DOUBLE},
                              &record));
    OK(MPI_Type_commit(&record));
    memset(records, 0x5a, sizeof records);
    if (sends) OK(MPI_Psend_init(numbers, 4, 6, MPI_INT, partner, 3, comm, MPI_INFO_NULL, &request));
    else OK(MPI_Precv_init(records, 4, 2, record, partner, 3, comm, MPI_INFO_NULL, &request));
    OK(MPI_Start(&request));
    if (sends) OK(MPI_Pready_range(0, 3, request));
    else for (flag = 0; !flag && partner != MPI_PROC_NULL;) OK(MPI_Parrived(request, 3, &flag));
    code = waited(&request);
    if (sends) OK(code);
    else CLASS(code, MPI_ERR_TYPE);
    UNTOUCHED(records, sizeof records, 0x5a);
    OK(MPI_Request_free(&request));
    OK(MPI_Type_free(&record));
}

int main(int argc, char **argv) {
    MPI_Comm comm;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    begun(comm);
    many(comm);
    copies_behind(comm);
    described(comm);
    across(comm);
    partitioned(comm);
    OK(MPI_Comm_free(&comm));
    return check_close();
}
