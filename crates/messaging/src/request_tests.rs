//! Requests: what becomes of them.

use super::*;

#[test]
fn a_name_outlives_its_request_and_names_nothing() {
    let mut requests = Requests::default();
    let first = requests.insert(State::Queued { to: Peer(1) });
    assert!(requests.remove(first).is_some());
    let second = requests.insert(State::Queued { to: Peer(2) });
    assert_eq!(first.index, second.index);
    assert!(requests.find(first).is_none());
    assert!(requests.remove(first).is_none());
    requests.complete(first, Outcome::sent());
    assert!(matches!(requests.find(second), Some(State::Queued { to: Peer(2) })));
}

#[test]
fn a_whole_is_over_with_the_last_of_its_parts_and_fails_with_the_first() {
    let mut requests = Requests::default();
    let whole = requests.insert(State::Gathering { left: 1, failure: None });
    let parts: Vec<RequestId> =
        (0..3).map(|peer| requests.insert(State::Queued { to: Peer(peer) })).collect();
    requests.complete(parts[0], Outcome::sent());
    parts.iter().for_each(|part| requests.join(*part, whole));
    assert!(requests.find(parts[0]).is_none(), "what was over before it became a part is gone");
    let failure = |sent_bytes| Failure::Truncated { sent_bytes, room_bytes: 0 };
    requests.complete(parts[1], Outcome::failed(failure(1)));
    requests.end_of_part(whole, Some(Box::new(failure(2))));
    assert!(requests.peek(whole).is_none() && requests.find(parts[2]).is_some());
    requests.complete(parts[2], Outcome::sent());
    let outcome = requests.end(whole).expect("the last part is over");
    assert_eq!(outcome.failure.as_deref(), Some(&failure(1)));
    assert_eq!(requests.pending().count(), 0);
}
