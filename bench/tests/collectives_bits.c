// ranks: 2 3
// All ranks have the same bits of a sum, a product, a minimum and a maximum, also inside a NaN, whatever its length, and whether a
// rank's own elements stand in its result or apart.
#include "check.h"

#include <stdint.h>

enum { WORDS_MAX = 40000 };

static uint64_t out[WORDS_MAX], in[WORDS_MAX], first[WORDS_MAX];

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 4;
}

/* Numbers, and among them NaNs of both signs with something in them. */
static void draw(MPI_Datatype datatype, int words, uint64_t *state) {
    for (int at = 0; at < words; at++) {
        uint64_t bits = next(state), kind = next(state) % 8, sign = next(state) % 2;
        if (datatype == MPI_DOUBLE) {
            uint64_t exponent = kind < 3 ? 0x7ff8000000000000u : 0x3ff0000000000000u;
            out[at] = sign << 63 | exponent | (bits & 0x7ffffffffffffu);
        } else {
            uint64_t one = sign << 31 | (kind < 3 ? 0x7fc00000u : 0x3f800000u) | (bits & 0x3fffffu);
            out[at] = one << 32 | (one ^ 0x155);
        }
    }
}

int main(int argc, char **argv) {
    static const MPI_Op operators[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
    static const MPI_Datatype datatypes[] = {MPI_DOUBLE, MPI_FLOAT};
    check_open(argc, argv);
    uint64_t state = 5 + 77 * (uint64_t)check_rank;
    char name[80];
    for (int type = 0; type < 2; type++)
        for (int operator= 0; operator< 4; operator++)
            for (int words = 1; words <= WORDS_MAX; words = words < 80 ? words + 1 : words * 5 / 4)
                for (int who = 0; who < 4; who++) {
                    int in_place = who >> check_rank & 1, count = words * (type + 1);
                    snprintf(name, sizeof name, "datatype %d, operator %d, %d words, in place %d", type, operator, words, who);
                    section(name);
                    draw(datatypes[type], words, &state);
                    if (in_place) memcpy(in, out, 8 * (size_t)words);
                    const void *from = in_place ? MPI_IN_PLACE : out;
                    OK(MPI_Allreduce(from, in, count, datatypes[type], operators[operator], MPI_COMM_WORLD));
                    if (check_rank == 0) memcpy(first, in, 8 * (size_t)words);
                    OK(MPI_Bcast(first, words, MPI_UINT64_T, 0, MPI_COMM_WORLD));
                    SAME(memcmp(first, in, 8 * (size_t)words), 0);
                }
    return check_close();
}
