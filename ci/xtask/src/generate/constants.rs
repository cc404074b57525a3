//! `generated/constants.rs`: every constant of the ABI with its Rust type.

use std::fmt::Write as _;

use super::tables::{Constant, Tables, TypeKind};
use super::{Error, MARK};

/// The file.
pub fn text(tables: &Tables) -> Result<String, Error> {
    let mut text = format!(
        "{MARK}//! Every constant of the ABI, in the order of the table.\n\n\
         use std::ffi::{{c_char, c_int, c_void}};\nuse std::ptr::without_provenance_mut;\n\n\
         use crate::types::*;\n"
    );
    let mut group = "";
    for constant in &tables.constants {
        if group != constant.group {
            group = &constant.group;
            let _ = write!(text, "\n// {group}\n\n");
        }
        text += &declaration(tables, constant);
    }
    Ok(text)
}

fn declaration(tables: &Tables, constant: &Constant) -> String {
    let (name, kind) = (&constant.name, constant.ctype.rust());
    let since = match constant.since.as_str() {
        "" => "an extension".to_string(),
        since => format!("in MPI since {since}"),
    };
    let alias = match constant.alias_of.as_str() {
        "" => String::new(),
        other => format!("; another name of [`{other}`]"),
    };
    let value = expression(tables, constant);
    format!("/// {}, {since}{alias}.\npub const {name}: {kind} = {value};\n", constant.group)
}

fn expression(tables: &Tables, constant: &Constant) -> String {
    let value = &constant.value_text;
    if constant.ctype.rust().starts_with('*') {
        return format!("without_provenance_mut({value})");
    }
    let kind = tables.types.iter().find(|kind| kind.name == constant.ctype.base).map(|kind| &kind.kind);
    match kind {
        Some(TypeKind::Handle { .. } | TypeKind::Function(_)) => {
            format!("{}::from_value({value})", constant.ctype.base)
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::ctype::CType;
    use crate::generate::tables::Type;

    fn constant(ctype: &str, value_text: &str) -> Constant {
        Constant {
            name: "MPI_X".into(),
            ctype: CType::parse(ctype).unwrap(),
            value_text: value_text.into(),
            form: "macro cast".into(),
            group: "group".into(),
            alias_of: String::new(),
            since: "1.1".into(),
            is_beyond: false,
        }
    }

    #[test]
    fn every_class_of_constant_has_its_expression() {
        let kind = TypeKind::Handle { tag: "MPI_ABI_Comm".into(), tools: false };
        let tables = Tables {
            constants: vec![],
            types: vec![Type { name: "MPI_Comm".into(), kind, is_beyond: false }],
            functions: vec![],
        };
        assert_eq!(expression(&tables, &constant("MPI_Comm", "0x101")), "MPI_Comm::from_value(0x101)");
        assert_eq!(expression(&tables, &constant("int", "-3")), "-3");
        assert_eq!(expression(&tables, &constant("char***", "0")), "without_provenance_mut(0)");
        assert!(declaration(&tables, &constant("int*", "10")).contains("MPI_X: *mut c_int = "));
    }
}
