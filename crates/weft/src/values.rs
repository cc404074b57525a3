//! Values on their way into messages and out of them: as they stand where they have no gaps, packed
//! otherwise.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use datatype::{Datatype as Compiled, DatatypeError, ShortClaim};
use fabric::{Heap, Payload, UserMemory};
use job::error::{Class, Error, Result};
use job::lock::lock;
use messaging::{Scatter, Target};

use crate::memory::{Datatype, blank, lengthen, reading, sending, value_bytes, writing};

/// The datatype of a type, made when it is first needed.
pub(crate) fn compiled<T: Datatype>() -> Result<Compiled> {
    thread_local! {
        static KEPT: RefCell<HashMap<TypeId, Compiled>> = RefCell::default();
    }
    KEPT.with_borrow_mut(|kept| {
        if let Some(compiled) = kept.get(&TypeId::of::<T>()) {
            return Ok(compiled.clone());
        }
        let compiled = Compiled::of_shape(T::SHAPE).map_err(refused)?;
        kept.insert(TypeId::of::<T>(), compiled.clone());
        Ok(compiled)
    })
}

#[cold]
pub(crate) fn refused(error: DatatypeError) -> Error {
    Error::of_text(Class::Type, &error.to_string())
}

#[cold]
fn short(error: ShortClaim) -> Error {
    Error::of_text(Class::Internal, &error.to_string())
}

/// The data of values, to be sent.
pub(crate) struct Outbound {
    /// Valid as long as the values and this are there.
    pub(crate) payload: Payload<'static>,
    /// Packed data, where the values have gaps.
    pub(crate) keeps: Option<Heap>,
}

/// The data of values.
pub(crate) fn outbound<T: Datatype>(values: &[T]) -> Result<Outbound> {
    if const { T::SHAPE.is_dense() } {
        return Ok(Outbound { payload: reading(values), keeps: None });
    }
    let (datatype, count) = (compiled::<T>()?, values.len() as i64);
    let heap = Heap::new(datatype.packed_bytes(count).map_err(refused)? as usize);
    datatype::pack_memory(&datatype, count, reading(values), &mut heap.memory(), 0).map_err(short)?;
    Ok(Outbound { payload: sending(&heap), keeps: Some(heap) })
}

/// Where received data is brought when it is there.
pub(crate) struct Landing {
    packed: Option<(Heap, Compiled, i64)>,
}

/// Room for the data of values.
pub(crate) fn inbound<T: Datatype>(values: &mut [T]) -> Result<(UserMemory, Landing)> {
    if const { T::SHAPE.is_dense() } {
        return Ok((writing(values), Landing { packed: None }));
    }
    spread(compiled::<T>()?, values.len() as i64)
}

/// Room for the data of `count` elements.
pub(crate) fn spread(datatype: Compiled, count: i64) -> Result<(UserMemory, Landing)> {
    let heap = Heap::new(datatype.packed_bytes(count).map_err(refused)? as usize);
    Ok((heap.memory(), Landing { packed: Some((heap, datatype, count)) }))
}

impl Landing {
    /// Packs what stands in the values now.
    pub(crate) fn load<T: Datatype>(&self, values: &[T]) -> Result<()> {
        let Some((heap, datatype, count)) = &self.packed else { return Ok(()) };
        datatype::pack_memory(datatype, *count, reading(values), &mut heap.memory(), 0).map_err(short)?;
        Ok(())
    }

    /// Brings `bytes` received bytes to the values that the room was made for.
    pub(crate) fn land<T: Datatype>(&self, values: &mut [T], bytes: usize) -> Result<()> {
        let Some((heap, datatype, count)) = &self.packed else { return Ok(()) };
        let came = heap.payload().part(0, bytes);
        datatype::unpack(datatype, *count, came, &mut writing(values), 0).map_err(short)?;
        Ok(())
    }
}

/// The values of a message of any length, whose room grows with what has come of it: no claim of a length is
/// believed.
pub(crate) struct Growing<T> {
    grown: Arc<Mutex<Grown<T>>>,
}

/// What has come so far: the values themselves where they have no gaps, their packed bytes otherwise.
struct Grown<T> {
    values: Vec<T>,
    packed: Vec<u8>,
}

impl<T> Default for Growing<T> {
    fn default() -> Growing<T> {
        Growing { grown: Arc::new(Mutex::new(Grown { values: Vec::new(), packed: Vec::new() })) }
    }
}

impl<T: Datatype> Growing<T> {
    /// Where a receive brings the message.
    pub(crate) fn target(&self) -> Target {
        Target::Scattered(Box::new(Growing { grown: Arc::clone(&self.grown) }))
    }

    /// The values, of which so many have come.
    pub(crate) fn take(&self, count: usize) -> Result<Vec<T>> {
        let Grown { mut values, packed } =
            std::mem::replace(&mut *lock(&self.grown), Grown { values: Vec::new(), packed: Vec::new() });
        if const { T::SHAPE.is_dense() } {
            values.truncate(count);
            return Ok(values);
        }
        let (compiled, mut values) = (compiled::<T>()?, blank::<T>(count));
        let came = Payload::from(&packed[..]);
        datatype::unpack(&compiled, count as i64, came, &mut writing(&mut values), 0).map_err(short)?;
        Ok(values)
    }
}

impl<T: Datatype> Scatter for Growing<T> {
    fn bytes(&self) -> usize {
        isize::MAX as usize
    }

    fn scatter(&mut self, at: usize, data: Payload<'_>) {
        let Grown { values, packed } = &mut *lock(&self.grown);
        let end = at + data.bytes();
        if const { T::SHAPE.is_dense() } {
            let count = end.div_ceil(value_bytes::<T>());
            if values.len() < count {
                lengthen(values, count);
            }
            writing(values).write_at(at, data);
        } else {
            if packed.len() < end {
                lengthen(packed, end);
            }
            writing(packed).write_at(at, data);
        }
    }
}

/// How many values so many bytes are.
pub(crate) fn values_in<T: Datatype>(bytes: usize, place: impl Fn() -> String) -> Result<usize> {
    if bytes.is_multiple_of(value_bytes::<T>()) {
        return Ok(bytes / value_bytes::<T>());
    }
    let what = format!("{}: {bytes} bytes are no whole number of values of {}", place(), value_bytes::<T>());
    Err(Error::new(Class::Type, what).remedy("receive as the type that was sent, or as u8"))
}
