// ranks: 1 3 6
// What neighbours.c does, each call described, begun and waited for. (MPI 5.0, sections 8.8)
#define WAY_PLANNED
#include "ways.h"
#include "neighbours.c"
