//! Heat in a rod: each rank has a piece, and tells its neighbours what stands at its ends. The exchange goes
//! on while the inside is computed. Run it with `weftrun -n 4`.

use weft::{Communicator, Operator, Rank, Session};

fn main() -> weft::Result<()> {
    let session = Session::start()?;
    let world = session.world();
    let rod = Rod::new(&world);
    let heat = rod.run(&world)?;
    let total = world.all_reduce(&[heat.iter().sum::<f64>()], Operator::Sum)?[0];
    let peak = world.all_reduce(&[heat.iter().copied().fold(0.0, f64::max)], Operator::Max)?[0];
    if world.rank() == Rank(0) {
        println!("{STEPS} steps on {} ranks: the heat is {total:.6}, the peak {peak:.6}", world.size());
    }
    assert!((total - HEAT).abs() < 1e-6 * HEAT, "heat was lost or made: {total}");
    session.finish()
}

/// This rank's piece and its neighbours.
struct Rod {
    left: Option<Rank>,
    right: Option<Rank>,
    /// All heat is at the beginning in the first cell of the rank in the middle.
    begins_here: bool,
}

impl Rod {
    fn new(world: &Communicator) -> Rod {
        let (Rank(here), size) = (world.rank(), world.size());
        Rod {
            left: here.checked_sub(1).map(Rank),
            right: (here + 1 < size).then_some(Rank(here + 1)),
            begins_here: here == size / 2,
        }
    }

    fn run(&self, world: &Communicator) -> weft::Result<Vec<f64>> {
        let mut heat = vec![0.0; CELLS];
        if self.begins_here {
            heat[0] = HEAT;
        }
        for _ in 0..STEPS {
            heat = self.step(world, &heat)?;
        }
        Ok(heat)
    }

    fn step(&self, world: &Communicator, heat: &[f64]) -> weft::Result<Vec<f64>> {
        let (first, last) = (heat[0], heat[CELLS - 1]);
        let mut receives = Vec::new();
        let mut sends = Vec::new();
        for (neighbour, edge) in [(self.left, first), (self.right, last)] {
            let Some(neighbour) = neighbour else { continue };
            receives.push((neighbour, world.ireceive::<f64>(1, neighbour, HALO)?));
            sends.push(world.isend(vec![edge], neighbour, HALO)?);
        }
        let mut next = heat.to_vec();
        for cell in 1..CELLS - 1 {
            next[cell] += FLOW * (heat[cell - 1] - 2.0 * heat[cell] + heat[cell + 1]);
        }
        // An end of the rod that has no neighbour keeps its heat: nothing flows over it.
        let (mut beyond_left, mut beyond_right) = (first, last);
        for (neighbour, receive) in receives {
            let (edge, _) = receive.wait()?;
            if Some(neighbour) == self.left {
                beyond_left = edge[0];
            } else {
                beyond_right = edge[0];
            }
        }
        next[0] += FLOW * (beyond_left - 2.0 * first + heat[1]);
        next[CELLS - 1] += FLOW * (heat[CELLS - 2] - 2.0 * last + beyond_right);
        for send in sends {
            send.wait()?;
        }
        Ok(next)
    }
}

const CELLS: usize = 64;
const STEPS: usize = 500;
const HEAT: f64 = 1000.0;
const FLOW: f64 = 0.25;
const HALO: i32 = 2;
