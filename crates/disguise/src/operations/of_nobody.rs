//! Rows that name nobody, told of before everybody is disguised.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::Timestamp;

use super::disguiser::{Disguise, Disguiser};
use super::preview::Preview;
use crate::database::Database;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::execute::apply::chunk::Chunk;
use crate::execute::apply::{Applied, ApplyRequest, Forgotten};
use crate::plan::place::Place;
use crate::records::hold::Held;
use crate::spec::Spec;
use crate::transaction::transactions::Transactions;

/// The rows of a page.
const PAGE: usize = 1_000;

impl<D: Database> Preview<'_, D> {
    /// Returns a caution for each table with rows that a disguise of everybody leaves as they are:
    /// nobody whom they name is registered or has an account. All rows that `spec` means are read,
    /// a page at a time.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Spec`], [`Error::Value`] where it cannot be told whose rows
    /// are.
    pub fn cautions_of_nobody(
        &mut self,
        spec: &Spec,
        named: &BTreeMap<String, Value>,
    ) -> Result<Vec<String>, Error> {
        let rows = match self.rows_of_nobody(spec, named) {
            // Nobody is registered yet.
            Err(Error::NotInstalled) => return Ok(Vec::new()),
            rows => rows?,
        };
        let told = rows.iter().map(|(table, rows)| {
            let counted = match rows {
                1 => "1 row or value".to_owned(),
                rows => format!("{rows} rows and values"),
            };
            format!(
                "a disguise of everybody leaves {counted} of {table} as before: nobody whom they name is registered or has an account, so that nobody could bring them back"
            )
        });
        Ok(told.collect())
    }

    /// Returns how many rows and values of each table name nobody.
    fn rows_of_nobody(
        &mut self,
        spec: &Spec,
        named: &BTreeMap<String, Value>,
    ) -> Result<BTreeMap<String, u64>, Error> {
        spec.refuse_unknown(named, None)?;
        // Nothing with this time is written.
        let time = Timestamp::from_nanoseconds(0).map_err(|_range| Error::Forged)?;
        let request = ApplyRequest {
            spec,
            user: None,
            over: None,
            parameters: named.clone(),
            expires: None,
            time,
        };
        let mut all = Applied::none(DisguiseId(0));
        let options = self.options;
        let (mut place, mut more) = (Place::START, true);
        while more {
            let from = place.clone();
            let look = |open: &mut Transactions<D>| {
                // The transaction may be tried again.
                place.clone_from(&from);
                page_of_nobody(&mut Disguiser { open, options }, &request, &mut place)
            };
            let (found, goes_on) = self.transactions.tried_in_one(look)?;
            all.add(&found);
            more = goes_on;
        }
        Ok(all.of_nobody)
    }
}

/// Looks at the next page of rows. Returns the counts, and whether there are more.
fn page_of_nobody<D: Database>(
    disguiser: &mut Disguiser<'_, D>,
    request: &ApplyRequest<'_>,
    place: &mut Place,
) -> Result<(Applied, bool), Error> {
    let mut context = disguiser.context(None)?;
    // Holds keep nobody from looking.
    context.held = Held::of(BTreeSet::new());
    let steps = disguiser.steps(request, None)?;
    let disguise = Disguise {
        id: DisguiseId(0),
        request,
        owners: None,
        forgotten: &Forgotten::default(),
        earlier: None,
        away: None,
        most: None,
    };
    let mut more = false;
    let (found, _) = disguiser.disguise(&context, disguise, |work| {
        more = Chunk::new(work, &steps).count_of_nobody(place, PAGE)?;
        Ok(())
    })?;
    Ok((found, more))
}
