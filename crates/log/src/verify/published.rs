//! The openings and accepted losses that checkpoints sign for.
//!
//! Every reader with the root key judges notes of durable frames and missing keys by these alone. A
//! second copy that is ahead of the checkpoint covers an opening that was not finished. A reader
//! without second copies cannot know of it.

use std::collections::BTreeMap;

use probity_format::stream::StreamName;

use super::Verifier;
use super::heads::Notes;
use crate::accepted::AcceptedLoss;
use crate::epochs::CertifiedEpochs;
use crate::history::signed_by;
use crate::journal::History;

/// The published part of a journal.
pub(super) struct Published {
    pub(super) epochs: CertifiedEpochs,
    pub(super) losses: Vec<AcceptedLoss>,
}

impl Verifier<'_> {
    /// The published part of `history`. All of it counts where no key of the chain signed a
    /// checkpoint, which is a fault of its own, and in version 2, which has no such losses.
    pub(super) fn published(
        &self,
        history: &History,
        notes: &BTreeMap<StreamName, Notes>,
    ) -> Published {
        let built_in = [StreamName::journal(), StreamName::heads()];
        let signed = built_in.iter().filter_map(|name| {
            let note = notes.get(name)?.published.as_ref()?;
            signed_by(history, &self.geometry, name, note)
        });
        let signed = signed.max().filter(|_| history.v2.is_none());
        let losses = history.losses.iter();
        let losses = losses.filter(|it| signed.is_none_or(|signed| it.frame < signed));
        Published {
            losses: losses.cloned().collect(),
            epochs: match signed {
                Some(signed) => CertifiedEpochs::within(history, signed),
                None => CertifiedEpochs::of(history),
            },
        }
    }
}
