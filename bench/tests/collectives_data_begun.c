// ranks: 1 2 3 8
// What collectives_data.c does, each call begun and waited for. (MPI 5.0, sections 6.12)
#define WAY_BEGUN
#include "ways.h"
#include "collectives_data.c"
