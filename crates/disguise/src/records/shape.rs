//! Shapes among the settings: each is stored once, in clear, since it says nothing of anybody; records
//! name it by its hash.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::database::placeholders;
use crate::database::shape::named;
pub(crate) use crate::database::shape::{Shape, ShapeId, ShapeOf};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::bag::Bag;
use crate::records::name::digits;
use crate::records::tables::{SETTINGS, bytes, uninstalled};
use crate::statements::table::insert_all;

/// The bytes before and after the names of all shapes among the settings.
pub(crate) const SHAPES: [&[u8]; 2] = [SHAPE, b"shape;"];
const SHAPE: &[u8] = b"shape:";
/// The name of a shape among the settings: `shape:` and its hexadecimal digits.
fn setting(id: &ShapeId) -> Vec<u8> {
    [SHAPE, digits(id).as_bytes()].concat()
}

/// Stores the shapes of the sections and keys of bags, where they are not stored yet.
pub(crate) fn put<'b>(
    database: &mut dyn TenantConnection,
    bags: impl Iterator<Item = &'b Bag>,
) -> Result<(), Error> {
    let mut new = BTreeMap::new();
    for shape in bags.flat_map(Bag::shapes) {
        if let ShapeOf::Known(shape) = shape {
            new.entry(shape.id).or_insert(shape);
        }
    }
    put_new(database, new.into_values())
}

/// Learns which shapes are stored.
pub(crate) fn find_stored(database: &mut dyn TenantConnection) -> Result<(), Error> {
    let names = all(database)?;
    let names = names.iter().map(|it| setting(&it.id)).collect();
    database.shapes().found(names);
    Ok(())
}

/// Stores shapes, where this connection does not know that they are.
pub(crate) fn put_new<'s>(
    database: &mut dyn TenantConnection,
    shapes: impl Iterator<Item = &'s Arc<Shape>>,
) -> Result<(), Error> {
    let mut rows = Vec::new();
    for shape in shapes {
        let name = setting(&shape.id);
        let known = database.shapes();
        known.read.insert(shape.id, Arc::clone(shape));
        if known.stored.insert(name.clone()) {
            rows.push(vec![bytes(&name), Value::Bytes(shape.encode())]);
        }
    }
    insert_all(database, SETTINGS, &["name", "value"], &rows)
}

/// Returns all shapes that are stored, and are what their names say.
pub(crate) fn all(database: &mut dyn TenantConnection) -> Result<Vec<Shape>, Error> {
    let sql = format!("SELECT name, value FROM {SETTINGS} WHERE name > ? AND name < ?");
    let rows = database.query(&sql, &SHAPES.map(bytes));
    let rows = rows.map_err(uninstalled)?.into_iter();
    let shape = |row: Vec<Value>| match <[Value; 2]>::try_from(row) {
        Ok([Value::Bytes(name), Value::Bytes(content)]) => {
            let id = named(&content);
            (setting(&id) == name).then(|| Shape::read(id, &content))?
        }
        _ => None,
    };
    Ok(rows.filter_map(shape).collect())
}

/// Looks up the shapes that a bag names. One that is missing, or that is not what the bag names,
/// stays unknown.
pub(crate) fn look_up(database: &mut dyn TenantConnection, bag: &mut Bag) -> Result<(), Error> {
    let known = |it: &ShapeOf| matches!(it, ShapeOf::Known(_));
    let unknown = bag.shapes().filter(|it| !known(it)).filter_map(ShapeOf::id);
    let all: BTreeSet<ShapeId> = unknown.collect();
    let read = &database.shapes().read;
    let asked = all.iter().filter(|id| !read.contains_key(*id));
    let asked: Vec<Value> = asked.map(|id| bytes(&setting(id))).collect();
    if !asked.is_empty() {
        let marks = placeholders(asked.len());
        let sql = format!("SELECT name, value FROM {SETTINGS} WHERE name IN ({marks})");
        let rows = database.query(&sql, &asked).map_err(uninstalled)?;
        let content: BTreeMap<Vec<u8>, Vec<u8>> = rows
            .into_iter()
            .filter_map(|row| match <[Value; 2]>::try_from(row) {
                Ok([Value::Bytes(name), Value::Bytes(content)]) => Some((name, content)),
                _ => None,
            })
            .collect();
        let found = all.iter().filter_map(|id| {
            let shape = Shape::read(*id, content.get(&setting(id))?)?;
            Some((*id, Arc::new(shape)))
        });
        database.shapes().read.extend(found.collect::<Vec<_>>());
    }
    let read = &database.shapes().read;
    for shape in bag.shapes_mut() {
        if let Some(found) = shape.id().and_then(|id| read.get(&id)) {
            *shape = ShapeOf::Known(Arc::clone(found));
        }
    }
    Ok(())
}
