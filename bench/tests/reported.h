/* What members are told whose calls do not fit together, under WEFT_CHECK=1. */
#ifndef WEFT_REPORTED_H
#define WEFT_REPORTED_H

#include "check.h"

/* Every rank gets the class, and the text names both. */
static void reported(int code, const char *first, const char *second) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    CLASS(code, MPI_ERR_NOT_SAME);
    OK(MPI_Error_string(code, text, &length));
    if (!strstr(text, first) || !strstr(text, second)) check_failed(__FILE__, __LINE__, text);
}

#endif
