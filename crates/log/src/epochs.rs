//! The keys of a stream's epochs, as its frames name them: for whoever opens frames or asks who sealed them.

use probity_format::frame::{Frame, FrameHeader};
use probity_format::keys::{EpochKey, EpochSalt, MasterKey};
use probity_format::stream::StreamId;

/// Derives the keys of one stream's epochs; keeps the last, since frames of one epoch follow one another.
pub(crate) struct Epochs<'a> {
    master: &'a MasterKey,
    stream: StreamId,
    last: Option<EpochKey>,
}

impl<'a> Epochs<'a> {
    pub(crate) const fn new(master: &'a MasterKey, stream: StreamId) -> Self {
        Self {
            master,
            stream,
            last: None,
        }
    }

    /// The key of the epoch that `header` names.
    pub(crate) fn key(&mut self, header: &FrameHeader) -> &EpochKey {
        let salt = EpochSalt::of_frame(header.version(), &header.salt);
        let known = |key: &EpochKey| key.epoch() == header.epoch && *key.salt() == salt;
        let key = self
            .last
            .take()
            .filter(known)
            .unwrap_or_else(|| self.master.epoch_key(&self.stream, header.epoch, &salt));
        self.last.insert(key)
    }

    /// Whether a holder of the master key sealed `frame`, exactly as it is. Of frames of version 2 nobody can tell, so it is none of those.
    pub(crate) fn authenticate(&mut self, frame: &Frame<'_>) -> bool {
        let header = frame.clear.header;
        frame.authenticated(self.key(&header))
    }

    /// Whether the keys of `frame` are those of the epoch that it names. In version 2 that says nothing of who wrote it: whoever asks
    /// has compared it with what was signed.
    pub(crate) fn has_key_of(&mut self, frame: &Frame<'_>) -> bool {
        let header = frame.clear.header;
        let key = self.key(&header);
        frame.authenticated(key) || frame.names(key)
    }
}
