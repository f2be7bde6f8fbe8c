//! Damaged frames of the journal and of `heads` that were skipped: they are listed, and checks that
//! depend on them stay undecided.

use probity_format::stream::StreamName;

use super::unchecked::Names;
use super::{Fault, FaultClass, Faults, UncheckedReason};
use crate::journal::History;

/// Lists the frames of journal and heads that were skipped.
pub(super) fn name_passed(journal: &[u64], heads: &[u64], unchecked: &mut Names) {
    for (stream, frames) in [(StreamName::JOURNAL, journal), (StreamName::HEADS, heads)] {
        for frame in frames {
            let place = format!("streams/{stream}, frame {frame}");
            unchecked.push(place, UncheckedReason::Unheard);
        }
    }
}

/// Checks that every folder belongs to a stream of the journal; a skipped frame may have created
/// it.
pub(super) fn check_folders(
    folders: Vec<String>,
    history: &History,
    is_passed: bool,
    faults: &mut Faults,
    unchecked: &mut Names,
) {
    for folder in folders {
        let mut names = history.streams.iter();
        if names.any(|(name, _)| name.as_str() == folder) {
            continue;
        }
        let folder = format!("streams/{folder}");
        if is_passed {
            unchecked.push(folder, UncheckedReason::Undecided);
        } else {
            let detail = "belongs to no stream that the journal created";
            let journal = StreamName::journal();
            faults.push(Fault::new(FaultClass::Unknown, &journal, folder, detail));
        }
    }
}
