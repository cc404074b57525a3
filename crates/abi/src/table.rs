//! Handles to objects: an index, a generation, and a table that knows both.
//!
//! A freed handle keeps its index but not its generation, so that it is recognised for ever (or until four
//! billion others were freed on the same place). A handle of another class has another kind, and one that was
//! made up has neither. None of them is dereferenced, so none can do harm.

use crate::handles::{HandleKind, INTEGER_MASK, PREDEFINED_END};

/// Objects of one class, by handle value.
pub(crate) struct Table<T> {
    kind: HandleKind,
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    /// How many objects there may be.
    most: u32,
}

struct Entry<T> {
    generation: u32,
    object: Option<T>,
}

impl<T> Table<T> {
    pub(crate) const fn new(kind: HandleKind) -> Table<T> {
        Table { kind, entries: Vec::new(), free: Vec::new(), most: OBJECTS_MAX }
    }

    /// Adds an object; the answer is its handle's value. `None` when the class has no more handles.
    pub(crate) fn insert(&mut self, object: T) -> Option<usize> {
        self.try_insert(object).ok()
    }

    /// Adds an object; the answer is its handle's value. When the class has no more handles the object comes
    /// back, since it must not be dropped here.
    pub(crate) fn try_insert(&mut self, object: T) -> Result<usize, T> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = self.entries.len() as u32;
                if index >= self.most {
                    return Err(object);
                }
                self.entries.push(Entry { generation: 0, object: None });
                index
            }
        };
        let entry = &mut self.entries[index as usize];
        entry.object = Some(object);
        Ok(self.value(index))
    }

    fn value(&self, index: u32) -> usize {
        value(self.kind, index, self.entries[index as usize].generation)
    }

    fn place(&self, value: usize) -> Option<usize> {
        let kind = (value & INTEGER_MASK) >> 27;
        let index = (value & INDEX_MASK).checked_sub(PREDEFINED_END)?;
        let entry = self.entries.get(index)?;
        let alive = kind == self.kind as usize + 1
            && value >> 32 == entry.generation as usize
            && value & 1 << 31 == 0;
        alive.then_some(index)
    }

    /// The object of a handle.
    #[inline]
    pub(crate) fn find(&self, value: usize) -> Option<&T> {
        self.entries[self.place(value)?].object.as_ref()
    }

    /// The object of a handle, to be changed.
    #[inline]
    pub(crate) fn find_mut(&mut self, value: usize) -> Option<&mut T> {
        let place = self.place(value)?;
        self.entries[place].object.as_mut()
    }

    /// All objects, with the values of their handles.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (usize, &T)> {
        let entries = self.entries.iter().enumerate();
        let living =
            entries.filter_map(|(index, entry)| Some((self.value(index as u32), entry.object.as_ref()?)));
        // There may have been many more once.
        living.take(self.entries.len() - self.free.len())
    }

    /// Takes the object out; its handle is dead from now on.
    pub(crate) fn remove(&mut self, value: usize) -> Option<T> {
        let place = self.place(value)?;
        let entry = &mut self.entries[place];
        let object = entry.object.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(place as u32);
        Some(object)
    }

    /// The living handle whose low 31 bits are that integer.
    pub(crate) fn by_integer(&self, integer: usize) -> Option<usize> {
        let index = (integer & INDEX_MASK).checked_sub(PREDEFINED_END)?;
        let entry = self.entries.get(index)?;
        let value = (entry.generation as usize) << 32 | integer;
        entry.object.as_ref().and_then(|_| self.place(value)).map(|_| value)
    }
}

/// The handle of the first object of a class that was ever added.
pub(crate) const fn first(kind: HandleKind) -> usize {
    value(kind, 0, 0)
}

/// The handle of a class for an object that is kept elsewhere, under an index and a generation; `None` where
/// the index is beyond what a handle can say.
#[inline(always)]
pub(crate) fn value_of(kind: HandleKind, index: u32, generation: u32) -> Option<usize> {
    if index < OBJECTS_MAX { Some(value(kind, index, generation)) } else { None }
}

/// Index and generation of a handle of [`value_of`]; `None` for those of other classes.
#[inline(always)]
pub(crate) fn place_of(kind: HandleKind, value: usize) -> Option<(u32, u32)> {
    let (low, generation) = (value as u32, (value >> 32) as u32);
    let index = low.wrapping_sub((kind as u32 + 1) << 27).wrapping_sub(PREDEFINED_END as u32);
    if index < OBJECTS_MAX { Some((index, generation)) } else { None }
}

const fn value(kind: HandleKind, index: u32, generation: u32) -> usize {
    (generation as usize) << 32 | (kind as usize + 1) << 27 | (index as usize + PREDEFINED_END)
}

/// The bits of a handle value that hold the index.
const INDEX_MASK: usize = (1 << 27) - 1;
/// Objects of one class that can have handles at the same time.
const OBJECTS_MAX: u32 = (1 << 27) - PREDEFINED_END as u32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handles::toint;

    #[test]
    fn handles_find_their_object_until_it_is_freed() {
        let mut table = Table::new(HandleKind::Comm);
        let first = table.insert("first").unwrap();
        let second = table.insert("second").unwrap();
        assert_eq!((table.find(first), table.find(second)), (Some(&"first"), Some(&"second")));
        assert_eq!(table.remove(first), Some("first"));
        let third = table.insert("third").unwrap();
        assert_eq!(first & INTEGER_MASK, third & INTEGER_MASK, "the place is used again");
        assert_eq!((table.find(first), table.find(third)), (None, Some(&"third")));
        assert_eq!(table.remove(first), None);
    }

    #[test]
    fn what_finds_no_place_comes_back() {
        let mut table = Table { most: 2, ..Table::new(HandleKind::Request) };
        let handles = ["first", "second"].map(|object| table.try_insert(object).unwrap());
        assert_eq!(table.try_insert("third"), Err("third"));
        table.remove(handles[0]);
        assert!(table.try_insert("third").is_ok_and(|handle| handle != handles[0]));
        assert_eq!(table.insert("fourth"), None);
    }

    #[test]
    fn foreign_and_invented_handles_find_nothing() {
        let mut comms = Table::new(HandleKind::Comm);
        let mut groups = Table::new(HandleKind::Group);
        let comm = comms.insert(()).unwrap();
        let group = groups.insert(()).unwrap();
        for value in [group, 0, 1, 256, PREDEFINED_END, usize::MAX, comm + 1, comm | 1 << 31, comm | 1 << 63]
        {
            assert_eq!(comms.find(value), None, "{value:#x}");
        }
    }

    #[test]
    fn what_is_kept_elsewhere_has_handles_of_its_own() {
        for (index, generation) in [(0, 0), (7, 9), (OBJECTS_MAX - 1, u32::MAX)] {
            let value = value_of(HandleKind::Receive, index, generation).unwrap();
            assert_eq!(place_of(HandleKind::Receive, value), Some((index, generation)));
            assert_eq!(place_of(HandleKind::Request, value), None);
            assert_eq!(place_of(HandleKind::Receive, value | 1 << 31), None);
            assert_eq!(Table::<()>::new(HandleKind::Request).place(value), None);
        }
        assert_eq!(value_of(HandleKind::Receive, OBJECTS_MAX, 0), None);
        for value in [0, 1, PREDEFINED_END, first(HandleKind::Request), first(HandleKind::Win), usize::MAX] {
            assert_eq!(place_of(HandleKind::Receive, value), None, "{value:#x}");
        }
    }

    #[test]
    fn integers_lead_back_to_living_handles_only() {
        let mut table = Table::new(HandleKind::Op);
        let handle = table.insert(()).unwrap();
        table.remove(handle);
        let handle = table.insert(()).unwrap();
        let integer = toint(handle) as usize;
        assert_eq!(table.by_integer(integer), Some(handle));
        table.remove(handle);
        assert_eq!(table.by_integer(integer), None);
    }
}
