//! Quoting of words for a shell, in commands that are advised.

use std::path::Path;

/// Quotes a path as an argument of a command. One that begins with `-` gets `./` in front; `-`
/// alone stays, because it means standard input.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if text.len() > 1 && text.starts_with('-') {
        return quoted_text(&format!("./{text}"));
    }
    quoted_text(&text)
}

/// Quotes a text for a shell.
pub(crate) fn quoted_text(text: &str) -> String {
    let plain = |symbol: char| symbol.is_alphanumeric() || "/._-+,:@%=".contains(symbol);
    if text.chars().all(plain) && !text.is_empty() {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_a_path_back_as_it_was() {
        for path in ["/srv/a-b_1.c", "a b", "it's", "$(x)", "a*?;\n"] {
            let shell = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(Path::new(path)))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(shell.stdout).unwrap(), path);
        }
    }

    /// The log `-d` was advised to be verified with `probity verify -d`, which is wrong usage.
    #[test]
    fn no_path_is_taken_for_an_option() {
        for (path, typed) in [
            ("-d", "./-d"),
            ("-a b", "'./-a b'"),
            ("-", "-"),
            ("./-d", "./-d"),
        ] {
            assert_eq!(quoted(Path::new(path)), typed);
        }
    }
}
