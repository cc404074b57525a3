//! What the providers of this machine offer.

use std::ffi::{CString, c_char, c_void};
use std::ptr::NonNull;

use crate::bindings::*;
use crate::dispositions::Dispositions;
use crate::files;
use crate::library::{LibfabricError, Library, text_at};

/// A way to a network: a provider with one of its domains, and what it can do. Nothing of it is open yet.
#[derive(Debug)]
pub struct Offer {
    library: Library,
    info: NonNull<fi_info>,
    delivers: bool,
}

/// What is asked of a provider besides what is asked of all.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Wanted<'a> {
    /// The provider's name, as `tcp;ofi_rxm`, or a part of it where none is called so; any that fits where it
    /// is `None`.
    pub provider: Option<&'a str>,
    /// The domain's name, as `mlx5_0`, where there are several cards.
    pub domain: Option<&'a str>,
    /// To have memory registered the way RDMA hardware demands it: by the provider's keys and virtual
    /// addresses, and for local use too. Software providers do not demand it but do it when asked, which is
    /// how it is tested.
    pub strict_memory: bool,
    /// Writes to remote memory and atomics too, where the provider has them. A provider that has none is
    /// offered nevertheless; [`Terms`] tell.
    pub one_sided: bool,
}

/// What is asked for in one call, in libfabric's bits.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// `None`: all that there is, whatever it can and demands.
    capabilities: Option<u64>,
    /// How all operations that send are to be done.
    flags: u64,
}

impl Asked {
    pub(crate) const NOTHING: Asked = Asked { capabilities: None, flags: 0 };
    const NEEDED: Asked = Asked { capabilities: Some(CAPABILITIES), flags: 0 };
    const WRITES: Asked = Asked { capabilities: Some(CAPABILITIES | WRITES), flags: 0 };
    const ATOMICS: Asked = Asked { capabilities: Some(CAPABILITIES | WRITES | FI_ATOMIC), flags: 0 };
    const DELIVERY: Asked = Asked { flags: FI_DELIVERY_COMPLETE, ..Asked::WRITES };
}

impl Offer {
    /// All offers of a reliable-datagram endpoint with messages, reads of remote memory and receive buffers
    /// for many messages, the best first. Takes tens to hundreds of milliseconds in libraries with many
    /// providers.
    ///
    /// # Errors
    /// What the library said. That nothing is offered is no error.
    pub fn find(library: Library, wanted: Wanted<'_>) -> Result<Vec<Offer>, LibfabricError> {
        let offers = Offer::find_named(library, wanted)?;
        // Some libraries do not find under its name what they offer without (`tcp;ofi_rxm` of that in Intel
        // MPI).
        let (mut offers, wanted) = match wanted.provider {
            Some(name) if offers.is_empty() => {
                let any = Wanted { provider: None, ..wanted };
                let mut offers = Offer::find_named(library, any)?;
                offers.retain(|offer| offer.provider() == name);
                (offers, any)
            }
            _ => (offers, wanted),
        };
        if wanted.one_sided {
            offers = Offer::enrich(offers, library, wanted);
        }
        if let Some(domain) = wanted.domain {
            offers.retain(|offer| offer.domain() == domain);
        }
        Ok(offers)
    }

    fn find_named(library: Library, wanted: Wanted<'_>) -> Result<Vec<Offer>, LibfabricError> {
        let mut offers = Offer::ask(library, wanted, Asked::NEEDED)?;
        // The library takes a part of a name, too: `net` finds `net;ofi_rxm` beside it.
        let is_named = |offer: &Offer| wanted.provider == Some(offer.provider().as_str());
        if offers.iter().any(is_named) {
            offers.retain(is_named);
        }
        Ok(offers)
    }

    /// These offers in their order, each with writes and atomics if its provider has them. A provider that
    /// lacks what is asked for does not answer, and must not be lost for that. Each of the further calls
    /// takes less than a millisecond.
    fn enrich(offers: Vec<Offer>, library: Library, wanted: Wanted<'_>) -> Vec<Offer> {
        let ask = |asked| Offer::ask(library, wanted, asked).unwrap_or_default();
        let mut richer = ask(Asked::ATOMICS);
        richer.extend(ask(Asked::WRITES));
        let delivering = ask(Asked::DELIVERY);
        let enrich = |offer: Offer| {
            let place = richer.iter().position(|other| other.is_same_way(&offer));
            let mut offer = place.map(|place| richer.remove(place)).unwrap_or(offer);
            offer.delivers = delivering.iter().any(|other| other.is_same_way(&offer));
            offer
        };
        offers.into_iter().map(enrich).collect()
    }

    /// What the library answers to one question.
    pub(crate) fn ask(
        library: Library,
        wanted: Wanted<'_>,
        asked: Asked,
    ) -> Result<Vec<Offer>, LibfabricError> {
        let hints = Offer::hints(library, wanted, asked)?;
        let mut list = std::ptr::null_mut();
        let version = library.spoken().encode();
        // The first call begins the providers.
        let dispositions = Dispositions::keep();
        // SAFETY: the hints are the library's own structure, filled with what it may hold; no node and no
        // service are named; `list` is valid for writing.
        let answer = unsafe {
            (library.getinfo)(version, std::ptr::null(), std::ptr::null(), 0, hints.info.as_ptr(), &mut list)
        };
        drop(dispositions);
        if answer == -FI_ENODATA {
            return Ok(Vec::new());
        }
        library.check("fi_getinfo", answer)?;
        let mut offers = Vec::new();
        let mut next = list;
        while let Some(info) = NonNull::new(next) {
            // SAFETY: an element of the list that the library made.
            offers.extend(unsafe { Offer::copy(library, info) });
            // SAFETY: as above.
            next = unsafe { (*info.as_ptr()).next };
        }
        // SAFETY: the list is the library's, and nothing of it is used from here on.
        unsafe { (library.freeinfo)(list) };
        Ok(offers)
    }

    /// The structure in which wishes are told. Only the library may make one: its size is the library's.
    fn hints(library: Library, wanted: Wanted<'_>, asked: Asked) -> Result<Offer, LibfabricError> {
        // SAFETY: without anything to copy the function makes an empty structure, with all the parts that it
        // has.
        let info = unsafe { (library.dupinfo)(std::ptr::null()) };
        let Some(info) = NonNull::new(info) else { return Err(library.refused("fi_dupinfo", -FI_ENOMEM)) };
        let hints = Offer { library, info, delivers: false };
        // SAFETY: a structure that `fi_dupinfo` has made, whose parts are there and ours to fill.
        unsafe {
            let info = info.as_ptr();
            (*(*info).ep_attr).type_ = FI_EP_RDM;
            if let Some(capabilities) = asked.capabilities {
                (*info).caps = capabilities;
                (*info).mode = MODES;
                (*(*info).tx_attr).msg_order = FI_ORDER_SAS;
                (*(*info).rx_attr).msg_order = FI_ORDER_SAS;
                (*(*info).tx_attr).op_flags = asked.flags;
                (*(*info).domain_attr).mr_mode =
                    if wanted.strict_memory { FI_MR_BASIC as i32 } else { MEMORY_MODES };
                (*(*info).domain_attr).threading = FI_THREAD_DOMAIN;
                (*(*info).domain_attr).resource_mgmt = FI_RM_ENABLED;
            } else {
                // Whatever anybody may demand is granted.
                (*info).mode = !0;
                (*(*info).domain_attr).mode = !0;
                (*(*info).domain_attr).mr_mode = !(FI_MR_BASIC as i32 | FI_MR_SCALABLE as i32);
            }
            if let Some(provider) = wanted.provider.and_then(|name| CString::new(name).ok()) {
                // The library frees it with the structure.
                (*(*info).fabric_attr).prov_name = libc::strdup(provider.as_ptr());
            }
        }
        Ok(hints)
    }

    /// A copy of one element of a list.
    ///
    /// # Safety
    /// `info` is an element of a list that the library made and that still exists.
    unsafe fn copy(library: Library, info: NonNull<fi_info>) -> Option<Offer> {
        // SAFETY: the caller's promise.
        let info = unsafe { (library.dupinfo)(info.as_ptr()) };
        NonNull::new(info).map(|info| Offer { library, info, delivers: false })
    }

    /// A copy of this offer, to be opened by one endpoint; of the provider shm, with a name of its own.
    /// `None` where the library cannot copy it.
    pub(crate) fn for_one(&self) -> Option<Offer> {
        // SAFETY: the structure is the library's, and exists as long as `self`.
        let mut offer = unsafe { Offer::copy(self.library, self.info) }?;
        offer.delivers = self.delivers;
        if offer.provider() == SHM {
            files::sweep_once();
            offer.choose_name();
        }
        Some(offer)
    }

    /// Endpoints of shm are files, named after the number of their process where nobody names them. What a
    /// killed process has left would then stand in the way of a later one with the same number.
    fn choose_name(&mut self) {
        let mut random = [0_u8; 8];
        // SAFETY: the buffer is as long as is said. Without random bytes the name is as good as the
        // provider's own.
        if unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) } != random.len() as isize {
            return;
        }
        let Ok(name) = CString::new(format!("fi_shm://{}", files::name(u64::from_le_bytes(random)))) else {
            return;
        };
        // SAFETY: `info` is whole and ours alone; the library frees addresses with the structure, by `free`.
        unsafe {
            let info = self.info.as_mut();
            let copy = libc::strdup(name.as_ptr());
            if !copy.is_null() {
                libc::free(info.src_addr);
                info.src_addr = copy.cast();
                info.src_addrlen = name.as_bytes_with_nul().len();
            }
        }
    }

    /// The provider's name, as `verbs;ofi_rxm`.
    #[must_use]
    pub fn provider(&self) -> String {
        self.text(|info| {
            // SAFETY: see `part`.
            unsafe { self.part((*info).fabric_attr) }.map(|fabric| fabric.prov_name)
        })
    }

    /// The domain's name: mostly that of a network card.
    #[must_use]
    pub fn domain(&self) -> String {
        self.text(|info| {
            // SAFETY: see `part`.
            unsafe { self.part((*info).domain_attr) }.map(|domain| domain.name)
        })
    }

    /// The network's name: those who have it in common can reach each other, as far as the provider knows.
    #[must_use]
    pub fn fabric(&self) -> String {
        self.text(|info| {
            // SAFETY: see `part`.
            unsafe { self.part((*info).fabric_attr) }.map(|fabric| fabric.name)
        })
    }

    /// Whether another leads the same way, whatever else it can do.
    pub(crate) fn is_same_way(&self, other: &Offer) -> bool {
        let address = |offer: &Offer| {
            // SAFETY: the structure is whole, and its address has the length that it tells.
            unsafe {
                let info = offer.info.as_ref();
                let start = NonNull::new(info.src_addr.cast::<u8>());
                start.map(|start| std::slice::from_raw_parts(start.as_ptr(), info.src_addrlen).to_vec())
            }
        };
        // SAFETY: see `part`.
        let protocol =
            |offer: &Offer| unsafe { offer.part(offer.info.as_ref().ep_attr) }.map(|ep| ep.protocol);
        self.provider() == other.provider()
            && self.domain() == other.domain()
            && self.fabric() == other.fabric()
            && self.terms().address_format == other.terms().address_format
            && protocol(self) == protocol(other)
            && address(self) == address(other)
    }

    /// What an endpoint of this offer can do, and demands.
    #[must_use]
    pub fn terms(&self) -> Terms {
        // SAFETY: `info` is whole, and `part` looks at pointers before it follows them.
        let (info, tx, ep, domain) = unsafe {
            let info = self.info.as_ref();
            (info, self.part(info.tx_attr), self.part(info.ep_attr), self.part(info.domain_attr))
        };
        let key_bytes = domain.map_or(0, |domain| domain.mr_key_size);
        Terms {
            address_format: info.addr_format,
            inject_bytes_max: tx.map_or(0, |tx| tx.inject_size),
            message_bytes_max: ep.map_or(0, |ep| ep.max_msg_size),
            sends_max: tx.map_or(0, |tx| tx.size),
            key_max: if key_bytes >= 8 { u64::MAX } else { (1 << (8 * key_bytes)) - 1 },
            memory: MemoryTerms::decode(domain.map_or(0, |domain| domain.mr_mode)),
            writes: info.caps & WRITES == WRITES,
            atomics: info.caps & WRITES == WRITES && info.caps & FI_ATOMIC != 0,
            delivers: self.delivers,
        }
    }

    pub(crate) fn library(&self) -> Library {
        self.library
    }

    pub(crate) fn info(&self) -> *mut fi_info {
        self.info.as_ptr()
    }

    /// What a pointer of the structure leads to.
    ///
    /// # Safety
    /// `part` is null, or one of the structure's own parts.
    pub(crate) unsafe fn part<T>(&self, part: *mut T) -> Option<&T> {
        // SAFETY: the caller's promise; parts live as long as the structure, which `self` owns, and nobody
        // writes them.
        unsafe { part.as_ref() }
    }

    fn text(&self, of: impl FnOnce(*mut fi_info) -> Option<*mut c_char>) -> String {
        of(self.info.as_ptr()).map(|text| text_at(text)).unwrap_or_default()
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        // SAFETY: made by the library, and nobody else has it.
        unsafe { (self.library.freeinfo)(self.info.as_ptr()) };
    }
}

// SAFETY: the structure is plain memory that only `self` reaches, and `fi_freeinfo` may be called on any
// thread.
unsafe impl Send for Offer {}

/// What an endpoint can do, and demands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// What kind of addresses it has; two endpoints reach each other only where these are equal.
    pub address_format: u32,
    /// Up to here [`Endpoint::inject`](crate::Endpoint::inject) takes a message.
    pub inject_bytes_max: usize,
    /// The longest message, and the longest read or write.
    pub message_bytes_max: usize,
    /// How many operations that send may be under way.
    pub sends_max: usize,
    /// The largest key of registered memory.
    pub key_max: u64,
    /// How memory is registered.
    pub memory: MemoryTerms,
    /// Memory of peers can be written, [`Wanted::one_sided`] being asked for.
    pub writes: bool,
    /// The provider says that it has atomics; [`Endpoint::atomics`](crate::Endpoint::atomics) tells which it
    /// really has.
    pub atomics: bool,
    /// Writes and atomics can complete when they have been done over there:
    /// [`Until::Delivered`](crate::Until::Delivered).
    pub delivers: bool,
}

/// How memory is registered (`fi_mr(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryTerms {
    /// Memory that only this side uses must be registered, too.
    pub local: bool,
    /// Remote memory is named by its address over there, and not counted from the start of the registration.
    pub by_address: bool,
    /// The provider chooses the keys.
    pub provider_keys: bool,
    /// A registration belongs to an endpoint, and must be enabled.
    pub by_endpoint: bool,
}

impl MemoryTerms {
    fn decode(mode: i32) -> MemoryTerms {
        // Before there were bits there were two numbers, and one of them still comes where it was asked for.
        let mode = if mode == FI_MR_BASIC as i32 { MEMORY_MODES & !FI_MR_ENDPOINT } else { mode };
        MemoryTerms {
            local: mode & FI_MR_LOCAL != 0,
            by_address: mode & FI_MR_VIRT_ADDR != 0,
            provider_keys: mode & FI_MR_PROV_KEY != 0,
            by_endpoint: mode & FI_MR_ENDPOINT != 0,
        }
    }
}

/// The provider of shared memory.
const SHM: &str = "shm";
/// What every provider must be able to do.
const CAPABILITIES: u64 = FI_MSG | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_RMA | FI_READ | FI_REMOTE_READ;
/// What is asked for besides, where it is wanted. Reads and receives of the needed ones are those of atomics,
/// too.
const WRITES: u64 = FI_WRITE | FI_REMOTE_WRITE;
/// What a provider may demand. Contexts: every operation has 64 bytes for the provider's use until it has
/// completed. Vectors that stay: they are kept beside the contexts. Receive buffers for remote data: no such
/// data are sent.
const MODES: u64 = FI_CONTEXT | FI_CONTEXT2 | FI_ASYNC_IOV | FI_RX_CQ_DATA;
/// What a provider may demand of memory. Memory is always allocated before it is registered. Keys of more
/// than eight bytes (`FI_MR_RAW`) would not fit into what is told to peers.
const MEMORY_MODES: i32 = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

/// A structure that the library may read or write beyond the end that the headers know, since its own version
/// has more fields: there are zeros, and room.
#[repr(C)]
pub(crate) struct Roomy<T> {
    pub(crate) known: T,
    beyond: [u64; 16],
}

impl<T: Plain> Roomy<T> {
    pub(crate) fn zeroed() -> Roomy<T> {
        // SAFETY: `Plain` promises that all bytes zero are a value.
        unsafe { std::mem::zeroed() }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        (&raw mut *self).cast()
    }
}

/// Structures of numbers and pointers, of which all bytes zero are a value.
///
/// # Safety
/// Only for such structures.
pub(crate) unsafe trait Plain {}
// SAFETY: numbers and pointers.
unsafe impl Plain for fi_av_attr {}
// SAFETY: numbers and pointers.
unsafe impl Plain for fi_cq_attr {}
// SAFETY: numbers and pointers.
unsafe impl Plain for fi_cq_err_entry {}

const _: () = assert!(size_of::<fi_context2>() == 8 * size_of::<*mut c_void>());
