//! Attributes: what a library hangs on a communicator or a window that a program gives it (MPI 5.0 §7.7).
//!
//! A key is a value of the type [`Key<T>`], and what hangs under it is a `T`: nobody can take it for
//! something else, and nobody without the key can reach it. A value is dropped when it is replaced or taken
//! away, and with its communicator or window, the latest first; whether the duplicate of a communicator gets
//! a copy is the key's to say. Nothing is locked while a value is copied or dropped, so that may use the
//! communicator.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard};

use job::lock::lock;

use crate::communicator::Communicator;
use crate::window::Window;

/// Under which values of type `T` hang on communicators and windows. Clones are the same key.
///
/// ```
/// use weft::{Key, Operator};
///
/// // A library that counts how often it was called with each communicator.
/// # weft::run_threads(2, &weft::Config::default(), |session| {
/// let calls: Key<u32> = Key::cloning();
/// let world = session.world();
/// world.set_attribute(&calls, 1);
/// let copy = world.duplicate()?;
/// world.set_attribute(&calls, 2);
/// assert_eq!((world.attribute(&calls).as_deref(), copy.attribute(&calls).as_deref()), (Some(&2), Some(&1)));
/// # Ok::<(), weft::Error>(())
/// # })?.into_iter().collect::<Result<Vec<()>, _>>()?;
/// # Ok::<(), weft::Error>(())
/// ```
pub struct Key<T> {
    copier: Arc<Copier<T>>,
}

/// What the duplicate of a communicator gets.
struct Copier<T> {
    copy: Box<CopyOf<T>>,
}

type CopyOf<T> = dyn Fn(&T) -> Option<T> + Send + Sync;

impl<T> Clone for Key<T> {
    fn clone(&self) -> Key<T> {
        Key { copier: self.copier.clone() }
    }
}

impl<T: Send + Sync + 'static> Key<T> {
    /// A key whose values stay on the communicator that they were hung on.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a key is made to be kept, not by the way")]
    pub fn new() -> Key<T> {
        Key::copying(|_| None)
    }

    /// A key whose values duplicates get clones of.
    #[must_use]
    pub fn cloning() -> Key<T>
    where
        T: Clone,
    {
        Key::copying(|value: &T| Some(value.clone()))
    }

    /// A key where `copy` makes what duplicates get; `None` is nothing.
    #[must_use]
    pub fn copying(copy: impl Fn(&T) -> Option<T> + Send + Sync + 'static) -> Key<T> {
        Key { copier: Arc::new(Copier { copy: Box::new(copy) }) }
    }

    fn is(&self, hung: &Hung) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.copier), Arc::as_ptr(&hung.key))
    }
}

/// A key of any type.
trait AnyKey: Send + Sync {
    fn copy(&self, value: &(dyn Any + Send + Sync)) -> Option<Arc<dyn Any + Send + Sync>>;
}

impl<T: Send + Sync + 'static> AnyKey for Copier<T> {
    fn copy(&self, value: &(dyn Any + Send + Sync)) -> Option<Arc<dyn Any + Send + Sync>> {
        let copied = (self.copy)(value.downcast_ref()?)?;
        Some(Arc::new(copied))
    }
}

/// A value under its key.
#[derive(Clone)]
struct Hung {
    key: Arc<dyn AnyKey>,
    value: Arc<dyn Any + Send + Sync>,
}

/// The attributes of a communicator or a window, in the order in which they were hung.
#[derive(Default)]
pub(crate) struct Attributes {
    hung: Mutex<Vec<Hung>>,
}

impl Attributes {
    fn lock(&self) -> MutexGuard<'_, Vec<Hung>> {
        lock(&self.hung)
    }

    /// Has all that hangs there, too.
    pub(crate) fn take_over(&self, from: &Attributes) {
        let hung = Vec::clone(&from.lock());
        self.lock().extend(hung);
    }

    /// Takes over what the keys of another communicator's attributes let duplicates have.
    pub(crate) fn inherit(&self, from: &Attributes) {
        let hung = from.lock();
        if hung.is_empty() {
            return;
        }
        // Nothing is locked while values are copied.
        let hung = Vec::clone(&hung);
        let copies = hung.iter().filter_map(|Hung { key, value }| {
            let value = key.copy(&**value)?;
            Some(Hung { key: key.clone(), value })
        });
        let copies: Vec<Hung> = copies.collect();
        self.lock().extend(copies);
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        while let Some(latest) = self.lock().pop() {
            drop(latest);
        }
    }
}

impl Attributes {
    fn set<T: Send + Sync + 'static>(&self, key: &Key<T>, value: T) -> Option<Arc<T>> {
        let former = self.take(key);
        let hung = Hung { key: key.copier.clone(), value: Arc::new(value) };
        self.lock().push(hung);
        former
    }

    fn find<T: Send + Sync + 'static>(&self, key: &Key<T>) -> Option<Arc<T>> {
        let hung = self.lock().iter().find(|hung| key.is(hung)).cloned();
        hung.and_then(|hung| hung.value.downcast().ok())
    }

    fn take<T: Send + Sync + 'static>(&self, key: &Key<T>) -> Option<Arc<T>> {
        let mut list = self.lock();
        let place = list.iter().position(|hung| key.is(hung))?;
        let hung = list.remove(place);
        drop(list);
        hung.value.downcast().ok()
    }
}

impl Communicator {
    /// Hangs a value on this communicator, and answers the one that it replaces.
    pub fn set_attribute<T: Send + Sync + 'static>(&self, key: &Key<T>, value: T) -> Option<Arc<T>> {
        self.attributes().set(key, value)
    }

    /// What hangs under a key.
    #[must_use]
    pub fn attribute<T: Send + Sync + 'static>(&self, key: &Key<T>) -> Option<Arc<T>> {
        self.attributes().find(key)
    }

    /// Takes away what hangs under a key.
    pub fn take_attribute<T: Send + Sync + 'static>(&self, key: &Key<T>) -> Option<Arc<T>> {
        self.attributes().take(key)
    }
}

impl Window {
    /// Hangs a value on this window, and answers the one that it replaces (MPI 5.0 §7.7.3). Windows have no
    /// duplicates, so what the key says of copies does not matter here.
    pub fn set_attribute<T: Send + Sync + 'static>(&self, key: &Key<T>, value: T) -> Option<Arc<T>> {
        self.attributes().set(key, value)
    }

    /// What hangs under a key.
    #[must_use]
    pub fn attribute<T: Send + Sync + 'static>(&self, key: &Key<T>) -> Option<Arc<T>> {
        self.attributes().find(key)
    }

    /// Takes away what hangs under a key.
    pub fn take_attribute<T: Send + Sync + 'static>(&self, key: &Key<T>) -> Option<Arc<T>> {
        self.attributes().take(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, run_threads};

    fn alone<R: Send>(body: impl Fn(&Communicator) -> R + Sync) -> R {
        let mut results = run_threads(1, &Config::default(), |session| body(&session.world())).unwrap();
        results.remove(0)
    }

    #[test]
    fn values_hang_under_their_own_key_only() {
        alone(|world| {
            let (first, second): (Key<u32>, Key<u32>) = (Key::new(), Key::new());
            let words: Key<String> = Key::new();
            assert!(world.set_attribute(&first, 1).is_none());
            world.set_attribute(&words, "one".to_owned());
            assert_eq!(world.attribute(&first.clone()).as_deref(), Some(&1));
            assert!(world.attribute(&second).is_none());
            assert_eq!(world.set_attribute(&first, 2).as_deref(), Some(&1));
            assert_eq!(world.take_attribute(&first).as_deref(), Some(&2));
            assert!(world.attribute(&first).is_none() && world.take_attribute(&first).is_none());
            assert_eq!(world.attribute(&words).unwrap().as_str(), "one");
        });
    }

    #[test]
    fn duplicates_get_what_the_key_says() {
        alone(|world| {
            let (kept, cloned): (Key<u32>, Key<u32>) = (Key::new(), Key::cloning());
            let even = Key::copying(|value: &u32| value.is_multiple_of(2).then_some(value / 2));
            for key in [&kept, &cloned, &even] {
                world.set_attribute(key, 6);
            }
            let copy = world.duplicate().unwrap();
            let second = copy.duplicate().unwrap();
            let of = |comm: &Communicator| {
                [&kept, &cloned, &even].map(|key| comm.attribute(key).map(|value| *value))
            };
            assert_eq!(of(&copy), [None, Some(6), Some(3)]);
            assert_eq!(of(&second), [None, Some(6), None]);
        });
    }

    /// Notes when it goes, and uses the communicator meanwhile.
    struct NotingValue {
        name: u32,
        log: Arc<Mutex<Vec<u32>>>,
        uses: Option<(Communicator, Key<NotingValue>)>,
    }

    impl Drop for NotingValue {
        fn drop(&mut self) {
            if let Some((comm, key)) = &self.uses {
                comm.barrier().unwrap();
                assert!(comm.attribute(key).is_none(), "it is taken away before it goes");
            }
            self.log.lock().unwrap().push(self.name);
        }
    }

    #[test]
    fn the_latest_goes_first_and_nothing_is_locked_meanwhile() {
        alone(|world| {
            let log = Arc::new(Mutex::new(Vec::new()));
            let copy = world.duplicate().unwrap();
            let keys: Vec<Key<NotingValue>> = (0..3).map(|_| Key::new()).collect();
            for (name, key) in (0..).zip(&keys) {
                copy.set_attribute(key, NotingValue { name, log: log.clone(), uses: None });
            }
            let uses = Some((world.clone(), keys[0].clone()));
            world.set_attribute(&keys[0], NotingValue { name: 9, log: log.clone(), uses });
            drop(world.take_attribute(&keys[0]));
            drop(copy);
            assert_eq!(*log.lock().unwrap(), [9, 2, 1, 0]);
        });
    }
}
