//! Rows that refer to rows about to be removed: none of them changes silently, and refusals are
//! predicted.

use std::collections::{BTreeMap, BTreeSet};

use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Catalog, Dialect, ForeignKey, OnDelete, OnUpdate, Referrer};
use crate::error::{Doing as _, Error};
use crate::plan::step::Step;
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::spec::Kind;
use crate::statements::row::encoded;
use crate::statements::table::{among, count_of, list, lists};

/// Rows that refer to rows about to be removed, while no step removes them or the reference: a
/// disguise would be refused for them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Referring {
    /// Their table.
    pub table: String,
    /// The columns of the foreign key.
    pub columns: Vec<String>,
    /// Their number now.
    pub rows: u64,
    /// True if the database would remove or change them by itself; otherwise it refuses.
    pub would_change: bool,
    /// True if these rows stay and get another key.
    pub for_a_key: bool,
}

impl std::fmt::Display for Referring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rows, table) = (self.rows, &self.table);
        let columns = self.columns.join(", ");
        write!(
            f,
            "{rows} rows of {table} refer to these by foreign key ({columns}), and nothing is said of them"
        )
    }
}

impl Referring {
    /// Returns the reason to report for a value that stays because of them.
    pub(crate) fn said(&self) -> String {
        format!(
            "rows of {} refer to it by foreign key ({}), ON UPDATE SET NULL or SET DEFAULT",
            self.table,
            self.columns.join(", ")
        )
    }

    /// Returns the error of a disguise that still removes rows of `table`, or changes their key.
    pub(crate) fn refusal(self, table: &str) -> Error {
        let (table, child) = (table.to_owned(), self.table);
        let (columns, rows) = (self.columns.join(", "), self.rows);
        if self.for_a_key && self.would_change {
            Error::WouldEmpty {
                table,
                child,
                columns,
            }
        } else if self.would_change {
            Error::WouldCascade {
                table,
                child,
                columns,
                rows,
            }
        } else {
            Error::WouldOrphan {
                table,
                child,
                columns,
                rows,
            }
        }
    }
}

/// The people whose rows a removal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whom {
    Somebody,
    Everybody,
}

/// Returns the rows for which the step at this place among `steps` would be refused. Nothing is
/// reported if chosen rows may stay, for people who own them together or only read them.
pub(crate) fn left_behind(
    database: &mut dyn TenantConnection,
    (live, whom): (&ResolvedSchema, Whom),
    steps: &[Step],
    at: usize,
) -> Result<Vec<Referring>, Error> {
    match steps.get(at) {
        Some(step) => left_behind_by(database, (live, whom), (steps, at), step),
        None => Ok(Vec::new()),
    }
}

/// Returns the rows for which `step`, which takes some rows of that at this place, would be refused.
pub(crate) fn left_behind_by(
    database: &mut dyn TenantConnection,
    (live, whom): (&ResolvedSchema, Whom),
    (steps, at): (&[Step], usize),
    step: &Step,
) -> Result<Vec<Referring>, Error> {
    let mut left = Vec::new();
    let changed: Vec<&String> = match &step.kind {
        Kind::Remove => Vec::new(),
        Kind::Modify { column, .. } | Kind::Unlink { column } => vec![column],
        Kind::Decorrelate { owners, .. } => owners.iter().collect(),
    };
    let table = live.table(&step.table);
    let may_stay = |table: &ResolvedTable| {
        let shared = table.owners.len() > 1 && !table.goes_whole();
        table.name != live.pseudo.table && (shared || !table.readers.is_empty())
    };
    let removes = step.kind == Kind::Remove;
    if removes && whom == Whom::Somebody && table.is_none_or(may_stay) {
        return Ok(left);
    }
    for child in live.tables.values() {
        let keys = child.catalog.foreign_keys.iter();
        for key in keys.filter(|key| key.to_table == step.table) {
            let is_changed = key.to_columns.iter().any(|it| changed.contains(&it));
            let is_held = is_changed && key.on_update != OnUpdate::Follow;
            if !removes && !is_held {
                continue;
            }
            let waits = removes && key.on_delete == OnDelete::Refuse && key.is_deferrable;
            let is_own = removes && child.name == step.table;
            // A reference that is refused at once, or handled by the database, must be gone by
            // then.
            let before = match (waits, is_own) {
                (true, _) => steps.len(),
                (false, true) => at.saturating_add(1),
                (false, false) => at,
            };
            let freeing = steps.iter().take(before);
            let freeing = freeing.filter(|it| it.table == child.name && lets_go(&it.kind, key));
            let rows = still_referring(database, (child, key), step, freeing)?;
            if rows > 0 {
                left.push(Referring {
                    table: child.name.clone(),
                    columns: key.columns.clone(),
                    rows,
                    would_change: if removes {
                        key.on_delete == OnDelete::Change
                    } else {
                        key.on_update == OnUpdate::Empty
                    },
                    for_a_key: !removes,
                });
            }
        }
    }
    Ok(left)
}

/// Returns the number of rows of a table that refer by `key` to rows that `step` chooses, and are
/// chosen by none of `freeing`.
fn still_referring<'s>(
    database: &mut dyn TenantConnection,
    (child, key): (&ResolvedTable, &ForeignKey),
    step: &Step,
    freeing: impl Iterator<Item = &'s Step>,
) -> Result<u64, Error> {
    let dialect = database.dialect();
    let chosen = database.tenancy().bound(dialect, &step.table, &step.chosen);
    let mut sql = format!(
        "SELECT COUNT(*) FROM {} WHERE ({}) IN (SELECT {} FROM {} WHERE {})",
        dialect.quote(&child.name),
        list(dialect, &key.columns),
        list(dialect, &key.to_columns),
        dialect.quote(&step.table),
        chosen.sql
    );
    let mut parameters = chosen.parameters;
    for step in freeing {
        let mut done = database.tenancy().bound(dialect, &child.name, &step.chosen);
        sql = format!("{sql} AND CASE WHEN ({}) THEN 0 ELSE 1 END = 1", done.sql);
        parameters.append(&mut done.parameters);
    }
    let rows = database.query(&sql, &parameters);
    count_of(&rows.doing("counting references")?)
}

/// Returns whether a step of this kind leaves no reference by `key` in the rows that it takes.
fn lets_go(kind: &Kind, key: &ForeignKey) -> bool {
    match kind {
        Kind::Remove => true,
        Kind::Modify { column, .. } | Kind::Unlink { column } => key.columns.contains(column),
        Kind::Decorrelate { owners, .. } => owners.iter().any(|it| key.columns.contains(it)),
    }
}

/// Refuses when rows that refer to rows about to be removed would silently change. Rows of the same
/// table with the keys `going` do not count.
pub(crate) fn refuse_cascade(
    database: &mut dyn TenantConnection,
    catalog: &Catalog,
    (table, chosen): (&ResolvedTable, &Fragment),
    going: &[Vec<Value>],
) -> Result<(), Error> {
    let dialect = database.dialect();
    // Rows of other tenants count too: the database would change them all the same.
    let chosen = database.tenancy().bound(dialect, &table.name, chosen);
    let going: BTreeSet<Vec<u8>> = going.iter().map(|key| encoded(key)).collect();
    for (child, known) in catalog {
        let keys = known.foreign_keys.iter();
        let keys = keys.filter(|key| key.to_table == table.name);
        for key in keys.filter(|key| key.on_delete == OnDelete::Change) {
            let is_own = *child == table.name;
            let wanted = if is_own {
                let keys = table.identity.iter().map(|it| dialect.quote(it));
                let keys = keys.map(|it| format!("probity_child.{it}"));
                keys.collect::<Vec<_>>().join(",")
            } else {
                "COUNT(*)".to_owned()
            };
            let children = format!("{} AS probity_child", dialect.quote(child));
            let declared = DeclaredKey {
                dialect,
                table,
                key,
            };
            let gone = (key.to_columns.as_slice(), chosen.sql.as_str());
            let joined = declared.joined(gone, (&children, "probity_child"));
            let sql = format!("SELECT {wanted} FROM {joined}");
            let rows = database
                .query(&sql, &chosen.parameters)
                .doing("counting references")?;
            let rows = if is_own {
                let others = rows.iter().filter(|row| !going.contains(&encoded(row)));
                u64::try_from(others.count()).unwrap_or(u64::MAX)
            } else {
                count_of(&rows)?
            };
            if rows > 0 {
                return Err(Error::WouldCascade {
                    table: table.name.clone(),
                    child: child.clone(),
                    columns: key.columns.join(", "),
                    rows,
                });
            }
        }
    }
    Ok(())
}

/// Returns whether the database may empty references by itself when `columns` of a table change.
pub(crate) fn may_empty(live: &ResolvedSchema, table: &ResolvedTable, columns: &[&str]) -> bool {
    let children = live.tables.values();
    let mut keys = children.flat_map(|child| emptying(child, table, columns));
    keys.next().is_some() || emptying_unseen(table, columns).is_some()
}

/// Returns the keys of `child` to `table` that the database empties when `columns` change.
pub(crate) fn emptying<'c>(
    child: &'c ResolvedTable,
    table: &ResolvedTable,
    columns: &[&str],
) -> impl Iterator<Item = &'c ForeignKey> {
    let keys = child.catalog.foreign_keys.iter();
    keys.filter(|it| {
        it.on_update == OnUpdate::Empty
            && it.to_table == table.name
            && names_any(&it.to_columns, columns)
    })
}

/// Returns the first such key of a table in another schema or database, whose rows are not counted.
pub(crate) fn emptying_unseen<'t>(
    table: &'t ResolvedTable,
    columns: &[&str],
) -> Option<&'t Referrer> {
    all_emptying_unseen(table, columns).next()
}

/// Returns all such keys of tables in other schemas or databases.
pub(crate) fn all_emptying_unseen<'t>(
    table: &'t ResolvedTable,
    columns: &[&str],
) -> impl Iterator<Item = &'t Referrer> {
    let others = table.catalog.referrers.iter();
    others.filter(|it| it.on_update == OnUpdate::Empty && names_any(&it.to_columns, columns))
}

fn names_any(to: &[String], columns: &[&str]) -> bool {
    to.iter().any(|it| columns.contains(&it.as_str()))
}

/// Returns the rows whose references the database would empty when `columns` change in the rows of
/// a table with one of `keys` in the columns `by`; those of the first foreign key that has some.
/// Rows of other tenants count, too. Another schema's rows may exist, but are not counted.
pub(crate) fn emptied(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    (table, columns): (&ResolvedTable, &[&str]),
    (by, keys): (&[String], &[Vec<Value>]),
) -> Result<Option<Referring>, Error> {
    let dialect = database.dialect();
    for child in live.tables.values() {
        for key in emptying(child, table, columns) {
            let mut rows: u64 = 0;
            for some in lists(keys, by.len()) {
                let chosen = Fragment {
                    sql: among(dialect, by, some.len()),
                    parameters: some.concat(),
                };
                let chosen = database.tenancy().bound(dialect, &table.name, &chosen);
                let children = format!("{} AS probity_child", dialect.quote(&child.name));
                let of = (children.as_str(), "probity_child");
                let declared = DeclaredKey {
                    dialect,
                    table,
                    key,
                };
                let joined = declared.joined((&key.to_columns, &chosen.sql), of);
                let sql = format!("SELECT COUNT(*) FROM {joined}");
                let found = database.query(&sql, &chosen.parameters);
                rows = rows.saturating_add(count_of(&found.doing("counting references")?)?);
            }
            if rows > 0 {
                return Ok(Some(Referring {
                    table: child.name.clone(),
                    columns: key.columns.clone(),
                    rows,
                    would_change: true,
                    for_a_key: true,
                }));
            }
        }
    }
    let unseen = emptying_unseen(table, columns);
    Ok(unseen.filter(|_| !keys.is_empty()).map(|it| Referring {
        table: it.table.clone(),
        columns: it.columns.clone(),
        rows: 0,
        would_change: true,
        for_a_key: true,
    }))
}

/// The most declared keys that one statement asks about.
const KEYS_MAX: usize = 64;

/// Returns the rows of `table`, known by the columns `by`, to which other rows refer by declared
/// keys that count: each encoded, with the referring table. A row that refers to itself does not
/// count; rows of other tenants do.
pub(crate) fn referred(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    (table, by): (&ResolvedTable, &[String]),
    rows: &[Vec<Value>],
    counts: impl Fn(&ResolvedTable, &ForeignKey) -> bool,
) -> Result<BTreeMap<Vec<u8>, String>, Error> {
    let dialect = database.dialect();
    let children = live.tables.values().flat_map(|child| {
        let keys = child.catalog.foreign_keys.iter();
        keys.map(move |key| (child, key))
    });
    let keys: Vec<(&ResolvedTable, &ForeignKey)> = children
        .filter(|(child, key)| key.to_table == table.name && counts(child, key))
        .collect();
    let mut referred = BTreeMap::new();
    for some in keys.chunks(KEYS_MAX) {
        for asked in lists(rows, by.len().saturating_mul(some.len())) {
            let chosen = Fragment {
                sql: among(dialect, by, asked.len()),
                parameters: asked.concat(),
            };
            let chosen = database.tenancy().bound(dialect, &table.name, &chosen);
            let questions = some.iter().enumerate();
            let questions = questions.map(|(index, (child, key))| {
                let declared = DeclaredKey {
                    dialect,
                    table,
                    key,
                };
                declared.question(by, &chosen.sql, (index, child))
            });
            let sql = questions.collect::<Vec<_>>().join(" UNION ALL ");
            let parameters = vec![chosen.parameters.as_slice(); some.len()].concat();
            let found = database.query(&sql, &parameters);
            for mut row in found.doing("looking what refers to rows")? {
                let Some(Value::Int(index)) = row.pop() else {
                    continue;
                };
                let index = usize::try_from(index).ok();
                let of = index.and_then(|index| some.get(index));
                referred.extend(of.map(|(child, key)| (encoded(&row), spoken(child, key))));
            }
        }
    }
    Ok(referred)
}

/// A declared key by which rows refer to those of a table.
struct DeclaredKey<'t> {
    dialect: Dialect,
    /// The table that is referred to.
    table: &'t ResolvedTable,
    key: &'t ForeignKey,
}

impl DeclaredKey<'_> {
    /// Selects the number `index` and the keys of those rows, selected by `chosen`, to which rows
    /// of `child` refer.
    fn question(
        &self,
        by: &[String],
        chosen: &str,
        (index, child): (usize, &ResolvedTable),
    ) -> String {
        let (dialect, table) = (self.dialect, self.table);
        let mut columns = by.to_vec();
        columns.extend(
            self.key
                .to_columns
                .iter()
                .filter(|it| !by.contains(it))
                .cloned(),
        );
        let of = format!("{} AS probity_child", dialect.quote(&child.name));
        let joined = self.joined((&columns, chosen), (&of, "probity_child"));
        let wanted: Vec<String> = by
            .iter()
            .map(|it| format!("probity_gone.{}", dialect.quote(it)))
            .collect();
        let is_itself = if child.name == table.name {
            let same = by.iter().map(|it| dialect.quote(it));
            let same = same.map(|it| format!("probity_child.{it} = probity_gone.{it}"));
            let same = same.collect::<Vec<_>>().join(" AND ");
            format!(" WHERE NOT ({same})")
        } else {
            String::new()
        };
        let wanted = wanted.join(",");
        format!("SELECT DISTINCT {wanted}, {index} FROM {joined}{is_itself}")
    }

    /// Joins the rows that `chosen` selects, with these `columns`, with the rows `of` another
    /// table, or of this one, that refer to them.
    fn joined(&self, (columns, chosen): (&[String], &str), (of, called): (&str, &str)) -> String {
        let (dialect, key) = (self.dialect, self.key);
        // The referred table comes first: `SQLite` compares by the column on the left, and so do
        // foreign keys.
        let pairs = key.to_columns.iter().zip(&key.columns);
        let same = pairs.map(|(to, from)| {
            let (to, from) = (dialect.quote(to), dialect.quote(from));
            format!("probity_gone.{to} = {called}.{from}")
        });
        format!(
            "(SELECT {} FROM {} WHERE {chosen}) AS probity_gone JOIN {of} ON {}",
            list(dialect, columns),
            dialect.quote(&self.table.name),
            same.collect::<Vec<_>>().join(" AND ")
        )
    }
}

/// Returns a declared key in the words of a refusal.
fn spoken(child: &ResolvedTable, key: &ForeignKey) -> String {
    let columns = key.columns.join(", ");
    let word = match key.columns.len() {
        1 => "column",
        _ => "columns",
    };
    format!("table {}, {word} {columns}", child.name)
}
