//! Follows a stream that was checked, frame by frame, up to everything that must be there.

use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::record::Record;
use probity_format::tree::{Frontier, leaf_hash};

use super::reading::newest;
use super::subject::Subject;
use crate::epochs::Epochs;
use crate::error::LogError;
use crate::files::Files;
use crate::scan::{Position, Scan};

/// A stream that was checked, on the way from its first frame to its last.
pub(crate) struct WholeStream<'a> {
    scan: Scan<'a>,
    position: Position,
    epochs: Epochs<'a>,
    head: Option<Checkpoint>,
    /// Frames that must be there.
    frames: u64,
    /// The tree over the frames read, up to the head.
    tree: Frontier,
    name: String,
}

impl<'a> WholeStream<'a> {
    /// Begins before the first frame of `subject`, whose head bounds the frames that are believed
    /// without a key.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn new(
        files: &'a Files,
        subject: &Subject,
        epochs: Epochs<'a>,
    ) -> Result<Self, LogError> {
        Ok(Self {
            scan: Scan::new(files, &subject.name, subject.version)?,
            position: Position::start(subject.identity()),
            epochs,
            head: subject.head.clone(),
            frames: newest(subject),
            tree: Frontier::new(),
            name: subject.name.to_string(),
        })
    }

    /// The next frame: one that the head covers, or one behind it that a holder of the log's keys
    /// sealed. Nothing follows once there is none.
    ///
    /// # Errors
    /// [`LogError::Broken`] where the stream was changed since it was checked.
    pub(crate) fn next(&mut self) -> Result<Option<(Record, Frame<'_>)>, LogError> {
        let size = self.head.as_ref().map_or(0, Checkpoint::size);
        let epochs = &mut self.epochs;
        let mut believe =
            |record: &Record, frame: &Frame<'_>| record.frame < size || epochs.authenticate(frame);
        if let Ok((record, frame)) = self.scan.next(&mut self.position, &mut believe)? {
            if self.tree.size() < size {
                self.tree.push(leaf_hash(&record.encode()));
            }
            self.position.pass(&record, &frame.clear.header);
            return Ok(Some((record, frame)));
        }
        let next = self.position.next_frame;
        let mut head = self.head.iter();
        if next < self.frames || !head.all(|head| self.tree.root() == *head.root()) {
            return Err(LogError::Broken {
                place: format!("stream {}, frame {next}", self.name),
                reason: "was changed while the log was read".into(),
            });
        }
        Ok(None)
    }
}
