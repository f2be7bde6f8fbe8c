//! A proxy that serves until it is stopped or fails, and what is told of its end.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use probity_log::Durability;
use probity_proxy::{Backend, Ending, LogSource, Proxy, ProxyConfig};
use probity_store::{CloseError, Store, Sync};

use crate::args::Proxy as ProxyArgs;
use crate::command::signals::until_stopped_or;
use crate::command::stop_time::{StopTime, late_log};
use crate::command::store::damaged_remedy;
use crate::failure::Failure;
use crate::output::{Output, counted, note};

/// Serves until the process is asked to stop, or until the embedded store or a log that is not opened
/// again has failed.
pub(super) fn serve(
    args: &ProxyArgs,
    config: ProxyConfig,
    backend: &Backend,
    (source, stop): (&Arc<LogSource>, &StopTime),
) -> Result<(), Failure> {
    let proxy = Proxy::start(&config, source)
        .map_err(|error| Failure::new("the proxy did not start").because(error))?;
    // The threads hold what they need of it; the store must be free once they have ended.
    drop(config);
    note(&format!("upstream: {}", proxy.support()));
    if proxy.clients_max() < args.clients_max {
        note(&format!(
            "warning: at most {} clients at once, not {}, for this process may not have more files open; raise LimitNOFILE or ulimit -n",
            proxy.clients_max(),
            args.clients_max
        ));
    }
    let store_failed = || matches!(backend, Backend::Store(store) if store.has_failed());
    // A supervisor starts it again, which repairs the log once there is room.
    let log_failed = || !args.forward_on_log_failure && source.has_failed();
    let told_of = RefCell::new(BTreeSet::new());
    let has_failed = || {
        if let Backend::Store(store) = backend {
            tell_of_damage(store, &mut told_of.borrow_mut());
        }
        store_failed() || log_failed() || proxy.has_failed()
    };
    let told = until_stopped_or(has_failed, || announce(args, proxy.addresses()));
    if store_failed() {
        note("the store has failed and carries out nothing more: the proxy ends");
    }
    if log_failed() {
        note("the log has failed and no command is carried out any more: the proxy ends");
    }
    let thread_ended = proxy.has_failed();
    stop.begin();
    proxy.stop();
    told?;
    if thread_ended {
        return Err(Failure::new(
            "a thread of the proxy has ended by a fault of the program; start it again, and report what it printed",
        ));
    }
    Ok(())
}

/// Warns once of each subject whose key in the store was met damaged.
fn tell_of_damage(store: &Store, told: &mut BTreeSet<u64>) {
    for subject in store.damaged_subjects() {
        if told.insert(subject) {
            note(&format!(
                "warning: the key of subject {subject} in the store {} is damaged: commands that need it are refused, and lists of keys pass over what belongs to it; \
                 stop, copy the store and its key file aside, and put both files of the store back from one backup, of one time, or see: probity store rewrite --help",
                store.path().display()
            ));
        }
    }
}

fn announce(args: &ProxyArgs, addresses: &[std::net::SocketAddr]) -> Result<(), Failure> {
    let mut places: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    places.extend(
        args.listen
            .iter()
            .filter(|place| place.starts_with("unix:"))
            .cloned(),
    );
    let mut output = Output::new();
    output.line(&format!(
        "listening on {}; recording to {}",
        places.join(", "),
        args.log.display()
    ))?;
    output.flush()
}

/// Reports the end of the log, and the number of answered operations that are not in it.
pub(super) fn ended(args: &ProxyArgs, ending: Ending) -> Result<(), Failure> {
    let Ending {
        is_late,
        error,
        missing,
        forgotten,
    } = ending;
    let total = missing.total();
    if error.is_none() && total == 0 && !is_late {
        return Ok(());
    }
    let failure = match error {
        Some(error) => Failure::from(error),
        None if is_late => late_log(),
        None => Failure::new("the log has no room"),
    };
    if total == 0 {
        return Err(failure);
    }
    let known = if Durability::from(args.durability) == Durability::Relaxed {
        "not known to be written"
    } else {
        "not known to be durable"
    };
    let failure = failure.after(&format!(
        "{} answered whose entries are {known}, and {} answered with an error after they were done, without an entry",
        counted(missing.let_go, "operation was", "operations were"),
        missing.withheld
    ));
    Err(match forgotten {
        None => failure.also(
            "the next command that opens the log for writing records what is missing as `gap`",
        ),
        Some(error) => failure.also(&format!(
            "note these numbers: nothing else keeps them, for {} cannot be written: {error}",
            args.log.join("missed").display()
        )),
    })
}

/// Combines the ends of the log and of the backend; where both failed, as on one full disk, both
/// are reported.
pub(super) fn both(log: Result<(), Failure>, served: Result<(), Failure>) -> Result<(), Failure> {
    match (log, served) {
        (Err(log), Err(served)) => {
            note(&served.to_string());
            Err(log)
        }
        (log, served) => log.and(served),
    }
}

/// Closes the embedded store, if there is one, once nobody else holds it.
pub(in crate::command) fn close_store(backend: Backend, sync: Sync) -> Result<(), Failure> {
    let Backend::Store(store) = backend else {
        return Ok(());
    };
    let closed = Arc::into_inner(store).map_or(Ok(()), Store::close);
    closed.map_err(|error| {
        let remedy = failed_store_remedy(sync, &error);
        let what = match sync {
            Sync::EverySecond if !error.is_kept() => "changes may be missing from the store",
            _ => "the store carries out nothing more",
        };
        Failure::new(what).because(error).remedy(remedy)
    })
}

/// Returns the remedy for a store that failed while it was served, and what its clients may have
/// lost.
fn failed_store_remedy(sync: Sync, error: &CloseError) -> String {
    let remedy = if error.is_damage() {
        damaged_remedy(error.path())
    } else {
        "make room on the disk or repair it, then start it again".to_owned()
    };
    let lost = match sync {
        Sync::Always => "every change that was answered is on the disk",
        Sync::EverySecond if error.is_kept() => "every change that was answered is on the disk",
        Sync::EverySecond => "changes of the last second may be lost",
    };
    format!("{remedy}; {lost}")
}
