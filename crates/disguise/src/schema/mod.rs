//! The description of an application: its tables, the owners of their rows, and notes on them.

mod emptying;
pub(crate) mod generate;
pub(crate) mod leaving;
pub(crate) mod name_matching;
pub(crate) mod path;
pub(crate) mod separation;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::database::shape::{Shape, ShapeOf};
use crate::database::value::Value;
use crate::database::{Catalog, CatalogTable, Database, Dialect, ForeignKey, Matching};
use crate::error::SpecError;
use crate::error::{Doing as _, Error};
use crate::schema::generate::Generator;
use crate::schema::leaving::Said;
use crate::schema::name_matching::{CatalogNames, Fitting};
use crate::schema::path::Path;

/// The way in which placeholder users are made.
#[derive(Debug, Clone, PartialEq)]
pub struct Pseudo {
    pub(crate) table: String,
    pub(crate) id: String,
    pub(crate) columns: Vec<(String, Generator)>,
}

impl Pseudo {
    /// Returns the row of a placeholder with this id, for `users`; `now` is the time as the
    /// database writes it.
    pub(crate) fn row(
        &self,
        (dialect, users): (Dialect, &CatalogTable),
        id: &Value,
        now: &str,
    ) -> Result<Vec<Value>, Error> {
        let columns = self.columns.iter();
        let drawn = columns.map(|(column, generator)| {
            if *column == self.id {
                Ok(id.clone())
            } else {
                generator.draw_into((dialect, users.column(column)), &Value::Null, now)
            }
        });
        drawn.collect()
    }
}

/// A reference that must hold again before a row is put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) columns: Vec<String>,
    pub(crate) to_table: String,
    pub(crate) to_columns: Vec<String>,
}

/// The fate of rows made while a placeholder owned things, when it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum References {
    /// They go to the returning owner.
    #[default]
    Recorrelate,
    /// They are deleted.
    Delete,
    /// They and the placeholder stay.
    Retain,
}

/// Annotations of one table by a developer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TableNotes {
    /// The primary key when absent.
    pub(crate) identity: Option<Vec<String>>,
    /// The columns with declared foreign keys to the users table when absent.
    pub(crate) owners: Option<Vec<String>>,
    /// Columns that name people who see the row and do not own it.
    pub(crate) readers: Vec<String>,
    /// The columns by which a row refers to the one whose owner owns it too.
    pub(crate) through: Option<Vec<String>>,
    /// The references beside the declared ones.
    pub(crate) references: Vec<Reference>,
    /// The fate of rows made while a placeholder owned things, whatever a reveal says.
    pub(crate) meanwhile: Option<References>,
    /// Rules for references to people who leave.
    pub(crate) on_leave: Said,
    /// The column that says of which tenant a row is, where it is another than in most tables.
    pub(crate) tenant: Option<String>,
    /// Its rows are of no tenant.
    pub(crate) shared: bool,
}

/// Annotations of a database by a developer; without it, owners are the foreign keys to the users table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    pub(crate) notes: BTreeMap<String, TableNotes>,
    /// The column that says of which tenant a row is, in most tables.
    pub(crate) tenant: Option<String>,
    /// True if it is Edna's table information, in which slips are noted that she does not notice.
    pub(crate) of_edna: bool,
}

impl Schema {
    /// Returns whether it has no annotations.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty() && self.tenant.is_none()
    }

    /// Returns whether the rows of the database belong to several tenants.
    pub fn has_tenants(&self) -> bool {
        let notes = self.notes.values();
        self.tenant.is_some() || notes.into_iter().any(|notes| notes.tenant.is_some())
    }
}

/// One table with everything known about it.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedTable {
    pub(crate) dialect: Dialect,
    pub(crate) name: String,
    pub(crate) catalog: CatalogTable,
    pub(crate) identity: Vec<String>,
    /// The columns that were to identify a row, if no key makes them unique: then nothing
    /// identifies it.
    pub(crate) unsure: Vec<String>,
    pub(crate) owners: Vec<String>,
    pub(crate) readers: Vec<String>,
    /// The way to the owner, where there is no owner column.
    pub(crate) path: Option<Path>,
    pub(crate) references: Vec<Reference>,
    pub(crate) meanwhile: Option<References>,
    /// Rules for references to people who leave. Columns whose rows stay are among the readers,
    /// those whose rows go among the owners.
    pub(crate) on_leave: Said,
    /// The column that says of which tenant a row is.
    pub(crate) tenant: Option<String>,
    /// Its rows are of no tenant, and nobody's.
    pub(crate) shared: bool,
    /// Filled by [`Self::shape`].
    pub(crate) shape: OnceLock<Arc<Shape>>,
}

impl ResolvedTable {
    /// Returns the shape of its columns.
    pub(crate) fn shape(&self) -> &Arc<Shape> {
        self.shape
            .get_or_init(|| Arc::new(Shape::of(&self.name, &self.catalog)))
    }

    /// Returns whether the same identity may be that of a row of another tenant.
    pub(crate) fn is_keyed_by_tenant(&self) -> bool {
        self.tenant.as_ref().is_some_and(|tenant| {
            self.identity.contains(tenant) || self.catalog.primary_key.contains(tenant)
        })
    }

    /// Returns whether `columns`, with the tenant, identify one row by a key that the database
    /// enforces.
    pub(crate) fn is_key(&self, columns: &[String]) -> bool {
        let is_said = |it: &String| columns.contains(it) || self.tenant.as_ref() == Some(it);
        let mut keys = self.catalog.unique_keys.iter();
        keys.any(|key| !key.is_empty() && key.iter().all(is_said))
    }

    /// Clears its identifying columns if several rows may have equal values in them: a write to the
    /// row of one person would reach that of another.
    fn doubt(&mut self) {
        if !self.is_key(&self.identity) {
            self.unsure = std::mem::take(&mut self.identity);
        }
    }

    /// Returns whether the database enforces a reference.
    pub(crate) fn declares(&self, reference: &Reference) -> bool {
        self.catalog.foreign_keys.iter().any(|key| {
            let is_to =
                key.to_table == reference.to_table && key.to_columns == reference.to_columns;
            is_to && key.columns == reference.columns
        })
    }

    /// Returns whether rows may be there whose reference leads nowhere.
    pub(crate) fn may_lead_nowhere(&self, reference: &Reference) -> bool {
        self.catalog.foreign_keys.iter().all(|key| {
            let is_it = key.columns == reference.columns
                && key.to_table == reference.to_table
                && key.to_columns == reference.to_columns;
            !is_it || key.may_lead_nowhere
        })
    }

    /// Returns whether `column` is part of a key that the database refuses to be NULL in part.
    pub(crate) fn is_matched_full(&self, column: &String) -> bool {
        let mut keys = self.catalog.foreign_keys.iter();
        keys.any(|key| {
            let is_full = key.matching == Matching::Full && key.columns.len() > 1;
            is_full && key.columns.contains(column)
        })
    }

    /// Returns whether the database holds rows of it to refer to rows of it.
    pub(crate) fn refers_to_itself(&self) -> bool {
        let mut keys = self.catalog.foreign_keys.iter();
        keys.any(|key| key.to_table == self.name)
    }

    /// Returns whether the database works out one of `columns`, which no record has then.
    pub(crate) fn works_out(&self, columns: &[String]) -> bool {
        columns.iter().any(|it| self.catalog.column(it).is_none())
    }

    /// Returns whether a row may do without the reader whom `column` names.
    pub(crate) fn may_lack(&self, column: &str) -> bool {
        let nullable = self.catalog.column(column).is_some_and(|it| it.nullable);
        let is_among = |names: &[String]| names.iter().any(|it| it == column);
        nullable && is_among(&self.readers) && !is_among(&self.identity)
    }

    /// Returns the columns that name people: owners and readers. In the users table the one owner
    /// is the user.
    pub(crate) fn people(&self) -> impl Iterator<Item = &String> {
        self.owners.iter().chain(&self.readers)
    }
}

/// The whole database as the engine sees it.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedSchema {
    pub(crate) tables: BTreeMap<String, ResolvedTable>,
    pub(crate) pseudo: Pseudo,
    /// True if the rows belong to several tenants.
    pub(crate) has_tenants: bool,
    /// Parts of the description that are not as the database has it, and are passed over.
    pub(crate) notes: Vec<String>,
}

impl ResolvedSchema {
    /// Returns the users table, as the database has it.
    pub(crate) fn users(&self) -> Result<&CatalogTable, Error> {
        let users = self.table(&self.pseudo.table).map(|it| &it.catalog);
        users.ok_or(Error::NotInstalled)
    }

    /// Defers the checks of foreign keys to the commit. On `SQLite` only if tables declare some,
    /// because it prepares all statements again then.
    pub(crate) fn defer_foreign_keys(&self, database: &mut dyn Database) -> Result<(), Error> {
        let declares = |table: &ResolvedTable| !table.catalog.foreign_keys.is_empty();
        if database.dialect() == Dialect::Sqlite && !self.tables.values().any(declares) {
            return Ok(());
        }
        database
            .defer_foreign_keys()
            .doing("deferring foreign keys")
    }

    /// Combines `schema` with `catalog` and refuses annotations that do not fit.
    pub(crate) fn new(
        dialect: Dialect,
        catalog: Catalog,
        schema: &Schema,
        pseudo: &Pseudo,
    ) -> Result<Self, SpecError> {
        let mut fitting = Fitting::new(CatalogNames::new(dialect, &catalog));
        let (schema, pseudo) = (&fitting.schema(schema), &fitting.pseudo(pseudo));
        let notes = fitting.notes;
        for (name, notes) in &schema.notes {
            check_notes(&catalog, name, notes)?;
        }
        check_pseudo(&catalog, pseudo)?;
        let mut tables = BTreeMap::new();
        for (name, table) in catalog {
            let mut known = known(dialect, (&name, table), schema, pseudo);
            check_people(&known, schema, pseudo)?;
            known.doubt();
            tables.insert(name, known);
        }
        path::resolve(&mut tables, schema, &pseudo.table)?;
        let live = Self {
            tables,
            pseudo: pseudo.clone(),
            has_tenants: schema.has_tenants(),
            notes,
        };
        live.check_on_leave()?;
        if live.has_tenants {
            live.check_tenants()?;
        }
        Ok(live)
    }

    pub(crate) fn table(&self, name: &str) -> Option<&ResolvedTable> {
        self.tables.get(name)
    }

    /// Returns the shape of a table, if it is there.
    pub(crate) fn shape(&self, name: &str) -> ShapeOf {
        let table = self.table(name);
        table.map_or(ShapeOf::None, |it| ShapeOf::Known(Arc::clone(it.shape())))
    }

    /// Returns tables and columns that name an owner or a reader; in the users table a user is no
    /// owner of others.
    pub(crate) fn people_columns(&self) -> impl Iterator<Item = (&ResolvedTable, &str)> {
        self.tables.values().flat_map(|table| {
            let columns = self.others(table);
            columns.map(move |column| (table, column.as_str()))
        })
    }

    /// Returns whether no declared key holds `column` of `table` to the users table, so that it may
    /// name somebody who has no account.
    pub(crate) fn is_free(&self, table: &ResolvedTable, column: &str) -> bool {
        let mut keys = table.catalog.foreign_keys.iter();
        !keys.any(|key| {
            key.to_table == self.pseudo.table && key.columns.iter().any(|it| it == column)
        })
    }

    /// Returns whether rows of `table` may refer in this way to a user who is not there.
    pub(crate) fn may_dangle(&self, table: &ResolvedTable, reference: &Reference) -> bool {
        let [column] = reference.columns.as_slice() else {
            return false;
        };
        reference.to_table == self.pseudo.table
            && reference.to_columns.iter().eq([&self.pseudo.id])
            && self.is_free(table, column)
    }

    /// Returns the columns of `table` that name people other than the row itself.
    pub(crate) fn others<'t>(&self, table: &'t ResolvedTable) -> impl Iterator<Item = &'t String> {
        let is_users = table.name == self.pseudo.table;
        let owners = (!is_users).then_some(&table.owners);
        owners.into_iter().flatten().chain(&table.readers)
    }

    /// Returns the reference of a column that names a person.
    pub(crate) fn to_person(&self, column: &str) -> Reference {
        Reference {
            columns: vec![column.to_owned()],
            to_table: self.pseudo.table.clone(),
            to_columns: vec![self.pseudo.id.clone()],
        }
    }
}

/// Returns the columns that the notes declare as owners and readers. A user has no other owner, and
/// its readers are the users it refers to.
fn people_said(notes: &TableNotes, is_users: bool) -> (Vec<String>, Vec<String>) {
    let mut owners = notes.owners.clone().unwrap_or_default();
    let mut readers = notes.readers.clone();
    if is_users {
        readers.clear();
    }
    for (people, goes) in [(&mut owners, true), (&mut readers, false)] {
        for column in notes.leaving(goes) {
            if !people.contains(column) {
                people.push(column.clone());
            }
        }
    }
    (owners, readers)
}

/// The one column by which a declared key refers to users, and whether it does so by their id.
struct Naming<'k> {
    column: &'k String,
    to: &'k String,
    is_by_id: bool,
}

/// Returns the column of a foreign key to a person, and whether it refers to the id. If ids are
/// unique only within a tenant, such a key names the tenant too. A key to another column of the
/// users table than the id does not show an owner.
fn person_of<'k>(
    key: &'k ForeignKey,
    (schema, pseudo): (&Schema, &Pseudo),
    tenant: Option<&String>,
) -> Option<Naming<'k>> {
    let of_users = schema.notes.get(&pseudo.table);
    let of_users = of_users.and_then(|notes| notes.tenant.as_ref());
    let of_users = of_users.or(schema.tenant.as_ref());
    let pairs = key.columns.iter().zip(&key.to_columns);
    let is_of_tenant =
        |(from, to): &(&String, &String)| Some(*from) == tenant && Some(*to) == of_users;
    let mut pairs = pairs.filter(|pair| !is_of_tenant(pair));
    let ((column, to), None) = (pairs.next()?, pairs.next()) else {
        return None;
    };
    (key.to_table == pseudo.table).then(|| Naming {
        column,
        to,
        is_by_id: *to == pseudo.id,
    })
}

/// Refuses a column that is declared to name people and refers to another column of the users table
/// than their id: its values are no ids, or those of somebody else.
fn check_people(table: &ResolvedTable, schema: &Schema, pseudo: &Pseudo) -> Result<(), SpecError> {
    let keys = table.catalog.foreign_keys.iter();
    let keys = keys.filter(|key| key.columns.len() == key.to_columns.len());
    let named: Vec<Naming<'_>> = keys
        .filter_map(|key| person_of(key, (schema, pseudo), table.tenant.as_ref()))
        .collect();
    let is_users = table.name == pseudo.table;
    let people = table.people().filter(|it| !(is_users && **it == pseudo.id));
    for column in people {
        let own = || named.iter().filter(|it| it.column == column);
        if let Some(other) = own().find(|it| !it.is_by_id)
            && !own().any(|it| it.is_by_id)
        {
            let what = format!(
                "column {column} refers by its foreign key to {} of {}, not to {}, so that it names nobody by their id",
                other.to, pseudo.table, pseudo.id
            );
            return Err(SpecError::new(format!("table {}", table.name), what));
        }
    }
    Ok(())
}

impl ResolvedSchema {
    /// Returns the declared keys of a table to another column of the users table than the id, if
    /// nothing else names the owners of its rows.
    pub(crate) fn key_without_id<'t>(&self, table: &'t ResolvedTable) -> Option<&'t ForeignKey> {
        let is_told = !table.owners.is_empty() || table.path.is_some() || table.shared;
        let mut keys = table.catalog.foreign_keys.iter();
        let is_other = |key: &&ForeignKey| {
            key.to_table == self.pseudo.table && !key.to_columns.contains(&self.pseudo.id)
        };
        keys.find(is_other).filter(|_| !is_told)
    }
}

fn known(
    dialect: Dialect,
    (name, table): (&str, CatalogTable),
    schema: &Schema,
    pseudo: &Pseudo,
) -> ResolvedTable {
    let notes = schema.notes.get(name);
    let declared = |key: &&ForeignKey| key.columns.len() == key.to_columns.len();
    let shared = notes.is_some_and(|notes| notes.shared);
    let tenant = schema.tenant_column(name, &table);
    let mut owners: Vec<String> = Vec::new();
    let mut readers: Vec<String> = Vec::new();
    let mut references: Vec<Reference> = Vec::new();
    let mut identity = table.primary_key.clone();
    if let Some(notes) = notes {
        if let Some(said) = &notes.identity {
            identity.clone_from(said);
        }
        (owners, readers) = people_said(notes, name == pseudo.table);
        references.clone_from(&notes.references);
    }
    if name == pseudo.table {
        owners = vec![pseudo.id.clone()];
    }
    for key in table.foreign_keys.iter().filter(declared) {
        // A column that the database works out takes no other owner.
        let person = person_of(key, (schema, pseudo), tenant.as_ref());
        let person = person.filter(|it| !shared && table.column(it.column).is_some());
        let person = person.filter(|it| it.is_by_id).map(|it| it.column);
        let said = notes.is_some_and(|it| it.owners.is_some() || it.through.is_some());
        let is_known = |column: &&String| owners.contains(column) || readers.contains(column);
        if !said && name != pseudo.table {
            let new = person.filter(|it| !is_known(it)).cloned();
            owners.extend(new);
        }
        let is_known = |column: &String| owners.contains(column) || readers.contains(column);
        let names_people = person.is_some_and(is_known);
        if !names_people && !references.iter().any(|known| known.columns == key.columns) {
            references.push(Reference {
                columns: key.columns.clone(),
                to_table: key.to_table.clone(),
                to_columns: key.to_columns.clone(),
            });
        }
    }
    ResolvedTable {
        dialect,
        name: name.to_owned(),
        catalog: table,
        identity,
        unsure: Vec::new(),
        owners,
        readers,
        path: None,
        references,
        meanwhile: notes.and_then(|notes| notes.meanwhile),
        on_leave: notes
            .map(|notes| notes.on_leave.clone())
            .unwrap_or_default(),
        tenant,
        shared,
        shape: OnceLock::new(),
    }
}

fn check_notes(catalog: &Catalog, name: &str, notes: &TableNotes) -> Result<(), SpecError> {
    let place = format!("table {name}");
    let Some(table) = catalog.get(name) else {
        let what = "is not in the database; where it was dropped or renamed, give the description of now with an update (update --spec)";
        return Err(SpecError::new(place, what));
    };
    let identity = notes.identity.as_ref().unwrap_or(&table.primary_key);
    if identity.is_empty() {
        return Err(SpecError::new(place, "names no identifying column"));
    }
    let own = notes
        .references
        .iter()
        .flat_map(|reference| &reference.columns);
    let people = notes.owners.iter().flatten().chain(&notes.readers);
    let through = notes.through.iter().flatten().chain(&notes.tenant);
    let through = through.chain(notes.on_leave.keys());
    for column in identity.iter().chain(people).chain(through).chain(own) {
        if table.column(column).is_none() {
            return Err(SpecError::new(place, format!("has no column {column}")));
        }
    }
    let owners = notes.owners.iter().flatten();
    if let Some(both) = owners.clone().find(|it| notes.readers.contains(it)) {
        return Err(SpecError::new(
            place,
            format!("{both} is an owner and a reader"),
        ));
    }
    let owners = owners.chain(notes.leaving(true));
    if notes.through.is_some() && owners.count() > 0 {
        let what = "has owners of its own, so that it belongs to nobody through another table";
        return Err(SpecError::new(place, what));
    }
    let people = notes.owners.iter().flatten().chain(&notes.readers);
    let people = people.chain(notes.on_leave.keys());
    if notes.shared && (people.count() > 0 || notes.through.is_some() || notes.tenant.is_some()) {
        let what = "is shared by all tenants, so that its rows belong to nobody";
        return Err(SpecError::new(place, what));
    }
    for reference in &notes.references {
        let Some(target) = catalog.get(&reference.to_table) else {
            let what = format!(
                "refers to table {}, which is not in the database",
                reference.to_table
            );
            return Err(SpecError::new(place, what));
        };
        if let Some(column) = reference
            .to_columns
            .iter()
            .find(|it| target.column(it).is_none())
        {
            let what = format!(
                "refers to {}.{column}, which does not exist",
                reference.to_table
            );
            return Err(SpecError::new(place, what));
        }
    }
    Ok(())
}

fn check_pseudo(catalog: &Catalog, pseudo: &Pseudo) -> Result<(), SpecError> {
    let place = "the pseudoprincipal generator";
    let Some(table) = catalog.get(&pseudo.table) else {
        return Err(SpecError::new(
            place,
            format!("names table {}, which is not in the database", pseudo.table),
        ));
    };
    if !pseudo
        .columns
        .iter()
        .any(|(column, _)| *column == pseudo.id)
    {
        return Err(SpecError::new(
            place,
            format!("does not generate its id column {}", pseudo.id),
        ));
    }
    for (column, generator) in &pseudo.columns {
        if table.column(column).is_none() {
            return Err(SpecError::new(
                place,
                format!("names column {column}, which {} lacks", pseudo.table),
            ));
        }
        if let Some(fault) = generator.fault() {
            return Err(SpecError::new(place, format!("column {column}: {fault}")));
        }
    }
    Ok(())
}
