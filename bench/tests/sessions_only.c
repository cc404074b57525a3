// ranks: 1 2 3 5
// launch: --initial-errhandler mpi_errors_return
// A process that knows sessions only: communicators of a session's group, messages over them, buffered ones too, in
// several sessions at once; then it takes leave of its job without MPI_Finalize, and its launcher is content.
// (MPI 5.0, sections 7.4.2 and 11.3)
#include "check.h"
#include <sys/wait.h>

/* There is no MPI_COMM_WORLD that could be aborted: a process that fails ends with its status. */
#define NEED(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            _exit(3); \
        } \
    } while (0)
#define GOOD(call) NEED((call) == MPI_SUCCESS)

static MPI_Comm communicator(MPI_Session session, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    GOOD(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    GOOD(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    GOOD(MPI_Group_free(&group));
    return comm;
}

static void ring(MPI_Comm comm, int base) {
    int rank, size, got = -1, sum = -1;
    MPI_Status status;
    GOOD(MPI_Comm_rank(comm, &rank));
    GOOD(MPI_Comm_size(comm, &size));
    check_rank = rank;
    int mine = base + rank, before = (rank + size - 1) % size;
    GOOD(MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, 1, &got, 1, MPI_INT, before, 1, comm, &status));
    NEED(got == base + before && status.MPI_SOURCE == before);
    GOOD(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm));
    NEED(sum == size * base + size * (size - 1) / 2);
}

static void buffered(MPI_Session session, MPI_Comm comm) {
    static char room[1 << 16];
    int rank, size, got = -1, flag = 0;
    void *back = NULL;
    MPI_Count bytes = 0;
    MPI_Request request;
    GOOD(MPI_Comm_rank(comm, &rank));
    GOOD(MPI_Comm_size(comm, &size));
    if (!check_library_is("MPICH")) /* without a buffer */
        NEED(MPI_Bsend(&rank, 1, MPI_INT, (rank + 1) % size, 2, comm) == MPI_ERR_BUFFER);
    GOOD(MPI_Session_attach_buffer(session, room, sizeof room));
    GOOD(MPI_Bsend(&rank, 1, MPI_INT, (rank + 1) % size, 2, comm));
    GOOD(MPI_Session_iflush_buffer(session, &request));
    GOOD(MPI_Recv(&got, 1, MPI_INT, (rank + size - 1) % size, 2, comm, MPI_STATUS_IGNORE));
    NEED(got == (rank + size - 1) % size);
    GOOD(MPI_Wait(&request, MPI_STATUS_IGNORE));
    GOOD(MPI_Session_detach_buffer_c(session, &back, &bytes));
    NEED(back == (void *)room && bytes == (MPI_Count)sizeof room);
    GOOD(MPI_Comm_attach_buffer(comm, room, sizeof room));
    GOOD(MPI_Bsend(&rank, 1, MPI_INT, rank, 3, comm));
    GOOD(MPI_Recv(&got, 1, MPI_INT, rank, 3, comm, MPI_STATUS_IGNORE));
    GOOD(MPI_Comm_flush_buffer(comm));
    GOOD(MPI_Initialized(&flag));
    NEED(!flag);
}

/* A child that exits in the ordinary way must not take leave of the job for its parent. */
static void child(void) {
    int status = -1;
    pid_t pid = fork();
    NEED(pid >= 0);
    if (pid == 0) exit(0);
    NEED(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void) {
    check_watchdog();
    for (int turn = 0; turn < 3; turn++) {
        MPI_Session first, second;
        MPI_Comm of_first, of_second;
        section("a session");
        GOOD(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &first));
        GOOD(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second));
        of_first = communicator(first, "org.weft.test.first");
        of_second = communicator(second, "org.weft.test.second");
        section("messages");
        ring(of_first, 100 * turn);
        ring(of_second, 7);
        section("buffers");
        buffered(second, of_second);
        if (!check_library_is("MPICH")) NEED(MPI_Barrier(MPI_COMM_WORLD) == MPI_ERR_COMM);
        section("the end of the sessions");
        GOOD(MPI_Comm_free(&of_second)); /* with its buffer */
        GOOD(MPI_Session_finalize(&second));
        ring(of_first, 1);
        GOOD(MPI_Comm_free(&of_first));
        GOOD(MPI_Session_finalize(&first));
        section("a child process");
        if (!check_library_is("MPICH")) child(); /* whose children take leave */
    }
    if (check_rank == 0) printf("ok\n");
    return 0;
}
