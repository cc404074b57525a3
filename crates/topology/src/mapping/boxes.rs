//! Orders that come from cutting the grid into boxes again and again: by hyperplanes that leave whole nodes
//! on both sides, and by halves down to single cells (a k-d tree). Nothing is kept; a position or cell is
//! found by walking down.

use super::field::Field;

/// How boxes are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cutting {
    /// As evenly as whole nodes of this size allow, down to two nodes, which are filled row by row.
    Hyperplanes {
        /// Ranks per node, or their mean.
        node: u32,
        /// What both sides of a cut should be a multiple of.
        whole: u32,
    },
    /// In halves, down to cells.
    Halves,
}

/// A box: its lowest corner, its extents.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BoxPiece {
    low: Vec<u32>,
    size: Vec<u32>,
}

/// An order by cuts.
#[derive(Clone, Debug)]
pub(crate) struct Boxes {
    cutting: Cutting,
    /// The axes, with what makes one better to cut.
    axes: Vec<Preference>,
}

#[derive(Clone, Copy, Debug)]
struct Preference {
    axis: usize,
    /// How much of the stencil goes along it: the squares of the cosines of all offsets, in parts of `WHOLE`.
    along: u64,
    /// How many offsets touch it.
    touching: u64,
}

impl Boxes {
    pub(crate) fn new(field: &Field, cutting: Cutting) -> Boxes {
        let preference = |axis: usize| {
            let (mut along, mut touching) = (0, 0);
            for link in &field.links {
                let square = |step: i32| u64::from(step.unsigned_abs()).pow(2);
                let all: u64 = link.by.iter().map(|&step| square(step)).sum();
                along += link.weight() * (square(link.by[axis]) * WHOLE / all);
                touching += if link.by[axis] != 0 { link.weight() } else { 0 };
            }
            Preference { axis, along, touching }
        };
        Boxes { cutting, axes: (0..field.axes()).map(preference).collect() }
    }

    /// The first box, which is everything.
    fn whole(field: &Field) -> BoxPiece {
        BoxPiece { low: vec![0; field.axes()], size: field.dims.clone() }
    }

    /// Where a box is cut: the axis, and the extent of the lower part. `None` where it is not cut any more.
    fn cut(&self, size: &[u32]) -> Option<(usize, u32)> {
        match self.cutting {
            Cutting::Hyperplanes { node, whole } => self.hyperplane(size, node, whole),
            Cutting::Halves => {
                // The longest axis, seen by the offsets that touch it; of equals the first.
                let better = |one: &&Preference, other: &&Preference| {
                    let share = |own: &Preference, other: &Preference| {
                        u64::from(size[own.axis]) * other.touching.max(1)
                    };
                    share(one, other).cmp(&share(other, one)).then(other.axis.cmp(&one.axis))
                };
                let axis = self.axes.iter().filter(|own| size[own.axis] > 1).max_by(better)?.axis;
                Some((axis, size[axis] / 2))
            }
        }
    }

    fn hyperplane(&self, size: &[u32], node: u32, whole: u32) -> Option<(usize, u32)> {
        let cells: u64 = size.iter().map(|&own| u64::from(own)).product();
        if cells <= 2 * u64::from(node) {
            return None;
        }
        let mut axes: Vec<&Preference> = self.axes.iter().collect();
        axes.sort_by_key(|own| (own.along, std::cmp::Reverse(size[own.axis])));
        let exact = axes.iter().find_map(|own| {
            let (extent, slice) = (size[own.axis], cells / u64::from(size[own.axis]));
            // From the middle outwards; the lower part holds whole nodes.
            (0..extent / 2)
                .find_map(|off| {
                    let middle = [extent / 2 - off, extent.div_ceil(2) + off];
                    let holds = |at: &u32| (u64::from(*at) * slice).is_multiple_of(u64::from(whole));
                    middle.into_iter().filter(|&at| 0 < at && at < extent).find(holds)
                })
                .map(|at| (own.axis, at))
        });
        // Where no cut leaves whole nodes, one that leaves equal halves.
        let halved = || axes.iter().find(|own| size[own.axis] > 1).map(|own| (own.axis, size[own.axis] / 2));
        exact.or_else(halved)
    }

    pub(crate) fn cell(&self, field: &Field, position: u32) -> u32 {
        let (mut piece, mut position) = (Boxes::whole(field), position);
        while let Some((axis, at)) = self.cut(&piece.size) {
            let lower: u32 = cells(&piece) / piece.size[axis] * at;
            match position < lower {
                true => piece.size[axis] = at,
                false => {
                    position -= lower;
                    piece.low[axis] += at;
                    piece.size[axis] -= at;
                }
            }
        }
        let mut cell = 0;
        for axis in (0..field.axes()).rev() {
            cell += (piece.low[axis] + position % piece.size[axis]) * field.strides[axis];
            position /= piece.size[axis];
        }
        cell
    }

    pub(crate) fn position(&self, field: &Field, cell: u32) -> u32 {
        let coordinate = |axis: usize| cell / field.strides[axis] % field.dims[axis];
        let (mut piece, mut position) = (Boxes::whole(field), 0);
        while let Some((axis, at)) = self.cut(&piece.size) {
            match coordinate(axis) < piece.low[axis] + at {
                true => piece.size[axis] = at,
                false => {
                    position += cells(&piece) / piece.size[axis] * at;
                    piece.low[axis] += at;
                    piece.size[axis] -= at;
                }
            }
        }
        let rows = (0..field.axes())
            .fold(0, |rows, axis| rows * piece.size[axis] + (coordinate(axis) - piece.low[axis]));
        position + rows
    }

    pub(crate) fn fill(&self, field: &Field, into: &mut Vec<u32>) {
        self.fill_piece(field, &mut Boxes::whole(field), into);
    }

    fn fill_piece(&self, field: &Field, piece: &mut BoxPiece, into: &mut Vec<u32>) {
        let Some((axis, at)) = self.cut(&piece.size) else {
            fill_rows(field, piece, 0, 0, into);
            return;
        };
        let extent = piece.size[axis];
        piece.size[axis] = at;
        self.fill_piece(field, piece, into);
        piece.size[axis] = extent - at;
        piece.low[axis] += at;
        self.fill_piece(field, piece, into);
        piece.low[axis] -= at;
        piece.size[axis] = extent;
    }
}

fn cells(piece: &BoxPiece) -> u32 {
    piece.size.iter().product()
}

fn fill_rows(field: &Field, piece: &BoxPiece, axis: usize, base: u32, into: &mut Vec<u32>) {
    if axis == field.axes() {
        into.push(base);
        return;
    }
    for at in piece.low[axis]..piece.low[axis] + piece.size[axis] {
        fill_rows(field, piece, axis + 1, base + at * field.strides[axis], into);
    }
}

const WHOLE: u64 = 1 << 16;
