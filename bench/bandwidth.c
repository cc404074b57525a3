/* Bandwidth: rank 0 keeps a window of messages under way to rank 1, each in a slot of its own;
 * rank 1 answers the whole window with one small message. Further ranks wait. */
#include "bench.h"
#include "window.h"

static void one_way(struct flow *flow) {
    if (flow->bench->rank == 0) {
        flow_send(flow, 1);
        flow_wait(flow);
        flow_receive_answer(1);
    } else {
        flow_receive(flow, 0);
        flow_wait(flow);
        flow_answer(0);
    }
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "bandwidth", argc, argv, 1, 4u << 20, 2);
    bench_heading(&bench, MEGABYTES_PER_SECOND);
    if (bench.rank < 2)
        flow_sweep(&bench, &(struct traffic){.unit = MEGABYTES_PER_SECOND,
                                             .step = one_way,
                                             .pairs = 1,
                                             .directions = 1,
                                             .sends = bench.rank == 0,
                                             .receives = bench.rank == 1,
                                             .partner = 1 - bench.rank});
    return bench_close(&bench);
}
