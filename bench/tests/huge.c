// ranks: 2
// bare: it maps more memory than a sanitizer leaves
// not libfabric: the lengths are the engine's affair, and each run takes gigabytes of copies
// Messages of more than 2^31 bytes, and counts and extents beyond 2^31, of datatypes with and without gaps. Memory is mapped
// and used where something stands or comes, which takes some 3 GiB for a moment.
// (MPI 5.0, sections 2.5.8, 3.2, 4.1.5, 5.1)
#define _GNU_SOURCE
#include "check.h"

#include <sys/mman.h>

#define GIB ((MPI_Count)1 << 30)

static unsigned char *map(size_t bytes, int sparse) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED);
    /* Where few bytes are used, large pages would take much memory; where all are, small ones much time. */
    madvise(at, bytes, sparse ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    return at;
}

/* A few blocks that stand gigabytes apart: extents and spans beyond 2^31, and little data. */
static void far_apart(void) {
    enum { BLOCKS = 5, INTS = 300 };
    MPI_Count stride = 3 * GIB + 64, size = -1, lb = -1, extent = -1, count = -1;
    MPI_Datatype sparse, wide;
    MPI_Status status;
    int narrow = 0;
    unsigned char *memory = map((size_t)(BLOCKS * stride), 1);
    section("blocks gigabytes apart");
    OK(MPI_Type_create_hvector_c(BLOCKS, INTS, stride, MPI_INT, &sparse));
    OK(MPI_Type_commit(&sparse));
    OK(MPI_Type_size_c(sparse, &size));
    OK(MPI_Type_get_extent_c(sparse, &lb, &extent));
    SAME(size, BLOCKS * INTS * 4);
    SAME(extent, (BLOCKS - 1) * stride + INTS * 4);
    OK(MPI_Type_size(sparse, &narrow));
    SAME(narrow, BLOCKS * INTS * 4);
    if (check_rank == 0) {
        for (int b = 0; b < BLOCKS; b++) fill(memory + b * stride, INTS * 4, 1 + (unsigned)b);
        OK(MPI_Send(memory, 1, sparse, 1, 1, MPI_COMM_WORLD));
    } else {
        OK(MPI_Recv(memory, 1, sparse, 0, 1, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count_c(&status, sparse, &count));
        SAME(count, 1);
        OK(MPI_Get_elements_c(&status, sparse, &count));
        SAME(count, BLOCKS * INTS);
        for (int b = 0; b < BLOCKS; b++) VERIFY(memory + b * stride, INTS * 4, 1 + (unsigned)b);
        UNTOUCHED(memory + INTS * 4, 4096, 0);
    }
    section("the same as elements gigabytes apart, backwards");
    OK(MPI_Type_create_resized_c(MPI_DOUBLE, 0, -stride, &wide));
    OK(MPI_Type_commit(&wide));
    OK(MPI_Type_get_extent_c(wide, &lb, &extent));
    SAME(extent, -stride);
    unsigned char *last = memory + (BLOCKS - 1) * stride;
    for (int b = 0; b < BLOCKS; b++) fill(last - b * stride, 8, 20 + (unsigned)b * (check_rank == 0));
    if (check_rank == 0) {
        OK(MPI_Send_c(last, BLOCKS, wide, 1, 2, MPI_COMM_WORLD));
    } else {
        OK(MPI_Recv_c(last, BLOCKS, wide, 0, 2, MPI_COMM_WORLD, &status));
        for (int b = 0; b < BLOCKS; b++) VERIFY(last - b * stride, 8, 20 + (unsigned)b);
    }
    section("packed and unpacked");
    char room[BLOCKS * INTS * 4 + 64];
    MPI_Count position = 0, room_bytes = 0;
    OK(MPI_Pack_size_c(1, sparse, MPI_COMM_SELF, &room_bytes));
    CHECK(room_bytes >= BLOCKS * INTS * 4 && room_bytes <= (MPI_Count)sizeof room);
    for (int b = 0; b < BLOCKS; b++) fill(memory + b * stride, INTS * 4, 40 + (unsigned)b);
    OK(MPI_Pack_c(memory, 1, sparse, room, sizeof room, &position, MPI_COMM_SELF));
    SAME(position, BLOCKS * INTS * 4);
    for (int b = 0; b < BLOCKS; b++) memset(memory + b * stride, 0, INTS * 4);
    position = 0;
    OK(MPI_Unpack_c(room, sizeof room, &position, memory, 1, sparse, MPI_COMM_SELF));
    for (int b = 0; b < BLOCKS; b++) VERIFY(memory + b * stride, INTS * 4, 40 + (unsigned)b);
    OK(MPI_Type_free(&sparse));
    OK(MPI_Type_free(&wide));
    munmap(memory, (size_t)(BLOCKS * stride));
}

/* Elements of 192 bytes, so many that they are more than 2^31; every 4096th holds its number. */
enum { EACH = 192, APART = 256, STAMPED = 4096 };
static const MPI_Count MANY = 2 * GIB / EACH + 1000;

static void stamp(unsigned char *memory, MPI_Count distance) {
    for (MPI_Count e = 0; e < MANY; e += STAMPED) memcpy(memory + e * distance, &e, sizeof e);
}

static void stamped(const unsigned char *memory, MPI_Count distance) {
    for (MPI_Count e = 0, got = -1; e < MANY; e += STAMPED, got = -1) {
        memcpy(&got, memory + e * distance, sizeof got);
        SAME(got, e);
        SAME(memory[e * distance + 100], 0);
    }
}

/* Sends them from a layout to another one; then, between like ones, to a receive that is ten too short. */
static void long_message(MPI_Datatype from, MPI_Count from_apart, MPI_Datatype to, MPI_Count to_apart) {
    MPI_Count apart = check_rank == 0 ? from_apart : to_apart, count = -1;
    unsigned char *memory = map((size_t)(MANY * apart), check_rank == 0);
    MPI_Status status;
    int narrow = 0;
    if (check_rank == 0) {
        stamp(memory, from_apart);
        OK(MPI_Send_c(memory, MANY, from, 1, 3, MPI_COMM_WORLD));
        if (from == to) OK(MPI_Send_c(memory, MANY, from, 1, 4, MPI_COMM_WORLD));
    } else {
        OK(MPI_Recv_c(memory, MANY, to, 0, 3, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count_c(&status, MPI_BYTE, &count));
        SAME(count, MANY * EACH);
        OK(MPI_Get_count_c(&status, to, &count));
        SAME(count, MANY);
        OK(MPI_Get_elements_c(&status, to, &count));
        SAME(count, MANY * EACH);
        OK(MPI_Get_elements(&status, to, &narrow));
        SAME(narrow, MPI_UNDEFINED);
        OK(MPI_Get_count(&status, MPI_BYTE, &narrow));
        SAME(narrow, MPI_UNDEFINED);
        stamped(memory, to_apart);
    }
    if (check_rank == 1 && from == to) {
        memset(memory + (MANY - 10) * to_apart, 0x66, (size_t)(10 * to_apart));
        CLASS(MPI_Recv_c(memory, MANY - 10, to, 0, 4, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE);
        UNTOUCHED(memory + (MANY - 10) * to_apart, (size_t)(10 * to_apart), 0x66);
    }
    munmap(memory, (size_t)(MANY * apart));
}

static void long_messages(void) {
    MPI_Datatype row, gaps;
    MPI_Count position = 0, room_bytes = 0;
    OK(MPI_Type_contiguous(EACH, MPI_BYTE, &row));
    OK(MPI_Type_commit(&row));
    OK(MPI_Type_create_resized(row, 0, APART, &gaps));
    OK(MPI_Type_commit(&gaps));
    section("more than 2 GiB in a row");
    long_message(row, EACH, row, EACH);
    section("more than 2 GiB with gaps");
    long_message(gaps, APART, gaps, APART);
    section("more than 2 GiB from a row to where there are gaps");
    long_message(row, EACH, gaps, APART);
    section("more than 2 GiB from where there are gaps to a row");
    long_message(gaps, APART, row, EACH);
    if (check_rank == 0) {
        section("more than 2 GiB packed and unpacked");
        OK(MPI_Pack_size_c(MANY, gaps, MPI_COMM_SELF, &room_bytes));
        CHECK(room_bytes >= MANY * EACH);
        unsigned char *memory = map((size_t)(MANY * APART), 1), *room = map((size_t)room_bytes, 0);
        stamp(memory, APART);
        OK(MPI_Pack_c(memory, MANY, gaps, room, room_bytes, &position, MPI_COMM_SELF));
        SAME(position, MANY * EACH);
        stamped(room, EACH);
        memset(memory + 5 * STAMPED * (MPI_Count)APART, 0, sizeof(MPI_Count));
        memset(memory + (MANY - MANY % STAMPED) * APART, 0, sizeof(MPI_Count));
        position = 0;
        OK(MPI_Unpack_c(room, room_bytes, &position, memory, MANY, gaps, MPI_COMM_SELF));
        SAME(position, MANY * EACH);
        stamped(memory, APART);
        munmap(memory, (size_t)(MANY * APART));
        munmap(room, (size_t)room_bytes);
    }
    OK(MPI_Type_free(&row));
    OK(MPI_Type_free(&gaps));
}

/* The elements of a send may stand on each other, so that gigabytes of message need megabytes of memory. */
static void over_and_over(void) {
    enum { MIB = 1 << 20, BLOCK = 1024, LONGEST = 4100, LONG = 2100 };
    unsigned char *chunk = map(2 * MIB, 0);
    MPI_Datatype blocks, again;
    MPI_Status status;
    MPI_Count count = -1;
    OK(MPI_Type_vector(MIB / BLOCK, BLOCK, 2 * BLOCK, MPI_BYTE, &blocks));
    OK(MPI_Type_create_resized(blocks, 0, 0, &again));
    OK(MPI_Type_commit(&again));
    OK(MPI_Type_free(&blocks));
    section("more than 4 GiB that nobody has room for");
    for (int b = 0; b < MIB / BLOCK; b++) fill(chunk + 2 * b * BLOCK, BLOCK, (unsigned)b);
    if (check_rank == 0) {
        OK(MPI_Send_c(chunk, LONGEST, again, 1, 5, MPI_COMM_WORLD));
        section("more than 2 GiB out of 2 MiB");
        MPI_Request request;
        OK(MPI_Issend_c(chunk, LONG, again, 1, 6, MPI_COMM_WORLD, &request));
        OK(MPI_Type_free(&again));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Probe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count_c(&status, MPI_BYTE, &count));
        SAME(count, (MPI_Count)LONGEST * MIB);
        OK(MPI_Get_elements_c(&status, again, &count));
        SAME(count, (MPI_Count)LONGEST * MIB);
        OK(MPI_Get_count_c(&status, again, &count));
        SAME(count, LONGEST);
        unsigned char *row = map((size_t)LONG * MIB, 0);
        row[MIB] = 0x66;
        CLASS(MPI_Recv_c(row, MIB, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        for (int b = 0; b < MIB / BLOCK; b++) VERIFY(row + b * BLOCK, BLOCK, (unsigned)b);
        SAME(row[MIB], 0x66);
        section("more than 2 GiB out of 2 MiB");
        memset(row, 0, MIB);
        OK(MPI_Recv_c(row, (MPI_Count)LONG * MIB, MPI_BYTE, 0, 6, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count_c(&status, MPI_BYTE, &count));
        SAME(count, (MPI_Count)LONG * MIB);
        for (int b = 0; b < MIB / BLOCK; b++) VERIFY(row + b * BLOCK, BLOCK, (unsigned)b);
        for (size_t i = 1; i < LONG; i++) CHECK(memcmp(row, row + i * MIB, MIB) == 0);
        munmap(row, (size_t)LONG * MIB);
        OK(MPI_Type_free(&again));
    }
    munmap(chunk, 2 * MIB);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    far_apart();
    long_messages();
    over_and_over();
    return check_close();
}
