//! The virtual nodes of `ci/slurm`: up, down, and cut off from each other.

use std::path::PathBuf;
use std::process::Command;

use super::{ClusterSetup, LIMIT};
use crate::job::{self, Ending};

/// The nodes while they are up; they go down with this value, unless they were up before.
pub struct Cluster {
    slurm: PathBuf,
    /// The command that connects to a node as `ssh` does.
    pub ssh: PathBuf,
    was_up: bool,
}

impl Cluster {
    /// Brings the nodes up. The inner error is why there can be none here.
    pub fn up(setup: &ClusterSetup) -> Result<Result<Cluster, String>, String> {
        let log = setup.folder.join("slurm.log");
        let asked = job::run(Command::new(&setup.slurm).arg("is-up"), LIMIT, &log)?;
        let was_up = asked.succeeded();
        let made = job::run(Command::new(&setup.slurm).arg("up"), LIMIT, &log)?;
        match made.ending {
            Ending::Exited(0) => {}
            Ending::Exited(77) => return Ok(Err(made.output.lines().last().unwrap_or_default().to_owned())),
            _ => return Err(format!("ci/slurm up: {}", made.account())),
        }
        let told = job::succeed("ci/slurm ssh", Command::new(&setup.slurm).arg("ssh"), LIMIT, &log)?;
        let ssh = PathBuf::from(told.output.trim());
        Ok(Ok(Cluster { slurm: setup.slurm.clone(), ssh, was_up }))
    }

    /// From now on nothing goes from the second node to the first.
    pub fn part(&self) -> Result<(), String> {
        self.on_ways("n2", "add", FIRST_NODE)
    }

    /// From now on nothing goes between the first two nodes, either way.
    pub fn part_both(&self) -> Result<(), String> {
        self.part()?;
        self.on_ways("n1", "add", SECOND_NODE)
    }

    /// Undoes `part` and `part_both`. A way that was not cut makes an error here, which nobody needs: why it
    /// was not cut has been told.
    pub fn join(&self) {
        let _ = self.on_ways("n2", "delete", FIRST_NODE);
        let _ = self.on_ways("n1", "delete", SECOND_NODE);
    }

    /// Adds or deletes, at a node, what swallows all that goes to another node by each of its addresses.
    fn on_ways(&self, node: &str, what: &str, addresses: [&str; 2]) -> Result<(), String> {
        let all = addresses.map(|address| self.on(node, &format!("ip route {what} blackhole {address}")));
        all.into_iter().collect()
    }

    /// Runs a command on a node.
    fn on(&self, node: &str, words: &str) -> Result<(), String> {
        let output = Command::new(&self.slurm).args(["on", node, words]).output();
        let output = output.map_err(|error| format!("cannot start ci/slurm: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("{words} on {node}: {said}")) }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.was_up {
            // What is left over is found by the next `up`.
            let _ = Command::new(&self.slurm).arg("down").output();
        }
    }
}

const FIRST_NODE: [&str; 2] = ["10.213.78.1", "10.213.79.1"];
const SECOND_NODE: [&str; 2] = ["10.213.78.2", "10.213.79.2"];
