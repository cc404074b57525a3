//! The one promise about memory that these tests give.

use fabric::{Heap, Payload};

/// What stands there, for an execution. Every test keeps its memory until its jobs are gone.
pub fn reading(heap: &Heap) -> Payload<'static> {
    // SAFETY: as said above.
    unsafe { heap.memory().reading() }
}
