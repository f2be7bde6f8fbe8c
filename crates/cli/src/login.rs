//! The login name of the current user.

use std::fs;

/// Returns the login name of the current user from the system's table of accounts, or else the
/// number.
pub(crate) fn name() -> String {
    let number = rustix::process::getuid().as_raw().to_string();
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    named(&accounts, &number).unwrap_or_else(|| format!("uid {number}"))
}

/// Returns the name of the account with this number.
fn named(accounts: &str, number: &str) -> Option<String> {
    let mut fields = accounts.lines().map(|line| line.split(':'));
    fields.find_map(|mut fields| {
        let name = fields.next().filter(|name| !name.is_empty())?;
        // The password field lies between them.
        let is_meant = fields.nth(1) == Some(number);
        is_meant.then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_number() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\n\nbea:x:1000:1000::/:/bin/sh\n";
        assert_eq!(named(accounts, "1000").as_deref(), Some("bea"));
        assert_eq!(named(accounts, "0").as_deref(), Some("root"));
        assert_eq!(named(accounts, "100"), None);
        assert_eq!(named("", "0"), None);
        assert!(!name().is_empty());
    }
}
