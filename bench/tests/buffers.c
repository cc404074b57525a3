// ranks: 1 2 3
// The buffers of MPI 4.1: of a communicator, of a session and of the process; without limit; flushed with and without
// waiting; and every way to have no room. (MPI 5.0, section 3.6)
#include "check.h"

/* REFUSED: a tag that nothing else has, of messages that nobody may see. */
enum { BYTES = 300000 /* longer than anything that is sent at once */, SMALL = 500, REFUSED = 99 };

static int next, previous;
static unsigned char out[BYTES], in[BYTES];

static void arrive(MPI_Comm comm, int bytes, int tag) {
    memset(in, 0, sizeof in);
    OK(MPI_Recv(in, bytes, MPI_BYTE, previous, tag, comm, MPI_STATUS_IGNORE));
    VERIFY(in, (size_t)bytes, (unsigned)(previous + tag));
}

static void leave(MPI_Comm comm, int bytes, int tag) {
    fill(out, (size_t)bytes, (unsigned)(check_rank + tag));
    OK(MPI_Bsend(out, bytes, MPI_BYTE, next, tag, comm));
    memset(out, 0, (size_t)bytes);
}

/* The buffer of a communicator is used by its sends and by no others. */
static void of_a_communicator(void) {
    int room = BYTES + MPI_BSEND_OVERHEAD, size = -1;
    char *memory = malloc((size_t)room);
    void *detached = NULL;
    MPI_Comm comm;
    MPI_Request request;
    section("a buffer of a communicator");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_attach_buffer(comm, memory, room));
    CLASS(MPI_Comm_attach_buffer(comm, memory, room), MPI_ERR_BUFFER); /* there is one */
    CLASS(MPI_Bsend(out, 1, MPI_BYTE, next, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    leave(comm, BYTES, 1);
    arrive(comm, BYTES, 1);
    OK(MPI_Comm_flush_buffer(comm));
    leave(comm, BYTES, 2); /* there is room again */
    arrive(comm, BYTES, 2);
    OK(MPI_Comm_iflush_buffer(comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(request == MPI_REQUEST_NULL);
    leave(comm, BYTES, 3);
    arrive(comm, BYTES, 3);
    OK(MPI_Comm_detach_buffer(comm, &detached, &size));
    CHECK(detached == memory);
    SAME(size, room);
    CLASS(MPI_Bsend(out, 1, MPI_BYTE, next, 1, comm), MPI_ERR_BUFFER);
    STRICT_CLASS(MPI_Comm_detach_buffer(comm, &detached, &size), MPI_ERR_BUFFER);
    section("a communicator that is freed with its buffer in use");
    OK(MPI_Comm_attach_buffer(comm, memory, room));
    leave(comm, BYTES, 4);
    arrive(comm, BYTES, 4);
    OK(MPI_Comm_detach_buffer(comm, &detached, &size));
    OK(MPI_Comm_free(&comm));
    free(memory);
}

/* A message that waits takes its room with it, until it is gone; what has no room is refused, and nothing is sent. */
static void room(void) {
    int bytes = 2 * (SMALL + MPI_BSEND_OVERHEAD), size = 0, flag = 1, large = BYTES + MPI_BSEND_OVERHEAD;
    char *memory = malloc((size_t)large);
    void *detached = NULL;
    MPI_Status status;
    section("room for two");
    OK(MPI_Buffer_attach(memory, bytes));
    CLASS(MPI_Bsend(out, bytes, MPI_BYTE, next, REFUSED, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    for (int tag = 0; tag < 2; tag++) leave(MPI_COMM_WORLD, SMALL, tag);
    for (int tag = 0; tag < 2; tag++) arrive(MPI_COMM_WORLD, SMALL, tag);
    OK(MPI_Buffer_flush());
    OK(MPI_Buffer_detach(&detached, &size));
    SAME(size, bytes);
    section("room that is taken");
    OK(MPI_Buffer_attach(memory, large));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    leave(MPI_COMM_WORLD, BYTES, 3);
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* nobody has received it: large messages wait at their senders */
    if (!check_library_is("MPICH")) CLASS(MPI_Bsend(out, BYTES, MPI_BYTE, next, REFUSED, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    arrive(MPI_COMM_WORLD, BYTES, 3);
    OK(MPI_Buffer_flush());
    leave(MPI_COMM_WORLD, BYTES, 4);
    arrive(MPI_COMM_WORLD, BYTES, 4);
    OK(MPI_Buffer_detach(&detached, &size));
    section("nothing of what was refused has come");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Iprobe(MPI_ANY_SOURCE, REFUSED, MPI_COMM_WORLD, &flag, &status));
    CHECK(!flag);
    free(memory);
}

/* Programs give each message less than MPI_BSEND_OVERHEAD, as other libraries let them. */
static void little_room(void) {
    enum { MANY = 10, FEW = 40, OVERHEAD = 160 };
    int large = 3 * (BYTES + OVERHEAD), size = 0;
    char *memory = malloc((size_t)large);
    void *detached = NULL;
    section("little room for many messages");
    OK(MPI_Buffer_attach(memory, MANY * (FEW + OVERHEAD)));
    for (int tag = 0; tag < MANY; tag++) leave(MPI_COMM_WORLD, FEW, tag);
    for (int tag = 0; tag < MANY; tag++) arrive(MPI_COMM_WORLD, FEW, tag);
    OK(MPI_Buffer_detach(&detached, &size));
    section("little room for messages that wait");
    OK(MPI_Buffer_attach(memory, large));
    for (int tag = 0; tag < 3; tag++) leave(MPI_COMM_WORLD, BYTES, tag);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int tag = 0; tag < 3; tag++) arrive(MPI_COMM_WORLD, BYTES, tag);
    OK(MPI_Buffer_detach(&detached, &size));
    free(memory);
}

static void without_limit(void) {
    int size = -1;
    void *detached = NULL;
    MPI_Comm comm;
    section("MPI_BUFFER_AUTOMATIC");
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    for (int tag = 0; tag < 30; tag++) leave(MPI_COMM_WORLD, BYTES, tag);
    for (int tag = 29; tag >= 0; tag--) arrive(MPI_COMM_WORLD, BYTES, tag);
    OK(MPI_Buffer_flush());
    OK(MPI_Buffer_detach(&detached, &size));
    CHECK(detached == MPI_BUFFER_AUTOMATIC);
    SAME(size, 0);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0));
    leave(comm, BYTES, 1);
    arrive(comm, BYTES, 1);
    OK(MPI_Comm_detach_buffer(comm, &detached, &size));
    CHECK(detached == MPI_BUFFER_AUTOMATIC);
    OK(MPI_Comm_free(&comm));
}

/* A flush is over when the messages are gone that were there when it began, and not before. */
static void flushes(void) {
    int flag = 1, size = 0;
    void *detached = NULL;
    MPI_Request request;
    section("a flush without waiting");
    OK(MPI_Buffer_iflush(&request)); /* nothing is attached */
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_flush());
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    leave(MPI_COMM_WORLD, BYTES, 1);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Buffer_iflush(&request));
    if (!check_library_is("MPICH")) {
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    arrive(MPI_COMM_WORLD, BYTES, 1);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&detached, &size));
}

/* A flush takes nothing out of the buffer: another one waits for the same messages, and they have their room until they are
 * gone. */
static void flushed_twice(void) {
    enum { ROOM = BYTES + MPI_BSEND_OVERHEAD };
    int size = 0, flag = -1;
    char *memory = malloc(ROOM);
    void *detached = NULL;
    MPI_Request requests[3];
    section("flushes of the same messages");
    OK(MPI_Buffer_attach(memory, ROOM));
    leave(MPI_COMM_WORLD, BYTES, 1);
    for (int i = 0; i < 3; i++) OK(MPI_Buffer_iflush(&requests[i]));
    OK(MPI_Request_free(&requests[1]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (!check_library_is("MPICH")) {
        OK(MPI_Testany(1, &requests[2], &size, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        CLASS(MPI_Bsend(out, SMALL, MPI_BYTE, next, REFUSED, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    arrive(MPI_COMM_WORLD, BYTES, 1);
    OK(MPI_Wait(&requests[2], MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    leave(MPI_COMM_WORLD, BYTES, 2); /* there is room again */
    OK(MPI_Buffer_iflush(&requests[0]));
    arrive(MPI_COMM_WORLD, BYTES, 2);
    OK(MPI_Buffer_detach(&detached, &size)); /* which waits for the same messages */
    CHECK(detached == memory);
    OK(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE));
    CHECK(flag || check_library_is("MPICH"));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    free(memory);
}

/* Sends on communicators of a session use its buffer; those of the world have none. */
static void of_a_session(void) {
    int bytes = BYTES + MPI_BSEND_OVERHEAD, size = -1;
    char *memory = malloc((size_t)bytes);
    void *detached = NULL;
    MPI_Session session, other;
    MPI_Group group;
    MPI_Comm comm, copy;
    MPI_Request request;
    section("a buffer of a session");
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &other));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "buffers", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_dup(comm, &copy));
    OK(MPI_Session_attach_buffer(session, memory, bytes));
    CLASS(MPI_Session_attach_buffer(session, memory, bytes), MPI_ERR_BUFFER);
    leave(comm, BYTES, 1);
    arrive(comm, BYTES, 1);
    OK(MPI_Session_flush_buffer(session));
    leave(copy, BYTES, 2); /* a copy belongs to the session, too */
    arrive(copy, BYTES, 2);
    OK(MPI_Session_iflush_buffer(session, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    STRICT_CLASS(MPI_Bsend(out, 1, MPI_BYTE, next, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    OK(MPI_Session_detach_buffer(session, &detached, &size));
    CHECK(detached == memory);
    SAME(size, bytes);
    CLASS(MPI_Bsend(out, 1, MPI_BYTE, next, 1, comm), MPI_ERR_BUFFER);
    section("a buffer of another session");
    OK(MPI_Session_attach_buffer(other, MPI_BUFFER_AUTOMATIC, 0));
    STRICT_CLASS(MPI_Bsend(out, 1, MPI_BYTE, next, 1, comm), MPI_ERR_BUFFER);
    OK(MPI_Session_detach_buffer(other, &detached, &size));
    section("a buffer of the process serves all that have none of their own");
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    leave(comm, BYTES, 3);
    arrive(comm, BYTES, 3);
    OK(MPI_Buffer_detach(&detached, &size));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_free(&copy));
    OK(MPI_Session_finalize(&session));
    OK(MPI_Session_finalize(&other));
    free(memory);
}

static void wrong(void) {
    int size = 0;
    void *detached = NULL;
    MPI_Request request;
    section("wrong arguments");
    STRICT_CLASS(MPI_Buffer_attach(NULL, 10), MPI_ERR_BUFFER);
    STRICT_CLASS(MPI_Buffer_attach(in, -1), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Buffer_detach(&detached, &size), MPI_ERR_BUFFER); /* nothing is attached */
    STRICT_CLASS(MPI_Buffer_detach(NULL, &size), MPI_ERR_ARG);
    CLASS(MPI_Comm_attach_buffer(MPI_COMM_NULL, in, 10), MPI_ERR_COMM);
    CLASS(MPI_Session_attach_buffer(MPI_SESSION_NULL, in, 10), MPI_ERR_SESSION);
    STRICT_CLASS(MPI_Buffer_iflush(NULL), MPI_ERR_ARG);
    CLASS(MPI_Bsend(out, 1, MPI_BYTE, next, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CLASS(MPI_Ibsend(out, 1, MPI_BYTE, next, 1, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER);
    CLASS(MPI_Bsend(out, -1, MPI_BYTE, next, 1, MPI_COMM_WORLD), MPI_ERR_COUNT);
    OK(MPI_Bsend(out, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD)); /* which needs no room */
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    next = (check_rank + 1) % check_size;
    previous = (check_rank + check_size - 1) % check_size;
    of_a_communicator();
    room();
    little_room();
    without_limit();
    flushes();
    flushed_twice();
    of_a_session();
    wrong();
    return check_close();
}
