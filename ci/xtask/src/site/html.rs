//! The little of HTML that the check of links needs: ids, and addresses.

/// The attributes `id`, `href` and `src` of all tags, with their values, in order.
pub fn attributes(html: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = after(comment, "-->");
        } else if rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let (tag, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(0));
            rest = read_tag(behind, &mut found);
            // Their text is no HTML.
            match tag {
                "script" => rest = after(rest, "</script"),
                "style" => rest = after(rest, "</style"),
                _ => {}
            }
        }
    }
    found
}

/// Reads the attributes of a tag, behind its name; answers what stands behind the tag.
fn read_tag<'a>(mut rest: &'a str, found: &mut Vec<(&'a str, String)>) -> &'a str {
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
        if rest.is_empty() || rest.starts_with('>') {
            return rest;
        }
        let (name, behind) = cut(rest, |c| c.is_whitespace() || "=>/".contains(c));
        rest = behind.trim_start();
        let Some(assigned) = rest.strip_prefix('=') else {
            // An attribute without a value; a stray sign is passed over.
            rest =
                if name.is_empty() { &rest[rest.chars().next().map_or(0, char::len_utf8)..] } else { rest };
            continue;
        };
        let assigned = assigned.trim_start();
        let (value, behind) = match assigned.chars().next() {
            Some(quote @ ('"' | '\'')) => assigned[1..].split_once(quote).unwrap_or((&assigned[1..], "")),
            _ => cut(assigned, |c| c.is_whitespace() || c == '>'),
        };
        rest = behind;
        if ["id", "href", "src"].contains(&name) {
            found.push((name, unescaped(value)));
        }
    }
}

/// Text as it stands in HTML.
pub fn escaped(text: &str) -> String {
    ENTITIES.iter().fold(text.to_owned(), |text, (sign, entity)| text.replace(sign, entity))
}

/// Text that stood in HTML.
pub fn unescaped(text: &str) -> String {
    ENTITIES.iter().rev().fold(text.to_owned(), |text, (sign, entity)| text.replace(entity, sign))
}

fn cut(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

/// The ampersand stands first: the others bring it.
const ENTITIES: [(&str, &str); 5] =
    [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_in_tags_only() {
        let html = "<h2 class=\"a > b\" id=\"words\"><a href='#words' hidden>id=\"no\"</a></h2>
            <!-- <a href=\"comment\"> --><script src=\"a.js\">\"<a href='script'>\"</script>
            <img alt=x src=b.svg><br/><a\nhref = \"c?x&amp;y\">1 < 2</a><p id=p>";
        let expected = [
            ("id", "words"),
            ("href", "#words"),
            ("src", "a.js"),
            ("src", "b.svg"),
            ("href", "c?x&y"),
            ("id", "p"),
        ];
        assert_eq!(attributes(html), expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn text_that_is_cut_short_ends() {
        for html in
            ["<", "<a", "<a href", "<a href=", "<a href=\"x", "<!-- x", "<script>", "<a =x>", "<a \"é\">"]
        {
            attributes(html);
        }
    }

    #[test]
    fn escaped_text_comes_back() {
        let text = "a < b && c > \"d\" &lt; 'e'";
        assert!(!escaped(text).contains(['<', '>', '"', '\'']));
        assert_eq!(unescaped(&escaped(text)), text);
    }
}
