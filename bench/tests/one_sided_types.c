// ranks: 1 2 3 5 8
// nodes: 2
// Derived datatypes on both sides of one-sided operations: every layout of some ints with every other one, records of
// several types, displacement units and sizes that differ from rank to rank, no elements at all, and MPI_PROC_NULL.
// (MPI 5.0, sections 12.2.1 and 12.3)
#include "one_sided.h"

enum { INTS = 24, LAYOUTS = 13, MARGIN = 512, GAP = 0xee };

/* Where the ints of one element stand, in bytes. */
struct layout {
    MPI_Datatype type;
    int ints, place[INTS];
    MPI_Aint extent;
};
static struct layout layouts[LAYOUTS];
static int layouts_made;

/* Takes the datatype over. */
static void layout(MPI_Datatype type, int ints, const int *place) {
    struct layout *made = &layouts[layouts_made++];
    MPI_Aint low;
    made->type = type, made->ints = ints;
    memcpy(made->place, place, (size_t)ints * sizeof *place);
    OK(MPI_Type_get_extent(type, &low, &made->extent));
    OK(MPI_Type_commit(&made->type));
}

static void make_layouts(void) {
    const int lengths[] = {5, 1, 0, 8, 10}, starts[] = {20, 3, 90, 40, 5}, ups[] = {-60, 20, 80}, blocks[] = {6, 8, 10};
    const int starts_of_blocks[] = {30, 4, 0, 60, 12, 44, 20, 52}; /* blocks of 3 */
    const int sizes[] = {5, 4, 6}, parts[] = {3, 2, 4}, corner[] = {1, 1, 1}, struct_lengths[] = {2, 1, 3};
    MPI_Aint struct_places[] = {8, 0, 20}, up_places[] = {-60, 20, 80};
    MPI_Datatype type, inner, kinds[] = {MPI_INT, MPI_INT, MPI_INT};
    int at[INTS] = {0};
    OK(MPI_Type_dup(MPI_INT, &type));
    layout(type, 1, at);
    OK(MPI_Type_create_resized(MPI_INT, 0, 12, &type));
    layout(type, 1, at);
    for (int k = 0; k < INTS; k++) at[k] = 4 * k;
    OK(MPI_Type_contiguous(INTS, MPI_INT, &type));
    layout(type, INTS, at);
    for (int k = 0; k < INTS; k++) at[k] = 4 * (k / 4 * 7 + k % 4);
    OK(MPI_Type_vector(6, 4, 7, MPI_INT, &type));
    layout(type, INTS, at);
    for (int k = 0; k < INTS; k++) at[k] = k / 4 * -20 + 4 * (k % 4);
    OK(MPI_Type_create_hvector(6, 4, -20, MPI_INT, &type)); /* downwards, with a negative lower bound */
    layout(type, INTS, at);
    for (int k = 0, block = 0; block < 5; block++)
        for (int i = 0; i < lengths[block]; i++) at[k++] = 4 * (starts[block] + i);
    OK(MPI_Type_indexed(5, lengths, starts, MPI_INT, &type));
    layout(type, INTS, at);
    for (int k = 0; k < INTS; k++) at[k] = 4 * (starts_of_blocks[k / 3] + k % 3);
    OK(MPI_Type_create_indexed_block(8, 3, starts_of_blocks, MPI_INT, &type));
    layout(type, INTS, at);
    for (int k = 0, block = 0; block < 3; block++)
        for (int i = 0; i < blocks[block]; i++) at[k++] = ups[block] + 4 * i;
    OK(MPI_Type_create_hindexed(3, blocks, up_places, MPI_INT, &type));
    layout(type, INTS, at);
    for (int k = 0; k < INTS; k++) at[k] = k / 8 * 100 + 4 * (k % 8 / 2 * 3 + k % 2);
    OK(MPI_Type_vector(4, 2, 3, MPI_INT, &inner));
    OK(MPI_Type_create_hvector(3, 1, 100, inner, &type));
    OK(MPI_Type_free(&inner));
    layout(type, INTS, at);
    for (int k = 0; k < INTS; k++) {
        static const int within[] = {8, 12, 0, 20, 24, 28};
        at[k] = k / 6 * 36 + within[k % 6];
    }
    OK(MPI_Type_create_struct(3, struct_lengths, struct_places, kinds, &inner));
    OK(MPI_Type_create_resized(inner, -4, 36, &type)); /* which begins in a gap */
    layout(type, 6, at);
    OK(MPI_Type_contiguous(4, type, &kinds[0]));
    layout(kinds[0], INTS, at);
    OK(MPI_Type_free(&inner));
    for (int k = 0; k < INTS; k++) at[k] = 4 * (((k / 8 + 1) * 4 + k % 8 / 4 + 1) * 6 + k % 4 + 1);
    OK(MPI_Type_create_subarray(3, sizes, parts, corner, MPI_ORDER_C, MPI_INT, &type));
    layout(type, INTS, at);
    for (int k = 0; k < INTS; k++) at[k] = 4 * (((k / 6 + 1) * 4 + k % 6 / 3 + 1) * 5 + k % 3 + 1);
    OK(MPI_Type_create_subarray(3, sizes, parts, corner, MPI_ORDER_FORTRAN, MPI_INT, &type));
    layout(type, INTS, at);
    SAME(layouts_made, LAYOUTS);
}

/* So many bytes hold `times` rows of ints in a layout, with margins. */
static size_t room(const struct layout *of, int times) {
    return 2 * MARGIN + (size_t)of->extent * (size_t)(times * INTS / of->ints);
}

static int value(int what, int origin, int target, int k) {
    return (((k * 8 + what) * 16 + origin) * 16 + target) * 3 + 1;
}

enum what { PUT, GET, ADD, FETCH, WHATS, ADDED = WHATS, SUMMED, NOTHING };

/* The ints of one origin and target in a layout, and nothing else. */
static void image(unsigned char *to, const struct layout *of, int times, enum what what, int origin, int target) {
    memset(to, GAP, room(of, times));
    for (int k = 0; k < times * INTS && what != NOTHING; k++) {
        int number = value(what, origin, target, k);
        if (what == SUMMED) number = value(ADD, origin, target, k) + value(ADDED, origin, target, k);
        memcpy(to + MARGIN + k / of->ints * of->extent + of->place[k % of->ints], &number, sizeof number);
    }
}

static void same_image(const unsigned char *got, const struct layout *of, int times, enum what what, int origin,
                       int target) {
    unsigned char *right = malloc(room(of, times));
    image(right, of, times, what, origin, target);
    if (memcmp(got, right, room(of, times)) != 0)
        for (size_t at = 0; at < room(of, times); at++) SAME(got[at], right[at]);
    free(right);
}

static unsigned char *buffer(const struct layout *of, int times, enum what what, int origin, int target) {
    unsigned char *made = malloc(room(of, times));
    image(made, of, times, what, origin, target);
    return made;
}

/* One layout at the origin and another at the target, to oneself and to the next; what is fetched has a third. */
static void exchange(struct window *w, const struct layout *a, const struct layout *b, const struct layout *c,
                     int times) {
    int n = times * INTS / a->ints, there = times * INTS / b->ints, fetched = times * INTS / c->ints;
    int me = w->rank, pairs = 1 + (w->size > 1), targets[2] = {me, (me + 1) % w->size};
    int origins[2] = {me, (me + w->size - 1) % w->size};
    unsigned char *out[2][WHATS], *in[2][WHATS];
    size_t bytes = room(b, times);
    for (int i = 0; i < pairs; i++)
        for (int what = 0; what < WHATS; what++)
            image(w->base + (size_t)(i * WHATS + what) * bytes, b, times, what == PUT ? NOTHING : (enum what)what,
                  origins[i], me);
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win));
    for (int i = 0; i < pairs; i++) {
        int t = targets[i];
        MPI_Aint to[WHATS];
        MPI_Win win = w->win;
        for (int what = 0; what < WHATS; what++) {
            out[i][what] = buffer(a, times, what == PUT ? PUT : ADDED, me, t);
            in[i][what] = buffer(what == GET ? a : c, times, NOTHING, me, t);
            to[what] = displacement(w, t, (MPI_Aint)((size_t)(i * WHATS + what) * bytes + MARGIN));
        }
        OK(MPI_Put(out[i][PUT] + MARGIN, n, a->type, t, to[PUT], there, b->type, win));
        OK(MPI_Get(in[i][GET] + MARGIN, n, a->type, t, to[GET], there, b->type, win));
        OK(MPI_Accumulate(out[i][ADD] + MARGIN, n, a->type, t, to[ADD], there, b->type, MPI_SUM, win));
        OK(MPI_Get_accumulate(out[i][FETCH] + MARGIN, n, a->type, in[i][FETCH] + MARGIN, fetched, c->type, t, to[FETCH],
                              there, b->type, MPI_REPLACE, win));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    for (int i = 0; i < pairs; i++) {
        static const enum what AFTER[] = {PUT, GET, SUMMED, ADDED};
        same_image(in[i][GET], a, times, GET, me, targets[i]);
        same_image(in[i][FETCH], c, times, FETCH, me, targets[i]);
        for (int what = 0; what < WHATS; what++) {
            same_image(w->base + (size_t)(i * WHATS + what) * bytes, b, times, AFTER[what], origins[i], me);
            free(out[i][what]);
            free(in[i][what]);
        }
    }
}

static void every_layout(enum flavor flavor) {
    struct window w;
    section(FLAVOR_NAMES[flavor]);
    window_open(&w, flavor, 2 * WHATS * 260 * 1024, 4);
    for (int a = 0; a < LAYOUTS; a++)
        for (int b = 0; b < LAYOUTS; b++) {
            const struct layout *c = &layouts[(a + b) % LAYOUTS];
            exchange(&w, &layouts[a], &layouts[b], c, 1 + (a + b) % 3);
            if ((a * LAYOUTS + b) % FLAVORS == (int)flavor) exchange(&w, &layouts[a], &layouts[b], c, 400);
        }
    window_close(&w);
}

/* Records of four types, as C lays them out, without gaps, and in another order. */
static void records(void) {
    enum { COUNT = 300, WIDEST = 40 };
    static const int width[] = {8, 4, 2, 1}, places[3][4] = {{0, 8, 12, 14}, {0, 8, 12, 14}, {24, 4, 10, 0}};
    static const int extents[] = {16, 15, WIDEST}, ones[] = {1, 1, 1, 1};
    MPI_Datatype kinds[] = {MPI_DOUBLE, MPI_INT, MPI_SHORT, MPI_CHAR}, types[3], made;
    unsigned char out[COUNT * WIDEST], in[COUNT * WIDEST];
    struct window w;
    section("records");
    window_open(&w, ALLOCATED, COUNT * WIDEST, 1);
    for (int layout = 0; layout < 3; layout++) {
        MPI_Aint at[4];
        for (int i = 0; i < 4; i++) at[i] = places[layout][i];
        OK(MPI_Type_create_struct(4, ones, at, kinds, &made));
        OK(MPI_Type_create_resized(made, 0, extents[layout], &types[layout]));
        OK(MPI_Type_commit(&types[layout]));
        OK(MPI_Type_free(&made));
    }
    for (int pair = 0; pair < 9; pair++) {
        int here = pair / 3, there = pair % 3, next = (w.rank + 1) % w.size, before = (w.rank + w.size - 1) % w.size;
        memset(w.base, GAP, COUNT * WIDEST);
        memset(in, GAP, sizeof in);
        fill(out, sizeof out, (unsigned)w.rank);
        OK(MPI_Win_fence(0, w.win));
        OK(MPI_Put(out, COUNT, types[here], next, 0, COUNT, types[there], w.win));
        OK(MPI_Win_fence(0, w.win));
        OK(MPI_Get(in, COUNT, types[here], next, 0, COUNT, types[there], w.win));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
        for (int i = 0; i < COUNT; i++)
            for (int field = 0; field < 4; field++)
                for (int byte = 0; byte < width[field]; byte++) {
                    int from = i * extents[here] + places[here][field] + byte;
                    int to = i * extents[there] + places[there][field] + byte;
                    SAME(w.base[to], pattern((size_t)from, (unsigned)before));
                    SAME(in[from], out[from]);
                    w.base[to] = in[from] = GAP;
                }
        UNTOUCHED(w.base, COUNT * WIDEST, GAP);
        UNTOUCHED(in, sizeof in, GAP);
    }
    for (int layout = 0; layout < 3; layout++) OK(MPI_Type_free(&types[layout]));
    window_close(&w);
}

/* What a rank gives each origin, in ints, and in what units it counts. */
static int share(int rank) { return rank % 4 == 3 ? 0 : 12 * (1 + rank % 3); }
static int unit(int rank) { return (const int[]){1, 4, 12, 8, 16, 6}[rank % 6]; }

static void differing(enum flavor flavor) {
    struct window w;
    section("units and sizes that differ");
    window_open(&w, flavor, (MPI_Aint)share(check_rank) * check_size * 4, unit(check_rank));
    for (int i = 0; i < share(check_rank) * check_size; i++) ((int *)w.base)[i] = -1;
    OK(MPI_Win_fence(0, w.win));
    for (int t = 0; t < w.size; t++) {
        int numbers[36], n = share(t);
        MPI_Aint at = (MPI_Aint)n * 4 * check_rank / unit(t);
        for (int i = 0; i < n; i++) numbers[i] = value(PUT, check_rank, t, i);
        OK(MPI_Win_fence(0, w.win));
        if (n > 0) {
            MPI_Aint second = at + n * 2 / unit(t);
            OK(MPI_Put(numbers, n / 2, MPI_INT, t, at, n / 2, MPI_INT, w.win));
            OK(MPI_Accumulate(numbers + n / 2, n / 2, MPI_INT, t, second, n / 2, MPI_INT, MPI_SUM, w.win));
        }
        OK(MPI_Put(numbers, 0, MPI_INT, t, 0, 0, MPI_INT, w.win));
        OK(MPI_Win_fence(0, w.win));
        memset(numbers, 0, sizeof numbers);
        OK(MPI_Get(numbers, n, MPI_INT, t, n > 0 ? at : 0, n, MPI_INT, w.win));
        OK(MPI_Win_fence(0, w.win));
        for (int i = 0; i < n; i++) SAME(numbers[i], value(PUT, check_rank, t, i) - (i >= n / 2));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    for (int origin = 0, n = share(check_rank); origin < check_size; origin++)
        for (int i = 0; i < n; i++)
            SAME(((int *)w.base)[origin * n + i], value(PUT, origin, check_rank, i) - (i >= n / 2));
    window_close(&w);
}

/* No elements, of no type, or of nobody: nothing happens. */
static void nothing(void) {
    MPI_Datatype empty;
    MPI_Request requests[4];
    MPI_Win win;
    int out[4] = {1, 2, 3, 4}, in[4] = {5, 6, 7, 8}, no = MPI_PROC_NULL, next = (check_rank + 1) % check_size;
    MPI_Aint bytes = check_rank % 2 ? 0 : 16;
    static int memory[4];
    section("nothing");
    OK(MPI_Type_contiguous(0, MPI_INT, &empty));
    OK(MPI_Type_commit(&empty));
    memset(memory, GAP, sizeof memory);
    OK(MPI_Win_create(bytes > 0 ? memory : NULL, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Put(NULL, 0, MPI_INT, next, 0, 0, MPI_INT, win));
    /* After which Open MPI 5.0.11 never unlocks. */
    if (!check_library_is("Open MPI")) OK(MPI_Put(out, 4, empty, next, 0, 7, empty, win));
    OK(MPI_Get(NULL, 0, MPI_INT, next, 0, 0, MPI_DOUBLE, win));
    OK(MPI_Accumulate(NULL, 0, MPI_INT, next, 0, 0, MPI_INT, MPI_SUM, win));
    OK(MPI_Get_accumulate(NULL, 0, MPI_INT, NULL, 0, MPI_INT, next, 0, 0, MPI_INT, MPI_SUM, win));
    OK(MPI_Rput_c(NULL, 0, MPI_INT, next, 0, 0, MPI_INT, win, &requests[0]));
    OK(MPI_Rget(NULL, 0, MPI_INT, next, 0, 0, MPI_INT, win, &requests[1]));
    OK(MPI_Raccumulate(NULL, 0, MPI_INT, next, 0, 0, MPI_INT, MPI_MAX, win, &requests[2]));
    OK(MPI_Rget_accumulate(NULL, 0, MPI_INT, NULL, 0, MPI_INT, next, 0, 0, MPI_INT, MPI_REPLACE, win, &requests[3]));
    OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Put(out, 4, MPI_INT, no, 0, 4, MPI_INT, win));
    OK(MPI_Get_c(in, 4, MPI_INT, no, 1 << 20, 4, MPI_INT, win));
    OK(MPI_Accumulate(out, 4, MPI_INT, no, 0, 4, MPI_INT, MPI_SUM, win));
    OK(MPI_Get_accumulate(out, 4, MPI_INT, in, 4, MPI_INT, no, 0, 4, MPI_INT, MPI_SUM, win));
    OK(MPI_Fetch_and_op(out, in, MPI_INT, no, 0, MPI_SUM, win));
    OK(MPI_Compare_and_swap(out, out, in, MPI_INT, no, 0, win));
    OK(MPI_Rput(out, 4, MPI_INT, no, 0, 4, MPI_INT, win, &requests[0]));
    OK(MPI_Rget(in, 4, MPI_INT, no, 0, 4, MPI_INT, win, &requests[1]));
    OK(MPI_Raccumulate(out, 4, MPI_INT, no, 0, 4, MPI_INT, MPI_SUM, win, &requests[2]));
    OK(MPI_Rget_accumulate(out, 4, MPI_INT, in, 4, MPI_INT, no, 0, 4, MPI_INT, MPI_SUM, win, &requests[3]));
    for (int i = 0; i < 4; i++) OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    if (check_library_is("weft")) OK(MPI_Win_flush(no, win));
    OK(MPI_Win_unlock_all(win));
    for (int i = 0; i < 4; i++) SAME(in[i], 5 + i);
    OK(MPI_Win_free(&win));
    UNTOUCHED(memory, sizeof memory, GAP);
    OK(MPI_Type_free(&empty));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    make_layouts();
    for (int flavor = 0; flavor < FLAVORS; flavor++) every_layout((enum flavor)flavor);
    for (int i = 0; i < LAYOUTS; i++) OK(MPI_Type_free(&layouts[i].type));
    records();
    differing(CREATED);
    differing(ALLOCATED);
    nothing();
    return check_close();
}
