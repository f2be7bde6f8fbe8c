//! Commands about the store as a whole.

use std::fmt::Write as _;

use super::connection::REDIS_VERSION;
use super::{Call, Spec, container};
use crate::fail::Fail;
use crate::glob::matches;
use crate::limits::{DATABASES, VALUE_BYTES_MAX};

pub(super) const SPECS: &[Spec] = &[
    Spec::new("dbsize", 1, dbsize),
    Spec::new("flushdb", -1, flushdb),
    Spec::new("flushall", -1, flushall),
    Spec::new("time", 1, time),
    Spec::new("info", -1, info),
    Spec::new("config", -2, container),
    Spec::new("config|get", -3, config_get),
];

fn dbsize(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let length = call.space.records.keys_len(call.space.db)?;
    call.reply.count(length);
    Ok(())
}

fn check_flush(call: &Call<'_, '_>) -> Result<(), Fail> {
    match call.args.len() {
        1 => Ok(()),
        2 if call.is_word(1, "sync") || call.is_word(1, "async") => Ok(()),
        _ => Err(Fail::syntax()),
    }
}

fn flushdb(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    check_flush(call)?;
    call.space.clear()?;
    call.reply.ok();
    Ok(())
}

fn flushall(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    check_flush(call)?;
    call.space.clear_all()?;
    call.reply.ok();
    Ok(())
}

fn time(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let now = call.space.now;
    call.reply.array(2);
    call.reply.bulk((now / 1000).to_string().as_bytes());
    call.reply.bulk((now % 1000 * 1000).to_string().as_bytes());
    Ok(())
}

/// A section of INFO: its name, and what writes it.
type Section = (&'static str, fn(&Call<'_, '_>) -> Result<String, Fail>);

const SECTIONS: [Section; 4] = [
    ("Server", about_server),
    ("Clients", about_clients),
    ("Stats", about_work),
    ("Keyspace", about_keys),
];

fn info(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let wanted = call.rest(1);
    let everything = wanted.is_empty()
        || wanted.iter().any(|word| {
            ["all", "default", "everything"]
                .iter()
                .any(|all| word.eq_ignore_ascii_case(all.as_bytes()))
        });
    let mut text = String::new();
    for (name, write) in SECTIONS {
        let named = wanted
            .iter()
            .any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        if everything || named {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            // Writing to a string cannot fail.
            let _infallible = write!(text, "# {name}\r\n{}", write(call)?);
        }
    }
    call.reply.verbatim(&text);
    Ok(())
}

fn about_server(call: &Call<'_, '_>) -> Result<String, Fail> {
    let opened = call.space.shared.totals.opened;
    let seconds = call.space.now.saturating_sub(opened) / 1000;
    Ok(format!(
        "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\nos:{} {}\r\narch_bits:{}\r\n\
         process_id:{}\r\nserver_time_usec:{}\r\nuptime_in_seconds:{seconds}\r\n\
         uptime_in_days:{}\r\n",
        std::env::consts::OS,
        std::env::consts::ARCH,
        usize::BITS,
        std::process::id(),
        call.space.now * 1000,
        seconds / 86_400,
    ))
}

fn about_clients(call: &Call<'_, '_>) -> Result<String, Fail> {
    let clients = call.space.shared.totals.clients.count();
    Ok(format!("connected_clients:{clients}\r\n"))
}

fn about_work(call: &Call<'_, '_>) -> Result<String, Fail> {
    let totals = &call.space.shared.totals;
    let (subjects, keys) = call.space.records.damaged()?;
    Ok(format!(
        "total_connections_received:{}\r\ntotal_commands_processed:{}\r\nexpired_keys:{}\r\n\
         keyspace_hits:{}\r\nkeyspace_misses:{}\r\ndamaged_subjects:{subjects}\r\n\
         unreadable_keys:{keys}\r\n",
        totals.connections, totals.commands, totals.expired, totals.hits, totals.misses
    ))
}

fn about_keys(call: &Call<'_, '_>) -> Result<String, Fail> {
    let mut text = String::new();
    for db in 0..DATABASES {
        let keys = call.space.records.keys_len(db)?;
        if keys > 0 {
            let expires = call.space.records.deadlines_len(db)?;
            let _infallible = write!(text, "db{db}:keys={keys},expires={expires},avg_ttl=0\r\n");
        }
    }
    Ok(text)
}

fn config_get(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let sync = call.space.shared.sync.name();
    let (databases, longest) = (DATABASES.to_string(), VALUE_BYTES_MAX.to_string());
    let known = [
        ("appendfsync", sync),
        ("appendonly", "yes"),
        ("databases", databases.as_str()),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("proto-max-bulk-len", longest.as_str()),
        ("save", ""),
        ("timeout", "0"),
    ];
    let mut found: Vec<(&[u8], &str)> = Vec::new();
    for asked in call.rest(2) {
        // A name is repeated as it was asked for; only patterns give the names there are.
        let is_pattern = asked.iter().any(|byte| b"[*?".contains(byte));
        for (name, value) in known {
            let named = asked.eq_ignore_ascii_case(name.as_bytes());
            let wanted =
                named || (is_pattern && matches(&asked.to_ascii_lowercase(), name.as_bytes()));
            let told = |(told, _): &(&[u8], &str)| told.eq_ignore_ascii_case(name.as_bytes());
            if wanted && !found.iter().any(told) {
                found.push((if named { asked } else { name.as_bytes() }, value));
            }
        }
    }
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(name);
        call.reply.bulk(value.as_bytes());
    }
    Ok(())
}
