//! Names of hosts as Slurm writes many of them: `login,node[1-16,20],rack[1-2]n[01-12]`. They are matched and
//! never written out, so that a slip of the finger takes no memory.

/// A comma list of patterns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Patterns {
    patterns: Vec<Vec<Piece>>,
}

/// A piece of a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(String),
    Numbers(Vec<Range>),
}

/// Numbers with at least so many digits, filled up with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    first: u64,
    last: u64,
    digits: usize,
}

impl Patterns {
    pub(super) fn parse(text: &str) -> Result<Patterns, String> {
        let patterns = split(text).into_iter().map(|pattern| {
            parse_one(pattern)
                .ok_or_else(|| format!("{pattern:?} is no name of hosts: write node7, or node[1-16,20]"))
        });
        Ok(Patterns { patterns: patterns.collect::<Result<_, _>>()? })
    }

    /// Whether a host is one of them.
    pub(super) fn have(&self, host: &str) -> bool {
        self.patterns.iter().any(|pattern| matches(pattern, host))
    }
}

/// At commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let mut inside = false;
    let at_comma = |c: char| {
        inside = if inside { c != ']' } else { c == '[' };
        c == ',' && !inside
    };
    text.split(at_comma).collect()
}

fn parse_one(pattern: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some((text, behind)) = rest.split_once('[') {
        let (numbers, behind) = behind.split_once(']')?;
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
        pieces.push(Piece::Numbers(numbers.split(',').map(parse_range).collect::<Option<_>>()?));
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    let brackets = pieces.iter().filter(|piece| matches!(piece, Piece::Numbers(_))).count();
    (!pieces.is_empty() && !rest.contains(']') && brackets <= BRACKETS_MAX).then_some(pieces)
}

fn parse_range(text: &str) -> Option<Range> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let is_number =
        |text: &str| !text.is_empty() && text.len() < DIGITS_MAX && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(first) || !is_number(last) {
        return None;
    }
    let range = Range { first: first.parse().ok()?, last: last.parse().ok()?, digits: first.len() };
    (range.first <= range.last).then_some(range)
}

fn matches(pattern: &[Piece], host: &str) -> bool {
    match pattern.split_first() {
        None => host.is_empty(),
        Some((Piece::Text(text), rest)) => {
            host.strip_prefix(text.as_str()).is_some_and(|host| matches(rest, host))
        }
        Some((Piece::Numbers(ranges), rest)) => {
            let digits = host.bytes().take(DIGITS_MAX).take_while(u8::is_ascii_digit).count();
            // Where digits follow the bracket, it is not known beforehand how many belong to it.
            (1..=digits).any(|length| is_in(ranges, &host[..length]) && matches(rest, &host[length..]))
        }
    }
}

fn is_in(ranges: &[Range], digits: &str) -> bool {
    let Ok(number) = digits.parse::<u64>() else { return false };
    let is_written = |range: &Range| digits.len() == range.digits.max(number.to_string().len());
    ranges.iter().any(|range| (range.first..=range.last).contains(&number) && is_written(range))
}

/// Fewer than what a number of 64 bits has.
const DIGITS_MAX: usize = 19;
/// Each may be matched in several ways.
const BRACKETS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn have(patterns: &str, host: &str) -> bool {
        Patterns::parse(patterns).expect(patterns).have(host)
    }

    #[test]
    fn ranges_stand_for_their_hosts() {
        for host in ["login", "node1", "node16", "node20", "rack2n07x"] {
            assert!(have("login,node[1-16,20],rack[1-2]n[01-12]x", host), "{host}");
        }
        for host in
            ["", "logins", "node", "node0", "node17", "node01", "rack2n7x", "rack2n07", "rack3n07x", "node1 "]
        {
            assert!(!have("login,node[1-16,20],rack[1-2]n[01-12]x", host), "{host}");
        }
        assert!(have("n[9-11]", "n10") && have("n[009-011]", "n010") && !have("n[009-011]", "n10"));
        assert!(have("n[1-2][0-9]", "n25") && have("n[1-12]5", "n125"));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "a,,b",
            "n[",
            "n[]",
            "n[1-]",
            "n[2-1]",
            "n[a]",
            "n]",
            "n[1]]",
            "n[1-99999999999999999999]",
            "n[1][1][1][1][1]",
        ] {
            assert!(Patterns::parse(text).is_err(), "{text}");
        }
    }
}
