//! `probity store`: an embedded store that no proxy serves.

use std::sync::Arc;

use probity_store::{Options, Store};

use super::proxy::{
    STORE_FULL, read_policy, subject_of, warn_of_old_files, warn_of_unopened_blocks,
};
use crate::args::StoreRewrite;
use crate::failure::{Failure, Status};
use crate::key_file;
use crate::output::Output;

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
    let store = Store::open(&args.dir, options).map_err(|error| {
        let failure = Failure::new(format!("cannot open the store {shown}"));
        if error.is_full() {
            return failure.because(error).remedy(STORE_FULL);
        }
        failure
            .because(error)
            .remedy("stop the proxy that serves it, if one does, and name its key file with --key where it lies elsewhere")
    })?;
    warn_of_old_files(&store);
    warn_of_unopened_blocks(&store, &args.dir);
    store.rewrite().map_err(|error| {
        Failure::new(format!("{shown} may still hold what was removed"))
            .because(error)
            .remedy("do as the cause says, or make room on the disk, then run the same command again; nothing stored is lost")
    })?;
    store
        .close()
        .map_err(|error| Failure::new("the store could not be closed").because(error))?;
    let mut output = Output::new();
    output.line(&format!(
        "{shown} is rewritten; nothing that was removed is left in it"
    ))?;
    output.flush()?;
    Ok(Status::Done)
}
