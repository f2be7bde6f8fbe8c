//! Commands on keys of any kind.

use super::connection::database;
use super::{Call, Spec, container};
use crate::draw::draw;
use crate::fail::Fail;
use crate::glob::matches;
use crate::limits::{INTSET_ENTRIES_MAX, SHORT_BYTES_MAX};
use crate::number::parse_integer;
use crate::record::{Form, Kind, Record, Value};

pub(super) const SPECS: &[Spec] = &[
    Spec::new("del", -2, del),
    Spec::new("unlink", -2, del),
    Spec::new("exists", -2, exists),
    Spec::new("touch", -2, exists),
    Spec::new("type", 2, type_of),
    Spec::new("keys", 2, keys),
    Spec::new("randomkey", 1, randomkey),
    Spec::new("rename", 3, rename),
    Spec::new("renamenx", 3, renamenx),
    Spec::new("copy", -3, copy),
    Spec::new("object", -2, container),
    Spec::new("object|encoding", 3, object_encoding),
];

/// Expired keys that RANDOMKEY draws before it takes the next one that has not expired.
const DRAWS_MAX: usize = 100;
/// Longest text that Redis keeps together with its header.
const EMBEDDED_BYTES_MAX: usize = 44;

fn del(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let mut count = 0;
    for key in call.rest(1) {
        match call.space.find(key) {
            Ok(None) => continue,
            Ok(Some(record)) => call.space.remove(key, &record)?,
            Err(Fail::Damaged(_)) => call.space.remove_unread(key)?,
            Err(fail) => return Err(fail),
        }
        count += 1;
    }
    call.reply.integer(count);
    Ok(())
}

fn exists(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let mut count = 0;
    for key in call.rest(1) {
        count += i64::from(call.space.look_up(key)?.is_some());
    }
    call.reply.integer(count);
    Ok(())
}

fn type_of(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let found = call.space.find(call.arg(1))?;
    let name = found.map_or("none", |record| record.value.kind().name());
    call.reply.simple(name);
    Ok(())
}

fn keys(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (pattern, now) = (call.arg(1), call.space.now);
    let mark = call.reply.mark();
    let mut count = 0;
    for row in call.space.records.keys_from(call.space.db, 0)? {
        let row = row?;
        if matches(pattern, row.key()) && !row.record()?.is_expired(now) {
            call.reply.bulk(row.key());
            call.reply.check_whole()?;
            count += 1;
        }
    }
    call.reply.array_at(mark, count);
    Ok(())
}

fn randomkey(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let space = &mut *call.space;
    for _ in 0..DRAWS_MAX {
        let length = space.records.keys_len(space.db)?;
        let records = &space.records;
        let from = |hash| {
            let keys = records.keys_from(space.db, hash)?;
            Ok(keys.map(|row| row.map(|row| row.key().to_vec())))
        };
        let Some(key) = draw(from, length, &mut space.shared.random)? else {
            call.reply.null();
            return Ok(());
        };
        // An expired key is removed, and another is drawn.
        if space.find(&key)?.is_some() {
            call.reply.bulk(&key);
            return Ok(());
        }
    }
    let place = space.shared.random.next();
    let (later, all) = (
        space.records.keys_from(space.db, place)?,
        space.records.keys_from(space.db, 0)?,
    );
    for row in later.chain(all) {
        let row = row?;
        if !row.record()?.is_expired(space.now) {
            call.reply.bulk(row.key());
            return Ok(());
        }
    }
    call.reply.null();
    Ok(())
}

fn rename(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (from, to) = (call.arg(1), call.arg(2));
    let record = call.space.find(from)?.ok_or_else(Fail::no_such_key)?;
    call.space.check(to)?;
    if from != to {
        move_key(call, from, to, &record)?;
    }
    call.reply.ok();
    Ok(())
}

fn renamenx(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (from, to) = (call.arg(1), call.arg(2));
    let record = call.space.find(from)?.ok_or_else(Fail::no_such_key)?;
    call.space.check(to)?;
    let free = from != to && call.space.find(to)?.is_none();
    if free {
        move_key(call, from, to, &record)?;
    }
    call.reply.flag(free);
    Ok(())
}

fn move_key(call: &mut Call<'_, '_>, from: &[u8], to: &[u8], record: &Record) -> Result<(), Fail> {
    let mut moved = record.clone();
    if let Value::Rows(body) = &mut moved.value {
        let owner = call.space.records.owner_for(call.space.db, to)?;
        if body.id.owner != owner {
            // Another's now, and sealed for that subject.
            let (old, id) = (*body, call.space.rows.id_of(owner)?);
            call.space.rows.copy_rows(&old, id)?;
            call.space.remove_body(&old)?;
            body.id = id;
        }
    }
    // The old name goes last: without it, the key of a subject would be one that no key needs.
    call.space.put(to, &moved)?;
    call.space.forget(from, record.deadline)?;
    call.space.touch(from);
    Ok(())
}

fn copy(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (from, to) = (call.arg(1), call.arg(2));
    let mut target = call.space.db;
    let mut replace = false;
    let mut index = 3;
    while index < call.args.len() {
        if call.is_word(index, "replace") {
            replace = true;
        } else if call.is_word(index, "db") && index + 1 < call.args.len() {
            target = database(call.arg(index + 1))?;
            index += 1;
        } else {
            return Err(Fail::syntax());
        }
        index += 1;
    }
    let source = call.space.db;
    if from == to && source == target {
        let text = "ERR source and destination objects are the same";
        return Err(Fail::said(text));
    }
    let found = call.space.look_up(from)?;
    call.space.db = target;
    call.space.check(to)?;
    let free = replace || call.space.find(to)?.is_none();
    let record = found.filter(|_| free);
    let copied = record.is_some();
    if let Some(mut record) = record {
        if let Value::Rows(body) = &mut record.value {
            let id = call.space.new_id(to)?;
            call.space.rows.copy_rows(body, id)?;
            body.id = id;
        }
        call.space.put(to, &record)?;
    }
    call.reply.flag(copied);
    Ok(())
}

/// Answers with the form in which Redis would keep the value, as far as visible properties
/// determine it.
fn object_encoding(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let Some(record) = call.space.find(call.arg(2))? else {
        call.reply.null();
        return Ok(());
    };
    let body = match &record.value {
        Value::Short { bytes, form } => {
            let name = text_encoding(bytes, *form);
            call.reply.bulk(name.as_bytes());
            return Ok(());
        }
        Value::Rows(body) => body,
    };
    let name = match body.kind {
        Kind::Text => "raw",
        Kind::List => "quicklist",
        Kind::Hash if body.large => "hashtable",
        Kind::Hash => "listpack",
        Kind::Set if body.large => "hashtable",
        Kind::Set => "intset",
        Kind::SortedSet if body.large => "skiplist",
        Kind::SortedSet => "listpack",
    };
    debug_assert!(
        body.kind != Kind::Set || body.large || body.count <= INTSET_ENTRIES_MAX,
        "a larger set has left its compact form"
    );
    call.reply.bulk(name.as_bytes());
    Ok(())
}

fn text_encoding(bytes: &[u8], form: Form) -> &'static str {
    debug_assert!(bytes.len() <= SHORT_BYTES_MAX, "longer ones have chunks");
    match form {
        Form::Plain if parse_integer(bytes).is_some() => "int",
        Form::Plain | Form::Text if bytes.len() <= EMBEDDED_BYTES_MAX => "embstr",
        _ => "raw",
    }
}
