// ranks: 1 2 3 8
// What collectives_data.c does, each call described, begun and waited for. (MPI 5.0, sections 6.13)
#define WAY_PLANNED
#include "ways.h"
#include "collectives_data.c"
