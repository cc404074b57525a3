//! What a launcher of ranks needs: the server side of the process manager.
//!
//! `weftrun` is built on this; so could be any other program that starts ranks on one node. It holds one
//! [`Server`] per job, hands each rank one end of a socket pair as `PMI_FD`, and carries out the [`Action`]s.

pub use process_manager::server::{Action, Fault, Server, Standing};

pub use crate::config::Rebuilt;
pub use crate::fabrics::{
    FailureLogWriter, LivenessDescriptors, PACKET_BYTES, PACKET_VARIABLE, WaitState, WaitStatesReader, anew,
    be_prompt, create_segment, memfd_refusal,
};
