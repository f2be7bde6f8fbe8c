//! Intents of disguises in chunks: the request and its progress, kept in the database until the
//! disguise is done.

use std::collections::BTreeMap;

use probity_format::wire::{Reader, put_varint};
use probity_format::{DecodeError, Timestamp};

use crate::crypto::suite::PublicKey;
use crate::database::tenant::TenantConnection;
use crate::database::value::{Value, put_bytes, take_bytes, take_text};
use crate::error::{DisguiseId, Error};
use crate::execute::apply::{Applied, ApplyRequest};
use crate::plan::place::Place;
use crate::records::chunk_note::{ChunkNotes, Rekeyed};
use crate::records::registry::named;
use crate::records::tables::{INTENTS, uninstalled};
use crate::statements::deletion::delete_keys;
use crate::statements::table::{insert_all, select_keys};
use crate::transaction::chunk_ids::ChunkIds;
use crate::transaction::scheduled::Order;

/// The version of the form of an intent and of the marks beside it.
const INTENT_VERSION: u8 = 8;
/// The version before, which has no ids of the chunks.
const NAMELESS_VERSION: u8 = 7;
/// The version before that, which does not say whether a log was told either.
const UNTOLD_VERSION: u8 = 6;
/// The version before that, which does not count rows that name nobody either.
const NOBODY_VERSION: u8 = 5;
/// The version before that, which does not count rows under placeholders.
const UNCOUNTED_VERSION: u8 = 4;
/// The version before that, of the same form. Its marks of people name no key in themselves.
const KEYLESS_VERSION: u8 = 3;
/// The most columns of a key, and the most tables, that an intent may speak of.
const PARTS_MAX: usize = 65_536;
/// Bytes of the hash of the plan.
pub(crate) const PLAN_BYTES: usize = 16;

/// Bytes of the key of an intent, without the tenant's prefix; keys of marks are longer.
const ID_BYTES: usize = 8;

/// The request of a disguise in chunks, and its progress.
pub(crate) struct Intent {
    pub(crate) order: Order,
    /// The hash of the steps, so that a schema that changed meanwhile is noticed.
    pub(crate) plan: [u8; PLAN_BYTES],
    /// The key of the user, if one is meant.
    pub(crate) public_key: Option<PublicKey>,
    /// A credential is needed to go on.
    pub(crate) over: bool,
    /// When it was begun.
    pub(crate) time: i64,
    pub(crate) place: Place,
    /// Rows touched in each table.
    pub(crate) rows: BTreeMap<String, u64>,
    pub(crate) pseudoprincipals: u64,
    /// Rows in each table whose records went to placeholders of other disguises.
    pub(crate) under_placeholders: BTreeMap<String, u64>,
    /// Rows and values in each table that stay, because they name nobody.
    pub(crate) of_nobody: BTreeMap<String, u64>,
    /// A log was told that it was begun, and has to be told of its end.
    pub(crate) is_recorded: bool,
    /// The ids of the chunks that are done; those of programs before have none.
    pub(crate) chunk_ids: ChunkIds,
}

impl Intent {
    pub(crate) fn time(&self) -> Result<Timestamp, Error> {
        Timestamp::from_nanoseconds(self.time).map_err(|_range| Error::Forged)
    }

    /// Refuses to go on with a disguise, or to end it, whose log would not be told.
    pub(crate) const fn refuse_unrecorded(
        &self,
        id: DisguiseId,
        is_told: bool,
    ) -> Result<(), Error> {
        if self.is_recorded && !is_told {
            return Err(Error::Unrecorded { disguise: id });
        }
        Ok(())
    }

    /// Returns the sum of the chunks so far.
    pub(crate) fn so_far(&self, id: DisguiseId) -> Applied {
        Applied {
            id,
            rows: self.rows.clone(),
            pseudoprincipals: self.pseudoprincipals,
            under_placeholders: self.under_placeholders.clone(),
            of_nobody: self.of_nobody.clone(),
            ended: Vec::new(),
        }
    }

    /// Returns the number of rows that the chunks touched.
    pub(crate) fn hidden(&self) -> u64 {
        let counts = self.rows.values().copied();
        counts.fold(0, u64::saturating_add)
    }

    fn encode(&self) -> Vec<u8> {
        let count = |of: usize| u64::try_from(of).unwrap_or(u64::MAX);
        let mut out = vec![INTENT_VERSION];
        put_bytes(&mut out, &self.order.encode());
        out.extend_from_slice(&self.plan);
        let key = self.public_key.as_ref().map(PublicKey::encode);
        put_bytes(&mut out, &key.unwrap_or_default());
        out.push(u8::from(self.over));
        out.extend_from_slice(&self.time.to_le_bytes());
        put_varint(&mut out, u64::from(self.place.step));
        put_varint(&mut out, u64::from(self.place.part));
        put_varint(&mut out, count(self.place.seen.len()));
        self.place
            .seen
            .iter()
            .for_each(|value| value.encode(&mut out));
        put_counts(&mut out, &self.rows);
        put_varint(&mut out, self.pseudoprincipals);
        put_counts(&mut out, &self.under_placeholders);
        put_counts(&mut out, &self.of_nobody);
        out.push(u8::from(self.is_recorded));
        put_bytes(&mut out, &self.chunk_ids.bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "disguise in chunks");
        let version = reader.u8()?;
        if !(KEYLESS_VERSION..=INTENT_VERSION).contains(&version) {
            return Err(reader.error("has an unknown version"));
        }
        let order = Order::decode(take_bytes(&mut reader)?)?;
        let plan = reader.array()?;
        let public_key = match take_bytes(&mut reader)? {
            [] => None,
            key => Some(
                PublicKey::decode(key)
                    .map_err(|_suite| reader.error("has a public key of an unknown suite"))?,
            ),
        };
        let over = take_flag(&mut reader)?;
        let time = i64::from_le_bytes(reader.array()?);
        let step = u32::try_from(reader.varint()?);
        let step = step.map_err(|_range| reader.error("has a step out of range"))?;
        let part = u32::try_from(reader.varint()?);
        let part = part.map_err(|_range| reader.error("has a part out of range"))?;
        let mut seen = Vec::new();
        for _ in 0..reader.length(PARTS_MAX)? {
            seen.push(Value::decode(&mut reader)?);
        }
        let rows = take_counts(&mut reader)?;
        let pseudoprincipals = reader.varint()?;
        let under_placeholders = if version > UNCOUNTED_VERSION {
            take_counts(&mut reader)?
        } else {
            BTreeMap::new()
        };
        let of_nobody = if version > NOBODY_VERSION {
            take_counts(&mut reader)?
        } else {
            BTreeMap::new()
        };
        let is_recorded = version > UNTOLD_VERSION && take_flag(&mut reader)?;
        let chunk_ids = if version > NAMELESS_VERSION {
            let ids = ChunkIds::of_bytes(take_bytes(&mut reader)?);
            ids.ok_or_else(|| reader.error("has damaged ids of chunks"))?
        } else {
            ChunkIds::default()
        };
        reader.finish()?;
        Ok(Self {
            order,
            plan,
            public_key,
            over,
            time,
            place: Place { step, part, seen },
            rows,
            pseudoprincipals,
            under_placeholders,
            of_nobody,
            is_recorded,
            chunk_ids,
        })
    }
}

fn take_flag(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.error("has unknown flags")),
    }
}

/// Appends numbers of rows by table.
fn put_counts(out: &mut Vec<u8>, counts: &BTreeMap<String, u64>) {
    put_varint(out, u64::try_from(counts.len()).unwrap_or(u64::MAX));
    for (table, rows) in counts {
        put_bytes(out, table.as_bytes());
        put_varint(out, *rows);
    }
}

/// Reads what [`put_counts`] wrote.
fn take_counts(reader: &mut Reader<'_>) -> Result<BTreeMap<String, u64>, DecodeError> {
    let mut counts = BTreeMap::new();
    for _ in 0..reader.length(PARTS_MAX)? {
        let table = take_text(reader)?;
        counts.insert(table, reader.varint()?);
    }
    Ok(counts)
}

/// Returns the disguises of the person with this key.
pub(crate) fn of_person(
    database: &mut dyn TenantConnection,
    key: &PublicKey,
) -> Result<Vec<(DisguiseId, Intent)>, Error> {
    let mut own = Vec::new();
    for id in list(database)? {
        let Some(intent) = find(database, id)? else {
            continue;
        };
        if intent.public_key.as_ref() == Some(key) {
            own.push((id, intent));
        }
    }
    Ok(own)
}

/// Moves the disguises of a person to a new key, and in those of everybody the marks that are about
/// the person and their placeholders.
pub(crate) fn change_key(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    (former, new): (&PublicKey, &PublicKey),
    changed: &[Rekeyed],
) -> Result<(), Error> {
    for id in list(database)? {
        ChunkNotes { id, salt }.rekey(database, changed)?;
    }
    for (id, mut intent) in of_person(database, former)? {
        intent.public_key = Some(new.clone());
        put(database, id, &intent)?;
    }
    Ok(())
}

/// Returns the key under which an intent is stored.
pub(crate) fn key(database: &dyn TenantConnection, id: DisguiseId) -> Value {
    database.tenancy().key(&id.0.to_le_bytes())
}

/// Stores an intent, in the place of its earlier state.
pub(crate) fn put(
    database: &mut dyn TenantConnection,
    id: DisguiseId,
    intent: &Intent,
) -> Result<(), Error> {
    let by = [vec![key(database, id)]];
    delete_keys(database, INTENTS, &["id".to_owned()], &by)?;
    let row = vec![key(database, id), Value::Bytes(intent.encode())];
    insert_all(database, INTENTS, &["id", "what"], &[row])
}

/// Removes the marks about whoever had an id from all disguises in progress. Returns their number.
pub(crate) fn remove_marks(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    user: &Value,
) -> Result<u64, Error> {
    let name = named(database.tenancy(), &user.principal()).principal();
    let mut removed: u64 = 0;
    for id in list(database)? {
        let of_one = ChunkNotes { id, salt }.remove_of(database, &name)?;
        removed = removed.saturating_add(of_one);
    }
    Ok(removed)
}

/// Removes an intent, if there is one, with all notes of its chunks.
pub(crate) fn remove(database: &mut dyn TenantConnection, id: DisguiseId) -> Result<(), Error> {
    ChunkNotes::remove(database, id)?;
    let key = [vec![key(database, id)]];
    delete_keys(database, INTENTS, &["id".to_owned()], &key)?;
    Ok(())
}

pub(crate) fn read(database: &mut dyn TenantConnection, id: DisguiseId) -> Result<Intent, Error> {
    find(database, id)?.ok_or(Error::NoSuchDisguise)
}

/// Returns the intent, if the disguise is neither done nor ended.
pub(crate) fn find(
    database: &mut dyn TenantConnection,
    id: DisguiseId,
) -> Result<Option<Intent>, Error> {
    let (columns, by) = (["what".to_owned()], ["id".to_owned()]);
    let key = [vec![key(database, id)]];
    let rows = select_keys(database, INTENTS, &columns, &by, &key)?;
    match rows.into_iter().flatten().next() {
        Some(Value::Bytes(what)) => Ok(Some(Intent::decode(&what)?)),
        // As none it would count as done.
        Some(_) => Err(Error::Forged),
        None => Ok(None),
    }
}

/// Returns the disguises that are not done yet.
pub(crate) fn list(database: &mut dyn TenantConnection) -> Result<Vec<DisguiseId>, Error> {
    let own = database.tenancy().among_keys("AND");
    let length = database.tenancy().tag().len().saturating_add(ID_BYTES);
    let sql = format!(
        "SELECT id FROM {INTENTS} WHERE LENGTH(id) = {length}{} ORDER BY id",
        own.sql
    );
    let rows = database.query(&sql, &own.parameters).map_err(uninstalled)?;
    let id = |value: &Value| match value {
        Value::Bytes(id) => <[u8; ID_BYTES]>::try_from(database.tenancy().own(id)).ok(),
        _ => None,
    };
    let ids = rows.iter().flatten().map(id);
    ids.map(|id| {
        id.map(|id| DisguiseId(u64::from_le_bytes(id)))
            .ok_or(Error::Forged)
    })
    .collect()
}

/// Returns a disguise that was begun for the same as `request` and is not done yet, if there is one.
pub(crate) fn like(
    database: &mut dyn TenantConnection,
    request: &ApplyRequest<'_>,
) -> Result<Option<DisguiseId>, Error> {
    for id in list(database)? {
        if find(database, id)?.is_some_and(|intent| intent.order.is_like(request)) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_comes_back_and_no_cut_of_it_is_read() {
        comes_back_whole(Some(PublicKey::X25519([8; 32])));
        comes_back_whole(None);
    }

    fn comes_back_whole(public_key: Option<PublicKey>) {
        let mut chunk_ids = ChunkIds::default();
        chunk_ids.add().unwrap();
        let intent = Intent {
            order: Order::sample(),
            plan: [7; PLAN_BYTES],
            public_key,
            over: true,
            time: 12,
            place: Place {
                step: 3,
                part: 2,
                seen: vec![Value::from("a"), Value::Null],
            },
            rows: BTreeMap::from([("posts".to_owned(), 9)]),
            pseudoprincipals: 4,
            under_placeholders: BTreeMap::from([("posts".to_owned(), 2)]),
            of_nobody: BTreeMap::from([("posts".to_owned(), 3)]),
            is_recorded: true,
            chunk_ids,
        };
        let bytes = intent.encode();
        assert_eq!(Intent::decode(&bytes).unwrap().encode(), bytes);
        for cut in 0..bytes.len() {
            assert!(Intent::decode(&bytes[..cut]).is_err());
        }
        // Earlier versions had no ids of chunks, those before did not say whether a log was told,
        // those before counted nothing that names nobody, and those before nothing under
        // placeholders.
        let bytes = Intent {
            under_placeholders: BTreeMap::new(),
            of_nobody: BTreeMap::new(),
            is_recorded: false,
            chunk_ids: ChunkIds::default(),
            ..intent
        }
        .encode();
        for (version, less) in [
            (KEYLESS_VERSION, 4),
            (UNCOUNTED_VERSION, 4),
            (NOBODY_VERSION, 3),
            (UNTOLD_VERSION, 2),
            (NAMELESS_VERSION, 1),
        ] {
            let mut before = bytes[..bytes.len() - less].to_vec();
            before[0] = version;
            assert_eq!(Intent::decode(&before).unwrap().encode(), bytes);
        }
    }
}
