//! Collects the anchored heads, from the stream `heads`, or from the journal of a log of version 2.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::checkpoint::Checkpoint;
use probity_format::compress::Decompressor;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::stream::StreamName;
use probity_format::{DecodeError, Version};

use super::anchors::{Anchors, Suspects};
use super::{Fault, FaultClass, Faults, Subject, Verifier};
use crate::error::LogError;
use crate::heads_entry::HeadsEntry;
use crate::journal::{History, bound_heads};

/// The words in reports for a frame that anchors heads, before its number.
pub(super) const fn anchoring_frame(version: Version) -> &'static str {
    match version {
        Version::V2 => "journal frame",
        _ => "heads frame",
    }
}

/// The anchored heads, and their faults.
pub(super) struct Anchoring<'a> {
    geometry: &'a Geometry,
    /// By the origin of their stream.
    pub(super) of_streams: BTreeMap<String, Anchors>,
    pub(super) faults: Faults,
    decompressor: Decompressor,
    /// Certificates of the journal that bind no more of the stream than was read.
    certificates: usize,
    /// The frame of the stream `heads` that is due.
    next: u64,
    /// Certificates before the last frame that was skipped because of damage, and streams of which
    /// a head was read since. The first head of a stream may repeat the one in that frame.
    gap: Option<(usize, BTreeSet<String>)>,
    /// Certificates before the first skipped frame since one that names all streams; the frame may
    /// have named any head.
    unsure: Option<usize>,
    /// The epoch of the last frame that names all streams.
    all: Option<u32>,
}

impl<'a> Anchoring<'a> {
    pub(super) fn new(geometry: &'a Geometry) -> Self {
        Self {
            geometry,
            of_streams: BTreeMap::new(),
            faults: Faults::default(),
            decompressor: Decompressor::default(),
            certificates: 0,
            next: 0,
            gap: None,
            unsure: None,
            all: None,
        }
    }

    /// The number of certificates of `history` before a head that no frame names: those before the
    /// newest frame that was read, and those that bind all frames and say that all heads are named.
    ///
    /// Only the stream `heads` shows it: a log of version 2 has no such count.
    pub(super) fn certificates_read(&self, history: &History) -> usize {
        let named = history.certificates_before_unnamed(self.next);
        self.unsure.unwrap_or_else(|| self.certificates.max(named))
    }

    /// The epoch of the last frame that names all streams: except for the stream `heads`, every
    /// stream that had frames by then is named.
    pub(super) const fn all(&self) -> Option<u32> {
        self.all
    }

    /// Adds the heads that the journal of a log of version 2 anchors in frame `frame`.
    pub(super) fn take_v2(&mut self, history: &mut History, frame: u64) {
        let Some(v2) = &mut history.v2 else {
            return;
        };
        let heads = std::mem::take(&mut v2.heads);
        if heads.is_empty() {
            return;
        }
        let certificates = history.certificates.iter();
        let before = certificates.filter(|(_, certified)| *certified < frame);
        let count = before.count();
        for (head, _) in heads {
            self.add(&head, (frame, 0), count, &StreamName::journal());
        }
    }

    /// Adds the heads in frame `number` of the stream `heads`, behind the certificates of `history`
    /// that bind no more than the frames before.
    pub(super) fn take(&mut self, history: &History, number: u64, frame: &Frame<'_>) {
        if number != self.next {
            self.unsure.get_or_insert(self.certificates);
            self.gap = Some((self.certificates, BTreeSet::new()));
        }
        self.next = number.saturating_add(1);
        let later = history.certificates.iter().skip(self.certificates);
        let passed = later.take_while(|(link, _)| bound_heads(link) <= number);
        self.certificates = self.certificates.saturating_add(passed.count());
        match read(frame, &mut self.decompressor) {
            Ok(entries) => self.take_entries(entries, (number, frame.clear.header.epoch)),
            Err(error) => {
                self.unsure.get_or_insert(self.certificates);
                self.fault(number, &StreamName::heads(), error.to_string());
            }
        }
    }

    fn take_entries(&mut self, entries: Vec<HeadsEntry>, by: (u64, u32)) {
        let (number, epoch) = by;
        let name = StreamName::heads();
        let (mut names_all, mut named) = (false, Vec::new());
        for entry in entries {
            match entry {
                HeadsEntry::Heads { is_all, heads } => {
                    names_all |= is_all;
                    for head in heads {
                        let certificates = self.certificates_before(&head);
                        self.add(&head, by, certificates, &name);
                        named.push(head.origin().to_owned());
                    }
                }
                HeadsEntry::IndexRoot { stream, last } => {
                    let origin = self.geometry.stream_origin(stream.as_str());
                    let anchored = self.of_streams.get(&origin).and_then(Anchors::last);
                    // A skipped frame may have named a head that does.
                    if self.gap.is_none() && anchored.is_none_or(|(size, _)| last >= size) {
                        let detail = "has an index over frames that no head covers";
                        self.fault(number, &name, detail.into());
                    }
                }
            }
        }
        if names_all {
            self.unsure = None;
            self.all = Some(epoch);
            named.sort();
            let left_out = self.of_streams.keys();
            let mut left_out = left_out.filter(|origin| named.binary_search(origin).is_err());
            if let Some(origin) = left_out.next() {
                let detail = format!("says that it names all streams, and leaves {origin} out");
                self.fault(number, &name, detail);
            }
        }
    }

    /// The number of certificates before `head` was named for the first time.
    fn certificates_before(&mut self, head: &Checkpoint) -> usize {
        let gap = self.gap.as_mut();
        let is_first = gap.is_some_and(|(_, read)| read.insert(head.origin().to_owned()));
        match &self.gap {
            Some((before, _)) if is_first => *before,
            _ => self.certificates,
        }
    }

    fn add(
        &mut self,
        head: &Checkpoint,
        (frame, epoch): (u64, u32),
        certificates: usize,
        by: &StreamName,
    ) {
        if head.origin() == self.geometry.stream_origin(by.as_str()) {
            self.fault(frame, by, "anchors a head of its own stream".into());
            return;
        }
        let of_stream = self.of_streams.entry(head.origin().to_owned()).or_default();
        if let Err(detail) = of_stream.add(head, (frame, epoch), certificates) {
            self.fault(frame, by, detail);
        }
    }

    fn fault(&mut self, frame: u64, by: &StreamName, detail: String) {
        let place = format!("{} {frame}", anchoring_frame(self.geometry.version()));
        self.faults
            .push(Fault::new(FaultClass::Journal, by, place, detail));
    }
}

impl Verifier<'_> {
    /// The anchored heads of a stream that contain `suspects`, with their frames.
    pub(super) fn heads_anchored(
        &self,
        subject: &Subject,
        suspects: &Suspects,
    ) -> Result<Vec<(Checkpoint, u64)>, LogError> {
        let origin = self.geometry.stream_origin(subject.name.as_str());
        let (mut number, mut size) = (0_usize, 0);
        let mut found = Vec::new();
        let mut take = |head: Checkpoint, frame: u64| {
            // A head that is smaller than the one before was not added.
            if head.origin() != origin || head.size() < size {
                return;
            }
            size = head.size();
            if number >= suspects.first && found.len() < suspects.roots.len() {
                found.push((head, frame));
            }
            number = number.saturating_add(1);
        };
        if self.geometry.version() == Version::V2 {
            self.follow_journal(&mut |history, _| {
                let heads = history.v2.as_mut().map(|v2| std::mem::take(&mut v2.heads));
                for (head, frame) in heads.unwrap_or_default() {
                    take(head, frame);
                }
            })?;
            return Ok(found);
        }
        let mut decompressor = Decompressor::default();
        let history = self.follow_journal(&mut |_, _| {})?.history;
        let _passed = self.follow_heads(&history, &mut |number, frame| {
            for entry in read(frame, &mut decompressor).unwrap_or_default() {
                if let HeadsEntry::Heads { heads, .. } = entry {
                    for head in heads {
                        take(head, number);
                    }
                }
            }
        })?;
        Ok(found)
    }
}

/// The entries of a frame of the stream `heads`.
fn read(
    frame: &Frame<'_>,
    decompressor: &mut Decompressor,
) -> Result<Vec<HeadsEntry>, DecodeError> {
    let body = frame.open(0, None, decompressor)?;
    let columns = body.columns()?;
    (0..columns.len())
        .map(|index| HeadsEntry::read(&columns.entry(index)?))
        .collect()
}
