// ranks: 1 3
// What datatypes tell of themselves: how they were made, their names and kin; and what is refused.
// (MPI 5.0, sections 5.1.13, 6.9.4, 7.8 and 19.1.9)
#include "check.h"

static void contents(void) {
    MPI_Datatype vector, record, parts[2], back[2], dup;
    int integers[8], ni, na, nd, combiner;
    MPI_Aint addresses[4];
    MPI_Count counts[8], ni_c, na_c, nc_c, nd_c;
    section("contents");
    OK(MPI_Type_vector(3, 2, 4, MPI_INT, &vector));
    OK(MPI_Type_create_struct(2, (int[]){1, 5}, (MPI_Aint[]){0, 400}, (MPI_Datatype[]){vector, MPI_CHAR}, &record));
    OK(MPI_Type_free(&vector));
    OK(MPI_Type_get_envelope(record, &ni, &na, &nd, &combiner));
    CHECK(combiner == MPI_COMBINER_STRUCT && ni == 3 && na == 2 && nd == 2);
    OK(MPI_Type_get_contents(record, ni, na, nd, integers, addresses, parts));
    CHECK(integers[0] == 2 && integers[1] == 1 && integers[2] == 5 && addresses[0] == 0 && addresses[1] == 400);
    CHECK(parts[1] == MPI_CHAR);
    OK(MPI_Type_get_contents(record, ni, na, nd, integers, addresses, back)); /* again, new references */
    OK(MPI_Type_free(&record));
    OK(MPI_Type_free(&back[0]));
    OK(MPI_Type_get_envelope(parts[0], &ni, &na, &nd, &combiner));
    CHECK(combiner == MPI_COMBINER_VECTOR && ni == 3 && na == 0 && nd == 1);
    OK(MPI_Type_get_contents(parts[0], ni, na, nd, integers, addresses, back));
    CHECK(integers[0] == 3 && integers[1] == 2 && integers[2] == 4 && back[0] == MPI_INT);
    OK(MPI_Type_commit(&parts[0])); /* what comes back can be used, and made more of */
    OK(MPI_Type_dup(parts[0], &dup));
    OK(MPI_Type_free(&parts[0]));
    OK(MPI_Type_get_envelope(dup, &ni, &na, &nd, &combiner));
    CHECK(combiner == MPI_COMBINER_DUP && ni == 0 && na == 0 && nd == 1);
    OK(MPI_Type_free(&dup));
    section("contents with large counts");
    OK(MPI_Type_create_struct_c(2, (MPI_Count[]){1, 5}, (MPI_Count[]){0, (MPI_Count)1 << 33},
                                (MPI_Datatype[]){MPI_INT, MPI_CHAR}, &record));
    OK(MPI_Type_get_envelope_c(record, &ni_c, &na_c, &nc_c, &nd_c, &combiner));
    CHECK(combiner == MPI_COMBINER_STRUCT && ni_c == 0 && na_c == 0 && nc_c == 5 && nd_c == 2);
    OK(MPI_Type_get_contents_c(record, ni_c, na_c, nc_c, nd_c, integers, addresses, counts, parts));
    CHECK(counts[0] == 2 && counts[2] == 5 && counts[4] == (MPI_Count)1 << 33 && parts[0] == MPI_INT);
    OK(MPI_Type_free(&record));
    OK(MPI_Type_get_envelope(MPI_DOUBLE_INT, &ni, &na, &nd, &combiner));
    SAME(combiner, MPI_COMBINER_NAMED);
}

static void kin(void) {
    const struct { MPI_Datatype value, index, pair; } pairs[] = {
        {MPI_FLOAT, MPI_INT, MPI_FLOAT_INT}, {MPI_DOUBLE, MPI_INT, MPI_DOUBLE_INT}, {MPI_LONG, MPI_INT, MPI_LONG_INT},
        {MPI_INT, MPI_INT, MPI_2INT}, {MPI_SHORT, MPI_INT, MPI_SHORT_INT}, {MPI_LONG_DOUBLE, MPI_INT, MPI_LONG_DOUBLE_INT},
    };
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Datatype found, own;
    section("value and index");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        OK(MPI_Type_get_value_index(pairs[i].value, pairs[i].index, &found));
        CHECK(found == pairs[i].pair);
    }
    OK(MPI_Type_get_value_index(MPI_CHAR, MPI_CHAR, &found));
    CHECK(found == MPI_DATATYPE_NULL);
    section("match_size");
    OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, sizeof(double), &found));
    OK(MPI_Type_size(found, &length));
    SAME(length, sizeof(double));
    OK(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 8, &found));
    OK(MPI_Type_size(found, &length));
    SAME(length, 8);
    OK(MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 16, &found));
    OK(MPI_Type_size(found, &length));
    SAME(length, 16);
    STRICT_CLASS(MPI_Type_match_size(MPI_TYPECLASS_REAL, 5, &found), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Type_match_size(-77, 4, &found), MPI_ERR_ARG);
    section("names");
    OK(MPI_Type_get_name(MPI_LONG_DOUBLE_INT, name, &length));
    CHECK(strcmp(name, "MPI_LONG_DOUBLE_INT") == 0 && length == (int)strlen(name));
    OK(MPI_Type_get_name(MPI_C_FLOAT_COMPLEX, name, &length));
    CHECK(strcmp(name, "MPI_C_COMPLEX") == 0);
    OK(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length));
    CHECK(strcmp(name, "MPI_DATATYPE_NULL") == 0);
    OK(MPI_Type_contiguous(2, MPI_INT, &own));
    OK(MPI_Type_get_name(own, name, &length));
    CHECK(length == 0 && name[0] == '\0');
    OK(MPI_Type_set_name(own, "pair of ints"));
    OK(MPI_Type_get_name(own, name, &length));
    CHECK(strcmp(name, "pair of ints") == 0 && length == 12);
    OK(MPI_Type_free(&own));
}

/* Pairs that have no name of their own: predefined all the same, and searched among. */
static void unnamed_pairs(void) {
    struct far { double value; long index; } in[3] = {{1.5, 9}, {-2, 4}, {7, 3}}, inout[3] = {{1.5, 8}, {5, 1}, {7, 5}};
    struct near { signed char value; short index; } small[2] = {{-3, 7}, {4, 1}}, least[2];
    MPI_Datatype pair, again, other, parts[2];
    MPI_Aint lb, extent, true_lb, true_extent, addresses[1];
    int ni, na, nd, combiner, size, integers[1], length;
    char name[MPI_MAX_OBJECT_NAME];
    section("pairs without a name");
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_LONG, &pair));
    CHECK(pair != MPI_DATATYPE_NULL);
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_LONG, &again));
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_LONG_LONG, &other));
    CHECK(pair == again && pair != other);
    OK(MPI_Type_get_envelope(pair, &ni, &na, &nd, &combiner));
    CHECK(combiner == MPI_COMBINER_VALUE_INDEX && ni == 0 && na == 0 && nd == 2);
    OK(MPI_Type_get_contents(pair, 0, 0, 2, integers, addresses, parts));
    CHECK(parts[0] == MPI_DOUBLE && parts[1] == MPI_LONG);
    OK(MPI_Type_get_name(pair, name, &length));
    CHECK(length == 0);
    OK(MPI_Type_size(pair, &size));
    OK(MPI_Type_get_extent(pair, &lb, &extent));
    CHECK(size == 16 && lb == 0 && extent == sizeof(struct far));
    again = pair;
    CLASS(MPI_Type_free(&again), MPI_ERR_TYPE);
    section("searches among them");
    OK(MPI_Reduce_local(in, inout, 3, pair, MPI_MINLOC));
    CHECK(inout[0].index == 8 && inout[1].value == -2 && inout[1].index == 4 && inout[2].index == 3);
    in[0] = (struct far){2.5 + check_rank, check_rank};
    OK(MPI_Allreduce(in, inout, 1, pair, MPI_MAXLOC, MPI_COMM_WORLD));
    CHECK(inout[0].value == 1.5 + check_size && inout[0].index == check_size - 1);
    CLASS(MPI_Reduce_local(in, inout, 3, pair, MPI_SUM), MPI_ERR_OP);
    section("gaps within them");
    OK(MPI_Type_get_value_index(MPI_SIGNED_CHAR, MPI_SHORT, &pair));
    OK(MPI_Type_size(pair, &size));
    OK(MPI_Type_get_extent(pair, &lb, &extent));
    OK(MPI_Type_get_true_extent(pair, &true_lb, &true_extent));
    CHECK(size == 3 && extent == 4 && true_lb == 0 && true_extent == 4);
    memset(least, 0x55, sizeof least);
    least[0].value = -3, least[0].index = 5, least[1].value = 9, least[1].index = 2;
    OK(MPI_Reduce_local(small, least, 2, pair, MPI_MINLOC));
    CHECK(least[0].index == 5 && least[1].value == 4 && least[1].index == 1);
    CHECK(((char *)least)[1] == 0x55 && ((char *)least)[5] == 0x55);
    OK(MPI_Sendrecv(small, 2, pair, check_rank, 1, least, 2, pair, check_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(memcmp(&least[0].index, &small[0].index, 2) == 0 && ((char *)least)[1] == 0x55);
    section("the same datatype by another road has no order");
    OK(MPI_Type_dup(pair, &again));
    CLASS(MPI_Reduce_local(small, least, 2, again, MPI_MINLOC), MPI_ERR_OP);
    OK(MPI_Type_free(&again));
}

static void refused(void) {
    MPI_Datatype made = MPI_DATATYPE_NULL, uncommitted, freed;
    int values[8] = {0}, position = 0, bytes;
    MPI_Request request = MPI_REQUEST_NULL;
    section("refused");
    STRICT_CLASS(MPI_Type_contiguous(-1, MPI_INT, &made), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Type_vector(-1, 1, 1, MPI_INT, &made), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Type_vector(1, -1, 1, MPI_INT, &made), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Type_indexed(1, (int[]){-1}, (int[]){0}, MPI_INT, &made), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Type_indexed(-1, (int[]){1}, (int[]){0}, MPI_INT, &made), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Type_create_indexed_block(1, -1, (int[]){0}, MPI_INT, &made), MPI_ERR_COUNT);
    STRICT_CLASS(MPI_Type_create_struct(1, (int[]){1}, (MPI_Aint[]){0}, (MPI_Datatype[]){MPI_DATATYPE_NULL}, &made), MPI_ERR_TYPE);
    STRICT_CLASS(MPI_Type_create_subarray(1, (int[]){4}, (int[]){3}, (int[]){2}, MPI_ORDER_C, MPI_INT, &made), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Type_create_subarray(1, (int[]){4}, (int[]){3}, (int[]){0}, 99, MPI_INT, &made), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Type_contiguous_c((MPI_Count)1 << 62, MPI_DOUBLE, &made), MPI_ERR_ARG);
    STRICT_CLASS(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &made), MPI_ERR_TYPE);
    CHECK(made == MPI_DATATYPE_NULL);
    OK(MPI_Type_contiguous(2, MPI_INT, &uncommitted));
    OK(MPI_Type_dup(uncommitted, &freed));
    made = freed;
    OK(MPI_Type_free(&freed));
    CLASS(MPI_Send(values, 1, uncommitted, 0, 1, MPI_COMM_SELF), MPI_ERR_TYPE);
    CLASS(MPI_Irecv(values, 1, uncommitted, 0, 1, MPI_COMM_SELF, &request), MPI_ERR_TYPE);
    CLASS(MPI_Bcast(values, 1, uncommitted, 0, MPI_COMM_SELF), MPI_ERR_TYPE);
    CLASS(MPI_Pack(values, 1, uncommitted, values, 32, &position, MPI_COMM_SELF), MPI_ERR_TYPE);
    STRICT_CLASS(MPI_Send(values, 1, made, 0, 1, MPI_COMM_SELF), MPI_ERR_TYPE);
    STRICT_CLASS(MPI_Type_commit(&made), MPI_ERR_TYPE);
    STRICT_CLASS(MPI_Type_size(made, &bytes), MPI_ERR_TYPE);
    STRICT_CLASS(MPI_Type_free(&made), MPI_ERR_TYPE);
    made = MPI_INT;
    CLASS(MPI_Type_free(&made), MPI_ERR_TYPE);
    CLASS(MPI_Send(values, -1, MPI_INT, 0, 1, MPI_COMM_SELF), MPI_ERR_COUNT);
    CHECK(request == MPI_REQUEST_NULL && position == 0);
    OK(MPI_Type_free(&uncommitted));
}

int main(int argc, char **argv) {
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    contents();
    kin();
    if (!check_library_is("MPICH")) unnamed_pairs();
    refused();
    return check_close();
}
