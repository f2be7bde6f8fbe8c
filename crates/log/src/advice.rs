//! Advice on what to put back from a copy of the log: one text for each kind of file.
//!
//! Followed to the letter it loses nothing that is newer than the copy: what is there is kept
//! first, one file is put back at a time, and never one that has less than is there.
//! `docs/recovery.md`, "Putting files back", has the same words.

use probity_format::Version;

/// For a damaged or missing file of `keys/` that never changes.
pub const FIXED_KEY: &str = "copy the folder keys/ aside, and put this file alone back from any backup of this log, for it never changes; \
    leave keys/signing.key as it is, for it changes at every opening";
/// For a folder `keys/` of which nothing opens.
pub const FIXED_KEYS: &str = "copy the folder keys/ aside, and put keys/master.key and keys/witness.key back from any backup of this log, \
    for they never change; leave keys/signing.key as it is, for it changes at every opening";
/// For a signing key, or its successor, that is damaged, missing or an older one.
pub const SIGNING_KEY: &str = "copy the folder keys/ aside, and put keys/signing.key back from the newest copy, made after the last writer \
    ended, and keys/signing.next with it where that copy has it, but nothing else: no older key signs for the log, and everything else is \
    newer here";
/// The advice for a journal that is older than something else, between `$before` and `$after`.
macro_rules! newer_journal {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            "leave keys/ as it is, copy the whole folder of the log aside, and put streams/journal back from a copy in \
             which it is longer, and with it each other folder of streams/ that is longer there, for all may be older",
            $after
        )
    };
}
pub(crate) use newer_journal;
/// For a journal that is older than the signing key.
pub const NEWER_JOURNAL: &str = newer_journal!("", "");
/// The fault of a checkpoint beyond what the journal can confirm.
pub const UNCERTIFIED: &str = newer_journal!(
    "is signed by no key that this journal certified, over more frames than any other head covers: an older journal was put back, or somebody \
     else signed it; where it is older, ",
    "; where it is the newest there is, move the checkpoint aside, and it is made anew"
);
/// For a log that is older than others know it.
pub const NEWER_LOG: &str = "keep this copy of the log under another name, and put the newer copy of the whole log back, in which no stream is shorter";
/// For frames of one stream that are damaged or missing and were signed for.
pub const SEGMENT: &str = "copy the whole folder of the log aside, and take the segment from a copy that has the frames which are damaged or \
    missing here: where the present file is longer, write the copy's bytes over its beginning, so that it keeps its end; otherwise put the \
    copy's in its place";
/// For frames behind the journal's checkpoint that are to go.
pub const JOURNAL_END: &str = "copy the whole folder of the log aside, and put streams/journal/segments back from a copy that ends with the \
    journal's checkpoint";
/// For `probity.toml`.
pub const GEOMETRY: &str = "put probity.toml back from any backup of this log, for it never changes, and keep the one that is there";

/// The advice for slots; `$bytes` are those of one.
macro_rules! slots {
    ($before:literal, $copy:literal, $bytes:literal) => {
        concat!(
            $before,
            "copy the present folder aside, destroy nothing in it, and put subjects/slots back from ",
            $copy,
            " that has every slot signed for and is no shorter than the present file; from a shorter one put \
             back the damaged slots alone, of ",
            $bytes,
            " bytes each, slot N from byte ",
            $bytes,
            " * N on"
        )
    };
}
const SLOTS_V2: &str = slots!("", "a backup", "96");
const SLOTS: &str = slots!("", "a backup", "348");
const SLOTS_AFTER_LOSS: &str = slots!(
    "a copy of subjects/ from before a loss was accepted is not wanted any more: ",
    "a copy, made after the loss was accepted,",
    "348"
);
/// For slots of which only those differ that the last accepted loss left void. The names in slots
/// that the journal does not count decide, which may be gone, and which the root key alone opens.
pub const SLOTS_RETURNED: &str = slots!(
    "keys that an accepted loss left out are there again: an opening for writing takes them back, \
     unless a subject was added since; where it refuses them, ",
    "a copy, made after the loss was accepted,",
    "348"
);

/// For a file of slots that differs from the journal; `has_closed` if the journal records an
/// accepted loss of keys: an earlier copy lacks the keys of later subjects.
pub const fn slots(version: Version, has_closed: bool) -> &'static str {
    match version {
        Version::V2 => SLOTS_V2,
        Version::V3 if has_closed => SLOTS_AFTER_LOSS,
        _ => SLOTS,
    }
}

/// The reason for which no loss is accepted without second copies, and the remedy.
pub(crate) const COPIES_OF_LOSS: &str = "is not there: a crash may have left a signed head of the lost frames there alone, and what was signed for is not given up; \
     name or mount the folder of second copies (PROBITY_HEADS, else DIR.heads), or, where it is gone for good, accept that as well (--without-copies)";

#[cfg(test)]
mod tests {
    use probity_format::slot::slot_bytes;

    use super::*;

    #[test]
    fn a_slot_is_where_the_advice_says() {
        for version in [Version::V2, Version::V3] {
            let place = format!("slot N from byte {} * N on", slot_bytes(version));
            assert!(slots(version, false).contains(&place), "{place}");
        }
        assert!(slots(Version::V3, true).contains("348 * N"));
    }

    /// The manual restored whole folders, and so did the program, over newer keys and frames.
    #[test]
    fn the_manual_has_the_same_words() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recovery.md");
        let manual = std::fs::read_to_string(path).unwrap();
        let manual: Vec<&str> = manual.split_whitespace().collect();
        let manual = manual.join(" ").replace('`', "").to_lowercase();
        for advice in [
            FIXED_KEY,
            FIXED_KEYS,
            SIGNING_KEY,
            NEWER_JOURNAL,
            NEWER_LOG,
            SEGMENT,
            JOURNAL_END,
            GEOMETRY,
            SLOTS,
        ] {
            assert!(manual.contains(&advice.to_lowercase()), "{advice}");
        }
    }
}
