//! The decoders without a state: cards of the fabrics and of a process, the texts of the tcp handshake,
//! frames, and the requests of windows.

use crate::tape::{Tape, Writer};

/// One byte chooses the decoder, the rest is for it.
pub fn run(input: &[u8]) {
    let mut tape = Tape::new(input);
    match tape.below(8) {
        0 => drop(tcp::fuzzing::card(tape.rest())),
        1 => tcp::fuzzing::texts(tape.rest()),
        2 => drop(shm::fuzzing::card(tape.rest())),
        3 => {
            let bytes = tape.rest();
            let _ = weft::fuzzing::card(bytes);
            let _ = weft::fuzzing::meeting(bytes);
        }
        4 => drop(process_manager::fuzzing::value(&String::from_utf8_lossy(tape.rest()))),
        5 => node_map(&mut tape),
        6 => addresses(tape.rest()),
        _ => drop(weft::fuzz_window_request(tape.rest())),
    }
}

fn node_map(tape: &mut Tape<'_>) {
    let ranks = tape.word();
    let text = String::from_utf8_lossy(tape.rest());
    if let Some(map) = process_manager::NodeMap::parse(&text, ranks) {
        assert_eq!(map.node(ranks), None);
        let runs = map.runs().take(1000).map(|(_, ranks)| u64::from(ranks)).sum::<u64>();
        assert!(runs <= u64::from(ranks));
        if let Some(last) = ranks.checked_sub(1) {
            assert!(map.node(last).is_some(), "rank {last} of {ranks} is nowhere: {text}");
        }
    }
}

/// Addresses that a process manager hands over, as the fabrics are asked about them.
fn addresses(bytes: &[u8]) {
    use fabric::{Fabric, Peer};
    let segment = shm::Segment::create(2).and_then(|file| shm::Segment::adopt(file, 2)).expect("a segment");
    let mut shm =
        shm::Shm::open(segment, 0, vec![Peer(4), Peer(5)], shm::Settings::default()).expect("a seat");
    for peer in [Peer(4), Peer(5), Peer(6)] {
        assert_eq!(shm.reach(peer, bytes).is_some(), shm.connect(peer, bytes).is_ok());
    }
}

/// A request of a window: its head, and blocks as pairs of a place and a length.
fn request(head: [u32; 6], blocks: &[u64]) -> Vec<u8> {
    let head = head.iter().flat_map(|word| word.to_le_bytes());
    head.chain(blocks.iter().flat_map(|word| word.to_le_bytes())).collect()
}

/// Real encodings, and some that are nearly real.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let of = |choice: u8, bytes: &[u8]| Writer::default().bytes(&[choice]).bytes(bytes).0;
    let card = tcp::fuzzing::card_of([7; 16], ([127, 0, 0, 1], 20_003).into());
    let wide = tcp::fuzzing::card_of([7; 16], ([0xfd00, 0, 0, 0, 0, 0, 0, 7], 20_003).into());
    let dial = tcp::fuzzing::hello(3, 4, [9; 16]);
    let answer = tcp::fuzzing::answer(&[7; 16], &dial, &[5; 16]);
    let process = [&[2, 6, 4, 0][..], b"host", &[3, card.len() as u8, 0], &card, &[99, 1, 0, 77]].concat();
    let hello = |offer: &[u8]| {
        [&b"weftmeet"[..], &[3, 0, 0, 0, 200, 0, 0, 0], &[offer.len() as u8, 0], offer].concat()
    };
    let table = [&[1, 2, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 1, 0][..], b"weft-fd/1"].concat();
    vec![
        ("tcp-card", of(0, &card)),
        ("tcp-card-6", of(0, &wide)),
        ("tcp-hello", of(1, &dial)),
        ("tcp-answer", of(1, &answer)),
        ("tcp-refusal", of(1, &tcp::fuzzing::refusal())),
        ("tcp-verdict", of(1, &tcp::fuzzing::verdict(true))),
        ("tcp-another", of(1, &tcp::fuzzing::verdict(false))),
        ("tcp-frame", of(1, &tcp::fuzzing::frame([1, 2, 3, 4, 5, 6], 1000))),
        ("shm-card", of(2, &[&b"weft-fd/1"[..], &[3; 16], b"00012"].concat())),
        ("process-card", of(3, &process)),
        ("meeting-hello", of(3, &hello(b"weft-fd/1"))),
        ("meeting-table", of(3, &table)),
        ("value", of(4, b"1:Zm9vYmFy")),
        ("node-map", of(5, &[&4u32.to_le_bytes()[..], b"(vector,(0,2,1),(2,1,3))"].concat())),
        ("window-get", of(7, &request([3, 7, 0, 0, 0, 2], &[8, 16, 64, 8]))),
        ("window-update", of(7, &[&request([4, 1, 0, 2, 1, 1], &[0, 8])[..], &[1; 8]].concat())),
        ("window-lock", of(7, &request([6, 9, 1, 0, 0, 0], &[]))),
        ("shm-address", of(6, &[&b"weft-shm/1"[..], &[0; 16], &1u32.to_le_bytes()].concat())),
    ]
}
