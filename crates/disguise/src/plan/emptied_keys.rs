//! Keys that would hold rows which must go first, because whose they are is found over the others.

use std::collections::BTreeSet;

use super::step::{PlanContext, Step};
use crate::database::fragment::Fragment;
use crate::schema::ResolvedTable;
use crate::schema::generate::Generator;
use crate::spec::redact::Names;
use crate::spec::{Kind, Replacement};

impl PlanContext<'_> {
    /// Adds steps that empty references to rows which go before the rows that refer to them, where
    /// the reference may be NULL: rows on whose way to an owner the others lie go first, and the
    /// database would refuse that at once or after a chunk, or change the others.
    pub(super) fn with_emptied_keys(&self, steps: &[Step]) -> Vec<Step> {
        let mut emptied = BTreeSet::new();
        let mut planned = Vec::with_capacity(steps.len());
        for (at, step) in steps.iter().enumerate() {
            for (holder, column) in self.held_by(step, steps.get(at..).unwrap_or_default()) {
                if emptied.insert((holder.table.clone(), column.clone())) {
                    planned.push(self.emptying(holder, column));
                }
            }
            planned.push(step.clone());
        }
        planned
    }

    /// Returns the removals among `later` whose rows would hold those that `step` removes, each with
    /// the column to empty.
    fn held_by<'s>(&'s self, step: &Step, later: &'s [Step]) -> Vec<(&'s Step, &'s String)> {
        let of = self
            .live
            .table(&step.table)
            .filter(|_| step.kind == Kind::Remove);
        let path = of.and_then(|table| table.path.as_ref());
        let holders = later.iter().filter(|it| {
            it.kind == Kind::Remove && path.is_some_and(|path| path.leads_over(&it.table))
        });
        let mut held = Vec::new();
        for holder in holders {
            let Some(table) = self.live.table(&holder.table) else {
                continue;
            };
            let keys = table.catalog.foreign_keys.iter();
            let keys = keys.filter(|key| key.to_table == step.table);
            let columns = keys.filter_map(|key| {
                let may_empty = |it: &&String| may_empty(table, it);
                self.live.least_shared(table, &key.columns, may_empty)
            });
            held.extend(columns.map(|column| (holder, column)));
        }
        held
    }

    /// Returns the step that empties `column` of the rows that `holder` removes.
    fn emptying(&self, holder: &Step, column: &str) -> Step {
        let name = |it: &str| self.dialect.quote(it);
        let sql = format!(
            "({}) AND {}.{} IS NOT NULL",
            holder.chosen.sql,
            name(&holder.table),
            name(column)
        );
        Step {
            table: holder.table.clone(),
            chosen: Fragment {
                sql,
                parameters: holder.chosen.parameters.clone(),
            },
            kind: Kind::Modify {
                column: column.to_owned(),
                replacement: Replacement::Drawn(Generator::Null),
            },
            names: Names::default(),
            of_going: true,
        }
    }
}

/// Returns whether a reference may be NULL and nothing else depends on it.
fn may_empty(table: &ResolvedTable, column: &String) -> bool {
    let first = table.path.as_ref().and_then(|path| path.steps.first());
    let is_way = first.is_some_and(|step| step.columns.contains(column));
    let is_bound = table.identity.contains(column)
        || table.tenant.as_ref() == Some(column)
        || table.people().any(|it| it == column);
    let nullable = table.catalog.column(column).is_some_and(|it| it.nullable);
    nullable && !is_bound && !is_way && !table.is_matched_full(column)
}
