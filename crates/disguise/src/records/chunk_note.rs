//! Notes from one chunk of a disguise to the later ones: salted hashes, stored with the intent
//! until the disguise is done.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::crypto::suite::PublicKey;
use crate::database::tenant::{TenantConnection, TenantScope};
use crate::database::value::Value;
use crate::error::{DisguiseId, Doing as _, Error};
use crate::records::tables::{INTENTS, PRINCIPALS};
use crate::statements::table::{delete_keys, insert_all, select_keys};

/// Bytes of the salted hash of a name.
const HASH_BYTES: usize = 16;

/// The kind of note about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChunkNote {
    /// A principal whose person revealed the disguise: their rows are left alone from then on.
    Returned,
    /// A principal whose person had their records of it destroyed: no more are made.
    Forgotten,
    /// A placeholder that the disguise made.
    Made,
    /// The identity that a row got when the step at hand overwrote a part of it.
    Moved,
    /// A principal who returned or forgot, with the key that they had: somebody else who has the id since did neither.
    Keyed,
}

impl ChunkNote {
    const fn code(self) -> u8 {
        match self {
            Self::Returned => 1,
            Self::Forgotten => 2,
            Self::Made => 3,
            Self::Moved => 4,
            Self::Keyed => 5,
        }
    }
}

/// The marks of one disguise.
#[derive(Clone, Copy)]
pub(crate) struct ChunkNotes<'a> {
    pub(crate) id: DisguiseId,
    pub(crate) salt: &'a [u8],
}

impl ChunkNotes<'_> {
    fn key(self, tenancy: &TenantScope, mark: ChunkNote, name: &[u8]) -> Value {
        let mut hash = Sha256::new();
        hash.update(b"probity disguise mark\0");
        hash.update(self.salt);
        hash.update(name);
        let digest = hash.finalize();
        let mut key = self.id.0.to_le_bytes().to_vec();
        key.push(mark.code());
        key.extend(digest.iter().take(HASH_BYTES));
        tenancy.key(&key)
    }

    /// Marks names that may be marked already.
    pub(crate) fn put(
        self,
        database: &mut dyn TenantConnection,
        mark: ChunkNote,
        names: &[Vec<u8>],
    ) -> Result<(), Error> {
        let keys = names
            .iter()
            .map(|name| self.key(database.tenancy(), mark, name));
        let mut keys: Vec<Vec<Value>> = keys.map(|key| vec![key]).collect();
        // Two names of one principal are one mark.
        keys.sort_by_cached_key(|key| key.first().map(Value::principal));
        keys.dedup_by_key(|key| key.first().map(Value::principal));
        delete_keys(database, INTENTS, &["id".to_owned()], &keys)?;
        for key in &mut keys {
            key.push(Value::Bytes(Vec::new()));
        }
        insert_all(database, INTENTS, &["id", "what"], &keys)
    }

    /// Returns those of `names` that bear one of `marks`, as indices into `names`.
    pub(crate) fn found(
        self,
        database: &mut dyn TenantConnection,
        marks: &[ChunkNote],
        names: &[Vec<u8>],
    ) -> Result<Vec<(ChunkNote, usize)>, Error> {
        let mut meant = BTreeMap::new();
        let mut keys = Vec::with_capacity(names.len().saturating_mul(marks.len()));
        for (place, name) in names.iter().enumerate() {
            for mark in marks {
                let key = self.key(database.tenancy(), *mark, name);
                if meant.insert(key.principal(), (*mark, place)).is_none() {
                    keys.push(vec![key]);
                }
            }
        }
        let by = ["id".to_owned()];
        let rows = select_keys(database, INTENTS, &by, &by, &keys)?;
        let found = rows.iter().flatten().map(Value::principal);
        Ok(found.filter_map(|key| meant.get(&key).copied()).collect())
    }

    /// Removes all of them.
    pub(crate) fn remove(database: &mut dyn TenantConnection, id: DisguiseId) -> Result<(), Error> {
        let own = id.0.to_le_bytes();
        let end = [&own[..], &[u8::MAX]].concat();
        let between = [database.tenancy().key(&own), database.tenancy().key(&end)];
        let sql = format!("DELETE FROM {INTENTS} WHERE id > ? AND id < ?");
        database
            .execute(&sql, &between)
            .doing("removing what chunks left for each other")?;
        Ok(())
    }
}

/// Returns a name as a mark of [`ChunkNote::Keyed`] has it.
pub(crate) fn keyed(name: &[u8], public: &PublicKey) -> Vec<u8> {
    let key = public.encode();
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes();
    [&length[..], &key, name].concat()
}

/// Returns the stored names of the principals that are registered with `public`.
pub(crate) fn registered(
    database: &mut dyn TenantConnection,
    public: &PublicKey,
) -> Result<Vec<Vec<u8>>, Error> {
    let by = ["public_key".to_owned()];
    let key = [vec![Value::Bytes(public.encode())]];
    let rows = select_keys(database, PRINCIPALS, &["id".to_owned()], &by, &key)?;
    Ok(rows.iter().flatten().map(Value::principal).collect())
}
