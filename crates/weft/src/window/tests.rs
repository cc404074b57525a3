use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use fabric::Heap;

use super::*;
use crate::{Config, FabricName, Key, Session, run_threads};

fn on<R: Send>(ranks: u32, body: impl Fn(&Session) -> R + Sync) -> Vec<R> {
    run_threads(ranks, &Config::default(), body).unwrap()
}

#[test]
fn a_window_tells_what_it_was_made_of() {
    on(3, |session| {
        let world = session.world();
        let rank = world.rank().0 as usize;
        let heap = Heap::new(100 + rank);
        let window = Window::create(&world, heap.memory(), 4).unwrap();
        assert_eq!((window.flavor(), window.base()), (Flavor::Create, heap.memory().start()));
        assert_eq!(window.extent(), Extent { bytes: 100 + rank, unit: 4 });
        assert_eq!(window.common_extent(), None, "sizes differ");
        assert_eq!(window.group(), world.group());
        window.free().unwrap();
        let window = Window::allocate(&world, 100_000, 8).unwrap();
        assert_eq!((window.flavor(), window.common_extent()), (Flavor::Allocate, Some(window.extent())));
        assert_eq!(window.base().addr() % 64, 0);
        assert_eq!(
            window.load_and_store(Some(world.rank())).unwrap(),
            Some((window.base(), window.extent()))
        );
        let next = Rank((world.rank().0 + 1) % 3);
        let (base, extent) = window.load_and_store(Some(next)).unwrap().expect("they share memory");
        assert!(base != window.base() && extent == window.extent());
        assert_eq!(window.load_and_store(Some(Rank(3))).unwrap_err().class, Class::Rank);
        window.free().unwrap();
    });
}

#[test]
fn a_window_has_a_context_of_its_own_and_waits_at_its_end() {
    let arrived = AtomicU32::new(0);
    on(4, |session| {
        let world = session.world();
        let (first, second) =
            (Window::create_dynamic(&world).unwrap(), Window::create_dynamic(&world).unwrap());
        arrived.fetch_add(1, Ordering::SeqCst);
        // Rank 0 goes last into the barrier of the first, and the second's is not taken for it.
        if world.rank() == Rank(0) {
            while arrived.load(Ordering::SeqCst) < 4 {
                std::thread::yield_now();
            }
            arrived.fetch_add(10, Ordering::SeqCst);
        }
        first.free().unwrap();
        assert!(arrived.load(Ordering::SeqCst) >= 14, "rank {:?} did not wait", world.rank());
        second.free().unwrap();
    });
}

#[test]
fn what_is_attached_is_attached_once() {
    on(1, |session| {
        let window = Window::create_dynamic(&session.world()).unwrap();
        let heap = Heap::new(1000);
        let part = |offset, bytes| heap.memory().part(offset, bytes);
        let at = |offset| heap.memory().start().wrapping_add(offset).cast_const();
        window.attach(part(100, 100)).unwrap();
        window.attach(part(200, 50)).unwrap();
        for (offset, bytes) in [(100, 100), (199, 1), (50, 51), (50, 500), (249, 2), (100, 0), (150, 0)] {
            assert_eq!(
                window.attach(part(offset, bytes)).unwrap_err().class,
                Class::RmaAttach,
                "{offset} {bytes}"
            );
        }
        window.attach(part(50, 50)).unwrap();
        window.attach(part(250, 0)).unwrap();
        for offset in [100, 50, 250, 200] {
            window.detach(at(offset)).unwrap();
            assert_eq!(window.detach(at(offset)).unwrap_err().class, Class::Base);
        }
        window.attach(part(0, 1000)).unwrap();
        assert_eq!(window.load_and_store(Some(Rank(0))).unwrap_err().class, Class::RmaFlavor);
        window.free().unwrap();
        let fixed = Window::allocate(&session.world(), 8, 1).unwrap();
        assert_eq!(fixed.attach(part(0, 8)).unwrap_err().class, Class::RmaFlavor);
        assert_eq!(fixed.detach(at(0)).unwrap_err().class, Class::RmaFlavor);
    });
}

#[test]
fn epochs_begin_and_end_in_order() {
    on(1, |session| {
        let window = Window::allocate(&session.world(), 8, 1).unwrap();
        let out_of_epoch = |answer: Result<()>| assert_eq!(answer.unwrap_err().class, Class::RmaSync);
        out_of_epoch(window.unlock_all());
        out_of_epoch(window.flush(None));
        window.fence().unwrap();
        window.lock_all().unwrap();
        out_of_epoch(window.lock_all());
        out_of_epoch(window.fence());
        out_of_epoch(window.leave());
        window.flush(None).and_then(|()| window.flush(Some(Rank(0)))).unwrap();
        assert_eq!(window.flush(Some(Rank(1))).unwrap_err().class, Class::Rank);
        window.unlock_all().and_then(|()| window.free()).unwrap();
    });
}

/// What one stores the others load, over whichever fabric the messages go.
fn stores_are_seen(config: &Config) {
    let sums = run_threads(4, config, |session| {
        let world = session.world();
        let rank = world.rank().0;
        // Rank 2 has nothing.
        let count = if rank == 2 { 0 } else { 1000 + rank as usize };
        let shared: SharedWindow<AtomicU64> = SharedWindow::allocate(&world, count)?;
        assert_eq!((shared.mine().len(), shared.flavor()), (count, Flavor::Shared));
        for (at, value) in (0..).zip(shared.mine()) {
            value.store(u64::from(rank) << 32 | at, Ordering::Relaxed);
        }
        shared.fence()?;
        let mut sum = 0u64;
        for other in 0..4 {
            let part = shared.part(Rank(other))?;
            assert_eq!(part.len(), if other == 2 { 0 } else { 1000 + other as usize });
            for (at, value) in (0..).zip(part) {
                assert_eq!(value.load(Ordering::Relaxed), u64::from(other) << 32 | at);
                sum = sum.wrapping_add(value.load(Ordering::Relaxed));
            }
        }
        assert_eq!(shared.part(Rank(4)).unwrap_err().class, Class::Rank);
        shared.free()?;
        Ok::<_, Error>(sum)
    });
    let sums: Vec<u64> = sums.unwrap().into_iter().collect::<Result<_>>().unwrap();
    assert!(sums.iter().all(|sum| *sum == sums[0]));
}

#[test]
fn memory_is_shared_whatever_fabric_carries_the_messages() {
    stores_are_seen(&Config::default());
    stores_are_seen(&Config { fabrics: vec![FabricName::Tcp], ..Config::default() });
}

#[test]
fn parts_are_neighbours_or_stand_on_pages() {
    on(3, |session| {
        let world = session.world();
        for (placement, apart) in [(SharedPlacement::Contiguous, 24), (SharedPlacement::Apart, 4096)] {
            let window = Window::allocate_shared(&world, 24, 8, placement).unwrap();
            let at = |rank| window.load_and_store(Some(Rank(rank))).unwrap().unwrap().0.addr();
            assert_eq!([at(1) - at(0), at(2) - at(1)], [apart; 2]);
            assert_eq!(window.load_and_store(None).unwrap().unwrap().0.addr(), at(0));
            assert_eq!(window.base().addr(), at(world.rank().0));
            window.free().unwrap();
        }
    });
}

#[test]
fn members_share_values_of_one_type() {
    on(2, |session| {
        let world = session.world();
        let class = match world.rank() {
            Rank(0) => SharedWindow::<AtomicU8>::allocate(&world, 8).map(|_| ()).unwrap_err().class,
            _ => SharedWindow::<AtomicU64>::allocate(&world, 8).map(|_| ()).unwrap_err().class,
        };
        assert_eq!(class, Class::Type);
    });
}

#[test]
fn too_much_memory_is_an_error_at_all_members() {
    on(3, |session| {
        let world = session.world();
        let bytes = if world.rank() == Rank(1) { 1 << 50 } else { 8 };
        let error = Window::allocate_shared(&world, bytes, 1, SharedPlacement::Contiguous).unwrap_err();
        assert_eq!(error.class, Class::NoMemory, "{error}");
        let bytes = if world.rank() == Rank(1) { isize::MAX as usize - 64 } else { 8 };
        let error = Window::allocate(&world, bytes, 1).unwrap_err();
        assert_eq!(error.class, Class::NoMemory, "{error}");
        world.barrier().unwrap();
    });
}

#[test]
fn wrong_units_are_refused() {
    on(1, |session| {
        let world = session.world();
        for made in [
            Window::allocate(&world, 8, 0),
            Window::allocate_shared(&world, 8, 0, SharedPlacement::Apart),
            Window::create(&world, UserMemory::EMPTY, 0),
        ] {
            assert_eq!(made.unwrap_err().class, Class::Displacement);
        }
    });
}

#[test]
fn what_hangs_on_a_window_goes_with_it() {
    struct Noting(Arc<AtomicU32>, u32);
    impl Drop for Noting {
        fn drop(&mut self) {
            assert_eq!(self.0.fetch_add(1, Ordering::Relaxed), self.1, "the latest goes first");
        }
    }
    on(1, |session| {
        let world = session.world();
        let key: Key<u32> = Key::cloning();
        world.set_attribute(&key, 1);
        let window = Window::create_dynamic(&world).unwrap();
        assert!(window.attribute(&key).is_none(), "a window inherits nothing");
        let gone = Arc::new(AtomicU32::new(0));
        let keys: [Key<Noting>; 2] = [Key::new(), Key::new()];
        window.set_attribute(&keys[0], Noting(gone.clone(), 1));
        window.set_attribute(&keys[1], Noting(gone.clone(), 0));
        window.set_attribute(&key, 2);
        assert_eq!(window.take_attribute(&key).as_deref(), Some(&2));
        window.free().unwrap();
        assert_eq!(gone.load(Ordering::Relaxed), 2);
    });
}
