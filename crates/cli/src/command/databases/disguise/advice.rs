//! The commands that go on with a disguise in chunks, end it or take it back, in shell form.

use std::path::PathBuf;

use probity_disguise::database::{holds_password, is_address};
use probity_disguise::{DisguiseId, Error, Halted, Share};
use probity_log::StreamName;

use crate::args::{Apply, Attribution, DatabaseChoice, EntryChoice, List, Resume};
use crate::config::Environment;
use crate::failure::Failure;
use crate::shell::{Words, quoted};

/// The options of a command that the advised ones repeat.
///
/// Settings from the environment are named too, because another shell may not have them. An address
/// with a password is not: no command shows one.
pub(super) struct Advice<'a> {
    environment: &'a Environment,
    database: &'a DatabaseChoice,
    entry: &'a EntryChoice,
    user: Option<&'a str>,
    over: &'a [PathBuf],
    /// The credential with which it was begun is needed, and was not given.
    lacks_over: bool,
    chunk_rows: Option<u32>,
    share: Option<Share>,
    json: bool,
}

impl<'a> Advice<'a> {
    pub(super) fn of_apply(args: &'a Apply, environment: &'a Environment) -> Self {
        Self {
            environment,
            database: &args.database,
            entry: &args.entry,
            user: args.user.as_deref(),
            over: &args.over,
            lacks_over: false,
            chunk_rows: args.chunk_rows,
            share: args.share,
            json: args.json,
        }
    }

    pub(super) fn of_resume(args: &'a Resume, environment: &'a Environment) -> Self {
        Self {
            environment,
            database: &args.database,
            entry: &args.entry,
            user: None,
            over: &args.over,
            lacks_over: false,
            chunk_rows: Some(args.chunk_rows),
            share: args.pace.share,
            json: args.json,
        }
    }

    pub(super) fn of_list(args: &'a List, environment: &'a Environment) -> Self {
        Self {
            environment,
            database: &args.database,
            entry: &args.entry,
            user: Some(&args.holder.user),
            over: &[],
            lacks_over: false,
            chunk_rows: None,
            share: None,
            json: false,
        }
    }

    /// Returns the advice where the credential was not given with which the disguise was begun.
    pub(super) fn with_over(self) -> Self {
        Self {
            lacks_over: true,
            ..self
        }
    }

    /// Adds to the failure of a disguise in chunks which disguise was begun, and how to go on.
    pub(super) fn begun(&self, id: DisguiseId, failure: Failure) -> Failure {
        failure
            .after(&format!("disguise {id} was begun"))
            .also(&self.how_to_go_on(id))
    }

    /// Adds to the failure of a disguise in chunks which disguise may have been begun, if one.
    pub(super) fn halted(
        &self,
        Halted { begun, cause, .. }: Halted,
        unfit: impl Fn(Error) -> Failure,
    ) -> Failure {
        let (is_undone, failure) = (cause.is_undone(), unfit(cause));
        match begun {
            None => failure,
            Some(id) if is_undone => self.begun(id, failure),
            Some(id) => failure
                .after(&format!("disguise {id} was begun, unless this was undone"))
                .also(&self.how_to_go_on(id)),
        }
    }

    /// Refuses to begin again what was interrupted: that would be a second disguise over the first.
    pub(super) fn begun_before(&self, id: DisguiseId) -> Failure {
        Failure::new(format!(
            "disguise {id}, of the same specification for the same person, was begun and is not done yet"
        ))
        .remedy(self.how_to_go_on(id))
    }

    /// Returns the commands, each on a line of its own, where a shell takes it as it is.
    pub(super) fn how_to_go_on(&self, id: DisguiseId) -> String {
        let database = if self.is_named_by_environment() {
            ", where PROBITY_DB is set as here"
        } else {
            ""
        };
        format!(
            "go on with it, end it, or take back what is hidden with one of these{database}:\n{}\n{}\n{}",
            self.resume(id),
            self.cancel(id),
            self.reveal(id)
        )
    }

    fn resume(&self, id: DisguiseId) -> String {
        let mut words = self.begin("resume", id);
        for over in self.over {
            words.file("--over", Some(over));
        }
        if self.lacks_over {
            words.word("--over FILE");
        }
        if let Some(rows) = self.chunk_rows {
            words.option("--chunk-rows", &rows.to_string());
        }
        if let Some(share) = self.share {
            words.option("--share", &share.to_string());
        }
        self.finish(words)
    }

    fn cancel(&self, id: DisguiseId) -> String {
        self.finish(self.begin("cancel", id))
    }

    fn reveal(&self, id: DisguiseId) -> String {
        let mut words = self.begin("reveal", id);
        words.option("--user", self.user.unwrap_or("USER"));
        words.word("--credential FILE");
        self.finish(words)
    }

    /// Returns a command up to the disguise that it is about.
    fn begin(&self, command: &str, id: DisguiseId) -> Words {
        let mut words = Words::default();
        let heads = self.environment.heads.as_ref();
        if let (Some(heads), Some(_)) = (heads, &self.entry.log.log) {
            words.word("env");
            words.word(&format!("PROBITY_HEADS={}", quoted(heads)));
        }
        words.word("probity disguise");
        words.word(command);
        match (self.url(), &self.database.url_file) {
            (Some(url), _) => words.option("--db", url),
            (None, file) => words.file("--db-file", file.as_ref()),
        }
        if let Some(tenant) = &self.database.tenant {
            words.option("--tenant", tenant);
        }
        words.option("--id", &id.to_string());
        words
    }

    /// Adds what the commands say of the log and of who asks.
    fn finish(&self, mut words: Words) -> String {
        if let Some(log) = &self.entry.log.log {
            words.file("--log", Some(log));
            if self.entry.log.stream.as_str() != StreamName::DEFAULT {
                words.option("--stream", self.entry.log.stream.as_str());
            }
            let key = self
                .entry
                .log
                .key
                .as_ref()
                .or(self.environment.key_file.as_ref());
            words.file("--key", key);
        }
        let Attribution {
            actor,
            purpose,
            basis,
        } = &self.entry.attribution;
        for (name, said) in [
            ("--actor", actor),
            ("--purpose", purpose),
            ("--basis", basis),
        ] {
            if let Some(said) = said {
                words.option(name, said);
            }
        }
        words.flag("--json", self.json);
        words.0
    }

    /// Returns the address that a command may show.
    fn url(&self) -> Option<&str> {
        let of_environment = || {
            let url = self.environment.database.as_deref();
            url.filter(|_| self.database.url_file.is_none())
        };
        let url = self.database.url.as_deref().or_else(of_environment)?;
        (is_address(url) && !holds_password(url)).then_some(url)
    }

    fn is_named_by_environment(&self) -> bool {
        self.url().is_none() && self.database.url_file.is_none()
    }
}
