//! The rewriting of a damaged store: its trees are walked past the pages that do not open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use probity_format::keys::Secret;
use redb::{Database, TableHandle as _};

use crate::directory::{Changes, Directory, at, entered};
use crate::facts::FACTS;
use crate::fail::Fail;
use crate::generation::{create_anew, half};
use crate::key_file::random;
use crate::limits::DATABASES;
use crate::loss::Loss;
use crate::mark::{self, Found};
use crate::open_error::OpenError;
use crate::owners;
use crate::records::slot_in;
use crate::remains::{Remains, Table, Values};
use crate::rewrite::{self, Losses, Source};
use crate::seal::Sealer;
use crate::sealed_file::{Recovery, SealedFile};
use crate::slots::Slots;
use crate::store::{Options, RewriteError};

/// The generation in the name of the file between, which no mark ever has.
const BETWEEN: u64 = 0;

/// Rewrites the store in `directory` without what does not open.
pub(crate) fn rewrite(
    path: &Path,
    options: &Options,
    tell: &mut dyn FnMut(Loss),
) -> Result<(), RewriteError> {
    let (mut directory, found, _) = entered(path, options)?;
    let Some(Found::Sealed(mark)) = found else {
        let text = "only a store of this program's format is rewritten without what is damaged; put the files of the store back from a backup, all of one time, or use a program of its own format";
        return Err(RewriteError::new(text.to_owned()));
    };
    let (file, slots, is_unnamed) = directory.damaged(&mark, tell)?;
    let old = directory.old((&file, &slots))?;
    let old = old.map_err(|path| RewriteError::of_link(&path))?;
    let path = mark.data_path(path);
    let taken = directory.taken((&file, &slots, is_unnamed), path, tell);
    if let Err(error) = taken {
        directory.clear_halves();
        return Err(error.into());
    }
    drop((file, slots));
    Ok(directory.wipe_old(&old)?)
}

impl Directory {
    /// Opens the files that a mark names, without a look at what they hold; whether the key for
    /// names of subjects is lost.
    fn damaged(
        &mut self,
        mark: &mark::Mark,
        tell: &mut dyn FnMut(Loss),
    ) -> Result<(SealedFile, Slots, bool), OpenError> {
        let Some(key) = mark.file_key(&self.root.0) else {
            return Err(self.not_opened(mark)?);
        };
        self.generation = mark.generation;
        self.settle(mark)?;
        let path = mark.data_path(&self.path);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|error| OpenError::of_file(&path)(redb::Error::Io(error)))?;
        let file = SealedFile::new(file, sealer(key, &path)?, Recovery::default());
        let path = mark.slots_path(&self.path);
        let opened = Slots::open_damaged(&path, mark.slots_key(&self.root.0), self.whom());
        let (slots, is_unnamed) = opened.map_err(|source| OpenError::Subjects { path, source })?;
        if is_unnamed {
            tell(Loss::Names);
        }
        Ok((file.map_err(at(&self.path))?, slots, is_unnamed))
    }

    /// Makes a file of what is left the store's; it is closed again.
    fn taken(
        &mut self,
        (file, slots, is_unnamed): (&SealedFile, &Slots, bool),
        path: PathBuf,
        tell: &mut dyn FnMut(Loss),
    ) -> Result<(), OpenError> {
        let (between, is_text_lost) = self.between(file, &path, tell)?;
        let losses = Losses {
            tell,
            is_unnamed,
            is_text_lost,
        };
        let data = self.advance(Some(Source::damaged(&between, slots, path, losses)))?;
        drop(data.database);
        // Slots that are not given back cost room and nothing else.
        let _kept = data.slots.give_back();
        Ok(())
    }

    /// Copies the rows that open into a file of its own, as they are; whether parts of long strings
    /// are lost.
    fn between(
        &self,
        file: &SealedFile,
        damaged: &Path,
        tell: &mut dyn FnMut(Loss),
    ) -> Result<(Database, bool), OpenError> {
        let refused = |error| OpenError::of_file(damaged)(redb::Error::Io(error));
        let mut remains = Remains::of(file).map_err(refused)?;
        let tables = remains.tables().map_err(refused)?;
        let path = half(&mark::data_path(&self.path, BETWEEN));
        let fresh = create_anew(&path).map_err(at(&path))?;
        let key = Secret::new(*random().map_err(at(&path))?);
        let ((database, _), _) = self.sealed(fresh, &path, key, Changes::Written)?;
        let copied = copy(remains, tables, &database, tell);
        let copied = copied.map_err(Fail::Store);
        let is_text_lost = copied.map_err(|fail| OpenError::of_copy(Some(damaged), &path, fail))?;
        Ok((database, is_text_lost))
    }
}

fn sealer(key: Secret, path: &Path) -> Result<Sealer, OpenError> {
    let refused = || io::Error::other("the system gives no random bytes");
    Sealer::new(key).map_err(|_refused| at(path)(refused()))
}

/// Copies the rows of a file that open to `to`; whether parts of long strings are lost.
fn copy(
    mut remains: Remains<'_>,
    (tables, is_whole): (Vec<Table>, bool),
    to: &Database,
    tell: &mut dyn FnMut(Loss),
) -> Result<bool, redb::Error> {
    let write = to.begin_write()?;
    let mut lost = BTreeMap::new();
    let mut subjects = BTreeSet::new();
    for (name, root) in tables {
        let Some(root) = root else { continue };
        let missing = if name == FACTS.name() {
            let mut table = write.open_table(FACTS)?;
            remains.rows(root, Values::Numbers, &mut |name, value| {
                if let (Ok(name), Some(value)) = (
                    str::from_utf8(name),
                    value.first_chunk().map(|it| u64::from_le_bytes(*it)),
                ) {
                    table.insert(name, value)?;
                }
                Ok::<_, redb::Error>(())
            })?
        } else {
            let found = rewrite::tables().find(|it| it.name() == name);
            let found = found.ok_or_else(|| {
                let text = format!("the table {name} is not of the store's form");
                redb::Error::Corrupted(text)
            })?;
            let is_of_keys = name.starts_with("keys.");
            let mut table = write.open_table(found)?;
            remains.rows(root, Values::Bytes, &mut |key, value| {
                subjects.extend(slot_in(key).filter(|_| is_of_keys));
                table.insert(key, value)?;
                Ok::<_, redb::Error>(())
            })?
        };
        if missing > 0 {
            lost.insert(name, missing);
        }
    }
    owners::put_back(&write, &subjects).map_err(rewrite::failed)?;
    write.commit()?;
    remains
        .blocks
        .iter()
        .for_each(|block| tell(Loss::Block(*block)));
    if !is_whole {
        tell(Loss::Unknown);
    }
    for db in 0..DATABASES {
        if let Some(count) = lost.get(&format!("keys.{db}")) {
            tell(Loss::Keys { db, count: *count });
        }
    }
    Ok(!is_whole || lost.contains_key("items"))
}
