//! The facts that an entry states beside its fields: a JSON object, without personal data in clear.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use crate::crypto::suite::PublicKey;
use crate::error::DisguiseId;
use crate::execute::apply::{Applied, ApplyRequest};
use crate::records::name::digits;
use crate::transaction::chunk_ids::ChunkIds;
use crate::transaction::operation::{parameters, specification};

/// The most records that an entry names.
const RECORDS_TOLD_MAX: usize = 20_000;

/// Facts by their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Payload(Map<String, Json>);

impl Payload {
    /// No facts.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns a payload with the numbers of touched rows, of placeholders, and of
    /// rows under those of other disguises.
    pub(crate) fn of_applied(applied: &Applied) -> Self {
        let told = Self::new()
            .counting("rows", &applied.rows)
            .with("pseudoprincipals", applied.pseudoprincipals);
        [
            ("under_placeholders", &applied.under_placeholders),
            ("of_nobody", &applied.of_nobody),
        ]
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .fold(told, |told, (name, rows)| told.counting(name, rows))
    }

    /// Returns the payload with one more fact.
    pub(crate) fn with(mut self, name: &str, fact: impl Into<Json>) -> Self {
        self.put(name, fact);
        self
    }

    /// Adds a fact.
    pub(crate) fn put(&mut self, name: &str, fact: impl Into<Json>) {
        self.0.insert(name.to_owned(), fact.into());
    }

    /// Returns the payload with numbers of rows by table; names of tables are no personal data.
    pub(crate) fn counting(self, kind: &str, rows: &BTreeMap<String, u64>) -> Self {
        let rows = rows.iter();
        let rows: Map<String, Json> = rows
            .map(|(table, count)| (table.clone(), Json::from(*count)))
            .collect();
        self.with(kind, rows)
    }

    /// Returns the payload with the ids of the chunks that were done of disguises, if any were.
    pub(crate) fn chunked<'i>(
        self,
        disguises: impl IntoIterator<Item = (DisguiseId, &'i ChunkIds)>,
    ) -> Self {
        let disguises = disguises.into_iter();
        let done = disguises.filter(|(_, ids)| !ids.is_empty());
        let done: Map<String, Json> = done
            .map(|(id, ids)| (id.to_string(), Json::from(ids.told())))
            .collect();
        if done.is_empty() {
            return self;
        }
        self.with("chunk_ids", done)
    }

    /// Returns the payload with the disguises that waited for the end of a grace period and were ended, if
    /// any were.
    pub(crate) fn ending(self, scheduled: &[DisguiseId]) -> Self {
        if scheduled.is_empty() {
            return self;
        }
        let ids: Vec<String> = scheduled.iter().map(ToString::to_string).collect();
        self.with("scheduled", ids)
    }

    /// Returns the payload with everything that a replay of `request` needs; none of it names a
    /// person.
    pub(crate) fn described(
        mut self,
        (salt, description): (&[u8], &str),
        request: &ApplyRequest<'_>,
        public_key: Option<&PublicKey>,
    ) -> Self {
        self.put("specification", specification(&request.spec.text));
        self.put("description", description);
        if !request.parameters.is_empty() {
            self.put("parameters", parameters(salt, request));
        }
        if let Some(key) = public_key {
            self.put("public_key", digits(&key.encode()));
        }
        if request.over.is_some() {
            self.put("over", true);
        }
        if let Some(expires) = request.expires {
            self.put("expires", expires.nanoseconds());
        }
        self
    }

    /// Returns the payload with the names of the destroyed records, which identify them in a backup
    /// or when somebody puts them back. A list that is too long is cut, and a flag marks the cut.
    pub(crate) fn destroying(self, names: &[String]) -> Self {
        let named = names.get(..RECORDS_TOLD_MAX).unwrap_or(names);
        let told = self.with("destroyed", named);
        if named.len() < names.len() {
            return told.with("destroyed_cut", true);
        }
        told
    }

    /// Returns the text for an entry.
    pub(crate) fn into_text(self) -> String {
        Json::Object(self.0).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::name::{record, records};

    #[test]
    fn an_entry_names_the_first_of_too_many_records_and_says_so() {
        for (count, is_cut) in [(RECORDS_TOLD_MAX, false), (RECORDS_TOLD_MAX + 1, true)] {
            let ids: Vec<Vec<u8>> = (0..count).map(|id| id.to_string().into_bytes()).collect();
            let made = Payload::new().with("bags", 1);
            let text = made.destroying(&records(b"salt", &ids)).into_text();
            let payload: Json = serde_json::from_str(&text).unwrap();
            let names = payload.get("destroyed").and_then(Json::as_array).unwrap();
            assert_eq!(names.len(), RECORDS_TOLD_MAX);
            let first = record(b"salt", ids.first().unwrap());
            assert_eq!(names.first().unwrap(), &first);
            assert_eq!(payload.get("bags"), Some(&1.into()));
            assert_eq!(payload.get("destroyed_cut").is_some(), is_cut);
        }
    }
}
