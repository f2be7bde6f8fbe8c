//! The rows of a damaged file that open: its trees are walked past the pages that do not.

use std::collections::BTreeSet;
use std::io;

use redb::StorageBackend as _;

use crate::block_set::BlockSet;
use crate::live::{
    BRANCH, CHECKSUM_BYTES, LEAF, NORMAL_TABLE, Root, Roots, long, root, strange, word,
};
use crate::seal::BLOCK_BYTES;
use crate::sealed_file::SealedFile;

/// A walk through the trees of a file.
pub(crate) struct Remains<'a> {
    file: &'a SealedFile,
    roots: Roots,
    seen: BlockSet,
    /// Blocks that did not open.
    pub(crate) blocks: BTreeSet<u64>,
}

/// A table by its name, and the root of its tree; none of an empty one.
pub(crate) type Table = (String, Option<Root>);

/// The way in which a leaf has its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// Each with its own length.
    Bytes,
    /// Numbers of eight bytes.
    Numbers,
}

/// Takes a row: its key and its value.
type Each<'a, E> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), E>;

impl<'a> Remains<'a> {
    pub(crate) fn of(file: &'a SealedFile) -> io::Result<Self> {
        Ok(Self {
            file,
            roots: Roots::of(&file.head()?)?,
            seen: BlockSet::default(),
            blocks: BTreeSet::new(),
        })
    }

    /// Reads the list of tables; also whether all of it opens.
    ///
    /// # Errors
    /// When nothing of it opens: then nobody knows where anything is.
    pub(crate) fn tables(&mut self) -> io::Result<(Vec<Table>, bool)> {
        let Some(list) = self.roots.user else {
            return Ok((Vec::new(), true));
        };
        let mut tables = Vec::new();
        let lost = self.rows(list, Values::Bytes, &mut |name, definition| {
            let found = (definition.first(), definition.get(9));
            let (Some(&NORMAL_TABLE), Some(&has_root)) = found else {
                return Err(strange("the definition of a table"));
            };
            let name = String::from_utf8_lossy(name).into_owned();
            tables.push((name, root(definition, 10, has_root)?));
            Ok(())
        })?;
        if tables.is_empty() {
            let text = "the list of its tables does not open, so that nothing of it can be found";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok((tables, lost == 0))
    }

    /// Gives `each` the rows of a tree that open, in their order; returns how many do not.
    pub(crate) fn rows<E>(
        &mut self,
        root: Root,
        values: Values,
        each: Each<'_, E>,
    ) -> Result<u64, E> {
        let mut found = 0_u64;
        let mut left = vec![root.page];
        // No page is read twice, so that the walk ends.
        while let Some(number) = left.pop() {
            let Some(page) = self.page(number) else {
                continue;
            };
            match page.first() {
                Some(&BRANCH) => left.extend(children(&page).unwrap_or_default()),
                Some(&LEAF) => {
                    for (key, value) in entries(&page, values).unwrap_or_default() {
                        each(key, value)?;
                        found += 1;
                    }
                }
                _ => {}
            }
        }
        Ok(root.length.saturating_sub(found))
    }

    /// Reads a page; none where a block of it does not open.
    fn page(&mut self, number: u64) -> Option<Vec<u8>> {
        if let Ok(page) = self.roots.read_page(self.file, number, &mut self.seen) {
            return Some(page);
        }
        let mut block = vec![0; BLOCK_BYTES];
        for number in self.roots.blocks_of(number).ok()? {
            let place = (number + 1) * BLOCK_BYTES as u64;
            if self.file.read(place, &mut block).is_err() {
                self.blocks.insert(number);
            }
        }
        None
    }
}

/// Returns the pages below one, the last first.
fn children(page: &[u8]) -> io::Result<Vec<u64>> {
    let count = count(page)?;
    let start = 8 + CHECKSUM_BYTES * (count + 1);
    (0..=count)
        .rev()
        .map(|it| long(page, start + 8 * it))
        .collect()
}

/// Returns the keys of a leaf with their values.
fn entries(page: &[u8], values: Values) -> io::Result<Vec<(&[u8], &[u8])>> {
    let count = count(page)?;
    let end = |entry: usize| usize::try_from(word(page, 4 + 4 * entry)?).map_err(io::Error::other);
    let mut entries = Vec::with_capacity(count);
    let ends = match values {
        Values::Bytes => 2 * count,
        Values::Numbers => count,
    };
    let (mut key_start, mut value_start) = (4 + 4 * ends, end(count.saturating_sub(1))?);
    for entry in 0..count {
        let key_end = end(entry)?;
        let value_end = match values {
            Values::Bytes => end(count + entry)?,
            Values::Numbers => value_start + 8,
        };
        let key = page.get(key_start..key_end);
        let both = key.zip(page.get(value_start..value_end));
        entries.push(both.ok_or_else(|| strange("a page"))?);
        (key_start, value_start) = (key_end, value_end);
    }
    Ok(entries)
}

fn count(page: &[u8]) -> io::Result<usize> {
    match page {
        [_, _, low, high, ..] => Ok(usize::from(u16::from_le_bytes([*low, *high]))),
        _ => Err(strange("a page")),
    }
}
