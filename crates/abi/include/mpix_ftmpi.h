/* mpix_ftmpi.h of weft: FT-MPI's names for going on when processes fail. Who includes it, behind or in place of mpi.h, gets
 * - an MPI_Init and MPI_Init_thread that answer MPI_INIT_RESTARTED_NODE in a process that was started in the place of another
 *   one, where MPIX_Process_incarnation says the same;
 * - an MPI_Comm_dup that recovers where the answer is FT_MPI_CHECK_RECOVER beforehand:
 *       MPI_Comm newcomm = FT_MPI_CHECK_RECOVER;
 *       MPI_Comm_dup(MPI_COMM_WORLD, &newcomm);
 *   It is MPIX_Comm_recover, by the mode of the communicator. Every other call sets the answer to MPI_COMM_NULL beforehand, or to
 *   anything else; what is left there by chance could be taken for that value.
 * - MPI_ERR_OTHER in place of MPIX_ERR_PROC_FAILED, in a program that begins with this MPI_Init;
 * - keys of attributes, which MPI_Comm_get_attr knows of each communicator.
 * All files of a program that call these functions include it.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef WEFT_MPIX_FTMPI_H
#define WEFT_MPIX_FTMPI_H

#include <mpix_ft.h>

#define FT_MPI_CHECK_RECOVER ((MPI_Comm)0xf7d)
#define MPIX_INIT_RESTARTED_NODE 4100
#define MPI_INIT_RESTARTED_NODE MPIX_INIT_RESTARTED_NODE

/* Keys of numbers, by their values: how it recovers (FTMPI_RECOVERY_MANUAL: when the program says so), MPIX_FT_MODE_...,
 * MPIX_FT_MSG_..., MPIX_FT_COLL_...; how many members are known to have failed since the last recovery. */
#define FTMPI_RECOVERY_MODE 4001
#define FTMPI_COMM_MODE 4002
#define FTMPI_MSG_MODE 4003
#define FTMPI_COLL_MODE 4004
#define FTMPI_NUM_FAILED_PROCS 4005
#define FTMPI_RECOVERY_MANUAL 1

#ifdef __cplusplus
extern "C" {
#endif

int MPIX_FTMPI_Init(int *argc, char ***argv);
int MPIX_FTMPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPIX_FTMPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm);

#ifdef __cplusplus
}
#endif

#define MPI_Init MPIX_FTMPI_Init
#define MPI_Init_thread MPIX_FTMPI_Init_thread
#define MPI_Comm_dup MPIX_FTMPI_Comm_dup

#endif /* WEFT_MPIX_FTMPI_H */
