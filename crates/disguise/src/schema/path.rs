//! Indirect ownership: rows that belong to the owner of the row that they refer to.

use std::collections::{BTreeMap, BTreeSet};

use crate::database::fragment::Fragment;
use crate::database::tenant::TenantScope;
use crate::database::{Catalog, Dialect};
use crate::error::SpecError;
use crate::schema::{Reference, ResolvedTable, Schema};

/// The way from a table without owner columns to the one whose rows have the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// The references in order, the table's own first; never empty.
    pub(crate) steps: Vec<Reference>,
    /// The owner column of the last table.
    pub(crate) owner: String,
}

impl Path {
    /// Returns whether the path to the owner leads over rows of `table`.
    pub(crate) fn leads_over(&self, table: &str) -> bool {
        self.steps.iter().any(|step| step.to_table == table)
    }

    /// Returns the condition that a row of `table` belongs to somebody selected by `owned`, a
    /// condition on the given column.
    pub(crate) fn condition(
        &self,
        (dialect, tenancy): (Dialect, &TenantScope),
        table: &str,
        owned: impl FnOnce(&str) -> Fragment,
    ) -> Fragment {
        let named = |table: &str, columns: &[String]| named(dialect, table, columns).join(",");
        let last = self.steps.last().map_or(table, |step| &step.to_table);
        let Fragment {
            mut sql,
            mut parameters,
        } = owned(&named(last, std::slice::from_ref(&self.owner)));
        for (index, step) in self.steps.iter().enumerate().rev() {
            let before = index.checked_sub(1).and_then(|it| self.steps.get(it));
            let from = before.map_or(table, |step| &step.to_table);
            let mut own = tenancy.and(dialect, &step.to_table, &step.to_table);
            parameters.append(&mut own.parameters);
            sql = format!(
                "({}) IN (SELECT {} FROM {} WHERE {sql}{})",
                named(from, &step.columns),
                named(&step.to_table, &step.to_columns),
                dialect.quote(&step.to_table),
                own.sql,
            );
        }
        Fragment { sql, parameters }
    }

    /// Returns the condition that a row of `table` refers to nothing or to a row that is there.
    pub(crate) fn begins(
        &self,
        (dialect, tenancy): (Dialect, &TenantScope),
        table: &str,
    ) -> Option<Fragment> {
        let step = self.steps.first()?;
        let from = named(dialect, table, &step.columns);
        let nothing: Vec<String> = from.iter().map(|it| format!("{it} IS NULL")).collect();
        let own = tenancy.and(dialect, &step.to_table, &step.to_table);
        let sql = format!(
            "({} OR ({}) IN (SELECT {} FROM {} WHERE 1=1{}))",
            nothing.join(" OR "),
            from.join(","),
            named(dialect, &step.to_table, &step.to_columns).join(","),
            dialect.quote(&step.to_table),
            own.sql,
        );
        Some(Fragment {
            sql,
            parameters: own.parameters,
        })
    }
}

/// Returns the columns of a table with its name before each.
fn named(dialect: Dialect, table: &str, columns: &[String]) -> Vec<String> {
    let of = dialect.quote(table);
    let columns = columns.iter();
    let columns = columns.map(|column| format!("{of}.{}", dialect.quote(column)));
    columns.collect()
}

/// Resolves the paths of `schema`, and refuses one that does not lead to exactly one owner.
pub(crate) fn resolve(
    tables: &mut BTreeMap<String, ResolvedTable>,
    schema: &Schema,
    users: &str,
) -> Result<(), SpecError> {
    let mut found = Vec::new();
    for (name, notes) in &schema.notes {
        if notes.through.is_some() {
            let path = path(tables, schema, users, name)
                .map_err(|what| SpecError::new(format!("table {name}"), what))?;
            found.push((name, path));
        }
    }
    for (name, path) in found {
        if let Some(table) = tables.get_mut(name) {
            table.path = Some(path);
        }
    }
    Ok(())
}

fn path(
    tables: &BTreeMap<String, ResolvedTable>,
    schema: &Schema,
    users: &str,
    name: &str,
) -> Result<Path, String> {
    let mut steps: Vec<Reference> = Vec::new();
    let mut at = name.to_owned();
    loop {
        let table = tables
            .get(&at)
            .ok_or_else(|| format!("leads to table {at}, which is not in the database"))?;
        let notes = schema.notes.get(&at);
        match (
            table.owners.as_slice(),
            notes.and_then(|it| it.through.as_ref()),
        ) {
            (_, Some(through)) => {
                let step = step(tables, table, schema, through)?;
                at.clone_from(&step.to_table);
                if at == users {
                    return Err(format!(
                        "{}({}) refers to the users table, name it under owners",
                        table.name,
                        through.join(", ")
                    ));
                }
                let seen = steps.iter().any(|before| before.to_table == at);
                steps.push(step);
                if seen || at == name {
                    return Err(format!("its path leads in a circle over {at}"));
                }
            }
            ([owner], None) => {
                let owner = owner.clone();
                return Ok(Path { steps, owner });
            }
            ([], None) => return Err(format!("its path ends at {at}, whose rows nobody owns")),
            (several, None) => {
                let mut several = several.to_vec();
                several.sort();
                return Err(format!(
                    "its path is not unique: {at} has the owners {}; say which is its owner, and who only reads it under readers",
                    several.join(" and ")
                ));
            }
        }
    }
}

/// Returns the reference of `table` by these columns.
fn step(
    tables: &BTreeMap<String, ResolvedTable>,
    table: &ResolvedTable,
    schema: &Schema,
    through: &[String],
) -> Result<Reference, String> {
    let columns: BTreeSet<&String> = through.iter().collect();
    let same = |of: &[String]| of.iter().collect::<BTreeSet<_>>() == columns;
    let said = schema.notes.get(&table.name).into_iter();
    let said = said.flat_map(|notes| &notes.references);
    let declared = table.catalog.foreign_keys.iter();
    let targets: BTreeSet<&str> = said
        .map(|it| (&it.columns, &it.to_table))
        .chain(declared.map(|it| (&it.columns, &it.to_table)))
        .filter(|(columns, _)| same(columns))
        .map(|(_, to)| to.as_str())
        .collect();
    let columns = through.join(", ");
    if targets.len() > 1 {
        let all: Vec<&str> = targets.into_iter().collect();
        return Err(format!(
            "its path is not unique: {}({columns}) refers to {}",
            table.name,
            all.join(" and ")
        ));
    }
    let declared = table
        .catalog
        .foreign_keys
        .iter()
        .find(|it| same(&it.columns));
    let declared = declared.map(|key| Reference {
        columns: key.columns.clone(),
        to_table: key.to_table.clone(),
        to_columns: key.to_columns.clone(),
    });
    let said = table.references.iter().find(|it| same(&it.columns));
    if let (None, Some(said)) = (&declared, said) {
        let identity = tables.get(&said.to_table).map(|it| it.identity.as_slice());
        if identity.is_some_and(|identity| identity != said.to_columns) {
            return Err(format!(
                "its path is not unique: several rows of {} may have the same {}",
                said.to_table,
                said.to_columns.join(", ")
            ));
        }
    }
    said.cloned().or(declared).ok_or_else(|| {
        format!(
            "{} has no foreign key ({columns}); declare it, or name it under references",
            table.name
        )
    })
}

/// Returns the columns through which tables without owner columns could belong to people, if there
/// is just one way. `owners` are the owner columns of all tables that have some, the table `users`
/// among them.
pub(crate) fn proposed(
    catalog: &Catalog,
    owners: &BTreeMap<String, Vec<String>>,
    users: &str,
) -> BTreeMap<String, (Vec<String>, String)> {
    let one = |name: &str| owners.get(name).is_some_and(|columns| columns.len() == 1);
    let single = |name: &str| name != users && one(name);
    let ways = |name: &str, ends: &BTreeSet<String>| -> BTreeSet<(Vec<String>, String)> {
        let keys = catalog
            .get(name)
            .into_iter()
            .flat_map(|it| &it.foreign_keys);
        keys.filter(|key| key.to_table != name && ends.contains(&key.to_table))
            .map(|key| (key.columns.clone(), key.to_table.clone()))
            .collect()
    };
    let mut reachable: BTreeSet<String> = catalog.keys().filter(|it| single(it)).cloned().collect();
    let open: Vec<&String> = catalog
        .keys()
        .filter(|it| !owners.contains_key(*it))
        .collect();
    loop {
        let more = open.iter().filter(|it| !reachable.contains(**it));
        let more: Vec<&&String> = more.filter(|it| !ways(it, &reachable).is_empty()).collect();
        if more.is_empty() {
            break;
        }
        let more: Vec<String> = more.into_iter().map(|it| (*it).clone()).collect();
        reachable.extend(more);
    }
    // From the owners outwards, so that no path leads in a circle or over a table with several
    // ways.
    let mut proposed: BTreeMap<String, (Vec<String>, String)> = BTreeMap::new();
    loop {
        let known = |name: &str| single(name) || proposed.contains_key(name);
        let next = open.iter().find_map(|name| {
            let mut ways = ways(name, &reachable).into_iter();
            let (Some(only), None) = (ways.next(), ways.next()) else {
                return None;
            };
            let fresh = !proposed.contains_key(*name) && known(&only.1);
            fresh.then(|| ((*name).clone(), only))
        });
        let Some((name, way)) = next else {
            return proposed;
        };
        proposed.insert(name, way);
    }
}
