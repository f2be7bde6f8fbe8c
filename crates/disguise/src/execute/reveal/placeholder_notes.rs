//! Placeholders of which a reveal learns something while it undoes changes: which of them may go at
//! its end depends on that.

use std::collections::BTreeSet;

/// Placeholders by what the records and rows met so far say of them.
#[derive(Default)]
pub(super) struct PlaceholderNotes {
    /// Placeholders that kept records still need.
    pub(super) needed: BTreeSet<Vec<u8>>,
    /// Those of them that rows name and that somebody else may have removed.
    pub(super) taken: BTreeSet<Vec<u8>>,
    /// Placeholders with a record that has lost its row; a row that names them now may be that one.
    pub(super) doubtful: BTreeSet<Vec<u8>>,
    /// Placeholders whose people came back to shared rows that they had left.
    pub(super) returned: BTreeSet<Vec<u8>>,
}

impl PlaceholderNotes {
    /// Forgets what records that stay have said: all of them are tried again.
    pub(super) fn forget_kept(&mut self) {
        self.needed.clear();
        self.taken.clear();
        self.doubtful.clear();
    }
}
