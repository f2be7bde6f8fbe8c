//! Disguises that wait for the end of a grace period.

use std::collections::BTreeMap;

use probity_format::wire::{Reader, put_varint};
use probity_format::{DecodeError, Timestamp};

use crate::crypto::suite::PublicKey;
use crate::database::tenant::TenantConnection;
use crate::database::value::{Value, put_bytes, take_bytes, take_text};
use crate::error::{DisguiseId, Doing as _, Error};
use crate::execute::apply::ApplyRequest;
use crate::records::tables::SCHEDULED;
use crate::spec::SpecFile;
use crate::statements::deletion::delete_keys;
use crate::statements::table::{insert_all, select_keys};

/// The version of an order without a key: that of everybody, one inside an intent, which has the
/// key itself, or one of older programs.
const KEYLESS_VERSION: u8 = 1;
/// The version of an order that names the key of its person.
const KEYED_VERSION: u8 = 2;
/// The most parameters that an order may have.
const PARAMETERS_MAX: usize = 1_024;

/// A disguise that is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheduled {
    /// Its handle, the same before and after it is applied.
    pub id: DisguiseId,
    /// When it is applied.
    pub due: Option<Timestamp>,
}

impl Scheduled {
    pub(crate) fn is_due(&self, time: Timestamp) -> bool {
        self.due.is_some_and(|due| due <= time)
    }
}

/// The scheduled request, as it is stored until it is due.
pub(crate) struct Order {
    text: String,
    user: Option<Value>,
    /// The key of the user, where the order names it.
    key: Option<PublicKey>,
    parameters: BTreeMap<String, Value>,
    expires: Option<Timestamp>,
}

impl Order {
    pub(crate) fn of(request: &ApplyRequest<'_>) -> Self {
        Self {
            text: request.spec.text.clone(),
            user: request.user.clone(),
            key: None,
            parameters: request.parameters.clone(),
            expires: request.expires,
        }
    }

    /// Returns the order bound to the person with this key, so that a later user of the id is
    /// excluded.
    pub(crate) fn bound_to(self, key: Option<PublicKey>) -> Self {
        Self { key, ..self }
    }

    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self {
            text: "a specification".to_owned(),
            user: Some(Value::Int(7)),
            key: None,
            parameters: BTreeMap::from([("name".to_owned(), Value::Null)]),
            expires: None,
        }
    }

    pub(crate) const fn user(&self) -> Option<&Value> {
        self.user.as_ref()
    }

    pub(crate) const fn key(&self) -> Option<&PublicKey> {
        self.key.as_ref()
    }

    /// Returns whether the order concerns the present holder of the id `user`.
    pub(crate) fn is_about(&self, user: &Value) -> bool {
        let name = self.user.as_ref().map(Value::principal);
        name == Some(user.principal())
    }

    /// Returns whether the order is one of the same specification for the same person, or everybody.
    pub(crate) fn is_like(&self, request: &ApplyRequest<'_>) -> bool {
        let is_same_person = match &request.user {
            Some(user) => self.is_about(user),
            None => self.user.is_none(),
        };
        is_same_person && self.text == request.spec.text && self.parameters == request.parameters
    }

    pub(crate) fn parsed(&self) -> Result<SpecFile, Error> {
        Ok(SpecFile::parse(&self.text)?)
    }

    pub(crate) fn request<'a>(&self, file: &'a SpecFile, time: Timestamp) -> ApplyRequest<'a> {
        ApplyRequest {
            spec: &file.spec,
            user: self.user.clone(),
            over: None,
            parameters: self.parameters.clone(),
            expires: self.expires,
            time,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let version = self.key.as_ref().map_or(KEYLESS_VERSION, |_| KEYED_VERSION);
        let mut out = vec![version];
        put_bytes(&mut out, self.text.as_bytes());
        self.user.as_ref().unwrap_or(&Value::Null).encode(&mut out);
        if let Some(key) = &self.key {
            put_bytes(&mut out, &key.encode());
        }
        let expires = self.expires.map_or(0, Timestamp::nanoseconds);
        out.extend_from_slice(&expires.to_le_bytes());
        put_varint(
            &mut out,
            u64::try_from(self.parameters.len()).unwrap_or(u64::MAX),
        );
        for (name, value) in &self.parameters {
            put_bytes(&mut out, name.as_bytes());
            value.encode(&mut out);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "scheduled disguise");
        let is_keyed = match reader.u8()? {
            KEYLESS_VERSION => false,
            KEYED_VERSION => true,
            _ => return Err(reader.error("has an unknown version")),
        };
        let text = take_text(&mut reader)?;
        let user = Value::decode(&mut reader)?;
        let key = if is_keyed {
            let key = PublicKey::decode(take_bytes(&mut reader)?);
            let key = key.map_err(|_suite| reader.error("has a public key of an unknown suite"))?;
            Some(key)
        } else {
            None
        };
        let expires = i64::from_le_bytes(reader.array()?);
        let expires = match expires {
            0 => None,
            other => Some(
                Timestamp::from_nanoseconds(other)
                    .map_err(|_range| reader.error("has a time out of range"))?,
            ),
        };
        let mut parameters = BTreeMap::new();
        for _ in 0..reader.length(PARAMETERS_MAX)? {
            let name = take_text(&mut reader)?;
            parameters.insert(name, Value::decode(&mut reader)?);
        }
        reader.finish()?;
        Ok(Self {
            text,
            user: Some(user).filter(|user| !user.is_null()),
            key,
            parameters,
            expires,
        })
    }
}

fn key(database: &dyn TenantConnection, id: DisguiseId) -> Value {
    database.tenancy().key(&id.0.to_le_bytes())
}

pub(crate) fn put(
    database: &mut dyn TenantConnection,
    id: DisguiseId,
    due: Timestamp,
    order: &Order,
) -> Result<(), Error> {
    let row = vec![
        key(database, id),
        Value::Int(due.nanoseconds()),
        Value::Bytes(order.encode()),
    ];
    insert_all(database, SCHEDULED, &["id", "due", "what"], &[row])
}

/// Takes a scheduled disguise away.
pub(crate) fn take(database: &mut dyn TenantConnection, id: DisguiseId) -> Result<(), Error> {
    let key = [vec![key(database, id)]];
    match delete_keys(database, SCHEDULED, &["id".to_owned()], &key)? {
        0 => Err(Error::NoSuchDisguise),
        _ => Ok(()),
    }
}

pub(crate) fn read(database: &mut dyn TenantConnection, id: DisguiseId) -> Result<Order, Error> {
    let (columns, by) = (["what".to_owned()], ["id".to_owned()]);
    let key = [vec![key(database, id)]];
    let rows = select_keys(database, SCHEDULED, &columns, &by, &key)?;
    match rows.into_iter().flatten().next() {
        Some(Value::Bytes(what)) => Ok(Order::decode(&what)?),
        Some(_) => Err(Error::Forged),
        None => Err(Error::NoSuchDisguise),
    }
}

/// Returns all scheduled disguises, or those of `user`, the next first.
pub(crate) fn list(
    database: &mut dyn TenantConnection,
    user: Option<&Value>,
) -> Result<Vec<Scheduled>, Error> {
    let mut scheduled = Vec::new();
    for (it, what) in stored(database)? {
        if let Some(user) = user
            && !Order::decode(&what)?.is_about(user)
        {
            continue;
        }
        scheduled.push(it);
    }
    Ok(scheduled)
}

/// Ends the disguises of the person with this key, and returns their handles. One without a key
/// belongs to the registered holder of its id: if that is the person, `registered` is the id.
pub(crate) fn end(
    database: &mut dyn TenantConnection,
    key: &PublicKey,
    registered: Option<&Value>,
) -> Result<Vec<DisguiseId>, Error> {
    let mut ended = Vec::new();
    for (it, what) in stored(database)? {
        let order = Order::decode(&what)?;
        let is_theirs = match order.key() {
            Some(named) => named == key,
            None => registered.is_some_and(|user| order.is_about(user)),
        };
        if is_theirs {
            take(database, it.id)?;
            ended.push(it.id);
        }
    }
    Ok(ended)
}

/// Returns the disguises that wait for the same person as `request`, with the same specification and
/// parameters. One that names another key than `key` is that of another holder of the id.
pub(crate) fn like(
    database: &mut dyn TenantConnection,
    request: &ApplyRequest<'_>,
    key: Option<&PublicKey>,
) -> Result<Vec<DisguiseId>, Error> {
    let mut like = Vec::new();
    for version in [KEYLESS_VERSION, KEYED_VERSION] {
        let mut start = vec![version];
        put_bytes(&mut start, request.spec.text.as_bytes());
        request
            .user
            .as_ref()
            .unwrap_or(&Value::Null)
            .encode(&mut start);
        for (it, what) in stored_as(database, Some(start))? {
            let order = Order::decode(&what)?;
            let is_theirs = order.key().is_none_or(|named| Some(named) == key);
            if is_theirs && order.is_like(request) {
                like.push(it.id);
            }
        }
    }
    Ok(like)
}

/// Ends the disguises that wait for the same as `request`, and returns their handles: applied later, they
/// would hide a person again who came back.
pub(crate) fn end_like(
    database: &mut dyn TenantConnection,
    request: &ApplyRequest<'_>,
    key: Option<&PublicKey>,
) -> Result<Vec<DisguiseId>, Error> {
    let ended = like(database, request, key)?;
    for id in &ended {
        take(database, *id)?;
    }
    Ok(ended)
}

/// Ends the disguises of the person with this key that were due by `time`, and returns their handles.
pub(crate) fn end_due(
    database: &mut dyn TenantConnection,
    key: &PublicKey,
    time: Timestamp,
) -> Result<Vec<DisguiseId>, Error> {
    let mut ended = Vec::new();
    for (it, what) in stored(database)? {
        if it.is_due(time) && Order::decode(&what)?.key() == Some(key) {
            take(database, it.id)?;
            ended.push(it.id);
        }
    }
    Ok(ended)
}

/// Moves the disguises of a person to a new key.
pub(crate) fn change_key(
    database: &mut dyn TenantConnection,
    (former, new): (&PublicKey, &PublicKey),
) -> Result<(), Error> {
    for (it, what) in stored(database)? {
        let order = Order::decode(&what)?;
        if order.key() == Some(former) {
            let due = it.due.ok_or(Error::Forged)?;
            take(database, it.id)?;
            put(database, it.id, due, &order.bound_to(Some(new.clone())))?;
        }
    }
    Ok(())
}

/// Returns all scheduled disguises, the next first, each with its order.
fn stored(database: &mut dyn TenantConnection) -> Result<Vec<(Scheduled, Vec<u8>)>, Error> {
    stored_as(database, None)
}

/// Returns the scheduled disguises whose orders begin with these bytes, or all.
fn stored_as(
    database: &mut dyn TenantConnection,
    start: Option<Vec<u8>>,
) -> Result<Vec<(Scheduled, Vec<u8>)>, Error> {
    let mut own = database.tenancy().among_keys("WHERE");
    if let Some(start) = start {
        let word = if own.sql.is_empty() { "WHERE" } else { "AND" };
        let bytes = start.len();
        own.sql = format!("{} {word} SUBSTR(what, 1, {bytes}) = ?", own.sql);
        own.parameters.push(Value::Bytes(start));
    }
    let sql = format!(
        "SELECT id, due, what FROM {SCHEDULED}{} ORDER BY due, id",
        own.sql
    );
    let rows = database
        .query(&sql, &own.parameters)
        .doing("reading what is scheduled")?;
    let mut stored = Vec::with_capacity(rows.len());
    for row in rows {
        let [Value::Bytes(id), Value::Int(due), Value::Bytes(what)] = row.as_slice() else {
            return Err(Error::Forged);
        };
        let id = <[u8; 8]>::try_from(database.tenancy().own(id));
        let id = id.map_err(|_length| Error::Forged)?;
        let id = DisguiseId(u64::from_le_bytes(id));
        // A time that is none would be due at once, or never.
        let due = Timestamp::from_nanoseconds(*due).map_err(|_range| Error::DamagedRow {
            table: SCHEDULED,
            row: id.to_string(),
        })?;
        let due = Some(due);
        let scheduled = Scheduled { id, due };
        stored.push((scheduled, what.clone()));
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back_with_its_key_or_without_and_no_cut_of_it_is_read() {
        for key in [None, Some(PublicKey::X25519([8; 32]))] {
            let bytes = Order::sample().bound_to(key.clone()).encode();
            let order = Order::decode(&bytes).unwrap();
            assert_eq!(order.key(), key.as_ref());
            assert_eq!(order.encode(), bytes);
            for cut in 0..bytes.len() {
                assert!(Order::decode(&bytes[..cut]).is_err());
            }
        }
    }
}
