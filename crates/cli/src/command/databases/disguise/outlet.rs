//! The destination of a new credential, opened before anything is committed under it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use probity_disguise::{Error, Registration, SHARES};
use serde::Serialize;
use zeroize::Zeroizing;

use super::change::print_entry;
use super::credential::CredentialFile;
use super::recorder::{LogEnd, Recorded};
use super::{AnyEngine, refused};
use crate::envelope::enveloped;
use crate::failure::{Failure, Status};
use crate::output::{Output, is_discarded, note};

#[derive(Serialize)]
struct Registered<'a> {
    user: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credential_file: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    share_files: Vec<String>,
}

/// The destination of a new credential: files created before it, or standard output.
pub(super) struct Outlet {
    user: String,
    json: bool,
    whole: Option<CredentialFile>,
    shares: Vec<CredentialFile>,
    /// The reason why it could not be handed over.
    failure: Option<Failure>,
    is_handed_over: bool,
}

impl Outlet {
    /// Creates the files.
    pub(super) fn open(
        (whole, shares): (Option<&Path>, &[PathBuf]),
        user: &str,
        json: bool,
    ) -> Result<Self, Failure> {
        if !shares.is_empty() && shares.len() != SHARES {
            return Err(Failure::usage(format!(
                "a token has {SHARES} shares, and {} files are named",
                shares.len()
            ))
            .remedy("give --share-out three times, each with a new file"));
        }
        if whole.is_none() && shares.is_empty() && is_discarded() {
            return Err(Failure::usage(
                "standard output is closed or discarded, and the credential would be lost",
            )
            .remedy("name a new file for it with --credential-out FILE; nothing was changed"));
        }
        let mut outlet = Self {
            user: user.to_owned(),
            json,
            whole: whole.map(CredentialFile::create).transpose()?,
            shares: Vec::new(),
            failure: None,
            is_handed_over: false,
        };
        for share in shares {
            match CredentialFile::create(share) {
                Ok(file) => outlet.shares.push(file),
                Err(failure) => {
                    outlet.give_up();
                    return Err(failure);
                }
            }
        }
        Ok(outlet)
    }

    /// Removes the files again; a credential in them opens nothing.
    fn give_up(&mut self) {
        let files = self.whole.take().into_iter();
        files
            .chain(self.shares.drain(..))
            .for_each(CredentialFile::give_up);
    }

    /// Returns the result of `done`, or removes the files if it failed.
    pub(super) fn unless_failed<T>(
        mut self,
        done: Result<T, Failure>,
    ) -> Result<(Self, T), Failure> {
        match done {
            Ok(done) => Ok((self, done)),
            Err(failure) => {
                self.give_up();
                Err(failure)
            }
        }
    }

    const fn has_files(&self) -> bool {
        self.whole.is_some() || !self.shares.is_empty()
    }

    /// Writes the credential, durably if it goes to files.
    fn take(&mut self, made: &Registration) -> Result<(), Failure> {
        if !self.shares.is_empty() {
            let token = made.token.as_ref();
            let token =
                token.ok_or_else(|| Failure::new("there is no token to split into shares"))?;
            let shares = token.split().map_err(refused)?;
            for (file, share) in self.shares.iter_mut().zip(&shares) {
                file.finish(&share.line())?;
            }
        } else if let Some(file) = &mut self.whole {
            file.finish(&made.line())?;
        } else {
            let line = made.line();
            let mut output = Output::new();
            if self.json {
                // The end of the document names the log entry, which exists once it is committed.
                let begun = Zeroizing::new(self.document(Some(&line))?);
                output.text(begun.strip_suffix('}').unwrap_or(&begun))?;
            } else {
                output.line(&line)?;
            }
            output.flush()?;
        }
        self.is_handed_over = true;
        Ok(())
    }

    fn document(&self, credential: Option<&str>) -> Result<String, Failure> {
        let document = Registered {
            user: &self.user,
            credential,
            credential_file: self.whole.as_ref().map(CredentialFile::shown),
            share_files: self.shares.iter().map(CredentialFile::shown).collect(),
        };
        serde_json::to_string(&enveloped(&document)).map_err(|error| Failure::output(error.into()))
    }

    fn done(&self) -> String {
        format!("the new credential of {} holds", self.user)
    }

    /// Prints the rest of the document after the commit.
    fn report(&self, entry: Option<&Recorded>) -> Result<(), Failure> {
        if !self.json {
            return self.tell(entry);
        }
        let mut output = Output::after(self.done());
        if self.has_files() {
            let begun = self.document(None)?;
            output.text(begun.strip_suffix('}').unwrap_or(&begun))?;
        }
        if let Some(entry) = entry {
            let entry = serde_json::to_string(entry);
            let entry = entry.map_err(|error| Failure::output(error.into()))?;
            output.text(&format!(",\"entry\":{entry}"))?;
        }
        output.line("}")?;
        output.flush()
    }

    /// Tells after the commit where the credential is. Beside one on standard output nothing else is
    /// printed there.
    fn tell(&self, entry: Option<&Recorded>) -> Result<(), Failure> {
        let files = self.whole.iter().chain(&self.shares);
        let files: Vec<String> = files.map(CredentialFile::shown).collect();
        if files.is_empty() {
            return Ok(());
        }
        let mut output = Output::after(self.done());
        output.line(&format!(
            "the credential of {} is in {}",
            self.user,
            files.join(", ")
        ))?;
        print_entry(entry, &mut output)?;
        output.flush()
    }

    /// Removes or disowns a credential whose operation failed.
    fn ended_with(&mut self, error: &Error) {
        if !error.is_undone() {
            note(
                "note: keep the new credential and the old one: either may be the one that fits; `probity disguise list` tells which",
            );
        } else if self.has_files() {
            self.give_up();
        } else if self.is_handed_over {
            note("note: the credential that was printed opens nothing");
        }
    }
}

/// An outlet to which an engine hands a credential over.
pub(super) struct Handing(Rc<RefCell<Outlet>>);

impl Handing {
    pub(super) fn over(outlet: Outlet, engine: &mut AnyEngine) -> Self {
        let outlet = Rc::new(RefCell::new(outlet));
        let taker = Rc::clone(&outlet);
        engine.set_hand_over(Box::new(move |made| {
            let mut outlet = taker.borrow_mut();
            outlet.take(made).map_err(|failure| {
                let said = failure.to_string();
                outlet.failure = Some(failure);
                said.into()
            })
        }));
        Self(outlet)
    }

    /// Reports the outcome; `recorded` closes the log.
    pub(super) fn finish(
        self,
        made: Result<Registration, Error>,
        recorded: impl FnOnce(Result<(), Failure>) -> Result<((), Option<Recorded>, LogEnd), Failure>,
    ) -> Result<Status, Failure> {
        let done = match made {
            Ok(_) => Ok(()),
            Err(error) => {
                let mut outlet = self.0.borrow_mut();
                outlet.ended_with(&error);
                Err(outlet.failure.take().unwrap_or_else(|| refused(error)))
            }
        };
        let ((), entry, log) = recorded(done)?;
        self.0.borrow().report(entry.as_ref())?;
        log.after(Status::Done)
    }
}
