// ranks: 1 3 8
// What collectives_reduce.c does, each call begun and waited for. (MPI 5.0, sections 6.12)
#define WAY_BEGUN
#include "ways.h"
#include "collectives_reduce.c"
