//! Repairs the streams that recovery found, once all of them are known to be sound.

use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::keys::MasterKey;
use probity_format::note::{NoteError, SignedNote, Signer, VerifierKey};
use probity_format::record::Record;
use probity_format::segment::{Place, SEGMENT_HEADER_BYTES, check_segment_header, segment_header};
use probity_format::stream::StreamName;
use probity_format::tile::TreeWriter;

use crate::advice;
use crate::beyond::{Beyond, Rebuilt};
use crate::epochs::{CertifiedEpochs, Epochs, Floor};
use crate::error::LogError;
use crate::journal::History;
use crate::keys_missed::KeysMissed;
use crate::recovery::Recovery;
use crate::repairs::{RecoveryReport, Repair, RepairKind};
use crate::scan::{End, Position, read, scan_believed};
use crate::segments;
use crate::stream::Recovered;
use crate::tail::Tail;

/// Bytes written again at once.
const COPY_BYTES: u64 = 1 << 20;

/// A stream as it was found, before anything of it is changed.
pub(crate) struct FoundStream<'a> {
    pub(crate) recovery: Recovery<'a>,
    pub(crate) published: Option<Checkpoint>,
    pub(crate) kept: Option<Checkpoint>,
    /// Frames that were signed for.
    pub(crate) signed_size: u64,
    /// The beginning of the frames that were not signed for.
    pub(crate) signed_end: Place,
    pub(crate) position: Position,
    pub(crate) end: End,
    pub(crate) rebuilt: bool,
    pub(crate) is_lossless: bool,
    pub(crate) tree: TreeWriter,
}

impl FoundStream<'_> {
    /// Frames of the stream.
    pub(crate) const fn size(&self) -> u64 {
        self.tree.size()
    }

    /// The frames that had been durable and are gone.
    pub(crate) fn loss(&self) -> Option<LogError> {
        let noted = self.recovery.durable.filter(|_| !self.is_lossless)?;
        Some(self.recovery.lost(&noted, self.size()))
    }

    /// Checks that frames are gone whose loss an opening accepted that was broken off: going on with that
    /// sets them aside.
    ///
    /// # Errors
    /// [`LogError::Broken`] where one is there; errors of the storage.
    pub(crate) fn check_returned(
        &self,
        master: &MasterKey,
        floor: Option<Floor>,
    ) -> Result<(), LogError> {
        let Recovery {
            files,
            name,
            identity,
            history,
            ..
        } = &self.recovery;
        let Some(lost) = history.begun_loss(name) else {
            return Ok(());
        };
        let before = CertifiedEpochs::without_begun(history);
        let mut epochs = Epochs::new(master, &before, name, identity.id).above(floor);
        let (mut position, mut is_there) = (self.position.clone(), false);
        let mut believe = |_: &Record, frame: &Frame<'_>| epochs.authenticate(frame);
        let mut take = |_: &Record, _: &Frame<'_>| {
            is_there = true;
            Ok::<(), LogError>(())
        };
        let _end = scan_believed(files, name, &mut position, &mut believe, &mut take)?;
        if !is_there {
            return Ok(());
        }
        Err(LogError::Broken {
            place: format!("stream journal, frame {}", lost.frame),
            reason: lost.returned(),
        })
    }

    /// Cuts off torn bytes, makes the found frames durable, and finishes a publication of the
    /// journal, whose checkpoints `witness` signs too.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn settle(
        self,
        witness: &dyn Signer,
        repairs: &mut RecoveryReport,
    ) -> Result<Recovered, LogError> {
        let Self {
            recovery,
            mut published,
            kept,
            signed_size,
            signed_end,
            position,
            end,
            rebuilt,
            is_lossless,
            mut tree,
        } = self;
        let (files, name) = (recovery.files, recovery.name);
        repairs.take_back(name, tree.size());
        for repair in &recovery.noted {
            repairs.note(repair.clone());
        }
        if let Some(durable) = recovery.durable.filter(|_| !is_lossless) {
            let lost = tree.size()..durable.frames;
            repairs.announce(files, Repair::new(RepairKind::Lost, name, lost))?;
        }
        let is_journal = name.as_str() == StreamName::JOURNAL;
        let mut tail = Tail {
            files,
            name,
            repairs,
            unfinished: recovery.history.unfinished.filter(|_| is_journal),
        };
        tail.clear(&position, &end, is_lossless)?;
        let covered = published.as_ref().map_or(0, Checkpoint::size);
        recovery.settle_tree(&mut tree, covered, signed_size)?;
        recovery.mend_headers(signed_end, &position, repairs)?;
        if signed_end != position.place() {
            recovery.secure(signed_end, &position)?;
        }
        if let Some(kept) = kept.as_ref().filter(|_| is_journal)
            && published.as_ref().is_none_or(|it| it.size() < kept.size())
        {
            repairs.announce_all(files, Vec::new())?;
            recovery.finish_publication(kept, witness)?;
            published = Some(kept.clone());
        }
        if tree.size() > signed_size {
            let unsigned = signed_size..tree.size();
            repairs.note(Repair::new(RepairKind::Unsigned, name, unsigned));
        }
        let is_published =
            !rebuilt && recovery.is_published(&tree, kept.as_ref()) && recovery.has_key()?;
        let published = published.filter(|head| is_published && head.size() == tree.size());
        Ok(Recovered::new(&position, tree, published))
    }
}

/// Refuses all lost durable content, in one error: a caller who accepts it must know all of it.
pub(crate) fn refuse_losses(
    found: &[FoundStream<'_>],
    missed: &KeysMissed,
    history: &History,
) -> Result<(), LogError> {
    let mut losses: Vec<LogError> = found.iter().filter_map(FoundStream::loss).collect();
    losses.extend(missed.refuse(history).err());
    match losses.pop() {
        None => Ok(()),
        Some(loss) if losses.is_empty() => Err(loss),
        Some(loss) => {
            losses.push(loss);
            Err(LogError::Losses(losses))
        }
    }
}

/// Refuses losses where the second copy of the journal's head, or of that of a stream with a loss, is
/// missing: a crash may have left the only head of the lost frames there.
pub(crate) fn check_copies(found: &[FoundStream<'_>], missed: &KeysMissed) -> Result<(), LogError> {
    let has_lost = |stream: &&FoundStream<'_>| stream.loss().is_some();
    let journal = |stream: &&FoundStream<'_>| stream.recovery.name.as_str() == StreamName::JOURNAL;
    if missed.subjects() == 0 && !found.iter().any(|stream| has_lost(&stream)) {
        return Ok(());
    }
    let needed = found.iter().filter(|it| has_lost(it) || journal(it));
    let mut needed = needed.filter(|it| it.published.as_ref().is_some_and(|it| it.size() > 0));
    let Some(stream) = needed.find(|stream| stream.kept.is_none()) else {
        return Ok(());
    };
    Err(LogError::Broken {
        place: format!("second copy of the head of stream {}", stream.recovery.name),
        reason: advice::COPIES_OF_LOSS.into(),
    })
}

impl Recovery<'_> {
    /// Removes files beyond the `published` and the `signed` frames, and writes `tree` where it was
    /// rebuilt. The stored files in its place may hold anything, and readers compare every form
    /// that is there.
    fn settle_tree(
        &self,
        tree: &mut TreeWriter,
        published: u64,
        signed: u64,
    ) -> Result<(), LogError> {
        let is_rebuilt = self.noted.iter().any(|it| it.kind == RepairKind::Tree);
        let rebuilt = is_rebuilt.then(|| Rebuilt::new(tree.take_files()));
        let beyond = Beyond {
            files: self.files,
            name: self.name,
            published,
            signed,
            rebuilt: rebuilt.unwrap_or_default(),
        };
        beyond.clear()?;
        beyond.mend()
    }

    /// Writes the checkpoint of `kept`, the head in the second copy, with the signature of that
    /// copy: a crash came between the two.
    ///
    /// Readers take the signed size of the journal from the checkpoint. Where it is behind, readers
    /// and writers without the second copies do not know the opening that only the copy covers. So
    /// no note of durable frames may be of that opening, and no key certified there may replace the
    /// one before.
    fn finish_publication(&self, kept: &Checkpoint, witness: &dyn Signer) -> Result<(), LogError> {
        let broken = |reason: String| self.broken("second copy of the head", &reason);
        let note = self.heads.load(self.name)?.unwrap_or_default();
        let opened = self.history.open(&note, &self.origin);
        let (signer, head) = opened.map_err(|error| broken(error.to_string()))?;
        let key = self.history.keys.get(signer);
        let Some((key, _)) = key.filter(|_| head == *kept) else {
            return Err(broken("changed under this writer".into()));
        };
        let key = VerifierKey::new(&self.origin, *key.key());
        let key = key.map_err(|error| broken(error.to_string()))?;
        let note = witnessed(&note, &key, witness).map_err(|error| broken(error.to_string()))?;
        let text = key.encode() + "\n";
        self.files
            .replace(&self.path("log.vkey"), text.as_bytes())?;
        self.files
            .replace(&self.path("checkpoint"), note.as_bytes())
    }

    /// Makes the segments durable from `from` up to `to`, before their content is signed for.
    ///
    /// Found frames may never have been synced. They are written again, because a failed sync may
    /// have left them in memory marked as written. The next sync would then succeed without writing
    /// them.
    fn secure(&self, from: Place, to: &Position) -> Result<(), LogError> {
        let mut buffer = Vec::new();
        for segment in self.segments(from, to)? {
            let name = self.segment(segment);
            let Some(file) = self.files.open_read(&name)? else {
                continue;
            };
            let length = self.files.attempt("measure", &name, |_| file.length())?;
            let mut offset = if segment == from.segment {
                from.offset
            } else {
                0
            };
            while offset < length {
                let bytes = length.saturating_sub(offset).min(COPY_BYTES);
                buffer.resize(usize::try_from(bytes).unwrap_or_default(), 0);
                read(self.files, &name, &*file, &mut buffer, offset)?;
                self.files.write_at(&name, &buffer, offset)?;
                offset = offset.saturating_add(bytes);
            }
            self.files.sync(&name)?;
        }
        self.files.sync_folder(&segments::folder(self.name))
    }

    /// Writes wrong headers of segments anew; their content is known.
    fn mend_headers(
        &self,
        from: Place,
        to: &Position,
        repairs: &mut RecoveryReport,
    ) -> Result<(), LogError> {
        for segment in self.segments(from, to)? {
            let name = self.segment(segment);
            let Some(file) = self.files.open_read(&name)? else {
                continue;
            };
            let length = self.files.attempt("measure", &name, |_| file.length())?;
            let mut header = [0; SEGMENT_HEADER_BYTES];
            if length < segments::HEADER_END {
                continue;
            }
            read(self.files, &name, &*file, &mut header, 0)?;
            if check_segment_header(&self.identity.id, &header).is_err() {
                let repair = Repair::new(RepairKind::Header, self.name, segment..segment);
                repairs.announce(self.files, repair)?;
                let header = segment_header(&self.identity.id);
                self.files.write_at(&name, &header, 0)?;
                self.files.sync(&name)?;
            }
        }
        Ok(())
    }

    /// The segments from the one at `from` up to the one at `to`.
    fn segments(&self, from: Place, to: &Position) -> Result<Vec<u64>, LogError> {
        let cuts = segments::cuts(self.files, self.name, self.identity.version)?;
        let cuts = cuts.into_iter();
        let between = cuts.filter(|cut| (from.segment..=to.segment).contains(cut));
        let filled = between.filter(|cut| !to.strange.contains(cut));
        Ok(filled.collect())
    }

    fn segment(&self, segment: u64) -> String {
        segments::path(self.identity.version, self.name, segment)
    }
}

/// The checkpoint in `note` with the signatures of `key` and of `witness`; other signatures of a
/// second copy do not count.
fn witnessed(note: &[u8], key: &VerifierKey, witness: &dyn Signer) -> Result<String, NoteError> {
    let note = SignedNote::parse(note)?;
    let mut signatures = note.signatures().to_vec();
    signatures.retain(|line| line.id() == key.id() && line.name() == key.name());
    let mut note = SignedNote::with_signatures(note.text().to_owned(), signatures)?;
    note.sign(witness)?;
    Ok(note.encode())
}
