// ranks: 1 2 3 5
// Messages whose ends have different layouts of the same elements, of lengths around every change of the way: whole,
// cut, shorter than their room, before and after their receive, by every kind of call, to others and to oneself.
// (MPI 5.0, sections 3.2.5, 3.3.1, 3.5, 3.8, 3.9 and 5.1)
#include "check.h"

/* For a message of each rank, and those of others that are not gone. */
enum { BSEND_ROOM = 16 << 20 };
enum { TAG = 3, INTS_MAX = (1 << 20) / 4 + 64, ROOM = 4 * INTS_MAX, NOTHING = -77, BATCH = 6 };

/* Where the ints of a message stand. */
enum form { ROW, PAIRS, LINES, SCRAMBLED, DOWNWARDS, FORMS };
static const char *const NAMES[FORMS] = {"row", "pairs", "lines", "scrambled", "downwards"};
/* A message has a whole number of so many ints. */
static const int UNIT[FORMS] = {1, 2, 16, 4, 1};

static int *out, *in;

/* The place of int `i` of `ints`, counted from the beginning of the room. */
static int place(enum form form, int i, int ints) {
    static const int scramble[] = {5, 0, 1, 9};
    switch (form) {
        case PAIRS: return i / 2 * 4 + i % 2;
        case LINES: return i / 16 * 32 + i % 16;
        case SCRAMBLED: return i / 4 * 12 + scramble[i % 4];
        case DOWNWARDS: return 3 * (ints - 1 - i);
        default: return i;
    }
}

/* A buffer of so many ints. */
struct buffer {
    enum form form;
    int ints, count, *start;
    MPI_Datatype type;
};

static struct buffer buffer(enum form form, int ints, int *room) {
    struct buffer made = {form, ints, 1, room, MPI_INT};
    MPI_Datatype inner;
    switch (form) {
        case ROW: made.count = ints; return made;
        case PAIRS: OK(MPI_Type_vector(ints / 2, 2, 4, MPI_INT, &made.type)); break;
        case LINES:
            OK(MPI_Type_contiguous(16, MPI_INT, &inner));
            OK(MPI_Type_create_resized(inner, 0, 32 * sizeof(int), &made.type));
            OK(MPI_Type_free(&inner));
            made.count = ints / 16;
            break;
        case SCRAMBLED:
            OK(MPI_Type_indexed(3, (int[]){1, 2, 1}, (int[]){5, 0, 9}, MPI_INT, &inner));
            OK(MPI_Type_create_resized(inner, 0, 12 * sizeof(int), &made.type));
            OK(MPI_Type_free(&inner));
            made.count = ints / 4;
            break;
        default:
            OK(MPI_Type_create_hvector(ints, 1, -3 * (int)sizeof(int), MPI_INT, &made.type));
            made.start = room + 3 * (ints > 0 ? ints - 1 : 0);
            break;
    }
    OK(MPI_Type_commit(&made.type));
    return made;
}

static void give_back(struct buffer *made) {
    if (made->form != ROW) OK(MPI_Type_free(&made->type));
}

static int value(int from, int ints, int i) { return (from * 131 + ints) * 7919 + i * 31 + 5; }

static void fill_out(enum form form, int ints) {
    for (int i = 0; i < ints; i++) out[place(form, i, ints)] = value(check_rank, ints, i);
}

static void clear_in(enum form form, int ints) {
    int end = 12 + (form == ROW ? ints : 4 * ints);
    for (int i = 0; i < end; i++) in[i] = NOTHING;
}

/* The first `got` of the ints of a message of `sent` are there, in a room for `ints`, and nothing else is. */
static void check_in(enum form form, int ints, int from, int sent, int got) {
    int end = 12 + (form == ROW ? ints : 4 * ints), touched = 0;
    for (int i = 0; i < got; i++) {
        int at = place(form, i, ints);
        if (in[at] != value(from, sent, i)) {
            fprintf(stderr, "int %d of %d into %s: ", i, sent, NAMES[form]);
            SAME(in[at], value(from, sent, i));
        }
    }
    for (int i = 0; i < end; i++) touched += in[i] != NOTHING;
    SAME(touched, got);
}

static int next(void) { return (check_rank + 1) % check_size; }
static int previous(void) { return (check_rank + check_size - 1) % check_size; }

static void check_status(const MPI_Status *status, const struct buffer *to, int ints) {
    int elements, count;
    SAME(status->MPI_SOURCE, previous());
    SAME(status->MPI_TAG, TAG);
    OK(MPI_Get_elements(status, to->type, &elements));
    SAME(elements, ints);
    OK(MPI_Get_count(status, MPI_INT, &count));
    SAME(count, ints);
}

/* How a message is sent and received. */
enum way { POSTED, EXPECTED_BY_NOBODY, BLOCKING, SYNCHRONOUS, EXCHANGED, PERSISTENT, MATCHED, ANYBODY, BUFFERED, WAYS };
static const char *const WAY_NAMES[WAYS] = {"posted",   "unexpected", "blocking",   "synchronous", "exchanged",
                                            "planned",  "matched",    "any source", "buffered"};

static int receive_matched(const struct buffer *to, MPI_Status *status) {
    MPI_Message message;
    OK(MPI_Mprobe(previous(), TAG, MPI_COMM_WORLD, &message, status));
    return MPI_Mrecv(to->start, to->count, to->type, &message, status);
}

/* One message round the ring; the answer is what the receive has said. */
static int pass(enum way way, const struct buffer *from, const struct buffer *to, MPI_Status *status) {
    MPI_Request requests[2];
    int answer = MPI_SUCCESS, source = way == ANYBODY ? MPI_ANY_SOURCE : previous();
    switch (way) {
        case POSTED: case ANYBODY:
            OK(MPI_Irecv(to->start, to->count, to->type, source, TAG, MPI_COMM_WORLD, &requests[0]));
            if (way == POSTED) OK(MPI_Barrier(MPI_COMM_WORLD));
            OK(MPI_Send(from->start, from->count, from->type, next(), TAG, MPI_COMM_WORLD));
            return MPI_Wait(&requests[0], status);
        case EXPECTED_BY_NOBODY:
            OK(MPI_Isend(from->start, from->count, from->type, next(), TAG, MPI_COMM_WORLD, &requests[0]));
            OK(MPI_Barrier(MPI_COMM_WORLD));
            answer = MPI_Recv(to->start, to->count, to->type, source, TAG, MPI_COMM_WORLD, status);
            break;
        case BLOCKING:
            if (check_size > 1 && check_rank == 0) {
                OK(MPI_Send(from->start, from->count, from->type, next(), TAG, MPI_COMM_WORLD));
                return MPI_Recv(to->start, to->count, to->type, source, TAG, MPI_COMM_WORLD, status);
            }
            if (check_size > 1) {
                answer = MPI_Recv(to->start, to->count, to->type, source, TAG, MPI_COMM_WORLD, status);
                OK(MPI_Send(from->start, from->count, from->type, next(), TAG, MPI_COMM_WORLD));
                return answer;
            }
            return pass(POSTED, from, to, status);
        case SYNCHRONOUS:
            OK(MPI_Issend(from->start, from->count, from->type, next(), TAG, MPI_COMM_WORLD, &requests[0]));
            answer = MPI_Recv(to->start, to->count, to->type, source, TAG, MPI_COMM_WORLD, status);
            break;
        case EXCHANGED:
            return MPI_Sendrecv(from->start, from->count, from->type, next(), TAG, to->start, to->count, to->type,
                                source, TAG, MPI_COMM_WORLD, status);
        case PERSISTENT:
            OK(MPI_Send_init(from->start, from->count, from->type, next(), TAG, MPI_COMM_WORLD, &requests[0]));
            OK(MPI_Recv_init(to->start, to->count, to->type, source, TAG, MPI_COMM_WORLD, &requests[1]));
            OK(MPI_Startall(2, requests));
            answer = MPI_Wait(&requests[1], status);
            OK(MPI_Request_free(&requests[1]));
            OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
            OK(MPI_Request_free(&requests[0]));
            return answer;
        case MATCHED:
            OK(MPI_Isend(from->start, from->count, from->type, next(), TAG, MPI_COMM_WORLD, &requests[0]));
            answer = receive_matched(to, status);
            break;
        default:
            OK(MPI_Bsend(from->start, from->count, from->type, next(), TAG, MPI_COMM_WORLD));
            return MPI_Recv(to->start, to->count, to->type, source, TAG, MPI_COMM_WORLD, status);
    }
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    return answer;
}

static void one(enum way way, enum form sent_as, enum form received_as, int ints, int room) {
    struct buffer from = buffer(sent_as, ints, out), to = buffer(received_as, room, in);
    MPI_Status status;
    int got = ints < room ? ints : room, answer;
    fill_out(sent_as, ints);
    clear_in(received_as, room);
    if (got < ints) OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    answer = pass(way, &from, &to, &status);
    if (got < ints) {
        CLASS(answer, MPI_ERR_TRUNCATE);
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    } else {
        OK(answer);
        check_status(&status, &to, ints);
    }
    check_in(received_as, room, previous(), ints, got);
    give_back(&from);
    give_back(&to);
}

/* Lengths in ints on both sides of a line, the mailbox, a piece, and several pieces. */
static const int LENGTHS[] = {0,    1,     2,     4,     8,     9,     16,    32,    1000,  1024,  3060,   3064,   3072,
                              4092, 4095,  4096,  4097,  4100,  4112,  8190,  8192,  8193,  8208,  12304,  16384,  16400,
                              40001, 65536, 65552, 200004, 262144, 262145, 262160};
enum { LENGTH_COUNT = sizeof LENGTHS / sizeof *LENGTHS };

static int fits(enum form form, int ints) { return ints % UNIT[form] == 0; }

static void every_pair(void) {
    for (int sent = 0; sent < FORMS; sent++)
        for (int received = 0; received < FORMS; received++) {
            if (sent == ROW && received == ROW) continue;
            section(NAMES[sent]);
            for (int i = 0; i < LENGTH_COUNT; i++) {
                enum way way = (enum way)((i + sent + 3 * received) % BUFFERED);
                if (fits((enum form)sent, LENGTHS[i]) && fits((enum form)received, LENGTHS[i]))
                    one(way, (enum form)sent, (enum form)received, LENGTHS[i], LENGTHS[i]);
            }
        }
}

static void every_way(void) {
    static const int lengths[] = {16, 2048, 4096, 4112, 16400, 100016};
    char *space = malloc(BSEND_ROOM);
    void *detached;
    int detached_bytes;
    OK(MPI_Buffer_attach(space, BSEND_ROOM));
    for (int way = 0; way < WAYS; way++) {
        section(WAY_NAMES[way]);
        for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i++) {
            one((enum way)way, PAIRS, PAIRS, lengths[i], lengths[i]);
            one((enum way)way, LINES, SCRAMBLED, lengths[i], lengths[i]);
            one((enum way)way, DOWNWARDS, ROW, lengths[i], lengths[i]);
            one((enum way)way, ROW, LINES, lengths[i], lengths[i]);
        }
    }
    OK(MPI_Buffer_detach(&detached, &detached_bytes));
    free(space);
}

/* Rooms that are longer than the message, and shorter: what has no place is dropped. */
static void other_lengths(void) {
    static const int lengths[] = {16, 64, 4096, 4112, 8208, 40000, 131072};
    for (int sent = 0; sent < FORMS; sent++)
        for (int received = 0; received < FORMS; received++) {
            section(NAMES[received]);
            for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i++) {
                int ints = lengths[i], part = ints / 3 / UNIT[received] * UNIT[received];
                enum way way = (enum way)((i + sent + received) % EXCHANGED);
                one(way, (enum form)sent, (enum form)received, ints, ints + 160);
                if (way == BLOCKING) way = POSTED;
                one(way, (enum form)sent, (enum form)received, ints, ints - UNIT[received]);
                one(way, (enum form)sent, (enum form)received, ints, part);
            }
        }
}

/* A message that ends within an element of its receive. */
static void within_an_element(void) {
    section("within an element");
    for (int ints = 3; ints < INTS_MAX; ints = ints * 2 + 1) {
        struct buffer from = buffer(DOWNWARDS, ints, out), to = buffer(SCRAMBLED, ints / 4 * 4 + 8, in);
        MPI_Status status;
        int count, elements;
        fill_out(DOWNWARDS, ints);
        clear_in(SCRAMBLED, to.ints);
        OK(pass(ints % 8 < 4 ? POSTED : EXPECTED_BY_NOBODY, &from, &to, &status));
        check_in(SCRAMBLED, to.ints, previous(), ints, ints);
        OK(MPI_Get_count(&status, to.type, &count));
        SAME(count, ints % 4 == 0 ? ints / 4 : MPI_UNDEFINED);
        OK(MPI_Get_elements(&status, to.type, &elements));
        SAME(elements, ints);
        give_back(&from);
        give_back(&to);
    }
}

/* Several messages of all lengths under way at once come in order, both ways, whatever their ends look like. */
static void many_at_once(void) {
    static const int lengths[BATCH] = {40000, 16, 8208, 4096, 131072, 32};
    MPI_Request requests[2 * BATCH];
    struct buffer from[BATCH], to[BATCH];
    int *rooms[2 * BATCH];
    section("many at once");
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < BATCH; i++) {
            size_t bytes = (4 * (size_t)lengths[i] + 64) * sizeof(int);
            rooms[i] = malloc(bytes), rooms[BATCH + i] = malloc(bytes);
            from[i] = buffer((enum form)((i + turn) % FORMS), lengths[i], rooms[i]);
            to[i] = buffer((enum form)((i + 2 * turn + 1) % FORMS), lengths[i], rooms[BATCH + i]);
            for (int at = 0; at < lengths[i]; at++)
                rooms[i][place(from[i].form, at, lengths[i])] = value(check_rank, lengths[i], at);
        }
        for (int i = 0; i < BATCH; i++) {
            if (turn % 2 == 0)
                OK(MPI_Irecv(to[i].start, to[i].count, to[i].type, previous(), TAG, MPI_COMM_WORLD, &requests[BATCH + i]));
            OK(MPI_Isend(from[i].start, from[i].count, from[i].type, next(), TAG, MPI_COMM_WORLD, &requests[i]));
        }
        for (int i = 0; i < BATCH && turn % 2 == 1; i++)
            OK(MPI_Irecv(to[i].start, to[i].count, to[i].type, previous(), TAG, MPI_COMM_WORLD, &requests[BATCH + i]));
        /* The engine has what it needs of a type. */
        for (int i = 0; i < BATCH; i++) give_back(&from[i]), give_back(&to[i]);
        OK(MPI_Waitall(2 * BATCH, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < BATCH; i++) {
            for (int at = 0; at < lengths[i]; at++)
                SAME(rooms[BATCH + i][place(to[i].form, at, lengths[i])], value(previous(), lengths[i], at));
            free(rooms[i]), free(rooms[BATCH + i]);
        }
    }
}

/* A send that its receiver never wants whole is over all the same, and a receive that is taken back leaves its buffer. */
static void taken_back(void) {
    struct buffer to = buffer(PAIRS, 4096, in);
    MPI_Request request;
    MPI_Status status;
    int cancelled;
    section("taken back");
    clear_in(PAIRS, 4096);
    OK(MPI_Irecv(to.start, to.count, to.type, previous(), TAG + 1, MPI_COMM_WORLD, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled);
    check_in(PAIRS, 4096, previous(), 0, 0);
    give_back(&to);
    one(EXPECTED_BY_NOBODY, LINES, PAIRS, 40000, 0);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    out = malloc(ROOM * sizeof(int));
    in = malloc((ROOM + 64) * sizeof(int));
    every_pair();
    every_way();
    other_lengths();
    within_an_element();
    many_at_once();
    taken_back();
    free(out);
    free(in);
    return check_close();
}
