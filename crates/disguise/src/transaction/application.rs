//! The application: its description, and the schema that its database has now.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use crate::database::tenant::{TenantScope, TenantScoped};
use crate::database::value::Value;
use crate::database::{Catalog, Database, Vocabulary};
use crate::error::{Doing as _, Error};
use crate::records::name::digits;
use crate::records::settings;
use crate::schema::{Pseudo, ResolvedSchema, Schema};
use crate::spec::description;

/// Bytes of the name of a description.
const NAME_BYTES: usize = 16;

/// The application that an engine works for.
pub(crate) struct Application {
    schema: Schema,
    /// The description as the caller gave it.
    said: Pseudo,
    /// The description in the names of the database.
    pseudo: Pseudo,
    live: Option<(i64, Catalog, ResolvedSchema)>,
}

impl Application {
    /// Returns the application that `schema` and `pseudo` describe, before its database was read.
    pub(crate) fn new(schema: Schema, pseudo: Pseudo) -> Self {
        Self {
            schema,
            said: pseudo.clone(),
            pseudo,
            live: None,
        }
    }

    /// Returns what was said of the tables.
    pub(crate) const fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns what was said of the users, in the names of the database once that was read.
    pub(crate) const fn pseudo(&self) -> &Pseudo {
        &self.pseudo
    }

    /// Returns what was said of the users, as it was said.
    pub(crate) const fn said(&self) -> &Pseudo {
        &self.said
    }

    /// Returns the description, as it is stored.
    pub(crate) fn description(&self) -> Result<String, Error> {
        let text = description(&self.schema, &self.pseudo);
        text.map_err(|error| Error::Value {
            what: error.to_string(),
        })
    }

    /// Returns the name of the description, by which entries tell under which one a disguise was made.
    pub(crate) fn description_name(&self) -> Result<String, Error> {
        let mut hash = Sha256::new();
        hash.update(b"probity disguise description\0");
        hash.update(self.description()?.as_bytes());
        Ok(digits(
            hash.finalize().get(..NAME_BYTES).unwrap_or_default(),
        ))
    }

    /// Returns whether the description names tenant columns.
    pub(crate) fn has_tenants(&self) -> bool {
        self.schema.has_tenants()
    }

    /// Returns the schema as it was last read.
    pub(crate) fn described(&self) -> Result<(&Catalog, &ResolvedSchema), Error> {
        self.live
            .as_ref()
            .map(|(_, catalog, live)| (catalog, live))
            .ok_or(Error::NotInstalled)
    }

    /// Returns the tables whose rows name several people.
    pub(crate) fn shared_tables(&self) -> Result<BTreeSet<String>, Error> {
        let tables = self.described()?.1.tables.values();
        let shared = tables.filter(|it| it.people().nth(1).is_some());
        Ok(shared.map(|it| it.name.clone()).collect())
    }

    /// Has the schema read again, even if no table has changed.
    pub(super) fn forget_schema(&mut self) {
        self.live = None;
    }

    /// Reads the schema if it has changed, and tells `database` of tenants and words.
    pub(super) fn refresh<D: Database>(
        &mut self,
        database: &mut TenantScoped<D>,
    ) -> Result<(), Error> {
        let version = database.catalog_version().doing("reading the schema")?;
        if self
            .live
            .as_ref()
            .is_none_or(|(known, _, _)| *known != version)
        {
            let catalog = database.catalog().doing("reading the schema")?;
            let own = |name: &String| !name.starts_with("probity_");
            let catalog: Catalog = catalog.into_iter().filter(|(name, _)| own(name)).collect();
            let dialect = database.dialect();
            let live = ResolvedSchema::new(dialect, catalog.clone(), &self.schema, &self.said)?;
            // From here on the database's spelling of the users table and its columns is used.
            self.pseudo.clone_from(&live.pseudo);
            database.vocabulary = Vocabulary::of(&catalog);
            self.live = Some((version, catalog, live));
        }
        if let Some((_, _, live)) = &self.live
            && live.has_tenants
        {
            database.tenancy.columns = live.tenant_columns();
            database.tenancy.shared = live.shared_tables();
        }
        Ok(())
    }

    /// Binds later statements to the tenant that was set; refuses a missing or an unexpected
    /// tenant.
    pub(super) fn enter<D: Database>(
        &mut self,
        database: &mut TenantScoped<D>,
    ) -> Result<(), Error> {
        self.need_tenant(&database.tenancy)?;
        let Some(tenant) = &database.tenancy.tenant else {
            return Ok(());
        };
        let value = tenant.value.clone();
        self.refresh(database)?;
        if database.tenancy.tag().is_empty() {
            self.refuse_other_form(database, &value)?;
            let salt = settings::own_salt(database)?;
            database.tenancy.salted(&salt);
        }
        Ok(())
    }

    /// Refuses a missing tenant, and one in a database without tenants.
    pub(super) fn need_tenant(&self, tenancy: &TenantScope) -> Result<(), Error> {
        match (self.has_tenants(), &tenancy.tenant) {
            (false, None) | (true, Some(_)) => Ok(()),
            (false, Some(_)) => Err(no_tenants()),
            (true, None) => Err(Error::Tenant {
                what: "the database has tenants, so one must be named".to_owned(),
            }),
        }
    }

    /// Refuses a tenant that the database treats as equal to one stored in another form.
    fn refuse_other_form<D: Database>(
        &self,
        database: &mut TenantScoped<D>,
        tenant: &Value,
    ) -> Result<(), Error> {
        let (_, live) = self.described()?;
        let users = live.table(&live.pseudo.table).ok_or(Error::NotInstalled)?;
        let column = users.tenant.clone().ok_or(Error::NotInstalled)?;
        let dialect = database.dialect();
        let known = users.catalog.column(&column);
        let integer = known.is_some_and(|it| it.is_number(dialect));
        let is_integer = matches!(tenant, Value::Int(_) | Value::UInt(_));
        let wrong = |what: &str| {
            Err(Error::Tenant {
                what: what.to_owned(),
            })
        };
        if tenant.is_null() || matches!(tenant, Value::Text(text) if text.is_empty()) {
            return wrong("NULL and the empty text are no tenants");
        }
        if integer != is_integer {
            return wrong("the tenant columns hold values of another type");
        }
        let dialect = database.dialect();
        let (table, column) = (dialect.quote(&users.name), dialect.quote(&column));
        let sql = format!("SELECT {column} FROM {table} WHERE {column} = ? LIMIT 1");
        let rows = database.query(&sql, std::slice::from_ref(tenant));
        let rows = rows.doing("looking for the tenant")?;
        let other = rows.iter().flatten().next();
        if other.is_some_and(|held| held.principal() != tenant.principal()) {
            return wrong("the database has the tenant in another form, like capitals in it");
        }
        Ok(())
    }
}

pub(crate) fn no_tenants() -> Error {
    Error::Tenant {
        what: "the description names no tenant columns, so that there are no tenants".to_owned(),
    }
}
