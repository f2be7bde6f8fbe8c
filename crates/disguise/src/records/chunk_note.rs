//! Notes from one chunk of a disguise to the later ones: salted hashes, stored with the intent
//! until the disguise is done.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::crypto::suite::PublicKey;
use crate::database::tenant::{TenantConnection, TenantScope};
use crate::database::value::Value;
use crate::error::{DisguiseId, Doing as _, Error};
use crate::records::tables::{INTENTS, PRINCIPALS};
use crate::statements::deletion::delete_keys;
use crate::statements::table::{insert_all, select_keys};

/// Bytes of the salted hash of a name, and of that of a name with a key.
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
}

impl ChunkNote {
    const fn code(self) -> u8 {
        match self {
            Self::Returned => 1,
            Self::Forgotten => 2,
            Self::Made => 3,
            Self::Moved => 4,
        }
    }
}

/// A principal by its stored name, with the key that it has, if that is known.
pub(crate) struct Marked {
    pub(crate) name: Vec<u8>,
    pub(crate) public: Option<PublicKey>,
}

/// A principal whose key changes.
pub(crate) struct Rekeyed {
    /// The stored name.
    pub(crate) name: Vec<u8>,
    pub(crate) former: PublicKey,
    pub(crate) new: PublicKey,
}

/// A note that was found.
pub(crate) struct FoundNote {
    pub(crate) note: ChunkNote,
    /// The index of the name among those that were asked for.
    pub(crate) place: usize,
    /// The salted hashes of the name with each key that bears the note.
    keys: Vec<u8>,
}

impl FoundNote {
    /// Returns whether the note is about the principal with this key. An id may have had others.
    pub(crate) fn is_of(&self, notes: ChunkNotes<'_>, name: &[u8], public: &PublicKey) -> bool {
        let own = notes.keyed(self.note, name, public);
        self.keys.chunks(HASH_BYTES).any(|key| key == own)
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

    /// Returns the hash that binds a note about a name to a key.
    fn keyed(self, mark: ChunkNote, name: &[u8], public: &PublicKey) -> Vec<u8> {
        let key = public.encode();
        let mut hash = Sha256::new();
        hash.update(b"probity disguise mark of a key\0");
        hash.update(self.salt);
        hash.update([mark.code()]);
        hash.update(u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes());
        hash.update(key);
        hash.update(name);
        hash.finalize().iter().copied().take(HASH_BYTES).collect()
    }

    /// Marks names that may be marked already, whatever key they have.
    pub(crate) fn put(
        self,
        database: &mut dyn TenantConnection,
        mark: ChunkNote,
        names: &[Vec<u8>],
    ) -> Result<(), Error> {
        let rows = names
            .iter()
            .map(|name| (self.key(database.tenancy(), mark, name), Vec::new()));
        let rows = rows.collect();
        store(database, rows)
    }

    /// Marks principals with their keys, beside the keys with which their names are marked already.
    pub(crate) fn put_keyed(
        self,
        database: &mut dyn TenantConnection,
        mark: ChunkNote,
        marked: &[Marked],
    ) -> Result<(), Error> {
        let names: Vec<Vec<u8>> = marked.iter().map(|it| it.name.clone()).collect();
        let mut known = vec![Vec::new(); names.len()];
        for found in self.found(database, &[mark], &names)? {
            if let Some(keys) = known.get_mut(found.place) {
                *keys = found.keys;
            }
        }
        let mut rows = Vec::with_capacity(names.len());
        for (it, mut keys) in marked.iter().zip(known) {
            if let Some(public) = &it.public {
                let own = self.keyed(mark, &it.name, public);
                if !keys.chunks(HASH_BYTES).any(|key| key == own) {
                    keys.extend(own);
                }
            }
            rows.push((self.key(database.tenancy(), mark, &it.name), keys));
        }
        store(database, rows)
    }

    /// Lets marks about people follow them to their new keys.
    pub(crate) fn rekey(
        self,
        database: &mut dyn TenantConnection,
        rekeyed: &[Rekeyed],
    ) -> Result<(), Error> {
        let names: Vec<Vec<u8>> = rekeyed.iter().map(|it| it.name.clone()).collect();
        let of_people = [ChunkNote::Returned, ChunkNote::Forgotten];
        let found = self.found(database, &of_people, &names)?;
        for mark in of_people {
            let found = found.iter().filter(|it| it.note == mark);
            let own = found.filter_map(|it| {
                let moved = rekeyed.get(it.place)?;
                it.is_of(self, &moved.name, &moved.former).then(|| Marked {
                    name: moved.name.clone(),
                    public: Some(moved.new.clone()),
                })
            });
            self.put_keyed(database, mark, &own.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Removes the marks about whoever had the id with this stored name. Returns their number.
    pub(crate) fn remove_of(
        self,
        database: &mut dyn TenantConnection,
        name: &[u8],
    ) -> Result<u64, Error> {
        let of_people = [ChunkNote::Returned, ChunkNote::Forgotten];
        let keys = of_people.map(|mark| vec![self.key(database.tenancy(), mark, name)]);
        delete_keys(database, INTENTS, &["id".to_owned()], &keys)
    }

    /// Returns those of `names` that bear one of `marks`.
    pub(crate) fn found(
        self,
        database: &mut dyn TenantConnection,
        marks: &[ChunkNote],
        names: &[Vec<u8>],
    ) -> Result<Vec<FoundNote>, Error> {
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
        let columns = ["id", "what"].map(str::to_owned);
        let rows = select_keys(database, INTENTS, &columns, &["id".to_owned()], &keys)?;
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            let Ok([key, Value::Bytes(keys)]) = <[Value; 2]>::try_from(row) else {
                return Err(Error::Forged);
            };
            if let Some((note, place)) = meant.get(&key.principal()).copied() {
                found.push(FoundNote { note, place, keys });
            }
        }
        Ok(found)
    }

    /// Returns whether any name bears the mark.
    pub(crate) fn has_any(
        self,
        database: &mut dyn TenantConnection,
        mark: ChunkNote,
    ) -> Result<bool, Error> {
        let key = |code: u8| [&self.id.0.to_le_bytes()[..], &[code]].concat();
        let (first, end) = (key(mark.code()), key(mark.code().saturating_add(1)));
        let between = [database.tenancy().key(&first), database.tenancy().key(&end)];
        let sql = format!("SELECT id FROM {INTENTS} WHERE id > ? AND id < ? LIMIT 1");
        let found = database.query(&sql, &between);
        let found = found.doing("reading what chunks left for each other")?;
        Ok(!found.is_empty())
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

/// Stores notes in the place of those with their keys.
fn store(
    database: &mut dyn TenantConnection,
    mut rows: Vec<(Value, Vec<u8>)>,
) -> Result<(), Error> {
    // Two names of one principal are one mark.
    rows.sort_by_cached_key(|(key, _)| key.principal());
    rows.dedup_by_key(|(key, _)| key.principal());
    let keys: Vec<Vec<Value>> = rows.iter().map(|(key, _)| vec![key.clone()]).collect();
    delete_keys(database, INTENTS, &["id".to_owned()], &keys)?;
    let rows = rows.into_iter();
    let rows: Vec<Vec<Value>> = rows
        .map(|(key, keys)| vec![key, Value::Bytes(keys)])
        .collect();
    insert_all(database, INTENTS, &["id", "what"], &rows)
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
