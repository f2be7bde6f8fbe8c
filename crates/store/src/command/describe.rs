//! COMMAND: which commands there are, and where their keys stand.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Call, Spec};
use crate::fail::Fail;
use crate::reply::Reply;

pub(super) const SPECS: &[Spec] = &[
    Spec::new("command", -1, command),
    Spec::new("command|count", 2, count),
    Spec::new("command|list", -2, list),
    Spec::new("command|info", -2, info),
    Spec::new("command|docs", -2, docs),
];

/// Facts about commands: a line each of name, arity, flags, first key with last key and step,
/// categories, tips, and where keys stand.
const FACTS: &str = include_str!("../../data/commands.txt");

/// One command's facts, and its subcommands' names.
struct Facts {
    fields: [&'static str; 7],
    subcommands: Vec<&'static str>,
}

static DESCRIBED: LazyLock<BTreeMap<&'static str, Facts>> = LazyLock::new(|| {
    let mut described = BTreeMap::new();
    for line in FACTS.lines() {
        let mut words = line.split(' ');
        let fields: [&str; 7] = std::array::from_fn(|_| words.next().unwrap_or_default());
        let [name, ..] = fields;
        let facts = Facts {
            fields,
            subcommands: Vec::new(),
        };
        described.insert(name, facts);
    }
    let names: Vec<&str> = described.keys().copied().collect();
    for name in names {
        if let Some((container, _)) = name.split_once('|')
            && let Some(facts) = described.get_mut(container)
        {
            facts.subcommands.push(name);
        }
    }
    described
});

fn top_level() -> impl Iterator<Item = &'static str> {
    DESCRIBED.keys().copied().filter(|name| !name.contains('|'))
}

fn command(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    if call.args.len() > 1 {
        return Err(Fail::arity(call.name()));
    }
    call.reply.array(top_level().count());
    for name in top_level() {
        describe(name.as_bytes(), call.reply);
    }
    Ok(())
}

fn count(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    call.reply.count(top_level().count() as u64);
    Ok(())
}

fn list(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    if call.args.len() > 2 {
        return Err(Fail::syntax());
    }
    call.reply.set(top_level().count());
    for name in top_level() {
        call.reply.bulk(name.as_bytes());
    }
    Ok(())
}

fn info(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let names = call.rest(2);
    if names.is_empty() {
        call.reply.array(top_level().count());
        for name in top_level() {
            describe(name.as_bytes(), call.reply);
        }
        return Ok(());
    }
    call.reply.array(names.len());
    for name in names {
        describe(name, call.reply);
    }
    Ok(())
}

/// The texts of the manual are not kept here: clients fall back on their own.
fn docs(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    call.reply.map(0);
    Ok(())
}

fn describe(name: &[u8], reply: &mut Reply) {
    let name = name.to_ascii_lowercase();
    let facts = std::str::from_utf8(&name)
        .ok()
        .and_then(|name| DESCRIBED.get(name));
    let Some(facts) = facts else {
        reply.null();
        return;
    };
    let [name, arity, flags, keys, categories, tips, specs] = facts.fields;
    reply.array(10);
    reply.bulk(name.as_bytes());
    reply.integer(number(arity));
    let flags = parts(flags, '+');
    reply.set(flags.len());
    for flag in flags {
        reply.simple(flag);
    }
    for key in keys.split(',') {
        reply.integer(number(key));
    }
    let categories = parts(categories, '+');
    reply.set(categories.len());
    for category in categories {
        reply.simple(&format!("@{category}"));
    }
    let tips = parts(tips, '+');
    reply.set(tips.len());
    for tip in tips {
        reply.bulk(tip.as_bytes());
    }
    let specs = parts(specs, ';');
    reply.set(specs.len());
    for spec in specs {
        describe_keys(spec, reply);
    }
    reply.set(facts.subcommands.len());
    for subcommand in &facts.subcommands {
        describe(subcommand.as_bytes(), reply);
    }
}

/// Describes the places of a group of keys: `FLAGS:INDEX:range,LAST,STEP,LIMIT` or
/// `keynum,INDEX,FIRST,STEP`.
fn describe_keys(spec: &str, reply: &mut Reply) {
    let mut fields = spec.split(':');
    let mut next = || fields.next().unwrap_or_default();
    let (flags, index, find) = (next(), next(), next());
    reply.map(3);
    reply.bulk(b"flags");
    let flags = parts(flags, '+');
    reply.set(flags.len());
    for flag in flags {
        reply.simple(flag);
    }
    reply.bulk(b"begin_search");
    put_search(reply, "index", &[("index", index)]);
    reply.bulk(b"find_keys");
    let mut numbers = find.split(',');
    let mut next = || numbers.next().unwrap_or_default();
    let (kind, first, second, third) = (next(), next(), next(), next());
    let names = if kind == "range" {
        ["lastkey", "keystep", "limit"]
    } else {
        ["keynumidx", "firstkey", "keystep"]
    };
    let [one, two, three] = names;
    put_search(reply, kind, &[(one, first), (two, second), (three, third)]);
}

fn put_search(reply: &mut Reply, kind: &str, numbers: &[(&str, &str)]) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(numbers.len());
    for (name, value) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(number(value));
    }
}

fn parts(text: &str, separator: char) -> Vec<&str> {
    if text == "-" {
        return Vec::new();
    }
    text.split(separator).collect()
}

fn number(text: &str) -> i64 {
    text.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::TABLE;

    #[test]
    fn what_is_described_is_what_there_is() {
        let mut known: Vec<&str> = TABLE.values().map(|spec| spec.name).collect();
        known.sort_unstable();
        let described: Vec<&str> = DESCRIBED.keys().copied().collect();
        assert_eq!(described, known);
        for (name, facts) in DESCRIBED.iter() {
            let [_, arity, ..] = facts.fields;
            let spec = TABLE[name.as_bytes()];
            assert_eq!(number(arity), i64::from(spec.arity), "{name}");
        }
    }
}
