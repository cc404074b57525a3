// ranks: 1 2 3 5 8
// Graph topologies, whole and distributed. (MPI 5.0, sections 8.5.3 to 8.5.5)
#include "check.h"

enum { MOST = 64 };

/* A ring in which each node names both neighbours; with one or two nodes they are the same. */
static void ring(int nodes, int index[], int edges[]) {
    for (int node = 0; node < nodes; node++) {
        index[node] = 2 * node + 2;
        edges[2 * node] = (node + nodes - 1) % nodes;
        edges[2 * node + 1] = (node + 1) % nodes;
    }
}

static void whole(int nodes, int reorder) {
    MPI_Comm graph;
    int index[MOST], edges[2 * MOST], got_index[MOST], got_edges[2 * MOST], n = -1, e = -1, mapped = -9, rank = -1;
    section("a graph that all give");
    ring(nodes, index, edges);
    OK(MPI_Graph_create(MPI_COMM_WORLD, nodes, index, edges, reorder, &graph));
    if (reorder) OK(MPI_Graph_map(MPI_COMM_WORLD, nodes, index, edges, &mapped));
    CHECK(reorder || (graph == MPI_COMM_NULL) == (check_rank >= nodes));
    CHECK(!reorder || (graph == MPI_COMM_NULL) == (mapped == MPI_UNDEFINED));
    if (graph == MPI_COMM_NULL) return;
    OK(MPI_Comm_rank(graph, &rank));
    if (reorder) SAME(rank, mapped);
    OK(MPI_Graphdims_get(graph, &n, &e));
    SAME(n, nodes);
    SAME(e, 2 * nodes);
    OK(MPI_Graph_get(graph, n, e, got_index, got_edges));
    CHECK(memcmp(index, got_index, nodes * sizeof(int)) == 0 && memcmp(edges, got_edges, 2 * nodes * sizeof(int)) == 0);
    for (int node = 0; node < nodes; node++) {
        int count = -1, neighbors[2] = {-9, -9};
        OK(MPI_Graph_neighbors_count(graph, node, &count));
        SAME(count, 2);
        OK(MPI_Graph_neighbors(graph, node, 2, neighbors));
        SAME(neighbors[0], edges[2 * node]);
        SAME(neighbors[1], edges[2 * node + 1]);
    }
    OK(MPI_Comm_set_errhandler(graph, MPI_ERRORS_RETURN));
    STRICT_CLASS(MPI_Graph_get(graph, n - 1, e, got_index, got_edges), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Graph_get(graph, n, e - 1, got_index, got_edges), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Graph_neighbors(graph, 0, 1, got_edges), MPI_ERR_ARG);
    CLASS(MPI_Graph_neighbors_count(graph, nodes, &n), MPI_ERR_RANK);
    CLASS(MPI_Cartdim_get(graph, &n), MPI_ERR_TOPOLOGY);
    OK(MPI_Comm_free(&graph));
}

static void wrong(void) {
    MPI_Comm graph = MPI_COMM_NULL;
    int index[2 * MOST], edges[2 * MOST];
    section("graphs that are none");
    ring(check_size, index, edges);
    STRICT_CLASS(MPI_Graph_create(MPI_COMM_WORLD, -1, index, edges, 0, &graph), MPI_ERR_ARG);
    edges[0] = check_size;
    STRICT_CLASS(MPI_Graph_create(MPI_COMM_WORLD, check_size, index, edges, 0, &graph), MPI_ERR_ARG);
    edges[0] = -1;
    STRICT_CLASS(MPI_Graph_create(MPI_COMM_WORLD, check_size, index, edges, 0, &graph), MPI_ERR_ARG);
    ring(check_size, index, edges);
    index[0] = -1;
    STRICT_CLASS(MPI_Graph_create(MPI_COMM_WORLD, check_size, index, edges, 0, &graph), MPI_ERR_ARG);
    int larger[2 * MOST];
    for (int node = 0; node <= check_size; node++) larger[node] = 0;
    STRICT_CLASS(MPI_Graph_create(MPI_COMM_WORLD, check_size + 1, larger, edges, 0, &graph), MPI_ERR_TOPOLOGY);
    STRICT_CLASS(MPI_Graph_create(MPI_COMM_WORLD, 1, NULL, edges, 0, &graph), MPI_ERR_ARG);
    CHECK(graph == MPI_COMM_NULL);
    section("a graph without nodes");
    OK(MPI_Graph_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &graph));
    CHECK(graph == MPI_COMM_NULL);
}

/* Each leads to the next and to the one after it; the weights tell which edge is which. */
static void adjacent(int weighted, int reorder) {
    MPI_Comm graph;
    int size = check_size, status = -1, in = -1, out = -1, has = -1, rank = -1;
    int sources[2] = {(check_rank + size - 1) % size, (check_rank + 2 * size - 2) % size};
    int destinations[2] = {(check_rank + 1) % size, (check_rank + 2) % size};
    int of_sources[2] = {10 * sources[0] + 1, 10 * sources[1] + 2};
    int of_destinations[2] = {10 * check_rank + 1, 10 * check_rank + 2};
    section("a distributed graph of which each gives its own edges");
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, weighted ? of_sources : MPI_UNWEIGHTED, 2, destinations,
                                      weighted ? of_destinations : MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &graph));
    OK(MPI_Topo_test(graph, &status));
    SAME(status, MPI_DIST_GRAPH);
    OK(MPI_Comm_rank(graph, &rank));
    if (!reorder) SAME(rank, check_rank);
    OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &has));
    SAME(in, 2);
    SAME(out, 2);
    SAME(has != 0, weighted);
    int from[2], to[2], from_weights[2] = {-9, -9}, to_weights[2] = {-9, -9};
    OK(MPI_Dist_graph_neighbors(graph, 2, from, weighted ? from_weights : MPI_UNWEIGHTED, 2, to,
                                weighted ? to_weights : MPI_UNWEIGHTED));
    /* The edges belong to the rank, whoever has it. */
    for (int i = 0; i < 2; i++) {
        SAME(from[i], (rank + 2 * size - 1 - i) % size);
        SAME(to[i], (rank + 1 + i) % size);
        if (weighted) SAME(from_weights[i], 10 * from[i] + 1 + i);
        if (weighted) SAME(to_weights[i], 10 * rank + 1 + i);
    }
    section("a distributed graph: room for fewer edges than there are");
    int first = -1;
    OK(MPI_Dist_graph_neighbors(graph, 1, &first, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED));
    SAME(first, from[0]);
    section("a distributed graph: what is sent arrives along the edges, in their order");
    int mine[2] = {100 * rank, 100 * rank + 1}, got[2] = {-1, -1};
    OK(MPI_Neighbor_alltoall(mine, 1, MPI_INT, got, 1, MPI_INT, graph));
    SAME(got[0], 100 * from[0]);
    SAME(got[1], 100 * from[1] + 1);
    OK(MPI_Comm_free(&graph));
}

static int find(int count, const int list[], int what) {
    for (int i = 0; i < count; i++)
        if (list[i] == what) return i;
    return -1;
}

/* Rank r describes the edges of its neighbour, and an edge of its own twice. */
static void distributed(int weighted, int reorder) {
    MPI_Comm graph;
    int size = check_size, next = (check_rank + 1) % size, in = -1, out = -1, has = -1, rank = -1;
    int sources[2] = {next, check_rank}, degrees[2] = {1, 2};
    int destinations[3] = {(next + 1) % size, check_rank, check_rank};
    int weights[3] = {next + 1, 7, 8};
    section("a distributed graph of which anybody gives edges");
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 2, sources, degrees, destinations, weighted ? weights : MPI_UNWEIGHTED,
                             MPI_INFO_NULL, reorder, &graph));
    OK(MPI_Comm_rank(graph, &rank));
    OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &has));
    SAME(in, 3);
    SAME(out, 3);
    SAME(has != 0, weighted);
    int from[3], to[3], from_weights[3], to_weights[3];
    OK(MPI_Dist_graph_neighbors(graph, 3, from, weighted ? from_weights : MPI_UNWEIGHTED, 3, to,
                                weighted ? to_weights : MPI_UNWEIGHTED));
    int at = find(3, from, (rank + size - 1) % size), on = find(3, to, (rank + 1) % size);
    CHECK(at >= 0 && on >= 0 && find(3, from, rank) >= 0 && find(3, to, rank) >= 0);
    if (weighted && size > 1) {
        SAME(from_weights[at], from[at] + 1);
        SAME(to_weights[on], rank + 1);
        int sum = 0;
        for (int i = 0; i < 3; i++)
            if (from[i] == rank) sum += from_weights[i];
        SAME(sum, 15);
    }
    section("a distributed graph: edges between the same ranks keep their order");
    int mine[3], got[3] = {-1, -1, -1}, loops_out = 0, loops_in = 0;
    for (int i = 0; i < 3; i++) mine[i] = 1000 * rank + 10 * to[i] + (to[i] == rank ? loops_out++ : 0);
    OK(MPI_Neighbor_alltoall(mine, 1, MPI_INT, got, 1, MPI_INT, graph));
    for (int i = 0; i < 3; i++) SAME(got[i], 1000 * from[i] + 10 * rank + (from[i] == rank ? loops_in++ : 0));
    OK(MPI_Comm_free(&graph));
}

static void nothing(void) {
    MPI_Comm graph;
    int in = -1, out = -1, has = -1;
    section("a distributed graph without edges");
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 0, NULL, NULL, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph));
    OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &has));
    CHECK(in == 0 && out == 0 && has == 0);
    OK(MPI_Neighbor_allgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, graph));
    OK(MPI_Comm_free(&graph));
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY,
                                      MPI_INFO_NULL, 1, &graph));
    OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &has));
    CHECK(in == 0 && out == 0 && has != 0);
    OK(MPI_Dist_graph_neighbors(graph, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY));
    OK(MPI_Comm_free(&graph));
}

static void wrong_edges(void) {
    MPI_Comm graph = MPI_COMM_NULL;
    int beyond[1] = {check_size}, here[1] = {check_rank}, minus[1] = {-1};
    section("distributed graphs: wrong arguments");
    STRICT_CLASS(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, beyond, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED,
                                                MPI_INFO_NULL, 0, &graph),
                 MPI_ERR_RANK);
    STRICT_CLASS(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, -1, here, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED,
                                                MPI_INFO_NULL, 0, &graph),
                 MPI_ERR_ARG);
    STRICT_CLASS(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, here, minus, 1, here, minus, MPI_INFO_NULL, 0, &graph),
                 MPI_ERR_ARG);
    STRICT_CLASS(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, here, MPI_UNWEIGHTED, 1, here, here, MPI_INFO_NULL, 0,
                                                &graph),
                 MPI_ERR_ARG);
    STRICT_CLASS(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, here, minus, here, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph),
                 MPI_ERR_ARG);
    STRICT_CLASS(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, beyond, (int[]){1}, here, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                       &graph),
                 MPI_ERR_RANK);
    CHECK(graph == MPI_COMM_NULL);
}

/* Ours notices at all members; others leave it at the program's own risk. */
static void one_sided(void) {
    MPI_Comm graph = MPI_COMM_NULL;
    int first[1] = {0}, number = 0;
    if (!check_library_is("weft") || check_size < 2) return;
    section("edges that only one end gives: the graph is there, and nobody can exchange");
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_UNWEIGHTED, check_rank == 1, first, MPI_UNWEIGHTED,
                                      MPI_INFO_NULL, 0, &graph));
    OK(MPI_Comm_set_errhandler(graph, MPI_ERRORS_RETURN));
    CLASS(MPI_Neighbor_allgather(&number, 1, MPI_INT, &number, 1, MPI_INT, graph), MPI_ERR_TOPOLOGY);
    OK(MPI_Comm_free(&graph));
    section("a graph with an edge that leads one way cannot exchange");
    int index[MOST], edges[1] = {1};
    for (int node = 0; node < check_size; node++) index[node] = 1;
    OK(MPI_Graph_create(MPI_COMM_WORLD, check_size, index, edges, 0, &graph));
    OK(MPI_Comm_set_errhandler(graph, MPI_ERRORS_RETURN));
    CLASS(MPI_Neighbor_allgather(&number, 1, MPI_INT, &number, 1, MPI_INT, graph), MPI_ERR_TOPOLOGY);
    OK(MPI_Comm_free(&graph));
    section("members that describe different grids");
    int dims[1] = {1 + (check_rank == 1)}, periods[1] = {0};
    CLASS(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &graph), MPI_ERR_NOT_SAME);
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (int reorder = 0; reorder < 2; reorder++) {
        whole(check_size, reorder);
        whole((check_size + 1) / 2, reorder);
        for (int weighted = 0; weighted < 2; weighted++) {
            adjacent(weighted, reorder);
            distributed(weighted, reorder);
        }
    }
    wrong();
    nothing();
    wrong_edges();
    one_sided();
    return check_close();
}
