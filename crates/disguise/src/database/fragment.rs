//! A piece of SQL with the values that it carries.

use super::value::Value;

/// SQL with a value for each `?`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fragment {
    pub(crate) sql: String,
    pub(crate) parameters: Vec<Value>,
}
