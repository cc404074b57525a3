//! Tests of the table of rows.

use super::row::Rule;
use super::rows::{ROWS, select};

fn ids(only: &[&str]) -> Vec<&'static str> {
    let only: Vec<String> = only.iter().map(|word| (*word).to_owned()).collect();
    select(&only).unwrap().iter().map(|row| row.id).collect()
}

#[test]
fn an_id_in_full_selects_one_row_and_a_beginning_several() {
    assert_eq!(ids(&["latency"]), ["latency"]);
    assert_eq!(ids(&["vector"]), ["vector-8", "vector-64"]);
    assert_eq!(ids(&["memory", "rate"]), ["rate", "memory"]);
    assert_eq!(ids(&[]).len(), ROWS.len());
    let error = select(&["latecy".to_owned()]).unwrap_err();
    assert!(error.contains("latecy") && error.contains("latency-large"), "{error}");
}

#[test]
fn ids_differ() {
    let mut ids: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), ROWS.len());
}

#[test]
fn every_gate_on_a_floor_has_its_floor_in_the_row() {
    for row in ROWS {
        for gate in row.gates {
            if let Rule::Floor(name, _) = gate.rule {
                let measured = row.floors.iter().any(|floor| floor.name == name);
                assert!(measured, "{}: {} is never measured", row.id, name);
            }
        }
    }
}

#[test]
fn programs_and_floors_are_in_the_tree() {
    let bench = system_tests::workspace_root().join("bench");
    let floors: String = ["memory.c", "sockets.c", "yields.c", "providers.c"]
        .map(|name| std::fs::read_to_string(bench.join("floors").join(name)).unwrap())
        .concat();
    for row in ROWS {
        assert!(bench.join(format!("{}.c", row.program)).exists(), "{}", row.program);
        for floor in row.floors {
            assert!(floors.contains(&format!(".name = \"{}\"", floor.name)), "{}", floor.name);
        }
    }
}

#[test]
fn every_gate_of_the_page_is_in_a_row() {
    let page = std::fs::read_to_string(system_tests::workspace_root().join("docs/generated/performance.md"))
        .unwrap();
    let named: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| G")?.split(' ').next()).collect();
    assert!(named.len() > 10, "the page lists its gates");
    for number in named {
        let gate = format!("G{number}");
        assert!(ROWS.iter().any(|row| row.gates.iter().any(|one| one.name == gate)), "{gate}");
    }
}
