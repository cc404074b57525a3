//! Heat in a plate: the ranks are the cells of a grid, each has a rectangle of the plate, and exchanges a row
//! or a column of it with each of its four neighbours. Run it with `weftrun -n 6`, and with `WEFT_EXPLAIN=1`
//! to see what mapping the grid onto the machine has gained.

use weft::{Cartesian, Operator, Rank, Session};

fn main() -> weft::Result<()> {
    let session = Session::start()?;
    let world = session.world();
    let mut dims = [0, 0];
    weft::dims_create(world.size() as i32, &mut dims).expect("one process and more can be a grid");
    let dims = dims.map(|extent| extent as u32);
    let made = world.cartesian(dims).periodic([false, true]).reorder(true).create()?;
    let grid = made.expect("there is a cell for each rank");
    let mut plate = Plate::new(&grid);
    for _ in 0..STEPS {
        plate.step(&grid)?;
    }
    let heat = grid.all_reduce(&[plate.heat()], Operator::Sum)?[0];
    if grid.rank() == Rank(0) {
        println!("{STEPS} steps on {} x {} ranks: the heat is {heat:.6}", dims[0], dims[1]);
    }
    assert!((heat - HEAT).abs() < 1e-6 * HEAT, "heat was lost or made: {heat}");
    session.finish()
}

/// A rectangle of cells with a rim: what the neighbours have next to it.
struct Plate {
    cells: Vec<f64>,
}

impl Plate {
    /// All heat is in one cell at the beginning, in the middle of the first rank's rectangle.
    fn new(grid: &Cartesian) -> Plate {
        let mut cells = vec![0.0; WIDE * WIDE];
        if grid.rank() == Rank(0) {
            cells[WIDE / 2 * WIDE + WIDE / 2] = HEAT;
        }
        Plate { cells }
    }

    fn step(&mut self, grid: &Cartesian) -> weft::Result<()> {
        self.exchange(grid)?;
        let mut next = self.cells.clone();
        for at in inside() {
            let around = [at - WIDE, at + WIDE, at - 1, at + 1].map(|at| self.cells[at]);
            next[at] += FLOW * (around.iter().sum::<f64>() - 4.0 * self.cells[at]);
        }
        self.cells = next;
        Ok(())
    }

    /// Brings the neighbours' edges to the rim. At an open border the rim gets this rank's own edge: nothing
    /// flows over it.
    fn exchange(&mut self, grid: &Cartesian) -> weft::Result<()> {
        let edges: Vec<f64> = SIDES.iter().flat_map(|side| side.cells(1)).map(|at| self.cells[at]).collect();
        let got = grid.neighbour_all_to_all(&edges, LENGTH)?;
        for ((side, neighbour), at) in SIDES.iter().zip(grid.neighbours()).zip(0..) {
            let beyond = if neighbour.rank.is_some() { &got } else { &edges };
            for (into, from) in side.cells(0).zip(at * LENGTH..) {
                self.cells[into] = beyond[from];
            }
        }
        Ok(())
    }

    fn heat(&self) -> f64 {
        inside().map(|at| self.cells[at]).sum()
    }
}

/// A side of the rectangle, in the order of the grid's neighbours.
struct Side {
    /// The cell at its beginning, counted from the corner of the rim.
    first: usize,
    /// From one cell of it to the next.
    along: usize,
    /// From it to the row or column further inside; below 0 where that leads back.
    inwards: isize,
}

impl Side {
    /// The cells so far inside: 0 is the rim.
    fn cells(&self, depth: isize) -> impl Iterator<Item = usize> {
        let first = self.first.wrapping_add_signed(depth * self.inwards);
        (1..=LENGTH).map(move |place| first + place * self.along)
    }
}

fn inside() -> impl Iterator<Item = usize> {
    (1..=LENGTH).flat_map(|row| (1..=LENGTH).map(move |column| row * WIDE + column))
}

/// Cells along a side of a rank's rectangle.
const LENGTH: usize = 24;
/// Cells along a side of a rank's rectangle and of the rim at both its ends.
const WIDE: usize = LENGTH + 2;
const SIDES: [Side; 4] = [
    Side { first: 0, along: 1, inwards: WIDE as isize },
    Side { first: (LENGTH + 1) * WIDE, along: 1, inwards: -(WIDE as isize) },
    Side { first: 0, along: WIDE, inwards: 1 },
    Side { first: LENGTH + 1, along: WIDE, inwards: -1 },
];
const STEPS: usize = 400;
const HEAT: f64 = 1000.0;
const FLOW: f64 = 0.2;
