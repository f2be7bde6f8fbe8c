//! Evidence for one entry, out of the frame that holds it.
//!
//! `docs/format.md`, "Evidence".

use probity_format::DecodeError;
use probity_format::frame::Frame;
use probity_format::proof::{Evidence, Opens, ShownKey, ShownSection};
use probity_format::record::Record;
use probity_format::stream::Cipher;
use probity_format::tree::{Hash, inclusion_path_of, root_of};

use crate::opened::Opened;

/// The entry in its opened frame, and the leaves beside it as far as they can be computed.
pub(crate) struct Found {
    pub(crate) erased: bool,
    pub(crate) section: u32,
    salt: [u8; 16],
    row: Vec<u8>,
    pub(crate) leaves: Vec<Option<Hash>>,
}

impl Found {
    pub(crate) fn read(opened: &Opened, place: u32) -> Result<Self, DecodeError> {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let mut found = None;
        let mut leaves = Vec::new();
        let mut row = Vec::new();
        opened.for_each(&mut |visited| -> Result<(), DecodeError> {
            leaves.push(if visited.is_whole() {
                Some(visited.leaf(&mut row)?)
            } else {
                None
            });
            if visited.index == place {
                found = Some(Self {
                    erased: visited.erased,
                    section: visited.section,
                    salt: visited.salted_row(&mut row)?,
                    row: row.clone(),
                    leaves: Vec::new(),
                });
            }
            Ok(())
        })?;
        let found = found.ok_or_else(|| {
            DecodeError::new("frame", place, "has fewer entries than its record says")
        })?;
        Ok(Self { leaves, ..found })
    }
}

/// The entry and its path alone.
pub(crate) fn alone(found: Found, place: u32, record: &Record) -> Result<Evidence, String> {
    let leaves: Vec<Hash> = found.leaves.into_iter().flatten().collect();
    if *root_of(&leaves).as_bytes() != record.entry_root {
        return Err("does not have the entry root its record says".into());
    }
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    Ok(Evidence::Entry {
        salt: found.salt,
        row: found.row,
        path: inclusion_path_of(&leaves, place).unwrap_or_default(),
    })
}

/// The sections that hold an entry whose subjects' section is `own`.
pub(crate) fn sections(frame: &Frame<'_>, opened: &Opened, own: u32) -> Evidence {
    let leaves = frame.sealed_leaves();
    let path = |leaf| inclusion_path_of(&leaves, leaf).unwrap_or_default();
    let shown = numbers(own).filter_map(|number| {
        let place = usize::try_from(number).ok()?;
        let section = frame.clear.sections.get(place)?;
        Some(ShownSection {
            number,
            key: opened.opens(number),
            sealed: frame.sealed(section).to_vec(),
            path: path(place.saturating_add(1)),
        })
    });
    Evidence::Sections {
        clear: frame.clear.bytes().to_vec(),
        clear_path: path(0),
        shown: shown.collect(),
    }
}

/// The whole frame, of a log of version 2.
pub(crate) fn whole_frame(
    frame: &Frame<'_>,
    opened: &Opened,
    own: u32,
    cipher: Cipher,
) -> Evidence {
    let sealed = cipher == Cipher::Aes256Gcm;
    let keys = numbers(own)
        .filter(|_| sealed)
        .filter_map(|number| match opened.opens(number)? {
            Opens::Key(key) => Some(ShownKey { number, key }),
            Opens::People(_) => None,
        });
    Evidence::Frame {
        content: frame.content().to_vec(),
        keys: keys.collect(),
    }
}

/// The shared section and, where it differs, that of the subjects.
fn numbers(own: u32) -> impl Iterator<Item = u32> {
    std::iter::once(0).chain(Some(own).filter(|own| *own != 0))
}
