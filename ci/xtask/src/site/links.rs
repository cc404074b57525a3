//! Links of the built book: each leads to a file of the site, and to a place in it that is there.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use super::{book_pages, html};

/// What the check found.
pub struct Links {
    /// Pages of the book.
    pub pages: usize,
    /// Links within the site.
    pub links: usize,
    /// Links that lead nowhere, one line each.
    pub broken: Vec<String>,
}

/// Looks at every address in the pages of the book. Addresses outside the site are not looked at.
///
/// # Errors
/// When there is no such folder, or a page cannot be read.
pub fn check(site: &Path) -> io::Result<Links> {
    let pages = book_pages(site)?;
    let mut targets = Targets { site, known: HashMap::new() };
    let mut found = Links { pages: pages.len(), links: 0, broken: Vec::new() };
    for (page, text) in &pages {
        for (name, address) in html::attributes(text) {
            if name == "id" || is_elsewhere(&address) {
                continue;
            }
            found.links += 1;
            if let Err(what) = targets.find(page, &address) {
                found.broken.push(format!("{page}: `{address}`: {what}"));
            }
        }
    }
    Ok(found)
}

/// Whether an address has a scheme, such as `https:`.
fn is_elsewhere(address: &str) -> bool {
    address.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// What links lead to: the files of the site.
struct Targets<'a> {
    site: &'a Path,
    /// The ids of each file asked for; `None` where there is no such file.
    known: HashMap<String, Option<HashSet<String>>>,
}

impl Targets<'_> {
    fn find(&mut self, page: &str, address: &str) -> Result<(), &'static str> {
        let (path, id) = address.split_once('#').unwrap_or((address, ""));
        let path = path.split('?').next().unwrap_or(path);
        let file = match path {
            "" => page.to_owned(),
            path => joined(page, path).ok_or("it leaves the site")?,
        };
        let site = self.site;
        let ids = self.known.entry(file).or_insert_with_key(|file| ids(site, file));
        match ids {
            None => Err("there is no such file"),
            Some(ids) if !id.is_empty() && !ids.contains(&decoded(id)) => Err("the file has no such place"),
            Some(_) => Ok(()),
        }
    }
}

/// The ids of a file of the site; `None` when it is not there.
fn ids(site: &Path, file: &str) -> Option<HashSet<String>> {
    let mut path = site.join(file);
    if path.is_dir() {
        path = path.join("index.html");
    }
    if path.extension().is_none_or(|extension| extension != "html") {
        return path.is_file().then(HashSet::new);
    }
    let text = fs::read_to_string(path).ok()?;
    Some(html::attributes(&text).into_iter().filter(|(name, _)| *name == "id").map(|(_, id)| id).collect())
}

/// The path from the site of an address that is relative to a page; `None` when it leaves the site.
fn joined(page: &str, address: &str) -> Option<String> {
    if address.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    let address = decoded(address);
    for part in address.split('/') {
        match part {
            "." => {}
            ".." => _ = parts.pop()?,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// An address without its `%20` and the like.
fn decoded(address: &str) -> String {
    let mut bytes = Vec::with_capacity(address.len());
    let mut rest = address.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let hex = behind.get(..2).and_then(|hex| str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) if byte == b'%' => {
                bytes.push(value);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_told_from_others() {
        let site = tempfile::tempdir().unwrap();
        for (path, text) in [
            (
                "index.html",
                "<a href='a/b.html#one'><a href='a/'><a href='rust/weft/index.html#x'><a href='#top'>",
            ),
            (
                "a/b.html",
                "<p id=one><img src='../c.svg'><a href='https://x.org/y'><a href='../index.html?q'>",
            ),
            ("a/index.html", "<a href='../../out.html'><a href='%62.html#%6fne'><a href='/b.html'>"),
            ("c.svg", "<svg/>"),
            ("rust/weft/index.html", "<p id=x><a href='not-looked-at'>"),
        ] {
            let path = site.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(site.path().join("d.html"), "<a href='gone.html'><a href='a/b.html#gone'>").unwrap();
        let found = check(site.path()).unwrap();
        assert_eq!((found.pages, found.links), (4, 11));
        let expected = [
            "a/index.html: `../../out.html`: it leaves the site",
            "a/index.html: `/b.html`: it leaves the site",
            "d.html: `gone.html`: there is no such file",
            "d.html: `a/b.html#gone`: the file has no such place",
            "index.html: `#top`: the file has no such place",
        ];
        assert_eq!(found.broken, expected);
    }

    #[test]
    fn a_site_that_is_not_there_is_no_site_without_broken_links() {
        assert!(check(Path::new("no/such/site")).is_err());
    }
}
