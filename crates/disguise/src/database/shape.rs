//! Shapes: the types and collations that the columns of a table had when rows of it were recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use probity_format::DecodeError;
use probity_format::wire::Reader;
use sha2::{Digest as _, Sha256};

use super::value::{put_bytes, put_count, take_text};
use super::{CatalogTable, Column, Times};

/// The most columns or members that a shape may have.
const LIST_MAX: usize = 1 << 20;
/// Bytes of the name of a shape.
pub(crate) const SHAPE_ID_BYTES: usize = 16;
/// The version of the form of a shape.
const SHAPE_VERSION: u8 = 1;

/// The beginning of the hash of a shape.
pub(crate) type ShapeId = [u8; SHAPE_ID_BYTES];

/// The columns of a table, as far as values depend on them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) id: ShapeId,
    pub(crate) table: String,
    pub(crate) columns: BTreeMap<String, Column>,
}

/// A shape as a record names it.
#[derive(Debug, Clone, Default)]
pub(crate) enum ShapeOf {
    /// The record is of a program that noted none, or of a table that is not there.
    #[default]
    None,
    /// The name alone: nobody asked for the shape, or it is not stored as it was.
    Named(ShapeId),
    Known(Arc<Shape>),
}

impl PartialEq for ShapeOf {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl ShapeOf {
    pub(crate) fn id(&self) -> Option<ShapeId> {
        match self {
            Self::None => None,
            Self::Named(id) => Some(*id),
            Self::Known(shape) => Some(shape.id),
        }
    }

    /// Returns the column as it was, if that is known.
    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        match self {
            Self::Known(shape) => shape.columns.get(name),
            Self::None | Self::Named(_) => None,
        }
    }
}

impl Shape {
    pub(crate) fn of(name: &str, table: &CatalogTable) -> Self {
        Self::new(name, table.columns.iter().cloned())
    }

    /// Returns the shape of a table with these columns.
    pub(crate) fn new(table: &str, columns: impl Iterator<Item = Column>) -> Self {
        let columns = columns.map(|it| {
            let column = Column {
                nullable: false,
                has_default: false,
                ..it
            };
            (column.name.clone(), column)
        });
        let mut shape = Self {
            id: ShapeId::default(),
            table: table.to_owned(),
            columns: columns.collect(),
        };
        shape.id = named(&shape.encode());
        shape
    }

    /// Returns the shape of the name `id`, if these are its bytes.
    pub(crate) fn read(id: ShapeId, content: &[u8]) -> Option<Self> {
        let shape = Self::decode(id, content).ok()?;
        (named(content) == id).then_some(shape)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![SHAPE_VERSION];
        put_bytes(&mut out, self.table.as_bytes());
        put_count(&mut out, self.columns.len());
        for (name, column) in &self.columns {
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, column.declared.as_bytes());
            // An empty text is neither a type nor a collation.
            for text in [&column.base, &column.collation] {
                put_bytes(&mut out, text.as_deref().unwrap_or_default().as_bytes());
            }
            put_count(&mut out, column.members.len());
            for member in &column.members {
                put_bytes(&mut out, member.as_bytes());
            }
            out.push(match column.times {
                None => 0,
                Some(Times::AsWritten) => 1,
                Some(Times::Utc) => 2,
            });
        }
        out
    }

    fn decode(id: ShapeId, content: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(content, "shape");
        if reader.u8()? != SHAPE_VERSION {
            return Err(reader.error("has an unknown version"));
        }
        let table = take_text(&mut reader)?;
        let mut columns = BTreeMap::new();
        for _ in 0..reader.length(LIST_MAX)? {
            let column = take_column(&mut reader)?;
            columns.insert(column.name.clone(), column);
        }
        if !reader.rest().is_empty() {
            return Err(reader.error("has more than its columns"));
        }
        Ok(Self { id, table, columns })
    }
}

pub(crate) fn named(content: &[u8]) -> ShapeId {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise shape\0");
    hash.update(content);
    let mut id = [0; SHAPE_ID_BYTES];
    id.iter_mut()
        .zip(hash.finalize())
        .for_each(|(to, from)| *to = from);
    id
}

fn take_column(reader: &mut Reader<'_>) -> Result<Column, DecodeError> {
    let (name, declared) = (take_text(reader)?, take_text(reader)?);
    let [base, collation] = [take_text(reader)?, take_text(reader)?];
    let count = reader.length(LIST_MAX)?;
    let members: Result<Vec<String>, _> = (0..count).map(|_| take_text(reader)).collect();
    let members = members?;
    let times = match reader.u8()? {
        0 => None,
        1 => Some(Times::AsWritten),
        2 => Some(Times::Utc),
        _ => return Err(reader.error("has a column that keeps times in an unknown way")),
    };
    Ok(Column {
        name,
        declared,
        base: (!base.is_empty()).then_some(base),
        members,
        collation: (!collation.is_empty()).then_some(collation),
        times,
        ..Column::default()
    })
}

/// The shapes that a connection knows.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    /// The names of those among the settings, as the transaction found them.
    pub(crate) stored: BTreeSet<Vec<u8>>,
    pub(crate) read: BTreeMap<ShapeId, Arc<Shape>>,
}

impl Shapes {
    /// Takes up the names of the shapes that are stored.
    pub(crate) fn found(&mut self, stored: BTreeSet<Vec<u8>>) {
        self.stored = stored;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        let column = |name: &str, declared: &str| Column {
            name: name.to_owned(),
            declared: declared.to_owned(),
            nullable: true,
            ..Column::default()
        };
        let table = CatalogTable {
            columns: vec![
                column("id", "bigint"),
                Column {
                    base: Some("text".to_owned()),
                    members: vec!["a".to_owned(), String::new()],
                    collation: Some("pg_catalog.\"C\"".to_owned()),
                    times: Some(Times::Utc),
                    ..column("kind", "of_kind")
                },
            ],
            ..CatalogTable::default()
        };
        Shape::of("posts", &table)
    }

    #[test]
    fn a_shape_comes_back_by_its_name_alone_and_no_cut_or_flip_panics() {
        let shape = shape();
        let bytes = shape.encode();
        assert_eq!(Shape::read(shape.id, &bytes).as_ref(), Some(&shape));
        assert_eq!(Shape::read([0; SHAPE_ID_BYTES], &bytes), None);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x55;
            assert_eq!(Shape::read(shape.id, &flipped), None);
            assert_eq!(Shape::read(shape.id, &bytes[..at]), None);
            drop(Shape::decode(shape.id, &flipped));
        }
    }

    #[test]
    fn tables_of_other_columns_have_other_shapes() {
        let mut other = shape();
        other.columns.remove("kind");
        assert_ne!(named(&other.encode()), shape().id);
        other.table = "notes".to_owned();
        assert_ne!(named(&other.encode()), shape().id);
    }
}
