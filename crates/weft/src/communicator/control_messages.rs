//! Numbers that members send each other while they make something.

use std::borrow::Cow;
use std::sync::Arc;

use fabric::{Heap, Payload, Peer};
use job::error::{Class, Error, Result};
use job::fabrics::Fabrics;
use messaging::{Engine, Envelope, Mode, Outcome, Pattern, Rank, Receiving, RequestId, Sending};

use super::Communicator;
use super::strangers::numbers_of;
use crate::memory::sending;
use crate::process::Process;

/// Numbers between members, under a tag of their own. They go by the communicator of those who live.
pub(super) struct Mail<'a> {
    from: &'a Communicator,
    living: Cow<'a, Communicator>,
    tag: i32,
}

/// Numbers that are on their way, and the memory they are read from.
pub(super) struct Parcel {
    process: Arc<Process>,
    request: Option<RequestId>,
    _numbers: Heap,
}

impl<'a> Mail<'a> {
    /// Under a tag that no other operation has. Collective.
    pub(super) fn new(from: &'a Communicator) -> Mail<'a> {
        let living = from.among_living();
        let tag = living.next_nonblocking_tag();
        Mail { from, living, tag }
    }

    fn context(&self) -> u32 {
        self.living.collective_context()
    }

    /// The process of a rank, and its rank among those who live.
    fn member(&self, rank: Rank) -> Result<(Peer, Rank)> {
        let peer = self.from.group().peer(rank).ok_or_else(|| self.from.lost_itself())?;
        let there = self.living.group().rank(peer).ok_or_else(|| {
            let what = format!("{}: rank {} is blank: its process has failed", self.from.place(), rank.0);
            Error::new(Class::ProcFailed, what)
        })?;
        Ok((peer, there))
    }

    /// Begins to send numbers.
    pub(super) fn send(&self, to: Rank, numbers: &[i64]) -> Result<Parcel> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let heap = Heap::new(bytes.len());
        heap.memory().write_at(0, Payload::from(&bytes[..]));
        let envelope = Envelope { context: self.context(), source: self.living.rank(), tag: self.tag };
        let process = self.from.process().clone();
        let payload = sending(&heap);
        let request = match process.send(self.member(to)?.0, envelope, payload, Mode::Standard)? {
            Sending::Done => None,
            Sending::Pending(request) => Some(request),
        };
        Ok(Parcel { process, request, _numbers: heap })
    }

    /// Receives that many numbers.
    pub(super) fn receive(&self, from: Rank, count: usize) -> Result<Vec<i64>> {
        let room = Heap::new(8 * count);
        let (peer, from) = self.member(from)?;
        let pattern = Pattern { context: self.context(), source: Some(from), tag: Some(self.tag) };
        let process = self.from.process();
        let outcome = process.receive_awaited(pattern, Some(peer), room.memory());
        self.arrived(&outcome, &room)
    }

    /// Receives numbers from anybody, however many.
    pub(super) fn receive_any(&self) -> Result<Vec<i64>> {
        let pattern = Pattern { context: self.context(), source: None, tag: Some(self.tag) };
        let process = self.from.process();
        let taken = process.until(|engine| {
            let lost = |engine: &mut Engine<Fabrics>| engine.obstacle(&pattern, None).map(Err);
            engine.take(&pattern).map(Ok).or_else(|| lost(engine))
        });
        let message = taken.map_err(|failure| self.from.nothing_comes(&failure))?;
        let room = Heap::new(message.probed().bytes);
        let outcome = match process.receive_matched(message, room.memory()) {
            Receiving::Done(outcome) => outcome,
            Receiving::Pending(request) => process.wait(request),
        };
        self.arrived(&outcome, &room)
    }

    fn arrived(&self, outcome: &Outcome, room: &Heap) -> Result<Vec<i64>> {
        match &outcome.failure {
            Some(failure) => {
                let what = format!("{}: {}", self.from.place(), crate::process::failure_text(failure));
                Err(Error::new(Class::ProcFailed, what))
            }
            None => Ok(numbers_of(room.payload())),
        }
    }
}

impl Parcel {
    /// Waits until the numbers are gone.
    pub(super) fn arrive(mut self) -> Result<()> {
        let Some(request) = self.request.take() else { return Ok(()) };
        match self.process.wait(request).failure {
            None => Ok(()),
            Some(failure) => Err(Error::new(Class::ProcFailed, crate::process::failure_text(&failure))),
        }
    }
}

impl Drop for Parcel {
    /// The engine reads the numbers until the send is over, also where another send has failed.
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let _ = self.process.wait(request);
        }
    }
}
