/* mpix_ft.h of weft: going on when processes fail. MPI has no such functions yet; the names are those of "User Level
 * Failure Mitigation", which Open MPI has, too.
 *
 * A job whose survivors shall live is started by `weftrun --ft`. The communicators that are to tell of failures need another
 * error handler than MPI_ERRORS_ARE_FATAL.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef WEFT_MPIX_FT_H
#define WEFT_MPIX_FT_H

#include <mpi.h>

#define WEFT_MPIX_FT 1

/* Error classes. A process has failed that the operation needs; one has failed that the message of a receive from
 * MPI_ANY_SOURCE might have come from, and the request goes on; the communicator was revoked. */
#define MPIX_ERR_PROC_FAILED 4097
#define MPIX_ERR_PROC_FAILED_PENDING 4098
#define MPIX_ERR_REVOKED 4099

#ifdef __cplusplus
extern "C" {
#endif

/* The members of comm that this process knows to have failed, in the order in which it has learned of them: each answer
 * begins as those before it. Local. */
int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group *failed);

/* Acknowledges the first num_to_ack of them; num_acked says how many are. Receives from MPI_ANY_SOURCE wait among the living
 * again where all are. Local. */
int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int *num_acked);

/* The same for all of them, and those that are acknowledged: as they were called first. */
int MPIX_Comm_failure_ack(MPI_Comm comm);
int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *failed);

/* Makes comm useless at all its members, whatever they do and whoever fails meanwhile: what is under way in it ends with
 * MPIX_ERR_REVOKED, and so does what begins, but for MPIX_Comm_agree and MPIX_Comm_shrink. One member calls, or several. */
int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_is_revoked(MPI_Comm comm, int *flag);

/* Agrees on the bits of flag that all living members give. All of them get the same bits and the same error:
 * MPIX_ERR_PROC_FAILED where one has failed whom not all have acknowledged. Collective over those who live. */
int MPIX_Comm_agree(MPI_Comm comm, int *flag);

/* A communicator of the living members, in the order of their ranks. Collective over those who live. */
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_MPIX_FT_H */
