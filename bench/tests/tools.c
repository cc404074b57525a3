// ranks: 1 2
// The tool information interface: it can be initialized before MPI, says how many variables there are, and has a code for each thing that
// it has not. (MPI 5.0, section 15.3)
#include "check.h"

/* Before MPI_Init there is no check that could stop the job. */
#define BEFORE(call, right) \
    do { \
        int code = (call); \
        if (code != (right)) { \
            fprintf(stderr, "%s:%d: %s answers %d, not %d\n", __FILE__, __LINE__, #call, code, (right)); \
            return 1; \
        } \
    } while (0)

static void counts(void) {
    int cvars = -1, pvars = -1, categories = -1, events = -1, sources = -1, index;
    section("how many there are");
    SAME(MPI_T_cvar_get_num(&cvars), MPI_SUCCESS);
    SAME(MPI_T_pvar_get_num(&pvars), MPI_SUCCESS);
    SAME(MPI_T_category_get_num(&categories), MPI_SUCCESS);
    SAME(MPI_T_event_get_num(&events), MPI_SUCCESS);
    SAME(MPI_T_source_get_num(&sources), MPI_SUCCESS);
    CHECK(cvars >= 0 && pvars >= 0 && categories >= 0 && events >= 0 && sources >= 0);
    section("the one behind the last");
    int length = 0, verbosity, bind, scope, count = -1, numbers[3];
    char text[8];
    MPI_Datatype datatype;
    MPI_T_enum values;
    MPI_T_cvar_handle handle;
    SAME(MPI_T_cvar_get_info(cvars, NULL, &length, &verbosity, &datatype, &values, NULL, &length, &bind, &scope),
         MPI_T_ERR_INVALID_INDEX);
    SAME(MPI_T_cvar_handle_alloc(cvars, NULL, &handle, &count), MPI_T_ERR_INVALID_INDEX);
    SAME(MPI_T_category_get_info(categories, text, &length, NULL, NULL, &numbers[0], &numbers[1], &numbers[2]),
         MPI_T_ERR_INVALID_INDEX);
    section("names that there are not");
    SAME(MPI_T_cvar_get_index("no such variable", &index), MPI_T_ERR_INVALID_NAME);
    SAME(MPI_T_pvar_get_index("no such variable", MPI_T_PVAR_CLASS_COUNTER, &index), MPI_T_ERR_INVALID_NAME);
    SAME(MPI_T_category_get_index("no such category", &index), MPI_T_ERR_INVALID_NAME);
}

static void sessions(void) {
    MPI_T_pvar_session one = MPI_T_PVAR_SESSION_NULL, other = MPI_T_PVAR_SESSION_NULL;
    section("sessions of performance variables");
    SAME(MPI_T_pvar_session_create(&one), MPI_SUCCESS);
    SAME(MPI_T_pvar_session_create(&other), MPI_SUCCESS);
    CHECK(one != MPI_T_PVAR_SESSION_NULL && other != MPI_T_PVAR_SESSION_NULL && one != other);
    MPI_T_pvar_session copy = one;
    SAME(MPI_T_pvar_session_free(&one), MPI_SUCCESS);
    CHECK(one == MPI_T_PVAR_SESSION_NULL);
    if (!check_library_is("MPICH")) SAME(MPI_T_pvar_session_free(&copy), MPI_T_ERR_INVALID_SESSION);
    SAME(MPI_T_pvar_session_free(&other), MPI_SUCCESS);
}

/* Each of these is MPI_ERRORS_ARE_FATAL to any other function: those of tools call no error handler. */
int main(int argc, char **argv) {
    int provided = -1, number = -1;
    BEFORE(MPI_T_cvar_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
    BEFORE(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
    BEFORE(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
    BEFORE(MPI_T_cvar_get_num(&number), MPI_SUCCESS);
    check_open(argc, argv);
    SAME(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided), MPI_SUCCESS);
    CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
    counts();
    sessions();
    section("it ends with the last who has initialized it");
    SAME(MPI_T_finalize(), MPI_SUCCESS);
    SAME(MPI_T_cvar_get_num(&number), MPI_SUCCESS);
    SAME(MPI_T_finalize(), MPI_SUCCESS);
    if (!check_library_is("MPICH")) { /* which has initialized it once more itself */
        SAME(MPI_T_cvar_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
        SAME(MPI_T_pvar_session_create(&(MPI_T_pvar_session){0}), MPI_T_ERR_NOT_INITIALIZED);
    }
    return check_close();
}
