// ranks: 3 5
// launch: --ft=blank
// says: the others go on
// not libfabric: what a provider tells of a dead process differs from one to the next
// Windows of communicators with blank ranks, the first one among them (rule K13): they are made, fenced, locked and freed by those who live;
// a blank rank has no memory in what was made since. Windows that have lost a member end what needs all, and can be freed.
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpix_ft.h>

enum { BYTES = 64 };

static MPI_Comm comm;
static int is_shared;

/* Of these ranks nobody is there. */
static int is_blank(int rank) { return rank == 0 || (check_size > 3 && rank == 3); }

static void lose(int rank) {
    if (check_rank == rank) {
        fflush(NULL);
        raise(SIGKILL);
    }
}

/* Between two fences, and locked. */
static void epochs(MPI_Win window) {
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_lock_all(0, window));
    OK(MPI_Win_flush_all(window));
    OK(MPI_Win_flush(0, window));
    OK(MPI_Win_sync(window));
    OK(MPI_Win_unlock_all(window));
}

/* What each who lives has stored, the others load. `bytes` is what each has, or 0 where that is its own to know. */
static void loads(MPI_Win window, unsigned char *mine, int differs) {
    MPI_Aint got;
    int unit;
    unsigned char *part;
    memset(mine, check_rank + 1, BYTES);
    OK(MPI_Win_fence(0, window));
    for (int of = 0; of < check_size; of++) {
        OK(MPI_Win_shared_query(window, of, &got, &unit, &part));
        SAME(got, is_blank(of) ? 0 : BYTES + (differs ? of : 0));
        for (int at = 0; at < (is_blank(of) ? 0 : BYTES); at++) SAME(part[at], of + 1);
    }
    OK(MPI_Win_fence(0, window));
}

static void make_all(void) {
    static unsigned char own[BYTES];
    unsigned char *base = NULL, *mine = NULL;
    int size = -1, code, class = 0;
    MPI_Win window;
    MPI_Group group;
    section("K13: create");
    OK(MPI_Win_create(own, sizeof own, 1, MPI_INFO_NULL, comm, &window));
    epochs(window);
    OK(MPI_Win_get_group(window, &group));
    OK(MPI_Group_size(group, &size));
    SAME(size, check_size);
    OK(MPI_Group_free(&group));
    OK(MPI_Win_free(&window));
    section("K13: allocate");
    OK(MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, comm, &base, &window));
    memset(base, 1, BYTES);
    epochs(window);
    OK(MPI_Win_free(&window));
    section("K13: dynamic");
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &window));
    OK(MPI_Win_attach(window, own, sizeof own));
    epochs(window);
    OK(MPI_Win_detach(window, own));
    OK(MPI_Win_free(&window));
    section("K13: shared");
    for (int differs = 0; differs < 2; differs++) {
        code = MPI_Win_allocate_shared(BYTES + (differs ? check_rank : 0), 1, MPI_INFO_NULL, comm, &mine, &window);
        if (code != MPI_SUCCESS) OK(MPI_Error_class(code, &class));
        is_shared = code == MPI_SUCCESS;
        if (!is_shared) SAME(class, MPI_ERR_RMA_SHARED);
        if (!is_shared) return;
        epochs(window);
        loads(window, mine, differs);
        OK(MPI_Win_free(&window));
    }
}

/* What is asked of a blank rank by name. */
static void refused(void) {
    MPI_Win window;
    unsigned char *base;
    section("K13: by the policy of messages");
    OK(MPIX_Comm_set_ft_mode(comm, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_ERROR));
    OK(MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, comm, &base, &window));
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    OK(MPI_Win_lock_all(0, window));
    CLASS(MPI_Win_flush(0, window), MPI_ERR_RANK);
    OK(MPI_Win_flush(1, window));
    OK(MPI_Win_unlock_all(window));
    OK(MPI_Win_free(&window));
    OK(MPIX_Comm_set_ft_mode(comm, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
}

int main(int argc, char **argv) {
    unsigned char *base[2];
    MPI_Win kept, mended;
    int code, class = -1;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPIX_Comm_set_ft_mode(MPI_COMM_WORLD, MPIX_FT_MODE_BLANK, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL,
                             MPIX_FT_P2P_PROC_NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, comm, &base[0], &kept));
    OK(MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, comm, &base[1], &mended));
    OK(MPI_Win_set_errhandler(kept, MPI_ERRORS_RETURN));
    OK(MPI_Win_set_errhandler(mended, MPI_ERRORS_RETURN));
    section("members die");
    (void)MPI_Barrier(MPI_COMM_WORLD);
    lose(0);
    if (check_size > 3) lose(3);
    do code = MPI_Win_fence(0, kept);
    while (code == MPI_SUCCESS);
    OK(MPI_Error_class(code, &class));
    SAME(class, MPIX_ERR_PROC_FAILED);
    section("K13: a window that has lost a member is freed");
    OK(MPI_Win_free(&kept));
    OK(MPIX_Comm_recover(comm, 0, NULL, NULL));
    if (check_size > 3) OK(MPIX_Comm_recover(comm, 0, NULL, NULL));
    OK(MPI_Barrier(MPI_COMM_SELF));
    section("K13: all at once");
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, MPIX_RECOVER_ALL, NULL, NULL));
    epochs(mended);
    OK(MPI_Win_free(&mended));
    make_all();
    refused();
    OK(MPI_Comm_free(&comm));
    if (check_rank == 1) printf("ok\n");
    fflush(stdout);
    OK(MPI_Finalize());
    return 0;
}
