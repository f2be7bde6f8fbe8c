//! The bytes of a locator, which finds and opens a bag (docs/disguise.md, "Records").

use probity_format::DecodeError;
use probity_format::wire::Reader;

use super::section::Origin;
use crate::crypto::record_key::RecordKey;
use crate::records::day::Day;

/// The version of the locator's form.
const LOCATOR_VERSION: u8 = 3;
/// The version of locators that did not say whose they are.
const LOCATOR_VERSION_UNOWNED: u8 = 2;
/// Every locator has this length before it is sealed.
pub(crate) const LOCATOR_BYTES: usize = 80;
/// The most parts of a bag: 4 GiB of it.
pub(crate) const PARTS_MAX: u32 = 16_384;
/// Bytes of the salted hash that identifies the owner of a locator.
pub(crate) const OWNER_BYTES: usize = 16;

/// The location and key of a bag, sealed to its principal.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent flags of one byte"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Locator {
    pub(crate) origin: Origin,
    /// Seals the parts of the bag and names them.
    pub(crate) key: RecordKey,
    pub(crate) parts: u32,
    /// The bag holds speaks-for records.
    pub(crate) speaks_for: bool,
    /// The bag holds changes that its own disguise made to its principal's rows.
    pub(crate) changes: bool,
    /// The bag holds copies of shared rows that its principal had left before.
    pub(crate) copies: bool,
    /// The bag holds overwritten values.
    pub(crate) values: bool,
    /// A reveal was asked for and left something disguised; later reveals try again.
    pub(crate) pending: bool,
    /// A salted hash of its principal; older locators have none.
    pub(crate) owner: Option<[u8; OWNER_BYTES]>,
}

impl Locator {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let version = match self.owner {
            Some(_) => LOCATOR_VERSION,
            None => LOCATOR_VERSION_UNOWNED,
        };
        let mut out = vec![version];
        out.extend_from_slice(&self.origin.disguise.to_le_bytes());
        out.extend_from_slice(&self.origin.time.to_le_bytes());
        out.extend_from_slice(&self.origin.updates.to_le_bytes());
        out.extend_from_slice(&*self.key);
        out.extend_from_slice(&self.parts.to_le_bytes());
        out.push(
            u8::from(self.speaks_for)
                | u8::from(self.changes) << 1
                | u8::from(self.pending) << 2
                | u8::from(self.copies) << 3
                | u8::from(self.values) << 4,
        );
        out.extend_from_slice(&self.origin.expires.number().to_le_bytes());
        out.push(self.origin.cohort);
        out.extend_from_slice(&self.owner.unwrap_or_default());
        out.resize(LOCATOR_BYTES, 0);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "locator");
        let version = reader.u8()?;
        if !matches!(version, LOCATOR_VERSION | LOCATOR_VERSION_UNOWNED) {
            return Err(reader.error("has an unknown version"));
        }
        let (disguise, time) = (reader.u64()?, i64::from_le_bytes(reader.array()?));
        let (updates, key) = (reader.u32()?, RecordKey::new(reader.array()?));
        let (parts, flags) = (reader.u32()?, reader.u8()?);
        let (expires, cohort) = (Day::from_number(reader.u32()?), reader.u8()?);
        let owner = match version {
            LOCATOR_VERSION => Some(reader.array()?),
            _ => None,
        };
        if flags > 31 || has_rest(&reader) {
            return Err(reader.error("has wrong padding"));
        }
        if parts > PARTS_MAX {
            return Err(reader.error("names more parts than a bag has"));
        }
        Ok(Self {
            origin: Origin {
                disguise,
                time,
                updates,
                expires,
                cohort,
            },
            key,
            parts,
            speaks_for: flags & 1 != 0,
            changes: flags & 2 != 0,
            pending: flags & 4 != 0,
            copies: flags & 8 != 0,
            values: flags & 16 != 0,
            owner,
        })
    }
}

fn has_rest(reader: &Reader<'_>) -> bool {
    reader.rest().iter().any(|byte| *byte != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::samples::full_locator;

    #[test]
    fn a_locator_comes_back() {
        let locator = full_locator(Some([6; OWNER_BYTES]));
        let bytes = locator.encode();
        assert_eq!(bytes.len(), LOCATOR_BYTES);
        assert_eq!(Locator::decode(&bytes).unwrap(), locator);
        let endless = Locator {
            parts: PARTS_MAX + 1,
            ..locator
        };
        assert!(Locator::decode(&endless.encode()).is_err());
    }
}
