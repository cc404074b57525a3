/* Windows of every flavor on memory of the same size, for tests of one-sided communication. */
#ifndef WEFT_ONE_SIDED_H
#define WEFT_ONE_SIDED_H

#include "check.h"

/* What libraries of an older standard do not have. */
#if MPI_VERSION < 4
#define MPI_Put_c MPI_Put
#define MPI_Get_c MPI_Get
#define MPI_Accumulate_c MPI_Accumulate
#define MPI_Get_accumulate_c MPI_Get_accumulate
#define MPI_Rput_c MPI_Rput
#define MPI_Rget_c MPI_Rget
#define MPI_Raccumulate_c MPI_Raccumulate
#define MPI_Rget_accumulate_c MPI_Rget_accumulate
#endif

enum flavor { CREATED, ALLOCATED, SHARED, DYNAMIC, FLAVORS };
static const char *const FLAVOR_NAMES[FLAVORS] = {"created", "allocated", "shared", "dynamic"};

struct window {
    enum flavor flavor;
    MPI_Comm comm; /* of all; of a node, where they share memory */
    int rank, size, unit;
    MPI_Win win;
    unsigned char *base;
    MPI_Aint *starts; /* addresses of all members' memory, in a dynamic window */
};

/* A window on `bytes` at this rank, with displacements in units of `unit` where it can have them. */
static inline void window_open(struct window *window, enum flavor flavor, MPI_Aint bytes, int unit) {
    MPI_Aint start = 0;
    MPI_Info none = MPI_INFO_NULL;
    window->flavor = flavor;
    window->unit = flavor == DYNAMIC ? 1 : unit;
    if (flavor == SHARED)
        OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, none, &window->comm));
    else
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &window->comm));
    OK(MPI_Comm_rank(window->comm, &window->rank));
    OK(MPI_Comm_size(window->comm, &window->size));
    window->starts = malloc((size_t)window->size * sizeof *window->starts);
    if (flavor == CREATED || flavor == DYNAMIC) window->base = malloc((size_t)bytes + 1);
    switch (flavor) {
    case CREATED: OK(MPI_Win_create(window->base, bytes, unit, none, window->comm, &window->win)); break;
    case ALLOCATED: OK(MPI_Win_allocate(bytes, unit, none, window->comm, &window->base, &window->win)); break;
    case SHARED: OK(MPI_Win_allocate_shared(bytes, unit, none, window->comm, &window->base, &window->win)); break;
    default:
        OK(MPI_Win_create_dynamic(none, window->comm, &window->win));
        OK(MPI_Win_attach(window->win, window->base, bytes));
        OK(MPI_Get_address(window->base, &start));
    }
    OK(MPI_Allgather(&start, 1, MPI_AINT, window->starts, 1, MPI_AINT, window->comm));
}

static inline void window_close(struct window *window) {
    OK(MPI_Barrier(window->comm)); /* nobody detaches what another still uses */
    if (window->flavor == DYNAMIC) OK(MPI_Win_detach(window->win, window->base));
    OK(MPI_Win_free(&window->win));
    if (window->flavor == CREATED || window->flavor == DYNAMIC) free(window->base);
    OK(MPI_Comm_free(&window->comm));
    free(window->starts);
}

/* The displacement of byte `at` of a member's memory. */
static inline MPI_Aint displacement(const struct window *window, int target, MPI_Aint at) {
    return window->flavor == DYNAMIC ? MPI_Aint_add(window->starts[target], at) : at / window->unit;
}

/* Between these two a member loads and stores its own memory, whatever model the window has. */
static inline void own_begin(const struct window *window) {
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, window->rank, 0, window->win));
}

static inline void own_end(const struct window *window) { OK(MPI_Win_unlock(window->rank, window->win)); }

#endif
