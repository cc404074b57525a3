//! The small part of C's type language that the MPI tables use, and its Rust spelling.
//!
//! A parameter in the tables reads `const int recvcounts[]`, `MPI_Request* request`, `int ranges[][3]` or
//! `...`.

/// A C type: `const`, a base name, stars, and the brackets behind the parameter's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CType {
    /// `const` stands before the base.
    pub constant: bool,
    /// `int`, `void`, `MPI_Comm`, …
    pub base: String,
    /// How many `*` follow the base.
    pub stars: usize,
    /// The brackets as written, `[]` or `[][3]`; empty for none.
    pub brackets: String,
}

/// A parameter: its type and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The type.
    pub ctype: CType,
    /// The name, the same in C and in Rust.
    pub name: String,
}

impl CType {
    /// Reads a type without a name, such as `MPI_Aint` or `MPI_Copy_function*`.
    pub fn parse(text: &str) -> Option<CType> {
        let (text, constant) = match text.trim().strip_prefix("const ") {
            Some(rest) => (rest.trim(), true),
            None => (text.trim(), false),
        };
        let stars = text.chars().rev().take_while(|&c| c == '*' || c == ' ').filter(|&c| c == '*').count();
        let base = text.trim_end_matches(['*', ' ']);
        let simple = !base.is_empty() && base.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        simple.then(|| CType { constant, base: base.to_string(), stars, brackets: String::new() })
    }

    /// The type in the tables' own spelling without `const`, e.g. `int[]`: what conversions are chosen by.
    pub fn key(&self) -> String {
        format!("{}{}{}", self.base, "*".repeat(self.stars), self.brackets)
    }

    /// A C declaration of `name` with this type.
    pub fn c_declaration(&self, name: &str) -> String {
        let constant = if self.constant { "const " } else { "" };
        format!("{constant}{} {}{name}{}", self.base, "*".repeat(self.stars), self.brackets)
    }

    /// The Rust type that has the same representation and calling convention.
    pub fn rust(&self) -> String {
        let mut inner = rust_base(&self.base).to_string();
        let mut levels = self.stars;
        if self.base.ends_with("_function") || self.base.ends_with("_function_c") {
            levels = levels.saturating_sub(1); // our function types are the pointers themselves
        }
        if let Some(length) = self.brackets.strip_prefix("[][").and_then(|rest| rest.strip_suffix(']')) {
            inner = format!("[{inner}; {length}]");
        }
        if !self.brackets.is_empty() {
            levels += 1;
        }
        for level in 0..levels {
            let constant = self.constant && level == 0;
            inner = format!("{} {inner}", if constant { "*const" } else { "*mut" });
        }
        inner
    }
}

impl CType {
    /// The Rust type of what is behind the address, for a type that is an address.
    pub fn rust_element(&self) -> String {
        let rust = self.rust();
        rust.strip_prefix("*mut ").or_else(|| rust.strip_prefix("*const ")).unwrap_or(&rust).to_string()
    }
}

impl Parameter {
    /// Reads `const void* buf`, `char* argv[]`, `void *invec`.
    pub fn parse(text: &str) -> Option<Parameter> {
        let text = text.trim();
        let (head, brackets) = text.split_at(text.find('[').unwrap_or(text.len()));
        let name_start = head.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')? + 1;
        let name = head[name_start..].to_string();
        let mut ctype = CType::parse(&head[..name_start])?;
        ctype.brackets = brackets.to_string();
        (!name.is_empty()).then_some(Parameter { ctype, name })
    }

    /// As C writes it.
    pub fn c(&self) -> String {
        self.ctype.c_declaration(&self.name)
    }
}

/// Reads a list split by `separator`; `None` when one of them is beyond this module. `void` and `...` give
/// nothing.
pub fn parse_list(text: &str, separator: char) -> Option<Vec<Parameter>> {
    let pieces = text.split(separator).map(str::trim);
    pieces.filter(|piece| !matches!(*piece, "void" | "..." | "")).map(Parameter::parse).collect()
}

fn rust_base(base: &str) -> &str {
    match base {
        "int" => "c_int",
        "char" => "c_char",
        "void" => "c_void",
        "double" => "c_double",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> String {
        Parameter::parse(text).unwrap().ctype.rust()
    }

    #[test]
    fn spells_every_shape_in_rust() {
        assert_eq!(rust("const void* buf"), "*const c_void");
        assert_eq!(rust("int count"), "c_int");
        assert_eq!(rust("const int level"), "c_int");
        assert_eq!(rust("const MPI_Count recvcounts[]"), "*const MPI_Count");
        assert_eq!(rust("int ranges[][3]"), "*mut [c_int; 3]");
        assert_eq!(rust("char* argv[]"), "*mut *mut c_char");
        assert_eq!(rust("char*** argv"), "*mut *mut *mut c_char");
        assert_eq!(rust("char** array_of_argv[]"), "*mut *mut *mut c_char");
        assert_eq!(rust("MPI_User_function_c* user_fn"), "MPI_User_function_c");
        assert_eq!(rust("MPI_T_event_cb_function event_cb_function"), "MPI_T_event_cb_function");
        assert_eq!(rust("const char datarep[]"), "*const c_char");
    }

    #[test]
    fn spells_c_as_people_do() {
        let c = |text| Parameter::parse(text).unwrap().c();
        assert_eq!(c("const void* buf"), "const void *buf");
        assert_eq!(c("int ranges[][3]"), "int ranges[][3]");
        assert_eq!(c("void *invec"), "void *invec");
        assert_eq!(c("char* argv[]"), "char *argv[]");
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert_eq!(Parameter::parse("int (*f)(int)"), None);
        assert_eq!(Parameter::parse("int"), None);
        assert_eq!(parse_list("int a; int", ';'), None);
        assert_eq!(parse_list("void", ';'), Some(vec![]));
        assert_eq!(parse_list("const int level; ...", ';').map(|list| list.len()), Some(1));
    }
}
