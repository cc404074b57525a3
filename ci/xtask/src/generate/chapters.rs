//! The chapters that functions and constants are grouped by, in the order in which a person meets them.

/// A chapter of the function table.
pub struct Chapter {
    /// Its name in the table's `chapter` column.
    pub key: &'static str,
    /// The generated Rust module.
    pub module: &'static str,
    /// What a heading says.
    pub title: &'static str,
}

const fn chapter(key: &'static str, module: &'static str, title: &'static str) -> Chapter {
    Chapter { key, module, title }
}

/// Every chapter; the tables may name no other.
pub const CHAPTERS: &[Chapter] = &[
    chapter("process init: world model", "world", "Start and end: the world model"),
    chapter("process init: sessions", "sessions", "Start and end: sessions"),
    chapter("environment", "environment", "Environment and error handling"),
    chapter("pt2pt", "point_to_point", "Point-to-point communication"),
    chapter("partitioned", "partitioned", "Partitioned communication"),
    chapter("datatypes", "datatypes", "Datatypes"),
    chapter("collectives", "collectives", "Collective communication"),
    chapter("groups-contexts-communicators", "communicators", "Groups, communicators and attributes"),
    chapter("topology", "topology", "Process topologies"),
    chapter("info", "info", "Info objects"),
    chapter("dynamic processes", "dynamic_processes", "Dynamic processes"),
    chapter("rma", "windows", "One-sided communication"),
    chapter("external interfaces", "external", "External interfaces"),
    chapter("io", "files", "Files"),
    chapter("language bindings (Fortran types)", "fortran_types", "Fortran types"),
    chapter("profiling", "profiling", "Profiling"),
    chapter("tools MPI_T", "tools", "Tool information interface"),
    chapter("ABI", "abi", "The ABI itself"),
    chapter("ABI: handle serialization", "handles", "Handles as integers"),
    chapter("deprecated interfaces", "deprecated", "Deprecated functions"),
    chapter("beyond the ABI", "beyond", "Beyond the ABI: handles and statuses for Fortran"),
];
