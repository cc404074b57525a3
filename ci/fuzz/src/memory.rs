//! The one promise about memory that the targets give.

use fabric::{Heap, Payload};

/// The bytes of `heap` as the payload of a send. The target keeps the heap until its engine is gone.
pub fn reading(heap: &Heap) -> Payload<'static> {
    // SAFETY: as said above.
    unsafe { heap.memory().reading() }
}
