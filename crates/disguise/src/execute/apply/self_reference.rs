//! Removals in chunks from a table that refers to itself: unreferred rows go first.

use std::collections::BTreeSet;

use super::applier::step_at;
use super::chunk::{Chunk, Met, Order, Unseen};
use crate::database::fragment::Fragment;
use crate::database::value::Value;
use crate::database::{Dialect, ForeignKey};
use crate::error::Error;
use crate::plan::place::Place;
use crate::plan::step::Step;
use crate::schema::ResolvedTable;
use crate::schema::generate::Generator;
use crate::spec::{Kind, Replacement};
use crate::statements::row::encoded;
use crate::statements::table::among;

/// The parts of such a step.
///
/// Rounds take the unreferred rows, until a round takes nothing. Left are rows of people who came
/// back, circles, and the rows they refer to. The former go along with rows of others to which they
/// refer. Then references that may be NULL become NULL, recorded like any overwritten value, and
/// rounds follow. The rest goes in one chunk, or is refused by the database.
mod part {
    /// A round that took nothing yet.
    pub(super) const ROUND: u32 = 0;
    /// A round that took something, so that another follows.
    pub(super) const FRUITFUL_ROUND: u32 = 1;
    /// Rows of people who came back go along with what they refer to; none did yet.
    pub(super) const ALONG: u32 = 2;
    /// Some went along, so a round follows.
    pub(super) const GONE_ALONG: u32 = 3;
    /// References become NULL; none did yet.
    pub(super) const EMPTYING: u32 = 4;
    /// Some became NULL, so a round follows.
    pub(super) const EMPTIED: u32 = 5;
    /// All remaining rows go.
    pub(super) const REST: u32 = 6;
}

impl Chunk<'_, '_> {
    /// Takes the next rows of a removal from a table that refers to itself. Returns their number.
    pub(super) fn advance_circle(
        &mut self,
        table: &ResolvedTable,
        place: &mut Place,
        rows: usize,
    ) -> Result<usize, Error> {
        let (_, step) = step_at(self.steps, place.step)?;
        match place.part {
            part::ROUND | part::FRUITFUL_ROUND => self.advance_leaves(table, place, rows),
            part::ALONG | part::GONE_ALONG => self.advance_along(table, place, rows),
            part::EMPTYING | part::EMPTIED => self.empty_references(table, step, place, rows),
            _ => {
                let unseen = Unseen {
                    table,
                    chosen: &step.chosen,
                    place,
                    order: Order::Rising,
                };
                let all = unseen.rows(self.work.database, &table.identity, 1)?;
                if !all.is_empty() {
                    self.work.run(place.step, step)?;
                }
                place.next();
                Ok(rows)
            }
        }
    }

    /// Removes rows to which no other row refers. Younger rows mostly refer to older ones, so the greatest keys come first.
    fn advance_leaves(
        &mut self,
        table: &ResolvedTable,
        place: &mut Place,
        rows: usize,
    ) -> Result<usize, Error> {
        let (_, step) = step_at(self.steps, place.step)?;
        let leaves = leaves(self.work.database.dialect(), table, &step.chosen);
        let unseen = Unseen {
            table,
            chosen: &leaves,
            place,
            order: Order::Falling,
        };
        let keys = unseen.rows(self.work.database, &table.identity, rows)?;
        let number = place.step;
        let parts = (part::FRUITFUL_ROUND, part::ALONG);
        self.advance_part(table, place, parts, &keys, |work| {
            work.remove_keys(table, number, &keys)
        })
    }

    /// Runs `work` on the rows with these keys, the next of a part, and notes when it took any.
    /// Then another round follows the part, else the `next` part does.
    fn advance_part(
        &mut self,
        table: &ResolvedTable,
        place: &mut Place,
        (fruitful, next): (u32, u32),
        keys: &[Vec<Value>],
        work: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let Some(last) = keys.last() else {
            let was_fruitful = place.part == fruitful;
            place.enter(if was_fruitful { part::ROUND } else { next });
            return Ok(0);
        };
        place.seen.clone_from(last);
        let before = self.work.applied.touched(table);
        // Rows that name nobody are met in each round, and once more with the rest.
        let counted = self.work.applied.of_nobody.clone();
        work(self)?;
        self.work.applied.of_nobody = counted;
        if self.work.applied.touched(table) > before {
            place.part = fruitful;
        }
        Ok(keys.len())
    }

    /// Removes rows of people who came back that refer to rows of others that go.
    fn advance_along(
        &mut self,
        table: &ResolvedTable,
        place: &mut Place,
        rows: usize,
    ) -> Result<usize, Error> {
        let mut keys = Vec::new();
        if let (Some(step), None) = (place.of(self.steps), self.work.user) {
            let unseen = Unseen {
                table,
                chosen: &step.chosen,
                place,
                order: Order::Rising,
            };
            keys = unseen.rows(self.work.database, &table.identity, rows)?;
        }
        let number = place.step;
        let parts = (part::GONE_ALONG, part::EMPTYING);
        self.advance_part(table, place, parts, &keys, |work| {
            work.drag(table, number, &keys)
        })
    }

    /// Removes rows of people who came back that refer to those of `keys` that go, and all rows that refer to them in turn.
    fn drag(
        &mut self,
        table: &ResolvedTable,
        number: u32,
        keys: &[Vec<Value>],
    ) -> Result<(), Error> {
        let (at, step) = step_at(self.steps, number)?;
        let doomed = self.doomed(table, keys)?;
        let mut met = Met::new();
        let own = table.references.iter();
        for reference in own.filter(|it| it.to_table == table.name) {
            let referring = self.referring(table, step, reference, (table, &doomed))?;
            let others = self.doomed(table, &referring)?;
            let others: BTreeSet<Vec<u8>> = others.iter().map(|key| encoded(key)).collect();
            let mut kept = referring;
            kept.retain(|key| {
                let name = encoded(key);
                !others.contains(&name) && met.insert((table.name.clone(), name))
            });
            self.take_along(at, (table, &kept), &mut met)?;
            self.whoever_came_back(|work| work.run_keys(table, step, number, &kept))?;
        }
        Ok(())
    }

    /// Sets references of remaining rows to NULL, if allowed.
    fn empty_references(
        &mut self,
        table: &ResolvedTable,
        step: &Step,
        place: &mut Place,
        rows: usize,
    ) -> Result<usize, Error> {
        let dialect = self.work.database.dialect();
        let live = self.work.live;
        let columns: Vec<&String> = own_keys(table)
            .filter_map(|key| live.least_shared(table, &key.columns, |it| may_be_empty(table, it)))
            .collect();
        let any = columns
            .iter()
            .map(|it| format!("{} IS NOT NULL", dialect.quote(it)));
        let any = any.collect::<Vec<_>>().join(" OR ");
        let mut keys = Vec::new();
        if !columns.is_empty() {
            let chosen = Fragment {
                sql: format!("({}) AND ({any})", step.chosen.sql),
                parameters: step.chosen.parameters.clone(),
            };
            let unseen = Unseen {
                table,
                chosen: &chosen,
                place,
                order: Order::Rising,
            };
            keys = unseen.rows(self.work.database, &table.identity, rows)?;
        }
        let counted = self.work.applied.rows.clone();
        let number = place.step;
        let parts = (part::EMPTIED, part::REST);
        let taken = self.advance_part(table, place, parts, &keys, |work| {
            for column in columns {
                work.empty(table, step, number, (column, &keys))?;
            }
            Ok(())
        });
        // The rows are counted again when they are removed.
        self.work.applied.rows = counted;
        taken
    }

    /// Sets a reference of the rows with these keys to NULL.
    fn empty(
        &mut self,
        table: &ResolvedTable,
        step: &Step,
        number: u32,
        (column, keys): (&String, &[Vec<Value>]),
    ) -> Result<(), Error> {
        let dialect = self.work.database.dialect();
        let chosen = Fragment {
            sql: format!(
                "{} AND {} IS NOT NULL",
                among(dialect, &table.identity, keys.len()),
                dialect.quote(column)
            ),
            parameters: keys.concat(),
        };
        let kind = if table.unlinks(column) {
            Kind::Unlink {
                column: column.clone(),
            }
        } else {
            Kind::Modify {
                column: column.clone(),
                replacement: Replacement::Drawn(Generator::Null),
            }
        };
        let step = Step {
            chosen,
            kind,
            of_going: true,
            ..step.clone()
        };
        self.work.run(number, &step)?;
        Ok(())
    }
}

/// Returns the selection `chosen` without the rows to which another row of the table refers.
pub(super) fn leaves(dialect: Dialect, table: &ResolvedTable, chosen: &Fragment) -> Fragment {
    let (name, child) = (dialect.quote(&table.name), "probity_child");
    let same = |from: &str, to: &str| {
        format!(
            "{child}.{} = {name}.{}",
            dialect.quote(from),
            dialect.quote(to)
        )
    };
    let itself = table.identity.iter().map(|key| same(key, key));
    let mut itself = itself.collect::<Vec<_>>().join(" AND ");
    if dialect == Dialect::Mysql {
        // InnoDB refuses to remove a row that refers to itself.
        "1=0".clone_into(&mut itself);
    }
    let mut sql = format!("({})", chosen.sql);
    for key in own_keys(table) {
        let refers = key.columns.iter().zip(&key.to_columns);
        let refers = refers.map(|(from, to)| same(from, to));
        let refers = refers.collect::<Vec<_>>().join(" AND ");
        sql = format!(
            "{sql} AND NOT EXISTS (SELECT 1 FROM {name} AS {child} WHERE {refers} AND NOT ({itself}))"
        );
    }
    Fragment {
        sql,
        parameters: chosen.parameters.clone(),
    }
}

/// Returns the foreign keys of a table to itself.
pub(super) fn own_keys(table: &ResolvedTable) -> impl Iterator<Item = &ForeignKey> {
    let keys = table.catalog.foreign_keys.iter();
    keys.filter(|key| key.to_table == table.name)
}

/// Returns whether a reference may be set to NULL and nothing else depends on it.
fn may_be_empty(table: &ResolvedTable, column: &String) -> bool {
    let names_people = table.people().any(|it| it == column) && !table.unlinks(column);
    let kept = table.identity.contains(column) || names_people;
    let nullable = table.catalog.column(column).is_some_and(|it| it.nullable);
    let is_free = !kept && table.tenant.as_ref() != Some(column);
    nullable && is_free && !table.is_matched_full(column)
}
