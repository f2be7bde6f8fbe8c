//! A head of the journal that a verifier remembers, while an opening of the log is broken off at
//! any moment.

use probity_log::storage::Storage as _;
use probity_log::verify::{VerifyOptions, verify_at};

use crate::scenario::for_each;
use crate::twice::{base, live, moments};
use crate::world::{World, root};

/// A writer was killed between the second copy of the journal's head and its checkpoint, and
/// somebody had kept that copy. Without the folder of second copies, `verify --since` with it said
/// of the honest log that its end was cut off.
#[test]
fn a_second_copy_that_somebody_kept_is_no_sign_of_a_rollback() {
    let before = base();
    let older = before.read("second/journal", u64::MAX).unwrap();
    let images = moments(&before, |places| live(places, 1));
    for_each(&images, |(context, image)| {
        let own = image.read("second/journal", u64::MAX).unwrap();
        let world = World::of(image.clone_live());
        for since in [&older, &own] {
            for places in [world.places(), world.without_copies().places()] {
                for root in [None, Some(root())] {
                    let options = VerifyOptions {
                        root,
                        since: Some(since.clone()),
                        ..VerifyOptions::default()
                    };
                    let report = verify_at(&places, &options).unwrap();
                    assert_eq!(report.faults, [], "{context}");
                }
            }
        }
    });
}
