// ranks: 1 2
// Which library answers, and that all ranks have the same one. Programs compiled once run on any
// library of the standard ABI; the runner looks at this line to know on which one it ran.
#include "check.h"

int main(int argc, char **argv) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {0}, first[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = -1;
    check_open(argc, argv);
    OK(MPI_Get_library_version(text, &length));
    memcpy(first, text, sizeof first);
    OK(MPI_Bcast(first, (int)sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD));
    CHECK(strcmp(first, text) == 0);
    if (check_rank == 0) printf("library: %.*s\n", (int)strcspn(text, "\n"), text);
    return check_close();
}
