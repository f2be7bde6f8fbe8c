//! The parsers of sealed records, for the fuzz targets.

use super::samples::{full_bag, full_locator};
use crate::crypto::record_key::RecordKey;
use crate::database::value::Value;
use crate::records::bag::Bag;
use crate::records::locator::{Locator, OWNER_BYTES};
use crate::records::shape::ShapeOf;
use crate::records::unawaited::Unawaited;

/// Reads a bag and encodes it again; nothing where it is refused.
pub fn bag(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(Bag::decode(bytes).ok()?.encode())
}

/// Reads a locator and encodes it again; nothing where it is refused.
pub fn locator(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(Locator::decode(bytes).ok()?.encode())
}

/// Returns bags with a section of each kind, and with nothing.
pub fn bags() -> Vec<Vec<u8>> {
    let mut of_nobody = full_bag();
    of_nobody.nobody = [vec![1, 2], vec![3]].into();
    let mut of_keys = of_nobody.clone();
    of_keys.named = [(vec![1], [5; 32]), (vec![4, 0], [6; 32])].into();
    let mut of_keys_alone = of_keys.clone();
    of_keys_alone.nobody.clear();
    let mut of_unawaited = of_keys_alone.clone();
    of_unawaited.unawaited = vec![Unawaited {
        table: "rooms".into(),
        columns: vec!["house".into(), "number".into()],
        keys: vec![vec![Value::from("x"), Value::Int(1)]],
        shape: ShapeOf::None,
    }];
    let mut of_shapes = of_unawaited.clone();
    for (shape, id) in of_shapes.shapes_mut().skip(1).zip([3, 4, 3, 4]) {
        *shape = ShapeOf::Named([id; 16]);
    }
    [
        full_bag(),
        of_nobody,
        of_keys,
        of_keys_alone,
        of_unawaited,
        of_shapes,
        Bag::empty(RecordKey::new([8; 32])),
    ]
    .map(|bag| bag.encode())
    .into()
}

/// Returns a locator of each version.
pub fn locators() -> Vec<Vec<u8>> {
    [None, Some([6; OWNER_BYTES])]
        .map(|owner| full_locator(owner).encode())
        .into()
}
