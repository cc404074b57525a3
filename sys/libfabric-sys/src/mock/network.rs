//! The model: endpoints, queues, registered memory, and messages between them.

use std::collections::{HashSet, VecDeque};
use std::ffi::c_void;

use super::Rules;
use super::one_sided::{Underway, Work};
use crate::bindings::*;

/// Everything there is.
pub(super) struct Network {
    pub(super) rules: Rules,
    chance: u64,
    /// For each domain that was opened, which of those offered it is.
    domains: Vec<usize>,
    pub(super) endpoints: Vec<MockEndpoint>,
    queues: Vec<VecDeque<Entry>>,
    pub(super) regions: Vec<MockRegion>,
    pub(super) underway: Vec<Underway>,
    /// Contexts that belong to the provider now.
    taken: HashSet<usize>,
    broken: Vec<String>,
}

#[derive(Default)]
pub(super) struct MockEndpoint {
    pub(super) domain: usize,
    /// What was asked for.
    pub(super) capabilities: u64,
    queue: Option<usize>,
    has_addresses: bool,
    is_enabled: bool,
    is_closed: bool,
    least_room: usize,
    buffers: VecDeque<Buffer>,
    incoming: VecDeque<Message>,
    pub(super) works: VecDeque<Work>,
    pub(super) moved_bytes: usize,
}

/// A receive buffer.
struct Buffer {
    memory: MockSpan,
    used: usize,
    context: usize,
    is_for_many: bool,
}

/// A message on its way: injected, or lying where its sender has it until it is delivered.
enum Message {
    Injected(Vec<u8>),
    Sent { from: usize, memory: MockSpan, context: usize },
}

pub(super) struct MockRegion {
    pub(super) domain: usize,
    pub(super) memory: MockSpan,
    pub(super) access: u64,
    pub(super) key: u64,
    /// The endpoint that it is bound to, where that is demanded.
    pub(super) endpoint: Option<usize>,
    pub(super) is_enabled: bool,
    pub(super) is_closed: bool,
}

/// What a queue will tell.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) context: usize,
    pub(super) flags: u64,
    pub(super) bytes: usize,
    pub(super) start: usize,
    /// An error, if not zero.
    pub(super) error: i32,
}

/// Memory by its address.
#[derive(Clone, Copy)]
pub(super) struct MockSpan {
    pub(super) start: *mut u8,
    pub(super) bytes: usize,
}

/// Memory of the caller that an operation uses.
#[derive(Clone, Copy)]
pub(super) struct Used {
    pub(super) memory: MockSpan,
    /// The descriptor of its registration.
    pub(super) descriptor: *mut c_void,
    /// What its registration must allow.
    pub(super) access: u64,
}

impl MockSpan {
    pub(super) fn covers(&self, part: MockSpan) -> bool {
        let (start, inner) = (self.start.addr(), part.start.addr());
        start <= inner && inner - start <= self.bytes && part.bytes <= self.bytes - (inner - start)
    }
}

/// Opening and closing.
impl Network {
    pub(super) fn new(rules: Rules) -> Network {
        Network {
            rules,
            chance: rules.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            domains: Vec::new(),
            endpoints: Vec::new(),
            queues: Vec::new(),
            regions: Vec::new(),
            underway: Vec::new(),
            taken: HashSet::new(),
            broken: Vec::new(),
        }
    }

    pub(super) fn broken(&self) -> &[String] {
        &self.broken
    }

    /// Notes that a rule was broken; the answer is for the caller.
    pub(super) fn breaks(&mut self, rule: impl Into<String>) -> i32 {
        self.broken.push(rule.into());
        -FI_EINVAL
    }

    /// Opens one of the domains that are offered.
    pub(super) fn open_domain(&mut self, offered: usize) -> usize {
        self.domains.push(offered);
        self.domains.len() - 1
    }

    pub(super) fn open_endpoint(&mut self, domain: usize, capabilities: u64) -> usize {
        self.endpoints.push(MockEndpoint { domain, capabilities, least_room: 64, ..MockEndpoint::default() });
        self.endpoints.len() - 1
    }

    pub(super) fn open_queue(&mut self) -> usize {
        self.queues.push(VecDeque::new());
        self.queues.len() - 1
    }

    pub(super) fn bind_queue(&mut self, ep: usize, queue: usize, flags: u64) -> i32 {
        if flags != FI_TRANSMIT | FI_RECV {
            return self.breaks("a queue is bound for sends and receives");
        }
        self.endpoints[ep].queue = Some(queue);
        0
    }

    pub(super) fn bind_addresses(&mut self, ep: usize) -> i32 {
        self.endpoints[ep].has_addresses = true;
        0
    }

    pub(super) fn enable(&mut self, ep: usize) -> i32 {
        if self.endpoints[ep].queue.is_none() || !self.endpoints[ep].has_addresses {
            return self.breaks("an endpoint is enabled after it is bound");
        }
        self.endpoints[ep].is_enabled = true;
        0
    }

    pub(super) fn set_least_room(&mut self, ep: usize, bytes: usize) -> i32 {
        self.endpoints[ep].least_room = bytes;
        0
    }

    fn has_endpoint(&self, number: u64) -> bool {
        usize::try_from(number).is_ok_and(|number| number < self.endpoints.len())
    }

    /// Whether there is that endpoint, on the network that the domain is on.
    pub(super) fn reaches(&self, domain: usize, peer: u64) -> bool {
        let fabric = |domain: usize| self.rules.domains[self.domains[domain]].fabric;
        self.has_endpoint(peer) && fabric(self.endpoints[peer as usize].domain) == fabric(domain)
    }

    pub(super) fn close_endpoint(&mut self, ep: usize) -> i32 {
        let is_bound =
            |region: &MockRegion| region.endpoint == Some(ep) && region.is_enabled && !region.is_closed;
        if self.regions.iter().any(is_bound) {
            return -FI_EBUSY;
        }
        let endpoint = &mut self.endpoints[ep];
        endpoint.is_closed = true;
        let contexts: Vec<usize> = endpoint.buffers.drain(..).map(|buffer| buffer.context).collect();
        contexts.into_iter().for_each(|context| self.give_back(context));
        for other in &mut self.endpoints {
            other.incoming.retain(|message| !matches!(message, Message::Sent { from, .. } if *from == ep));
        }
        self.endpoints[ep].works.clear();
        0
    }
}

/// Registered memory.
impl Network {
    /// Registers; the number of the region, or an error.
    pub(super) fn register(
        &mut self,
        domain: usize,
        memory: MockSpan,
        access: u64,
        wanted: u64,
    ) -> Result<usize, i32> {
        if memory.start.is_null() || memory.bytes == 0 {
            return Err(self.breaks("memory is allocated before it is registered"));
        }
        if self.regions.iter().filter(|region| !region.is_closed).count() >= self.rules.regions_max {
            return Err(-FI_ENOMEM);
        }
        let key_max =
            if self.rules.key_bytes >= 8 { u64::MAX } else { (1 << (8 * self.rules.key_bytes)) - 1 };
        let is_alike = |region: &&MockRegion| {
            !region.is_closed && region.domain == domain && region.memory.start == memory.start
        };
        let shared = self.regions.iter().find(is_alike).map(|region| region.key);
        let shared = shared.filter(|_| self.rules.shares_keys);
        let chosen = if self.rules.provider_keys { self.chance() & key_max } else { wanted };
        let key = shared.unwrap_or(chosen);
        if key > key_max {
            return Err(self.breaks(format!("key {key} has more than {} bytes", self.rules.key_bytes)));
        }
        let is_taken =
            |region: &MockRegion| !region.is_closed && region.domain == domain && region.key == key;
        if shared.is_none() && self.regions.iter().any(is_taken) {
            return Err(-(FI_ENOKEY as i32));
        }
        let is_enabled = !self.rules.by_endpoint;
        let region = MockRegion { domain, memory, access, key, endpoint: None, is_enabled, is_closed: false };
        self.regions.push(region);
        Ok(self.regions.len() - 1)
    }

    pub(super) fn bind_region(&mut self, region: usize, ep: usize) -> i32 {
        if self.regions[region].domain != self.endpoints[ep].domain {
            return self.breaks("a registration is bound to an endpoint of its own domain");
        }
        self.regions[region].endpoint = Some(ep);
        0
    }

    /// The key, from now on.
    pub(super) fn enable_region(&mut self, region: usize) -> Result<u64, i32> {
        let ep = self.regions[region].endpoint;
        if self.rules.by_endpoint && !ep.is_some_and(|ep| self.endpoints[ep].is_enabled) {
            return Err(self.breaks("a registration is bound to an enabled endpoint before it is enabled"));
        }
        self.regions[region].is_enabled = true;
        Ok(self.regions[region].key)
    }

    /// The key of a region that needs nothing more; others have none yet.
    pub(super) fn key(&self, region: usize) -> u64 {
        let region = &self.regions[region];
        if region.is_enabled { region.key } else { FI_KEY_NOTAVAIL }
    }

    pub(super) fn close_region(&mut self, region: usize) -> i32 {
        // Descriptors are counted from one.
        let uses = |work: &Work| work.descriptors().any(|descriptor| descriptor == region + 1);
        let is_used = |ep: &MockEndpoint| !ep.is_closed && self.rules.local && ep.works.iter().any(uses);
        if self.endpoints.iter().any(is_used) {
            return self.breaks("a registration lasts until what uses it is over");
        }
        self.regions[region].is_closed = true;
        self.forget_underway(region);
        0
    }

    /// Whether an operation may use that memory by that descriptor.
    pub(super) fn check_local(
        &mut self,
        ep: usize,
        memory: MockSpan,
        descriptor: *mut c_void,
        access: u64,
    ) -> Result<(), i32> {
        // An atomic that only fetches does not use its source.
        if !self.rules.local || access == 0 {
            return Ok(());
        }
        let region = descriptor.addr().checked_sub(1).and_then(|number| self.regions.get(number));
        let is_right = region.is_some_and(|region| {
            !region.is_closed
                && region.is_enabled
                && region.domain == self.endpoints[ep].domain
                && region.access & access != 0
                && region.memory.covers(memory)
        });
        if is_right {
            Ok(())
        } else {
            Err(self.breaks("local memory is used by a registration that covers it"))
        }
    }
}

/// Operations.
impl Network {
    pub(super) fn inject(&mut self, ep: usize, data: MockSpan, to: u64) -> i32 {
        if data.bytes > self.rules.inject_bytes_max {
            return self.breaks(format!("{} bytes are too many to inject", data.bytes));
        }
        if let Err(answer) = self.may_begin(ep, to) {
            return answer;
        }
        if self.is_dead(to) {
            return self.tell_failure(ep, NO_CONTEXT);
        }
        // SAFETY: the caller of `fi_inject` vouches for the bytes.
        let data = unsafe { std::slice::from_raw_parts(data.start, data.bytes) }.to_vec();
        self.endpoints[to as usize].incoming.push_back(Message::Injected(data));
        0
    }

    pub(super) fn send(
        &mut self,
        ep: usize,
        memory: MockSpan,
        descriptor: *mut c_void,
        to: u64,
        context: *mut c_void,
    ) -> i32 {
        match self.begin(ep, to, Used { memory, descriptor, access: FI_SEND }, context) {
            Err(answer) => answer,
            Ok(context) if self.fails(to) => self.tell_failure(ep, context),
            Ok(context) => {
                let message = Message::Sent { from: ep, memory, context };
                self.endpoints[to as usize].incoming.push_back(message);
                0
            }
        }
    }

    pub(super) fn receive(
        &mut self,
        ep: usize,
        memory: MockSpan,
        descriptor: *mut c_void,
        context: *mut c_void,
        flags: u64,
    ) -> i32 {
        if memory.bytes < self.endpoints[ep].least_room {
            return self.breaks("a receive buffer has room for a message");
        }
        if self.is_busy() {
            return -FI_EAGAIN;
        }
        let is_for_many = flags & FI_MULTI_RECV != 0;
        let endpoint = &self.endpoints[ep];
        let takes_place = is_for_many || endpoint.incoming.is_empty();
        if takes_place && endpoint.buffers.len() + endpoint.incoming.len() >= self.rules.receives_max {
            return -FI_ENOMEM;
        }
        let taken = self
            .check_local(ep, memory, descriptor, FI_RECV)
            .and_then(|()| self.check_enabled(ep))
            .and_then(|()| self.take(context));
        match taken {
            Ok(context) => {
                self.endpoints[ep].buffers.push_back(Buffer { memory, used: 0, context, is_for_many });
                0
            }
            Err(answer) => answer,
        }
    }

    /// What every operation with a completion must fulfil; its context, from now on the provider's.
    pub(super) fn begin(
        &mut self,
        ep: usize,
        peer: u64,
        used: Used,
        context: *mut c_void,
    ) -> Result<usize, i32> {
        let Used { memory, descriptor, access } = used;
        if memory.bytes > self.rules.message_bytes_max {
            return Err(self.breaks(format!("{} bytes are too many at once", memory.bytes)));
        }
        self.check_local(ep, memory, descriptor, access)?;
        self.may_begin(ep, peer)?;
        self.take(context)
    }

    fn may_begin(&mut self, ep: usize, peer: u64) -> Result<(), i32> {
        self.check_enabled(ep)?;
        if !self.has_endpoint(peer) {
            return Err(self.breaks(format!("address {peer} was never inserted")));
        }
        let queue = self.endpoints[ep].queue.map_or(0, |queue| self.queues[queue].len());
        let is_full = queue + self.taken.len() >= self.rules.queue_entries
            || self.endpoints[peer as usize].incoming.len() >= self.rules.receives_max;
        if is_full || self.is_busy() { Err(-FI_EAGAIN) } else { Ok(()) }
    }

    fn check_enabled(&mut self, ep: usize) -> Result<(), i32> {
        let is_enabled = self.endpoints[ep].is_enabled && !self.endpoints[ep].is_closed;
        if is_enabled { Ok(()) } else { Err(self.breaks("an endpoint is used after it is enabled")) }
    }

    /// The provider writes into a context as soon as it has it.
    fn take(&mut self, context: *mut c_void) -> Result<usize, i32> {
        let context = context.expose_provenance();
        if context == 0 || !self.taken.insert(context) {
            return Err(self.breaks("each operation has a context of its own until it is over"));
        }
        scribble(context, 0xa5);
        Ok(context)
    }

    pub(super) fn give_back(&mut self, context: usize) {
        if context != 0 && self.taken.remove(&context) {
            scribble(context, 0x5a);
        }
    }

    pub(super) fn tell_failure(&mut self, ep: usize, context: usize) -> i32 {
        self.give_back(context);
        let entry = Entry { context, flags: 0, bytes: 0, start: 0, error: FI_EIO };
        for _ in 0..1 + u32::from(self.rules.tells_twice) {
            self.tell(ep, entry);
        }
        0
    }

    pub(super) fn tell(&mut self, ep: usize, entry: Entry) {
        if let (Some(queue), false) = (self.endpoints[ep].queue, self.endpoints[ep].is_closed) {
            self.queues[queue].push_back(entry);
        }
    }
}

/// Progress.
impl Network {
    /// What the queue tells next; `None` if nothing, or if the next is an error and errors are not wanted.
    pub(super) fn next(&mut self, queue: usize, wants_error: bool) -> Option<Entry> {
        let place = self.choose(queue)?;
        if (self.queues[queue][place].error != 0) != wants_error {
            return None;
        }
        self.queues[queue].remove(place)
    }

    /// Whether an error comes next.
    pub(super) fn has_error(&self, queue: usize) -> bool {
        self.queues[queue].iter().any(|entry| entry.error != 0)
    }

    /// The place of what is told next: errors first, and of one buffer the end last.
    fn choose(&mut self, queue: usize) -> Option<usize> {
        if let Some(place) = self.queues[queue].iter().position(|entry| entry.error != 0) {
            return Some(place);
        }
        let count = self.queues[queue].len();
        if count == 0 || !self.rules.reorders {
            return (count > 0).then_some(0);
        }
        let place = self.chance() as usize % count;
        let entry = self.queues[queue][place];
        let is_end = entry.flags & FI_MULTI_RECV != 0;
        let before = self.queues[queue].iter().position(|other| other.context == entry.context);
        if is_end { before } else { Some(place) }
    }

    /// Moves what can be moved to and by the endpoints of a queue.
    pub(super) fn progress(&mut self, queue: usize) {
        for ep in 0..self.endpoints.len() {
            if self.endpoints[ep].queue != Some(queue) || self.endpoints[ep].is_closed {
                continue;
            }
            for _ in 0..self.chance() % 8 + 1 {
                if !self.deliver(ep) {
                    break;
                }
            }
            self.work(ep);
        }
        self.arrivals();
    }

    /// Brings one message into the first buffer; false where there is none of either.
    fn deliver(&mut self, ep: usize) -> bool {
        let endpoint = &mut self.endpoints[ep];
        if endpoint.buffers.is_empty() {
            return false;
        }
        let Some(message) = endpoint.incoming.pop_front() else { return false };
        let (data, sender) = match &message {
            Message::Injected(data) => {
                (MockSpan { start: data.as_ptr().cast_mut(), bytes: data.len() }, None)
            }
            Message::Sent { from, memory, context } => (*memory, Some((*from, *context))),
        };
        if self.rules.cut_percent > 0 && self.chance() % 100 < self.rules.cut_percent {
            return self.cut(ep, sender);
        }
        let buffer = &mut self.endpoints[ep].buffers[0];
        let start = buffer.memory.start.wrapping_add(buffer.used);
        let (room, context) = (buffer.memory.bytes - buffer.used, buffer.context);
        assert!(data.bytes <= room, "a message is longer than the room that every buffer is to have");
        // SAFETY: sender and receiver have vouched for their memory until these operations are over.
        unsafe { data.start.copy_to_nonoverlapping(start, data.bytes) };
        buffer.used += data.bytes;
        let is_for_many = buffer.is_for_many;
        let is_used_up = !is_for_many || room - data.bytes < self.endpoints[ep].least_room;
        // Only of buffers for many a completion has to tell where in them the message is.
        let told = if is_for_many { start.addr() } else { 0 };
        let mut entry = Entry { context, flags: FI_RECV | FI_MSG, bytes: data.bytes, start: told, error: 0 };
        if is_used_up {
            self.endpoints[ep].buffers.pop_front();
            self.give_back(context);
            // With the last message, or by itself: both are allowed.
            if !is_for_many {
                // Nobody says so.
            } else if self.chance().is_multiple_of(2) {
                entry.flags |= FI_MULTI_RECV;
            } else {
                self.tell(ep, entry);
                entry = Entry { context, flags: FI_MULTI_RECV, bytes: 0, start: 0, error: 0 };
            }
        }
        self.tell(ep, entry);
        if let Some((from, context)) = sender {
            self.give_back(context);
            let left = Entry { context, flags: FI_SEND | FI_MSG, bytes: 0, start: 0, error: 0 };
            self.tell(from, left);
        }
        true
    }

    /// A message of which a part has come, and no more will: the buffer is not used any more, and nobody says
    /// so.
    fn cut(&mut self, ep: usize, sender: Option<(usize, usize)>) -> bool {
        if let Some(buffer) = self.endpoints[ep].buffers.pop_front() {
            self.tell_failure(ep, buffer.context);
        }
        if let Some((from, context)) = sender {
            self.tell_failure(from, context);
        }
        true
    }

    fn is_busy(&mut self) -> bool {
        self.chance() % 100 < self.rules.busy_percent
    }

    /// Whether something for that address fails.
    pub(super) fn fails(&mut self, to: u64) -> bool {
        self.is_dead(to) || self.chance() % 100 < self.rules.failing_percent
    }

    fn is_dead(&self, address: u64) -> bool {
        self.rules.dead == Some(address)
    }

    /// The next of a row of numbers that looks like chance.
    pub(super) fn chance(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance >> 11
    }
}

/// The context of an error that names nobody.
const NO_CONTEXT: usize = 0;

/// Writes over a context, as providers do.
fn scribble(context: usize, byte: u8) {
    let context = std::ptr::with_exposed_provenance_mut::<u8>(context);
    // SAFETY: whoever begins an operation hands over a context of this size until it is over, and it stays
    // allocated until the endpoint is closed.
    unsafe { context.write_bytes(byte, size_of::<fi_context2>()) };
}
