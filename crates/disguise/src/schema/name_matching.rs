//! Names of files, matched to those of the database: written in other case, or slips of Edna's
//! files.

use crate::database::{Catalog, CatalogTable, Dialect, Property};
use crate::schema::{Pseudo, Reference, Schema, TableNotes};

/// The names of a database.
#[derive(Clone, Copy)]
pub(crate) struct CatalogNames<'a> {
    dialect: Dialect,
    pub(crate) catalog: &'a Catalog,
    /// True if slips that Edna never notices are noted, and no more.
    of_edna: bool,
}

impl<'a> CatalogNames<'a> {
    pub(crate) const fn new(dialect: Dialect, catalog: &'a Catalog) -> Self {
        Self {
            dialect,
            catalog,
            of_edna: false,
        }
    }

    /// Sets whether the names are those of an Edna file. Edna's database ignores the case of column
    /// names.
    pub(crate) const fn of_edna(self, of_edna: bool) -> Self {
        Self { of_edna, ..self }
    }

    /// Returns the table that the database would find by the name `said`.
    pub(crate) fn table(self, said: &str) -> Option<&'a str> {
        if let Some((exact, _)) = self.catalog.get_key_value(said) {
            return Some(exact);
        }
        let mut all = self.catalog.iter();
        let found = all.find(|(name, table)| match self.dialect {
            Dialect::Mysql => table.has(Property::AnyLetters) && is_same(self.dialect, name, said),
            _ => is_same(self.dialect, name, said),
        });
        found.map(|(name, _)| name.as_str())
    }

    /// Returns the column of `table` that the database would find by the name `said`.
    pub(crate) fn column(self, table: &'a CatalogTable, said: &str) -> Option<&'a str> {
        if let Some(exact) = table.column(said) {
            return Some(&exact.name);
        }
        let mut all = table.columns.iter().map(|it| it.name.as_str());
        let found = all.find(|name| is_same(self.dialect, name, said));
        found.or_else(|| self.of_edna.then(|| only(table, said))?)
    }

    /// Returns whether the database takes a name in a condition, of a table or an alias, for
    /// `known`.
    pub(crate) fn is_called(self, known: &str, said: &str) -> bool {
        match self.dialect {
            Dialect::Mysql => known == said || self.table(said) == Some(known),
            Dialect::Sqlite | Dialect::Postgres => known.eq_ignore_ascii_case(said),
        }
    }
}

/// Returns the one column of that name in any case; none if there are several.
fn only<'a>(table: &'a CatalogTable, said: &str) -> Option<&'a str> {
    let said = said.to_lowercase();
    let all = table.columns.iter().map(|it| it.name.as_str());
    let mut all = all.filter(|name| name.to_lowercase() == said);
    all.next().filter(|_| all.next().is_none())
}

/// Returns whether the database treats two names as equal. `PostgreSQL` folds a name without quotes
/// to lower case.
fn is_same(dialect: Dialect, known: &str, said: &str) -> bool {
    match dialect {
        Dialect::Sqlite => known.eq_ignore_ascii_case(said),
        Dialect::Postgres => known == said.to_lowercase(),
        Dialect::Mysql => known.to_lowercase() == said.to_lowercase(),
    }
}

/// Files being matched to a database, with notes on the differences.
pub(crate) struct Fitting<'a> {
    pub(crate) names: CatalogNames<'a>,
    pub(crate) notes: Vec<String>,
}

impl<'a> Fitting<'a> {
    pub(crate) const fn new(names: CatalogNames<'a>) -> Self {
        Self {
            names,
            notes: Vec::new(),
        }
    }

    /// Returns the notes on tables with the names of the database.
    pub(crate) fn schema(&mut self, said: &Schema) -> Schema {
        self.names = self.names.of_edna(said.of_edna);
        let mut fitted = Schema {
            of_edna: said.of_edna,
            ..Schema::default()
        };
        for (name, notes) in &said.notes {
            let called = self.table(&format!("table {name}"), name);
            let called = if said.notes.contains_key(&called) {
                name.clone()
            } else {
                called
            };
            let notes = match self.names.catalog.get(&called) {
                Some(table) => self.table_notes(&called, table, notes),
                None => notes.clone(),
            };
            fitted.notes.insert(called, notes);
        }
        let mut tables = self.names.catalog.values();
        let tenant = said.tenant.as_ref();
        fitted.tenant = tenant.map(|tenant| {
            let found = tables.find_map(|table| self.names.column(table, tenant));
            found.unwrap_or(tenant).to_owned()
        });
        fitted
    }

    /// Returns the generator of placeholders with the names of the database.
    pub(crate) fn pseudo(&mut self, said: &Pseudo) -> Pseudo {
        let place = "the pseudoprincipal generator";
        let called = self.table(place, &said.table);
        let Some(table) = self.names.catalog.get(&called) else {
            return said.clone();
        };
        let columns = said.columns.iter();
        Pseudo {
            id: self
                .names
                .column(table, &said.id)
                .map_or_else(|| said.id.clone(), str::to_owned),
            columns: columns
                .map(|(column, generator)| (self.column(place, table, column), generator.clone()))
                .collect(),
            table: called,
        }
    }

    fn table_notes(
        &mut self,
        name: &str,
        table: &'a CatalogTable,
        said: &TableNotes,
    ) -> TableNotes {
        let place = format!("table {name}");
        let mut fit = |columns: &Vec<String>| self.columns(&place, table, columns);
        let mut notes = TableNotes {
            identity: said.identity.as_ref().map(&mut fit),
            owners: said.owners.as_ref().map(&mut fit),
            readers: fit(&said.readers),
            through: said.through.as_ref().map(&mut fit),
            tenant: said.tenant.clone(),
            references: Vec::new(),
            ..said.clone()
        };
        notes.tenant = said
            .tenant
            .as_ref()
            .map(|it| self.column(&place, table, it));
        let on_leave = said.on_leave.iter();
        notes.on_leave = on_leave
            .map(|(column, how)| (self.column(&place, table, column), *how))
            .collect();
        for reference in &said.references {
            notes
                .references
                .extend(self.reference(&place, table, reference));
        }
        notes
    }

    /// Returns a reference in the names of the database; none if Edna's file names a missing table
    /// or column, because a reference to nothing cannot be looked up.
    fn reference(
        &mut self,
        place: &str,
        table: &'a CatalogTable,
        said: &Reference,
    ) -> Option<Reference> {
        let target = self.table(place, &said.to_table);
        let mut missing = said
            .columns
            .iter()
            .filter(|it| self.names.column(table, it).is_none());
        let mut lacks = missing
            .next()
            .map(|column| format!("refers by column {column}, which it does not have"));
        match self.names.catalog.get(&target) {
            None => {
                let absent = format!("refers to table {target}, which is not in the database");
                lacks = lacks.or(Some(absent));
            }
            Some(other) => {
                let mut to = said.to_columns.iter();
                let absent = to.find(|it| self.names.column(other, it).is_none());
                let absent = absent
                    .map(|column| format!("refers to {target}.{column}, which does not exist"));
                lacks = lacks.or(absent);
            }
        }
        if let (Some(lacks), true) = (&lacks, self.names.of_edna) {
            self.note(format!("{place} {lacks}; the reference is passed over"));
            return None;
        }
        let to_columns = match self.names.catalog.get(&target) {
            Some(other) => self.columns(place, other, &said.to_columns),
            None => said.to_columns.clone(),
        };
        Some(Reference {
            columns: self.columns(place, table, &said.columns),
            to_table: target,
            to_columns,
        })
    }

    pub(crate) fn table(&mut self, place: &str, said: &str) -> String {
        let found = self.names.table(said).unwrap_or(said);
        if found != said {
            self.note(format!(
                "{place}: table {said} is called {found} in the database"
            ));
        }
        found.to_owned()
    }

    pub(crate) fn column(&mut self, place: &str, table: &'a CatalogTable, said: &str) -> String {
        let found = self.names.column(table, said).unwrap_or(said);
        if found != said {
            self.note(format!(
                "{place}: column {said} is called {found} in the database"
            ));
        }
        found.to_owned()
    }

    /// Returns columns in the names of the database. Several of them in one text are a slip of
    /// Edna's files.
    pub(crate) fn columns(
        &mut self,
        place: &str,
        table: &'a CatalogTable,
        said: &[String],
    ) -> Vec<String> {
        let mut columns = Vec::with_capacity(said.len());
        for one in said {
            let parts: Vec<&str> = one.split(',').map(str::trim).collect();
            let is_there = |part: &&str| self.names.column(table, part).is_some();
            let is_list = self.names.of_edna && parts.len() > 1 && !is_there(&one.as_str());
            if is_list && parts.iter().all(is_there) {
                self.note(format!(
                    "{place}: \"{one}\" is taken for {} columns",
                    parts.len()
                ));
                columns.extend(
                    parts
                        .into_iter()
                        .map(|part| self.column(place, table, part)),
                );
            } else {
                columns.push(self.column(place, table, one));
            }
        }
        columns
    }

    fn note(&mut self, what: String) {
        if !self.notes.contains(&what) {
            self.notes.push(what);
        }
    }
}
