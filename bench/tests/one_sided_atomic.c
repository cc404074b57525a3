// ranks: 1 2 3 5 8
// nodes: 2
// What is atomic and what has an order: all ranks change the same elements at once and none of it is lost, locks keep
// others out, accumulates of one origin come in their order, and what was flushed is there for all.
// (MPI 5.0, sections 12.3.4, 12.5 and 12.7)
#include "one_sided.h"

#include <complex.h>

enum { TURNS = 300, BYTES = 4096, LONG = 30000 };

static struct window w;

static void clear(void) {
    OK(MPI_Barrier(w.comm));
    own_begin(&w);
    memset(w.base, 0, BYTES);
    own_end(&w);
    OK(MPI_Barrier(w.comm));
}

/* Nobody has fetched a number that another one has; `all` were fetched or not. */
static void are_distinct(const int *fetched, int count, int all) {
    int *seen = calloc((size_t)all, sizeof *seen);
    for (int i = 0; i < count; i++) {
        CHECK(fetched[i] >= 0 && fetched[i] < all);
        seen[fetched[i]]++;
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, seen, all, MPI_INT, MPI_SUM, w.comm));
    for (int i = 0; i < all; i++) CHECK(seen[i] <= 1);
    free(seen);
}

/* Everyone adds one to an element of rank 0, and every third time fetches nothing. */
#define COUNT(name, type, datatype, one, number, most) \
    static void count_##name(int shift, int is_fenced) { \
        type add = (one), before[TURNS], sum; \
        int fetched[TURNS], turns = (most) < TURNS * w.size ? (most) / w.size : TURNS, count = 0; \
        MPI_Aint at = displacement(&w, 0, 64 + shift); \
        section("counting with " #datatype); \
        clear(); \
        if (is_fenced) OK(MPI_Win_fence(0, w.win)); \
        else OK(MPI_Win_lock_all(0, w.win)); \
        for (int turn = 0; turn < turns; turn++) { \
            before[turn] = (type)-1; \
            if (turn % 3 == 0) OK(MPI_Fetch_and_op(&add, &before[turn], datatype, 0, at, MPI_SUM, w.win)); \
            else if (turn % 3 == 1) \
                OK(MPI_Get_accumulate(&add, 1, datatype, &before[turn], 1, datatype, 0, at, 1, datatype, MPI_SUM, \
                                      w.win)); \
            else OK(MPI_Accumulate(&add, 1, datatype, 0, at, 1, datatype, MPI_SUM, w.win)); \
            if (!is_fenced && turn % 5 == 0) OK(MPI_Win_flush(0, w.win)); \
        } \
        if (is_fenced) OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win)); \
        else OK(MPI_Win_unlock_all(w.win)); \
        for (int turn = 0; turn < turns; turn++) { \
            type b = before[turn]; \
            if (turn % 3 < 2) fetched[count++] = (int)(number); \
        } \
        are_distinct(fetched, count, turns * w.size); \
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win)); \
        OK(MPI_Get(&sum, 1, datatype, 0, at, 1, datatype, w.win)); \
        OK(MPI_Win_unlock(0, w.win)); \
        CHECK(sum == turns * w.size * add); \
    }
/* Both parts of a complex number belong together. */
#define REAL_PART (cimag(b) == 2 * creal(b) ? creal(b) : -1)
COUNT(int, int, MPI_INT, 1, b, 1 << 30)
COUNT(long, long, MPI_LONG, 1, b, 1 << 30)
COUNT(double, double, MPI_DOUBLE, 0.25, 4 * b, 1 << 30)
COUNT(short, short, MPI_SHORT, 1, b, 32767)
COUNT(char, signed char, MPI_SIGNED_CHAR, 1, b, 127)
COUNT(complex, double complex, MPI_C_DOUBLE_COMPLEX, 1 + 2 * I, REAL_PART, 1 << 30)

/* Adds one as often as nobody else was in between; with a fence, one of all is the first. */
#define SWAP(name, type, datatype, most) \
    static void swap_##name(int shift) { \
        type old, next, found, mine = (type)(w.rank + 1), none = 0, won = -1; \
        int turns = (most) < 40 * w.size ? (most) / w.size : 40, is_first, firsts; \
        MPI_Aint at = displacement(&w, 0, 64 + shift); \
        section("swapping " #datatype); \
        clear(); \
        OK(MPI_Win_lock_all(0, w.win)); \
        for (int turn = 0; turn < turns; turn++) \
            for (found = 0, old = 1; found != old;) { \
                old = found, next = (type)(old + 1); \
                OK(MPI_Compare_and_swap(&next, &old, &found, datatype, 0, at, w.win)); \
                OK(MPI_Win_flush(0, w.win)); \
            } \
        OK(MPI_Win_unlock_all(w.win)); \
        OK(MPI_Barrier(w.comm)); \
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win)); \
        OK(MPI_Get(&found, 1, datatype, 0, at, 1, datatype, w.win)); \
        OK(MPI_Win_unlock(0, w.win)); \
        SAME(found, turns * w.size); \
        clear(); \
        OK(MPI_Win_fence(0, w.win)); \
        OK(MPI_Compare_and_swap(&mine, &none, &found, datatype, 0, at, w.win)); \
        OK(MPI_Win_fence(0, w.win)); \
        OK(MPI_Get(&won, 1, datatype, 0, at, 1, datatype, w.win)); \
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win)); \
        is_first = found == 0; \
        CHECK(is_first ? won == mine : found == won); \
        OK(MPI_Allreduce(&is_first, &firsts, 1, MPI_INT, MPI_SUM, w.comm)); \
        SAME(firsts, 1); \
    }
SWAP(int, int, MPI_INT, 1 << 30)
SWAP(long, long, MPI_LONG, 1 << 30)
SWAP(short, short, MPI_SHORT, 32767)
SWAP(char, signed char, MPI_SIGNED_CHAR, 127)

/* Rows that overlap. */
static void rows(void) {
    enum { WIDE = 100 };
    long out[WIDE], *own = (long *)w.base;
    section("rows that overlap");
    clear();
    for (int i = 0; i < WIDE; i++) out[i] = 1 + i;
    OK(MPI_Win_lock_all(0, w.win));
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Aint at = displacement(&w, turn % w.size, w.rank * 8);
        OK(MPI_Accumulate(out, WIDE, MPI_LONG, turn % w.size, at, WIDE, MPI_LONG, MPI_SUM, w.win));
    }
    OK(MPI_Win_unlock_all(w.win));
    OK(MPI_Barrier(w.comm));
    own_begin(&w);
    for (int i = 0; i < WIDE + w.size - 1; i++) {
        long right = 0, turns = (TURNS - w.rank + w.size - 1) / w.size;
        for (int origin = 0; origin < w.size; origin++)
            if (i >= origin && i < origin + WIDE) right += turns * (1 + i - origin);
        SAME(own[i], right);
    }
    own_end(&w);
}

/* Reads, adds one and writes, where nobody else does; `word` is what guards it, or -1 for locks of the window. */
static void add_alone(int target, MPI_Aint number, MPI_Aint word) {
    int value, free_of = 0, mine = w.rank + 1, found = -1;
    if (word < 0) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win));
    while (word >= 0 && found != 0) {
        OK(MPI_Compare_and_swap(&mine, &free_of, &found, MPI_INT, target, word, w.win));
        OK(MPI_Win_flush(target, w.win));
    }
    OK(MPI_Get(&value, 1, MPI_INT, target, number, 1, MPI_INT, w.win));
    OK(MPI_Win_flush(target, w.win));
    value++;
    OK(MPI_Put(&value, 1, MPI_INT, target, number, 1, MPI_INT, w.win));
    OK(MPI_Win_flush(target, w.win));
    if (word < 0) {
        OK(MPI_Win_unlock(target, w.win));
        return;
    }
    OK(MPI_Compare_and_swap(&free_of, &mine, &found, MPI_INT, target, word, w.win));
    OK(MPI_Win_flush(target, w.win));
    SAME(found, mine);
}

static void locked(void) {
    enum { OFTEN = 30 };
    section("locks made of compare-and-swap");
    clear();
    OK(MPI_Win_lock_all(0, w.win));
    for (int turn = 0; turn < OFTEN; turn++)
        add_alone(turn % w.size, displacement(&w, turn % w.size, 0), displacement(&w, turn % w.size, 64));
    OK(MPI_Win_unlock_all(w.win));
    OK(MPI_Barrier(w.comm));
    section("exclusive locks");
    for (int turn = 0; turn < OFTEN; turn++) add_alone(turn % w.size, displacement(&w, turn % w.size, 0), -1);
    OK(MPI_Barrier(w.comm));
    own_begin(&w);
    SAME(*(int *)w.base, 2 * w.size * ((OFTEN - w.rank + w.size - 1) / w.size));
    own_end(&w);
}

/* Who shares a lock never sees one half of what a holder of an exclusive lock writes. */
static void readers(void) {
    int pair[2];
    section("readers and writers");
    clear();
    for (int turn = 0; turn < 40; turn++) {
        int target = turn % 2 ? 0 : w.size - 1, is_writer = (turn + w.rank) % 4 == 0;
        OK(MPI_Win_lock(is_writer ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, w.win));
        for (int half = 0; half < 2; half++) {
            MPI_Aint at = displacement(&w, target, half * 1024);
            pair[half] = is_writer ? turn * 64 + w.rank : pair[half];
            if (is_writer) OK(MPI_Put(&pair[half], 1, MPI_INT, target, at, 1, MPI_INT, w.win));
            else OK(MPI_Get(&pair[half], 1, MPI_INT, target, at, 1, MPI_INT, w.win));
            OK(MPI_Win_flush(target, w.win));
        }
        OK(MPI_Win_unlock(target, w.win));
        SAME(pair[0], pair[1]);
    }
}

/* Accumulates of one origin at one target come in their order, without a flush, long ones and short ones alike. */
static void ordered(void) {
    static int out[TURNS][16], *row, *seen, last[2], none;
    int next = (w.rank + 1) % w.size;
    MPI_Aint at = displacement(&w, next, BYTES), second = displacement(&w, next, BYTES + 4);
    MPI_Aint end = displacement(&w, next, BYTES + 4 * (LONG - 1));
    section("the order of accumulates");
    row = malloc((LONG + 1) * sizeof *row), seen = malloc(LONG * sizeof *seen);
    OK(MPI_Win_lock_all(0, w.win));
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < 16; i++) out[turn][i] = turn * 16 + i;
        OK(MPI_Accumulate(out[turn], 16, MPI_INT, next, at, 16, MPI_INT, MPI_REPLACE, w.win));
    }
    OK(MPI_Get_accumulate(NULL, 0, MPI_INT, seen, 16, MPI_INT, next, at, 16, MPI_INT, MPI_NO_OP, w.win));
    OK(MPI_Win_flush(next, w.win));
    for (int i = 0; i < 16; i++) SAME(seen[i], out[TURNS - 1][i]);
    for (int i = 0; i <= LONG; i++) row[i] = i + w.rank;
    OK(MPI_Accumulate(row, LONG, MPI_INT, next, at, LONG, MPI_INT, MPI_REPLACE, w.win));
    OK(MPI_Accumulate(&out[3][0], 1, MPI_INT, next, second, 1, MPI_INT, MPI_REPLACE, w.win));
    OK(MPI_Fetch_and_op(&none, &last[0], MPI_INT, next, second, MPI_NO_OP, w.win));
    OK(MPI_Get_accumulate(row + 1, LONG, MPI_INT, seen, LONG, MPI_INT, next, at, LONG, MPI_INT, MPI_REPLACE, w.win));
    OK(MPI_Fetch_and_op(&none, &last[1], MPI_INT, next, end, MPI_NO_OP, w.win));
    OK(MPI_Win_unlock_all(w.win));
    SAME(last[0], out[3][0]);
    SAME(last[1], row[LONG]);
    for (int i = 0; i < LONG; i++) SAME(seen[i], i == 1 ? out[3][0] : row[i]);
    free(row), free(seen);
}

/* What was flushed is there for its origin, for its target, and for one that hears of it. */
static void flushed(void) {
    int next = (w.rank + 1) % w.size, before = (w.rank + w.size - 1) % w.size, lengths[] = {1, 500, LONG}, found = 0;
    int *out = malloc(LONG * sizeof *out), *in = malloc(LONG * sizeof *in), *own = (int *)(w.base + BYTES), *model;
    section("what was flushed");
    OK(MPI_Win_get_attr(w.win, MPI_WIN_MODEL, &model, &found));
    OK(MPI_Barrier(w.comm));
    OK(MPI_Win_lock_all(0, w.win));
    for (int turn = 0; turn < 12; turn++) {
        int n = lengths[turn % 3], hears, of = (w.rank + w.size - 2) % w.size;
        MPI_Aint at = displacement(&w, next, BYTES), there = displacement(&w, before, BYTES);
        MPI_Request request;
        for (int i = 0; i < n; i++) out[i] = turn * 1000000 + w.rank * 100000 + i, in[i] = -1;
        if (turn % 2) OK(MPI_Put(out, n, MPI_INT, next, at, n, MPI_INT, w.win));
        else OK(MPI_Rput(out, n, MPI_INT, next, at, n, MPI_INT, w.win, &request));
        if (turn % 2 == 0) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Win_flush(next, w.win));
        OK(MPI_Get(in, n, MPI_INT, next, at, n, MPI_INT, w.win));
        OK(MPI_Win_flush_local(next, w.win));
        for (int i = 0; i < n; i++) SAME(in[i], out[i]);
        /* Tells its target, and the one after that. */
        for (int far = 1; far <= 2; far++)
            OK(MPI_Sendrecv(&turn, 1, MPI_INT, (w.rank + far) % w.size, far, &hears, 1, MPI_INT,
                            (w.rank + 2 * w.size - far) % w.size, far, w.comm, MPI_STATUS_IGNORE));
        OK(MPI_Get(in, n, MPI_INT, before, there, n, MPI_INT, w.win));
        OK(MPI_Win_flush(before, w.win));
        for (int i = 0; i < n; i++) SAME(in[i], turn * 1000000 + (of + w.size) % w.size * 100000 + i);
        OK(MPI_Win_sync(w.win));
        for (int i = 0; i < n && *model == MPI_WIN_UNIFIED; i++) SAME(own[i], turn * 1000000 + before * 100000 + i);
        OK(MPI_Barrier(w.comm));
    }
    OK(MPI_Win_unlock_all(w.win));
    free(out), free(in);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        window_open(&w, (enum flavor)flavor, BYTES + LONG * sizeof(int), 1);
        for (int way = 0; way < 4; way++) {
            int shift = way / 2, is_fenced = way % 2; /* others do not promise it where it is not aligned */
            if (shift && !check_library_is("weft")) continue;
            count_int(shift, is_fenced), count_long(shift, is_fenced), count_double(shift, is_fenced);
            count_short(shift, is_fenced), count_char(shift, is_fenced), count_complex(shift, is_fenced);
            if (!is_fenced) swap_int(shift), swap_long(shift), swap_short(shift), swap_char(shift);
        }
        rows();
        locked();
        readers();
        ordered();
        flushed();
        window_close(&w);
    }
    return check_close();
}
