//! One stream open for writing: the next reserved place, the current segment, the growing tree.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use probity_format::Version;
use probity_format::checkpoint::Checkpoint;
use probity_format::keys::{EpochKey, EpochSalt, MasterKey};
use probity_format::note::{Signer, SigningKey};
use probity_format::record::Record;
use probity_format::seal::FramePlace;
use probity_format::segment::segment_header;
use probity_format::stream::{StreamConfig, StreamId, StreamName};
use probity_format::tile::TreeWriter;

use crate::durable::{Durable, DurableNote};
use crate::epochs::Epoch;
use crate::error::LogError;
use crate::files::Files;
use crate::heads::Heads;
use crate::idempotency::Once;
use crate::keystore::random;
use crate::leaves::{Leaf, RecentLeaves};
use crate::run::PlacedRun;
use crate::scan::Position;
use crate::segments::{self, HEADER_END};

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) name: StreamName,
    pub(crate) config: StreamConfig,
    pub(crate) id: StreamId,
    pub(crate) origin: String,
    /// The note of its durable frames.
    note: DurableNote,
    /// True while nothing is noted.
    withheld: AtomicBool,
    /// Locked while a batch is cut; nothing else may be locked before it but the batcher.
    next: Mutex<Next>,
    /// Locked while a frame is written, in the order of frames; [`Stream::turn`] is notified after
    /// each.
    writer: Mutex<Writer>,
    turn: Condvar,
    /// Locked while frames are made durable and integrated, one commit after the other.
    committing: Mutex<()>,
    /// Index behind the last entry that has a receipt.
    receipted: AtomicU64,
    /// Locked while a frame is integrated, and while publishing looks at the tree.
    tree: Mutex<TreeWriter>,
    /// Locked while a checkpoint is published.
    published: Mutex<Published>,
    /// The leaves of the frames that were integrated last.
    leaves: RecentLeaves,
    /// The entries with idempotency keys.
    pub(crate) once: Once,
}

struct Next {
    frame: u64,
    entry: u64,
    /// The key of this opening, from its first frame on.
    epoch: Option<Arc<EpochKey>>,
}

impl std::fmt::Debug for Next {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Next")
            .field("frame", &self.frame)
            .finish_non_exhaustive()
    }
}

/// The place of the next frame.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The frame that the segment begins with.
    pub(crate) segment: u64,
    /// True when the segment's file exists; a new one is begun when the next frame comes.
    pub(crate) begun: bool,
    pub(crate) offset: u64,
    pub(crate) next_frame: u64,
    pub(crate) next_entry: u64,
    /// Names of files written to since the last sync.
    unsynced: BTreeSet<String>,
    folder_unsynced: bool,
    /// Frames that the note counts as durable.
    noted: Option<u64>,
    written: Vec<(Record, Vec<PlacedRun>)>,
}

#[derive(Debug)]
struct Published {
    /// The checkpoint, which its second copy equals; `None` until both are known to agree.
    head: Option<Checkpoint>,
    /// The verifier key as this process published it.
    key: Option<String>,
}

/// The result of a stream's recovery.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) segment: u64,
    pub(crate) begun: bool,
    pub(crate) offset: u64,
    pub(crate) next_frame: u64,
    pub(crate) next_entry: u64,
    pub(crate) tree: TreeWriter,
    /// The checkpoint, if its second copy has the same content.
    pub(crate) published: Option<Checkpoint>,
}

impl Recovered {
    /// A stream that ends at `position`.
    pub(crate) const fn new(
        position: &Position,
        tree: TreeWriter,
        published: Option<Checkpoint>,
    ) -> Self {
        Self {
            segment: position.segment,
            begun: position.begun,
            offset: position.offset,
            next_frame: position.next_frame,
            next_entry: position.next_entry,
            tree,
            published,
        }
    }
}

impl Stream {
    pub(crate) fn new(
        name: StreamName,
        config: StreamConfig,
        id: StreamId,
        origin: String,
        note: DurableNote,
        found: Recovered,
    ) -> Self {
        let once = Once::new(found.next_frame, found.tree.root());
        Self {
            name,
            config,
            id,
            origin,
            note,
            withheld: AtomicBool::new(false),
            next: Mutex::new(Next {
                frame: found.next_frame,
                entry: found.next_entry,
                epoch: None,
            }),
            writer: Mutex::new(Writer {
                segment: found.segment,
                begun: found.begun,
                offset: found.offset,
                next_frame: found.next_frame,
                next_entry: found.next_entry,
                unsynced: BTreeSet::new(),
                folder_unsynced: false,
                noted: None,
                written: Vec::new(),
            }),
            turn: Condvar::new(),
            committing: Mutex::default(),
            receipted: AtomicU64::new(found.next_entry),
            tree: Mutex::new(found.tree),
            published: Mutex::new(Published {
                head: found.published,
                key: None,
            }),
            leaves: RecentLeaves::default(),
            once,
        }
    }

    /// Index of the next entry, if nothing under way fails.
    pub(crate) fn next_entry(&self) -> u64 {
        lock(&self.next).entry
    }

    /// Index behind the last entry that has a receipt, of this opening or found by it.
    pub(crate) fn receipted_entries(&self) -> u64 {
        self.receipted.load(Ordering::Acquire)
    }

    /// Index behind the last entry that is written: those before are sealed.
    pub(crate) fn written_entries(&self) -> u64 {
        self.lock_writer().next_entry
    }

    /// The leaf of the frame with entry `index`, while it is remembered.
    pub(crate) fn leaf_of(&self, index: u64) -> Option<Leaf> {
        self.leaves.of_entry(index)
    }

    /// The state of a stream without entries.
    pub(crate) fn empty() -> Recovered {
        Recovered {
            segment: 0,
            begun: false,
            offset: 0,
            next_frame: 0,
            next_entry: 0,
            tree: TreeWriter::new(),
            published: None,
        }
    }

    /// Reserves the place of a frame with `entries` entries, and its key, which is of `opening`.
    ///
    /// The caller must seal and [`Stream::write`] it, or poison the log: there are no holes.
    ///
    /// # Errors
    /// [`LogError::Defect`] when the numbers are used up: two frames with one number would be
    /// sealed alike. Otherwise that of the random source.
    pub(crate) fn reserve(
        &self,
        entries: u32,
        master: &MasterKey,
        opening: Epoch,
    ) -> Result<(FramePlace, Arc<EpochKey>), LogError> {
        let mut next = lock(&self.next);
        let frame_behind = behind(next.frame, 1)?;
        let entry_behind = behind(next.entry, u64::from(entries))?;
        let epoch = if let Some(epoch) = &next.epoch {
            Arc::clone(epoch)
        } else {
            let salt = EpochSalt::V3(random()?);
            let epoch = master.epoch_key(&self.id, opening.number, &salt);
            let epoch = Arc::new(epoch.certified_by(&opening.key));
            next.epoch = Some(Arc::clone(&epoch));
            epoch
        };
        let place = FramePlace {
            stream: self.id,
            frame: next.frame,
            first_entry: next.entry,
            seed: u64::from_le_bytes(random()?),
            fresh: random()?,
        };
        next.frame = frame_behind;
        next.entry = entry_behind;
        Ok((place, epoch))
    }

    /// Writes a sealed frame when its turn comes; `stop` ends the wait when the log is poisoned.
    /// `written` is called before a commit can find the frame.
    ///
    /// # Errors
    /// [`LogError::Defect`] when its entries do not follow those before; otherwise that of the
    /// storage.
    pub(crate) fn write(
        &self,
        files: &Files,
        record: Record,
        frame: &[u8],
        runs: Vec<PlacedRun>,
        segment_bytes_max: u64,
        stop: &dyn Fn() -> bool,
        written: &dyn Fn(),
    ) -> Result<(), LogError> {
        let mut writer = self.lock_writer();
        while writer.next_frame != record.frame {
            if stop() {
                return Ok(());
            }
            let wait = std::time::Duration::from_millis(100);
            writer = self
                .turn
                .wait_timeout(writer, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        if writer.next_entry != record.first_entry {
            return Err(LogError::Defect {
                what: "the entries of a frame do not follow those before it",
            });
        }
        let length = u64::from(record.length);
        let is_full = writer.offset.saturating_add(length) > segment_bytes_max;
        if !writer.begun || (is_full && writer.next_frame > writer.segment) {
            self.begin_segment(&mut writer, files)?;
        }
        let offset_behind = behind(writer.offset, length)?;
        let frame_behind = behind(writer.next_frame, 1)?;
        let name = self.segment_path(writer.segment);
        files.write_at(&name, frame, writer.offset)?;
        writer.unsynced.insert(name);
        writer.offset = offset_behind;
        writer.next_frame = frame_behind;
        writer.next_entry = record.next_entry();
        writer.written.push((record, runs));
        written();
        drop(writer);
        self.turn.notify_all();
        Ok(())
    }

    /// Begins a segment. A crash before the header is whole leaves a file that recovery removes.
    /// The header is durable before a frame is written: a power loss that spares a frame and not
    /// its header would look like damage.
    fn begin_segment(&self, writer: &mut Writer, files: &Files) -> Result<(), LogError> {
        let name = self.segment_path(writer.next_frame);
        files.segment(&name, true)?;
        files.write_at(&name, &segment_header(&self.id), 0)?;
        files.sync(&name)?;
        writer.segment = writer.next_frame;
        writer.offset = HEADER_END;
        writer.begun = true;
        writer.folder_unsynced = true;
        Ok(())
    }

    /// Makes written frames durable (if `sync`), integrates them, and completes their runs.
    ///
    /// The order matters: a run is complete only when its bytes are durable. Returns the number of
    /// frames.
    pub(crate) fn commit(&self, files: &Files, sync: bool) -> Result<u64, LogError> {
        let _one_after_the_other = lock(&self.committing);
        let written = std::mem::take(&mut self.lock_writer().written);
        if sync {
            self.sync(files)?;
        }
        let mut tree = self.lock_tree();
        let before = tree.size();
        for (record, _) in &written {
            self.leaves.remember(record);
            let index = tree
                .append(&record.encode())
                .map_err(|error| LogError::Broken {
                    place: format!("tree of stream {}", self.name),
                    reason: error.to_string(),
                })?;
            assert_eq!(
                index, record.frame,
                "frames are integrated in order, without holes"
            );
        }
        let frames = tree.size().saturating_sub(before);
        let durable = sync.then(|| durable(&tree));
        drop(tree);
        // Before any receipt: if promised frames are lost, the note must show it.
        if let Some(durable) = durable {
            self.note(files, &durable)?;
        }
        let receipted = written.last().map(|(last, _)| last.next_entry());
        assert!(
            receipted.is_none_or(|end| self.receipted_entries() <= end),
            "a receipt is never taken back"
        );
        for (_, runs) in &written {
            for (run, first) in runs {
                run.complete(*first);
            }
        }
        if let Some(end) = receipted {
            self.receipted.store(end, Ordering::Release);
        }
        Ok(frames)
    }

    /// Makes all earlier writes durable.
    ///
    /// The caller holds `committing`: another caller would take unsynced writes for durable. All
    /// that the tree holds by then was written before, and may be noted.
    fn sync(&self, files: &Files) -> Result<(), LogError> {
        let mut writer = self.lock_writer();
        let unsynced = std::mem::take(&mut writer.unsynced);
        let folder_unsynced = std::mem::take(&mut writer.folder_unsynced);
        drop(writer);
        for name in &unsynced {
            files.sync(name)?;
        }
        if folder_unsynced {
            files.sync_folder(&format!("streams/{}/segments", self.name))?;
        }
        // Another thread may have taken the names, and failed.
        files.check_synced()
    }

    /// Withholds notes until an epoch is [entered](Stream::enter). The opening of frames made
    /// durable meanwhile is not signed for, so a note could not name it.
    pub(crate) fn withhold_notes(&self) {
        // Relaxed: one thread writes the stream, and nothing else depends on it.
        self.withheld.store(true, Ordering::Relaxed);
    }

    /// Ends [`Stream::withhold_notes`] without another epoch.
    pub(crate) fn release_notes(&self) {
        self.withheld.store(false, Ordering::Relaxed);
    }

    /// Notes durable frames as of `epoch` from now on, for all streams of the log.
    pub(crate) fn enter(&self, epoch: Epoch, files: &Files) -> Result<(), LogError> {
        self.note.enter(epoch);
        self.release_notes();
        self.note_durable(files)
    }

    /// Notes all frames that recovery found as durable; recovery has synced them.
    pub(crate) fn note_durable(&self, files: &Files) -> Result<(), LogError> {
        let durable = durable(&self.lock_tree());
        self.note(files, &durable)
    }

    /// Notes, durably, that a new stream has no frames: a missing note then shows that somebody
    /// removed it.
    pub(crate) fn note_created(&self, files: &Files) -> Result<(), LogError> {
        self.note_durable(files)?;
        self.note.sync(files)
    }

    /// The note of the stream that the journal created as number `ordinal`, in the same file.
    pub(crate) fn note_of(&self, ordinal: u64) -> DurableNote {
        self.note.of_other(ordinal)
    }

    fn note(&self, files: &Files, durable: &Durable) -> Result<(), LogError> {
        if self.withheld.load(Ordering::Relaxed) {
            return Ok(());
        }
        let noted = self.lock_writer().noted.replace(durable.frames);
        if noted == Some(durable.frames) {
            return Ok(());
        }
        self.note.write(files, &self.id, durable)
    }

    /// Signs and publishes the tree as integrated, if it grew.
    ///
    /// Order: tiles, second copy of the head, checkpoint. A crash in between leaves unused tiles,
    /// or a second copy one step ahead, which recovery recognizes. A stream without frames has a
    /// checkpoint too, so that a missing one is always an alarm. `before_signing` runs when the
    /// head to sign is fixed. `witness` signs too, in a line of its own.
    pub(crate) fn publish(
        &self,
        files: &Files,
        heads: &Heads,
        signer: &SigningKey,
        witness: Option<&SigningKey>,
        before_signing: &dyn Fn() -> Result<(), LogError>,
    ) -> Result<Option<Checkpoint>, LogError> {
        let mut published = lock(&self.published);
        let known = published.head.as_ref().map(Checkpoint::size);
        if known == Some(self.lock_tree().size()) {
            return Ok(None);
        }
        let (size, root, grown) = {
            // Commits may integrate without a sync, but none does between this sync and the reading
            // of the tree.
            let _one_after_the_other = lock(&self.committing);
            self.sync(files)?;
            let mut tree = self.lock_tree();
            let durable = durable(&tree);
            let grown = tree.take_files();
            drop(tree);
            self.note(files, &durable)?;
            (durable.frames, durable.root, grown)
        };
        assert!(known <= Some(size), "a published head is never taken back");
        before_signing()?;
        for file in &grown.write {
            files.replace(&format!("streams/{}/{}", self.name, file.path), &file.bytes)?;
        }
        let broken = |reason: String| LogError::Broken {
            place: format!("checkpoint of stream {}", self.name),
            reason,
        };
        let head =
            Checkpoint::new(&self.origin, size, root).map_err(|error| broken(error.to_string()))?;
        let signers = std::iter::once(signer).chain(witness);
        let signers: Vec<&dyn Signer> = signers.map(|key| key as &dyn Signer).collect();
        let note = head
            .sign(&signers)
            .map_err(|error| broken(error.to_string()))?;
        if size > 0 {
            heads.advance(&self.name, note.as_bytes())?;
        }
        let key = signer.verifier_key().encode() + "\n";
        if published.key.as_ref() != Some(&key) {
            files.replace(&format!("streams/{}/log.vkey", self.name), key.as_bytes())?;
            published.key = Some(key);
        }
        files.replace(
            &format!("streams/{}/checkpoint", self.name),
            note.as_bytes(),
        )?;
        published.head = Some(head.clone());
        // A reader that asks for one of them with an older checkpoint finds the full form, which
        // begins with it (C2SP tlog-tiles).
        for folder in &grown.obsolete {
            files.discard(&format!("streams/{}/{folder}", self.name));
        }
        Ok(Some(head))
    }

    /// The head that is published, once checkpoint and second copy are known to agree.
    pub(crate) fn published_head(&self) -> Option<Checkpoint> {
        lock(&self.published).head.clone()
    }

    /// Size and root of the tree as integrated.
    pub(crate) fn head(&self) -> (u64, probity_format::tree::Hash) {
        let tree = self.lock_tree();
        (tree.size(), tree.root())
    }

    fn segment_path(&self, segment: u64) -> String {
        segments::path(Version::NEWEST, &self.name, segment)
    }

    fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        lock(&self.writer)
    }

    fn lock_tree(&self) -> MutexGuard<'_, TreeWriter> {
        lock(&self.tree)
    }
}

/// The number that follows `count` of them, from `number` on.
pub(crate) fn behind(number: u64, count: u64) -> Result<u64, LogError> {
    number.checked_add(count).ok_or(LogError::Defect {
        what: "a stream has no further numbers for frames, entries or bytes",
    })
}

/// The content of `tree` as a note, once all of it was synced.
fn durable(tree: &TreeWriter) -> Durable {
    Durable {
        frames: tree.size(),
        root: tree.root(),
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use probity_format::keys::Secret;

    use super::*;
    use crate::durable::DurableNotes;

    /// Numbers that were used up stayed as they were, and every further frame and entry had the last
    /// one. A frame for which there is no number is not sealed, and the log stops.
    #[test]
    fn no_number_of_a_frame_or_an_entry_is_given_twice() {
        let master = MasterKey::new(Secret::new([7; 32]));
        let notes = DurableNotes::new(&master, None);
        let opening = Epoch {
            number: 0,
            key: [0; 32],
        };
        for (next_frame, next_entry) in [(u64::MAX, 0), (0, u64::MAX - 1)] {
            let (name, config) = (StreamName::journal(), StreamConfig::default());
            let id = StreamId::new(&[1; 32], &name, &config);
            let found = Recovered {
                next_frame,
                next_entry,
                ..Stream::empty()
            };
            let note = DurableNote::new(&notes, 0);
            let stream = Stream::new(name, config, id, "log".into(), note, found);
            for _ in 0..2 {
                let refused = stream.reserve(2, &master, opening);
                assert!(matches!(refused, Err(LogError::Defect { .. })));
            }
            assert_eq!(stream.next_entry(), next_entry);
        }
    }
}
