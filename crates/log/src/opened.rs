//! An opened frame: its entries, and the keys that opened its sections.

use probity_format::column::Columns;
use probity_format::content::{Closed, Content, Own};
use probity_format::frame::{Body, entry_leaf};
use probity_format::keys::SectionKey;
use probity_format::proof::Opens;
use probity_format::row::{encode_row, row_bytes};
use probity_format::seal::fill_salts;
use probity_format::share::{People, PersonKey};
use probity_format::tree::Hash;
use probity_format::width::to_usize;
use probity_format::{DecodeError, Entry, Version};

/// An opened frame: its shared section, and its subject sections as far as their keys exist.
pub(crate) struct Opened {
    pub(crate) version: Version,
    pub(crate) shared: OpenSection,
    /// By section number minus one; `None` where erased.
    pub(crate) subjects: Vec<Option<OpenSection>>,
}

/// The body of a section and the key that opened it, where there is a cipher.
pub(crate) struct OpenSection {
    pub(crate) body: Body,
    pub(crate) key: Option<SectionKey>,
    pub(crate) shares: Option<Shares>,
}

/// The people of a section about several of them, and the keys that opened it.
pub(crate) struct Shares {
    pub(crate) keys: Vec<Option<PersonKey>>,
    pub(crate) people: People,
}

/// One entry of an opened frame.
pub(crate) struct Visited<'a> {
    /// Place in the frame.
    pub(crate) index: usize,
    pub(crate) entry: Entry<'a>,
    /// Number of the section that holds its subject columns.
    pub(crate) section: u32,
    /// True when that section is gone.
    pub(crate) erased: bool,
    /// The people of it who were erased.
    pub(crate) closed: Closed,
    /// The key of the section that the entry's salt comes from.
    key: Option<&'a SectionKey>,
}

impl Visited<'_> {
    /// Returns whether none of its subjects was erased: only then can its leaf be computed.
    pub(crate) const fn is_whole(&self) -> bool {
        !self.erased && self.closed.is_none()
    }

    /// The entry's salt, where it [`Visited::is_whole`], and its row.
    pub(crate) fn salted_row(&self, row: &mut Vec<u8>) -> Result<[u8; 16], DecodeError> {
        row.clear();
        row.resize(row_bytes(&self.entry), 0);
        encode_row(&self.entry, row);
        let mut salt = [0; 16];
        fill_salts(self.key.map(SectionKey::salt_key), self.index, &mut salt)?;
        Ok(salt)
    }

    /// The entry's leaf in the tree over the frame's entries.
    pub(crate) fn leaf(&self, row: &mut Vec<u8>) -> Result<Hash, DecodeError> {
        let salt = self.salted_row(row)?;
        Ok(entry_leaf(&salt, row))
    }
}

impl OpenSection {
    pub(crate) fn columns(&self) -> Result<Columns<'_>, DecodeError> {
        self.body.columns()
    }

    fn own(&self) -> Result<Own<'_>, DecodeError> {
        Ok(Own {
            columns: self.columns()?,
            people: self.shares.as_ref().map(|shares| &shares.people),
        })
    }
}

impl Opened {
    /// Calls `visit` for each entry in order.
    pub(crate) fn for_each<E: From<DecodeError>>(
        &self,
        visit: &mut dyn FnMut(&Visited<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let shared = self.shared.columns()?;
        let content = if self.subjects.is_empty() {
            Content::together(shared)
        } else {
            let mut subjects = Vec::with_capacity(self.subjects.len());
            for section in &self.subjects {
                subjects.push(section.as_ref().map(OpenSection::own).transpose()?);
            }
            Content::by_subject(self.version, shared, subjects)?
        };
        content.for_each(&mut |placed| {
            visit(&Visited {
                index: placed.place,
                entry: placed.entry,
                section: placed.section,
                erased: !placed.open,
                closed: placed.closed,
                key: self.section_key(placed.section),
            })
        })
    }

    /// The key of section `number`, where there is a cipher and the section is open.
    fn section_key(&self, number: u32) -> Option<&SectionKey> {
        self.section(number)?.key.as_ref()
    }

    /// The keys that open section `number` and nothing else, for a proof.
    pub(crate) fn opens(&self, number: u32) -> Option<Opens> {
        let section = self.section(number)?;
        let Some(shares) = &section.shares else {
            let key = section.key.as_ref()?.expose();
            return Some(Opens::Key(SectionKey::from_bytes(key)));
        };
        let copy = |key: &PersonKey| PersonKey::from_bytes(key.expose());
        let keys = shares.keys.iter().map(|key| key.as_ref().map(copy));
        Some(Opens::People(keys.collect()))
    }

    fn section(&self, number: u32) -> Option<&OpenSection> {
        match to_usize(number).checked_sub(1) {
            None => Some(&self.shared),
            Some(place) => self.subjects.get(place)?.as_ref(),
        }
    }
}
