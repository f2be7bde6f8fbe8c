//! Files of one line, like keys, credentials, passwords and addresses: the same whichever editor
//! wrote them.

/// The byte order mark, which some editors put before a text.
const MARK: &str = "\u{feff}";

/// Returns the first line of `text`, without a byte order mark and its line end, LF or CR LF.
pub(crate) fn first_line(text: &[u8]) -> &[u8] {
    let text = text.strip_prefix(MARK.as_bytes()).unwrap_or(text);
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns `text` without a byte order mark and the white space at its end, for forms that allow no
/// second line.
pub(crate) fn only_line(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text).trim_end()
}

/// Explains a signed text that a transfer or an editor changed in a way that nobody sees. What was
/// signed has no carriage returns and no byte order mark.
pub(crate) fn converted(text: &[u8]) -> Option<&'static str> {
    let has_mark = text.starts_with(MARK.as_bytes());
    (has_mark || text.contains(&b'\r')).then_some(
        "its line ends were changed, or a byte order mark was put before it: take it again as it is, byte by byte",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_same_whichever_editor_wrote_it() {
        for text in [
            "a b ",
            "a b \n",
            "a b \r\n",
            "\u{feff}a b ",
            "\u{feff}a b \r\nnext\r\n",
        ] {
            assert_eq!(first_line(text.as_bytes()), b"a b ", "{text:?}");
        }
        for text in ["a b", "a b\n", "a b\r\n", "\u{feff}a b\r\n"] {
            assert_eq!(only_line(text), "a b", "{text:?}");
        }
        assert!(converted(b"a\r\nb\r\n").is_some() && converted(b"a\nb\n").is_none());
    }
}
