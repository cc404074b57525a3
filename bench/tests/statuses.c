// ranks: 1 2
// What a status tells: counts and elements, whole ones and parts, of messages and of what the program itself has set.
// (MPI 5.0, sections 3.2.5, 5.1.11 and 13.3)
#include "check.h"

static int next, previous;

static void count_in(const MPI_Status *status, MPI_Datatype type, int count, int elements) {
    int got = -1;
    MPI_Count wide = -1;
    OK(MPI_Get_count(status, type, &got));
    SAME(got, count);
    got = -1;
    OK(MPI_Get_elements(status, type, &got));
    SAME(got, elements);
    OK(MPI_Get_elements_x(status, type, &wide));
    SAME(wide, elements);
}

static void received(void) {
    MPI_Datatype pair, nothing;
    MPI_Status status, probed;
    int out[16] = {0}, in[16];
    section("of a message");
    OK(MPI_Type_contiguous(3, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Type_contiguous(0, MPI_INT, &nothing));
    OK(MPI_Type_commit(&nothing));
    for (int sent = 0; sent <= 12; sent++) {
        MPI_Request request;
        OK(MPI_Isend(out, sent, MPI_INT, next, 5, MPI_COMM_WORLD, &request));
        OK(MPI_Probe(previous, 5, MPI_COMM_WORLD, &probed));
        OK(MPI_Recv(in, 4, pair, previous, 5, MPI_COMM_WORLD, &status));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int which = 0; which < 2; which++) {
            const MPI_Status *here = which ? &probed : &status;
            count_in(here, MPI_INT, sent, sent);
            count_in(here, pair, sent % 3 ? MPI_UNDEFINED : sent / 3, sent);
            if (sent % 2) count_in(here, MPI_DOUBLE, MPI_UNDEFINED, MPI_UNDEFINED);
        }
        if (sent == 0) count_in(&status, nothing, 0, 0);
    }
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&nothing));
}

/* Numbers beyond 2^31 are there for those who can hold them. */
static void made(void) {
    MPI_Status status;
    MPI_Count wide = -1, large = (MPI_Count)3 << 32;
    int flag = -1, value = -1;
    MPI_Datatype triple;
    section("of what the program sets");
    memset(&status, 0, sizeof status);
    OK(MPI_Status_set_elements(&status, MPI_DOUBLE, 7));
    count_in(&status, MPI_DOUBLE, 7, 7);
    count_in(&status, MPI_BYTE, 56, 56);
    OK(MPI_Status_set_elements_x(&status, MPI_INT, large));
    OK(MPI_Get_count(&status, MPI_INT, &value));
    SAME(value, MPI_UNDEFINED);
    OK(MPI_Get_elements(&status, MPI_INT, &value));
    SAME(value, MPI_UNDEFINED);
    OK(MPI_Get_elements_x(&status, MPI_INT, &wide));
    SAME(wide, large);
    OK(MPI_Type_contiguous(3, MPI_INT, &triple));
    OK(MPI_Type_commit(&triple));
    OK(MPI_Status_set_elements(&status, triple, 5)); /* five ints: no whole number of triples */
    count_in(&status, triple, MPI_UNDEFINED, 5);
    OK(MPI_Type_free(&triple));
    MPI_Datatype mixed; /* elements of 4, 8 and 1 bytes */
    OK(MPI_Type_create_struct(3, (int[]){1, 1, 2}, (MPI_Aint[]){0, 8, 16}, (MPI_Datatype[]){MPI_INT, MPI_DOUBLE, MPI_CHAR}, &mixed));
    OK(MPI_Type_commit(&mixed));
    for (int elements = 0; elements < 13; elements++) {
        OK(MPI_Status_set_elements(&status, mixed, elements));
        count_in(&status, mixed, elements % 4 ? MPI_UNDEFINED : elements / 4, elements);
    }
    if (!check_library_is("MPICH")) { /* which counts them one by one */
        OK(MPI_Status_set_elements_c(&status, mixed, large + 2));
        OK(MPI_Get_elements_c(&status, mixed, &wide));
        SAME(wide, large + 2);
        OK(MPI_Get_count_c(&status, MPI_BYTE, &wide));
        SAME(wide, large / 4 * 14 + 12);
    }
    OK(MPI_Type_free(&mixed));
    for (int on = 0; on < 2; on++) {
        OK(MPI_Status_set_cancelled(&status, on));
        OK(MPI_Test_cancelled(&status, &flag));
        SAME(flag, on);
    }
    if (check_library_is("MPICH")) return;
    OK(MPI_Status_set_source(&status, 11));
    OK(MPI_Status_set_tag(&status, 12));
    OK(MPI_Status_set_error(&status, MPI_ERR_TOPOLOGY));
    SAME(status.MPI_SOURCE, 11);
    SAME(status.MPI_TAG, 12);
    SAME(status.MPI_ERROR, MPI_ERR_TOPOLOGY);
    OK(MPI_Status_get_source(&status, &value));
    SAME(value, 11);
    OK(MPI_Status_get_tag(&status, &value));
    SAME(value, 12);
    OK(MPI_Status_get_error(&status, &value));
    SAME(value, MPI_ERR_TOPOLOGY);
}

/* A call that completes one operation leaves the error of its status as it is. */
static void errors(void) {
    MPI_Status status, statuses[2];
    MPI_Request requests[2];
    int out = 1, in = 0, count = 0, got = -1;
    section("errors in statuses");
    status.MPI_ERROR = 4711;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, next, 1, &in, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &status));
    SAME(status.MPI_ERROR, 4711);
    OK(MPI_Irecv(&in, 1, MPI_INT, previous, 2, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(&out, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, statuses));
    SAME(statuses[0].MPI_SOURCE, previous);
    section("wrong arguments");
    STRICT_CLASS(MPI_Get_count(&statuses[0], MPI_DATATYPE_NULL, &count), MPI_ERR_TYPE);
    STRICT_CLASS(MPI_Get_count(&statuses[0], MPI_INT, NULL), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Get_count(MPI_STATUS_IGNORE, MPI_INT, &count), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Get_elements_x(&statuses[0], MPI_DATATYPE_NULL, NULL), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Status_set_elements(&statuses[0], MPI_INT, -1), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Test_cancelled(&statuses[0], NULL), MPI_ERR_ARG);
    OK(MPI_Get_count(&statuses[0], MPI_INT, &got));
    SAME(got, 1);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    next = (check_rank + 1) % check_size;
    previous = (check_rank + check_size - 1) % check_size;
    received();
    made();
    errors();
    return check_close();
}
