//! Effects of the database on tables that a specification touches, which a disguise does not see.

use crate::database::{Column, Dialect, OnDelete, Property};
use crate::plan::cascade::{all_emptying_unseen, emptying};
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::spec::filler::is_time;
use crate::spec::{Kind, Spec};

impl ResolvedSchema {
    /// Returns one sentence for each fact to know before `spec` is applied.
    pub(crate) fn cautions(&self, dialect: Dialect, spec: &Spec) -> Vec<String> {
        let removes = |name: &str| {
            let mut all = spec.transformations.iter();
            all.any(|it| it.table == name && it.kind == Kind::Remove)
        };
        // Placeholders come into the users table, and go.
        let makes_placeholders = |kind: &Kind| !matches!(kind, Kind::Modify { .. });
        let mut kinds = spec.transformations.iter().map(|it| &it.kind);
        let users = kinds
            .any(makes_placeholders)
            .then_some(self.pseudo.table.as_str());
        let mut touched = spec.tables();
        touched.extend(users.filter(|users| !spec.tables().contains(users)));
        let mut cautions: Vec<String> = self.untyped_ids(dialect).into_iter().collect();
        for table in touched.into_iter().filter_map(|name| self.table(name)) {
            cautions.extend(of_triggers(table));
            cautions.extend(of_versions(table));
            cautions.extend(of_places(table).filter(|_| removes(&table.name)));
            cautions.extend(self.of_emptied(table, spec));
            let unlike = self.all_unlike(dialect, table).into_iter();
            cautions.extend(unlike.map(|it| it.caution()));
            let leaves = removes(&table.name) || removes(&self.pseudo.table);
            cautions.extend(of_two_people(table, spec, leaves));
            if users == Some(&table.name) {
                cautions.extend(self.of_times(table));
            }
            if removes(&table.name) {
                if table.name == self.pseudo.table {
                    cautions.extend(self.unsaid());
                }
                cautions.extend(of_referrers(table));
            } else if users == Some(&table.name) {
                cautions.extend(of_placeholders(table));
            }
        }
        cautions.extend(self.of_hidden(&removes));
        cautions.extend(self.of_closed_circles(&removes));
        cautions.extend(
            users
                .into_iter()
                .flat_map(|_| self.of_unnamed(removes(&self.pseudo.table))),
        );
        cautions
    }

    /// Cautions about tables whose foreign keys the account may not see, where rows of others go.
    fn of_hidden(&self, removes: &impl Fn(&str) -> bool) -> Vec<String> {
        if !self.tables.keys().any(|name| removes(name)) {
            return Vec::new();
        }
        let tables = self.tables.values();
        let hiding = tables.filter(|it| it.catalog.has(Property::HidesColumns));
        let sentence = |it: &ResolvedTable| {
            format!(
                "the account may not see the foreign keys of {}, and by one with ON DELETE CASCADE its rows would go for good; let it SELECT from the whole table",
                it.name
            )
        };
        hiding.map(sentence).collect()
    }

    /// Cautions about rows that may come to refer to a placeholder without a declared owner. Users
    /// who refer to each other have a caution of their own if users leave.
    fn of_unnamed(&self, is_left: bool) -> Vec<String> {
        let users = &self.pseudo.table;
        let mut cautions = Vec::new();
        for child in self.tables.values() {
            let is_person = |it: &String| self.others(child).any(|column| column == it);
            let unnamed = child.catalog.foreign_keys.iter().filter(|key| {
                let is_said = key.columns.iter().any(is_person);
                key.to_table == *users && !is_said && !(is_left && child.name == *users)
            });
            cautions.extend(unnamed.map(|key| {
                format!(
                    "rows of {} that refer to a placeholder by foreign key ({}) keep it in {users} when it is revealed, for nothing says that the column names an owner or a reader",
                    child.name,
                    key.columns.join(", ")
                )
            }));
        }
        cautions
    }

    /// Cautions about keys by which the database empties references when the referred row gets
    /// another owner or value.
    fn of_emptied(&self, table: &ResolvedTable, spec: &Spec) -> Vec<String> {
        let own = spec.transformations.iter();
        let own = own.filter(|it| it.table == table.name);
        let overwritten = own.filter_map(|it| match &it.kind {
            Kind::Modify { column, .. } => Some(column),
            _ => None,
        });
        let changed = overwritten.chain(self.others(table));
        let changed: Vec<&str> = changed.map(String::as_str).collect();
        let mut keys: Vec<(&str, &[String])> = Vec::new();
        for child in self.tables.values() {
            let own = emptying(child, table, &changed);
            keys.extend(own.map(|it| (child.name.as_str(), it.columns.as_slice())));
        }
        let others = all_emptying_unseen(table, &changed);
        keys.extend(others.map(|it| (it.table.as_str(), it.columns.as_slice())));
        let sentence = |(child, columns): (&str, &[String])| {
            format!(
                "rows of {child} would lose what they refer to in {} by foreign key ({}), ON UPDATE SET NULL or SET DEFAULT: while any refers to a row, neither a disguise nor a reveal changes the key of that row",
                table.name,
                columns.join(", ")
            )
        };
        keys.into_iter().map(sentence).collect()
    }

    /// Times that the database fills in when a placeholder is made.
    fn of_times(&self, users: &ResolvedTable) -> impl Iterator<Item = String> {
        let is_made = |column: &&Column| {
            let mut made = self.pseudo.columns.iter();
            made.any(|(name, _)| *name == column.name)
        };
        let columns = users.catalog.columns.iter();
        let left = columns.filter(move |it| it.has_default && is_time(it) && !is_made(it));
        left.map(|column| {
            format!(
                "placeholders get what the database fills into column {} of {}; where that is the time, those that one disguise makes show that they are of one person, so name a constant for it under placeholder",
                column.name, users.name
            )
        })
    }
}

fn of_triggers(table: &ResolvedTable) -> Option<String> {
    let triggers = &table.catalog.triggers;
    let called = triggers.join(", ");
    (!triggers.is_empty()).then(|| {
        format!(
            "table {} has triggers ({called}), which run with each row that is hidden or comes back; what they write elsewhere is not seen, and may hold what is hidden",
            table.name
        )
    })
}

fn of_versions(table: &ResolvedTable) -> Option<String> {
    table.catalog.has(Property::KeepsVersions).then(|| {
        format!(
            "table {} keeps former versions of its rows, in which what is hidden can be read until they are deleted (DELETE HISTORY)",
            table.name
        )
    })
}

fn of_places(table: &ResolvedTable) -> Option<String> {
    table.catalog.has(Property::FoundByPlace).then(|| {
        format!(
            "table {} has no INTEGER PRIMARY KEY, and a virtual table finds its rows by their rowid: a row that comes back has another, so rebuild the virtual table after each reveal",
            table.name
        )
    })
}

/// Cautions about rows with two people in their key: each disguise records the key of its time.
fn of_two_people(table: &ResolvedTable, spec: &Spec, leaves: bool) -> Option<String> {
    let is_key = |column: &&String| table.identity.contains(column);
    let people: Vec<&String> = table.people().filter(is_key).collect();
    let changes_key = |kind: &Kind| match kind {
        Kind::Decorrelate { owners, .. } => {
            owners.is_empty() || owners.iter().any(|it| people.contains(&it))
        }
        _ => false,
    };
    let mut steps = spec.transformations.iter();
    let changes = steps.any(|it| it.table == table.name && changes_key(&it.kind));
    let is_left = leaves && table.readers.iter().any(|it| is_key(&it));
    (people.len() > 1 && (changes || is_left)).then(|| {
        let people: Vec<&str> = people.iter().map(|it| it.as_str()).collect();
        format!(
            "people are the key of {} ({}): after several disguises that put placeholders into it a record may not find its row again, which then stays as it is; remove such rows instead",
            table.name,
            people.join(", ")
        )
    })
}

/// Cautions about rows that the database removes or changes when a reveal removes their placeholder,
/// for a specification that does not remove from the users table.
fn of_placeholders(users: &ResolvedTable) -> impl Iterator<Item = String> {
    let changing = users.catalog.referrers.iter();
    let changing = changing.filter(|it| it.on_delete == OnDelete::Change);
    changing.map(|it| {
        format!(
            "rows of {} that are made under a placeholder are removed or changed when it goes, by foreign key ({}), which no specification reaches",
            it.table,
            it.columns.join(", ")
        )
    })
}

fn of_referrers(table: &ResolvedTable) -> Vec<String> {
    let refusing = table.catalog.referrers.iter();
    let refusing = refusing.filter(|it| it.on_delete == OnDelete::Refuse);
    let mut cautions: Vec<String> = refusing
        .map(|it| {
            format!(
                "the database refuses to remove rows of {} while rows of {} refer to them by foreign key ({}), which no specification reaches",
                table.name,
                it.table,
                it.columns.join(", ")
            )
        })
        .collect();
    if table.catalog.has(Property::UnseenReferrers) {
        cautions.push(format!(
            "foreign keys that refer to {} from other databases are seen only where the account has rights there, and by one with ON DELETE CASCADE rows go for good; run check once with an account that reads all databases",
            table.name
        ));
    }
    cautions
}
