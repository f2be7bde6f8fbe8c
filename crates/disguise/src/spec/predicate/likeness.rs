//! `LIKE`, which on `SQLite` finds letters of another case, or does not where a setting of the session
//! says so (`case_sensitive_like`).

use super::Scope;
use crate::database::Dialect;

/// The way in which `LIKE` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Like {
    /// As it is.
    Plain,
    /// On `SQLite` so that it finds letters of ASCII of another case, whatever the setting is.
    Folded,
    /// There so that it does not.
    Exact,
}

/// Signs of a pattern of `LIKE` and what they are in one of `GLOB`, which has the same rules but for
/// the setting. The first are letters like others for `LIKE`.
const SIGNS: [(&str, &str); 5] = [
    ("[", "[[]"),
    ("*", "[*]"),
    ("?", "[?]"),
    ("%", "*"),
    ("_", "?"),
];

impl Scope<'_> {
    /// Sets how `LIKE` is written.
    pub(crate) fn with_like(self, like: Like) -> Self {
        Self { like, ..self }
    }

    pub(super) fn likeness(&self, value: &str, pattern: &str, not: &str) -> String {
        if self.dialect != Dialect::Sqlite || self.like == Like::Plain {
            return format!("({value} {not}LIKE {pattern})");
        }
        let mut other = pattern.to_owned();
        for (sign, instead) in SIGNS {
            other = format!("replace({other},'{sign}','{instead}')");
        }
        if self.like == Like::Exact {
            format!("({value} {not}GLOB {other})")
        } else {
            format!("(lower({value}) {not}GLOB lower({other}))")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::database::tenant::TenantScope;
    use crate::database::{Database as _, Sqlite};

    /// An expression with `LIKE` found what the setting of the session of the reveal made of it.
    #[test]
    fn both_ways_of_like_are_found_whatever_the_setting_is() {
        let mut database = Sqlite::open(Path::new(":memory:")).unwrap();
        for sql in [
            "CREATE TABLE texts (v, p)",
            "CREATE TABLE all_texts (v)",
            "INSERT INTO all_texts VALUES (NULL), (''), ('a'), ('A'), ('Abc'), ('a%'), ('%B_'), ('_b%'), ('[a]%'), ('[A]x'), ('a*'), ('A?c'), ('*'), ('?_'), (']'), ('[^a]'), ('\u{c9}%'), ('\u{e9}a'), ('\\%'), ('\\A'), (12), ('1%'), (1.5), (x'4162'), ('a' || char(10) || 'b')",
            "INSERT INTO texts SELECT it.v, pattern.v FROM all_texts AS it, all_texts AS pattern",
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let catalog = database.catalog().unwrap();
        let (named, alone) = (BTreeMap::new(), TenantScope::none());
        let scope = Scope::new(Dialect::Sqlite, &catalog, (&named, &alone), "texts");
        let mut found = |like: Like| {
            let value = scope.clone().with_like(like).value("v NOT LIKE p").unwrap();
            let sql = format!("SELECT v, p, {} FROM texts ORDER BY rowid", value.sql);
            database.query(&sql, &[]).unwrap()
        };
        let (folded, exact) = (found(Like::Folded), found(Like::Exact));
        assert_eq!(folded, found(Like::Plain));
        assert_ne!(folded, exact);
        database
            .execute("PRAGMA case_sensitive_like = on", &[])
            .unwrap();
        let mut found = |like: Like| {
            let value = scope.clone().with_like(like).value("v NOT LIKE p").unwrap();
            let sql = format!("SELECT v, p, {} FROM texts ORDER BY rowid", value.sql);
            database.query(&sql, &[]).unwrap()
        };
        assert_eq!(exact, found(Like::Plain));
        assert_eq!(folded, found(Like::Folded));
        assert_eq!(exact, found(Like::Exact));
    }
}
