//! What a reveal needs: the records of one principal and one disguise, kept together in a bag.

mod bag;

pub(crate) use bag::{Bag, LOCATOR_BYTES, Locator};

use crate::value::Value;

/// The changes of one step of a disguise to one table, as they concern one principal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Section {
    /// Number of the step; a reveal goes from high to low.
    pub(crate) step: u32,
    pub(crate) table: String,
    pub(crate) change: Change,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Whole rows that were removed. Of a shared row every owner keeps a copy, and whoever returns first puts it back.
    Removed {
        shared: bool,
        columns: Vec<String>,
        rows: Vec<Vec<Value>>,
    },
    /// Values that were overwritten, by the identity that the row had afterwards.
    Modified {
        identity: Vec<String>,
        column: String,
        rows: Vec<Modified>,
    },
    /// Owners that were replaced, by the identity that the row had afterwards.
    Decorrelated {
        identity: Vec<String>,
        column: String,
        rows: Vec<Modified>,
    },
}

impl Change {
    pub(crate) const fn rows(&self) -> usize {
        match self {
            Self::Removed { rows, .. } => rows.len(),
            Self::Modified { rows, .. } | Self::Decorrelated { rows, .. } => rows.len(),
        }
    }
}

/// One overwritten value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Modified {
    pub(crate) identity: Vec<Value>,
    pub(crate) before: Value,
    pub(crate) after: Value,
}

/// A speaks-for record: `old` may act as `new`, whose key comes from the bag's seed and `index`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SpeaksFor {
    pub(crate) old: Value,
    pub(crate) new: Value,
    pub(crate) index: u32,
    /// The placeholder row is gone; the link stays because something may hang behind it.
    pub(crate) gone: bool,
}
