//! The table in `docs/clusters.md`, which holds what is run.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::rows::ROWS;

/// Whether the page holds the table, or writes it there.
pub fn told(page: &Path, write: bool) -> Result<(), String> {
    let text =
        fs::read_to_string(page).map_err(|error| format!("cannot read {}: {error}", page.display()))?;
    let (Some(start), Some(end)) = (text.find(BEGIN), text.find(END)) else {
        return Err(format!("{} has no lines `{BEGIN}` and `{END}`", page.display()));
    };
    let new = format!("{}{BEGIN}\n{}{}", &text[..start], table(), &text[end..]);
    match (new == text, write) {
        (true, _) => Ok(()),
        (false, true) => {
            fs::write(page, new).map_err(|error| format!("cannot write {}: {error}", page.display()))
        }
        (false, false) => Err("is not what ran here: cargo system-tests cluster PREFIX --write-docs".into()),
    }
}

fn table() -> String {
    let mut table =
        "\n| launcher | command | nodes | ranks | messages go by | programs |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for row in ROWS {
        // Writing to a string does not fail.
        let _ = writeln!(table, "{}", row.line());
    }
    table.push('\n');
    table
}

const BEGIN: &str = "<!-- written by `cargo system-tests cluster`: begin -->";
const END: &str = "<!-- written by `cargo system-tests cluster`: end -->";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_holds_the_table() {
        told(&crate::workspace_root().join("docs/clusters.md"), false).unwrap();
    }

    #[test]
    fn the_page_holds_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        fs::write(&page, format!("before\n{BEGIN}\nold\n{END}\nafter\n")).unwrap();
        assert!(told(&page, false).is_err());
        told(&page, true).unwrap();
        told(&page, false).unwrap();
        let text = fs::read_to_string(&page).unwrap();
        assert!(
            text.starts_with("before\n")
                && text.ends_with("after\n")
                && text.contains("srun --mpi=pmi2 -N4 -n8")
        );
    }
}
