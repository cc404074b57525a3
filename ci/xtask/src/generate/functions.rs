//! The exported functions: `MPI_X` and `PMPI_X` of every row, one Rust file per chapter.
//!
//! Both call the same body directly and neither calls the other, so a tool that replaces `MPI_X` sees the program's
//! calls alone, and `PMPI_X` always reaches this library.

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
         #![allow(non_snake_case, unused_variables, unused_imports, clippy::too_many_arguments)]\n\
         // A constant of the C ABI decides which casts are needed; on this platform some are not.\n\
         #![allow(clippy::unnecessary_cast, clippy::cast_lossless)]\n\n{modules}"
    )
}

/// The file of one chapter.
pub fn text(tables: &Tables, bodies: &Bodies, chapter: &Chapter) -> Result<String, Error> {
    let mut text = format!(
        "{MARK}//! {}.\n\nuse std::ffi::{{c_char, c_double, c_int, c_void}};\n\n\
         use crate::bodies::ways::Way;\nuse crate::convert::*;\nuse crate::entry::{{Entry, Target, run}};\nuse crate::types::*;\n",
        chapter.title
    );
    for function in tables.chapter(chapter.key) {
        let call = call(function, route(tables, bodies, function))?;
        for prefix in ["", "P"] {
            text += &definition(function, prefix, &call);
        }
    }
    Ok(text)
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
        let _ = writeln!(
            text,
            "// {}: {state}\npub unsafe fn {name}({}) -> {result}",
            function.name,
            list.join(", ")
        );
    }
    text
}

fn definition(function: &Function, prefix: &str, call: &str) -> String {
    let mut text = format!("\n/// `{prefix}{}`{}.\n///\n", function.name, remarks(function));
    text +=
        "/// # Safety\n/// The caller keeps what the MPI standard asks of the callers of this function.\n";
    text += "#[unsafe(no_mangle)]\n";
    let list: Vec<_> =
        function.parameters.iter().map(|p| format!("{}: {}", p.name, p.ctype.rust())).collect();
    let head = format!("pub unsafe extern \"C-unwind\" fn {prefix}{}", function.name);
    let _ = writeln!(text, "{} -> {} {{", broken(&head, &list, ""), function.result.rust());
    text + call + "}\n"
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

/// The statement in the braces.
fn call(function: &Function, route: Route<'_>) -> Result<String, Error> {
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
    let arguments = pairs.map(|(parameter, conversion)| conversion.argument(parameter));
    let list: Vec<_> = arguments.chain(way.map(|way| way.argument(function))).collect();
    if !body.is_unsafe && list.is_empty() {
        return format!("    run({})\n", body.path);
    }
    if !body.is_unsafe {
        return format!("    run(|| {})\n", broken(&body.path, &list, "    "));
    }
    let call = format!("    run(|| unsafe {{ {}({}) }})", body.path, list.join(", "));
    let note = "    // SAFETY: the caller's promise is the body's, and widening keeps values.\n";
    if call.len() <= WIDTH_MAX {
        return format!("{note}{call}\n");
    }
    format!("{note}    run(|| unsafe {{\n        {}\n    }})\n", broken(&body.path, &list, "        "))
}

/// What a function without a body does: it puts nothing where its results would go, and says that it is not there.
fn unsupported_call(function: &Function) -> String {
    let outputs: String =
        cleared(function).map(|(how, name)| format!("        crate::missing::{how}({name});\n")).collect();
    let cleared = match outputs.is_empty() {
        true => outputs,
        false => {
            format!("    // SAFETY: the caller gives places for results.\n    unsafe {{\n{outputs}    }}\n")
        }
    };
    let answer = match tool_code(function) {
        Some(code) => format!("crate::bodies::tools::answer(crate::generated::constants::{code})"),
        None => {
            let target = target(function);
            format!("crate::missing::unsupported(&Entry {{ name: \"{}\" }}, {target})", function.name)
        }
    };
    format!("{cleared}    run(|| {answer})\n")
}

/// The parameters in which a function without a body leaves nothing, and by which function that is put there.
fn cleared(function: &Function) -> impl Iterator<Item = (&'static str, &str)> {
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
            "MPI_Status" => Some("clear_status"),
            base => (base == "int" || CLEARED.contains(&base)).then_some("clear"),
        }
    };
    function.parameters.iter().filter_map(move |parameter| Some((how(parameter)?, parameter.name.as_str())))
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
        return "Target::File(crate::generated::constants::MPI_FILE_NULL)".to_string();
    }
    let owner = function.parameters.iter().find_map(|parameter| {
        let kind = OWNERS.iter().find(|owner| parameter.ctype.key() == format!("MPI_{owner}"))?;
        Some(format!("Target::{kind}({})", parameter.name))
    });
    owner.unwrap_or_else(|| "Target::World".to_string())
}

/// `head(list)`, on several lines when one is too narrow.
fn broken(head: &str, list: &[String], indent: &str) -> String {
    let line = format!("{head}({})", list.join(", "));
    if indent.len() + line.len() + ENDING_MAX <= WIDTH_MAX {
        return line;
    }
    let lines: String = list.iter().map(|item| format!("{indent}    {item},\n")).collect();
    format!("{head}(\n{lines}{indent})")
}

const WIDTH_MAX: usize = 110;
/// Room for ` -> MPI_Errhandler {`.
const ENDING_MAX: usize = 20;
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
        let text = call(&tool, Route::Missing).unwrap();
        assert!(text.contains("MPI_T_ERR_INVALID_INDEX") && text.contains("clear(enumtype)"), "{text}");
        assert!(!text.contains("clear(name"), "{text}");
        tool.parameters = parse_list("MPI_T_cvar_handle handle; void* buf", ';').unwrap();
        assert!(call(&tool, Route::Missing).unwrap().contains("MPI_T_ERR_INVALID_HANDLE"));
    }

    #[test]
    fn results_of_functions_that_are_not_there_are_nothing() {
        let opening =
            function("int", "MPI_Comm comm; const char* name; int given[]; MPI_File* fh; MPI_Status* status");
        let text = call(&opening, Route::Missing).unwrap();
        assert!(text.contains("missing::clear(fh)") && text.contains("clear_status(status)"), "{text}");
        assert!(!text.contains("clear(name)") && !text.contains("clear(given)"), "{text}");
        let mut closing = function("int", "MPI_File* fh");
        closing.name = "MPI_File_close".into();
        assert!(!call(&closing, Route::Missing).unwrap().contains("clear"));
    }

    #[test]
    fn both_names_hold_the_same_call() {
        let function = function("int", "MPI_Win win");
        let call = call(&function, Route::Missing).unwrap();
        let (own, profiled) = (definition(&function, "", &call), definition(&function, "P", &call));
        assert!(
            own.contains(
                "fn MPI_Some(win: MPI_Win) -> c_int {\n    run(|| crate::missing::unsupported(&Entry"
            ),
            "{own}"
        );
        assert_eq!(own, profiled.replace("PMPI_", "MPI_"));
    }

    #[test]
    fn a_function_without_error_code_needs_a_body() {
        let error = call(&function("double", "void"), Route::Missing).unwrap_err().to_string();
        assert!(error.contains("MPI_Some") && error.contains("body"), "{error}");
    }

    #[test]
    fn long_lists_take_a_line_each() {
        let list: Vec<_> = (0..12).map(|n| format!("argument_number_{n}: c_int")).collect();
        let text = broken("fn f", &list, "");
        assert_eq!(text.lines().count(), 14);
        assert!(text.lines().all(|line| line.len() <= WIDTH_MAX));
    }
}
