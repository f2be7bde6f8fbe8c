//! A first specification, proposed from what the database itself says about its tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::database::value::Value;
use crate::database::{Catalog, CatalogTable, Column, Database, Dialect};
use crate::error::{Doing as _, Error, SpecError};
use crate::schema::generate::Generator;
use crate::schema::leaving::{OnLeave, Said};
use crate::schema::{Pseudo, Schema, TableNotes, path};
use crate::spec::{filler, trial};

/// Names that tables of users often have, the likeliest first.
const USERS_NAMES: [&str; 12] = [
    "users",
    "user",
    "accounts",
    "account",
    "people",
    "persons",
    "person",
    "members",
    "customers",
    "contactinfo",
    "principals",
    "profiles",
];
/// Names of columns that often hold a user's id.
const OWNER_NAMES: [&str; 12] = [
    "user_id",
    "userid",
    "author_id",
    "owner_id",
    "creator_id",
    "created_by",
    "member_id",
    "customer_id",
    "account_id",
    "sender_id",
    "recipient_id",
    "person_id",
];
/// Names of columns that often hold the tenant.
const TENANT_NAMES: [&str; 12] = [
    "tenant_id",
    "tenant",
    "org_id",
    "organization_id",
    "organisation_id",
    "account_id",
    "company_id",
    "customer_id",
    "workspace_id",
    "team_id",
    "site_id",
    "shop_id",
];
/// A proposal for a database, with the text of a specification that a developer goes on with.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Draft {
    /// The specification in the native form, with comments.
    pub text: String,
    /// The findings about tables.
    pub schema: Schema,
    /// A proposal for placeholders.
    pub pseudo: Pseudo,
}

/// Proposes a specification; `users` names the users table when it cannot be guessed.
///
/// # Errors
/// [`Error::Spec`] when no users table can be told, [`Error::Database`].
pub fn draft(database: &mut dyn Database, users: Option<&str>) -> Result<Draft, Error> {
    let dialect = database.dialect();
    let mut catalog = database.catalog().doing("reading the schema")?;
    catalog.retain(|name, _| !name.starts_with("probity_"));
    let tenants = Tenants::of(&catalog, users);
    let table = match users {
        Some(name) => name.to_owned(),
        None => users_table(&catalog, tenants.as_ref())?,
    };
    // Who has no tenant could not be told apart.
    let tenants = tenants.filter(|it| it.has(&catalog, &table));
    let Some(known) = catalog.get(&table) else {
        return Err(
            SpecError::new("the users table", format!("{table} is not in the database")).into(),
        );
    };
    let own_key: Vec<&String> = own_key(known, tenants.as_ref()).collect();
    let [id] = own_key.as_slice() else {
        let what = format!("{table} has no primary key of one column");
        return Err(SpecError::new("the users table", what).into());
    };
    let of_tenant = tenants.as_ref().map(|it| it.column.as_str());
    let mut filled = filler::of(dialect, known, id, of_tenant);
    fill_references(database, &catalog, known, &mut filled)?;
    let remarks = trial::fit(database, known, &mut filled);
    let mut pseudo = Pseudo {
        table: table.clone(),
        id: (*id).clone(),
        columns: filled,
    };
    let mut schema = Schema {
        tenant: tenants.as_ref().map(|it| it.column.clone()),
        ..Schema::default()
    };
    schema.notes = guessed(&catalog, &pseudo, tenants.as_ref(), dialect);
    let owners = owners(&catalog, &schema, &pseudo, tenants.as_ref());
    narrow_ids(dialect, &catalog, &owners, &mut pseudo);
    let mut belonging = catalog.clone();
    if let Some(tenants) = &tenants {
        // Everything refers to its tenant; that does not make it the property of whoever owns the tenant.
        belonging.remove(&tenants.table);
    }
    let mut paths = path::proposed(&belonging, &owners, &pseudo.table);
    if let Some(tenants) = &tenants {
        paths.retain(|name, _| tenants.has(&catalog, name));
        tenants.note(&catalog, &owners, &mut schema);
    }
    for (name, (columns, _)) in &paths {
        let notes = TableNotes {
            through: Some(columns.clone()),
            ..TableNotes::default()
        };
        schema.notes.insert(name.clone(), notes);
    }
    let found = Found {
        catalog: &catalog,
        schema: &schema,
        pseudo: &pseudo,
        owners,
        paths,
        remarks,
    };
    let text = found.text()?;
    Ok(Draft {
        text,
        schema,
        pseudo,
    })
}

/// Makes ids that every column holds that names an owner.
fn narrow_ids(
    dialect: Dialect,
    catalog: &Catalog,
    owners: &BTreeMap<String, Vec<String>>,
    pseudo: &mut Pseudo,
) {
    let id = &pseudo.id;
    let mut generators = pseudo.columns.iter_mut();
    if let Some((_, generator)) = generators.find(|(column, _)| column == id) {
        let known = owners.iter().filter_map(|(table, columns)| {
            let table = catalog.get(table)?;
            Some(columns.iter().filter_map(|it| table.column(it)))
        });
        filler::narrow(dialect, generator, known.flatten());
    }
}

/// Notes on tables beside their declared keys: owners by their names, and references of users to users.
fn guessed(
    catalog: &Catalog,
    pseudo: &Pseudo,
    tenants: Option<&Tenants>,
    dialect: Dialect,
) -> BTreeMap<String, TableNotes> {
    let mut all = BTreeMap::new();
    for (name, known) in catalog {
        let mut notes = TableNotes::default();
        if *name == pseudo.table {
            notes.on_leave = referring_users(known, pseudo, tenants);
        } else if let owners = declared_owners(known, pseudo, tenants)
            && !owners.is_empty()
        {
            let in_key = |owner: &String| known.primary_key.contains(owner);
            let referred = |table: &CatalogTable| {
                let mut keys = table.foreign_keys.iter();
                keys.any(|key| key.to_table == *name)
            };
            let goes_alone = !catalog.values().any(referred);
            if owners.len() > 1 && owners.iter().any(in_key) && goes_alone {
                let all = owners.into_iter();
                notes.on_leave = all.map(|owner| (owner, OnLeave::Remove)).collect();
            }
        } else {
            let by_name = guessed_owners((dialect, known), catalog, pseudo, tenants);
            notes.owners = (!by_name.is_empty()).then_some(by_name);
        }
        if notes != TableNotes::default() {
            all.insert(name.clone(), notes);
        }
    }
    all
}

/// A column that most tables have, by which they refer to a table of tenants.
struct Tenants {
    column: String,
    table: String,
}

impl Tenants {
    fn of(catalog: &Catalog, users: Option<&str>) -> Option<Self> {
        let mut found: BTreeMap<(&String, &String), usize> = BTreeMap::new();
        for table in catalog.values() {
            for key in &table.foreign_keys {
                if let [column] = key.columns.as_slice()
                    && TENANT_NAMES.contains(&column.to_ascii_lowercase().as_str())
                    && users != Some(key.to_table.as_str())
                {
                    let count = found.entry((column, &key.to_table)).or_default();
                    *count = count.saturating_add(1);
                }
            }
        }
        let most = found.into_iter().max_by_key(|(_, count)| *count);
        let ((column, table), count) = most?;
        // More than half of the tables that are not the tenants themselves.
        let others = catalog.len().saturating_sub(1);
        (count >= 2 && count.saturating_mul(2) > others).then(|| Self {
            column: column.clone(),
            table: table.clone(),
        })
    }

    fn has(&self, catalog: &Catalog, table: &str) -> bool {
        let table = catalog.get(table);
        table.is_some_and(|table| table.column(&self.column).is_some())
    }

    /// Notes for each table without the column which one it has instead, or that it is shared.
    fn note(&self, catalog: &Catalog, owners: &BTreeMap<String, Vec<String>>, schema: &mut Schema) {
        for (name, table) in catalog {
            if self.has(catalog, name) {
                continue;
            }
            let mut notes = TableNotes::default();
            match table.primary_key.as_slice() {
                [id] if *name == self.table => notes.tenant = Some(id.clone()),
                _ if owners.contains_key(name) => continue,
                _ => notes.shared = true,
            }
            schema.notes.insert(name.clone(), notes);
        }
    }
}

/// The columns of the primary key but for the tenant.
fn own_key<'t>(
    table: &'t CatalogTable,
    tenants: Option<&'t Tenants>,
) -> impl Iterator<Item = &'t String> {
    let keys = table.primary_key.iter();
    keys.filter(move |key| tenants.is_none_or(|it| it.column != **key))
}

/// The table that most others refer to, or whose name says it.
fn users_table(catalog: &Catalog, tenants: Option<&Tenants>) -> Result<String, SpecError> {
    let mut best: Vec<&str> = Vec::new();
    let mut most: usize = 0;
    for (name, table) in catalog {
        let of_tenants = tenants.is_some_and(|it| it.table == *name);
        if own_key(table, tenants).count() != 1 || of_tenants {
            continue;
        }
        let references = catalog
            .values()
            .flat_map(|other| &other.foreign_keys)
            .filter(|key| key.to_table == *name && key.to_columns == table.primary_key);
        let lower = name.to_ascii_lowercase();
        let named = USERS_NAMES.iter().rev().position(|it| *it == lower);
        let score = named.map_or(0, |at| at.saturating_add(1).saturating_mul(100));
        let score = score.saturating_add(references.count());
        if score > most {
            (best, most) = (vec![name.as_str()], score);
        } else if score == most && score > 0 {
            best.push(name);
        }
    }
    match best.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(SpecError::new(
            "the users table",
            "cannot be guessed, name it",
        )),
        several => {
            let what = format!("could be {}, name it", several.join(" or "));
            Err(SpecError::new("the users table", what))
        }
    }
}

fn declared_owners(
    table: &CatalogTable,
    pseudo: &Pseudo,
    tenants: Option<&Tenants>,
) -> Vec<String> {
    let keys = table.foreign_keys.iter();
    let mut owners: Vec<String> = Vec::new();
    for key in keys.filter(|key| key.to_table == pseudo.table) {
        let of_tenant = |name: &String| tenants.is_some_and(|it| it.column == *name);
        let pairs = key.columns.iter().zip(&key.to_columns);
        let mut pairs = pairs.filter(|(from, to)| !(of_tenant(from) && of_tenant(to)));
        if let (Some((column, to)), None) = (pairs.next(), pairs.next())
            && *to == pseudo.id
            && !owners.contains(column)
        {
            owners.push(column.clone());
        }
    }
    owners
}

/// A rule for each reference of users to users who leave, so that none keeps anybody there.
fn referring_users(users: &CatalogTable, pseudo: &Pseudo, tenants: Option<&Tenants>) -> Said {
    let columns = declared_owners(users, pseudo, tenants).into_iter();
    let columns = columns.filter(|it| *it != pseudo.id && users.column(it).is_some());
    let how = |column: &String| {
        let nullable = users.column(column).is_some_and(|it| it.nullable);
        if nullable && !users.primary_key.contains(column) {
            OnLeave::Null
        } else {
            OnLeave::Placeholder
        }
    };
    columns
        .map(|column| (column.clone(), how(&column)))
        .collect()
}

/// Columns that hold a user's id by their name and type, without a declared foreign key.
fn guessed_owners(
    (dialect, table): (Dialect, &CatalogTable),
    catalog: &Catalog,
    pseudo: &Pseudo,
    tenants: Option<&Tenants>,
) -> Vec<String> {
    let users = catalog.get(&pseudo.table);
    let Some(id) = users.and_then(|users| users.column(&pseudo.id)) else {
        return Vec::new();
    };
    let singular = pseudo.table.trim_end_matches('s').to_ascii_lowercase();
    let own = format!("{singular}_id");
    let is_owner = |column: &&Column| {
        let name = column.name.to_ascii_lowercase();
        let named = OWNER_NAMES.contains(&name.as_str())
            || name == own
            || name.ends_with(&format!("_{own}"))
            || (name == pseudo.id.to_ascii_lowercase() && name != "id");
        let declared = table
            .foreign_keys
            .iter()
            .any(|key| key.columns.contains(&column.name));
        let of_tenant = tenants.is_some_and(|it| it.column == column.name);
        let is_alike = match (column.is_integer(), column.is_text()) {
            (true, _) => id.is_integer() && column.integers(dialect) == id.integers(dialect),
            (false, true) => id.is_text() && !id.is_integer(),
            (false, false) => column.kind() == id.kind(),
        };
        named && !declared && !of_tenant && is_alike
    };
    let columns = table.columns.iter().filter(is_owner);
    columns.map(|column| column.name.clone()).collect()
}

const HEAD: &str = "\
# A first specification, proposed from the schema of the database. Read every line before it is used:
# what is removed, what stays under a placeholder, and what is left alone, is yours to decide.
#   probity disguise check --db URL --spec THIS_FILE --try{tenant}
#   probity disguise plan  --db URL --spec THIS_FILE --user ID{tenant}

";

/// Returns the first lines, whose commands name a tenant where the specification has tenants.
fn head(schema: &Schema) -> String {
    let tenant = schema.tenant.as_ref().map_or("", |_| " --tenant T");
    HEAD.replace("{tenant}", tenant)
}

/// Lets placeholders refer to a row that is there, where they must refer to one of a table that names nobody.
fn fill_references(
    database: &mut dyn Database,
    catalog: &Catalog,
    users: &CatalogTable,
    filled: &mut [(String, Generator)],
) -> Result<(), Error> {
    for (column, generator) in filled {
        let mut keys = users.foreign_keys.iter();
        let key = keys.find(|key| key.columns.as_slice() == [column.clone()]);
        let Some((key, to)) = key.and_then(|key| Some((key, key.to_columns.first()?))) else {
            continue;
        };
        let target = catalog.get(&key.to_table);
        let names_nobody = |table: &CatalogTable| table.foreign_keys.is_empty();
        if !target.is_some_and(names_nobody) {
            continue;
        }
        let dialect = database.dialect();
        let (table, to) = (dialect.quote(&key.to_table), dialect.quote(to));
        let sql = format!("SELECT {to} FROM {table} ORDER BY {to} LIMIT 1");
        let rows = database.query(&sql, &[]);
        match rows
            .doing("looking for what users refer to")?
            .concat()
            .first()
        {
            Some(Value::Int(number)) => *generator = Generator::ConstNum(*number),
            Some(Value::Text(text)) => *generator = Generator::ConstStr(text.clone()),
            _ => {}
        }
    }
    Ok(())
}

/// The owner columns of every table that has some.
fn owners(
    catalog: &Catalog,
    schema: &Schema,
    pseudo: &Pseudo,
    tenants: Option<&Tenants>,
) -> BTreeMap<String, Vec<String>> {
    let mut owners = BTreeMap::from([(pseudo.table.clone(), vec![pseudo.id.clone()])]);
    for (name, table) in catalog.iter().filter(|(name, _)| **name != pseudo.table) {
        let said = schema.notes.get(name).and_then(|it| it.owners.clone());
        let columns = said.unwrap_or_else(|| declared_owners(table, pseudo, tenants));
        if !columns.is_empty() {
            owners.insert(name.clone(), columns);
        }
    }
    owners
}

/// The findings about a database.
struct Found<'a> {
    catalog: &'a Catalog,
    schema: &'a Schema,
    pseudo: &'a Pseudo,
    owners: BTreeMap<String, Vec<String>>,
    /// Tables owned through others, with the columns that refer to them.
    paths: BTreeMap<String, (Vec<String>, String)>,
    /// The remarks on columns of placeholders.
    remarks: BTreeMap<String, String>,
}

impl Found<'_> {
    fn text(&self) -> Result<String, Error> {
        let mut out = head(self.schema);
        let pseudo = self.pseudo;
        if let Some(tenant) = &self.schema.tenant {
            let why = "  # most tables have it: a disguise is one of a tenant, named with --tenant";
            put(&mut out, &format!("tenant = {}", quoted(tenant)), why);
            put(&mut out, "", "");
        }
        put(&mut out, "[users]", "");
        put(&mut out, &format!("table = {}", quoted(&pseudo.table)), "");
        put(&mut out, &format!("id = {}", quoted(&pseudo.id)), "");
        put(
            &mut out,
            "\n# How each column of a placeholder is made; the database fills in the others.",
            "",
        );
        put(&mut out, "[users.placeholder]", "");
        for (column, generator) in &pseudo.columns {
            let generator = toml::Value::try_from(generator).map_err(|error| Error::Value {
                what: error.to_string(),
            })?;
            let remark = self.remarks.get(column).map(|it| format!("  # {it}"));
            let remark = remark.unwrap_or_default();
            put(
                &mut out,
                &format!("{} = {generator}", quoted(column)),
                &remark,
            );
        }
        for (name, notes) in &self.schema.notes {
            put(&mut out, &format!("\n[tables.{}]", quoted(name)), "");
            if let Some(tenant) = &notes.tenant {
                let why = "  # the tenants themselves";
                put(&mut out, &format!("tenant = {}", quoted(tenant)), why);
                continue;
            }
            if notes.shared {
                put(
                    &mut out,
                    "shared = true",
                    "  # of all tenants, and left alone",
                );
                continue;
            }
            if let Some((columns, to)) = self.paths.get(name) {
                let why = format!("  # a row belongs to the owner of its row of {to}");
                put(&mut out, &format!("through = {}", list(columns)), &why);
                continue;
            }
            if !notes.on_leave.is_empty() {
                let why = "  # what becomes of a reference to somebody who leaves";
                put(&mut out, &said(&notes.on_leave)?, why);
                continue;
            }
            let owners = list(notes.owners.as_deref().unwrap_or_default());
            put(
                &mut out,
                &format!("owners = {owners}"),
                "  # guessed from the name, no foreign key is declared",
            );
        }
        for (name, table) in self.catalog {
            if *name != pseudo.table {
                self.transformation(&mut out, name, table);
            }
        }
        put(&mut out, "\n[[remove]]", "");
        put(&mut out, &format!("table = {}", quoted(&pseudo.table)), "");
        Ok(out)
    }

    fn transformation(&self, out: &mut String, name: &str, table: &CatalogTable) {
        let mut say = |lines: &[String]| {
            for line in lines {
                put(out, line, "");
            }
        };
        let owners = self.owners.get(name);
        if owners.is_none() && !self.paths.contains_key(name) {
            return say(&[format!("\n# {name} has no owner column and is left alone.")]);
        }
        if table.primary_key.is_empty() {
            return say(&[
                format!("\n# {name} has no primary key: name its identifying columns, like"),
                format!("# tables.{}.identity = [\"...\"]", quoted(name)),
                "# and then what happens to its rows.".to_owned(),
            ]);
        }
        let of = format!("table = {}", quoted(name));
        let in_key = |owner: &String| table.primary_key.contains(owner);
        let removable = self.may_go(name);
        match (owners, removable) {
            (Some(owners), true) if owners.len() > 1 && owners.iter().any(in_key) => say(&[
                "\n[[remove]]  # its people are in its key, so a row goes with the first of them who leaves".to_owned(),
                of,
            ]),
            (None, false) => say(&[format!(
                "\n# {name} stays, for other tables refer to it; it goes to the owner of its parent."
            )]),
            (Some(owners), removable) if owners.len() > 1 || !removable => {
                let why = if removable {
                    "it has several owners"
                } else {
                    "other tables refer to it"
                };
                say(&[
                    format!("\n[[decorrelate]]  # {why}, so it stays, under placeholders"),
                    of,
                    format!("owners = {}", list(owners)),
                ]);
            }
            _ => say(&["\n[[remove]]".to_owned(), of]),
        }
    }

    /// Returns whether all rows that refer to rows of `name` are removed with them, and none of them is one of a table that inherits.
    fn may_go(&self, name: &str) -> bool {
        let refers = |table: &CatalogTable| table.foreign_keys.iter().any(|it| it.to_table == name);
        let goes = |child: &String| {
            let path = self.paths.get(child);
            path.is_some_and(|(_, to)| to == name) && self.may_go(child)
        };
        if self.catalog.get(name).is_some_and(|it| it.has_heirs) {
            return false;
        }
        let mut children = self.catalog.iter().filter(|(_, table)| refers(table));
        children.all(|(child, table)| !table.primary_key.is_empty() && goes(child))
    }
}

fn put(out: &mut String, line: &str, comment: &str) {
    // Writing to a String cannot fail.
    writeln!(out, "{line}{comment}").unwrap_or_default();
}

/// The rules for references, as a line of their table.
fn said(on_leave: &Said) -> Result<String, Error> {
    let table = toml::Value::try_from(on_leave).map_err(|error| Error::Value {
        what: error.to_string(),
    })?;
    Ok(format!("on_leave = {table}"))
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    format!("[{}]", names.join(", "))
}
