// ranks: 1 2 3 5 8
// Memory that the ranks of a node share: where the parts stand, also where they differ or are empty, that what one
// stores the others load, and that it is there as long as the window. (MPI 5.0, section 12.2.3)
#include "check.h"

static MPI_Comm node;
static int rank, size;

static MPI_Info apart(void) {
    MPI_Info hints;
    OK(MPI_Info_create(&hints));
    OK(MPI_Info_set(hints, "alloc_shared_noncontig", "true"));
    return hints;
}

/* The first of the following bytes of every rank, where `bytes[i]` is the size of rank i. */
static void everybody_sees(MPI_Win win, const MPI_Aint *bytes, int unit, unsigned char *mine, int contiguous) {
    unsigned char *first = NULL, *part, *before = NULL;
    MPI_Aint got, total = 0;
    int got_unit, lowest = -1;
    OK(MPI_Win_lock_all(0, win));
    fill(mine, (size_t)bytes[rank], (unsigned)rank);
    OK(MPI_Win_sync(win));
    OK(MPI_Barrier(node));
    OK(MPI_Win_sync(win));
    for (int of = 0; of < size; of++) {
        OK(MPI_Win_shared_query(win, of, &got, &got_unit, &part));
        SAME(got, bytes[of]);
        if (bytes[of] > 0 || check_library_is("weft")) SAME(got_unit, unit);
        if (of == rank && bytes[of] > 0) CHECK(part == mine);
        VERIFY(part, (size_t)bytes[of], (unsigned)of);
        if (bytes[of] > 0 && lowest < 0) lowest = of, first = part;
        if (contiguous && before != NULL && bytes[of] > 0) CHECK(part == before);
        if (bytes[of] > 0) before = part + bytes[of];
        total += bytes[of];
    }
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &got, &got_unit, &part));
    SAME(got, lowest < 0 ? 0 : bytes[lowest]);
    if (lowest >= 0) CHECK(part == first);
    OK(MPI_Barrier(node));
    /* The other way round: each writes into the part of the next. */
    OK(MPI_Win_shared_query(win, (rank + 1) % size, &got, &got_unit, &part));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_fence(0, win));
    fill(part, (size_t)got, 100u + (unsigned)rank);
    OK(MPI_Win_fence(0, win));
    VERIFY(mine, (size_t)bytes[rank], 100u + (unsigned)((rank + size - 1) % size));
    OK(MPI_Win_fence(0, win));
}

static void try(const MPI_Aint *bytes, int unit, MPI_Info hints, int contiguous) {
    MPI_Win win;
    unsigned char *mine = NULL;
    OK(MPI_Win_allocate_shared(bytes[rank], unit, hints, node, &mine, &win));
    everybody_sees(win, bytes, unit, mine, contiguous);
    OK(MPI_Win_free(&win));
}

static void placements(void) {
    MPI_Aint alike[64], differing[64], some[64], none[64];
    MPI_Info hints = apart();
    for (int of = 0; of < size; of++) {
        alike[of] = 1000;
        differing[of] = 1 + of * 4099;
        some[of] = of % 2 ? 512 * of : 0;
        none[of] = 0;
    }
    section("parts of the same size");
    try(alike, 8, MPI_INFO_NULL, 1);
    try(alike, 8, hints, 0);
    section("parts that differ");
    try(differing, 1, MPI_INFO_NULL, 1);
    try(differing, 1, hints, 0);
    section("parts without bytes");
    try(some, 1, MPI_INFO_NULL, 1);
    try(some, 1, hints, 0);
    try(none, 4, MPI_INFO_NULL, 1);
    section("large parts");
    alike[0] = 3 << 20;
    try(alike, 1, MPI_INFO_NULL, 1);
    OK(MPI_Info_free(&hints));
}

/* A flag in shared memory, passed on from rank to rank; only MPI_Win_sync orders. */
static void passed_on(void) {
    MPI_Win win;
    volatile int *flags = NULL, *left;
    MPI_Aint bytes;
    int unit;
    section("a token goes round");
    OK(MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, node, (void *)&flags, &win));
    OK(MPI_Win_shared_query(win, (rank + size - 1) % size, &bytes, &unit, (void *)&left));
    *flags = 0;
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Win_sync(win));
    OK(MPI_Barrier(node));
    for (int round = 1; round <= 20; round++) {
        if (rank > 0)
            while (*left < round) OK(MPI_Win_sync(win));
        OK(MPI_Win_sync(win));
        *flags = round;
        OK(MPI_Win_sync(win));
        if (rank == 0)
            while (*left < round) OK(MPI_Win_sync(win));
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

/* Many at once, freed in another order; their memory does not go with another one's. */
static void several(void) {
    enum { WINDOWS = 8 };
    MPI_Win wins[WINDOWS];
    unsigned char *bases[WINDOWS], *part;
    MPI_Aint bytes;
    int unit;
    section("several windows");
    for (int i = 0; i < WINDOWS; i++) {
        OK(MPI_Win_allocate_shared(5000, 1, MPI_INFO_NULL, node, &bases[i], &wins[i]));
        fill(bases[i], 5000, (unsigned)(i * 100 + rank));
    }
    OK(MPI_Barrier(node));
    for (int i = 0; i < WINDOWS; i += 2) OK(MPI_Win_free(&wins[i]));
    for (int i = 1; i < WINDOWS; i += 2) {
        for (int of = 0; of < size; of++) {
            OK(MPI_Win_shared_query(wins[i], of, &bytes, &unit, &part));
            VERIFY(part, 5000, (unsigned)(i * 100 + of));
        }
        OK(MPI_Win_free(&wins[i]));
    }
    for (int i = 0; i < 100; i++) {
        OK(MPI_Win_allocate_shared(1 << 16, 1, MPI_INFO_NULL, node, &bases[0], &wins[0]));
        bases[0][i] = 1;
        OK(MPI_Win_free(&wins[0]));
    }
}

/* What stands in shared memory is sent and received like anything else. */
static void messages(void) {
    MPI_Win win;
    unsigned char *mine;
    const int bytes = 200000;
    section("messages from and to shared memory");
    OK(MPI_Win_allocate_shared(2 * bytes, 1, MPI_INFO_NULL, node, &mine, &win));
    fill(mine, (size_t)bytes, (unsigned)rank);
    OK(MPI_Sendrecv(mine, bytes, MPI_BYTE, (rank + 1) % size, 3, mine + bytes, bytes, MPI_BYTE,
                    (rank + size - 1) % size, 3, node, MPI_STATUS_IGNORE));
    VERIFY(mine + bytes, (size_t)bytes, (unsigned)((rank + size - 1) % size));
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    OK(MPI_Comm_rank(node, &rank));
    OK(MPI_Comm_size(node, &size));
    placements();
    passed_on();
    several();
    messages();
    OK(MPI_Comm_free(&node));
    return check_close();
}
