// ranks: 2 4
// not libfabric: its ports are the provider's own, which asks nobody who he is
// A job under attack from outside. Before it meets the others, each rank starts a stranger: a process that knows
// nothing of the job but its ports. It makes a thousand connections, holds as many as it can open, and says nothing,
// garbage, beginnings, forged texts, floods, and single bytes now and then. The job's messages arrive as they were
// sent, and what it holds for strangers stays small. Where the job has no port, there is nobody to attack.
#define _GNU_SOURCE 1
#include "check.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { CONNECTIONS = 1000, HELD_MAX = 400, SIZE = 300000, ROUNDS_MIN = 30 };
enum { DESCRIPTORS_MAX = 64 + 64, GROWTH_KIB_MAX = 64 << 10 };

/* The inode of an open socket; 0 for anything else. */
static unsigned long inode_of(int descriptor) {
    char path[64], link[64];
    unsigned long inode = 0;
    ssize_t length;
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    length = readlink(path, link, sizeof link - 1);
    if (length <= 0) return 0;
    link[length] = '\0';
    return sscanf(link, "socket:[%lu]", &inode) == 1 ? inode : 0;
}

static int is_ours(unsigned long inode) {
    for (int descriptor = 0; descriptor < 256; descriptor++)
        if (inode != 0 && inode_of(descriptor) == inode) return 1;
    return 0;
}

/* The port on which this process listens, as the kernel tells it; 0 where there is none. */
static int listening_port(void) {
    const char *tables[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
    for (int i = 0; i < 2; i++) {
        char line[512];
        FILE *table = fopen(tables[i], "r");
        if (table == NULL) continue;
        while (fgets(line, sizeof line, table) != NULL) {
            unsigned port, state;
            unsigned long inode;
            if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*s %*s %lu", &port, &state, &inode) == 3 &&
                state == 0x0A && is_ours(inode)) {
                fclose(table);
                return (int)port;
            }
        }
        fclose(table);
    }
    return 0;
}

static int descriptors(void) {
    int count = 0;
    DIR *list = opendir("/proc/self/fd");
    CHECK(list != NULL);
    while (readdir(list) != NULL) count++;
    closedir(list);
    return count;
}

static long resident_kib(void) {
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
    fclose(status);
    CHECK(kib > 0);
    return kib;
}

static int dial(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct linger at_once = {1, 0};
    int one = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (one < 0) return -1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    /* Nothing shall be left behind in the kernel. */
    setsockopt(one, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (connect(one, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS) {
        close(one);
        return -1;
    }
    return one;
}

/* What stranger number `number` says when it has said `turn` things already. */
static void harass(int one, int number, int turn) {
    static char flood[65536];
    unsigned char hello[96] = "WefT\1\0\1";
    unsigned char proof[136] = "WefT\1\0\1";
    const char *garbage = "GET / HTTP/1.1\r\nHost: me\r\n\r\n";
    ssize_t said = 0;
    memset(hello + 16, number & 255, 80);
    hello[12] = (unsigned char)(turn % 4);
    memcpy(proof, hello, 96);
    memcpy(proof + 96, "WefT\1\0\4", 7);
    switch (number % 8) {
        case 0: break;
        case 1: said = send(one, garbage, strlen(garbage), MSG_NOSIGNAL); break;
        case 2: said = send(one, hello, 6, MSG_NOSIGNAL); break;
        case 3: said = send(one, hello, sizeof hello, MSG_NOSIGNAL); break;
        case 4: said = send(one, proof, sizeof proof, MSG_NOSIGNAL); break;
        case 5: said = send(one, flood, sizeof flood, MSG_NOSIGNAL); break;
        case 6: said = turn < 96 ? send(one, hello + turn, 1, MSG_NOSIGNAL) : 0; break;
        default: memcpy(flood, hello, 96); said = send(one, flood, sizeof flood, MSG_NOSIGNAL); break;
    }
    (void)said;
}

/* A stranger's life: it hears its ports over `from`, tells over `to` when it has made all its connections, and goes
 * on until the job hangs up. */
static void be_a_stranger(int from, int to) {
    int ports[64], count = 0, made = 0, held[HELD_MAX];
    struct rlimit limit;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    for (int i = 0; i < HELD_MAX; i++) held[i] = -1;
    if (read(from, &count, sizeof count) != sizeof count || count > 64) _exit(1);
    if (count > 0 && read(from, ports, sizeof *ports * (size_t)count) <= 0) _exit(1);
    if (count == 0) _exit(0);
    fcntl(from, F_SETFL, O_NONBLOCK);
    for (int turn = 0;; turn++) {
        char end;
        for (int i = 0; i < HELD_MAX; i++) {
            /* Some leave, and others come in their place. */
            if (held[i] >= 0 && (made + i + turn) % 5 == 0) {
                close(held[i]);
                held[i] = -1;
            }
            if (held[i] < 0) {
                held[i] = dial(ports[(made + i) % count]);
                made += held[i] >= 0;
            }
            if (held[i] >= 0) harass(held[i], i, turn);
        }
        if (made >= CONNECTIONS && made < CONNECTIONS + HELD_MAX && write(to, &made, sizeof made) < 0) _exit(1);
        if (read(from, &end, 1) == 0) _exit(0);
        usleep(2000);
    }
}

static int partner_of(int distance) { return (check_rank + distance) % check_size; }

static void write_message(unsigned char *bytes, int from, int to, int turn) {
    for (int at = 0; at < SIZE; at++) bytes[at] = (unsigned char)(at * 7 + from * 31 + to * 17 + turn);
}

/* One message to everybody and one from everybody, small and large. */
static void exchange(unsigned char *out, unsigned char *in, unsigned char *right, int turn) {
    for (int distance = 1; distance < check_size; distance++) {
        int to = partner_of(distance), from = partner_of(check_size - distance);
        int size = turn % 3 == 0 ? SIZE : turn * 37 % 2000;
        write_message(out, check_rank, to, turn);
        write_message(right, from, check_rank, turn);
        memset(in, 0, SIZE);
        OK(MPI_Sendrecv(out, size, MPI_BYTE, to, turn, in, size, MPI_BYTE, from, turn, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
        CHECK(memcmp(in, right, (size_t)size) == 0);
    }
}

int main(int argc, char **argv) {
    int to_stranger[2], from_stranger[2], port, ports[64], count, before, most = 0, status, turn = 0, all = 0;
    unsigned char *out = malloc(SIZE), *in = malloc(SIZE), *right = malloc(SIZE);
    const char *fabric = getenv("WEFT_FABRIC");
    long kib_before;
    pid_t stranger;
    check_section = "starting a stranger";
    CHECK(pipe2(to_stranger, O_CLOEXEC) == 0 && pipe2(from_stranger, O_CLOEXEC) == 0);
    stranger = fork();
    CHECK(stranger >= 0);
    if (stranger == 0) {
        /* It holds nothing of the job's. */
        for (int descriptor = 3; descriptor < 256; descriptor++)
            if (descriptor != to_stranger[0] && descriptor != from_stranger[1]) close(descriptor);
        be_a_stranger(to_stranger[0], from_stranger[1]);
    }
    close(to_stranger[0]);
    close(from_stranger[1]);
    check_open(argc, argv);

    section("the ports of the job");
    port = listening_port();
    if (fabric != NULL && strcmp(fabric, "tcp") == 0) CHECK(port > 0);
    before = descriptors();
    kib_before = resident_kib();
    /* Each attacks its own rank, so that the first messages of the job are under attack already. */
    ports[0] = port;
    count = port > 0;
    CHECK(write(to_stranger[1], &count, sizeof count) == sizeof count);
    if (count > 0) CHECK(write(to_stranger[1], ports, sizeof *ports) == sizeof *ports);

    section("messages under attack");
    fcntl(from_stranger[0], F_SETFL, O_NONBLOCK);
    for (int done = 0, made; !all || turn < ROUNDS_MIN; turn++) {
        int now = descriptors();
        most = now > most ? now : most;
        exchange(out, in, right, turn);
        if (!done) done = count == 0 || read(from_stranger[0], &made, sizeof made) > 0;
        OK(MPI_Allreduce(&done, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
        section("messages under attack");
    }
    if (most - before > DESCRIPTORS_MAX || resident_kib() - kib_before > GROWTH_KIB_MAX)
        fprintf(stderr, "%d descriptors more, %ld KiB more\n", most - before, resident_kib() - kib_before);
    CHECK(most - before <= DESCRIPTORS_MAX);
    CHECK(resident_kib() - kib_before <= GROWTH_KIB_MAX);

    section("after the attack");
    close(to_stranger[1]);
    CHECK(waitpid(stranger, &status, 0) == stranger && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    exchange(out, in, right, turn);
    free(out);
    free(in);
    free(right);
    return check_close();
}
