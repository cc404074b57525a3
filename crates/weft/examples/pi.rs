//! Pi by the area under 4 / (1 + x²) from 0 to 1, each rank a share of the strips. Run it with `weftrun -n
//! 4`.

use weft::{Operator, Rank, Session};

fn main() -> weft::Result<()> {
    let session = Session::start()?;
    let world = session.world();
    let Rank(here) = world.rank();
    let width = 1.0 / f64::from(STRIPS);
    let height = |strip: u32| 4.0 / (1.0 + ((f64::from(strip) + 0.5) * width).powi(2));
    let share: f64 = (here..STRIPS).step_by(world.size() as usize).map(height).sum();
    if let Some(sum) = world.reduce(&[share * width], Operator::Sum, Rank(0))? {
        let error = (sum[0] - std::f64::consts::PI).abs();
        println!("pi is about {:.12}, off by {error:.1e}, by {} ranks", sum[0], world.size());
        assert!(error < 1e-9);
    }
    session.finish()
}

const STRIPS: u32 = 1_000_000;
