//! Placeholders for groups in chunks: a group is taken whole, so no record of its placeholder is
//! needed.

use std::collections::{BTreeMap, BTreeSet};

use super::chunk::{Budget, Chunk, Order, Unseen};
use crate::database::Dialect;
use crate::database::fragment::Fragment;
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::plan::place::Place;
use crate::plan::step::Step;
use crate::schema::ResolvedTable;
use crate::spec::Kind;
use crate::statements::row::{at, encoded, picked};
use crate::statements::table::among;

/// A group that was met, by the first of its rows.
struct Met {
    /// Its index among the rows that were read.
    index: usize,
    identity: Vec<Value>,
    /// Owner and grouping values.
    values: Vec<Value>,
}

/// Rows that were read, by their indices.
#[derive(Default)]
struct Seen {
    groups: Vec<Met>,
    /// Rows whose column is left as it is and was not changed before.
    idle: BTreeSet<usize>,
    /// Those of them whose column names nobody.
    of_nobody: BTreeSet<usize>,
}

impl Chunk<'_, '_> {
    /// Takes the next whole groups of a decorrelation, whose columns are its parts. Returns the
    /// number of rows. A group larger than a chunk is a chunk of its own.
    pub(super) fn advance_groups(
        &mut self,
        table: &ResolvedTable,
        step: &Step,
        place: &mut Place,
        budget: Budget,
    ) -> Result<usize, Error> {
        let rows = budget.rows();
        let part = usize::try_from(place.part).unwrap_or(usize::MAX);
        let Kind::Decorrelate { group_by, owners } = &step.kind else {
            place.next();
            return Ok(0);
        };
        let Some(column) = owners.get(part) else {
            place.next();
            return Ok(0);
        };
        let mut by = vec![column.clone()];
        by.extend(group_by.iter().cloned());
        let mut columns = table.identity.clone();
        columns.extend(by.iter().filter(|it| !table.identity.contains(it)).cloned());
        let unseen = Unseen {
            table,
            chosen: &step.chosen,
            place,
            order: Order::Rising,
        };
        let next = unseen.rows(self.work.database, &columns, rows)?;
        if next.is_empty() {
            place.enter(place.part.saturating_add(1));
            return Ok(0);
        }
        let behind = unseen.fragment(self.work.database);
        let Seen {
            groups,
            idle,
            of_nobody,
        } = self.groups(table, &columns, &by, &next)?;
        let (chosen, seen) =
            self.fitting_groups(table, (&by, &behind), &groups, (next.len(), budget))?;
        if seen == 0 {
            // A large group is left to the next chunk.
            return Ok(rows);
        }
        if let Some(row) = seen.checked_sub(1).and_then(|last| next.get(last)) {
            place.seen = picked(&columns, row, &table.identity);
        }
        let counted = self.work.applied.rows.clone();
        let before = self.work.applied.touched(table);
        if let Some(chosen) = chosen {
            let kind = Kind::Decorrelate {
                group_by: group_by.clone(),
                owners: vec![column.clone()],
            };
            let step = Step {
                chosen,
                kind,
                ..step.clone()
            };
            self.work.run(place.step, &step)?;
        }
        let of_nobody = of_nobody.range(..seen).count();
        self.work.applied.count_of_nobody(table, of_nobody);
        let idle = idle.range(..seen).count();
        let taken = usize::try_from(self.work.applied.touched(table).saturating_sub(before))
            .unwrap_or(usize::MAX);
        if part > 0 {
            // The rows were counted with the first column.
            self.work.applied.rows = counted;
        } else {
            self.work.applied.count(table, idle);
        }
        Ok(taken.max(seen))
    }

    /// Returns the groups of `rows` that are meant, and the rows that are not.
    fn groups(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        by: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Seen, Error> {
        let column = by.first().map_or("", String::as_str);
        let owners: Vec<&Value> = rows
            .iter()
            .filter_map(|row| at(columns, row, column))
            .collect();
        self.work
            .principals
            .meet_owners(self.work.database, &owners)?;
        let strangers = match self.work.user {
            Some(_) => BTreeSet::new(),
            None => self.work.picker().strangers(owners.into_iter())?,
        };
        let (mut read, mut met) = (Seen::default(), BTreeSet::new());
        for (index, row) in rows.iter().enumerate() {
            let values = picked(columns, row, by);
            let owner = values.first().filter(|it| !it.is_nobody());
            if owner.is_some_and(|owner| self.work.principals.made.contains(&owner.principal())) {
                continue;
            }
            if owner.is_some_and(|owner| strangers.contains(&owner.principal())) {
                read.idle.insert(index);
                read.of_nobody.insert(index);
            } else if !owner.is_some_and(|owner| self.work.principals.is_meant(owner)) {
                read.idle.insert(index);
            } else if met.insert(encoded(&values)) {
                read.groups.push(Met {
                    index,
                    identity: picked(columns, row, &table.identity),
                    values,
                });
            }
        }
        Ok(read)
    }

    /// Returns as many whole groups as the budget allows: the condition that selects them, and the
    /// number of read rows that are done with them.
    fn fitting_groups(
        &mut self,
        table: &ResolvedTable,
        (by, behind): (&[String], &Fragment),
        groups: &[Met],
        (read, budget): (usize, Budget),
    ) -> Result<(Option<Fragment>, usize), Error> {
        let (mut fitting, mut total) = (Vec::new(), 0_usize);
        let mut seen = read;
        let (mut rest, mut some) = (groups, 1_usize);
        // Each query asks about more groups than the one before. So small groups need few queries,
        // and few rows of large ones are counted in vain.
        'all: while !rest.is_empty() {
            let (asked, later) = rest.split_at(some.min(rest.len()));
            (rest, some) = (later, some.saturating_mul(2));
            let sizes = self.sizes(table, (by, behind), asked)?;
            for group in asked {
                let size = sizes.get(&encoded(&group.values)).copied().unwrap_or(1);
                let alone = total == 0 && matches!(budget, Budget::Fresh(_));
                if !alone && total.saturating_add(size) > budget.rows() {
                    seen = group.index;
                    break 'all;
                }
                total = total.saturating_add(size);
                fitting.push(group);
            }
        }
        let chosen = (!fitting.is_empty()).then(|| self.of_groups(table, (by, behind), &fitting));
        Ok((chosen, seen))
    }

    /// Returns the number of rows of each of `groups`.
    fn sizes(
        &mut self,
        table: &ResolvedTable,
        (by, behind): (&[String], &Fragment),
        groups: &[Met],
    ) -> Result<BTreeMap<Vec<u8>, usize>, Error> {
        let dialect = self.work.database.dialect();
        let chosen = self.of_groups(table, (by, behind), &groups.iter().collect::<Vec<_>>());
        let columns = compared(dialect, table, by).join(",");
        let sql = format!(
            "SELECT {columns}, COUNT(*) FROM {} WHERE {} GROUP BY {columns}",
            dialect.quote(&table.name),
            chosen.sql
        );
        let rows = self
            .work
            .database
            .query(&sql, &chosen.parameters)
            .doing("counting the rows of groups")?;
        let mut sizes = BTreeMap::new();
        for mut row in rows {
            if let Some(Value::Int(count)) = row.pop() {
                sizes.insert(encoded(&row), usize::try_from(count).unwrap_or(usize::MAX));
            }
        }
        Ok(sizes)
    }

    /// Returns the condition for all rows after the place that belong to `groups`. The values are
    /// compared inside the database, where each equals itself whatever its type.
    fn of_groups(
        &self,
        table: &ResolvedTable,
        (by, behind): (&[String], &Fragment),
        groups: &[&Met],
    ) -> Fragment {
        let dialect = self.work.database.dialect();
        let own = self
            .work
            .database
            .tenancy()
            .and(dialect, &table.name, "probity_first");
        let name = dialect.quote(&table.name);
        let mut by_nulls: BTreeMap<Vec<bool>, Vec<&Met>> = BTreeMap::new();
        for group in groups {
            let nulls = group.values.iter().map(Value::is_null).collect();
            by_nulls.entry(nulls).or_default().push(group);
        }
        let (mut any, mut parameters) = (Vec::new(), behind.parameters.clone());
        for (nulls, groups) in by_nulls {
            let (mut all, mut values) = (Vec::new(), Vec::new());
            for (column, null) in by.iter().zip(nulls) {
                if null {
                    all.push(format!("{} IS NULL", dialect.quote(column)));
                } else {
                    values.push(column.clone());
                }
            }
            let values = compared(dialect, table, &values).join(",");
            all.push(format!(
                "({values}) IN (SELECT {values} FROM {name} AS probity_first WHERE {}{})",
                among(dialect, &table.identity, groups.len()),
                own.sql
            ));
            any.push(all.join(" AND "));
            parameters.extend(groups.iter().flat_map(|it| it.identity.iter().cloned()));
            parameters.extend_from_slice(&own.parameters);
        }
        Fragment {
            sql: format!("({}) AND ({})", behind.sql, any.join(" OR ")),
            parameters,
        }
    }
}

/// Returns the columns in a form that can be compared.
fn compared(dialect: Dialect, table: &ResolvedTable, columns: &[String]) -> Vec<String> {
    let form = |column: &String| {
        let declared = table.catalog.column(column).map(|it| it.declared.as_str());
        let quoted = dialect.quote(column);
        match (dialect, declared) {
            (Dialect::Postgres, Some("json" | "xml")) => format!("{quoted}::text"),
            _ => quoted,
        }
    };
    columns.iter().map(form).collect()
}
