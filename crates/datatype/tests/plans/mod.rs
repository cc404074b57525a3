//! Random nested datatypes, each as a plan that is built twice: by the library, and by the definition of a
//! type map, entry by entry (MPI 5.0 section 5.1).
#![allow(dead_code)] // each test takes what it needs

use datatype::{
    ArrayOrder, Block, Datatype, DatatypeError, Distributed, Distribution, Field, Place, Predefined,
};
use proptest::prelude::*;

/// How a datatype is made; built twice, by the library and by the definition.
#[derive(Clone, Debug)]
pub enum Plan {
    Named(Predefined),
    Contiguous(i64, Box<Plan>),
    Vector(i64, i64, i64, Box<Plan>),
    Hvector(i64, i64, i64, Box<Plan>),
    Indexed(Vec<(i64, i64)>, Box<Plan>),
    Hindexed(Vec<(i64, i64)>, Box<Plan>),
    IndexedBlock(i64, Vec<i64>, Box<Plan>),
    HindexedBlock(i64, Vec<i64>, Box<Plan>),
    Structure(Vec<(i64, i64, Plan)>),
    Resized(i64, i64, Box<Plan>),
    Subarray(Vec<(i64, i64, i64)>, bool, Box<Plan>),
    Distributed(Deal, Box<Plan>),
    Duplicate(Box<Plan>),
}

/// How an array is dealt out: elements, distribution and processes of each dimension; whose part; in which
/// order.
#[derive(Clone, Debug)]
pub struct Deal {
    dimensions: Vec<Distributed>,
    rank: i64,
    fortran: bool,
}

impl Plan {
    pub fn build(&self) -> Result<Datatype, DatatypeError> {
        match self {
            Plan::Named(predefined) => Ok(predefined.datatype().clone()),
            Plan::Contiguous(count, of) => Datatype::contiguous(*count, &of.build()?),
            Plan::Vector(count, length, stride, of) => {
                Datatype::vector(*count, *length, *stride, &of.build()?)
            }
            Plan::Hvector(count, length, stride, of) => {
                Datatype::hvector(*count, *length, *stride, &of.build()?)
            }
            Plan::Indexed(list, of) => Datatype::indexed(&blocks(list), &of.build()?),
            Plan::Hindexed(list, of) => Datatype::hindexed(&blocks(list), &of.build()?),
            Plan::IndexedBlock(length, list, of) => Datatype::indexed_block(*length, list, &of.build()?),
            Plan::HindexedBlock(length, list, of) => Datatype::hindexed_block(*length, list, &of.build()?),
            Plan::Structure(fields) => build_structure(fields),
            Plan::Resized(lower_bound, extent, of) => of.build()?.resized(*lower_bound, *extent),
            Plan::Subarray(dimensions, fortran, of) => build_subarray(dimensions, *fortran, &of.build()?),
            Plan::Distributed(deal, of) => deal.build(&of.build()?),
            Plan::Duplicate(of) => Ok(of.build()?.duplicate()),
        }
    }

    pub fn type_map(&self) -> TypeMap {
        self.open_type_map().closed()
    }

    fn open_type_map(&self) -> TypeMap {
        match self {
            Plan::Named(predefined) => TypeMap::of(*predefined),
            Plan::Contiguous(count, of) => of.type_map().row(*count),
            Plan::Vector(count, length, stride, of) => {
                let of = of.type_map();
                of.row(*length).rounds(*count, *stride * of.extent())
            }
            Plan::Hvector(count, length, stride, of) => of.type_map().row(*length).rounds(*count, *stride),
            Plan::Indexed(list, of) => of.type_map().blocks_in_extents(list),
            Plan::Hindexed(list, of) => of.type_map().blocks(list),
            Plan::IndexedBlock(length, list, of) => of.type_map().blocks_in_extents(&alike(*length, list)),
            Plan::HindexedBlock(length, list, of) => of.type_map().blocks(&alike(*length, list)),
            Plan::Structure(fields) => TypeMap::joined(
                fields.iter().map(|(length, at, of)| of.type_map().row(*length).shifted(*at)).collect(),
            ),
            Plan::Resized(lower_bound, extent, of) => {
                of.type_map().marked(*lower_bound, *lower_bound + *extent)
            }
            Plan::Subarray(dimensions, fortran, of) => of.type_map().subarray(dimensions, *fortran),
            Plan::Distributed(deal, of) => of.type_map().distributed(deal),
            Plan::Duplicate(of) => of.type_map(),
        }
    }
}

impl Deal {
    fn build(&self, of: &Datatype) -> Result<Datatype, DatatypeError> {
        let size = self.dimensions.iter().map(|dimension| dimension.processes).product();
        let order = if self.fortran { ArrayOrder::Fortran } else { ArrayOrder::C };
        Datatype::distributed(Place { rank: self.rank, size }, &self.dimensions, order, of)
    }

    /// Whether the element of these indices, one per dimension, is of the part: who has it is said by the
    /// numbers of its blocks, as coordinates of a grid whose last dimension runs fastest.
    fn has(&self, indices: &[i64]) -> bool {
        let owner = self.dimensions.iter().zip(indices).fold(0, |rank, (dimension, index)| {
            let block = match dimension.distribution {
                Distribution::Whole => dimension.elements,
                Distribution::Block(Some(block)) | Distribution::Cyclic(Some(block)) => block,
                Distribution::Block(None) => {
                    (dimension.elements + dimension.processes - 1) / dimension.processes
                }
                Distribution::Cyclic(None) => 1,
            };
            rank * dimension.processes + index / block % dimension.processes
        });
        owner == self.rank
    }
}

fn blocks(list: &[(i64, i64)]) -> Vec<Block> {
    list.iter().map(|&(length, displacement)| Block { length, displacement }).collect()
}

fn alike(length: i64, displacements: &[i64]) -> Vec<(i64, i64)> {
    displacements.iter().map(|&displacement| (length, displacement)).collect()
}

fn build_structure(fields: &[(i64, i64, Plan)]) -> Result<Datatype, DatatypeError> {
    let types: Vec<Datatype> = fields.iter().map(|field| field.2.build()).collect::<Result<_, _>>()?;
    let fields: Vec<Field<'_>> = fields
        .iter()
        .zip(&types)
        .map(|(&(length, displacement, _), datatype)| Field { length, displacement, datatype })
        .collect();
    Datatype::structure(&fields)
}

fn build_subarray(
    dimensions: &[(i64, i64, i64)],
    fortran: bool,
    of: &Datatype,
) -> Result<Datatype, DatatypeError> {
    let sizes: Vec<i64> = dimensions.iter().map(|dimension| dimension.0).collect();
    let subsizes: Vec<i64> = dimensions.iter().map(|dimension| dimension.1).collect();
    let starts: Vec<i64> = dimensions.iter().map(|dimension| dimension.2).collect();
    let order = if fortran { ArrayOrder::Fortran } else { ArrayOrder::C };
    Datatype::subarray(&sizes, &subsizes, &starts, order, of)
}

/// The definition: each basic element with its place, where the parts end with their padding, and the marks
/// that resizing leaves.
#[derive(Clone, Debug, Default)]
pub struct TypeMap {
    pub entries: Vec<(Predefined, i64)>,
    part_ends: Vec<i64>,
    lower_marks: Vec<i64>,
    upper_marks: Vec<i64>,
}

impl TypeMap {
    fn of(predefined: Predefined) -> TypeMap {
        let offset = predefined.basic().index_offset() as i64;
        let entries = match predefined.pair() {
            Some((value, index)) => vec![(value, 0), (index, offset)],
            None => vec![(predefined, 0)],
        };
        TypeMap { entries, ..TypeMap::default() }
    }

    /// What it is as a part of another one: it ends where its extent does.
    fn closed(mut self) -> TypeMap {
        if !self.entries.is_empty() {
            self.part_ends = vec![self.lower_bound() + self.extent()];
        }
        self
    }

    fn joined(parts: Vec<TypeMap>) -> TypeMap {
        let mut whole = TypeMap::default();
        for part in parts {
            whole.entries.extend(part.entries);
            whole.part_ends.extend(part.part_ends);
            whole.lower_marks.extend(part.lower_marks);
            whole.upper_marks.extend(part.upper_marks);
        }
        whole
    }

    fn shifted(&self, bytes: i64) -> TypeMap {
        TypeMap {
            entries: self.entries.iter().map(|&(predefined, at)| (predefined, at + bytes)).collect(),
            part_ends: self.part_ends.iter().map(|at| at + bytes).collect(),
            lower_marks: self.lower_marks.iter().map(|at| at + bytes).collect(),
            upper_marks: self.upper_marks.iter().map(|at| at + bytes).collect(),
        }
    }

    fn rounds(&self, count: i64, stride: i64) -> TypeMap {
        TypeMap::joined((0..count).map(|round| self.shifted(round * stride)).collect())
    }

    fn row(&self, count: i64) -> TypeMap {
        self.rounds(count, self.extent())
    }

    fn blocks(&self, list: &[(i64, i64)]) -> TypeMap {
        TypeMap::joined(list.iter().map(|&(length, at)| self.row(length).shifted(at)).collect())
    }

    fn blocks_in_extents(&self, list: &[(i64, i64)]) -> TypeMap {
        let extent = self.extent();
        let list: Vec<_> = list.iter().map(|&(length, at)| (length, at * extent)).collect();
        self.blocks(&list)
    }

    fn marked(mut self, lower: i64, upper: i64) -> TypeMap {
        (self.lower_marks, self.upper_marks) = (vec![lower], vec![upper]);
        self
    }

    /// Every element of the array in memory order, kept when its index lies in the part.
    fn subarray(&self, dimensions: &[(i64, i64, i64)], fortran: bool) -> TypeMap {
        let mut slowest_first = dimensions.to_vec();
        if fortran {
            slowest_first.reverse();
        }
        let total: i64 = slowest_first.iter().map(|dimension| dimension.0).product();
        let kept = (0..total).filter(|&place| {
            let mut rest = place;
            slowest_first.iter().rev().all(|&(size, subsize, start)| {
                let index = rest % size;
                rest /= size;
                (start..start + subsize).contains(&index)
            })
        });
        let extent = self.extent();
        let parts = kept.map(|place| self.shifted(place * extent)).collect();
        TypeMap::joined(parts).marked(0, total * extent)
    }

    /// Every element of the array in memory order, kept when it is the process's own.
    fn distributed(&self, deal: &Deal) -> TypeMap {
        let sizes: Vec<i64> = deal.dimensions.iter().map(|dimension| dimension.elements).collect();
        let total: i64 = sizes.iter().product();
        let fastest_first: Vec<usize> =
            if deal.fortran { (0..sizes.len()).collect() } else { (0..sizes.len()).rev().collect() };
        let kept = (0..total).filter(|&place| {
            let (mut rest, mut indices) = (place, vec![0; sizes.len()]);
            for &dimension in &fastest_first {
                indices[dimension] = rest % sizes[dimension];
                rest /= sizes[dimension];
            }
            deal.has(&indices)
        });
        let extent = self.extent();
        TypeMap::joined(kept.map(|place| self.shifted(place * extent)).collect()).marked(0, total * extent)
    }

    pub fn true_range(&self) -> (i64, i64) {
        let start = self.entries.iter().map(|entry| entry.1).min().unwrap_or(0);
        let end = self.entries.iter().map(|&(predefined, at)| at + bytes_of(predefined)).max().unwrap_or(0);
        (start, end)
    }

    pub fn lower_bound(&self) -> i64 {
        self.lower_marks.iter().copied().min().unwrap_or(self.true_range().0)
    }

    pub fn extent(&self) -> i64 {
        if let Some(upper) = self.upper_marks.iter().copied().max() {
            return upper - self.lower_bound();
        }
        let (start, end) = self.true_range();
        let end = self.part_ends.iter().copied().fold(end, i64::max);
        let alignment = |predefined: Predefined| predefined.basic().alignment_bytes() as i64;
        let aligned = self.entries.iter().map(|entry| alignment(entry.0)).max().unwrap_or(1);
        (end - start + aligned - 1) / aligned * aligned
    }

    /// The place of every packed byte of `count` elements.
    pub fn places(&self, count: i64) -> Vec<i64> {
        let row = self.rounds(count, self.extent());
        row.entries.iter().flat_map(|&(predefined, at)| at..at + bytes_of(predefined)).collect()
    }
}

fn bytes_of(predefined: Predefined) -> i64 {
    predefined.size()
}

fn predefined() -> impl Strategy<Value = Plan> {
    let all: Vec<Plan> = Predefined::ALL.iter().map(|&predefined| Plan::Named(predefined)).collect();
    // Every datatype has its turn, but some come often, so that parts of one datatype meet.
    let common =
        [Predefined::Int, Predefined::Double, Predefined::Char, Predefined::ShortInt].map(Plan::Named);
    prop_oneof![proptest::sample::select(all), proptest::sample::select(common.to_vec())]
}

/// A count, now and then 0.
fn few(most: i64) -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(0), 15 => 1..most + 1]
}

fn list(displacement: std::ops::Range<i64>) -> impl Strategy<Value = Vec<(i64, i64)>> {
    proptest::collection::vec((few(3), displacement), 1..6)
}

fn dimensions() -> impl Strategy<Value = Vec<(i64, i64, i64)>> {
    let dimension = (1..5_i64, 0..5_i64, 0..5_i64).prop_map(|(size, subsize, start)| {
        let subsize = 1 + subsize % size;
        (size, subsize, start % (size - subsize + 1))
    });
    proptest::collection::vec(dimension, 1..4)
}

fn deal() -> impl Strategy<Value = Deal> {
    let dimension =
        (1..9_i64, 0..5_i64, 1..6_i64, 1..4_i64).prop_map(|(elements, kind, block, processes)| {
            let reaching = block.max((elements + processes - 1) / processes);
            let (distribution, processes) = match kind {
                0 => (Distribution::Whole, 1),
                1 => (Distribution::Block(None), processes),
                2 => (Distribution::Block(Some(reaching)), processes),
                3 => (Distribution::Cyclic(None), processes),
                _ => (Distribution::Cyclic(Some(block)), processes),
            };
            Distributed { elements, distribution, processes }
        });
    (proptest::collection::vec(dimension, 1..4), any::<u16>(), any::<bool>()).prop_map(
        |(dimensions, pick, fortran)| {
            let size: i64 = dimensions.iter().map(|dimension| dimension.processes).product();
            Deal { dimensions, rank: i64::from(pick) % size, fortran }
        },
    )
}

pub fn plan() -> impl Strategy<Value = Plan> {
    predefined()
        .prop_recursive(4, 24, 3, |inner| {
            let boxed = inner.clone().prop_map(Box::new);
            let displacements = proptest::collection::vec(-9..10_i64, 1..7);
            prop_oneof![
                (few(4), boxed.clone()).prop_map(|(count, of)| Plan::Contiguous(count, of)),
                (few(9), few(3), -5..6_i64, boxed.clone())
                    .prop_map(|(a, b, c, of)| Plan::Vector(a, b, c, of)),
                (few(9), few(3), -70..71_i64, boxed.clone())
                    .prop_map(|(a, b, c, of)| Plan::Hvector(a, b, c, of)),
                (list(-9..10), boxed.clone()).prop_map(|(list, of)| Plan::Indexed(list, of)),
                (list(-90..91), boxed.clone()).prop_map(|(list, of)| Plan::Hindexed(list, of)),
                (few(3), displacements.clone(), boxed.clone())
                    .prop_map(|(length, list, of)| Plan::IndexedBlock(length, list, of)),
                (few(3), displacements, boxed.clone())
                    .prop_map(|(length, list, of)| Plan::HindexedBlock(length, list, of)),
                proptest::collection::vec((few(2), -64..65_i64, inner), 1..5).prop_map(Plan::Structure),
                (-20..21_i64, -40..80_i64, boxed.clone())
                    .prop_map(|(lb, extent, of)| Plan::Resized(lb, extent, of)),
                (dimensions(), any::<bool>(), boxed.clone()).prop_map(|(d, f, of)| Plan::Subarray(d, f, of)),
                (deal(), boxed.clone()).prop_map(|(deal, of)| Plan::Distributed(deal, of)),
                boxed.prop_map(Plan::Duplicate),
            ]
        })
        .prop_filter("small enough for the definition", |plan| plan.type_map().entries.len() < 4000)
}

/// Cuts `0..total` into chunks, at lengths that repeat.
pub fn cuts(total: usize, lengths: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut cuts = Vec::new();
    let mut at = 0;
    for length in lengths.iter().cycle() {
        if at == total {
            break;
        }
        let end = total.min(at + length);
        cuts.push(at..end);
        at = end;
    }
    cuts
}
