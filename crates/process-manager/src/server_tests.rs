//! The server alone: captured conversations, faults, and arbitrary bytes.

use proptest::prelude::*;

use super::*;

/// Sends one line and returns what the server answers to the same rank.
fn tell(server: &mut Server, rank: u32, line: &str) -> String {
    let mut actions = Vec::new();
    server.receive(rank, format!("{line}\n").as_bytes(), &mut actions).unwrap();
    answers(&actions, rank)
}

fn answers(actions: &[Action], to: u32) -> String {
    let bytes = actions.iter().filter_map(|action| match action {
        Action::Write { rank, bytes } if *rank == to => Some(bytes.as_slice()),
        _ => None,
    });
    String::from_utf8(bytes.collect::<Vec<_>>().concat()).unwrap()
}

fn fault_of(server: &mut Server, rank: u32, bytes: &[u8]) -> String {
    server.receive(rank, bytes, &mut Vec::new()).unwrap_err().to_string()
}

fn started(ranks: u32) -> Server {
    let mut server = Server::new(ranks, "space");
    for rank in 0..ranks {
        tell(&mut server, rank, "cmd=init pmi_version=1 pmi_subversion=1");
    }
    server
}

#[test]
fn the_start_of_a_client() {
    let mut server = Server::new(4, "kvs_1");
    assert_eq!(server.standing(0), Standing::Silent);
    for (request, answer) in [
        (
            "cmd=init pmi_version=1 pmi_subversion=1",
            "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
        ),
        ("cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
        ("cmd=get_appnum", "cmd=appnum rc=0 appnum=0\n"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=kvs_1\n"),
        ("cmd=get_universe_size", "cmd=universe_size rc=0 size=4\n"),
        ("cmd=get kvsname=kvs_1 key=PMI_process_mapping", "cmd=get_result rc=0 value=(vector,(0,1,4))\n"),
        ("cmd=get kvsname=kvs_1 key=PMI_hwloc_xmlfile", "cmd=get_result rc=-1 msg=key_not_found\n"),
    ] {
        assert_eq!(tell(&mut server, 0, request), answer, "{request}");
    }
    assert_eq!(server.standing(0), Standing::Speaking);
    assert_eq!(server.standing(1), Standing::Silent);
}

#[test]
fn parts_of_a_node_are_told_as_nodes() {
    for (ranks, of_each, map) in
        [(4, 2, "(vector,(0,2,2))"), (5, 3, "(vector,(0,2,3))"), (3, 3, "(vector,(0,1,3))")]
    {
        let mut server = Server::new(ranks, "kvs").with_nodes_of(of_each);
        tell(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=1");
        let told = tell(&mut server, 0, "cmd=get kvsname=kvs key=PMI_process_mapping");
        assert_eq!(told, format!("cmd=get_result rc=0 value={map}\n"));
        let map = crate::NodeMap::parse(map, ranks).unwrap();
        let nodes: Vec<_> = (0..ranks).map(|rank| map.node(rank)).collect();
        let right: Vec<_> = (0..ranks).map(|rank| Some(rank / of_each)).collect();
        assert_eq!(nodes, right);
    }
}

#[test]
fn who_comes_into_the_place_of_another_comes_to_no_barrier() {
    let mut server = Server::with_spares(2, 1, "space");
    for rank in 0..3 {
        tell(&mut server, rank, "cmd=init pmi_version=1 pmi_subversion=1");
    }
    assert_eq!(tell(&mut server, 0, "cmd=get_universe_size"), "cmd=universe_size rc=0 size=2\n");
    assert_eq!(tell(&mut server, 0, "cmd=barrier_in"), "");
    let mut actions = Vec::new();
    server.receive(1, b"cmd=barrier_in\n", &mut actions).unwrap();
    assert_eq!(
        [0, 1, 2].map(|rank| answers(&actions, rank)),
        ["cmd=barrier_out rc=0\n", "cmd=barrier_out rc=0\n", ""]
    );
    let mut actions = Vec::new();
    server.receive(0, b"cmd=weft_rebuild asked=f00000001 ranks=1 facts=a.b\n", &mut actions).unwrap();
    server.receive(2, b"cmd=weft_ready\n", &mut actions).unwrap();
    assert_eq!(answers(&actions, 0), "cmd=weft_rebuild_result rc=0\n");
    assert_eq!(answers(&actions, 2), "cmd=weft_ready_result rc=0\n");
    let asked = Action::Rebuild { asked: 0xf_0000_0001, ranks: vec![1], facts: "a.b".to_owned() };
    assert!(actions.contains(&asked) && actions.contains(&Action::Ready { rank: 2 }));
    for line in [
        "cmd=weft_rebuild",
        "cmd=weft_rebuild asked=x ranks=1 facts=a",
        "cmd=weft_rebuild asked=1 ranks=x facts=a",
    ] {
        assert!(tell(&mut server, 0, line).starts_with("cmd=weft_rebuild_result rc=-1"), "{line}");
    }
    let mut plain = started(2);
    assert!(tell(&mut plain, 0, "cmd=weft_rebuild asked=1 ranks=1 facts=a").contains("unsupported"));
}

#[test]
fn another_version_is_refused_and_may_be_followed_by_ours() {
    let mut server = Server::new(1, "space");
    let answer = tell(&mut server, 0, "cmd=init pmi_version=2 pmi_subversion=0");
    assert_eq!(answer, "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n");
    assert!(tell(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=2").contains("rc=0"));
}

#[test]
fn a_client_that_connects_by_address_is_told_who_it_is() {
    let mut server = started(3);
    let answer = tell(&mut server, 2, "cmd=initack pmiid=2");
    let set = "cmd=set size=3\ncmd=set rank=2\ncmd=set debug=0\n";
    assert_eq!(answer, format!("cmd=initack rc=0 rank=2 size=3 appnum=0 debug=0\n{set}"));
    assert!(tell(&mut server, 2, "cmd=initack pmiid=1").contains("rc=-1"));
}

#[test]
fn what_one_rank_puts_another_gets() {
    let mut server = started(2);
    assert_eq!(tell(&mut server, 0, "cmd=put kvsname=space key=card-0 value=a=b#c"), "cmd=put_result rc=0\n");
    assert_eq!(tell(&mut server, 1, "cmd=get kvsname=space key=card-0"), "cmd=get_result rc=0 value=a=b#c\n");
    for (request, why) in [
        ("cmd=put kvsname=space key=card-0 value=x", "duplicate_key"),
        ("cmd=put kvsname=space key=PMI_x value=x", "reserved_key"),
        ("cmd=put kvsname=other key=a value=x", "kvs_not_found"),
        ("cmd=put kvsname=space value=x", "no_key"),
        ("cmd=put kvsname=space key=a", "no_value"),
        (&format!("cmd=put kvsname=space key={} value=x", "k".repeat(64)), "key_too_long"),
        (&format!("cmd=put kvsname=space key=a value={}", "v".repeat(1025)), "value_too_long"),
    ] {
        assert_eq!(tell(&mut server, 1, request), format!("cmd=put_result rc=-1 msg={why}\n"));
    }
}

#[test]
fn a_rank_cannot_fill_the_memory() {
    let mut server = started(1);
    let value = "v".repeat(1024);
    let full = (0..10_000).find(|index| {
        let request = format!("cmd=put kvsname=space key=k{index} value={value}");
        tell(&mut server, 0, &request).contains("store_full")
    });
    assert!(full.is_some(), "ten megabytes were taken");
    assert!(server.held_bytes() <= STORED_BYTES_MAX);
}

#[test]
fn the_barrier_opens_for_all_at_once_and_again() {
    let mut server = started(3);
    for _ in 0..2 {
        assert_eq!(tell(&mut server, 0, "cmd=barrier_in"), "");
        assert_eq!(tell(&mut server, 2, "cmd=barrier_in"), "");
        assert_eq!(server.standing(2), Standing::Waiting);
        let mut actions = Vec::new();
        server.receive(1, b"cmd=barrier_in\n", &mut actions).unwrap();
        assert_eq!(actions.len(), 3);
        for rank in 0..3 {
            assert_eq!(answers(&actions, rank), "cmd=barrier_out rc=0\n");
            assert_eq!(server.standing(rank), Standing::Speaking);
        }
    }
}

#[test]
fn a_barrier_that_cannot_fill_fails_instead_of_waiting() {
    let mut server = started(2);
    assert_eq!(tell(&mut server, 0, "cmd=barrier_in"), "");
    let mut actions = Vec::new();
    server.receive(1, b"cmd=finalize\n", &mut actions).unwrap();
    assert!(answers(&actions, 0).starts_with("cmd=barrier_out rc=-1"));
    assert!(
        tell(&mut server, 0, "cmd=barrier_in").starts_with("cmd=barrier_out rc=-1"),
        "and so for latecomers"
    );
}

#[test]
fn finalize_and_abort_are_told_to_the_launcher() {
    let mut server = started(2);
    let mut actions = Vec::new();
    server.receive(0, b"cmd=finalize\n", &mut actions).unwrap();
    assert_eq!(answers(&actions, 0), "cmd=finalize_ack rc=0\n");
    assert_eq!(actions[1], Action::Finalized { rank: 0 });
    assert_eq!(server.standing(0), Standing::Finalized);
    actions.clear();
    server
        .receive(1, b"cmd=abort exitcode=7\ncmd=abort exitcode=-1 message=no luck\n", &mut actions)
        .unwrap();
    let message = Some("no luck".to_owned());
    let expected =
        [Action::Abort { rank: 1, code: 7, message: None }, Action::Abort { rank: 1, code: -1, message }];
    assert_eq!(actions, expected);
}

#[test]
fn unknown_commands_are_answered_with_a_no() {
    let mut server = started(1);
    for (request, answer) in [
        ("cmd=dance", "cmd=dance_result"),
        ("cmd=publish_name service=a port=b", "cmd=publish_result"),
        ("cmd=lookup_name service=a", "cmd=lookup_result"),
    ] {
        assert_eq!(tell(&mut server, 0, request), format!("{answer} rc=-1 msg=unsupported_command\n"));
    }
    assert!(tell(&mut server, 0, &format!("cmd={}", "é".repeat(4000))).len() < 300);
}

#[test]
fn a_spawn_request_of_many_lines_gets_one_no() {
    let mut server = started(1);
    for line in ["mcmd=spawn", "nprocs=2", "execname=./a b", "argcnt=0", "cmd=get_maxes"] {
        assert_eq!(tell(&mut server, 0, line), "");
    }
    assert_eq!(tell(&mut server, 0, "endcmd"), "cmd=spawn_result rc=-1 msg=unsupported_command\n");
    assert!(tell(&mut server, 0, "cmd=get_maxes").starts_with("cmd=maxes"));
}

#[test]
fn what_is_no_client_is_a_fault_that_names_the_rank() {
    for (bytes, told) in [
        (&b"\n"[..], "the line ``"),
        (b"GET / HTTP/1.1\n", "`GET / HTTP/1.1`"),
        (b"cmd=\0\n", "cmd=\\x00"),
        (b"cmd=\xff\n", "\\xff"),
        (b"cmd=init pmi_version=1\n", "a second time"),
        (b"cmd=barrier_in\ncmd=barrier_in\n", "while it waits"),
        (b"cmd=finalize\ncmd=get_maxes\n", "after it said finalize"),
        (&[b'x'; LINE_BYTES_MAX + 1], "more than 8192 bytes"),
    ] {
        let told_by_server = fault_of(&mut started(3), 2, bytes);
        assert!(told_by_server.contains("rank 2") && told_by_server.contains(told), "{told_by_server}");
    }
    let early = fault_of(&mut Server::new(1, "space"), 0, b"cmd=get_maxes\n");
    assert!(early.contains("before it said init"), "{early}");
    let empty = fault_of(&mut Server::new(1, "space"), 0, b"cmd=init\n");
    assert!(empty.contains("without a version"), "{empty}");
}

/// Words of the protocol and of none, so that random lines reach every command.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("cmd=init pmi_version=1".to_owned()),
        Just("cmd=put kvsname=space key=a value=b".to_owned()),
        "cmd=(get|put|barrier_in|finalize|abort|get_maxes|initack|x)( [a-z]{1,8}=[ -~]{0,9}){0,4}",
        "mcmd=spawn|endcmd",
        "\\PC{0,40}",
    ];
    prop_oneof![
        4 => word.prop_map(|text| format!("{text}\n").into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..200),
    ]
}

proptest! {
    #[test]
    fn any_bytes_leave_the_server_whole(lines in proptest::collection::vec((0u32..3, any_line(), 1usize..64), 0..60)) {
        let mut server = Server::new(3, "space");
        let mut actions = Vec::new();
        let sent: usize = lines.iter().map(|(_, line, _)| line.len()).sum();
        for (rank, line, cut) in &lines {
            for part in line.chunks(*cut) {
                let _ = server.receive(*rank, part, &mut actions);
            }
        }
        prop_assert!(server.held_bytes() <= sent);
        prop_assert!(server.waiting < 3, "a full barrier opens");
    }

    #[test]
    fn where_the_bytes_are_cut_does_not_matter(lines in proptest::collection::vec(any_line(), 0..20), cut in 1usize..50) {
        let bytes = lines.concat();
        let (mut whole, mut parted) = (Server::new(2, "space"), Server::new(2, "space"));
        let (mut of_whole, mut of_parted) = (Vec::new(), Vec::new());
        let fault_of_whole = whole.receive(1, &bytes, &mut of_whole).err();
        let fault_of_parted = bytes.chunks(cut).find_map(|part| parted.receive(1, part, &mut of_parted).err());
        prop_assert_eq!(fault_of_whole, fault_of_parted);
        prop_assert_eq!(of_whole, of_parted);
    }
}
