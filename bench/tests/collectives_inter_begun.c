// ranks: 2 5
// What collectives_inter.c does, each call begun and waited for. (MPI 5.0, section 6.12)
#define WAY_BEGUN
#include "ways.h"
#include "collectives_inter.c"
