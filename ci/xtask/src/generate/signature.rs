//! Which body serves a function, and how its arguments become the body's.
//!
//! Many functions come in two forms, `MPI_Send` with `int count` and `MPI_Send_c` with `MPI_Count count`. One
//! body serves both: scalars are widened, arrays and results travel in the small enums of
//! `crates/abi/src/convert.rs`. The three old functions with `_x` take the same types as the `_c` form and go
//! where that one goes.
//!
//! A function beyond the ABI that only has another name than one of the ABI's goes where that one goes.
//!
//! A collective operation is called in three ways, `MPI_Bcast`, `MPI_Ibcast` and `MPI_Bcast_init`: a body
//! that takes a `Way` serves them all.

use super::bodies::{Bodies, Body};
use super::claims::Claim;
use super::ctype::{CType, Parameter};
use super::tables::{Function, Tables};

/// The body that calls of a function go to.
pub enum Route<'a> {
    /// To a body: the conversion of each argument, and the way of the call where the body serves several. The
    /// last arguments of calls in other ways than the first have no conversion: the way holds them.
    To(&'a Body, Vec<Conversion>, Option<Way>),
    /// Nowhere yet.
    Missing,
}

/// How a collective operation is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The call returns when the operation is over.
    Blocking,
    /// The call begins the operation and returns a request.
    Begun,
    /// The call makes a persistent request, to be begun later.
    Planned,
}

impl Way {
    /// The Rust expression that makes the body's last argument in a call of `function`.
    pub fn argument(self, function: &Function) -> String {
        let name = function.name.trim_end_matches("_c");
        match self {
            Way::Blocking => format!("Way::blocking(\"{name}\")"),
            Way::Begun => format!("Way::begun(\"{name}\", Place::claim(request))"),
            Way::Planned => format!("Way::planned(\"{name}\", info, Place::claim(request))"),
        }
    }

    /// What `function` does in another way than the first, and that way.
    fn of<'a>(tables: &'a Tables, function: &Function) -> Option<(&'a Function, Way)> {
        let (name, large) = match function.name.strip_suffix("_c") {
            Some(name) => (name, "_c"),
            None => (function.name.as_str(), ""),
        };
        let (plain, way) = match (name.strip_suffix("_init"), name.strip_prefix("MPI_I")) {
            (Some(plain), _) => (plain.to_owned(), Way::Planned),
            (_, Some(rest)) => {
                let first = rest.chars().next()?.to_ascii_uppercase();
                (format!("MPI_{first}{}", rest.get(1..)?), Way::Begun)
            }
            _ => return None,
        };
        Some((tables.function(&format!("{plain}{large}"))?, way))
    }
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
    if let Some(twin) = tables.function(&function.variant_of).filter(|_| function.is_beyond) {
        return route(tables, bodies, twin);
    }
    let large_form = large_form(tables, function);
    let own = bodies.find(&function.body_name());
    let large_has_own = large_form.is_some_and(|large| bodies.find(&large.body_name()).is_some());
    match (own, large_form) {
        (Some(body), Some(large)) if !large_has_own => {
            to(body, conversions(function, large).unwrap_or_else(|| as_they_are(function)))
        }
        (Some(body), _) => to(body, as_they_are(function)),
        (None, _) => match route_of_variant(tables, bodies, function) {
            Route::Missing => route_of_way(tables, bodies, function),
            route => route,
        },
    }
}

fn to(body: &Body, conversions: Vec<Conversion>) -> Route<'_> {
    Route::To(body, conversions, body.has_ways.then_some(Way::Blocking))
}

fn as_they_are(function: &Function) -> Vec<Conversion> {
    vec![Conversion::Same; function.parameters.len()]
}

/// `MPI_Ibcast` and `MPI_Bcast_init` go where `MPI_Bcast` goes.
fn route_of_way<'a>(tables: &Tables, bodies: &'a Bodies, function: &Function) -> Route<'a> {
    let Some((blocking, way)) = Way::of(tables, function) else { return Route::Missing };
    match route(tables, bodies, blocking) {
        Route::To(body, conversions, Some(_)) => Route::To(body, conversions, Some(way)),
        _ => Route::Missing,
    }
}

/// The parameters of the body that would serve `function`: names and Rust types.
pub fn body_parameters(tables: &Tables, bodies: &Bodies, function: &Function) -> Vec<(String, String)> {
    let large_form = large_form(tables, function).filter(|large| bodies.find(&large.body_name()).is_none());
    let conversions = large_form.and_then(|large| conversions(function, large));
    let pairs = function.parameters.iter().zip(conversions.unwrap_or_else(|| as_they_are(function)));
    pairs
        .map(|(parameter, conversion)| (parameter.name.clone(), conversion.body_type(function, parameter)))
        .collect()
}

impl Conversion {
    /// The Rust type that the body takes.
    pub fn body_type(self, function: &Function, parameter: &Parameter) -> String {
        let claim = Claim::of(function, parameter);
        match self {
            Conversion::Same => claim.map_or_else(|| parameter.ctype.rust(), |claim| claim.body_type()),
            Conversion::Widen(name) => name.to_string(),
            Conversion::Wrap(wrapper) => match claim {
                Some(claim) if claim.kind() != "Callback" => format!("{}<'_>", wrapper_of(wrapper, &claim)),
                _ => wrapper.to_string(),
            },
        }
    }

    /// The Rust expression that makes the body's argument of the parameter, in the form that has it.
    pub fn argument(self, function: &Function, parameter: &Parameter) -> String {
        let Parameter { ctype, name } = parameter;
        let claim = Claim::of(function, parameter);
        let claimed = claim.as_ref().map_or_else(|| name.clone(), |claim| claim.expression(name));
        match self {
            Conversion::Widen(wide) if ctype.base != wide => format!("{name} as {wide}"),
            Conversion::Wrap(wrapper) => {
                let wrapper = claim.as_ref().map_or(wrapper, |claim| wrapper_of(wrapper, claim));
                format!("{wrapper}::{}({claimed})", variant(ctype))
            }
            Conversion::Same | Conversion::Widen(_) => claimed,
        }
    }
}

/// The enum that holds a number in either width: another one where the number is read as well.
fn wrapper_of(wrapper: &'static str, claim: &Claim) -> &'static str {
    if claim.kind() == "Variable" { "Position" } else { wrapper }
}

/// `MPI_Send_c` and `MPI_Type_size_x` are served by the body of the base, if it is one that can be shared.
fn route_of_variant<'a>(tables: &Tables, bodies: &'a Bodies, function: &Function) -> Route<'a> {
    if let Some(base) = tables.function(&function.variant_of) {
        let body = bodies.find(&base.body_name());
        return match (body, conversions(base, function)) {
            (Some(body), Some(conversions)) => to(body, conversions),
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
    tables.functions.iter().find(|other| !other.is_beyond && other.variant_of == function.name)
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
            claims: vec![],
            is_beyond: false,
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
            function("MPI_Bcast", "int n", ""),
            function("MPI_Bcast_c", "MPI_Count n", "MPI_Bcast"),
            function("MPI_Ibcast", "int n; MPI_Request* request", ""),
            function("MPI_Ibcast_c", "MPI_Count n; MPI_Request* request", "MPI_Ibcast"),
            function("MPI_Bcast_init", "int n; MPI_Info info; MPI_Request* request", ""),
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
            Route::To(body, conversions, None) if conversions == as_they_are(function) => {
                format!("plain {}", body.path)
            }
            Route::To(_, conversions, way) => {
                let pairs = function.parameters.iter().zip(conversions);
                let arguments = pairs.map(|(parameter, conversion)| conversion.argument(function, parameter));
                arguments.chain(way.map(|way| way.argument(function))).collect::<Vec<_>>().join(", ")
            }
        }
    }

    #[test]
    fn one_body_serves_every_way() {
        let body = &["mpi_bcast*"];
        assert_eq!(arguments(body, "MPI_Bcast_c"), "n, Way::blocking(\"MPI_Bcast\")");
        assert_eq!(
            arguments(body, "MPI_Ibcast"),
            "n as MPI_Count, Way::begun(\"MPI_Ibcast\", Place::claim(request))"
        );
        assert_eq!(arguments(body, "MPI_Ibcast_c"), "n, Way::begun(\"MPI_Ibcast\", Place::claim(request))");
        let planned = "n as MPI_Count, Way::planned(\"MPI_Bcast_init\", info, Place::claim(request))";
        assert_eq!(arguments(body, "MPI_Bcast_init"), planned);
        assert_eq!(arguments(&["mpi_bcast"], "MPI_Ibcast"), "missing");
        assert_eq!(
            arguments(&["mpi_bcast*", "mpi_ibcast"], "MPI_Ibcast"),
            "n as MPI_Count, Place::claim(request)"
        );
    }

    #[test]
    fn one_body_serves_every_form() {
        assert_eq!(
            arguments(&["mpi_type_size"], "MPI_Type_size"),
            "datatype, CountOut::Int(Place::claim(size))"
        );
        assert_eq!(
            arguments(&["mpi_type_size"], "MPI_Type_size_c"),
            "datatype, CountOut::Count(Place::claim(size))"
        );
        assert_eq!(
            arguments(&["mpi_type_size"], "MPI_Type_size_x"),
            "datatype, CountOut::Count(Place::claim(size))"
        );
        let base = arguments(&["mpi_gatherv"], "MPI_Gatherv");
        assert_eq!(
            base,
            "n as MPI_Count, Counts::Int(List::claim(counts)), Displacements::Int(List::claim(displs))"
        );
        let large = arguments(&["mpi_gatherv"], "MPI_Gatherv_c");
        assert_eq!(large, "n, Counts::Count(List::claim(counts)), Displacements::Aint(List::claim(displs))");
    }

    #[test]
    fn a_body_of_its_own_is_preferred_and_makes_the_base_plain() {
        let bodies = ["mpi_type_size", "mpi_type_size_c"];
        assert_eq!(arguments(&bodies, "MPI_Type_size"), "plain bodies::mpi_type_size");
        assert_eq!(arguments(&bodies, "MPI_Type_size_c"), "plain bodies::mpi_type_size_c");
        assert_eq!(arguments(&bodies, "MPI_Type_size_x"), "plain bodies::mpi_type_size_c");
    }

    #[test]
    fn forms_that_differ_in_shape_share_nothing() {
        assert_eq!(arguments(&["mpi_get"], "MPI_Get"), "plain bodies::mpi_get");
        assert_eq!(arguments(&["mpi_get"], "MPI_Get_c"), "missing");
        assert_eq!(arguments(&[], "MPI_Get"), "missing");
    }

    #[test]
    fn body_types_are_the_widest() {
        let (tables, bodies) = (tables(), Bodies::of(&[]));
        let parameters = body_parameters(&tables, &bodies, tables.function("MPI_Gatherv").unwrap());
        let types: Vec<_> = parameters.iter().map(|(_, kind)| kind.as_str()).collect();
        assert_eq!(types, ["MPI_Count", "Counts<'_>", "Displacements<'_>"]);
    }
}
