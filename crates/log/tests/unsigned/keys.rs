//! Keys that were stolen, destroyed, damaged or put back, and the forgeries that they do not make
//! valid.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::keys::{RootKey, Secret};
use probity_format::note::SigningKey;
use probity_format::segment::Place;
use probity_format::slot::SLOT_LABEL_BYTES;
use probity_format::tree::{Frontier, leaf_hash};
use probity_format::wrap::WrappedKind;
use probity_format::{Entry, Subjects};
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, LogError, Options, SigningKeyState, StreamConfig, StreamName};

use crate::{
    DEFAULT, JOURNAL, ORIGIN, add, append, closed, copy_folder, erasable, forged, frames, intact,
    kept, keys, options, root, time,
};

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn a_forged_erasure_excuses_no_key_that_is_gone() {
    // S3 and S5: an erasure is a journal entry, and the journal is in clear: anybody who can write
    // files can append one and overwrite the key it names. It is no evidence until a checkpoint
    // covers it, and no opening acts on it.
    let folder = tempfile::tempdir().unwrap();
    let path = erasable(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    let entry = Entry {
        subjects: Subjects::joined("anna"),
        ..Entry::new(time(), "write", b"key")
    };
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender.append_durable(&entry).unwrap();
    log.close().unwrap();
    intact(&path);
    let slots = fs::read(path.join("subjects/slots")).unwrap();
    let pseudonym = hexadecimal(&slots[..16]);
    let erase = ["subject.erase".into(), "0".into(), pseudonym];
    let forged_entries = [erase];
    let entries: Vec<Entry<'_>> = forged_entries
        .iter()
        .map(|[action, key, payload]| Entry {
            actor: "probity",
            payload: payload.as_bytes(),
            ..Entry::new(time(), action, key.as_bytes())
        })
        .collect();
    let frame = forged(&path, JOURNAL, StreamConfig::JOURNAL, &entries);
    add(&path.join(JOURNAL), &frame);
    let mut gone = slots;
    gone[SLOT_LABEL_BYTES..].fill(0);
    fs::write(path.join("subjects/slots"), &gone).unwrap();
    let with_key = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let report = verify(&path, &with_key).unwrap();
    let places: Vec<&str> = report.faults.iter().map(|f| f.place.as_str()).collect();
    assert!(places.contains(&"subjects/slots, slot 0"), "{places:?}");
    let reader = Reader::open(&path, &root()).unwrap();
    let read = reader.read::<LogError>(&Filter::default(), &mut |_| Ok(()));
    assert!(matches!(read, Err(LogError::Damaged { .. })), "{read:?}");
    let refused = Log::open(&path, &root(), options()).unwrap_err();
    assert!(
        refused.to_string().contains("subjects/slots, slot 0"),
        "{refused}"
    );
}

/// The seed of the signing key that is in `keys/` now.
pub(crate) fn signing_seed(path: &Path) -> [u8; 32] {
    let geometry = fs::read_to_string(path.join("probity.toml")).unwrap();
    let geometry = Geometry::parse(&geometry).unwrap();
    let wrapped = fs::read(path.join("keys/signing.key")).unwrap();
    let wrapping = root().wrapping_key(&geometry.fingerprint());
    let seed = wrapping.unwrap(WrappedKind::Signing, b"signing", &wrapped);
    *seed.unwrap().expose()
}

#[test]
fn an_expired_signing_key_makes_no_writer_sign_what_its_keys_did_not_seal() {
    // A larger checkpoint by an expired key confirmed a forged frame: the next opening signed for
    // it anew.
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let stolen = signing_seed(&path);
    let log = Log::open(&path, &root(), options()).unwrap();
    append(&log, &StreamName::default(), "d");
    log.close().unwrap();
    let config = StreamConfig::default();
    let entry = Entry::new(time(), "sell", b"everything");
    let frame = forged(&path, DEFAULT, config, &[entry]);
    add(&path.join(DEFAULT), &frame);
    let mut tree = Frontier::new();
    for (_, bytes) in frames(&path.join(DEFAULT)) {
        let record = Frame::parse(&bytes).unwrap().record(Place::default());
        tree.push(leaf_hash(&record.encode()));
    }
    let origin = format!("{ORIGIN}/streams/default");
    let head = Checkpoint::new(&origin, tree.size(), tree.root()).unwrap();
    let key = SigningKey::from_seed(&origin, &stolen).unwrap();
    let honest = fs::read(path.join("streams/default/checkpoint")).unwrap();
    fs::write(
        path.join("streams/default/checkpoint"),
        head.sign(&[&key]).unwrap(),
    )
    .unwrap();
    let copies = folder.path().join("log.heads");
    for heads in ["kept", "gone"] {
        if heads == "gone" {
            fs::rename(&copies, folder.path().join("elsewhere")).unwrap();
        }
        let refused = Log::open(&path, &root(), options()).unwrap_err();
        assert!(
            matches!(refused, LogError::Broken { .. }),
            "{heads}: {refused}"
        );
    }
    fs::write(path.join("streams/default/checkpoint"), honest).unwrap();
    fs::rename(folder.path().join("elsewhere"), &copies).unwrap();
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    intact(&path);
    assert_eq!(keys(&path), ["a", "b", "c", "d"]);
    assert_eq!(kept(&path), [frame]);
}

#[test]
fn an_older_journal_under_a_newer_stream_is_refused_and_touches_nothing() {
    // All streams but one were put back from an older copy. The newer checkpoint of that one was
    // reported as unreadable and written anew, and verification found nothing any more. With the
    // newer note of durable frames the advice was to accept the loss.
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let older = folder.path().join("older");
    copy_folder(&path, &older);
    copy_folder(
        &folder.path().join("log.heads"),
        &folder.path().join("older.heads"),
    );
    let log = Log::open(&path, &root(), options()).unwrap();
    append(&log, &StreamName::default(), "d");
    log.close().unwrap();
    let checkpoint = fs::read(path.join("streams/default/checkpoint")).unwrap();
    fs::remove_dir_all(older.join("streams/default")).unwrap();
    copy_folder(
        &path.join("streams/default"),
        &older.join("streams/default"),
    );
    let refused = Log::open(&older, &root(), options()).unwrap_err();
    assert!(matches!(refused, LogError::Broken { .. }), "{refused}");
    assert_eq!(
        fs::read(older.join("streams/default/checkpoint")).unwrap(),
        checkpoint
    );
    fs::copy(path.join("durable"), older.join("durable")).unwrap();
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let refused = Log::open(&older, &root(), accepting).unwrap_err();
    assert!(
        matches!(&refused, LogError::Broken { place, .. } if place.starts_with("durable")),
        "{refused}"
    );
}

/// M6: an empty key file was reported as a wrong key. L3: an older key put back was refused with
/// advice that found nothing.
#[test]
fn a_damaged_or_older_key_file_is_named_for_what_it_is() {
    for (file, name) in [
        ("keys/master.key", "master"),
        ("keys/signing.key", "signing"),
    ] {
        let damages: [fn(&mut Vec<u8>); 3] = [
            |key| key.clear(),
            |key| key.truncate(30),
            |key| key[40] ^= 1,
        ];
        for damage in damages {
            let folder = tempfile::tempdir().unwrap();
            let path = closed(folder.path());
            let mut key = fs::read(path.join(file)).unwrap();
            damage(&mut key);
            fs::write(path.join(file), key).unwrap();
            let refused = Log::open(&path, &root(), options()).unwrap_err();
            let is_named = matches!(&refused, LogError::Broken { place, .. } if place == file);
            assert!(is_named, "{name}: {refused}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let other = RootKey::new(Secret::new([8; 32]));
    let refused = Log::open(&path, &other, options()).unwrap_err();
    assert!(matches!(refused, LogError::WrongKey), "{refused}");
    let older = fs::read(path.join("keys/signing.key")).unwrap();
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    let state = || Reader::open(&path, &root()).unwrap().signing_key().unwrap();
    assert_eq!(state(), SigningKeyState::Current);
    let newest = fs::read(path.join("keys/signing.key")).unwrap();
    fs::write(path.join("keys/signing.key"), older).unwrap();
    assert_eq!(state(), SigningKeyState::Older);
    let with_key = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let report = verify(&path, &with_key).unwrap();
    let places: Vec<&str> = report.faults.iter().map(|f| f.place.as_str()).collect();
    assert_eq!(places, ["keys/signing.key"]);
    let refused = Log::open(&path, &root(), options()).unwrap_err();
    let said = refused.to_string();
    assert!(said.contains(probity_log::advice::SIGNING_KEY), "{said}");
    // The state after a crash between the certificate and the change of keys.
    fs::write(path.join("keys/signing.next"), newest).unwrap();
    assert_eq!(state(), SigningKeyState::Succeeded);
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(state(), SigningKeyState::Current);
}

/// The key before and its certified successor, as a writer leaves them that is killed before the one
/// takes the place of the other: without the key before, no writer opened the log any more, though
/// the key that signs now was there.
#[test]
fn a_certified_successor_signs_where_the_key_before_it_is_gone() {
    let damages: [fn(&Path); 3] = [
        |file| fs::remove_file(file).unwrap(),
        |file| fs::write(file, "torn").unwrap(),
        |file| fs::write(file, [7; 68]).unwrap(),
    ];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = closed(folder.path());
        let [key, next] = ["keys/signing.key", "keys/signing.next"].map(|name| path.join(name));
        fs::copy(&key, &next).unwrap();
        let older = fs::read(&key).unwrap();
        damage(&key);
        let state = || Reader::open(&path, &root()).unwrap().signing_key().unwrap();
        assert_eq!(state(), SigningKeyState::Succeeded);
        let with_key = VerifyOptions {
            root: Some(root()),
            ..VerifyOptions::default()
        };
        assert_eq!(verify(&path, &with_key).unwrap().faults, []);
        let log = Log::open(&path, &root(), options()).unwrap();
        log.close().unwrap();
        assert_eq!(state(), SigningKeyState::Current);
        assert!(!next.exists());
        // Any other key signs nothing.
        fs::write(&next, older).unwrap();
        damage(&key);
        let refused = Log::open(&path, &root(), options()).unwrap_err();
        let is_named =
            matches!(&refused, LogError::Broken { place, .. } if place == "keys/signing.key");
        assert!(is_named, "{refused}");
    }
}
