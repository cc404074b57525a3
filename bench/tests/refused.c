// ranks: 2 3 4
// not libfabric: its provider shm asks the kernel for itself, and has no other way
// The kernel refuses to copy between the memories of two processes: to one rank from the beginning,
// to others from the middle of the run on, for one peer only, in the midst of messages, and at last to
// all. Whatever it refuses, every message arrives as it was sent. (Where the library never asks the
// kernel for that, as over sockets, this is a test of large messages.)
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { BYTES_MAX = 8 << 20, MANY = 6, TAG = 3 };

static const int sizes[] = {1,           8 << 10,        (8 << 10) + 1, 20000, 64 << 10,
                            (64 << 10) + 8, (256 << 10) + 5, 1 << 20,       3000001};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int pids[64];
static unsigned char *incoming, *outgoing;
static int round_number;

/* From now on the kernel answers EPERM when this process reads or writes another's memory: that of process
 * `pid`, or everybody's where it is 0. A filter cannot be taken back. */
static void refuse(int pid) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, pid == 0 ? 0 : (unsigned)pid, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, pid == 0 ? UINT32_MAX : (unsigned)pid, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    char word[8] = {0};
    struct iovec here = {word, sizeof word}, there = {outgoing, sizeof word};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
    errno = 0;
    CHECK(process_vm_readv(pid == 0 ? getpid() : pid, &here, 1, &there, 1, 0) == -1 && errno == EPERM);
    errno = 0;
    CHECK(process_vm_writev(pid == 0 ? getpid() : pid, &here, 1, &there, 1, 0) == -1 && errno == EPERM);
}

/* What rank `from` sends to rank `to` as its message `number` of this round, at byte `at`: eight bytes. */
static uint64_t word_at(int from, int to, int number, int at) {
    uint64_t seed = (uint64_t)((round_number * 64 + from) * 64 + to) * 64 + (uint64_t)number;
    return (seed + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)at * 0xbf58476d1ce4e5b9u;
}

static void write_message(unsigned char *bytes, int size, int from, int to, int number) {
    for (int at = 0; at < size; at += 8) {
        uint64_t word = word_at(from, to, number, at);
        memcpy(bytes + at, &word, (size_t)(size - at < 8 ? size - at : 8));
    }
}

static void check_bytes(const unsigned char *bytes, int size, int from, int to, int number) {
    for (int at = 0; at < size; at += 8) {
        uint64_t word = word_at(from, to, number, at);
        if (memcmp(bytes + at, &word, (size_t)(size - at < 8 ? size - at : 8)) != 0) {
            fprintf(stderr, "from rank %d, message %d of %d bytes: byte %d\n", from, number, size, at);
            CHECK(!"a message came as it was sent");
        }
    }
}

/* A message of `size` bytes to `to` and one from `from`, started in one of four ways. */
static void exchange(int size, int to, int from, int way) {
    MPI_Request requests[2];
    MPI_Status status;
    int count;
    write_message(outgoing, size, check_rank, to, way);
    memset(incoming, 0, (size_t)size);
    if (way == 0) {
        OK(MPI_Irecv(incoming, size, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Isend(outgoing, size, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &requests[1]));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    } else if (way == 1) {
        OK(MPI_Isend(outgoing, size, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Probe(from, TAG, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        SAME(count, size);
        OK(MPI_Recv(incoming, size, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    } else if (way == 2) {
        OK(MPI_Irecv(incoming, size, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Ssend(outgoing, size, MPI_BYTE, to, TAG, MPI_COMM_WORLD));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Sendrecv(outgoing, size, MPI_BYTE, to, TAG, incoming, size, MPI_BYTE, from, TAG, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    }
    check_bytes(incoming, size, from, check_rank, way);
}

/* Messages of all sizes between all, in both directions at once. */
static void all_sizes(void) {
    round_number++;
    for (int distance = 1; distance < check_size; distance++) {
        int to = (check_rank + distance) % check_size;
        int from = (check_rank + check_size - distance) % check_size;
        for (int i = 0; i < SIZES; i++)
            for (int way = 0; way < 4; way++) exchange(sizes[i], to, from, way);
        exchange(BYTES_MAX, to, from, distance % 4);
    }
}

/* Many messages under way at once, received in another order than sent; in their midst, `refuse_rank` is
 * refused `pid`. */
static void many_at_once(int refuse_rank, int pid) {
    MPI_Request requests[2 * MANY * 64];
    int all = 0, place = 1 << 20;
    round_number++;
    for (int peer = 0; peer < check_size; peer++) {
        if (peer == check_rank) continue;
        for (int number = 0; number < MANY; number++) {
            unsigned char *bytes = outgoing + ((size_t)peer * MANY + (size_t)number) * (size_t)place;
            write_message(bytes, place - number, check_rank, peer, number);
            OK(MPI_Isend(bytes, place - number, MPI_BYTE, peer, number, MPI_COMM_WORLD, &requests[all++]));
        }
    }
    for (int peer = 0; peer < check_size; peer++) {
        if (peer == check_rank) continue;
        for (int number = MANY - 1; number >= 0; number--) {
            unsigned char *bytes = incoming + ((size_t)peer * MANY + (size_t)number) * (size_t)place;
            memset(bytes, 0, (size_t)place);
            OK(MPI_Irecv(bytes, place, MPI_BYTE, peer, number, MPI_COMM_WORLD, &requests[all++]));
            if (number == MANY / 2 && peer == (check_rank + 1) % check_size && check_rank == refuse_rank) refuse(pid);
        }
    }
    OK(MPI_Waitall(all, requests, MPI_STATUSES_IGNORE));
    for (int peer = 0; peer < check_size; peer++)
        for (int number = 0; number < MANY && peer != check_rank; number++)
            check_bytes(incoming + ((size_t)peer * MANY + (size_t)number) * (size_t)place, place - number, peer,
                        check_rank, number);
}

int main(int argc, char **argv) {
    size_t room = (size_t)4 * MANY << 20;
    const char *place = getenv("PMI_RANK");
    incoming = malloc(room);
    outgoing = malloc(room);
    check_section = "refused before the beginning";
    if (place != NULL && strcmp(place, "2") == 0) refuse(0);
    check_open(argc, argv);
    CHECK(incoming != NULL && outgoing != NULL && check_size <= 4 && room >= BYTES_MAX);
    pids[check_rank] = getpid();
    OK(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD));

    section("as the kernel likes");
    all_sizes();
    many_at_once(-1, 0);
    section("one peer is refused to rank 0");
    if (check_rank == 0) refuse(pids[1]);
    all_sizes();
    section("rank 1 is refused everything in the midst of messages");
    many_at_once(1, 0);
    section("after it");
    all_sizes();
    many_at_once(-1, 0);
    section("rank 0 is refused everything in the midst of messages");
    many_at_once(0, 0);
    section("all are refused everything");
    if (check_rank > 2) refuse(0);
    all_sizes();
    many_at_once(-1, 0);
    free(incoming);
    free(outgoing);
    return check_close();
}
