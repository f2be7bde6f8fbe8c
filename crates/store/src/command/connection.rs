//! Commands about the connection: PING, ECHO, HELLO, AUTH, SELECT, QUIT, RESET, CLIENT.

use super::{Call, Spec, container};
use crate::client::{Answers, Client};
use crate::fail::Fail;
use crate::limits::DATABASES;
use crate::number::parse_integer;
use crate::reply::Protocol;

/// The version of Redis whose replies these are.
pub(super) const REDIS_VERSION: &str = "7.0.15";

pub(super) const SPECS: &[Spec] = &[
    Spec::new("ping", -1, ping),
    Spec::new("echo", 2, echo),
    Spec::new("hello", -1, hello),
    Spec::new("auth", -2, auth),
    Spec::new("select", 2, select),
    Spec::new("quit", -1, quit),
    Spec::new("reset", 1, reset),
    Spec::new("client", -2, container),
    Spec::new("client|id", 2, client_id),
    Spec::new("client|getname", 2, client_getname),
    Spec::new("client|setname", 3, client_setname),
    Spec::new("client|info", 2, client_info),
    Spec::new("client|reply", 3, client_reply),
    Spec::new("client|no-evict", 3, client_no_evict),
];

fn ping(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    match call.args {
        [_] => call.reply.simple("PONG"),
        [_, text] => call.reply.bulk(text),
        _ => return Err(Fail::arity("ping")),
    }
    Ok(())
}

fn echo(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    call.reply.bulk(call.arg(1));
    Ok(())
}

fn hello(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let protocol = asked_protocol(call)?;
    take_options(call)?;
    if let Some(protocol) = protocol {
        call.client.protocol = protocol;
        call.reply.protocol = protocol;
    }
    let proto = match call.client.protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    let reply = &mut *call.reply;
    reply.map(7);
    for (name, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(proto);
    reply.bulk(b"id");
    reply.count(call.client.id);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

/// The version of the protocol that HELLO asks for, if it says one.
fn asked_protocol(call: &Call<'_, '_>) -> Result<Option<Protocol>, Fail> {
    if call.args.len() < 2 {
        return Ok(None);
    }
    let wrong = || Fail::said("ERR Protocol version is not an integer or out of range");
    match parse_integer(call.arg(1)).ok_or_else(wrong)? {
        2 => Ok(Some(Protocol::Resp2)),
        3 => Ok(Some(Protocol::Resp3)),
        _ => Err(Fail::said("NOPROTO unsupported protocol version")),
    }
}

/// Does the options of HELLO, each in its turn as Redis 7.0 does: those before a wrong one are done.
fn take_options(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let mut index = 2;
    while index < call.args.len() {
        let left = call.args.len() - 1 - index;
        if call.is_word(index, "auth") && left >= 2 {
            log_in(call.arg(index + 1))?;
            index += 3;
        } else if call.is_word(index, "setname") && left >= 1 {
            set_name(call.client, call.arg(index + 1))?;
            index += 2;
        } else {
            let intro = "ERR Syntax error in HELLO option '";
            return Err(Fail::about(intro, call.arg(index), "'"));
        }
    }
    Ok(())
}

/// Answers as a Redis server without users: the user `default` needs no password, and no other is
/// known.
fn log_in(user: &[u8]) -> Result<(), Fail> {
    if user == b"default" {
        return Ok(());
    }
    let text = "WRONGPASS invalid username-password pair or user is disabled.";
    Err(Fail::said(text))
}

fn auth(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    match call.args {
        [_, _] => {
            return Err(Fail::said(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
            ));
        }
        [_, user, _] => log_in(user)?,
        _ => return Err(Fail::syntax()),
    }
    call.reply.ok();
    Ok(())
}

fn select(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    call.client.db = database(call.arg(1))?;
    call.reply.ok();
    Ok(())
}

/// The number of a database.
pub(super) fn database(text: &[u8]) -> Result<usize, Fail> {
    let number = parse_integer(text).ok_or_else(Fail::not_integer)?;
    if i32::try_from(number).is_err() {
        let (least, most) = (i32::MIN, i32::MAX);
        return Err(Fail::out_of_bounds(least.into(), most.into()));
    }
    let number = usize::try_from(number).ok();
    number
        .filter(|number| *number < DATABASES)
        .ok_or_else(|| Fail::said("ERR DB index is out of range"))
}

fn quit(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    call.client.closing = true;
    call.reply.ok();
    Ok(())
}

fn reset(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    call.client.reset();
    call.reply.protocol = Protocol::Resp2;
    call.reply.simple("RESET");
    Ok(())
}

fn client_id(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    call.reply.count(call.client.id);
    Ok(())
}

fn client_getname(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let name = &call.client.name;
    let name = (!name.is_empty()).then_some(name.as_slice());
    call.reply.bulk_or_null(name);
    Ok(())
}

fn client_setname(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    set_name(call.client, call.arg(2))?;
    call.reply.ok();
    Ok(())
}

fn set_name(client: &mut Client, name: &[u8]) -> Result<(), Fail> {
    if !name.iter().all(u8::is_ascii_graphic) {
        let text = "ERR Client names cannot contain spaces, newlines or special characters.";
        return Err(Fail::said(text));
    }
    client.name = name.to_vec();
    Ok(())
}

/// The line that Redis shows of a client, as far as the store knows it.
fn client_info(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let client = &call.client;
    let age = call.space.now.saturating_sub(client.connected) / 1000;
    let name = String::from_utf8_lossy(&client.name);
    let queued = match &client.transaction {
        Some(transaction) => i64::try_from(transaction.specs.len()).unwrap_or(i64::MAX),
        None => -1,
    };
    let resp = match client.protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    let text = format!(
        "id={} addr=?:0 laddr=?:0 fd=-1 name={name} age={age} idle=0 flags=N db={} sub=0 psub=0 \
         ssub=0 multi={queued} cmd={} user=default redir=-1 resp={resp}\n",
        client.id, client.db, client.last_command
    );
    call.reply.verbatim(&text);
    Ok(())
}

fn client_reply(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    if call.is_word(2, "on") {
        call.client.answers = Answers::On;
        call.reply.ok();
    } else if call.is_word(2, "off") {
        call.client.answers = Answers::Off;
    } else if call.is_word(2, "skip") {
        if call.client.answers != Answers::Off {
            call.client.answers = Answers::SkipNext;
        }
    } else {
        return Err(Fail::syntax());
    }
    Ok(())
}

/// Nothing is ever evicted here, so both answers are kept.
fn client_no_evict(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    if !call.is_word(2, "on") && !call.is_word(2, "off") {
        return Err(Fail::syntax());
    }
    call.reply.ok();
    Ok(())
}
