// ranks: 1 2
// Error handlers of communicators: a function with variable arguments gets the communicator and the code; it may use
// MPI, also fail in it and change handlers; what is inherited, and when a handler is gone. (MPI 5.0, section 9.3)
#include "check.h"
#include <stdarg.h>

static int calls, codes[8], depth;
static MPI_Comm comms[8];
static MPI_Errhandler of_handler;

static void note(MPI_Comm *comm, int *code, ...) {
    if (calls < 8) comms[calls] = *comm, MPI_Error_class(*code, &codes[calls]);
    calls++;
}

static MPI_Errhandler make(MPI_Comm_errhandler_function *function) {
    MPI_Errhandler made = MPI_ERRHANDLER_NULL;
    OK(MPI_Comm_create_errhandler(function, &made));
    CHECK(made != MPI_ERRHANDLER_NULL);
    return made;
}

/* What fails is called on every library; MPICH answers MPI_SUCCESS where a handler has come back. */
#define FAILS(call, right) \
    do { \
        int fails_code = (call); \
        STRICT_CLASS(fails_code, right); \
    } while (0)

static void told(MPI_Comm comm) {
    int word = 0;
    section("the function is told what failed, and the call returns its code");
    OK(MPI_Comm_set_errhandler(comm, of_handler));
    calls = 0;
    FAILS(MPI_Send(&word, -1, MPI_INT, 0, 1, comm), MPI_ERR_COUNT);
    FAILS(MPI_Send(&word, 1, MPI_INT, 99, 1, comm), MPI_ERR_RANK);
    OK(MPI_Comm_call_errhandler(comm, MPI_ERR_TOPOLOGY));
    SAME(calls, 3);
    SAME(codes[0], MPI_ERR_COUNT);
    SAME(codes[1], MPI_ERR_RANK);
    SAME(codes[2], MPI_ERR_TOPOLOGY);
    CHECK(comms[0] == comm && comms[1] == comm && comms[2] == comm);
}

static void inherited(MPI_Comm comm) {
    MPI_Comm copy, part;
    int word = 0;
    section("new communicators have the handler of their parent");
    OK(MPI_Comm_dup(comm, &copy));
    OK(MPI_Comm_split(comm, 0, 0, &part));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    calls = 0;
    FAILS(MPI_Send(&word, -1, MPI_INT, 0, 1, comm), MPI_ERR_COUNT);
    SAME(calls, 0);
    FAILS(MPI_Send(&word, -1, MPI_INT, 0, 1, copy), MPI_ERR_COUNT);
    FAILS(MPI_Send(&word, -1, MPI_INT, 0, 1, part), MPI_ERR_COUNT);
    SAME(calls, 2);
    CHECK(comms[0] == copy && comms[1] == part);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&part));
}

/* What belongs to no object belongs to MPI_COMM_SELF, also a handle that is none. */
static void of_none(void) {
    MPI_Info nothing = MPI_INFO_NULL;
    int word = 0;
    section("errors of no object");
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, of_handler));
    calls = 0;
    if (!check_library_is("MPICH")) {
        FAILS(MPI_Info_free(&nothing), MPI_ERR_INFO);
        FAILS(MPI_Send(&word, 1, MPI_INT, 0, 1, MPI_COMM_NULL), MPI_ERR_COMM);
        SAME(calls, 2);
        CHECK(comms[0] == MPI_COMM_SELF && comms[1] == MPI_COMM_SELF);
        SAME(codes[1], MPI_ERR_COMM);
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
}

/* Fails itself, once, on the communicator that it is called for; then puts another handler there. */
static void deep(MPI_Comm *comm, int *code, ...) {
    int size, word = 0;
    MPI_Comm copy;
    if (calls < 8) MPI_Error_class(*code, &codes[calls]);
    calls++;
    OK(MPI_Comm_size(*comm, &size));
    if (++depth == 1) {
        FAILS(MPI_Send(&word, 1, MPI_INT, 0, -5, *comm), MPI_ERR_TAG);
        OK(MPI_Comm_dup(MPI_COMM_SELF, &copy));
        OK(MPI_Comm_free(&copy));
        OK(MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN));
    }
}

static void recursion(MPI_Comm comm) {
    MPI_Errhandler mine = make(deep);
    int word = 0;
    section("a handler that calls MPI");
    OK(MPI_Comm_set_errhandler(comm, mine));
    OK(MPI_Errhandler_free(&mine)); /* it lives on the communicator */
    CHECK(mine == MPI_ERRHANDLER_NULL);
    calls = 0;
    FAILS(MPI_Send(&word, -1, MPI_INT, 0, 1, comm), MPI_ERR_COUNT);
    SAME(calls, 2);
    CHECK(codes[0] == MPI_ERR_COUNT && codes[1] == MPI_ERR_TAG);
    FAILS(MPI_Send(&word, -1, MPI_INT, 0, 1, comm), MPI_ERR_COUNT);
    SAME(calls, 2); /* it is not there any more */
}

static void wrong(MPI_Comm comm) {
    MPI_Errhandler of_session, found;
    section("wrong handlers");
    OK(MPI_Session_create_errhandler((MPI_Session_errhandler_function *)(void (*)(void))note, &of_session));
    STRICT_CLASS(MPI_Comm_set_errhandler(comm, of_session), MPI_ERR_ERRHANDLER);
    STRICT_CLASS(MPI_Comm_set_errhandler(comm, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    STRICT_CLASS(MPI_Comm_create_errhandler(NULL, &found), MPI_ERR_ARG);
    OK(MPI_Comm_get_errhandler(comm, &found));
    CHECK(found == MPI_ERRORS_RETURN);
    OK(MPI_Errhandler_free(&of_session));
}

int main(int argc, char **argv) {
    MPI_Comm comm;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    of_handler = make(note);
    told(comm);
    inherited(comm);
    of_none();
    recursion(comm);
    wrong(comm);
    OK(MPI_Errhandler_free(&of_handler));
    OK(MPI_Comm_free(&comm));
    return check_close();
}
