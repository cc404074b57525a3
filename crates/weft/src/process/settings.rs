//! What a process is told about its job, its machine and its configuration when it joins.

use std::sync::atomic::Ordering;

use collectives::{OneMessageOfTwo, TuningConfig};
use job::machine::Surroundings;
use job::numa_partition::Parts;
use process_manager::NodeMap;

use super::Process;

impl Process {
    /// Switches the comparison of collective calls on or off; the same at all processes.
    pub(crate) fn set_checks(&self, on: bool) {
        self.checks.store(on, Ordering::Relaxed);
    }

    /// Whether members compare what collective operations they call, and messages bring what their elements
    /// are.
    #[inline]
    pub fn checks(&self) -> bool {
        self.checks.load(Ordering::Relaxed)
    }

    /// Allows or forbids this process to reach memory of others by calls of the kernel.
    pub(crate) fn set_reads_peers(&self, on: bool) {
        self.reads_peers.store(on, Ordering::Relaxed);
    }

    /// Whether this process may read and write memory of others by calls of the kernel.
    pub(crate) fn reads_peers(&self) -> bool {
        self.reads_peers.load(Ordering::Relaxed)
    }

    pub(crate) fn set_surroundings(&self, surroundings: Surroundings) {
        // A process has one configuration; who comes first sets it.
        let _ = self.surroundings.set(surroundings);
    }

    /// What it knows of its machine.
    pub(crate) fn surroundings(&self) -> &Surroundings {
        self.surroundings.get_or_init(Surroundings::default)
    }

    /// Sets by what collective algorithms are chosen; the same at all processes.
    pub(crate) fn set_guide(&self, guide: &'static TuningConfig) {
        // A process takes one part in a job; who comes first sets it.
        let _ = self.guide.set(guide);
    }

    /// By what collective algorithms are chosen.
    #[inline]
    #[must_use]
    pub fn guide(&self) -> &'static TuningConfig {
        self.guide.get().copied().unwrap_or_else(TuningConfig::built_in)
    }

    /// Up to which lengths operations of two ranks are one message.
    #[inline(always)]
    pub(crate) fn one_message_of_two(&self) -> OneMessageOfTwo {
        let guide = self.guide();
        if std::ptr::eq(guide, TuningConfig::built_in()) {
            OneMessageOfTwo::BUILT_IN
        } else {
            guide.one_message_of_two()
        }
    }

    /// Tells who sits on which node of several; all processes are told the same, before they talk.
    pub(crate) fn set_nodes(&self, nodes: NodeMap) {
        let _ = self.nodes.set(nodes);
    }

    /// Who sits on which of several nodes, where all processes know it.
    #[inline]
    pub(crate) fn nodes(&self) -> Option<&NodeMap> {
        self.nodes.get()
    }

    /// Tells who sits on which part of its node; all processes are told the same, before they talk.
    pub(crate) fn set_parts(&self, parts: Parts) {
        let _ = self.parts.set(parts);
    }

    /// Who sits on which part of its node, where all processes know it.
    #[inline]
    pub(crate) fn parts(&self) -> Option<&Parts> {
        self.parts.get()
    }
}
