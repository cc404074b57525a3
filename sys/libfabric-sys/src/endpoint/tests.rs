//! Two endpoints of one process: on the library of this machine, as far as there is one, and on the mock
//! provider.

use std::time::{Duration, Instant};

use super::*;
use crate::library::SONAME;
use crate::offer::Wanted;

mod domains;
mod one_sided;

/// The library, or word that there is none. `WEFT_LIBFABRIC` names another.
fn library() -> Option<Library> {
    let name = std::env::var_os("WEFT_LIBFABRIC").unwrap_or_else(|| SONAME.into());
    match Library::load(&name) {
        Ok(library) => Some(library),
        Err(error @ LibfabricError::NotLoaded { .. }) => {
            println!("LEFT OUT: {error} (libfabric1)");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The providers to try: those of [`PROVIDERS`] that the library has.
fn providers(library: Library) -> Vec<&'static str> {
    let is_new = library.version().major >= 2;
    let there = |provider: &&str| {
        if is_new && *provider == "shm" {
            println!(
                "LEFT OUT: shm of libfabric {}, which dies of two endpoints in one process",
                library.version()
            );
            return false;
        }
        let wanted = Wanted { provider: Some(provider), ..Wanted::default() };
        // Some are found by a part of their name.
        let is_offered =
            Offer::find(library, wanted).unwrap().iter().any(|offer| offer.provider() == *provider);
        if !is_offered {
            println!("LEFT OUT: {provider} is not offered by libfabric {}", library.version());
        }
        is_offered
    };
    let found: Vec<&str> = PROVIDERS.into_iter().filter(there).collect();
    assert!(found.iter().any(|provider| provider.contains("tcp")), "only {found:?} are offered");
    found
}

/// `net` is what `tcp` is called since 1.18.
const PROVIDERS: [&str; 4] = ["tcp;ofi_rxm", "tcp", "net", "shm"];
const CAPACITY: Capacity = Capacity { operations: 8, message_bytes_max: 256 };

#[test]
fn offers_are_of_the_provider_that_was_asked_for() {
    let Some(library) = library() else { return };
    for provider in providers(library) {
        let offers = Offer::find(library, Wanted { provider: Some(provider), ..Wanted::default() }).unwrap();
        assert!(offers.iter().all(|offer| offer.provider() == provider));
        let terms = offers[0].terms();
        assert!(terms.inject_bytes_max > 0 && terms.message_bytes_max > 1 << 20, "{terms:?}");
        assert!(!terms.writes && !terms.atomics, "nobody has asked for it: {terms:?}");
    }
    let none = Offer::find(library, Wanted { provider: Some("nothing"), ..Wanted::default() }).unwrap();
    assert!(none.is_empty());
}

#[test]
fn messages_and_reads_go_between_two_endpoints() {
    let Some(library) = library() else { return };
    for provider in providers(library) {
        for strict_memory in [false, true] {
            exchange(library, Wanted { provider: Some(provider), strict_memory, ..Wanted::default() });
        }
    }
}

fn exchange(library: Library, wanted: Wanted<'_>) {
    let offers = Offer::find(library, wanted).unwrap();
    let Some(offer) = offers.first() else {
        assert!(wanted.strict_memory, "{wanted:?}");
        println!("LEFT OUT: {:?} does not register memory as hardware does", wanted.provider);
        return;
    };
    let mut left = Endpoint::open(offer, CAPACITY).unwrap();
    let mut right = Endpoint::open(offer, CAPACITY).unwrap();
    let to_right = left.insert(right.name()).unwrap();
    let to_left = right.insert(left.name()).unwrap();
    assert!(left.insert(&[1, 2, 3]).is_err(), "a name of another length");

    let mut room = vec![0u8; 4096];
    let buffer = Span::new(room.as_mut_ptr(), room.len());
    let is_local = right.terms().memory.local;
    let needed = |region| if is_local { Some(region) } else { None };
    // SAFETY: `room` lives until both endpoints are closed, and is read only where a message has come.
    let local = unsafe { right.register(buffer, Use::Local) }.unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { right.receive(Operation(0), buffer, needed(&local), Takes::Many) }, Answer::Taken);
    turn_until(&mut left, &mut right, |left| left.inject(b"hello", to_right) == Answer::Taken);
    let came = next(&mut right, &mut left);
    assert_eq!((came.operation, came.received, came.bytes), (Some(Operation(0)), true, 5));
    let at = came.start - buffer.start.addr();
    assert_eq!(&room[at..at + 5], b"hello");

    let source = vec![7u8; 100_000];
    let mut copy = vec![0u8; 100_000];
    let from = Span::new(source.as_ptr(), source.len());
    let into = Span::new(copy.as_mut_ptr(), copy.len());
    // SAFETY: both live until the endpoints are closed.
    let shown = unsafe { left.register(from, Use::Remote) }.unwrap();
    // SAFETY: as above.
    let landing = unsafe { right.register(into, Use::Local) }.unwrap();
    let remote = left.remote(&shown, source.as_ptr());
    turn_until(&mut right, &mut left, |right| {
        // SAFETY: the operation is free, and `copy` is not looked at before it has completed.
        Answer::Taken == unsafe { right.read(Operation(3), into, needed(&landing), to_left, remote) }
    });
    let done = next(&mut right, &mut left);
    assert_eq!((done.operation, done.received), (Some(Operation(3)), false), "{done:?} {wanted:?}");
    assert!(copy == source, "{wanted:?}");
    left.deregister(shown);
    right.deregister(landing);
    assert!(left.close() && right.close());
}

#[test]
fn what_fails_is_told_with_the_providers_words() {
    let Some(library) = library() else { return };
    let provider = providers(library)[0];
    let offers = Offer::find(library, Wanted { provider: Some(provider), ..Wanted::default() }).unwrap();
    let mut left = Endpoint::open(&offers[0], CAPACITY).unwrap();
    let mut right = Endpoint::open(&offers[0], CAPACITY).unwrap();
    let to_left: Address = right.insert(left.name()).unwrap();
    let mut copy = vec![0u8; 5000];
    let into = Span::new(copy.as_mut_ptr(), copy.len());
    let nowhere = Remote { address: 0, key: 99 };
    turn_until(&mut right, &mut left, |right| {
        // SAFETY: the operation is free, and `copy` outlives the endpoint.
        Answer::Taken == unsafe { right.read(Operation(5), into, None, to_left, nowhere) }
    });
    let began = Instant::now();
    let failure = loop {
        match right.poll(4) {
            Err(failure) => break failure,
            Ok(count) => assert_eq!(count, 0, "a read of nothing has completed: {:?}", right.completed(0)),
        }
        let _ = left.poll(4);
        assert!(began.elapsed() < Duration::from_secs(30), "nothing fails");
    };
    assert_eq!(failure.operation, Some(Operation(5)), "{failure:?}");
    assert!(failure.code != 0 && !failure.text.is_empty(), "{failure:?}");
    assert!(right.close() && left.close());
}

/// Both look at their queues until it is done.
fn turn_until(one: &mut Endpoint, other: &mut Endpoint, mut done: impl FnMut(&mut Endpoint) -> bool) {
    let began = Instant::now();
    while !done(one) {
        assert_eq!((one.poll(4), other.poll(4)), (Ok(0), Ok(0)));
        assert!(began.elapsed() < Duration::from_secs(30), "the provider takes nothing");
    }
}

/// The next completion of `one`, while `other` makes progress too.
fn next(one: &mut Endpoint, other: &mut Endpoint) -> Completed {
    let began = Instant::now();
    loop {
        match one.poll(1) {
            Ok(0) => {}
            // Some providers are done with a receive buffer while there is room in it.
            Ok(_) if one.completed(0).is_release_only() => {}
            Ok(_) => return one.completed(0),
            Err(failure) => panic!("{failure:?}"),
        }
        other.poll(1).expect("nothing fails");
        assert!(began.elapsed() < Duration::from_secs(30), "nothing completes");
    }
}
