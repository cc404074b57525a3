//! Which cells of a grid exchange messages: offsets from a cell to those it sends to, each with a weight.

use thiserror::Error;

/// Offsets with weights. What a cell sends to the cell at an offset counts as much as its weight says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Stencil {
    axes: usize,
    offsets: Vec<Offset>,
}

/// From a cell to one that it sends to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Offset {
    /// Steps along each axis.
    pub by: Vec<i32>,
    /// How much is sent that way, compared with other offsets.
    pub weight: u32,
}

/// Why a text or a list of offsets is no stencil.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAStencil {
    /// Neither a name nor offsets.
    #[error(
        "\"{0}\" is neither nearest, component, hops nor a list of offsets such as `1,0; -1,0; 0,1*4; 0,-1*4`"
    )]
    Unknown(String),
    /// An offset must have a step for each axis.
    #[error("the offset \"{offset}\" has {steps} steps, and the grid has {axes} axes")]
    Axes {
        /// The offset as it was written.
        offset: String,
        /// How many steps it has.
        steps: usize,
        /// How many axes the grid has.
        axes: usize,
    },
    /// Weights are small positive numbers.
    #[error("\"{0}\" is no weight: give a whole number from 1 to {WEIGHT_MAX}")]
    Weight(String),
    /// Steps are small numbers.
    #[error("\"{0}\" is no step: give a whole number from -{STEP_MAX} to {STEP_MAX}")]
    Step(String),
    /// An offset leads somewhere.
    #[error("the offset \"{0}\" leads nowhere: leave it out")]
    Nowhere(String),
    /// There is a limit.
    #[error("there are {0} offsets, and {OFFSETS_MAX} are the most")]
    TooMany(usize),
    /// Nobody would send anything.
    #[error("there are no offsets: name at least one")]
    Empty,
}

impl Stencil {
    /// Both neighbours along each axis.
    #[must_use]
    pub fn nearest(axes: usize) -> Stencil {
        Stencil::weighted(&vec![1; axes])
    }

    /// Both neighbours along each axis, weighted by axis. An axis of weight 0 exchanges nothing.
    #[must_use]
    pub fn weighted(weights: &[u32]) -> Stencil {
        let axes = weights.len();
        let along = |axis: usize| [1, -1].map(|step| single(axes, axis, step, weights[axis].min(WEIGHT_MAX)));
        let offsets = (0..axes).filter(|&axis| weights[axis] > 0).flat_map(along).collect();
        Stencil { axes, offsets }
    }

    /// Both neighbours along each axis but the last.
    #[must_use]
    pub fn component(axes: usize) -> Stencil {
        let weights: Vec<u32> = (0..axes).map(|axis| u32::from(axis + 1 < axes)).collect();
        Stencil::weighted(&weights)
    }

    /// The nearest neighbours, and along the first axis also those two and three steps away.
    #[must_use]
    pub fn hops(axes: usize) -> Stencil {
        let mut stencil = Stencil::nearest(axes);
        if axes > 0 {
            stencil.offsets.extend([2, -2, 3, -3].map(|step| single(axes, 0, step, 1)));
        }
        stencil
    }

    /// A stencil of `offsets` for a grid with `axes` axes.
    ///
    /// # Errors
    /// An offset that leads nowhere or has not a step for each axis, a weight or step out of range, too many
    /// offsets.
    pub fn new(axes: usize, offsets: Vec<Offset>) -> Result<Stencil, NotAStencil> {
        let text = |offset: &Offset| offset.by.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
        if offsets.len() > OFFSETS_MAX {
            return Err(NotAStencil::TooMany(offsets.len()));
        }
        for offset in &offsets {
            if offset.by.len() != axes {
                return Err(NotAStencil::Axes { offset: text(offset), steps: offset.by.len(), axes });
            }
            if let Some(step) = offset.by.iter().find(|step| step.unsigned_abs() > STEP_MAX) {
                return Err(NotAStencil::Step(step.to_string()));
            }
            if offset.by.iter().all(|&step| step == 0) {
                return Err(NotAStencil::Nowhere(text(offset)));
            }
            if !(1..=WEIGHT_MAX).contains(&offset.weight) {
                return Err(NotAStencil::Weight(offset.weight.to_string()));
            }
        }
        Ok(Stencil { axes, offsets })
    }

    /// Reads a stencil: one of the names `nearest`, `component` and `hops`; `nearest:4,1` with a weight for
    /// each axis; or offsets between semicolons or line ends, each its steps between commas and, after a `*`,
    /// its weight. What follows a `#` on a line is for people.
    ///
    /// # Errors
    /// What is wrong, with the words that were read.
    pub fn parse(text: &str, axes: usize) -> Result<Stencil, NotAStencil> {
        let words = text.trim();
        match words {
            "nearest" => return Ok(Stencil::nearest(axes)),
            "component" => return Ok(Stencil::component(axes)),
            "hops" => return Ok(Stencil::hops(axes)),
            _ => {}
        }
        if let Some(weights) = words.strip_prefix("nearest:") {
            return Stencil::parse_weighted(weights, axes);
        }
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let pieces: Vec<&str> =
            lines.flat_map(|line| line.split(';')).map(str::trim).filter(|piece| !piece.is_empty()).collect();
        if pieces.is_empty() {
            return Err(NotAStencil::Empty);
        }
        let offsets: Result<Vec<Offset>, NotAStencil> = pieces.into_iter().map(parse_offset).collect();
        Stencil::new(axes, offsets?)
    }

    fn parse_weighted(text: &str, axes: usize) -> Result<Stencil, NotAStencil> {
        let weight = |word: &str| {
            let number = word.trim().parse().ok().filter(|&weight: &u32| weight <= WEIGHT_MAX);
            number.ok_or_else(|| NotAStencil::Weight(word.trim().to_owned()))
        };
        let weights: Vec<u32> = text.split(',').map(weight).collect::<Result<_, _>>()?;
        if weights.len() != axes {
            return Err(NotAStencil::Axes { offset: text.trim().to_owned(), steps: weights.len(), axes });
        }
        Ok(Stencil::weighted(&weights))
    }

    /// How many axes its offsets have.
    #[must_use]
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// The offsets.
    #[must_use]
    pub fn offsets(&self) -> &[Offset] {
        &self.offsets
    }
}

fn single(axes: usize, axis: usize, step: i32, weight: u32) -> Offset {
    let mut by = vec![0; axes];
    by[axis] = step;
    Offset { by, weight }
}

fn parse_offset(text: &str) -> Result<Offset, NotAStencil> {
    let (steps, weight) = match text.split_once('*') {
        Some((steps, weight)) => {
            let number = weight.trim().parse().map_err(|_| NotAStencil::Weight(weight.trim().to_owned()));
            (steps, number?)
        }
        None => (text, 1),
    };
    let step = |word: &str| word.trim().parse::<i32>().map_err(|_| word.trim().to_owned());
    let by: Result<Vec<i32>, String> = steps.split(',').map(step).collect();
    let looks_like_offset =
        text.contains(',') || text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
    match by {
        Ok(by) => Ok(Offset { by, weight }),
        Err(word) if looks_like_offset => Err(NotAStencil::Step(word)),
        Err(_) => Err(NotAStencil::Unknown(text.to_owned())),
    }
}

/// The most that an offset can weigh: sums over a grid stay far below 2^63.
pub const WEIGHT_MAX: u32 = 1 << 16;
const STEP_MAX: u32 = 1 << 20;
const OFFSETS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(stencil: &Stencil) -> Vec<(Vec<i32>, u32)> {
        stencil.offsets().iter().map(|offset| (offset.by.clone(), offset.weight)).collect()
    }

    #[test]
    fn names_mean_offsets() {
        let nearest = [(vec![1, 0], 1), (vec![-1, 0], 1), (vec![0, 1], 1), (vec![0, -1], 1)];
        assert_eq!(steps(&Stencil::nearest(2)), nearest);
        assert_eq!(steps(&Stencil::component(2)), nearest[..2]);
        let further = [(vec![2, 0], 1), (vec![-2, 0], 1), (vec![3, 0], 1), (vec![-3, 0], 1)];
        assert_eq!(steps(&Stencil::hops(2)), [&nearest[..], &further].concat());
        assert_eq!(steps(&Stencil::weighted(&[0, 7])), [(vec![0, 1], 7), (vec![0, -1], 7)]);
        assert!(Stencil::nearest(0).offsets().is_empty() && Stencil::component(1).offsets().is_empty());
    }

    #[test]
    fn text_is_read() {
        assert_eq!(Stencil::parse(" hops\n", 3), Ok(Stencil::hops(3)));
        assert_eq!(Stencil::parse("nearest:4, 1", 2), Ok(Stencil::weighted(&[4, 1])));
        let text = "# a wave\n1,0; -1,0*3 # back\n\n 1 , -1\n";
        let read = Stencil::parse(text, 2).expect("offsets");
        assert_eq!(steps(&read), [(vec![1, 0], 1), (vec![-1, 0], 3), (vec![1, -1], 1)]);
        assert_eq!(steps(&Stencil::parse("2; -1*5", 1).expect("one axis")), [(vec![2], 1), (vec![-1], 5)]);
    }

    #[test]
    fn what_is_no_stencil_says_why() {
        use NotAStencil::{Axes, Empty, Nowhere, Step, TooMany, Unknown, Weight};
        let wrong = |text: &str| Stencil::parse(text, 2).expect_err(text);
        assert_eq!(wrong("nearst"), Unknown("nearst".to_owned()));
        assert_eq!(wrong("1,0,0"), Axes { offset: "1,0,0".to_owned(), steps: 3, axes: 2 });
        assert_eq!(wrong("nearest:1"), Axes { offset: "1".to_owned(), steps: 1, axes: 2 });
        assert_eq!((wrong("1,0*0"), wrong("1,0*x")), (Weight("0".to_owned()), Weight("x".to_owned())));
        assert_eq!(wrong("nearest:1,-1"), Weight("-1".to_owned()));
        assert_eq!((wrong("1,x"), wrong("1,9999999")), (Step("x".to_owned()), Step("9999999".to_owned())));
        assert_eq!((wrong("0,0"), wrong(" # none\n")), (Nowhere("0,0".to_owned()), Empty));
        assert_eq!(wrong(&"1,0;".repeat(2000)), TooMany(2000));
    }
}
