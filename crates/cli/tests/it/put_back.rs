//! The advice of what to put back from a backup, followed to the letter: nothing is lost that could be
//! read before.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and damages files"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use probity_format::Version;
use probity_format::slot::SLOT_BYTES;
use probity_log::advice;
use probity_testing::program::Program;
use tempfile::TempDir;

const PROBITY: Program = Program::new(env!("CARGO_BIN_EXE_probity"));
const SEGMENT: &str = "streams/default/segments/00000000000000000000.seg";
const JOURNAL: &str = "streams/journal/segments/00000000000000000000.seg";
const SLOTS: &str = "subjects/slots";
const EXPORT: [&str; 4] = ["export", "a", "--format", "jsonl"];
const VERIFY: [&str; 4] = ["verify", "a", "--key", "a.key"];

fn copy(at: &Path, from: &str, to: &str) {
    let mut copy = Command::new("cp");
    let copied = copy.args(["-a", from, to]).current_dir(at).status();
    assert!(copied.unwrap().success());
}

fn append(at: &Path, subject: &str, status: i32) -> String {
    let line = format!("{{\"action\":\"read\",\"key\":\"k\",\"subject\":\"{subject}\"}}\n");
    PROBITY.ends(at, &["append", "a"], &line, status).1
}

/// The number of entries that can be read.
fn readable(at: &Path) -> usize {
    let read = PROBITY.run(at, &[&EXPORT[..], &["--damaged-too"]].concat(), b"");
    String::from_utf8(read.stdout).unwrap().lines().count()
}

/// Makes the log `a` with two entries, and a backup of it from between them.
fn place(init: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    PROBITY.ends(at, &[&["init", "a"], init].concat(), "", 0);
    append(at, "ann", 0);
    copy(at, "a", "backup");
    append(at, "bob", 0);
    folder
}

/// The folder `keys/` was to be restored for one file of it that never changes. The backup's signing
/// key was put over the only one that signs, and nothing was ever appended again.
#[test]
fn a_key_that_never_changes_is_put_back_alone() {
    let damages: [fn(&Path); 3] = [
        |file| fs::remove_file(file).unwrap(),
        |file| fs::write(file, "torn").unwrap(),
        |file| {
            let mut key = fs::read(file).unwrap();
            key[40] ^= 1;
            fs::write(file, key).unwrap();
        },
    ];
    let folder = place(&[]);
    let at = folder.path();
    for file in ["keys/master.key", "keys/witness.key"] {
        for damage in damages {
            damage(&at.join("a").join(file));
            let said = append(at, "eve", 3);
            assert!(said.contains(advice::FIXED_KEY), "{said}");
            let (found, said) = PROBITY.ends(at, &VERIFY, "", 3);
            assert!((found + &said).contains(advice::FIXED_KEY), "{said}");
            fs::copy(at.join("backup").join(file), at.join("a").join(file)).unwrap();
            append(at, "eve", 0);
        }
    }
    PROBITY.ends(at, &VERIFY, "", 0);
    assert_eq!(readable(at), 8);
}

/// With nothing of `keys/` that opens, the advice was the whole folder of the newest backup too.
#[test]
fn of_a_folder_of_keys_that_does_not_open_the_fixed_ones_are_put_back() {
    let folder = place(&[]);
    let at = folder.path();
    let newest = fs::read(at.join("a/keys/signing.key")).unwrap();
    for file in ["master.key", "signing.key", "witness.key"] {
        let path = at.join("a/keys").join(file);
        let mut key = fs::read(&path).unwrap();
        key[40] ^= 1;
        fs::write(path, key).unwrap();
    }
    let said = append(at, "eve", 1);
    assert!(said.contains(advice::FIXED_KEYS), "{said}");
    for file in ["keys/master.key", "keys/witness.key"] {
        fs::copy(at.join("backup").join(file), at.join("a").join(file)).unwrap();
    }
    // Everything can be read, and what is left is said of its own.
    PROBITY.ends(at, &EXPORT, "", 0);
    let said = append(at, "eve", 3);
    assert!(said.contains("keys/signing.key: "), "{said}");
    assert!(said.contains(advice::SIGNING_KEY), "{said}");
    fs::write(at.join("a/keys/signing.key"), newest).unwrap();
    append(at, "eve", 0);
    PROBITY.ends(at, &VERIFY, "", 0);
}

/// An older `keys/` beside the newest journal was answered with the advice to put both back: that
/// overwrote the journal, and one fault became twelve.
#[test]
fn of_key_and_journal_the_older_one_alone_is_put_back() {
    let folder = place(&[]);
    let at = folder.path();
    fs::rename(at.join("a/keys"), at.join("newest")).unwrap();
    copy(at, "backup/keys", "a/keys");
    let status = ["keys", "status", "a"];
    for said in [
        append(at, "eve", 3),
        PROBITY.ends(at, &VERIFY, "", 3).0,
        PROBITY.ends(at, &status, "", 3).0,
    ] {
        assert!(said.contains("certified last, but one before"), "{said}");
        assert!(said.contains(advice::SIGNING_KEY), "{said}");
        assert!(!said.contains("put streams/journal back"), "{said}");
    }
    fs::copy(at.join("newest/signing.key"), at.join("a/keys/signing.key")).unwrap();
    PROBITY.ends(at, &VERIFY, "", 0);
    fs::rename(at.join("a/streams/journal"), at.join("newer")).unwrap();
    copy(at, "backup/streams/journal", "a/streams/journal");
    let (said, _) = PROBITY.ends(at, &status, "", 3);
    assert!(said.contains("certified last, nor one before"), "{said}");
    assert!(said.contains(advice::NEWER_JOURNAL), "{said}");
    fs::remove_dir_all(at.join("a/streams/journal")).unwrap();
    fs::rename(at.join("newer"), at.join("a/streams/journal")).unwrap();
    append(at, "eve", 0);
    PROBITY.ends(at, &VERIFY, "", 0);
    assert_eq!(readable(at), 3);
}

/// For one damaged slot the folder `subjects/` was to be restored: the keys of later subjects were
/// overwritten, and nothing was ever appended again.
#[test]
fn a_damaged_slot_is_put_back_alone_from_a_shorter_file() {
    let folder = place(&["--erasable"]);
    let at = folder.path();
    let path = at.join("a").join(SLOTS);
    let mut slots = fs::read(&path).unwrap();
    slots[100] ^= 1;
    fs::write(&path, &slots).unwrap();
    let advice = advice::slots(Version::V3, false);
    let appended = append(at, "eve", 3);
    let exported = PROBITY.ends(at, &EXPORT, "", 3).1;
    let verified = PROBITY.ends(at, &VERIFY, "", 3).0;
    for said in [appended, exported, verified] {
        assert!(said.contains(advice), "{said}");
    }
    assert_eq!(readable(at), 1);
    let kept = fs::read(at.join("backup").join(SLOTS)).unwrap();
    assert!(kept.len() < slots.len());
    slots[..SLOT_BYTES].copy_from_slice(&kept[..SLOT_BYTES]);
    fs::write(&path, slots).unwrap();
    append(at, "eve", 0);
    PROBITY.ends(at, &EXPORT, "", 0);
    PROBITY.ends(at, &VERIFY, "", 0);
    assert_eq!(readable(at), 3);
}

/// Writes a copy over the beginning of a longer file, or puts it in the place of a shorter one.
fn write_over(at: &Path, from: &str, file: &str) {
    let copy = fs::read(at.join(from).join(file)).unwrap();
    let path = at.join("a").join(file);
    let present = fs::read(&path).unwrap_or_default();
    let end = present.get(copy.len()..).unwrap_or_default();
    fs::write(path, [&copy, end].concat()).unwrap();
}

/// A damaged frame was to be put back from a copy no shorter than the file, of which there is none
/// once the file has grown: every backup had the frame, and nothing was ever appended again.
#[test]
fn a_damaged_frame_is_put_back_from_a_shorter_copy_that_has_it() {
    let folder = place(&[]);
    let at = folder.path();
    let signed = fs::read_to_string(at.join("a/streams/journal/checkpoint")).unwrap();
    let signed = signed.lines().nth(1).unwrap();
    let path = at.join("a").join(JOURNAL);
    let mut segment = fs::read(&path).unwrap();
    let kept = fs::read(at.join("backup").join(JOURNAL)).unwrap();
    assert!(kept.len() < segment.len());
    segment[kept.len() - 60] ^= 1;
    fs::write(&path, &segment).unwrap();
    let said = append(at, "eve", 3);
    let told = format!("damaged, {signed} were signed for");
    assert!(said.contains(&told), "{said}");
    assert!(said.contains(advice::SEGMENT), "{said}");
    write_over(at, "backup", JOURNAL);
    PROBITY.ends(at, &VERIFY, "", 0);
    append(at, "eve", 0);
    PROBITY.ends(at, &VERIFY, "", 0);
    assert_eq!(readable(at), 3);
}

/// With the newest frame damaged, no older copy has it.
#[test]
fn a_damaged_last_frame_is_put_back_from_a_copy_that_has_it() {
    let folder = place(&[]);
    let at = folder.path();
    let path = at.join("a").join(SEGMENT);
    copy(at, "a", "newest");
    let mut segment = fs::read(&path).unwrap();
    let place = segment.len() - 60;
    segment[place] ^= 0xff;
    fs::write(&path, &segment).unwrap();
    let said = append(at, "eve", 3);
    assert!(said.contains("frame 1 is damaged, 2 were signed"), "{said}");
    assert!(said.contains(advice::SEGMENT), "{said}");
    assert_eq!(readable(at), 1);
    write_over(at, "newest", SEGMENT);
    append(at, "eve", 0);
    PROBITY.ends(at, &VERIFY, "", 0);
    assert_eq!(readable(at), 3);
}

/// A lost segment of one stream was answered with the advice to put the newer copy of the whole log
/// back. There was none, and an older one has an older journal and older keys.
#[test]
fn a_lost_or_older_segment_of_one_stream_is_put_back_alone() {
    let folder = place(&[]);
    let at = folder.path();
    copy(at, "a", "nightly");
    // The journal and the keys go on.
    PROBITY.ends(at, &["append", "a", "/dev/null"], "", 0);
    let damages: [fn(&Path); 3] = [
        |at| fs::remove_file(at.join("a").join(SEGMENT)).unwrap(),
        |at| copy(at, "backup/streams/default/segments", "a/streams/default"),
        |at| {
            fs::remove_dir_all(at.join("a/streams/default")).unwrap();
            copy(at, "backup/streams/default", "a/streams");
        },
    ];
    for damage in damages {
        damage(at);
        let said = append(at, "eve", 3);
        assert!(said.contains("the log was rolled back"), "{said}");
        assert!(said.contains(advice::SEGMENT), "{said}");
        assert!(!said.contains(advice::NEWER_LOG), "{said}");
        write_over(at, "nightly", SEGMENT);
        PROBITY.ends(at, &["append", "a", "/dev/null"], "", 0);
        PROBITY.ends(at, &VERIFY, "", 0);
        assert_eq!(readable(at), 2);
    }
    // Of a log that was put back as a whole the newer copy is the remedy.
    fs::rename(at.join("a"), at.join("kept")).unwrap();
    copy(at, "backup", "a");
    let said = append(at, "eve", 3);
    assert!(said.contains(advice::NEWER_LOG), "{said}");
    assert!(!said.contains(advice::SEGMENT), "{said}");
}

/// Journal and heads are streams too, and the log is as new as its other files.
#[test]
fn a_lost_or_older_segment_of_journal_or_heads_is_put_back_alone() {
    let folder = place(&[]);
    let at = folder.path();
    copy(at, "a", "nightly");
    for stream in ["journal", "heads"] {
        let file = format!("streams/{stream}/segments/00000000000000000000.seg");
        for is_older in [false, true] {
            fs::remove_file(at.join("a").join(&file)).unwrap();
            if is_older {
                write_over(at, "backup", &file);
            }
            let said = append(at, "eve", 3);
            assert!(said.contains(advice::SEGMENT), "{stream}: {said}");
            assert!(!said.contains(advice::NEWER_LOG), "{stream}: {said}");
            write_over(at, "nightly", &file);
            PROBITY.ends(at, &VERIFY, "", 0);
        }
    }
    append(at, "eve", 0);
    PROBITY.ends(at, &VERIFY, "", 0);
    assert_eq!(readable(at), 3);
}

/// A writer killed between the certificate of the next key and its change of keys leaves both. Of the
/// newer one there was no advice: to put back the other alone changed nothing, for ever.
#[test]
fn a_certified_successor_is_put_back_with_the_key_before_it() {
    let folder = place(&[]);
    let at = folder.path();
    let [key, next] = ["signing.key", "signing.next"].map(|name| at.join("a/keys").join(name));
    let before = fs::read(&key).unwrap();
    PROBITY.ends(at, &["append", "a", "/dev/null"], "", 0);
    fs::rename(&key, &next).unwrap();
    fs::write(&key, before).unwrap();
    copy(at, "a", "newest");
    let damages: [fn(&Path); 3] = [
        |file| fs::remove_file(file).unwrap(),
        |file| fs::write(file, "torn").unwrap(),
        |file| fs::write(file, [7; 68]).unwrap(),
    ];
    for damage in damages {
        damage(&next);
        let appended = append(at, "eve", 3);
        let verified = PROBITY.ends(at, &VERIFY, "", 3).0;
        for said in [&appended, &verified] {
            assert!(said.contains(advice::SIGNING_KEY), "{said}");
            assert!(said.contains("signing.next"), "{said}");
        }
        assert!(
            appended.contains("put the signing key back, as said"),
            "{appended}"
        );
        for name in ["keys/signing.key", "keys/signing.next"] {
            fs::copy(at.join("newest").join(name), at.join("a").join(name)).unwrap();
        }
        PROBITY.ends(at, &VERIFY, "", 0);
    }
    // The successor signs without the key before it.
    fs::remove_file(&key).unwrap();
    append(at, "eve", 0);
    PROBITY.ends(at, &VERIFY, "", 0);
    assert_eq!(readable(at), 3);
}
