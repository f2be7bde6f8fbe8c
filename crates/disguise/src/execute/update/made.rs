//! The types of columns that updates made, as they were when each update was recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

use super::typed::{Kind, Typed};
use super::unsaid::Nulls;
use super::{Mapping, Recorded};
use crate::database::shape::{Shape, named};
use crate::database::{Catalog, Column};
use crate::records::name::{digits, undigits};

/// Columns of tables that an update makes by expressions or constants, by the tables.
pub(super) type Made = BTreeMap<String, Arc<Shape>>;

impl Recorded {
    /// Returns `mapping` as it is recorded after its migration. The tables of `catalog` have then the
    /// types that it led to, but for those that `later` updates take on.
    pub(crate) fn of(mapping: &Mapping, catalog: &Catalog, later: &[Mapping]) -> Self {
        let is_sure = |table: &str| later.iter().all(|it| it.table != table);
        let mut made = Made::new();
        for (table, columns) in mapping.makes() {
            let there = catalog.get(table).filter(|_| is_sure(table));
            let columns: Vec<Column> = columns
                .filter_map(|name| there?.column(name).cloned())
                .collect();
            if !columns.is_empty() {
                // Several targets may be one table.
                let before = made.get(table).map(|it: &Arc<Shape>| it.columns.clone());
                let all = before.into_iter().flat_map(BTreeMap::into_values);
                let shape = Shape::new(table, all.chain(columns));
                made.insert(table.to_owned(), Arc::new(shape));
            }
        }
        Self {
            name: mapping.name.clone(),
            mapping: Some(mapping.clone()),
            made,
            was: Made::new(),
        }
    }

    /// Notes the columns that are NULL in its rows.
    pub(crate) fn note_nulls(&mut self, nulls: Nulls) {
        let into = self.mapping.as_mut().map(|it| &mut it.into);
        let Some(into) = into else {
            return;
        };
        for (number, column) in nulls {
            if let Some(target) = into.get_mut(number) {
                target.note_null(column);
            }
        }
    }

    /// Notes the types that its migration found.
    pub(crate) fn note_found(&mut self, found: Option<Arc<Shape>>) {
        self.was = found.into_iter().map(|it| (it.table.clone(), it)).collect();
    }

    /// Takes the types over that the columns had when the update was recorded in whose place this one
    /// is, and those that it found, if both say them by the same words.
    pub(crate) fn keep_types(&mut self, of: &Self) {
        let said = |it: &Self, column: &str| Some(it.mapping.as_ref()?.was.get(column)?.clone());
        let own = self.was.values().flat_map(|it| it.columns.values());
        let found = own.map(|it| {
            let is_same = said(self, &it.name) == said(of, &it.name);
            let then = of.was.values().find_map(|of| of.columns.get(&it.name));
            then.filter(|_| is_same).unwrap_or(it).clone()
        });
        let found: Vec<Column> = found.collect();
        for (table, shape) in &mut self.was {
            *shape = Arc::new(Shape::new(table, found.clone().into_iter()));
        }
        for (table, shape) in &mut self.made {
            let Some(then) = of.made.get(table) else {
                continue;
            };
            let columns = shape.columns.iter();
            let columns = columns.map(|(name, it)| then.columns.get(name).unwrap_or(it).clone());
            *shape = Arc::new(Shape::new(table, columns.collect::<Vec<_>>().into_iter()));
        }
        for (table, then) in &of.made {
            self.made
                .entry(table.clone())
                .or_insert_with(|| Arc::clone(then));
        }
    }

    /// Returns the column of a table that it makes, as it was when it was recorded.
    pub(super) fn column(&self, table: &str, name: &str) -> Option<&Column> {
        self.made.get(table)?.columns.get(name)
    }

    /// Returns rows of NULL with the types of those that such a row becomes; of an update by code
    /// the row itself.
    pub(super) fn outlined(&self, row: &Typed) -> Vec<Typed> {
        let mapping = self.mapping.as_ref().filter(|it| it.table == row.row.table);
        let Some(mapping) = mapping else {
            return vec![row.clone()];
        };
        let mut rows = mapping.outlined(row);
        for row in &mut rows {
            self.give_types(row);
        }
        rows
    }

    /// Gives the values that it made the types that their columns had.
    pub(super) fn give_types(&self, row: &mut Typed) {
        let Some(shape) = self.made.get(&row.row.table) else {
            return;
        };
        for (name, kind) in &mut row.kinds {
            if let (Kind::Made, Some(column)) = (&kind, shape.columns.get(name)) {
                *kind = Kind::Recorded(column.clone());
            }
        }
    }
}

/// Writes shapes as they are stored elsewhere, in hexadecimal.
pub(super) fn serialize<S: Serializer>(made: &Made, to: S) -> Result<S::Ok, S::Error> {
    let all = made.iter();
    let all = all.map(|(table, shape)| (table.as_str(), digits(&shape.encode())));
    all.collect::<BTreeMap<&str, String>>().serialize(to)
}

/// Reads shapes.
pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Made, D::Error> {
    let all = BTreeMap::<String, String>::deserialize(from)?;
    let shape = |text: &str| {
        let pairs = text.as_bytes().chunks(2);
        let bytes = pairs.map(|pair| undigits::<1>(std::str::from_utf8(pair).ok()?));
        let content: Vec<u8> = bytes.collect::<Option<Vec<_>>>()?.concat();
        Shape::read(named(&content), &content)
    };
    let all = all.into_iter().map(|(table, text)| {
        let shape = shape(&text).ok_or_else(|| D::Error::custom("is no shape of a table"))?;
        Ok((table, Arc::new(shape)))
    });
    all.collect()
}
