//! The second copies of the heads, compared with a log that something is to be proved of.

use probity_format::checkpoint::Checkpoint;
use probity_format::stream::StreamName;

use crate::config::Options;
use crate::error::LogError;
use crate::files::{Files, unless_strange};
use crate::heads::Heads;
use crate::history::read_checkpoint;
use crate::journal::History;
use crate::known::{KnownHeads, Source};
use crate::reader::Reader;
use crate::resumption::Resumption;
use crate::segments::Identity;

impl Reader {
    /// Compares the second copies of the heads of the journal, of `heads` and of `stream` with the log: one of the two trees must have grown from the
    /// other. Where the stored tiles do not show it, the streams are verified whole.
    ///
    /// # Errors
    /// [`LogError::Broken`] where the log is another one than the copies are of, or an older copy; those of the storage.
    pub(crate) fn compare_copies(&self, stream: &StreamName) -> Result<(), LogError> {
        let heads = Heads::new(Files::of_heads(&self.places, &Options::default()));
        for name in [&StreamName::journal(), &StreamName::heads(), stream] {
            if !self.agrees(&heads, name)? {
                return self.check(Some(stream));
            }
        }
        Ok(())
    }

    /// Whether the checkpoint of `name` and its second copy are seen to be of one history.
    fn agrees(&self, heads: &Heads, name: &StreamName) -> Result<bool, LogError> {
        // Before the copy, which a live log replaces first.
        let published = read_checkpoint(&self.files, name)?;
        let Some(copy) = unless_strange(heads.load(name))? else {
            return Ok(true);
        };
        let Some(published) = published else {
            return Ok(false);
        };
        if published.as_bytes() == copy {
            return Ok(true);
        }
        let open = |history: &History, note: &[u8]| {
            let origin = self.geometry.stream_origin(name.as_str());
            let opened = history.open(note, &origin).ok();
            opened.map(|(_, head)| head)
        };
        let both = open(&self.history, published.as_bytes()).zip(open(&self.history, &copy));
        let config = self.history.streams.iter().find(|(known, _)| known == name);
        let (Some((published, copy)), Some((_, config))) = (both, config) else {
            return Ok(false);
        };
        let identity = Identity::new(&self.geometry, name, config);
        self.are_of_one_tree(name, identity, [&published, &copy])
    }

    /// Whether the stored tree shows that the larger of two heads has grown from the smaller.
    fn are_of_one_tree(
        &self,
        name: &StreamName,
        identity: Identity,
        mut both: [&Checkpoint; 2],
    ) -> Result<bool, LogError> {
        both.sort_by_key(|head| head.size());
        let [smaller, larger] = both;
        if smaller.size() == larger.size() {
            return Ok(smaller.root() == larger.root());
        }
        let tree = Resumption {
            files: &self.files,
            name,
            identity,
            published: larger.size(),
            published_root: *larger.root(),
        };
        let mut known = KnownHeads::default();
        known.add(Source::Copy, Some(smaller));
        let Some(known) = known.below(u64::MAX).next() else {
            // Every tree has grown from the empty one.
            return Ok(true);
        };
        tree.has_grown_from(known, larger.size(), larger.root())
    }
}
