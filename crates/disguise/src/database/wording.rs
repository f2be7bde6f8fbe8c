//! Reports of a server's refusal: its code and the meaning of the code. The server's own words are
//! never repeated, because they quote values of rows and parameters, or text of a trigger.

use super::DatabaseErrorKind;

/// Returns the report when only the code is known.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn plain(meaning: &str, code: &str) -> String {
    format!("{meaning} ({code}; what the server says of it may quote values and is not repeated)")
}

/// Returns the meaning of an error code of `PostgreSQL`.
#[cfg(feature = "postgres")]
pub(super) fn of_postgres(code: &str) -> &'static str {
    match code {
        "23505" => "a unique key holds this value already",
        "42501" => "the account of the database has no right to it",
        "42P01" => "a table is not there",
        "42703" => "a column is not there",
        "3F000" | "42704" | "42883" => "what a value names is not there",
        _ => match code.get(..2).unwrap_or_default() {
            "08" => "the connection failed",
            "22" => "a value does not fit the type of its column",
            "23" => "a constraint refuses the row",
            "25" => "the state of the transaction does not allow it",
            "28" => "the server does not let the account in",
            "40" => "another transaction was in the way",
            "42" => "the statement does not fit the tables",
            "53" => "the server lacks memory, room or connections",
            "54" => "a limit of the server is too low for it",
            "55" => "somebody else uses what it needs",
            "57" => "the server ended it, for a time limit or an operator",
            "58" | "F0" | "XX" => "the server itself failed",
            "P0" => "a trigger or a function of the database refuses it",
            _ => "the server refuses it",
        },
    }
}

/// Returns the report that a policy of `PostgreSQL` hides rows.
#[cfg(feature = "postgres")]
pub(super) fn of_policy(code: &str) -> String {
    format!(
        "row-level security hides rows from the account of the database, which must see all of them: use the owner of the tables, or an account with BYPASSRLS (SQLSTATE {code})"
    )
}

/// Returns the meaning of an error of `MariaDB`.
#[cfg(feature = "mysql")]
pub(super) fn of_mysql(code: u16, kind: DatabaseErrorKind) -> &'static str {
    use DatabaseErrorKind::{Absent, Busy, Conflict, Constraint, NotUtf8, Other, Silent, Unique};
    match (kind, code) {
        (_, 1644) => "a trigger or a function of the database refuses it",
        (Unique, _) => "a unique key holds this value already",
        (Constraint, _) => "a constraint refuses the row",
        (Absent, _) => "a table is not there",
        (Busy, _) => "a lock was waited for in vain",
        (Conflict, _) => "another transaction was in the way",
        (Other, 1044 | 1045 | 1142 | 1143 | 1227 | 1370) => {
            "the account of the database has no right to it"
        }
        (Other, 1054) => "a column is not there",
        (NotUtf8 | Other | Silent, _) => "the server refuses it",
    }
}
