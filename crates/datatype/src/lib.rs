//! Datatypes and their layouts; pack, unpack and the reduction operators.
//!
//! A [`Datatype`] says which bytes round an address belong to a message (MPI 5.0 chapter 5). It is made of
//! [`Predefined`] ones by the constructors of [`Datatype`], is immutable and cheap to clone. When it is made,
//! its type map is compiled to a [`Layout`] of nested strided loops; [`pack`] and [`unpack`] run that layout,
//! may stop at any byte and go on there. An [`Operator`] combines elements of a predefined datatype
//! ([`reduce`]).
//!
//! **Invariant:** this crate makes no system call and knows neither handles nor communicators. Its only
//! `unsafe` is the arithmetic of 80-bit long doubles, in one small module.
#![deny(unsafe_code)]

mod basic;
mod binary128;
mod binary16;
mod bounds;
mod build;
mod datatype;
mod distributed;
mod element;
mod external;
mod layout;
mod operator;
mod pack;
mod pair;
mod predefined;
mod reduce;
mod shape;
mod signature;
#[allow(unsafe_code)]
mod x87;

pub use basic::Basic;
pub use build::{ArrayOrder, Block, DatatypeError, Field};
pub use datatype::{Datatype, Span};
pub use distributed::{Distributed, Distribution, Place};
pub use external::{ExternalError, pack_external, unpack_external};
pub use layout::Layout;
pub use operator::Operator;
pub use pack::{ShortClaim, each_block, pack, pack_memory, unpack};
pub use pair::Pair;
pub use predefined::{Class, Predefined};
pub use reduce::{
    ReduceError, combine_packed, reduce, reduce_eight_bytes, reduce_elements, reduce_four_bytes,
    reduce_packed,
};
pub use shape::{ShapePart, TypeShape};
