// ranks: 1 2
// Handles and statuses as C hands them to Fortran and back, in names that the standard ABI leaves out: every kind of handle comes back,
// predefined ones, the program's own and the null handle, under both names of each function; so does all that a status tells.
// (MPI 5.0, section 19.3.4 and 19.3.5)
#include "check.h"

#if defined(MPI_ABI_VERSION) && !defined(MPI_F_STATUS_IGNORE)
/* A library that has the ABI alone: nothing to be checked. */
int main(int argc, char **argv) {
    check_open(argc, argv);
    return check_close();
}
#else

#define ROUND_TRIP(kind, handle)                                               \
    do {                                                                       \
        MPI_Fint number = MPI_##kind##_c2f(handle);                            \
        CHECK(MPI_##kind##_f2c(number) == (handle));                           \
        CHECK(PMPI_##kind##_c2f(handle) == number);                            \
        CHECK(PMPI_##kind##_f2c(number) == (handle));                          \
        if (MPI_VERSION >= 5 && !check_library_is("MPICH")) AS_INT(kind, handle, number); \
    } while (0)
#if MPI_VERSION >= 5 && defined(MPI_ABI_VERSION)
#define AS_INT(kind, handle, number) CHECK(MPI_##kind##_toint(handle) == (number))
#else
#define AS_INT(kind, handle, number) (void)0
#endif

static void add(void *in, void *inout, int *length, MPI_Datatype *datatype) {
    (void)datatype;
    for (int i = 0; i < *length; i++) ((int *)inout)[i] += ((int *)in)[i];
}

static void ignore(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
}

static void predefined(void) {
    section("predefined handles");
    ROUND_TRIP(Comm, MPI_COMM_WORLD);
    ROUND_TRIP(Comm, MPI_COMM_NULL);
    ROUND_TRIP(Type, MPI_DOUBLE);
    ROUND_TRIP(Type, MPI_DATATYPE_NULL);
    ROUND_TRIP(Group, MPI_GROUP_EMPTY);
    ROUND_TRIP(Op, MPI_MAXLOC);
    ROUND_TRIP(Errhandler, MPI_ERRORS_RETURN);
    ROUND_TRIP(Info, MPI_INFO_NULL);
    ROUND_TRIP(Request, MPI_REQUEST_NULL);
    ROUND_TRIP(Message, MPI_MESSAGE_NO_PROC);
    ROUND_TRIP(File, MPI_FILE_NULL);
    ROUND_TRIP(Win, MPI_WIN_NULL);
    ROUND_TRIP(Session, MPI_SESSION_NULL);
}

static void made(void) {
    MPI_Comm comm;
    MPI_Datatype datatype;
    MPI_Group group;
    MPI_Op op;
    MPI_Errhandler handler;
    MPI_Info info;
    MPI_Request request;
    MPI_Message message;
    MPI_Win window;
    MPI_Session session;
    int number = 7, found = 0, memory[4];
    section("handles of the program");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Type_contiguous(3, MPI_INT, &datatype));
    OK(MPI_Comm_group(comm, &group));
    OK(MPI_Op_create(add, 1, &op));
    OK(MPI_Comm_create_errhandler(ignore, &handler));
    OK(MPI_Info_create(&info));
    OK(MPI_Irecv(&found, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &request));
    OK(MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, comm, &window));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    ROUND_TRIP(Comm, comm);
    ROUND_TRIP(Type, datatype);
    ROUND_TRIP(Group, group);
    ROUND_TRIP(Op, op);
    ROUND_TRIP(Errhandler, handler);
    ROUND_TRIP(Info, info);
    ROUND_TRIP(Request, request);
    ROUND_TRIP(Win, window);
    ROUND_TRIP(Session, session);
    OK(MPI_Send(&number, 1, MPI_INT, 0, 3, MPI_COMM_SELF));
    request = MPI_Request_f2c(MPI_Request_c2f(request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(found, 7);
    OK(MPI_Isend(&number, 1, MPI_INT, 0, 4, MPI_COMM_SELF, &request));
    OK(MPI_Mprobe(0, 4, MPI_COMM_SELF, &message, MPI_STATUS_IGNORE));
    ROUND_TRIP(Message, message);
    OK(MPI_Mrecv(&found, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Session_finalize(&session));
    OK(MPI_Win_free(&window));
    OK(MPI_Info_free(&info));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Op_free(&op));
    OK(MPI_Group_free(&group));
    OK(MPI_Type_free(&datatype));
    OK(MPI_Comm_free(&comm));
}

/* The source, the tag, the count beyond 32 bits, and that it was cancelled. */
static void same_status(const MPI_Status *status, const MPI_Status *right) {
    MPI_Count got = 0, wanted = 0;
    int cancelled = -1, was = -1;
    CHECK(status->MPI_SOURCE == right->MPI_SOURCE && status->MPI_TAG == right->MPI_TAG && status->MPI_ERROR == right->MPI_ERROR);
    OK(MPI_Get_elements_x(status, MPI_BYTE, &got));
    OK(MPI_Get_elements_x(right, MPI_BYTE, &wanted));
    SAME(got, wanted);
    OK(MPI_Test_cancelled(status, &cancelled));
    OK(MPI_Test_cancelled(right, &was));
    SAME(cancelled, was);
}

static void statuses(void) {
    MPI_Status status, back;
    MPI_F08_status new_style;
    MPI_Fint array[MPI_F_STATUS_SIZE];
    const MPI_Count counts[] = {0, 5, ((MPI_Count)1 << 33) + 9};
    section("statuses");
    for (int i = 0; i < 3; i++) {
        memset(&status, 0, sizeof status);
        status.MPI_SOURCE = 3 + i, status.MPI_TAG = 40 + i, status.MPI_ERROR = MPI_ERR_TAG;
        OK(MPI_Status_set_elements_x(&status, MPI_BYTE, counts[i]));
        OK(MPI_Status_set_cancelled(&status, i == 1));
        OK(MPI_Status_c2f(&status, array));
        CHECK(array[MPI_F_SOURCE] == 3 + i && array[MPI_F_TAG] == 40 + i && array[MPI_F_ERROR] == MPI_ERR_TAG);
        memset(&back, 0x5a, sizeof back);
        OK(MPI_Status_f2c(array, &back));
        same_status(&back, &status);
        OK(MPI_Status_c2f08(&status, &new_style));
        CHECK(new_style.MPI_SOURCE == 3 + i && new_style.MPI_TAG == 40 + i && new_style.MPI_ERROR == MPI_ERR_TAG);
        memset(&back, 0x5a, sizeof back);
        OK(PMPI_Status_f082c(&new_style, &back));
        same_status(&back, &status);
        memset(array, 0x5a, sizeof array);
        OK(MPI_Status_f082f(&new_style, array));
        memset(&new_style, 0x5a, sizeof new_style);
        OK(MPI_Status_f2f08(array, &new_style));
        OK(MPI_Status_f082c(&new_style, &back));
        same_status(&back, &status);
    }
    section("statuses that are ignored");
    STRICT_CLASS(MPI_Status_f2c(MPI_F_STATUS_IGNORE, &back), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Status_f2c(MPI_F_STATUSES_IGNORE, &back), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Status_f082c(MPI_F08_STATUS_IGNORE, &back), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Status_f082c(MPI_F08_STATUSES_IGNORE, &back), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Status_c2f(MPI_STATUS_IGNORE, array), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Status_c2f(&status, NULL), MPI_ERR_ARG);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    predefined();
    made();
    statuses();
    return check_close();
}
#endif
