//! `weft map`: what it prints is true, its picture shows what it says, and wrong options are told apart.

use std::collections::{BTreeSet, HashMap};
use std::process::{Command, Output};

use serde_json::Value;

const WEFT: &str = env!("CARGO_BIN_EXE_weft");

fn weft_map(arguments: &str) -> Output {
    let mut command = Command::new("timeout");
    // A + stands for a space within an argument.
    let words = arguments.split_whitespace().map(|word| word.replace('+', " "));
    command.args(["-k", "5", "60", WEFT, "map"]).args(words);
    command.output().expect("timeout is a command everywhere")
}

/// The JSON that it prints.
fn json(arguments: &str) -> Value {
    let output = weft_map(&format!("{arguments} --json"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Edges between nodes, and the most that leave one, from nothing but the coordinates that were printed.
fn counted(answer: &Value, offsets: &[Vec<i64>]) -> (u64, u64) {
    let list = |name: &str| -> Vec<i64> {
        answer[name]
            .as_array()
            .expect("a list")
            .iter()
            .map(|value| value.as_i64().expect("a number"))
            .collect()
    };
    let (dims, periods, sizes) = (list("dims"), list("periods"), list("node_sizes"));
    let nodes = (0..).zip(&sizes).flat_map(|(node, &size)| std::iter::repeat_n(node, size as usize));
    let places = answer["coords"].as_array().expect("a list");
    let mut node_of: HashMap<Vec<i64>, usize> = HashMap::new();
    for (node, place) in nodes.zip(places) {
        if let Some(place) = place.as_array() {
            let cell = place.iter().map(|value| value.as_i64().expect("a number")).collect();
            assert_eq!(node_of.insert(cell, node), None, "each cell once");
        }
    }
    assert_eq!(places.len() as i64, sizes.iter().sum::<i64>());
    assert_eq!(node_of.len() as i64, dims.iter().product::<i64>());
    let mut out = vec![0; sizes.len()];
    for (cell, &node) in &node_of {
        for offset in offsets {
            let moved = |axis: usize| {
                let at = cell[axis] + offset[axis];
                if periods[axis] == 1 { at.rem_euclid(dims[axis]) } else { at }
            };
            let there: Vec<i64> = (0..dims.len()).map(moved).collect();
            if node_of.get(&there).is_some_and(|&other| other != node) {
                out[node] += 1;
            }
        }
    }
    (out.iter().sum(), out.into_iter().max().unwrap_or(0))
}

fn nearest(axes: usize) -> Vec<Vec<i64>> {
    let along = |axis: usize, step: i64| (0..axes).map(|own| if own == axis { step } else { 0 }).collect();
    (0..axes).flat_map(|axis| [along(axis, 1), along(axis, -1)]).collect()
}

#[test]
fn what_it_prints_is_what_can_be_counted() {
    let hops: Vec<Vec<i64>> =
        nearest(2).into_iter().chain([2, -2, 3, -3].map(|step| vec![step, 0])).collect();
    let cases = [
        ("--dims 50x48 --nodes 50 --ppn 48", nearest(2), (1204, 28), 1204),
        ("--dims 50x48 --nodes 50 --ppn 48 --stencil hops", hops, (2868, 68), 2724),
        ("--dims 12x10x20 --nodes 50 --ppn 48", nearest(3), (2880, 80), 2880),
        ("--dims 64x60 --ppn 48", nearest(2), (1992, 28), 1992),
        ("--dims 8x8x8 --periods 1,1,1 --ppn 48", nearest(3), (864, 80), 862),
    ];
    for (arguments, offsets, best, bound) in cases {
        let answer = json(arguments);
        let said = (answer["j_sum"].as_u64().expect("a number"), answer["j_max"].as_u64().expect("a number"));
        assert_eq!(counted(&answer, &offsets), said, "{arguments}");
        assert!(said <= best, "{arguments}: {said:?}");
        assert_eq!(answer["lower_bound"], bound, "{arguments}");
        assert!(said.0 < answer["j_sum_before"].as_u64().expect("a number"), "{arguments}");
    }
}

#[test]
fn sizes_and_spare_ranks_are_obeyed() {
    let answer = json("--dims 6x5 --node-sizes 4,12,3,9,8 --periods 0,1");
    assert_eq!(answer["node_sizes"], serde_json::json!([4, 12, 3, 9, 8]));
    assert_eq!(counted(&answer, &nearest(2)).0, answer["j_sum"].as_u64().expect("a number"));
    let empty = answer["coords"].as_array().expect("a list").iter().filter(|place| place.is_null()).count();
    assert_eq!(empty, 6);
    let all = json("--dims 16 --nodes 1");
    assert_eq!((&all["algorithm"], &all["j_sum"]), (&"identity".into(), &0.into()));
}

#[test]
fn the_inside_of_nodes_counts() {
    let answer = json("--dims 50x48 --nodes 50 --ppn 48 --machine pack:2+l3:4+core:6+pu:1");
    let level = |name: &str, side: &str| answer["levels"][name][side].as_u64().expect("a number");
    let before = ["node", "package", "L3 cache", "none"].map(|name| level(name, "before"));
    assert_eq!(before, [4704, 100, 600, 4000]);
    assert!(level("node", "after") == 1204 && level("none", "after") > 4000, "{}", answer["levels"]);
    let cost: u64 = answer["levels"]
        .as_object()
        .expect("levels")
        .values()
        .map(|level| level["after"].as_u64().expect("a number") * level["weight"].as_u64().expect("a number"))
        .sum();
    assert_eq!(answer["cost"], cost);
    assert!(cost <= 31264);
}

#[test]
fn a_stencil_comes_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wave");
    std::fs::write(&file, "# down only\n1,0\n").expect("a file");
    let answer = json(&format!("--dims 6x8 --ppn 8 --stencil {}", file.display()));
    assert_eq!(counted(&answer, &[vec![1, 0]]).0, answer["j_sum"].as_u64().expect("a number"));
    assert!(answer["j_sum"].as_u64() < answer["j_sum_before"].as_u64());
}

#[test]
fn the_picture_shows_the_borders() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("map.svg");
    let output = weft_map(&format!("--dims 6x8 --ppn 8 --svg {}", file.display()));
    assert!(output.status.success());
    let picture = std::fs::read_to_string(&file).expect("a picture");
    let tree = roxmltree::Document::parse(&picture).expect("valid XML");
    let of = |name: &str| tree.descendants().filter(|node| node.has_tag_name(name)).collect::<Vec<_>>();
    // Each edge between nodes is two, there and back, and one piece of a line.
    let pieces: Vec<usize> =
        of("path").iter().map(|path| path.attribute("d").unwrap_or_default().matches('M').count()).collect();
    let answer = json("--dims 6x8 --ppn 8");
    let halves = ["j_sum_before", "j_sum"].map(|name| answer[name].as_u64().expect("a number") as usize / 2);
    assert_eq!(pieces, halves);
    let colours: BTreeSet<&str> = of("rect").iter().filter_map(|cell| cell.attribute("fill")).collect();
    assert_eq!(colours.len(), 6 + 2, "a colour for each of six nodes, white, and none");
}

#[test]
fn wrong_options_are_named_with_a_remedy() {
    for (arguments, words) in [
        ("--dims 0x4 --nodes 3", "--dims: \"0\" is no number"),
        ("--dims 4x-4 --nodes 2", "--dims: \"-4\" is no number"),
        ("--dims 50,48 --nodes 2", "--dims: \"50,48\" is no number"),
        ("--dims 99999x99999 --nodes 4", "--dims 99999x99999: the extents multiply to more than"),
        ("--dims 50x48 --nodes 3 --ppn 4", "--dims 50x48 are 2400 cells, and the nodes have 12 ranks"),
        ("--dims 4x4", "give --nodes and --ppn, or --node-sizes"),
        ("--dims 4x4 --nodes -1", "--nodes: \"-1\" is no number"),
        ("--dims 4x4 --nodes 99999 --ppn 99999", "--nodes times --ppn: 9999800001 ranks are more"),
        ("--dims 4x4 --nodes 3 --node-sizes 8,8", "--node-sizes has 2 entries, and --nodes says 3"),
        ("--dims 4x4 --ppn 8 --node-sizes 8,8", "--ppn and --node-sizes both say"),
        ("--dims 4x4 --node-sizes 8,0,8", "--node-sizes: \"0\" is no number"),
        ("--dims 4x4 --ppn 4 --periods 1", "--periods has 1 entries"),
        ("--dims 4x4 --ppn 4 --periods 1,yes", "--periods: \"yes\" is neither 0 nor 1"),
        ("--dims 4x4 --ppn 4 --stencil foo", "--stencil: \"foo\" is neither a stencil nor a file"),
        ("--dims 4x4 --ppn 4 --stencil 1,0,0", "--stencil 1,0,0: the offset \"1,0,0\" has 3 steps"),
        ("--dims 4x4 --ppn 4 --machine nonsense", "--machine: \"nonsense\" describes no machine"),
        ("--dims 4x4 --ppn 4 --svg /dev/null/x.svg", "cannot write /dev/null/x.svg"),
        ("--dims 1000x1000 --ppn 4 --svg /dev/null", "--svg: a grid of 1000000 cells is too large"),
    ] {
        let output = weft_map(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments}: {errors}");
        assert!(errors.contains(words), "{arguments}: {errors}");
        assert!(errors.lines().count() == 2 && errors.contains("\n  "), "a line and its remedy: {errors}");
        assert!(output.stdout.is_empty(), "{arguments}");
    }
}
