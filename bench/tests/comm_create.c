// ranks: 1 2 3 5 8
// Communicators of groups: MPI_Comm_create by the rules of its manual (one section each), create_group,
// create_from_group, split_type. (MPI 5.0, section 7.4.2)
#include "check.h"

static MPI_Group world;

static MPI_Group range(int first, int last, int stride) {
    MPI_Group made;
    int ranges[1][3] = {{first, last, stride}};
    OK(MPI_Group_range_incl(world, 1, ranges, &made));
    return made;
}

static void compare(MPI_Comm left, MPI_Comm right, int expected) {
    int result = -1;
    OK(MPI_Comm_compare(left, right, &result));
    SAME(result, expected);
}

/* All members are there, in the order of the group. */
static void meets(MPI_Comm comm, MPI_Group group) {
    MPI_Group members;
    int result = -1, ones = 1, sum = 0, size = 0;
    OK(MPI_Comm_group(comm, &members));
    OK(MPI_Group_compare(members, group, &result));
    SAME(result, MPI_IDENT);
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Allreduce(&ones, &sum, 1, MPI_INT, MPI_SUM, comm));
    SAME(sum, size);
    OK(MPI_Group_free(&members));
}

static void created(void) {
    MPI_Comm made, other;
    MPI_Group group;
    int size = check_size, half = size / 2;
    section("create: a subset of the communicator's group; who is in it gets a communicator, who is not MPI_COMM_NULL");
    group = range(0, half, 1);
    OK(MPI_Comm_create(MPI_COMM_WORLD, group, &made));
    if (check_rank <= half) {
        meets(made, group);
        OK(MPI_Comm_free(&made));
    }
    CHECK(made == MPI_COMM_NULL);
    OK(MPI_Group_free(&group));
    section("create: MPI_GROUP_EMPTY is a possible value, and gives MPI_COMM_NULL");
    made = MPI_COMM_WORLD;
    OK(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &made));
    CHECK(made == MPI_COMM_NULL);
    section("create: processes may give different groups, which are disjoint");
    group = check_rank % 2 ? range(size - 1 - size % 2, 1, -2) : range(0, size - 1, 2);
    OK(MPI_Comm_create(MPI_COMM_WORLD, group, &made));
    meets(made, group);
    section("create: nothing cached is propagated");
    int keyval = MPI_KEYVAL_INVALID, flag = 1;
    void *value;
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    OK(MPI_Comm_set_attr(made, keyval, &size));
    OK(MPI_Comm_create(made, group, &other));
    OK(MPI_Comm_get_attr(other, keyval, &value, &flag));
    CHECK(!flag);
    compare(made, other, MPI_CONGRUENT);
    OK(MPI_Comm_free(&other));
    OK(MPI_Comm_dup(made, &other));
    OK(MPI_Comm_get_attr(other, keyval, &value, &flag));
    CHECK(flag && value == &size);
    OK(MPI_Comm_free(&other));
    OK(MPI_Comm_free_keyval(&keyval));
    section("create: the new communicator can be subdivided again");
    MPI_Group part;
    int zero[1] = {0};
    OK(MPI_Group_incl(group, 1, zero, &part));
    OK(MPI_Comm_create(made, part, &other));
    CHECK((other == MPI_COMM_NULL) == (check_rank != (check_rank % 2 ? size - 1 - size % 2 : 0)));
    if (other != MPI_COMM_NULL) OK(MPI_Comm_free(&other));
    OK(MPI_Group_free(&part));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_free(&made));
}

/* MPICH does not look; there these would be communicators that hang. */
static void inconsistent(void) {
    MPI_Comm made = MPI_COMM_NULL, odd;
    MPI_Group group;
    int size = check_size;
    if (check_library_is("MPICH") || size == 1) return;
    section("create: the members of a group must all give it");
    group = check_rank == 0 ? range(0, size - 1, 1) : range(check_rank, check_rank, 1);
    CLASS(MPI_Comm_create(MPI_COMM_WORLD, group, &made), MPI_ERR_GROUP);
    OK(MPI_Group_free(&group));
    section("create: one member gives no group");
    group = check_rank == 0 ? MPI_GROUP_EMPTY : range(0, size - 1, 1);
    CLASS(MPI_Comm_create(MPI_COMM_WORLD, group, &made), MPI_ERR_GROUP);
    OK(MPI_Group_free(&group));
    section("create: the same members in the same order");
    group = check_rank == 0 ? range(0, size - 1, 1) : range(size - 1, 0, -1);
    CLASS(MPI_Comm_create(MPI_COMM_WORLD, group, &made), MPI_ERR_GROUP);
    OK(MPI_Group_free(&group));
    section("create: only members of the communicator");
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &odd));
    OK(MPI_Comm_set_errhandler(odd, MPI_ERRORS_RETURN));
    CLASS(MPI_Comm_create(odd, world, &made), MPI_ERR_GROUP);
    CLASS(MPI_Comm_create_group(odd, world, 1, &made), MPI_ERR_GROUP);
    CHECK(made == MPI_COMM_NULL);
    section("create: all is well afterwards");
    OK(MPI_Comm_create(MPI_COMM_WORLD, world, &made));
    meets(made, world);
    OK(MPI_Comm_free(&made));
    OK(MPI_Comm_free(&odd));
    section("create: null handles");
    CLASS(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &made), MPI_ERR_GROUP);
    CLASS(MPI_Comm_create_group(MPI_COMM_WORLD, MPI_GROUP_NULL, 1, &made), MPI_ERR_GROUP);
    CLASS(MPI_Comm_create_group(MPI_COMM_WORLD, world, -1, &made), MPI_ERR_TAG);
    CLASS(MPI_Comm_create(MPI_COMM_NULL, world, &made), MPI_ERR_COMM);
    CLASS(MPI_Comm_dup(MPI_COMM_NULL, &made), MPI_ERR_COMM);
    CLASS(MPI_Comm_split(MPI_COMM_WORLD, -7, 0, &made), MPI_ERR_ARG);
    CLASS(MPI_Comm_split_type(MPI_COMM_WORLD, 12345, 0, MPI_INFO_NULL, &made), MPI_ERR_ARG);
    CHECK(made == MPI_COMM_NULL);
}

static void by_group_alone(void) {
    MPI_Comm made;
    MPI_Group group;
    int size = check_size;
    section("create_group: collective over the group only");
    group = range(size - 1, size / 2, -1);
    made = MPI_COMM_NULL;
    if (check_rank >= size / 2) {
        for (int round = 0; round < 40; round++) {
            OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 7, &made));
            meets(made, group);
            OK(MPI_Comm_free(&made));
        }
    }
    section("create_group: groups that overlap, one after the other, with one tag");
    for (int first = 0; first + 1 < size; first++) {
        if (check_rank != first && check_rank != first + 1) continue;
        MPI_Group pair = range(first + 1, first, -1);
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, pair, 7, &made));
        meets(made, pair);
        OK(MPI_Comm_free(&made));
        OK(MPI_Group_free(&pair));
    }
    section("create_group: who is not in the group");
    MPI_Group me = range(check_rank, check_rank, 1), next = range((check_rank + 1) % size, (check_rank + 1) % size, 1);
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, me, 1, &made));
    compare(made, MPI_COMM_SELF, MPI_CONGRUENT);
    OK(MPI_Comm_free(&made));
    if (size > 1) {
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, next, 1, &made));
        CHECK(made == MPI_COMM_NULL);
    }
    OK(MPI_Group_free(&me));
    OK(MPI_Group_free(&next));
    OK(MPI_Group_free(&group));
    section("create_from_group: made from no communicator");
    for (int round = 0; round < 3; round++) {
        MPI_Comm another;
        OK(MPI_Comm_create_from_group(world, "weft://test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made));
        OK(MPI_Comm_create_from_group(world, "weft://test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &another));
        meets(made, world);
        meets(another, world);
        compare(made, another, MPI_CONGRUENT);
        MPI_Errhandler handler;
        OK(MPI_Comm_get_errhandler(made, &handler));
        CHECK(handler == MPI_ERRORS_RETURN);
        OK(MPI_Comm_free(&made));
        OK(MPI_Comm_free(&another));
    }
    CLASS(MPI_Comm_create_from_group(MPI_GROUP_NULL, "t", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made), MPI_ERR_GROUP);
    STRICT_CLASS(MPI_Comm_create_from_group(world, NULL, MPI_INFO_NULL, MPI_ERRORS_RETURN, &made), MPI_ERR_ARG);
    CHECK(made == MPI_COMM_NULL);
}

/* Ranks from `first` on that are on this node, by the node's name; in `after`, how many of them come after this one. */
static int neighbours(int first, int *after) {
    char mine[MPI_MAX_PROCESSOR_NAME] = "", all[32][MPI_MAX_PROCESSOR_NAME];
    int length, count = 0;
    CHECK(check_size <= 32);
    OK(MPI_Get_processor_name(mine, &length));
    OK(MPI_Allgather(mine, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, all, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, MPI_COMM_WORLD));
    *after = 0;
    for (int rank = first; rank < check_size; rank++) {
        if (strcmp(all[rank], mine) != 0) continue;
        count++;
        *after += rank > check_rank;
    }
    return count;
}

static void by_machine(void) {
    MPI_Comm node, part;
    MPI_Info info;
    int rank = -1, size = -1, flag = 0, after = 0;
    int here = neighbours(0, &after), others = neighbours(1, &rank);
    section("split_type: shared memory");
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -check_rank, MPI_INFO_NULL, &node));
    OK(MPI_Comm_rank(node, &rank));
    OK(MPI_Comm_size(node, &size));
    SAME(size, here);
    SAME(rank, after);
    OK(MPI_Comm_free(&node));
    section("split_type: one takes no part");
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, check_rank ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, 0, MPI_INFO_NULL,
                           &node));
    CHECK((node == MPI_COMM_NULL) == (check_rank == 0));
    if (node != MPI_COMM_NULL) {
        OK(MPI_Comm_size(node, &size));
        SAME(size, others);
        OK(MPI_Comm_free(&node));
    }
    section("split_type: guided, to shared memory");
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory"));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &node));
    if (here == check_size) compare(node, MPI_COMM_WORLD, MPI_CONGRUENT);
    OK(MPI_Comm_size(node, &size));
    SAME(size, here);
    OK(MPI_Comm_free(&node));
    section("split_type: guided, to what is not there");
    OK(MPI_Info_set(info, "mpi_hw_resource_type", "weft://moon"));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &node));
    CHECK(node == MPI_COMM_NULL);
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, MPI_INFO_NULL, &node));
    CHECK(node == MPI_COMM_NULL);
    OK(MPI_Info_free(&info));
    section("split_type: unguided, down to where nothing smaller is known");
    MPI_Comm level = MPI_COMM_WORLD;
    for (int depth = 0; level != MPI_COMM_NULL; depth++) {
        int before = -1, after = -1;
        char kind[64] = "";
        CHECK(depth < 16);
        OK(MPI_Info_create(&info));
        OK(MPI_Comm_split_type(level, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &part));
        OK(MPI_Comm_size(level, &before));
        if (part != MPI_COMM_NULL) {
            int length = sizeof kind;
            OK(MPI_Comm_size(part, &after));
            CHECK(after < before);
            if (!check_library_is("MPICH")) {
                OK(MPI_Info_get_string(info, "mpi_hw_resource_type", &length, kind, &flag));
                CHECK(flag && kind[0] != '\0');
            }
        }
        if (level != MPI_COMM_WORLD) OK(MPI_Comm_free(&level));
        OK(MPI_Info_free(&info));
        level = part;
    }
    section("split_type: by resource, a process set");
    if (!check_library_is("MPICH")) {
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "mpi_pset_name", "mpi://WORLD"));
        OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &node));
        compare(node, MPI_COMM_WORLD, MPI_CONGRUENT);
        OK(MPI_Comm_free(&node));
        OK(MPI_Info_set(info, "mpi_pset_name", "mpi://SHARED"));
        OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &node));
        OK(MPI_Comm_size(node, &size));
        SAME(size, here);
        OK(MPI_Comm_free(&node));
        OK(MPI_Info_free(&info));
    }
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    created();
    inconsistent();
    by_group_alone();
    by_machine();
    OK(MPI_Group_free(&world));
    return check_close();
}
