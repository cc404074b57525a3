//! Requests as futures: under our own executor, under another, joined, given up, and beside what a thread
//! wakes.

mod common;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use common::on_each_fabric;
use weft::{OwnedRequest, Rank, block_on};

/// Waits for all, and polls only those whose waker was called, as executors with lists do.
async fn all_of(requests: Vec<OwnedRequest<u64>>) -> Vec<u64> {
    struct Flag(Mutex<bool>, Waker);
    impl Wake for Flag {
        fn wake(self: Arc<Flag>) {
            *self.0.lock().unwrap() = true;
            self.1.wake_by_ref();
        }
    }
    let mut waiting: Vec<(usize, OwnedRequest<u64>, Option<Arc<Flag>>)> =
        requests.into_iter().enumerate().map(|(at, request)| (at, request, None)).collect();
    let mut values = vec![0; waiting.len()];
    poll_fn(|context| {
        waiting.retain_mut(|(at, request, flag)| {
            if flag.as_ref().is_some_and(|flag| !std::mem::take(&mut *flag.0.lock().unwrap())) {
                return true;
            }
            let own = Arc::new(Flag(Mutex::new(false), context.waker().clone()));
            *flag = Some(Arc::clone(&own));
            match Pin::new(request).poll(&mut Context::from_waker(&Waker::from(own))) {
                Poll::Ready(result) => {
                    values[*at] = result.unwrap().0[0];
                    false
                }
                Poll::Pending => true,
            }
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    values
}

#[test]
fn joined_requests_are_polled_by_their_own_wakers() {
    on_each_fabric(3, |session| {
        let world = session.world();
        let others: Vec<Rank> = (0..3).map(Rank).filter(|&rank| rank != world.rank()).collect();
        for round in 0..50u64 {
            let receives =
                others.iter().map(|&from| world.ireceive::<u64>(1, from, round as i32).unwrap()).collect();
            // Some have their messages before they wait, some sleep.
            if (round + u64::from(world.rank().0)).is_multiple_of(10) {
                std::thread::sleep(Duration::from_millis(3));
            }
            for &to in &others {
                let mine = vec![round * 10 + u64::from(world.rank().0)];
                let (back, _) = block_on(world.isend(mine.clone(), to, round as i32).unwrap()).unwrap();
                assert_eq!(back, mine);
            }
            let came = block_on(all_of(receives));
            let expected: Vec<u64> = others.iter().map(|from| round * 10 + u64::from(from.0)).collect();
            assert_eq!(came, expected);
        }
    });
}

#[test]
fn any_executor_will_do() {
    struct Counting(AtomicU32);
    impl Wake for Counting {
        fn wake(self: Arc<Counting>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    on_each_fabric(2, |session| {
        let world = session.world();
        let other = Rank(1 - world.rank().0);
        let counting = Arc::new(Counting(AtomicU32::new(1)));
        let waker = Waker::from(Arc::clone(&counting));
        let mut receive = world.ireceive::<f32>(100_000, other, 0).unwrap();
        let _sending = world.isend(vec![1.5f32; 100_000], other, 0).unwrap();
        // Polled only when it has asked for it.
        loop {
            assert!(counting.0.swap(0, Ordering::SeqCst) > 0, "a future that nobody wakes");
            if let Poll::Ready(result) = Pin::new(&mut receive).poll(&mut Context::from_waker(&waker)) {
                assert!(result.unwrap().0 == vec![1.5f32; 100_000]);
                break;
            }
        }
        let again = Pin::new(&mut receive).poll(&mut Context::from_waker(&waker));
        assert!(matches!(again, Poll::Ready(Err(_))), "its values are given once");
    });
}

#[test]
fn a_thread_wakes_who_waits_for_messages_too() {
    on_each_fabric(2, |session| {
        let world = session.world();
        let other = Rank(1 - world.rank().0);
        let told: Mutex<(bool, Option<Waker>)> = Mutex::default();
        let mut never = world.ireceive::<u8>(1, other, 9).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Late enough for the other thread to sleep in most runs; right whether it does or not.
                std::thread::sleep(Duration::from_millis(20));
                let mut told = told.lock().unwrap();
                told.0 = true;
                if let Some(waker) = told.1.take() {
                    waker.wake();
                }
            });
            block_on(poll_fn(|context| {
                assert!(Pin::new(&mut never).poll(context).is_pending());
                let mut told = told.lock().unwrap();
                told.1 = Some(context.waker().clone());
                if told.0 { Poll::Ready(()) } else { Poll::Pending }
            }));
        });
        // A future that is given up is a receive that is cancelled.
        drop(never);
        world.barrier().unwrap();
        world.send(&[5u8], other, 9).unwrap();
        assert_eq!(block_on(world.ireceive::<u8>(1, None, 9).unwrap()).unwrap().0, [5]);
    });
}

#[test]
fn one_wait_may_stand_in_another() {
    assert_eq!(block_on(async { block_on(async { 1 }) + 1 }), 2);
    let woken = Arc::new(Mutex::new(false));
    let answer = block_on(poll_fn(|context| {
        let mut woken_now = woken.lock().unwrap();
        if *woken_now {
            return Poll::Ready(3);
        }
        *woken_now = true;
        let waker = context.waker().clone();
        std::thread::spawn(move || waker.wake());
        Poll::Pending
    }));
    assert_eq!(answer, 3);
}

/// An executor that knows nothing of this library, and sleeps until it is woken.
fn sleep_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Unpark>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

#[test]
fn an_executor_that_blocks_inside_of_ours_is_woken() {
    on_each_fabric(2, |session| {
        let world = session.world();
        let other = Rank(1 - world.rank().0);
        if world.rank() == Rank(1) {
            std::thread::sleep(Duration::from_millis(30));
        }
        let came = block_on(async {
            let sending = world.isend(vec![7u64; 50_000], other, 0).unwrap();
            // A library that is called here may well do so.
            let came = sleep_on(world.ireceive::<u64>(50_000, other, 0).unwrap()).unwrap().0;
            sending.await.unwrap();
            came
        });
        assert_eq!(came, [7; 50_000]);
    });
}
