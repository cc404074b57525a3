/* Floors of libfabric: tagged messages between two endpoints of one provider, as libfabric's own ping-pong sends them, with
 * no MPI between. The library is opened by its path, so that it is the very file that others are measured with. */
#define _GNU_SOURCE
#include "floors.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<rdma/fi_tagged.h>)
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#endif

/* Structures have other layouts from version 2 of the headers on, and other versions of the symbols go with them. */
#if defined(FI_MAJOR_VERSION) && FI_MAJOR_VERSION == 1

enum { TAG = 1, WINDOW_MAX = 64, BATCH = 16, QUEUE = 1024 };

static struct {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *addresses;
    struct fid_cq *queue;
    struct fid_ep *endpoint;
    fi_addr_t peer;
    struct fi_context2 sending[WINDOW_MAX], receiving[WINDOW_MAX];
    int sent, received; /* completed, and not yet waited for */
} provider;

static const char *(*text_of)(int);

static void refuse(const char *call, long answer) {
    fprintf(stderr, "floors: %s answered %ld (%s)\n", call, -answer, text_of((int)-answer));
    exit(1);
}

static void good(const char *call, int answer) {
    if (answer < 0) refuse(call, answer);
}

static void *function(void *library, const char *name, const char *version) {
    void *found = dlvsym(library, name, version);
    if (found == NULL) {
        fprintf(stderr, "floors: %s\n", dlerror());
        exit(1);
    }
    return found;
}

/* What `network` asks for, as the provider offers it first. */
static struct fi_info *offer(void *library, const struct network *network) {
    struct fi_info *(*duplicate)(const struct fi_info *) = function(library, "fi_dupinfo", "FABRIC_1.3");
    int (*offers)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **) =
        function(library, "fi_getinfo", "FABRIC_1.3");
    struct fi_info *hints = duplicate(NULL), *info;
    if (hints == NULL) fail("fi_dupinfo");
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->fabric_attr->prov_name = strdup(network->provider);
    good("fi_getinfo", offers(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0, hints, &info));
    if (strcmp(info->fabric_attr->prov_name, network->provider) != 0) {
        fprintf(stderr, "floors: the first offer is of %s\n", info->fabric_attr->prov_name);
        exit(1);
    }
    return info;
}

static void open_endpoint(void *library) {
    int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *) =
        function(library, "fi_fabric", "FABRIC_1.1");
    struct fi_av_attr for_addresses = {.type = provider.info->domain_attr->av_type};
    struct fi_cq_attr for_queue = {.size = QUEUE, .format = FI_CQ_FORMAT_MSG};
    good("fi_fabric", fabric(provider.info->fabric_attr, &provider.fabric, NULL));
    good("fi_domain", fi_domain(provider.fabric, provider.info, &provider.domain, NULL));
    good("fi_av_open", fi_av_open(provider.domain, &for_addresses, &provider.addresses, NULL));
    good("fi_cq_open", fi_cq_open(provider.domain, &for_queue, &provider.queue, NULL));
    good("fi_endpoint", fi_endpoint(provider.domain, provider.info, &provider.endpoint, NULL));
    good("fi_ep_bind", fi_ep_bind(provider.endpoint, &provider.addresses->fid, 0));
    good("fi_ep_bind", fi_ep_bind(provider.endpoint, &provider.queue->fid, FI_TRANSMIT | FI_RECV));
    good("fi_enable", fi_enable(provider.endpoint));
}

void open_provider(struct run *run, const struct network *network) {
    void *library = dlopen(network->library, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "floors: %s\n", dlerror());
        exit(1);
    }
    text_of = function(library, "fi_strerror", "FABRIC_1.0");
    uint32_t version = ((uint32_t(*)(void))function(library, "fi_version", "FABRIC_1.0"))();
    snprintf(run->library, sizeof run->library, "libfabric %u.%u", FI_MAJOR(version), FI_MINOR(version));
    provider.info = offer(library, network);
    open_endpoint(library);
    struct endpoint_name *mine = &run->shared->names[run->rank], *theirs = &run->shared->names[1 - run->rank];
    mine->bytes = sizeof mine->text;
    good("fi_getname", fi_getname(&provider.endpoint->fid, mine->text, &mine->bytes));
    meet(run);
    int taken = fi_av_insert(provider.addresses, theirs->text, 1, &provider.peer, 0, NULL);
    if (taken != 1) refuse("fi_av_insert", taken);
}

void close_provider(struct run *run) {
    meet(run);
    good("fi_close", fi_close(&provider.endpoint->fid));
    good("fi_close", fi_close(&provider.queue->fid));
    good("fi_close", fi_close(&provider.addresses->fid));
    good("fi_close", fi_close(&provider.domain->fid));
    good("fi_close", fi_close(&provider.fabric->fid));
}

/* ---- messages ---- */

static void look(void) {
    struct fi_cq_msg_entry entries[BATCH];
    ssize_t count = fi_cq_read(provider.queue, entries, BATCH);
    if (count < 0 && count != -FI_EAGAIN) refuse("fi_cq_read", count);
    for (ssize_t i = 0; i < count; i++) {
        if (entries[i].flags & FI_RECV) provider.received++;
        else provider.sent++;
    }
}

static void wait_for(int *count, int wanted) {
    while (*count < wanted) look();
    *count -= wanted;
}

static void post_send(const unsigned char *from, size_t bytes, int slot) {
    ssize_t answer;
    for (;;) {
        if (bytes <= provider.info->tx_attr->inject_size) {
            answer = fi_tinject(provider.endpoint, from, bytes, provider.peer, TAG);
            provider.sent += answer == 0; /* nothing more is told of it */
        } else {
            answer = fi_tsend(provider.endpoint, from, bytes, NULL, provider.peer, TAG, &provider.sending[slot]);
        }
        if (answer == 0) return;
        if (answer != -FI_EAGAIN) refuse("sending", answer);
        look();
    }
}

static void post_receive(unsigned char *to, size_t bytes, int slot) {
    ssize_t answer;
    while ((answer = fi_trecv(provider.endpoint, to, bytes, NULL, provider.peer, TAG, 0,
                              &provider.receiving[slot])) != 0) {
        if (answer != -FI_EAGAIN) refuse("fi_trecv", answer);
        look();
    }
}

/* Each receive is posted before what it answers is sent. */
static double pingpong(struct run *run, size_t bytes, int operations) {
    if (run->rank == 1) post_receive(run->in, bytes, 0);
    meet(run);
    double start = seconds_now();
    for (int i = 0; i < operations; i++) {
        if (run->rank == 1) wait_for(&provider.received, 1);
        if (run->rank == 0 || i + 1 < operations) post_receive(run->in, bytes, (i + 1) % 2);
        post_send(run->out, bytes, 0);
        wait_for(&provider.sent, 1);
        if (run->rank == 0) wait_for(&provider.received, 1);
    }
    return (seconds_now() - start) / operations / 2;
}

/* A window one way, each message in a slot of its own, answered by one byte: like the bandwidth of the benchmarks. */
static double stream(struct run *run, size_t bytes, int operations) {
    int window = window_of(bytes);
    unsigned char answer = 1;
    meet(run);
    double start = seconds_now();
    for (int i = 0; i < operations; i++) {
        if (run->rank == 0) post_receive(&answer, 1, 0);
        for (int k = 0; k < window; k++) {
            if (run->rank == 0) post_send(run->out + (size_t)k * bytes, bytes, k);
            else post_receive(run->in + (size_t)k * bytes, bytes, k);
        }
        wait_for(run->rank == 0 ? &provider.sent : &provider.received, window);
        if (run->rank == 0) {
            wait_for(&provider.received, 1);
        } else {
            post_send(&answer, 1, 0);
            wait_for(&provider.sent, 1);
        }
    }
    return (seconds_now() - start) / operations;
}

#else

static double (*const pingpong)(struct run *, size_t, int) = NULL;
static double (*const stream)(struct run *, size_t, int) = NULL;

void open_provider(struct run *run, const struct network *network) {
    (void)run;
    (void)network;
    fprintf(stderr, "floors: built without the headers of libfabric 1 (Debian 12: libfabric-dev)\n");
    exit(1);
}

void close_provider(struct run *run) {
    (void)run;
}

#endif

const struct floor_kind PROVIDER_FLOORS[] = {
    {.name = "libfabric-pingpong",
     .block = pingpong,
     .bytes_min = 1,
     .bytes_max = 4 << 20,
     .provider = 1,
     .contents = OF_BOTH},
    {.name = "libfabric-stream",
     .block = stream,
     .bytes_min = 1024,
     .bytes_max = 4 << 20,
     .provider = 1,
     .windowed = 1,
     .contents = OF_RANK_0},
    {.name = NULL},
};
