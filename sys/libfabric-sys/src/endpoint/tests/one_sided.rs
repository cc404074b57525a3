//! Writes and atomics.

use super::*;
use crate::mock::{self, Rules, atomics};

#[test]
fn writes_and_atomics_do_what_they_say() {
    let Some(library) = library() else { return };
    for provider in providers(library) {
        for strict_memory in [false, true] {
            let wanted = Wanted { provider: Some(provider), strict_memory, one_sided: true, domain: None };
            let Some(mut pair) = Pair::open(library, wanted) else {
                println!("LEFT OUT: {provider} does not register memory as hardware does");
                continue;
            };
            let terms = *pair.left.terms();
            assert!(terms.writes && terms.delivers, "{provider}: {terms:?}");
            pair.write();
            assert!(terms.atomics || !provider.contains("rxm") && provider != "shm", "{provider}: {terms:?}");
            if terms.atomics {
                pair.atomics();
            } else {
                println!("LEFT OUT: atomics of {provider}, of libfabric {}", library.version());
            }
            pair.close();
        }
    }
}

#[test]
fn the_mock_provider_does_the_same_under_all_rules() {
    let hard = Rules { local: true, by_address: true, by_endpoint: true, key_bytes: 4, ..Rules::NONE };
    let harder = Rules { provider_keys: true, by_address: false, ..hard };
    let stormy = Rules { busy_percent: 40, reorders: true, seed: 3, ..hard };
    for rules in [Rules::NONE, hard, harder, stormy] {
        let mut pair = Pair::mock(rules);
        pair.write();
        pair.atomics();
        pair.close();
        assert_eq!(mock::broken_rules(), [""; 0], "{rules:?}");
    }
}

#[test]
fn who_lacks_writes_or_atomics_is_offered_nevertheless() {
    let no_atomics = [mock::MockAtomics::None, mock::MockAtomics::Claimed, mock::MockAtomics::ShortTable];
    for (writes, atomics) in
        no_atomics.map(|atomics| (true, atomics)).into_iter().chain([(false, no_atomics[0])])
    {
        let claims = atomics != mock::MockAtomics::None;
        let mut pair = Pair::mock(Rules { writes, atomics, ..Rules::NONE });
        assert_eq!(pair.offered.atomics, claims, "{atomics:?}");
        let terms = *pair.left.terms();
        assert_eq!((terms.writes, terms.atomics, pair.left.atomics().is_empty()), (writes, false, true));
        if writes {
            pair.write();
        }
        let one = Atomic { change: Change::Sum, scalar: Scalar::U64, count: 1 };
        let (to, remote) = (pair.to_right, pair.remote);
        let here = Local { start: pair.near.as_mut_ptr().cast(), region: None };
        // SAFETY: the memory outlives the endpoint, and nothing is taken.
        let answers = unsafe {
            let left = &mut pair.left;
            [
                left.atomic(Operation(0), here, one, to, remote, Until::Left),
                left.atomic(Operation(0), here, one, to, remote, Until::Delivered),
                left.fetch_atomic(Operation(0), here, here, one, to, remote),
                left.compare_atomic(Operation(0), [here; 2], here, one, to, remote),
            ]
        };
        assert_eq!(answers, [Answer::Failed(FI_EOPNOTSUPP); 4]);
        pair.close();
        assert_eq!(mock::broken_rules(), [""; 0], "nothing was called that is not there");
    }
}

#[test]
fn what_was_not_asked_for_is_refused_here() {
    let mut pair = Pair::open(mock::library(Rules::NONE), Wanted::default()).unwrap();
    assert!(!pair.left.terms().writes && pair.left.atomics().is_empty());
    let (to, remote) = (pair.to_right, pair.remote);
    let from = Span::new(pair.near.as_ptr().cast(), 8);
    // SAFETY: the memory outlives the endpoint, and nothing is taken.
    let answer = unsafe { pair.left.write(Operation(0), from, None, to, remote, Until::Left) };
    assert_eq!(answer, Answer::Failed(FI_EOPNOTSUPP));
    pair.close();
    assert_eq!(mock::broken_rules(), [""; 0]);
}

#[test]
fn a_provider_without_delivery_says_so() {
    let pair = Pair::mock(Rules { delivers: false, ..Rules::NONE });
    assert!(pair.left.terms().writes && !pair.left.terms().delivers);
    pair.close();
}

#[test]
fn what_has_left_has_not_arrived() {
    let mut pair = Pair::mock(Rules { seed: 5, ..Rules::NONE });
    let mut early = 0;
    for number in 1..=20 {
        pair.near[0] = number;
        pair.put(8, 0, Until::Left);
        early += u32::from(pair.far()[0] != number);
        pair.wait_for(number);
    }
    assert!(early > 0, "the mock provider tells nobody apart from `Until::Delivered`");
    pair.close();
}

#[test]
fn the_mock_provider_keeps_everybody_inside_of_what_is_registered() {
    let mut pair = Pair::mock(Rules { by_address: true, ..Rules::NONE });
    let end = (WORDS * 8) as u64;
    pair.remote.address += end - 8;
    assert!(pair.try_put(8, Until::Delivered).is_ok(), "the last word");
    for address in [pair.remote.address + 1, pair.remote.address - end] {
        pair.remote.address = address;
        assert_eq!(pair.try_put(8, Until::Delivered).unwrap_err().code, FI_EACCES);
        let broken = mock::broken_rules();
        assert!(broken.last().is_some_and(|rule| rule.contains("stays inside")), "{broken:?}");
    }
    assert_eq!(mock::broken_rules().len(), 2);
    pair.close();
}

#[test]
fn the_mock_provider_wants_atomics_aligned() {
    let mut pair = Pair::mock(Rules::NONE);
    pair.remote.address = 4;
    let one = Atomic { change: Change::Sum, scalar: Scalar::U64, count: 1 };
    assert_eq!(pair.try_atomic(AtomicKind::Update, one, Until::Left).unwrap_err().code, FI_EINVAL);
    assert!(mock::broken_rules()[0].contains("aligned"), "{:?}", mock::broken_rules());
    pair.close();
}

#[test]
fn memory_that_is_for_reading_is_not_written() {
    let mut pair = Pair::mock(Rules { local: true, by_endpoint: true, ..Rules::NONE });
    let memory = [0u64; 4];
    // SAFETY: the memory outlives the endpoints.
    let shown = unsafe { pair.right.register(Span::new(memory.as_ptr().cast(), 32), Use::Remote) }.unwrap();
    pair.remote = pair.right.remote(&shown, memory.as_ptr().cast());
    assert_eq!(pair.try_put(8, Until::Delivered).unwrap_err().code, FI_EACCES);
    assert_eq!(mock::broken_rules(), [""; 0], "that is for the peer to say");
    pair.close();
}

#[test]
#[should_panic(expected = "region of another endpoint")]
fn a_region_is_used_where_it_was_registered() {
    let mut pair = Pair::mock(Rules { local: true, ..Rules::NONE });
    let (to, remote, from) = (pair.to_right, pair.remote, Span::new(pair.near.as_ptr().cast(), 8));
    // SAFETY: the memory outlives the endpoint.
    let _ = unsafe { pair.left.write(Operation(0), from, pair.window.as_ref(), to, remote, Until::Left) };
}

#[test]
fn what_a_provider_claims_is_not_believed() {
    let Some(library) = library() else { return };
    let wanted = Wanted { provider: Some("net"), one_sided: true, ..Wanted::default() };
    let Some(pair) = Pair::open(library, wanted) else {
        println!("LEFT OUT: libfabric {} has no provider `net`", library.version());
        return;
    };
    assert!(pair.offered.atomics && !pair.left.terms().atomics && pair.left.atomics().is_empty());
    pair.close();
}

/// Two endpoints; the left one works on the right one's memory.
struct Pair {
    /// What the offer said.
    offered: Terms,
    left: Endpoint,
    right: Endpoint,
    to_right: Address,
    /// Of the left: what is sent, and what it is compared with, each of [`WORDS`].
    near: Vec<u64>,
    with: Vec<u64>,
    result: Vec<u64>,
    regions: [Option<Region>; 3],
    /// Of the right.
    far: Vec<u64>,
    window: Option<Region>,
    remote: Remote,
    chance: u64,
}

impl Pair {
    fn mock(rules: Rules) -> Pair {
        let wanted = Wanted { one_sided: true, ..Wanted::default() };
        Pair::open(mock::library(rules), wanted).unwrap()
    }

    fn open(library: Library, wanted: Wanted<'_>) -> Option<Pair> {
        let offers = Offer::find(library, wanted).unwrap();
        let offer = offers.first()?;
        let mut left = Endpoint::open(offer, CAPACITY).unwrap();
        let mut right = Endpoint::open(offer, CAPACITY).unwrap();
        let to_right = left.insert(right.name()).unwrap();
        right.insert(left.name()).unwrap();
        let mut memory = [(); 4].map(|()| vec![0u64; WORDS]);
        let is_local = left.terms().memory.local;
        let register = |ep: &mut Endpoint, memory: &mut Vec<u64>, purpose| {
            let place = Span::new(memory.as_ptr().cast(), memory.len() * 8);
            // SAFETY: the memory stays where it is until the endpoints are closed.
            unsafe { ep.register(place, purpose) }.unwrap()
        };
        let [near, with, result, far] = &mut memory;
        let window = register(&mut right, far, Use::Shared);
        let remote = right.remote(&window, far.as_ptr().cast());
        let regions =
            [near, with, result].map(|memory| is_local.then(|| register(&mut left, memory, Use::Local)));
        let [near, with, result, far] = memory;
        let (offered, window) = (offer.terms(), Some(window));
        let chance = 88172645463325252;
        Some(Pair {
            offered,
            left,
            right,
            to_right,
            near,
            with,
            result,
            regions,
            far,
            window,
            remote,
            chance,
        })
    }

    /// The right one's memory, which is written by the provider.
    fn far(&self) -> Vec<u64> {
        // SAFETY: nothing is under way that has not been told, or in these tests nobody minds which of the
        // two is seen.
        (0..WORDS).map(|index| unsafe { self.far.as_ptr().add(index).read_volatile() }).collect()
    }

    /// Does one thing, and tells how it ended.
    fn act(&mut self, mut begin: impl FnMut(&mut Pair) -> Answer) -> Result<(), Box<Failure>> {
        let began = Instant::now();
        loop {
            match begin(self) {
                Answer::Taken => break,
                Answer::Again => {
                    assert_eq!((self.left.poll(4), self.right.poll(4)), (Ok(0), Ok(0)));
                    assert!(began.elapsed() < Duration::from_secs(30), "the provider takes nothing");
                }
                Answer::Failed(code) => panic!("refused: {}", self.left.library().text(code)),
            }
        }
        loop {
            assert_eq!(self.right.poll(4), Ok(0));
            match self.left.poll(4)? {
                0 => assert!(began.elapsed() < Duration::from_secs(30), "nothing completes"),
                count => {
                    let done = self.left.completed(0);
                    assert_eq!((count, done.operation, done.received), (1, Some(Operation(6)), false));
                    return Ok(());
                }
            }
        }
    }

    fn try_put(&mut self, bytes: usize, until: Until) -> Result<(), Box<Failure>> {
        self.act(|pair| {
            let (to, remote) = (pair.to_right, pair.remote);
            let from = Span::new(pair.near.as_ptr().cast(), bytes);
            let region = pair.regions[0].as_ref();
            // SAFETY: the one operation, from memory that nobody changes meanwhile.
            unsafe { pair.left.write(Operation(6), from, region, to, remote, until) }
        })
    }

    fn put(&mut self, bytes: usize, at: u64, until: Until) {
        self.remote.address += at;
        let done = self.try_put(bytes, until);
        self.remote.address -= at;
        done.unwrap();
    }

    fn write(&mut self) {
        for (index, word) in self.near.iter_mut().enumerate() {
            *word = 3 * index as u64 + 1;
        }
        self.put(WORDS * 8, 0, Until::Delivered);
        assert_eq!(self.far(), self.near);
        self.near[0] = 4711;
        self.put(8, 16, Until::Delivered);
        assert_eq!(self.far()[..4], [1, 4, 4711, 10]);
        self.near[0] = 4712;
        self.put(8, 0, Until::Left);
        self.wait_for(4712);
    }

    fn try_atomic(&mut self, kind: AtomicKind, what: Atomic, until: Until) -> Result<(), Box<Failure>> {
        self.act(|pair| {
            let (to, remote, operation) = (pair.to_right, pair.remote, Operation(6));
            let local = |memory: &mut Vec<u64>, region: usize| Local {
                start: memory.as_mut_ptr().cast(),
                region: pair.regions[region].as_ref(),
            };
            let (source, compare) = (local(&mut pair.near, 0), local(&mut pair.with, 1));
            let result = local(&mut pair.result, 2);
            let left = &mut pair.left;
            // SAFETY: the one operation, with memory that nobody uses meanwhile.
            unsafe {
                match kind {
                    AtomicKind::Update => left.atomic(operation, source, what, to, remote, until),
                    AtomicKind::Fetch => left.fetch_atomic(operation, source, result, what, to, remote),
                    AtomicKind::Compare => {
                        left.compare_atomic(operation, [source, compare], result, what, to, remote)
                    }
                }
            }
        })
    }

    /// Each atomic that the provider has and the model of the mock knows, held against the model.
    fn atomics(&mut self) {
        let mut tried = 0;
        for kind in [AtomicKind::Update, AtomicKind::Fetch, AtomicKind::Compare] {
            for change in Change::ALL {
                for scalar in Scalar::ALL {
                    let most = self.left.atomics().count_max(kind, *change, *scalar);
                    if most > 0 && atomics::element_bytes(*scalar as fi_datatype).is_some() {
                        self.one_atomic(
                            kind,
                            Atomic { change: *change, scalar: *scalar, count: most.min(5) },
                        );
                        tried += 1;
                    }
                }
            }
        }
        assert!(tried > 100, "only {tried} atomics are there");
        self.late_atomic();
        let too_many = self.left.atomics().count_max(AtomicKind::Update, Change::Sum, Scalar::I32) + 1;
        let too_many = Atomic { change: Change::Sum, scalar: Scalar::I32, count: too_many };
        let (to, remote) = (self.to_right, self.remote);
        // SAFETY: nothing is taken.
        let answer =
            unsafe { self.left.atomic(Operation(6), Local::NOTHING, too_many, to, remote, Until::Left) };
        assert_eq!(answer, Answer::Failed(FI_EOPNOTSUPP));
    }

    fn one_atomic(&mut self, kind: AtomicKind, what: Atomic) {
        let bytes = what.count * what.scalar.bytes();
        let [before, source, compare] = [(); 3].map(|()| self.elements(what));
        let store = |memory: &mut Vec<u64>, elements: &[u8]| {
            let room = memory.as_mut_ptr().cast::<u8>();
            // SAFETY: nothing is under way, and there is room for many more.
            unsafe { elements.as_ptr().copy_to_nonoverlapping(room, elements.len()) };
        };
        store(&mut self.far, &before);
        store(&mut self.near, &source);
        store(&mut self.with, &compare);
        self.try_atomic(kind, what, Until::Delivered).unwrap();
        let load = |memory: Vec<u64>| -> Vec<u8> {
            memory.iter().flat_map(|word| word.to_ne_bytes()).take(bytes).collect()
        };
        if kind != AtomicKind::Update {
            assert_eq!(load(self.result.clone()), before, "{kind:?} {what:?} fetches what was there");
        }
        let mut expected = before.clone();
        atomics::apply(what.scalar as fi_datatype, what.change as fi_op, &mut expected, &source, &compare);
        let found = load(self.far());
        assert_eq!(found, expected, "{kind:?} {what:?}: {before:?} with {source:?} and {compare:?}");
    }

    /// An atomic of which is only told that it has left.
    fn late_atomic(&mut self) {
        let one = Atomic { change: Change::Sum, scalar: Scalar::U64, count: 1 };
        (self.near[0], self.far[0]) = (5, 37);
        self.try_atomic(AtomicKind::Update, one, Until::Left).unwrap();
        self.wait_for(42);
    }

    fn wait_for(&mut self, first: u64) {
        let began = Instant::now();
        while self.far()[0] != first {
            assert_eq!((self.left.poll(4), self.right.poll(4)), (Ok(0), Ok(0)));
            assert!(began.elapsed() < Duration::from_secs(30), "what has left does not arrive");
        }
    }

    /// Elements of a type, of which many are alike.
    fn elements(&mut self, what: Atomic) -> Vec<u8> {
        let mut element = || {
            self.chance ^= self.chance << 13;
            self.chance ^= self.chance >> 7;
            self.chance ^= self.chance << 17;
            let number = (self.chance >> 11) % 5;
            match what.scalar {
                Scalar::F32 => (number as f32).to_ne_bytes().to_vec(),
                Scalar::F64 => (number as f64).to_ne_bytes().to_vec(),
                // Negative in part, for types that know it.
                scalar => number.wrapping_sub(2).to_ne_bytes()[..scalar.bytes()].to_vec(),
            }
        };
        (0..what.count).flat_map(|_| element()).collect()
    }

    fn close(mut self) {
        for region in self.regions.iter_mut().filter_map(Option::take) {
            self.left.deregister(region);
        }
        if let Some(window) = self.window.take() {
            self.right.deregister(window);
        }
        assert!(self.left.close() && self.right.close());
    }
}

/// More than goes at once in most providers.
const WORDS: usize = 12_000;
