// ranks: 4 6
// launch: --ft=rebuild --max-restarts=12
// says: is started again
// not libfabric: what a provider tells of a dead process differs from one to the next
// Ranks of the world die, and new processes come into their places: one, the same again, two at once, rank 0, one within the
// recovery from another, and one whose successor dies before it is there (rules R1, R2, R3, R6, R9, R10, R11). What is in the
// world afterwards is as if nothing had been, but for messages: those of the dead, and to them, reach nobody (G9, 3.2).
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "dice.h"

#include <mpix_ft.h>

enum { TAG = 7, TO_THE_DEAD = 8, OF_BEFORE = 9, ROUNDS = 6, LONG = 1 << 18 };

static int incarnation, generation, round_number;
static MPI_Comm copy = MPI_COMM_NULL;
static int many[LONG], sums[LONG];

/* Who dies in a round, as bits of ranks. */
static int victims(int round) {
    switch (round) {
        case 2: return 1 << 1 | 1 << (check_size - 1);
        case 3: return 1;
        case 4: return 1 << 1 | 1 << 2;
        case 5: return 1 << 3;
        default: return 1 << 1;
    }
}

static int message_mode(int round) { return round % 2 ? MPIX_FT_MSG_CONT : MPIX_FT_MSG_RESET; }

/* The first of the living that is not among the victims, and the last. */
static int first_safe(int round) {
    int rank = 0;
    while (victims(round) >> rank & 1) rank++;
    return rank;
}

static int last_safe(int round) {
    int rank = check_size - 1;
    while (victims(round) >> rank & 1) rank--;
    return rank;
}

/* All that is done together, and messages in a ring, works with everybody. */
static void works(const char *when) {
    int one = 1, sum = 0, got = -1, all[64], next = (check_rank + 1) % check_size;
    int before = (check_rank + check_size - 1) % check_size;
    MPI_Comm half;
    MPI_Status status;
    section(when);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum, check_size);
    OK(MPI_Allgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
    for (int at = 0; at < check_size; at++) SAME(all[at], at);
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, next, TAG, &got, 1, MPI_INT, before, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(got, before);
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, next, TAG, &got, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status));
    SAME(got, before);
    SAME(status.MPI_SOURCE, before);
    for (int at = 0; at < LONG; at++) many[at] = check_rank + at;
    OK(MPI_Allreduce(many, sums, LONG, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int at = 0; at < LONG; at += LONG / 8) SAME(sums[at], check_size * (check_size - 1) / 2 + check_size * at);
    OK(MPI_Sendrecv(many, LONG, MPI_INT, next, TAG, sums, LONG, MPI_INT, before, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int at = 0; at < LONG; at++) SAME(sums[at], before + at);
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &half));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half));
    SAME(sum, (check_size + 1 - check_rank % 2) / 2);
    OK(MPI_Comm_free(&half));
}

/* Messages that nobody has received when the victims die. */
static void leave_messages(int round) {
    section("leaving messages");
    if (check_rank == first_safe(round)) {
        OK(MPI_Send(&round, 1, MPI_INT, last_safe(round), OF_BEFORE, MPI_COMM_WORLD));
        for (int rank = 0; rank < check_size; rank++)
            if (victims(round) >> rank & 1) OK(MPI_Send(&round, 1, MPI_INT, rank, TO_THE_DEAD, MPI_COMM_WORLD));
    }
    /* Who has left it may die at once, and it is an error for those who have not. */
    (void)MPI_Barrier(MPI_COMM_WORLD);
}

/* With RESET they are gone; with CONT those between two who live are still there. */
static void look_for_messages(int round) {
    int is_there = -1, got = -1;
    section("messages of before");
    OK(MPI_Iprobe(MPI_ANY_SOURCE, TO_THE_DEAD, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE));
    SAME(is_there, 0);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, OF_BEFORE, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE));
    SAME(is_there, check_rank == last_safe(round) && message_mode(round) == MPIX_FT_MSG_CONT);
    if (!is_there) return;
    OK(MPI_Recv(&got, 1, MPI_INT, first_safe(round), OF_BEFORE, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    SAME(got, round);
}

/* What was made from the world is not repaired, and cannot be by itself. */
static void copy_stays_broken(void) {
    section("what was made from the world");
    CLASS(MPI_Barrier(copy), MPIX_ERR_PROC_FAILED);
    OK(MPIX_Comm_set_ft_mode(copy, MPIX_FT_MODE_REBUILD, MPIX_FT_MSG_RESET, MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
    CLASS(MPIX_Comm_recover(copy, 0, NULL, NULL), MPI_ERR_COMM);
    OK(MPI_Comm_free(&copy));
}

static void recover(int round) {
    MPIX_Recover_info info;
    MPI_Comm same = MPI_COMM_NULL;
    MPI_Group world;
    int count = 0, rank, place, found = 0;
    section("recovering");
    OK(MPIX_Comm_recover(MPI_COMM_WORLD, 0, &same, &info));
    CHECK(same == MPI_COMM_WORLD);
    SAME(info.mode, MPIX_FT_MODE_REBUILD);
    CHECK(info.generation > generation);
    OK(MPIX_Comm_generation(MPI_COMM_WORLD, &generation));
    SAME(generation, info.generation);
    OK(MPI_Group_size(info.failed, &count));
    SAME(info.restarted, count);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (place = 0; place < count; place++) {
        OK(MPI_Group_translate_ranks(info.failed, 1, &place, world, &rank));
        CHECK(rank >= 0 && (victims(round) >> rank & 1));
        found |= 1 << rank;
    }
    /* The second victim of round 4 may die a little later. */
    if (round != 4) SAME(found, victims(round));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&info.failed));
}

/* The victims die, each at its own moment; the others notice. */
static void die(int round) {
    int code;
    section("dying");
    if (victims(round) >> check_rank & 1) {
        fflush(NULL);
        if (round != 4 || check_rank != 2) raise(SIGKILL);
        /* Somewhere within the recovery from the first. */
        (void)die_after(draw(5000));
    }
    do code = MPI_Barrier(MPI_COMM_WORLD);
    while (code == MPI_SUCCESS);
    CLASS(code, MPIX_ERR_PROC_FAILED);
}

/* All come to the same round: the new ones learn it from those who have lived on, who go on when nobody dies any more. */
static int meet(void) {
    int mine[2] = {round_number, generation}, most[2] = {-1, -1};
    section("meeting");
    if (MPI_Allreduce(mine, most, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD) != MPI_SUCCESS) return 0;
    /* Whether all have met, or one has died meanwhile, is agreed on. */
    round_number = most[0];
    generation = most[1];
    return 1;
}

static void settle_down(int round) {
    for (;;) {
        int good = meet();
        (void)MPIX_Comm_agree(MPI_COMM_WORLD, &good);
        if (good) return;
        recover(round);
    }
}

int main(int argc, char **argv) {
    const char *told = getenv("WEFT_REBUILT");
    /* The first that comes into the place of rank 3 dies before the others have heard of it. */
    if (told && strncmp(told, "1;", 2) == 0 && strcmp(getenv("PMI_RANK"), "3") == 0 && atoi(getenv("PMI_SIZE")) == 4) return 3;
    check_open(argc, argv);
    dice = (unsigned)getpid();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPIX_Process_incarnation(&incarnation));
    OK(MPIX_Comm_generation(MPI_COMM_WORLD, &generation));
    SAME(incarnation > 0, generation > 0);
    SAME(incarnation > 0, told != NULL);
    if (incarnation > 0) {
        round_number = -1;
        settle_down(4);
        look_for_messages(round_number);
        works("one of them is new");
        round_number++;
    }
    while (round_number < ROUNDS) {
        int mode = MPIX_FT_MODE_REBUILD;
        OK(MPIX_Comm_set_ft_mode(MPI_COMM_WORLD, mode, message_mode(round_number), MPIX_FT_COLL_LOCAL, MPIX_FT_P2P_PROC_NULL));
        if (round_number == 0) OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
        leave_messages(round_number);
        die(round_number);
        recover(round_number);
        if (victims(round_number) >> check_rank & 1)
            for (;;) pause();
        if (copy != MPI_COMM_NULL) copy_stays_broken();
        settle_down(round_number);
        look_for_messages(round_number);
        works("after a recovery");
        round_number++;
    }
    works("at the end");
    return check_close();
}
