//! The documents' site: what mdBook reads, and checks of the HTML that it writes. `ci/docs` calls them.
//!
//! | command | file |
//! |---|---|
//! | `cargo xtask site sources FOLDER` writes mdBook's sources from README.md, CHANGELOG.md and `docs/` | [`pages`] |
//! | `cargo xtask site links SITE` finds links that lead nowhere | [`links`] |
//! | `cargo xtask site widths SITE` finds what is wider than a screen, in a headless Chromium | [`widths`] |

pub mod html;
pub mod links;
pub mod pages;
pub mod widths;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// All HTML files of the book in `site` with their text, ordered by path; those of rustdoc are left out.
///
/// # Errors
/// When there is no such folder, or a file cannot be read.
pub fn book_pages(site: &Path) -> io::Result<Vec<(String, String)>> {
    let mut pages = Vec::new();
    for path in files_below(site)? {
        let name = path.strip_prefix(site).unwrap_or(&path).to_string_lossy().into_owned();
        if name.ends_with(".html") && !name.starts_with(RUSTDOC) {
            pages.push((name, fs::read_to_string(&path)?));
        }
    }
    pages.sort();
    Ok(pages)
}

/// All files below a folder.
fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_below(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// Where in the site rustdoc's pages are.
const RUSTDOC: &str = "rust/";
