//! As much of Rust's grammar as the checks need: what is code and what is not, words, functions, uses of
//! `unsafe`.

/// A source text beside a copy in which comments and literals are blanks, byte for byte in the same place.
pub struct Source<'a> {
    /// The source text as written.
    pub text: &'a str,
    /// The text with comments and literals blanked out.
    pub code: String,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct FunctionSize {
    /// Its name.
    pub name: String,
    /// Line of `fn`, from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub lines: usize,
}

/// What the word `unsafe` introduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsafeKind {
    /// `unsafe { … }`, `unsafe impl`, `unsafe extern { … }`: the author vouches here.
    Vouched,
    /// `unsafe fn`, `unsafe trait`: callers or implementors must vouch.
    Demanded,
}

impl<'a> Source<'a> {
    /// Separates code from comments and literals.
    pub fn new(text: &'a str) -> Source<'a> {
        Source { text, code: mask(text) }
    }

    /// Byte offsets at which `word` stands as a whole word of code.
    pub fn words<'s>(&'s self, word: &'s str) -> impl Iterator<Item = usize> + 's {
        self.code.match_indices(word).map(|(offset, _)| offset).filter(move |&offset| {
            let before = self.code[..offset].chars().next_back();
            let after = self.code[offset + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    }

    /// The line, from 1, of a byte offset.
    pub fn line(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    /// Every function that has a body.
    pub fn functions(&self) -> Vec<FunctionSize> {
        self.words("fn").filter_map(|offset| self.function(offset)).collect()
    }

    /// Every `unsafe` that needs a note: its line and kind.
    pub fn unsafes(&self) -> Vec<(usize, UnsafeKind)> {
        let kinds = self.words("unsafe").filter_map(|offset| {
            let kind = unsafe_kind(&self.code[offset + "unsafe".len()..])?;
            Some((self.line(offset), kind))
        });
        kinds.collect()
    }

    /// A comment that contains one of `marks` stands on this line (from 1) or above the statement or item
    /// that it is part of.
    pub fn has_note(&self, line: usize, marks: &[&str]) -> bool {
        let lines: Vec<_> = self.text.lines().take(line).collect();
        let Some((own, above)) = lines.split_last() else { return false };
        let marked = |text: &str| marks.iter().any(|mark| text.contains(mark));
        if own.split_once("//").is_some_and(|(_, comment)| marked(comment)) {
            return true;
        }
        let mut in_comment = false;
        for text in above.iter().rev().map(|text| text.trim()) {
            if text.starts_with("//") {
                in_comment = true;
                if marked(text) {
                    return true;
                }
            } else if in_comment || ends_statement(text) {
                return false;
            }
        }
        false
    }

    fn function(&self, offset: usize) -> Option<FunctionSize> {
        let rest = &self.code[offset + "fn".len()..];
        let name: String = rest.trim_start().chars().take_while(|&c| is_word(c)).collect();
        if name.is_empty() {
            return None; // a type such as `fn(i32)`
        }
        let end = body_end(rest)?;
        let lines = rest[..end].matches('\n').count() + 1;
        Some(FunctionSize { name, line: self.line(offset), lines })
    }
}

/// A letter, digit or underscore.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What follows `unsafe`; `None` for attributes and the types of function pointers.
fn unsafe_kind(rest: &str) -> Option<UnsafeKind> {
    let mut rest = rest.trim_start();
    if let Some(after) = rest.strip_prefix("extern") {
        rest = after.trim_start(); // the ABI's name is a literal, hence blank
    }
    if rest.starts_with('{') || rest.starts_with("impl") {
        return Some(UnsafeKind::Vouched);
    }
    let named = rest.strip_prefix("fn").is_some_and(|after| !after.trim_start().starts_with('('));
    (named || rest.starts_with("trait")).then_some(UnsafeKind::Demanded)
}

/// Where the braces that open the body close; `None` when a semicolon comes first.
fn body_end(rest: &str) -> Option<usize> {
    let (mut nested, mut braces) = (0, 0);
    for (index, byte) in rest.bytes().enumerate() {
        match byte {
            b'(' | b'[' if braces == 0 => nested += 1,
            b')' | b']' if braces == 0 => nested -= 1,
            b';' if braces == 0 && nested == 0 => return None,
            b'{' if nested == 0 => braces += 1,
            b'}' if nested == 0 => {
                braces -= 1;
                if braces == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

/// The statement or item above this line ended, or the block that holds it began. Attributes belong to what
/// follows.
fn ends_statement(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default().trim_end();
    !code.starts_with("#[") && (code.is_empty() || code.ends_with([';', '{', '}']))
}

/// Blanks comments, strings and character literals; keeps lengths and line ends.
fn mask(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    let mut word_before = false;
    while let Some(first) = rest.chars().next() {
        let literal = if word_before { raw_free_literal(rest) } else { literal(rest) };
        match literal {
            Some(length) => {
                code.extend(rest[..length].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
                rest = &rest[length..];
                word_before = false;
            }
            None => {
                code.push(first);
                word_before = is_word(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    code
}

/// Length of the comment or literal that begins here.
fn literal(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let after = rest.strip_prefix(prefix).unwrap_or_default().trim_start_matches('#');
        after.starts_with('"')
    });
    match prefix {
        Some(prefix) if prefix.ends_with('r') => Some(raw_string(rest, prefix.len())),
        Some(prefix) if rest[prefix.len()..].starts_with('"') => {
            Some(prefix.len() + quoted(&rest[prefix.len()..], '"'))
        }
        _ => raw_free_literal(rest.strip_prefix('b').filter(|after| after.starts_with('\'')).unwrap_or(rest)),
    }
}

/// Comments, plain strings and characters: what may also follow a word directly.
fn raw_free_literal(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    if rest.starts_with('"') {
        return Some(quoted(rest, '"'));
    }
    let mut after = rest.strip_prefix('\'')?.chars();
    match (after.next()?, after.next()) {
        ('\\', _) => Some(quoted(rest, '\'')),
        (_, Some('\'')) => Some(quoted(rest, '\'')),
        _ => None, // a lifetime
    }
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (index, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return index + 1,
            _ => {}
        }
    }
    rest.len()
}

fn raw_string(rest: &str, prefix: usize) -> usize {
    let hashes = rest[prefix..].bytes().take_while(|&byte| byte == b'#').count();
    let begin = prefix + hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    rest[begin..].find(&end).map_or(rest.len(), |found| begin + found + end.len())
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut index = 0;
    while index < rest.len() {
        match rest.as_bytes()[index..] {
            [b'/', b'*', ..] => (depth, index) = (depth + 1, index + 2),
            [b'*', b'/', ..] => (depth, index) = (depth - 1, index + 2),
            _ => index += 1,
        }
        if depth == 0 {
            break;
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank() {
        let hidden = [
            "// unsafe",
            "/* unsafe /* nested */ unsafe */",
            "\"unsafe \\\" unsafe\"",
            "r#\"unsafe \" unsafe\"#",
            "b\"unsafe\"",
            "c\"unsafe\"",
            "'\"'; \"unsafe\"",
            "b'\"'; \"unsafe\"",
            "'\\''; \"unsafe\"",
            "/// unsafe { }\n",
        ];
        for text in hidden {
            let source = Source::new(text);
            assert_eq!(source.words("unsafe").count(), 0, "{text} became {}", source.code);
            assert_eq!(source.code.len(), text.len());
        }
    }

    #[test]
    fn code_stays() {
        for text in ["fn f<'a>(x: &'a str) { unsafe { g(x) } }", "let c = 'x'; unsafe {}", "unsafe { \"é\" }"]
        {
            assert_eq!(Source::new(text).words("unsafe").count(), 1, "{text}");
        }
        assert_eq!(Source::new("unsafe_op_in_unsafe_fn").words("unsafe").count(), 0);
    }

    #[test]
    fn functions_are_measured_with_all_they_hold() {
        let text = "trait T {\n    fn declared(&self, a: [u8; 3]);\n}\nfn one() { f(|x| { x }) }\n\
                    fn three() {\n    if true { \"}\" } else { '}' };\n}\nlet p: fn(i32) = f;\n";
        let found: Vec<_> =
            Source::new(text).functions().into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("one".to_string(), 4, 1), ("three".to_string(), 5, 3)]);
    }

    #[test]
    fn unsafe_is_told_apart() {
        use UnsafeKind::{Demanded, Vouched};
        let kinds = |text| Source::new(text).unsafes().into_iter().map(|(_, kind)| kind).collect::<Vec<_>>();
        assert_eq!(kinds("unsafe { }"), [Vouched]);
        assert_eq!(kinds("unsafe impl Send for X {}"), [Vouched]);
        assert_eq!(kinds("unsafe extern \"C\" { fn f(); }"), [Vouched]);
        assert_eq!(kinds("pub unsafe fn f() {}"), [Demanded]);
        assert_eq!(kinds("pub unsafe extern \"C\" fn f() {}"), [Demanded]);
        assert_eq!(kinds("unsafe trait T {}"), [Demanded]);
        assert_eq!(kinds("type F = unsafe extern \"C\" fn(i32);\n#[unsafe(no_mangle)]"), []);
    }

    #[test]
    fn notes_stand_above_the_statement() {
        let good = [
            "// SAFETY: sure\nunsafe { f() }",
            "// SAFETY: sure,\n// quite sure\nlet x = g(\n    unsafe { f() },\n);",
            "let x = unsafe { f() }; // SAFETY: sure",
            "// SAFETY: sure\n#[inline]\nunsafe impl Send for X {}",
        ];
        let bad = [
            "unsafe { f() }",
            "// SAFETY: of another\nf();\nunsafe { f() }",
            "// SAFETY: of another\nf();\n// and this one\nunsafe { f() }",
            "// SAFETY: of the function\nfn g() {\n    unsafe { f() }\n}",
            "let x = \"SAFETY: no\"; unsafe { f() }",
        ];
        let noted = |text: &str| {
            let source = Source::new(text);
            let (line, _) = source.unsafes()[0];
            source.has_note(line, &["SAFETY:"])
        };
        for text in good {
            assert!(noted(text), "{text}");
        }
        for text in bad {
            assert!(!noted(text), "{text}");
        }
    }
}
