//! Refusals that are limits of the product, by the words of the manual.

/// Messages of the product, and the sentence of the manual that announces each.
const LIMITS: &[(&str, &str)] = &[
    (
        "has no primary key of one column",
        "Tables need identifying columns; the id of a user is one column.",
    ),
    (
        "other tables inherit from",
        "Nothing is changed in a table of `PostgreSQL` from which others inherit",
    ),
    (
        "a specification reaches one schema or database",
        "It is refused, too, when a table of another schema or database refers to such a table with `ON DELETE CASCADE`",
    ),
    (
        "must refer to a user; name one who never leaves",
        "a placeholder needs a user to refer to",
    ),
    (
        "changing the key of",
        "No key changes while other rows refer to it by a declared key",
    ),
    (
        "refer to these by foreign key",
        "of several in a circle, that refer to each other by declared keys may be refused",
    ),
];

const MANUAL: &str = include_str!("../../../../docs/disguise.md");

/// The sentence of the manual for which `reason` is a refusal, if there is one.
pub(crate) fn limit(reason: &str) -> Option<&'static str> {
    let (_, sentence) = LIMITS.iter().find(|(words, _)| reason.contains(words))?;
    let manual: Vec<&str> = MANUAL.split_whitespace().collect();
    assert!(
        manual.join(" ").contains(sentence),
        "the manual does not say: {sentence}"
    );
    Some(sentence)
}
