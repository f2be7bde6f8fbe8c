//! `pocket create --from`: the options of a takeover, and its progress.

use probity_disguise::database::connect;
use probity_vault::{Observer, Takeover, TakeoverOptions, VaultError};
use serde::Serialize;

use super::vault_failure::failure_of;
use super::{Place, Vault};
use crate::args::PocketCreate;
use crate::database_address::remedy_of_connection;
use crate::failure::Failure;
use crate::output::{counted, note};
use crate::progress::Progress;

/// Parts of another database that were not taken as they were.
#[derive(Serialize)]
pub(super) struct Untaken {
    /// Tables of the other database that are not taken over although none was chosen.
    left_out: Vec<String>,
    /// Tables that are not taken over, and whose rows the other database shows in one that is.
    left_out_heirs: Vec<HeirForm>,
    /// Foreign keys to tables that are not taken over.
    cut_keys: Vec<CutKeyForm>,
    /// Rules that are not kept, or not as strict: sentences.
    weakened: Vec<String>,
}

#[derive(Serialize)]
struct CutKeyForm {
    column: String,
    target: String,
}

#[derive(Serialize)]
struct HeirForm {
    heir: String,
    table: String,
}

impl Untaken {
    fn of(takeover: &Takeover) -> Self {
        let cut = takeover.cut_keys().iter().map(|key| CutKeyForm {
            column: key.column.clone(),
            target: key.target.clone(),
        });
        let heirs = takeover.left_out_heirs().iter().map(|it| HeirForm {
            heir: it.heir.clone(),
            table: it.table.clone(),
        });
        Self {
            left_out: takeover.left_out().to_vec(),
            left_out_heirs: heirs.collect(),
            cut_keys: cut.collect(),
            weakened: takeover
                .weakened()
                .iter()
                .map(ToString::to_string)
                .collect(),
        }
    }

    /// Says all of it.
    fn tell(&self) {
        for key in &self.cut_keys {
            note(&format!(
                "{} refers to {}, which is not taken over: it is a plain column here",
                key.column, key.target
            ));
        }
        if let Some(first) = self.left_out.first() {
            let number = u64::try_from(self.left_out.len()).unwrap_or(u64::MAX);
            let tables = counted(number, "table of disguises is", "tables of disguises are");
            note(&format!(
                "{tables} not taken over: --table {first} takes one, and --json lists them"
            ));
        }
        for HeirForm { heir, table } in &self.left_out_heirs {
            note(&format!(
                "the rows of {heir}, which inherits from {table}, are not taken over: {table} shows them there and not here"
            ));
        }
        self.weakened.iter().for_each(|rule| note(rule));
    }
}

/// Takes over the tables and rows of the database at `url` that the arguments choose.
pub(super) fn take_over(
    place: &Place,
    vault: &mut Vault,
    url: &str,
    args: &PocketCreate,
) -> Result<Untaken, Failure> {
    let mut options = TakeoverOptions::default();
    options.tables.clone_from(&args.tables);
    options.indexes.clone_from(&args.indexes);
    options.unlinked.clone_from(&args.unlinked);
    options.plain.clone_from(&args.plain);
    options.null_as_empty = args.null_as_empty;
    let database = connect(url).map_err(|error| {
        let remedy = remedy_of_connection(&error, url);
        failure_of(&VaultError::Source(Box::new(error))).remedy(remedy)
    })?;
    let run = Takeover::new(database, options).and_then(|takeover| {
        let untaken = Untaken::of(&takeover);
        takeover.run(vault, &mut Shown::default())?;
        // Of a takeover that fails nothing is left to be told of.
        untaken.tell();
        Ok(untaken)
    });
    run.map_err(|error| place.vault_refused(error))
}

/// The count of the rows of one table on the terminal.
#[derive(Default)]
struct Shown(Option<Progress>);

impl Observer for Shown {
    fn took(&mut self, number: u64) {
        if number == 1 {
            self.0 = None;
        }
        self.0
            .get_or_insert_with(|| Progress::new("rows"))
            .add_one();
    }
}
