/* What this rank knows of failures. */
#ifndef WEFT_KNOWN_H
#define WEFT_KNOWN_H

#include "check.h"

#include <mpix_ft.h>

/* How many of MPI_COMM_WORLD it knows to have failed. */
static int known_failed(void) {
    int count;
    MPI_Group failed;
    OK(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed));
    OK(MPI_Group_size(failed, &count));
    OK(MPI_Group_free(&failed));
    return count;
}

#endif
