// ranks: 17
// not libfabric: it is about schedules and datatypes, and takes long
// Every collective operation that moves or combines data, on the first 1 to 17 ranks, with elements that stand in a row,
// apart, and of 4 KiB each, and lengths from nothing to beyond those at which other algorithms serve. There roots, places
// and operators change from one call to the next; of two elements there is every root, in place and not, with every operator.
// Each word says whom it is from and for, or who was combined in it, in what order. (MPI 5.0, chapter 6)
#include "check.h"

#include <stdint.h>

typedef uint64_t word;

enum { RANKS_MAX = 17, ROOM = 1 << 20, LENGTHS_MAX = 64, UNTOUCHED = 0xee };

/* An element: so many words, each `step` words behind the one before. */
struct layout {
    MPI_Datatype type;
    int words, step, extent_words;
};

enum { IN_A_ROW, APART, LARGE, LAYOUTS };
static struct layout layouts[LAYOUTS];
static MPI_Op disjoint, in_order;

/* What one call is. */
struct call {
    MPI_Comm comm;
    int size, rank, root, in_place, commutative;
    const struct layout *layout;
    int count; /* of each block, or of the vector */
};

static unsigned char *given, *got;

/* ---- words ---- */

/* A word on its way. */
static word parcel(int from, int to, long index) { return (word)from << 56 | (word)to << 48 | (word)index; }

/* A word in which ranks were combined: those from `first` to `last`, in order. */
static word sum(int first, int last, long index) { return (word)index << 16 | (word)last << 8 | (word)first; }
static const word SPOILT = ~(word)0;

static int first_of(word value) { return (int)(value & 0xff); }
static int last_of(word value) { return (int)(value >> 8 & 0xff); }

/* What ranks have given when they may be combined in any order: how often each was, eight bits for three ranks would do,
 * so three bits for each of 17. The index goes into what is left. */
static word tally(int first, int end, long index) {
    word value = 0;
    for (int rank = first; rank < end; rank++) value += (word)1 << (3 * rank);
    return value | (word)(index % 4096) << 51;
}

static void each_word(void *in, void *inout, int count, MPI_Datatype type, word (*combine)(word, word)) {
    MPI_Aint bound, extent;
    MPI_Type_get_extent(type, &bound, &extent);
    const struct layout *layout = layouts;
    while (layout->extent_words * (MPI_Aint)sizeof(word) != extent) layout++;
    for (int element = 0; element < count; element++)
        for (int at = 0; at < layout->words; at++) {
            long place = (long)element * layout->extent_words + (long)at * layout->step;
            word *to = (word *)inout + place;
            *to = combine(((word *)in)[place], *to);
        }
}

static word add(word left, word right) {
    word index = left >> 51;
    return index != right >> 51 ? SPOILT : ((left + right) & (((word)1 << 51) - 1)) | index << 51;
}

static word append(word left, word right) {
    if (left >> 16 != right >> 16 || last_of(left) + 1 != first_of(right)) return SPOILT;
    return sum(first_of(left), last_of(right), (long)(left >> 16));
}

static void combine_disjoint(void *in, void *inout, int *count, MPI_Datatype *type) {
    each_word(in, inout, *count, *type, add);
}

static void combine_in_order(void *in, void *inout, int *count, MPI_Datatype *type) {
    each_word(in, inout, *count, *type, append);
}

/* ---- buffers ---- */

static size_t bytes_of(const struct call *call, long elements) {
    return (size_t)elements * (size_t)call->layout->extent_words * sizeof(word);
}

/* What a block of elements holds, word by word, from word number `index` on. */
struct content {
    int combined, first, last;
};

static struct content moved(int from, int to) { return (struct content){0, from, to}; }
static struct content combined(int first, int last) { return (struct content){1, first, last}; }

static word word_of(const struct call *call, struct content content, long index) {
    if (!content.combined) return parcel(content.first, content.last, index);
    return call->commutative ? tally(content.first, content.last + 1, index) : sum(content.first, content.last, index);
}

static void put(const struct call *call, unsigned char *buffer, long element, int count, struct content content, long index) {
    const struct layout *layout = call->layout;
    word *words = (word *)(void *)buffer + element * layout->extent_words;
    for (int at = 0; at < count * layout->words; at++)
        words[at / layout->words * layout->extent_words + at % layout->words * layout->step] =
            word_of(call, content, index + at);
}

static void spoil(unsigned char *buffer, const struct call *call, long elements) {
    memset(buffer, UNTOUCHED, bytes_of(call, elements));
}

static void wrong(const struct call *call, const char *what, long at, word value, word right) {
    char text[400];
    snprintf(text, sizeof text,
             "%s of %d ranks, root %d%s%s, %d elements of %d words of %d: word %ld is %#llx (from %d, for %d, index %lld; "
             "or ranks %d to %d), not %#llx",
             what, call->size, call->root, call->in_place ? ", in place" : "", call->commutative ? ", commuting" : "",
             call->count, call->layout->words, call->layout->extent_words, at, (unsigned long long)value,
             (int)(value >> 56), (int)(value >> 48 & 0xff), (long long)(value & 0xffffffffffff), first_of(value),
             last_of(value), (unsigned long long)right);
    check_failed(__FILE__, __LINE__, text);
}

/* The words are what they should be, and what lies between them was left alone. */
static void expect(const struct call *call, const char *what, long element, int count, struct content content, long index) {
    const struct layout *layout = call->layout;
    const word *words = (const word *)(const void *)got + element * layout->extent_words;
    word gap;
    memset(&gap, UNTOUCHED, sizeof gap);
    for (long at = 0; at < (long)count * layout->extent_words; at++) {
        long in = at % layout->extent_words;
        int is_word = in % layout->step == 0 && in / layout->step < layout->words;
        word right = is_word ? word_of(call, content, index + at / layout->extent_words * layout->words + in / layout->step) : gap;
        if (words[at] != right) wrong(call, what, at, words[at], right);
    }
}

static void expect_untouched(const struct call *call, long elements) {
    UNTOUCHED(got, bytes_of(call, elements), UNTOUCHED);
}

/* What this rank gives where all give a vector. */
static const void *give(const struct call *call, unsigned char *in_place, long elements, long index) {
    unsigned char *buffer = call->in_place ? in_place : given;
    spoil(given, call, elements);
    put(call, buffer, 0, (int)elements, combined(call->rank, call->rank), index);
    return call->in_place ? MPI_IN_PLACE : given;
}

static MPI_Op op_of(const struct call *call) {
    return call->commutative ? disjoint : in_order;
}

/* Blocks of a different length for each rank, with an element between them. */
static int counts[RANKS_MAX], places[RANKS_MAX];

static int count_of(const struct call *call, int rank) { return call->count == 0 ? 0 : call->count + rank % 3 - 1; }

static long lay_out(const struct call *call) {
    int end = 0;
    for (int rank = 0; rank < call->size; rank++) {
        counts[rank] = count_of(call, rank);
        places[rank] = end;
        end += counts[rank] + 1;
    }
    return end;
}

/* ---- operations that move ---- */

static void bcast(const struct call *call) {
    spoil(got, call, call->count);
    if (call->rank == call->root) put(call, got, 0, call->count, moved(call->root, 0), 0);
    OK(MPI_Bcast(got, call->count, call->layout->type, call->root, call->comm));
    expect(call, "bcast", 0, call->count, moved(call->root, 0), 0);
}

static void gather(const struct call *call) {
    MPI_Datatype type = call->layout->type;
    int at_root = call->rank == call->root, in_place = at_root && call->in_place;
    spoil(got, call, (long)call->count * call->size);
    spoil(given, call, call->count);
    put(call, given, 0, call->count, moved(call->rank, call->root), 0);
    if (in_place) put(call, got, (long)call->rank * call->count, call->count, moved(call->rank, call->root), 0);
    OK(MPI_Gather(in_place ? MPI_IN_PLACE : given, call->count, type, got, call->count, type, call->root, call->comm));
    for (int from = 0; at_root && from < call->size; from++)
        expect(call, "gather", (long)from * call->count, call->count, moved(from, call->root), 0);
    if (!at_root) expect_untouched(call, call->count);
}

static void gatherv(const struct call *call) {
    MPI_Datatype type = call->layout->type;
    long all = lay_out(call);
    int mine = counts[call->rank], at_root = call->rank == call->root, in_place = at_root && call->in_place;
    spoil(got, call, all);
    spoil(given, call, mine);
    put(call, given, 0, mine, moved(call->rank, call->root), 0);
    if (in_place) put(call, got, places[call->rank], mine, moved(call->rank, call->root), 0);
    OK(MPI_Gatherv(in_place ? MPI_IN_PLACE : given, mine, type, got, counts, places, type, call->root, call->comm));
    for (int from = 0; at_root && from < call->size; from++)
        expect(call, "gatherv", places[from], counts[from], moved(from, call->root), 0);
    if (!at_root) expect_untouched(call, all);
}

static void scatter(const struct call *call) {
    MPI_Datatype type = call->layout->type;
    int at_root = call->rank == call->root, in_place = at_root && call->in_place;
    spoil(got, call, call->count);
    for (int to = 0; at_root && to < call->size; to++)
        put(call, given, (long)to * call->count, call->count, moved(call->root, to), 0);
    OK(MPI_Scatter(given, call->count, type, in_place ? MPI_IN_PLACE : got, call->count, type, call->root, call->comm));
    if (in_place) expect_untouched(call, call->count);
    else expect(call, "scatter", 0, call->count, moved(call->root, call->rank), 0);
}

static void scatterv(const struct call *call) {
    MPI_Datatype type = call->layout->type;
    lay_out(call);
    int mine = counts[call->rank], at_root = call->rank == call->root, in_place = at_root && call->in_place;
    spoil(got, call, mine + 1);
    for (int to = 0; at_root && to < call->size; to++)
        put(call, given, places[to], counts[to], moved(call->root, to), 0);
    OK(MPI_Scatterv(given, counts, places, type, in_place ? MPI_IN_PLACE : got, mine, type, call->root, call->comm));
    if (in_place) expect_untouched(call, mine);
    else expect(call, "scatterv", 0, mine, moved(call->root, call->rank), 0);
}

static void allgather(const struct call *call) {
    MPI_Datatype type = call->layout->type;
    spoil(got, call, (long)call->count * call->size);
    put(call, given, 0, call->count, moved(call->rank, 0), 0);
    if (call->in_place) put(call, got, (long)call->rank * call->count, call->count, moved(call->rank, 0), 0);
    OK(MPI_Allgather(call->in_place ? MPI_IN_PLACE : given, call->count, type, got, call->count, type, call->comm));
    for (int from = 0; from < call->size; from++)
        expect(call, "allgather", (long)from * call->count, call->count, moved(from, 0), 0);
}

static void allgatherv(const struct call *call) {
    MPI_Datatype type = call->layout->type;
    long all = lay_out(call);
    int mine = counts[call->rank];
    spoil(got, call, all);
    put(call, given, 0, mine, moved(call->rank, 0), 0);
    if (call->in_place) put(call, got, places[call->rank], mine, moved(call->rank, 0), 0);
    OK(MPI_Allgatherv(call->in_place ? MPI_IN_PLACE : given, mine, type, got, counts, places, type, call->comm));
    for (int from = 0; from < call->size; from++)
        expect(call, "allgatherv", places[from], counts[from], moved(from, 0), 0);
}

static void alltoall(const struct call *call) {
    MPI_Datatype type = call->layout->type;
    unsigned char *out = call->in_place ? got : given;
    spoil(got, call, (long)call->count * call->size);
    spoil(given, call, (long)call->count * call->size);
    for (int to = 0; to < call->size; to++)
        put(call, out, (long)to * call->count, call->count, moved(call->rank, to), 0);
    OK(MPI_Alltoall(call->in_place ? MPI_IN_PLACE : given, call->count, type, got, call->count, type, call->comm));
    for (int from = 0; from < call->size; from++)
        expect(call, "alltoall", (long)from * call->count, call->count, moved(from, call->rank), 0);
}

/* What `from` gives to `to` is as long the other way, as it has to be in place. */
static long lay_pairs_out(const struct call *call) {
    int end = 0;
    for (int other = 0; other < call->size; other++) {
        counts[other] = count_of(call, call->rank + other);
        places[other] = end;
        end += counts[other] + 1;
    }
    return end;
}

static void alltoallv(const struct call *call) {
    MPI_Datatype type = call->layout->type;
    long all = lay_pairs_out(call);
    unsigned char *out = call->in_place ? got : given;
    spoil(got, call, all);
    for (int to = 0; to < call->size; to++) put(call, out, places[to], counts[to], moved(call->rank, to), 0);
    OK(MPI_Alltoallv(call->in_place ? MPI_IN_PLACE : given, counts, places, type, got, counts, places, type, call->comm));
    for (int from = 0; from < call->size; from++)
        expect(call, "alltoallv", places[from], counts[from], moved(from, call->rank), 0);
}

static void alltoallw(const struct call *call) {
    int offsets[RANKS_MAX];
    MPI_Datatype types[RANKS_MAX];
    long all = lay_pairs_out(call);
    unsigned char *out = call->in_place ? got : given;
    spoil(got, call, all);
    for (int other = 0; other < call->size; other++) {
        offsets[other] = (int)bytes_of(call, places[other]);
        types[other] = call->layout->type;
        put(call, out, places[other], counts[other], moved(call->rank, other), 0);
    }
    OK(MPI_Alltoallw(call->in_place ? MPI_IN_PLACE : given, counts, offsets, types, got, counts, offsets, types, call->comm));
    for (int from = 0; from < call->size; from++)
        expect(call, "alltoallw", places[from], counts[from], moved(from, call->rank), 0);
}

/* ---- operations that combine ---- */

static void reduce(const struct call *all) {
    struct call call = *all;
    int at_root = call.rank == call.root;
    call.in_place = call.in_place && at_root;
    spoil(got, &call, call.count);
    const void *in = give(&call, got, call.count, 0);
    OK(MPI_Reduce(in, got, call.count, call.layout->type, op_of(&call), call.root, call.comm));
    if (at_root) expect(&call, "reduce", 0, call.count, combined(0, call.size - 1), 0);
    else expect_untouched(&call, call.count);
}

static void allreduce(const struct call *call) {
    spoil(got, call, call->count);
    const void *in = give(call, got, call->count, 0);
    OK(MPI_Allreduce(in, got, call->count, call->layout->type, op_of(call), call->comm));
    expect(call, "allreduce", 0, call->count, combined(0, call->size - 1), 0);
}

static void reduce_scatter_block(const struct call *call) {
    long all = (long)call->count * call->size;
    spoil(got, call, all);
    const void *in = give(call, got, all, 0);
    OK(MPI_Reduce_scatter_block(in, got, call->count, call->layout->type, op_of(call), call->comm));
    long first = (long)call->rank * call->count * call->layout->words;
    expect(call, "reduce_scatter_block", 0, call->count, combined(0, call->size - 1), first);
}

static void reduce_scatter(const struct call *call) {
    long all = 0, before = 0;
    lay_out(call);
    for (int rank = 0; rank < call->size; rank++) {
        if (rank == call->rank) before = all;
        all += counts[rank];
    }
    spoil(got, call, all + 1);
    const void *in = give(call, got, all, 0);
    OK(MPI_Reduce_scatter(in, got, counts, call->layout->type, op_of(call), call->comm));
    expect(call, "reduce_scatter", 0, counts[call->rank], combined(0, call->size - 1), before * call->layout->words);
}

static void scan(const struct call *call) {
    spoil(got, call, call->count);
    const void *in = give(call, got, call->count, 0);
    OK(MPI_Scan(in, got, call->count, call->layout->type, op_of(call), call->comm));
    expect(call, "scan", 0, call->count, combined(0, call->rank), 0);
}

static void exscan(const struct call *call) {
    spoil(got, call, call->count);
    const void *in = give(call, got, call->count, 0);
    OK(MPI_Exscan(in, got, call->count, call->layout->type, op_of(call), call->comm));
    /* What stands at rank 0 is left open (6.12.2). */
    if (call->rank > 0) expect(call, "exscan", 0, call->count, combined(0, call->rank - 1), 0);
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    void (*run)(const struct call *);
    int rooted, has_place, combines;
    int per_rank; /* a block for each rank */
} OPERATIONS[] = {
    {"bcast", bcast, 1, 0, 0, 0},
    {"gather", gather, 1, 1, 0, 1},
    {"gatherv", gatherv, 1, 1, 0, 1},
    {"scatter", scatter, 1, 1, 0, 1},
    {"scatterv", scatterv, 1, 1, 0, 1},
    {"allgather", allgather, 0, 1, 0, 1},
    {"allgatherv", allgatherv, 0, 1, 0, 1},
    {"alltoall", alltoall, 0, 1, 0, 1},
    {"alltoallv", alltoallv, 0, 1, 0, 1},
    {"alltoallw", alltoallw, 0, 1, 0, 1},
    {"reduce", reduce, 1, 1, 1, 0},
    {"allreduce", allreduce, 0, 1, 1, 0},
    {"reduce_scatter_block", reduce_scatter_block, 0, 1, 1, 1},
    {"reduce_scatter", reduce_scatter, 0, 1, 1, 1},
    {"scan", scan, 0, 1, 1, 0},
    {"exscan", exscan, 0, 1, 1, 0},
};
enum { OPERATIONS_COUNT = sizeof OPERATIONS / sizeof *OPERATIONS };

/* Every root, in place and not, in any order and in order. */
static void every_setting(int operation, struct call call) {
    for (call.root = 0; call.root < (OPERATIONS[operation].rooted ? call.size : 1); call.root++)
        for (call.in_place = 0; call.in_place <= OPERATIONS[operation].has_place; call.in_place++)
            for (call.commutative = 0; call.commutative <= OPERATIONS[operation].combines; call.commutative++)
                OPERATIONS[operation].run(&call);
}

/* Lengths in bytes, or an element less or more; what varies otherwise does so from call to call. */
static void every_length(int operation, struct call call) {
    unsigned turn = (unsigned)(call.size + operation); /* the same at all ranks */
    int packed = call.layout->words * (int)sizeof(word), blocks = OPERATIONS[operation].per_rank ? call.size : 1;
    for (int bytes = 64; bytes <= 256 << 10; bytes *= 2, turn++) {
        call.count = bytes / packed - 1 + (int)(turn / 8) % 3;
        size_t room = bytes_of(&call, (long)(call.count + 2) * blocks);
        if (bytes < packed || call.count < 1 || room > (blocks > 1 ? ROOM / 4 : ROOM)) continue;
        call.root = OPERATIONS[operation].rooted ? (int)(turn / 4) % call.size : 0;
        call.in_place = OPERATIONS[operation].has_place && turn % 2;
        call.commutative = OPERATIONS[operation].combines && turn / 2 % 2;
        OPERATIONS[operation].run(&call);
    }
}

static void open_layouts(void) {
    MPI_Datatype apart;
    layouts[IN_A_ROW] = (struct layout){MPI_UINT64_T, 1, 1, 1};
    OK(MPI_Type_vector(2, 1, 2, MPI_UINT64_T, &apart));
    layouts[APART] = (struct layout){MPI_DATATYPE_NULL, 2, 2, 4};
    OK(MPI_Type_create_resized(apart, 0, 4 * sizeof(word), &layouts[APART].type));
    OK(MPI_Type_commit(&layouts[APART].type));
    OK(MPI_Type_free(&apart));
    layouts[LARGE] = (struct layout){MPI_DATATYPE_NULL, 512, 1, 512};
    OK(MPI_Type_contiguous(512, MPI_UINT64_T, &layouts[LARGE].type));
    OK(MPI_Type_commit(&layouts[LARGE].type));
    OK(MPI_Op_create(combine_disjoint, 1, &disjoint));
    OK(MPI_Op_create(combine_in_order, 0, &in_order));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    open_layouts();
    given = malloc(ROOM);
    got = malloc(ROOM);
    for (int size = 1; size <= check_size; size++) {
        struct call call = {.size = size, .rank = check_rank};
        OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank < size ? 0 : MPI_UNDEFINED, check_rank, &call.comm));
        for (int operation = 0; operation < OPERATIONS_COUNT && call.comm != MPI_COMM_NULL; operation++)
            for (int layout = 0; layout < LAYOUTS; layout++) {
                section(OPERATIONS[operation].name);
                call.layout = &layouts[layout];
                for (call.count = 0; call.count <= 2; call.count += 2) every_setting(operation, call);
                every_length(operation, call);
            }
        if (call.comm != MPI_COMM_NULL) OK(MPI_Comm_free(&call.comm));
        section("the others");
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    for (int layout = APART; layout < LAYOUTS; layout++) OK(MPI_Type_free(&layouts[layout].type));
    OK(MPI_Op_free(&disjoint));
    OK(MPI_Op_free(&in_order));
    free(given);
    free(got);
    return check_close();
}
