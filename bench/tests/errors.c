// ranks: 1 2
// Wrong arguments of every kind: the call answers with the class that names the fault, touches
// nothing, and the library goes on working. (MPI 5.0, sections 9.3 and 9.4)
#include "check.h"

static int data[16], got[16];
static int untouched_int;

static MPI_Comm no_comm(void) { return MPI_COMM_NULL; }

/* Memory that is no handle: what a program has that forgets to set one. */
static MPI_Comm wild_comm(void) { return (MPI_Comm)(void *)0x7ffffff8; }
static MPI_Datatype wild_type(void) { return (MPI_Datatype)(void *)0x7ffffff8; }

/* Some libraries trust the handles that they are given; ours must not. */
static int trusts_handles(void) { return check_library_is("MPICH"); }

static void ready(void) {
    memset(got, 0xee, sizeof got);
    untouched_int = -12345;
}

static void nothing_touched(void) {
    UNTOUCHED(got, sizeof got, 0xee);
    SAME(untouched_int, -12345);
}

/* The arguments that all calls of one kind share, each wrong in turn. */
static void sends(void) {
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request = MPI_REQUEST_NULL;
    section("wrong arguments of sends");
    CLASS(MPI_Send(data, -1, MPI_INT, 0, 1, world), MPI_ERR_COUNT);
    CLASS(MPI_Send(data, 1, MPI_DATATYPE_NULL, 0, 1, world), MPI_ERR_TYPE);
    CLASS(MPI_Send(data, 1, MPI_INT, check_size, 1, world), MPI_ERR_RANK);
    CLASS(MPI_Send(data, 1, MPI_INT, -5000, 1, world), MPI_ERR_RANK);
    CLASS(MPI_Send(data, 1, MPI_INT, MPI_ANY_SOURCE, 1, world), MPI_ERR_RANK);
    CLASS(MPI_Send(data, 1, MPI_INT, 0, -2000, world), MPI_ERR_TAG);
    CLASS(MPI_Send(data, 1, MPI_INT, 0, MPI_ANY_TAG, world), MPI_ERR_TAG);
    CLASS(MPI_Send(data, 1, MPI_INT, 0, 1, no_comm()), MPI_ERR_COMM);
    CLASS(MPI_Send(NULL, 1, MPI_INT, 0, 1, world), MPI_ERR_BUFFER);
    CLASS(MPI_Ssend(data, -1, MPI_INT, 0, 1, world), MPI_ERR_COUNT);
    CLASS(MPI_Rsend(data, 1, MPI_INT, check_size, 1, world), MPI_ERR_RANK);
    CLASS(MPI_Isend(data, -1, MPI_INT, 0, 1, world, &request), MPI_ERR_COUNT);
    CLASS(MPI_Isend(data, 1, MPI_INT, 99, 1, world, &request), MPI_ERR_RANK);
    CLASS(MPI_Issend(data, 1, MPI_INT, 0, -9, world, &request), MPI_ERR_TAG);
    CLASS(MPI_Irsend(data, 1, MPI_DATATYPE_NULL, 0, 1, world, &request), MPI_ERR_TYPE);
    CHECK(request == MPI_REQUEST_NULL);
}

static void receives(void) {
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int flag = -12345;
    section("wrong arguments of receives");
    ready();
    CLASS(MPI_Recv(got, -1, MPI_INT, 0, 1, world, &status), MPI_ERR_COUNT);
    CLASS(MPI_Recv(got, 1, MPI_DATATYPE_NULL, 0, 1, world, &status), MPI_ERR_TYPE);
    CLASS(MPI_Recv(got, 1, MPI_INT, check_size, 1, world, &status), MPI_ERR_RANK);
    CLASS(MPI_Recv(got, 1, MPI_INT, -77, 1, world, &status), MPI_ERR_RANK);
    CLASS(MPI_Recv(got, 1, MPI_INT, 0, -77, world, &status), MPI_ERR_TAG);
    CLASS(MPI_Recv(got, 1, MPI_INT, 0, 1, no_comm(), &status), MPI_ERR_COMM);
    CLASS(MPI_Recv(NULL, 1, MPI_INT, 0, 1, world, &status), MPI_ERR_BUFFER);
    CLASS(MPI_Irecv(got, -1, MPI_INT, 0, 1, world, &request), MPI_ERR_COUNT);
    CLASS(MPI_Irecv(got, 1, MPI_INT, check_size + 3, 1, world, &request), MPI_ERR_RANK);
    CHECK(request == MPI_REQUEST_NULL);
    CLASS(MPI_Probe(check_size, 1, world, &status), MPI_ERR_RANK);
    CLASS(MPI_Probe(0, -77, world, &status), MPI_ERR_TAG);
    CLASS(MPI_Iprobe(0, 1, no_comm(), &flag, &status), MPI_ERR_COMM);
    CLASS(MPI_Iprobe(check_size, 1, world, &flag, &status), MPI_ERR_RANK);
    SAME(flag, -12345);
    CLASS(MPI_Sendrecv(data, -1, MPI_INT, 0, 1, got, 1, MPI_INT, 0, 1, world, &status), MPI_ERR_COUNT);
    CLASS(MPI_Sendrecv(data, 1, MPI_INT, 0, 1, got, 1, MPI_INT, check_size, 1, world, &status), MPI_ERR_RANK);
    nothing_touched();
}

static void collectives(void) {
    MPI_Comm world = MPI_COMM_WORLD;
    int counts[8] = {1, 1, 1, 1, 1, 1, 1, 1}, places[8] = {0, 1, 2, 3, 4, 5, 6, 7}, negative[8];
    for (int i = 0; i < 8; i++) negative[i] = -1;
    section("wrong arguments of collectives");
    ready();
    CLASS(MPI_Barrier(no_comm()), MPI_ERR_COMM);
    CLASS(MPI_Bcast(got, -1, MPI_INT, 0, world), MPI_ERR_COUNT);
    CLASS(MPI_Bcast(got, 1, MPI_INT, check_size, world), MPI_ERR_ROOT);
    CLASS(MPI_Bcast(got, 1, MPI_INT, -1, world), MPI_ERR_ROOT);
    CLASS(MPI_Bcast(got, 1, MPI_DATATYPE_NULL, 0, world), MPI_ERR_TYPE);
    CLASS(MPI_Bcast(got, 1, MPI_INT, 0, no_comm()), MPI_ERR_COMM);
    CLASS(MPI_Gather(data, 1, MPI_INT, got, 1, MPI_INT, check_size, world), MPI_ERR_ROOT);
    CLASS(MPI_Scatter(data, 1, MPI_INT, got, 1, MPI_INT, -3, world), MPI_ERR_ROOT);
    CLASS(MPI_Allgather(data, -1, MPI_INT, got, 1, MPI_INT, world), MPI_ERR_COUNT);
    CLASS(MPI_Allgather(data, 1, MPI_INT, got, 1, MPI_DATATYPE_NULL, world), MPI_ERR_TYPE);
    CLASS(MPI_Allgatherv(data, 1, MPI_INT, got, negative, places, MPI_INT, world), MPI_ERR_COUNT);
    CLASS(MPI_Alltoall(data, -1, MPI_INT, got, 1, MPI_INT, world), MPI_ERR_COUNT);
    CLASS(MPI_Alltoallv(data, negative, places, MPI_INT, got, counts, places, MPI_INT, world), MPI_ERR_COUNT);
    CLASS(MPI_Allreduce(data, got, 1, MPI_INT, MPI_OP_NULL, world), MPI_ERR_OP);
    STRICT_CLASS(MPI_Allreduce(data, got, -1, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Allreduce(data, got, 1, MPI_DATATYPE_NULL, MPI_SUM, world), MPI_ERR_TYPE);
    CLASS(MPI_Reduce(data, got, 1, MPI_INT, MPI_SUM, check_size, world), MPI_ERR_ROOT);
    CLASS(MPI_Scan(data, got, 1, MPI_INT, MPI_OP_NULL, world), MPI_ERR_OP);
    section("an operator that the type does not have");
    CLASS(MPI_Allreduce(data, got, 1, MPI_FLOAT, MPI_BAND, world), MPI_ERR_OP);
    CLASS(MPI_Allreduce(data, got, 1, MPI_INT, MPI_MINLOC, world), MPI_ERR_OP);
    CLASS(MPI_Reduce_local(data, got, 1, MPI_DOUBLE, MPI_BXOR), MPI_ERR_OP);
    nothing_touched();
}

static void null_pointers(void) {
    MPI_Request request = MPI_REQUEST_NULL;
    section("null pointers");
    CLASS(MPI_Comm_rank(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    CLASS(MPI_Comm_size(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    CLASS(MPI_Isend(data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    CLASS(MPI_Wait(NULL, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CLASS(MPI_Test(&request, NULL, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Waitall(2, NULL, MPI_STATUSES_IGNORE), MPI_ERR_ARG);
    CLASS(MPI_Comm_dup(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    CLASS(MPI_Type_size(MPI_INT, NULL), MPI_ERR_ARG);
    CLASS(MPI_Get_processor_name(NULL, NULL), MPI_ERR_ARG);
}

static void null_handles(void) {
    MPI_Comm comm = MPI_COMM_NULL, made = MPI_COMM_NULL;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Op op = MPI_OP_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    section("null handles");
    ready();
    CLASS(MPI_Comm_rank(comm, &untouched_int), MPI_ERR_COMM);
    CLASS(MPI_Comm_size(comm, &untouched_int), MPI_ERR_COMM);
    CLASS(MPI_Comm_dup(comm, &made), MPI_ERR_COMM);
    CLASS(MPI_Comm_split(comm, 0, 0, &made), MPI_ERR_COMM);
    CLASS(MPI_Comm_free(&comm), MPI_ERR_COMM);
    CLASS(MPI_Comm_group(comm, &group), MPI_ERR_COMM);
    CHECK(made == MPI_COMM_NULL && group == MPI_GROUP_NULL);
    CLASS(MPI_Type_size(type, &untouched_int), MPI_ERR_TYPE);
    CLASS(MPI_Type_commit(&type), MPI_ERR_TYPE);
    CLASS(MPI_Type_free(&type), MPI_ERR_TYPE);
    CLASS(MPI_Type_contiguous(2, type, &type), MPI_ERR_TYPE);
    CLASS(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    CHECK(type == MPI_DATATYPE_NULL);
    CLASS(MPI_Op_free(&op), MPI_ERR_OP);
    CLASS(MPI_Op_commutative(op, &untouched_int), MPI_ERR_OP);
    CLASS(MPI_Request_free(&request), MPI_ERR_REQUEST);
    CLASS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    CLASS(MPI_Group_size(group, &untouched_int), MPI_ERR_GROUP);
    CLASS(MPI_Group_free(&group), MPI_ERR_GROUP);
    nothing_touched();
}

/* What belongs to the library cannot be freed by the program. */
static void predefined_objects(void) {
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Datatype type = MPI_INT;
    MPI_Op op = MPI_SUM;
    section("predefined objects are not freed");
    CLASS(MPI_Comm_free(&world), MPI_ERR_COMM);
    CLASS(MPI_Type_free(&type), MPI_ERR_TYPE);
    CLASS(MPI_Op_free(&op), MPI_ERR_OP);
    CHECK(world == MPI_COMM_WORLD && type == MPI_INT && op == MPI_SUM);
}

static void freed_handles(void) {
    MPI_Comm comm, old_comm;
    MPI_Datatype type, old_type;
    MPI_Request request, old_request;
    section("freed and foreign handles");
    if (trusts_handles()) return;
    ready();
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    old_comm = comm;
    OK(MPI_Comm_free(&comm));
    CLASS(MPI_Comm_rank(old_comm, &untouched_int), MPI_ERR_COMM);
    CLASS(MPI_Send(data, 1, MPI_INT, 0, 1, old_comm), MPI_ERR_COMM);
    CLASS(MPI_Comm_free(&old_comm), MPI_ERR_COMM);
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm)); /* takes the place of the old one, perhaps */
    CLASS(MPI_Comm_rank(old_comm, &untouched_int), MPI_ERR_COMM);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    CLASS(MPI_Send(data, 1, type, 0, 1, MPI_COMM_WORLD), MPI_ERR_TYPE); /* not committed */
    old_type = type;
    OK(MPI_Type_free(&type));
    CLASS(MPI_Type_size(old_type, &untouched_int), MPI_ERR_TYPE);
    CLASS(MPI_Send(data, 1, old_type, 0, 1, MPI_COMM_WORLD), MPI_ERR_TYPE);
    OK(MPI_Irecv(data, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request));
    old_request = request;
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CLASS(MPI_Wait(&old_request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    CLASS(MPI_Comm_rank(wild_comm(), &untouched_int), MPI_ERR_COMM);
    CLASS(MPI_Type_size(wild_type(), &untouched_int), MPI_ERR_TYPE);
    /* a handle of one kind is not one of another */
    CLASS(MPI_Comm_rank((MPI_Comm)(void *)MPI_INT, &untouched_int), MPI_ERR_COMM);
    CLASS(MPI_Type_size((MPI_Datatype)(void *)MPI_COMM_WORLD, &untouched_int), MPI_ERR_TYPE);
    nothing_touched();
}

/* ---- error handlers ---- */

static int handled, handled_class;
static MPI_Comm handled_comm;

static void handler(MPI_Comm *comm, int *code, ...) {
    handled++;
    handled_comm = *comm;
    MPI_Error_class(*code, &handled_class);
}

static void handlers(void) {
    MPI_Errhandler mine, found;
    MPI_Comm copy;
    int code;
    section("handlers of the program's own");
    OK(MPI_Comm_create_errhandler(handler, &mine));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_get_errhandler(copy, &found)); /* a copy inherits the handler */
    CHECK(found == MPI_ERRORS_RETURN);
    OK(MPI_Comm_set_errhandler(copy, mine));
    OK(MPI_Comm_get_errhandler(copy, &found));
    CHECK(found == mine);
    OK(MPI_Errhandler_free(&found));
    OK(MPI_Errhandler_free(&mine)); /* the communicator still has it */
    CHECK(mine == MPI_ERRHANDLER_NULL);
    code = MPI_Send(data, -1, MPI_INT, 0, 1, copy);
    STRICT_CLASS(code, MPI_ERR_COUNT); /* the handler came back, so the call does, too */
    SAME(handled, 1);
    SAME(handled_class, MPI_ERR_COUNT);
    CHECK(handled_comm == copy);
    OK(MPI_Comm_call_errhandler(copy, MPI_ERR_TOPOLOGY));
    SAME(handled, 2);
    SAME(handled_class, MPI_ERR_TOPOLOGY);
    CLASS(MPI_Send(data, -1, MPI_INT, 0, 1, MPI_COMM_WORLD), MPI_ERR_COUNT);
    SAME(handled, 2);
    OK(MPI_Comm_free(&copy));
}

static void strings(void) {
    char text[MPI_MAX_ERROR_STRING];
    int length = -1, class = -1, last = -1, code = -1, *last_used = NULL, found = 0;
    section("classes and strings");
    for (int i = MPI_SUCCESS; i <= MPI_ERR_RMA_FLAVOR; i++) {
        memset(text, 0, sizeof text);
        OK(MPI_Error_string(i, text, &length));
        CHECK(length > 0 && length < MPI_MAX_ERROR_STRING);
        SAME(strlen(text), length);
        OK(MPI_Error_class(i, &class));
        SAME(class, i);
    }
    section("classes of the program's own");
    OK(MPI_Add_error_class(&class));
    CHECK(class > MPI_ERR_LASTCODE);
    OK(MPI_Add_error_code(class, &code));
    CHECK(code > MPI_ERR_LASTCODE);
    OK(MPI_Add_error_string(code, "the pot is empty"));
    OK(MPI_Error_string(code, text, &length));
    CHECK(strcmp(text, "the pot is empty") == 0);
    OK(MPI_Error_class(code, &last));
    SAME(last, class);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last_used, &found));
    CHECK(found && (*last_used >= code || check_library_is("MPICH")));
}

/* After all this the library still works. */
static void still_works(void) {
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size, word = -1;
    section("still works");
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, next, 1, &word, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(word, previous);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    sends();
    receives();
    collectives();
    null_pointers();
    null_handles();
    predefined_objects();
    freed_handles();
    handlers();
    strings();
    still_works();
    return check_close();
}
