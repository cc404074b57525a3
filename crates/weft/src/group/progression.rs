//! Numbers at equal distances, and what two such sequences have in common.

use std::ops::{Deref, DerefMut};

/// `count` numbers from `first` on, `stride` apart. The stride is 0 where there is but one number, and never
/// otherwise, so that equal sequences are equal values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Progression {
    pub first: u32,
    pub count: u32,
    pub stride: i64,
}

impl Progression {
    pub(super) fn one(number: u32) -> Progression {
        Progression { first: number, count: 1, stride: 0 }
    }

    /// `count` must not be 0, and the last number must be one of 32 bits.
    pub(super) fn new(first: u32, count: u32, stride: i64) -> Progression {
        Progression { first, count, stride: if count == 1 { 0 } else { stride } }
    }

    #[inline(always)]
    pub(super) fn at(&self, place: u32) -> u32 {
        (i64::from(self.first) + self.stride * i64::from(place)) as u32
    }

    /// Where the number stands.
    #[inline]
    pub(super) fn place(&self, number: u32) -> Option<u32> {
        let distance = i64::from(number) - i64::from(self.first);
        if self.stride == 0 {
            return (distance == 0 && self.count > 0).then_some(0);
        }
        if self.stride == 1 {
            // The usual case needs no division, which is the dearest of instructions.
            return (0..i64::from(self.count)).contains(&distance).then_some(distance as u32);
        }
        let at = distance / self.stride;
        (distance % self.stride == 0 && (0..i64::from(self.count)).contains(&at)).then_some(at as u32)
    }

    pub(super) fn last(&self) -> u32 {
        self.at(self.count - 1)
    }

    pub(super) fn low(&self) -> u32 {
        self.first.min(self.last())
    }

    pub(super) fn high(&self) -> u32 {
        self.first.max(self.last())
    }

    /// `count` of its numbers, from the place `from` on, every `step`-th.
    pub(super) fn part(&self, from: u32, count: u32, step: u32) -> Progression {
        Progression::new(self.at(from), count, self.stride * i64::from(step))
    }

    /// What is left behind the first `taken` numbers; none where nothing is.
    pub(super) fn rest(&self, taken: u32) -> Option<Progression> {
        (taken < self.count).then(|| self.part(taken, self.count - taken, 1))
    }

    /// The numbers of this sequence from the lowest on.
    pub(super) fn rising(&self) -> Progression {
        match self.stride < 0 {
            true => Progression { first: self.last(), count: self.count, stride: -self.stride },
            false => *self,
        }
    }

    /// How many of its numbers are below that one; for rising sequences.
    pub(super) fn below(&self, number: u32) -> u32 {
        let Some(distance) = number.checked_sub(self.first).filter(|&distance| distance > 0) else {
            return 0;
        };
        let step = self.stride.max(1) as u64;
        u64::from(distance).div_ceil(step).min(u64::from(self.count)) as u32
    }

    /// The places whose numbers are also in the other sequence, as a rising progression of places.
    pub(super) fn places_in(&self, other: &Progression) -> Option<Progression> {
        if self.count == 1 {
            return other.place(self.first).map(|_| Progression::one(0));
        }
        if other.count == 1 {
            return self.place(other.first).map(Progression::one);
        }
        let (stride, modulus) = (self.stride, other.stride.abs());
        let distance = i64::from(other.first) - i64::from(self.first);
        // stride * place = distance, modulo the other's step.
        let divisor = common_divisor(stride.abs(), modulus);
        if distance % divisor != 0 {
            return None;
        }
        let step = modulus / divisor;
        let start = match step {
            1 => 0,
            _ => {
                let inverse = inverse((stride / divisor).rem_euclid(step), step);
                (i128::from((distance / divisor).rem_euclid(step)) * i128::from(inverse) % i128::from(step))
                    as i64
            }
        };
        // Only those between the other's ends.
        let (low, high) = (i64::from(other.low()), i64::from(other.high()));
        let (near, far) = if stride > 0 { (low, high) } else { (high, low) };
        let start_at = i64::from(self.first);
        let from = (-quotient_below(start_at - near, stride)).max(0);
        let to = quotient_below(far - start_at, stride).min(i64::from(self.count) - 1);
        let first = from + (start - from).rem_euclid(step);
        (first <= to).then(|| Progression::new(first as u32, ((to - first) / step + 1) as u32, step))
    }

    /// Its numbers.
    pub(super) fn numbers(self) -> impl ExactSizeIterator<Item = u32> {
        // A range of 32 bits has an exact size.
        (0..self.count).map(move |place| self.at(place))
    }
}

/// A list of sequences, of which a few take no memory from the heap: most groups are one or two.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    few: [Progression; FEW],
    /// How many of the few there are; none are used where there are more.
    count: usize,
    many: Vec<Progression>,
}

impl Default for Runs {
    #[inline]
    fn default() -> Runs {
        let nothing = Progression { first: 0, count: 0, stride: 0 };
        Runs { few: [nothing; FEW], count: 0, many: Vec::new() }
    }
}

impl Runs {
    #[inline]
    pub(super) fn push(&mut self, run: Progression) {
        match self.few.get_mut(self.count) {
            Some(place) if self.many.is_empty() => {
                *place = run;
                self.count += 1;
            }
            _ => self.push_beyond(run),
        }
    }

    fn push_beyond(&mut self, run: Progression) {
        if self.many.is_empty() {
            self.many.reserve(4 * FEW);
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(run);
    }

    /// For storage: as short as can be.
    pub(super) fn into_boxed(self) -> Box<[Progression]> {
        if self.many.is_empty() { self.few[..self.count].into() } else { self.many.into() }
    }
}

impl Deref for Runs {
    type Target = [Progression];
    #[inline]
    fn deref(&self) -> &[Progression] {
        if self.many.is_empty() { &self.few[..self.count] } else { &self.many }
    }
}

impl DerefMut for Runs {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Progression] {
        if self.many.is_empty() { &mut self.few[..self.count] } else { &mut self.many }
    }
}

impl FromIterator<Progression> for Runs {
    fn from_iter<I: IntoIterator<Item = Progression>>(sequences: I) -> Runs {
        let mut runs = Runs::default();
        sequences.into_iter().for_each(|sequence| runs.push(sequence));
        runs
    }
}

/// The largest whole number that is not above the quotient.
fn quotient_below(number: i64, by: i64) -> i64 {
    number / by - i64::from(number % by != 0 && (number < 0) != (by < 0))
}

fn common_divisor(mut left: i64, mut right: i64) -> i64 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

/// What times `number` is 1 modulo `modulus`; both have no common divisor.
fn inverse(number: i64, modulus: i64) -> i64 {
    let (mut old, mut now) = ((number, 1i64), (modulus, 0i64));
    while now.0 != 0 {
        let quotient = old.0 / now.0;
        (old, now) = (now, (old.0 - quotient * now.0, old.1 - quotient * now.1));
    }
    old.1.rem_euclid(modulus)
}

/// Whether no number occurs twice in sequences that were made of any numbers; the error names one that does.
/// A number that comes twice running makes a sequence that stands still. `end` is beyond all numbers.
pub(super) fn check_distinct(sequences: &[Progression], end: u32) -> Result<(), u32> {
    match sequences.iter().find(|sequence| sequence.count > 1 && sequence.stride == 0) {
        Some(still) => Err(still.first),
        None => check_disjoint(sequences, end),
    }
}

/// Whether no number is in two of them; the answer names one that is. `end` is beyond all numbers.
pub(super) fn check_disjoint(sequences: &[Progression], end: u32) -> Result<(), u32> {
    if sequences.len() < 2 {
        return Ok(());
    }
    if end <= u128::BITS {
        return check_by_bits(sequences);
    }
    let numbers: usize = sequences.iter().map(|sequence| sequence.count as usize).sum();
    if numbers > end as usize || numbers + end as usize / 64 < MARKS_PER_LOOK * sequences.len() {
        return check_by_marks(sequences, end);
    }
    let mut sorted: Vec<Progression> = sequences.iter().map(Progression::rising).collect();
    sorted.sort_unstable_by_key(|sequence| sequence.first);
    // Looking at pairs is quick while few of them overlap; marking all numbers is never very slow.
    let mut looks_left = 16 * sequences.len() + end as usize / 64;
    let mut open: Vec<Progression> = Vec::new();
    for sequence in sorted {
        open.retain(|earlier| earlier.last() >= sequence.first);
        if looks_left < open.len() {
            return check_by_marks(sequences, end);
        }
        looks_left -= open.len();
        for earlier in &open {
            if let Some(both) = sequence.places_in(earlier) {
                return Err(sequence.at(both.first));
            }
        }
        open.push(sequence);
    }
    Ok(())
}

/// For numbers below 128.
fn check_by_bits(sequences: &[Progression]) -> Result<(), u32> {
    let mut marks = 0u128;
    for number in sequences.iter().flat_map(|sequence| sequence.numbers()) {
        if marks >> number & 1 == 1 {
            return Err(number);
        }
        marks |= 1 << number;
    }
    Ok(())
}

fn check_by_marks(sequences: &[Progression], end: u32) -> Result<(), u32> {
    let mut marks = vec![0u64; (end as usize).div_ceil(64)];
    for number in sequences.iter().flat_map(|sequence| sequence.numbers()) {
        let (word, bit) = (&mut marks[number as usize / 64], 1 << (number % 64));
        if *word & bit != 0 {
            return Err(number);
        }
        *word |= bit;
    }
    Ok(())
}

/// The numbers of disjoint sequences in rising order, as sequences of which each ends before the next begins.
/// `None` where that would take more than `most` of them.
pub(super) fn in_order(mut sequences: Runs, most: usize) -> Option<Runs> {
    sequences.iter_mut().for_each(|sequence| *sequence = sequence.rising());
    sequences.sort_unstable_by_key(|sequence| sequence.first);
    let mut ordered = Runs::default();
    let mut at = 0;
    while at < sequences.len() {
        let (from, mut high) = (at, sequences[at].last());
        at += 1;
        while at < sequences.len() && sequences[at].first <= high {
            high = high.max(sequences[at].last());
            at += 1;
        }
        match &sequences[from..at] {
            [alone] => ordered.push(*alone),
            entangled => match woven(entangled) {
                Some(one) => ordered.push(one),
                None => untangle(entangled, most, &mut ordered)?,
            },
        }
        if ordered.len() > most {
            return None;
        }
    }
    Some(ordered)
}

/// The one sequence that several make together, if they do: of equal steps, a fraction of the step apart.
fn woven(sequences: &[Progression]) -> Option<Progression> {
    let (first, second) = (sequences[0], sequences[1]);
    let (parts, step) = (sequences.len() as u32, i64::from(second.first) - i64::from(first.first));
    let count: u32 = sequences.iter().map(|sequence| sequence.count).sum();
    let fits = |(place, sequence): (u32, &Progression)| {
        i64::from(sequence.first) == i64::from(first.first) + i64::from(place) * step
            && sequence.count == (count - place).div_ceil(parts)
            && (sequence.count == 1 || sequence.stride == step * i64::from(parts))
    };
    (0..).zip(sequences).all(fits).then(|| Progression::new(first.first, count, step))
}

fn untangle(sequences: &[Progression], most: usize, ordered: &mut Runs) -> Option<()> {
    // Entangled sequences give at least one piece for every few numbers.
    let total: usize = sequences.iter().map(|sequence| sequence.count as usize).sum();
    if total / ENTANGLED_NUMBERS_PER_PIECE > most {
        return None;
    }
    let mut numbers: Vec<u32> = sequences.iter().flat_map(|sequence| sequence.numbers()).collect();
    numbers.sort_unstable();
    let mut pieces = Runs::default();
    for number in numbers {
        append(&mut pieces, Progression::one(number));
    }
    pieces.iter().for_each(|piece| ordered.push(*piece));
    Some(())
}

/// Adds numbers to a list of sequences, which is the shortest that can be had by going on with the last one
/// while it goes. The outcome depends on the numbers only, and not on how they were handed over.
#[inline]
pub(super) fn append(sequences: &mut Runs, numbers: Progression) {
    let mut left = numbers;
    loop {
        let taken = match sequences.last_mut() {
            Some(last) if last.count == 1 => {
                last.stride = i64::from(left.first) - i64::from(last.first);
                last.count = 2;
                1
            }
            Some(last)
                if i64::from(left.first) == i64::from(last.first) + last.stride * i64::from(last.count) =>
            {
                let taken = if left.stride == last.stride { left.count } else { 1 };
                last.count += taken;
                taken
            }
            _ => {
                sequences.push(left);
                return;
            }
        };
        match left.rest(taken) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// Runs that take no memory from the heap.
const FEW: usize = 2;
/// To look at a few pairs takes about as long as to mark so many numbers.
const MARKS_PER_LOOK: usize = 32;
/// Where sequences overlap without making one together, so many numbers or fewer fall to each piece of the
/// outcome: an estimate, by which hopeless attempts are given up early.
const ENTANGLED_NUMBERS_PER_PIECE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn some() -> impl Strategy<Value = Progression> {
        (0u32..200, 1u32..40, 1i64..9, any::<bool>()).prop_map(|(first, count, step, falls)| {
            let rising = Progression::new(first, count, step);
            match falls {
                true => Progression::new(rising.last(), count, -step),
                false => rising,
            }
        })
    }

    proptest! {
        #[test]
        fn places_in_is_what_looking_at_all_numbers_finds(left in some(), right in some()) {
            let theirs: HashSet<u32> = right.numbers().collect();
            let expected: Vec<u32> = (0..left.count).filter(|&place| theirs.contains(&left.at(place))).collect();
            let found: Vec<u32> = left.places_in(&right).into_iter().flat_map(Progression::numbers).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn below_counts(left in some(), number in 0u32..600) {
            let rising = left.rising();
            prop_assert_eq!(rising.below(number) as usize, rising.numbers().filter(|&n| n < number).count());
        }

        #[test]
        fn disjoint_is_told_and_named(sequences in proptest::collection::vec(some(), 0..6)) {
            let mut seen = HashSet::new();
            let twice: HashSet<u32> =
                sequences.iter().flat_map(|sequence| sequence.numbers()).filter(|&n| !seen.insert(n)).collect();
            for found in [check_disjoint(&sequences, 600), check_by_marks(&sequences, 600)] {
                match found {
                    Ok(()) => prop_assert!(twice.is_empty()),
                    Err(number) => prop_assert!(twice.contains(&number)),
                }
            }
        }

        #[test]
        fn in_order_keeps_the_numbers(sequences in proptest::collection::vec(some(), 0..6)) {
            prop_assume!(check_disjoint(&sequences, 600).is_ok());
            let mut expected: Vec<u32> = sequences.iter().flat_map(|sequence| sequence.numbers()).collect();
            expected.sort_unstable();
            let ordered = in_order(sequences.into_iter().collect(), usize::MAX).unwrap();
            let numbers: Vec<u32> = ordered.iter().copied().flat_map(Progression::numbers).collect();
            prop_assert_eq!(numbers, expected);
        }
    }

    #[test]
    fn what_is_woven_becomes_one() {
        let woven = [Progression::new(4, 3, 6), Progression::new(8, 2, 6), Progression::new(6, 2, 6)];
        let ordered = in_order(woven.into_iter().collect(), 1).unwrap();
        assert_eq!(ordered[..], [Progression::new(4, 7, 2)]);
    }

    #[test]
    fn far_numbers_do_not_overflow() {
        let (left, right) = (Progression::new(0, 1 << 31, 1), Progression::new(u32::MAX, 3, -(1 << 30)));
        assert_eq!(right.places_in(&left), Some(Progression::one(2)));
        let wide = Progression::new(0, 2, i64::from(u32::MAX));
        assert_eq!(wide.places_in(&right), Some(Progression::one(1)));
    }
}
