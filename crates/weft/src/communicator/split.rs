//! Communicators of those who give the same color, or sit on the same piece of the machine (MPI 5.0 §7.4.2).

use messaging::Rank;

use super::Communicator;
use crate::error::Result;
use crate::group::Group;

/// What the members of a part shall have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Memory: they sit on one node.
    Shared,
    /// A part of the machine of that kind.
    Hardware,
    /// The next smaller part of the machine.
    NextLevel,
}

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
