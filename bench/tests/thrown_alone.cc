// ranks: 1 2
// What thrown.cc does, in a program that has promised to call from one thread alone: its locks are of another kind.
#define LEVEL MPI_THREAD_SINGLE
#include "thrown.cc"
