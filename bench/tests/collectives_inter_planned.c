// ranks: 2 5
// What collectives_inter.c does, each call described, begun, waited for and freed. (MPI 5.0, section 6.13)
#define WAY_PLANNED
#include "ways.h"
#include "collectives_inter.c"
