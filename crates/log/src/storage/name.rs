//! Names of files in a storage: validation and components.

use std::io;

/// The prefix of temporary names; a crash may leave such files, and they mean nothing.
pub(super) const TEMPORARY: &str = ".tmp-";
/// Longest component of a name in bytes, as in the usual file systems.
const COMPONENT_BYTES_MAX: usize = 255;

/// Returns whether `part` is a temporary name: prefix, process id, number. Anybody may give another
/// file a name that only begins so.
pub(super) fn is_temporary(part: &str) -> bool {
    let numbers = part
        .strip_prefix(TEMPORARY)
        .and_then(|rest| rest.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// The folder of `name` (empty for the root) and its last component.
///
/// Callers promise valid names. A name that would leave the root is refused all the same, because
/// it could lead to a foreign file.
pub(super) fn split(name: &str) -> io::Result<(&str, &str)> {
    check(name)?;
    Ok(name.rsplit_once('/').unwrap_or(("", name)))
}

/// The components of `folder`, none for the root.
pub(super) fn components(folder: &str) -> io::Result<impl Iterator<Item = &str>> {
    if !folder.is_empty() {
        check(folder)?;
    }
    Ok(folder.split('/').filter(|part| !part.is_empty()))
}

/// The name of `part` in `folder`.
pub(super) fn join(folder: &str, part: &str) -> String {
    if folder.is_empty() {
        part.to_owned()
    } else {
        format!("{folder}/{part}")
    }
}

fn check(name: &str) -> io::Result<()> {
    let refused = |reason| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    for part in name.split('/') {
        match part {
            "" => return refused("the name is absolute or has an empty component"),
            "." | ".." => return refused("the name would leave the log's folder"),
            _ if part.contains('\0') => return refused("the name holds a zero byte"),
            _ if part.len() > COMPONENT_BYTES_MAX => return refused("the name is too long"),
            _ if is_temporary(part) => {
                return refused("the name is one of a temporary file");
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{components, split};

    #[test]
    fn names_that_could_lead_elsewhere_are_refused() {
        let long = "x".repeat(256);
        for name in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "../a",
            "a/..",
            "a/../b",
            "a/./b",
            "a\0b",
            ".tmp-1-1",
            "a/.tmp-1-1/b",
            &long,
        ] {
            let error = split(name).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{name:?}");
        }
        for folder in ["/", "/a", "a/", "..", "a\0"] {
            assert!(components(folder).is_err(), "{folder:?}");
        }
    }

    #[test]
    fn sound_names_fall_into_folder_and_file() {
        assert_eq!(split("a").unwrap(), ("", "a"));
        assert_eq!(split("a/b/c").unwrap(), ("a/b", "c"));
        assert_eq!(split("a/...").unwrap(), ("a", "..."));
        assert_eq!(components("").unwrap().count(), 0);
        assert!(components("a/b").unwrap().eq(["a", "b"]));
    }
}
