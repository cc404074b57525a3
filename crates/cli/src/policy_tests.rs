//! Policies on described machines.

use topology::Machine;

use super::*;

/// Two sockets of two L3 caches of two cores of two cpus: core `c` has the cpus 2c and 2c + 1.
fn parts() -> Parts {
    let machine = Machine::from_synthetic("pack:2 numa:1 l3:2 core:2 pu:2").unwrap();
    Parts::of_machine(&machine, machine.cpus())
}

fn policy(options: &str) -> Policy {
    let mut policy = Policy::default();
    for option in options.split_whitespace() {
        let (name, value) = option.split_once('=').unwrap();
        match name {
            "bind" => policy.bind_to = Some(bind_to(value).unwrap()),
            "map" => policy.map_by = Some(map_by(value).unwrap()),
            "rank" => policy.rank_by = Some(rank_by(value).unwrap()),
            "cores" => policy.cores_per_rank = Some(value.parse().unwrap()),
            other => panic!("{other}"),
        }
    }
    policy
}

fn placed(options: &str, ranks: u32, threads: usize) -> Result<String, Misfit> {
    let sets = policy(options).place(&parts(), ranks, threads)?;
    let lists = |sets: Vec<CpuSet>| sets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    Ok(sets.map_or_else(|| "-".to_owned(), lists))
}

#[test]
fn ranks_are_bound_to_what_is_said() {
    for (options, ranks, expected) in [
        ("bind=none", 3, "-"),
        ("bind=core", 3, "0-1 2-3 4-5"),
        ("bind=hwthread", 3, "0 1 2"),
        ("bind=l3cache", 2, "0-3 8-11"),
        ("bind=l3cache", 8, "0-3 0-3 4-7 4-7 8-11 8-11 12-15 12-15"),
        ("bind=socket", 3, "0-7 0-7 8-15"),
        ("bind=numa", 2, "0-7 8-15"),
        // No machine of this kind has caches of the second level: those of the third stand for them.
        ("bind=l2cache", 2, "0-3 8-11"),
        ("bind=board", 2, "0-15 0-15"),
        ("bind=core:2", 2, "0-3 4-7"),
        ("bind=socket:2", 2, "0-15 0-15"),
        ("bind=user:0+3,5", 3, "0,3 5 0,3"),
        ("bind=rr", 2, "0-1 2-3"),
    ] {
        assert_eq!(placed(options, ranks, 1).as_deref(), Ok(expected), "{options}");
    }
}

#[test]
fn ranks_are_dealt_to_parts_in_turn() {
    for (options, ranks, expected) in [
        ("map=socket", 3, "0-7 8-15 0-7"),
        ("map=socket bind=core", 4, "0-1 8-9 2-3 10-11"),
        ("map=socket bind=hwthread", 4, "0 8 1 9"),
        ("map=l3cache bind=core", 5, "0-1 4-5 8-9 12-13 2-3"),
        ("map=l3cache bind=socket", 4, "0-7 0-7 8-15 8-15"),
        ("map=core", 3, "0-1 2-3 4-5"),
        ("map=core bind=none", 3, "-"),
        ("map=core bind=hwthread", 3, "0 2 4"),
        ("map=hwthread", 3, "0 1 2"),
        ("map=hwthread bind=core:overload-allowed", 3, "0-1 0-1 2-3"),
        ("map=slot:PE=2", 3, "0-3 4-7 8-11"),
        ("map=socket:PE=2", 3, "0-3 8-11 4-7"),
        ("map=core:PE=2", 2, "0-3 4-7"),
        ("map=ppr:2:socket bind=core", 4, "0-1 2-3 8-9 10-11"),
        ("map=ppr:1:l3cache", 4, "0-3 4-7 8-11 12-15"),
        ("map=ppr:1:l3cache:pe=2", 4, "0-3 4-7 8-11 12-15"),
        ("map=socket rank=fill bind=core", 4, "0-1 2-3 8-9 10-11"),
        ("map=ppr:2:socket rank=span bind=core", 4, "0-1 8-9 2-3 10-11"),
        ("map=slot:PE-LIST=0,2-3:span", 1, "0-1"),
        ("cores=2", 2, "0-3 4-7"),
    ] {
        assert_eq!(placed(options, ranks, 1).as_deref(), Ok(expected), "{options}");
    }
    assert_eq!(placed("bind=core", 2, 4).as_deref(), Ok("0-7 8-15"), "as many cores as threads");
}

#[test]
fn ranks_share_cores_only_where_that_is_said() {
    let misfit = placed("bind=core", 9, 1).unwrap_err();
    assert_eq!(misfit, Misfit::Overload { unit: Unit::Core, ranks: 9, each: 1, units: 8 });
    assert!(misfit.to_string().contains("core:overload-allowed"), "{misfit}");
    let shared = placed("bind=core:overload-allowed", 9, 1).unwrap();
    assert!(shared.ends_with("14-15 0-1"), "{shared}");
    assert!(placed("bind=core map=slot:OVERSUBSCRIBE", 9, 1).is_ok());
    assert!(placed("map=socket bind=core", 8, 1).is_ok());
    assert!(placed("map=socket bind=core", 9, 1).is_err());
    assert!(placed("map=slot:pe=3", 3, 1).is_err(), "nine cores");
    assert!(placed("bind=socket", 100, 1).is_ok(), "what is larger than a core is shared as it is");
    let strange = policy("bind=user:99").place(&parts(), 1, 1).unwrap_err();
    assert!(strange.to_string().contains("cpu 99") && strange.to_string().contains("0-15"), "{strange}");
}

#[test]
fn only_the_cpus_that_may_be_used_count() {
    let machine = Machine::from_synthetic("pack:2 numa:1 l3:2 core:2 pu:2").unwrap();
    let parts = Parts::of_machine(&machine, &"1-2,10".parse().unwrap());
    let sets = |options: &str, ranks| {
        let sets = policy(options).place(&parts, ranks, 1).unwrap().unwrap();
        sets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(sets("bind=core", 3), "1 2 10");
    assert_eq!(sets("bind=socket", 2), "1-2 10");
    assert_eq!(sets("map=socket bind=core", 2), "1 10");
    let bare = Parts::by(&"0-2".parse().unwrap(), |_| Vec::new());
    assert_eq!(policy("bind=numa").place(&bare, 1, 1).unwrap().unwrap()[0].to_string(), "0-2");
    assert_eq!(policy("bind=core").place(&bare, 2, 1).unwrap().unwrap()[1].to_string(), "1");
}

#[test]
fn numbers_of_ranks_follow_from_the_parts() {
    let ranks = |options: &str| policy(options).ranks(&parts());
    assert_eq!(
        (ranks("map=ppr:2:socket"), ranks("map=ppr:1:core"), ranks("map=socket")),
        (Some(4), Some(8), None)
    );
}

#[test]
fn what_leaves_everything_open_is_not_explicit() {
    for options in ["", "map=slot", "map=:OVERSUBSCRIBE", "map=node", "rank=fill"] {
        assert!(!policy(options).is_explicit(), "{options}");
    }
    for options in ["bind=none", "map=core", "map=slot:PE=2", "map=slot:PE-LIST=0-1", "cores=1"] {
        assert!(policy(options).is_explicit(), "{options}");
    }
}

#[test]
fn sets_of_cpus_are_named_by_their_parts() {
    let name = |list: &str| parts().name(&list.parse().unwrap());
    assert_eq!(
        ["0-7", "4-7", "0-3,8-11", "2-3", "5", "0-15"].map(name),
        ["socket 0", "l3cache 1", "l3cache 0,2", "core 1", "hwthread 5", "socket 0-1"]
    );
}

#[test]
fn mistakes_are_told_with_what_there_is() {
    for (told, error) in [
        (bind_to("l4cache").unwrap_err(), "choose from hwthread, core"),
        (bind_to("core:sometimes").unwrap_err(), "overload-allowed"),
        (bind_to("core:0").unwrap_err(), "no qualifier"),
        (bind_to("user:a").unwrap_err(), "no list of cpus"),
        (map_by("rack").unwrap_err(), "ppr:N:UNIT"),
        (map_by("ppr:0:socket").unwrap_err(), "ppr:2:socket"),
        (map_by("core:PE=x").unwrap_err(), "PE=N"),
        (map_by("core:backwards").unwrap_err(), "no qualifier"),
        (rank_by("size").unwrap_err(), "slot, fill, span"),
        (cpu_set("").unwrap_err(), "0-3,8"),
    ] {
        assert!(told.contains(error), "{told}");
    }
}
