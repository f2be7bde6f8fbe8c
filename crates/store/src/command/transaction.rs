//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Call, Spec, run};
use crate::client::{Client, Transaction};
use crate::commands::Command;
use crate::fail::Fail;
use crate::limits::{
    FREE_BYTES, QUEUED_BYTES_MAX, QUEUED_COMMANDS_MAX, WATCHED_KEY_BYTES, WATCHED_KEYS_MAX,
};
use crate::memory::Memory;
use crate::reply::Reply;

pub(super) const SPECS: &[Spec] = &[
    Spec::new("multi", 1, multi),
    Spec::new("exec", 1, exec),
    Spec::new("discard", 1, discard),
    Spec::new("watch", -2, watch),
    Spec::new("unwatch", 1, unwatch),
];

/// What the list of a transaction's commands takes for each of them; it grows by doubling.
const SPEC_BYTES: usize = 2 * size_of::<&Spec>();

/// Whether a command is carried out at once even between MULTI and EXEC.
pub(super) fn is_immediate(name: &str) -> bool {
    matches!(
        name,
        "multi" | "exec" | "discard" | "watch" | "quit" | "reset"
    )
}

pub(super) fn queue(
    transaction: &mut Transaction,
    memory: &Memory,
    (spec, mut command): (&'static Spec, Command),
    reply: &mut Reply,
) -> Result<(), Fail> {
    let commands = &transaction.commands;
    if commands.len() >= QUEUED_COMMANDS_MAX || commands.bytes() >= QUEUED_BYTES_MAX {
        transaction.broken = true;
        return Err(Fail::said("ERR the transaction is too long"));
    }
    // What was refused already will not be carried out.
    if !transaction.broken {
        let mut share = command.share.take().unwrap_or_else(|| memory.share());
        if let Err(full) = share.hold(command.cost().saturating_add(SPEC_BYTES)) {
            // Nothing of it will be carried out.
            *transaction = Transaction {
                broken: true,
                ..Transaction::default()
            };
            return Err(full.into());
        }
        command.keep(share);
        transaction.specs.push(spec);
        transaction.commands.push(command);
    }
    reply.simple("QUEUED");
    Ok(())
}

/// What becomes of a transaction when a command is refused before it is looked at closer.
pub(super) fn refuse(client: &mut Client, args: &[&[u8]], fail: Fail) -> Fail {
    let name = args.first().copied().unwrap_or_default();
    if !name.eq_ignore_ascii_case(b"exec") {
        if let Some(transaction) = &mut client.transaction {
            transaction.broken = true;
        }
        return fail;
    }
    client.transaction = None;
    client.unwatch();
    match fail {
        Fail::Said(text) => {
            let reason = text.strip_prefix(b"ERR ").unwrap_or(&text);
            let intro = b"EXECABORT Transaction discarded because of: ";
            Fail::Said([&intro[..], reason].concat())
        }
        fail @ Fail::Store(_) => fail,
    }
}

fn multi(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    if call.client.transaction.is_some() {
        return Err(Fail::said("ERR MULTI calls can not be nested"));
    }
    call.client.transaction = Some(Transaction::default());
    call.reply.ok();
    Ok(())
}

fn discard(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    if call.client.transaction.take().is_none() {
        return Err(Fail::said("ERR DISCARD without MULTI"));
    }
    call.client.unwatch();
    call.reply.ok();
    Ok(())
}

fn exec(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let Some(mut transaction) = call.client.transaction.take() else {
        return Err(Fail::said("ERR EXEC without MULTI"));
    };
    let touched = is_touched(call)?;
    call.client.unwatch();
    if transaction.broken {
        let text = "EXECABORT Transaction discarded because of previous errors.";
        return Err(Fail::said(text));
    }
    if touched {
        call.reply.null_array();
        return Ok(());
    }
    call.reply.array(transaction.specs.len());
    for spec in transaction.specs {
        let command = transaction.commands.pop().unwrap_or_default();
        let start = call.reply.len();
        let (args, space) = (command.arguments(), &mut *call.space);
        // What does not fit into the reply is not done.
        let outcome = match call.reply.check() {
            Ok(()) => run(spec, &args, call.client, space, call.reply),
            refused => refused,
        };
        match outcome {
            Err(Fail::Said(text)) => {
                call.reply.truncate(start);
                call.reply.error(&text);
            }
            other => other?,
        }
        call.reply.protocol = call.client.protocol;
    }
    Ok(())
}

fn is_touched(call: &mut Call<'_, '_>) -> Result<bool, Fail> {
    let keys = std::mem::take(&mut call.client.watch.keys);
    for (db, key) in &keys {
        call.space.db = *db;
        // Finding a key that has expired since removes it, and that touches it.
        call.space.find(key)?;
    }
    call.space.db = call.client.db;
    Ok(call.client.watch.touched.load(Ordering::Relaxed))
}

fn watch(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    if call.client.transaction.is_some() {
        return Err(Fail::said("ERR WATCH inside MULTI is not allowed"));
    }
    let watch = &mut call.client.watch;
    if watch.keys.len() + call.args.len() > WATCHED_KEYS_MAX {
        return Err(Fail::said("ERR too many keys are watched"));
    }
    let cost = |key: &&[u8]| 2 * key.len() + WATCHED_KEY_BYTES;
    let bytes = watch.bytes + call.args.iter().skip(1).map(cost).sum::<usize>();
    if bytes > FREE_BYTES {
        let memory = &call.client.memory;
        watch
            .share
            .get_or_insert_with(|| memory.share())
            .hold(bytes)?;
    }
    watch.bytes = bytes;
    for key in call.args.iter().skip(1) {
        // A key that has expired already is not there, whatever happens to it.
        call.space.find(key)?;
        let db = call.space.db;
        let mark = Arc::clone(&watch.touched);
        call.space.shared.watched.watch(db, key, &mark);
        watch.keys.push((db, key.to_vec()));
    }
    call.reply.ok();
    Ok(())
}

fn unwatch(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    call.client.unwatch();
    call.reply.ok();
    Ok(())
}
