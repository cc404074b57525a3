//! Tools stand between a program and the library (MPI 5.0, chapter 15): they define `MPI_X`, and call
//! `PMPI_X`.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{build, link_library, succeed, table};

#[test]
fn without_a_tool_both_names_send() {
    let place = Place::new();
    assert_eq!(place.run(&place.program(PROGRAM, &[]), None), "received 7 8\n");
}

#[test]
fn a_preloaded_tool_sees_calls_of_the_program_and_reaches_the_library() {
    let place = Place::new();
    let (program, tool) = (place.program(PROGRAM, &[]), place.tool(TOOL));
    assert_eq!(place.run(&program, Some(&tool)), SEEN);
}

#[test]
fn a_tool_that_is_linked_in_front_of_the_library_sees_them() {
    let place = Place::new();
    let tool = place.tool(TOOL);
    let program = place.program(PROGRAM, &["-Wl,--no-as-needed", tool.to_str().unwrap()]);
    assert_eq!(place.run(&program, None), SEEN);
}

#[test]
fn a_definition_in_the_program_wins_over_the_library() {
    let place = Place::new();
    let program = place.program(&format!("{TOOL}{PROGRAM}"), &[]);
    assert_eq!(place.run(&program, None), SEEN);
}

#[test]
fn a_definition_in_the_program_comes_before_a_preloaded_tool() {
    let place = Place::new();
    let tool = place.tool(TOOL);
    let program = place.program(&format!("{TOOL}{PROGRAM}"), &[]);
    assert_eq!(
        place.run(&program, Some(&tool)),
        SEEN,
        "the program's own definition comes before the tool's"
    );
}

/// The tool defines every function of the tables, and would be seen if the library called a single one of
/// them.
#[test]
fn the_library_never_calls_a_tool() {
    let place = Place::new();
    let functions = table("functions").into_iter().chain(table("beyond/functions"));
    let names: Vec<_> = functions.map(|row| row["name"].clone()).collect();
    let definitions: String = names
        .iter()
        .map(|name| format!("int {name}(void); int {name}(void) {{ return seen(\"{name}\"); }}\n"))
        .collect();
    let tool = place.tool(&format!("{SEES}{definitions}"));
    let program = place.program(PROFILED, &[]);
    assert_eq!(place.run(&program, None), "done\n");
    assert_eq!(place.run(&program, Some(&tool)), "tool: MPI_Initialized\ndone\n");
}

/// A folder with the library, where programs and tools are built.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a temporary folder");
        link_library(folder.path());
        Place(folder)
    }

    fn program(&self, text: &str, arguments: &[&str]) -> PathBuf {
        build(self.0.path(), "program", text, arguments)
    }

    fn tool(&self, text: &str) -> PathBuf {
        build(self.0.path(), "tool.so", text, &["-shared", "-fPIC"])
    }

    /// What the program says, as a job of one rank.
    fn run(&self, program: &Path, preloaded: Option<&Path>) -> String {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.0.path());
        preloaded.map(|tool| command.env("LD_PRELOAD", tool));
        succeed(&mut command)
    }
}

/// Tells of each message that is sent.
const TOOL: &str = "
#include <mpi.h>
#include <stdio.h>
int MPI_Send(const void *data, int count, MPI_Datatype datatype, int rank, int tag, MPI_Comm comm) {
    printf(\"tool: tag %d\\n\", tag);
    return PMPI_Send(data, count, datatype, rank, tag, comm);
}
";

/// Sends a message to itself under each of the two names.
const PROGRAM: &str = "
#include <mpi.h>
#include <stdio.h>
int main(void) {
    int sent[2] = {7, 8}, received[2] = {0, 0};
    MPI_Request requests[2];
    MPI_Init(NULL, NULL);
    MPI_Irecv(&received[0], 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[0]);
    MPI_Irecv(&received[1], 1, MPI_INT, 0, 2, MPI_COMM_SELF, &requests[1]);
    MPI_Send(&sent[0], 1, MPI_INT, 0, 1, MPI_COMM_SELF);
    PMPI_Send(&sent[1], 1, MPI_INT, 0, 2, MPI_COMM_SELF);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Finalize();
    printf(\"received %d %d\\n\", received[0], received[1]);
    return 0;
}
";

/// What [`PROGRAM`] says where [`TOOL`] is called.
const SEEN: &str = "tool: tag 1\nreceived 7 8\n";

/// The beginning of a tool that tells the name of each function that is called.
const SEES: &str = "
#include <stdio.h>
static int seen(const char *name) {
    printf(\"tool: %s\\n\", name);
    return 0;
}
";

/// Calls functions of every kind under their profiling names, and a single one under its own.
const PROFILED: &str = "
#include <mpi.h>
#include <stdio.h>
static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)key, (void)extra;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}
static void add(void *in, void *inout, int *count, MPI_Datatype *datatype) {
    (void)datatype;
    for (int i = 0; i < *count; i++) ((int *)inout)[i] += ((int *)in)[i];
}
int main(void) {
    int out[4] = {1, 2, 3, 4}, in[4], flag = 0, key, one = 1, none = 0, extent = 1, *memory;
    MPI_Request requests[2], request;
    MPI_Comm other, half, grid;
    MPI_Datatype column;
    MPI_Win window;
    MPI_Op sum;
    PMPI_Init(NULL, NULL);
    PMPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    PMPI_Comm_set_attr(MPI_COMM_WORLD, key, out);
    PMPI_Comm_dup(MPI_COMM_WORLD, &other);
    PMPI_Comm_split(other, 0, 0, &half);
    PMPI_Cart_create(half, 1, &extent, &one, 0, &grid);
    PMPI_Type_vector(2, 1, 2, MPI_INT, &column);
    PMPI_Type_commit(&column);
    PMPI_Irecv(in, 1, column, 0, 5, other, &requests[0]);
    PMPI_Isend(out, 1, column, 0, 5, other, &requests[1]);
    PMPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    PMPI_Sendrecv(out, 4, MPI_INT, 0, 6, in, 4, MPI_INT, 0, 6, half, MPI_STATUS_IGNORE);
    PMPI_Op_create(add, 1, &sum);
    PMPI_Allreduce(out, in, 4, MPI_INT, sum, other);
    PMPI_Ireduce(out, in, 4, MPI_INT, MPI_MAX, 0, other, &request);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
    PMPI_Alltoallv(out, &one, &none, MPI_INT, in, &one, &none, MPI_INT, other);
    PMPI_Bcast_init(out, 4, MPI_INT, 0, other, MPI_INFO_NULL, &request);
    PMPI_Start(&request);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
    PMPI_Request_free(&request);
    PMPI_Neighbor_allgather(out, 1, MPI_INT, in, 1, MPI_INT, grid);
    PMPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, other, &memory, &window);
    PMPI_Win_fence(0, window);
    PMPI_Win_free(&window);
    PMPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN);
    PMPI_Send(out, 1, MPI_INT, 99, 0, other);
    PMPI_Op_free(&sum);
    PMPI_Type_free(&column);
    PMPI_Comm_free(&grid);
    PMPI_Comm_free(&half);
    PMPI_Comm_free(&other);
    PMPI_Comm_free_keyval(&key);
    MPI_Initialized(&flag);
    PMPI_Finalize();
    printf(\"done\\n\");
    return 0;
}
";
