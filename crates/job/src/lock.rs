//! One lock around the engine, which costs nothing where one thread does all the calls.
//!
//! MPI lets a program promise that only one thread calls (`MPI_THREAD_SINGLE`, `MPI_THREAD_FUNNELED`). Then
//! the lock is *owned*: it compares the calling thread with its owner, and takes no locked instruction.
//! Otherwise it is *shared*: a mutex, for which one spins a little and gives the cpu away a few times before
//! one sleeps. It is mostly held for less than a microsecond, and who is woken comes much later than that.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use crate::wait::LONG_AWAY;

/// Holds a mutex, also where a thread panicked while it held it: what mutexes guard here is whole after each
/// statement.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds a mutex if no other thread does.
#[inline]
fn try_lock(mutex: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
    match mutex.try_lock() {
        Ok(locked) => Some(locked),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Which threads may take a [`Lock`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Threads {
    /// Only the thread that made it.
    One,
    /// Any thread.
    Many,
}

/// A value that one thread at a time can reach.
pub struct Lock<T> {
    /// The thread that owns it, by a number no other living thread has; 0 when it is shared.
    owner: usize,
    busy: AtomicBool,
    mutex: Mutex<()>,
    /// What holds the mutex. It stands here, so that a guard is one word: who returns or moves more than fits
    /// in registers reads what it has just written in parts, and the processor has that wait until all that
    /// was written before has gone out (decisions/0005).
    locked: UnsafeCell<MaybeUninit<MutexGuard<'static, ()>>>,
    /// Threads that want it while another has it.
    wanting: AtomicU32,
    /// In shared mode, the thread that has it; 0 while nobody has.
    holder: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and there is one guard at a time: in shared mode by the
// mutex, in owned mode since only the owner thread gets one, and `busy` refuses it a second.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: nothing in a lock is tied to a thread but the right to take it.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    /// A lock for the threads that will take it.
    pub fn new(threads: Threads, value: T) -> Lock<T> {
        let owner = match threads {
            Threads::One => this_thread(),
            Threads::Many => 0,
        };
        Lock {
            owner,
            busy: AtomicBool::new(false),
            mutex: Mutex::new(()),
            locked: UnsafeCell::new(MaybeUninit::uninit()),
            wanting: AtomicU32::new(0),
            holder: AtomicUsize::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the value.
    ///
    /// # Panics
    /// When a thread calls that holds the value already, and in owned mode when another thread calls: both
    /// are errors of the program, and going on would corrupt the value or wait for ever.
    #[inline(always)]
    pub fn hold(&self) -> Guard<'_, T> {
        if self.owner == 0 {
            return self.guard_shared(self.lock_shared());
        }
        if self.owner != this_thread() {
            foreign_thread();
        }
        if self.busy.load(Ordering::Relaxed) {
            held_twice();
        }
        self.busy.store(true, Ordering::Relaxed);
        Guard { lock: self, thread: PhantomData }
    }

    /// The value in owned mode, for the owner; `None` where [`Lock::hold`] is to be asked. As few steps as it
    /// takes.
    #[inline(always)]
    pub fn hold_owned(&self) -> Option<OwnedGuard<'_, T>> {
        // No thread has the number 0.
        if self.owner != this_thread() || self.busy.load(Ordering::Relaxed) {
            return None;
        }
        self.busy.store(true, Ordering::Relaxed);
        Some(OwnedGuard { lock: self, owner: PhantomData })
    }

    /// The value if no other thread has it.
    ///
    /// # Panics
    /// In owned mode as [`Lock::hold`].
    #[inline(always)]
    pub fn try_hold(&self) -> Option<Guard<'_, T>> {
        if self.owner == 0 {
            return Some(self.guard_shared(try_lock(&self.mutex)?));
        }
        Some(self.hold())
    }

    /// The guard of who has locked the mutex.
    #[inline]
    fn guard_shared<'a>(&'a self, locked: MutexGuard<'a, ()>) -> Guard<'a, T> {
        // SAFETY: only the lifetime is another. What stands there is dropped with the guard that is made here
        // and in no other way, and as long as that lives this lock stays where it is.
        let locked = unsafe { std::mem::transmute::<MutexGuard<'a, ()>, MutexGuard<'static, ()>>(locked) };
        // SAFETY: only who has locked the mutex comes here.
        unsafe { (*self.locked.get()).write(locked) };
        self.holder.store(this_thread(), Ordering::Relaxed);
        Guard { lock: self, thread: PhantomData }
    }

    #[inline]
    fn lock_shared(&self) -> MutexGuard<'_, ()> {
        match try_lock(&self.mutex) {
            Some(locked) => locked,
            None => self.hold_contended(),
        }
    }

    #[cold]
    fn hold_contended(&self) -> MutexGuard<'_, ()> {
        // A thread finds its own number here only where it has stored it itself and not given the value back.
        if self.holder.load(Ordering::Relaxed) == this_thread() {
            held_twice();
        }
        self.wanting.fetch_add(1, Ordering::Relaxed);
        let locked = self.try_for_a_while().unwrap_or_else(|| lock(&self.mutex));
        self.wanting.fetch_sub(1, Ordering::Relaxed);
        locked
    }

    fn try_for_a_while(&self) -> Option<MutexGuard<'_, ()>> {
        let spins = (0..SPINS).find_map(|_| {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
            try_lock(&self.mutex)
        });
        if spins.is_some() {
            return spins;
        }
        for _ in 0..YIELDS {
            let since = Instant::now();
            std::thread::yield_now();
            let tried = try_lock(&self.mutex);
            // Others have kept the cpu for a slice: who sleeps and is woken comes before them.
            if tried.is_some() || since.elapsed() >= LONG_AWAY {
                return tried;
            }
        }
        None
    }

    /// Whether other threads wait for the value.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanting.load(Ordering::Relaxed) > 0
    }

    /// Stays away from the value for a moment, so that others who want it get it.
    #[cold]
    pub fn give_way(&self) {
        for _ in 0..SPINS {
            if !self.is_wanted() {
                return;
            }
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        std::thread::yield_now();
    }

    /// Whether any thread may take it.
    pub fn is_shared(&self) -> bool {
        self.owner == 0
    }
}

/// The value, while it is held: for that thread alone.
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    thread: PhantomData<*const ()>,
}

/// The value, while its owner holds it: for that thread alone.
pub struct OwnedGuard<'a, T> {
    lock: &'a Lock<T>,
    owner: PhantomData<*const ()>,
}

impl<T> Deref for OwnedGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, as said at `Sync`: only the owner gets one, and `busy` refuses
        // it a second.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for OwnedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for OwnedGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.busy.store(false, Ordering::Relaxed);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, as said at `Sync`.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, as said at `Sync`.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.lock.owner != 0 {
            self.lock.busy.store(false, Ordering::Relaxed);
            return;
        }
        self.lock.holder.store(0, Ordering::Relaxed);
        // SAFETY: only who has locked the mutex looks there; its guard was written there when this one was
        // made, and is taken once. It is taken first, since the next one writes there as soon as this one has
        // unlocked.
        drop(unsafe { (*self.lock.locked.get()).assume_init_read() });
    }
}

/// A number that no other living thread has: where its own data is, as the processor knows it anyway. In a
/// shared library, asking for the address of a thread-local variable would be a call.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
#[inline(always)]
fn this_thread() -> usize {
    let here: usize;
    // SAFETY: on Linux the register fs points at the thread's control block, whose first word is its own
    // address (System V ABI, thread-local storage, variant II); reading it changes nothing.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) here, options(nostack, preserves_flags, readonly)) };
    here
}

/// A number that no other living thread has: the address of something of its own.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
#[inline]
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

#[cold]
fn foreign_thread() -> ! {
    panic!(
        "called from a thread other than the one that started it, but the library was started for one thread\n  \
         ask for MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE (in Rust: Session::start_for(Threads::Many))"
    )
}

#[cold]
fn held_twice() -> ! {
    panic!(
        "this thread has called MPI while a nonblocking or persistent collective operation runs an operator of the program: the \
         operator communicates, or longjmp has left it\n  \
         let the operator return; operators of blocking operations may communicate, throw exceptions and be left by longjmp"
    )
}

/// Tries before the cpu is given away, and pauses of the processor before each: a microsecond or two in all.
const SPINS: u32 = 32;
const PAUSES: u32 = 4;
/// Tries after which one sleeps: whoever holds the value that long is not running, or copies much.
const YIELDS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_share_one_value() {
        let lock = Lock::new(Threads::Many, 0u32);
        let rounds = if cfg!(miri) { 100 } else { 1000 };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..rounds).for_each(|_| *lock.hold() += 1));
            }
        });
        assert_eq!(*lock.hold(), 4 * rounds);
        let held = lock.hold();
        assert!(std::thread::scope(|scope| scope.spawn(|| lock.try_hold().is_none()).join()).unwrap());
        drop(held);
        assert!(lock.try_hold().is_some_and(|value| *value == 4 * rounds));
    }

    #[test]
    fn the_owner_may_and_others_may_not() {
        let lock = Lock::new(Threads::One, 1u32);
        *lock.hold() += 1;
        *lock.hold_owned().expect("the owner asks") += 1;
        let elsewhere = std::thread::scope(|scope| scope.spawn(|| lock.hold_owned().is_none()).join());
        assert!(elsewhere.unwrap(), "another thread got the value");
        assert!(Lock::new(Threads::Many, ()).hold_owned().is_none());
        let held = lock.hold_owned();
        assert!(lock.hold_owned().is_none(), "held twice");
        drop(held);
        let other = std::thread::scope(|scope| scope.spawn(|| *lock.hold()).join());
        let message = *other.unwrap_err().downcast::<&str>().unwrap();
        assert!(message.contains("MPI_THREAD_MULTIPLE"), "{message}");
        assert_eq!(*lock.hold(), 3);
    }

    #[test]
    fn holding_twice_is_told() {
        for threads in [Threads::One, Threads::Many] {
            let lock = Lock::new(threads, 1u32);
            drop(lock.hold());
            let first = lock.hold();
            let twice = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(lock.hold())));
            let message = *twice.unwrap_err().downcast::<&str>().unwrap();
            assert!(message.contains("an operator of the program"), "{message}");
            drop(first);
            assert_eq!(*lock.hold(), 1, "the value is free again");
        }
    }
}
