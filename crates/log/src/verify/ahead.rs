//! A key beside the journal's checkpoint whose certificate is behind the signed part: a writer
//! ended between the two, or is at work.

use std::cell::Cell;

use probity_format::compress::Decompressor;
use probity_format::frame::Frame;
use probity_format::note::VerifierKey;
use probity_format::record::Record;
use probity_format::stream::StreamName;

use super::{Verifier, as_far_as_there};
use crate::error::LogError;
use crate::history::add_to_history;
use crate::journal::History;
use crate::scan::{Position, scan_believed};
use crate::segments::Identity;

impl Verifier<'_> {
    /// Returns the key `own`, if the journal certifies it behind the frames of `history`. The key
    /// before it has signed the certificate, and no other can, so the writer of the frame does not
    /// matter. There may be several in a row, where a writer continued from such a state. Read
    /// after `own`, which a writer stores once the frame is durable.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(super) fn certified_ahead(
        &self,
        history: &History,
        own: Option<VerifierKey>,
    ) -> Result<Option<VerifierKey>, LogError> {
        let Some(own) = own.filter(|own| history.v2.is_none() && !history.has_key(own)) else {
            return Ok(None);
        };
        let name = StreamName::journal();
        let signed = history.frames();
        let mut growing = history.clone();
        let mut decompressor = Decompressor::default();
        let is_over = Cell::new(false);
        let mut believe = |_: &Record, _: &Frame<'_>| !is_over.get();
        let mut add = |record: &Record, frame: &Frame<'_>| {
            if record.frame >= signed {
                let added = add_to_history(&mut growing, record.frame, frame, &mut decompressor);
                is_over.set(added.is_err() || growing.has_key(&own));
            }
            Ok::<(), LogError>(())
        };
        let mut position = Position::start(Identity::journal(&self.geometry));
        let scanned = scan_believed(&self.files, &name, &mut position, &mut believe, &mut add);
        as_far_as_there(scanned)?;
        Ok(Some(own).filter(|own| growing.has_key(own)))
    }
}
