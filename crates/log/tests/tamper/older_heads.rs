//! An older checkpoint of `heads`, over frames of which the newest are still there: they anchor
//! heads of other streams, and the last certificate of the journal binds them.

use probity_log::StreamName;
use probity_log::reader::{Filter, Reader};
use probity_log::verify::FaultClass;

use crate::thief::Stolen;
use crate::world::{LONG, Look, Scene, World, root};

/// Puts the files of an older copy of the log in the place of those of the stream.
fn put_back(scene: &mut Scene<'_>, stream: &str, files: &[&str]) {
    for file in files {
        let name = format!("streams/{stream}/{file}");
        let older = std::fs::read(scene.world.older.join(&name)).unwrap();
        scene.write(&format!("log/{name}"), &older);
    }
}

fn cut_checkpoint_of_heads(scene: &mut Scene<'_>) {
    put_back(scene, "heads", &["checkpoint", "log.vkey"]);
}

/// Everything that the writer itself remembers of the two streams is gone too.
fn forget(scene: &mut Scene<'_>) {
    for name in ["log/durable", "log.heads/heads", "log.heads/default"] {
        scene.remove(name);
    }
}

fn cut_stream(scene: &mut Scene<'_>) {
    let older = scene.world.older.join(format!("streams/{LONG}"));
    scene.replace_folder(&format!("log/streams/{LONG}"), &older);
    forget(scene);
}

/// Seals an anchored frame anew, and signs for all with today's key.
fn rewrite_stream(scene: &mut Scene<'_>) {
    let mut stolen = Stolen::new(scene, LONG);
    let other = stolen.rows(1);
    stolen.reseal(0, &other);
    let today = *scene.world.seeds.last().unwrap();
    stolen.write(scene, Some(&today));
    forget(scene);
}

fn found(scene: &Scene<'_>, look: Look, class: FaultClass, stream: &str) {
    let faults = scene.verify(look).unwrap().faults;
    let mut all = faults.iter();
    let is_found = all.any(|it| it.class == class && it.stream == stream);
    assert!(is_found, "{look:?}, {class:?} of {stream}: {faults:?}");
}

/// An older checkpoint of `heads` alone, or with its second copy, was status 0 to every reader: frames that had been
/// signed for were called not signed yet. The certificates of the journal bind more of them.
#[test]
fn an_older_checkpoint_of_the_heads_alone_is_a_rollback() {
    let world = World::new();
    let mut scene = world.scene();
    for is_copied in [false, true] {
        cut_checkpoint_of_heads(&mut scene);
        if is_copied {
            let older = std::fs::read(world.older.join("streams/heads/checkpoint")).unwrap();
            scene.write("log.heads/heads", &older);
        }
        for look in [Look::Keyless, Look::Keyed, Look::Anchor] {
            found(&scene, look, FaultClass::Rollback, StreamName::HEADS);
        }
        let reader = Reader::open(&scene.log(), &root()).unwrap();
        let refused = reader.iter(&Filter::default()).find_map(Result::err);
        assert!(refused.is_some(), "the entries were read");
        scene.undo();
    }
}

/// The frames of `heads` behind its checkpoint were read by nobody, though the journal signs for
/// them. A stream was cut, or rewritten with today's keys, and every reader called the log intact.
#[test]
fn what_the_heads_anchor_is_compared_behind_an_older_checkpoint_of_theirs() {
    let world = World::new();
    let mut scene = world.scene();
    for class in [FaultClass::Rollback, FaultClass::Fork] {
        cut_checkpoint_of_heads(&mut scene);
        if class == FaultClass::Fork {
            rewrite_stream(&mut scene);
        } else {
            cut_stream(&mut scene);
        }
        for since in [None, Some("journal"), Some("clear")] {
            scene.since = since.map(|stream| world.newest[stream].clone());
            for look in [Look::Keyless, Look::Keyed, Look::Anchor] {
                found(&scene, look, class, LONG);
            }
        }
        let reader = Reader::open(&scene.log(), &root()).unwrap();
        let refused = reader.iter(&Filter::default()).find_map(Result::err);
        assert!(refused.is_some(), "{class:?}: the entries were read");
        scene.undo();
    }
}
