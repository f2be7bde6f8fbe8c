//! References without which a removed row can come back, to get them later.

use crate::schema::{Reference, ResolvedSchema, ResolvedTable};

impl ResolvedSchema {
    /// Returns the column by which a row of `table` can come back without its reference, and get it
    /// later: NULL does not change there whose the row is. Columns of no other reference come first.
    pub(crate) fn emptiable<'r>(
        &self,
        table: &ResolvedTable,
        reference: &'r Reference,
    ) -> Option<&'r String> {
        let nullable = |it: &String| table.catalog.column(it).is_some_and(|it| it.nullable);
        let path = table.path.iter().filter_map(|path| path.steps.first());
        let path: Vec<&String> = path.flat_map(|it| &it.columns).collect();
        let may_be_empty = |it: &&String| {
            let counts = table.identity.contains(it) || table.people().any(|known| known == *it);
            nullable(it)
                && !counts
                && table.tenant.as_ref() != Some(*it)
                && !path.contains(it)
                && !table.is_matched_full(it)
        };
        self.least_shared(table, &reference.columns, may_be_empty)
    }

    /// Returns whether a removed row of `table` may come back before the row to which this reference
    /// leads.
    pub(crate) fn may_come_before(&self, table: &ResolvedTable, reference: &Reference) -> bool {
        !table.declares(reference) || self.emptiable(table, reference).is_some()
    }

    /// Returns the column of a reference by `columns` to empty, of those that `may_be_empty`: one of
    /// no other reference and no key to which rows refer, if there is any.
    pub(crate) fn least_shared<'c>(
        &self,
        table: &ResolvedTable,
        columns: &'c [String],
        may_be_empty: impl Fn(&&String) -> bool,
    ) -> Option<&'c String> {
        let columns_of = columns.iter().filter(|it| may_be_empty(it));
        columns_of.min_by_key(|it| self.is_of_another(table, columns, it))
    }

    /// Returns whether `column`, of the reference by `columns`, is part of another reference too, or
    /// of a key to which rows refer.
    fn is_of_another(&self, table: &ResolvedTable, columns: &[String], column: &String) -> bool {
        let mut own = table.references.iter();
        let mut all = self.tables.values().flat_map(|it| &it.references);
        own.any(|it| it.columns != columns && it.columns.contains(column))
            || all.any(|it| it.to_table == table.name && it.to_columns.contains(column))
    }
}
