//! Which body serves a function, and how its arguments become the body's.
//!
//! Many functions come in two forms, `MPI_Send` with `int count` and `MPI_Send_c` with `MPI_Count count`. One body
//! serves both: scalars are widened, arrays and results travel in the small enums of `crates/abi/src/convert.rs`.
//! The three old functions with `_x` take the same types as the `_c` form and go where that one goes.

use super::bodies::{Bodies, Body};
use super::ctype::{CType, Parameter};
use super::tables::{Function, Tables};

/// Where calls of a function go.
pub enum Route<'a> {
    /// To a body that takes just these arguments.
    Plain(&'a Body),
    /// To a body that serves both forms; the conversion of each argument.
    Shared(&'a Body, Vec<Conversion>),
    /// Nowhere yet.
    Missing,
}

/// How an argument of either form becomes an argument of the shared body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Passed as it is.
    Same,
    /// Sign-extended, if need be, to the type named.
    Widen(&'static str),
    /// Wrapped in the enum named, in the variant that says what came.
    Wrap(&'static str),
}

/// Finds the body of `function`.
pub fn route<'a>(tables: &Tables, bodies: &'a Bodies, function: &Function) -> Route<'a> {
    let large_form = large_form(tables, function);
    let own = bodies.find(&function.body_name());
    let large_has_own = large_form.is_some_and(|large| bodies.find(&large.body_name()).is_some());
    match (own, large_form) {
        (Some(body), Some(large)) if !large_has_own => match conversions(function, large) {
            Some(conversions) => Route::Shared(body, conversions),
            None => Route::Plain(body),
        },
        (Some(body), _) => Route::Plain(body),
        (None, _) => route_of_variant(tables, bodies, function),
    }
}

/// The parameters of the body that would serve `function`: names and Rust types.
pub fn body_parameters(tables: &Tables, bodies: &Bodies, function: &Function) -> Vec<(String, String)> {
    let large_form = large_form(tables, function).filter(|large| bodies.find(&large.body_name()).is_none());
    let conversions = large_form.and_then(|large| conversions(function, large));
    let same = vec![Conversion::Same; function.parameters.len()];
    let pairs = function.parameters.iter().zip(conversions.unwrap_or(same));
    pairs.map(|(parameter, conversion)| (parameter.name.clone(), conversion.body_type(parameter))).collect()
}

impl Conversion {
    /// The Rust type that the body takes.
    pub fn body_type(self, parameter: &Parameter) -> String {
        match self {
            Conversion::Same => parameter.ctype.rust(),
            Conversion::Widen(name) | Conversion::Wrap(name) => name.to_string(),
        }
    }

    /// The Rust expression that makes the body's argument of the parameter, in the form that has it.
    pub fn argument(self, parameter: &Parameter) -> String {
        let Parameter { ctype, name } = parameter;
        match self {
            Conversion::Widen(wide) if ctype.base != wide => format!("{name} as {wide}"),
            Conversion::Wrap(wrapper) => format!("{wrapper}::{}({name})", variant(ctype)),
            Conversion::Same | Conversion::Widen(_) => name.clone(),
        }
    }
}

/// `MPI_Send_c` and `MPI_Type_size_x` are served by the body of the base, if it is one that can be shared.
fn route_of_variant<'a>(tables: &Tables, bodies: &'a Bodies, function: &Function) -> Route<'a> {
    if let Some(base) = tables.function(&function.variant_of) {
        let body = bodies.find(&base.body_name());
        return match (body, conversions(base, function)) {
            (Some(body), Some(conversions)) => Route::Shared(body, conversions),
            _ => Route::Missing,
        };
    }
    let twin = function.name.strip_suffix("_x").and_then(|base| tables.function(&format!("{base}_c")));
    match twin.filter(|twin| same_types(twin, function)) {
        Some(twin) => route(tables, bodies, twin),
        None => Route::Missing,
    }
}

fn large_form<'a>(tables: &'a Tables, function: &Function) -> Option<&'a Function> {
    tables.functions.iter().find(|other| other.variant_of == function.name)
}

fn same_types(left: &Function, right: &Function) -> bool {
    let types = |function: &Function| function.parameters.iter().map(|p| p.ctype.key()).collect::<Vec<_>>();
    types(left) == types(right)
}

/// One conversion per parameter, or `None` when the two forms differ in more than widths.
fn conversions(base: &Function, large: &Function) -> Option<Vec<Conversion>> {
    if base.parameters.len() != large.parameters.len() {
        return None;
    }
    let pairs = base.parameters.iter().zip(&large.parameters);
    pairs.map(|(base, large)| conversion(&base.ctype, &large.ctype)).collect()
}

fn conversion(base: &CType, large: &CType) -> Option<Conversion> {
    let (base, large) = (base.key(), large.key());
    Some(match (base.as_str(), large.as_str()) {
        (base, large) if base == large => Conversion::Same,
        ("int" | "MPI_Aint", "MPI_Count") => Conversion::Widen("MPI_Count"),
        ("int", "MPI_Aint") => Conversion::Widen("MPI_Aint"),
        ("int[]", "MPI_Count[]") => Conversion::Wrap("Counts"),
        ("int[]", "MPI_Aint[]") | ("MPI_Aint[]", "MPI_Count[]") => Conversion::Wrap("Displacements"),
        ("int*", "MPI_Count*" | "MPI_Aint*") | ("MPI_Aint*", "MPI_Count*") => Conversion::Wrap("CountOut"),
        ("MPI_User_function*", "MPI_User_function_c*") => Conversion::Wrap("UserFunction"),
        ("MPI_Datarep_conversion_function*", "MPI_Datarep_conversion_function_c*") => {
            Conversion::Wrap("DatarepFunction")
        }
        _ => return None,
    })
}

/// The variant of a wrapping enum that holds a value of this type.
fn variant(ctype: &CType) -> &'static str {
    match ctype.base.as_str() {
        "MPI_Aint" => "Aint",
        "MPI_Count" => "Count",
        base if base.ends_with("_function_c") => "Count",
        _ => "Int",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, parameters: &str, variant_of: &str) -> Function {
        Function {
            name: name.into(),
            result: CType::parse("int").unwrap(),
            parameters: super::super::ctype::parse_list(parameters, ';').unwrap(),
            variadic: false,
            variant_of: variant_of.into(),
            chapter: "datatypes".into(),
            since: "3.0".into(),
            deprecated_in: String::new(),
            note: String::new(),
        }
    }

    fn tables() -> Tables {
        let functions = vec![
            function("MPI_Type_size", "MPI_Datatype datatype; int* size", ""),
            function("MPI_Type_size_c", "MPI_Datatype datatype; MPI_Count* size", "MPI_Type_size"),
            function("MPI_Type_size_x", "MPI_Datatype datatype; MPI_Count* size", ""),
            function("MPI_Gatherv", "int n; const int counts[]; const int displs[]", ""),
            function(
                "MPI_Gatherv_c",
                "MPI_Count n; const MPI_Count counts[]; const MPI_Aint displs[]",
                "MPI_Gatherv",
            ),
            function("MPI_Get", "int a", ""),
            function("MPI_Get_c", "MPI_Count a; MPI_Count b", "MPI_Get"),
        ];
        Tables { constants: vec![], types: vec![], functions }
    }

    fn arguments(bodies: &[&str], name: &str) -> String {
        let (tables, bodies) = (tables(), Bodies::of(bodies));
        let function = tables.function(name).unwrap();
        match route(&tables, &bodies, function) {
            Route::Missing => "missing".into(),
            Route::Plain(body) => format!("plain {}", body.path),
            Route::Shared(_, conversions) => {
                let pairs = function.parameters.iter().zip(conversions);
                pairs
                    .map(|(parameter, conversion)| conversion.argument(parameter))
                    .collect::<Vec<_>>()
                    .join(", ")
            }
        }
    }

    #[test]
    fn one_body_serves_every_form() {
        assert_eq!(arguments(&["mpi_type_size"], "MPI_Type_size"), "datatype, CountOut::Int(size)");
        assert_eq!(arguments(&["mpi_type_size"], "MPI_Type_size_c"), "datatype, CountOut::Count(size)");
        assert_eq!(arguments(&["mpi_type_size"], "MPI_Type_size_x"), "datatype, CountOut::Count(size)");
        let base = arguments(&["mpi_gatherv"], "MPI_Gatherv");
        assert_eq!(base, "n as MPI_Count, Counts::Int(counts), Displacements::Int(displs)");
        let large = arguments(&["mpi_gatherv"], "MPI_Gatherv_c");
        assert_eq!(large, "n, Counts::Count(counts), Displacements::Aint(displs)");
    }

    #[test]
    fn a_body_of_its_own_is_preferred_and_makes_the_base_plain() {
        let bodies = ["mpi_type_size", "mpi_type_size_c"];
        assert_eq!(arguments(&bodies, "MPI_Type_size"), "plain crate::bodies::mpi_type_size");
        assert_eq!(arguments(&bodies, "MPI_Type_size_c"), "plain crate::bodies::mpi_type_size_c");
        assert_eq!(arguments(&bodies, "MPI_Type_size_x"), "plain crate::bodies::mpi_type_size_c");
    }

    #[test]
    fn forms_that_differ_in_shape_share_nothing() {
        assert_eq!(arguments(&["mpi_get"], "MPI_Get"), "plain crate::bodies::mpi_get");
        assert_eq!(arguments(&["mpi_get"], "MPI_Get_c"), "missing");
        assert_eq!(arguments(&[], "MPI_Get"), "missing");
    }

    #[test]
    fn body_types_are_the_widest() {
        let (tables, bodies) = (tables(), Bodies::of(&[]));
        let parameters = body_parameters(&tables, &bodies, tables.function("MPI_Gatherv").unwrap());
        let types: Vec<_> = parameters.iter().map(|(_, kind)| kind.as_str()).collect();
        assert_eq!(types, ["MPI_Count", "Counts", "Displacements"]);
    }
}
