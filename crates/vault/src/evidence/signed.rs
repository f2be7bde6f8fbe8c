//! Evidence as it was written, which a verifier key checks.

use std::error::Error as StdError;
use std::fmt;

use probity_format::note::{SignedNote, VerifierKey};
use probity_format::tree::Frontier;
use probity_pocketdb::flash::{BLOCK_PAGES, Nand, PAGE_BYTES};

use super::{EvidenceKind, Moment, STATEMENT, hash_lines, page_hash, tree_lines, tree_of};
use crate::error::VaultError;

/// The allowed number of pages in a run.
const RUN_PAGES: std::ops::RangeInclusive<u32> = 1..=BLOCK_PAGES;

/// Evidence taken apart into its body and its note.
pub struct Evidence {
    text: String,
    /// Bytes of the body, including its last line end.
    body_bytes: usize,
    note: SignedNote,
}

/// An extract that is what was signed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extract<'a> {
    /// The statement of which it has the rows.
    pub statement: &'a str,
    /// The number of rows.
    pub rows: u64,
    /// The time and the state; `None` where an earlier version signed without them.
    pub moment: Option<Moment>,
}

/// A reorganised part that is what was signed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Digest<'a> {
    /// The reorganisation, as `reorganisation 3`.
    pub part: &'a str,
    /// The number of pages.
    pub pages: u64,
    /// The time and the state; `None` where an earlier version signed without them.
    pub moment: Option<Moment>,
}

impl Evidence {
    /// Parses evidence. Nothing in it is believed before [`Self::verify`] returns.
    ///
    /// # Errors
    /// [`VaultError::NotEvidence`] with [`EvidenceFault::NoText`], [`EvidenceFault::NoNote`] or
    /// [`EvidenceFault::Note`].
    pub fn parse(bytes: Vec<u8>) -> Result<Self, VaultError> {
        let refused = VaultError::NotEvidence;
        let text = String::from_utf8(bytes).map_err(|_binary| refused(EvidenceFault::NoText))?;
        let marks = EvidenceKind::ALL.map(|kind| format!("{}\n", kind.title()));
        // The note is the last thing in the file. A statement may end with the words of a title.
        let line_of = |mark: &String| match text.rfind(&format!("\n{mark}")) {
            Some(end_before) => Some(end_before + 1),
            None => text.starts_with(mark.as_str()).then_some(0),
        };
        let body_bytes = marks.iter().filter_map(line_of).max();
        let body_bytes = body_bytes.ok_or_else(|| refused(EvidenceFault::NoNote))?;
        let note = text.get(body_bytes..).unwrap_or_default();
        let note = SignedNote::parse(note.as_bytes())
            .map_err(|error| refused(EvidenceFault::Note(error.into())))?;
        Ok(Self {
            text,
            body_bytes,
            note,
        })
    }

    /// Checks that the holder of the key behind `key` signed the note.
    ///
    /// # Errors
    /// [`VaultError::NotEvidence`] with [`EvidenceFault::OtherKey`].
    pub fn verify(&self, key: &VerifierKey) -> Result<(), VaultError> {
        let verified = self.note.verify(std::slice::from_ref(key));
        let refused = |error: Box<dyn StdError + Send + Sync>| {
            VaultError::NotEvidence(EvidenceFault::OtherKey(error))
        };
        verified.map(drop).map_err(|error| refused(error.into()))
    }

    /// Returns what its note says that it is; `None` for anything else.
    pub fn kind(&self) -> Option<EvidenceKind> {
        let title = self.note.text().split_terminator('\n').next();
        let mut kinds = EvidenceKind::ALL.into_iter();
        kinds.find(|kind| Some(kind.title()) == title)
    }

    /// Compares the rows of an extract with its note.
    ///
    /// # Errors
    /// [`VaultError::NotEvidence`] with [`EvidenceFault::OtherKind`] or
    /// [`EvidenceFault::Differs`].
    pub fn extract(&self) -> Result<Extract<'_>, VaultError> {
        let tree = hash_lines(self.body());
        let (said, moment) = self.said(EvidenceKind::Extract, &tree)?;
        Ok(Extract {
            statement: said.strip_prefix(STATEMENT).unwrap_or_default(),
            rows: tree.size(),
            moment,
        })
    }

    /// Returns the runs of pages that a digest lists: the first page of each and their number.
    ///
    /// # Errors
    /// [`VaultError::NotEvidence`] with [`EvidenceFault::OtherKind`] or
    /// [`EvidenceFault::NoPages`].
    pub fn runs(&self) -> Result<Vec<(u32, u32)>, VaultError> {
        // Before any page is read: it is the file at fault then, and not the chip.
        if self.kind() != Some(EvidenceKind::Digest) {
            return Err(VaultError::NotEvidence(EvidenceFault::OtherKind));
        }
        let runs: Option<Vec<_>> = self.body().map(run_of).collect();
        runs.ok_or(VaultError::NotEvidence(EvidenceFault::NoPages))
    }

    /// Compares the pages of `runs` on `chip`, as they lie there, with the note of a digest. That
    /// needs no key of the database.
    ///
    /// # Errors
    /// [`VaultError::NotEvidence`] with [`EvidenceFault::Page`], [`EvidenceFault::OtherKind`] or
    /// [`EvidenceFault::Differs`].
    pub fn digest(
        &self,
        runs: &[(u32, u32)],
        chip: &mut impl Nand,
    ) -> Result<Digest<'_>, VaultError> {
        let mut bytes = [0u8; PAGE_BYTES];
        let tree = tree_of(runs, |page| {
            chip.read(page, 0, &mut bytes).map_err(|error| {
                let source = error.into();
                VaultError::NotEvidence(EvidenceFault::Page { page, source })
            })?;
            Ok::<_, VaultError>(page_hash(page, &bytes))
        })?;
        let (part, moment) = self.said(EvidenceKind::Digest, &tree)?;
        Ok(Digest {
            part,
            pages: tree.size(),
            moment,
        })
    }

    /// Returns the lines of the body lazily: as slices they may not fit into memory.
    fn body(&self) -> impl Iterator<Item = &str> {
        let body = self.text.get(..self.body_bytes).unwrap_or_default();
        // Only `\n` ends a line; any other line end belongs to the line and its hash.
        let body = body.strip_suffix('\n').map(|body| body.split('\n'));
        body.into_iter().flatten()
    }

    /// Returns the note's statement and moment, if it is of kind `kind` and covers `tree`.
    fn said(
        &self,
        kind: EvidenceKind,
        tree: &Frontier,
    ) -> Result<(&str, Option<Moment>), VaultError> {
        let mut lines = self.note.text().split_terminator('\n');
        if lines.next() != Some(kind.title()) {
            return Err(VaultError::NotEvidence(EvidenceFault::OtherKind));
        }
        let said = lines.next().unwrap_or_default();
        let mut behind = lines.clone();
        let moment = behind
            .next()
            .zip(behind.next())
            .and_then(|(state, time)| Moment::parse(state, time));
        if moment.is_some() {
            lines = behind;
        }
        if !lines.eq(tree_lines(tree).lines()) {
            return Err(VaultError::NotEvidence(EvidenceFault::Differs));
        }
        Ok((said, moment))
    }
}

/// Parses a first page and a number of pages.
fn run_of(line: &str) -> Option<(u32, u32)> {
    let (first, pages) = line.split_once(' ')?;
    let run: (u32, u32) = (first.parse().ok()?, pages.parse().ok()?);
    // Each number is written in one way, so that a digest is one file.
    let is_own = format!("{} {}", run.0, run.1) == line;
    (is_own && RUN_PAGES.contains(&run.1)).then_some(run)
}

/// The reason why evidence, or what it is of, is not believed.
#[derive(Debug)]
#[non_exhaustive]
pub enum EvidenceFault {
    /// Bytes that are not UTF-8.
    NoText,
    /// A text that does not end in a note of one of the kinds.
    NoNote,
    /// A malformed note; the parser's error.
    Note(Box<dyn StdError + Send + Sync>),
    /// A note that is not signed with this key; the reason.
    OtherKey(Box<dyn StdError + Send + Sync>),
    /// Evidence of another kind.
    OtherKind,
    /// Lines or pages that are not those that were signed.
    Differs,
    /// A line of a digest that names no pages.
    NoPages,
    /// A page that cannot be read.
    Page {
        /// The number of the page.
        page: u32,
        /// The chip's error.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A page of the reorganised part that was not authenticated with it.
    StrayPage {
        /// The number of the page.
        page: u32,
    },
}

impl fmt::Display for EvidenceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoText => f.write_str("it is not text"),
            Self::NoNote => f.write_str("it has no signed note"),
            Self::Note(_) => f.write_str("its note is malformed"),
            Self::OtherKey(_) => f.write_str("it is not signed with this key"),
            Self::OtherKind => f.write_str("it is a statement of another kind"),
            Self::Differs => f.write_str("what is there is not what was signed"),
            Self::NoPages => f.write_str("a line does not name pages"),
            Self::Page { page, .. } => write!(f, "page {page} cannot be read"),
            Self::StrayPage { page } => write!(f, "page {page} belongs to nothing"),
        }
    }
}

impl StdError for EvidenceFault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Note(source) | Self::OtherKey(source) | Self::Page { source, .. } => {
                Some(&**source)
            }
            _ => None,
        }
    }
}
