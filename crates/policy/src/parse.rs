//! The parser of policies in TOML; unknown fields are refused.

use std::collections::HashSet;

use serde::Deserialize;
use toml::Spanned;

use crate::error::PolicyError;
use crate::limits::{ACTORS_MAX, NAME_BYTES_MAX, PATTERNS_MAX, POLICY_BYTES_MAX};
use crate::pattern::Pattern;
use crate::policy::{Actor, KeyRule, Policy, Roles};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    version: Option<Spanned<i64>>,
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    key: Vec<Spanned<Key>>,
    #[serde(default)]
    actor: Vec<Spanned<ActorTable>>,
}

type Name = Option<Spanned<String>>;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Defaults {
    personal: Option<bool>,
    controller: Name,
    processor: Name,
    purpose: Name,
    basis: Name,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    pattern: Spanned<String>,
    personal: Option<bool>,
    controller: Name,
    processor: Name,
    purpose: Name,
    basis: Name,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActorTable {
    principal: Name,
    client: Name,
    /// `true` if the client's name also decides for users that the server has logged in.
    for_users: Option<bool>,
    controller: Name,
    processor: Name,
    purpose: Name,
    basis: Name,
}

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// The first error, with its line and column and the remedy.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        if text.len() > POLICY_BYTES_MAX {
            let reason = format!("the policy has {} bytes", text.len());
            return Err(PolicyError::at(text, 0, reason, "keep it within 1 MiB"));
        }
        let file: File = toml::from_str(text).map_err(|error| from_toml(text, &error))?;
        let has_version = file.version.is_some();
        if let Some(version) = file.version.filter(|version| *version.get_ref() != 1) {
            let reason = format!("version {} is not known", version.get_ref());
            return Err(PolicyError::at(
                text,
                version.span().start,
                reason,
                "write `version = 1`",
            ));
        }
        let defaults = file.defaults;
        let roles = roles(
            text,
            [
                defaults.controller,
                defaults.processor,
                defaults.purpose,
                defaults.basis,
            ],
        )?;
        let rules = rules(text, file.key)?;
        let (principals, clients) = actors(text, file.actor)?;
        if !has_version {
            // A file that was cut to nothing would be a policy that names nobody.
            return Err(PolicyError::at(
                text,
                0,
                "the policy has no version".to_owned(),
                "begin it with `version = 1`; if it had more, put back a whole copy",
            ));
        }
        Ok(Self::new(
            rules,
            principals,
            clients,
            roles,
            defaults.personal.unwrap_or(true),
        )
        .with_digest_of(text))
    }
}

fn from_toml(text: &str, error: &toml::de::Error) -> PolicyError {
    let offset = error.span().map_or(0, |span| span.start);
    let message = error.message();
    let remedy = if message.starts_with("unknown field") {
        "remove it or correct its name"
    } else if message.starts_with("missing field") {
        "add it"
    } else if message.contains("escape") {
        "write the text as '...', where TOML takes a backslash as it is, or double the backslash"
    } else {
        "correct the TOML at this place"
    };
    PolicyError::at(text, offset, message.replace('\n', " "), remedy)
}

fn rules(text: &str, keys: Vec<Spanned<Key>>) -> Result<Vec<KeyRule>, PolicyError> {
    if keys.len() > PATTERNS_MAX {
        let reason = format!("there are {} patterns", keys.len());
        return Err(PolicyError::at(text, 0, reason, "keep them within 4096"));
    }
    let mut seen = HashSet::new();
    let mut rules = Vec::with_capacity(keys.len());
    for key in keys {
        let key = key.into_inner();
        let offset = key.pattern.span().start;
        let pattern = Pattern::parse(key.pattern.get_ref())
            .map_err(|error| PolicyError::at(text, offset, error.to_string(), error.remedy))?;
        if !seen.insert(pattern.as_str().to_owned()) {
            let reason = format!("pattern {:?} is given twice", pattern.as_str());
            return Err(PolicyError::at(text, offset, reason, "remove one of them"));
        }
        let roles = roles(
            text,
            [key.controller, key.processor, key.purpose, key.basis],
        )?;
        rules.push(KeyRule::new(pattern, key.personal.unwrap_or(true), roles));
    }
    Ok(rules)
}

fn actors(
    text: &str,
    tables: Vec<Spanned<ActorTable>>,
) -> Result<(Vec<Actor>, Vec<Actor>), PolicyError> {
    if tables.len() > ACTORS_MAX {
        let reason = format!("there are {} actors", tables.len());
        return Err(PolicyError::at(text, 0, reason, "keep them within 4096"));
    }
    let mut seen = HashSet::new();
    let (mut principals, mut clients) = (Vec::new(), Vec::new());
    for table in tables {
        let offset = table.span().start;
        let table = table.into_inner();
        let (name, is_principal) = match (table.principal, table.client) {
            (Some(name), None) => (name, true),
            (None, Some(name)) => (name, false),
            _ => {
                let reason = "an actor needs either `principal` or `client`".to_owned();
                return Err(PolicyError::at(
                    text,
                    offset,
                    reason,
                    "give exactly one of them",
                ));
            }
        };
        let offset = name.span().start;
        let name = checked_name(text, name)?;
        if is_principal && table.for_users.is_some() {
            let reason = format!("actor {name:?} is a user itself");
            return Err(PolicyError::at(
                text,
                offset,
                reason,
                "remove `for_users`; it belongs to a `client`",
            ));
        }
        if name.is_empty() || !seen.insert((name.clone(), is_principal)) {
            let reason = format!("actor {name:?} is empty or given twice");
            return Err(PolicyError::at(
                text,
                offset,
                reason,
                "name each actor once",
            ));
        }
        let roles = roles(
            text,
            [
                table.controller,
                table.processor,
                table.purpose,
                table.basis,
            ],
        )?;
        let list = if is_principal {
            &mut principals
        } else {
            &mut clients
        };
        let for_users = table.for_users.unwrap_or_default();
        list.push(Actor {
            name,
            for_users,
            roles,
        });
    }
    Ok((principals, clients))
}

fn roles(text: &str, names: [Name; 4]) -> Result<Roles, PolicyError> {
    let [controller, processor, purpose, basis] = names;
    let checked =
        |name: Name| name.map_or_else(|| Ok(String::new()), |name| checked_name(text, name));
    Ok(Roles {
        controller: checked(controller)?,
        processor: checked(processor)?,
        purpose: checked(purpose)?,
        basis: checked(basis)?,
    })
}

fn checked_name(text: &str, name: Spanned<String>) -> Result<String, PolicyError> {
    let offset = name.span().start;
    let name = name.into_inner();
    if name.len() > NAME_BYTES_MAX {
        let reason = format!("a name has {} bytes", name.len());
        return Err(PolicyError::at(
            text,
            offset,
            reason,
            "keep names within 255 bytes",
        ));
    }
    if name.bytes().any(|byte| byte < 0x20 || byte == 0x7F) {
        let reason = "a name holds a control character".to_owned();
        return Err(PolicyError::at(text, offset, reason, "remove it"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"
version = 1
[defaults]
controller = "Example GmbH"
[[key]]
pattern = "user:{subject}:*"
purpose = "service"
basis = "contract"
[[key]]
pattern = "user:{subject}:newsletter"
purpose = "marketing"
basis = "consent"
[[key]]
pattern = "cache:*"
personal = false
[[actor]]
principal = "crm"
processor = "CRM AG"
[[actor]]
client = "billing"
purpose = "invoicing"
"#;

    fn classify(policy: &Policy, key: &str) -> (bool, String, String, usize) {
        let mut subjects = Vec::new();
        let class = policy.classify(key.as_bytes(), &mut subjects);
        (
            class.personal,
            class.purpose.into(),
            class.controller.into(),
            subjects.len(),
        )
    }

    /// A name with `%` was compared as the file has it with the name of an entry, where it is `%25`.
    #[test]
    fn an_actor_is_found_by_its_name_as_entries_have_it() {
        let file = "version = 1\n[[actor]]\nprincipal = 'a%b'\npurpose = 'support'\n[[actor]]\nclient = 'c%d'\npurpose = 'sales'";
        let policy = Policy::parse(file).unwrap();
        assert!(policy.actor(Some("a%25b"), None).is_some());
        assert!(policy.actor(None, Some("c%25d")).is_some());
        assert!(policy.actor(Some("a%b"), None).is_none());
    }

    /// Entries did not state the deciding rule and its policy.
    #[test]
    fn a_class_names_its_rule_and_a_policy_its_digest() {
        let policy = Policy::parse(EXAMPLE).unwrap();
        let mut subjects = Vec::new();
        let mut rule = |key: &str| policy.classify(key.as_bytes(), &mut subjects).rule;
        assert_eq!(rule("user:1:cart"), "key:user:{subject}:*");
        assert_eq!(rule("cache:1"), "key:cache:*");
        assert_eq!(rule("other"), "defaults");
        assert_eq!(policy.digest(), Policy::parse(EXAMPLE).unwrap().digest());
        let other = Policy::parse(&format!("{EXAMPLE}\n")).unwrap();
        assert!(policy.digest() != other.digest());
        assert!(*Policy::builtin().digest() != [0; 32]);
    }

    #[test]
    fn the_most_specific_pattern_wins() {
        let policy = Policy::parse(EXAMPLE).unwrap();
        let said = |key| classify(&policy, key);
        let controller = "Example GmbH".to_owned();
        assert_eq!(
            said("user:1:cart"),
            (true, "service".into(), controller.clone(), 1)
        );
        assert_eq!(
            said("user:1:newsletter"),
            (true, "marketing".into(), controller.clone(), 1)
        );
        assert_eq!(
            said("cache:user:1:cart"),
            (false, String::new(), controller.clone(), 0)
        );
        assert_eq!(said("other"), (true, String::new(), controller, 0));
        assert_eq!(
            policy
                .actor(Some("crm"), Some("billing"))
                .unwrap()
                .roles
                .processor,
            "CRM AG"
        );
        assert_eq!(
            policy.actor(None, Some("billing")).unwrap().roles.purpose,
            "invoicing"
        );
        // The name that a client gives itself does not identify a user, unless the policy allows
        // it.
        assert!(policy.actor(Some("x"), Some("billing")).is_none());
        let text = EXAMPLE.replace(
            "client = \"billing\"",
            "client = \"billing\"\nfor_users = true",
        );
        let told = Policy::parse(&text).unwrap();
        assert!(told.actor(Some("x"), Some("billing")).is_some());
        assert!(policy.actor(None, Some("crm")).is_none());
    }

    #[test]
    fn without_a_file_every_key_is_recorded() {
        let policy = Policy::builtin();
        assert_eq!(
            classify(&policy, "user:1"),
            (true, String::new(), String::new(), 1)
        );
        assert_eq!(
            classify(&policy, "user:1:x"),
            (true, String::new(), String::new(), 1)
        );
        assert_eq!(
            classify(&policy, "x"),
            (true, String::new(), String::new(), 0)
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, line, column, part) in [
            ("x = 1", 1, 1, "unknown field `x`"),
            (
                "[[key]]\npattern = \"a\"\nporpose = \"b\"",
                3,
                1,
                "unknown field `porpose`",
            ),
            ("[[key]]\npersonal = true", 1, 1, "missing field `pattern`"),
            ("[[key]]\npattern = \"{x}\"", 2, 11, "no placeholder {x}"),
            (
                "[[key]]\npattern = 'a'\n[[key]]\npattern = 'a'",
                4,
                11,
                "given twice",
            ),
            ("version = 2", 1, 11, "version 2"),
            ("", 1, 1, "no version"),
            ("# all of it was cut off\n", 1, 1, "no version"),
            ("[[key]]\npattern = 'a'", 1, 1, "no version"),
            (
                "[[actor]]\npurpose = 'x'",
                1,
                1,
                "either `principal` or `client`",
            ),
            (
                "[defaults]\npurpose = \"a\\tb\"",
                2,
                11,
                "control character",
            ),
            ("[[key]\n", 1, 7, ""),
        ] {
            let error = Policy::parse(text).unwrap_err();
            assert_eq!(
                (error.line, error.column),
                (line, column),
                "{text}: {error}"
            );
            assert!(error.reason.contains(part), "{text}: {error}");
            assert!(!error.remedy.is_empty());
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[\\[\\]{}=\"'a-z*:\\\\\n .#0-9]{0,200}") {
            if let Ok(policy) = Policy::parse(&text) {
                let _class = policy.classify(text.as_bytes(), &mut Vec::new());
            }
        }

        #[test]
        fn no_key_makes_a_pattern_panic(pattern in "([a-c:*]|\\{any\\}|\\{subject\\}|\\\\.){0,12}", key in "[a-c:]{0,40}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                let mut subjects = Vec::new();
                if pattern.matches(key.as_bytes(), &mut subjects) {
                    for range in subjects {
                        proptest::prop_assert!(!key.as_bytes()[range].is_empty());
                    }
                }
            }
        }
    }
}
