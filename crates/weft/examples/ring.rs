//! A token goes round the ring of ranks; each adds its rank. Run it with `weftrun -n 4`.

use weft::{Rank, Session};

fn main() -> weft::Result<()> {
    let session = Session::start()?;
    let world = session.world();
    let (Rank(here), size) = (world.rank(), world.size());
    let (next, before) = (Rank((here + 1) % size), Rank((here + size - 1) % size));
    if here == 0 {
        world.send(&[0u64], next, TOKEN)?;
        let (token, _) = world.receive::<u64>(before, TOKEN)?;
        let expected = u64::from(size) * u64::from(size - 1) / 2;
        assert_eq!(token, [expected], "a rank was left out");
        println!("the token came round {size} ranks with {expected}");
    } else {
        let (token, _) = world.receive::<u64>(before, TOKEN)?;
        world.send(&[token[0] + u64::from(here)], next, TOKEN)?;
    }
    session.finish()
}

const TOKEN: i32 = 1;
