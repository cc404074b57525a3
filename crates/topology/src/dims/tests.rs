use super::*;

fn created(nodes: i32, dims: &[i32]) -> Result<Vec<i32>, NoDims> {
    let mut dims = dims.to_vec();
    dims_create(nodes, &mut dims).map(|()| dims)
}

fn free(nodes: i32, count: usize) -> Vec<i32> {
    created(nodes, &vec![0; count]).expect("some extents")
}

/// Everything that multiplies to `product`, from small to large, compared as the definition says.
fn by_trying_all(product: u32, count: usize) -> Vec<i32> {
    fn walk(rest: u32, count: usize, from: u32, chosen: &mut Vec<u32>, all: &mut Vec<Vec<u32>>) {
        if count == 1 {
            all.push(chosen.iter().copied().chain([rest]).collect());
            return;
        }
        for factor in (from..=rest).take_while(|factor| factor * factor <= rest) {
            if rest.is_multiple_of(factor) {
                chosen.push(factor);
                walk(rest / factor, count - 1, factor, chosen, all);
                chosen.pop();
            }
        }
    }
    let mut all = Vec::new();
    walk(product, count, 1, &mut Vec::new(), &mut all);
    let spread = |dims: &[u32]| dims[count - 1] - dims[0];
    let best = all.iter().map(|dims| spread(dims)).min().expect("at least one");
    let chosen = all.into_iter().filter(|dims| spread(dims) == best).max().expect("at least one");
    chosen.into_iter().rev().map(|extent| extent as i32).collect()
}

#[test]
fn the_examples_of_the_standard() {
    assert_eq!(created(6, &[0, 0]), Ok(vec![3, 2]));
    assert_eq!(created(7, &[0, 0]), Ok(vec![7, 1]));
    assert_eq!(created(6, &[0, 3, 0]), Ok(vec![2, 3, 1]));
    assert_eq!(created(7, &[0, 3, 0]), Err(NoDims::NotAMultiple { nodes: 7, product: 3 }));
}

#[test]
fn where_measures_of_closeness_differ_the_spread_decides() {
    let cases: [(i32, &[i32]); 24] = [
        (12, &[3, 2, 2]),
        (16, &[4, 2, 2]),
        (361, &[19, 19]),
        (25, &[5, 5]),
        (72, &[9, 8]),
        (675, &[27, 25]),
        (2400, &[16, 15, 10]),
        (4800, &[20, 16, 15]),
        (432, &[9, 8, 6]),
        (360, &[10, 6, 6]),
        (20, &[5, 2, 2, 1]),
        (3696, &[22, 14, 12]),
        (5040, &[21, 16, 15]),
        (4620, &[22, 15, 14]),
        (5850, &[26, 15, 15]),
        (3600, &[10, 10, 6, 6]),
        (735_134_400, &[918, 910, 880]),
        (2_095_133_040, &[39, 38, 36, 35, 34, 33]),
        (i32::MAX, &[i32::MAX, 1, 1]),
        (46337 * 46337, &[46337, 46337]),
        (1 << 30, &[32, 32, 32, 32, 32, 32]),
        (1 << 30, &[1 << 30]),
        (1, &[1, 1, 1]),
        (30, &[5, 3, 2, 1, 1]),
    ];
    for (nodes, expected) in cases {
        assert_eq!(free(nodes, expected.len()), expected, "{nodes}");
    }
}

#[test]
fn it_is_the_best_of_all() {
    // A different stretch of numbers for each count, so that the test stays short.
    for nodes in (1..=3000).filter(|nodes| nodes % 7 == 1 || nodes % 60 == 0) {
        for count in 2..=4 {
            assert_eq!(free(nodes, count), by_trying_all(nodes as u32, count), "{nodes} in {count}");
        }
    }
    for nodes in [720, 5040, 7560, 9240, 27720, 2 * 3 * 5 * 7 * 11 * 13] {
        for count in [5, 6] {
            assert_eq!(free(nodes, count), by_trying_all(nodes as u32, count), "{nodes} in {count}");
        }
    }
}

#[test]
fn what_it_sets_multiplies_and_does_not_increase() {
    let mut random = crate::mapping::random::Random::new(7);
    for _ in 0..2000 {
        let bound = [5000, i32::MAX as u32 - 1][random.below(2) as usize];
        let nodes = 1 + random.below(bound) as i32;
        let count = 1 + random.below(8) as usize;
        let dims = free(nodes, count);
        assert_eq!(dims.iter().map(|&extent| i64::from(extent)).product::<i64>(), i64::from(nodes));
        assert!(dims.windows(2).all(|pair| pair[0] >= pair[1]), "{nodes}: {dims:?}");
    }
}

#[test]
fn fixed_extents_stay() {
    assert_eq!(created(24, &[0, 2, 0]), Ok(vec![4, 2, 3]));
    assert_eq!(created(24, &[4, 6]), Ok(vec![4, 6]));
    assert_eq!(created(24, &[24, 0, 0]), Ok(vec![24, 1, 1]));
    assert_eq!((created(1, &[]), created(5, &[])), (Ok(vec![]), Ok(vec![])));
}

#[test]
fn errors_tell_what_is_wrong_and_set_nothing() {
    assert_eq!(created(0, &[0]), Err(NoDims::Nodes(0)));
    assert_eq!(created(-4, &[0]), Err(NoDims::Nodes(-4)));
    assert_eq!(created(4, &[0, -2]), Err(NoDims::Negative { axis: 1, extent: -2 }));
    assert_eq!(created(12, &[2, 3]), Err(NoDims::AllFixed { nodes: 12, product: 6 }));
    // The product of these is 2^62, and 0 in 32 bits.
    let nodes = 1 << 30;
    let error = created(nodes, &[1 << 30, 1 << 30, 4]).expect_err("too many");
    assert_eq!(error, NoDims::NotAMultiple { nodes, product: 1 << 62 });
    assert!(created(4, &[i32::MAX; 9]).is_err());
    let mut dims = [0, 5];
    assert!(dims_create(12, &mut dims).is_err() && dims == [0, 5]);
}
