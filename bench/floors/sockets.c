/* Floors of sockets: what a raw connection does when both sides spin and no library is there. */
#define _GNU_SOURCE
#include "floors.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* Calls of this size stay in the cache; larger ones are faster on some paths and slower on others. */
enum { CALL_BYTES = 32 << 10 };

static void enter(const char *name) {
    char path[256];
    if (name == NULL) return;
    snprintf(path, sizeof path, "/run/netns/%s", name);
    int namespace = open(path, O_RDONLY | O_CLOEXEC);
    if (namespace < 0 || setns(namespace, CLONE_NEWNET) != 0) fail(path);
    close(namespace);
}

static int listening(struct run *run, struct sockaddr_in *address) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t length = sizeof *address;
    if (listener < 0 || bind(listener, (struct sockaddr *)address, length) != 0) fail("bind");
    if (listen(listener, 1) != 0) fail("listen");
    if (getsockname(listener, (struct sockaddr *)address, &length) != 0) fail("getsockname");
    publish(&run->shared->ready, ntohs(address->sin_port));
    int connection = accept(listener, NULL, NULL);
    if (connection < 0) fail("accept");
    close(listener);
    return connection;
}

static int connecting(struct run *run, struct sockaddr_in *address) {
    spin_until(&run->shared->ready, 1);
    address->sin_port = htons((unsigned short)atomic_load(&run->shared->ready.word));
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connection < 0 || connect(connection, (struct sockaddr *)address, sizeof *address) != 0)
        fail("connect");
    return connection;
}

int connect_pair(struct run *run, const struct network *network) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    int yes = 1;
    if (inet_pton(AF_INET, network->address, &address.sin_addr) != 1) fail("address");
    enter(network->namespaces[run->rank]);
    int connection = run->rank == 0 ? listening(run, &address) : connecting(run, &address);
    if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0) fail("TCP_NODELAY");
    if (fcntl(connection, F_SETFL, O_NONBLOCK) != 0) fail("O_NONBLOCK");
    return connection;
}

static void send_all(struct run *run, const unsigned char *from, size_t bytes) {
    while (bytes > 0) {
        ssize_t moved = send(run->socket, from, bytes < run->chunk ? bytes : run->chunk, MSG_NOSIGNAL);
        if (moved < 0 && errno != EAGAIN) fail("send");
        if (moved > 0) from += moved, bytes -= (size_t)moved;
    }
}

static void receive_all(struct run *run, unsigned char *to, size_t bytes) {
    while (bytes > 0) {
        ssize_t moved = recv(run->socket, to, bytes < run->chunk ? bytes : run->chunk, 0);
        if (moved == 0 || (moved < 0 && errno != EAGAIN)) fail("recv");
        if (moved > 0) to += moved, bytes -= (size_t)moved;
    }
}

static double tcp_latency(struct run *run, size_t bytes, int operations) {
    double start = seconds_now();
    for (int i = 0; i < operations; i++) {
        if (run->rank == 0) send_all(run, run->out, bytes), receive_all(run, run->in, bytes);
        else receive_all(run, run->in, bytes), send_all(run, run->out, bytes);
    }
    return (seconds_now() - start) / operations / 2;
}

/* A window one way, answered by one byte, like the bandwidth of the benchmarks. */
static double tcp_stream(struct run *run, size_t bytes, int operations) {
    int window = window_of(bytes);
    unsigned char answer = 1;
    double start = seconds_now();
    for (int i = 0; i < operations; i++) {
        for (int k = 0; k < window; k++) {
            if (run->rank == 0) send_all(run, run->out, bytes);
            else receive_all(run, run->in, bytes);
        }
        if (run->rank == 0) receive_all(run, &answer, 1);
        else send_all(run, &answer, 1);
    }
    return (seconds_now() - start) / operations;
}

const struct floor_kind SOCKET_FLOORS[] = {
    {.name = "tcp-latency",
     .block = tcp_latency,
     .bytes_min = 1,
     .bytes_max = 4 << 20,
     .chunks = {CALL_BYTES},
     .sockets = 1,
     .contents = OF_BOTH},
    {.name = "tcp-stream",
     .block = tcp_stream,
     .bytes_min = 1024,
     .bytes_max = 4 << 20,
     .chunks = {CALL_BYTES},
     .sockets = 1,
     .windowed = 1},
    {.name = "tcp-stream-large",
     .block = tcp_stream,
     .bytes_min = 1024,
     .bytes_max = 4 << 20,
     .chunks = {256 << 10, 4 << 20},
     .sockets = 1,
     .windowed = 1},
    {.name = NULL},
};
