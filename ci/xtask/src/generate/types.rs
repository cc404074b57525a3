//! `generated/types.rs`: handles and callbacks as Rust types, through the macros of
//! `crates/abi/src/types.rs`.

use std::fmt::Write as _;

use super::tables::{FunctionType, Tables, TypeKind};
use super::{Error, MARK};

/// The file. Integers and `MPI_Status` are written by hand in `crates/abi/src/types.rs`.
pub fn text(tables: &Tables) -> Result<String, Error> {
    let mut text = format!(
        "{MARK}//! Handles and callbacks of the ABI.\n\nuse std::ffi::{{c_int, c_void}};\n\n\
         use crate::types::{{MPI_Aint, MPI_Count, MPI_Offset, MPI_Status, callback, handle}};\n\n"
    );
    for kind in &tables.types {
        let name = &kind.name;
        let _ = match &kind.kind {
            TypeKind::Handle { tools: false, .. } => writeln!(text, "handle!({name});"),
            TypeKind::Handle { tools: true, .. } => {
                writeln!(text, "handle!({name}); // tool interface; null is 0")
            }
            TypeKind::Enum => writeln!(text, "/// A C enum.\npub type {name} = c_int;"),
            TypeKind::Alias(of) => writeln!(text, "/// Another name of [`{of}`].\npub type {name} = {of};"),
            TypeKind::Function(function) => writeln!(text, "callback!({name}, {});", pointer(function)),
            TypeKind::Integer(_) | TypeKind::Struct(_) => Ok(()),
        };
    }
    Ok(text)
}

fn pointer(function: &FunctionType) -> String {
    let mut list: Vec<_> = function.parameters.iter().map(|parameter| parameter.ctype.rust()).collect();
    list.extend(function.variadic.then(|| "...".to_string()));
    let result = match function.result.key().as_str() {
        "void" => String::new(),
        _ => format!(" -> {}", function.result.rust()),
    };
    format!("unsafe extern \"C-unwind\" fn({}){result}", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::ctype::{CType, parse_list};

    #[test]
    fn callbacks_are_c_functions() {
        let function = |result: &str, variadic| FunctionType {
            result: CType::parse(result).unwrap(),
            parameters: parse_list("MPI_Comm *comm, int flag", ',').unwrap(),
            variadic,
        };
        assert_eq!(
            pointer(&function("int", false)),
            "unsafe extern \"C-unwind\" fn(*mut MPI_Comm, c_int) -> c_int"
        );
        assert_eq!(
            pointer(&function("void", true)),
            "unsafe extern \"C-unwind\" fn(*mut MPI_Comm, c_int, ...)"
        );
    }
}
