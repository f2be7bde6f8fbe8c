//! The state that the handles and threads of one open log share.

use std::sync::{Arc, Mutex};

use probity_format::geometry::Geometry;

use crate::clock::Clock;
use crate::committer::Committer;
use crate::config::Options;
use crate::ending::Ending;
use crate::files::Files;
use crate::keystore::KeyStore;
use crate::progress::Progress;
use crate::publisher::Publisher;
use crate::queue::Queue;
use crate::sealer::Sealing;
use crate::streams::Streams;
use crate::subjects::SubjectStore;
use crate::ticker::Ticker;

/// The state of one log open for writing: each group is in the file of the stage that owns it.
///
/// Locks are taken in this order, where one is held while another is taken:
///
/// 1. `published` of a stream that others append to; once the stream is known, only the publishing
///    thread takes it, so that thread may do so under the locks of 2 as well;
/// 2. the journal, then the stream `heads`, then `published` of either;
/// 3. the batcher, or the window of idempotency keys of a stream;
/// 4. the keys, then the subjects;
/// 5. the map of streams;
/// 6. of one stream: `committing`, then one of `writer`, `tree` and `next`.
///
/// The slot of an appender is locked before the chunks in flight, and neither with any of these.
/// Nothing is locked under a [`Signal`](crate::signal::Signal), nor under the marks of
/// [`Progress`], which are counted under a `writer`.
pub(crate) struct LogState {
    pub(crate) options: Options,
    pub(crate) geometry: Geometry,
    pub(crate) files: Files,
    pub(crate) keys: Mutex<KeyStore>,
    pub(crate) subjects: SubjectStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) queue: Queue,
    pub(crate) ticker: Ticker,
    pub(crate) sealing: Sealing,
    pub(crate) streams: Streams,
    pub(crate) committer: Committer,
    pub(crate) publisher: Publisher,
    pub(crate) progress: Progress,
    pub(crate) ending: Ending,
}

impl std::fmt::Debug for LogState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogState").finish_non_exhaustive()
    }
}

impl LogState {
    #[expect(
        clippy::too_many_arguments,
        reason = "the one place where a log's parts meet"
    )]
    pub(crate) fn new(
        options: Options,
        geometry: Geometry,
        files: Files,
        keys: KeyStore,
        subjects: SubjectStore,
        clock: Arc<dyn Clock>,
        queue: Queue,
        streams: Streams,
        publisher: Publisher,
    ) -> Self {
        Self {
            options,
            geometry,
            files,
            keys: Mutex::new(keys),
            subjects,
            clock,
            queue,
            ticker: Ticker::default(),
            sealing: Sealing::default(),
            streams,
            committer: Committer::default(),
            publisher,
            progress: Progress::default(),
            ending: Ending::default(),
        }
    }
}
