//! Settings of a session. A server, database, account or URL may bring others, by which values would
//! be read or written in another form, or statements would do something else.

use postgres::{Client, SimpleQueryMessage};

use super::refused;
use crate::database::{DatabaseError, DatabaseErrorKind, Said};

/// Values are sent as text: times, numbers, bytes, arrays with `NULL` and XML without a single root
/// are read and written in one form. Texts of the catalog are quoted where that is needed. A plan
/// made for a small table would still scan it once placeholders have filled it.
const SETTINGS: &str = "SET datestyle = 'ISO, YMD'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; \
     SET extra_float_digits = 3; SET bytea_output = 'hex'; SET array_nulls = on; \
     SET xmloption = 'content'; SET quote_all_identifiers = off; \
     SET standard_conforming_strings = on; SET transform_null_equals = off; \
     SET client_min_messages = 'warning'; SET plan_cache_mode = force_custom_plan; \
     SELECT current_setting('session_replication_role')";

/// Makes the settings of a connection.
pub(super) fn settle(client: &mut Client) -> Result<(), DatabaseError> {
    let answers = client.simple_query(SETTINGS).map_err(refused)?;
    let role = answers.iter().find_map(|it| match it {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    if role == Some("origin") {
        return Ok(());
    }
    // Only a superuser could take it back.
    Err(DatabaseError {
        kind: DatabaseErrorKind::Other,
        message: "session_replication_role of this account or database is not origin, so that foreign keys and triggers do not hold: ALTER ROLE ... RESET session_replication_role, or the same with DATABASE".to_owned(),
        said: Said::default(),
    })
}
