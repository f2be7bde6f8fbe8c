//! The kinds of attack: the change, the expected verdict of verification, and the expected place.

mod bytes;
mod content;
mod ends;
mod folder;
mod keys;
mod subjects;

use probity_log::verify::FaultClass;

use crate::random::Random;
use crate::world::{Look, Scene, configs, segments};

pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Its numbers in the list of attacks that the issue names, where it is one of them.
    pub(crate) of: &'static str,
    pub(crate) look: Look,
    pub(crate) verdict: Verdict,
    /// Other correct classes for the same damage.
    pub(crate) also: &'static [FaultClass],
    pub(crate) attack: fn(&mut Scene<'_>, &mut Random) -> Place,
}

/// The expected result of a verification.
#[derive(Clone, Copy)]
pub(crate) enum Verdict {
    /// A fault of this class.
    Fault(FaultClass),
    /// A refusal for this reason.
    Refused(&'static str),
    /// An intact log, with the place of the unchecked part listed.
    Listed,
}

/// The place where the fault must be found.
pub(crate) struct Place {
    pub(crate) stream: String,
    /// Part of the place in the report.
    pub(crate) place: String,
}

impl Place {
    fn new(stream: &str, place: impl Into<String>) -> Self {
        Self {
            stream: stream.to_owned(),
            place: place.into(),
        }
    }

    /// A file of a stream, or a place in it.
    fn file(stream: &str, file: &str) -> Self {
        Self::new(stream, format!("streams/{stream}/{file}"))
    }
}

impl Kind {
    /// A kind found without any key, by the class `class`.
    const fn new(
        name: &'static str,
        of: &'static str,
        class: FaultClass,
        attack: fn(&mut Scene<'_>, &mut Random) -> Place,
    ) -> Self {
        Self {
            name,
            of,
            look: Look::Keyless,
            verdict: Verdict::Fault(class),
            also: &[],
            attack,
        }
    }

    const fn also(self, also: &'static [FaultClass]) -> Self {
        Self { also, ..self }
    }

    const fn look(self, look: Look) -> Self {
        Self { look, ..self }
    }

    const fn listed(self) -> Self {
        Self {
            verdict: Verdict::Listed,
            ..self
        }
    }

    const fn refused(self, reason: &'static str) -> Self {
        Self {
            verdict: Verdict::Refused(reason),
            ..self
        }
    }
}

/// Every kind.
pub(crate) fn all() -> Vec<Kind> {
    [
        bytes::kinds(),
        content::kinds(),
        ends::kinds(),
        folder::kinds(),
        keys::kinds(),
        subjects::kinds(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The consequences of damage to the journal, which defines streams and keys.
const JOURNAL_TOO: &[FaultClass] = &[
    FaultClass::Checkpoint,
    FaultClass::Frame,
    FaultClass::Journal,
    FaultClass::KeyChain,
    FaultClass::Missing,
    FaultClass::Record,
    FaultClass::Rollback,
    FaultClass::Segment,
    FaultClass::Tile,
    FaultClass::Tree,
    FaultClass::Unknown,
    FaultClass::Fork,
];

fn any_stream(random: &mut Random) -> &'static str {
    random.of(&configs()).0
}

/// A stream that has a segment behind another, and the first frames of both.
fn any_segments(scene: &Scene<'_>, random: &mut Random) -> (&'static str, u64, u64) {
    loop {
        let stream = any_stream(random);
        let all = segments(&scene.log(), stream);
        if all.len() > 1 {
            let place = random.below(all.len() - 1);
            return (stream, all[place], all[place + 1]);
        }
    }
}

fn flip(bytes: &mut [u8], range: std::ops::Range<usize>, random: &mut Random) {
    let place = range.start + random.below(range.len());
    bytes[place] ^= random.bit();
}
