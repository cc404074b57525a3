//! What the comment at the head of a program in `bench/tests` asks for:
//!
//! ```text
//! // ranks: 1 2 3 8      once with each of these numbers of ranks
//! // exit: 7             this exit status is the right one; `nonzero` takes any but 0
//! // launch: -x A=B      options for weftrun
//! // part: -n 2 ARG       one more part of the job (MPMD): the program with this number of ranks and these arguments
//! // says: in words      this stands somewhere in what is said; such lines may be several
//! // says not: in words  this does not
//! // bare: it counts …    left out where the library is instrumented, for this reason
//! // not libfabric: it …   left out over libfabric, for this reason
//! // nodes: 2             also over two nodes, which programs with `--ft` do without this line
//! ```
//!
//! A test that is to exit with 0 also has to print the line `ok`.

use super::case::Right;

/// What the comment at the head of a test asks for.
pub struct Directives {
    pub ranks: Vec<u32>,
    pub right: Right,
    pub launch: Vec<String>,
    pub parts: Vec<Part>,
    pub says: Vec<String>,
    pub says_not: Vec<String>,
    pub bare: Option<String>,
    pub not_libfabric: Option<String>,
    /// Whether it also runs over two nodes.
    pub over_nodes: bool,
}

/// A further part of a job of several programs: the same program with other arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Options of the launcher.
    pub options: Vec<String>,
    /// Arguments of the program.
    pub arguments: Vec<String>,
}

/// Reads the head of a program's source; an error says what is missing or wrong there.
pub fn directives(text: &str) -> Result<Directives, String> {
    let all = |word: &str| -> Vec<&str> {
        let head = text.lines().take_while(|line| line.starts_with("//"));
        head.filter_map(|line| line.strip_prefix("// ")?.strip_prefix(word)?.strip_prefix(':')).collect()
    };
    let asked = |word: &str| all(word).first().copied();
    let ranks = asked("ranks").ok_or("no line `// ranks: 1 2 3` at its head")?;
    let ranks: Result<Vec<u32>, _> = ranks.split_whitespace().map(str::parse).collect();
    let ranks = ranks.map_err(|error| format!("ranks: {error}"))?;
    let right = match asked("exit").map(str::trim) {
        None => Right::SaysOk,
        Some("nonzero") => Right::NotZero,
        Some(status) => Right::Status(status.parse().map_err(|error| format!("exit: {error}"))?),
    };
    if ranks.is_empty() {
        return Err("no number of ranks".into());
    }
    let launch: Vec<String> =
        asked("launch").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    let parts = all("part").into_iter().map(part).collect();
    let text_of = |word| asked(word).map(|words| words.trim().to_owned());
    let texts_of = |word| all(word).into_iter().map(|words| words.trim().to_owned()).collect();
    let (says, says_not) = (texts_of("says"), texts_of("says not"));
    let (bare, not_libfabric) = (text_of("bare"), text_of("not libfabric"));
    let survives = launch.iter().any(|option| option.starts_with("--ft"));
    let over_nodes = match asked("nodes").map(str::trim) {
        None => survives,
        Some("2") => true,
        Some(other) => return Err(format!("nodes: {other} is not 2")),
    };
    Ok(Directives { ranks, right, launch, parts, says, says_not, bare, not_libfabric, over_nodes })
}

/// The options `-n N` of a further part, and the arguments behind them.
fn part(words: &str) -> Part {
    let mut words = words.split_whitespace().map(str::to_owned);
    let options = words.by_ref().take(2).collect();
    Part { options, arguments: words.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_stand_at_the_head() {
        let asked = directives("// ranks: 1 2 8\n// exit: 7\n// words\nint x;\n// ranks: 9\n").unwrap();
        assert_eq!((asked.ranks, asked.right), (vec![1, 2, 8], Right::Status(7)));
        assert!(asked.launch.is_empty() && asked.says.is_empty());
        let asked = directives("// ranks: 3\n// not libfabric: its ports\n").unwrap();
        assert_eq!((asked.bare, asked.not_libfabric.as_deref()), (None, Some("its ports")));
        assert!(!asked.over_nodes);
        for head in ["// ranks: 3\n// nodes: 2\n", "// ranks: 3\n// launch: --ft=rebuild\n"] {
            assert!(directives(head).unwrap().over_nodes, "{head}");
        }
        let says = "// says: a: b\n// says not: c\n// says: d\n";
        let head = format!("// ranks: 3\n// launch: -x A=B -l\n{says}// bare: it counts\n");
        let asked = directives(&head).unwrap();
        assert_eq!((asked.bare.as_deref(), asked.not_libfabric), (Some("it counts"), None));
        assert_eq!((asked.ranks, asked.right), (vec![3], Right::SaysOk));
        assert_eq!((asked.launch.join(" "), asked.says.join(", ")), ("-x A=B -l".into(), "a: b, d".into()));
        assert_eq!(asked.says_not, ["c"]);
        let asked = directives("// ranks: 1\n// part: -n 2 second last\n// part: -n 1\n").unwrap();
        let words: Vec<_> =
            asked.parts.iter().map(|part| [part.options.join(" "), part.arguments.join(" ")]).collect();
        assert_eq!(words, [["-n 2", "second last"], ["-n 1", ""]]);
        assert_eq!(directives("// exit: nonzero\n// ranks: 1\n").unwrap().right, Right::NotZero);
    }

    #[test]
    fn a_test_without_ranks_is_an_error() {
        for text in [
            "int main;",
            "// ranks:\n",
            "// ranks: two\n",
            "int x;\n// ranks: 2\n",
            "// ranks: 1\n// exit: x\n",
            "// ranks: 1\n// nodes: 3\n",
        ] {
            assert!(directives(text).is_err(), "{text}");
        }
    }
}
