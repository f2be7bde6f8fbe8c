//! `pocket create --from`: the options of a takeover, and its progress.

use probity_disguise::database::connect;
use probity_vault::{Observer, Takeover, TakeoverOptions, VaultError};

use super::vault_failure::failure_of;
use super::{Place, Vault};
use crate::args::PocketCreate;
use crate::database_address::remedy_of_connection;
use crate::failure::Failure;
use crate::output::note;
use crate::progress::Progress;

/// Takes over the tables and rows of the database at `url` that the arguments choose.
pub(super) fn take_over(
    place: &Place,
    vault: &mut Vault,
    url: &str,
    args: &PocketCreate,
) -> Result<(), Failure> {
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
        for key in takeover.cut_keys() {
            note(&format!(
                "{} refers to {}, which is not taken over: it is a plain column here",
                key.column, key.target
            ));
        }
        takeover.run(vault, &mut Shown::default())
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
