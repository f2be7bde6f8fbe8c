//! A head of the journal that a recipient keeps, while an opening of the log is broken off at any moment.

use probity_log::StreamName;
use probity_log::prove::{ProveError, Recipient};
use probity_log::reader::Reader;
use probity_log::storage::Storage as _;

use crate::twice::{base, moments, open};
use crate::world::{World, root};

/// An opening was killed between the second copy of the journal's head and its checkpoint, and `prove --checkpoint` with that copy said of the honest log that an
/// older copy of it was put back. The log has the frames of that head, and the error says to wait for the writer.
#[test]
fn a_head_of_the_journal_that_is_ahead_is_no_sign_of_an_older_copy() {
    let images = moments(&base(), |places| open(places).unwrap().close().unwrap());
    let mut ahead = 0;
    for (context, image) in images {
        let Ok(kept) = image.read("second/journal", u64::MAX) else {
            continue;
        };
        let world = World::of(image);
        for places in [world.places(), world.without_copies().places()] {
            let reader = Reader::open_at(&places, &root()).unwrap();
            let recipient = Recipient {
                journal: Some(String::from_utf8(kept.clone()).unwrap()),
                ..Recipient::default()
            };
            match reader.prover(&StreamName::default(), &recipient).map(drop) {
                Ok(()) => {}
                Err(ProveError::Head { reason, .. }) if reason.contains("wait for its writer") => {
                    ahead += 1;
                }
                Err(refused) => panic!("{context}: {refused:?}"),
            }
        }
    }
    assert!(ahead >= 2, "{ahead}");
}
