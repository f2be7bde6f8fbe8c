//! Blocks of the file that hold stored data. redb's trees are walked from the roots of its last
//! durable commit, as its `docs/design.md` describes them (file format 3).
//!
//! Anything else is an error: a block is called free only after every tree was read whole.

use std::io;
use std::ops::Range;

use redb::StorageBackend as _;

use crate::block_set::BlockSet;
use crate::seal::BLOCK_BYTES;
use crate::sealed_file::SealedFile;

/// Bytes of the header that are read.
pub(crate) const HEAD_BYTES: usize = 320;

/// The kind of error where the file is not of the form that is known. One that was damaged is another.
pub(crate) const FORM_UNKNOWN: io::ErrorKind = io::ErrorKind::Unsupported;

const MAGIC: &[u8; 9] = b"redb\x1A\x0A\xA9\x0D\x0A";
const SLOT_PLACES: [usize; 2] = [64, 192];
const FORMAT: u8 = 3;
pub(crate) const LEAF: u8 = 1;
pub(crate) const BRANCH: u8 = 2;
/// The kind of a table with one value a key; the store has no other.
pub(crate) const NORMAL_TABLE: u8 = 3;
const ROOT_BYTES: usize = 32;
pub(crate) const CHECKSUM_BYTES: usize = 16;
/// Largest page, as a power of two of blocks.
const ORDER_MAX: u32 = 20;
/// Deepest tree.
const DEPTH_MAX: usize = 64;

/// The roots of a commit, and how pages lie in the file.
#[derive(Debug, Clone)]
pub(crate) struct Roots {
    pub(crate) user: Option<Root>,
    system: Option<Root>,
    region_blocks: u64,
    region_head_blocks: u64,
}

/// The root page of a tree, and how many entries the tree has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Root {
    pub(crate) page: u64,
    pub(crate) length: u64,
}

/// The kind of a tree's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tree {
    /// Definitions of tables, each with the root of its own tree.
    Tables,
    Rows,
}

impl Roots {
    /// The roots of the commit that a header names as the last.
    pub(crate) fn of(head: &[u8]) -> io::Result<Self> {
        if head.get(..MAGIC.len()) != Some(MAGIC) || word(head, 12)? != BLOCK_BYTES as u64 {
            return Err(strange("the header"));
        }
        let state = *head.get(MAGIC.len()).ok_or_else(|| strange("the header"))?;
        let [first, second] = SLOT_PLACES;
        let at = if state & 1 == 0 { first } else { second };
        let slot = head.get(at..).ok_or_else(|| strange("the header"))?;
        let [format, has_user, has_system, ..] = *slot else {
            return Err(strange("the header"));
        };
        if format != FORMAT {
            return Err(strange("the format of the file"));
        }
        let region_head_blocks = word(head, 16)?;
        Ok(Self {
            user: root(slot, 8, has_user)?,
            system: root(slot, 8 + ROOT_BYTES, has_system)?,
            region_blocks: region_head_blocks + word(head, 20)?,
            region_head_blocks,
        })
    }

    /// Adds the blocks of the database's own tables to `live`.
    pub(crate) fn mark_system(&self, file: &SealedFile, live: &mut BlockSet) -> io::Result<()> {
        self.mark_tree(file, self.system, Tree::Tables, live)
    }

    /// Puts the blocks of the store's tables into `live`.
    pub(crate) fn mark_user(&self, file: &SealedFile, live: &mut BlockSet) -> io::Result<()> {
        self.mark_tree(file, self.user, Tree::Tables, live)
    }

    fn mark_tree(
        &self,
        file: &SealedFile,
        root: Option<Root>,
        tree: Tree,
        live: &mut BlockSet,
    ) -> io::Result<()> {
        let Some(root) = root else { return Ok(()) };
        let mut entries = 0;
        let mut left = vec![(root.page, 0)];
        while let Some((number, depth)) = left.pop() {
            let page = self.read_page(file, number, live)?;
            let [kind, _, low, high, ..] = *page.as_slice() else {
                return Err(strange("a page"));
            };
            let count = usize::from(u16::from_le_bytes([low, high]));
            if kind == BRANCH && count > 0 && depth < DEPTH_MAX {
                let start = 8 + CHECKSUM_BYTES * (count + 1);
                for child in 0..=count {
                    left.push((long(&page, start + 8 * child)?, depth + 1));
                }
            } else if kind == LEAF && count > 0 {
                entries += count as u64;
                if tree == Tree::Tables {
                    for index in 0..count {
                        let table = table_root(&page, index, count)?;
                        self.mark_tree(file, table, Tree::Rows, live)?;
                    }
                }
            } else {
                return Err(strange("a page"));
            }
        }
        // A tree of which a part was not seen would be taken for free.
        if entries == root.length {
            Ok(())
        } else {
            Err(strange("the length of a tree"))
        }
    }

    pub(crate) fn read_page(
        &self,
        file: &SealedFile,
        number: u64,
        live: &mut BlockSet,
    ) -> io::Result<Vec<u8>> {
        let blocks = self.blocks_of(number)?;
        let count = usize::try_from(blocks.end - blocks.start).map_err(io::Error::other)?;
        let first = blocks.start;
        for block in blocks {
            if !live.insert(block) {
                return Err(strange("a page that belongs to two trees"));
            }
        }
        let mut page = vec![0; BLOCK_BYTES * count];
        file.read((first + 1) * BLOCK_BYTES as u64, &mut page)?;
        Ok(page)
    }

    /// Returns the blocks of a page.
    pub(crate) fn blocks_of(&self, number: u64) -> io::Result<Range<u64>> {
        let order = u32::try_from(number >> 59).unwrap_or(u32::MAX);
        if order > ORDER_MAX {
            return Err(strange("the number of a page"));
        }
        let (region, index) = (number >> 20 & 0xF_FFFF, number & (0xF_FFFF >> order));
        let first = region * self.region_blocks + self.region_head_blocks + (index << order);
        Ok(first..first + (1 << order))
    }
}

/// Returns the root of the table that an entry of a leaf defines; none of an empty table.
fn table_root(page: &[u8], index: usize, count: usize) -> io::Result<Option<Root>> {
    // The ends of the keys, then those of the values.
    let end = |entry: usize| usize::try_from(word(page, 4 + 4 * entry).ok()?).ok();
    let start = match index {
        0 => end(count - 1),
        _ => end(count + index - 1),
    };
    let definition = start.zip(end(count + index));
    let definition = definition.and_then(|(start, end)| page.get(start..end));
    let definition = definition.ok_or_else(|| strange("the definition of a table"))?;
    let (kind, has_root) = (definition.first(), definition.get(9));
    match (kind, has_root) {
        (Some(&NORMAL_TABLE), Some(&has_root)) => root(definition, 10, has_root),
        _ => Err(strange("the definition of a table")),
    }
}

pub(crate) fn root(bytes: &[u8], at: usize, is_there: u8) -> io::Result<Option<Root>> {
    Ok(match is_there {
        0 => None,
        1 => Some(Root {
            page: long(bytes, at)?,
            length: long(bytes, at + 8 + CHECKSUM_BYTES)?,
        }),
        _ => return Err(strange("a root")),
    })
}

pub(crate) fn word(bytes: &[u8], at: usize) -> io::Result<u64> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    let found = found.ok_or_else(|| strange("a page"))?;
    Ok(u64::from(u32::from_le_bytes(*found)))
}

pub(crate) fn long(bytes: &[u8], at: usize) -> io::Result<u64> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found
        .map(|found| u64::from_le_bytes(*found))
        .ok_or_else(|| strange("a page"))
}

pub(crate) fn strange(what: &str) -> io::Error {
    let text = format!("{what} of the store's file is not of the form that is known");
    io::Error::new(FORM_UNKNOWN, text)
}
