/* Bandwidth both ways at once: rank 0 and rank 1 each keep a window of messages under way to the
 * other, and answer the other's window. Further ranks wait. */
#include "bench.h"
#include "window.h"

static void both_ways(struct flow *flow) {
    int partner = 1 - flow->bench->rank;
    flow_receive(flow, partner);
    flow_send(flow, partner);
    flow_wait(flow);
    flow_answer(partner);
    flow_receive_answer(partner);
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "bibandwidth", argc, argv, 1, 4u << 20, 2);
    bench_heading(&bench, MEGABYTES_PER_SECOND);
    if (bench.rank < 2)
        flow_sweep(&bench, &(struct traffic){.unit = MEGABYTES_PER_SECOND,
                                             .step = both_ways,
                                             .pairs = 1,
                                             .directions = 2,
                                             .sends = 1,
                                             .receives = 1,
                                             .partner = 1 - bench.rank});
    return bench_close(&bench);
}
