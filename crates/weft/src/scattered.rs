//! Messages of elements that do not stand in a row: packed where they leave, and unpacked where they come in
//! (decisions/0001).

use std::borrow::Borrow;

use datatype::Datatype;
use fabric::{Payload, UserMemory};
use messaging::{Gather, Scatter};

use job::error::{Class, Error, Result};

/// The elements of a send, where they stand.
pub struct Gathered<D = Datatype> {
    datatype: D,
    count: i64,
    span: Payload<'static>,
    bytes: usize,
}

impl<'a> Gathered<&'a Datatype> {
    /// `count` elements that stand in `span`, the bytes of [`Datatype::span`].
    ///
    /// # Errors
    /// [`Class::Count`] where the elements are too many, [`Class::Buffer`] where `span` is too short for
    /// them.
    pub fn new(datatype: &'a Datatype, count: i64, span: Payload<'static>) -> Result<Gathered<&'a Datatype>> {
        let bytes = checked_bytes(datatype, count, span.bytes())?;
        Ok(Gathered { datatype, count, span, bytes })
    }
}

impl<D: Borrow<Datatype> + Send> Gather for Gathered<D> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn gather(&self, from: usize, into: &mut UserMemory) {
        let packed = datatype::pack_memory(self.datatype.borrow(), self.count, self.span, into, from as i64);
        debug_assert!(packed.is_ok(), "the span was checked");
    }

    fn kept(&self) -> Box<dyn Gather> {
        let Gathered { count, span, bytes, .. } = *self;
        Box::new(Gathered { datatype: self.datatype.borrow().clone(), count, span, bytes })
    }
}

/// The elements of a receive, where they come to stand.
pub struct Scattered {
    datatype: Datatype,
    count: i64,
    span: UserMemory,
    bytes: usize,
}

impl Scattered {
    /// `count` elements that come to stand in `span`, the bytes of [`Datatype::span`].
    ///
    /// # Errors
    /// [`Class::Count`] where the elements are too many, [`Class::Buffer`] where `span` is too short for
    /// them.
    pub fn new(datatype: &Datatype, count: i64, span: UserMemory) -> Result<Scattered> {
        let bytes = checked_bytes(datatype, count, span.bytes())?;
        Ok(Scattered { datatype: datatype.clone(), count, span, bytes })
    }
}

impl Scatter for Scattered {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn scatter(&mut self, at: usize, data: Payload<'_>) {
        let unpacked = datatype::unpack(&self.datatype, self.count, data, &mut self.span, at as i64);
        debug_assert!(unpacked.is_ok(), "the span was checked");
    }
}

/// Packed bytes of elements that stand in a span of so many.
fn checked_bytes(datatype: &Datatype, count: i64, given: usize) -> Result<usize> {
    let of_count = |error: datatype::DatatypeError| Error::new(Class::Count, error.to_string());
    let span = datatype.span(count).map_err(of_count)?;
    if i64::try_from(given).is_ok_and(|given| given < span.bytes) {
        let what = format!("{count} elements span {} bytes, and the buffer has {given}", span.bytes);
        return Err(Error::new(Class::Buffer, what));
    }
    let bytes = datatype.packed_bytes(count).map_err(of_count)?;
    usize::try_from(bytes).map_err(|_| Error::new(Class::Count, format!("the count is {count}")))
}
