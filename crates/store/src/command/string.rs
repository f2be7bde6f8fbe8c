//! Commands on strings: GET, SET and their kin.

use super::{Call, Spec};
use crate::expire::Moment;
use crate::fail::Fail;
use crate::record::{Form, Record, Value};
use crate::text::{check_length, text_len};

pub(super) const SPECS: &[Spec] = &[
    Spec::new("get", 2, get),
    Spec::new("set", -3, set),
    Spec::new("setnx", 3, setnx),
    Spec::new("setex", 4, setex),
    Spec::new("psetex", 4, psetex),
    Spec::new("getset", 3, getset),
    Spec::new("getdel", 2, getdel),
    Spec::new("getex", -2, getex),
    Spec::new("mget", -2, mget),
    Spec::new("mset", -3, mset),
    Spec::new("msetnx", -3, msetnx),
    Spec::new("append", 3, append),
    Spec::new("strlen", 2, strlen),
    Spec::new("getrange", 4, getrange),
    Spec::new("substr", 4, getrange),
    Spec::new("setrange", 4, setrange),
];

fn get(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let found = call.space.look_up_text(call.arg(1))?;
    reply_text(call, found.as_ref())
}

/// Answers with the string, or null.
fn reply_text(call: &mut Call<'_, '_>, found: Option<&Record>) -> Result<(), Fail> {
    call.reply.check()?;
    match found.map(|record| &record.value) {
        None => call.reply.null(),
        Some(Value::Short { bytes, .. }) => call.reply.bulk(bytes),
        Some(value) => {
            let text = call.space.text(value)?;
            call.reply.bulk(&text);
        }
    }
    call.reply.check_whole()
}

/// The options of SET and GETEX.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of the command"
)]
struct Options<'a> {
    only_new: bool,
    only_old: bool,
    get: bool,
    lifetime: Lifetime<'a>,
}

#[derive(Default, Clone, Copy)]
enum Lifetime<'a> {
    #[default]
    Unsaid,
    Keep,
    Persist,
    Until(Moment, &'a [u8]),
}

fn set_options<'a>(call: &Call<'a, '_>) -> Result<Options<'a>, Fail> {
    let mut options = Options::default();
    let mut index = 3;
    while index < call.args.len() {
        let word = super::word(call.arg(index));
        let unsaid = matches!(options.lifetime, Lifetime::Unsaid);
        match word.as_slice() {
            b"nx" if !options.only_old => options.only_new = true,
            b"xx" if !options.only_new => options.only_old = true,
            b"get" => options.get = true,
            b"keepttl" if unsaid || matches!(options.lifetime, Lifetime::Keep) => {
                options.lifetime = Lifetime::Keep;
            }
            word => {
                options.lifetime = until(call, word, index, options.lifetime)?;
                index += 1;
            }
        }
        index += 1;
    }
    Ok(options)
}

/// A deadline as an option; only one may be said.
fn until<'a>(
    call: &Call<'a, '_>,
    word: &[u8],
    index: usize,
    said: Lifetime<'_>,
) -> Result<Lifetime<'a>, Fail> {
    let moment = Moment::of_option(word).ok_or_else(Fail::syntax)?;
    // Redis lets the same option stand twice; the last counts.
    let again = match said {
        Lifetime::Unsaid => true,
        Lifetime::Until(before, _) => before == moment,
        Lifetime::Keep | Lifetime::Persist => false,
    };
    if !again || index + 1 >= call.args.len() {
        return Err(Fail::syntax());
    }
    Ok(Lifetime::Until(moment, call.arg(index + 1)))
}

fn set(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let options = set_options(call)?;
    let (key, now) = (call.arg(1), call.space.now);
    let deadline = match options.lifetime {
        Lifetime::Until(moment, text) => Some(moment.positive(text, now, call.name())?),
        _ => None,
    };
    let found = if options.get {
        let found = call.space.look_up_text(key)?;
        reply_text(call, found.as_ref())?;
        found
    } else {
        call.space.find(key)?
    };
    if (options.only_new && found.is_some()) || (options.only_old && found.is_none()) {
        if !options.get {
            call.reply.null();
        }
        return Ok(());
    }
    let kept = found.as_ref().and_then(|record| record.deadline);
    let deadline = if matches!(options.lifetime, Lifetime::Keep) {
        kept
    } else {
        deadline
    };
    put(call, key, found.as_ref(), call.arg(2), deadline)?;
    if !options.get {
        call.reply.ok();
    }
    Ok(())
}

fn put(
    call: &mut Call<'_, '_>,
    key: &[u8],
    old: Option<&Record>,
    text: &[u8],
    deadline: Option<u64>,
) -> Result<(), Fail> {
    let value = call.space.new_text(key, text, Form::Plain)?;
    let record = Record { deadline, value };
    call.space.put_over(key, old, &record)
}

fn setnx(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let key = call.arg(1);
    let absent = call.space.find(key)?.is_none();
    if absent {
        put(call, key, None, call.arg(2), None)?;
    }
    call.reply.flag(absent);
    Ok(())
}

fn setex(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    set_until(call, Moment::SECONDS)
}

fn psetex(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    set_until(call, Moment::MILLISECONDS)
}

fn set_until(call: &mut Call<'_, '_>, moment: Moment) -> Result<(), Fail> {
    let deadline = moment.positive(call.arg(2), call.space.now, call.name())?;
    let key = call.arg(1);
    let old = call.space.find(key)?;
    put(call, key, old.as_ref(), call.arg(3), Some(deadline))?;
    call.reply.ok();
    Ok(())
}

fn getset(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let key = call.arg(1);
    let old = call.space.look_up_text(key)?;
    reply_text(call, old.as_ref())?;
    put(call, key, old.as_ref(), call.arg(2), None)
}

fn getdel(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let key = call.arg(1);
    let old = call.space.look_up_text(key)?;
    reply_text(call, old.as_ref())?;
    match old {
        Some(old) => call.space.remove(key, &old),
        None => Ok(()),
    }
}

fn getex(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let mut lifetime = Lifetime::Unsaid;
    let mut index = 2;
    while index < call.args.len() {
        let word = super::word(call.arg(index));
        let free = matches!(lifetime, Lifetime::Unsaid | Lifetime::Persist);
        if word == b"persist" && free {
            lifetime = Lifetime::Persist;
        } else {
            lifetime = until(call, &word, index, lifetime)?;
            index += 1;
        }
        index += 1;
    }
    let (key, now) = (call.arg(1), call.space.now);
    let Some(mut record) = call.space.look_up_text(key)? else {
        call.reply.null();
        return Ok(());
    };
    let deadline = match lifetime {
        Lifetime::Until(moment, text) => Some(moment.positive(text, now, call.name())?),
        _ => None,
    };
    reply_text(call, Some(&record))?;
    let old = record.clone();
    match (lifetime, deadline) {
        (Lifetime::Until(..), Some(deadline)) if deadline <= now => {
            return call.space.remove(key, &old);
        }
        (Lifetime::Until(..), _) => record.deadline = deadline,
        (Lifetime::Persist, _) if record.deadline.is_some() => record.deadline = None,
        _ => return Ok(()),
    }
    call.space.put_over(key, Some(&old), &record)
}

fn mget(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let keys = call.rest(1);
    call.reply.array(keys.len());
    for key in keys {
        match call.space.look_up_text(key) {
            Ok(found) => reply_text(call, found.as_ref())?,
            // A key that holds something else is as good as absent.
            Err(Fail::Said(_)) => call.reply.null(),
            Err(fail) => return Err(fail),
        }
    }
    Ok(())
}

fn mset(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (pairs, odd) = call.rest(1).as_chunks::<2>();
    if !odd.is_empty() {
        return Err(Fail::arity(call.name()));
    }
    // The first key of several is changed only if each can be.
    for [key, _] in pairs.iter().filter(|_| pairs.len() > 1) {
        call.space.check(key)?;
    }
    for [key, text] in pairs {
        let old = call.space.find(key)?;
        put(call, key, old.as_ref(), text, None)?;
    }
    call.reply.ok();
    Ok(())
}

fn msetnx(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (pairs, odd) = call.rest(1).as_chunks::<2>();
    if !odd.is_empty() {
        return Err(Fail::arity(call.name()));
    }
    for [key, _] in pairs {
        call.space.check(key)?;
        if call.space.find(key)?.is_some() {
            call.reply.flag(false);
            return Ok(());
        }
    }
    for [key, text] in pairs {
        // A key may stand twice.
        let old = call.space.find(key)?;
        put(call, key, old.as_ref(), text, None)?;
    }
    call.reply.flag(true);
    Ok(())
}

fn append(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (key, text) = (call.arg(1), call.arg(2));
    let Some(old) = call.space.find_text(key)? else {
        put(call, key, None, text, None)?;
        call.reply.count(text.len() as u64);
        return Ok(());
    };
    let length = text_len(&old.value);
    check_length(length + text.len() as u64)?;
    write(call, key, &old, length, text)
}

fn strlen(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let found = call.space.look_up_text(call.arg(1))?;
    let length = found.map_or(0, |record| text_len(&record.value));
    call.reply.count(length);
    Ok(())
}

fn getrange(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let Some(record) = call.space.look_up_text(call.arg(1))? else {
        call.reply.bulk(b"");
        return Ok(());
    };
    match byte_range(start, end, text_len(&record.value)) {
        Some((start, end)) => {
            let part = call.space.text_part(&record.value, start, end)?;
            call.reply.bulk(&part);
        }
        None => call.reply.bulk(b""),
    }
    Ok(())
}

/// The bytes meant by two places, which count from the end when negative; none if there are none.
pub(super) fn byte_range(start: i64, end: i64, length: u64) -> Option<(u64, u64)> {
    let length = i64::try_from(length).ok()?;
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_end = |place: i64| {
        let place = if place < 0 { length + place } else { place };
        place.max(0)
    };
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    if start > end || length == 0 {
        return None;
    }
    Some((u64::try_from(start).ok()?, u64::try_from(end + 1).ok()?))
}

fn setrange(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let offset = call.integer(2)?;
    let Ok(offset) = u64::try_from(offset) else {
        return Err(Fail::said("ERR offset is out of range"));
    };
    let (key, text) = (call.arg(1), call.arg(3));
    let old = call.space.find_text(key)?;
    if text.is_empty() {
        let length = old.map_or(0, |record| text_len(&record.value));
        call.reply.count(length);
        return Ok(());
    }
    check_length(offset.saturating_add(text.len() as u64))?;
    let old = old.unwrap_or_else(empty);
    write(call, key, &old, offset, text)
}

/// Returns an empty string, for a write where no value was.
pub(super) const fn empty() -> Record {
    Record::new(Value::Short {
        bytes: Vec::new(),
        form: Form::Edited,
    })
}

/// Writes into a string and answers with its length.
fn write(
    call: &mut Call<'_, '_>,
    key: &[u8],
    old: &Record,
    at: u64,
    text: &[u8],
) -> Result<(), Fail> {
    let mut record = old.clone();
    call.space.write_text(key, &mut record.value, at, text)?;
    call.space.put_over(key, Some(old), &record)?;
    call.reply.count(text_len(&record.value));
    Ok(())
}
