//! All tests of this crate from outside, in one program: each of them runs the same engine on the simulated fabric, which takes
//! longest to compile.

mod crash_points;
mod failures;
mod parts;
mod programs;
mod scattered;

#[test]
fn each_file_here_is_compiled() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs") else { continue };
        let named = include_str!("main.rs").lines().any(|line| line == format!("mod {module};"));
        assert!(named || module == "main", "main.rs does not name {name}");
    }
}
