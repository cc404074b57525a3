//! `mpi.h` says what the tables say: the C and C++ compilers compare every value, size, offset and prototype.
//!
//! The checks are spelled from the tables here, apart from the generator that wrote the header.

mod common;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{Row, compile, crate_folder, succeed, table};

#[test]
fn the_header_is_clean_in_every_dialect() {
    let (folder, source) =
        source("#include <mpi.h>\n#include <mpi.h>\nint done(void);\nint done(void) { return 0; }\n");
    let object = folder.path().join("object.o");
    for (compiler, dialect) in
        [("cc", "c99"), ("cc", "c11"), ("cc", "c17"), ("c++", "c++11"), ("c++", "c++17"), ("c++", "c++20")]
    {
        for warn in ["-UWEFT_WARN_DEPRECATED", "-DWEFT_WARN_DEPRECATED"] {
            let (language, standard) = (language(compiler), format!("-std={dialect}"));
            compile(
                compiler,
                &[&standard, warn, "-x", language, "-c", "-o", object.to_str().unwrap()],
                &source,
                None,
            );
        }
    }
}

#[test]
fn deprecated_functions_warn_only_when_asked() {
    let (folder, source) = source(
        "#include <mpi.h>\nint use(MPI_Comm c);\nint use(MPI_Comm c) { return MPI_Attr_delete(c, 0); }\n",
    );
    let object = folder.path().join("object.o");
    let arguments = ["-c", "-o", object.to_str().unwrap()];
    compile("cc", &arguments, &source, None);
    let include = format!("-I{}", crate_folder().join("include").display());
    let asked =
        Command::new("cc").args(["-DWEFT_WARN_DEPRECATED", &include]).args(arguments).arg(&source).output();
    let complaints = String::from_utf8(asked.expect("cc runs").stderr).expect("text");
    assert!(complaints.contains("deprecated since MPI 2.0"), "{complaints}");
}

#[test]
fn integers_sizes_and_offsets_are_the_tables() {
    let constants = table("constants");
    let mut text = String::from("#include <mpi.h>\n#include <stddef.h>\n");
    text += "#ifndef __cplusplus\n#define alignof _Alignof\n#define static_assert _Static_assert\n#endif\n";
    let mut integers = 0;
    for row in constants.iter().filter(|row| row["c_type"] == "int" || row["form"] == "enum member") {
        let _ = writeln!(text, "static_assert({} == {}, \"{}\");", row["name"], row["value"], row["name"]);
        integers += 1;
    }
    assert!(integers > 200, "only {integers} integer constants in the table");
    for row in table("types").into_iter().chain(table("beyond/types")) {
        text += &size_checks(&row);
    }
    compile_both(&text);
}

#[test]
fn handles_and_addresses_are_the_tables() {
    let mut text = String::from("#include <mpi.h>\n#include <stdio.h>\n");
    let mut checks = String::new();
    let constants: Vec<Row> = table("constants").into_iter().chain(table("beyond/constants")).collect();
    for row in constants.iter().filter(|row| row["form"] == "macro cast") {
        let (name, value) = (&row["name"], &row["value"]);
        let _ = writeln!(text, "static {} const typed_{name} = {name};", row["c_type"]);
        let _ = writeln!(checks, "    wrong += differs(\"{name}\", (intptr_t)typed_{name}, {value});");
    }
    assert!(checks.lines().count() > 100, "{checks}");
    text += "static int differs(const char *name, intptr_t is, intptr_t should) {\n\
             \x20   if (is != should) printf(\"%s is %ld, not %ld\\n\", name, (long)is, (long)should);\n\
             \x20   return is != should;\n}\n";
    let _ = write!(text, "int main(void) {{\n    int wrong = 0;\n{checks}    return wrong != 0;\n}}\n");
    let (folder, source) = source(&text);
    let program = folder.path().join("program");
    for compiler in ["cc", "c++"] {
        compile(compiler, &["-x", language(compiler), "-o", program.to_str().unwrap()], &source, None);
        succeed(&mut Command::new(&program));
    }
}

#[test]
fn prototypes_are_the_tables() {
    let functions = table("functions");
    assert_eq!(functions.len(), 664);
    let mut text = String::from("#include <mpi.h>\n");
    for row in functions.iter().chain(&table("beyond/functions")) {
        let (name, result, list) = (&row["name"], &row["return_type"], row["parameters"].replace(';', ","));
        for prefix in ["", "P"] {
            let _ = writeln!(text, "extern {result} (*const check_{prefix}{name})({list});");
            let _ = writeln!(text, "{result} (*const check_{prefix}{name})({list}) = {prefix}{name};");
        }
    }
    for row in table("types").iter().filter(|row| row["kind"] == "function type") {
        let (name, pointer) = (&row["name"], row["definition"].replacen('(', "(*const check)(", 1));
        let _ = writeln!(text, "void use_{name}({name} *given);");
        let _ = writeln!(text, "void use_{name}({name} *given) {{ {pointer} = given; (void)check; }}");
    }
    compile_both(&text);
}

#[test]
fn a_wrong_prototype_would_be_noticed() {
    let (folder, source) = source("#include <mpi.h>\nint (*const check)(MPI_Comm, long) = MPI_Abort;\n");
    let include = format!("-I{}", crate_folder().join("include").display());
    for compiler in ["cc", "c++"] {
        let object = folder.path().join("object.o");
        let mut command = Command::new(compiler);
        command.args(["-Werror", &include, "-x", language(compiler), "-c", "-o"]).arg(object).arg(&source);
        assert!(!command.output().expect("the compiler runs").status.success(), "{compiler} accepted it");
    }
}

#[test]
fn rust_constants_are_the_tables() {
    let text = fs::read_to_string(crate_folder().join("src/generated/constants.rs")).expect("constants.rs");
    let constants = table("constants");
    assert_eq!(constants.len(), 365);
    for row in constants {
        let begin = format!("pub const {}: ", row["name"]);
        let line =
            text.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("no `{begin}`"));
        let expression = line.split(" = ").nth(1).expect("a value").trim_end_matches([';', ')']);
        let value = expression.rsplit('(').next().expect("a number");
        assert_eq!(value, row["value"], "{line}");
    }
}

fn size_checks(row: &Row) -> String {
    let name = &row["name"];
    let mut text = String::new();
    if !row["size_lp64"].is_empty() {
        let _ = writeln!(text, "static_assert(sizeof({name}) == {}, \"{name}\");", row["size_lp64"]);
        let _ = writeln!(text, "static_assert(alignof({name}) == {}, \"{name}\");", row["align_lp64"]);
    }
    for member in row["definition"].split(';').filter(|_| row["kind"] == "struct") {
        let (declaration, offset) = member.split_once('@').expect("an offset");
        let field = declaration.split_whitespace().nth(1).expect("a name").split('[').next().expect("a name");
        let _ = writeln!(text, "static_assert(offsetof({name}, {field}) == {offset}, \"{field}\");");
    }
    text
}

fn compile_both(text: &str) {
    let (folder, source) = source(text);
    let object = folder.path().join("object.o");
    for (compiler, standard) in [("cc", "-std=c11"), ("c++", "-std=c++11")] {
        let arguments = [standard, "-x", language(compiler), "-c", "-o", object.to_str().unwrap()];
        compile(compiler, &arguments, &source, None);
    }
}

fn language(compiler: &str) -> &'static str {
    if compiler == "cc" { "c" } else { "c++" }
}

fn source(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("check.c");
    fs::write(&path, text).expect("the source is written");
    (folder, path)
}
