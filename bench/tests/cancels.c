// ranks: 1 2 3
// Sends that are cancelled: each ends, in every mode and length, whatever its receiver does. Either it is cancelled, and no probe and
// no receive ever finds its message; or it completes, and a receive has all of it. What the same sender sends before and after keeps
// its order. (MPI 5.0, section 3.8.4)
#include "check.h"

enum { TAG = 5, VERDICT = 6, SIGNAL = 7, ROUND = 8, LONG = 4 << 20, RACES = 150 };
enum mode { SEND, SSEND, BSEND, RSEND, MODES };
enum way { WAIT, TEST, WAITALL, WAITANY, TESTSOME, GLANCE, WAYS };

static unsigned char *out, *in;
static int from, to; /* who sends to whom */

/* Bytes in a row, or every other one. */
static MPI_Datatype layout(int is_apart, int bytes, int *count) {
    MPI_Datatype type = MPI_BYTE;
    *count = bytes;
    if (!is_apart) return type;
    OK(MPI_Type_vector(bytes, 1, 2, MPI_BYTE, &type));
    OK(MPI_Type_commit(&type));
    *count = 1;
    return type;
}

static void let_go(MPI_Datatype *type) {
    if (*type != MPI_BYTE) OK(MPI_Type_free(type));
}

static void begin(enum mode mode, int is_planned, int count, MPI_Datatype type, MPI_Comm comm, MPI_Request *request) {
    if (!is_planned) {
        switch (mode) {
            case SEND: OK(MPI_Isend(out, count, type, to, TAG, comm, request)); return;
            case SSEND: OK(MPI_Issend(out, count, type, to, TAG, comm, request)); return;
            case BSEND: OK(MPI_Ibsend(out, count, type, to, TAG, comm, request)); return;
            default: OK(MPI_Irsend(out, count, type, to, TAG, comm, request)); return;
        }
    }
    switch (mode) {
        case SEND: OK(MPI_Send_init(out, count, type, to, TAG, comm, request)); break;
        case SSEND: OK(MPI_Ssend_init(out, count, type, to, TAG, comm, request)); break;
        case BSEND: OK(MPI_Bsend_init(out, count, type, to, TAG, comm, request)); break;
        default: OK(MPI_Rsend_init(out, count, type, to, TAG, comm, request)); break;
    }
    OK(MPI_Start(request));
}

/* Completes one request; whether it was cancelled. */
static int finish(enum way way, MPI_Request *request) {
    MPI_Status status, seen;
    int flag = 0, cancelled = -1, looked = -1, count = 1, index = -1;
    switch (way) {
        case WAIT: OK(MPI_Wait(request, &status)); break;
        case TEST:
            while (!flag) OK(MPI_Test(request, &flag, &status));
            break;
        case WAITALL: OK(MPI_Waitall(1, request, &status)); break;
        case WAITANY: OK(MPI_Waitany(1, request, &index, &status)); break;
        case TESTSOME:
            for (count = 0; count == 0;) OK(MPI_Testsome(1, request, &count, &index, &status));
            SAME(count, 1);
            break;
        default:
            while (!flag) OK(MPI_Request_get_status(*request, &flag, &seen));
            OK(MPI_Test_cancelled(&seen, &looked));
            OK(MPI_Wait(request, &status));
            break;
    }
    OK(MPI_Test_cancelled(&status, &cancelled));
    if (way == GLANCE) SAME(looked, cancelled);
    return cancelled;
}

/* The receiver learns what became of the message, and looks. */
static void receive_unless(int cancelled, int bytes, int is_apart, unsigned seed, MPI_Comm comm, int source) {
    int flag = -1, got = -1;
    MPI_Status status;
    if (cancelled) {
        OK(MPI_Iprobe(source, TAG, comm, &flag, &status));
        SAME(flag, 0);
        OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status));
        SAME(flag, 0);
        return;
    }
    memset(in, 0xee, (size_t)bytes);
    OK(MPI_Recv(in, bytes, MPI_BYTE, source, TAG, comm, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &got));
    SAME(got, bytes);
    for (int at = 0; at < bytes; at++) SAME(in[at], pattern((size_t)(is_apart ? 2 * at : at), seed));
}

static void each_mode_and_length(void) {
    static const int LENGTHS[] = {0, 1, 4000, 70000, LONG};
    static char name[200];
    unsigned seed = 0;
    for (int mode = SEND; mode <= BSEND; mode++)
        for (int is_planned = 0; is_planned < 2; is_planned++)
            for (int is_apart = 0; is_apart < 2; is_apart++)
                for (size_t at = 0; at < sizeof LENGTHS / sizeof *LENGTHS; at++, seed++) {
                    int bytes = LENGTHS[at], count, cancelled = -1;
                    snprintf(name, sizeof name, "mode %d, planned %d, apart %d, %d bytes", mode, is_planned, is_apart, bytes);
                    section(name);
                    if (check_rank == from) {
                        MPI_Datatype type = layout(is_apart, bytes, &count);
                        MPI_Request request;
                        fill(out, (size_t)(2 * bytes), seed);
                        begin((enum mode)mode, is_planned, count, type, MPI_COMM_WORLD, &request);
                        OK(MPI_Cancel(&request));
                        OK(MPI_Cancel(&request));
                        cancelled = finish((enum way)(seed % WAYS), &request);
                        /* Nobody has matched it, and nothing but a receive ends it. */
                        if (mode == SSEND) SAME(cancelled, 1);
                        /* What was cancelled is begun again, and received now. */
                        if (is_planned && cancelled) {
                            OK(MPI_Start(&request));
                            OK(MPI_Send(&cancelled, 1, MPI_INT, to, VERDICT, MPI_COMM_WORLD));
                            if (from == to) {
                                OK(MPI_Recv(&cancelled, 1, MPI_INT, from, VERDICT, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                                receive_unless(0, bytes, is_apart, seed, MPI_COMM_WORLD, from);
                            }
                            SAME(finish((enum way)(seed % WAYS), &request), 0);
                            if (from == to) OK(MPI_Send(&cancelled, 1, MPI_INT, to, VERDICT, MPI_COMM_WORLD));
                        } else {
                            OK(MPI_Send(&cancelled, 1, MPI_INT, to, VERDICT, MPI_COMM_WORLD));
                        }
                        if (is_planned) OK(MPI_Request_free(&request));
                        let_go(&type);
                    }
                    if (check_rank == to) {
                        OK(MPI_Recv(&cancelled, 1, MPI_INT, from, VERDICT, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                        if (is_planned && cancelled && from != to) receive_unless(0, bytes, is_apart, seed, MPI_COMM_WORLD, from);
                        receive_unless(cancelled, bytes, is_apart, seed, MPI_COMM_WORLD, from);
                    }
                    if (mode == BSEND) OK(MPI_Buffer_flush());
                    OK(MPI_Barrier(MPI_COMM_WORLD));
                }
}

/* Of three messages the one in the middle is cancelled, and the receiver gets the others in their order. */
static void order_is_kept(int bytes) {
    section("the order of the others");
    int cancelled = -1, kept[3] = {0, 1, 2};
    if (check_rank == from) {
        MPI_Request requests[3];
        MPI_Status statuses[3];
        unsigned char *parts[3];
        for (int i = 0; i < 3; i++) {
            parts[i] = malloc((size_t)bytes);
            fill(parts[i], (size_t)bytes, (unsigned)i);
            OK(MPI_Issend(parts[i], bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Cancel(&requests[1]));
        SAME(finish(WAIT, &requests[1]), 1);
        OK(MPI_Send(kept, 3, MPI_INT, to, SIGNAL, MPI_COMM_WORLD));
        if (from != to) OK(MPI_Waitall(3, requests, statuses));
        for (int i = 0; from == to && i < 3; i += 2) {
            OK(MPI_Recv(in, bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            VERIFY(in, (size_t)bytes, (unsigned)i);
        }
        if (from == to) OK(MPI_Waitall(3, requests, statuses));
        for (int i = 0; i < 3; i += 2) {
            OK(MPI_Test_cancelled(&statuses[i], &cancelled));
            SAME(cancelled, 0);
        }
        for (int i = 0; i < 3; i++) free(parts[i]);
    }
    if (check_rank == to) {
        int flag = -1;
        OK(MPI_Recv(kept, 3, MPI_INT, from, SIGNAL, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; from != to && i < 3; i += 2) {
            OK(MPI_Recv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            VERIFY(in, (size_t)bytes, (unsigned)i);
        }
        OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        SAME(flag, 0);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Cancelled ones among others in one list, whose statuses tell which. */
static void lists(void) {
    enum { COUNT = 12 };
    section("lists");
    if (check_rank == from) {
        MPI_Request requests[COUNT + 1];
        MPI_Status statuses[COUNT + 1];
        int flags[COUNT], bytes;
        unsigned char *last = malloc(LONG);
        for (int i = 0; i < COUNT; i++) {
            bytes = i % 3 == 0 ? 10 : i % 3 == 1 ? 70000 : LONG;
            if (i % 2) OK(MPI_Issend(out, bytes, MPI_BYTE, to, TAG + 100 + i, MPI_COMM_WORLD, &requests[i]));
            else OK(MPI_Isend(out, bytes, MPI_BYTE, to, TAG + 100 + i, MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Irecv(last, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[COUNT]));
        for (int i = 0; i < COUNT; i++) OK(MPI_Cancel(&requests[i]));
        OK(MPI_Waitall(COUNT + 1, requests, statuses));
        for (int i = 0; i < COUNT; i++) {
            OK(MPI_Test_cancelled(&statuses[i], &flags[i]));
            if (i % 2) SAME(flags[i], 1);
            CHECK(requests[i] == MPI_REQUEST_NULL);
        }
        OK(MPI_Send(flags, COUNT, MPI_INT, to, VERDICT, MPI_COMM_WORLD));
        free(last);
    }
    if (check_rank == to) {
        int flags[COUNT], flag;
        OK(MPI_Recv(flags, COUNT, MPI_INT, from, VERDICT, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < COUNT; i++) {
            if (!flags[i]) OK(MPI_Recv(in, LONG, MPI_BYTE, from, TAG + 100 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Iprobe(from, TAG + 100 + i, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            SAME(flag, 0);
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* A message to oneself is over with the call that cancels it: there is nobody to wait for. */
static void to_oneself(int bytes) {
    section("to oneself");
    MPI_Request request;
    MPI_Status status;
    int flag = -1, cancelled = -1;
    fill(out, (size_t)bytes, 5);
    OK(MPI_Issend(out, bytes, MPI_BYTE, check_rank, TAG, MPI_COMM_WORLD, &request));
    OK(MPI_Probe(check_rank, TAG, MPI_COMM_WORLD, &status));
    OK(MPI_Cancel(&request));
    OK(MPI_Request_get_status(request, &flag, &status));
    SAME(flag, 1);
    OK(MPI_Test_cancelled(&status, &cancelled));
    SAME(cancelled, 1);
    OK(MPI_Request_free(&request));
    OK(MPI_Iprobe(check_rank, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    SAME(flag, 0);
}

/* A message that a matched probe has taken is received: it is not cancelled any more. */
static void taken_by_a_probe(int bytes) {
    section("a matched probe was first");
    if (check_rank == from) {
        MPI_Request request;
        fill(out, (size_t)bytes, 3);
        OK(MPI_Issend(out, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &request));
        OK(MPI_Recv(in, 0, MPI_BYTE, to, SIGNAL, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Cancel(&request));
        OK(MPI_Send(in, 0, MPI_BYTE, to, SIGNAL, MPI_COMM_WORLD));
        SAME(finish(WAIT, &request), 0);
    } else if (check_rank == to) {
        MPI_Message message;
        OK(MPI_Mprobe(from, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
        OK(MPI_Send(in, 0, MPI_BYTE, from, SIGNAL, MPI_COMM_WORLD));
        OK(MPI_Recv(in, 0, MPI_BYTE, from, SIGNAL, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Mrecv(in, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE));
        VERIFY(in, (size_t)bytes, 3);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Whether the receive or the cancel comes first is up to chance; both sides must say the same. Every third receive is too short. A
 * ready send is begun when its receive is there. */
static void races(enum mode mode, int bytes, int is_from_anybody) {
    static char name[100];
    MPI_Errhandler before;
    snprintf(name, sizeof name, "races, mode %d, %d bytes", mode, bytes);
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int round = 0; round < RACES; round++) {
        int cancelled = -1, room = round % 3 == 2 ? bytes / 2 : bytes, turns = round * 7 % 23, flag = 0;
        section(name);
        if (check_rank == from) {
            MPI_Request request;
            fill(out, (size_t)bytes, (unsigned)round);
            if (mode == RSEND) OK(MPI_Recv(in, 0, MPI_BYTE, to, SIGNAL, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            begin(mode, round % 2, bytes, MPI_BYTE, MPI_COMM_WORLD, &request);
            for (int i = 0; i < turns; i++) OK(MPI_Iprobe(to, SIGNAL, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            OK(MPI_Cancel(&request));
            cancelled = finish((enum way)(round % WAYS), &request);
            if (round % 2) OK(MPI_Request_free(&request));
            OK(MPI_Send(&cancelled, 1, MPI_INT, to, VERDICT, MPI_COMM_WORLD));
            /* The next one must not come to a receive that is about to be cancelled. */
            OK(MPI_Recv(in, 0, MPI_BYTE, to, ROUND, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else if (check_rank == to) {
            MPI_Request request;
            MPI_Status status;
            int class = 0, was = -1;
            for (int i = 0; i < 22 - turns; i++) OK(MPI_Iprobe(from, SIGNAL, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            OK(MPI_Irecv(in, room, MPI_BYTE, is_from_anybody ? MPI_ANY_SOURCE : from, TAG, MPI_COMM_WORLD, &request));
            if (mode == RSEND) OK(MPI_Send(in, 0, MPI_BYTE, from, SIGNAL, MPI_COMM_WORLD));
            OK(MPI_Recv(&cancelled, 1, MPI_INT, from, VERDICT, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (cancelled) OK(MPI_Cancel(&request));
            OK(MPI_Error_class(MPI_Wait(&request, &status), &class));
            OK(MPI_Test_cancelled(&status, &was));
            SAME(was, cancelled);
            SAME(class, !cancelled && room < bytes ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
            if (!cancelled) VERIFY(in, (size_t)room, (unsigned)round);
            OK(MPI_Send(in, 0, MPI_BYTE, from, ROUND, MPI_COMM_WORLD));
        }
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, before));
    OK(MPI_Errhandler_free(&before));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Whoever frees a request that is cancelled need not wait for it. */
static void freed(int bytes) {
    section("freed while it is cancelled");
    int flag = -1;
    if (check_rank == from) {
        MPI_Request request;
        OK(MPI_Issend(out, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &request));
        OK(MPI_Cancel(&request));
        OK(MPI_Request_free(&request));
        CHECK(request == MPI_REQUEST_NULL);
        OK(MPI_Send(&flag, 1, MPI_INT, to, SIGNAL, MPI_COMM_WORLD));
    }
    if (check_rank == to) {
        OK(MPI_Recv(&flag, 1, MPI_INT, from, SIGNAL, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Iprobe(from, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        SAME(flag, 0);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* What one cancels is nothing to what another sends under the same tag. */
static void others_go_on(int bytes) {
    section("another sender");
    int cancelled = 1;
    if (check_rank != to) {
        MPI_Request request;
        fill(out, (size_t)bytes, (unsigned)check_rank);
        OK(MPI_Issend(out, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &request));
        if (check_rank == from) {
            OK(MPI_Cancel(&request));
            SAME(finish(WAIT, &request), 1);
            OK(MPI_Send(&cancelled, 1, MPI_INT, to, VERDICT, MPI_COMM_WORLD));
        } else {
            SAME(finish(WAIT, &request), 0);
        }
    } else {
        MPI_Status status;
        OK(MPI_Recv(&cancelled, 1, MPI_INT, from, VERDICT, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int other = 0; other < check_size; other++) {
            if (other == from || other == to) continue;
            OK(MPI_Recv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status));
            CHECK(status.MPI_SOURCE != from);
            VERIFY(in, (size_t)bytes, (unsigned)status.MPI_SOURCE);
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void between_groups(int bytes) {
    section("between two groups");
    MPI_Comm half, both;
    int cancelled = -1, flag = -1;
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - check_rank % 2, 99, &both));
    if (check_rank == 0) {
        MPI_Request request;
        OK(MPI_Issend(out, bytes, MPI_BYTE, 0, TAG, both, &request));
        OK(MPI_Cancel(&request));
        cancelled = finish(WAIT, &request);
        SAME(cancelled, 1);
        OK(MPI_Send(&cancelled, 1, MPI_INT, 0, VERDICT, both));
    } else if (check_rank == 1) {
        OK(MPI_Recv(&cancelled, 1, MPI_INT, 0, VERDICT, both, MPI_STATUS_IGNORE));
        OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, both, &flag, MPI_STATUS_IGNORE));
        SAME(flag, 0);
    }
    OK(MPI_Comm_free(&both));
    OK(MPI_Comm_free(&half));
}

static void nobody(void) {
    section("sends to nobody, and what is over");
    MPI_Request request;
    int flag = 0;
    OK(MPI_Issend(out, 10, MPI_BYTE, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &request));
    OK(MPI_Cancel(&request));
    SAME(finish(WAIT, &request), 0);
    if (check_rank == from && from != to) {
        OK(MPI_Issend(out, 10, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &request));
        while (!flag) OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
        OK(MPI_Cancel(&request));
        SAME(finish(WAIT, &request), 0);
    } else if (check_rank == to && from != to) {
        OK(MPI_Recv(in, 10, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

int main(int argc, char **argv) {
    void *detached;
    int bytes;
    check_open(argc, argv);
    out = calloc(2, LONG), in = calloc(2, LONG);
    void *buffered = malloc(2 * LONG);
    from = 0, to = check_size > 1;
    OK(MPI_Buffer_attach(buffered, 2 * LONG));
    each_mode_and_length();
    order_is_kept(10);
    order_is_kept(LONG);
    lists();
    freed(10);
    freed(LONG);
    nobody();
    to_oneself(0);
    to_oneself(LONG);
    if (check_size > 1) {
        static const int LENGTHS[] = {10, 70000, 1 << 20};
        for (int i = 0; i < 3; i++) {
            taken_by_a_probe(LENGTHS[i]);
            races(SEND, LENGTHS[i], i % 2);
            races(SSEND, LENGTHS[i], 1 - i % 2);
            races(RSEND, LENGTHS[i], i % 2);
            others_go_on(LENGTHS[i]);
            between_groups(LENGTHS[i]);
        }
        /* Once more the other way round, and through ranks that have both sent and received. */
        from = 1, to = 0;
        order_is_kept(70000);
        races(SSEND, 4000, 0);
    }
    OK(MPI_Buffer_detach(&detached, &bytes));
    free(buffered);
    section("closing");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) printf("ok\n");
    fflush(stdout);
    /* The receiver is on its way out already. */
    if (check_rank == from && from != to) {
        MPI_Request request;
        OK(MPI_Issend(out, LONG, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &request));
        OK(MPI_Cancel(&request));
        SAME(finish(WAIT, &request), 1);
    }
    MPI_Finalize();
    free(out);
    free(in);
    return 0;
}
