//! The program `probity`: parses, runs, and maps errors to an exit status.

use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _};
use probity_cli::args::Args;
use probity_cli::command;
use probity_cli::config::Environment;
use probity_cli::envelope;
use probity_cli::failure::{Failure, Status};
use probity_cli::help_width;
use probity_cli::planned;
use probity_cli::process;
use probity_cli::visible_text::visible_lines;

/// The advice at the end of an error in the usage.
const TRY_HELP: &str = "try '--help'";

fn main() -> ExitCode {
    if let Err(error) = process::withhold_memory() {
        complain(&format!(
            "warning: a crash may leave keys in a core dump: the system refuses to switch it off: {error}"
        ));
    }
    if let Err(error) = process::survive_file_limits() {
        complain(&format!(
            "warning: a limit of the size of files would end this process without a word: {error}"
        ));
    }
    panic::set_hook(Box::new(|panic| {
        // The panic's own text may quote data; its place is enough to find the fault.
        let place = panic
            .location()
            .map_or_else(String::new, |at| format!(" at {at}"));
        complain(&format!(
            "error: internal fault{place}\nhelp: entries with receipts are safe; please report this line with the version"
        ));
    }));
    envelope::ask(std::env::args_os().skip(1), &Args::command());
    let parsed = help_width::applied(Args::command()).try_get_matches();
    let args = match parsed.and_then(|matches| Args::from_arg_matches(&matches)) {
        Ok(args) => args,
        Err(usage) => return explain(&without_misleading_tip(usage)),
    };
    let environment = Environment::read();
    let ran = panic::catch_unwind(AssertUnwindSafe(|| command::run(args, &environment)));
    let status = match ran {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => report(&failure),
        Err(_panic) => {
            print_document(&Failure::new("internal fault"));
            Status::Failed
        }
    };
    ExitCode::from(status.code())
}

/// Removes the advice to pass an unknown option as a value: it is an option of other commands, or one
/// that was mistyped. For a command that there is not yet, names the way there is, and no other
/// command whose name is similar.
fn without_misleading_tip(mut usage: clap::Error) -> clap::Error {
    if usage.kind() == ErrorKind::UnknownArgument {
        usage.remove(ContextKind::Suggested);
    }
    let unknown = match usage.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => planned::instead_of(word),
        _ => None,
    };
    if let Some(instead) = unknown {
        usage.remove(ContextKind::SuggestedSubcommand);
        let tip = vec![StyledStr::from(instead)];
        usage.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
    }
    usage
}

/// Prints help, or the error in the usage.
fn explain(usage: &clap::Error) -> ExitCode {
    let printed = usage.print().and_then(|()| io::stdout().flush());
    let status = match printed {
        // Nobody is left to tell when standard error is gone.
        _ if usage.use_stderr() => {
            print_document(&wrong_usage(usage));
            Status::Usage
        }
        Ok(()) => Status::Done,
        // A reader of the help need not read to its end.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Status::Done,
        Err(error) => report(&Failure::output(error)),
    };
    ExitCode::from(status.code())
}

/// Prints the whole chain of causes once, then the remedy.
fn report(failure: &Failure) -> Status {
    complain(&failure.to_string());
    print_document(failure);
    failure.status()
}

/// Returns the error in the usage with its first paragraph as the message.
fn wrong_usage(usage: &clap::Error) -> Failure {
    let text = usage.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let first = text.split("\n\n").next().unwrap_or(text);
    let failure = Failure::usage(first.trim_end());
    if text.contains(TRY_HELP) {
        failure.remedy(TRY_HELP)
    } else {
        failure
    }
}

/// Prints the document of a command that failed, where JSON is wanted.
fn print_document(failure: &Failure) {
    if let Some(document) = envelope::failed(failure) {
        // The exit status says it too if nobody reads the document.
        drop(writeln!(io::stdout(), "{document}"));
    }
}

fn complain(text: &str) {
    // Nobody is left to tell when standard error is gone.
    drop(writeln!(io::stderr(), "{}", visible_lines(text)));
}
