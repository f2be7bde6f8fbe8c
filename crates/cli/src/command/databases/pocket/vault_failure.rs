//! Refusals of the library, for the terminal, with the options that help.

use std::error::Error as _;
use std::path::Path;

use probity_pocketdb::Error;
use probity_vault::{EvidenceFault, Reached, VaultError};

use super::Place;
use super::schema::ADVICE;
use crate::failure::{Failure, chain_text};

impl Place {
    /// Translates a refusal of the library for the terminal, with its remedy.
    pub(super) fn vault_refused(&self, error: VaultError) -> Failure {
        match error {
            VaultError::Pocket(error) => self.refused(error),
            VaultError::Log(error) => error.into(),
            VaultError::Reached { at, cause, .. } => {
                let (at, cause) = within_script(at, *cause);
                self.vault_refused(cause).so(&at.to_string())
            }
            VaultError::NotEvidence(fault) => not_evidence(&self.file, &fault),
            error => {
                let failure = failure_of(&error);
                match remedy_of(&error) {
                    Some(remedy) => failure.remedy(self.named_in(&remedy)),
                    None => failure,
                }
            }
        }
    }
}

/// Returns the place of a refusal in a script: where the statement says the byte, that byte of the
/// script, and a cause without a place of its own.
fn within_script(reached: Reached, cause: VaultError) -> (Reached, VaultError) {
    match (reached, cause) {
        (
            Reached::Statement { number, at },
            VaultError::Pocket(Error::Sql { at: within, what }),
        ) => {
            let at = at.saturating_add(within);
            let cause = Error::Name(what);
            (Reached::Statement { number, at }, cause.into())
        }
        other => other,
    }
}

/// Returns the failure for evidence in the file at `path`, or of that file, that is not believed.
pub(super) fn not_evidence(path: &Path, fault: &EvidenceFault) -> Failure {
    let failure = broken(path, &fault.to_string());
    match fault.source() {
        Some(source) => failure.because(chain_text(source)),
        None => failure,
    }
}

pub(super) fn broken(path: &Path, what: &str) -> Failure {
    Failure::broken(format!("{}: {what}", path.display()))
        .remedy("take an undamaged copy, and the verifier key from whom you trust")
}

/// Returns the failure for a refusal that names no file.
pub(super) fn failure_of(error: &VaultError) -> Failure {
    let failure = Failure::new(error.to_string());
    let failure = match error.source() {
        Some(source) => failure.because(chain_text(source)),
        None => failure,
    };
    match remedy_of(error) {
        Some(remedy) => failure.remedy(remedy),
        None => failure,
    }
}

fn remedy_of(error: &VaultError) -> Option<String> {
    let remedy = match error {
        VaultError::NoTable { .. } => ADVICE,
        VaultError::NoTables => {
            "see that --from names the database, its schema and an account that may read; the tables of disguises are taken with --table TABLE"
        }
        VaultError::NoColumn { .. } => {
            "name columns of the table in the first line, with commas between them, or in each object; see them with: probity pocket schema FILE"
        }
        VaultError::NoHeading => "give it a first line with the names of the columns",
        VaultError::RepeatedColumn { .. } => "give them names of their own with AS",
        VaultError::NoPart => "make one with: probity pocket reorganize FILE",
        VaultError::Shows => "ask with: probity pocket query FILE SELECT",
        VaultError::Unended => "end it with COMMIT",
        VaultError::NoIndexedColumn { .. } => "write --index TABLE.COLUMN",
        VaultError::NoForeignKey { .. } => "write --unlinked TABLE.COLUMN",
        VaultError::NoPlainTable { .. } => "write --plain TABLE",
        VaultError::TooManyColumns { .. } => "choose other tables with --table TABLE",
        VaultError::WideRow { .. } => {
            "shorten the longest texts there, or choose other tables with --table TABLE"
        }
        VaultError::TooManyTables { .. } => "choose among them with --table TABLE",
        VaultError::Name { .. } => "rename it, or choose other tables with --table TABLE",
        VaultError::HiddenColumns { .. } => {
            "let the account SELECT from the whole table, or choose others with --table TABLE"
        }
        VaultError::TooSmall { .. } => "write it as 0, or into a column of texts",
        VaultError::NotUtf8 => "write it anew there, or choose other tables with --table TABLE",
        VaultError::Changed { .. } => {
            "let nothing change the table meanwhile, and run the same command again"
        }
        VaultError::StoreChanged => "let nothing change the store, and run the same command again",
        VaultError::Circle { .. } => {
            "take over a key of it as a plain column with --unlinked TABLE.COLUMN, or others with --table TABLE"
        }
        VaultError::TwoPaths { .. } => {
            "take one of these keys over as a plain column with --unlinked TABLE.COLUMN, or fewer tables with --table TABLE"
        }
        VaultError::OtherType { .. } => "choose other tables with --table TABLE",
        _ => return remedy_with_names(error),
    };
    Some(remedy.to_owned())
}

/// Returns the remedy that names a table or columns.
fn remedy_with_names(error: &VaultError) -> Option<String> {
    let remedy = match error {
        VaultError::Lost { table, .. } => {
            format!("take it over without with --plain {table}")
        }
        VaultError::TwoTargets { column, .. } => {
            format!("take it over as a plain column with --unlinked {column}")
        }
        VaultError::KeyOfKey { target, .. } => {
            format!("take that key over as a plain column with --unlinked {target}")
        }
        VaultError::NotReferred { columns, .. } => {
            format!(
                "the other database takes values for equal that are different here, or its key does not hold: take the key over as a plain column with --unlinked {}",
                columns.join(" or --unlinked ")
            )
        }
        VaultError::CompoundKey { columns, .. } => {
            format!("take its columns over as plain ones with --unlinked {columns}")
        }
        VaultError::Null {
            table,
            column,
            refers_to,
            is_unique,
            ..
        } => remedy_of_null(table, column, refers_to.as_deref(), *is_unique),
        _ => return None,
    };
    Some(remedy)
}

fn remedy_of_null(table: &str, column: &str, refers_to: Option<&str>, is_unique: bool) -> String {
    let remedy = if refers_to.is_some() {
        format!(
            "take the key over as a plain column with --unlinked {table}.{column} --null-as-empty"
        )
    } else {
        "take over NULL as 0 or an empty text with --null-as-empty".to_owned()
    };
    // One empty value may stand in such a column.
    if is_unique {
        format!(
            "{remedy}; where more than one row has NULL, add --plain {table}, which leaves its unique keys out"
        )
    } else {
        remedy
    }
}
