//! Settings of a session. A server, database, account or URL may bring others, by which values would
//! be read or written in another form, or statements would do something else.

use postgres::{Client, SimpleQueryMessage};

use super::reading::Texts;
use super::refused;
use crate::database::{DatabaseError, DatabaseErrorKind, Said};

/// Values are sent as text: times, numbers, bytes, arrays with `NULL` and XML without a single root
/// are read and written in one form. Texts of the catalog are quoted where that is needed. A plan
/// made for a small table would still scan it once placeholders have filled it. Compiling a question
/// to the catalog takes longer than answering it, by seconds where there are many schemas.
const SETTINGS: &str = "SET datestyle = 'ISO, YMD'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; \
     SET extra_float_digits = 3; SET bytea_output = 'hex'; SET array_nulls = on; \
     SET xmloption = 'content'; SET timezone_abbreviations = 'Default'; SET quote_all_identifiers = off; \
     SET standard_conforming_strings = on; SET transform_null_equals = off; \
     SET client_min_messages = 'warning'; SET plan_cache_mode = force_custom_plan; SET jit = off; \
     SELECT current_setting('session_replication_role'), current_setting('server_encoding')";

/// The encodings of databases whose texts are read as they are stored. Of others, such as `EUC_JP`,
/// several codes may be one letter in Unicode.
const READ_AS_STORED: [&str; 2] = ["UTF8", "SQL_ASCII"];

/// Makes the settings of a connection. Returns whether several texts of the database may be one in
/// Unicode.
pub(super) fn settle(client: &mut Client) -> Result<Texts, DatabaseError> {
    let answers = client.simple_query(SETTINGS).map_err(refused)?;
    let told = answers.iter().find_map(|it| match it {
        SimpleQueryMessage::Row(row) => Some((row.get(0), row.get(1))),
        _ => None,
    });
    let (role, encoding) = told.unwrap_or_default();
    if role == Some("origin") {
        return Ok(match encoding {
            Some(it) if READ_AS_STORED.contains(&it) => Texts::OneToOne,
            _ => Texts::WithTwins,
        });
    }
    // Only a superuser could take it back.
    Err(DatabaseError {
        kind: DatabaseErrorKind::Other,
        message: "session_replication_role of this account or database is not origin, so that foreign keys and triggers do not hold: ALTER ROLE ... RESET session_replication_role, or the same with DATABASE".to_owned(),
        said: Said::default(),
    })
}
