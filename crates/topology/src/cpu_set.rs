//! A set of cpus, by the numbers that Linux gives them. It has no upper limit.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A set of cpu numbers. Written and read in the kernel's list form, such as `0-3,8`.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// Bit `n % 64` of word `n / 64` is cpu `n`; the last word is never 0.
    words: Vec<u64>,
}

/// A text that is no list of cpus.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "cpus: \"{text}\" is not a list of cpus\nwrite numbers and ranges separated by commas, such as 0-3,8"
)]
pub struct NotACpuList {
    /// The text that was read.
    pub text: String,
}

impl CpuSet {
    /// No cpu.
    #[must_use]
    pub fn new() -> CpuSet {
        CpuSet::default()
    }

    /// Adds a cpu.
    pub fn insert(&mut self, cpu: usize) {
        let word = cpu / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % 64);
    }

    /// Whether a cpu is in the set.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.words.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// How many cpus there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The cpus, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let in_word = |(place, &word): (usize, &u64)| {
            let rest = std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)))
                .take_while(|rest| *rest != 0);
            rest.map(move |rest| place * 64 + rest.trailing_zeros() as usize)
        };
        self.words.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(in_word)
    }

    /// The cpus that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        self.iter().filter(|&cpu| other.contains(cpu)).collect()
    }

    /// The lowest cpu.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        let word = self.words.iter().position(|&word| word != 0)?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// Whether all cpus of this set are in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        let theirs = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter().zip(theirs).all(|(own, their)| own & !their == 0)
    }

    /// How much memory the set takes, in words of 64 cpus.
    pub(crate) fn words(&self) -> usize {
        self.words.len()
    }

    /// Neighbouring cpus as ranges, first and last, ascending.
    fn ranges(&self) -> Vec<(usize, usize)> {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for cpu in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        ranges
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl FromStr for CpuSet {
    type Err = NotACpuList;

    fn from_str(text: &str) -> Result<CpuSet, NotACpuList> {
        let refusal = || NotACpuList { text: text.to_owned() };
        let mut set = CpuSet::new();
        for range in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = parse_range(range).ok_or_else(refusal)?;
            (first..=last).for_each(|cpu| set.insert(cpu));
        }
        Ok(set)
    }
}

/// `7` or `4-7`, the cpus within reason.
fn parse_range(text: &str) -> Option<(usize, usize)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && last < CPUS_MAX).then_some((first, last))
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.ranges().into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

/// More cpus than any kernel is built for; a larger number in a list is a mistake, and must not take memory.
const CPUS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_written() {
        for text in ["", "0", "0-3", "0-3,8", "1,3,5", "63-64", "0-1023,4096-5000"] {
            let set: CpuSet = text.parse().expect(text);
            assert_eq!(set.to_string(), text);
            assert_eq!(set.len(), set.iter().count());
        }
        assert_eq!("2,0-1,1\n".parse::<CpuSet>().expect("in any order").to_string(), "0-2");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["a", "1-", "-1", "3-1", "1,,2", "0-99999999999", "1048576", "0x3"] {
            assert_eq!(text.parse::<CpuSet>(), Err(NotACpuList { text: text.to_owned() }));
        }
    }

    #[test]
    fn sets_know_their_cpus() {
        let set: CpuSet = [70, 3].into_iter().collect();
        assert!(set.contains(3) && set.contains(70) && !set.contains(4) && !set.contains(9999));
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 70]);
        let other: CpuSet = [3, 4].into_iter().collect();
        assert_eq!(set.intersection(&other), CpuSet::from_iter([3]));
        assert!(set.intersection(&CpuSet::new()).is_empty());
        assert_eq!(
            (set.first(), CpuSet::from_iter([70]).first(), CpuSet::new().first()),
            (Some(3), Some(70), None)
        );
        let both: CpuSet = [3, 4, 70].into_iter().collect();
        assert!(set.is_subset(&both) && set.is_subset(&set) && CpuSet::new().is_subset(&set));
        assert!(!both.is_subset(&set) && !set.is_subset(&other) && !set.is_subset(&CpuSet::new()));
    }
}
