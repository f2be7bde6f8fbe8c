//! Points of a transaction to which a try that failed rolls back.

use crate::database::tenant::TenantConnection;
use crate::error::{Doing as _, Error};

/// A point to which a try rolls back.
pub(super) struct Savepoint {
    name: &'static str,
    doing: &'static str,
}

impl Savepoint {
    /// Sets the point `name`; errors say what the database was `doing`.
    pub(super) fn set(
        database: &mut dyn TenantConnection,
        name: &'static str,
        doing: &'static str,
    ) -> Result<Self, Error> {
        let point = Self { name, doing };
        point.control(database, "SAVEPOINT")?;
        Ok(point)
    }

    /// Ends the try: keeps what was done since the point, or rolls it back.
    pub(super) fn end(
        self,
        database: &mut dyn TenantConnection,
        is_kept: bool,
    ) -> Result<(), Error> {
        if !is_kept {
            self.control(database, "ROLLBACK TO SAVEPOINT")?;
        }
        self.control(database, "RELEASE SAVEPOINT")
    }

    fn control(&self, database: &mut dyn TenantConnection, word: &str) -> Result<(), Error> {
        let sql = format!("{word} {}", self.name);
        database.execute(&sql, &[]).doing(self.doing).map(drop)
    }
}
