//! Communicators of those who give the same color, or sit on the same piece of the machine (MPI 5.0 §7.4.2).

use fabric::Peer;
use messaging::Rank;
use topology::{Host, Level};

use super::Communicator;
use crate::contexts::mix;
use crate::error::{Class, Error, Result};
use crate::group::Group;

/// What the members of a part shall have in common.
#[derive(Clone, Debug)]
pub enum SplitBy {
    /// Memory: they sit on one node.
    Node,
    /// A part of a node of that kind.
    Machine(Level),
    /// The largest kind of part, node or part of a node, that not all have in common already.
    NextLevel,
    /// They are in that group, which all of them give.
    Set(Group),
    /// Nothing that is known here: nobody gets a communicator.
    Unknown,
}

/// A part, and the kind that it is of; `None` for a node.
pub type Part = (Communicator, Option<Level>);

/// What a member chose, and its rank.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub color: Option<u32>,
    pub key: i32,
    pub rank: u32,
}

impl Communicator {
    /// New communicators of the members that give the same color, in the order of `key` and then of rank
    /// (MPI 5.0 §7.4.2). `None` as color: this process is in none of them. Collective.
    ///
    /// Over an inter-communicator, the new ones are inter-communicators of those in both groups; a color that only
    /// one group gives leads to none.
    ///
    /// # Errors
    /// When a member is lost.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator>> {
        if self.is_inter() {
            return self.split_across(color, key);
        }
        let choices = self.gather_choices(color, key)?;
        let seed = self.next_seed();
        let (lease, _) = self.agree(seed, 0)?;
        let Some(mine) = color else { return Ok(None) };
        let group = self.group().chosen(&choices, mine);
        let label = format!("part {mine} of {}", self.label());
        Ok(self.child(group, lease, seed, label))
    }

    /// Color, key and rank of every member.
    pub(super) fn gather_choices(&self, color: Option<u32>, key: i32) -> Result<Vec<Choice>> {
        let mine = [color.map_or(-1, |color| color as i32), key];
        let all = self.all_gather(&mine)?;
        let choice = |(rank, pair): (u32, &[i32; 2])| Choice {
            color: u32::try_from(pair[0]).ok(),
            key: pair[1],
            rank,
        };
        Ok((0..).zip(all.as_chunks::<2>().0).map(choice).collect())
    }

    /// New communicators of the members that have something in common, in the order of `key` and then of rank
    /// (MPI 5.0 §7.4.2). A process that gives `None` is in none of them, and neither is one of which it is not known
    /// where it sits. Collective.
    ///
    /// # Errors
    /// [`Class::Argument`] where members ask for different things, at all of them; when a member is lost.
    pub fn split_by(&self, by: Option<&SplitBy>, key: i32) -> Result<Option<Part>> {
        // Over an inter-communicator, a part has the members of both groups that have it in common.
        let meeting = self.meeting();
        let seats = meeting.gather_seats(by)?;
        let asked = |seat: &&Seat| seat.asks.is_some();
        let first = seats.iter().find(asked).and_then(|seat| seat.asks);
        if seats.iter().filter(asked).any(|seat| seat.asks != first) {
            // Nobody splits, as everybody sees the same.
            let what = format!("{}: the members ask for different kinds of parts", self.place());
            return Err(Error::new(Class::Argument, what).remedy("all give the same kind, or MPI_UNDEFINED"));
        }
        let level = by.and_then(|by| level_of(by, &seats));
        let color = level.and_then(|level| {
            let mine = seats[meeting.rank().0 as usize].part(level)?;
            seats.iter().position(|seat| seat.part(level) == Some(mine)).map(|rank| rank as u32)
        });
        let part = self.split(color, key)?;
        Ok(part.map(|part| (part, level.and_then(|level| Level::ALL.get(level.checked_sub(1)?).copied()))))
    }

    /// Where every member sits, and what it asks for.
    fn gather_seats(&self, by: Option<&SplitBy>) -> Result<Vec<Seat>> {
        let mut mine = [NOWHERE; SEAT_NUMBERS];
        mine[0] = by.map_or(NOWHERE, |by| (mix(asked_of(by)) >> 33) as i32);
        if let Some(by) = by {
            self.sit(by, &mut mine[1..]);
        }
        let all = self.all_gather(&mine)?;
        let seat = |numbers: &[i32; SEAT_NUMBERS]| Seat {
            asks: Some(numbers[0]).filter(|&asks| asks != NOWHERE),
            places: std::array::from_fn(|at| numbers[at + 1]),
        };
        Ok(all.as_chunks::<SEAT_NUMBERS>().0.iter().map(seat).collect())
    }

    /// The node, by its lowest process, and the parts of it.
    fn sit(&self, by: &SplitBy, places: &mut [i32]) {
        let here = self.process().here();
        match by {
            SplitBy::Unknown => {}
            SplitBy::Set(group) => {
                if group.contains(here) {
                    places[0] = 0;
                }
            }
            SplitBy::Node | SplitBy::Machine(_) | SplitBy::NextLevel => {
                let lowest = self.process().node().iter().map(|Peer(peer)| peer).min();
                places[0] = lowest.map_or(NOWHERE, |peer| peer as i32);
                let Ok(cpus) = topology::cpus_allowed() else { return };
                let host = Host::here();
                for (place, level) in places[1..].iter_mut().zip(Level::ALL) {
                    *place = host.place(level, &cpus).map_or(NOWHERE, |place| place as i32);
                }
            }
        }
    }
}

/// What a member says of itself.
#[derive(Clone, Copy)]
struct Seat {
    /// A number for what it wants to have in common.
    asks: Option<i32>,
    /// The node, and the part of it of each [`Level`].
    places: [i32; SEAT_NUMBERS - 1],
}

impl Seat {
    /// The node for 0, and with the node the part of the level before that number.
    fn part(&self, level: usize) -> Option<(i32, i32)> {
        let part = (self.places[0], self.places[level]);
        (self.asks.is_some() && part.0 != NOWHERE && part.1 != NOWHERE).then_some(part)
    }
}

/// By which of the places to split: 0 for the node, then the levels.
fn level_of(by: &SplitBy, seats: &[Seat]) -> Option<usize> {
    match by {
        SplitBy::Unknown => None,
        SplitBy::Node | SplitBy::Set(_) => Some(0),
        SplitBy::Machine(level) => Level::ALL.iter().position(|other| other == level).map(|at| at + 1),
        SplitBy::NextLevel => (0..=Level::ALL.len()).find(|&level| {
            let mut parts = seats.iter().filter(|seat| seat.asks.is_some()).map(|seat| seat.part(level));
            let first = parts.next().flatten();
            // Each part must be smaller than the whole.
            parts.any(|part| part != first) || seats.iter().any(|seat| seat.asks.is_none())
        }),
    }
}

/// A number that is the same for the same wish.
fn asked_of(by: &SplitBy) -> u64 {
    match by {
        SplitBy::Unknown => 1,
        SplitBy::Node => 2,
        SplitBy::NextLevel => 3,
        SplitBy::Machine(level) => 4 + *level as u64,
        SplitBy::Set(group) => mix(group.fingerprint()),
    }
}

impl Group {
    /// The members that chose a color, in the order of key and rank.
    pub(super) fn chosen(&self, choices: &[Choice], color: u32) -> Group {
        let mut chosen: Vec<(i32, u32)> = choices
            .iter()
            .filter(|choice| choice.color == Some(color))
            .map(|choice| (choice.key, choice.rank))
            .collect();
        if !chosen.is_sorted() {
            chosen.sort_unstable();
        }
        Group::of(chosen.iter().filter_map(|&(_, rank)| self.peer(Rank(rank))))
    }
}

/// It is not known where, or nothing is asked for.
const NOWHERE: i32 = -1;
/// What is asked for, the node, and a part of each level.
const SEAT_NUMBERS: usize = 2 + Level::ALL.len();

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(places: &[[i32; 3]]) -> Vec<Seat> {
        let seat = |&[node, package, core]: &[i32; 3]| Seat {
            asks: Some(1),
            places: [node, package, NOWHERE, NOWHERE, NOWHERE, core, NOWHERE],
        };
        places.iter().map(seat).collect()
    }

    #[test]
    fn the_next_level_is_the_largest_that_parts_them() {
        let next = |places: &[[i32; 3]]| level_of(&SplitBy::NextLevel, &seats(places));
        assert_eq!(next(&[[0, 0, 0], [0, 4, 4], [9, 0, 0]]), Some(0), "two nodes");
        assert_eq!(next(&[[0, 0, 0], [0, 4, 4]]), Some(1), "two packages");
        assert_eq!(next(&[[0, 0, 0], [0, 0, 2]]), Some(5), "two cores");
        assert_eq!(next(&[[0, 0, 2], [0, 0, 2]]), None, "no smaller part is known");
        assert_eq!(next(&[[0, 0, 2], [0, 0, NOWHERE]]), Some(5), "one of them is not bound");
    }

    #[test]
    fn parts_of_different_nodes_differ() {
        let seats = seats(&[[0, 4, 4], [9, 4, 4], [0, NOWHERE, 4]]);
        assert_ne!(seats[0].part(1), seats[1].part(1));
        assert_eq!((seats[2].part(1), seats[2].part(0)), (None, seats[0].part(0)));
    }
}
