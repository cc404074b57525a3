/* How far apart two cpus are at this moment.
 *
 * The cpus of a virtual machine move: for a second or two they are neighbours on one chip, and then they are not, where a cache line
 * takes three times as long from one to the other. What is measured now and then in one place or the other tells of the machine and
 * not of a library. So two processes may wait, before each timed block, until their cpus are as far apart as somebody has said: by
 * a line each way, over memory that they share, with no library between. */
#ifndef WEFT_APART_H
#define WEFT_APART_H

/* Half a round trip, in seconds, that is wanted; `most` is 0 where any will do. */
struct apart {
    double least, most;
    struct apart_lines *lines;
    unsigned long turn;
};

/* Zero at the start; each word has its line, and the neighbour that the hardware fetches with it, to itself. */
struct apart_lines {
    unsigned long there[16], back[16], verdict[16];
};

/* Both call, at the same points. Whether they were as far apart as is wanted before it took too long; the same answer at both. */
int apart_settle(struct apart *apart, int rank);

#endif
