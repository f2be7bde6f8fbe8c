//! Two broken-off openings in a row, with and without the second copies of the heads: the log never
//! signs two heads of one size.

use probity_log::reader::Reader;
use probity_log::storage::{Memory, Storage as _};
use probity_log::verify::{Fault, FaultClass, VerifyOptions, verify_at};

use crate::scenario::for_each;
use crate::seed;
use crate::twice::{PUBLISHING, base, live, moments_of, open};
use crate::world::{SignedHeads, World, root};

type Moments = Vec<(String, Memory, SignedHeads)>;

/// Checks that no two of the heads have one size and different roots.
pub(crate) fn check_heads(context: &str, signed: &SignedHeads) {
    let mut heads = signed.iter().peekable();
    while let Some((origin, size, root)) = heads.next() {
        if let Some((other, same, other_root)) = heads.peek()
            && (origin, size) == (other, same)
        {
            panic!(
                "{context}: two heads of one size were signed of {origin} over {size} frames: {root}, {other_root}"
            );
        }
    }
}

/// Checks that no reader finds a fault in what is left of a log.
fn check_intact(context: &str, image: &Memory) {
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let report = verify_at(&World::of(image.clone_live()).places(), &options).unwrap();
    assert_eq!(report.faults, [], "{context}");
}

/// `world` as the next opening finds it, where it `forgets` the second copies.
pub(crate) fn next(world: World, signed: SignedHeads, forgets: bool) -> World {
    let world = if forgets {
        world.without_copies()
    } else {
        world
    };
    *world.signed.lock().unwrap() = signed;
    world
}

/// The number of drawn moments beside those around the journal's publication.
const DRAWN: usize = 6;

/// Moments of a life: those between a second copy of the journal's head and its checkpoint, and
/// some that the seed draws.
fn drawn(moments: Moments) -> Moments {
    let mut random = seed();
    let is_ahead = |(name, ..): &(String, Memory, SignedHeads)| {
        PUBLISHING.iter().any(|end| name.ends_with(end))
    };
    let (mut found, mut others): (Vec<_>, Vec<_>) = moments.into_iter().partition(is_ahead);
    for _ in 0..DRAWN.min(others.len()) {
        // Knuth's generator, whose upper bits are the good ones.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let place = usize::try_from(random >> 33).unwrap() % others.len();
        found.push(others.swap_remove(place));
    }
    found
}

/// An opening was killed between the second copy of the journal's head and its checkpoint, and the
/// next one did not have that copy. It set the frame aside and signed another head of the same
/// size, which is what a forger's fork looks like.
#[test]
fn no_two_heads_of_one_size_are_signed_whatever_became_of_the_second_copies() {
    check_lives(drawn);
}

#[test]
#[ignore = "takes a minute; the test above is its short form"]
fn no_two_heads_of_one_size_are_signed_after_any_two_kills() {
    check_lives(|moments| moments);
}

fn check_lives(choose: impl FnOnce(Moments) -> Moments) {
    let world = World::of(base());
    let firsts = moments_of(&world, |places| live(places, 1));
    assert!(firsts.len() > 50, "only {} moments", firsts.len());
    for_each(&choose(firsts), |(first, image, signed)| {
        for forgets in [false, true] {
            let world = World::of(image.clone_live());
            let world = next(world, signed.clone(), forgets);
            let seconds = moments_of(&world, |places| open(places).unwrap().close().unwrap());
            check_heads(first, &world.signed.lock().unwrap());
            for (second, image, signed) in seconds {
                check_intact(
                    &format!("{first}, then {second}, forgotten: {forgets}"),
                    &image,
                );
                for forgets_again in [false, true] {
                    let context = format!(
                        "{first}, then {second}, second copies forgotten: {forgets}, {forgets_again}"
                    );
                    let world = World::of(image.clone_live());
                    let world = next(world, signed.clone(), forgets_again);
                    let log = open(&world.places());
                    let log = log.unwrap_or_else(|error| panic!("{context}: {error:?}"));
                    log.close().unwrap();
                    check_heads(&context, &world.signed.lock().unwrap());
                }
            }
        }
    });
}

/// The files `repairs` and the journal of a copy that was opened elsewhere, brought to a finished
/// log, made its openings go on as the copy did, which they could not sign. The log was refused for
/// good, and no reader found a fault.
#[test]
fn what_an_opening_of_a_copy_announced_stops_no_log() {
    let finished = base();
    let moments = moments_of(&World::of(finished.clone_live()), |places| live(places, 1));
    let mut announced = 0;
    for (moment, copy, _) in moments {
        let log = finished.clone_live();
        let brought: Vec<String> = copy
            .list("log/streams/journal/segments")
            .unwrap()
            .into_iter()
            .map(|name| format!("log/streams/journal/segments/{name}"))
            .chain(["log/repairs".to_owned()])
            .filter_map(|name| {
                let content = copy.read(&name, u64::MAX).ok()?;
                log.replace(&name, &content).unwrap();
                Some(name)
            })
            .collect();
        announced += usize::from(brought.iter().any(|name| name == "log/repairs"));
        let world = World::of(log);
        let opened = open(&world.places());
        let opened = opened.unwrap_or_else(|error| panic!("{moment}: {error:?}"));
        opened.close().unwrap();
        check_heads(&moment, &world.signed.lock().unwrap());
        check_intact(&moment, &world.memory);
    }
    assert!(announced > 0, "no moment left the file");
}

/// A thief without keys cut off the frame of the journal that an opening was signing when it was
/// killed: the next opening passed over `repairs`, which names it, and signed another head of that
/// size. A file that names more frames than there are is of a newer journal.
#[test]
fn a_journal_without_the_frames_that_repairs_names_is_an_older_one() {
    const JOURNAL: &str = "log/streams/journal/segments";
    let finished = base();
    let size = |memory: &Memory| {
        let world = World::of(memory.clone_live());
        world.head_size("log/streams/journal/checkpoint")
    };
    let moments = moments_of(&World::of(finished.clone_live()), |places| {
        open(places).unwrap().close().unwrap();
    });
    let mut cut_off = 0;
    for (moment, image, _) in moments {
        let is_announced = image.read("log/repairs", u64::MAX).is_ok();
        if !is_announced || size(&image) != size(&finished) {
            continue;
        }
        let mut is_cut = false;
        for name in image.list(JOURNAL).unwrap() {
            let name = format!("{JOURNAL}/{name}");
            let before = finished.read(&name, u64::MAX).unwrap();
            is_cut |= image.read(&name, u64::MAX).unwrap() != before;
            image.replace(&name, &before).unwrap();
        }
        if !is_cut {
            continue;
        }
        cut_off += 1;
        let places = World::of(image).without_copies().places();
        let refused = open(&places).unwrap_err().to_string();
        assert!(refused.contains("names more frames"), "{moment}: {refused}");
        let options = VerifyOptions {
            root: Some(root()),
            ..VerifyOptions::default()
        };
        let report = verify_at(&places, &options).unwrap();
        let is_named =
            |fault: &Fault| fault.class == FaultClass::Rollback && fault.place == "repairs";
        assert!(
            report.faults.iter().any(is_named),
            "{moment}: {:?}",
            report.faults
        );
        let reader = Reader::open_at(&places, &root()).unwrap();
        assert!(reader.check(None).is_err(), "{moment}");
    }
    assert!(cut_off > 0, "no moment left such a file");
}
