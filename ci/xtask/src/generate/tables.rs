//! The committed tables, read and checked: those of the ABI, and in the folder `beyond` those of what weft
//! has beside it.

use std::path::Path;

use super::chapters::CHAPTERS;
use super::ctype::{CType, Parameter, parse_list};
use super::{Error, file_error};

/// All three tables.
pub struct Tables {
    /// Constants, in the table's order.
    pub constants: Vec<Constant>,
    /// Types, in the table's order.
    pub types: Vec<Type>,
    /// Functions, in the table's order.
    pub functions: Vec<Function>,
}

/// A row of `constants.csv`.
pub struct Constant {
    /// The C name.
    pub name: String,
    /// Its C type.
    pub ctype: CType,
    /// Its value as the table writes it: decimal, or hexadecimal where that says more.
    pub value_text: String,
    /// `enum member`, `macro int` or `macro cast`: the form the header gives it.
    pub form: String,
    /// The group of the constant, e.g. `error class`.
    pub group: String,
    /// The constant that this one is another name of; empty for none.
    pub alias_of: String,
    /// The version of MPI that introduced it; empty when no version has it.
    pub since: String,
    /// The ABI does not have it.
    pub is_beyond: bool,
}

/// A row of `types.csv`.
pub struct Type {
    /// The C name.
    pub name: String,
    /// The kind of the type.
    pub kind: TypeKind,
    /// The ABI does not have it.
    pub is_beyond: bool,
}

/// The kinds of types in the ABI.
pub enum TypeKind {
    /// A pointer to a struct of that tag, which is never completed.
    Handle {
        /// e.g. `MPI_ABI_Comm`
        tag: String,
        /// It belongs to the tool information interface.
        tools: bool,
    },
    /// An integer, another name of the C type given.
    Integer(String),
    /// A struct: its members as C declares them.
    Struct(Vec<String>),
    /// An enum; its members are the constants of that type.
    Enum,
    /// A function type.
    Function(FunctionType),
    /// Another name of the type given.
    Alias(String),
}

/// The type of a callback.
pub struct FunctionType {
    /// `void` or `int`.
    pub result: CType,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// `...` follows.
    pub variadic: bool,
}

/// A row of `functions.csv`.
pub struct Function {
    /// The C name, `MPI_Send_c`.
    pub name: String,
    /// The C type of the result.
    pub result: CType,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// `...` follows.
    pub variadic: bool,
    /// For a large-count form, the function it is a form of; for a function beyond the ABI, the ABI's that
    /// does what this one does; empty otherwise.
    pub variant_of: String,
    /// The chapter, a key of [`CHAPTERS`].
    pub chapter: String,
    /// The version of MPI that introduced it; empty when no version has it.
    pub since: String,
    /// The version that deprecated it; empty for none.
    pub deprecated_in: String,
    /// A remark for the reader of the declaration; may be empty.
    pub note: String,
    /// Claims on parameters whose C type does not tell what they are claimed as: the name of the parameter,
    /// and a type of `crates/abi/src/claims.rs`.
    pub claims: Vec<(String, String)>,
    /// The ABI does not have it.
    pub is_beyond: bool,
}

impl Tables {
    /// Reads the three files in `folder`, and the three beyond the ABI.
    pub fn read(folder: &Path) -> Result<Tables, Error> {
        let tables = Tables {
            constants: rows(folder, CONSTANTS)?.iter().map(Constant::from_row).collect::<Result<_, _>>()?,
            types: rows(folder, TYPES)?.iter().map(Type::from_row).collect::<Result<_, _>>()?,
            functions: rows(folder, FUNCTIONS)?.iter().map(Function::from_row).collect::<Result<_, _>>()?,
        };
        tables.check_variants()?;
        Ok(tables)
    }

    /// The function of that C name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// The functions of one chapter, in the table's order.
    pub fn chapter<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Function> {
        self.functions.iter().filter(move |function| function.chapter == key)
    }

    fn check_variants(&self) -> Result<(), Error> {
        for function in self.functions.iter().filter(|function| !function.variant_of.is_empty()) {
            if self.function(&function.variant_of).is_none() {
                return Err(table_error(
                    FUNCTIONS,
                    &function.name,
                    "is a form of a function that is not there",
                ));
            }
        }
        Ok(())
    }
}

impl Function {
    /// The name of its hand-written body: the C name in lower case.
    pub fn body_name(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    fn from_row(row: &Row) -> Result<Function, Error> {
        let parameters = parse_list(row.cell("parameters")?, ';');
        let function = Function {
            name: row.name()?.to_string(),
            result: CType::parse(row.cell("return_type")?)
                .ok_or_else(|| row.error("unreadable return type"))?,
            parameters: parameters.ok_or_else(|| row.error("unreadable parameter"))?,
            variadic: row.cell("parameters")?.contains("..."),
            variant_of: row.cell("variant_of")?.to_string(),
            chapter: row.cell("chapter")?.to_string(),
            since: row.cell("since")?.to_string(),
            deprecated_in: row.cell("deprecated_in")?.to_string(),
            note: row.cell("note")?.to_string(),
            claims: claims(row)?,
            is_beyond: row.is_beyond,
        };
        let known = CHAPTERS.iter().any(|chapter| chapter.key == function.chapter);
        if known { Ok(function) } else { Err(row.error("unknown chapter")) }
    }
}

impl Constant {
    fn from_row(row: &Row) -> Result<Constant, Error> {
        let value_text = row.cell("value")?.to_string();
        parse_value(&value_text).ok_or_else(|| row.error("unreadable value"))?;
        Ok(Constant {
            name: row.name()?.to_string(),
            ctype: CType::parse(row.cell("c_type")?).ok_or_else(|| row.error("unreadable type"))?,
            value_text,
            form: row.cell("form")?.to_string(),
            group: row.cell("group")?.to_string(),
            alias_of: row.cell("alias_of")?.to_string(),
            since: row.cell("since")?.to_string(),
            is_beyond: row.is_beyond,
        })
    }
}

impl Type {
    fn from_row(row: &Row) -> Result<Type, Error> {
        let definition = row.cell("definition")?;
        let tag = || definition.trim_start_matches("struct ").trim_end_matches([' ', '*']).to_string();
        let kind = match row.cell("kind")? {
            "handle" => TypeKind::Handle { tag: tag(), tools: false },
            "tools handle" => TypeKind::Handle { tag: tag(), tools: true },
            "integer" => TypeKind::Integer(definition.to_string()),
            "struct" => TypeKind::Struct(members(definition)),
            "enum" => TypeKind::Enum,
            "alias" => TypeKind::Alias(definition.to_string()),
            "function type" => TypeKind::Function(
                function_type(definition).ok_or_else(|| row.error("unreadable function type"))?,
            ),
            _ => return Err(row.error("unknown kind")),
        };
        Ok(Type { name: row.name()?.to_string(), kind, is_beyond: row.is_beyond })
    }
}

/// A row with its headings.
struct Row {
    table: &'static str,
    headings: csv::StringRecord,
    cells: csv::StringRecord,
    is_beyond: bool,
}

impl Row {
    fn name(&self) -> Result<&str, Error> {
        self.cell("name")
    }

    fn cell(&self, heading: &str) -> Result<&str, Error> {
        let column = self.headings.iter().position(|other| other == heading);
        column
            .and_then(|column| self.cells.get(column))
            .ok_or_else(|| self.error(&format!("no column `{heading}`")))
    }

    fn error(&self, problem: &str) -> Error {
        table_error(self.table, self.cells.get(0).unwrap_or_default(), problem)
    }
}

fn rows(folder: &Path, table: &'static str) -> Result<Vec<Row>, Error> {
    let mut rows = rows_of(folder, table, false)?;
    rows.extend(rows_of(&folder.join("beyond"), table, true)?);
    Ok(rows)
}

fn rows_of(folder: &Path, table: &'static str, is_beyond: bool) -> Result<Vec<Row>, Error> {
    let path = folder.join(table);
    let text =
        std::fs::read_to_string(&path).map_err(|source| file_error(&path.to_string_lossy(), source))?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let problem = |error: csv::Error| table_error(table, "", &error.to_string());
    let headings = reader.headers().map_err(problem)?.clone();
    let records = reader.records().map(|record| record.map_err(problem));
    records.map(|cells| Ok(Row { table, headings: headings.clone(), cells: cells?, is_beyond })).collect()
}

fn table_error(table: &'static str, row: &str, problem: &str) -> Error {
    Error::Table { table, row: row.to_string(), problem: problem.to_string() }
}

fn parse_value(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `request: Variable; status: StatusVariable`, of parameters that there are.
fn claims(row: &Row) -> Result<Vec<(String, String)>, Error> {
    let parameters = parse_list(row.cell("parameters")?, ';').unwrap_or_default();
    let claim = |text: &str| {
        let (name, claim) = text.split_once(':').ok_or_else(|| row.error("unreadable claim"))?;
        match parameters.iter().any(|parameter| parameter.name == name.trim()) {
            true => Ok((name.trim().to_string(), claim.trim().to_string())),
            false => Err(row.error("a claim of a parameter that is not there")),
        }
    };
    row.cell("claims")?.split(';').filter(|text| !text.trim().is_empty()).map(claim).collect()
}

/// `int MPI_SOURCE @0; int MPI_TAG @4` without the offsets, which the layout tests read from the table.
fn members(definition: &str) -> Vec<String> {
    let without_offset = |member: &str| member.split('@').next().unwrap_or_default().trim().to_string();
    definition.split(';').map(without_offset).collect()
}

/// `int (void *extra_state, MPI_Status *status)`
fn function_type(definition: &str) -> Option<FunctionType> {
    let (result, rest) = definition.split_once('(')?;
    let list = rest.strip_suffix(')')?;
    let parameters = parse_list(list, ',')?;
    Some(FunctionType { result: CType::parse(result)?, parameters, variadic: list.ends_with("...") })
}

const CONSTANTS: &str = "constants.csv";
const TYPES: &str = "types.csv";
const FUNCTIONS: &str = "functions.csv";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decimal_or_hexadecimal() {
        assert_eq!(parse_value("0x0000010a"), Some(266));
        assert_eq!(parse_value("-32766"), Some(-32766));
        assert_eq!(parse_value("0xC"), Some(12));
        assert_eq!(parse_value("twelve"), None);
    }

    #[test]
    fn function_types_keep_their_ellipsis() {
        let callback = function_type("void (MPI_Comm *comm, int *error_code, ...)").unwrap();
        assert!(callback.variadic);
        assert_eq!(callback.parameters.len(), 2);
        assert!(function_type("int").is_none());
    }

    #[test]
    fn a_bad_row_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FUNCTIONS), "name,return_type\nMPI_Odd,int (*)(int)\n").unwrap();
        let row = &rows_of(folder.path(), FUNCTIONS, false).unwrap()[0];
        let error = Function::from_row(row).err().unwrap().to_string();
        assert!(error.contains("functions.csv") && error.contains("MPI_Odd"), "{error}");
    }
}
