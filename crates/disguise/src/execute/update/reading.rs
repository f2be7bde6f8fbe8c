//! Settings by which a server reads a statement, or the signs of its country, otherwise than they are
//! read here. They cannot be tried in one session: what they touch is refused where the server has
//! them.

use super::Mapping;
use super::typed::Use;
use crate::database::Dialect;
use crate::database::tenant::TenantConnection;
use crate::error::{Doing as _, Error, UpdateError};

/// A mode of `MariaDB`, what it touches, and what that is called.
type Mode = (&'static str, fn(&Mapping, &Use) -> bool, &'static str);

const MODES: [Mode; 4] = [
    (
        "EMPTY_STRING_IS_NULL",
        |mapping, used| used.has_empty_text() || mapping.has_text(str::is_empty),
        "writes an empty text",
    ),
    ("ORACLE", |_, used| used.cuts(), "calls trim or substr"),
    (
        "HIGH_NOT_PRECEDENCE",
        |_, used| used.negates(),
        "has NOT in front of a truth",
    ),
    (
        "NO_BACKSLASH_ESCAPES",
        |_, used| used.has_backslash(),
        "has a text or a pattern in which a backslash may be",
    ),
];
/// Character sets in which letters of ASCII have other bytes. No client is in one, but a session may
/// take its texts for such.
const WIDE_SETS: [&str; 4] = ["ucs2", "utf16", "utf16le", "utf32"];

const MODES_OF_MARIADB: &str = "SELECT @@GLOBAL.sql_mode, @@GLOBAL.character_set_connection";
/// For the server, or for one of its databases or accounts.
const ESCAPES_OF_POSTGRES: &str = "SELECT 1 FROM pg_settings \
     WHERE name = 'standard_conforming_strings' AND reset_val = 'off' \
     UNION ALL SELECT 1 FROM pg_db_role_setting AS of, unnest(of.setconfig) AS it (said) \
     WHERE it.said ILIKE 'standard_conforming_strings=%' \
     AND it.said NOT ILIKE '%=on' AND it.said NOT ILIKE '%=true'";
/// Countries whose signs a session may take for those of amounts.
const COUNTRIES_OF_POSTGRES: &str = "SELECT 1 FROM pg_collation \
     WHERE collprovider = 'c' AND collcollate::text !~* '^(C|POSIX)([.]|$)' \
     UNION ALL SELECT 1 WHERE current_setting('lc_monetary') !~* '^(C|POSIX)([.]|$)'";

impl Mapping {
    /// Refuses what the server may have read otherwise for the migration.
    pub(super) fn refuse_other_reading(
        &self,
        database: &mut dyn TenantConnection,
    ) -> Result<(), Error> {
        let used = self.used();
        match database.dialect() {
            Dialect::Sqlite => Ok(()),
            Dialect::Postgres if used.has_backslash() => {
                let found = database.query(ESCAPES_OF_POSTGRES, &[]);
                if found
                    .doing("asking for the settings of the server")?
                    .is_empty()
                {
                    return Ok(());
                }
                self.refused("has a text in which a backslash may be, which standard_conforming_strings = off of the server, or of a database or an account, may have taken for an escape for the migration")
            }
            Dialect::Postgres => Ok(()),
            Dialect::Mysql => {
                let writes = used.has_text() || self.has_text(|_| true);
                let mut modes = MODES.iter().filter(|(_, touches, _)| touches(self, &used));
                if modes.clone().next().is_none() && !writes {
                    return Ok(());
                }
                let all = database.query(MODES_OF_MARIADB, &[]);
                let all = all.doing("asking for the modes of the server")?.concat();
                let said: Vec<String> = all.iter().map(ToString::to_string).collect();
                let is_on = |mode: &str| said.iter().any(|it| it.split(',').any(|on| on == mode));
                if let Some((mode, _, what)) = modes.find(|(mode, _, _)| is_on(mode)) {
                    return self.refused(&format!(
                        "{what}, of which the mode {mode} of the server may have made something else for the migration"
                    ));
                }
                if writes && WIDE_SETS.iter().any(|it| is_on(it)) {
                    return self.refused("writes a text, whose bytes are others by character_set_connection of the server");
                }
                Ok(())
            }
        }
    }

    /// Refuses to make amounts of money where a session may have read them by the signs of a country.
    pub(super) fn refuse_money(&self, database: &mut dyn TenantConnection) -> Result<(), Error> {
        let found = database.query(COUNTRIES_OF_POSTGRES, &[]);
        if found
            .doing("asking for the countries of the server")?
            .is_empty()
        {
            return Ok(());
        }
        self.refused("makes money of a text, whose signs lc_monetary of the session decides")
    }

    fn refused(&self, what: &str) -> Result<(), Error> {
        let source = UpdateError::Wrong(format!("{what}: do the update by code"));
        let name = self.name.clone();
        Err(Error::Update { name, source })
    }
}
