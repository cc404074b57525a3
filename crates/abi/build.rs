//! Gives the shared library the name that programs of the MPI ABI look for, and keeps it loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in LINKER_ARGUMENTS {
        println!("cargo:rustc-cdylib-link-arg=-Wl,{argument}");
    }
}

const LINKER_ARGUMENTS: [&str; 3] = [
    // The name in the NEEDED entry of every program built against the standard ABI.
    "-soname,libmpi_abi.so.1",
    // Thread-local destructors of an unloaded library would run code that is gone.
    "-z,nodelete",
    // A tool that replaces MPI_X must never be reached from inside: calls between our own functions stay
    // here, even where the compiler folds the identical MPI_X and PMPI_X into one.
    "-Bsymbolic-functions",
];
