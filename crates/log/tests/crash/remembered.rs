//! Heads that a verifier remembers, while an opening of the log is broken off at any moment.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use probity_format::checkpoint::Checkpoint;
use probity_format::note::SignedNote;
use probity_format::proof::{EntryProof, Trust};
use probity_log::prove::{ProveError, Recipient};
use probity_log::reader::Reader;
use probity_log::storage::{Memory, Storage as _};
use probity_log::verify::{Fault, VerifyOptions, verify_at};
use probity_log::{LogLocation, StreamName};

use crate::scenario::for_each;
use crate::twice::{base, live, moments, open};
use crate::world::{World, root};

/// A signed head, with the stream that it is of.
type Kept = (String, Vec<u8>);

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
                assert_eq!(found(&places, Some(since)), [], "{context}");
            }
        }
    });
}

/// The faults without the root key; those with it are the same.
fn found(places: &LogLocation, since: Option<&Vec<u8>>) -> Vec<Fault> {
    let [alone, keyed] = [None, Some(root())].map(|root| {
        let options = VerifyOptions {
            root,
            since: since.cloned(),
            ..VerifyOptions::default()
        };
        verify_at(places, &options).unwrap().faults
    });
    assert_eq!(alone, keyed);
    alone
}

/// Every head in the files of `image`.
fn heads_in(image: &Memory) -> BTreeSet<Kept> {
    let streams = ["journal", "heads", "default"];
    let paths = streams.map(|name| {
        let places = [
            format!("log/streams/{name}/checkpoint"),
            format!("second/{name}"),
        ];
        places.map(|path| Some((name.to_owned(), image.read(&path, u64::MAX).ok()?)))
    });
    paths.into_iter().flatten().flatten().collect()
}

fn size_of(note: &[u8]) -> u64 {
    let note = SignedNote::parse(note).unwrap();
    Checkpoint::parse(note.text()).unwrap().size()
}

/// A writer was killed between the checkpoint of a stream and the frame of `heads` that names it.
/// The next opening named that head under its own key, and from then on `verify --since` called the
/// honest log broken: another key was due. Any key of the log may have signed a head of frames whose
/// root the log shows: an equal root says the same, whoever signed.
#[test]
fn every_head_that_was_ever_there_is_one_of_the_log_that_goes_on() {
    let images = moments(&base(), |places| live(places, 1));
    let (mut seen, mut states) = (BTreeSet::new(), Vec::new());
    for (context, image) in images {
        let now = heads_in(&image);
        seen.extend(now.iter().cloned());
        states.push((context, image, now, seen.clone()));
    }
    let tried = Arc::new(Mutex::new(0));
    for_each(&states, |(context, image, now, seen)| {
        let world = World::of(image.clone_live());
        for (_, since) in now {
            let faults = found(&world.places(), Some(since));
            assert_eq!(faults, [], "{context}, before an opening");
        }
        open(&world.places()).unwrap().close().unwrap();
        for (stream, since) in seen {
            let context = format!("{context}, then an opening, head of {stream}");
            assert_eq!(found(&world.places(), Some(since)), [], "{context}");
            check_copy(&context, &world, stream, since);
        }
        *tried.lock().unwrap() += seen.len();
    });
    assert!(*tried.lock().unwrap() > 100);
}

/// A kept head is put back as the second copy of one of as many frames.
fn check_copy(context: &str, world: &World, stream: &str, kept: &[u8]) {
    let copy = format!("second/{stream}");
    let now = world.memory.read(&copy, u64::MAX).unwrap();
    if now == kept || size_of(&now) != size_of(kept) {
        return;
    }
    let world = World::of(world.memory.clone_live());
    world.memory.replace(&copy, kept).unwrap();
    assert_eq!(found(&world.places(), None), [], "{context}, put back");
    open(&world.places()).unwrap().close().unwrap();
}

/// The head at the end of a proof for the keeper of an older head of the journal has the key of
/// today, and `verify --since` refused it. A proof of an entry of the journal for that keeper showed
/// no growth, so that its own recipient refused it.
#[test]
fn a_proof_under_every_kept_head_is_accepted_and_so_is_its_own_head() {
    let images = moments(&base(), |places| live(places, 1));
    let mut seen = BTreeSet::new();
    for (_, image) in &images {
        seen.extend(heads_in(image));
    }
    let (_, last) = images.last().unwrap();
    let world = World::of(last.clone_live());
    for id in 2..4 {
        live(&world.places(), id);
    }
    let mut proved = 0;
    for (stream, kept) in &seen {
        proved += usize::from(check_proofs(&world.places(), stream, kept));
    }
    assert!(proved > 6, "{proved}");
}

/// Returns whether there is a proof of the first entry of `stream` under the head `kept` of it.
/// Gives a kept head of the journal as that.
fn check_proofs(places: &LogLocation, stream: &str, kept: &[u8]) -> bool {
    let reader = Reader::open_at(places, &root()).unwrap();
    let name = StreamName::new(stream).unwrap();
    let text = String::from_utf8(kept.to_vec()).unwrap();
    let head = SignedNote::parse(kept).unwrap();
    let head = Checkpoint::parse(head.text()).unwrap();
    if head.size() == 0 {
        return false;
    }
    let recipient = Recipient {
        stream: Some(text),
        ..Recipient::default()
    };
    let made = match reader.prover(&name, &recipient) {
        Ok(mut prover) => prover.prove(0).unwrap(),
        Err(ProveError::Head { reason, .. }) if reason.contains("no certificate") => return false,
        Err(error) => panic!("{stream}, {head:?}: {error:?}"),
    };
    let proof = EntryProof::parse(&made.proof.encode().unwrap()).unwrap();
    let is_journal = name == StreamName::journal();
    let trust = Trust {
        journal: is_journal.then_some(&head),
        stream: (!is_journal).then_some(&head),
        ..Trust::key(reader.anchor())
    };
    if let Err(refused) = proof.check_with(&trust) {
        panic!("{stream}, {head:?}: {refused:?}");
    }
    let shown = proof.checkpoint.into_bytes();
    assert_eq!(found(places, Some(&shown)), [], "{stream}, {head:?}");
    true
}
