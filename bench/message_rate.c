/* Message rate: the ranks form pairs (first half with second half), and every pair streams windows
 * of messages at the same time; the messages of all pairs in a second are told, by the slowest
 * pair. With an odd number of ranks the last one waits. */
#include "bench.h"
#include "window.h"

static void stream(struct flow *flow) {
    int partner = flow->traffic->partner;
    if (flow->traffic->sends) {
        flow_send(flow, partner);
        flow_wait(flow);
        flow_receive_answer(partner);
    } else {
        flow_receive(flow, partner);
        flow_wait(flow);
        flow_answer(partner);
    }
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_open(&bench, "message_rate", argc, argv, 1, 4096, 2);
    int pairs = bench.size / 2, first = bench.rank < pairs, idle = bench.rank == 2 * pairs;
    bench_heading(&bench, MESSAGES_PER_SECOND);
    flow_sweep(&bench, &(struct traffic){.unit = MESSAGES_PER_SECOND,
                                         .step = stream,
                                         .pairs = pairs,
                                         .directions = 1,
                                         .sends = first && !idle,
                                         .receives = !first && !idle,
                                         .partner = first ? bench.rank + pairs : bench.rank - pairs,
                                         .together = 1});
    return bench_close(&bench);
}
