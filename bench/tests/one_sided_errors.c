// ranks: 1 2 3 5
// nodes: 2
// Misuse of one-sided communication: calls that fit no epoch, and places outside of a window, are refused with the
// right class, change nothing, and leave the window as it was. (MPI 5.0, sections 12.3, 12.5 and 12.6)
#include "one_sided.h"

/* What other libraries leave open, or get wrong, is looked at here alone. */
#define OURS_CLASS(call, right) \
    do { \
        if (is_ours) CLASS(call, right); \
    } while (0)

enum { ELEMENTS = 16, WIDTH = sizeof(int) };

static int is_ours, me, size, next;
static MPI_Comm comm;
static MPI_Win win;
/* The memory of a window, and more on both sides of it where it is the program's. */
static int memory[3 * ELEMENTS], *own;

static int usual(int rank, MPI_Aint at) { return 1000 * rank + (int)at + ELEMENTS; }

/* Nobody has written anything, and the window is usable. */
static void check_usual(void) {
    int value = -1;
    OK(MPI_Barrier(comm));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win));
    for (int i = 0; i < ELEMENTS; i++) SAME(own[i], usual(me, i));
    for (int i = 0; i < 3 * ELEMENTS; i++) SAME(memory[i], usual(me, i - ELEMENTS));
    OK(MPI_Win_unlock(me, win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win));
    OK(MPI_Get(&value, 1, MPI_INT, next, 3, 1, MPI_INT, win));
    OK(MPI_Win_unlock(next, win));
    SAME(value, usual(next, 3));
    OK(MPI_Barrier(comm));
}

/* Every operation on `count` ints at a displacement of a rank is refused. */
static void all_refused(int target, MPI_Aint at, int count, int right) {
    int out[4 * ELEMENTS] = {0}, in[4 * ELEMENTS], there = usual(target, at), n = count, t = target;
    MPI_Request none = MPI_REQUEST_NULL;
    MPI_Datatype type = MPI_INT;
    memset(in, 0xee, sizeof in);
    OURS_CLASS(MPI_Put(out, n, type, t, at, n, type, win), right);
    OURS_CLASS(MPI_Put_c(out, n, type, t, at, n, type, win), right);
    OURS_CLASS(MPI_Get(in, n, type, t, at, n, type, win), right);
    OURS_CLASS(MPI_Accumulate(out, n, type, t, at, n, type, MPI_REPLACE, win), right);
    OURS_CLASS(MPI_Get_accumulate(out, n, type, in, n, type, t, at, n, type, MPI_REPLACE, win), right);
    OURS_CLASS(MPI_Rput(out, n, type, t, at, n, type, win, &none), right);
    OURS_CLASS(MPI_Rget(in, n, type, t, at, n, type, win, &none), right);
    OURS_CLASS(MPI_Raccumulate(out, n, type, t, at, n, type, MPI_REPLACE, win, &none), right);
    OURS_CLASS(MPI_Rget_accumulate(out, n, type, in, n, type, t, at, n, type, MPI_REPLACE, win, &none), right);
    if (n == 1) OURS_CLASS(MPI_Fetch_and_op(out, in, type, t, at, MPI_REPLACE, win), right);
    if (n == 1) OURS_CLASS(MPI_Compare_and_swap(out, &there, in, type, t, at, win), right);
    CHECK(none == MPI_REQUEST_NULL);
    UNTOUCHED(in, sizeof in, 0xee);
}

static MPI_Group of_rank(int rank) {
    MPI_Group all, one;
    OK(MPI_Win_get_group(win, &all));
    OK(MPI_Group_incl(all, 1, &rank, &one));
    OK(MPI_Group_free(&all));
    return one;
}

static void no_epoch(void) {
    MPI_Group targets = of_rank(next), origins = of_rank((me + size - 1) % size);
    section("operations without an epoch");
    all_refused(next, 0, 1, MPI_ERR_RMA_SYNC);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    all_refused(next, 0, 1, MPI_ERR_RMA_SYNC);
    if (size > 1) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win));
        all_refused(next, 0, 1, MPI_ERR_RMA_SYNC);
        OK(MPI_Win_unlock(me, win));
    }
    OK(MPI_Win_post(origins, 0, win));
    all_refused(next, 0, 1, MPI_ERR_RMA_SYNC);
    OK(MPI_Win_start(targets, 0, win));
    if (size > 1) all_refused(me, 0, 1, MPI_ERR_RMA_SYNC);
    OK(MPI_Win_complete(win));
    all_refused(next, 0, 1, MPI_ERR_RMA_SYNC);
    OK(MPI_Win_wait(win));
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Win_unlock_all(win));
    all_refused(next, 0, 1, MPI_ERR_RMA_SYNC);
    OK(MPI_Group_free(&targets));
    OK(MPI_Group_free(&origins));
    check_usual();
}

static void outside(void) {
    MPI_Datatype far, down;
    int out[3] = {0};
    section("places outside of a window");
    OK(MPI_Type_vector(3, 1, ELEMENTS / 2, MPI_INT, &far));
    OK(MPI_Type_vector(2, 1, -3, MPI_INT, &down));
    OK(MPI_Type_commit(&far));
    OK(MPI_Type_commit(&down));
    OK(MPI_Win_lock_all(0, win));
    for (int target = 0; target < size; target++) {
        all_refused(target, ELEMENTS, 1, MPI_ERR_RMA_RANGE);
        all_refused(target, -1, 1, MPI_ERR_DISP);
        all_refused(target, ELEMENTS - 2, 3, MPI_ERR_RMA_RANGE);
        all_refused(target, 0, ELEMENTS + 1, MPI_ERR_RMA_RANGE);
        all_refused(target, (MPI_Aint)1 << 40, 1, MPI_ERR_RMA_RANGE);
        all_refused(target, -((MPI_Aint)1 << 40), 1, MPI_ERR_DISP);
        OURS_CLASS(MPI_Put(out, 3, MPI_INT, target, 0, 1, far, win), MPI_ERR_RMA_RANGE);
        OURS_CLASS(MPI_Put(out, 2, MPI_INT, target, 2, 1, down, win), MPI_ERR_RMA_RANGE);
        OURS_CLASS(MPI_Accumulate(out, 3, MPI_INT, target, 0, 1, far, MPI_SUM, win), MPI_ERR_RMA_RANGE);
        if (is_ours) CHECK(MPI_Put(out, 1, MPI_INT, target, (MPI_Aint)1 << 62, 1, MPI_INT, win) != MPI_SUCCESS);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Type_free(&far));
    OK(MPI_Type_free(&down));
    check_usual();
}

static void synchronization(void) {
    MPI_Group self = of_rank(me);
    int flag = 77;
    section("calls that do not fit the epochs");
    OURS_CLASS(MPI_Win_unlock(next, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_flush(next, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_flush_local(next, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_flush_local_all(win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
    SAME(flag, 77);
    section("in an epoch of fences");
    OK(MPI_Win_fence(0, win));
    OURS_CLASS(MPI_Win_flush(next, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_unlock(next, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    section("between lock and unlock");
    OK(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win));
    OURS_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_start(self, 0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    if (size > 1) OURS_CLASS(MPI_Win_unlock(me, win), MPI_ERR_RMA_SYNC);
    if (size > 1) OURS_CLASS(MPI_Win_flush(me, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_unlock(next, win));
    section("between lock_all and unlock_all");
    OK(MPI_Win_lock_all(0, win));
    OURS_CLASS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_unlock(next, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_start(self, 0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_unlock_all(win));
    section("in epochs of post and start");
    OK(MPI_Win_post(self, 0, win));
    OURS_CLASS(MPI_Win_post(self, 0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_start(self, 0, win));
    OURS_CLASS(MPI_Win_start(self, 0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_flush(me, win), MPI_ERR_RMA_SYNC);
    OURS_CLASS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_complete(win));
    OURS_CLASS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_wait(win));
    OURS_CLASS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    OK(MPI_Group_free(&self));
    CHECK(win != MPI_WIN_NULL);
    check_usual();
}

/* Processes that a window does not have. */
static void strangers(void) {
    MPI_Comm half;
    MPI_Group all;
    MPI_Win of_half;
    section("groups with others than members");
    OK(MPI_Comm_group(comm, &all));
    OK(MPI_Comm_split(comm, me % 2, 0, &half));
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, half, &of_half));
    OK(MPI_Win_set_errhandler(of_half, MPI_ERRORS_RETURN));
    if (size > 1) {
        OURS_CLASS(MPI_Win_post(all, 0, of_half), MPI_ERR_GROUP);
        OURS_CLASS(MPI_Win_wait(of_half), MPI_ERR_RMA_SYNC);
        OURS_CLASS(MPI_Win_start(all, 0, of_half), MPI_ERR_GROUP);
        OURS_CLASS(MPI_Win_complete(of_half), MPI_ERR_RMA_SYNC);
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, of_half));
    OK(MPI_Win_free(&of_half));
    OK(MPI_Comm_free(&half));
    OK(MPI_Group_free(&all));
}

/* Refused at once, or when the target has been asked. */
static void not_attached(int count, MPI_Aint at, MPI_Win dynamic) {
    int out[2] = {-1, -1}, in[2] = {5, 5}, code;
    for (int call = 0; call < 4; call++) {
        if (call == 0) code = MPI_Put(out, count, MPI_INT, next, at, count, MPI_INT, dynamic);
        if (call == 1) code = MPI_Get(in, count, MPI_INT, next, at, count, MPI_INT, dynamic);
        if (call == 2) code = MPI_Accumulate(out, count, MPI_INT, next, at, count, MPI_INT, MPI_SUM, dynamic);
        if (call == 3) code = MPI_Fetch_and_op(out, in, MPI_INT, next, at + WIDTH * (count - 1), MPI_SUM, dynamic);
        if (code == MPI_SUCCESS) code = MPI_Win_flush(next, dynamic);
        CLASS(code, MPI_ERR_RMA_RANGE);
        OK(MPI_Win_flush(next, dynamic)); /* it is told once */
    }
}

static void dynamic(void) {
    static int attached[ELEMENTS];
    MPI_Aint mine, *all = malloc((size_t)size * sizeof *all), at;
    MPI_Win dynamic;
    int out = 4711, in = 0;
    section("memory that is not attached");
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &dynamic));
    OK(MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN));
    OK(MPI_Win_attach(dynamic, attached, ELEMENTS / 2 * WIDTH));
    OK(MPI_Get_address(attached, &mine));
    OK(MPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, comm));
    at = all[next];
    OK(MPI_Win_lock_all(0, dynamic));
    not_attached(1, at + ELEMENTS / 2 * WIDTH, dynamic);
    not_attached(2, at + (ELEMENTS / 2 - 1) * WIDTH, dynamic);
    not_attached(1, at - 2, dynamic);
    not_attached(1, 0, dynamic);
    OK(MPI_Put(&out, 1, MPI_INT, next, at + WIDTH, 1, MPI_INT, dynamic));
    OK(MPI_Win_flush(next, dynamic));
    OK(MPI_Get(&in, 1, MPI_INT, next, at + WIDTH, 1, MPI_INT, dynamic));
    OK(MPI_Win_unlock_all(dynamic));
    SAME(in, out);
    OK(MPI_Barrier(comm));
    for (int i = 0; i < ELEMENTS; i++) SAME(attached[i], i == 1 ? 4711 : 0);
    OK(MPI_Win_detach(dynamic, attached));
    OK(MPI_Barrier(comm));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, dynamic));
    not_attached(1, at + WIDTH, dynamic);
    OK(MPI_Win_unlock(next, dynamic));
    OK(MPI_Win_free(&dynamic));
    free(all);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    is_ours = check_library_is("weft");
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    me = check_rank, size = check_size, next = (me + 1) % size;
    for (int i = 0; i < 3 * ELEMENTS; i++) memory[i] = usual(me, i - ELEMENTS);
    for (int flavor = CREATED; flavor <= ALLOCATED; flavor++) {
        MPI_Aint bytes = ELEMENTS * WIDTH;
        own = memory + ELEMENTS;
        if (flavor == CREATED) OK(MPI_Win_create(own, bytes, WIDTH, MPI_INFO_NULL, comm, &win));
        else OK(MPI_Win_allocate(bytes, WIDTH, MPI_INFO_NULL, comm, &own, &win));
        for (int i = 0; i < ELEMENTS; i++) own[i] = usual(me, i);
        OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
        no_epoch();
        outside();
        synchronization();
        OK(MPI_Win_free(&win));
    }
    strangers();
    if (is_ours) dynamic();
    OK(MPI_Comm_free(&comm));
    return check_close();
}
