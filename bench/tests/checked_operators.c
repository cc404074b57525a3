// ranks: 2
// launch: -x WEFT_CHECK=1
// With WEFT_CHECK=1 each rank says once for each predefined operator with a predefined datatype that the standard does not have
// the two; the operation is done all the same.
#include "check.h"

#include <fcntl.h>

static char said[1 << 16];

/* What this process writes to its standard error from here on goes into a pipe. */
static int begin_reading(int *before) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    *before = dup(2);
    CHECK(*before >= 0 && dup2(ends[1], 2) == 2);
    close(ends[1]);
    CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    return ends[0];
}

static void end_reading(int from, int before) {
    size_t bytes = 0;
    ssize_t got;
    CHECK(dup2(before, 2) == 2);
    while ((got = read(from, said + bytes, sizeof said - 1 - bytes)) > 0) bytes += (size_t)got;
    said[bytes] = '\0';
    close(from);
    close(before);
}

static int times(const char *words) {
    int count = 0;
    for (const char *at = said; (at = strstr(at, words)); at += strlen(words)) count++;
    return count;
}

int main(int argc, char **argv) {
    char letters[2] = {1, 2}, sums[2];
    MPI_Aint address = 1, both = 0;
    int number = 1, sum = 0, before, from;
    MPI_Request request;
    check_open(argc, argv);
    section("pairs in the standard's table and outside of it");
    from = begin_reading(&before);
    for (int turn = 0; turn < 3; turn++) {
        OK(MPI_Allreduce(letters, sums, 2, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD));
        CHECK(sums[0] == 2 && sums[1] == 4);
        OK(MPI_Iallreduce(letters, sums, 2, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(sums[0] == 1 && sums[1] == 2);
        OK(MPI_Reduce_local(&address, &both, 1, MPI_AINT, MPI_LOR));
        CHECK(both == 1);
        OK(MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK(sum == 2);
    }
    end_reading(from, before);
    if (!check_library_is("MPICH")) {
        SAME(times("MPI_SUM of MPI_CHAR is outside the table"), 1);
        SAME(times("MPI_MAX of MPI_CHAR is outside the table"), 1);
        SAME(times("MPI_LOR of MPI_AINT is outside the table"), 1);
        SAME(times("is outside the table"), 3);
    }
    return check_close();
}
