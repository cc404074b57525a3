// ranks: 1 2
// The error handler of files, which MPI_FILE_NULL stands for while no file is open: it returns at first, can be
// replaced, called, and told of errors of files that are none. (MPI 5.0, sections 9.3.3 and 14.7)
#include "check.h"

static int calls, class_told;
static MPI_File told_of;

static void note(MPI_File *file, int *code, ...) {
    calls++;
    told_of = *file;
    MPI_Error_class(*code, &class_told);
}

int main(int argc, char **argv) {
    MPI_Errhandler mine, found, of_comm;
    int code;
    MPI_File stranger = (MPI_File)&stranger, file = MPI_FILE_NULL;
    check_open(argc, argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    section("as it is at first");
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &found));
    CHECK(found == MPI_ERRORS_RETURN);
    OK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_IO)); /* and comes back */
    section("replaced");
    OK(MPI_File_create_errhandler(note, &mine));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &found));
    CHECK(found == mine);
    OK(MPI_Errhandler_free(&found));
    OK(MPI_Errhandler_free(&mine)); /* it stays where it is */
    OK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_QUOTA));
    SAME(calls, 1);
    SAME(class_told, MPI_ERR_QUOTA);
    CHECK(told_of == MPI_FILE_NULL);
    section("a file that cannot be opened");
    code = MPI_File_open(MPI_COMM_SELF, "/no folder/no file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CHECK(code != MPI_SUCCESS || check_library_is("MPICH")); /* where a handler that comes back makes it good */
    SAME(calls, 2);
    CHECK(told_of == MPI_FILE_NULL && file == MPI_FILE_NULL);
    calls = 1;
    if (check_library_is("weft")) {
        section("errors of files that are none");
        CLASS(MPI_File_call_errhandler(stranger, MPI_ERR_IO), MPI_ERR_FILE);
        CLASS(MPI_File_get_errhandler(stranger, &found), MPI_ERR_FILE);
        CLASS(MPI_File_set_errhandler(stranger, MPI_ERRORS_RETURN), MPI_ERR_FILE);
        SAME(calls, 4);
        SAME(class_told, MPI_ERR_FILE);
        CLASS(MPI_File_get_errhandler(MPI_FILE_NULL, NULL), MPI_ERR_ARG);
        CLASS(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
        SAME(calls, 6);
        CLASS(MPI_File_create_errhandler(NULL, &found), MPI_ERR_ARG);
        SAME(calls, 6); /* which is no call of a file's */
        OK(MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)(void (*)(void))note, &of_comm));
        CLASS(MPI_File_set_errhandler(MPI_FILE_NULL, of_comm), MPI_ERR_ERRHANDLER);
        SAME(calls, 7);
        OK(MPI_Errhandler_free(&of_comm));
    }
    section("as it was");
    calls = 0;
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_IO));
    SAME(calls, 0);
    return check_close();
}
