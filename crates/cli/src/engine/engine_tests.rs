//! Where jobs go, and what engines are told.

use super::*;
use crate::options::environment::Environment;

fn hosts(names: &[&str]) -> Vec<Host> {
    hosts::named(&[(HostsIn::List, names.join(","))]).unwrap()
}

fn options(line: &str) -> Options {
    Options::read(line.split(' ').map(OsString::from).collect()).unwrap()
}

#[test]
fn a_job_goes_elsewhere_only_where_it_must() {
    let none = Surroundings::default;
    let slurm = |nodes| Surroundings { slurm_nodes: Some(nodes), ..none() };
    let pbs = |names: &[&str]| Surroundings { pbs_hosts: hosts(names), ..none() };
    let of = |named: &[&str], around: Surroundings| {
        place(hosts(named), &around, &|host| host == "here" || host == "localhost")
    };
    assert_eq!(of(&[], none()), LauncherPlace::Here(None));
    assert_eq!(of(&["localhost"], none()), LauncherPlace::Here(None));
    assert_eq!(of(&["localhost:2", "here:2"], slurm(4)), LauncherPlace::Here(Some(4)));
    assert_eq!(of(&["here", "n2"], none()), LauncherPlace::Elsewhere(hosts(&["here", "n2"])));
    assert_eq!(of(&[], slurm(1)), LauncherPlace::Here(None));
    assert_eq!(of(&[], slurm(2)), LauncherPlace::Elsewhere(Vec::new()));
    assert_eq!(of(&[], Surroundings { is_rank: true, ..slurm(2) }), LauncherPlace::Here(None));
    assert_eq!(of(&[], pbs(&["here", "here"])), LauncherPlace::Here(None));
    assert_eq!(of(&[], pbs(&["here", "n2", "n2"])), LauncherPlace::Elsewhere(hosts(&["here", "n2:2"])));
    assert_eq!(of(&["here"], pbs(&["here", "n2"])), LauncherPlace::Here(None));
}

#[test]
fn surroundings_are_read_from_variables() {
    let of = |variables: &[(&str, &str)]| {
        Surroundings::by(&|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    };
    assert_eq!(of(&[]), Surroundings::default());
    let job = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NUM_NODES", "3")];
    assert_eq!(of(&job).slurm_nodes, Some(3));
    let with = |more: (&'static str, &'static str)| of(&[&job[..], &[more]].concat());
    assert_eq!(with(("SLURM_STEP_ID", "0")).slurm_nodes, None, "a task that srun has started");
    assert_eq!(with(("SLURM_STEP_ID", "4294967290")).slurm_nodes, Some(3), "a shell of salloc");
    assert!(with(("PMI_RANK", "0")).is_rank && with(("WEFT_HANDED_ON", "1")).is_handed_on);
}

#[test]
fn engines_are_told_apart_by_what_they_say() {
    assert_eq!(kind_by_version("HYDRA build details:\n  Version: 4.2"), Some(Kind::Hydra));
    assert_eq!(kind_by_version("mpiexec (Open MPI) 5.0.11\n"), Some(Kind::OpenMpi));
    assert_eq!(kind_by_version("mpirun (Open MPI) 4.1.4\n"), None);
    assert_eq!(kind_by_version("weftrun 0.1.0\n"), None);
    assert_eq!(srun_protocol("MPI plugin types are...\n\tpmix\n\tpmi2\n\tnone\n"), Some("pmi2"));
    assert_eq!(
        srun_protocol("MPI plugin types are...\n\tpmix\n\tnone\nspecific pmix plugin versions: pmix_v4"),
        Some("pmix")
    );
    assert_eq!(srun_protocol("MPI plugin types are... none"), None);
}

#[test]
fn the_engine_is_that_of_the_place_and_of_the_options() {
    let engine = |kind| Engine { kind, program: "x".into() };
    let all = [Kind::Hydra, Kind::OpenMpi, Kind::Prterun, Kind::Srun("pmi2")].map(engine);
    let chosen = |line: &str, in_slurm, found: &[Engine]| {
        choose(&options(line), in_slurm, found).map(|engine| engine.kind)
    };
    assert_eq!(chosen("mpiexec a", true, &all), Some(Kind::Srun("pmi2")));
    assert_eq!(chosen("mpiexec a", false, &all), Some(Kind::Prterun));
    assert_eq!(chosen("mpiexec a", false, &all[..2]), Some(Kind::OpenMpi));
    assert_eq!(chosen("mpiexec -launcher ssh a", false, &all), Some(Kind::Hydra));
    assert_eq!(chosen("mpiexec --mca a b a", false, &all), Some(Kind::Prterun));
    assert_eq!(chosen("mpiexec a", false, &all[3..]), None);
}

fn told(kind: Kind, line: &str, names: &[&str]) -> Result<String, String> {
    let named = if names.is_empty() { Vec::new() } else { hosts(names) };
    translate::translate(kind, &options(line), &named, false).map(|told| shown(&told.words))
}

#[test]
fn hydra_is_told_in_its_words() {
    for (line, names, expected) in [
        ("mpiexec -n 4 ./a b", &["n1", "n2:3"][..], "-hosts n1,n2:3 -n 4 ./a b"),
        ("mpiexec -ppn 2 ./a", &["n1", "n2"], "-hosts n1,n2 -ppn 2 -n 4 ./a"),
        ("mpiexec ./a", &["n1:2", "n2"], "-hosts n1:2,n2 -n 3 ./a"),
        (
            "mpiexec -launcher ssh -iface eth0 -l -n 1 ./a",
            &["n1"],
            "-launcher ssh -iface eth0 -hosts n1 -prepend-rank -n 1 ./a",
        ),
        (
            "mpiexec --fabric tcp -genv A 1 -n 1 -env B 2 ./a : -n 2 -wdir /w -envlist C,D ./b",
            &["n1"],
            "-hosts n1 -genv WEFT_FABRIC tcp -env A 1 -env B 2 -n 1 ./a : -envlist C,D -env A 1 -n 2 -wdir /w ./b",
        ),
        ("mpiexec -genvnone -n 1 ./a", &["n1"], "-hosts n1 -envnone -n 1 ./a"),
        (
            "mpiexec -bind-to core:2 -map-by socket -n 1 ./a",
            &["n1"],
            "-hosts n1 -bind-to core:2 -map-by socket -n 1 ./a",
        ),
        (
            "mpiexec --ft -n 2 ./a",
            &["n1"],
            "-hosts n1 -disable-auto-cleanup -genv WEFT_FT_MODE none -n 2 ./a",
        ),
    ] {
        assert_eq!(told(Kind::Hydra, line, names).as_deref(), Ok(expected), "{line}");
    }
    for (line, refused) in [
        ("mpiexec --nodes 2 -n 2 ./a", "--nodes: Hydra"),
        ("mpiexec --ft=rebuild -n 2 ./a", "--ft=rebuild, --max-restarts: Hydra"),
        ("mpiexec --stdin all -n 2 ./a", "--stdin: Hydra"),
        ("mpiexec --map-by ppr:2:socket -n 2 ./a", "--map-by ppr: Hydra"),
    ] {
        assert!(told(Kind::Hydra, line, &["n1"]).unwrap_err().starts_with(refused), "{line}");
    }
}

#[test]
fn prrte_is_told_in_its_words() {
    let over = "--map-by slot:OVERSUBSCRIBE";
    for (kind, line, expected) in [
        (Kind::Prterun, "mpirun -n 4 ./a", format!("{over} --host n1,n2:3 -n 4 ./a")),
        (
            Kind::Prterun,
            "mpirun --mca plm_ssh_agent x -n 4 ./a",
            format!("--prtemca plm_ssh_agent x {over} --host n1,n2:3 -n 4 ./a"),
        ),
        (
            Kind::OpenMpi,
            "mpirun -mca plm_ssh_agent x -n 4 ./a",
            format!("--mca plm_ssh_agent x {over} --host n1,n2:3 -n 4 ./a"),
        ),
        (
            Kind::Prterun,
            "mpirun -ppn 2 -l --bind-to core --fabric tcp ./a",
            "--map-by ppr:2:node:OVERSUBSCRIBE --bind-to core:overload-allowed --output rank --host n1,n2:3 -x WEFT_FABRIC=tcp -n 4 ./a"
                .to_owned(),
        ),
        (
            Kind::Prterun,
            "mpirun --map-by socket:PE=2 -n 1 -x A=0 -x A=1 -wdir /w ./a : -n 2 -x B ./b",
            "--map-by package:PE=2:OVERSUBSCRIBE --host n1,n2:3 -x A=1 -n 1 --wdir /w ./a : --host n1,n2:3 -x A=1 -x B -n 2 ./b"
                .to_owned(),
        ),
    ] {
        assert_eq!(told(kind, line, &["n1", "n2:3"]), Ok(expected), "{line}");
    }
    assert!(told(Kind::Prterun, "mpirun -genvnone -n 1 ./a", &["n1"]).unwrap_err().contains("env -i"));
}

#[test]
fn srun_is_told_in_its_words() {
    let srun = Kind::Srun("pmi2");
    let start = "--mpi=pmi2 --kill-on-bad-exit=1";
    for (line, names, expected) in [
        ("mpiexec -n 4 ./a b", &[][..], format!("{start} --ntasks=4 ./a b")),
        ("mpiexec ./a", &[], format!("{start} ./a")),
        ("mpiexec -n 4 ./a", &["n1", "n2"], format!("{start} --nodes=2 --nodelist=n1,n2 --ntasks=4 ./a")),
        (
            "mpiexec ./a",
            &["n1:2", "n2"],
            format!("{start} --distribution=arbitrary --nodelist=n1,n1,n2 --ntasks=3 ./a"),
        ),
        ("mpiexec -ppn 2 -n 4 -l ./a", &[], format!("{start} --ntasks=4 --ntasks-per-node=2 --label ./a")),
        (
            "mpiexec -bind-to core -map-by ppr:1:socket -wdir /w -n 2 ./a",
            &[],
            format!("{start} --ntasks=2 --cpu-bind=cores --ntasks-per-socket=1 --chdir=/w ./a"),
        ),
        (
            "mpiexec --stdin none -genvlist A,B -x C=1 -n 2 ./a",
            &[],
            format!("{start} --ntasks=2 --input=none --export=A,B,C ./a"),
        ),
        ("mpiexec --ft -n 2 ./a", &[], "--mpi=pmi2 --kill-on-bad-exit=0 --wait=0 --ntasks=2 ./a".to_owned()),
    ] {
        assert_eq!(told(srun, line, names), Ok(expected), "{line}");
    }
    let several = options("mpiexec --fabric tcp -n 1 -x A=1 ./a b : -n 3 -wdir /w ./c");
    let told = translate::translate(srun, &several, &[], false).unwrap();
    assert_eq!(shown(&told.words), format!("{start} --ntasks=4 --multi-prog FILE"));
    assert_eq!(told.environment, [("WEFT_FABRIC".into(), "tcp".into())]);
    let (at, text) = told.file.unwrap();
    assert_eq!(told.words[at], "FILE");
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "0 env WEFT_APPNUM=0 A=1 ./a b\n1-3 env -C /w WEFT_APPNUM=1 A=1 ./c\n"
    );
    let set = translate::translate(srun, &options("mpiexec -x A=1 -n 1 ./a"), &[], false).unwrap();
    assert_eq!(set.environment, [("A".into(), "1".into())]);
}

#[test]
fn commands_are_shown_as_they_would_be_typed() {
    let words = ["srun", "-n", "1", "sh", "-c", "echo 'a b'", ""].map(OsString::from);
    assert_eq!(shown(&words), r"srun -n 1 sh -c 'echo '\''a b'\''' ''");
}

#[test]
fn a_part_without_words_about_variables_has_none() {
    assert_eq!(options("mpiexec ./a").parts[0].environment, Environment::default());
}
