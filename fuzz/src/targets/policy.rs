//! Policy files, and the patterns in them over any key.

use probity_policy::{Pattern, Policy};

use crate::Target;
use crate::targets::text;

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "policy",
        seeds: policy_seeds,
        check: check_policy,
    },
    Target {
        name: "pattern",
        seeds: pattern_seeds,
        check: check_pattern,
    },
];

const POLICY: &str = r#"version = 1
[defaults]
personal = true
controller = "Example GmbH"
[[key]]
pattern = "user:{subject}:*"
purpose = "service"
basis = "contract"
[[key]]
pattern = "session:{any}:{subject}"
personal = false
[[actor]]
principal = "crm"
purpose = "support"
[[actor]]
client = "billing"
processor = "Example Hosting"
"#;

fn policy_seeds() -> Vec<Vec<u8>> {
    vec![POLICY.into(), b"version = 1\n".to_vec()]
}

/// A file is a policy or an error that can be shown; a policy answers for any key.
fn check_policy(data: &[u8]) -> bool {
    let Some(text) = text(data) else { return false };
    match Policy::parse(text) {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
        Ok(policy) => {
            for key in [data, b"user:alice:cart", b"session:1:bob", b""] {
                subjects_lie_in_the_key(key, |subjects| {
                    policy.classify(key, subjects);
                });
            }
            true
        }
    }
}

/// A pattern, a zero byte, and the key it is held against.
fn pattern_seeds() -> Vec<Vec<u8>> {
    vec![
        b"user:{subject}:*\0user:alice:cart".to_vec(),
        b"\\*{any}-{subject}*x*y*\0*a-b:xxyy".to_vec(),
    ]
}

fn check_pattern(data: &[u8]) -> bool {
    let Some(split) = data.iter().position(|byte| *byte == 0) else {
        return false;
    };
    let (written, key) = (&data[..split], &data[split + 1..]);
    let Some(Ok(pattern)) = text(written).map(Pattern::parse) else {
        return false;
    };
    assert_eq!(pattern.as_str().as_bytes(), written);
    subjects_lie_in_the_key(key, |subjects| {
        if pattern.matches(key, subjects) {
            assert!(key.starts_with(pattern.prefix()));
        }
    });
    true
}

fn subjects_lie_in_the_key(key: &[u8], find: impl Fn(&mut Vec<std::ops::Range<usize>>)) {
    let mut subjects = Vec::new();
    find(&mut subjects);
    for subject in &subjects {
        assert!(
            key.get(subject.clone())
                .is_some_and(|subject| !subject.is_empty())
        );
    }
}
