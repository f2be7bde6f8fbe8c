//! Words that an entry may quote: an administrator who mistypes a command may have put a password there.

/// The parameters of Redis 6.2, Redis 7.0 and Valkey 9.1.
const PARAMETERS: &str = include_str!("../../data/parameters.txt");

/// The longest word that is looked up: longer ones are neither names nor patterns that anybody writes.
const WORD_BYTES_MAX: usize = 128;

/// Returns whether the word is the name of a parameter, or a pattern with stars that one fits.
pub(super) fn is_parameter(word: &[u8]) -> bool {
    if word.len() > WORD_BYTES_MAX {
        return false;
    }
    let word = word.to_ascii_lowercase();
    let Ok(word) = std::str::from_utf8(&word) else {
        return false;
    };
    let fits = |name: &str| word.split('*').all(|part| name.contains(part));
    let mut names = PARAMETERS.lines();
    if word.contains('*') {
        names.any(fits)
    } else {
        names.any(|name| name == word)
    }
}

/// Returns whether the word is, or has in it, the name of a parameter whose value is secret.
pub(super) fn is_secret_parameter(word: &[u8]) -> bool {
    let word = word.to_ascii_lowercase();
    let has = |part: &[u8]| word.windows(part.len()).any(|it| it == part);
    has(b"pass") || has(b"auth")
}

/// Returns whether the word may be the name of a user, and has nothing in it of a rule by which
/// `ACL SETUSER` takes or drops a password.
pub(super) fn is_user(word: &[u8]) -> bool {
    !word.iter().any(|byte| b"><#!(".contains(byte)) && is_one_word(word)
}

/// Returns whether the word may be the name of a command or subcommand, and not a phrase in quotes or a
/// login without a blank.
pub(super) fn is_command(word: &[u8]) -> bool {
    let quotes = word.iter().take_while(|byte| b"\"'".contains(byte)).count();
    let starts = |name: &[u8]| {
        word.get(quotes..quotes + name.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    is_one_word(word) && !starts(b"auth") && !starts(b"hello")
}

/// Returns whether the word may be a host, and no address with a login in it.
pub(super) fn is_host(word: &[u8]) -> bool {
    !word.iter().any(|byte| b"@/".contains(byte)) && is_one_word(word)
}

/// Returns whether the word is a number, of a port or a database.
pub(super) fn is_number(word: &[u8]) -> bool {
    word.len() <= 10 && word.iter().all(u8::is_ascii_digit)
}

fn is_one_word(word: &[u8]) -> bool {
    !word.is_empty() && !word.iter().any(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each star of a long pattern made the names be searched once more: one command of 1 MB took
    /// seconds, in which the worker served nobody else.
    #[test]
    fn only_words_as_long_as_parameters_are_looked_up() {
        assert!(is_parameter(b"MaxMemory") && is_parameter(b"max*policy"));
        assert!(!is_parameter(b"secret") && !is_parameter(&b"*".repeat(65_000)));
        let longest = PARAMETERS.lines().map(str::len).max();
        assert!(longest < Some(WORD_BYTES_MAX / 2));
    }
}
