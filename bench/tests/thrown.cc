// ranks: 1 2 3
// C++ exceptions leave the callbacks of a program by way of the MPI call that has called them: error handlers, operators, attribute
// functions and the functions of generalized requests. Nothing is held then: the same thread and another one go on communicating.
#include "check.h"

#include <mpix_ft.h>

#ifndef LEVEL
#define LEVEL MPI_THREAD_MULTIPLE
#endif

#include <setjmp.h>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

/// What callbacks throw, by a name that tells which.
struct Thrown : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// A destructor between the call and the handler of its exception runs.
struct Counted {
    int &count;
    ~Counted() { count++; }
};

/// Calls, and says which callback has thrown; empty where none has.
template <typename Call> std::string thrown_by(Call call) {
    int unwound = 0;
    std::string what;
    try {
        Counted counted{unwound};
        call();
    } catch (const Thrown &thrown) {
        what = thrown.what();
    }
    SAME(unwound, 1);
    return what;
}

#define THROWS(call, by) CHECK(thrown_by([&] { call; }) == (by))

/// All of it by messages, collective operations and communicators, which need whatever may be locked.
void communicate(MPI_Comm comm) {
    int rank, size, sum = 0;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    SAME(sum, size * (size - 1) / 2);
    int got = -1;
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &got, 1, MPI_INT, (rank + size - 1) % size, 1, comm,
                    MPI_STATUS_IGNORE));
    SAME(got, (rank + size - 1) % size);
    MPI_Comm copy;
    OK(MPI_Comm_dup(comm, &copy));
    OK(MPI_Barrier(copy));
    OK(MPI_Comm_free(&copy));
}

MPI_Comm of_another_thread;

/// Nothing is locked: another thread, where there may be one, finds everything free.
void go_on() {
    communicate(MPI_COMM_WORLD);
    if (LEVEL == MPI_THREAD_MULTIPLE) std::thread(communicate, of_another_thread).join();
}

void handler_of_comm(MPI_Comm *, int *, ...) { throw Thrown("error handler of a communicator"); }
void handler_of_win(MPI_Win *, int *, ...) { throw Thrown("error handler of a window"); }
void handler_of_session(MPI_Session *, int *, ...) { throw Thrown("error handler of a session"); }

void error_handlers() {
    section("error handlers");
    MPI_Comm comm;
    MPI_Errhandler handler, of_win, of_session;
    int buffer[4] = {0}, size;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Comm_create_errhandler(handler_of_comm, &handler));
    OK(MPI_Comm_set_errhandler(comm, handler));
    for (int round = 0; round < 50; round++) {
        THROWS(MPI_Send(buffer, 1, MPI_INT, size, 1, comm), "error handler of a communicator");
        THROWS(MPI_Recv(buffer, -1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE), "error handler of a communicator");
        THROWS(MPI_Bcast(buffer, 1, MPI_INT, size + 7, comm), "error handler of a communicator");
        THROWS(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER), "error handler of a communicator");
        /* A request whose error is told at its end is over all the same. */
        int rank;
        MPI_Request requests[2];
        OK(MPI_Comm_rank(comm, &rank));
        OK(MPI_Irecv(buffer, 1, MPI_INT, rank, 1, comm, &requests[0]));
        OK(MPI_Send(buffer, 4, MPI_INT, rank, 1, comm));
        THROWS(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), "error handler of a communicator");
        CHECK(requests[0] == MPI_REQUEST_NULL);
        OK(MPI_Irecv(buffer, 1, MPI_INT, rank, 2, comm, &requests[0]));
        OK(MPI_Irecv(buffer + 1, 1, MPI_INT, rank, 3, comm, &requests[1]));
        OK(MPI_Send(buffer, 4, MPI_INT, rank, 2, comm));
        OK(MPI_Send(buffer, 1, MPI_INT, rank, 3, comm));
        THROWS(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), "error handler of a communicator");
        CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    }
    /* A function of weft's own, and the handler of MPI_COMM_SELF, which errors that belong to no object meet. */
    THROWS(MPIX_Comm_is_revoked(comm, nullptr), "error handler of a communicator");
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    THROWS(MPI_Type_commit(nullptr), "error handler of a communicator");
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
    MPI_Win win;
    OK(MPI_Win_create(buffer, sizeof buffer, 1, MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_create_errhandler(handler_of_win, &of_win));
    OK(MPI_Win_set_errhandler(win, of_win));
    THROWS(MPI_Win_call_errhandler(win, MPI_ERR_OTHER), "error handler of a window");
    OK(MPI_Win_free(&win));
    MPI_Session session;
    OK(MPI_Session_create_errhandler(handler_of_session, &of_session));
    OK(MPI_Session_init(MPI_INFO_NULL, of_session, &session));
    THROWS(MPI_Session_call_errhandler(session, MPI_ERR_OTHER), "error handler of a session");
    OK(MPI_Session_finalize(&session));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Errhandler_free(&of_win));
    OK(MPI_Errhandler_free(&of_session));
    communicate(comm);
    OK(MPI_Comm_free(&comm));
    go_on();
}

bool does_throw;

void sum_or_throw(void *in, void *inout, int *count, MPI_Datatype *) {
    if (does_throw) throw Thrown("operator");
    for (int at = 0; at < *count; at++) static_cast<int *>(inout)[at] += static_cast<int *>(in)[at];
}

/// Those that combine meet the exception; the others get something or an error, and nobody waits for ever.
void operators() {
    static const int COUNTS[] = {1, 100, 3000, 100000};
    static int in[100000], out[100000];
    MPI_Op op;
    MPI_Comm comm;
    int rank, size;
    OK(MPI_Op_create(sum_or_throw, 1, &op));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    section("operators of MPI_Reduce_local");
    does_throw = true;
    THROWS(MPI_Reduce_local(in, out, 10, MPI_INT, op), "operator");
    MPI_Datatype gaps;
    OK(MPI_Type_create_resized(MPI_INT, 0, 12, &gaps));
    OK(MPI_Type_commit(&gaps));
    THROWS(MPI_Reduce_local(in, out, 10, gaps, op), "operator");
    OK(MPI_Type_free(&gaps));
    does_throw = false;
    OK(MPI_Reduce_local(in, out, 10, MPI_INT, op));
    go_on();
    for (int count : COUNTS)
        for (int thrower = 0; thrower <= size; thrower++) {
            static char name[100];
            snprintf(name, sizeof name, "operators of %d elements, rank %d throws", count, thrower);
            section(name);
            /* All of them where the number is that of none. */
            does_throw = rank == thrower || thrower == size;
            for (int at = 0; at < count; at++) in[at] = rank + at;
            /* Which ranks combine is the library's affair; where all throw, some have. */
            std::string by[] = {thrown_by([&] { MPI_Allreduce(in, out, count, MPI_INT, op, comm); }),
                                thrown_by([&] { MPI_Reduce(in, out, count, MPI_INT, op, 0, comm); }),
                                thrown_by([&] { MPI_Scan(in, out, count, MPI_INT, op, comm); })};
            does_throw = false;
            for (const std::string &what : by) {
                int here = !what.empty(), all = 0;
                CHECK(what.empty() || (what == "operator" && (rank == thrower || thrower == size)));
                OK(MPI_Allreduce(&here, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
                if (thrower == size && size > 1) CHECK(all > 0);
            }
            OK(MPI_Allreduce(in, out, count, MPI_INT, op, comm));
            for (int at = 0; at < count; at++) SAME(out[at], size * (size - 1) / 2 + size * at);
            communicate(comm);
        }
    OK(MPI_Comm_free(&comm));
    OK(MPI_Op_free(&op));
    go_on();
}

int copy_or_throw(MPI_Comm, int, void *, void *in, void *out, int *flag) {
    if (does_throw) throw Thrown("copy function");
    *static_cast<void **>(out) = in;
    *flag = 1;
    return MPI_SUCCESS;
}

int delete_or_throw(MPI_Comm, int, void *, void *) {
    if (does_throw) throw Thrown("delete function");
    return MPI_SUCCESS;
}

int delete_of_type(MPI_Datatype, int, void *, void *) {
    if (does_throw) throw Thrown("delete function of a type");
    return MPI_SUCCESS;
}

void attributes() {
    section("attribute functions");
    MPI_Comm comm, copy = MPI_COMM_NULL;
    int key, of_types, value = 5, found = 0;
    void *there = nullptr;
    OK(MPI_Comm_create_keyval(copy_or_throw, delete_or_throw, &key, nullptr));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_attr(comm, key, &value));
    for (int round = 0; round < 50; round++) {
        does_throw = true;
        THROWS(MPI_Comm_dup(comm, &copy), "copy function");
        THROWS(MPI_Comm_set_attr(comm, key, &value), "delete function");
        THROWS(MPI_Comm_delete_attr(comm, key), "delete function");
        MPI_Comm before = comm;
        THROWS(MPI_Comm_free(&comm), "delete function");
        comm = before;
        does_throw = false;
        OK(MPI_Comm_get_attr(comm, key, &there, &found));
        CHECK(found && there == &value);
        communicate(comm);
    }
    MPI_Datatype type;
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_of_type, &of_types, nullptr));
    OK(MPI_Type_set_attr(type, of_types, &value));
    does_throw = true;
    THROWS(MPI_Type_delete_attr(type, of_types), "delete function of a type");
    does_throw = false;
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free_keyval(&of_types));
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Comm_free(&comm));
    go_on();
}

const char *which;

int query_or_throw(void *, MPI_Status *status) {
    if (which && !strcmp(which, "query function")) throw Thrown(which);
    OK(MPI_Status_set_elements(status, MPI_BYTE, 0));
    OK(MPI_Status_set_cancelled(status, 0));
    return MPI_SUCCESS;
}

int free_or_throw(void *) {
    if (which && !strcmp(which, "free function")) throw Thrown(which);
    return MPI_SUCCESS;
}

int cancel_or_throw(void *, int) {
    if (which && !strcmp(which, "cancel function")) throw Thrown(which);
    return MPI_SUCCESS;
}

MPI_Request begun() {
    MPI_Request request;
    which = nullptr;
    OK(MPI_Grequest_start(query_or_throw, free_or_throw, cancel_or_throw, nullptr, &request));
    return request;
}

void generalized() {
    section("functions of generalized requests");
    int flag = 0, index = 0;
    MPI_Status status;
    for (int round = 0; round < 50; round++) {
        for (const char *name : {"query function", "free function"}) {
            MPI_Request request = begun();
            OK(MPI_Grequest_complete(request));
            which = name;
            THROWS(MPI_Wait(&request, &status), name);
            request = begun();
            OK(MPI_Grequest_complete(request));
            which = name;
            THROWS(MPI_Test(&request, &flag, &status), name);
            MPI_Request list[2] = {begun(), MPI_REQUEST_NULL};
            OK(MPI_Grequest_complete(list[0]));
            which = name;
            THROWS(MPI_Waitall(2, list, MPI_STATUSES_IGNORE), name);
            list[0] = begun();
            OK(MPI_Grequest_complete(list[0]));
            which = name;
            THROWS(MPI_Waitany(2, list, &index, &status), name);
        }
        MPI_Request request = begun();
        which = "cancel function";
        THROWS(MPI_Cancel(&request), "cancel function");
        which = "query function";
        OK(MPI_Grequest_complete(request));
        THROWS(MPI_Request_get_status(request, &flag, &status), "query function");
        which = nullptr;
        OK(MPI_Wait(&request, &status));
        /* One that was freed before it is over. */
        request = begun();
        MPI_Request kept = request;
        OK(MPI_Request_free(&request));
        which = "free function";
        THROWS(MPI_Grequest_complete(kept), "free function");
        which = nullptr;
    }
    go_on();
}

jmp_buf before_the_call;

void jump_away(MPI_Comm *, int *, ...) { longjmp(before_the_call, 1); }

int jump_from_copy(MPI_Comm, int, void *, void *, void *, int *) { longjmp(before_the_call, 2); }

void jump_from_operator(void *, void *, int *, MPI_Datatype *) { longjmp(before_the_call, 3); }

/// Calls, and notes where a jump has left the call.
#define NOTE_JUMP(call)                                                                                                \
    do {                                                                                                               \
        if (setjmp(before_the_call) == 0)                                                                              \
            OK(call);                                                                                                  \
        else                                                                                                           \
            jumped = 1;                                                                                                \
    } while (0)

/// Members that combine leave a blocking operation by a jump, and those that do not go on to its end. What follows on the communicator is
/// another operation.
void jumps_from_operators() {
    static const int COUNTS[] = {1, 100, 3000, 100000};
    static int in[100000], out[100000];
    MPI_Comm comm;
    MPI_Op op, sum;
    int rank, size, local;
    volatile int at, jumped;
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    /* Of three, one waits for what the jump leaves undone. */
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &comm));
    OK(MPI_Comm_size(comm, &local));
    OK(MPI_Op_create(jump_from_operator, 1, &op));
    OK(MPI_Op_create(sum_or_throw, 1, &sum));
    for (at = 0; at < 4 * 20; at++) {
        const int count = COUNTS[at % 4];
        static char name[100];
        snprintf(name, sizeof name, "longjmp from operators of %d elements", count);
        section(name);
        jumped = 0;
        NOTE_JUMP(MPI_Allreduce(in, out, count, MPI_INT, op, comm));
        SAME(jumped, local > 1);
        jumped = 0;
        NOTE_JUMP(MPI_Reduce(in, out, count, MPI_INT, op, 0, comm));
        NOTE_JUMP(MPI_Scan(in, out, count, MPI_INT, op, comm));
        SAME(jumped, local > 1);
        if (setjmp(before_the_call) == 0) {
            MPI_Reduce_local(in, out, count, MPI_INT, op);
            CHECK(!"the operator has not jumped");
        }
        for (int i = 0; i < count; i++) in[i] = rank + i;
        OK(MPI_Allreduce(in, out, count, MPI_INT, sum, comm));
        for (int i = 0; i < count; i++) SAME(out[i], local * (rank / 2 * 2 + i) + (local > 1));
        communicate(comm);
    }
    OK(MPI_Op_free(&op));
    OK(MPI_Op_free(&sum));
    OK(MPI_Comm_free(&comm));
}

MPI_Comm of_operators;

void sum_and_communicate(void *in, void *inout, int *count, MPI_Datatype *) {
    int self = 7, got = 0, rank;
    OK(MPI_Comm_rank(of_operators, &rank));
    OK(MPI_Sendrecv(&self, 1, MPI_INT, rank, 9, &got, 1, MPI_INT, rank, 9, of_operators, MPI_STATUS_IGNORE));
    SAME(got, 7);
    OK(MPI_Allreduce(&self, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    SAME(got, 7);
    for (int at = 0; at < *count; at++) static_cast<int *>(inout)[at] += static_cast<int *>(in)[at];
}

/// Operators of blocking operations may communicate, as other libraries let them.
void communicating_operators() {
    static int in[100000], out[100000];
    MPI_Op op;
    int rank, size;
    section("operators that communicate");
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &of_operators));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Op_create(sum_and_communicate, 1, &op));
    for (int count : {1, 100, 3000, 100000}) {
        for (int at = 0; at < count; at++) in[at] = rank + at;
        OK(MPI_Allreduce(in, out, count, MPI_INT, op, MPI_COMM_WORLD));
        for (int at = 0; at < count; at++) SAME(out[at], size * (size - 1) / 2 + size * at);
    }
    OK(MPI_Op_free(&op));
    OK(MPI_Comm_free(&of_operators));
    go_on();
}

/// A jump runs no destructor, and needs none: what is called meanwhile holds nothing.
void jumps() {
    section("longjmp");
    MPI_Comm comm, copy;
    MPI_Errhandler handler;
    int key, buffer = 0;
    volatile int round;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_create_errhandler(jump_away, &handler));
    OK(MPI_Comm_set_errhandler(comm, handler));
    for (round = 0; round < 50; round++) {
        if (setjmp(before_the_call) == 0) {
            MPI_Send(&buffer, -1, MPI_INT, 0, 1, comm);
            CHECK(!"the handler has not jumped");
        }
        if (setjmp(before_the_call) == 0) {
            MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
            CHECK(!"the handler has not jumped");
        }
    }
    OK(MPI_Comm_create_keyval(jump_from_copy, MPI_COMM_NULL_DELETE_FN, &key, nullptr));
    OK(MPI_Comm_set_attr(comm, key, &buffer));
    if (setjmp(before_the_call) == 0) {
        MPI_Comm_dup(comm, &copy);
        CHECK(!"the copy function has not jumped");
    }
    communicate(MPI_COMM_WORLD);
    OK(MPI_Comm_delete_attr(comm, key));
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Comm_free(&comm));
    go_on();
}

} // namespace

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, LEVEL, &provided));
    SAME(provided, LEVEL);
    check_world();
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &of_another_thread));
    error_handlers();
    operators();
    attributes();
    generalized();
    jumps();
    jumps_from_operators();
    communicating_operators();
    OK(MPI_Comm_free(&of_another_thread));
    return check_close();
}
