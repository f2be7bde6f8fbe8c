//! Opening a damaged log for writing is refused where the anchored head is missing.

use probity_log::{Log, LogError, Repair, RepairKind, StreamName};

use crate::world::{Look, Scene, World, append, configs, options, root};

type Attack = fn(&mut Scene<'_>, &str);

fn roll_back(scene: &mut Scene<'_>, stream: &str) {
    let older = scene.world.older.join(format!("streams/{stream}"));
    scene.replace_folder(&format!("log/streams/{stream}"), &older);
}

const ATTACKS: [(&str, Attack); 5] = [
    ("rolled back with its head", |scene, stream| {
        roll_back(scene, stream);
        let older = scene.world.older.with_file_name("older.heads");
        let head = std::fs::read(older.join(stream)).unwrap();
        scene.write(&format!("log.heads/{stream}"), &head);
    }),
    ("rolled back, its head gone", |scene, stream| {
        roll_back(scene, stream);
        scene.remove(&format!("log.heads/{stream}"));
    }),
    ("rolled back, all heads gone", |scene, stream| {
        roll_back(scene, stream);
        scene.remove("log.heads");
    }),
    ("gone with its head", |scene, stream| {
        scene.remove(&format!("log/streams/{stream}"));
        scene.remove(&format!("log.heads/{stream}"));
    }),
    ("without segments, checkpoint and head", |scene, stream| {
        scene.remove(&format!("log/streams/{stream}/segments"));
        scene.remove(&format!("log/streams/{stream}/checkpoint"));
        scene.remove(&format!("log.heads/{stream}"));
    }),
];

/// L1: a stream that was put back to an older state, with or without its head, was written on.
/// Indices were given a second time and a fork was anchored for good. The last anchored head must
/// be found again.
#[test]
fn a_stream_shorter_than_it_was_anchored_is_not_written_on() {
    let world = World::new();
    let mut scene = world.scene();
    for (stream, _) in configs() {
        for (name, attack) in ATTACKS {
            attack(&mut scene, stream);
            let refused = Log::open(&scene.log(), &root(), options()).unwrap_err();
            assert!(
                matches!(&refused, LogError::RolledBack { stream: named, .. } if named == stream),
                "{stream} {name}: {refused}"
            );
            scene.undo();
        }
    }
}

/// L1 and L4: an older checkpoint alone loses nothing, so it is written anew; but it is reported,
/// and the indices go on.
#[test]
fn an_older_checkpoint_over_whole_frames_is_repaired_and_said() {
    let world = World::new();
    let mut scene = world.scene();
    let stream = "entry";
    let older = world.remembered[stream].clone();
    for second in [Some(&older), None] {
        scene.write(&format!("log/streams/{stream}/checkpoint"), &older);
        match second {
            Some(older) => scene.write(&format!("log.heads/{stream}"), older),
            None => scene.remove(&format!("log.heads/{stream}")),
        }
        // Opening changes more files than the attack did.
        scene.keep_all();
        let log = Log::open(&scene.log(), &root(), options()).unwrap();
        let said = log.repairs();
        let anchored = |repair: &Repair| repair.kind == RepairKind::Anchored;
        assert!(said.iter().any(anchored), "{said:?}");
        append(&log, stream, 45..47);
        log.close().unwrap();
        assert_eq!(scene.verify(Look::Keyed).unwrap().faults, []);
        scene.undo();
    }
}

/// L1: the heads of streams that do not grow are repeated, so that an opening finds them however
/// long ago they were anchored.
#[test]
fn a_stream_that_rested_for_many_openings_is_still_known() {
    let world = World::new();
    let mut scene = world.scene();
    scene.keep_all();
    for round in 0..5 {
        let log = Log::open(&scene.log(), &root(), options()).unwrap();
        append(&log, "default", 540 + round..541 + round);
        log.close().unwrap();
    }
    assert_eq!(scene.verify(Look::Keyed).unwrap().faults, []);
    scene.remove("log/streams/clear");
    scene.remove("log.heads");
    let refused = Log::open(&scene.log(), &root(), options()).unwrap_err();
    assert!(matches!(&refused, LogError::RolledBack { stream, .. } if stream == "clear"));
}

/// S12: for a log with only geometry and keys left, `append` reported that nothing was recorded in
/// it.
#[test]
fn an_emptied_log_is_not_written_on() {
    let world = World::new();
    let mut scene = world.scene();
    scene.remove("log/streams");
    for heads in ["kept", "gone"] {
        if heads == "gone" {
            scene.remove("log.heads");
        }
        let refused = Log::open(&scene.log(), &root(), options()).unwrap_err();
        let is_refused = matches!(
            refused,
            LogError::Unfinished { .. }
                | LogError::RolledBack { .. }
                | LogError::Broken { .. }
                | LogError::Lost { .. }
        );
        assert!(is_refused, "heads {heads}: {refused}");
    }
}

/// S22: with the lock file unlinked a second writer came in; both gave a receipt for the same
/// index.
#[test]
fn an_unlinked_lock_lets_no_second_writer_in_and_stops_the_first() {
    let world = World::new();
    let mut scene = world.scene();
    scene.keep_all();
    let log = Log::open(&scene.log(), &root(), options()).unwrap();
    append(&log, "default", 540..541);
    scene.remove("log/lock");
    let refused = Log::open(&scene.log(), &root(), options()).unwrap_err();
    assert!(matches!(refused, LogError::Locked { .. }), "{refused}");
    // Another file in its place is not the one that is locked.
    let mut appender = log.appender(&StreamName::default()).unwrap();
    let time = probity_format::Timestamp::from_nanoseconds(7).unwrap();
    let entry = probity_format::Entry::new(time, "read", b"k");
    appender.append(&entry).unwrap();
    let stopped = log.publish().unwrap_err();
    let cause = std::error::Error::source(&stopped).unwrap().to_string();
    assert!(cause.contains("lock"), "{stopped}: {cause}");
    drop(appender);
    log.close().unwrap_err();
    drop(log);
    let log = Log::open(&scene.log(), &root(), options()).unwrap();
    log.close().unwrap();
    assert_eq!(scene.verify(Look::Keyed).unwrap().faults, []);
}
