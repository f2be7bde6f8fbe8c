//! The bytes of a bag (docs/disguise.md, "Records").

use std::collections::{BTreeMap, BTreeSet};

use probity_format::DecodeError;
use probity_format::wire::{Reader, put_varint};

use super::repeat::{Values, Writer};
use super::section::{PrincipalKind, Section, SpeaksFor};
use super::section_bytes::{
    decode_section, encode_held, encode_section, encode_shape, encode_shapes, take_held,
    take_shape, take_shapes,
};
use super::shape::{ShapeId, ShapeOf};
use super::unawaited::Unawaited;
use crate::crypto::record_key::RecordKey;
use crate::crypto::suite::{PublicKey, Suite};
use crate::database::value::{Value, put_bytes, put_count, take_bytes, take_text};
use crate::records::succession::Fingerprint;

/// The version of the bag's form, in which every public key is one of X25519.
const BAG_VERSION: u8 = 2;
/// The version in which public keys have their length before them.
const BAG_VERSION_OF_SUITES: u8 = 3;
/// The version that also names the ids of nobody in its removed rows.
const BAG_VERSION_OF_NOBODY: u8 = 4;
/// The version that also says by their keys whom its rows name.
const BAG_VERSION_OF_KEYS: u8 = 5;
/// The version that also names the rows for which removed rows do not wait.
const BAG_VERSION_OF_UNAWAITED: u8 = 6;
/// The version that also says of which shape the tables were.
const BAG_VERSION_OF_SHAPES: u8 = 7;
/// The version that also says which sections are held.
const BAG_VERSION_OF_HELD: u8 = 8;
/// The most entries a list in a bag may have.
pub(super) const LIST_MAX: usize = 1 << 28;
/// The least padded length.
const PADDED_BYTES_MIN: usize = 256;

/// Everything that one disguise hid from one principal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bag {
    /// Keys of the pseudoprincipals are derived from it.
    pub(crate) seed: RecordKey,
    /// Principals whose registration was removed with their row.
    pub(crate) principals: Vec<(Value, PublicKey, PrincipalKind)>,
    pub(crate) speaks_for: Vec<SpeaksFor>,
    pub(crate) sections: Vec<Section>,
    /// Names of those whom removed rows named and who had no account when the rows went. Records of
    /// programs before have none.
    pub(crate) nobody: BTreeSet<Vec<u8>>,
    /// Other people and placeholders whom its rows name and who were registered then, by name, with
    /// the fingerprints of their keys. An account with such an id is theirs only with that key, or
    /// one that took its place. Records of programs before have none.
    pub(crate) named: BTreeMap<Vec<u8>, Fingerprint>,
    /// Rows to which removed rows refer and for which they do not wait. Records of programs before
    /// have none.
    pub(crate) unawaited: Vec<Unawaited>,
}

impl Bag {
    /// Creates an empty bag.
    pub(crate) const fn empty(seed: RecordKey) -> Self {
        Self {
            seed,
            principals: Vec::new(),
            speaks_for: Vec::new(),
            sections: Vec::new(),
            nobody: BTreeSet::new(),
            named: BTreeMap::new(),
            unawaited: Vec::new(),
        }
    }

    /// Returns whether its own disguise changed something of its principal.
    pub(crate) fn has_changes(&self) -> bool {
        !self.principals.is_empty() || !self.sections.iter().all(Section::is_for_departed)
    }

    /// Returns whether nothing is in it.
    pub(crate) const fn is_empty(&self) -> bool {
        self.principals.is_empty() && self.speaks_for.is_empty() && self.sections.is_empty()
    }

    /// Returns the shapes that it names.
    pub(super) fn shapes(&self) -> impl Iterator<Item = &ShapeOf> {
        let sections = self.sections.iter().map(|it| &it.shape);
        sections.chain(self.unawaited.iter().map(|it| &it.shape))
    }

    pub(super) fn shapes_mut(&mut self) -> impl Iterator<Item = &mut ShapeOf> {
        let sections = self.sections.iter_mut().map(|it| &mut it.shape);
        sections.chain(self.unawaited.iter_mut().map(|it| &mut it.shape))
    }

    /// Returns the oldest version that has a place for everything in it.
    fn version(&self) -> u8 {
        let suites = self.principals.iter().map(|(_, public, _)| public.suite());
        let plain = suites.into_iter().all(|suite| suite == Suite::X25519);
        if self.sections.iter().any(|it| it.held.is_some()) {
            BAG_VERSION_OF_HELD
        } else if self.shapes().any(|it| it.id().is_some()) {
            BAG_VERSION_OF_SHAPES
        } else if !self.unawaited.is_empty() {
            BAG_VERSION_OF_UNAWAITED
        } else if !self.named.is_empty() {
            BAG_VERSION_OF_KEYS
        } else if !self.nobody.is_empty() {
            BAG_VERSION_OF_NOBODY
        } else if plain {
            BAG_VERSION
        } else {
            BAG_VERSION_OF_SUITES
        }
    }

    /// Returns its bytes, padded to a size class so that their length reveals little.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let version = self.version();
        let plain = version == BAG_VERSION;
        let mut out = vec![version];
        out.extend_from_slice(&*self.seed);
        let mut values = Writer::default();
        put_count(&mut out, self.principals.len());
        for (id, public, standing) in &self.principals {
            values.put(id, &mut out);
            if plain {
                out.extend_from_slice(public.as_bytes());
            } else {
                put_bytes(&mut out, &public.encode());
            }
            out.push(standing.code());
        }
        put_count(&mut out, self.speaks_for.len());
        for link in &self.speaks_for {
            values.put(&link.old, &mut out);
            values.put(&link.new, &mut out);
            put_varint(&mut out, u64::from(link.index));
            out.push(u8::from(link.gone) | u8::from(link.left) << 1 | u8::from(link.retained) << 2);
        }
        let shapes: BTreeSet<ShapeId> = self.shapes().filter_map(ShapeOf::id).collect();
        let shapes: Vec<ShapeId> = shapes.into_iter().collect();
        if version >= BAG_VERSION_OF_SHAPES {
            encode_shapes(&shapes, &mut out);
        }
        put_count(&mut out, self.sections.len());
        for section in &self.sections {
            encode_section(section, &mut values, &mut out);
            if version >= BAG_VERSION_OF_SHAPES {
                encode_shape(&section.shape, &shapes, &mut out);
            }
            if version >= BAG_VERSION_OF_HELD {
                encode_held(section.held, &mut out);
            }
        }
        if version >= BAG_VERSION_OF_NOBODY {
            put_count(&mut out, self.nobody.len());
            for name in &self.nobody {
                put_bytes(&mut out, name);
            }
        }
        if version >= BAG_VERSION_OF_KEYS {
            put_count(&mut out, self.named.len());
            for (name, key) in &self.named {
                put_bytes(&mut out, name);
                out.extend_from_slice(key);
            }
        }
        if version >= BAG_VERSION_OF_UNAWAITED {
            put_count(&mut out, self.unawaited.len());
            for rows in &self.unawaited {
                rows.encode(&mut values, &mut out);
                if version >= BAG_VERSION_OF_SHAPES {
                    encode_shape(&rows.shape, &shapes, &mut out);
                }
            }
        }
        out.push(1);
        let padded = padded_bytes(out.len());
        out.resize(padded, 0);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "bag");
        let version = reader.u8()?;
        if !(BAG_VERSION..=BAG_VERSION_OF_HELD).contains(&version) {
            return Err(reader.error("has an unknown version"));
        }
        let plain = version == BAG_VERSION;
        let seed = RecordKey::new(reader.array()?);
        let mut values = Values::default();
        let principals = take_principals(&mut reader, &mut values, plain)?;
        let speaks_for = take_links(&mut reader, &mut values)?;
        let shapes = if version >= BAG_VERSION_OF_SHAPES {
            take_shapes(&mut reader)?
        } else {
            Vec::new()
        };
        let count = reader.length(LIST_MAX)?;
        let mut sections = Vec::new();
        for _ in 0..count {
            let mut section = decode_section(&mut reader, &mut values)?;
            if version >= BAG_VERSION_OF_SHAPES {
                section.shape = take_shape(&mut reader, &shapes)?;
            }
            if version >= BAG_VERSION_OF_HELD {
                section.held = take_held(&mut reader)?;
            }
            sections.push(section);
        }
        let (mut nobody, mut named) = (BTreeSet::new(), BTreeMap::new());
        if version >= BAG_VERSION_OF_NOBODY {
            nobody = take_nobody(&mut reader)?;
        }
        if version >= BAG_VERSION_OF_KEYS {
            named = take_named(&mut reader)?;
        }
        let mut unawaited = Vec::new();
        if version >= BAG_VERSION_OF_UNAWAITED {
            for _ in 0..reader.length(LIST_MAX)? {
                let mut rows = Unawaited::decode(&mut reader, &mut values)?;
                if version >= BAG_VERSION_OF_SHAPES {
                    rows.shape = take_shape(&mut reader, &shapes)?;
                }
                unawaited.push(rows);
            }
        }
        let is_short = match version {
            BAG_VERSION_OF_NOBODY => nobody.is_empty(),
            BAG_VERSION_OF_KEYS => named.is_empty(),
            BAG_VERSION_OF_UNAWAITED => unawaited.is_empty(),
            BAG_VERSION_OF_SHAPES => shapes.is_empty(),
            BAG_VERSION_OF_HELD => sections.iter().all(|it| it.held.is_none()),
            _ => false,
        };
        if is_short {
            return Err(reader.error("has nothing where its version says that something is"));
        }
        if reader.u8()? != 1 || reader.rest().iter().any(|byte| *byte != 0) {
            return Err(reader.error("has wrong padding"));
        }
        Ok(Self {
            seed,
            principals,
            speaks_for,
            sections,
            nobody,
            named,
            unawaited,
        })
    }
}

/// Reads the principals; plain public keys are of X25519.
fn take_principals(
    reader: &mut Reader<'_>,
    values: &mut Values,
    plain: bool,
) -> Result<Vec<(Value, PublicKey, PrincipalKind)>, DecodeError> {
    let count = reader.length(LIST_MAX)?;
    let mut principals = Vec::new();
    for _ in 0..count {
        let id = values.take(reader)?;
        let public = if plain {
            PublicKey::X25519(reader.array()?)
        } else {
            PublicKey::decode(take_bytes(reader)?)
                .map_err(|_suite| reader.error("has a public key of an unknown suite"))?
        };
        let standing = PrincipalKind::from_code(reader.u8()?.into())
            .ok_or_else(|| reader.error("has an unknown kind of principal"))?;
        principals.push((id, public, standing));
    }
    Ok(principals)
}

/// Reads the speaks-for records.
fn take_links(reader: &mut Reader<'_>, values: &mut Values) -> Result<Vec<SpeaksFor>, DecodeError> {
    let count = reader.length(LIST_MAX)?;
    let mut speaks_for = Vec::new();
    for _ in 0..count {
        let (old, new) = (values.take(reader)?, values.take(reader)?);
        let index = u32::try_from(reader.varint()?)
            .map_err(|_wide| reader.error("has an index past 32 bits"))?;
        let flags = reader.u8()?;
        if flags > 7 {
            return Err(reader.error("has unknown flags of a speaks-for record"));
        }
        speaks_for.push(SpeaksFor {
            old,
            new,
            index,
            gone: flags & 1 != 0,
            left: flags & 2 != 0,
            retained: flags & 4 != 0,
        });
    }
    Ok(speaks_for)
}

/// Reads the names of those who had no account, in their order.
fn take_nobody(reader: &mut Reader<'_>) -> Result<BTreeSet<Vec<u8>>, DecodeError> {
    let count = reader.length(LIST_MAX)?;
    let mut nobody = BTreeSet::new();
    for _ in 0..count {
        let name = take_bytes(reader)?.to_vec();
        if nobody.last().is_some_and(|last| *last >= name) {
            return Err(reader.error("has names out of order"));
        }
        nobody.insert(name);
    }
    Ok(nobody)
}

/// Reads whom rows name by their keys, in the order of their names.
fn take_named(reader: &mut Reader<'_>) -> Result<BTreeMap<Vec<u8>, Fingerprint>, DecodeError> {
    let count = reader.length(LIST_MAX)?;
    let mut named = BTreeMap::new();
    for _ in 0..count {
        let name = take_bytes(reader)?.to_vec();
        if (named.last_key_value()).is_some_and(|(last, _)| *last >= name) {
            return Err(reader.error("has names out of order"));
        }
        named.insert(name, reader.array()?);
    }
    Ok(named)
}

pub(super) fn put_names(out: &mut Vec<u8>, names: &[String]) {
    put_count(out, names.len());
    for name in names {
        put_bytes(out, name.as_bytes());
    }
}

pub(super) fn take_names(reader: &mut Reader<'_>) -> Result<Vec<String>, DecodeError> {
    let count = reader.length(4_096)?;
    (0..count).map(|_| take_text(reader)).collect()
}

/// Returns the size class of `bytes`: at most about 12 % more, and few distinct lengths (the Padme
/// rule).
fn padded_bytes(bytes: usize) -> usize {
    if bytes <= PADDED_BYTES_MIN {
        return PADDED_BYTES_MIN;
    }
    let exponent = bytes.ilog2();
    let mantissa = exponent.ilog2().saturating_add(1);
    let step = 1_usize << exponent.saturating_sub(mantissa);
    bytes.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::super::section::{Change, Copied};
    use super::*;
    use crate::crypto::SecretKey;
    use crate::records::samples::full_bag;

    #[test]
    fn a_bag_comes_back_and_no_cut_or_flip_panics() {
        let bytes = full_bag().encode();
        assert_eq!(Bag::decode(&bytes).unwrap(), full_bag());
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x55;
            drop(Bag::decode(&flipped));
            drop(Bag::decode(&bytes[..at]));
        }
    }

    #[test]
    fn a_bag_with_keys_of_several_suites_comes_back() {
        let mut bag = full_bag();
        let hybrid = SecretKey::generate_of(Suite::XWing).unwrap();
        let hybrid = hybrid.public().unwrap();
        bag.principals
            .push((Value::Int(20), hybrid, PrincipalKind::Person));
        let bytes = bag.encode();
        assert_eq!(Bag::decode(&bytes).unwrap(), bag);
        for at in 0..bytes.len() {
            drop(Bag::decode(&bytes[..at]));
        }
    }

    #[test]
    fn a_bag_that_names_nobody_comes_back_and_takes_no_other_order() {
        let mut bag = full_bag();
        bag.nobody = [vec![1, 2], vec![1, 3]].into();
        let bytes = bag.encode();
        assert_eq!(bytes[0], 4);
        assert_eq!(Bag::decode(&bytes).unwrap(), bag);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x01;
            drop(Bag::decode(&flipped));
            drop(Bag::decode(&bytes[..at]));
        }
        let at = bytes.windows(3).position(|it| it == [2, 1, 2]).unwrap();
        let mut turned = bytes;
        turned[at + 2] = 4;
        assert!(Bag::decode(&turned).is_err());
    }

    #[test]
    fn a_bag_that_names_people_by_their_keys_comes_back_and_takes_no_other_order() {
        for nobody in [BTreeSet::new(), [vec![1, 2]].into()] {
            let mut bag = full_bag();
            (bag.nobody, bag.named) = (nobody, [(vec![7], [1; 32]), (vec![8], [2; 32])].into());
            let bytes = bag.encode();
            assert_eq!(bytes[0], 5);
            assert_eq!(Bag::decode(&bytes).unwrap(), bag);
            (0..bytes.len()).for_each(|at| drop(Bag::decode(&bytes[..at])));
            let at = bytes.windows(3).position(|it| it == [1, 7, 1]).unwrap();
            let mut turned = bytes;
            turned[at + 1] = 9;
            assert!(Bag::decode(&turned).is_err());
        }
    }

    #[test]
    fn a_bag_that_names_rows_which_are_not_awaited_comes_back() {
        for named in [BTreeMap::new(), [(vec![7], [1; 32])].into()] {
            let mut bag = full_bag();
            bag.named = named;
            bag.unawaited = vec![
                Unawaited {
                    table: "albums".into(),
                    columns: vec!["id".into()],
                    keys: vec![vec![Value::Int(1)], vec![Value::Int(2)]],
                    shape: ShapeOf::None,
                },
                Unawaited {
                    table: "rooms".into(),
                    columns: vec!["house".into(), "number".into()],
                    keys: vec![vec![Value::from("x"), Value::Int(1)]],
                    shape: ShapeOf::None,
                },
            ];
            let bytes = bag.encode();
            assert_eq!(bytes[0], 6);
            assert_eq!(Bag::decode(&bytes).unwrap(), bag);
            for at in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[at] ^= 0x01;
                drop(Bag::decode(&flipped));
                drop(Bag::decode(&bytes[..at]));
            }
        }
        // A later version does not hide an older one.
        let mut bytes = full_bag().encode();
        assert_eq!(bytes[0], 2);
        bytes[0] = 6;
        assert!(Bag::decode(&bytes).is_err());
    }

    #[test]
    fn a_bag_that_names_shapes_comes_back_and_takes_no_other_order() {
        let mut bag = full_bag();
        bag.sections[0].shape = ShapeOf::Named([9; 16]);
        bag.sections[1].shape = ShapeOf::Named([8; 16]);
        bag.sections[3].shape = ShapeOf::Named([9; 16]);
        bag.unawaited = vec![Unawaited {
            table: "albums".into(),
            columns: vec!["id".into()],
            keys: vec![vec![Value::Int(1)]],
            shape: ShapeOf::Named([8; 16]),
        }];
        let bytes = bag.encode();
        assert_eq!(bytes[0], BAG_VERSION_OF_SHAPES);
        assert_eq!(Bag::decode(&bytes).unwrap(), bag);
        (0..bytes.len()).for_each(|at| drop(Bag::decode(&bytes[..at])));
        let at = bytes.windows(16).position(|it| it == [8; 16]).unwrap();
        for place in [at, at - 1] {
            let mut turned = bytes.clone();
            turned[place] = 10;
            assert!(Bag::decode(&turned).is_err());
        }
    }

    #[test]
    fn a_bag_that_holds_sections_comes_back_and_says_so() {
        let mut bag = full_bag();
        bag.sections[2].held = Some(3);
        let bytes = bag.encode();
        assert_eq!(bytes[0], BAG_VERSION_OF_HELD);
        assert_eq!(Bag::decode(&bytes).unwrap(), bag);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x01;
            drop(Bag::decode(&flipped));
            drop(Bag::decode(&bytes[..at]));
        }
        // One that holds none is of a version before.
        bag.sections[2].held = None;
        assert_eq!(bag.encode()[0], BAG_VERSION);
    }

    /// Such rows take no bytes, so that a few bytes could ask for hundreds of millions of them.
    #[test]
    fn a_bag_with_rows_without_columns_is_refused() {
        let removed = Change::Removed {
            columns: Vec::new(),
            rows: vec![Vec::new()],
        };
        let row = Vec::new();
        let copied = Change::Copied {
            departed: false,
            columns: Vec::new(),
            rows: vec![Copied { version: 1, row }],
        };
        for change in [removed, copied] {
            let mut bag = full_bag();
            bag.sections = vec![Section {
                step: 0,
                table: "notes".into(),
                change,
                shape: ShapeOf::None,
                held: None,
            }];
            let refused = Bag::decode(&bag.encode()).unwrap_err().to_string();
            assert!(refused.contains("without columns"), "{refused}");
        }
    }

    #[test]
    fn size_classes_cost_little_and_are_few() {
        let classes: BTreeSet<usize> = (1..100_000).map(padded_bytes).collect();
        assert!(classes.len() < 200);
        assert!(
            (257..100_000)
                .all(|bytes| padded_bytes(bytes) >= bytes
                    && padded_bytes(bytes) * 100 <= bytes * 113)
        );
    }
}
