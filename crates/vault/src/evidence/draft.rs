//! Evidence before it is written: the rows of a statement, or the pages of a reorganised part.

use probity_format::Timestamp;
use probity_format::note::{SignedNote, Signer as _, SigningKey, VerifierKey};
use probity_format::tree::{Frontier, Hash};
use probity_pocketdb::flash::{Nand, Steady};
use probity_pocketdb::{Error, Heading, Result as PocketResult, Row, SecureStore, Sink, Store};

use super::{
    EvidenceFault, EvidenceKind, Moment, RowForm, STATEMENT, hash_lines, page_hash, repeated,
    tree_lines, tree_of,
};
use crate::error::VaultError;

/// The name of every database's key.
const KEY_NAME: &str = "probity-pocket";

/// Evidence that is not written yet.
pub struct Draft {
    kind: EvidenceKind,
    /// The second line of the note.
    said: String,
    lines: Vec<String>,
    moment: Moment,
    tree: Frontier,
    key: SigningKey,
}

impl Draft {
    /// Returns the lines of the body, without line ends; none has one inside.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns the time of the signature and the state.
    pub const fn moment(&self) -> &Moment {
        &self.moment
    }

    /// Returns the number of leaves: rows of an extract, pages of a digest.
    pub const fn leaves(&self) -> u64 {
        self.tree.size()
    }

    /// Returns the root of the tree.
    pub fn root(&self) -> Hash {
        self.tree.root()
    }

    /// Returns the key that checks the evidence.
    pub fn verifier_key(&self) -> &VerifierKey {
        self.key.verifier_key()
    }

    /// Signs, and returns the note to write behind the lines of the body.
    ///
    /// # Errors
    /// [`VaultError::Unsigned`], for instance for a statement with control characters.
    pub fn note(&self) -> Result<String, VaultError> {
        let (kind, said) = (self.kind.title(), &self.said);
        let unsigned = format!("{kind}\n{said}\n{}{}", self.moment, tree_lines(&self.tree));
        let mut note =
            SignedNote::new(unsigned).map_err(|error| VaultError::Unsigned(error.into()))?;
        note.sign(&self.key)
            .map_err(|error| VaultError::Unsigned(error.into()))?;
        Ok(note.encode())
    }
}

/// Refuses a statement that no extract can be of.
///
/// # Errors
/// [`VaultError::ManyLines`]; [`VaultError::NoSelect`].
pub fn check_statement(sql: &str) -> Result<(), VaultError> {
    if sql.contains(['\n', '\r']) {
        return Err(VaultError::ManyLines);
    }
    let word = sql.split_whitespace().next().unwrap_or("");
    if !word.eq_ignore_ascii_case("SELECT") {
        return Err(VaultError::NoSelect);
    }
    Ok(())
}

/// Runs the statement `sql` and drafts an extract of its rows, which are kept in memory; `now` is
/// the time of the signature.
///
/// # Errors
/// Those of [`check_statement`]; [`VaultError::RepeatedColumn`] and [`VaultError::NoJson`];
/// [`VaultError::Pocket`].
pub fn draft_extract<F: Nand, S: SecureStore>(
    store: &mut Store<F, S>,
    sql: &str,
    now: Timestamp,
) -> Result<Draft, VaultError> {
    check_statement(sql)?;
    let mut rows = Lines::default();
    let ran = store.execute(sql, &[], &mut rows);
    if let Some(refusal) = rows.refusal {
        return Err(refusal);
    }
    ran?;
    let tree = hash_lines(rows.texts.iter().map(String::as_str));
    Ok(Draft {
        kind: EvidenceKind::Extract,
        said: format!("{STATEMENT}{sql}"),
        lines: rows.texts,
        moment: Moment::new(store.state(), now),
        tree,
        key: signing_key(store)?,
    })
}

/// Wraps a chip for [`draft_digest`]: only what was authenticated is signed, though somebody
/// rewrites the chip meanwhile.
pub const fn steady<F: Nand>(chip: F) -> Steady<F, Hash> {
    Steady::new(chip, page_hash)
}

/// Authenticates the whole database and drafts a digest of its reorganised part; `now` is the time
/// of the signature.
///
/// # Errors
/// [`VaultError::NoPart`]; [`VaultError::NotEvidence`] with [`EvidenceFault::StrayPage`];
/// [`VaultError::Pocket`].
pub fn draft_digest<F: Nand, S: SecureStore>(
    store: &mut Store<Steady<F, Hash>, S>,
    now: Timestamp,
) -> Result<Draft, VaultError> {
    let mut runs = Vec::new();
    store.verify()?;
    store.part_pages(&mut |first, pages| runs.push((first, pages)))?;
    if runs.is_empty() {
        return Err(VaultError::NoPart);
    }
    // Only what was just authenticated is signed: nothing is read again.
    let tree = tree_of(&runs, |page| {
        let seen = store.device().seen(page);
        seen.ok_or(VaultError::NotEvidence(EvidenceFault::StrayPage { page }))
    })?;
    let lines = runs.iter().map(|(first, pages)| format!("{first} {pages}"));
    Ok(Draft {
        kind: EvidenceKind::Digest,
        said: format!("reorganisation {}", store.instance()),
        lines: lines.collect(),
        moment: Moment::new(store.state(), now),
        tree,
        key: signing_key(store)?,
    })
}

fn signing_key<F: Nand, S: SecureStore>(store: &mut Store<F, S>) -> Result<SigningKey, VaultError> {
    let seed = store.signing_seed()?;
    SigningKey::from_seed(KEY_NAME, &seed).map_err(|error| VaultError::SigningKey(error.into()))
}

/// A sink that keeps each row as a line of JSON.
#[derive(Default)]
struct Lines {
    names: Vec<String>,
    texts: Vec<String>,
    /// Kept here, because the engine's error cannot carry it.
    refusal: Option<VaultError>,
}

impl Sink for Lines {
    fn begin(&mut self, columns: &[Heading<'_>]) -> PocketResult<()> {
        let names = columns.iter().map(|column| column.name.to_owned());
        self.names = names.collect();
        match repeated(&self.names).cloned() {
            Some(column) => Err(self.keep(VaultError::RepeatedColumn { column })),
            None => Ok(()),
        }
    }

    fn row(&mut self, row: &Row<'_>) -> PocketResult<()> {
        let form = RowForm::new(&self.names, row);
        let line = serde_json::to_string(&form);
        let line = line.map_err(|error| self.keep(VaultError::NoJson(error.into())))?;
        self.texts.push(line);
        Ok(())
    }
}

impl Lines {
    fn keep(&mut self, refusal: VaultError) -> Error {
        self.refusal = Some(refusal);
        Error::Receiver
    }
}
