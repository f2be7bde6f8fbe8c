//! Evidence for one entry, out of the frame that holds it.
//!
//! `docs/format.md`, "Evidence".

use probity_format::DecodeError;
use probity_format::frame::Frame;
use probity_format::proof::{Evidence, Opens, ShownKey, ShownSection};
use probity_format::record::Record;
use probity_format::stream::Cipher;
use probity_format::tree::{Hash, inclusion_path_of, root_of};
use probity_format::width::to_usize;

use crate::error::LogError;
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
        let place = to_usize(place);
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

/// The entry and its path alone. `broken` makes the error for a frame that its record contradicts.
pub(crate) fn alone(
    found: Found,
    place: u32,
    record: &Record,
    broken: impl FnOnce(&str) -> LogError,
) -> Result<Evidence, LogError> {
    let leaves: Vec<Hash> = found.leaves.into_iter().flatten().collect();
    if *root_of(&leaves).as_bytes() != record.entry_root {
        return Err(broken("does not have the entry root its record says"));
    }
    Ok(Evidence::Entry {
        salt: found.salt,
        row: found.row,
        path: path_of(&leaves, to_usize(place))?,
    })
}

/// The path of a leaf to the root over `leaves`: a shorter one would prove nothing, and its
/// recipient would take the log for broken.
fn path_of(leaves: &[Hash], leaf: usize) -> Result<Vec<Hash>, LogError> {
    inclusion_path_of(leaves, leaf).ok_or(LogError::Defect {
        what: "an entry or a section has no leaf in its frame",
    })
}

/// The sections that hold an entry whose subjects' section is `own`.
pub(crate) fn sections(frame: &Frame<'_>, opened: &Opened, own: u32) -> Result<Evidence, LogError> {
    let leaves = frame.sealed_leaves();
    let shown = numbers(own).map(|number| {
        let place = to_usize(number);
        let section = frame.clear.sections.get(place).ok_or(LogError::Defect {
            what: "an entry was read from a section that its frame does not have",
        })?;
        Ok(ShownSection {
            number,
            key: opened.opens(number),
            sealed: frame.sealed(section).to_vec(),
            // The first leaf is the part in clear.
            path: path_of(&leaves, place.saturating_add(1))?,
        })
    });
    Ok(Evidence::Sections {
        clear: frame.clear.bytes().to_vec(),
        clear_path: path_of(&leaves, 0)?,
        shown: shown.collect::<Result<_, LogError>>()?,
    })
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

#[cfg(test)]
mod tests {
    use probity_format::tree::leaf_hash;

    use super::*;

    fn found(leaves: usize) -> Found {
        Found {
            erased: false,
            section: 0,
            salt: [0; 16],
            row: Vec::new(),
            leaves: vec![Some(leaf_hash(b"entry")); leaves],
        }
    }

    fn record(leaves: usize) -> Record {
        let root = root_of(&vec![leaf_hash(b"entry"); leaves]);
        Record {
            frame: 0,
            first_entry: 0,
            entries: 2,
            length: 0,
            time_min: 0,
            time_max: 0,
            sealed_root: root,
            entry_root: *root.as_bytes(),
            v2: None,
        }
    }

    /// An entry without a leaf was proved with an empty path, which its recipient takes for a forgery.
    /// It is a defect that is told where the proof is made.
    #[test]
    fn an_entry_without_a_leaf_is_no_evidence() {
        let prove = |place, leaves| {
            let broken = |reason: &str| panic!("{reason}");
            alone(found(leaves), place, &record(leaves), broken)
        };
        for place in 0..2 {
            let Ok(Evidence::Entry { path, .. }) = prove(place, 2) else {
                panic!("entry {place}");
            };
            assert_eq!(path, [leaf_hash(b"entry")]);
        }
        for place in [2, u32::MAX] {
            let refused = prove(place, 2);
            assert!(matches!(refused, Err(LogError::Defect { .. })), "{place}");
        }
    }
}
