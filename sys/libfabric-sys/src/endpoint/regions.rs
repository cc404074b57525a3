//! Registered memory: regions of this endpoint, and what a peer must know to use one.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use super::{Endpoint, Span, close};
use crate::bindings::*;
use crate::inline;
use crate::library::LibfabricError;

/// Registered memory of one endpoint. Goes back by [`Endpoint::deregister`], or with the endpoint.
#[derive(Debug)]
pub struct Region {
    index: u32,
    /// Where the endpoint's operations are, which no two endpoints that are open have in common.
    of: usize,
}

/// Memory of a peer: what it told of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Where it begins: an address over there, or zero.
    pub address: u64,
    /// The region's key.
    pub key: u64,
}

/// Which side will use a region, and for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// This side: sends, receives, reads into it, writes out of it, atomics with it.
    Local,
    /// Peers read the memory.
    Remote,
    /// Peers read and write the memory and change it by atomics; this side uses it as with [`Use::Local`].
    Shared,
}

impl Endpoint {
    /// Registers memory.
    ///
    /// # Errors
    /// What the library said; `FI_ENOMEM` where too much memory would be locked.
    ///
    /// # Safety
    /// `memory` stays allocated until the region is given back or the endpoint is closed, and peers may read
    /// it at any time where that is its use, or write it.
    pub unsafe fn register(&mut self, memory: Span, purpose: Use) -> Result<Region, LibfabricError> {
        // What was not asked for when the provider was is not asked for now.
        let local = FI_SEND | FI_RECV | FI_READ | if self.terms.writes { FI_WRITE } else { 0 };
        let access = match purpose {
            Use::Local => local,
            Use::Remote => FI_REMOTE_READ,
            Use::Shared => local | FI_REMOTE_READ | FI_REMOTE_WRITE,
        };
        let mut mr = null_mut();
        let mut answer = -(FI_ENOKEY as c_int);
        for _ in 0..KEYS_TRIED {
            let key = if self.terms.memory.provider_keys { 0 } else { self.choose_key() };
            // SAFETY: the domain is open; the memory is the caller's promise.
            answer = unsafe {
                inline::fi_mr_reg(
                    self.domain,
                    memory.start.cast(),
                    memory.bytes,
                    access,
                    0,
                    key,
                    0,
                    &mut mr,
                    null_mut(),
                )
            };
            if answer != -(FI_ENOKEY as c_int) {
                break;
            }
        }
        self.library.check("fi_mr_reg", answer)?;
        let region = self.keep(mr);
        if self.terms.memory.by_endpoint {
            // SAFETY: registration and endpoint are open and of one domain.
            let answer = unsafe {
                match inline::fi_mr_bind(mr, &raw mut (*self.ep).fid, 0) {
                    0 => self.library.check("fi_mr_enable", inline::fi_mr_enable(mr)),
                    refused => self.library.check("fi_mr_bind", refused),
                }
            };
            if let Err(error) = answer {
                self.deregister(region);
                return Err(error);
            }
        }
        Ok(region)
    }

    /// What a peer must know to use a region that begins at `start`.
    #[must_use]
    pub fn remote(&self, region: &Region, start: *const u8) -> Remote {
        let address = if self.terms.memory.by_address { start.addr() as u64 } else { 0 };
        // SAFETY: a region's registration is open until it is given back, which takes it away.
        Remote { address, key: unsafe { inline::fi_mr_key(self.regions[self.index(region)]) } }
    }

    /// Ends a registration: nobody reads or writes through it any more. False where the provider does not end
    /// it yet; then it lasts until the endpoint is closed, and with it what peers may do.
    pub fn deregister(&mut self, region: Region) -> bool {
        let index = self.index(&region);
        // SAFETY: the registration is open, and nobody has it any more.
        let is_closed = unsafe { close(&mut self.regions[index]) };
        if is_closed {
            self.free_regions.push(index as u32);
        }
        is_closed
    }

    #[inline]
    pub(super) fn descriptor(&self, region: Option<&Region>) -> *mut c_void {
        // SAFETY: a region's registration is open until it is given back, which takes it away.
        region.map_or(null_mut(), |region| unsafe { inline::fi_mr_desc(self.regions[self.index(region)]) })
    }

    fn choose_key(&mut self) -> u64 {
        let key = self.next_key;
        self.next_key = if key >= self.terms.key_max { 1 } else { key + 1 };
        key
    }

    fn keep(&mut self, mr: *mut fid_mr) -> Region {
        let index = self.free_regions.pop().unwrap_or_else(|| {
            self.regions.push(null_mut());
            self.regions.len() as u32 - 1
        });
        self.regions[index as usize] = mr;
        Region { index, of: self.operations.cast::<u8>().addr() }
    }

    #[inline]
    fn index(&self, region: &Region) -> usize {
        debug_assert!(region.of == self.operations.cast::<u8>().addr(), "a region of another endpoint");
        region.index as usize
    }
}

/// How many keys are tried where the keys before them are taken.
const KEYS_TRIED: usize = 1000;
