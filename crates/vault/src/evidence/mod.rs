//! Evidence that others check without the database's key: signed extracts and digests.
//!
//! Each is a body of lines followed by a signed note (C2SP signed-note). The note holds the root of
//! a Merkle tree, the time, and the number of the database's state. The leaves of an extract are
//! its lines. A digest of the reorganised part lists the runs of its pages; the leaves are those
//! pages, each after its number.

mod draft;
mod row_form;
mod signed;

use std::fmt;

use probity_format::Timestamp;
use probity_format::time::{format_time, parse_time};
use probity_format::tree::{Frontier, Hash, leaf_hash, leaf_hash_parts};

pub use self::draft::{Draft, check_statement, draft_digest, draft_extract, steady};
pub use self::row_form::{RowForm, repeated};
pub use self::signed::{Digest, Evidence, EvidenceFault, Extract};

/// The kind of evidence, as the first line of its note says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvidenceKind {
    /// The runs of pages of a reorganised part.
    Digest,
    /// The rows of a statement, each a JSON object.
    Extract,
}

impl EvidenceKind {
    const ALL: [Self; 2] = [Self::Digest, Self::Extract];

    /// Returns the first line of its notes.
    const fn title(self) -> &'static str {
        match self {
            Self::Digest => "probity pocket digest",
            Self::Extract => "probity pocket extract",
        }
    }
}

/// The time of a signature and the database's state; each commit and each opening has the next
/// number. A database whose files were put back counts on from the number of the copy, so two
/// contents may have one number.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moment {
    /// The number of the state.
    pub state: u64,
    /// The time in RFC 3339, as the note has it.
    pub time: String,
}

impl Moment {
    fn new(state: u64, time: Timestamp) -> Self {
        let time = format_time(time);
        Self { state, time }
    }

    /// Parses two lines of a note; returns `None` for anything else.
    fn parse(state: &str, time: &str) -> Option<Self> {
        let text = state.strip_prefix("state ")?;
        let state: u64 = text.parse().ok()?;
        // Each number is written in one way.
        if state.to_string() != text {
            return None;
        }
        let time = time.strip_prefix("time ")?.to_owned();
        parse_time(&time).is_ok().then_some(Self { state, time })
    }
}

/// Writes the lines of a note, each with its line end.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "state {}\ntime {}\n", self.state, self.time)
    }
}

/// The words before the statement in the note of an extract.
const STATEMENT: &str = "statement ";

fn tree_lines(tree: &Frontier) -> String {
    format!("leaves {}\nroot {}\n", tree.size(), tree.root())
}

fn hash_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Frontier {
    let mut tree = Frontier::new();
    for line in lines {
        tree.push(leaf_hash(line.as_bytes()));
    }
    tree
}

/// Returns the leaf of a digest for one page, which hashes its number and its bytes.
fn page_hash(page: u32, bytes: &[u8]) -> Hash {
    leaf_hash_parts([&page.to_le_bytes()[..], bytes])
}

/// Builds the tree over the pages of `runs`.
fn tree_of<E>(
    runs: &[(u32, u32)],
    mut hash: impl FnMut(u32) -> Result<Hash, E>,
) -> Result<Frontier, E> {
    let mut tree = Frontier::new();
    for &(first, pages) in runs {
        for page in (0..pages).map(|number| first.saturating_add(number)) {
            tree.push(hash(page)?);
        }
    }
    Ok(tree)
}
