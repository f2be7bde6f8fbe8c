//! Statements that read and change the rows of a table, many at a time.

pub(crate) mod declared;
pub(crate) mod deletion;
pub(crate) mod held;
pub(crate) mod lax;
pub(crate) mod outcome;
pub(crate) mod overwrite;
pub(crate) mod own_row;
pub(crate) mod path_end;
pub(crate) mod read_back;
pub(crate) mod row;
pub(crate) mod spelling;
pub(crate) mod stored;
pub(crate) mod table;
pub(crate) mod unchangeable;
