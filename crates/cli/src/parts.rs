//! What the parts of a machine are for the choice of collective algorithms.

use topology::{Level, Machine};
use weft::collectives::Border;

/// On which part of that kind of a described machine the process of that number on its node sits.
pub fn described(machine: &Machine, border: Border, process: u32) -> Option<u32> {
    let level = levels(border).iter().find(|level| machine.count(**level) > 0)?;
    machine.seat_in_turn(process).part(*level)
}

/// What the machine calls such parts; the first that there is.
pub fn levels(border: Border) -> &'static [Level] {
    match border {
        Border::Node => &[],
        Border::Package => &[Level::Package],
        Border::Numa => &[Level::NumaNode],
        Border::Cache => &[Level::L3Cache, Level::L2Cache],
    }
}
