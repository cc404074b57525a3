//! Binary values as text: base64 without padding, cut into chunks that every server's lines can hold.
//!
//! Values of PMI-1 are single words of text and those of PMI-2 hold no `;`, and one of the widespread servers
//! reads a command line of at most 1024 bytes whatever it announces. So a value is encoded, and cut when it
//! is long:
//! ```text
//! key      "<chunks>:<first chunk>"
//! key-2    "<second chunk>"
//! key-3    …
//! ```
//! The first chunk tells how many there are, so a reader need not know where the writer cut.

/// Cuts an encoded value into `(key, text)` pairs whose text has at most `text_bytes_max` bytes.
pub(crate) fn cut(key: &str, value: &[u8], text_bytes_max: usize) -> Vec<(String, String)> {
    let text = encode(value);
    let chunk_bytes = text_bytes_max.saturating_sub(COUNT_BYTES_MAX).max(1);
    let mut chunks: Vec<&str> = text.as_bytes().chunks(chunk_bytes).map(ascii).collect();
    if chunks.is_empty() {
        chunks.push("");
    }
    let count = chunks.len();
    let named = |(index, chunk): (usize, &&str)| match index {
        0 => (key.to_owned(), format!("{count}:{chunk}")),
        _ => (chunk_key(key, index), (*chunk).to_owned()),
    };
    chunks.iter().enumerate().map(named).collect()
}

/// Reads what [`cut`] has made, by a function that fetches the text under a key; `None` where there is no
/// first chunk.
pub(crate) fn read<E>(
    key: &str,
    mut text_under: impl FnMut(&str) -> Result<Option<String>, E>,
    damaged: impl Fn() -> E,
) -> Result<Option<Vec<u8>>, E> {
    let Some(first) = text_under(key)? else { return Ok(None) };
    let (count, chunk) = first_chunk(&first).ok_or_else(&damaged)?;
    let mut text = chunk.to_owned();
    for index in 1..count {
        text.push_str(&text_under(&chunk_key(key, index))?.ok_or_else(&damaged)?);
    }
    decode(&text).map(Some).ok_or_else(damaged)
}

/// The key of chunk number `index`, counted from zero.
pub(crate) fn chunk_key(key: &str, index: usize) -> String {
    if index == 0 { key.to_owned() } else { format!("{key}-{}", index + 1) }
}

/// Reads the text of a first chunk: how many chunks there are, and its share of the value.
pub(crate) fn first_chunk(text: &str) -> Option<(usize, &str)> {
    let (count, chunk) = text.split_once(':')?;
    let count = count.parse().ok().filter(|count| (1..=CHUNKS_MAX).contains(count))?;
    Some((count, chunk))
}

/// The bytes of a text made by [`cut`], its chunks joined again.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    text.as_bytes().chunks(4).try_fold(Vec::with_capacity(text.len() / 4 * 3), |mut bytes, group| {
        let whole = group.iter().try_fold(0u32, |bits, &letter| Some(bits << 6 | letter_value(letter)?))?;
        let shifted = whole << (6 * (4 - group.len()));
        // A group of one letter holds six bits, which is no byte.
        if group.len() == 1 {
            return None;
        }
        bytes.extend_from_slice(&shifted.to_be_bytes()[1..group.len()]);
        Some(bytes)
    })
}

fn encode(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len().div_ceil(3) * 4);
    for group in value.chunks(3) {
        let mut bytes = [0; 4];
        bytes[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bytes);
        // One byte needs two letters, two need three, three need four.
        let letter = |place: usize| char::from(LETTERS[(bits >> (18 - 6 * place)) as usize & 63]);
        text.extend((0..=group.len()).map(letter));
    }
    text
}

fn ascii(chunk: &[u8]) -> &str {
    std::str::from_utf8(chunk).expect("the letters of the encoding are ASCII")
}

fn letter_value(letter: u8) -> Option<u32> {
    match letter {
        b'A'..=b'Z' => Some(u32::from(letter - b'A')),
        b'a'..=b'z' => Some(u32::from(letter - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(letter - b'0') + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Room for `<chunks>:` before the first chunk.
const COUNT_BYTES_MAX: usize = 8;

/// More chunks than any value of ours has; a larger count comes from a stranger.
const CHUNKS_MAX: usize = 99_999;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn join(chunks: &[(String, String)]) -> Option<Vec<u8>> {
        let (count, first) = first_chunk(&chunks[0].1)?;
        assert_eq!(count, chunks.len());
        let rest: String = chunks[1..].iter().map(|(_, text)| text.as_str()).collect();
        decode(&format!("{first}{rest}"))
    }

    #[test]
    fn known_texts() {
        // The vectors of RFC 4648 §10, with the padding left off.
        for (value, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(encode(value.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), value.as_bytes());
        }
        assert_eq!(encode(&[0xfb, 0xff]), "-_8");
    }

    #[test]
    fn foreign_texts_are_refused() {
        for text in ["A", "AAAAA", "A=", "A b", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
        for text in ["", "x", "0:", "-1:AA", "100000:AA", ":AA"] {
            assert_eq!(first_chunk(text), None, "{text}");
        }
    }

    #[test]
    fn keys_of_chunks() {
        let chunks = cut("card-3", &[7; 100], 50);
        let keys: Vec<&str> = chunks.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["card-3", "card-3-2", "card-3-3", "card-3-4"]);
    }

    proptest! {
        #[test]
        fn what_is_cut_can_be_joined(value in proptest::collection::vec(any::<u8>(), 0..3000), max in 9usize..900) {
            let chunks = cut("key", &value, max);
            for (_, text) in &chunks {
                prop_assert!(text.len() <= max);
                prop_assert!(!text.contains(['=', ' ', '\n', '\\', ';']));
            }
            prop_assert_eq!(join(&chunks), Some(value));
        }

        #[test]
        fn any_text_is_read_without_panic(text in ".*") {
            let _ = decode(&text);
            let _ = first_chunk(&text);
        }
    }
}
