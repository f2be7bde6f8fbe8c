//! Quoting of words for a shell, in commands that are advised.

use std::path::{Path, PathBuf};

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

/// The words of a command, separated by spaces.
#[derive(Default)]
pub(crate) struct Words(pub(crate) String);

impl Words {
    /// Adds words as they are.
    pub(crate) fn word(&mut self, word: &str) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(word);
    }

    /// Adds a path.
    pub(crate) fn path(&mut self, path: &Path) {
        self.word(&quoted(path));
    }

    /// Adds an option without a value, where it is set.
    pub(crate) fn flag(&mut self, name: &str, is_set: bool) {
        if is_set {
            self.word(name);
        }
    }

    /// Adds an option with its value.
    pub(crate) fn option(&mut self, name: &str, value: &str) {
        // A value that begins with `-` would be taken for an option.
        let between = if value.starts_with('-') { '=' } else { ' ' };
        let value = quoted_text(value);
        self.word(&format!("{name}{between}{value}"));
    }

    /// Adds an option with a path, where there is one.
    pub(crate) fn file(&mut self, name: &str, path: Option<&PathBuf>) {
        if let Some(path) = path {
            self.word(name);
            self.path(path);
        }
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
