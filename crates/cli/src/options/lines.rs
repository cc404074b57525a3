//! Files of options: each line is a part of a job, in words as a shell would read them.

use std::ffi::OsString;

/// The words of each line that has any. `#` begins a comment where a word could begin; a line that ends in a
/// backslash goes on in the next one; quotes and backslashes keep what they hold together.
///
/// # Errors
/// A quote that has no end, with its line.
pub fn words_of_lines(text: &str) -> Result<Vec<Vec<OsString>>, String> {
    let mut parts = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let mut whole = line.to_owned();
        while whole.ends_with('\\') && !whole.ends_with("\\\\") {
            whole.pop();
            whole.push(' ');
            let Some((_, next)) = lines.next() else { break };
            whole.push_str(next);
        }
        let words = words(&whole).map_err(|quote| format!("line {number}: the quote {quote} has no end"))?;
        if !words.is_empty() {
            parts.push(words);
        }
    }
    Ok(parts)
}

/// The error is the quote that has no end.
fn words(line: &str) -> Result<Vec<OsString>, char> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '#' if word.is_none() => break,
            '\'' | '"' => {
                let into = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        None => return Err(letter),
                        Some(end) if end == letter => break,
                        Some('\\') if letter == '"' => match letters.next() {
                            Some(kept @ ('"' | '\\')) => into.push(kept),
                            other => into.extend(std::iter::once('\\').chain(other)),
                        },
                        Some(other) => into.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            letter if letter.is_whitespace() => words.extend(word.take().map(OsString::from)),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word.map(OsString::from));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_a_shell_reads_them() {
        let text = "# a comment\n\n-n 1 ./a \"b c\" 'd\"' e\\ f ''\n  -n 2 \\\n ./b x#y # end\r\n";
        let read = words_of_lines(text).unwrap();
        let expected: [&[&str]; 2] =
            [&["-n", "1", "./a", "b c", "d\"", "e f", ""], &["-n", "2", "./b", "x#y"]];
        assert_eq!(read, expected);
        assert_eq!(words_of_lines("").unwrap(), Vec::<Vec<OsString>>::new());
        assert!(words_of_lines("a\nb 'c\n").unwrap_err().contains("line 2"));
    }
}
