// ranks: 1 2
// launch: -x WEFT_NODE=3
// A part of a host that is taken for a node has a name of its own, so that programs which count nodes by names find as many.
#define _GNU_SOURCE 1
#include "check.h"

int main(int argc, char **argv) {
    char name[MPI_MAX_PROCESSOR_NAME], host[200], right[256];
    int length;
    check_open(argc, argv);
    OK(MPI_Get_processor_name(name, &length));
    SAME(length, (int)strlen(name));
    CHECK(gethostname(host, sizeof host) == 0);
    snprintf(right, sizeof right, "%s-3", host);
    if (strcmp(name, right)) fprintf(stderr, "%s instead of %s\n", name, right);
    CHECK(!strcmp(name, right) || check_library_is("MPICH"));
    return check_close();
}
