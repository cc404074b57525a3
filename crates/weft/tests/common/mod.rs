//! What the tests with ranks as threads have in common.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weft::{Config, FabricName, Session, Threads, run_threads_for};

/// Runs ranks over each fabric, and ends the process when they hang.
pub fn on_each_fabric(ranks: u32, body: impl Fn(&Session) + Sync) {
    on_each_fabric_for(Threads::One, ranks, body);
}

/// Runs ranks that begin threads of their own.
pub fn on_each_fabric_for(threads: Threads, ranks: u32, body: impl Fn(&Session) + Sync) {
    on_fabrics_for(&[FabricName::Shm, FabricName::Tcp, FabricName::Libfabric], threads, ranks, body);
}

/// Runs ranks over these fabrics.
pub fn on_fabrics_for(fabrics: &[FabricName], threads: Threads, ranks: u32, body: impl Fn(&Session) + Sync) {
    for &fabric in fabrics {
        let config = Config {
            fabrics: vec![fabric],
            libfabric_provider: Some("tcp;ofi_rxm".to_owned()),
            libfabric: std::env::var_os("WEFT_LIBFABRIC"),
            ..Config::default()
        };
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| watch(&over, fabric));
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                run_threads_for(threads, ranks, &config, &body)
                    .unwrap_or_else(|error| panic!("{fabric:?}: {error}"));
            }));
            over.store(true, Ordering::SeqCst);
            if let Err(panic) = result {
                std::panic::resume_unwind(panic);
            }
        });
    }
}

fn watch(over: &AtomicBool, fabric: FabricName) {
    let since = Instant::now();
    while !over.load(Ordering::SeqCst) {
        if since.elapsed() > Duration::from_secs(60) {
            eprintln!("hangs over {fabric:?}");
            std::process::abort();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
