// ranks: 1 2
// exit: nonzero
// says: share/doc/weft/mpi-coverage.md lists all that works
// Functions that are not there yet: they say so with their names and with what works instead, through the error handler that is
// responsible, and leave null handles and zeros where their results would be. Other libraries have them.
#include "check.h"

static int told;

static void look(MPI_File *file, int *code, ...) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    OK(MPI_Error_string(*code, text, &length));
    CHECK(*file == MPI_FILE_NULL);
    CHECK(strstr(text, "MPI_File_open: this function is not there yet") != NULL);
    told++;
}

int main(int argc, char **argv) {
    MPI_File file = (MPI_File)(size_t)0x1234;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Request request = (MPI_Request)(size_t)0x1234;
    MPI_Status status;
    MPI_Errhandler handler;
    MPI_Offset size = 77;
    char port[MPI_MAX_PORT_NAME] = "port";
    int count = -1;
    check_open(argc, argv);
    if (check_library_is("MPICH")) {
        check_close();
        return 1;
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    section("handles are null");
    OK(MPI_File_create_errhandler(look, &handler));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    CLASS(MPI_File_open(MPI_COMM_WORLD, "none", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_UNSUPPORTED_OPERATION);
    SAME(told, 1);
    CHECK(file == MPI_FILE_NULL);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&handler));
    CLASS(MPI_Comm_spawn("none", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm, MPI_ERRCODES_IGNORE),
          MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK(comm == MPI_COMM_NULL);
    CLASS(MPI_File_iread(MPI_FILE_NULL, &count, 1, MPI_INT, &request), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK(request == MPI_REQUEST_NULL);
    section("numbers, texts and statuses are nothing");
    CLASS(MPI_File_get_size(MPI_FILE_NULL, &size), MPI_ERR_UNSUPPORTED_OPERATION);
    SAME(size, 0);
    CLASS(MPI_Open_port(MPI_INFO_NULL, port), MPI_ERR_UNSUPPORTED_OPERATION);
    SAME(port[0], 0);
    memset(&status, 0x55, sizeof status);
    CLASS(MPI_File_read(MPI_FILE_NULL, &count, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_Get_count(&status, MPI_INT, &count));
    SAME(count, 0);
    CLASS(MPI_File_read(MPI_FILE_NULL, &count, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    section("what the last message says");
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_File_open(MPI_COMM_WORLD, "none", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    return 0; /* an error that nobody was told of */
}
