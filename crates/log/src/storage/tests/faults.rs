//! Faults hit the intended calls and have the intended effect; every call is recorded.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};

use crate::storage::{Call, Fault, FaultPlan, Faulty, Memory, Storage as _, is_transient};

/// A storage with a few files, and the error of one call of each kind, in the order of
/// [`Call::ALL`].
fn one_of_each(plan: FaultPlan) -> (Faulty<Memory>, Vec<Option<ErrorKind>>) {
    let memory = Memory::new();
    memory.replace("old", b"old").unwrap();
    memory.replace("gone", b"gone").unwrap();
    memory.replace("file", b"12345678").unwrap();
    let storage = Faulty::new(memory, FaultPlan::none());
    let file = storage.open("file", false).unwrap();
    assert_eq!(storage.take_trace().len(), 1);
    storage.arm(plan);
    let kind = |result: io::Result<()>| result.err().map(|error| error.kind());
    let results = vec![
        kind(storage.open("fresh", true).map(drop)),
        kind(storage.open_read("old").map(drop)),
        kind(storage.read("old", 10).map(drop)),
        kind(storage.replace("old", b"replaced")),
        kind(storage.place("placed", b"placed")),
        kind(storage.remove("gone")),
        kind(storage.list("").map(drop)),
        kind(storage.sync_folder("")),
        kind(storage.sweep().map(drop)),
        kind(storage.lock("lock").map(drop)),
        kind(file.length().map(drop)),
        kind(file.read_at(&mut [0; 4], 2)),
        kind(file.write_at(b"abcd", 2)),
        kind(file.set_length(6)),
        kind(file.sync()),
    ];
    (storage, results)
}

fn content(storage: &Faulty<Memory>, name: &str) -> Option<Vec<u8>> {
    storage.inner().read(name, 100).ok()
}

/// Returns whether the change that `call` makes in [`one_of_each`] is there.
fn is_done(storage: &Faulty<Memory>, call: Call) -> Option<bool> {
    let durable = storage.inner().crash_losing_all_unsynced();
    match call {
        Call::Open => Some(content(storage, "fresh").is_some()),
        Call::Replace => Some(content(storage, "old").unwrap() == b"replaced"),
        Call::Place => Some(content(storage, "placed").is_some()),
        Call::Remove => Some(content(storage, "gone").is_none()),
        Call::Lock => Some(content(storage, "lock").is_some()),
        Call::WriteAt => Some(content(storage, "file").unwrap()[2..6] == *b"abcd"),
        Call::SetLength => Some(content(storage, "file").unwrap().len() == 6),
        Call::Sync => Some(durable.read("file", 100).unwrap() == b"12abcd"),
        _ => None,
    }
}

#[test]
fn without_a_plan_nothing_fails_and_every_call_is_written_down() {
    let (storage, results) = one_of_each(FaultPlan::none());
    assert_eq!(results, [None; Call::ALL.len()]);
    let calls: Vec<Call> = storage.trace().iter().map(|traced| traced.call).collect();
    assert_eq!(calls, Call::ALL);
    assert_eq!(storage.calls(), 16);
    assert_eq!(storage.faults(), 0);
    let lines: Vec<String> = storage.trace().iter().map(ToString::to_string).collect();
    assert_eq!(lines[3], r#"Replace "old" at 0 length 8"#);
    assert_eq!(lines[12], r#"WriteAt "file" at 2 length 4"#);
    for call in Call::ALL {
        assert_eq!(storage.count(call), 1, "{call:?}");
        assert_ne!(is_done(&storage, call), Some(false), "{call:?}");
    }
    assert_eq!(storage.take_trace().len(), Call::ALL.len());
    assert_eq!(storage.count(Call::Open), 0);
}

#[test]
fn each_call_fails_alone_and_is_carried_out_only_when_it_persists() {
    for (number, call) in (0..).zip(Call::ALL) {
        for persisted in [false, true] {
            let fault = if persisted {
                Fault::INPUT_OUTPUT.persisted()
            } else {
                Fault::INPUT_OUTPUT
            };
            for plan in [
                FaultPlan::nth(number, fault),
                FaultPlan::nth(0, fault).of(&[call]),
            ] {
                let (storage, results) = one_of_each(plan);
                let error = fault.error().kind();
                for (other, result) in Call::ALL.into_iter().zip(results) {
                    assert_eq!(result, (other == call).then_some(error), "{call:?}");
                }
                assert_eq!(storage.faults(), 1);
                let met: Vec<bool> = storage.trace().iter().map(|t| t.fault.is_some()).collect();
                assert!(
                    met.iter()
                        .zip(Call::ALL)
                        .all(|(met, other)| *met == (other == call))
                );
                let done = is_done(&storage, call);
                assert!(
                    done.is_none_or(|done| done == persisted),
                    "{call:?} {persisted}"
                );
            }
        }
    }
}

#[test]
fn a_half_written_write_leaves_its_first_half_and_other_calls_nothing() {
    let half = Fault::FULL.half_persisted();
    let (storage, results) = one_of_each(FaultPlan::every(half).of(&[Call::WriteAt, Call::Sync]));
    assert_eq!(results[12], Some(ErrorKind::StorageFull));
    assert_eq!(results[14], Some(ErrorKind::StorageFull));
    assert_eq!(content(&storage, "file").unwrap(), b"12ab56");
    assert_eq!(
        storage
            .inner()
            .crash_losing_all_unsynced()
            .read("file", 100)
            .unwrap(),
        b"12345678"
    );
    let (storage, _) = one_of_each(FaultPlan::every(half).of(&[Call::Place, Call::SetLength]));
    assert_eq!(content(&storage, "placed"), None);
    assert_eq!(content(&storage, "file").unwrap(), b"12abcd78");
}

#[test]
fn a_full_disk_from_some_call_on_refuses_every_change_and_still_reads() {
    let changes: Vec<Call> = Call::ALL
        .into_iter()
        .filter(|call| call.changes())
        .collect();
    let (storage, results) = one_of_each(FaultPlan::from(2, Fault::FULL).of(&changes));
    let failed: Vec<Call> = Call::ALL
        .into_iter()
        .zip(results)
        .filter_map(|(call, result)| result.map(|_| call))
        .collect();
    assert_eq!(failed, changes[2..]);
    assert_eq!(storage.faults(), 8);
}

#[test]
fn rules_are_about_names_and_the_first_that_applies_decides() {
    let plan = FaultPlan::every(Fault::DENIED)
        .on("checkpoint")
        .and(FaultPlan::nth(1, Fault::READ_ONLY).of(&[Call::Replace]));
    let storage = Faulty::new(Memory::new(), plan);
    let replace = |name: &str| storage.replace(name, b"x").map_err(|error| error.kind());
    assert_eq!(
        replace("streams/a/checkpoint"),
        Err(ErrorKind::PermissionDenied)
    );
    assert_eq!(
        replace("streams/a/log.vkey"),
        Err(ErrorKind::ReadOnlyFilesystem)
    );
    assert_eq!(replace("streams/a/log.vkey"), Ok(()));
    assert_eq!(
        replace("streams/b/checkpoint"),
        Err(ErrorKind::PermissionDenied)
    );
    storage.arm(FaultPlan::none());
    assert_eq!(replace("streams/b/checkpoint"), Ok(()));
    assert_eq!(storage.faults(), 3);
}

#[test]
fn errors_are_those_of_the_system_and_known_as_passing_or_not() {
    for (fault, kind, passes) in [
        (Fault::FULL, ErrorKind::StorageFull, false),
        (Fault::READ_ONLY, ErrorKind::ReadOnlyFilesystem, false),
        (Fault::DENIED, ErrorKind::PermissionDenied, false),
        (Fault::INTERRUPTED, ErrorKind::Interrupted, true),
        (Fault::WOULD_BLOCK, ErrorKind::WouldBlock, true),
        (Fault::kind(ErrorKind::TimedOut), ErrorKind::TimedOut, true),
    ] {
        assert_eq!(fault.error().kind(), kind);
        assert_eq!(is_transient(&fault.error()), passes, "{kind:?}");
    }
    assert_eq!(Fault::INPUT_OUTPUT.error().raw_os_error(), Some(5));
    assert!(!is_transient(&Fault::INPUT_OUTPUT.error()));
}

#[test]
fn faults_now_and_then_depend_on_the_seed_alone() {
    let outcome = |seed| -> Vec<bool> {
        let plan = FaultPlan::sometimes(seed, 5, Fault::INTERRUPTED).of(&[Call::Place]);
        let storage = Faulty::new(Memory::new(), plan);
        let results = (0..500).map(|_| storage.place("x", b"x").is_err());
        let results = results.collect();
        assert!(storage.list("").is_ok());
        results
    };
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
    let failed = outcome(3).iter().filter(|failed| **failed).count();
    assert!((50..150).contains(&failed), "{failed} of 500");
}

#[test]
fn a_copy_taken_before_a_call_shows_what_a_crash_there_finds() {
    let storage = Arc::new(Faulty::new(Memory::new(), FaultPlan::none()));
    let copies = Arc::new(Mutex::new(Vec::new()));
    for number in 0..4 {
        let (watched, copies) = (Arc::clone(&storage), Arc::clone(&copies));
        storage.before(number, move || {
            let seen = (watched.calls(), watched.inner().clone_live());
            copies.lock().unwrap().push(seen);
        });
    }
    storage.replace("a", b"1").unwrap();
    let file = storage.open("a", false).unwrap();
    file.write_at(b"2", 0).unwrap();
    file.sync().unwrap();
    let copies = copies.lock().unwrap();
    let contents: Vec<_> = copies
        .iter()
        .map(|(calls, copy)| (*calls, copy.read("a", 1).ok()))
        .collect();
    let [one, two] = [Some(b"1".to_vec()), Some(b"2".to_vec())];
    assert_eq!(contents, [(1, None), (2, one.clone()), (3, one), (4, two)]);
}

#[test]
fn calls_of_many_threads_are_counted_once_each() {
    let plan = FaultPlan::from(100, Fault::FULL).of(&[Call::WriteAt]);
    let storage = Faulty::new(Memory::new(), plan);
    let failed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|number: u32| {
                let storage = &storage;
                scope.spawn(move || {
                    let file = storage.open(&number.to_string(), true).unwrap();
                    (0..50)
                        .filter(|at| file.write_at(b"x", *at).is_err())
                        .count()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(failed, 100);
    assert_eq!(storage.calls(), 204);
    assert_eq!(storage.count(Call::WriteAt), 200);
}
