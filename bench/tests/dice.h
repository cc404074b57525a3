/* Chance that comes again with its seed, for tests of what may happen at any moment. */
#ifndef WEFT_DICE_H
#define WEFT_DICE_H

#include <signal.h>
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

/* The system kills this process after that time, wherever it is then. */
static inline timer_t die_after(unsigned microseconds) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec time = {{0, 0}, {microseconds / 1000000, (long)(microseconds % 1000000) * 1000 + 1}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &time, NULL) != 0) raise(SIGABRT);
    return timer;
}

#endif
