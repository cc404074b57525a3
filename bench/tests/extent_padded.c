// ranks: 1
// The extent of a datatype holds its parts with the padding of their extents: whoever lays out memory by the extents of parts has
// room for them. Open MPI has the same numbers; MPICH does not round up the extents of some of these. (MPI 5.0, section 5.1)
#include "check.h"

static MPI_Aint upper(MPI_Datatype type) {
    MPI_Aint lower, extent;
    OK(MPI_Type_get_extent(type, &lower, &extent));
    return lower + extent;
}

static void holds(MPI_Datatype *whole, MPI_Aint right) {
    STRICT_CLASS(upper(*whole) == right ? MPI_SUCCESS : MPI_ERR_OTHER, MPI_SUCCESS);
    OK(MPI_Type_free(whole));
}

int main(int argc, char **argv) {
    MPI_Datatype inner, outer, parts[2];
    MPI_Aint places[2] = {41, 140};
    int lengths[2] = {2, 1};
    check_open(argc, argv);
    section("a vector of vectors");
    OK(MPI_Type_create_hvector(3, 4, 25, MPI_INT, &inner));
    OK(MPI_Type_create_hvector(2, 3, 273, inner, &outer));
    CHECK(upper(outer) >= 273 + 2 * upper(inner) + upper(inner));
    holds(&outer, 480);
    section("rows");
    OK(MPI_Type_contiguous(3, inner, &outer));
    CHECK(upper(outer) >= 3 * upper(inner));
    holds(&outer, 3 * 68);
    section("lists");
    OK(MPI_Type_create_hindexed(2, lengths, places, inner, &outer));
    CHECK(upper(outer) >= 140 + upper(inner));
    holds(&outer, 41 + 168);
    section("structs of what ends in padding");
    parts[0] = inner, parts[1] = MPI_SHORT;
    places[0] = 10, places[1] = 3;
    OK(MPI_Type_create_struct(2, lengths, places, parts, &outer));
    CHECK(upper(outer) >= 10 + 2 * upper(inner));
    holds(&outer, 3 + 144);
    section("an extent that was set counts alone");
    OK(MPI_Type_create_resized(inner, 0, 66, &parts[0]));
    OK(MPI_Type_create_hvector(2, 1, 70, parts[0], &outer));
    SAME(upper(outer), 136);
    OK(MPI_Type_free(&outer));
    OK(MPI_Type_free(&parts[0]));
    OK(MPI_Type_free(&inner));
    return check_close();
}
