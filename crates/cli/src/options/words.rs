//! Takes the words of a command line apart: into the parts of the job that stand between colons, and each of
//! them into options and program. Options of other launchers are translated or sorted out here.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::environment::{Inherits, Rule};
use super::foreign::{self, Foreign, HostsIn, Scope, Variables, What};
use super::lines;

/// A command line, taken apart.
#[derive(Debug, Default)]
pub struct Words {
    /// Options of weftrun for the whole job, each one word such as `--timeout=3`.
    pub job: Vec<OsString>,
    /// The parts of the job, at least one.
    pub parts: Vec<PartWords>,
    /// Variables for all ranks.
    pub rules: Vec<Rule>,
    /// The options that name hosts, in order: their form and their value.
    pub hosts: Vec<(HostsIn, String)>,
    /// Options for Hydra, each with its values.
    pub for_hydra: Vec<Vec<OsString>>,
    /// Options for PRRTE, each with its values.
    pub for_prrte: Vec<Vec<OsString>>,
    /// Options that mean nothing here, as they were written.
    pub ignored: Vec<String>,
}

/// A part of a job: a program, and how to start it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PartWords {
    /// Options of weftrun for this part, each one word.
    pub options: Vec<OsString>,
    /// Variables for its ranks.
    pub rules: Vec<Rule>,
    /// The rules among them that count for the parts behind it, too.
    pub exports: Vec<Rule>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

impl PartWords {
    /// How to name the part in a message: by its options, as far as it has any.
    pub fn shown(&self) -> String {
        self.options.join(OsStr::new(" ")).to_string_lossy().into_owned()
    }
}

/// An option of weftrun, as far as this file has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// Its long name.
    pub name: String,
    /// Whether a value follows it.
    pub takes_value: bool,
    /// Whether it is for a part of the job only.
    pub is_of_part: bool,
    /// Whether it may be given several times with different values.
    pub repeats: bool,
}

/// Answers what an option of ours is, by its name without dashes.
pub type Ours<'a> = &'a dyn Fn(&str) -> Option<Own>;

/// Takes the words behind the launcher's name apart.
///
/// # Errors
/// A message with its remedy.
pub fn split(words: Vec<OsString>, ours: Ours<'_>) -> Result<Words, String> {
    let mut reader = Reader { ours, found: Words::default(), part: PartWords::default(), files: 0 };
    reader.read(words)?;
    let Reader { mut found, part, .. } = reader;
    found.parts.push(part);
    found.check()?;
    Ok(found)
}

struct Reader<'a> {
    ours: Ours<'a>,
    found: Words,
    part: PartWords,
    /// How deep files name files.
    files: u32,
}

impl Reader<'_> {
    fn read(&mut self, words: Vec<OsString>) -> Result<(), String> {
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            // The last program of a file is not followed by a colon.
            if !self.part.command.is_empty() && word != ":" {
                self.end_part();
            }
            if word == "--" {
                // What stands behind it is the program with all its arguments, colons among them.
                self.part.command.extend(words);
                return Ok(());
            }
            if word == ":" {
                self.end_part();
                continue;
            }
            if word.as_bytes().len() < 2 || word.as_bytes()[0] != b'-' {
                self.part.command.push(word);
                self.program(&mut words);
                continue;
            }
            self.option(&word, &mut words)?;
        }
        Ok(())
    }

    /// The arguments of a program go up to a colon.
    fn program(&mut self, words: &mut impl Iterator<Item = OsString>) {
        for word in words {
            if word == ":" {
                return self.end_part();
            }
            self.part.command.push(word);
        }
    }

    fn end_part(&mut self) {
        let part = std::mem::take(&mut self.part);
        self.found.parts.push(part);
    }

    fn option(&mut self, word: &OsStr, words: &mut dyn Iterator<Item = OsString>) -> Result<(), String> {
        let option = Written::of(word);
        if let Some(foreign) = foreign::find(&option.name) {
            return self.foreign(foreign, &option, words);
        }
        if let Some(own) = (self.ours)(&option.name) {
            let value = match option.value {
                None if own.takes_value => Some(self.value(&option, words)?),
                value => value,
            };
            return self.own(&own, value);
        }
        // The short ones may have their value right behind them, as in `-n4`.
        let short = option.name.chars().next().filter(|_| !word.as_bytes().starts_with(b"--"));
        let short = short.map(|letter| letter.to_string());
        let rest = short.as_ref().map(|letter| OsStr::from_bytes(&word.as_bytes()[1 + letter.len()..]));
        if let (Some(letter), Some(rest)) = (short, rest.filter(|rest| !rest.is_empty())) {
            let is_number = rest.as_bytes()[0].is_ascii_digit();
            if let Some(Foreign { what: What::Ours(name), .. }) = foreign::find(&letter).filter(|_| is_number)
            {
                return self.ours_with(name, Some(rest.to_owned()));
            }
            if let Some(foreign) = foreign::find(&letter).filter(|_| letter == "x") {
                let option = Written { whole: option.whole, name: letter, value: Some(rest.to_owned()) };
                return self.foreign(foreign, &option, words);
            }
        }
        Err(unknown(&option))
    }

    /// Notes an option of ours. One for the whole job may be repeated in each part, if it says the same.
    fn own(&mut self, own: &Own, value: Option<OsString>) -> Result<(), String> {
        let name = format!("--{}", own.name);
        let mut word = OsString::from(&name);
        if let Some(value) = value {
            word.push("=");
            word.push(value);
        }
        let options = if own.is_of_part { &mut self.part.options } else { &mut self.found.job };
        if options.contains(&word) {
            return Ok(());
        }
        let is_it = |other: &&OsString| Written::of(other).whole == name;
        if let Some(other) = options.iter().find(is_it).filter(|_| !own.repeats) {
            let (other, word) = (other.to_string_lossy(), word.to_string_lossy());
            let whose = if own.is_of_part { "a program" } else { "the programs of one job" };
            return Err(format!("{other} and {word}: {whose} can have only one of them\n  leave one out"));
        }
        options.push(word);
        Ok(())
    }

    fn ours_with(&mut self, name: &str, value: Option<OsString>) -> Result<(), String> {
        let own = (self.ours)(name).ok_or_else(|| format!("--{name} is no option of this launcher"))?;
        self.own(&own, value)
    }

    fn foreign(
        &mut self,
        foreign: &Foreign,
        option: &Written,
        words: &mut dyn Iterator<Item = OsString>,
    ) -> Result<(), String> {
        let mut values: Vec<OsString> = option.value.iter().cloned().collect();
        let is_complete = |values: &[OsString]| match foreign.what {
            // `NAME=VALUE` is complete in one word.
            What::Environment(_, Variables::Set) => {
                values.len() == 2 || values.first().is_some_and(|value| value.as_bytes().contains(&b'='))
            }
            _ => foreign.values <= values.len(),
        };
        while !is_complete(&values) {
            values.push(self.value(option, words)?);
        }
        let value = values.first().cloned();
        match foreign.what {
            What::Ours(name) => self.ours_with(name, value)?,
            What::OursWith(name, value) => self.ours_with(name, Some(value.into()))?,
            What::Environment(scope, variables) => {
                let rule = rule(variables, &values).map_err(|why| format!("{}: {why}", option.whole))?;
                match scope {
                    Scope::Job => self.found.rules.push(rule),
                    Scope::Part => {
                        if variables == Variables::Export {
                            self.part.exports.push(rule.clone());
                        }
                        self.part.rules.push(rule);
                    }
                }
            }
            What::Hosts(hosts) => {
                self.found.hosts.push((hosts, value.unwrap_or_default().to_string_lossy().into_owned()));
            }
            What::Parts => self.parts_of(option, &value.unwrap_or_default())?,
            What::Met => {}
            What::ForHydra => self.found.for_hydra.push(option.with(values)),
            What::ForPrrte => self.found.for_prrte.push(option.with(values)),
            What::Ignored => self.found.ignored.push(option.shown(&values)),
            What::Refused(remedy) => {
                return Err(format!("{}: this launcher does not do that\n  {remedy}", option.shown(&values)));
            }
        }
        Ok(())
    }

    /// Reads a file of which each line is a part of the job. A line without a program is for the line behind
    /// it.
    fn parts_of(&mut self, option: &Written, file: &OsStr) -> Result<(), String> {
        let name = file.to_string_lossy();
        if FILES_DEEP <= self.files {
            return Err(format!("{} {name}: the files name each other without an end", option.whole));
        }
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("{} {name}: {error}\n  name a file that can be read", option.whole))?;
        let parts = lines::words_of_lines(&text).map_err(|why| format!("{} {name}: {why}", option.whole))?;
        self.files += 1;
        for words in parts {
            self.read(words)?;
        }
        self.files -= 1;
        Ok(())
    }

    fn value(&self, option: &Written, words: &mut dyn Iterator<Item = OsString>) -> Result<OsString, String> {
        words.next().ok_or_else(|| {
            format!(
                "{} needs a value\n  write {} VALUE, and the program behind it",
                option.whole, option.whole
            )
        })
    }
}

impl Words {
    fn check(&self) -> Result<(), String> {
        let Some(at) = self.parts.iter().position(|part| part.command.is_empty()) else { return Ok(()) };
        if self.parts.len() == 1 {
            // Who asks for help need not name one.
            let asks = self.job.iter().any(|word| word == "--help" || word == "--version");
            let told = "no program is named\n  write: [OPTIONS] PROGRAM ARGUMENTS; of the options that name variables -env takes a name and a \
                        value, and -x passes on what is set";
            return if asks { Ok(()) } else { Err(told.to_owned()) };
        }
        let (number, options) = (at + 1, self.parts[at].shown());
        let options = if options.is_empty() { options } else { format!(" ({options})") };
        Err(format!(
            "part {number} of {}{options} names no program\n  \
             write between the colons: -n N PROGRAM ARGUMENTS; where `:` is a program's own argument, put `--` before that program",
            self.parts.len()
        ))
    }
}

/// An option as it was written.
struct Written {
    /// The word up to an equals sign.
    whole: String,
    /// That without dashes.
    name: String,
    /// What stands behind an equals sign.
    value: Option<OsString>,
}

impl Written {
    fn of(word: &OsStr) -> Written {
        let bytes = word.as_bytes();
        let end = bytes.iter().position(|&byte| byte == b'=');
        let whole = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned();
        let name = whole.strip_prefix("--").or_else(|| whole.strip_prefix('-')).unwrap_or(&whole).to_owned();
        let value = end.map(|end| OsString::from_vec(bytes[end + 1..].to_vec()));
        Written { whole, name, value }
    }

    /// The option and its values as words.
    fn with(&self, values: Vec<OsString>) -> Vec<OsString> {
        std::iter::once(OsString::from(&self.whole)).chain(values).collect()
    }

    /// The option with its values.
    fn shown(&self, values: &[OsString]) -> String {
        let values = values.iter().map(|value| format!(" {}", value.to_string_lossy()));
        format!("{}{}", self.whole, values.collect::<String>())
    }
}

fn rule(variables: Variables, values: &[OsString]) -> Result<Rule, String> {
    let pair = |text: &OsStr| {
        let bytes = text.as_bytes();
        let at = bytes.iter().position(|&byte| byte == b'=');
        at.map(|at| {
            (OsStr::from_bytes(&bytes[..at]).to_owned(), OsStr::from_bytes(&bytes[at + 1..]).to_owned())
        })
    };
    let named =
        |name: &OsStr| if name.is_empty() { Err("a variable needs a name".to_owned()) } else { Ok(()) };
    let first = values.first().map(OsString::as_os_str).unwrap_or_default();
    match variables {
        Variables::Set | Variables::Export => {
            let set = match (variables, pair(first)) {
                (_, Some(set)) => set,
                (Variables::Export, None) => {
                    named(first)?;
                    return Ok(Rule::Export(first.to_string_lossy().into_owned()));
                }
                (_, None) => (first.to_owned(), values.get(1).cloned().unwrap_or_default()),
            };
            named(&set.0)?;
            Ok(Rule::Set(set.0, set.1))
        }
        Variables::List => {
            let text = first.to_string_lossy();
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
            Ok(Rule::Inherit(Inherits::Only(names.collect())))
        }
        Variables::All => Ok(Rule::Inherit(Inherits::All)),
        Variables::Nothing => Ok(Rule::Inherit(Inherits::Only(Vec::new()))),
    }
}

fn unknown(option: &Written) -> String {
    format!(
        "{}: there is no such option\n  --help tells all options; the table in docs/running.md tells those of MPICH, Open MPI and Slurm",
        option.whole
    )
}

/// A file may name another one; more than so many name themselves.
const FILES_DEEP: u32 = 8;
