//! Lines of the PMI-1 protocol: cutting a byte stream into lines, and reading the fields of one.
//!
//! A line is `key=value` pairs parted by single spaces and ended by a newline; the first pair is `cmd=…`.
//! Both ends of the protocol are built on this file. It holds no more than one unfinished line per stream,
//! and no byte sequence makes it panic.

/// Cuts a stream of bytes into lines and refuses lines longer than its limit.
#[derive(Debug)]
pub(crate) struct LineBuffer {
    held: Vec<u8>,
    line_bytes_max: usize,
}

/// A line that is longer than the stream's limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineTooLong;

impl LineBuffer {
    pub(crate) fn new(line_bytes_max: usize) -> LineBuffer {
        LineBuffer { held: Vec::new(), line_bytes_max }
    }

    /// Takes bytes up to and with the next newline from the front of `bytes`.
    ///
    /// Returns the line without its newline once it is whole, or `None` when `bytes` ran out first.
    pub(crate) fn take_line(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<u8>>, LineTooLong> {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        if self.line_bytes_max < self.held.len() + part.len() {
            return Err(LineTooLong);
        }
        self.held.extend_from_slice(part);
        *bytes = &bytes[end.map_or(bytes.len(), |end| end + 1)..];
        Ok(end.map(|_| std::mem::take(&mut self.held)))
    }

    /// Bytes of the unfinished line.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.len()
    }
}

/// One line, read field by field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a>(&'a str);

impl<'a> Line<'a> {
    /// `None` when the bytes are not text, or hold control characters.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Line<'a>> {
        let text = std::str::from_utf8(bytes).ok()?;
        if text.chars().any(char::is_control) { None } else { Some(Line(text)) }
    }

    /// The value of the first field of this name: all that follows its first `=`, up to the next space.
    pub(crate) fn field(&self, name: &str) -> Option<&'a str> {
        self.0.split(' ').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// Like [`Line::field`], but the value runs to the end of the line and may hold spaces.
    pub(crate) fn rest(&self, name: &str) -> Option<&'a str> {
        let value = self.field(name)?;
        let start = value.as_ptr() as usize - self.0.as_ptr() as usize;
        self.0.get(start..)
    }

    /// A field read as a decimal number.
    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.field(name)?.parse().ok()
    }
}

/// The start of a line for an error message: printable and short.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(EXCERPT_BYTES_MAX)];
    let dots = if head.len() < bytes.len() { "…" } else { "" };
    format!("`{}`{dots}", head.escape_ascii())
}

const EXCERPT_BYTES_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let line = Line::new(b"cmd=put kvsname=kvs_1 key=card value=a=b$c").unwrap();
        assert_eq!(line.field("cmd"), Some("put"));
        assert_eq!(line.field("key"), Some("card"));
        assert_eq!(line.field("value"), Some("a=b$c"));
        assert_eq!(line.field("name"), None, "a suffix of a name is another name");
        assert_eq!(line.field("k"), None, "a prefix of a name is another name");
    }

    #[test]
    fn rest_keeps_spaces() {
        let line = Line::new(b"cmd=abort exitcode=7 message=out of luck").unwrap();
        assert_eq!(line.rest("message"), Some("out of luck"));
        assert_eq!(line.field("message"), Some("out"));
    }

    #[test]
    fn lines_are_joined_across_reads() {
        let mut buffer = LineBuffer::new(16);
        let mut first: &[u8] = b"cmd=in";
        assert_eq!(buffer.take_line(&mut first), Ok(None));
        let mut second: &[u8] = b"it\ncmd=x\nrest";
        assert_eq!(buffer.take_line(&mut second), Ok(Some(b"cmd=init".to_vec())));
        assert_eq!(buffer.take_line(&mut second), Ok(Some(b"cmd=x".to_vec())));
        assert_eq!(buffer.take_line(&mut second), Ok(None));
        assert_eq!(buffer.held_bytes(), 4);
    }

    #[test]
    fn a_line_over_the_limit_is_refused_before_it_is_held() {
        let mut buffer = LineBuffer::new(8);
        assert_eq!(buffer.take_line(&mut &b"12345678"[..]), Ok(None));
        assert_eq!(buffer.take_line(&mut &b"9"[..]), Err(LineTooLong));
        assert_eq!(buffer.held_bytes(), 8);
    }

    #[test]
    fn control_characters_and_bad_utf8_are_no_line() {
        assert!(Line::new(b"cmd=a\0b").is_none());
        assert!(Line::new(b"cmd=\xff").is_none());
    }

    #[test]
    fn an_excerpt_is_short_and_printable() {
        assert_eq!(excerpt(b"a\x01"), "`a\\x01`");
        assert!(excerpt(&[b'z'; 500]).chars().count() < 90);
    }
}
