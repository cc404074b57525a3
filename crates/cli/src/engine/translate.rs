//! The words of an engine for a job that our options describe. A pure function.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::Kind;
use crate::hosts::{self, Host};
use crate::options::environment::Inherits;
use crate::options::{Input, Options, Part};
use crate::plan;
use crate::policy::{MapBy, Policy, RankBy, Target, Unit};

/// The command line and environment of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translated {
    /// The words of its command line.
    pub words: Vec<OsString>,
    /// Variables to set for it.
    pub environment: Vec<(OsString, OsString)>,
    /// The content of a file to write, and the position in `words` at which the file's name is to be
    /// inserted.
    pub file: Option<(usize, Vec<u8>)>,
}

/// Translates options for an engine; `root` tells whether the user is that.
///
/// # Errors
/// Which option the engine cannot follow, with a remedy.
pub fn translate(kind: Kind, options: &Options, hosts: &[Host], root: bool) -> Result<Translated, String> {
    refuse(kind, options)?;
    let job = TranslatedJob { options, hosts, policy: options.policy() };
    match kind {
        Kind::Srun(protocol) => job.srun(protocol),
        Kind::Prterun | Kind::OpenMpi => job.prrte(kind, root),
        Kind::Hydra => job.hydra(),
    }
}

/// What no engine does, or not this one.
fn refuse(kind: Kind, options: &Options) -> Result<(), String> {
    let name = match kind {
        Kind::Srun(_) => "srun",
        Kind::Prterun | Kind::OpenMpi => "PRRTE",
        Kind::Hydra => "Hydra",
    };
    let is_hydra = kind == Kind::Hydra;
    let asked = [
        (1 < options.nodes, "--nodes", "hosts share the ranks out by themselves: write -ppn N"),
        (0 < options.restarts(), "--ft=rebuild, --max-restarts", "ranks are started again on one host only"),
        (options.cpu_set.is_some(), "--cpu-set", "write --bind-to and --map-by"),
        (
            options.parts.iter().any(|part| part.search_path.is_some()),
            "-path",
            "name the program with its folder",
        ),
        (
            is_hydra && !matches!(options.stdin, None | Some(Input::Rank(0))),
            "--stdin",
            "under Hydra rank 0 reads the input",
        ),
        (is_hydra && options.per_socket.is_some(), "--npersocket", "write -map-by socket -bind-to core"),
    ];
    match asked.into_iter().find(|(is_asked, ..)| *is_asked) {
        Some((_, option, remedy)) => Err(format!(
            "{option}: {name}, which starts jobs on several hosts here, does not do that\n  {remedy}"
        )),
        None => Ok(()),
    }
}

struct TranslatedJob<'a> {
    options: &'a Options,
    hosts: &'a [Host],
    policy: Policy,
}

/// Words that are gathered.
#[derive(Default)]
struct Line(Vec<OsString>);

impl Line {
    fn push(&mut self, word: impl Into<OsString>) {
        self.0.push(word.into());
    }

    fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.push(name);
        self.push(value);
    }
}

impl TranslatedJob<'_> {
    /// How many ranks the only part has, where that is known.
    fn ranks(&self, part: &Part) -> Option<u32> {
        let hosts = self.hosts.len() as u32;
        let by_node = || self.options.ppn.filter(|_| hosts > 0).map(|ppn| ppn * hosts);
        match self.options.parts.len() {
            1 => part.ranks.or_else(by_node).or_else(|| hosts::slots(self.hosts)),
            _ => Some(part.ranks.unwrap_or(1)),
        }
    }

    /// `NAME:N`, comma by comma.
    fn host_list(&self) -> String {
        let one = |host: &Host| match host.slots {
            Some(slots) if host.name.contains(':') => format!("[{}]:{slots}", host.name),
            Some(slots) => format!("{}:{slots}", host.name),
            None => host.name.clone(),
        };
        self.hosts.iter().map(one).collect::<Vec<_>>().join(",")
    }

    fn hydra(&self) -> Result<Translated, String> {
        let options = self.options;
        let mut line = Line(options.for_hydra.concat());
        if !self.hosts.is_empty() {
            line.option("-hosts", self.host_list());
        }
        options.ppn.iter().for_each(|ppn| line.option("-ppn", ppn.to_string()));
        if options.label {
            line.push("-prepend-rank");
        }
        if options.survives() {
            line.push("-disable-auto-cleanup");
        }
        self.binding_of_hydra(&mut line)?;
        for (name, value) in plan::environment(options) {
            line.push("-genv");
            line.option(&name.to_string_lossy(), value);
        }
        for (at, part) in options.parts.iter().enumerate() {
            if at > 0 {
                line.push(":");
            }
            match &part.environment.inherits {
                Inherits::All => {}
                Inherits::Only(names) => {
                    let names: Vec<&str> =
                        names.iter().chain(&part.environment.exported).map(String::as_str).collect();
                    match names.is_empty() {
                        true => line.push("-envnone"),
                        false => line.option("-envlist", names.join(",")),
                    }
                }
            }
            for (name, value) in &part.environment.set {
                line.push("-env");
                line.push(name);
                line.push(value);
            }
            self.ranks(part).iter().for_each(|ranks| line.option("-n", ranks.to_string()));
            part.folder.iter().for_each(|folder| line.option("-wdir", folder));
            line.0.extend(part.command.iter().cloned());
        }
        Ok(Translated { words: line.0, ..Translated::default() })
    }

    fn binding_of_hydra(&self, line: &mut Line) -> Result<(), String> {
        if let Some(bind) = &self.policy.bind_to {
            let word = match &bind.target {
                Target::None => "none".to_owned(),
                Target::Unit(unit, 1) => unit.to_string(),
                Target::Unit(unit, width) => format!("{unit}:{width}"),
                Target::Lists(lists) => {
                    let lists = lists
                        .iter()
                        .map(|list| list.iter().map(|cpu| cpu.to_string()).collect::<Vec<_>>().join("+"));
                    format!("user:{}", lists.collect::<Vec<_>>().join(","))
                }
            };
            line.option("-bind-to", word);
        } else if let Some(cores) = self.cores_per_rank() {
            line.option("-bind-to", format!("core:{cores}"));
        }
        if let Some(map) = self.policy.map_by.as_ref().filter(|map| map.unit != Unit::Host) {
            if map.each.is_some() {
                return Err(
                    "--map-by ppr: Hydra, which starts jobs on several hosts here, does not do that\n  \
                            write -map-by UNIT and -ppn N"
                        .to_owned(),
                );
            }
            line.option("-map-by", map.unit.to_string());
            if self.policy.bind_to.is_none() && self.cores_per_rank().is_none() {
                line.option("-bind-to", map.unit.to_string());
            }
        }
        Ok(())
    }

    fn cores_per_rank(&self) -> Option<usize> {
        self.policy.cores_per_rank.or(self.policy.map_by.as_ref().and_then(|map| map.cores_per_rank))
    }

    fn prrte(&self, kind: Kind, root: bool) -> Result<Translated, String> {
        let options = self.options;
        let mut line = Line::default();
        if root {
            line.push("--allow-run-as-root");
        }
        for words in &options.for_prrte {
            let name = words[0].to_string_lossy();
            // Open MPI knows by itself which parameter is whose.
            let is_mca = kind == Kind::Prterun && name.trim_start_matches('-') == "mca";
            line.push(if is_mca {
                "--prtemca".to_owned()
            } else {
                format!("--{}", name.trim_start_matches('-'))
            });
            line.0.extend(words[1..].iter().cloned());
        }
        line.option("--map-by", self.map_of_prrte());
        if let Some(bind) = &self.policy.bind_to {
            let word = match &bind.target {
                Target::None => "none".to_owned(),
                Target::Unit(unit, 1) => format!("{}:overload-allowed", of_prrte(*unit)),
                _ => {
                    return Err("--bind-to: PRRTE, which starts jobs on several hosts here, binds to one unit only\n  \
                                write --bind-to UNIT, with --map-by UNIT:PE=N for several cores"
                        .to_owned());
                }
            };
            line.option("--bind-to", word);
        }
        if let Some(order) = self.policy.rank_by {
            line.option("--rank-by", if order == RankBy::Fill { "fill" } else { "span" });
        }
        if options.label {
            line.option("--output", "rank");
        }
        match options.stdin {
            None => {}
            Some(Input::Rank(rank)) => line.option("--stdin", rank.to_string()),
            Some(Input::All) => line.option("--stdin", "all"),
            Some(Input::None) => line.option("--stdin", "none"),
        }
        if options.report_bindings {
            line.option("--display", "bindings");
        }
        if options.survives() {
            match kind {
                Kind::Prterun => line.option("--runtime-options", "recoverable"),
                _ => line.option("--with-ft", "ulfm"),
            }
        }
        for (at, part) in options.parts.iter().enumerate() {
            if at > 0 {
                line.push(":");
            }
            self.part_of_prrte(part, &mut line)?;
        }
        Ok(Translated { words: line.0, ..Translated::default() })
    }

    fn part_of_prrte(&self, part: &Part, line: &mut Line) -> Result<(), String> {
        if part.environment.inherits != Inherits::All {
            return Err("-genvnone, -genvlist, -envnone, -envlist: PRRTE, which starts jobs on several hosts here, does not do that\n  \
                        start the program by `env -i NAME=VALUE PROGRAM`"
                .to_owned());
        }
        if !self.hosts.is_empty() {
            line.option("--host", self.host_list());
        }
        let sets = part.environment.set.iter().cloned().chain(plan::environment(self.options));
        for (name, value) in sets {
            let mut word = name;
            word.push("=");
            word.push(value);
            line.option("-x", word);
        }
        part.environment.exported.iter().for_each(|name| line.option("-x", name));
        self.ranks(part).iter().for_each(|ranks| line.option("-n", ranks.to_string()));
        part.folder.iter().for_each(|folder| line.option("--wdir", folder));
        line.0.extend(part.command.iter().cloned());
        Ok(())
    }

    /// More ranks than cores are as welcome as on one host.
    fn map_of_prrte(&self) -> String {
        let map = self.policy.map_by.as_ref();
        let unit = map.map_or(Unit::Host, |map| map.unit);
        let mut word = match (map.and_then(|map| map.each), self.options.ppn) {
            (Some(each), _) => format!("ppr:{each}:{}", of_prrte(unit)),
            (None, Some(ppn)) => format!("ppr:{ppn}:node"),
            (None, None) if unit == Unit::Host => "slot".to_owned(),
            (None, None) => of_prrte(unit).to_owned(),
        };
        self.cores_per_rank().iter().for_each(|cores| word.push_str(&format!(":PE={cores}")));
        word.push_str(":OVERSUBSCRIBE");
        word
    }

    fn srun(&self, protocol: &str) -> Result<Translated, String> {
        let options = self.options;
        let mut line = Line::default();
        line.push(format!("--mpi={protocol}"));
        match options.survives() {
            // Slurm lets the others live by default, which no other launcher does.
            true => line.0.extend(["--kill-on-bad-exit=0", "--wait=0"].map(OsString::from)),
            false => line.push("--kill-on-bad-exit=1"),
        }
        let several = 1 < options.parts.len();
        let ranks = match several {
            true => Some(options.parts.iter().map(|part| part.ranks.unwrap_or(1)).sum()),
            false => self.ranks(&options.parts[0]),
        };
        self.hosts_of_srun(ranks, &mut line);
        ranks.iter().for_each(|ranks| line.push(format!("--ntasks={ranks}")));
        options.ppn.iter().for_each(|ppn| line.push(format!("--ntasks-per-node={ppn}")));
        if options.label {
            line.push("--label");
        }
        match options.stdin {
            None => {}
            Some(Input::Rank(rank)) => line.push(format!("--input={rank}")),
            Some(Input::All) => line.push("--input=all"),
            Some(Input::None) => line.push("--input=none"),
        }
        self.binding_of_srun(&mut line)?;
        let job = plan::environment(options);
        match several {
            true => self.programs_of_srun(line, job),
            false => self.program_of_srun(line, job),
        }
    }

    fn hosts_of_srun(&self, ranks: Option<u32>, line: &mut Line) {
        let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        match hosts::slots(self.hosts) {
            _ if names.is_empty() => {}
            // As many to each host as is said of it.
            Some(slots) if Some(slots) == ranks && self.options.ppn.is_none() => {
                let each =
                    |host: &Host| std::iter::repeat_n(host.name.clone(), host.slots.unwrap_or(1) as usize);
                let list: Vec<String> = self.hosts.iter().flat_map(each).collect();
                line.push("--distribution=arbitrary");
                line.push(format!("--nodelist={}", list.join(",")));
            }
            _ => {
                line.push(format!("--nodes={}", names.len()));
                line.push(format!("--nodelist={}", names.join(",")));
            }
        }
    }

    fn binding_of_srun(&self, line: &mut Line) -> Result<(), String> {
        let verbose = if self.options.report_bindings { "verbose," } else { "" };
        let word = match self.policy.bind_to.as_ref().map(|bind| &bind.target) {
            None => None,
            Some(Target::None) => Some("none"),
            Some(Target::Unit(Unit::Core, 1)) => Some("cores"),
            Some(Target::Unit(Unit::HwThread, 1)) => Some("threads"),
            Some(Target::Unit(Unit::Socket, 1)) => Some("sockets"),
            Some(Target::Unit(Unit::Numa, 1)) => Some("ldoms"),
            Some(_) => {
                return Err("--bind-to: srun, which starts jobs on several hosts here, does not bind so\n  \
                            choose from hwthread, core, numa, socket and none"
                    .to_owned());
            }
        };
        match word {
            Some(word) => line.push(format!("--cpu-bind={verbose}{word}")),
            None if !verbose.is_empty() => line.push("--cpu-bind=verbose"),
            None => {}
        }
        self.cores_per_rank().iter().for_each(|cores| line.push(format!("--cpus-per-task={cores}")));
        match &self.policy.map_by {
            None => {}
            Some(MapBy { unit: Unit::Socket, each: Some(each), .. }) => {
                line.push(format!("--ntasks-per-socket={each}"));
            }
            Some(MapBy { unit: Unit::Core, each: Some(each), .. }) => {
                line.push(format!("--ntasks-per-core={each}"));
            }
            Some(MapBy { unit: Unit::Host, each: Some(each), .. }) => {
                line.push(format!("--ntasks-per-node={each}"));
            }
            Some(MapBy { unit: Unit::Socket, each: None, .. }) => line.push("--distribution=block:cyclic"),
            Some(MapBy { unit: Unit::Core | Unit::HwThread | Unit::Host, each: None, .. }) => {}
            Some(map) => {
                return Err(format!(
                    "--map-by {}: srun, which starts jobs on several hosts here, does not do that\n  \
                     choose from slot, core, socket and ppr:N:socket",
                    map.unit
                ));
            }
        }
        Ok(())
    }

    fn program_of_srun(&self, mut line: Line, job: Vec<(OsString, OsString)>) -> Result<Translated, String> {
        let part = &self.options.parts[0];
        let environment: Vec<(OsString, OsString)> =
            part.environment.set.iter().cloned().chain(job).collect();
        if let Inherits::Only(names) = &part.environment.inherits {
            let set = environment.iter().map(|(name, _)| name.to_string_lossy().into_owned());
            let names: BTreeSet<String> =
                names.iter().chain(&part.environment.exported).cloned().chain(set).collect();
            let names: Vec<String> = names.into_iter().collect();
            line.push(format!(
                "--export={}",
                if names.is_empty() { "NIL".to_owned() } else { names.join(",") }
            ));
        }
        if let Some(folder) = &part.folder {
            let mut word = OsString::from("--chdir=");
            word.push(folder);
            line.push(word);
        }
        line.0.extend(part.command.iter().cloned());
        Ok(Translated { words: line.0, environment, file: None })
    }

    /// Several programs stand in a file, each with the numbers of its ranks.
    fn programs_of_srun(&self, mut line: Line, job: Vec<(OsString, OsString)>) -> Result<Translated, String> {
        let mut text: Vec<u8> = Vec::new();
        let mut first = 0;
        for (number, part) in self.options.parts.iter().enumerate() {
            let last = first + part.ranks.unwrap_or(1) - 1;
            if let Inherits::Only(_) = part.environment.inherits {
                return Err("-envnone, -envlist: srun, which starts jobs on several hosts here, does not do that for several programs\n  \
                            start the program by `env -i NAME=VALUE PROGRAM`"
                    .to_owned());
            }
            let mut words: Vec<OsString> = vec!["env".into()];
            if let Some(folder) = &part.folder {
                words.extend([OsString::from("-C"), folder.clone()]);
            }
            // Slurm does not tell ranks the number of their program.
            words.push(format!("WEFT_APPNUM={number}").into());
            let set = part.environment.set.iter();
            words.extend(
                set.map(|(name, value)| {
                    OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat())
                }),
            );
            words.extend(part.command.iter().cloned());
            let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
            text.extend_from_slice(range.as_bytes());
            for word in &words {
                text.push(b' ');
                text.extend(quoted(word)?);
            }
            text.push(b'\n');
            first = last + 1;
        }
        line.push("--multi-prog");
        line.push("FILE");
        let at = line.0.len() - 1;
        Ok(Translated { words: line.0, environment: job, file: Some((at, text)) })
    }
}

/// A word of Slurm's file of programs.
fn quoted(word: &OsStr) -> Result<Vec<u8>, String> {
    let bytes = word.as_bytes();
    match () {
        () if bytes.contains(&b'\n') || (bytes.contains(&b'\'') && bytes.contains(&b'"')) => Err(format!(
            "the argument {word:?} cannot stand in the file that srun takes several programs from\n  \
             start a script with it"
        )),
        () if bytes.contains(&b'\'') => Ok([b"\"", bytes, b"\""].concat()),
        () if bytes.is_empty() || bytes.iter().any(|byte| b" \t\"\\#%".contains(byte)) => {
            Ok([b"'", bytes, b"'"].concat())
        }
        () => Ok(bytes.to_vec()),
    }
}

fn of_prrte(unit: Unit) -> &'static str {
    match unit {
        Unit::Host => "node",
        Unit::Socket => "package",
        Unit::Numa => "numa",
        Unit::L3Cache => "l3cache",
        Unit::L2Cache => "l2cache",
        Unit::Core => "core",
        Unit::HwThread => "hwthread",
    }
}
