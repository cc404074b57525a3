//! Every variable of the environment that weft reads, with its meaning, for the list that people ask for.

/// One variable of the environment, for the list that people ask for.
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What the variable does, with its default.
    pub meaning: &'static str,
}

/// Every variable that the library, the process manager's client and weftrun read.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "WEFT_FABRIC",
        meaning: "fabrics that may be used, a comma list of shm, tcp, libfabric:PROVIDER; default: shm, tcp, and libfabric between hosts that have a card for it",
    },
    Variable {
        name: "WEFT_NODE",
        meaning: "set by weftrun --nodes: the part of the node that a rank shares memory within",
    },
    Variable {
        name: "WEFT_APPNUM",
        meaning: "set by weftrun for several programs under srun: what MPI_APPNUM is, where the launcher does not tell",
    },
    Variable { name: "WEFT_SHM_FD", meaning: "set by weftrun: the descriptor of the job's shared memory" },
    Variable {
        name: "WEFT_FT_MODE",
        meaning: "what becomes of communicators that have lost a member: none, abort, blank, shrink or rebuild; default none",
    },
    Variable {
        name: "WEFT_FT_MESSAGES",
        meaning: "what becomes of messages when a communicator recovers: reset or cont; default reset",
    },
    Variable {
        name: "WEFT_REBUILD_FALLBACK",
        meaning: "blank or abort: what happens where processes cannot be started again; default blank",
    },
    Variable {
        name: "WEFT_RESTARTS",
        meaning: "set by weftrun --ft=rebuild: how many processes may be started in the place of others",
    },
    Variable {
        name: "WEFT_REBUILT",
        meaning: "set by weftrun for a process that is started in the place of another: what it has to know",
    },
    Variable {
        name: "WEFT_FAILURES_FD",
        meaning: "set by weftrun --ft: the descriptor of what tells which ranks have ended",
    },
    Variable {
        name: "WEFT_PULSES_FD",
        meaning: "set by weftrun --ft: the descriptor of what shows weftrun that a rank has ended",
    },
    Variable {
        name: "WEFT_WAIT_STATES_FD",
        meaning: "set by weftrun: the descriptor of where ranks write what their calls wait for",
    },
    Variable {
        name: "WEFT_HANG_NOTICE",
        meaning: "seconds after which weftrun tells once what all ranks wait for, if all have slept in MPI so long; off never does; default 60",
    },
    Variable {
        name: "WEFT_CMA",
        meaning: "0 keeps from reading a peer's memory directly; default 1, if it works",
    },
    Variable {
        name: "WEFT_PROGRESS_THREAD",
        meaning: "1 lets a thread of the library's carry out one-sided operations that come as messages while the program computes, as with MPI_THREAD_MULTIPLE; default 0",
    },
    Variable { name: "WEFT_TCP_PORTS", meaning: "ports to listen on, as 5000-5999; default: any" },
    Variable {
        name: "WEFT_TCP_INTERFACES",
        meaning: "interfaces to listen on and be reached over, a comma list; default: all",
    },
    Variable { name: "WEFT_CONNECT_TIMEOUT", meaning: "seconds a connection may take; default 10" },
    Variable {
        name: "WEFT_NODE_TIMEOUT",
        meaning: "seconds after which a node that answers nothing over tcp is taken for dead, at least 3; default 90",
    },
    Variable {
        name: "WEFT_UNEXPECTED_BYTES",
        meaning: "memory for messages whose receive is not posted; default 67108864",
    },
    Variable {
        name: "WEFT_CPUS",
        meaning: "set by weftrun: the cpus that the ranks of this node may use together, as 1.5",
    },
    Variable { name: "WEFT_WAIT", meaning: "auto, spin or yield: how a waiting rank begins; default auto" },
    Variable {
        name: "WEFT_PSETS",
        meaning: "process sets for sessions, as app://ocean=0-3,8;app://ice=4-7; weftrun --pset sets it",
    },
    Variable {
        name: "WEFT_INITIAL_ERRHANDLER",
        meaning: "mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return; weftrun --initial-errhandler sets it",
    },
    Variable {
        name: "WEFT_CHECK",
        meaning: "1 compares collective calls between ranks, and the elements of messages with those of their receives; default 0",
    },
    Variable {
        name: "WEFT_EXPLAIN",
        meaning: "1 tells for each grid that is mapped onto the machine what it gains; default 0",
    },
    Variable {
        name: "WEFT_PROCESS_MANAGER",
        meaning: "how to talk to the launcher: pmi1, pmi2, pmix or none; default: what the launcher offers",
    },
    Variable {
        name: "WEFT_LIBPMIX",
        meaning: "the PMIx library to load under a PMIx launcher; default: the launcher's own, or libpmix.so.2",
    },
    Variable {
        name: "WEFT_LIBFABRIC",
        meaning: "the library of libfabric to load where that fabric is asked for; default: libfabric.so.1",
    },
    Variable {
        name: "WEFT_LIBFABRIC_DOMAINS",
        meaning: "network cards that libfabric may use, a comma list as weft doctor names them; default: all",
    },
    Variable {
        name: "WEFT_LIBFABRIC_RAILS",
        meaning: "1 to 4: over how many cards a large message goes at once by libfabric; default 1, the nearest",
    },
    Variable {
        name: "WEFT_CONSTANTS",
        meaning: "off, or a file of measured constants; default: that of this host in the folder for caches, if any",
    },
    Variable {
        name: "WEFT_BUSY",
        meaning: "ignore has weftrun bind ranks as if no other program ran on the node; by default they are not bound where others leave too few cores",
    },
    Variable {
        name: "WEFT_COSTS",
        meaning: "off, or what collective operations cost, a file as weft explain costs prints it; default: built in, and measured constants of the node",
    },
    Variable {
        name: "WEFT_COLLECTIVE",
        meaning: "collective algorithms to use where they serve, as allreduce:ring,bcast:binomial; default: those predicted to take least",
    },
    Variable {
        name: "WEFT_MACHINE",
        meaning: "describes each host: a file of lstopo's, or as pack:2 numa:2 core:8 pu:1; default: what hwloc sees",
    },
    Variable {
        name: "WEFT_SWITCHES",
        meaning: "a file that says which hosts are behind which switches; default: what Slurm tells, if it does",
    },
    Variable {
        name: "WEFT_PARTS",
        meaning: "set by weftrun where the costs have lines for parts of a node: on which of them each rank is, as package (vector,(0,2,16))",
    },
];
