// ranks: 1 2 3 8
// Messages out of and into memory of MPI_Alloc_mem: contents over sizes and offsets, and after memory was freed and
// taken again. With the argument `plain` the memory is malloc's. (MPI 5.0, section 9.2)
#include "check.h"

static int plain;

static unsigned char *take(size_t bytes) {
    unsigned char *memory = NULL;
    if (plain) memory = malloc(bytes);
    else OK(MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory));
    CHECK(memory != NULL);
    return memory;
}

static void give_back(unsigned char *memory) {
    if (plain) free(memory);
    else OK(MPI_Free_mem(memory));
}

/* Everybody sends to the right and receives from the left. */
static void pass(unsigned char *out, unsigned char *in, int bytes, unsigned seed) {
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    MPI_Request request;
    fill(out, (size_t)bytes, seed + (unsigned)check_rank);
    fill(in, (size_t)bytes, ~seed);
    OK(MPI_Isend(out, bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Recv(in, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    VERIFY(in, (size_t)bytes, seed + (unsigned)left);
}

static void sizes_and_offsets(void) {
    const int sizes[] = {1, 8000, 8192, 8193, 70000, 1 << 20, (5 << 20) + 13};
    section("sizes and offsets");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t offset = 0; offset <= 5000; offset += 2500) {
            unsigned char *out = take((size_t)sizes[i] + offset), *in = take((size_t)sizes[i] + offset);
            pass(out + offset, in + offset, sizes[i], (unsigned)(100 * i + offset));
            give_back(out);
            give_back(in);
        }
    }
}

/* One block after another in the same place: what is received is of the last one. */
static void freed_and_taken_again(void) {
    unsigned char *in = malloc(400000);
    section("freed and taken again");
    for (unsigned turn = 0; turn < 30; turn++) {
        int bytes = 20000 + (int)(turn * 7919 % 380000);
        unsigned char *out = take((size_t)bytes);
        pass(out, in, bytes, 1000 + turn);
        give_back(out);
    }
    free(in);
}

static void many_at_once(void) {
    enum { BLOCKS = 100, BYTES = 30000 };
    static unsigned char *out[BLOCKS];
    unsigned char *in = malloc(BYTES);
    section("many at once");
    for (int i = 0; i < BLOCKS; i++) out[i] = take(BYTES);
    for (int i = 0; i < BLOCKS; i++) pass(out[i * 37 % BLOCKS], in, BYTES, 2000 + (unsigned)i);
    for (int i = 0; i < BLOCKS; i += 2) give_back(out[i]);
    for (int i = 0; i < BLOCKS; i += 2) out[i] = take(BYTES * 2);
    for (int i = 0; i < BLOCKS; i++) pass(out[i], in, BYTES, 3000 + (unsigned)i);
    for (int i = 0; i < BLOCKS; i++) give_back(out[i]);
    free(in);
}

/* Collective operations send parts of what they are given. */
static void collective(void) {
    enum { COUNT = 100000 };
    double *out = (double *)(void *)take(COUNT * sizeof *out), *in = (double *)(void *)take(COUNT * sizeof *in);
    section("collective");
    for (int i = 0; i < COUNT; i++) out[i] = i + check_rank;
    OK(MPI_Allreduce(out, in, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++) CHECK(in[i] == (double)check_size * i + check_size * (check_size - 1) / 2.0);
    give_back((unsigned char *)out);
    give_back((unsigned char *)in);
}

int main(int argc, char **argv) {
    plain = argc > 1 && strcmp(argv[1], "plain") == 0;
    check_open(argc, argv);
    sizes_and_offsets();
    freed_and_taken_again();
    many_at_once();
    collective();
    return check_close();
}
