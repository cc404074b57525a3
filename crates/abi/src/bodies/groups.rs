//! Groups (MPI 5.0 §7.3).
//!
//! A group without members is always `MPI_GROUP_EMPTY`: programs compare with it, and they free what the
//! calls here gave them without looking. So freeing that handle is allowed, and changes nothing but the
//! program's variable.

use std::ffi::c_int;

use weft::{Class, Comparison, Error, Group, Rank, RankRange, Result};

use crate::claims::{List, Place, Places, Variable};
use crate::entry::Target;
use crate::generated::constants::*;
use crate::objects::GroupObject;
use crate::state::{Runtime, call, too_many};
use crate::types::*;

/// The group of a handle.
pub(crate) fn resolve(runtime: &'static Runtime, group: MPI_Group) -> Result<Group> {
    if group == MPI_GROUP_EMPTY {
        return Ok(Group::empty());
    }
    let objects = runtime.objects();
    objects.groups.find(group.value()).map(|object| object.group.clone()).ok_or_else(|| no_group(group))
}

/// The session that a group comes from, if it does.
pub(crate) fn session_of(runtime: &'static Runtime, group: MPI_Group) -> Option<MPI_Session> {
    runtime.objects().groups.find(group.value())?.session
}

/// What the groups of some handles come to. A program of one thread has them looked at where they are;
/// otherwise other threads would wait meanwhile, and copies are looked at.
fn look<R, const N: usize>(
    runtime: &'static Runtime,
    handles: [MPI_Group; N],
    look: impl FnOnce([&Group; N]) -> R,
) -> Result<R> {
    let (objects, empty) = (runtime.objects(), Group::empty());
    let mut found = [&empty; N];
    for (place, handle) in found.iter_mut().zip(handles) {
        if handle != MPI_GROUP_EMPTY {
            let found = objects.groups.find(handle.value());
            *place = &found.ok_or_else(|| no_group(handle))?.group;
        }
    }
    if !runtime.is_shared() {
        return Ok(look(found));
    }
    let copies = found.map(Group::clone);
    drop(objects);
    Ok(look(copies.each_ref()))
}

#[cold]
fn no_group(group: MPI_Group) -> Error {
    if group == MPI_GROUP_NULL {
        return Error::new(Class::Group, "the group is MPI_GROUP_NULL");
    }
    Error::new(Class::Group, format!("{:#x} is not a group, or not any more", group.value()))
}

/// A handle for a new group, and the session that it comes from.
pub(crate) fn adopt(
    runtime: &'static Runtime,
    group: Group,
    session: Option<MPI_Session>,
) -> Result<MPI_Group> {
    if group.size() == 0 {
        return Ok(MPI_GROUP_EMPTY);
    }
    let object = GroupObject { group, session };
    runtime.objects().groups.insert(object).map(MPI_Group::from_value).ok_or_else(too_many)
}

/// The members of a communicator.
pub fn mpi_comm_group(comm: MPI_Comm, group: Place<'_, MPI_Group>) -> c_int {
    call("MPI_Comm_group", Target::Comm(comm), |runtime| {
        let object = runtime.comm(comm)?;
        let place = group.checked("group")?;
        place.set(adopt(runtime, object.comm.group().clone(), object.session)?);
        Ok(())
    })
}

/// The number of members.
pub fn mpi_group_size(group: MPI_Group, size: Place<'_, c_int>) -> c_int {
    call("MPI_Group_size", Target::World, |runtime| {
        let members = look(runtime, [group], |[group]| group.size() as c_int)?;
        size.checked("size")?.set(members);
        Ok(())
    })
}

/// This process's rank, `MPI_UNDEFINED` when it is not a member.
pub fn mpi_group_rank(group: MPI_Group, rank: Place<'_, c_int>) -> c_int {
    call("MPI_Group_rank", Target::World, |runtime| {
        let found = look(runtime, [group], |[group]| number(group.rank(runtime.process().here())))?;
        let place = rank.checked("rank")?;
        place.set(found);
        Ok(())
    })
}

fn number(rank: Option<Rank>) -> c_int {
    rank.map_or(MPI_UNDEFINED, |Rank(rank)| rank as c_int)
}

/// The ranks in one group of members of another; `MPI_UNDEFINED` for those that are not in it.
pub fn mpi_group_translate_ranks(
    group1: MPI_Group,
    n: c_int,
    ranks1: List<'_, c_int>,
    group2: MPI_Group,
    ranks2: Places<'_, c_int>,
) -> c_int {
    call("MPI_Group_translate_ranks", Target::World, |runtime| {
        look(runtime, [group1, group2], |[from, to]| {
            let given = ranks1.slice(i64::from(n), "ranks1")?;
            let places = ranks2.checked(i64::from(n), "ranks2")?;
            // Nothing is written where a rank is wrong.
            given.iter().try_for_each(|&rank| check_translated(from, rank))?;
            // Both may be the very same elements, so each is read just before its place is written.
            (0..given.len()).for_each(|index| places.set(index, translate(from, ranks1.at(index), to)));
            Ok(())
        })?
    })
}

fn check_translated(from: &Group, rank: c_int) -> Result<()> {
    if rank == MPI_PROC_NULL { Ok(()) } else { check_rank(from, i64::from(rank)).map(drop) }
}

/// For a rank that was checked.
fn translate(from: &Group, rank: c_int, to: &Group) -> c_int {
    if rank == MPI_PROC_NULL {
        return MPI_PROC_NULL;
    }
    number(from.peer(Rank(rank as u32)).and_then(|peer| to.rank(peer)))
}

fn check_rank(group: &Group, rank: i64) -> Result<Rank> {
    match u32::try_from(rank) {
        Ok(rank) if rank < group.size() => Ok(Rank(rank)),
        _ => Err(Error::new(Class::Rank, format!("rank {rank} is not in a group of {}", group.size()))),
    }
}

/// How two groups compare.
pub fn mpi_group_compare(group1: MPI_Group, group2: MPI_Group, result: Place<'_, c_int>) -> c_int {
    call("MPI_Group_compare", Target::World, |runtime| {
        let comparison = look(runtime, [group1, group2], |[first, second]| first.compare(second))?;
        result.checked("result")?.set(match comparison {
            Comparison::Identical => MPI_IDENT,
            Comparison::Similar => MPI_SIMILAR,
            Comparison::Unequal => MPI_UNEQUAL,
        });
        Ok(())
    })
}

fn combine(
    name: &'static str,
    groups: [MPI_Group; 2],
    newgroup: Place<'_, MPI_Group>,
    combination: impl FnOnce(&Group, &Group) -> Group,
) -> c_int {
    call(name, Target::World, |runtime| {
        let place = newgroup.checked("newgroup");
        let made = look(runtime, groups, |[first, second]| -> Result<_> {
            Ok((place?, combination(first, second)))
        });
        let (place, group) = made??;
        let session = groups.iter().find_map(|&group| session_of(runtime, group));
        place.set(adopt(runtime, group, session)?);
        Ok(())
    })
}

/// Members of the first group, then the others of the second.
pub fn mpi_group_union(group1: MPI_Group, group2: MPI_Group, newgroup: Place<'_, MPI_Group>) -> c_int {
    combine("MPI_Group_union", [group1, group2], newgroup, Group::union)
}

/// Members of both groups, in the order of the first.
pub fn mpi_group_intersection(group1: MPI_Group, group2: MPI_Group, newgroup: Place<'_, MPI_Group>) -> c_int {
    combine("MPI_Group_intersection", [group1, group2], newgroup, Group::intersection)
}

/// Members of the first group that are not in the second.
pub fn mpi_group_difference(group1: MPI_Group, group2: MPI_Group, newgroup: Place<'_, MPI_Group>) -> c_int {
    combine("MPI_Group_difference", [group1, group2], newgroup, Group::difference)
}

fn choose(
    name: &'static str,
    group: MPI_Group,
    newgroup: Place<'_, MPI_Group>,
    choice: impl FnOnce(&Group) -> Result<Group>,
) -> c_int {
    call(name, Target::World, |runtime| {
        let place = newgroup.checked("newgroup");
        let made = look(runtime, [group], |[group]| -> Result<_> { Ok((place?, choice(group)?)) });
        let (place, chosen) = made??;
        place.set(adopt(runtime, chosen, session_of(runtime, group))?);
        Ok(())
    })
}

/// The members at the ranks given, in that order.
pub fn mpi_group_incl(
    group: MPI_Group,
    n: c_int,
    ranks: List<'_, c_int>,
    newgroup: Place<'_, MPI_Group>,
) -> c_int {
    choose("MPI_Group_incl", group, newgroup, |group| {
        let ranks = ranks.slice(i64::from(n), "ranks")?;
        ranks.iter().try_for_each(|&rank| check_rank(group, i64::from(rank)).map(drop))?;
        group.include(ranks.iter().map(|&rank| Rank(rank as u32)))
    })
}

/// All members but those at the ranks given.
pub fn mpi_group_excl(
    group: MPI_Group,
    n: c_int,
    ranks: List<'_, c_int>,
    newgroup: Place<'_, MPI_Group>,
) -> c_int {
    choose("MPI_Group_excl", group, newgroup, |group| {
        group.exclude(&listed(group, ranks.slice(i64::from(n), "ranks")?)?)
    })
}

/// The members at the ranks of all ranges, in that order.
pub fn mpi_group_range_incl(
    group: MPI_Group,
    n: c_int,
    ranges: List<'_, [c_int; 3]>,
    newgroup: Place<'_, MPI_Group>,
) -> c_int {
    choose("MPI_Group_range_incl", group, newgroup, |group| {
        group.include_ranges(ranges_of(ranges.slice(i64::from(n), "ranges")?))
    })
}

/// All members but those at the ranks of the ranges.
pub fn mpi_group_range_excl(
    group: MPI_Group,
    n: c_int,
    ranges: List<'_, [c_int; 3]>,
    newgroup: Place<'_, MPI_Group>,
) -> c_int {
    choose("MPI_Group_range_excl", group, newgroup, |group| {
        group.exclude_ranges(ranges_of(ranges.slice(i64::from(n), "ranges")?))
    })
}

fn listed(group: &Group, ranks: &[c_int]) -> Result<Vec<Rank>> {
    ranks.iter().map(|&rank| check_rank(group, i64::from(rank))).collect()
}

/// `first, last, stride` triples (MPI 5.0 §7.3.2).
fn ranges_of(ranges: &[[c_int; 3]]) -> impl Iterator<Item = RankRange> + '_ {
    let range = |range: &[c_int; 3]| {
        let [first, last, stride] = range.map(i64::from);
        RankRange { first, last, stride }
    };
    ranges.iter().map(range)
}

/// Frees a group.
pub fn mpi_group_free(group: Variable<'_, MPI_Group>) -> c_int {
    call("MPI_Group_free", Target::World, |runtime| {
        let place = group.checked("group")?;
        let handle = place.get();
        if handle != MPI_GROUP_EMPTY {
            runtime.objects().groups.remove(handle.value()).ok_or_else(|| no_group(handle))?;
        }
        place.set(MPI_GROUP_NULL);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::testing::{self, Answer};
    use crate::claims;

    /// Processes that need not exist, by number.
    fn everybody() -> Group {
        Group::world(100)
    }

    fn of(peers: &[u32]) -> MPI_Group {
        let ranks: Vec<Rank> = peers.iter().copied().map(Rank).collect();
        adopt(testing::start(), everybody().include(&ranks).unwrap(), None).unwrap()
    }

    fn peers(group: MPI_Group) -> Vec<u32> {
        let group = resolve(testing::start(), group).unwrap();
        group.peers().map(|peer| everybody().rank(peer).unwrap().0).collect()
    }

    fn made(make: impl FnOnce(Place<'_, MPI_Group>) -> c_int) -> Answer<Vec<u32>> {
        let mut group = MPI_GROUP_NULL;
        match make(Place::of(&mut group)) {
            MPI_SUCCESS => Ok(peers(group)),
            code => {
                assert_eq!(group, MPI_GROUP_NULL, "nothing is touched");
                Err(code)
            }
        }
    }

    fn incl(group: MPI_Group, ranks: &[c_int]) -> Answer<Vec<u32>> {
        made(|new| mpi_group_incl(group, ranks.len() as c_int, List::of(ranks), new))
    }

    fn excl(group: MPI_Group, ranks: &[c_int]) -> Answer<Vec<u32>> {
        made(|new| mpi_group_excl(group, ranks.len() as c_int, List::of(ranks), new))
    }

    fn range_incl(group: MPI_Group, ranges: &mut [[c_int; 3]]) -> Answer<Vec<u32>> {
        made(|new| mpi_group_range_incl(group, ranges.len() as c_int, List::of(ranges), new))
    }

    fn range_excl(group: MPI_Group, ranges: &mut [[c_int; 3]]) -> Answer<Vec<u32>> {
        made(|new| mpi_group_range_excl(group, ranges.len() as c_int, List::of(ranges), new))
    }

    fn number_of(ask: impl FnOnce(Place<'_, c_int>) -> c_int) -> Answer<c_int> {
        let mut answer = -99;
        match ask(Place::of(&mut answer)) {
            MPI_SUCCESS => Ok(answer),
            code => Err(code),
        }
    }

    #[test]
    fn the_world_has_this_process() {
        testing::start();
        let mut world = MPI_GROUP_NULL;
        assert_eq!(mpi_comm_group(MPI_COMM_WORLD, Place::of(&mut world)), MPI_SUCCESS);
        assert_eq!(number_of(|size| mpi_group_size(world, size)), Ok(1));
        assert_eq!(number_of(|rank| mpi_group_rank(world, rank)), Ok(0));
        assert_eq!(number_of(|rank| mpi_group_rank(of(&[7, 8]), rank)), Ok(MPI_UNDEFINED));
        assert_eq!(mpi_comm_group(MPI_COMM_NULL, Place::of(&mut world)), MPI_ERR_COMM);
        assert_eq!(mpi_comm_group(MPI_COMM_WORLD, Place::NULL), MPI_ERR_ARG);
    }

    #[test]
    fn sets_are_combined() {
        let (first, second) = (of(&[5, 1, 3]), of(&[3, 9, 5]));
        assert_eq!(made(|new| mpi_group_union(first, second, new)), Ok(vec![5, 1, 3, 9]));
        assert_eq!(made(|new| mpi_group_intersection(first, second, new)), Ok(vec![5, 3]));
        assert_eq!(made(|new| mpi_group_difference(first, second, new)), Ok(vec![1]));
        assert_eq!(made(|new| mpi_group_union(MPI_GROUP_NULL, second, new)), Err(MPI_ERR_GROUP));
        assert_eq!(mpi_group_union(first, second, Place::NULL), MPI_ERR_ARG);
        let mut empty = MPI_GROUP_NULL;
        assert_eq!(mpi_group_difference(first, first, Place::of(&mut empty)), MPI_SUCCESS);
        assert_eq!(empty, MPI_GROUP_EMPTY);
        for (other, relation) in
            [(of(&[5, 1, 3]), MPI_IDENT), (of(&[1, 3, 5]), MPI_SIMILAR), (second, MPI_UNEQUAL)]
        {
            assert_eq!(number_of(|result| mpi_group_compare(first, other, result)), Ok(relation));
        }
        assert_eq!(number_of(|result| mpi_group_compare(first, MPI_GROUP_NULL, result)), Err(MPI_ERR_GROUP));
    }

    #[test]
    fn ranks_are_included_and_excluded() {
        let group = of(&[10, 11, 12, 13, 14, 15]);
        assert_eq!(incl(group, &[4, 0]), Ok(vec![14, 10]));
        assert_eq!(incl(group, &[]), Ok(vec![]));
        assert_eq!(excl(group, &[4, 0]), Ok(vec![11, 12, 13, 15]));
        for wrong in [&[6][..], &[-1], &[2, 2], &[MPI_PROC_NULL]] {
            assert_eq!(
                (incl(group, wrong), excl(group, wrong)),
                (Err(MPI_ERR_RANK), Err(MPI_ERR_RANK)),
                "{wrong:?}"
            );
        }
        assert_eq!(made(|new| mpi_group_incl(group, -1, List::of(&[0]), new)), Err(MPI_ERR_ARG));
        assert_eq!(made(|new| mpi_group_incl(group, 1, List::NULL, new)), Err(MPI_ERR_ARG));
        assert_eq!(made(|new| mpi_group_range_incl(group, 1, List::NULL, new)), Err(MPI_ERR_ARG));
    }

    #[test]
    fn ranges_are_expanded() {
        let group = of(&[10, 11, 12, 13, 14, 15]);
        assert_eq!(range_incl(group, &mut [[0, 5, 2], [1, 1, -7]]), Ok(vec![10, 12, 14, 11]));
        assert_eq!(range_incl(group, &mut [[5, 0, -3]]), Ok(vec![15, 12]));
        assert_eq!(range_incl(group, &mut []), Ok(vec![]));
        assert_eq!(range_excl(group, &mut [[5, 0, -2]]), Ok(vec![10, 12, 14]));
        assert_eq!(range_incl(group, &mut [[0, 7, 5]]), Ok(vec![10, 15]), "7 itself is not reached");
        let wrong: [(&mut [[c_int; 3]], c_int); 6] = [
            (&mut [[0, 5, 0]], MPI_ERR_ARG),
            (&mut [[5, 0, 1]], MPI_ERR_ARG),
            (&mut [[0, 6, 1]], MPI_ERR_RANK),
            (&mut [[-1, 3, 1]], MPI_ERR_RANK),
            (&mut [[0, c_int::MAX, 1]], MPI_ERR_RANK),
            (&mut [[0, 3, 1], [2, 4, 1]], MPI_ERR_RANK),
        ];
        for (ranges, code) in wrong {
            assert_eq!(range_incl(group, ranges), Err(code), "{ranges:?}");
            assert_eq!(range_excl(group, ranges), Err(code), "{ranges:?}");
        }
    }

    #[test]
    fn ranks_are_translated_also_in_place() {
        let (from, to) = (of(&[10, 11, 12]), of(&[12, 10]));
        let mut ranks = [0, 1, 2, MPI_PROC_NULL];
        let (given, places) = claims::in_place(&mut ranks);
        assert_eq!(mpi_group_translate_ranks(from, 4, given, to, places), MPI_SUCCESS);
        assert_eq!(ranks, [1, MPI_UNDEFINED, 0, MPI_PROC_NULL]);
        let mut untouched = [7, 7];
        let place = Places::of(&mut untouched);
        assert_eq!(mpi_group_translate_ranks(from, 2, List::of(&[0, 3]), to, place), MPI_ERR_RANK);
        assert_eq!(mpi_group_translate_ranks(from, 2, List::NULL, to, place), MPI_ERR_ARG);
        assert_eq!(mpi_group_translate_ranks(from, 2, List::of(&[0, 1]), to, Places::NULL), MPI_ERR_ARG);
        assert_eq!(mpi_group_translate_ranks(from, -1, List::of(&[0]), to, place), MPI_ERR_ARG);
        assert_eq!(untouched, [7, 7]);
    }

    #[test]
    fn freed_groups_are_gone() {
        let mut group = of(&[1, 2]);
        let copy = group;
        let mut empty = MPI_GROUP_EMPTY;
        assert_eq!(mpi_group_free(Variable::of(&mut group)), MPI_SUCCESS);
        assert_eq!(group, MPI_GROUP_NULL);
        assert_eq!(mpi_group_free(Variable::of(&mut group)), MPI_ERR_GROUP);
        assert_eq!(number_of(|size| mpi_group_size(copy, size)), Err(MPI_ERR_GROUP));
        assert_eq!(mpi_group_free(Variable::of(&mut empty)), MPI_SUCCESS);
        assert_eq!(mpi_group_free(Variable::NULL), MPI_ERR_ARG);
        assert_eq!(empty, MPI_GROUP_NULL);
    }
}
