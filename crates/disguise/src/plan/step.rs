//! Turns a specification and a live schema into the ordered steps of a disguise.

use std::collections::BTreeMap;

use crate::database::fragment::Fragment;
use crate::database::tenant::TenantScope;
use crate::database::value::Value;
use crate::database::{Catalog, Column, Dialect, OnDelete, Property};
use crate::error::SpecError;
use crate::plan::cascade::Referring;
use crate::plan::likeness::Spellings;
use crate::plan::removal_order::removal_order;
use crate::schema::generate::Generator;
use crate::schema::name_matching::{CatalogNames, Fitting};
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::spec::predicate::Scope;
use crate::spec::redact::{Names, Redactors};
use crate::spec::{Kind, Replacement, Spec, Transformation};
use crate::statements::table::list;

/// Beyond this many owners the statement reads them from a temporary table.
const OWNERS_INLINE_MAX: usize = 500;
/// The temporary table.
pub(crate) const SCOPE: &str = "probity_scope";

/// One step: which rows of which table, and what happens to them.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) table: String,
    pub(crate) chosen: Fragment,
    pub(crate) kind: Kind,
    /// The names that a redaction looks for.
    pub(crate) names: Names,
    /// True if it is about those rows alone that a later removal takes, and not about rows that
    /// somebody else keeps.
    pub(crate) of_going: bool,
}

/// One step as shown to a person before anything is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedStep {
    /// The table.
    pub table: String,
    /// `remove`, `modify`, `redact`, `decorrelate` or `unlink`.
    pub action: &'static str,
    /// The query that chooses the rows, with `?` for each bound value.
    pub statement: String,
    /// The number of rows it selects now; a redaction changes only those in which it finds
    /// something.
    pub rows: u64,
    /// The number of placeholder users it would make.
    pub placeholders: u64,
    /// The access path that the database plans for the rows, in its own words.
    pub access: Vec<String>,
    /// The rows for which a removal would be refused now.
    pub refused: Vec<Referring>,
}

impl Step {
    pub(crate) const fn action(&self) -> &'static str {
        match self.kind {
            Kind::Remove => "remove",
            Kind::Modify {
                replacement: Replacement::Redacted(_),
                ..
            } => "redact",
            Kind::Modify { .. } => "modify",
            Kind::Decorrelate { .. } => "decorrelate",
            Kind::Unlink { .. } => "unlink",
        }
    }
}

/// The input of a plan.
pub(crate) struct PlanContext<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) catalog: &'a Catalog,
    pub(crate) live: &'a ResolvedSchema,
    pub(crate) named: &'a BTreeMap<String, Value>,
    /// The principals whose rows are meant; nobody in particular when absent.
    pub(crate) owners: Option<&'a [Value]>,
    /// Further values that stand for them in columns of another comparison.
    pub(crate) spellings: &'a Spellings,
    pub(crate) redactors: &'a Redactors,
    pub(crate) tenancy: &'a TenantScope,
}

impl PlanContext<'_> {
    /// Returns whether the owners are too many for a statement and must be in the temporary table.
    pub(crate) fn needs_scope_table(&self) -> bool {
        self.owners.is_some_and(are_many)
    }

    /// Checks `spec` and orders its steps: removals of referring tables first, users last.
    pub(crate) fn plan(&self, spec: &Spec) -> Result<Vec<Step>, SpecError> {
        let spec = &Fitting::new(CatalogNames::new(self.dialect, self.catalog)).spec(spec);
        let named = spec.given(self.named)?;
        self.refuse_unfit()?;
        self.refuse_orphans(spec)?;
        let users = &self.live.pseudo.table;
        let order = removal_order(self.live);
        let mut removals: Vec<&Transformation> = Vec::new();
        let mut changes: Vec<&Transformation> = Vec::new();
        for it in &spec.transformations {
            if it.kind == Kind::Remove {
                removals.push(it);
            } else {
                changes.push(it);
            }
        }
        let rank = |it: &Transformation| order.iter().position(|table| *table == it.table);
        removals.sort_by_key(|it| rank(it));
        // Steps that look for people's names run while the names exist; other changes to the users
        // table come before it has any placeholder.
        changes.sort_by_key(|it| match &it.kind {
            kind if own_names(kind) => 0,
            _ if it.table == *users => 1,
            _ => 2,
        });
        let (last, first): (Vec<_>, Vec<_>) =
            removals.into_iter().partition(|it| it.table == *users);
        let mut steps: Vec<&Transformation> =
            first.into_iter().chain(changes).chain(last).collect();
        self.put_before_owners(&mut steps);
        let mut planned = Vec::with_capacity(steps.len());
        for it in steps {
            let step = self.step(it, (&named, spec.of_edna))?;
            if it.table == *users && it.kind == Kind::Remove {
                planned.extend(self.leaving(spec, (it, &step))?);
            }
            planned.push(step);
        }
        Ok(self.with_emptied_keys(&planned))
    }

    /// Moves steps on tables that are owned through others before all steps on those, so that their
    /// owners can still be found. A step that decorrelates such a table names its columns itself.
    fn put_before_owners(&self, steps: &mut Vec<&Transformation>) {
        let path = |it: &Transformation| match it.kind {
            Kind::Decorrelate { .. } => None,
            _ => self.live.table(&it.table)?.path.as_ref(),
        };
        let mut moving: Vec<&Transformation> = steps.clone();
        moving.retain(|it| path(it).is_some());
        // The nearest to their owners first, so that those behind them end up before them.
        moving.sort_by_key(|it| path(it).map(|path| path.steps.len()));
        for it in moving {
            let Some(path) = path(it) else { continue };
            let from = steps.iter().position(|step| std::ptr::eq(*step, it));
            let to = steps.iter().position(|step| path.leads_over(&step.table));
            if let (Some(from), Some(to)) = (from, to)
                && to < from
            {
                let it = steps.remove(from);
                steps.insert(to, it);
            }
        }
    }

    fn step(
        &self,
        it: &Transformation,
        (named, of_edna): (&BTreeMap<String, Value>, bool),
    ) -> Result<Step, SpecError> {
        let wrong = |what: String| SpecError::new(it.place.clone(), what);
        let Some(table) = self.live.table(&it.table) else {
            return Err(wrong(format!("table {} is not in the database", it.table)));
        };
        self.check_step(table, &it.kind).map_err(wrong)?;
        let names = self.names(table, &it.kind, named).map_err(wrong)?;
        let said = (named, self.tenancy);
        let scope = || Scope::new(self.dialect, self.catalog, said, &it.table).of_edna(of_edna);
        let owned = self.owned(table, &it.kind).map_err(wrong)?;
        let chosen = match (&it.from, &it.predicate) {
            (None, None) => owned.unwrap_or_else(everything),
            (None, Some(predicate)) => {
                let chosen = scope().condition(predicate).map_err(wrong)?;
                both(chosen, owned)
            }
            (Some(from), predicate) => {
                let (from, chosen) = scope().joined(from, predicate.as_deref()).map_err(wrong)?;
                // The owners are also inside, so that the join does not cover the rows of
                // everybody.
                let inside = both(chosen, owned.clone());
                both(self.through_join(table, &from, &inside), owned)
            }
        };
        Ok(Step {
            table: it.table.clone(),
            chosen,
            kind: it.kind.clone(),
            names,
            of_going: false,
        })
    }

    /// Refuses a change that could not be made or taken back.
    pub(crate) fn check_step(&self, table: &ResolvedTable, kind: &Kind) -> Result<(), String> {
        let name = &table.name;
        self.check_identity(table)?;
        if !table.catalog.is_transactional {
            return Err(format!(
                "changes to table {name} cannot be undone by a rollback, convert it to InnoDB"
            ));
        }
        if table.catalog.has(Property::HidesRows) {
            return Err(format!(
                "row-level security hides rows of {name} from the account of the database; use one that sees them all: the owner of the table, unless the security is forced on it, too, or one with BYPASSRLS"
            ));
        }
        if table.catalog.has(Property::HidesColumns) {
            return Err(format!(
                "the account of the database may not see all columns and keys of {name}, and what it does not see would be lost; let it SELECT from the whole table"
            ));
        }
        let is_written = |key: &&String| table.catalog.column(key).is_some();
        if let Some(key) = table.identity.iter().find(|key| !is_written(key)) {
            return Err(format!(
                "the database works out column {key} of {name}, so that it names no row to put back; name other identifying columns under identity"
            ));
        }
        if let Some(key) = self.live.key_without_id(table)
            && matches!(kind, Kind::Remove | Kind::Modify { .. })
        {
            return Err(format!(
                "rows of {name} refer to {} by foreign key ({}), which leads to ({}) and not to {}, so that their owners are not known; name a column that holds the id under owners",
                key.to_table,
                key.columns.join(", "),
                key.to_columns.join(", "),
                self.live.pseudo.id
            ));
        }
        check_kind(table, kind)?;
        self.check_of_tenant(table, kind)
    }

    /// Refuses a change that would not stay with the tenant.
    fn check_of_tenant(&self, table: &ResolvedTable, kind: &Kind) -> Result<(), String> {
        let Some(tenant) = &table.tenant else {
            let name = &table.name;
            return match (self.live.has_tenants, table.shared) {
                (false, _) => Ok(()),
                (true, true) => Err(format!(
                    "table {name} is shared by all tenants, so that a disguise of one changes nothing in it"
                )),
                (true, false) => Err(format!(
                    "table {name} has no tenant column; name it under tenant, or say shared = true"
                )),
            };
        };
        match kind {
            Kind::Modify { column, .. } if column == tenant => {
                Err(format!("column {column} holds the tenant"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the names that a redaction looks for in addition to those of the users table;
    /// refuses an invalid list.
    fn names(
        &self,
        table: &ResolvedTable,
        kind: &Kind,
        named: &BTreeMap<String, Value>,
    ) -> Result<Names, String> {
        let Kind::Modify {
            column,
            replacement: Replacement::Redacted(redact),
        } = kind
        else {
            return Ok(Names::default());
        };
        if let Some(fault) = redact.fault() {
            return Err(format!("column {column}: {fault}"));
        }
        if !table.catalog.column(column).is_some_and(Column::is_text) {
            return Err(format!(
                "column {column} of {} is no text that could be redacted",
                table.name
            ));
        }
        let users = self.live.table(&self.live.pseudo.table);
        let has = |name: &String| users.is_some_and(|it| it.catalog.column(name).is_some());
        if let Some(missing) = redact.own_names.iter().find(|name| !has(name)) {
            return Err(format!("the users table has no column {missing}"));
        }
        let known = |name: &&String| self.redactors.contains_key(*name);
        if let Some(missing) = redact.code.iter().find(|name| !known(name)) {
            return Err(format!("there is no code for redactor {missing}"));
        }
        redact.said(|name| named.get(name).map(ToString::to_string))
    }

    fn through_join(&self, table: &ResolvedTable, from: &str, chosen: &Fragment) -> Fragment {
        let name = self.dialect.quote(&table.name);
        let keys: Vec<String> = table
            .identity
            .iter()
            .map(|key| format!("{name}.{}", self.dialect.quote(key)))
            .collect();
        let chosen = self.tenancy.bound(self.dialect, &table.name, chosen);
        let query = format!("SELECT {} FROM {from} WHERE {}", keys.join(","), chosen.sql);
        let sql = format!(
            "({}) IN {}",
            list(self.dialect, &table.identity),
            self.dialect.apart(&query)
        );
        Fragment {
            sql,
            parameters: chosen.parameters,
        }
    }

    /// Returns the condition that a row belongs to one of the owners meant, if any are meant; a
    /// removal also covers those who only read.
    fn owned(&self, table: &ResolvedTable, kind: &Kind) -> Result<Option<Fragment>, String> {
        let Some(owners) = self.owners else {
            return self.of_somebody(table, kind);
        };
        let mut any: Vec<Fragment> = Vec::new();
        let direct = |column: &String| {
            let of = self.dialect.quote(&table.name);
            let quoted = format!("{of}.{}", self.dialect.quote(column));
            self.among_owners((table, column), &quoted, owners)
        };
        match (kind, &table.path) {
            (Kind::Decorrelate { .. }, Some(_)) => {}
            (_, Some(path)) => {
                let of = (self.dialect, self.tenancy);
                let end = path.steps.last();
                let end = end.and_then(|step| self.live.table(&step.to_table));
                let at = (end.unwrap_or(table), path.owner.as_str());
                let owned = |column: &str| self.among_owners(at, column, owners);
                any.push(path.condition(of, &table.name, owned));
            }
            (_, None) if table.owners.is_empty() => {
                return Err(format!(
                    "table {} has no owner column, so a user's rows are unknown",
                    table.name
                ));
            }
            (_, None) => any.extend(table.owners.iter().map(direct)),
        }
        match kind {
            Kind::Modify { .. } | Kind::Unlink { .. } => {}
            // Rows that refer to a leaving user stay.
            Kind::Remove if table.name == self.live.pseudo.table => {}
            Kind::Remove => any.extend(table.readers.iter().map(direct)),
            Kind::Decorrelate { owners, .. } => {
                let named = table.readers.iter().filter(|it| owners.contains(it));
                any.extend(named.map(direct));
            }
        }
        let sql: Vec<String> = any.iter().map(|it| it.sql.clone()).collect();
        Ok(Some(Fragment {
            sql: sql.join(" OR "),
            parameters: any.into_iter().flat_map(|it| it.parameters).collect(),
        }))
    }

    /// Returns the condition that a row has an owner: a disguise of everybody leaves rows without
    /// one alone, because nobody could get them back. Refuses a table in which no row has one.
    fn of_somebody(&self, table: &ResolvedTable, kind: &Kind) -> Result<Option<Fragment>, String> {
        let is_meant = matches!(kind, Kind::Remove | Kind::Modify { .. });
        if !is_meant || table.name == self.live.pseudo.table {
            return Ok(None);
        }
        if let Some(path) = &table.path {
            let end = path.steps.last();
            let end = end.and_then(|step| self.live.table(&step.to_table));
            let owner = end.and_then(|end| end.catalog.column(&path.owner));
            let of = (self.dialect, self.tenancy);
            let Some(owner) = owner else {
                return Ok(None);
            };
            let named = |column: &str| self.names_somebody(column, owner);
            let mut meant = path.condition(of, &table.name, named);
            let readers = self.naming_somebody(table);
            // A path that leads to nobody leaves the record to a reader. A row that refers to what
            // is not there could not come back.
            if let (false, Some(begins)) = (readers.is_empty(), path.begins(of, &table.name)) {
                let readers = readers.join(" OR ");
                meant.sql = format!("({}) OR (({readers}) AND {})", meant.sql, begins.sql);
                meant.parameters.extend(begins.parameters);
            }
            return Ok(Some(meant));
        }
        let any = self.naming_somebody(table);
        if any.is_empty() {
            return Err(format!(
                "table {} has neither owners nor readers, so that nobody could bring its rows back",
                table.name
            ));
        }
        Ok(Some(Fragment {
            sql: any.join(" OR "),
            parameters: Vec::new(),
        }))
    }

    /// Returns the conditions that a column of `table` itself names an owner or a reader.
    fn naming_somebody(&self, table: &ResolvedTable) -> Vec<String> {
        let of = self.dialect.quote(&table.name);
        let people = table.people().filter_map(|it| table.catalog.column(it));
        let named = people.map(|it| {
            let column = format!("{of}.{}", self.dialect.quote(&it.name));
            self.names_somebody(&column, it).sql
        });
        named.collect()
    }

    /// Returns the condition that a value of `known` is neither NULL nor a conventional value for
    /// nobody.
    fn names_somebody(&self, column: &str, known: &Column) -> Fragment {
        let nobody = match self.dialect {
            Dialect::Sqlite => Some("0, '', '0'"),
            _ if known.is_integer() => Some("0"),
            _ if known.is_text() => Some("'', '0'"),
            _ => None,
        };
        let sql = match nobody {
            Some(nobody) => format!("({column} IS NOT NULL AND {column} NOT IN ({nobody}))"),
            None => format!("({column} IS NOT NULL)"),
        };
        Fragment {
            sql,
            parameters: Vec::new(),
        }
    }

    /// Refuses removals that would break a declared foreign key of an untouched table, or by which
    /// the database would remove or change rows that no specification reaches.
    fn refuse_orphans(&self, spec: &Spec) -> Result<(), SpecError> {
        let removals = spec.transformations.iter();
        let removals = removals.filter(|it| it.kind == Kind::Remove);
        let mut removed: Vec<(&str, &str)> = removals
            .map(|it| (it.table.as_str(), it.place.as_str()))
            .collect();
        let users = self.live.pseudo.table.as_str();
        if removed.iter().any(|(table, _)| *table == users) {
            let along = self.live.tables.values().filter(|it| it.takes_along());
            removed.extend(along.map(|it| (it.name.as_str(), "on_leave")));
        }
        let mut touched = spec.tables();
        touched.extend(removed.iter().map(|(table, _)| *table));
        for (table, place) in removed {
            let known = self.catalog.get(table);
            let mut referrers = known.into_iter().flat_map(|table| &table.referrers);
            if let Some(key) = referrers.find(|key| key.on_delete == OnDelete::Change) {
                let what = format!(
                    "removing rows of {table} would remove or change rows of {} by foreign key ({}), for good: a specification reaches one schema or database; make the key ON DELETE RESTRICT, or keep these rows",
                    key.table,
                    key.columns.join(", ")
                );
                return Err(SpecError::new(place, what));
            }
            for (child, known) in self.catalog {
                let is_said =
                    |columns: &[String]| table == users && self.live.is_said(child, columns);
                let keys = known.foreign_keys.iter();
                let keys = keys.filter(|key| key.to_table == table && !is_said(&key.columns));
                let key = keys.min_by_key(|key| &key.columns);
                if let Some(key) = key
                    && !touched.contains(&child.as_str())
                {
                    let what = format!(
                        "removing rows of {table} would orphan foreign key {child}({}), and {child} is not in the specification",
                        key.columns.join(", ")
                    );
                    return Err(SpecError::new(place, what));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether owners are too many for a statement.
pub(crate) const fn are_many(owners: &[Value]) -> bool {
    owners.len() > OWNERS_INLINE_MAX
}

/// Returns whether it looks for names from the users table.
fn own_names(kind: &Kind) -> bool {
    matches!(kind, Kind::Modify { replacement: Replacement::Redacted(redact), .. }
        if !redact.own_names.is_empty())
}

fn everything() -> Fragment {
    Fragment {
        sql: "1=1".to_owned(),
        parameters: Vec::new(),
    }
}

/// Returns the conjunction, each condition in brackets of its own, so that no OR of one escapes the
/// other.
fn both(chosen: Fragment, owned: Option<Fragment>) -> Fragment {
    let Some(mut owned) = owned else {
        return chosen;
    };
    let mut parameters = chosen.parameters;
    parameters.append(&mut owned.parameters);
    Fragment {
        sql: format!("({}) AND ({})", chosen.sql, owned.sql),
        parameters,
    }
}

fn check_kind(table: &ResolvedTable, kind: &Kind) -> Result<(), String> {
    let has = |column: &String| match table.catalog.column(column) {
        Some(_) => Ok(()),
        None => Err(format!("table {} has no column {column}", table.name)),
    };
    let may_change = |column: &String| match &table.catalog.numbered_by {
        Some(numbered) if numbered == column => Err(format!(
            "the database numbers the rows of {} by column {column} and lets nobody change it (GENERATED ALWAYS AS IDENTITY)",
            table.name
        )),
        _ => Ok(()),
    };
    match kind {
        Kind::Remove => Ok(()),
        Kind::Unlink { column } => may_change(column),
        Kind::Modify {
            column,
            replacement,
        } => {
            has(column)?;
            may_change(column)?;
            match replacement {
                Replacement::Drawn(generator) => check_generator(table, column, generator),
                Replacement::Redacted(_) => Ok(()),
            }
        }
        Kind::Decorrelate { group_by, owners } => {
            if owners.is_empty() {
                return Err("names no owner column".to_owned());
            }
            for column in group_by {
                has(column)?;
            }
            for owner in owners {
                has(owner)?;
                may_change(owner)?;
                if table.people().any(|it| it == owner) {
                    continue;
                }
                if let Some(step) = table.path.as_ref().and_then(|path| path.steps.first()) {
                    return Err(format!(
                        "rows of {} belong to the owners of their rows of {}, decorrelate that table",
                        table.name, step.to_table
                    ));
                }
                return Err(format!(
                    "column {owner} of {} is not an owner column",
                    table.name
                ));
            }
            Ok(())
        }
    }
}

fn check_generator(
    table: &ResolvedTable,
    column: &str,
    generator: &Generator,
) -> Result<(), String> {
    if let Some(fault) = generator.fault() {
        return Err(format!("column {column}: {fault}"));
    }
    let nullable = table
        .catalog
        .column(column)
        .is_some_and(|column| column.nullable);
    if *generator == Generator::Null && !nullable {
        return Err(format!("column {column} of {} may not be NULL", table.name));
    }
    Ok(())
}
