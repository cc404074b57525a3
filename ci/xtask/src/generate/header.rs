//! `crates/abi/include/mpi.h`: types, constants and prototypes, plain C that C++ reads as well.

use std::fmt::Write as _;

use super::Error;
use super::chapters::CHAPTERS;
use super::tables::{Constant, Function, FunctionType, Tables, Type, TypeKind};

/// The header.
pub fn text(tables: &Tables) -> Result<String, Error> {
    let mut text = OPENING.to_string();
    text += &versions(tables);
    text += &object_types(tables);
    text += &enums(tables);
    text += &callback_types(tables);
    text += &macros(tables, false);
    for (prefix, remark) in [("", "Functions"), ("P", "The same functions for the use of profiling tools")] {
        let _ = write!(text, "\n/* ==== {remark} ==== */\n");
        text += &prototypes(tables, prefix, false);
    }
    text += BEYOND;
    text += &values(tables, true);
    text += &macros(tables, true);
    text += &prototypes(tables, "", true);
    text += &prototypes(tables, "P", true);
    Ok(text + CLOSING)
}

fn versions(tables: &Tables) -> String {
    let versions = tables.constants.iter().filter(|constant| constant.group == VERSION_GROUP);
    versions.map(|constant| define(&constant.name, &constant.value_text)).collect::<String>() + OPENING_OF_C
}

/// Handles, integers, `MPI_Status`.
fn object_types(tables: &Tables) -> String {
    let mut text = "\n/* Handles: pointers to structs that nobody completes. */\n".to_string();
    for kind in &tables.types {
        let name = &kind.name;
        if let TypeKind::Handle { tag, .. } = &kind.kind {
            let _ = writeln!(text, "typedef struct {tag} *{name};");
        }
    }
    text += "\n/* Addresses, file offsets, and counts that hold both. */\n";
    text + &values(tables, false)
}

/// Integers and structs, of the ABI or beyond it.
fn values(tables: &Tables, is_beyond: bool) -> String {
    let mut text = String::new();
    let types = || tables.types.iter().filter(|kind: &&Type| kind.is_beyond == is_beyond);
    for kind in types() {
        if let TypeKind::Integer(of) = &kind.kind {
            let _ = writeln!(text, "typedef {of} {};", kind.name);
        }
    }
    for kind in types() {
        if let TypeKind::Struct(members) = &kind.kind {
            let _ = writeln!(text, "\n/* What a receive tells; the last member belongs to the library. */");
            let lines: String = members.iter().map(|member| format!("    {member};\n")).collect();
            let _ = writeln!(text, "typedef struct {0} {{\n{lines}}} {0};", kind.name);
        }
    }
    text
}

/// Enums, named and unnamed. Groups of one family share an unnamed enum, so that C++ compares and joins them
/// quietly.
fn enums(tables: &Tables) -> String {
    let members: Vec<_> = tables.constants.iter().filter(|constant| constant.form == "enum member").collect();
    let mut families: Vec<&str> = Vec::new();
    for member in &members {
        if !families.contains(&family(&member.group)) {
            families.push(family(&member.group));
        }
    }
    let mut text = String::new();
    for name in families {
        let members: Vec<_> = members.iter().filter(|member| family(&member.group) == name).collect();
        let lines: Vec<_> = members
            .iter()
            .map(|member| format!("    {:<width$} = {}", member.name, member.value_text, width = NAME_WIDTH))
            .collect();
        let _ = write!(text, "\n/* {} */\n", capitalized(name));
        let _ = match members.first().map(|member| member.ctype.base.as_str()) {
            Some("int") | None => writeln!(text, "enum {{\n{}\n}};", lines.join(",\n")),
            Some(named) => writeln!(text, "typedef enum {named} {{\n{}\n}} {named};", lines.join(",\n")),
        };
    }
    text
}

fn callback_types(tables: &Tables) -> String {
    let mut text = "\n/* Functions that programs hand to the library. */\n".to_string();
    for kind in &tables.types {
        if let TypeKind::Function(function) = &kind.kind {
            let (list, result) = (c_list(&function.parameters, function.variadic), result_of(function));
            text += &wrapped(&format!("typedef {result} {}(", kind.name), &list, ");");
        }
    }
    for kind in &tables.types {
        if let TypeKind::Alias(of) = &kind.kind {
            let _ = writeln!(text, "typedef {of} {};", kind.name);
        }
    }
    text
}

fn result_of(function: &FunctionType) -> String {
    function.result.c_declaration("").trim_end().to_string()
}

/// Constants that are macros: lengths, handles, special addresses, predefined callbacks.
fn macros(tables: &Tables, is_beyond: bool) -> String {
    let mut text = String::new();
    let mut group = "";
    let constants = tables.constants.iter().filter(|constant| constant.is_beyond == is_beyond);
    let macros = constants.filter(|constant| constant.form.starts_with("macro"));
    for constant in macros.filter(|constant| constant.group != VERSION_GROUP) {
        if group != constant.group {
            group = &constant.group;
            let _ = write!(text, "\n/* {} */\n", capitalized(group));
        }
        text += &define(&constant.name, &macro_value(constant));
    }
    text
}

fn macro_value(constant: &Constant) -> String {
    if !constant.alias_of.is_empty() {
        return constant.alias_of.clone();
    }
    match constant.form.as_str() {
        "macro cast" => format!("(({}){})", constant.ctype.key(), constant.value_text),
        _ => constant.value_text.clone(),
    }
}

fn define(name: &str, value: &str) -> String {
    format!("#define {name:<width$} {value}\n", width = NAME_WIDTH)
}

fn prototypes(tables: &Tables, prefix: &str, is_beyond: bool) -> String {
    let mut text = String::new();
    for chapter in CHAPTERS {
        let functions = tables.chapter(chapter.key).filter(|function| function.is_beyond == is_beyond);
        let lines: String = functions.map(|function| prototype(function, prefix)).collect();
        if !lines.is_empty() {
            let _ = write!(text, "\n/* {} */\n{lines}", chapter.title);
        }
    }
    text
}

fn prototype(function: &Function, prefix: &str) -> String {
    let mark = match function.deprecated_in.as_str() {
        "" => String::new(),
        version => format!("WEFT_DEPRECATED(\"{version}\") "),
    };
    let head = format!("{mark}{}{prefix}{}(", function.result.c_declaration(""), function.name);
    wrapped(&head, &c_list(&function.parameters, function.variadic), ");")
}

fn c_list(parameters: &[super::ctype::Parameter], variadic: bool) -> Vec<String> {
    let mut list: Vec<_> = parameters.iter().map(|parameter| parameter.c()).collect();
    list.extend(variadic.then(|| "...".to_string()));
    if list.is_empty() { vec!["void".to_string()] } else { list }
}

/// `head item, item, … tail`, with as many items to a line as fit.
fn wrapped(head: &str, list: &[String], tail: &str) -> String {
    let mut text = String::new();
    let mut line = head.to_string();
    for (index, item) in list.iter().enumerate() {
        let last = index + 1 == list.len();
        let item = format!("{item}{}", if last { tail } else { "," });
        let gap = if line.ends_with('(') || line.trim().is_empty() { "" } else { " " };
        if line.len() + gap.len() + item.len() > WIDTH_MAX {
            text += line.trim_end();
            text += "\n";
            line = format!("        {item}");
        } else {
            line = format!("{line}{gap}{item}");
        }
    }
    text + &line + "\n"
}

/// `error class (last)` and `error class` are one family; so are the special numbers for ranks and tags.
fn family(group: &str) -> &str {
    match group {
        "wildcard" | "rank sentinel" | "undefined" => "special ranks, tags and results",
        "error class (tools)" => "error class of the tool interface",
        group if group.starts_with("mode bits") => "mode bits",
        group if group.starts_with("attribute key") => "attribute key",
        group => group.split(" (").next().unwrap_or(group),
    }
}

fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().collect::<String>() + rest.as_str()).unwrap_or_default()
}

const WIDTH_MAX: usize = 110;
const NAME_WIDTH: usize = 34;
const VERSION_GROUP: &str = "version";

const OPENING: &str = "\
/* @generated by cargo xtask generate
 *
 * mpi.h of weft: the C interface of MPI 5.0 with the standard ABI (libmpi_abi.so.1).
 * A program compiled against this header runs on every library that speaks this ABI, and the other way round, unless it uses
 * names of the last part, \"Beyond the ABI\".
 * Define WEFT_WARN_DEPRECATED before including it to be warned of deprecated functions.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef MPI_H
#define MPI_H

#include <stdint.h>

#if defined(WEFT_WARN_DEPRECATED) && defined(__GNUC__)
#define WEFT_DEPRECATED(version) __attribute__((deprecated(\"deprecated since MPI \" version)))
#else
#define WEFT_DEPRECATED(version)
#endif

";

const OPENING_OF_C: &str = "
#ifdef __cplusplus
extern \"C\" {
#endif
";

const BEYOND: &str = "
/* ==== Beyond the ABI ====
 *
 * MPI has these names and its standard ABI has not, since the size of Fortran's INTEGER is its compiler's affair. weft has them
 * for programs that name them in C; an INTEGER is an int. A program that uses these functions runs on weft only; on every
 * library of the ABI run MPI_Comm_toint, MPI_Comm_fromint and those of the other handles. */

";

const CLOSING: &str = "
#ifdef __cplusplus
}
#endif

#endif /* MPI_H */
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_between_parameters_only() {
        let list: Vec<_> = (0..9).map(|n| format!("const MPI_Count counts_{n}[]")).collect();
        let text = wrapped("int MPI_Many(", &list, ");");
        assert!(text.lines().all(|line| line.len() <= WIDTH_MAX));
        assert_eq!(text.replace("\n        ", " "), format!("int MPI_Many({});\n", list.join(", ")));
    }

    #[test]
    fn families_join_what_programs_mix() {
        assert_eq!(family("mode bits: file"), family("mode bits: window assertion"));
        assert_eq!(family("wildcard"), family("rank sentinel"));
        assert_eq!(family("error class (last)"), "error class");
        assert_ne!(family("error class (tools)"), "error class");
        assert_ne!(family("tools: scope"), family("tools: binding"));
    }

    #[test]
    fn an_empty_list_is_void() {
        assert_eq!(c_list(&[], false), ["void"]);
        assert_eq!(wrapped("double MPI_Wtime(", &c_list(&[], false), ");"), "double MPI_Wtime(void);\n");
    }
}
