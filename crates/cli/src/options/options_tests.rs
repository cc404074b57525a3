//! Command lines by any habit.

use super::*;

fn read(line: &str) -> Result<Options, String> {
    Options::read(line.split(' ').map(OsString::from).collect()).map_err(|error| error.to_string())
}

/// The number of ranks and the command of a part.
fn shown(part: &Part) -> (Option<u32>, String) {
    (part.ranks, part.command.join(OsStr::new(" ")).into_string().unwrap())
}

/// Those of a job of one part.
fn only(options: &Options) -> (Option<u32>, String) {
    assert_eq!(options.parts.len(), 1);
    shown(&options.parts[0])
}

#[test]
fn the_definition_is_sound() {
    Options::command().debug_assert();
}

#[test]
fn ranks_by_any_habit() {
    for form in ["-n 4", "-np 4", "--np 4", "-n4", "-n=4", "--np=4", "-np=4", "-c 4", "--n 4", "--ntasks=4"] {
        let options = read(&format!("weftrun {form} ./a")).unwrap();
        assert_eq!(only(&options), (Some(4), "./a".to_owned()), "{form}");
    }
    assert_eq!(only(&read("weftrun ./a").unwrap()), (None, "./a".to_owned()));
}

#[test]
fn options_stop_at_the_program() {
    let options = read("weftrun -l -np 2 ./a -np 3 --label -x --").unwrap();
    assert_eq!(only(&options), (Some(2), "./a -np 3 --label -x --".to_owned()));
    let options = read("weftrun -n 2 -- -odd : -np").unwrap();
    assert_eq!(only(&options), (Some(2), "-odd : -np".to_owned()));
}

#[test]
fn values_are_not_taken_for_the_program() {
    let options =
        read("weftrun -wdir /a -x A=b -timeout 1.5 -bind none --fabric shm,tcp -np 3 prog").unwrap();
    assert_eq!(options.parts[0].folder, Some("/a".into()));
    assert_eq!(options.parts[0].environment.set, [("A".into(), "b".into())]);
    assert_eq!(options.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(options.bind_to, Some(policy::bind_to("none").unwrap()));
    assert_eq!(options.fabric.as_deref(), Some("shm,tcp"));
    assert_eq!(only(&options), (Some(3), "prog".to_owned()));
}

#[test]
fn several_programs_have_options_of_their_own() {
    let line = "mpiexec -l -genv G 0 -n 1 -x A=1 -env B 2 ./a -n x : -n 3 -wdir /w -x A=3 -env C=4 ./b : ./c";
    let options = read(line).unwrap();
    assert!(options.label);
    let parts: Vec<(Option<u32>, String)> = options.parts.iter().map(shown).collect();
    assert_eq!(
        parts,
        [(Some(1), "./a -n x"), (Some(3), "./b"), (None, "./c")].map(|(n, c)| (n, c.to_owned()))
    );
    let value = |part: usize, name: &str| {
        options.parts[part].environment.value(name, None).map(|value| value.into_string().unwrap())
    };
    assert_eq!(["A", "B", "C", "G"].map(|name| value(0, name).unwrap_or_default()), ["1", "2", "", "0"]);
    assert_eq!(["A", "B", "C", "G"].map(|name| value(1, name).unwrap_or_default()), ["3", "", "4", "0"]);
    assert_eq!(["A", "B", "C", "G"].map(|name| value(2, name).unwrap_or_default()), ["3", "", "", "0"]);
    assert_eq!(options.parts[1].folder, Some("/w".into()));
    assert_eq!(options.parts[2].folder, None);
}

#[test]
fn options_of_the_job_may_be_repeated_in_each_part() {
    let options = read("mpiexec -n 1 --fabric tcp a : -n 1 --fabric tcp -l b").unwrap();
    assert_eq!((options.fabric.as_deref(), options.label), (Some("tcp"), true));
    let error = read("mpiexec -n 1 --fabric tcp a : -n 1 --fabric shm b").unwrap_err();
    assert!(error.contains("--fabric=tcp and --fabric=shm: the programs of one job"), "{error}");
}

#[test]
fn files_name_parts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("parts");
    let text = "# options for all\n-genv A 'b c'\n-n 1 ./a 1\n-n 2 -x B=2 ./b \\\n  2\n";
    std::fs::write(&file, text).unwrap();
    for option in ["-configfile", "--app", "-app"] {
        let options = read(&format!("mpiexec -l {option} {}", file.display())).unwrap();
        let parts: Vec<(Option<u32>, String)> = options.parts.iter().map(shown).collect();
        assert_eq!(parts, [(Some(1), "./a 1".to_owned()), (Some(2), "./b 2".to_owned())]);
        assert_eq!(options.parts[1].environment.value("A", None), Some("b c".into()));
        assert!(options.label);
    }
    let more = read(&format!("mpiexec -configfile {} : -n 1 ./c", file.display())).unwrap();
    assert_eq!(more.parts.len(), 3);
    std::fs::write(&file, format!("-configfile {}\n", file.display())).unwrap();
    assert!(
        read(&format!("mpiexec -configfile {}", file.display())).unwrap_err().contains("name each other")
    );
    assert!(read("mpiexec -configfile /no/such").unwrap_err().contains("-configfile /no/such: No such file"));
}

#[test]
fn binding_by_any_habit() {
    let of = |form: &str| read(&format!("weftrun {form} ./a")).unwrap().policy();
    let core = Policy { bind_to: Some(policy::bind_to("core").unwrap()), ..Policy::default() };
    for form in
        ["--bind cores", "--bind-to core", "-bind-to core", "--bind-to=core", "--bind-to-core", "-bind-to rr"]
    {
        assert_eq!(of(form), core, "{form}");
    }
    let socket = Policy { bind_to: Some(policy::bind_to("socket").unwrap()), ..Policy::default() };
    for form in ["--bind sockets", "--bind-to socket", "-bind-to package"] {
        assert_eq!(of(form), socket, "{form}");
    }
    assert_eq!(of("--npersocket 2"), of("--map-by ppr:2:socket"));
    assert_eq!(of("--bysocket"), of("-map-by package"));
    assert_eq!(of("--cpus-per-proc 2").cores_per_rank, Some(2));
    assert_eq!(of("--cpu-list 0-1").cpus, of("-cpu-set 0,1").cpus);
    assert!(!of("-l").is_explicit());
    assert!(read("weftrun --bind-to l4cache ./a").unwrap_err().contains("socket"));
}

#[test]
fn every_translation_is_an_option_of_ours() {
    let mut command = Options::command();
    command.build();
    for foreign in foreign::FOREIGN {
        match foreign.what {
            foreign::What::Ours(name) | foreign::What::OursWith(name, _) => {
                let own = own(&command, name).unwrap_or_else(|| panic!("{name}"));
                let has_value = matches!(foreign.what, foreign::What::OursWith(..)) || foreign.values == 1;
                assert_eq!(own.takes_value, has_value, "{name}");
            }
            _ => {}
        }
    }
}

#[test]
fn survival_by_any_habit() {
    for form in [
        "--ft",
        "--ft=none",
        "--ft=blank",
        "--ft=rebuild",
        "--with-ft ulfm",
        "--with-ft mpi",
        "-with-ft true",
        "-disable-auto-cleanup",
    ] {
        let options = read(&format!("weftrun -n 2 {form} ./a none")).unwrap();
        assert!(options.survives(), "{form}");
        assert_eq!(only(&options).1, "./a none", "{form}");
    }
    for form in ["--with-ft no", "-l"] {
        assert!(!read(&format!("weftrun {form} ./a --ft")).unwrap().survives(), "{form}");
    }
}

#[test]
fn ranks_are_started_again_where_that_is_asked_for() {
    let restarts = |form: &str| read(&format!("weftrun -n 2 {form} ./a")).unwrap().restarts();
    assert_eq!(restarts("--ft=rebuild"), RESTARTS);
    assert_eq!(restarts("--ft=rebuild --max-restarts 3"), 3);
    assert_eq!(restarts("--ft --max-restarts=3"), 3, "the program may say so later");
    assert_eq!(["--ft", "--ft=blank", "--max-restarts 3"].map(restarts), [0; 3]);
}

#[test]
fn failures_by_any_habit() {
    let of = |form: &str| {
        let options = read(&format!("mpiexec -n 2 {form} ./a")).unwrap();
        assert_eq!(only(&options).1, "./a", "{form}");
        (options.survives(), options.failure_mode().map(str::to_owned))
    };
    for (form, mode) in [
        ("--ft", "none"),
        ("--ft=blank", "blank"),
        ("-ft=shrink", "shrink"),
        ("--with-ft ulfm", "none"),
        ("--with-ft mpi", "none"),
        ("-with-ft blank", "blank"),
        ("--with-ft=rebuild", "rebuild"),
        ("--ft=shrink --with-ft blank", "shrink"),
    ] {
        assert_eq!(of(form), (true, Some(mode.to_owned())), "{form}");
    }
    for form in ["--with-ft no", "--with-ft none", "--with-ft false", "--label"] {
        assert_eq!(of(form), (false, None), "{form}");
    }
    assert_eq!(of("-disable-auto-cleanup"), (true, None));
    let messages = read("weftrun --ft=blank --ft-msg cont ./a").unwrap().ft_msg;
    assert_eq!(messages.as_deref(), Some("cont"));
}

#[test]
fn errors_and_process_sets_are_for_the_ranks() {
    let line = "weftrun -initial-errhandler MPI_ERRORS_RETURN --pset a://b=0-1 --pset c=2 prog";
    let options = read(line).unwrap();
    assert_eq!(options.initial_errhandler.as_deref(), Some("mpi_errors_return"));
    assert_eq!(options.pset, ["a://b=0-1", "c=2"]);
    assert_eq!(only(&options).1, "prog");
}

#[test]
fn options_of_others_are_ignored_by_their_whole_names() {
    let options = read("mpirun --oversubscribe --allow-run-as-root -n 2 a").unwrap();
    assert_eq!((only(&options), options.ignored_here()), ((Some(2), "a".to_owned()), vec![]));
    let options =
        read("mpirun --mca btl self -launcher ssh -iface=eth0 --timestamp-output -gpus-per-proc 1 -n 2 a")
            .unwrap();
    assert_eq!(only(&options), (Some(2), "a".to_owned()));
    let ignored =
        ["--timestamp-output", "-launcher ssh", "-iface eth0", "-gpus-per-proc 1", "--mca btl self"];
    assert_eq!(options.ignored_here(), ignored);
}

#[test]
fn hosts_are_kept_in_their_order() {
    let options = read("mpiexec -hosts a,b:2 -f hosts --host c -machinefile=m x").unwrap();
    let hosts =
        [(HostsIn::List, "a,b:2"), (HostsIn::File, "hosts"), (HostsIn::List, "c"), (HostsIn::File, "m")];
    assert_eq!(options.hosts, hosts.map(|(kind, text)| (kind, text.to_owned())));
}

#[test]
fn mistakes_are_told_with_the_remedy() {
    for (line, told) in [
        ("weftrun -n 0 a", "0 is not in 1..=65536"),
        ("weftrun -n two a", "invalid value 'two'"),
        ("weftrun -n 2", "no program is named"),
        ("weftrun -env FOO ./a", "-env takes a name and a value"),
        ("weftrun --fabric smh a", "`smh` is no fabric: choose from shm"),
        ("weftrun --fabric libfabric: a", "is no fabric"),
        ("weftrun --timeout=-1 a", "number of seconds"),
        ("weftrun --timeout nan a", "number of seconds"),
        ("weftrun -x =1 a", "needs a name"),
        ("weftrun -n 1 a : -n 2", "part 2 of 2 (--np=2) names no program"),
        ("weftrun : -n 2 b", "part 1 of 2 names no program"),
        ("weftrun -n 1 a : -n 0 b", "0 is not in 1..=65536"),
        ("weftrun -n 1 -n 2 a", "--np=1 and --np=2: a program can have only one"),
        ("weftrun --frobnicate a", "--frobnicate: there is no such option"),
        ("weftrun -frobnicate a", "-frobnicate: there is no such option"),
        ("weftrun -genv", "-genv needs a value"),
        ("weftrun -genv =1 a", "-genv: a variable needs a name"),
        ("weftrun --rankfile f a", "--rankfile f: this launcher does not do that\n  name the cpus"),
        ("weftrun --xterm 1 a", "xterm -e PROGRAM"),
        ("weftrun -ppn 0 a", "above zero"),
        ("weftrun --map-by rack a", "choose from slot, node"),
        ("weftrun --initial-errhandler mpi_errors_ignore a", "choose from mpi_errors_are_fatal"),
        ("weftrun --ft=heal a", "choose from none, abort, blank, shrink and rebuild"),
        ("weftrun --ft=rebuild --rebuild-fallback shrink a", "choose from blank and abort"),
        ("weftrun --ft=rebuild --max-restarts 9999 a", "9999 is not in 0..=1024"),
        ("weftrun --with-ft heal a", "choose from ulfm, abort"),
        ("weftrun --ft --ft-msg keep a", "choose from reset and cont"),
        ("weftrun --pset ocean a", "a name, =, and ranks"),
        ("weftrun --pset mpi://moon=1 a", "does not begin with mpi://"),
        ("weftrun --pset a=1;b=2 a", "one set for each"),
    ] {
        let error = read(line).unwrap_err();
        assert!(error.contains(told), "{line}: {error}");
    }
}

#[test]
fn help_shows_the_name_it_was_called_by() {
    for name in ["weftrun", "mpiexec", "mpirun"] {
        let help = read(&format!("/opt/bin/{name} --help")).unwrap_err();
        assert!(help.contains(&format!("Usage: {name} [OPTIONS] <PROGRAM>...")), "{help}");
    }
}

#[test]
fn libfabric_may_name_its_provider() {
    assert!(read("weftrun --fabric libfabric:verbs,libfabric a").is_ok());
}
