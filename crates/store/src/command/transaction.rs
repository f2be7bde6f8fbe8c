//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use super::{Call, Spec, run};
use crate::client::{Client, Transaction};
use crate::commands::Command;
use crate::extended::TEXT_BYTES_MAX;
use crate::fail::Fail;
use crate::limits::{QUEUED_BYTES_MAX, QUEUED_COMMANDS_MAX};
use crate::memory::Memory;
use crate::reply::Reply;
use crate::watch::Watch;

pub(super) const SPECS: &[Spec] = &[
    Spec::new("multi", 1, multi),
    Spec::new("exec", 1, exec),
    Spec::new("discard", 1, discard),
    Spec::new("watch", -2, watch),
    Spec::new("unwatch", 1, unwatch),
];

/// Bytes that the list of a transaction's commands takes for each of them; it grows by doubling.
const SPEC_BYTES: usize = 2 * size_of::<&Spec>();

/// Bytes of the longest reply that is made after its change: the number of INCRBYFLOAT with its
/// frame. Commands with longer replies look for the room first.
const RESULT_BYTES_MAX: usize = TEXT_BYTES_MAX + 64;

/// Returns whether a command is carried out at once even between MULTI and EXEC.
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
    // A command that was refused already will not be carried out.
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

/// Ends or marks a transaction when a command is refused before its arguments are read.
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
        fail @ (Fail::Damaged(_) | Fail::Store(_)) => fail,
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
    let watch = std::mem::take(&mut call.client.watch);
    let touched = is_touched(call, &watch)?;
    drop(watch);
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
        // A command whose reply does not fit is not carried out. Some commands make their reply
        // only after their change.
        let outcome = match call.reply.check_for(RESULT_BYTES_MAX) {
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

fn is_touched(call: &mut Call<'_, '_>, watch: &Watch) -> Result<bool, Fail> {
    for (db, key) in watch.keys() {
        if watch.is_touched() {
            break;
        }
        call.space.db = *db;
        // Finding a key that has expired since removes it, and that touches it.
        call.space.find(key)?;
    }
    call.space.db = call.client.db;
    Ok(watch.is_touched())
}

fn watch(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    if call.client.transaction.is_some() {
        return Err(Fail::said("ERR WATCH inside MULTI is not allowed"));
    }
    let client = &mut *call.client;
    // As Redis does: of a client that was told already, EXEC is refused whatever it watches beside.
    if !client.watch.is_touched() {
        let (watched, db) = (call.space.shared.watched.clone(), call.space.db);
        let keys = call.args.get(1..).unwrap_or_default();
        let fresh = client.watch.reserve((&watched, db), keys, &client.memory)?;
        for key in &fresh {
            // A key that has expired already is not there, whatever happens to it.
            call.space.find(key)?;
        }
        client.watch.add((&watched, db), fresh);
    }
    call.reply.ok();
    Ok(())
}

fn unwatch(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    call.client.unwatch();
    call.reply.ok();
    Ok(())
}
