//! Checks a stream's tree as it grows record by record: their order, tiles, roots, and heads known
//! from elsewhere.

use std::collections::BTreeSet;

use probity_format::frame::Frame;
use probity_format::limits::TILE_WIDTH;
use probity_format::record::Record;
use probity_format::segment::Place;
use probity_format::stream::StreamName;
use probity_format::tile::{Bundle, TileFile, TreeWriter};
use probity_format::tree::{Frontier, Hash, leaf_hash};
use probity_format::v2;
use probity_format::width::to_u64;

use super::anchoring::anchoring_frame;
use super::anchors::{Comparison, Suspects};
use super::durable::NOTED;
use super::records::Placed;
use super::sealers::Sealers;
use super::tiles::Tiles;
use super::{Fault, FaultClass, Faults, Subject, Verifier, as_far_as_there, unless_damaged};
use crate::error::{LogError, frames};
use crate::opening::Opening;
use crate::scan::{End, Position, scan_believed};
use crate::segments::{self, Walk};
use crate::uncovered::Uncovered;

/// The content behind the frames that the checkpoint covers.
pub(super) struct Behind {
    /// Whole frames.
    pub(super) frames: u64,
    /// Their bytes.
    pub(super) frame_bytes: u64,
    /// Bytes of the segment behind them that are no frame.
    pub(super) tail_bytes: u64,
    /// The segment that the stream ends in.
    pub(super) segment: u64,
    /// The segment of the last whole frame.
    pub(super) last_filled: Option<u64>,
    /// Files in the place of a segment that hold no frame, while the segment before goes on.
    pub(super) strange: BTreeSet<u64>,
    /// The offset in `segment` at which the last whole frame ends.
    offset: u64,
}

/// The tree of one stream, as far as its records were read.
pub(super) struct Growth<'a> {
    verifier: &'a Verifier<'a>,
    subject: &'a Subject,
    /// Frames that the checkpoint covers.
    size: u64,
    /// The signed hashes; nothing from the first unknown one on.
    signed: Option<Frontier>,
    /// The files that the records determine; nothing from the first on that is missing or was not
    /// signed.
    files: Option<TreeWriter>,
    /// The frame that is due, and the record before it.
    frame: u64,
    before: Option<Record>,
    anchored: Comparison<'a>,
    /// Anchored heads that may be of another history.
    suspects: Vec<Suspects>,
}

impl<'a> Growth<'a> {
    pub(super) fn new(
        verifier: &'a Verifier<'a>,
        subject: &'a Subject,
        size: u64,
        faults: &mut Faults,
    ) -> Self {
        let mut growth = Self {
            verifier,
            subject,
            size,
            signed: Some(Frontier::new()),
            files: Some(TreeWriter::new()),
            frame: 0,
            before: None,
            anchored: Comparison::new(&subject.anchors),
            suspects: Vec::new(),
        };
        growth.look(faults);
        growth
    }

    fn fault(
        &self,
        class: FaultClass,
        place: String,
        detail: impl Into<String>,
        faults: &mut Faults,
    ) {
        faults.push(Fault::new(class, &self.subject.name, place, detail));
    }

    /// Checks that a record follows the one before, and adds it to the tree.
    pub(super) fn add(
        &mut self,
        placed: &Placed,
        reported: &BTreeSet<String>,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        if let Some(record) = &placed.record {
            self.check_order(record, faults);
        }
        self.before = placed.record;
        self.frame = self.frame.saturating_add(1);
        self.signed = self
            .signed
            .take()
            .zip(placed.signed)
            .map(|(mut tree, hash)| {
                tree.push(hash);
                tree
            });
        let record = placed.record.filter(|_| placed.signed.is_some());
        self.files = self
            .files
            .take()
            .zip(record)
            .and_then(|(mut tree, record)| {
                // A record is far shorter than the longest leaf, and no stream is as long as the
                // largest tree.
                tree.append(&record.encode()).ok().map(|_| tree)
            });
        self.look(faults);
        self.compare_finished(reported, faults)
    }

    fn check_order(&self, record: &Record, faults: &mut Faults) {
        let frame = self.frame;
        let follows = frame == 0 || self.before.is_some();
        let detail = self.wrong(record);
        let before = self.before.as_ref();
        let detail = detail.or_else(|| follows.then(|| out_of_order(before, record)).flatten());
        let Some(detail) = detail else {
            return;
        };
        let path = Bundle::of_tree(frame / TILE_WIDTH, self.size).map(Bundle::path);
        let place = format!(
            "streams/{}/{}, record {frame}",
            self.subject.name,
            path.unwrap_or_default()
        );
        self.fault(FaultClass::Record, place, detail, faults);
    }

    fn wrong(&self, record: &Record) -> Option<&'static str> {
        let config = &self.subject.config;
        if record.frame != self.frame {
            return Some("has another frame index than its place");
        }
        let rest = record.v2?;
        if rest.stream != self.subject.id {
            Some("is of another stream or log")
        } else if rest.sealing.proofs != config.proofs || rest.sealing.cipher != config.cipher {
            Some("is sealed in another way than the stream is created for")
        } else {
            None
        }
    }

    /// Compares the tiles and bundles that the last record filled.
    fn compare_finished(
        &mut self,
        reported: &BTreeSet<String>,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        let Some(tree) = self
            .files
            .as_mut()
            .filter(|_| self.frame.is_multiple_of(TILE_WIDTH))
        else {
            return Ok(());
        };
        let finished = tree.take_full();
        self.compare(&finished, reported, faults)
    }

    /// Compares the files at the right edge, where the checkpoint ends.
    pub(super) fn compare_edge(
        &mut self,
        reported: &BTreeSet<String>,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        if let (Some(tree), Some(head)) = (&self.signed, &self.subject.head)
            && tree.root() != *head.root()
        {
            let place = format!("streams/{}/checkpoint", self.subject.name);
            let detail = "what has its root was changed while it was read";
            self.fault(FaultClass::Tree, place, detail, faults);
        }
        let Some(tree) = &mut self.files else {
            return Ok(());
        };
        let edge = tree.take_files().write;
        self.compare(&edge, reported, faults)
    }

    fn compare(
        &self,
        files: &[TileFile],
        reported: &BTreeSet<String>,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        let tiles = Tiles {
            verifier: self.verifier,
            subject: self.subject,
        };
        for file in files {
            tiles.compare(file, reported, faults)?;
        }
        Ok(())
    }

    /// Follows whole frames behind the checkpoint: a crash leaves signed heads and durable frames
    /// there. Returns the findings; nothing where the end of the stream is damaged.
    pub(super) fn read_behind(
        &mut self,
        last_place: Option<Place>,
        sealers: Sealers<'_>,
        faults: &mut Faults,
    ) -> Result<Option<Behind>, LogError> {
        let (verifier, subject) = (self.verifier, self.subject);
        let identity = subject.identity();
        let position = match (&self.before, last_place) {
            _ if self.frame == 0 => Some(Position::start(identity)),
            (Some(last), Some(place)) => {
                let (files, name) = (&verifier.files, &subject.name);
                unless_damaged(Position::behind(files, name, identity, last, place))?
            }
            _ => None,
        };
        let Some(mut position) = position else {
            return Ok(None);
        };
        let (mut found, mut frame_bytes) = (0_u64, 0_u64);
        let name = &subject.name;
        let open = |opener| Opening::new(opener, name, subject.id, subject.config);
        let mut opening = sealers.opening_behind(subject).map(open);
        let mut is_believed = sealers.believing(subject);
        let mut believe = |_: &Record, frame: &Frame<'_>| is_believed(frame);
        let mut last_frame = None;
        let start = position.segment;
        let mut walk = Walk::new(segments::cuts(&verifier.files, name, subject.version)?);
        walk.found(position.place());
        let mut follow = |record: &Record, frame: &Frame<'_>| {
            let place = walk.pass(record.frame, Some(record));
            if let Some(opening) = opening.as_mut() {
                check_content(opening, subject, place, frame, faults);
            }
            last_frame = Some(record.frame);
            found = found.saturating_add(1);
            frame_bytes = frame_bytes.saturating_add(u64::from(record.length));
            self.frame = self.frame.saturating_add(1);
            if let Some(tree) = &mut self.signed {
                tree.push(leaf_hash(&record.encode()));
            }
            self.look(faults);
            Ok(())
        };
        let files = &verifier.files;
        let scanned = scan_believed(files, name, &mut position, &mut believe, &mut follow);
        let tail_bytes = match as_far_as_there(scanned)? {
            Some(End::Torn { bytes } | End::Foreign { bytes }) => bytes,
            Some(End::Clean) | None => 0,
        };
        let strange = std::mem::take(&mut position.strange);
        let begins = |frame: u64| {
            let before = walk.cuts.range(start..=frame).rev();
            let filled = before.copied().find(|first| !strange.contains(first));
            filled.unwrap_or(start)
        };
        let last_filled = last_frame.map(begins);
        Ok(Some(Behind {
            last_filled,
            strange,
            frames: found,
            frame_bytes,
            tail_bytes,
            segment: position.segment,
            offset: position.offset,
        }))
    }

    /// Compares the root at the current size with every known head of that size.
    fn look(&mut self, faults: &mut Faults) {
        let Some(tree) = &self.signed else {
            return;
        };
        let size = tree.size();
        let known = self.subject.known_at(size);
        let is_anchored = self.anchored.is_due(size);
        let mut uncovered = self.subject.uncovered.iter();
        let is_named = uncovered.any(|named| named.head.size() == size);
        if known.is_empty() && !is_anchored && !is_named {
            return;
        }
        let root = tree.root();
        self.compare_uncovered(size, &root, faults);
        for known in known.iter().filter(|known| known.root != root) {
            let class = match known.class {
                FaultClass::Rollback => FaultClass::Fork,
                class => class,
            };
            self.rewritten(class, size, &known.source, faults);
        }
        if is_anchored {
            self.suspects.extend(self.anchored.pass(root));
        }
    }

    /// Reports the heads of `size` frames with another root that frames name which no head covers.
    fn compare_uncovered(&self, size: u64, root: &Hash, faults: &mut Faults) {
        for named in &self.subject.uncovered {
            if named.head.size() == size && named.head.root() != root {
                self.unnamed(FaultClass::Fork, named, faults);
            }
        }
    }

    fn unnamed(&self, class: FaultClass, named: &Uncovered, faults: &mut Faults) {
        let place = format!("streams/{}/segments", self.subject.name);
        self.fault(class, place, named.refused(), faults);
    }

    fn rewritten(&self, class: FaultClass, size: u64, source: &str, faults: &mut Faults) {
        let place = format!(
            "streams/{}, frame {}",
            self.subject.name,
            size.saturating_sub(1)
        );
        let detail = format!("history was rewritten: {source} has another root at {size}");
        self.fault(class, place, detail, faults);
    }

    /// Checks that every head known from elsewhere is part of the tree. It must lie within the
    /// frames found, if they were found up to the end.
    pub(super) fn finish(
        mut self,
        behind: Option<&Behind>,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        if let Some(behind) = behind {
            self.check_reached(faults);
            self.check_durable(behind, faults);
            self.check_lost(faults)?;
        }
        self.suspects.extend(self.anchored.finish());
        for suspects in &self.suspects {
            let heads = self.verifier.heads_anchored(self.subject, suspects)?;
            let mut is_explained = !suspects.is_certain;
            for ((head, frame), root) in heads.iter().zip(&suspects.roots) {
                if head.root() != root {
                    is_explained = true;
                    let source = format!("{} {frame}", anchoring_frame(self.subject.version));
                    self.rewritten(FaultClass::Fork, head.size(), &source, faults);
                }
            }
            if !is_explained {
                let source = "an anchored head, which was changed while it was read,";
                let size = heads.last().map_or(0, |(head, _)| head.size());
                self.rewritten(FaultClass::Fork, size, source, faults);
            }
        }
        Ok(())
    }

    /// Checks that the frames noted as durable are there, signed for or not.
    fn check_durable(&self, behind: &Behind, faults: &mut Faults) {
        let mut known = self.subject.known.iter();
        let noted = known.find(|known| known.source == NOTED && known.size > self.frame);
        let Some(noted) = noted else {
            return;
        };
        let path = segments::path(self.subject.version, &self.subject.name, behind.segment);
        let (class, what) = if behind.tail_bytes > 0 {
            let what = "is damaged, or was not sealed with this log's keys";
            (FaultClass::Frame, what)
        } else {
            (FaultClass::Missing, "is gone")
        };
        let place = format!("{path}, frame {} at byte {}", self.frame, behind.offset);
        let mut detail = format!("{what}, though {NOTED} counts {}", frames(noted.size));
        let lost = self.subject.lost.as_ref();
        let lost = lost.filter(|(lost, _)| lost.loss.from <= self.frame && behind.tail_bytes > 0);
        if let Some((lost, _)) = lost {
            detail = format!("{detail}; {}", lost.begun());
        }
        self.fault(class, place, detail, faults);
    }

    /// Checks that the frames which the journal's unsigned end calls lost are gone. The opening
    /// that accepts a loss signs for it before anything is written in their place.
    fn check_lost(&self, faults: &mut Faults) -> Result<(), LogError> {
        let lost = self.subject.lost.as_ref();
        let Some((lost, refused)) = lost.filter(|(lost, _)| lost.loss.from < self.frame) else {
            return Ok(());
        };
        let journal = StreamName::journal();
        let signed = self.verifier.claimed_size(&journal)?.unwrap_or_default();
        if signed <= lost.frame {
            let place = format!("journal frame {}", lost.frame);
            faults.push(Fault::new(
                FaultClass::Journal,
                &journal,
                place,
                refused.clone(),
            ));
        }
        Ok(())
    }

    fn check_reached(&self, faults: &mut Faults) {
        let reached = self.frame;
        for named in &self.subject.uncovered {
            if named.head.size() > reached {
                self.unnamed(FaultClass::Rollback, named, faults);
            }
        }
        let subject = self.subject;
        let known = subject.known.iter().filter(|known| known.source != NOTED);
        let known = known.map(|known| (known.size, known.source.clone()));
        let anchored = subject.anchors.last();
        let frame = anchoring_frame(subject.version);
        let anchored = anchored.map(|(size, number)| (size, format!("{frame} {number}")));
        for (size, source) in known.chain(anchored).filter(|(size, _)| *size > reached) {
            let place = format!("streams/{}/checkpoint", subject.name);
            let detail = format!(
                "the stream has {}, but {source} was signed for {size}: its end was cut off or an older copy put back",
                frames(reached)
            );
            self.fault(FaultClass::Rollback, place, detail, faults);
        }
    }
}

/// The fault in the order of `record` after the one before.
fn out_of_order(before: Option<&Record>, record: &Record) -> Option<&'static str> {
    if record.first_entry != before.map_or(0, Record::next_entry) {
        return Some("does not follow the entries before");
    }
    let place = record.place()?;
    let header = to_u64(v2::SEGMENT_HEADER_BYTES);
    let begins = |segment| Place {
        segment,
        offset: header,
    };
    let follows = match before.and_then(|before| Some((before.place()?, before.length))) {
        Some((at, length)) => {
            place == segments::behind(at, length) || place == begins(at.segment.saturating_add(1))
        }
        None => place == begins(0),
    };
    (!follows).then_some("does not follow the bytes before")
}

/// Checks the content of a frame that the log's keys sealed and that is not signed for yet.
fn check_content(
    opening: &mut Opening<'_>,
    subject: &Subject,
    place: Option<Place>,
    frame: &Frame<'_>,
    faults: &mut Faults,
) {
    let segment = place.map_or(0, |place| place.segment);
    let path = segments::path(subject.version, &subject.name, segment);
    let place = format!("{path}, frame {}", frame.clear.header.frame);
    let mut fault = |detail: String| {
        let class = FaultClass::Content;
        faults.push(Fault::new(class, &subject.name, place.clone(), detail));
    };
    if let Err(error) = opening.check(frame) {
        fault(error.to_string());
    }
    for lost in opening.take_unexplained() {
        fault(lost.to_string());
    }
}
