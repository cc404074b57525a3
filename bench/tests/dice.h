/* Chance that comes again with its seed, for tests of what may happen at any moment. */
#ifndef WEFT_DICE_H
#define WEFT_DICE_H

#include <time.h>

static unsigned dice;

static unsigned draw(unsigned sides) {
    dice = dice * 1664525u + 1013904223u;
    return (dice >> 8) % sides;
}

/* A moment of computing that is not the same everywhere. */
static inline void linger(unsigned microseconds_max) {
    struct timespec time = {0, (long)draw(microseconds_max + 1) * 1000};
    nanosleep(&time, NULL);
}

#endif
