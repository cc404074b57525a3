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

/* What becomes of a communicator that has lost members: nothing by itself; the job ends; their places stay blank; a new
 * communicator has the others; new processes come into their places, which only MPI_COMM_WORLD can have. */
#define MPIX_FT_MODE_NONE 0
#define MPIX_FT_MODE_ABORT 1
#define MPIX_FT_MODE_BLANK 2
#define MPIX_FT_MODE_SHRINK 3
#define MPIX_FT_MODE_REBUILD 4
/* What becomes of its messages. RESET: what was sent before a recovery is not received after it, and from a failure until the
 * recovery nobody sends or receives. CONT: what goes between two who live goes on. */
#define MPIX_FT_MSG_RESET 0
#define MPIX_FT_MSG_CONT 1
/* Each member learns by itself whether a collective operation succeeded; or all learn the same, which costs each operation an
 * agreement. Planned ones (MPI_..._init), MPI_Comm_idup and those of inter-communicators are LOCAL in any case. */
#define MPIX_FT_COLL_LOCAL 0
#define MPIX_FT_COLL_ATOMIC 1
/* A blank rank is for messages as MPI_PROC_NULL; or an error, MPI_ERR_RANK. */
#define MPIX_FT_P2P_PROC_NULL 0
#define MPIX_FT_P2P_ERROR 1
/* A recovery of MPI_COMM_WORLD is one of all communicators that were made, too. What shrinks keeps its handle. */
#define MPIX_RECOVER_ALL 1
#define MPIX_RECOVER_IN_PLACE 2

/* What a recovery has come to: how often the communicator has recovered; by what mode; who was taken out or became blank now,
 * or (REBUILD) is new in a place of theirs, a group that is to be freed; how many are new; and how many collective operations the
 * members had completed (MPIX_Comm_coll_count): as many as coll_min have succeeded everywhere, no more than coll_max anywhere. Both
 * are -1 for what has recovered with the world (MPIX_RECOVER_ALL). */
typedef struct {
    int generation;
    int mode;
    MPI_Group failed;
    int restarted;
    MPI_Count coll_min, coll_max;
} MPIX_Recover_info;

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

/* Agrees on who has failed: all living members get the same group, in the same order. In it is whomever one of them knew to have
 * failed when it called this, and who is blank; each of them knows all of these afterwards (MPIX_Comm_get_failed). It succeeds
 * whoever fails, in a revoked communicator too, and acknowledges nothing. The group is to be freed. Collective over those who
 * live. */
int MPIX_Comm_agree_failed(MPI_Comm comm, MPI_Group *failed);

/* A communicator of the living members, in the order of their ranks. Collective over those who live. */
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);

/* The same three, to be waited for; flag is read at once, and it and the group are written at the end. */
int MPIX_Comm_iagree_failed(MPI_Comm comm, MPI_Group *failed, MPI_Request *request);
int MPIX_Comm_iagree(MPI_Comm comm, int *flag, MPI_Request *request);
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request);

/* How comm recovers; all members say the same. Those that are made from it begin with that. Local. */
int MPIX_Comm_set_ft_mode(MPI_Comm comm, int comm_mode, int msg_mode, int coll_mode, int p2p_policy);
int MPIX_Comm_get_ft_mode(MPI_Comm comm, int *comm_mode, int *msg_mode, int *coll_mode, int *p2p_policy);

/* Makes comm usable again when members have failed or it was revoked, by its mode, whoever fails meanwhile; all who live get
 * the same answer. newcomm is the new communicator (SHRINK) or comm itself (BLANK and REBUILD, where it may be NULL); info may
 * be NULL. Processes that are started again take part within MPI_Init, and have no other communicators than MPI_COMM_WORLD
 * and MPI_COMM_SELF. Where none can be started (no launcher that does so, or too often) the mode is BLANK, at all alike.
 * Where nothing has happened, nothing changes. Collective over those who live.
 * flags is 0, or has these, the same at all members:
 * MPIX_RECOVER_IN_PLACE: what shrinks has the handle of the one before, and newcomm may be NULL: ask for rank and size again. Only with
 *   MPIX_FT_MSG_RESET. Attributes, name and error handler stay; a topology where nobody was lost.
 * MPIX_RECOVER_ALL, of MPI_COMM_WORLD: whoever has failed is blank afterwards in all communicators that were made; where the
 *   world shrinks (with MPIX_RECOVER_IN_PLACE only) all of them shrink. With RESET all of them begin anew, and who waits in one when
 *   another has come here to recover from something gets MPIX_ERR_REVOKED; so handlers that all call this wait for each other
 *   in nothing else. */
int MPIX_Comm_recover(MPI_Comm comm, int flags, MPI_Comm *newcomm, MPIX_Recover_info *info);

/* What the last recovery of comm has come to, where there was one (flag): also for who was started again by it. Local. */
int MPIX_Comm_last_recovery(MPI_Comm comm, int *flag, MPIX_Recover_info *info);

/* How many collective operations of comm this process has completed since comm was made or has recovered. To make a communicator
 * from it counts as well, as all that this takes; so compare these numbers with each other. Local. */
int MPIX_Comm_coll_count(MPI_Comm comm, MPI_Count *count);

/* How often there was another process in the place of this one before it: 0 for who was there from the beginning. Local. */
int MPIX_Process_incarnation(int *incarnation);

/* A descriptor that becomes readable when some process of the job has failed, a member of any communicator or not: for programs that
 * sleep in poll(2) or the like. Read what is there, which never blocks, before you ask MPIX_Comm_get_failed who it is; what
 * the bytes are means nothing. It is not readable while nobody has failed, nor for those of whom a call has told before. Each call
 * gives another one, each of which is told of all; close(2) it whenever you like, before or after MPI_Finalize, from which on read(2)
 * gives 0. Other programs (exec) do not inherit it; a child that is forked does, and what it reads its parent does not.
 * Under `weftrun --ft` it tells whatever this process does meanwhile; under other launchers, when a call of MPI of this process has
 * learned of a failure, so call MPI_Iprobe or the like now and then there. Local. */
int MPIX_Failure_fd(int *fd);

/* Which places are blank since a recovery, and which are not; how many are not; how often comm has recovered. Of an
 * inter-communicator these are of both groups, and `rank` is one of the other group. Local. */
int MPIX_Comm_blank_group(MPI_Comm comm, MPI_Group *blank);
int MPIX_Comm_live_group(MPI_Comm comm, MPI_Group *live);
int MPIX_Comm_is_blank(MPI_Comm comm, int rank, int *flag);
int MPIX_Comm_live_size(MPI_Comm comm, int *size);
int MPIX_Comm_generation(MPI_Comm comm, int *generation);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_MPIX_FT_H */
