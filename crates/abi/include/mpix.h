/* mpix.h of weft: what weft has beyond MPI. Other libraries do not have these functions: ask for WEFT_MPIX before
 * using them.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef WEFT_MPIX_H
#define WEFT_MPIX_H

#include <mpi.h>

#define WEFT_MPIX 1

#ifdef __cplusplus
extern "C" {
#endif

/* MPI_Cart_create for processes that exchange with others than their nearest neighbours: `stencil` has k offsets of
 * ndims steps each, one behind the other. With reorder the grid is mapped onto the machine for messages along them;
 * the topology of the new communicator is that of MPI_Cart_create. */
int MPIX_Cart_stencil_comm(MPI_Comm comm_old, int ndims, const int dims[], const int periods[], int reorder,
        const int stencil[], int k, MPI_Comm *comm_cart);

/* A grid of all processes of comm_old whose extents are chosen together with its mapping onto the machine: the entries
 * of dims that are 0, which are set. dim_weights are the areas of the whole domain across each axis, in proportion;
 * NULL for a cube. */
int MPIX_Cart_weighted_create(MPI_Comm comm_old, int ndims, const int dim_weights[], const int periods[],
        MPI_Info info, int dims[], MPI_Comm *comm_cart);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_MPIX_H */
