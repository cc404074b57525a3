//! What an origin asks of targets that it reaches by messages, and how it learns of the end.

use std::sync::atomic::Ordering;

use fabric::{Heap, Payload, UserMemory};
use job::error::{Class, Error, Result};
use job::lock::lock;
use messaging::{Mode, Rank, Receiving, RequestId, Sending, Target};

use super::Window;
use super::origin::{Begun, CompletedBy};
use super::protocol::{DATA, Ended, REQUEST, Request, answer_tag};
use crate::memory::sending;

/// What an origin has under way with one target, or has not heard of the end of.
#[derive(Default)]
pub(super) struct Outstanding {
    /// Sends and receives that are not over here.
    under_way: Vec<UnderWay>,
    /// How many requests it was sent, and of how many it has said that they are done.
    asked: u64,
    heard: u64,
}

/// A request that is answered when all before it are done.
pub(super) struct Ending {
    room: Heap,
    receiving: Receiving,
    /// How many requests that makes.
    asked: u64,
}

impl Outstanding {
    fn is_unheard(&self) -> bool {
        self.asked > self.heard
    }
}

pub(super) enum UnderWay {
    Send(RequestId, Option<Heap>),
    Receive(RequestId),
    /// One that the program has a request for, which takes its outcome.
    Lent(RequestId),
}

impl Window {
    /// Sends a request, with `bytes` bytes of data behind it, which `write` writes.
    pub(super) fn ask(
        &self,
        target: Rank,
        request: &Request,
        bytes: usize,
        write: impl FnOnce(&mut UserMemory),
    ) -> Result<()> {
        let head = request.encode();
        let message = Heap::new(head.len() + bytes);
        message.memory().write_at(0, Payload::from(&head[..]));
        write(&mut message.memory().part(head.len(), bytes));
        lock(&self.outstanding).entry(target).or_default().asked += 1;
        if let Sending::Pending(request) =
            self.comm.start_send(sending(&message), target, REQUEST, Mode::Standard)?
        {
            self.note(target, UnderWay::Send(request, Some(message)));
        }
        Ok(())
    }

    pub(super) fn note(&self, target: Rank, one: UnderWay) {
        lock(&self.outstanding).entry(target).or_default().under_way.push(one);
    }

    /// Posts a receive for an answer, and sends the request, with data behind it, that is answered so.
    fn ask_for(
        &self,
        target: Rank,
        request: impl FnOnce(u32) -> Request,
        (bytes, write): (usize, impl FnOnce(&mut UserMemory)),
        into: Target,
    ) -> Result<Receiving> {
        let answer = self.answers.fetch_add(1, Ordering::Relaxed);
        let receiving = self.comm.start_receive(into, Some(target), Some(answer_tag(answer)))?;
        self.ask(target, &request(answer), bytes, write)?;
        Ok(receiving)
    }

    /// Asks for something that is fetched, into `into`.
    pub(super) fn ask_and_receive(
        &self,
        target: Rank,
        request: impl FnOnce(u32) -> Request,
        data: (usize, impl FnOnce(&mut UserMemory)),
        into: Target,
        completed_by: CompletedBy,
    ) -> Result<Begun> {
        match self.ask_for(target, request, data, into)? {
            Receiving::Pending(request) => {
                self.note(
                    target,
                    match completed_by {
                        CompletedBy::Synchronization => UnderWay::Receive(request),
                        CompletedBy::Request => UnderWay::Lent(request),
                    },
                );
                Ok(Begun::Underway(request))
            }
            Receiving::Done(outcome) => {
                self.comm.conclude_receive(&outcome).error.map_or(Ok(Begun::Locally), Err)
            }
        }
    }

    /// Waits until everything that is under way with a target is over here (MPI 5.0 §12.5.4).
    pub(super) fn complete_here(&self, target: Rank) -> Result<()> {
        let under_way = match lock(&self.outstanding).get_mut(&target) {
            Some(outstanding) => std::mem::take(&mut outstanding.under_way),
            None => return Ok(()),
        };
        let mut ended = Ok(());
        for one in under_way {
            let this = match one {
                UnderWay::Send(request, _keeps) => {
                    self.comm.conclude_send(&self.comm.wait(request), target, DATA)
                }
                UnderWay::Receive(request) => {
                    let received = self.comm.conclude_receive(&self.comm.wait(request));
                    received.error.map_or(Ok(()), Err)
                }
                UnderWay::Lent(request) => {
                    self.comm.process().until(|engine| {
                        (engine.is_over(request) || engine.peek(request).is_some()).then_some(())
                    });
                    Ok(())
                }
            };
            ended = ended.and(this);
        }
        ended
    }

    /// Waits until everything that some targets were asked for is done there.
    pub(super) fn complete_there(&self, targets: &[Rank]) -> Result<()> {
        let mut ended = Ok(());
        let mut answers = Vec::new();
        for target in targets {
            ended = ended.and(self.complete_here(*target));
            if lock(&self.outstanding).get(target).is_some_and(Outstanding::is_unheard) {
                answers.push((*target, self.ask_for_end(*target, |answer| Request::Flush { answer })));
            }
        }
        for (target, answer) in answers {
            ended = ended.and(answer.and_then(|answer| self.hear_end(target, answer)));
        }
        ended
    }

    /// The targets that were asked for anything since they last said that all was done.
    pub(super) fn unheard(&self) -> Vec<Rank> {
        let outstanding = lock(&self.outstanding);
        outstanding.iter().filter(|(_, one)| one.is_unheard()).map(|(target, _)| *target).collect()
    }

    /// Sends a request that is answered when it is done.
    pub(super) fn ask_for_end(&self, target: Rank, request: impl FnOnce(u32) -> Request) -> Result<Ending> {
        let room = Heap::new(1);
        let receiving = self.ask_for(target, request, (0, |_: &mut UserMemory| {}), room.memory().into())?;
        let asked = lock(&self.outstanding).get(&target).map_or(0, |outstanding| outstanding.asked);
        Ok(Ending { room, receiving, asked })
    }

    /// Waits for that answer.
    pub(super) fn hear_end(&self, target: Rank, Ending { room, receiving, asked }: Ending) -> Result<()> {
        let outcome = match receiving {
            Receiving::Done(outcome) => outcome,
            Receiving::Pending(request) => self.comm.wait(request),
        };
        if let Some(error) = self.comm.conclude_receive(&outcome).error {
            return Err(error);
        }
        // The request itself has gone: the target has answered it.
        self.complete_here(target)?;
        let mut outstanding = lock(&self.outstanding);
        let heard = &mut outstanding.entry(target).or_default().heard;
        *heard = asked.max(*heard);
        drop(outstanding);
        let mut byte = [0];
        room.payload().copy_to(&mut byte);
        let what = match Ended::of(byte[0]) {
            Ended::Well => return Ok(()),
            Ended::Outside => {
                "an operation was for memory that is not in the window there; it has changed nothing"
            }
            Ended::Unsound => "an operation made no sense there; it has changed nothing",
            Ended::HolderFailed => {
                let what = format!(
                    "{}: a process of the node of rank {} has failed, and may hold the lock of that rank",
                    self.place(),
                    target.0
                );
                return Err(Error::new(Class::ProcFailed, what)
                    .remedy("free the window, and make another one of those who live"));
            }
        };
        let what = format!("{} at rank {}: {what}", self.place(), target.0);
        Err(Error::new(Class::RmaRange, what)
            .remedy("attach the memory before others use it, and look at displacements"))
    }
}
