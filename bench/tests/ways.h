/* Makes every blocking collective call of a test one of the other ways: with WAY_BEGUN it is begun and waited for, with
 * WAY_PLANNED described, begun, waited for and freed. A call answers what the first of these answers that fails. */
#ifndef WEFT_WAYS_H
#define WEFT_WAYS_H

#include "check.h"

static inline int way_end(int code, MPI_Request *request) {
    return code != MPI_SUCCESS ? code : MPI_Wait(request, MPI_STATUS_IGNORE);
}

static inline int way_do(int code, MPI_Request *request) {
    if (code != MPI_SUCCESS) return code;
    code = MPI_Start(request);
    if (code == MPI_SUCCESS) code = MPI_Wait(request, MPI_STATUS_IGNORE);
    int freed = MPI_Request_free(request);
    return code != MPI_SUCCESS ? code : freed;
}

static MPI_Request way_request;

#ifdef WAY_BEGUN
#define WAY(begun, planned, ...) way_end(begun(__VA_ARGS__, &way_request), &way_request)
#else
#define WAY(begun, planned, ...) way_do(planned(__VA_ARGS__, MPI_INFO_NULL, &way_request), &way_request)
#endif

#define MPI_Barrier(...) WAY(MPI_Ibarrier, MPI_Barrier_init, __VA_ARGS__)
#define MPI_Bcast(...) WAY(MPI_Ibcast, MPI_Bcast_init, __VA_ARGS__)
#define MPI_Gather(...) WAY(MPI_Igather, MPI_Gather_init, __VA_ARGS__)
#define MPI_Gatherv(...) WAY(MPI_Igatherv, MPI_Gatherv_init, __VA_ARGS__)
#define MPI_Scatter(...) WAY(MPI_Iscatter, MPI_Scatter_init, __VA_ARGS__)
#define MPI_Scatterv(...) WAY(MPI_Iscatterv, MPI_Scatterv_init, __VA_ARGS__)
#define MPI_Allgather(...) WAY(MPI_Iallgather, MPI_Allgather_init, __VA_ARGS__)
#define MPI_Allgatherv(...) WAY(MPI_Iallgatherv, MPI_Allgatherv_init, __VA_ARGS__)
#define MPI_Alltoall(...) WAY(MPI_Ialltoall, MPI_Alltoall_init, __VA_ARGS__)
#define MPI_Alltoallv(...) WAY(MPI_Ialltoallv, MPI_Alltoallv_init, __VA_ARGS__)
#define MPI_Alltoallw(...) WAY(MPI_Ialltoallw, MPI_Alltoallw_init, __VA_ARGS__)
#define MPI_Reduce(...) WAY(MPI_Ireduce, MPI_Reduce_init, __VA_ARGS__)
#define MPI_Allreduce(...) WAY(MPI_Iallreduce, MPI_Allreduce_init, __VA_ARGS__)
#define MPI_Reduce_scatter_block(...) WAY(MPI_Ireduce_scatter_block, MPI_Reduce_scatter_block_init, __VA_ARGS__)
#define MPI_Reduce_scatter(...) WAY(MPI_Ireduce_scatter, MPI_Reduce_scatter_init, __VA_ARGS__)
#define MPI_Scan(...) WAY(MPI_Iscan, MPI_Scan_init, __VA_ARGS__)
#define MPI_Exscan(...) WAY(MPI_Iexscan, MPI_Exscan_init, __VA_ARGS__)
#define MPI_Neighbor_allgather(...) WAY(MPI_Ineighbor_allgather, MPI_Neighbor_allgather_init, __VA_ARGS__)
#define MPI_Neighbor_allgatherv(...) WAY(MPI_Ineighbor_allgatherv, MPI_Neighbor_allgatherv_init, __VA_ARGS__)
#define MPI_Neighbor_alltoall(...) WAY(MPI_Ineighbor_alltoall, MPI_Neighbor_alltoall_init, __VA_ARGS__)
#define MPI_Neighbor_alltoallv(...) WAY(MPI_Ineighbor_alltoallv, MPI_Neighbor_alltoallv_init, __VA_ARGS__)
#define MPI_Neighbor_alltoallw(...) WAY(MPI_Ineighbor_alltoallw, MPI_Neighbor_alltoallw_init, __VA_ARGS__)

#endif
