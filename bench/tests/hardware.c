// ranks: 1 2 4
// The hardware that a process is told of: names that guide MPI_Comm_split_type, and whether the process is restricted to one of each kind.
// (MPI 5.0, sections 9.1.2 and 7.4.2)
#include "check.h"

enum { KINDS_MAX = 16 };

static char keys[KINDS_MAX][MPI_MAX_INFO_KEY + 1];
static int is_one[KINDS_MAX];

/* Answers how many kinds there are, or -1: it may be called before MPI_Init, when there is nothing to stop. */
static int ask(void) {
    MPI_Info info;
    char value[8];
    int count, flag, length;
    if (MPI_Get_hw_resource_info(&info) != MPI_SUCCESS || MPI_Info_get_nkeys(info, &count) != MPI_SUCCESS) return -1;
    if (count > KINDS_MAX) return -1;
    for (int i = 0; i < count; i++) {
        length = sizeof value;
        if (MPI_Info_get_nthkey(info, i, keys[i]) != MPI_SUCCESS) return -1;
        if (MPI_Info_get_string(info, keys[i], &length, value, &flag) != MPI_SUCCESS || !flag) return -1;
        if (strncmp(keys[i], "hwloc://", 8) != 0) return -1;
        is_one[i] = strcmp(value, "true") == 0;
        if (!is_one[i] && strcmp(value, "false") != 0) return -1;
    }
    return MPI_Info_free(&info) == MPI_SUCCESS ? count : -1;
}

/* All ask for the same kind, since all ranks of a node have the same kinds. Whoever is restricted to one of them has a part. */
static void splits(int type, int kind) {
    MPI_Info info;
    MPI_Comm part;
    int size = 0;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_hw_resource_type", keys[kind]));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, type, 0, info, &part));
    CHECK((part != MPI_COMM_NULL) == is_one[kind]);
    if (part != MPI_COMM_NULL) {
        OK(MPI_Comm_size(part, &size));
        CHECK(size >= 1 && size <= check_size);
        OK(MPI_Comm_free(&part));
    }
    OK(MPI_Info_free(&info));
}

int main(int argc, char **argv) {
    int before = check_library_is("MPICH") ? 0 : ask(), count; /* MPICH cannot tell yet */
    check_open(argc, argv);
    section("which kinds there are");
    CHECK(before >= 0);
    count = ask();
    SAME(count, before);
    if (!check_library_is("MPICH")) {
        CHECK(count >= 2);
        SAME(strcmp(keys[0], "hwloc://Machine"), 0);
        CHECK(is_one[0]);
    }
    section("each guides a split");
    for (int kind = 0; kind < count; kind++) {
        splits(MPI_COMM_TYPE_HW_GUIDED, kind);
        splits(MPI_COMM_TYPE_RESOURCE_GUIDED, kind);
    }
    return check_close();
}
