//! Tells what each process of a job learns from its launcher: `weftrun -n 4 who_is_there`.
//!
//! Starts under every launcher that the library can join, which makes it a first probe on a new machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut manager = process_manager::Manager::from_environment()?;
    let (rank, size) = (manager.rank(), manager.size());
    manager.put(&format!("process-{rank}"), std::process::id().to_string().as_bytes())?;
    manager.fence()?;
    let mut processes = Vec::new();
    for other in 0..size {
        let text = manager.get(&format!("process-{other}"))?.ok_or("a rank has put nothing")?;
        processes.push(String::from_utf8(text)?);
    }
    let node = manager.node_map()?.and_then(|map| map.node(rank));
    let (universe, appnum) = (manager.universe_size()?, manager.appnum()?);
    println!(
        "rank {rank} of {size} on node {node:?}, universe {universe:?}, program {appnum:?}; processes {processes:?}"
    );
    manager.finalize()?;
    Ok(())
}
