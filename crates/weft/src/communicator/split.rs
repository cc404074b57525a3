//! Communicators of those who give the same color, or sit on the same piece of the machine (MPI 5.0 §7.4.2).

use fabric::Peer;
use job::error::{Class, Error, Result};
use messaging::Rank;
use topology::{Host, Level};

use super::control_messages::{Mail, Parcel};
use super::{Communicator, Label};
use crate::contexts::mix;
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
    /// They are in the same set of processes of that name.
    Set {
        /// The name, alike at all members.
        name: String,
        /// The processes of the set that this process is in; none where it is in no set of that name.
        group: Option<Group>,
    },
    /// Nothing that is known here: nobody gets a communicator.
    Unknown,
}

/// The kinds of parts that this host has, from large to small, each with whether this process may run in one
/// part of that kind only.
#[must_use]
pub fn hardware() -> Vec<(Level, bool)> {
    let Ok(cpus) = topology::cpus_allowed() else { return Vec::new() };
    let host = Host::here();
    let kind = |level| match host.parts(level, &cpus).len() {
        0 => None,
        parts => Some((level, parts == 1)),
    };
    Level::ALL.into_iter().filter_map(kind).collect()
}

/// A part, and the kind that it is of; `None` for a node.
pub type SplitPart = (Communicator, Option<Level>);

/// What a member chose, and its rank.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub color: Option<u32>,
    pub key: i32,
    pub rank: u32,
}

impl Communicator {
    /// New communicators of the members that give the same color, in the order of `key` and then of rank (MPI
    /// 5.0 §7.4.2). `None` as color: this process is in none of them. Collective.
    ///
    /// Over an inter-communicator, the new ones are inter-communicators of those in both groups; a color that
    /// only one group gives leads to none.
    ///
    /// # Errors
    /// When a member is lost.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator>> {
        if let Some(recovered) = self.recovered() {
            return recovered.living.split(color, key);
        }
        if self.is_inter() {
            return self.split_across(color, key);
        }
        let group = match self.size() <= GATHERED_MAX {
            true => self.part_by_all(color, key)?,
            false => self.part_by_root(color, key)?,
        };
        let seed = self.next_seed();
        let (lease, _) = self.vote(seed, 0)?;
        let (Some(mine), Some(group)) = (color, group) else { return Ok(None) };
        let label = Label::own(&format!("part {mine} of {}", self.label()));
        Ok(self.child(group, lease, seed, label))
    }

    /// This process's part, found by everybody from what all chose.
    fn part_by_all(&self, color: Option<u32>, key: i32) -> Result<Option<Group>> {
        let choices = self.gather_choices(color, key)?;
        Ok(color.map(|mine| self.group().chosen(&choices, mine)))
    }

    /// This process's part, found by rank 0, so that the others keep and send little. A part whose ranks lie
    /// at equal distances is told in a few words; the list of another goes from its first member down a tree
    /// to the others.
    fn part_by_root(&self, color: Option<u32>, key: i32) -> Result<Option<Group>> {
        let mine = [color.map_or(-1, |color| color as i32), key];
        let chosen = self.gather(&mine, Rank(0))?;
        let dealt = chosen.map(|all| deal(&choices_of(&all)));
        let (words, lists) = dealt.unwrap_or_default();
        let told = self.scatter(&words, DEALT_WORDS, Rank(0))?;
        let mail = Mail::new(self);
        let under_way = lists.iter().map(|(to, list)| mail.send(*to, list)).collect::<Result<Vec<_>>>()?;
        let ranks = match told[..] {
            [RUN, first, count, stride, ..] => {
                Some(Group::run(first as u32, count as u32, i64::from(stride)))
            }
            [LIST, length, parent, place, ..] => Some(self.pass_on(&mail, length, parent, place)?),
            _ => None,
        };
        under_way.into_iter().try_for_each(Parcel::arrive)?;
        let wrong = ranks.as_ref().is_some_and(|ranks| !(ranks - &Group::world(self.size())).is_empty());
        if wrong {
            return Err(self.no_part());
        }
        Ok(ranks.map(|ranks| self.group().at_ranks(&ranks)))
    }

    #[cold]
    fn no_part(&self) -> Error {
        Error::new(Class::Internal, format!("{}: the root tells no part", self.place()))
    }

    /// Gets the list of a part, whose members are ranks here, and sends it on.
    fn pass_on(&self, mail: &Mail<'_>, length: i32, parent: i32, place: i32) -> Result<Group> {
        let list = mail.receive(Rank(parent as u32), self.process().count_told(i64::from(length))?)?;
        let ranks = Group::decode(&list, self.size()).ok_or_else(|| self.no_part())?;
        let children = [2 * place as u32 + 1, 2 * place as u32 + 2];
        let children = children.into_iter().filter_map(|child| ranks.peer(Rank(child)));
        let under_way =
            children.map(|Peer(rank)| mail.send(Rank(rank), &list)).collect::<Result<Vec<_>>>()?;
        under_way.into_iter().try_for_each(Parcel::arrive)?;
        Ok(ranks)
    }

    /// Color, key and rank of every member.
    pub(super) fn gather_choices(&self, color: Option<u32>, key: i32) -> Result<Vec<Choice>> {
        let mine = [color.map_or(-1, |color| color as i32), key];
        let all = self.all_gather(&mine)?;
        Ok(choices_of(&all))
    }

    /// New communicators of the members that have something in common, in the order of `key` and then of rank
    /// (MPI 5.0 §7.4.2). A process that gives `None` is in none of them, and neither is one of which it is
    /// not known where it sits. Collective.
    ///
    /// # Errors
    /// [`Class::Argument`] where members ask for different things, at all of them; when a member is lost.
    pub fn split_by(&self, by: Option<&SplitBy>, key: i32) -> Result<Option<SplitPart>> {
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
            // Sets of one name may be several, as each node's is. No process is in two of them.
            SplitBy::Set { group, .. } => {
                let group = group.iter().filter(|group| group.contains(here));
                let lowest = group.flat_map(|group| group.iter().map(|Peer(peer)| peer)).min();
                places[0] = lowest.map_or(NOWHERE, |peer| peer as i32);
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

/// Pairs of color and key, by rank.
fn choices_of(pairs: &[i32]) -> Vec<Choice> {
    let choice =
        |(rank, pair): (u32, &[i32; 2])| Choice { color: u32::try_from(pair[0]).ok(), key: pair[1], rank };
    (0..).zip(pairs.as_chunks::<2>().0).map(choice).collect()
}

/// What each rank is told of its part, and the lists that go to the first members of parts which need one.
/// Parts are groups of ranks here.
fn deal(choices: &[Choice]) -> (Vec<i32>, Vec<(Rank, Vec<i64>)>) {
    let mut words = vec![0; choices.len() * DEALT_WORDS];
    let mut lists = Vec::new();
    let mut sorted: Vec<(u32, i32, u32)> = choices
        .iter()
        .filter_map(|choice| choice.color.map(|color| (color, choice.key, choice.rank)))
        .collect();
    sorted.sort_unstable();
    for part in sorted.chunk_by(|left, right| left.0 == right.0) {
        let ranks = Group::of(part.iter().map(|&(_, _, rank)| Peer(rank)));
        let list = ranks.encode();
        let run = ranks.as_run();
        for (place, &(_, _, rank)) in part.iter().enumerate() {
            let parent = if place == 0 { 0 } else { part[(place - 1) / 2].2 };
            let told = match run {
                Some((first, count, stride)) => [RUN, first as i32, count as i32, stride as i32],
                None => [LIST, list.len() as i32, parent as i32, place as i32],
            };
            words[rank as usize * DEALT_WORDS..][..DEALT_WORDS].copy_from_slice(&told);
        }
        if run.is_none() {
            lists.push((Rank(part[0].2), list));
        }
    }
    (words, lists)
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
        SplitBy::Node | SplitBy::Set { .. } => Some(0),
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
        SplitBy::Set { name, .. } => name.bytes().fold(5, |sum, byte| mix(sum ^ u64::from(byte))),
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

/// Up to so many members, all tell all what they chose: half the rounds, and no more than some kilobytes.
const GATHERED_MAX: u32 = 1024;
/// What each rank is told: a kind, and three numbers.
const DEALT_WORDS: usize = 4;
/// The part is `first, count, stride`.
const RUN: i32 = 1;
/// The part is a list, of which is told: its length, the rank that sends it, and this rank's place in the
/// part.
const LIST: i32 = 2;
/// It is not known where, or nothing is asked for.
const NOWHERE: i32 = -1;
/// What is asked for, the node, and a part of each level.
const SEAT_NUMBERS: usize = 2 + Level::ALL.len();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, run_threads};

    /// The part that a rank gets, by either way.
    fn parts(ranks: u32, choose: impl Fn(u32) -> (Option<u32>, i32) + Sync) {
        let groups = run_threads(ranks, &Config::default(), |session| {
            let world = session.world();
            let (color, key) = choose(world.rank().0);
            (world.part_by_all(color, key).unwrap(), world.part_by_root(color, key).unwrap())
        });
        for (rank, (by_all, by_root)) in groups.unwrap().into_iter().enumerate() {
            assert_eq!(by_all, by_root, "rank {rank} of {ranks}");
            assert_eq!(by_all.is_none(), choose(rank as u32).0.is_none());
        }
    }

    #[test]
    fn the_root_deals_the_same_parts() {
        for ranks in [1, 2, 3, 7] {
            parts(ranks, |rank| (Some(rank % 2), -(rank as i32)));
            parts(ranks, |rank| (Some(0), [3, 0, 5, 1, 9, 1, 2][rank as usize]));
            parts(ranks, |rank| ((rank != 1).then_some(7), 0));
            parts(ranks, |rank| (Some(rank / 4), [4, 1, 3, 2, 5, 9, 7][rank as usize]));
            parts(ranks, |_| (None, 0));
        }
    }

    /// A pattern of which no run is made, in a part large enough for a tree of several levels.
    #[test]
    fn lists_go_down_the_tree() {
        parts(12, |rank| (Some(0), (rank * 5 % 12 * 7 % 13) as i32));
    }

    #[test]
    fn regular_parts_of_many_are_told_in_a_few_words() {
        let choice = |rank: u32| Choice { color: Some(rank / 64), key: 0, rank };
        let (words, lists) = deal(&(0..1 << 16).map(choice).collect::<Vec<_>>());
        assert!(lists.is_empty());
        assert_eq!(words[4 * 130..4 * 131], [RUN, 128, 64, 1]);
    }

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
