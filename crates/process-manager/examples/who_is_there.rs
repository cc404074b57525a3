//! Tells what each process of a job learns from its launcher: `weftrun -n 4 who_is_there`, or `srun
//! --mpi=pmi2 who_is_there pmi2`.
//!
//! Starts under every launcher that the library can join, which makes it a first probe on a new machine. An
//! argument chooses the protocol, a second one adds so many bytes to what each process puts.

use process_manager::{Manager, Protocol, Wishes};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let protocol = arguments.next().and_then(|name| Protocol::named(&name));
    let more: usize = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let libpmix = std::env::var_os("WEFT_LIBPMIX");
    let mut manager = Manager::from_environment(&Wishes { protocol, libpmix })?;
    let (rank, size) = (manager.rank(), manager.size());
    let value = [std::process::id().to_string().as_bytes(), &vec![b'+'; more]].concat();
    manager.put("process", &value)?;
    // The last alone says so, and all must hear it.
    manager.announce("somebody-is-here", rank + 1 == size)?;
    manager.announce("nobody-is-here", false)?;
    let since = std::time::Instant::now();
    manager.fence()?;
    let fenced = since.elapsed();
    // Before anything of the others has come here.
    let since = std::time::Instant::now();
    let announced = [manager.is_announced("somebody-is-here")?, manager.is_announced("nobody-is-here")?];
    let asked = since.elapsed();
    let mut processes = Vec::new();
    for other in 0..size {
        let value = manager.get(other, "process")?.ok_or("a rank has put nothing")?;
        let digits = value.strip_suffix(&vec![b'+'; more][..]).ok_or("a value came back otherwise")?;
        processes.push(String::from_utf8(digits.to_vec())?);
    }
    let node = manager.node_map()?.and_then(|map| map.node(rank));
    let (universe, appnum) = (manager.universe_size()?, manager.appnum()?);
    println!(
        "rank {rank} of {size} by {:?} in {}, node {node:?}, universe {universe:?}, program {appnum:?}; \
         announced {announced:?} in {asked:?}; fence {fenced:?}; processes {processes:?}",
        manager.protocol(),
        manager.job(),
    );
    manager.finalize()?;
    Ok(())
}
