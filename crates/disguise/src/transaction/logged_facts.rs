//! The facts that the payload of an entry states, as they are read from a log.

use std::collections::BTreeMap;

use serde::Deserialize;

#[expect(
    clippy::struct_excessive_bools,
    reason = "what a payload may say, each by itself"
)]
/// The fields of a payload, apart from counts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoggedFacts {
    pub(super) operation: String,
    pub(super) database: String,
    pub(crate) specification: Option<String>,
    /// The name of the description by which it found its rows; entries of programs before lack it.
    pub(crate) description: Option<String>,
    pub(crate) parameters: Option<String>,
    pub(crate) public_key: Option<String>,
    /// The public key that was replaced.
    pub(crate) old_key: Option<String>,
    /// Its person keeps the private key, and nothing else opens it.
    pub(crate) key_alone: bool,
    /// A credential reached rows behind placeholders.
    pub(crate) over: bool,
    pub(crate) expires: Option<i64>,
    pub(crate) due: Option<i64>,
    pub(crate) disguise: Option<String>,
    /// The number of records that were forgotten.
    pub(crate) bags: Option<u64>,
    /// The outcome of the commit, if the entry contains nothing else.
    pub(super) commit: Option<String>,
    /// True if links of forgotten records were kept, for other disguises.
    pub(crate) links_kept: bool,
    /// Names of records that were destroyed; entries of older programs lack them when they were too
    /// many.
    pub(crate) destroyed: Option<Vec<String>>,
    /// There were more than the entry names.
    pub(crate) destroyed_cut: bool,
    /// The disguises whose records were destroyed.
    pub(super) disguises: Option<DisguisesTold>,
    /// Disguises in chunks in progress that were ended for the person, or left them out from then
    /// on.
    pub(crate) chunks: Option<Vec<String>>,
    /// Disguises that waited for the end of a grace period and were ended with it.
    pub(crate) scheduled: Option<Vec<String>>,
    /// The ids of the chunks that were done of disguises, by the disguise.
    pub(crate) chunk_ids: BTreeMap<String, String>,
    /// The numbers of rows that were hidden or came back, by the table.
    pub(crate) rows: BTreeMap<String, u64>,
    /// The numbers of values that came back, by the table.
    pub(crate) values: BTreeMap<String, u64>,
    /// The numbers of rows made meanwhile that a reveal deleted, by the table.
    pub(super) deleted: BTreeMap<String, u64>,
    /// The numbers of rows made meanwhile that a reveal left under placeholders, by the table.
    pub(super) retained: BTreeMap<String, u64>,
    /// The number of placeholders that the person spoke for then.
    pub(crate) placeholders: Option<u64>,
    /// The number of rows that a disguise in chunks had touched when it was ended.
    pub(crate) hidden: Option<u64>,
    /// The number of rows and values that a reveal did not bring back.
    pub(crate) kept: Option<u64>,
    /// The operation that a replay did again; entries of older programs lack it.
    pub(crate) again: Option<String>,
    /// The reason for which a replay found nothing left to do of that operation.
    pub(crate) settled: Option<String>,
    /// The operations after which this one came; entries of programs before lack them.
    pub(super) after: Option<Vec<String>>,
    /// The name that a database had until it was made another one.
    pub(super) former: Option<String>,
    pub(super) tenant: Option<String>,
}

/// The disguises whose records were destroyed, as an entry tells of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum DisguisesTold {
    /// Those of which a person had everything forgotten.
    Named(Vec<String>),
    /// The number of those of which a sweep destroyed what had ended.
    Counted(#[expect(dead_code, reason = "nothing is done again by it")] u64),
}

impl LoggedFacts {
    /// Returns whether they say, of a reveal, that no row came back, stays hidden or was deleted, and
    /// that no record was destroyed, so that none was written anew either.
    pub(super) fn change_nothing(&self) -> bool {
        let counts = [&self.rows, &self.values, &self.deleted, &self.retained];
        let is_none = counts.into_iter().flatten().all(|(_, rows)| *rows == 0);
        let destroyed = self.destroyed.iter().flatten().count();
        is_none && destroyed == 0 && !self.destroyed_cut && self.kept == Some(0)
    }

    /// Returns the disguises whose records were destroyed with everything else of a person.
    pub(crate) fn disguises(&self) -> Option<&[String]> {
        match &self.disguises {
            Some(DisguisesTold::Named(ids)) => Some(ids),
            Some(DisguisesTold::Counted(_)) | None => None,
        }
    }
}
