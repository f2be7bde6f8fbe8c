//! Columns whose type or collation is another one than hidden rows have, though no update says so: an expression that
//! reads one would find what the former type makes of it.

use super::Mapping;
use super::question::Now;
use super::typed::{Kind, Typed, Use};
use super::unsaid::before_migration;
use crate::database::{Column, Dialect};
use crate::error::Error;

impl Mapping {
    /// Refuses a mapping whose expressions read a column that it leaves as it is, and that has another type or collation
    /// now than rows have that may be hidden: the migration found the column as it is, or as it was, which only the
    /// order of two updates says. Of a column that is not there any more, or that is made anew, nothing is known.
    pub(super) fn refuse_changed_types(
        &self,
        dialect: Dialect,
        now: Now<'_>,
        rows: &[Typed],
    ) -> Result<(), Error> {
        let used = self.used();
        for row in before_migration(now.catalog.get(&self.table), rows) {
            for (name, kind) in &row.kinds {
                let Kind::Recorded(then) = kind else {
                    continue;
                };
                if let Some((table, live)) = self.left(now, (name, &used))
                    && !then.reads_as(dialect, live)
                    && !has_other_words(then, live)
                {
                    return Err(self.refusal(changed(&self.table, (name, then), (table, live))));
                }
            }
        }
        Ok(())
    }

    /// Returns the column of now, with its table, that has the values of a column which expressions read.
    fn left<'n>(
        &'n self,
        now: Now<'n>,
        (name, used): (&str, &Use),
    ) -> Option<(&'n str, &'n Column)> {
        if !used.meets(name) {
            return None;
        }
        let mut found = self.into.iter().flat_map(|target| {
            let columns = target.places_of(name);
            columns.map(move |column| (&*target.table, column))
        });
        found.find_map(|(table, column)| Some((table, now.column(table, &column)?)))
    }
}

fn changed(of: &str, (name, then): (&str, &Column), (table, live): (&str, &Column)) -> String {
    let described = |it: &Column| {
        let collation = it.collation.as_ref();
        let collation =
            collation.map_or_else(String::new, |it| format!(" with the collation {it}"));
        format!("{}{collation}", it.declared)
    };
    format!(
        "reads column {name} of {of}, which was {} when rows were hidden and is {} now in {table}, and no update says so. Where it was changed before this \
         migration, record an update of {of} first, with rest = true and sql = {{ {name} = \"{name}\" }}; where it was changed after, put that one behind \
         this one in the same file",
        described(then),
        described(live)
    )
}

/// Returns whether an enumeration has other words. Where it orders them, it is refused by itself.
fn has_other_words(then: &Column, live: &Column) -> bool {
    then.kind() == live.kind() && then.members != live.members
}
