//! How an exported function claims what the program hands over by address: which type of
//! `crates/abi/src/claims.rs` an argument becomes. The C type decides where it can; where it cannot, the
//! column `claims` of the table does.
//!
//! That column reads `request: Variable; attribute_val: Place<*mut c_void>`: a type that has elements takes
//! those of the C type unless it names others. `none` claims nothing: the body is given the address as it is.

use super::ctype::{CType, Parameter};
use super::tables::Function;

/// The type that an argument is claimed as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `Place`, `List`, `Text`, …
    kind: String,
    /// What its elements are, for a type that has some.
    element: Option<String>,
    /// They are not those of the C type.
    is_cast: bool,
}

impl Claim {
    /// The claim type of `parameter` of `function`; `None` where the argument is passed as it is.
    pub fn of(function: &Function, parameter: &Parameter) -> Option<Claim> {
        match function.claims.iter().find(|(name, _)| *name == parameter.name) {
            Some((_, claim)) => Claim::parse(claim, &parameter.ctype),
            None => Claim::by_type(&parameter.ctype),
        }
    }

    fn parse(text: &str, ctype: &CType) -> Option<Claim> {
        let (kind, element) = match text.split_once('<') {
            Some((kind, element)) => (kind, element.strip_suffix('>').map(str::to_string)),
            None => (text, None),
        };
        let is_cast =
            element.is_some() || ctype.base == "void" || kind.contains("Status") && ctype.base != STATUS;
        let element = element.or_else(|| WITH_ELEMENTS.contains(&kind).then(|| ctype.rust_element()));
        (kind != "none").then(|| Claim { kind: kind.to_string(), element, is_cast })
    }

    fn by_type(ctype: &CType) -> Option<Claim> {
        let is_function = ctype.base.contains("_function");
        let kind = match (ctype.constant, ctype.base.as_str(), ctype.stars, ctype.brackets.as_str()) {
            _ if is_function => CALLBACK,
            (true, "char", 1, "") | (true, "char", 0, "[]") => "Text",
            (false, "char", 1, "") => "TextPlace",
            (true, STATUS, 1, "") => "GivenStatus",
            (false, STATUS, 1, "") => "StatusPlace",
            (true, "void", 1, "") => "Sent",
            (false, "void", 1, "") => "Received",
            (_, "void" | "char", ..) => return None,
            (true, _, 1, "") | (true, _, 0, "[]") | (_, _, 0, "[][3]") => "List",
            (false, _, 1, "") => "Place",
            (false, _, 0, "[]") => "Places",
            _ => return None,
        };
        Claim::parse(kind, ctype)
    }

    /// The claim's name without what it holds.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The Rust type that the body takes.
    pub fn body_type(&self) -> String {
        match &self.element {
            Some(element) if self.kind == CALLBACK => format!("{}<{element}>", self.kind),
            Some(element) => format!("{}<'_, {element}>", self.kind),
            None if WITHOUT_LIFETIME.contains(&self.kind.as_str()) => self.kind.clone(),
            None => format!("{}<'_>", self.kind),
        }
    }

    /// The Rust expression that claims the argument `name`.
    pub fn expression(&self, name: &str) -> String {
        let cast =
            if self.is_cast && !WITHOUT_LIFETIME.contains(&self.kind.as_str()) { ".cast()" } else { "" };
        format!("{}::claim({name}{cast})", self.kind)
    }
}

const STATUS: &str = "MPI_Status";
const CALLBACK: &str = "Callback";
const WITH_ELEMENTS: [&str; 6] = ["Place", "Variable", "List", "Places", "Variables", CALLBACK];
const WITHOUT_LIFETIME: [&str; 2] = ["Sent", "Received"];

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(parameter: &str, column: Option<&str>) -> Option<(String, String)> {
        let parameter = Parameter::parse(parameter).unwrap();
        let claim = match column {
            Some(text) => Claim::parse(text, &parameter.ctype),
            None => Claim::by_type(&parameter.ctype),
        };
        claim.map(|claim| (claim.body_type(), claim.expression(&parameter.name)))
    }

    fn claimed(kind: &str, expression: &str) -> Option<(String, String)> {
        Some((kind.into(), expression.into()))
    }

    #[test]
    fn the_c_type_decides_where_it_can() {
        assert_eq!(claim("int* size", None), claimed("Place<'_, c_int>", "Place::claim(size)"));
        assert_eq!(claim("const int ranks[]", None), claimed("List<'_, c_int>", "List::claim(ranks)"));
        assert_eq!(claim("int ranges[][3]", None), claimed("List<'_, [c_int; 3]>", "List::claim(ranges)"));
        assert_eq!(
            claim("MPI_Status* status", None),
            claimed("StatusPlace<'_>", "StatusPlace::claim(status)")
        );
        assert_eq!(claim("const char* name", None), claimed("Text<'_>", "Text::claim(name)"));
        assert_eq!(claim("const void* buf", None), claimed("Sent", "Sent::claim(buf)"));
        assert_eq!(claim("int count", None), None);
        let function = claimed("Callback<MPI_Copy_function>", "Callback::claim(copy_fn)");
        assert_eq!(claim("MPI_Copy_function* copy_fn", None), function);
        assert_eq!(claim("char*** argv", None), None);
    }

    #[test]
    fn the_table_decides_the_others() {
        let request = claim("MPI_Request* request", Some("Variable"));
        assert_eq!(request, claimed("Variable<'_, MPI_Request>", "Variable::claim(request)"));
        let value = claim("void* value", Some("Place<*mut c_void>"));
        assert_eq!(value, claimed("Place<'_, *mut c_void>", "Place::claim(value.cast())"));
        let fortran = claim("MPI_Fint* f_status", Some("StatusPlace"));
        assert_eq!(fortran, claimed("StatusPlace<'_>", "StatusPlace::claim(f_status.cast())"));
        assert_eq!(claim("void* extra_state", Some("none")), None);
    }
}
