//! Values on their way into messages and out of them: as they stand where they have no gaps, packed otherwise.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;

use datatype::{Datatype as Compiled, DatatypeError, ShortClaim};
use fabric::{Heap, Payload, UserMemory};

use crate::error::{Class, Error, Result};
use crate::memory::{Datatype, reading, sending, value_bytes, writing};

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
    gathered(&compiled::<T>()?, values.len() as i64, reading(values))
}

/// The data of `count` elements in `memory`, packed.
pub(crate) fn gathered(datatype: &Compiled, count: i64, memory: Payload<'_>) -> Result<Outbound> {
    let heap = Heap::new(datatype.packed_bytes(count).map_err(refused)? as usize);
    datatype::pack_memory(datatype, count, memory, &mut heap.memory(), 0).map_err(short)?;
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

/// How many values so many bytes are.
pub(crate) fn values_in<T: Datatype>(bytes: usize, place: impl Fn() -> String) -> Result<usize> {
    if bytes.is_multiple_of(value_bytes::<T>()) {
        return Ok(bytes / value_bytes::<T>());
    }
    let what = format!("{}: {bytes} bytes are no whole number of values of {}", place(), value_bytes::<T>());
    Err(Error::new(Class::Type, what).remedy("receive as the type that was sent, or as u8"))
}
