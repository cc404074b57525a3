// ranks: 1 2 3 5 8
// nodes: 2
// Random programs of puts, gets and accumulates of all ranks, within epochs of all kinds, in windows of all flavors,
// with layouts on both sides. No two of them conflict: a place belongs to an origin, or to all who add or who read.
// Every rank draws the same programs from their seed, and plays them on a model of all memory, which it holds its own
// memory and what it fetches against. A failure says its seed; `one_sided_random SEED` plays it again.
// (MPI 5.0, sections 12.3 to 12.7)
#include "one_sided.h"
#include "dice.h"

enum { SLOTS = 6, ROUNDS = 16, CALLS = 14, RANKS_MAX = 64, COMMON = 64 };
enum epoch { FENCES, POSTS, SHARED_LOCKS, EXCLUSIVE_LOCKS, LOCK_ALL, EPOCHS };
enum mode { WRITES, READS, ADDS, MODES };
enum call { PUT, GET, ADD, FETCH };
enum way { PLAIN, LARGE, LENT, WAYS };
enum flush { NO, ONE, ALL, FLUSHES };

static const int LENGTHS[SLOTS] = {1, 5, 40, 300, 3000, 20000};

/* One operation: elements of a slot, `stride` elements apart, and how they stand at the origin. */
struct call_of {
    enum call call;
    int origin, target, first, count, stride, stride_here, seed, is_late;
    enum way way;
    enum flush flush; /* before it */
    MPI_Op op;
    int *out, *in, *right;
    MPI_Request request;
};

static struct window w;
static int ints_of_owner, ints;
static int *model[RANKS_MAX];
static enum epoch epoch;
static struct call_of calls[RANKS_MAX * CALLS];
static int call_count, may_access[RANKS_MAX][RANKS_MAX];

static enum mode modes[RANKS_MAX][RANKS_MAX][SLOTS], common_modes[RANKS_MAX];
static MPI_Op ops[RANKS_MAX][RANKS_MAX][SLOTS];
/* Used by its owner in a way that the next use conflicts with, until a flush. */
static int busy[RANKS_MAX][RANKS_MAX][SLOTS];

static int slot(int owner, int s) {
    int at = owner * ints_of_owner;
    for (int i = 0; i < s; i++) at += LENGTHS[i];
    return at;
}

static int content(const struct call_of *it, int i) { return (int)((unsigned)it->seed * 7919u + (unsigned)i * 31u); }

static int is_passive(void) { return epoch >= SHARED_LOCKS; }

static MPI_Op any_op(void) {
    const MPI_Op list[] = {MPI_SUM, MPI_REPLACE, MPI_BXOR, MPI_MAX};
    return list[draw(4)];
}

/* Plays it on the model; what it fetches there is right. */
static void play(struct call_of *it) {
    int *at = model[it->target] + it->first;
    it->right = malloc((size_t)it->count * sizeof(int));
    for (int i = 0; i < it->count; i++, at += it->stride) {
        int operand = content(it, i);
        it->right[i] = *at;
        if (it->call == PUT || (it->call >= ADD && it->op == MPI_REPLACE)) *at = operand;
        else if (it->call >= ADD && it->op == MPI_SUM) *at = (int)((unsigned)*at + (unsigned)operand);
        else if (it->call >= ADD && it->op == MPI_BXOR) *at ^= operand;
        else if (it->call >= ADD && it->op == MPI_MAX && operand > *at) *at = operand;
    }
}

/* An operation of `origin`, if a drawn one conflicts with none. */
static void draw_call(int origin) {
    struct call_of *it = &calls[call_count];
    int owner = draw(3) == 0 ? (int)draw((unsigned)w.size) : origin, s = (int)draw(SLOTS), length = LENGTHS[s];
    enum mode mode;
    memset(it, 0, sizeof *it);
    it->origin = origin, it->target = (int)draw((unsigned)w.size), it->request = MPI_REQUEST_NULL;
    it->way = (enum way)draw(is_passive() ? WAYS : LENT), it->is_late = (int)draw(2), it->seed = (int)draw(1 << 20);
    it->op = MPI_NO_OP;
    if (!may_access[origin][it->target]) return;
    if (draw(5) == 0) { /* what all have in common */
        mode = common_modes[it->target], owner = w.size, length = COMMON;
        it->op = MPI_SUM;
        it->call = mode == READS ? GET : ADD;
    } else {
        int *is_busy = &busy[it->target][owner][s];
        mode = modes[it->target][owner][s];
        if (mode != READS && owner != origin) return;
        it->call = mode == WRITES ? (draw(3) == 0 ? GET : PUT) : mode == READS ? GET : draw(2) == 0 ? ADD : FETCH;
        if (mode == READS && draw(3) == 0) it->call = FETCH;
        else if (mode == ADDS) it->op = it->call == FETCH && draw(3) == 0 ? MPI_NO_OP : ops[it->target][owner][s];
        if (mode == WRITES && *is_busy) {
            if (!is_passive()) return;
            it->flush = draw(2) == 0 || epoch != LOCK_ALL ? ONE : ALL;
        }
        if (is_passive() && it->flush == NO && draw(6) == 0) it->flush = ONE;
        for (int target = 0; target < w.size && it->flush != NO; target++)
            if (target == it->target || it->flush == ALL) memset(busy[target][origin], 0, sizeof busy[target][origin]);
        *is_busy = 1;
    }
    it->stride = 1 + (int)draw(3), it->stride_here = 1 + (int)draw(2);
    it->first = (int)draw((unsigned)length);
    it->count = 1 + (int)draw((unsigned)((length - it->first + it->stride - 1) / it->stride));
    it->first += owner == w.size ? w.size * ints_of_owner : slot(owner, s);
    play(it);
    call_count++;
}

/* The same at all ranks. */
static void draw_round(void) {
    epoch = (enum epoch)draw(EPOCHS);
    call_count = 0;
    memset(busy, 0, sizeof busy);
    for (int target = 0; target < w.size; target++) {
        common_modes[target] = draw(3) == 0 ? READS : ADDS;
        for (int owner = 0; owner < w.size; owner++) {
            may_access[owner][target] = epoch != POSTS || draw(3) > 0;
            for (int s = 0; s < SLOTS; s++)
                modes[target][owner][s] = (enum mode)draw(MODES), ops[target][owner][s] = any_op();
        }
    }
    for (int turn = 0; turn < CALLS; turn++)
        for (int origin = 0; origin < w.size; origin++) draw_call(origin);
}

static MPI_Datatype layout(int count, int stride) {
    MPI_Datatype made;
    OK(MPI_Type_vector(count, 1, stride, MPI_INT, &made));
    OK(MPI_Type_commit(&made));
    return made;
}

static void begin(struct call_of *it) {
    int n = it->count, t = it->target, is_lent = it->way == LENT, tn = 1, hn = 1, room = n * it->stride_here;
    int *out = it->out = malloc((size_t)room * sizeof(int)), *in = it->in = malloc((size_t)room * sizeof(int));
    MPI_Datatype here = layout(n, it->stride_here), there = layout(n, it->stride), rows[2] = {here, there};
    MPI_Aint at = displacement(&w, t, (MPI_Aint)it->first * 4);
    MPI_Request *r = &it->request;
    MPI_Op op = it->op;
    MPI_Win win = w.win;
    if (it->stride == 1) there = MPI_INT, tn = n;
    if (it->stride_here == 1) here = MPI_INT, hn = n;
    for (int i = 0; i < room; i++) out[i] = in[i] = -7;
    for (int i = 0; i < n; i++) out[i * it->stride_here] = content(it, i);
    if (it->flush == ONE) OK(MPI_Win_flush(t, win));
    if (it->flush == ALL) OK(MPI_Win_flush_all(win));
    switch (it->call) {
    case PUT:
        if (it->way == PLAIN) OK(MPI_Put(out, hn, here, t, at, tn, there, win));
        if (it->way == LARGE) OK(MPI_Put_c(out, hn, here, t, at, tn, there, win));
        if (is_lent) OK(MPI_Rput(out, hn, here, t, at, tn, there, win, r));
        break;
    case GET:
        if (it->way == PLAIN) OK(MPI_Get(in, hn, here, t, at, tn, there, win));
        if (it->way == LARGE) OK(MPI_Get_c(in, hn, here, t, at, tn, there, win));
        if (is_lent) OK(MPI_Rget(in, hn, here, t, at, tn, there, win, r));
        break;
    case ADD:
        if (is_lent) OK(MPI_Raccumulate(out, hn, here, t, at, tn, there, op, win, r));
        else OK(MPI_Accumulate(out, hn, here, t, at, tn, there, op, win));
        break;
    default:
        if (is_lent) OK(MPI_Rget_accumulate(out, hn, here, in, hn, here, t, at, tn, there, op, win, r));
        else if (n == 1 && it->way == LARGE) OK(MPI_Fetch_and_op(out, in, MPI_INT, t, at, op, win));
        else OK(MPI_Get_accumulate(out, hn, here, in, hn, here, t, at, tn, there, op, win));
    }
    if (is_lent && !it->is_late) {
        OK(MPI_Wait(r, MPI_STATUS_IGNORE));
        memset(out, 0xdd, (size_t)room * sizeof(int));
    }
    for (int i = 0; i < 2; i++) OK(MPI_Type_free(&rows[i])); /* what is under way keeps them */
}

static void check_call(struct call_of *it) {
    if (it->origin != w.rank) {
        free(it->right);
        return;
    }
    OK(MPI_Wait(&it->request, MPI_STATUS_IGNORE));
    for (int i = 0; i < it->count * it->stride_here; i++) {
        int is_fetched = (it->call == GET || it->call == FETCH) && i % it->stride_here == 0;
        SAME(it->in[i], is_fetched ? it->right[i / it->stride_here] : -7);
    }
    free(it->right), free(it->out), free(it->in);
}

/* All that is for one target, or for -1 for all. */
static void begin_all(int target) {
    for (int i = 0; i < call_count; i++) {
        if (calls[i].origin != w.rank || (target >= 0 && calls[i].target != target)) continue;
        if (draw(8) == 0) linger(100);
        begin(&calls[i]);
    }
}

static MPI_Group partners(int are_targets) {
    MPI_Group all, made;
    int list[RANKS_MAX], count = 0;
    for (int other = 0; other < w.size; other++)
        if (are_targets ? may_access[w.rank][other] : may_access[other][w.rank]) list[count++] = other;
    OK(MPI_Win_get_group(w.win, &all));
    OK(MPI_Group_incl(all, count, list, &made));
    OK(MPI_Group_free(&all));
    return made;
}

static void play_posts(void) {
    MPI_Group origins = partners(0), targets = partners(1);
    int is_over = 0;
    OK(MPI_Win_post(origins, 0, w.win));
    OK(MPI_Win_start(targets, 0, w.win));
    begin_all(-1);
    OK(MPI_Win_complete(w.win));
    if (draw(2) == 0) OK(MPI_Win_wait(w.win));
    else
        while (!is_over) OK(MPI_Win_test(w.win, &is_over));
    OK(MPI_Group_free(&origins));
    OK(MPI_Group_free(&targets));
}

static void play_round(void) {
    int first = (int)draw((unsigned)w.size);
    switch (epoch) {
    case FENCES:
        OK(MPI_Win_fence(0, w.win));
        begin_all(-1);
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
        return;
    case POSTS: play_posts(); return;
    case LOCK_ALL:
        OK(MPI_Win_lock_all(0, w.win));
        begin_all(-1);
        OK(MPI_Win_unlock_all(w.win));
        return;
    default:
        for (int i = 0; i < w.size; i++) {
            int target = (first + i) % w.size;
            OK(MPI_Win_lock(epoch == SHARED_LOCKS ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, w.win));
            begin_all(target);
            OK(MPI_Win_unlock(target, w.win));
        }
    }
}

static void program(unsigned seed) {
    static const char *const EPOCH_NAMES[] = {"fences", "posts", "shared locks", "exclusive locks", "lock_all"};
    static char name[100];
    ints_of_owner = slot(0, SLOTS);
    enum flavor flavor = (enum flavor)(seed % FLAVORS);
    dice = seed;
    section(FLAVOR_NAMES[flavor]);
    window_open(&w, flavor, (MPI_Aint)(check_size * ints_of_owner + COMMON) * 4, draw(2) == 0 ? 1 : 4);
    ints = w.size * ints_of_owner + COMMON;
    for (int target = 0; target < w.size; target++) {
        model[target] = malloc((size_t)ints * sizeof(int));
        for (int i = 0; i < ints; i++) model[target][i] = i * 17 + target;
    }
    own_begin(&w);
    memcpy(w.base, model[w.rank], (size_t)ints * sizeof(int));
    own_end(&w);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned common;
        draw_round();
        snprintf(name, sizeof name, "seed %u, %s, round %d, %s", seed, FLAVOR_NAMES[flavor], round, EPOCH_NAMES[epoch]);
        section(name);
        common = dice;
        dice += 7919u * (unsigned)w.rank; /* from here on each draws for itself */
        OK(MPI_Barrier(w.comm));
        play_round();
        for (int i = 0; i < call_count; i++) check_call(&calls[i]);
        OK(MPI_Barrier(w.comm));
        own_begin(&w);
        if (memcmp(w.base, model[w.rank], (size_t)ints * sizeof(int)) != 0)
            for (int i = 0; i < ints; i++) SAME(((int *)w.base)[i], model[w.rank][i]);
        own_end(&w);
        dice = common;
    }
    for (int target = 0; target < w.size; target++) free(model[target]);
    window_close(&w);
}

int main(int argc, char **argv) {
    unsigned drawn = (unsigned)time(NULL) ^ (unsigned)getpid() << 12;
    check_open(argc, argv);
    OK(MPI_Bcast(&drawn, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD));
    if (argc > 1) {
        program((unsigned)strtoul(argv[1], NULL, 10));
        return check_close();
    }
    for (unsigned seed = 1; seed <= 12; seed++) program(seed);
    for (unsigned i = 0; i < 4; i++) program(drawn + i);
    return check_close();
}
