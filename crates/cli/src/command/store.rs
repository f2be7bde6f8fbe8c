//! `probity store`: an embedded store that no proxy serves.

use std::path::Path;
use std::sync::Arc;

use probity_store::{OpenError, Options, RewriteError, Store};

use super::proxy::{
    STORE_FULL, read_policy, subject_of, warn_of_old_files, warn_of_unopened_blocks,
};
use crate::args::StoreRewrite;
use crate::failure::{Failure, Status};
use crate::key_file;
use crate::output::{Output, counted};
use crate::shell::quoted;

pub(crate) fn rewrite(args: &StoreRewrite) -> Result<Status, Failure> {
    let shown = args.dir.display();
    // Opening would create a store.
    if !Store::is_there(&args.dir) {
        return Err(Failure::new(format!("{shown} is no store"))
            .remedy("name the folder that the proxy was given with --store"));
    }
    let key = args
        .key
        .clone()
        .unwrap_or_else(|| Store::key_file(&args.dir));
    key_file::warn_if_open(&key, "the key of the store,");
    let options = Options {
        key_file: args.key.clone(),
        is_clear_trusted: args.from_clear,
        subject_of: subject_of(Arc::new(read_policy(args.policy.as_deref())?)),
        ..Options::default()
    };
    if args.damaged_too {
        return rewrite_damaged(args, &options);
    }
    let store = Store::open(&args.dir, options).map_err(|error| {
        let failure = Failure::new(format!("cannot open the store {shown}"));
        not_opened(failure.remedy(REFUSED), &args.dir, error)
    })?;
    warn_of_old_files(&store);
    warn_of_unopened_blocks(&store, &args.dir);
    store
        .rewrite()
        .map_err(|error| not_rewritten(args, error))?;
    store
        .close()
        .map_err(|error| Failure::new("the store could not be closed").because(error))?;
    let mut output = Output::after(format!("{shown} was rewritten"));
    output.line(&format!(
        "{shown} is rewritten; nothing that was removed is left in it"
    ))?;
    output.flush()?;
    Ok(Status::Done)
}

/// The remedy for a store that was not opened, and is not damaged.
const REFUSED: &str = "stop the proxy that serves it, if one does, and name its key file with --key where it lies elsewhere";

/// Adds to a failure to open a store its cause, and the remedy where the store is damaged or the
/// disk full.
pub(super) fn not_opened(failure: Failure, dir: &Path, error: OpenError) -> Failure {
    let failure = if error.is_full() {
        failure.remedy(STORE_FULL)
    } else if error.is_damage() {
        failure.remedy(match &error {
            // Of what is gone, no rewriting takes anything.
            OpenError::Data { path, .. } | OpenError::Subjects { path, .. } if !path.exists() => {
                PUT_BACK.to_owned()
            }
            _ => damaged_remedy(dir),
        })
    } else {
        failure
    };
    let failure = if error.is_not_what_was_written() {
        failure.of_damage()
    } else {
        failure
    };
    failure.because(error)
}

/// The remedy for a store of which nothing can be taken.
const PUT_BACK: &str = "copy the present files of the store aside, and put them back from one backup, of one time, which lacks whatever is newer";

/// Returns the remedy for a damaged store.
pub(super) fn damaged_remedy(dir: &Path) -> String {
    format!(
        "copy {} and the key file aside; put both files of the store back from one backup, of one time, which lacks whatever is newer; or take what is left of the present ones with: probity store rewrite {} --damaged-too",
        dir.display(),
        quoted(dir)
    )
}

fn not_rewritten(args: &StoreRewrite, error: RewriteError) -> Failure {
    let failure = Failure::new(format!(
        "{} may still hold what was removed",
        args.dir.display()
    ));
    let is_damage = error.is_damage();
    let remedy = if is_damage {
        damaged_remedy(&args.dir)
    } else if error.is_full() {
        STORE_FULL.to_owned()
    } else {
        "do as the cause says, and then run the same command again".to_owned()
    };
    let failure = failure.because(error).remedy(remedy);
    if is_damage {
        failure.of_damage()
    } else {
        failure
    }
}

/// Rewrites what is left of a store, and lists what is not.
fn rewrite_damaged(args: &StoreRewrite, options: &Options) -> Result<Status, Failure> {
    let shown = args.dir.display();
    let mut output = Output::new();
    let (mut losses, mut told) = (0_u64, Ok(()));
    let rewritten = Store::rewrite_damaged(&args.dir, options, &mut |loss| {
        losses += 1;
        if told.is_ok() {
            told = output.line(&format!("lost: {loss}"));
        }
    });
    // A list that nobody reads keeps nothing from being rewritten.
    let told = told.and_then(|()| output.flush());
    rewritten.map_err(|error| not_rewritten_damaged(args, error))?;
    let done = format!("{shown} was rewritten");
    told.map_err(|failure| failure.after(&done))?;
    output.set_done(done);
    let summary = match losses {
        0 => format!(
            "{shown} is rewritten; nothing is missing, and nothing that was removed is left in it"
        ),
        losses => format!(
            "{shown} is rewritten; {}",
            counted(
                losses,
                "line above says what is missing",
                "lines above say what is missing"
            )
        ),
    };
    output.line(&summary)?;
    output.flush()?;
    Ok(if losses == 0 {
        Status::Done
    } else {
        Status::Broken
    })
}

fn not_rewritten_damaged(args: &StoreRewrite, error: RewriteError) -> Failure {
    let is_damage = error.is_damage();
    let remedy = if is_damage {
        PUT_BACK
    } else if error.is_full() {
        STORE_FULL
    } else {
        REFUSED
    };
    // The error says that the store was not rewritten.
    let failure = Failure::new(args.dir.display().to_string());
    let failure = failure.because(error).remedy(remedy);
    if is_damage {
        failure.of_damage()
    } else {
        failure
    }
}
