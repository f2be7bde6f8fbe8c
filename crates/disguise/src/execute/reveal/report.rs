//! The report of a reveal: what went back, what stayed, and why.

use std::collections::BTreeMap;

use crate::database::value::Value;
use crate::error::DisguiseId;
use crate::records::tables::BAGS;
use crate::statements::row::encoded;

/// The reason for which a row stayed disguised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KeptReason {
    /// A row with its identity exists again.
    RowExists,
    /// A unique key or another constraint refuses it.
    Refused,
    /// The row to change is not there; another disguise may have removed it.
    Absent,
    /// The application changed the value meanwhile; its value stays.
    Changed,
    /// The row has its value again, but somebody else whom it names may have overwritten the value
    /// by a disguise of their own, and it must be there when theirs is revealed.
    Covered,
    /// The row names nobody there now: the application emptied it, or somebody brought the row back
    /// without the person it named.
    Emptied,
    /// Another column of the row was changed, and whole rows were asked for.
    PartOfRow,
    /// A row that it refers to is not there.
    ParentMissing,
    /// Its owner is not there.
    OwnerMissing,
    /// Its owner's id belongs to somebody else now.
    OwnerReplaced,
    /// None of the people whom it names is the one who returns, or a placeholder of theirs.
    OtherOwner,
    /// The row is another tenant's now, or would become one's.
    OtherTenant,
    /// The table or a column is no longer there.
    SchemaChanged,
    /// The table has no identifying columns any more, or others than those of the record.
    KeyChanged,
    /// The table has no transactions any more, so that nothing written there could be undone.
    WithoutTransactions,
    /// The type of a column is of another family than when the record was made.
    KindChanged,
    /// An update decides by the overwritten value over its row, or over columns that the record lacks.
    Undecided,
    /// A part of a record of what was hidden is missing or damaged.
    Unreadable,
    /// Other rows refer to what was to go, or be changed, with the placeholder.
    ReferredTo,
}

impl KeptReason {
    /// Returns one clause for a person to read.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RowExists => "a row with its key exists again",
            Self::Refused => "a constraint of the database refuses it",
            Self::Absent => "the row is not there",
            Self::Changed => "the application changed it meanwhile",
            Self::Covered => {
                "the row has the value again, perhaps from a later disguise of somebody else whom it names: reveal once more after theirs"
            }
            Self::Emptied => "the row names nobody there now",
            Self::PartOfRow => "another column of the row was changed meanwhile",
            Self::ParentMissing => "a row that it refers to is not there",
            Self::OwnerMissing => "its owner is not there",
            Self::OwnerReplaced => "its owner's id belongs to somebody else now",
            Self::OtherOwner => "it is somebody else's row",
            Self::OtherTenant => "the row is another tenant's now",
            Self::SchemaChanged => "its table or column is no longer there",
            Self::KeyChanged => {
                "its table has no identifying columns, or others than it had: give it a primary key, or record an update"
            }
            Self::WithoutTransactions => {
                "its table has no transactions any more: make it one of InnoDB again (ALTER TABLE ... ENGINE = InnoDB)"
            }
            Self::KindChanged => {
                "the type of a column is of another kind than it was, or has other words: record an update whose sql says what the values are now, as sql = { column = \"column\" } does for what the database makes of them, and sql = { column = \"'new'\" } with where = \"column = 'old'\" for a word"
            }
            Self::Undecided => {
                "an update decides by the value as it was over rows or columns that the record does not have: make of the row what it should be and reveal again, or put another update in the place of that one (update --replace)"
            }
            Self::Unreadable => {
                "a record of what it hid cannot be read: insert the rows that are missing in this table from a backup, keep those that are there, and reveal again"
            }
            Self::ReferredTo => "other rows refer to it",
        }
    }
}

/// A row, a value or a placeholder that stayed; a later reveal tries it again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// Its table.
    pub table: String,
    /// Its identifying values.
    pub identity: String,
    /// The column, when it is about one.
    pub column: Option<String>,
    /// The reason.
    pub reason: KeptReason,
    /// The report of the database, without values, if it refuses; or the rows that refer to it.
    pub said: Option<String>,
}

/// The report of a reveal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Revealed {
    /// True if the disguise hid anything of the person that was still hidden: when it was revealed before, or found nothing of
    /// theirs, there is nothing to do.
    pub found: bool,
    /// Removed rows put back in each table.
    pub restored: BTreeMap<String, u64>,
    /// Overwritten values put back in each table, owners among them.
    pub values: BTreeMap<String, u64>,
    /// Rows made while placeholders owned them that were deleted from each table, as the policy says.
    pub deleted: BTreeMap<String, u64>,
    /// Rows in each table that stay under placeholders for good, as the policy says, and the
    /// accounts of these placeholders in the users table. Later reveals count them no more.
    pub retained: BTreeMap<String, u64>,
    /// Rows and values that stayed disguised.
    pub kept: Vec<Kept>,
    /// Disguises whose grace period was over while the person's account was away: it is back, and they are not applied any
    /// more.
    pub ended: Vec<DisguiseId>,
}

impl Revealed {
    /// Returns whether everything came back.
    pub const fn is_complete(&self) -> bool {
        self.kept.is_empty()
    }
}

/// A report while it is written.
#[derive(Default)]
pub(super) struct Report {
    pub(super) revealed: Revealed,
    /// The words of the database about rows and values that it refused, by row and column.
    pub(super) refusals: BTreeMap<Vec<u8>, String>,
}

impl Report {
    /// Reports a row, a value or a placeholder that stays.
    pub(super) fn keep(
        &mut self,
        table: &str,
        identity: &[Value],
        column: Option<&str>,
        reason: KeptReason,
    ) {
        let said = match reason {
            KeptReason::Refused | KeptReason::ReferredTo => {
                self.refusals.get(&cell_name(table, identity, column))
            }
            _ => None,
        };
        self.revealed.kept.push(Kept {
            table: table.to_owned(),
            said: said.cloned(),
            identity: shown(identity),
            column: column.map(str::to_owned),
            reason,
        });
    }

    /// Reports a record of a disguise that cannot be read.
    pub(super) fn keep_record(&mut self, disguise: DisguiseId) {
        self.revealed.kept.push(Kept {
            table: BAGS.to_owned(),
            identity: format!("disguise {disguise}"),
            column: None,
            reason: KeptReason::Unreadable,
            said: None,
        });
    }

    /// Notes the text `said` with which the database refused a row or a value.
    pub(super) fn note_refusal(
        &mut self,
        said: Option<&str>,
        table: &str,
        identity: &[Value],
        column: Option<&str>,
    ) {
        if let Some(said) = said {
            let name = cell_name(table, identity, column);
            self.refusals.insert(name, said.to_owned());
        }
    }

    /// Counts rows that went back.
    pub(super) fn count(&mut self, table: &str, rows: usize) {
        add(&mut self.revealed.restored, table, rows);
    }

    /// Counts values that went back.
    pub(super) fn count_values(&mut self, table: &str, values: usize) {
        add(&mut self.revealed.values, table, values);
    }
}

/// The name of a value of a row; without a column, that of the row.
pub(super) fn cell_name(table: &str, identity: &[Value], column: Option<&str>) -> Vec<u8> {
    let mut name = vec![Value::from(table), column.map_or(Value::Null, Value::from)];
    name.extend_from_slice(identity);
    encoded(&name)
}

fn shown(identity: &[Value]) -> String {
    let values: Vec<String> = identity.iter().map(ToString::to_string).collect();
    values.join(", ")
}

/// Adds to the count of a table.
pub(super) fn add(counts: &mut BTreeMap<String, u64>, table: &str, more: usize) {
    if more > 0 {
        let count = counts.entry(table.to_owned()).or_default();
        *count = count.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
    }
}
