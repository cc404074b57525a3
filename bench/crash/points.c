// What `cargo system-tests crash` runs, on a library in which a rank dies at a step that is given
// (docs/decisions/0018):
//     points KIND COUNT MODE [cold]
// Between two marks the ranks do an operation on COUNT numbers and recover by MODE (blank, blank-continue,
// shrink) when a member has died; then they do it again, where all that live must succeed. KIND is an
// operation's name, or `recover`: nothing but the recovery from a member that has died before. Cold: they
// have hardly talked to each other before the first mark, so that connections and boards come about behind
// it. Each rank that lives says `ok`.
#define _POSIX_C_SOURCE 200809L
#define CHECK_WATCHDOG_SECONDS 15
#include "../tests/check.h"

#include <mpix_ft.h>

enum { TAG = 7, COUNT_MAX = 1 << 18, RANKS_MAX = 8, UNTOUCHED = -77, ROUNDS_MAX = 6, WARM_ROUNDS = 12 };

static int numbers[COUNT_MAX], result[COUNT_MAX], gathered[RANKS_MAX * 4096];
static MPI_Comm comm;
static int shrinks, resets;
/* Those whose part each operation must have: by their ranks in the world, and where they are in the communicator. */
static int members[RANKS_MAX], places[RANKS_MAX], lives;

static void look(void) {
    MPI_Group all, live;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPIX_Comm_live_group(comm, &live));
    OK(MPI_Group_size(live, &lives));
    MPI_Group of;
    OK(MPI_Comm_group(comm, &of));
    for (int at = 0; at < lives; at++) {
        OK(MPI_Group_translate_ranks(live, 1, &at, all, &members[at]));
        OK(MPI_Group_translate_ranks(live, 1, &at, of, &places[at]));
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&live));
    OK(MPI_Group_free(&of));
}

/* What a rank of the world gives as its number at that place. */
static int part(int rank, int at) {
    return (1 << (3 * rank)) + (at % 7 == 3 ? 0 : 1 << 24);
}

static int sum_to(int end, int at) {
    int sum = 0;
    for (int number = 0; number < end; number++) sum += part(members[number], at);
    return sum;
}

static int place_here(void) {
    for (int at = 0; at < lives; at++)
        if (members[at] == check_rank) return at;
    return -1;
}

/* Blocks of `count` numbers: those of the living have theirs, the others are as they were. */
static void must_be_gathered(int count) {
    int size;
    OK(MPI_Comm_size(comm, &size));
    for (int slot = 0; slot < size; slot++) {
        int owner = -1;
        for (int at = 0; at < lives; at++)
            if (places[at] == slot) owner = members[at];
        for (int at = 0; at < count; at++)
            SAME(gathered[slot * count + at], owner < 0 ? UNTOUCHED : part(owner, at));
    }
}

static void must_be_sum(int count, int end) {
    for (int at = 0; at < count; at++) SAME(result[at], sum_to(end, at));
}

/* One operation; its code. What has succeeded has the part of everybody. */
static int operate(const char *kind, int count) {
    int code = MPI_SUCCESS, root = places[lives / 2], here = place_here(), few = count < 1024 ? count : 1024;
    int is_root = members[lives / 2] == check_rank;
    for (int at = 0; at < count; at++) {
        numbers[at] = part(check_rank, at);
        result[at] = UNTOUCHED;
    }
    for (int at = 0; at < RANKS_MAX * few; at++) gathered[at] = UNTOUCHED;
    if (!strcmp(kind, "barrier")) {
        code = MPI_Barrier(comm);
    } else if (!strcmp(kind, "bcast")) {
        code = MPI_Bcast(numbers, count, MPI_INT, root, comm);
        for (int at = 0; code == MPI_SUCCESS && at < count; at++) SAME(numbers[at], part(members[lives / 2], at));
    } else if (!strcmp(kind, "reduce")) {
        code = MPI_Reduce(numbers, result, count, MPI_INT, MPI_SUM, root, comm);
        if (code == MPI_SUCCESS && is_root) must_be_sum(count, lives);
    } else if (!strcmp(kind, "allreduce")) {
        code = MPI_Allreduce(numbers, result, count, MPI_INT, MPI_SUM, comm);
        if (code == MPI_SUCCESS) must_be_sum(count, lives);
    } else if (!strcmp(kind, "iallreduce")) {
        MPI_Request request;
        code = MPI_Iallreduce(numbers, result, count, MPI_INT, MPI_SUM, comm, &request);
        if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS) must_be_sum(count, lives);
    } else if (!strcmp(kind, "scan")) {
        code = MPI_Scan(numbers, result, count, MPI_INT, MPI_SUM, comm);
        if (code == MPI_SUCCESS) must_be_sum(count, here + 1);
    } else if (!strcmp(kind, "gather")) {
        code = MPI_Gather(numbers, few, MPI_INT, gathered, few, MPI_INT, root, comm);
        if (code == MPI_SUCCESS && is_root) must_be_gathered(few);
    } else if (!strcmp(kind, "allgather")) {
        code = MPI_Allgather(numbers, few, MPI_INT, gathered, few, MPI_INT, comm);
        if (code == MPI_SUCCESS) must_be_gathered(few);
    } else if (!strcmp(kind, "alltoall")) {
        int size, each = few / RANKS_MAX + 1;
        OK(MPI_Comm_size(comm, &size));
        for (int at = 0; at < size * each; at++) numbers[at] = part(check_rank, at % each);
        code = MPI_Alltoall(numbers, each, MPI_INT, gathered, each, MPI_INT, comm);
        if (code == MPI_SUCCESS) must_be_gathered(each);
    } else if (!strcmp(kind, "dup") || !strcmp(kind, "split")) {
        MPI_Comm copy = MPI_COMM_NULL;
        code = *kind == 'd' ? MPI_Comm_dup(comm, &copy) : MPI_Comm_split(comm, 0, 0, &copy);
        if (code == MPI_SUCCESS) code = MPI_Allreduce(numbers, result, few, MPI_INT, MPI_SUM, copy);
        if (code == MPI_SUCCESS) must_be_sum(few, lives);
        if (copy != MPI_COMM_NULL) OK(MPI_Comm_free(&copy));
    } else if (!strcmp(kind, "plan")) {
        MPI_Request request = MPI_REQUEST_NULL;
        code = MPI_Allreduce_init(numbers, result, count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
        for (int start = 0; code == MPI_SUCCESS && start < 3; start++) {
            code = MPI_Start(&request);
            if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
            if (code == MPI_SUCCESS) must_be_sum(count, lives);
        }
        if (request != MPI_REQUEST_NULL) OK(MPI_Request_free(&request));
    } else if (!strcmp(kind, "shrink")) {
        MPI_Comm smaller;
        int size;
        OK(MPIX_Comm_shrink(comm, &smaller));
        OK(MPI_Comm_size(smaller, &size));
        CHECK(size <= lives);
        code = MPI_Barrier(smaller);
        OK(MPI_Comm_free(&smaller));
    } else if (!strcmp(kind, "agree_failed")) {
        MPI_Group failed;
        int known = 0, size;
        OK(MPIX_Comm_agree_failed(comm, &failed));
        OK(MPI_Group_size(failed, &known));
        OK(MPI_Comm_size(comm, &size));
        /* Who is blank is among them; where there is nobody else, nobody has failed since. */
        if (known > size - lives) code = MPIX_ERR_PROC_FAILED;
        if (known > 0) OK(MPI_Group_free(&failed));
    } else if (!strcmp(kind, "messages")) {
        MPI_Request requests[2];
        int next = (here + 1) % lives, previous = (here + lives - 1) % lives, ended = 0;
        code = MPI_Irecv(result, count, MPI_INT, places[previous], TAG, comm, &requests[0]);
        if (code != MPI_SUCCESS) return code;
        code = MPI_Isend(numbers, count, MPI_INT, places[next], TAG, comm, &requests[1]);
        if (code != MPI_SUCCESS) requests[1] = MPI_REQUEST_NULL;
        while (code == MPI_SUCCESS && !ended) code = MPI_Testall(2, requests, &ended, MPI_STATUSES_IGNORE);
        if (code != MPI_SUCCESS) {
            if (!resets) OK(MPIX_Comm_revoke(comm));
            (void)MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
        for (int at = 0; code == MPI_SUCCESS && at < count; at++) SAME(result[at], part(members[previous], at));
    } else if (!strcmp(kind, "cancels")) {
        /* Each sends to the next and cancels, and says what became of it. */
        MPI_Request request;
        MPI_Status status;
        int next = (here + 1) % lives, previous = (here + lives - 1) % lives, is_cancelled = 0, told = 0;
        code = MPI_Issend(numbers, count, MPI_INT, places[next], TAG, comm, &request);
        if (code == MPI_SUCCESS) {
            OK(MPI_Cancel(&request));
            code = MPI_Wait(&request, &status);
        }
        if (code == MPI_SUCCESS) {
            OK(MPI_Test_cancelled(&status, &is_cancelled));
            code = MPI_Sendrecv(&is_cancelled, 1, MPI_INT, places[next], TAG + 1, &told, 1, MPI_INT, places[previous], TAG + 1,
                                comm, MPI_STATUS_IGNORE);
        }
        if (code == MPI_SUCCESS && !told) {
            code = MPI_Recv(result, count, MPI_INT, places[previous], TAG, comm, MPI_STATUS_IGNORE);
            for (int at = 0; code == MPI_SUCCESS && at < count; at++) SAME(result[at], part(members[previous], at));
        }
        if (code != MPI_SUCCESS && !resets) OK(MPIX_Comm_revoke(comm));
    } else if (strcmp(kind, "recover")) {
        check_failed(__FILE__, __LINE__, "there is no such operation");
    }
    return code;
}

static void recover(void) {
    MPIX_Recover_info info;
    MPI_Comm next = MPI_COMM_NULL;
    section("recovering");
    OK(MPIX_Comm_recover(comm, 0, &next, &info));
    OK(MPI_Group_free(&info.failed));
    if (shrinks) {
        OK(MPI_Comm_free(&comm));
        comm = next;
    }
    section("who lives");
    look();
    CHECK(place_here() >= 0);
}

/* Until all that live have done the operation and know it. */
static void until_good(const char *kind, int count) {
    for (int round = 0; round < ROUNDS_MAX; round++) {
        section(kind);
        int mine = operate(kind, count) == MPI_SUCCESS, good = mine, code;
        section("was it good everywhere");
        code = MPIX_Comm_agree(comm, &good);
        /* All who live have agreed on the same. */
        if (!strcmp(kind, "agree_failed")) SAME(good, mine);
        if (good && code == MPI_SUCCESS) return;
        if (!resets) {
            section("revoking");
            OK(MPIX_Comm_revoke(comm));
        }
        recover();
    }
    check_failed(__FILE__, __LINE__, "one has died, and yet so many recoveries were in vain");
}

int main(int argc, char **argv) {
    const char *kind = argc > 3 ? argv[1] : "", *mode = argc > 3 ? argv[3] : "";
    int count = argc > 3 ? atoi(argv[2]) : 0, alone = !strcmp(kind, "recover"), is_cold = argc == 5;
    int warm_rounds = is_cold ? 0 : count > 10000 ? WARM_ROUNDS / 3 : WARM_ROUNDS;
    check_open(argc, argv);
    CHECK((argc == 4 || is_cold) && check_size <= RANKS_MAX && count > 0 && count <= COUNT_MAX);
    shrinks = !strcmp(mode, "shrink");
    resets = strcmp(mode, "blank-continue") != 0;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPIX_Comm_set_ft_mode(comm, shrinks ? MPIX_FT_MODE_SHRINK : MPIX_FT_MODE_BLANK,
            resets ? MPIX_FT_MSG_RESET : MPIX_FT_MSG_CONT, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    look();
    /* All know each other, and go the shortest ways. */
    for (int round = 0; round < warm_rounds; round++) {
        OK(operate("allreduce", 4));
        OK(operate(kind, count));
    }
    /* Nobody dies before all have come so far; somebody may before all have heard of it. */
    (void)MPIX_Comm_agree(comm, &(int){1});
    if (alone && check_rank == check_size - 1) raise(SIGKILL);
    section("the first mark");
    OK(MPI_Pcontrol(1));
    until_good(alone ? "allreduce" : kind, count);
    /* Boards come about after a few operations. */
    for (int round = 0; is_cold && round < WARM_ROUNDS / 2; round++) until_good("allreduce", 4);
    OK(MPI_Pcontrol(0));
    /* Whoever has died by now is found out in the first of these. */
    until_good("allreduce", 4);
    until_good(alone ? "barrier" : kind, count);
    until_good("allgather", 4);
    section("leaving");
    OK(MPI_Comm_free(&comm));
    printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
