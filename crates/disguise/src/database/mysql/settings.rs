//! Settings of a session. A server may bring others (`SET GLOBAL`, `init_connect`), by which values
//! would be stored in another form, or statements would do something else.

use mysql::Conn;
use mysql::prelude::Queryable as _;

use super::refused;
use crate::database::{DatabaseError, MARIADB_MODE};

/// No value is cut or replaced silently. A zero stays a zero, and a date of zeros, or a day that its
/// month lacks, can be written back. Times do not depend on the time zone of the server. An answer
/// has all rows, in the order of whole keys (3,072 bytes at most), `IS NULL` finds no row that was
/// just inserted, keys hold, and a transaction ends where it is told to.
const SETTINGS: &str = "SET NAMES utf8mb4, \
     SESSION time_zone = '+00:00', \
     SESSION sql_safe_updates = 0, \
     SESSION sql_select_limit = 18446744073709551615, \
     SESSION sql_big_selects = 1, \
     SESSION sql_auto_is_null = 0, \
     SESSION foreign_key_checks = 1, \
     SESSION unique_checks = 1, \
     SESSION autocommit = 1, \
     SESSION completion_type = 'NO_CHAIN', \
     SESSION sql_quote_show_create = 1, \
     SESSION max_sort_length = 8192, \
     SESSION group_concat_max_len = 1048576";
const SERIALIZABLE: &str = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE";

/// Settings of `MariaDB` alone. Long lists would become joins that lose the index; and of a table with
/// versions, rows are those of now.
const MARIADB_SETTINGS: &str = "SET SESSION in_predicate_conversion_threshold = 0, SESSION check_constraint_checks = 1, \
     SESSION system_versioning_asof = DEFAULT";

/// Makes the settings of a connection. Returns whether the server is `MariaDB`.
pub(super) fn settle(connection: &mut Conn) -> Result<bool, DatabaseError> {
    let settings = format!("{SETTINGS}, SESSION sql_mode = '{MARIADB_MODE}'");
    connection.query_drop(settings).map_err(refused)?;
    connection.query_drop(SERIALIZABLE).map_err(refused)?;
    let server: Option<String> = connection
        .query_first("SELECT VERSION()")
        .map_err(refused)?;
    let is_mariadb = server.is_some_and(|server| server.contains("MariaDB"));
    if is_mariadb {
        connection.query_drop(MARIADB_SETTINGS).map_err(refused)?;
    }
    Ok(is_mariadb)
}
