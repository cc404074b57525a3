//! The exported functions: one short definition of every row, one Rust file per chapter. The macro
//! `exported!` of `crates/abi/src/entry.rs` makes `MPI_X` and `PMPI_X` of each.

use std::fmt::Write as _;

use super::bodies::{Bodies, Body};
use super::chapters::{CHAPTERS, Chapter};
use super::ctype::{CType, Parameter};
use super::signature::{Conversion, Route, Way, body_parameters, route};
use super::tables::{Function, Tables};
use super::{Error, MARK};

/// `generated/mod.rs`
pub fn root_module() -> String {
    let modules = ["constants", "functions", "types"];
    format!(
        "{MARK}//! What the committed tables say, as Rust: constants, types, and the exported functions.\n\n{}",
        modules.map(|module| format!("#[rustfmt::skip]\npub mod {module};\n")).concat()
    )
}

/// `generated/functions/mod.rs`
pub fn chapters_module() -> String {
    let mut names: Vec<_> = CHAPTERS.iter().map(|chapter| chapter.module).collect();
    names.sort_unstable();
    let modules: String = names.iter().map(|name| format!("#[rustfmt::skip]\npub mod {name};\n")).collect();
    format!(
        "{MARK}//! `MPI_X` and `PMPI_X` of every function, by chapter; each calls its hand-written body directly.\n\n\
         // The names and the numbers of parameters are MPI's; a function without a body uses none of them.\n\
         #![allow(non_snake_case, unused_variables, clippy::too_many_arguments)]\n\
         // A constant of the C ABI decides which casts are needed; on this platform some are not.\n\
         #![allow(clippy::unnecessary_cast, clippy::cast_lossless)]\n\
         // A function whose arguments are handles and numbers claims nothing.\n\
         #![allow(unused_unsafe)]\n\n\
         use std::ffi::{{c_char, c_double, c_int, c_void}};\n\n\
         use crate::bodies;\nuse crate::bodies::ways::Way;\nuse crate::claims::*;\nuse crate::convert::*;\n\
         use crate::entry::{{Target, exported}};\nuse crate::generated::constants::*;\n\
         use crate::missing::{{clear, clear_status, unsupported}};\nuse crate::types::*;\n\n{modules}"
    )
}

/// The file of one chapter.
pub fn text(tables: &Tables, bodies: &Bodies, chapter: &Chapter) -> Result<String, Error> {
    let functions = tables.chapter(chapter.key);
    let definitions: Result<Vec<_>, Error> =
        functions.map(|function| definition(function, route(tables, bodies, function))).collect();
    let definitions = definitions?.join("\n");
    Ok(format!("{MARK}//! {}.\n\nuse super::*;\n\nexported! {{\n{definitions}}}\n", chapter.title))
}

/// What the bodies of the functions that begin with one of `prefixes` must look like.
pub fn body_signatures(tables: &Tables, bodies: &Bodies, prefixes: &[String]) -> String {
    let wanted =
        |function: &&Function| prefixes.iter().any(|prefix| function.name.starts_with(prefix.as_str()));
    let mut text = String::new();
    for function in tables.functions.iter().filter(wanted) {
        let state = match route(tables, bodies, function) {
            Route::To(body, ..) => format!("served by {}", body.path),
            Route::Missing => "no body yet".to_string(),
        };
        let parameters = body_parameters(tables, bodies, function);
        let list: Vec<_> = parameters.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
        let (name, result) = (function.body_name(), function.result.rust());
        let _ =
            writeln!(text, "// {}: {state}\npub fn {name}({}) -> {result}", function.name, list.join(", "));
    }
    text
}

/// The lines of one function in the braces of `exported!`.
fn definition(function: &Function, route: Route<'_>) -> Result<String, Error> {
    let comment = filled(format!("`{}`{}.", function.name, remarks(function)).split(' '), "    /// ");
    let list: Vec<_> =
        function.parameters.iter().map(|p| format!("{}: {}", p.name, p.ctype.rust())).collect();
    let head = format!("    fn {}", function.name);
    let signature = broken(&head, &list, &format!(" -> {} {{", function.result.rust()));
    Ok(format!("{comment}{signature}\n{}    }}\n", body(function, route)?))
}

fn remarks(function: &Function) -> String {
    let mut text = match function.since.as_str() {
        "" => String::new(),
        since => format!(", in MPI since {since}"),
    };
    if !function.deprecated_in.is_empty() {
        let _ = write!(text, ", deprecated in {}", function.deprecated_in);
    }
    if !function.note.is_empty() {
        let _ = write!(text, "; {}", function.note);
    }
    if function.variadic {
        text += "; what C passes for the ellipsis is not looked at, so the declaration leaves it out";
    }
    text
}

/// The lines in the braces of a function.
fn body(function: &Function, route: Route<'_>) -> Result<String, Error> {
    match route {
        Route::To(body, conversions, way) => Ok(body_call(function, body, &conversions, way)),
        Route::Missing if function.result.key() == "int" => Ok(unsupported_call(function)),
        Route::Missing => Err(Error::Body {
            place: function.name.clone(),
            problem: "returns no error code and has no body".to_string(),
            remedy: "write its body under crates/abi/src/bodies; there is no way to say `unsupported` here",
        }),
    }
}

fn body_call(function: &Function, body: &Body, conversions: &[Conversion], way: Option<Way>) -> String {
    let pairs = function.parameters.iter().zip(conversions);
    let arguments = pairs.map(|(parameter, conversion)| conversion.argument(function, parameter));
    let list: Vec<_> = arguments.chain(way.map(|way| way.argument(function))).collect();
    broken(&format!("        {}", body.path), &list, "") + "\n"
}

/// What a function without a body does: it puts nothing where its results would go, and says that it is not
/// there.
fn unsupported_call(function: &Function) -> String {
    let cleared: String = cleared(function)
        .map(|(how, claim, name)| format!("        {how}({claim}::claim({name}));\n"))
        .collect();
    let answer = match tool_code(function) {
        Some(code) => format!("bodies::tools::answer({code})"),
        None => format!("unsupported(\"{}\", {})", function.name, target(function)),
    };
    format!("{cleared}        {answer}\n")
}

/// The parameters in which a function without a body leaves nothing, and by which function that is put there.
fn cleared(function: &Function) -> impl Iterator<Item = (&'static str, &'static str, &str)> {
    let is_tool = function.name.starts_with("MPI_T_");
    // What these are given is a handle already.
    let keeps = function.name.ends_with("_free") || function.name.ends_with("_close");
    let how = move |parameter: &Parameter| {
        let CType { constant, base, stars, brackets } = &parameter.ctype;
        // Texts and their lengths are asked for by tools; a length is also an argument.
        let asked = is_tool && (base == "char" || parameter.name.ends_with("_len"));
        if keeps || *constant || *stars != 1 || !brackets.is_empty() || asked {
            return None;
        }
        match base.as_str() {
            "MPI_Status" => Some(("clear_status", "StatusPlace")),
            base => (base == "int" || CLEARED.contains(&base)).then_some(("clear", "Place")),
        }
    };
    function.parameters.iter().filter_map(move |parameter| {
        let (how, claim) = how(parameter)?;
        Some((how, claim, parameter.name.as_str()))
    })
}

/// What a function of the tool interface answers that asks for one of the things that there are none of.
pub(super) fn tool_code(function: &Function) -> Option<&'static str> {
    let has_index =
        || function.parameters.iter().any(|p| p.name.ends_with("_index") && p.ctype.key() == "int");
    function.name.starts_with("MPI_T_").then(|| match has_index() {
        true => "MPI_T_ERR_INVALID_INDEX",
        false => "MPI_T_ERR_INVALID_HANDLE",
    })
}

/// Whose error handler hears of an unsupported call.
fn target(function: &Function) -> String {
    // MPI 5.0 section 14.7: where no file is open yet, the handler that files begin with hears of errors.
    if NO_FILE_YET.contains(&function.name.trim_end_matches("_c")) {
        return "Target::File(MPI_FILE_NULL)".to_string();
    }
    let owner = function.parameters.iter().find_map(|parameter| {
        let kind = OWNERS.iter().find(|owner| parameter.ctype.key() == format!("MPI_{owner}"))?;
        Some(format!("Target::{kind}({})", parameter.name))
    });
    owner.unwrap_or_else(|| "Target::World".to_string())
}

/// `head(list)tail`; where one line is too narrow, the items stand on lines of their own, as many on each as
/// fit.
fn broken(head: &str, list: &[String], tail: &str) -> String {
    let line = format!("{head}({}){tail}", list.join(", "));
    if line.len() <= WIDTH_MAX {
        return line;
    }
    let indent = " ".repeat(head.len() - head.trim_start().len());
    let items = list.iter().map(|item| format!("{item},"));
    format!("{head}(\n{}{indent}){tail}", filled(items, &format!("{indent}    ")))
}

/// Lines that begin with `start` and hold the items, with a space between two, as many on each as fit.
fn filled(items: impl Iterator<Item = impl AsRef<str>>, start: &str) -> String {
    let (mut text, mut line) = (String::new(), start.to_string());
    for item in items {
        let item = item.as_ref();
        if line.len() > start.len() {
            if line.len() + 1 + item.len() > WIDTH_MAX {
                let full = std::mem::replace(&mut line, start.to_string());
                text += &(full + "\n");
            } else {
                line.push(' ');
            }
        }
        line += item;
    }
    text + &line + "\n"
}

const WIDTH_MAX: usize = 110;

/// The classes of objects that carry an error handler.
const OWNERS: [&str; 4] = ["Comm", "Win", "File", "Session"];
/// The results that a function without a body sets to nothing, by their types.
const CLEARED: [&str; 14] = [
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_File",
    "MPI_Group",
    "MPI_Info",
    "MPI_Request",
    "MPI_T_cvar_handle",
    "MPI_T_enum",
    "MPI_T_event_registration",
    "MPI_T_pvar_handle",
    "MPI_Aint",
    "MPI_Count",
    "MPI_Offset",
    "char",
];
/// Functions of files that have no file.
const NO_FILE_YET: [&str; 3] = ["MPI_File_open", "MPI_File_delete", "MPI_Register_datarep"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::ctype::parse_list;

    fn function(result: &str, parameters: &str) -> Function {
        Function {
            name: "MPI_Some".into(),
            result: CType::parse(result).unwrap(),
            parameters: parse_list(parameters, ';').unwrap(),
            variadic: parameters.ends_with("..."),
            variant_of: String::new(),
            chapter: "rma".into(),
            since: "2.0".into(),
            deprecated_in: String::new(),
            note: String::new(),
            claims: vec![],
            is_beyond: false,
        }
    }

    #[test]
    fn the_first_owner_by_value_hears_of_errors() {
        assert_eq!(target(&function("int", "int assert; MPI_Win win; MPI_Comm comm")), "Target::Win(win)");
        assert_eq!(target(&function("int", "MPI_Comm* comm")), "Target::World");
        let mut opening = function("int", "MPI_Comm comm; MPI_File* fh");
        opening.name = "MPI_File_open".into();
        assert!(target(&opening).starts_with("Target::File("), "its communicator's is not asked");
    }

    #[test]
    fn tools_are_told_that_there_is_no_such_thing() {
        let mut tool = function("int", "int cvar_index; char* name; int* name_len; MPI_T_enum* enumtype");
        tool.name = "MPI_T_cvar_get_some".into();
        let text = body(&tool, Route::Missing).unwrap();
        assert!(
            text.contains("MPI_T_ERR_INVALID_INDEX") && text.contains("clear(Place::claim(enumtype))"),
            "{text}"
        );
        assert!(!text.contains("claim(name"), "{text}");
        tool.parameters = parse_list("MPI_T_cvar_handle handle; void* buf", ';').unwrap();
        assert!(body(&tool, Route::Missing).unwrap().contains("MPI_T_ERR_INVALID_HANDLE"));
    }

    #[test]
    fn results_of_functions_that_are_not_there_are_nothing() {
        let opening =
            function("int", "MPI_Comm comm; const char* name; int given[]; MPI_File* fh; MPI_Status* status");
        let text = body(&opening, Route::Missing).unwrap();
        assert!(
            text.contains("clear(Place::claim(fh))")
                && text.contains("clear_status(StatusPlace::claim(status))"),
            "{text}"
        );
        assert!(!text.contains("(name)") && !text.contains("(given)"), "{text}");
        let mut closing = function("int", "MPI_File* fh");
        closing.name = "MPI_File_close".into();
        assert!(!body(&closing, Route::Missing).unwrap().contains("clear"));
    }

    #[test]
    fn a_definition_is_a_few_lines() {
        let text = definition(&function("int", "MPI_Win win"), Route::Missing).unwrap();
        let lines = [
            "    /// `MPI_Some`, in MPI since 2.0.",
            "    fn MPI_Some(win: MPI_Win) -> c_int {",
            "        unsupported(\"MPI_Some\", Target::Win(win))",
            "    }",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn a_function_without_error_code_needs_a_body() {
        let error = body(&function("double", "void"), Route::Missing).unwrap_err().to_string();
        assert!(error.contains("MPI_Some") && error.contains("body"), "{error}");
    }

    #[test]
    fn what_is_too_long_for_a_line_fills_several() {
        let list: Vec<_> = (0..12).map(|n| format!("argument_number_{n}: c_int")).collect();
        let text = broken("    fn f", &list, " -> c_int {");
        assert_eq!(text.lines().count(), 2 + 12_usize.div_ceil(3));
        assert!(text.lines().all(|line| line.len() <= WIDTH_MAX), "{text}");
        assert_eq!(text.split_whitespace().filter(|word| word.starts_with("argument_number_")).count(), 12);
        assert!(text.ends_with("c_int,\n    ) -> c_int {"), "{text}");
        assert_eq!(
            broken("    fn f", &list[..2], ""),
            "    fn f(argument_number_0: c_int, argument_number_1: c_int)"
        );
    }
}
