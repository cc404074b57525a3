// ranks: 1 2 3 5
// Random programs: messages of random layouts on several communicators, in all modes, blocking and not, from plans and at
// once, to receives that are posted before or look for their messages later, with and without wildcards. Some sends are cancelled:
// they complete, or nobody ever sees their message. Every rank draws
// the same program from its seed, so each knows what all others do, and holds what it gets against the rules of order; where
// there is one sender, or no wildcard, these leave one answer. Elements are looked for where a type map has them that
// is made beside the datatype, entry by entry. A failure says its seed; `random_programs SEED` plays it again.
// (MPI 5.0, sections 3.4, 3.5, 3.7, 3.8, 3.9 and 5.1)
#include "check.h"
#include "dice.h"

enum { MESSAGES = 40, KINDS = 4, PARTS_MAX = 4, CHANNELS = 4, TAGS = 3, ROOM_FOR_BUFFERED = 64 << 20 };

static const int WIDTH[KINDS] = {1, 2, 4, 8};
static MPI_Datatype kinds[KINDS];

static unsigned any_of(const unsigned *list, unsigned count) { return list[draw(count)]; }
#define ANY_OF(...) any_of((const unsigned[]){__VA_ARGS__}, sizeof (unsigned[]){__VA_ARGS__} / sizeof(unsigned))

/* ---- layouts ---- */

/* What elements follow each other in a message: so many units of these kinds. */
struct signature {
    int parts, kind[PARTS_MAX], units;
};

/* Where they stand in a buffer. */
struct layout {
    MPI_Datatype type;
    int count, elements;
    long *place; /* of each element, from `buffer` on */
    unsigned char *memory, *buffer;
    size_t bytes;
};

static struct signature random_signature(void) {
    struct signature made = {.parts = 1 + (int)draw(PARTS_MAX), .units = (int)ANY_OF(0, 1, 2, 3, 12, 60, 400, 2400, 2400, 12000)};
    int uniform = draw(2) == 0;
    for (int part = 0; part < made.parts; part++) made.kind[part] = part > 0 && uniform ? made.kind[0] : (int)draw(KINDS);
    return made;
}

/* A unit as a struct with gaps, its parts in any order of places; says how far it reaches. */
static MPI_Datatype unit_type(const struct signature *of, long *offset, long *extent) {
    int lengths[PARTS_MAX];
    MPI_Aint places[PARTS_MAX];
    MPI_Datatype types[PARTS_MAX], made, resized;
    long end = 8 * (long)draw(2);
    int downwards = draw(3) == 0;
    for (int i = 0; i < of->parts; i++) {
        int part = downwards ? of->parts - 1 - i : i;
        end = (end + 7) / 8 * 8;
        offset[part] = end;
        end += WIDTH[of->kind[part]];
        if (draw(2) == 0) end += 8 * (long)draw(3);
    }
    *extent = (end + 7) / 8 * 8 + 8 * (long)draw(3);
    for (int part = 0; part < of->parts; part++)
        lengths[part] = 1, places[part] = offset[part], types[part] = kinds[of->kind[part]];
    OK(MPI_Type_create_struct(of->parts, lengths, places, types, &made));
    OK(MPI_Type_create_resized(made, 0, *extent, &resized));
    OK(MPI_Type_free(&made));
    return resized;
}

static int divisor_of(int number, int most) {
    int found = 1 + (int)draw((unsigned)most);
    while (number % found != 0) found--;
    return found;
}

/* Units one behind the other, in blocks apart, downwards, or anywhere; `unit_place` says where each begins. */
static MPI_Datatype row_of_units(int units, MPI_Datatype unit, long extent, long *unit_place, int *count) {
    MPI_Datatype made;
    switch (units == 0 ? 0 : draw(5)) {
        case 0:
            for (int u = 0; u < units; u++) unit_place[u] = u * extent;
            *count = units;
            OK(MPI_Type_dup(unit, &made));
            return made;
        case 1: { /* blocks one every so many units, up or down */
            int block = divisor_of(units, 6), blocks = units / block, stride = (block + (int)draw(3)) * (draw(3) == 0 ? -1 : 1);
            for (int u = 0; u < units; u++) unit_place[u] = (u / block * stride + u % block) * extent;
            *count = 1;
            OK(MPI_Type_vector(blocks, block, stride, unit, &made));
            return made;
        }
        case 2: { /* vectors within a row of elements */
            int block = divisor_of(units, 4), blocks = divisor_of(units / block, 5), apart = block + 1;
            long wide = (long)(blocks * apart + (int)draw(2)) * extent;
            MPI_Datatype inner;
            *count = units / block / blocks;
            for (int u = 0; u < units; u++)
                unit_place[u] = u / (block * blocks) * wide + (u / block % blocks * apart + u % block) * extent;
            OK(MPI_Type_create_hvector(blocks, block, apart * extent, unit, &inner));
            OK(MPI_Type_create_resized(inner, 0, wide, &made));
            OK(MPI_Type_free(&inner));
            return made;
        }
        case 3: { /* blocks of one unit at places in no order */
            int *at = malloc((size_t)units * sizeof *at);
            for (int u = 0; u < units; u++) at[u] = u + u / 3;
            for (int u = units - 1; u > 0; u--) {
                int other = (int)draw((unsigned)u + 1), kept = at[u];
                at[u] = at[other], at[other] = kept;
            }
            for (int u = 0; u < units; u++) unit_place[u] = at[u] * extent;
            *count = 1;
            OK(MPI_Type_create_indexed_block(units, 1, at, unit, &made));
            free(at);
            return made;
        }
        default: { /* a part of an array of two dimensions */
            int columns = divisor_of(units, 40), rows = units / columns, order = draw(2) == 0 ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
            int sizes[2] = {rows + 2, columns + 1}, parts[2] = {rows, columns}, starts[2] = {1, 1};
            int *last = order == MPI_ORDER_C ? &sizes[1] : &sizes[0];
            int inner = order == MPI_ORDER_C ? columns : rows;
            for (int u = 0; u < units; u++) unit_place[u] = ((u / inner + 1) * *last + u % inner + 1) * extent;
            *count = 1;
            OK(MPI_Type_create_subarray(2, sizes, parts, starts, order, unit, &made));
            return made;
        }
    }
}

/* A layout of as many units, with a buffer of its own. */
static struct layout random_layout(const struct signature *of, int units) {
    long offset[PARTS_MAX], extent, low = 0, high = 0, *unit_place = malloc(((size_t)units + 1) * sizeof *unit_place);
    struct layout made = {.elements = units * of->parts};
    MPI_Datatype unit;
    int uniform = 1;
    for (int part = 0; part < of->parts; part++) uniform = uniform && of->kind[part] == of->kind[0];
    made.place = malloc(((size_t)made.elements + 1) * sizeof *made.place);
    if (uniform && draw(3) == 0) { /* a row of a predefined datatype */
        made.type = kinds[of->kind[0]], made.count = made.elements;
        for (int e = 0; e < made.elements; e++) made.place[e] = (long)e * WIDTH[of->kind[0]];
    } else {
        unit = unit_type(of, offset, &extent);
        made.type = row_of_units(units, unit, extent, unit_place, &made.count);
        OK(MPI_Type_commit(&made.type));
        OK(MPI_Type_free(&unit));
        for (int e = 0; e < made.elements; e++) made.place[e] = unit_place[e / of->parts] + offset[e % of->parts];
    }
    for (int e = 0; e < made.elements; e++) {
        if (made.place[e] < low) low = made.place[e];
        if (made.place[e] + 8 > high) high = made.place[e] + 8;
    }
    made.bytes = (size_t)(high - low) + 16;
    made.memory = malloc(made.bytes);
    made.buffer = made.memory + 8 - low;
    memset(made.memory, 0xee, made.bytes);
    free(unit_place);
    return made;
}

static void give_back(struct layout *layout, const struct signature *of) {
    if (layout->type != kinds[of->kind[0]]) OK(MPI_Type_free(&layout->type));
    free(layout->place);
    free(layout->memory);
}

/* Byte `at` of element `e` of message `id`. */
static unsigned char content(int id, int e, int at) { return pattern((size_t)e * 8 + (size_t)at, (unsigned)id * 7u + 3u); }

static void write_message(const struct layout *to, const struct signature *of, int id) {
    for (int e = 0; e < to->elements; e++)
        for (int at = 0; at < WIDTH[of->kind[e % of->parts]]; at++) to->buffer[to->place[e] + at] = content(id, e, at);
}

/* The elements are there, and no other byte was touched. */
static void check_message(struct layout *from, const struct signature *of, int id, int elements) {
    for (int e = 0; e < elements; e++)
        for (int at = 0; at < WIDTH[of->kind[e % of->parts]]; at++) {
            SAME(from->buffer[from->place[e] + at], content(id, e, at));
            from->buffer[from->place[e] + at] = 0xee;
        }
    UNTOUCHED(from->memory, from->bytes, 0xee);
}

/* ---- programs ---- */

/* The world, a copy of it, the world in reverse, and one half of it with the other. */
static MPI_Comm channels[CHANNELS];

/* Which rank a process has on one, and which process has a rank that messages come from. */
static int rank_on(int channel, int process) {
    return channel == 2 ? check_size - 1 - process : channel == 3 ? process / 2 : process;
}

static int process_on(int channel, int rank) {
    return channel == 2 ? check_size - 1 - rank : channel == 3 ? 2 * rank + 1 - check_rank % 2 : rank;
}

static void open_channels(void) {
    MPI_Comm half;
    channels[0] = MPI_COMM_WORLD;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &channels[1]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &channels[2]));
    channels[3] = MPI_COMM_NULL;
    if (check_size < 2) return;
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - check_rank % 2, 99, &channels[3]));
    OK(MPI_Comm_free(&half));
}

static void close_channels(void) {
    for (int i = 1; i < CHANNELS; i++)
        if (channels[i] != MPI_COMM_NULL) OK(MPI_Comm_free(&channels[i]));
}

enum mode { STANDARD, SYNCHRONOUS, BUFFERED, READY, MODES };
enum style { EXACT, ANY_SENDER, ANY_NUMBER, ANYTHING, STYLES };
enum phase { RECEIVES_FIRST, SENDS_FIRST, MIXED, PHASES };
static const char *const PHASE_NAMES[PHASES] = {"receives first", "sends first", "mixed"};

struct message {
    int from, to, channel, tag, blocking, planned, cancels;
    enum mode mode;
    struct signature of;
    struct layout layout;
    MPI_Request request;
    int is_received;
};

/* Who receives on one channel asks for its messages in one style, so that none of them can wait for a message that another
 * has got. */
struct receive {
    int at, channel, source, tag, more, way;
    int only_for; /* there is none where that message is cancelled; or -1 */
    enum style style;
    struct signature of;
    struct layout layout;
    MPI_Request request;
    MPI_Status status;
};

static struct message messages[MESSAGES];
static struct receive receives[MESSAGES];
/* Those that are, by their senders; all know it once all has been sent. */
static int cancelled[MESSAGES];

/* For MPICH 5.0.2, which fails at requests of MPI_Ibsend in lists, and at messages that end within an element. */
static int is_mild;

/* The same at all ranks. */
static void draw_program(enum phase phase) {
    enum style styles[CHANNELS][64];
    struct signature same[CHANNELS][64];
    for (int c = 0; c < CHANNELS; c++)
        for (int r = 0; r < check_size; r++) styles[c][r] = (enum style)draw(STYLES), same[c][r] = random_signature();
    for (int i = 0; i < MESSAGES; i++) {
        struct message *message = &messages[i];
        struct receive *receive = &receives[i];
        memset(message, 0, sizeof *message);
        memset(receive, 0, sizeof *receive);
        message->from = (int)draw((unsigned)check_size), message->to = (int)draw((unsigned)check_size);
        message->channel = (int)draw(CHANNELS);
        if (message->channel == 3 && (message->from + message->to) % 2 == 0) message->channel = 1;
        message->tag = (int)draw(TAGS), message->planned = draw(3) == 0, message->blocking = draw(2) == 0;
        message->mode = (enum mode)draw(phase == RECEIVES_FIRST ? MODES : READY);
        /* Where it takes the receive of another, that one waits until all know of it. */
        message->cancels = phase != RECEIVES_FIRST && !is_mild && draw(5) == 0;
        receive->only_for = message->cancels ? i : -1;
        /* What fits any of the messages that may come. */
        message->of = same[message->channel][message->to];
        receive->at = message->to, receive->channel = message->channel, receive->of = message->of;
        receive->style = styles[message->channel][message->to];
        receive->source = rank_on(message->channel, message->from), receive->tag = message->tag;
        if (receive->style == ANY_SENDER || receive->style == ANYTHING) receive->source = MPI_ANY_SOURCE;
        if (receive->style == ANY_NUMBER || receive->style == ANYTHING) receive->tag = MPI_ANY_TAG;
        receive->more = (int)draw(4), receive->way = (int)draw(6);
        message->of.units -= message->of.units > 3 ? (int)draw(3) : 0;
        if (is_mild) {
            if (message->mode == BUFFERED) message->mode = STANDARD;
            receive->more = 0, message->of.units = receive->of.units;
        }
    }
    for (int i = MESSAGES - 1; i > 0; i--) { /* each receives in an order of its own */
        struct receive kept = receives[i];
        unsigned other = draw((unsigned)i + 1);
        receives[i] = receives[other], receives[other] = kept;
    }
}

static void plan_send(struct message *it, MPI_Comm comm, int to) {
    struct layout *l = &it->layout;
    switch (it->mode) {
        case SYNCHRONOUS: OK(MPI_Ssend_init(l->buffer, l->count, l->type, to, it->tag, comm, &it->request)); break;
        case BUFFERED: OK(MPI_Bsend_init(l->buffer, l->count, l->type, to, it->tag, comm, &it->request)); break;
        case READY: OK(MPI_Rsend_init(l->buffer, l->count, l->type, to, it->tag, comm, &it->request)); break;
        default: OK(MPI_Send_init(l->buffer, l->count, l->type, to, it->tag, comm, &it->request)); break;
    }
    OK(MPI_Start(&it->request));
}

static void begin_send(struct message *it, MPI_Comm comm, int to) {
    struct layout *l = &it->layout;
    switch (it->mode) {
        case SYNCHRONOUS: OK(MPI_Issend(l->buffer, l->count, l->type, to, it->tag, comm, &it->request)); break;
        case BUFFERED: OK(MPI_Ibsend(l->buffer, l->count, l->type, to, it->tag, comm, &it->request)); break;
        case READY: OK(MPI_Irsend(l->buffer, l->count, l->type, to, it->tag, comm, &it->request)); break;
        default: OK(MPI_Isend(l->buffer, l->count, l->type, to, it->tag, comm, &it->request)); break;
    }
}

static void send_now(struct message *it, MPI_Comm comm, int to) {
    struct layout *l = &it->layout;
    switch (it->mode) {
        case SYNCHRONOUS: OK(MPI_Ssend(l->buffer, l->count, l->type, to, it->tag, comm)); break;
        case BUFFERED: OK(MPI_Bsend(l->buffer, l->count, l->type, to, it->tag, comm)); break;
        case READY: OK(MPI_Rsend(l->buffer, l->count, l->type, to, it->tag, comm)); break;
        default: OK(MPI_Send(l->buffer, l->count, l->type, to, it->tag, comm)); break;
    }
}

/* A send that is cancelled ends in any way that there is, whatever its receiver does. */
static void cancel_one(int number, MPI_Comm comm, int to) {
    struct message *it = &messages[number];
    MPI_Status status;
    int flag = 0, turns = (int)draw(4);
    if (it->planned) plan_send(it, comm, to);
    else begin_send(it, comm, to);
    for (int i = 0; i < turns; i++) OK(MPI_Iprobe(MPI_ANY_SOURCE, TAGS, comm, &flag, MPI_STATUS_IGNORE));
    OK(MPI_Cancel(&it->request));
    switch (draw(3)) {
        case 0: OK(MPI_Wait(&it->request, &status)); break;
        case 1: OK(MPI_Waitall(1, &it->request, &status)); break;
        default:
            for (flag = 0; !flag;) OK(MPI_Test(&it->request, &flag, &status));
    }
    OK(MPI_Test_cancelled(&status, &cancelled[number]));
    if (it->planned) OK(MPI_Request_free(&it->request));
}

static void send_one(int number, enum phase phase) {
    struct message *it = &messages[number];
    MPI_Comm comm = channels[it->channel];
    int to = rank_on(it->channel, it->to);
    it->layout = random_layout(&it->of, it->of.units);
    write_message(&it->layout, &it->of, number);
    it->request = MPI_REQUEST_NULL;
    if (it->cancels) return cancel_one(number, comm, to);
    if (it->planned) plan_send(it, comm, to);
    /* Where no receive is posted only those may wait that a buffer takes. */
    else if (it->blocking && (phase == RECEIVES_FIRST || it->mode == BUFFERED)) send_now(it, comm, to);
    else begin_send(it, comm, to);
}

/* Receives that are posted, from a plan or at once. */
static void post(struct receive *it) {
    struct layout *l = &it->layout;
    MPI_Comm comm = channels[it->channel];
    if (it->way % 2 == 0) {
        OK(MPI_Irecv(l->buffer, l->count, l->type, it->source, it->tag, comm, &it->request));
    } else {
        OK(MPI_Recv_init(l->buffer, l->count, l->type, it->source, it->tag, comm, &it->request));
        OK(MPI_Start(&it->request));
    }
}

/* Receives that find their message by one of the ways to look for it. */
static void fetch(struct receive *it) {
    struct layout *l = &it->layout;
    MPI_Comm comm = channels[it->channel];
    MPI_Message taken;
    MPI_Status seen;
    int flag = 0;
    it->request = MPI_REQUEST_NULL;
    switch (it->way) {
        case 0: OK(MPI_Recv(l->buffer, l->count, l->type, it->source, it->tag, comm, &it->status)); return;
        case 1:
            OK(MPI_Probe(it->source, it->tag, comm, &seen));
            OK(MPI_Recv(l->buffer, l->count, l->type, seen.MPI_SOURCE, seen.MPI_TAG, comm, &it->status));
            break;
        case 2:
            while (!flag) OK(MPI_Iprobe(it->source, it->tag, comm, &flag, &seen));
            flag = 0; /* who has been told of a message gets it at once */
            OK(MPI_Improbe(seen.MPI_SOURCE, seen.MPI_TAG, comm, &flag, &taken, MPI_STATUS_IGNORE));
            CHECK(flag);
            OK(MPI_Mrecv(l->buffer, l->count, l->type, &taken, &it->status));
            break;
        case 3:
            OK(MPI_Mprobe(it->source, it->tag, comm, &taken, &seen));
            OK(MPI_Mrecv(l->buffer, l->count, l->type, &taken, &it->status));
            break;
        case 4:
            while (!flag) OK(MPI_Improbe(it->source, it->tag, comm, &flag, &taken, &seen));
            OK(MPI_Imrecv(l->buffer, l->count, l->type, &taken, &it->request));
            OK(MPI_Wait(&it->request, &it->status));
            break;
        default:
            OK(MPI_Irecv(l->buffer, l->count, l->type, it->source, it->tag, comm, &it->request));
            OK(MPI_Wait(&it->request, &it->status));
            return;
    }
    SAME(it->status.MPI_SOURCE, seen.MPI_SOURCE);
    SAME(it->status.MPI_TAG, seen.MPI_TAG);
}

/* Waits for all in one of the ways that there are; statuses stand where their requests do. */
static void complete(int count, MPI_Request *requests, MPI_Status *statuses) {
    int indices[2 * MESSAGES], done = 0, index, flag = 0;
    MPI_Status some[2 * MESSAGES];
    switch (draw(5)) {
        case 0: OK(MPI_Waitall(count, requests, statuses)); return;
        case 1:
            for (;;) {
                OK(MPI_Waitany(count, requests, &index, &some[0]));
                if (index == MPI_UNDEFINED) return;
                statuses[index] = some[0];
            }
        case 2:
            while (!flag) OK(MPI_Testall(count, requests, &flag, statuses));
            return;
        case 3:
            for (;;) {
                OK(MPI_Testsome(count, requests, &done, indices, some));
                if (done == MPI_UNDEFINED) return;
                for (int i = 0; i < done; i++) statuses[indices[i]] = some[i];
            }
        default:
            for (;;) {
                OK(MPI_Waitsome(count, requests, &done, indices, some));
                if (done == MPI_UNDEFINED) return;
                for (int i = 0; i < done; i++) statuses[indices[i]] = some[i];
            }
    }
}

/* Whether this rank has that receive, among those that come first (-1), or those that come when all know what was cancelled (1). */
static int is_here(int number, int late) {
    const struct receive *it = &receives[number];
    return it->at == check_rank && (late < 0 ? it->only_for < 0 : it->only_for >= 0 && !cancelled[it->only_for]);
}

static void complete_all(void) {
    MPI_Request requests[2 * MESSAGES];
    MPI_Status statuses[2 * MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        requests[i] = messages[i].from == check_rank ? messages[i].request : MPI_REQUEST_NULL;
        requests[MESSAGES + i] = is_here(i, -1) || is_here(i, 1) ? receives[i].request : MPI_REQUEST_NULL;
    }
    complete(2 * MESSAGES, requests, statuses);
    for (int i = 0; i < MESSAGES; i++) {
        if ((is_here(i, -1) || is_here(i, 1)) && receives[i].request != MPI_REQUEST_NULL) receives[i].status = statuses[MESSAGES + i];
        if (requests[i] != MPI_REQUEST_NULL) OK(MPI_Request_free(&requests[i])); /* those of plans stay */
        if (requests[MESSAGES + i] != MPI_REQUEST_NULL) OK(MPI_Request_free(&requests[MESSAGES + i]));
    }
}

/* A receive has got the first message of its sender that it asks for and that none before it has got. */
static void check_receive(struct receive *it) {
    int from = process_on(it->channel, it->status.MPI_SOURCE), bytes = -1, right = 0;
    if (it->source != MPI_ANY_SOURCE) SAME(it->status.MPI_SOURCE, it->source);
    for (int number = 0; number < MESSAGES; number++) {
        struct message *message = &messages[number];
        if (cancelled[number] || message->is_received || message->from != from || message->to != check_rank || message->channel != it->channel) continue;
        if (it->tag != MPI_ANY_TAG && message->tag != it->tag) continue;
        SAME(it->status.MPI_TAG, message->tag);
        OK(MPI_Get_count(&it->status, MPI_BYTE, &bytes));
        for (int part = 0; part < message->of.parts; part++) right += message->of.units * WIDTH[message->of.kind[part]];
        SAME(bytes, right);
        check_message(&it->layout, &it->of, number, message->of.units * message->of.parts);
        message->is_received = 1;
        return;
    }
    check_failed(__FILE__, __LINE__, "a receive has got a message that nobody has sent");
}

static void play(unsigned seed, enum phase phase) {
    static char name[100];
    snprintf(name, sizeof name, "seed %u, %s", seed, PHASE_NAMES[phase]);
    section(name);
    dice = seed * PHASES + (unsigned)phase;
    draw_program(phase);
    memset(cancelled, 0, sizeof cancelled);
    dice += 7919u * (unsigned)check_rank; /* from here on each draws for itself */
    for (int i = 0; i < MESSAGES; i++)
        if (receives[i].at == check_rank) receives[i].layout = random_layout(&receives[i].of, receives[i].of.units + receives[i].more);
    if (phase == RECEIVES_FIRST) {
        for (int i = 0; i < MESSAGES; i++)
            if (receives[i].at == check_rank) post(&receives[i]);
        OK(MPI_Barrier(channels[1]));
    }
    for (int sent = 0, received = phase == MIXED ? 0 : MESSAGES; sent < MESSAGES || received < MESSAGES;) {
        if (sent < MESSAGES && (received >= MESSAGES || draw(2) == 0)) {
            if (messages[sent].from == check_rank) send_one(sent, phase);
            sent++;
        } else {
            if (is_here(received, -1)) post(&receives[received]);
            received++;
        }
    }
    if (phase != RECEIVES_FIRST) OK(MPI_Allreduce(MPI_IN_PLACE, cancelled, MESSAGES, MPI_INT, MPI_MAX, channels[1]));
    for (int late = 0; late < 2 && phase != RECEIVES_FIRST; late++)
        for (int i = 0; i < MESSAGES; i++) {
            if (!is_here(i, late ? 1 : -1)) continue;
            if (phase == SENDS_FIRST) fetch(&receives[i]);
            else if (late) post(&receives[i]);
        }
    complete_all();
    for (int late = 0; late < 2; late++)
        for (int i = 0; i < MESSAGES; i++)
            if (is_here(i, late ? 1 : -1)) check_receive(&receives[i]);
    for (int i = 0; i < MESSAGES; i++)
        if (receives[i].at == check_rank) give_back(&receives[i].layout, &receives[i].of);
    OK(MPI_Buffer_flush());
    for (int i = 0; i < MESSAGES; i++)
        if (messages[i].from == check_rank) give_back(&messages[i].layout, &messages[i].of);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv) {
    static const unsigned ALWAYS[] = {1, 2, 3, 4, 5, 6};
    unsigned drawn = (unsigned)time(NULL) ^ (unsigned)getpid() << 12;
    void *memory = malloc(ROOM_FOR_BUFFERED), *detached;
    int bytes;
    check_open(argc, argv);
    kinds[0] = MPI_CHAR, kinds[1] = MPI_SHORT, kinds[2] = MPI_INT, kinds[3] = MPI_DOUBLE;
    OK(MPI_Bcast(&drawn, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD));
    OK(MPI_Buffer_attach(memory, ROOM_FOR_BUFFERED));
    is_mild = check_library_is("MPICH");
    open_channels();
    for (int phase = 0; phase < PHASES; phase++) {
        if (argc > 1) {
            play((unsigned)strtoul(argv[1], NULL, 10), (enum phase)phase);
            continue;
        }
        for (size_t i = 0; i < sizeof ALWAYS / sizeof *ALWAYS; i++) play(ALWAYS[i], (enum phase)phase);
        for (unsigned i = 0; i < 4; i++) play(drawn + i, (enum phase)phase);
    }
    close_channels();
    OK(MPI_Buffer_detach(&detached, &bytes));
    free(memory);
    return check_close();
}
