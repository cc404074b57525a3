//! Pages on a narrow and on a wide screen: nothing is wider than the screen but what scrolls by itself, as
//! tables and code do. A headless Chromium shows every page of the book in a frame of that width and measures
//! it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use system_tests::job;

use super::{book_pages, html};

/// What the check found.
pub struct Widths {
    /// Pages of the book, each seen at every width.
    pub pages: usize,
    /// What is wider than a screen, one line each.
    pub too_wide: Vec<String>,
}

/// Looks at every page of the book at every width of [`WIDTHS`].
///
/// # Errors
/// When there is no Chromium or no site, or when Chromium fails.
pub fn check(site: &Path) -> Result<Widths, String> {
    let chromium = chromium(&env::var_os("PATH").unwrap_or_default())
        .ok_or("there is no Chromium here\n  as root: apt-get install chromium")?;
    let told = |error| format!("{}: {error}", site.display());
    let site = fs::canonicalize(site).map_err(told)?;
    let pages: Vec<String> = book_pages(&site).map_err(told)?.into_iter().map(|(page, _)| page).collect();
    if pages.is_empty() {
        return Err(format!("{} has no pages\n  build them: ci/docs", site.display()));
    }
    // Beside the site, which holds only what readers get.
    let folder = site.with_extension("widths");
    fs::create_dir_all(&folder).map_err(told)?;
    let measure = folder.join("widths.html");
    fs::write(&measure, measuring(&site, &pages)).map_err(told)?;
    let mut command = Command::new(chromium);
    command.args(OPTIONS).arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.arg(format!("file://{}", measure.display()));
    let finished = job::run(&mut command, LIMIT, &folder.join("log"))?;
    let lines = said(&finished.output)
        .filter(|_| finished.succeeded())
        .ok_or_else(|| format!("Chromium did not look at every page: {}", finished.account()))?;
    let prefix = format!("file://{}/", site.display());
    Ok(Widths { pages: pages.len(), too_wide: lines.iter().map(|line| line.replace(&prefix, "")).collect() })
}

/// The page that looks at the others.
fn measuring(site: &Path, pages: &[String]) -> String {
    let pages: Vec<String> = pages.iter().map(|page| format!("file://{}/{page}", site.display())).collect();
    MEASURING.replace("of PAGES", &format!("of {pages:?}")).replace("of WIDTHS", &format!("of {WIDTHS:?}"))
}

/// What that page says in the text of its DOM; `None` unless it has seen all pages.
fn said(dom: &str) -> Option<Vec<String>> {
    let (_, text) = dom.split_once("<pre>")?;
    let (text, _) = text.split_once(&format!("{ALL_SEEN}\n</pre>"))?;
    Some(text.lines().map(html::unescaped).collect())
}

/// The first of the names of Chromium that is a file in a folder of `path`.
fn chromium(path: &std::ffi::OsStr) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(path).collect();
    CHROMIUM
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
}

/// A phone, and a laptop.
pub const WIDTHS: [u32; 2] = [360, 1280];
const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Chromium's sandbox refuses root, and containers lack what it needs; the pages are our own. Chromium's
/// clock skips times in which nothing happens, and Chromium writes the DOM when so many milliseconds of that
/// clock have passed.
const OPTIONS: [&str; 7] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
    "--virtual-time-budget=600000",
    "--dump-dom",
];
const LIMIT: Duration = Duration::from_secs(300);
const MEASURING: &str = include_str!("widths.html");
const ALL_SEEN: &str = "all was seen";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_report_counts() {
        let dom = |text: &str| format!("noise\n<html><pre>{text}</pre><script>all was seen\n</pre></script>");
        assert_eq!(said(&dom("all was seen\n")), Some(Vec::new()));
        assert_eq!(
            said(&dom("a.html: &lt;p&gt; is wide\nall was seen\n")),
            Some(vec!["a.html: <p> is wide".into()])
        );
        assert_eq!(said("<pre>a.html: is wide\n</pre>"), None);
    }

    #[test]
    fn the_page_that_measures_names_every_page_and_width() {
        let page = measuring(Path::new("/s"), &["a.html".into(), "b/c.html".into()]);
        assert!(page.contains("of [\"file:///s/a.html\", \"file:///s/b/c.html\"]"), "{page}");
        assert!(page.contains("of [360, 1280]") && page.contains(ALL_SEEN), "{page}");
    }

    #[test]
    fn chromium_is_found_under_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(chromium(folder.path().as_os_str()), None);
        fs::write(folder.path().join("chromium-browser"), "").unwrap();
        let path = env::join_paths([Path::new("/none"), folder.path()]).unwrap();
        assert_eq!(chromium(&path), Some(folder.path().join("chromium-browser")));
    }
}
