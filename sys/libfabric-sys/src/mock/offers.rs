//! What the provider offers: a way for each domain, with its card.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{null, null_mut};

use super::{Card, Domain, MockAtomics, PROVIDER, Rules};
use crate::bindings::*;
use crate::found::Link;

/// A whole `fi_info` in one allocation.
#[repr(C)]
pub(super) struct Info {
    pub(super) info: fi_info,
    tx: fi_tx_attr,
    rx: fi_rx_attr,
    ep: fi_ep_attr,
    domain: fi_domain_attr,
    fabric: fi_fabric_attr,
    nic: fid_nic,
    device: fi_device_attr,
    bus: fi_bus_attr,
    link: fi_link_attr,
    /// Which of the domains that the rules tell it is.
    pub(super) number: usize,
}

impl Info {
    /// The texts, of which each copy has its own.
    fn texts(&mut self) -> [&mut *mut c_char; 6] {
        [
            &mut self.fabric.prov_name,
            &mut self.fabric.name,
            &mut self.domain.name,
            &mut self.device.name,
            &mut self.device.driver,
            &mut self.link.network_type,
        ]
    }

    /// Tells of a card, of each part only as far as there is something to tell.
    fn describe(&mut self, card: &Card) {
        self.info.nic = &mut self.nic;
        if !card.device.is_empty() {
            self.nic.device_attr = &mut self.device;
            (self.device.name, self.device.driver) = (text(card.device), text("mock_core"));
        }
        if let Some(pci) = card.pci {
            self.nic.bus_attr = &mut self.bus;
            self.bus.bus_type = FI_BUS_PCI;
            let (domain_id, bus_id) = (pci.domain, pci.bus);
            let (device_id, function_id) = (pci.device, pci.function);
            self.bus.attr.pci = fi_pci_attr { domain_id, bus_id, device_id, function_id };
        }
        let state = match card.link {
            Link::Unknown => return,
            Link::Down => FI_LINK_DOWN,
            Link::Up => FI_LINK_UP,
        };
        self.nic.link_attr = &mut self.link;
        (self.link.state, self.link.speed) = (state, card.bits_per_second);
        self.link.network_type = text("InfiniBand");
    }
}

// SAFETY: `from` is null or a structure that this function has made.
pub(super) unsafe extern "C" fn dup_info(from: *const fi_info) -> *mut fi_info {
    // SAFETY: all bytes zero are an empty structure; the other is as said above.
    let mut copy: Box<Info> = unsafe {
        match from.cast::<Info>().as_ref() {
            None => Box::new(std::mem::zeroed()),
            Some(from) => Box::new(std::ptr::read(from)),
        }
    };
    copy.info.next = null_mut();
    for text in copy.texts() {
        if !text.is_null() {
            // SAFETY: a text of the structure.
            *text = unsafe { libc::strdup(*text) };
        }
    }
    let all = Box::leak(copy);
    (all.info.tx_attr, all.info.rx_attr) = (&mut all.tx, &mut all.rx);
    (all.info.ep_attr, all.info.domain_attr) = (&mut all.ep, &mut all.domain);
    all.info.fabric_attr = &mut all.fabric;
    // Of the card as many parts as there were.
    again(&mut all.nic.device_attr, &mut all.device);
    again(&mut all.nic.bus_attr, &mut all.bus);
    again(&mut all.nic.link_attr, &mut all.link);
    again(&mut all.info.nic, &mut all.nic);
    (all as *mut Info).cast()
}

/// Lets a pointer lead to this copy's part, if it leads anywhere.
fn again<T>(pointer: &mut *mut T, part: &mut T) {
    if !pointer.is_null() {
        *pointer = part;
    }
}

// SAFETY: `list` is a list of structures that `dup_info` has made, and nobody uses it afterwards.
pub(super) unsafe extern "C" fn free_info(list: *mut fi_info) {
    let mut next = list;
    while !next.is_null() {
        // SAFETY: as above.
        unsafe {
            let mut all = Box::from_raw(next.cast::<Info>());
            next = all.info.next;
            for text in all.texts() {
                libc::free(text.cast());
            }
        }
    }
}

/// Writes what fits the hints.
///
/// # Safety
/// `hints` was made by `dup_info`.
pub(super) unsafe fn offer(rules: &Rules, hints: *const fi_info, into: &mut *mut fi_info) -> c_int {
    // SAFETY: the caller's promise.
    let hints = unsafe { &*hints.cast::<Info>() };
    let name = hints.fabric.prov_name;
    // SAFETY: a text of the structure.
    let is_other = !name.is_null() && unsafe { CStr::from_ptr(name) }.to_bytes() != PROVIDER.as_bytes();
    let can = hints.info.caps & !capabilities(rules) == 0
        && hints.info.mode & FI_CONTEXT2 != 0
        && hints.domain.mr_mode & memory_mode(rules) == memory_mode(rules)
        && (rules.delivers || hints.tx.op_flags & FI_DELIVERY_COMPLETE == 0);
    if is_other || !can {
        return -FI_ENODATA;
    }
    let mut last = &raw mut *into;
    for (number, domain) in rules.domains.iter().enumerate() {
        // What does not fit is told of only where nothing is demanded.
        if domain.fits || hints.info.caps == 0 {
            // SAFETY: the end of a list that is being made.
            unsafe {
                let info = describe(rules, number, domain, hints);
                last.write(info);
                last = &raw mut (*info).next;
            }
        }
    }
    if into.is_null() { -FI_ENODATA } else { 0 }
}

fn describe(rules: &Rules, number: usize, domain: &Domain, hints: &Info) -> *mut fi_info {
    // SAFETY: what `dup_info` has made is a whole structure, which nobody else has.
    let all = unsafe { &mut *dup_info(null()).cast::<Info>() };
    all.number = number;
    all.info.caps = if hints.info.caps == 0 { capabilities(rules) } else { hints.info.caps };
    all.info.mode = FI_CONTEXT2;
    all.info.addr_format = FI_ADDR_PSMX2;
    all.tx.inject_size = rules.inject_bytes_max;
    all.tx.size = 64;
    all.tx.op_flags = hints.tx.op_flags;
    all.ep.max_msg_size = rules.message_bytes_max;
    all.domain.mr_mode = memory_mode(rules);
    all.domain.mr_key_size = rules.key_bytes;
    all.domain.name = text(domain.name);
    all.fabric.name = text(domain.fabric);
    all.fabric.prov_name = text(PROVIDER);
    if let Some(card) = &domain.card {
        all.describe(card);
    }
    &mut all.info
}

fn capabilities(rules: &Rules) -> u64 {
    let writes = if rules.writes { FI_WRITE | FI_REMOTE_WRITE } else { 0 };
    let atomics = if rules.atomics == MockAtomics::None { 0 } else { FI_ATOMIC };
    FI_MSG | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_RMA | FI_READ | FI_REMOTE_READ | writes | atomics
}

fn memory_mode(rules: &Rules) -> c_int {
    let bits = [
        (rules.local, FI_MR_LOCAL),
        (rules.by_address, FI_MR_VIRT_ADDR),
        (rules.provider_keys, FI_MR_PROV_KEY),
        (rules.by_endpoint, FI_MR_ENDPOINT),
        (true, FI_MR_ALLOCATED),
    ];
    bits.iter().filter(|(is_demanded, _)| *is_demanded).fold(0, |mode, (_, bit)| mode | bit)
}

/// A text that `free` takes.
fn text(text: &str) -> *mut c_char {
    let text = CString::new(text).expect("a text of the rules has no zero");
    // SAFETY: a text.
    unsafe { libc::strdup(text.as_ptr()) }
}
