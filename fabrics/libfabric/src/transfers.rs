//! Large messages stay where they are: the sender shows its memory, and the receiver reads it straight into
//! where it goes. What is put into memory of peers and gotten from it at length goes the same way.

use std::collections::{HashMap, VecDeque};

use fabric::{Exposed, FabricError, Header, Payload, Peer, Posted, Pulled, Sink, UserMemory};
use libfabric_sys::{Answer, LibfabricError, Remote};

use crate::bell::Haste;
use crate::libfabric::{Libfabric, Notice};
use crate::memory::{Keys, Move, RAILS_MAX, Shown, TransferId};
use crate::trouble;
use crate::wire::{self, Kind};

/// What peers read here, and in what order transfers go on.
#[derive(Default)]
pub(crate) struct Transfers {
    /// What is shown, and to whom. Of one piece of memory there may be several: providers that keep
    /// registrations answer the same key for all within one of them.
    shown: HashMap<(Peer, [u64; 2]), Alike>,
    /// Those of which not all has been asked for, in turn.
    asking: VecDeque<TransferId>,
}

/// What is shown to a peer by the same words. Nobody can tell which of it is read, so it lasts until nothing
/// is; but what another of the same keys covers goes at once, or a buffer that some message is always on its
/// way from would be registered once more for each.
#[derive(Default)]
struct Alike {
    all: Vec<Shown>,
    /// How many messages it is of.
    messages: usize,
}

impl Alike {
    /// Takes what one more message shows; the answer is what is not needed beside the rest.
    fn add(&mut self, shown: Shown) -> Vec<Shown> {
        self.messages += 1;
        if self.all.iter().any(|one| one.covers(&shown)) {
            return vec![shown];
        }
        let needless = self.all.extract_if(.., |one| shown.covers(one)).collect();
        self.all.push(shown);
        needless
    }
}

/// What is noted of a transfer.
pub(crate) struct About {
    pub(crate) link: u32,
    pub(crate) ticket: u64,
    pub(crate) way: Way,
    bytes: usize,
    /// How many of them have been asked for.
    asked: usize,
    /// It waits to ask for more.
    is_waiting: bool,
    /// Who is told of its end.
    purpose: Purpose,
    /// Why it ends badly, if it does.
    error: Option<Box<FabricError>>,
}

/// Where the far end of a transfer is, by the first rail and by those that help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    pub(crate) remote: Remote,
    /// The keys at those of the peer's rails that ours lead to; the first is that of `remote`.
    keys: Keys,
}

impl Way {
    /// Over the endpoint alone.
    pub(crate) fn single(remote: Remote) -> Way {
        let mut keys = Keys::default();
        keys.0[0] = Some(remote.key);
        Way { remote, keys }
    }

    /// How many of our rails may be used.
    pub(crate) fn rails(&self) -> usize {
        RAILS_MAX - self.keys.0.iter().rev().take_while(|key| key.is_none()).count()
    }
}

/// What a transfer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A large message: [`Sink::pulled`] tells.
    Message,
    /// A put or a get: [`Sink::done`] tells.
    OneSided,
}

impl About {
    pub(crate) fn new(link: u32, ticket: u64, purpose: Purpose, way: Way, bytes: usize) -> About {
        About { link, ticket, way, bytes, asked: 0, is_waiting: false, purpose, error: None }
    }

    /// Over which of the rails goes the chunk that begins at `offset`, and how long it is: one chunk for
    /// each, or chunks in turn where they are bounded.
    fn chunk(&self, offset: usize, bytes_max: usize) -> (usize, usize) {
        let rails = self.way.rails().max(1);
        let share = self.bytes.div_ceil(rails).next_multiple_of(SHARE_ALIGNMENT);
        let chunk = if rails > 1 { share.min(bytes_max) } else { bytes_max };
        (offset / chunk % rails, chunk.min(self.bytes - offset))
    }
}

impl Transfers {
    /// Whether something must be asked for.
    #[inline]
    pub(crate) fn is_asking(&self) -> bool {
        !self.asking.is_empty()
    }
}

/// The sender's side.
impl Libfabric {
    /// Lets the peer read `memory`; the default where the provider does not register it. Then the message
    /// goes as one.
    pub(crate) fn show(&mut self, index: u32, memory: Payload<'_>) -> Exposed {
        let link = &self.links[index as usize];
        // Nothing can be read of nothing, and no provider registers it.
        if !link.is_open() || memory.bytes() == 0 {
            return Exposed::default();
        }
        let peer = link.peer;
        let over_rails = memory.bytes() >= STRIPED_BYTES_MIN && link.rails.is_some();
        let shown = match self.port.show(memory, over_rails) {
            Ok(shown) => shown,
            Err(error) => return self.note_refusal(memory.bytes(), &error),
        };
        let exposed = Exposed { words: [shown.remote.address, shown.remote.key] };
        if exposed == Exposed::default() {
            // No provider answers so; but then it could not be told from what is not shown.
            self.port.hide(shown);
            return exposed;
        }
        if over_rails {
            self.tell_keys(index, exposed, shown.keys);
        }
        let needless = self.transfers.shown.entry((peer, exposed.words)).or_default().add(shown);
        for shown in needless {
            self.port.hide(shown);
        }
        self.note_haste();
        exposed
    }

    /// Tells the peer the keys of what is shown at all rails, ahead of the message that tells of the memory.
    /// If that does not go now, the peer reads over one.
    fn tell_keys(&mut self, index: u32, exposed: Exposed, keys: Keys) {
        let payload = wire::encode_keys(exposed, keys);
        let told = self.send_frame(index, Kind::Keys, &Header::default(), Payload::from(&payload[..]));
        debug_assert!(!matches!(told, Posted::Partly(_)), "a frame goes as a whole");
    }

    /// A message whose memory is not registered goes in chunks, which a person should know.
    #[cold]
    fn note_refusal(&mut self, bytes: usize, error: &LibfabricError) -> Exposed {
        if matches!(self.notice, Notice::None) {
            let notice = trouble::cannot_register(&self.provider, bytes, error);
            self.notice = Notice::Untold(Box::new(notice));
        }
        Exposed::default()
    }

    /// Ends what [`Libfabric::show`] began.
    pub(crate) fn hide(&mut self, peer: Peer, exposed: Exposed) {
        let place = (peer, exposed.words);
        let Some(alike) = self.transfers.shown.get_mut(&place) else { return };
        alike.messages -= 1;
        if alike.messages > 0 {
            return;
        }
        for shown in self.transfers.shown.remove(&place).unwrap_or_default().all {
            self.port.hide(shown);
        }
        self.note_haste();
    }

    pub(crate) fn note_haste(&self) {
        self.bell.note_haste(self.haste());
    }

    /// How much there is to do for who looks.
    #[inline]
    pub(crate) fn haste(&self) -> Haste {
        match (
            self.port.is_transferring(),
            self.transfers.shown.is_empty() && !self.port.is_anything_attached(),
        ) {
            (true, _) => Haste::Reading,
            (false, false) => Haste::Shown,
            (false, true) => Haste::None,
        }
    }
}

/// The receiver's side.
impl Libfabric {
    /// Begins to read what the peer shows.
    pub(crate) fn read(
        &mut self,
        link: u32,
        exposed: Exposed,
        offset: usize,
        into: &mut UserMemory,
        ticket: u64,
    ) -> Pulled {
        let is_ready = self.links[link as usize].is_open() && self.links[link as usize].there.is_some();
        if exposed == Exposed::default() || !is_ready {
            return Pulled::Refused;
        }
        let bytes = into.bytes();
        if bytes == 0 {
            return Pulled::Done;
        }
        let [address, key] = exposed.words;
        let mut way = Way::single(Remote { address: address.wrapping_add(offset as u64), key });
        if let Some(keys) = self.links[link as usize].take_keys(exposed) {
            way.keys = keys;
        }
        let about = About::new(link, ticket, Purpose::Message, way, bytes);
        match self.port.land(into.part(0, bytes), about) {
            Ok(id) => self.begin_transfer(id),
            Err(error) => {
                self.note_refusal(bytes, &error);
                return Pulled::Refused;
            }
        }
        Pulled::Underway
    }

    pub(crate) fn begin_transfer(&mut self, id: TransferId) {
        self.note_haste();
        self.ask(id);
    }

    /// Asks for what has not been asked for.
    fn ask(&mut self, id: TransferId) {
        let bytes_max = self.port.moved_bytes_max();
        loop {
            let Some(about) = self.port.about(id) else { return };
            if about.asked == about.bytes || about.error.is_some() {
                return;
            }
            let (offset, way, index) = (about.asked, about.way, about.link);
            let (rail, bytes) = about.chunk(offset, bytes_max);
            let link = &self.links[index as usize];
            let Some(there) = link.there.filter(|_| link.is_open()) else { break };
            let (rail, peer, key) = match (link.rail(rail), way.keys.0[rail]) {
                (Some(peer), Some(key)) if rail > 0 && self.port.can_move(id, rail) => (rail, peer, key),
                _ => (0, there.address, way.remote.key),
            };
            let remote = Remote { address: way.remote.address.wrapping_add(offset as u64), key };
            match self.port.transfer(id, Move { rail, offset, bytes, peer, remote }) {
                Answer::Taken => {}
                Answer::Again => break,
                Answer::Failed(code) => {
                    let said = self.port.text(code);
                    self.transfer_failed(id, &said);
                    break;
                }
            }
            if let Some(about) = self.port.about(id) {
                about.asked += bytes;
            }
        }
        self.ask_later(id);
    }

    fn ask_later(&mut self, id: TransferId) {
        let about = self.port.about(id);
        if about.is_some_and(|about| !std::mem::replace(&mut about.is_waiting, true)) {
            self.transfers.asking.push_back(id);
        }
    }

    /// Goes on with all of which not everything has been asked for.
    #[cold]
    pub(crate) fn ask_on(&mut self, sink: &mut impl Sink) -> usize {
        let mut ended = 0;
        for _ in 0..self.transfers.asking.len() {
            let Some(id) = self.transfers.asking.pop_front() else { break };
            if let Some(about) = self.port.about(id) {
                about.is_waiting = false;
            }
            self.ask(id);
            ended += usize::from(self.transfer_ended(id, sink));
            if !self.port.may_transfer() {
                break;
            }
        }
        ended
    }

    /// A part of a transfer has failed. A message that cannot be read has lost its peer, also one that has
    /// left in good order; what somebody wanted of a peer's memory may have been wrong, and whether the peer
    /// is there still shows by another message.
    #[cold]
    pub(crate) fn transfer_failed(&mut self, id: TransferId, said: &str) {
        let Some(about) = self.port.about(id) else { return };
        let (index, purpose) = (about.link, about.purpose);
        let error = match purpose {
            Purpose::Message => {
                let error = trouble::lost(&self.who(index), &self.provider, said);
                self.fail(index, error.clone());
                error
            }
            Purpose::OneSided => self.denied(index, said),
        };
        if let Some(about) = self.port.about(id) {
            about.error.get_or_insert(Box::new(error));
        }
    }

    /// Tells the engine of a transfer if it is over: all has been asked for, or it has failed or its peer is
    /// lost, and nothing is under way.
    pub(crate) fn transfer_ended(&mut self, id: TransferId, sink: &mut impl Sink) -> bool {
        let Some(about) = self.port.about(id) else { return false };
        let is_open = self.links[about.link as usize].is_open();
        if is_open && about.asked < about.bytes && about.error.is_none() {
            return false;
        }
        let Some(about) = self.port.end(id) else { return false };
        if about.is_waiting {
            self.transfers.asking.retain(|asking| *asking != id);
        }
        self.note_haste();
        let peer = self.links[about.link as usize].peer;
        match (about.purpose, about.error) {
            (Purpose::Message, error) => sink.pulled(peer, about.ticket, is_open && error.is_none()),
            (Purpose::OneSided, Some(error)) => sink.done(peer, about.ticket, Err(*error)),
            (Purpose::OneSided, None) if !is_open => {
                let error = trouble::was_lost(&self.who(about.link));
                sink.done(peer, about.ticket, Err(error));
            }
            (Purpose::OneSided, None) => sink.done(peer, about.ticket, Ok(())),
        }
        true
    }

    /// Goes on with what is moved to or from a peer that is lost: what has not been asked for never comes.
    pub(crate) fn give_up_on(&mut self, index: u32) {
        let of_it = self.port.transfers().filter(|(_, about)| about.link == index);
        let of_it: Vec<TransferId> = of_it.map(|(id, _)| id).collect();
        for id in of_it {
            self.ask_later(id);
        }
    }
}

/// From here on it is worth to share a message among rails.
const STRIPED_BYTES_MIN: usize = 256 << 10;
/// Shares begin at multiples of this.
const SHARE_ALIGNMENT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rails_share_what_is_moved() {
        let mut way = Way::single(Remote { address: 0, key: 1 });
        let chunks = |way, bytes, bytes_max| {
            let about = About::new(0, 0, Purpose::Message, way, bytes);
            let mut offset = 0;
            std::iter::from_fn(|| {
                let (rail, chunk) = (offset < bytes).then(|| about.chunk(offset, bytes_max))?;
                offset += chunk;
                Some((rail, chunk))
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(chunks(way, 10_000, 1 << 30), [(0, 10_000)]);
        assert_eq!(chunks(way, 10_000, 4000), [(0, 4000), (0, 4000), (0, 2000)]);
        way.keys.0[2] = Some(9);
        assert_eq!(way.rails(), 3);
        assert_eq!(chunks(way, 20_000, 1 << 30), [(0, 8192), (1, 8192), (2, 3616)]);
        assert_eq!(chunks(way, 10_000, 3000), [(0, 3000), (1, 3000), (2, 3000), (0, 1000)]);
    }
}
