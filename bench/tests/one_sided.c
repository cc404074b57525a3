// ranks: 1 2 3 5 8
// nodes: 2
// Puts, gets and accumulates of every kind, with requests and large counts, from each rank to each in windows of every
// flavor, within epochs of every kind. What is written tells its origin, target, round and place; buffers of the origin
// are spoiled as soon as they are its own again. (MPI 5.0, sections 12.3 and 12.5)
#include "one_sided.h"

enum area { PUT, GET, ADD, FETCH, AREAS, COMMON = AREAS, BUFFERS };
enum fact { WORD = BUFFERS, WORD_ADDED, COMPARED, SWAPPED, BEFORE = 20 };
enum way { PLAIN, LARGE, LENT, LENT_LARGE, WAYS };
enum { LONGEST = 100000, WIDTH = sizeof(unsigned) };

static const int LENGTHS[] = {0, 1, 7, 1000, 5000, LONGEST};
static struct window w;
static int length, round, turn, rank, size;
static unsigned *out[BUFFERS], *in[BUFFERS], words_out[2], compares[64], words_in[2 * 64];
static MPI_Request requests[BUFFERS];

static unsigned value(int fact, int origin, int target, int i) {
    unsigned mixed = (unsigned)i * 2654435761u + (unsigned)(((round * 64 + fact) * 64 + origin) * 64 + target) * 40503u;
    return mixed ^ mixed >> 15;
}

/* The longest go to oneself and, in each round, to one other. */
static int is_pair(int origin, int target) {
    int distance = (target - origin + size) % size;
    return length < LONGEST || distance == 0 || distance == 1 + turn % (size - 1);
}

/* Where the elements that an origin uses begin in a target's memory: behind two words of each origin. */
static MPI_Aint slot(int area, int origin) {
    return 2 * size + (MPI_Aint)(area * size + (area == COMMON ? 0 : origin)) * length;
}

static MPI_Op op_of(int area) {
    if (area == COMMON || turn % 3 == 0) return MPI_SUM;
    return turn % 3 == 1 ? MPI_REPLACE : area == ADD ? MPI_BXOR : MPI_NO_OP;
}

static unsigned combined(MPI_Op op, unsigned old, unsigned operand) {
    if (op == MPI_SUM) return old + operand;
    if (op == MPI_BXOR) return old ^ operand;
    return op == MPI_REPLACE ? operand : old;
}

/* Every third comparison finds something else. */
static unsigned compared(int origin, int target) { return value(COMPARED, origin, target, 0) + (turn % 3 == 2); }

static void prepare(void) {
    unsigned *own = (unsigned *)w.base;
    own_begin(&w);
    for (int origin = 0; origin < size; origin++) {
        if (!is_pair(origin, rank)) continue;
        own[2 * origin] = value(WORD, origin, rank, 0);
        own[2 * origin + 1] = value(COMPARED, origin, rank, 0);
        for (int area = 0; area < AREAS; area++)
            for (int i = 0; i < length; i++) own[slot(area, origin) + i] = value(BEFORE + area, origin, rank, i);
    }
    for (int i = 0; i < length; i++) own[slot(COMMON, 0) + i] = value(BEFORE + COMMON, 0, rank, i);
    own_end(&w);
    for (int target = 0; target < size; target++) {
        if (!is_pair(rank, target)) continue;
        for (int area = 0; area < BUFFERS; area++)
            for (int i = 0; i < length; i++) {
                out[area][target * length + i] = value(area, rank, target, i);
                in[area][target * length + i] = 7;
            }
    }
    OK(MPI_Barrier(w.comm));
}

/* Begins every kind of operation with a target. */
static void operate(int target, enum way way) {
    unsigned *from[BUFFERS], *into[BUFFERS];
    MPI_Aint to[BUFFERS], word = displacement(&w, target, 2 * rank * WIDTH);
    MPI_Op add_op = op_of(ADD), fetch_op = op_of(FETCH);
    MPI_Datatype type = MPI_UNSIGNED;
    MPI_Request *r = requests;
    MPI_Win win = w.win;
    int n = length, t = target;
    for (int area = 0; area < BUFFERS; area++) {
        to[area] = displacement(&w, target, slot(area, rank) * WIDTH);
        from[area] = out[area] + target * length, into[area] = in[area] + target * length;
    }
    switch (way) {
    case PLAIN:
        OK(MPI_Put(from[PUT], n, type, t, to[PUT], n, type, win));
        OK(MPI_Get(into[GET], n, type, t, to[GET], n, type, win));
        OK(MPI_Accumulate(from[ADD], n, type, t, to[ADD], n, type, add_op, win));
        OK(MPI_Get_accumulate(from[FETCH], n, type, into[FETCH], n, type, t, to[FETCH], n, type, fetch_op, win));
        OK(MPI_Accumulate(from[COMMON], n, type, t, to[COMMON], n, type, MPI_SUM, win));
        break;
    case LARGE:
        OK(MPI_Get_accumulate_c(from[FETCH], n, type, into[FETCH], n, type, t, to[FETCH], n, type, fetch_op, win));
        OK(MPI_Accumulate_c(from[ADD], n, type, t, to[ADD], n, type, add_op, win));
        OK(MPI_Accumulate_c(from[COMMON], n, type, t, to[COMMON], n, type, MPI_SUM, win));
        OK(MPI_Get_c(into[GET], n, type, t, to[GET], n, type, win));
        OK(MPI_Put_c(from[PUT], n, type, t, to[PUT], n, type, win));
        break;
    case LENT:
        OK(MPI_Rput(from[PUT], n, type, t, to[PUT], n, type, win, r++));
        OK(MPI_Rget(into[GET], n, type, t, to[GET], n, type, win, r++));
        OK(MPI_Raccumulate(from[ADD], n, type, t, to[ADD], n, type, add_op, win, r++));
        OK(MPI_Rget_accumulate(from[FETCH], n, type, into[FETCH], n, type, t, to[FETCH], n, type, fetch_op, win, r++));
        OK(MPI_Raccumulate(from[COMMON], n, type, t, to[COMMON], n, type, MPI_SUM, win, r++));
        break;
    default:
        OK(MPI_Raccumulate_c(from[ADD], n, type, t, to[ADD], n, type, add_op, win, r++));
        OK(MPI_Raccumulate_c(from[COMMON], n, type, t, to[COMMON], n, type, MPI_SUM, win, r++));
        OK(MPI_Rget_c(into[GET], n, type, t, to[GET], n, type, win, r++));
        OK(MPI_Rget_accumulate_c(from[FETCH], n, type, into[FETCH], n, type, t, to[FETCH], n, type, fetch_op, win,
                                 r++));
        OK(MPI_Rput_c(from[PUT], n, type, t, to[PUT], n, type, win, r++));
    }
    /* What these read stays as it is until the end of the epoch. */
    words_out[0] = value(WORD_ADDED, 0, 0, 0), words_out[1] = value(SWAPPED, 0, 0, 0);
    compares[t] = compared(rank, t);
    OK(MPI_Fetch_and_op(&words_out[0], &words_in[2 * t], type, t, word, fetch_op, win));
    word = displacement(&w, t, (2 * rank + 1) * WIDTH);
    OK(MPI_Compare_and_swap(&words_out[1], &compares[t], &words_in[2 * t + 1], type, t, word, win));
}

static void check_fetched(int target) {
    for (int i = 0; i < length; i++) {
        SAME(in[GET][target * length + i], value(BEFORE + GET, rank, target, i));
        SAME(in[FETCH][target * length + i], value(BEFORE + FETCH, rank, target, i));
    }
}

static void check_words(int target) {
    SAME(words_in[2 * target], value(WORD, rank, target, 0));
    SAME(words_in[2 * target + 1], value(COMPARED, rank, target, 0));
}

/* The origin's buffers are its own again. */
static void spoil(int target) {
    for (int area = 0; area < BUFFERS; area++)
        if (length > 0) memset(out[area] + target * length, 0xdd, (size_t)length * WIDTH);
}

static void check_written(void) {
    const unsigned *own = (const unsigned *)w.base;
    for (int origin = 0; origin < size; origin++) {
        if (!is_pair(origin, rank)) continue;
        SAME(own[2 * origin], combined(op_of(FETCH), value(WORD, origin, rank, 0), value(WORD_ADDED, 0, 0, 0)));
        SAME(own[2 * origin + 1], turn % 3 == 2 ? value(COMPARED, origin, rank, 0) : value(SWAPPED, 0, 0, 0));
        for (int i = 0; i < length; i++) {
            SAME(own[slot(PUT, origin) + i], value(PUT, origin, rank, i));
            SAME(own[slot(GET, origin) + i], value(BEFORE + GET, origin, rank, i));
            for (int area = ADD; area <= FETCH; area++) {
                unsigned old = value(BEFORE + area, origin, rank, i), operand = value(area, origin, rank, i);
                SAME(own[slot(area, origin) + i], combined(op_of(area), old, operand));
            }
        }
    }
    for (int i = 0; i < length; i++) {
        unsigned sum = value(BEFORE + COMMON, 0, rank, i);
        for (int origin = 0; origin < size; origin++)
            if (is_pair(origin, rank)) sum += value(COMMON, origin, rank, i);
        SAME(own[slot(COMMON, 0) + i], sum);
    }
}

#define EACH_TARGET(target) \
    for (int target = 0; target < size; target++) \
        if (is_pair(rank, target))

/* MPICH 5.0.2 does not get a lock after one that was unchecked, and Open MPI 5.0.11 never starts. */
static int unchecked(void) { return check_library_is("weft") ? MPI_MODE_NOCHECK : 0; }

static void fences(int is_promised, enum way way) {
    OK(MPI_Win_fence(is_promised ? MPI_MODE_NOPRECEDE | MPI_MODE_NOSTORE : 0, w.win));
    EACH_TARGET(target) operate(target, way);
    OK(MPI_Win_fence(is_promised ? MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOSUCCEED : 0, w.win));
    check_written();
    if (!is_promised) OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
}

static void posts(int is_tested, int is_promised, enum way way) {
    MPI_Group all, origins, targets;
    int from[64], to[64], origin_count = 0, target_count = 0, is_over = 0;
    for (int other = 0; other < size; other++) {
        if (is_pair(other, rank)) from[origin_count++] = other;
        if (is_pair(rank, other)) to[target_count++] = other;
    }
    OK(MPI_Win_get_group(w.win, &all));
    OK(MPI_Group_incl(all, origin_count, from, &origins));
    OK(MPI_Group_incl(all, target_count, to, &targets));
    OK(MPI_Win_post(origins, is_promised ? unchecked() : 0, w.win));
    if (is_promised) OK(MPI_Barrier(w.comm));
    OK(MPI_Win_start(targets, is_promised ? unchecked() : 0, w.win));
    EACH_TARGET(target) operate(target, way);
    OK(MPI_Win_complete(w.win));
    if (!is_tested) OK(MPI_Win_wait(w.win));
    while (is_tested && !is_over) OK(MPI_Win_test(w.win, &is_over));
    check_written();
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&origins));
    OK(MPI_Group_free(&targets));
}

/* Operations with requests are waited for. */
static void operate_lent(int target, enum way way) {
    operate(target, way);
    if (way != LENT && way != LENT_LARGE) return;
    OK(MPI_Waitall(BUFFERS, requests, MPI_STATUSES_IGNORE));
    check_fetched(target);
    spoil(target);
}

static void locks(int kind, int assertion, enum way way) {
    EACH_TARGET(target) {
        OK(MPI_Win_lock(kind, target, assertion, w.win));
        operate_lent(target, way);
        if (round % 2) {
            OK(MPI_Win_flush(target, w.win));
            check_words(target);
            check_fetched(target);
        }
        OK(MPI_Win_unlock(target, w.win));
        check_words(target);
    }
}

static void locks_together(enum way way) {
    EACH_TARGET(target) OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w.win));
    EACH_TARGET(target) operate_lent(target, way);
    EACH_TARGET(target) {
        OK(MPI_Win_flush_local(target, w.win));
        check_fetched(target);
        spoil(target);
    }
    EACH_TARGET(target) OK(MPI_Win_unlock(target, w.win));
}

enum flush { NONE, ONE, ALL, ONE_LOCAL, ALL_LOCAL };

static void locks_all(enum flush flush, int assertion, enum way way) {
    OK(MPI_Win_lock_all(assertion, w.win));
    EACH_TARGET(target) operate_lent(target, way);
    if (flush == ALL) OK(MPI_Win_flush_all(w.win));
    if (flush == ALL_LOCAL) OK(MPI_Win_flush_local_all(w.win));
    if (flush != NONE) EACH_TARGET(target) {
        if (flush == ONE) OK(MPI_Win_flush(target, w.win));
        if (flush == ONE_LOCAL) OK(MPI_Win_flush_local(target, w.win));
        check_fetched(target);
        check_words(target);
        spoil(target);
    }
    OK(MPI_Win_unlock_all(w.win));
}

static const char *const KINDS[] = {"fence", "fence with assertions", "post and wait", "post and test",
                                    "post and start unchecked", "shared locks", "exclusive locks",
                                    "shared locks unchecked", "shared locks together", "lock_all", "lock_all, flush",
                                    "lock_all, flush_all", "lock_all, flush_local", "lock_all unchecked"};

static void epoch(int kind, enum way way) {
    enum way active = way % LENT; /* requests are for passive targets */
    switch (kind) {
    case 0: case 1: fences(kind, active); break;
    case 2: case 3: case 4: posts(kind == 3, kind == 4, active); break;
    case 5: locks(MPI_LOCK_SHARED, 0, way); break;
    case 6: locks(MPI_LOCK_EXCLUSIVE, 0, way); break;
    case 7: locks(MPI_LOCK_SHARED, unchecked(), way); break;
    case 8: locks_together(way); break;
    case 9: case 10: case 11: case 12: locks_all((enum flush)(kind - 9), 0, way); break;
    default: locks_all(ALL_LOCAL, unchecked(), way);
    }
}

static void rounds(enum flavor flavor) {
    enum { EPOCHS = sizeof KINDS / sizeof *KINDS, MANY = sizeof LENGTHS / sizeof *LENGTHS };
    char name[100];
    window_open(&w, flavor, (2 * check_size + (MPI_Aint)(AREAS * check_size + 1) * LONGEST) * WIDTH, WIDTH);
    rank = w.rank, size = w.size;
    for (int kind = 0; kind < EPOCHS; kind++)
        for (int l = 0; l < MANY; l++) {
            length = LENGTHS[l];
            if (length == LONGEST && (kind + (int)flavor) % 2 != 0) continue;
            snprintf(name, sizeof name, "%s, %s, %d elements", FLAVOR_NAMES[flavor], KINDS[kind], length);
            section(name);
            turn = kind + (int)flavor * EPOCHS + l; /* each epoch has each length in every way */
            prepare();
            epoch(kind, (enum way)(turn % WAYS));
            EACH_TARGET(target) check_fetched(target);
            EACH_TARGET(target) check_words(target);
            OK(MPI_Barrier(w.comm));
            own_begin(&w);
            check_written();
            own_end(&w);
            round++;
        }
    window_close(&w);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    for (int area = 0; area < BUFFERS; area++) {
        out[area] = malloc((size_t)LONGEST * (size_t)check_size * WIDTH);
        in[area] = malloc((size_t)LONGEST * (size_t)check_size * WIDTH);
    }
    for (int flavor = 0; flavor < FLAVORS; flavor++) rounds((enum flavor)flavor);
    return check_close();
}
