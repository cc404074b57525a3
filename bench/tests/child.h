/* A rank that is a child of what the launcher has started: it may die without the launcher's ending the job. */
#ifndef WEFT_CHILD_H
#define WEFT_CHILD_H

#include "check.h"

#include <sys/wait.h>

/* What this process is to be: its child is the rank. */
static void be_a_child(void) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) return;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
    for (;;) pause(); /* until the launcher ends the job */
}

#endif
