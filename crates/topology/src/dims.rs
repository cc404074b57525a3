//! Balanced extents of a grid: `MPI_Dims_create` (MPI 5.0 section 8.5.2).
//!
//! The standard wants extents "as close to each other as possible". Here that has one meaning: the difference
//! between the largest and the smallest is the least; of several such choices the one with the largest
//! smallest extent, then the largest second smallest, and so on (decisions/0010).

use thiserror::Error;

/// Why there are no such extents.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoDims {
    /// The number of cells that was asked for, which is not positive.
    #[error("a grid of {0} cells was asked for: it must be 1 or more")]
    Nodes(i32),
    /// Zero means free, positive means fixed.
    #[error("extent {axis} is {extent}: give 0 to have it chosen, or a positive number to fix it")]
    Negative {
        /// Which one, from 0.
        axis: usize,
        /// What was given.
        extent: i32,
    },
    /// The fixed extents do not divide the cells.
    #[error("{nodes} cells are no multiple of {product}, the product of the extents that are fixed")]
    NotAMultiple {
        /// Cells that were asked for.
        nodes: i32,
        /// What the fixed extents multiply to, which may be more than an `int` can hold.
        product: u128,
    },
    /// All extents are fixed and make another grid.
    #[error("all extents are fixed and make {product} cells, not {nodes}: give 0 for one that may be chosen")]
    AllFixed {
        /// Cells that were asked for.
        nodes: i32,
        /// What the extents multiply to.
        product: u128,
    },
}

/// Sets the extents that are 0, so that all multiply to `nodes`; those it sets do not increase along the
/// axes.
///
/// # Errors
/// Numbers that are negative or do not divide; then nothing is set.
pub fn dims_create(nodes: i32, dims: &mut [i32]) -> Result<(), NoDims> {
    if nodes < 1 {
        return Err(NoDims::Nodes(nodes));
    }
    if let Some(axis) = dims.iter().position(|&extent| extent < 0) {
        return Err(NoDims::Negative { axis, extent: dims[axis] });
    }
    let fixed = dims.iter().filter(|&&extent| extent > 0).map(|&extent| extent as u128);
    let product = fixed.fold(1u128, u128::saturating_mul);
    if !(nodes as u128).is_multiple_of(product) {
        return Err(NoDims::NotAMultiple { nodes, product });
    }
    let free = dims.iter().filter(|&&extent| extent == 0).count();
    let rest = nodes as u32 / product as u32;
    if free == 0 {
        let is_met = rest == 1 || dims.is_empty();
        return if is_met { Ok(()) } else { Err(NoDims::AllFixed { nodes, product }) };
    }
    let chosen = balanced(rest, free);
    for (extent, chosen) in dims.iter_mut().filter(|extent| **extent == 0).zip(chosen.into_iter().rev()) {
        *extent = chosen as i32;
    }
    Ok(())
}

/// The closest `count` factors of `product`, from small to large.
fn balanced(product: u32, count: usize) -> Vec<u32> {
    if count == 1 {
        return vec![product];
    }
    let primes = factors(product);
    let primes_count: usize = primes.iter().map(|&(_, power)| power as usize).sum();
    if primes_count <= count {
        // Nothing is closer than the primes themselves, with ones for what they leave over.
        let each = primes.iter().flat_map(|&(prime, power)| std::iter::repeat_n(prime, power as usize));
        return std::iter::repeat_n(1, count - primes_count).chain(each).collect();
    }
    let mut search = Search::new(&primes, count);
    search.smallest(product);
    search.best
}

/// Prime factors with their powers, from small to large.
fn factors(number: u32) -> Vec<(u32, u32)> {
    let mut rest = number;
    let mut found: Vec<(u32, u32)> = Vec::new();
    let mut divide = |rest: &mut u32, by: u32| {
        let mut power = 0;
        while (*rest).is_multiple_of(by) {
            *rest /= by;
            power += 1;
        }
        if power > 0 {
            found.push((by, power));
        }
    };
    divide(&mut rest, 2);
    let mut by = 3;
    while by * by <= rest {
        divide(&mut rest, by);
        by += 2;
    }
    if rest > 1 {
        found.push((rest, 1));
    }
    found
}

/// Branch and bound over divisors, the smallest factor first and each from large to small, so that of equally
/// good answers the wanted one is met first; every later one has to be closer.
struct Search {
    divisors: Vec<u32>,
    largest_prime: u32,
    best: Vec<u32>,
    /// What the largest factor must not exceed to be better than `best`.
    limit: u32,
    chosen: Vec<u32>,
    count: usize,
}

impl Search {
    fn new(primes: &[(u32, u32)], count: usize) -> Search {
        let mut divisors = vec![1];
        for &(prime, power) in primes {
            let before = divisors.len();
            for index in 0..before * power as usize {
                divisors.push(divisors[index] * prime);
            }
        }
        divisors.sort_unstable();
        let largest_prime = primes.last().map_or(1, |&(prime, _)| prime);
        Search { divisors, largest_prime, best: Vec::new(), limit: u32::MAX, chosen: Vec::new(), count }
    }

    /// Tries each smallest factor.
    fn smallest(&mut self, product: u32) {
        let mut spread = None;
        let top = self.index_below(self.largest_next(product, self.count));
        for index in (0..top).rev() {
            let first = self.divisors[index];
            self.limit = match spread {
                None => product,
                Some(0) => break,
                Some(spread) => first + spread - 1,
            };
            let enough = u64::from(first).saturating_mul(power(self.limit, self.count - 1));
            if self.limit < self.largest_prime || enough < u64::from(product) {
                break;
            }
            let before = self.limit;
            self.chosen.push(first);
            self.next(product / first, self.count - 1, index);
            self.chosen.pop();
            if self.limit < before {
                spread = Some(self.limit + 1 - first);
            }
        }
    }

    /// Chooses the next factor of `rest`, not below the divisor at `from`.
    fn next(&mut self, rest: u32, count: usize, from: usize) {
        if count == 1 {
            if rest <= self.limit {
                self.best = self.chosen.clone();
                self.best.push(rest);
                self.limit = rest - 1;
            }
            return;
        }
        let top = self.index_below(self.largest_next(rest, count));
        for index in (from..top).rev() {
            let factor = self.divisors[index];
            if u64::from(factor).saturating_mul(power(self.limit, count - 1)) < u64::from(rest) {
                break;
            }
            if rest.is_multiple_of(factor) {
                self.chosen.push(factor);
                self.next(rest / factor, count - 1, index);
                self.chosen.pop();
            }
        }
    }

    /// The most that the smallest of `count` factors of `rest` can be.
    fn largest_next(&self, rest: u32, count: usize) -> u32 {
        match rest.is_multiple_of(self.largest_prime) {
            true => root(rest, count).min(root(rest / self.largest_prime, count - 1)),
            false => root(rest, count),
        }
    }

    /// How many divisors are at most `value`.
    fn index_below(&self, value: u32) -> usize {
        self.divisors.partition_point(|&divisor| divisor <= value)
    }
}

/// The largest whole number whose power of `degree` is not above `number`.
fn root(number: u32, degree: usize) -> u32 {
    match degree {
        1 => number,
        2 => number.isqrt(),
        32.. => 1,
        _ => {
            let (mut low, mut high) = (1u32, 1 << (32 / degree as u32 + 1).min(31));
            while low + 1 < high {
                let middle = low + (high - low) / 2;
                if power(middle, degree) <= u64::from(number) { low = middle } else { high = middle }
            }
            low
        }
    }
}

/// A power, or the largest number where it would be larger.
fn power(base: u32, exponent: usize) -> u64 {
    u64::from(base).saturating_pow(exponent as u32)
}

#[cfg(test)]
mod tests;
