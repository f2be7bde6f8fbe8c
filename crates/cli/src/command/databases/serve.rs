//! `probity serve`: answers HTTP requests, for applications in any language.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use probity_http::{Config, Server, StartError};
use zeroize::Zeroizing;

use super::disguise::read_signer;
use crate::args::Serve;
use crate::command::databases::subject_key;
use crate::command::signals::until_stopped_or;
use crate::command::{open_log_with, open_more_files, open_reader};
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::key_file;
use crate::output::{Output, note};
use crate::process;

/// The longest configuration, in bytes.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn run(args: &Serve, environment: &Environment) -> Result<Status, Failure> {
    let mut config = configuration(&args.config)?;
    warn_of_open_files(&args.config, &config);
    open_more_files();
    fit(&mut config)?;
    let signer = config.receipt_key.as_deref().map(read_signer).transpose()?;
    let place = &config.log;
    let key = place.key_file.as_deref();
    let options = args.key_interval.applied(environment.log_options());
    let log = open_log_with(&place.folder, key, environment, options)?;
    let folder = place.folder.display().to_string();
    let reader = open_reader(&config.log.folder, key, environment)?;
    let names = subject_key(&config.log.folder, key, environment)?;
    let logs = (log.clone(), reader, names);
    let server = Server::start(config, logs, signer, note).map_err(not_started)?;
    let address = server.address();
    let told = until_stopped_or(
        || log.is_poisoned(),
        || {
            let mut output = Output::new();
            output.line(&format!(
                "listening on http://{address}; recording to {folder}"
            ))?;
            output.flush()
        },
    );
    if log.is_poisoned() {
        note(
            "the log has failed and takes nothing more, so that nothing can be done: the server ends",
        );
    }
    server.stop();
    // Closing makes everything durable and publishes it.
    log.close()?;
    told?;
    note("stopped; everything that was begun is done and recorded");
    Ok(Status::Done)
}

/// Lowers the limit of connections where clients could take all files, so that the log keeps its
/// own.
fn fit(config: &mut Config) -> Result<(), Failure> {
    let Some(files) = process::open_files_max() else {
        return Ok(());
    };
    let lowered = config
        .fit(files)
        .map_err(|error| Failure::new("the server did not start").because(error))?;
    if let Some(connections) = lowered {
        note(&format!(
            "warning: limits.connections is {connections}, for this process may not have more files open; raise LimitNOFILE or ulimit -n"
        ));
    }
    Ok(())
}

/// Warns where others can read a password of a database.
fn warn_of_open_files(path: &Path, config: &Config) {
    let (files, is_here) = config.password_files();
    if is_here {
        key_file::warn_if_open(path, "the password in");
    }
    for file in files {
        key_file::warn_if_open(file, "the address of a database in");
    }
}

fn configuration(path: &Path) -> Result<Config, Failure> {
    let failed = |error| Failure::file("read", path, error);
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > CONFIG_BYTES_MAX {
        return Err(Failure::new(format!(
            "{} is longer than {CONFIG_BYTES_MAX} bytes",
            path.display()
        )));
    }
    // The file may hold the address of a database with a password.
    let room = usize::try_from(length).unwrap_or_default();
    let mut text = Zeroizing::new(String::with_capacity(room));
    let file = File::open(path).map_err(failed)?;
    file.take(CONFIG_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    Config::parse(&text, folder).map_err(|error| {
        Failure::new(format!("{} is refused", path.display()))
            .because(error)
            .remedy("see docs/http.md for what a configuration may say")
    })
}

fn not_started(error: StartError) -> Failure {
    let remedy = match &error {
        StartError::Listen { .. } => "stop what listens there, or change listen",
        StartError::Log(_) => "see the streams with: probity stream list DIR",
        _ => "change the configuration",
    };
    Failure::new("the server did not start")
        .because(error)
        .remedy(remedy)
}
