//! `derive(Datatype)`: what the fields of a `#[repr(C)]` struct are and where they stand, as a constant.
//!
//! **Invariant:** what is written is a constant and nothing else: no code of it runs.

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Member, Result};

/// Makes a struct a datatype of messages. Documented with the trait `weft::Datatype`.
#[proc_macro_derive(Datatype)]
pub fn datatype(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

fn expand(input: &DeriveInput) -> Result<proc_macro2::TokenStream> {
    let name = &input.ident;
    let fields = fields(input)?;
    check_layout(input)?;
    let members: Vec<Member> = fields.members().collect();
    let types = fields.iter().map(|field| &field.ty);
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    Ok(quote! {
        // SAFETY: each field is a datatype, so any bytes are a value of it; nothing else is told of than the
        // fields, with the places that the compiler gives them.
        unsafe impl #generics ::weft::Datatype for #name #arguments #conditions {
            const SHAPE: &'static ::weft::shape::TypeShape = &::weft::shape::TypeShape::Record {
                bytes: ::core::mem::size_of::<Self>(),
                fields: &[#(::weft::shape::ShapePart {
                    offset: ::core::mem::offset_of!(Self, #members),
                    shape: <#types as ::weft::Datatype>::SHAPE,
                },)*],
            };
        }
    })
}

fn fields(input: &DeriveInput) -> Result<&Fields> {
    let refused = |what| Err(Error::new_spanned(&input.ident, what));
    match &input.data {
        Data::Struct(data) if data.fields.is_empty() => refused("a datatype needs at least one field"),
        Data::Struct(data) => Ok(&data.fields),
        Data::Enum(_) => {
            refused("an enum is no datatype: not all bytes are a value of it; send a number instead")
        }
        Data::Union(_) => refused("a union is no datatype: nobody knows which of its fields to send"),
    }
}

/// The order of fields must be one that the program has chosen, since other programs, and C, go by it.
fn check_layout(input: &DeriveInput) -> Result<()> {
    let mut fixed = false;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            fixed |= meta.path.is_ident("C") || meta.path.is_ident("transparent");
            if meta.input.peek(syn::token::Paren) {
                let argument;
                syn::parenthesized!(argument in meta.input);
                argument.parse::<proc_macro2::TokenStream>()?;
            }
            Ok(())
        })?;
    }
    if fixed {
        return Ok(());
    }
    Err(Error::new_spanned(
        &input.ident,
        "a datatype needs a layout that stays: put #[repr(C)] before the struct",
    ))
}
