//! The state of a storage in memory after a power loss.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::{Change, Content, Image, Memory, Shared, Versions, lock_content, overwrite};
use crate::storage::random::Random;

/// The largest unit that a disk writes at once.
const SECTOR_BYTES: usize = 512;

impl Memory {
    /// Returns a storage with one possible state after a power loss at this moment; `seed` selects
    /// it reproducibly.
    ///
    /// Durable names with their durable bytes are always there. Of the rest there may be nothing,
    /// all of it, or any part. All changes up to one moment may be there, with the change at that
    /// moment torn. Names may be as they were at any time since they were durable last, folders or
    /// not. Lengths may be there without the bytes (these are zeros). Of each write any of the
    /// 512-byte sectors it touches may be there, some of them torn in the middle. Bytes next to
    /// those of a write stay as they are.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let image = self.lock_image();
        Self::from(image.after(&mut Fate::draw(seed, &image)))
    }

    /// Returns a storage with only the durable state: the least that a power loss leaves.
    #[must_use]
    pub fn crash_losing_all_unsynced(&self) -> Self {
        let mut fate = Fate {
            kind: FateKind::Nothing,
            random: Random::new(0),
        };
        Self::from(self.lock_image().after(&mut fate))
    }
}

impl Image {
    fn after(&self, fate: &mut Fate) -> Self {
        let mut folders = BTreeMap::new();
        // A folder sorts behind its parent, which is decided first.
        for (folder, created) in &self.folders {
            let above = folder.rsplit_once('/').map_or("", |(above, _)| above);
            let stands = above.is_empty() || folders.contains_key(above);
            if stands && created.is_none_or(|moment| fate.keeps(moment) == Kept::Whole) {
                folders.insert(folder.clone(), None);
            }
        }
        let mut names = BTreeMap::new();
        for (name, versions) in &self.names {
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            let kept = fate.version(versions).map(lock_content);
            let bytes = kept.map(|content| fate.bytes(&content));
            if let Some(bytes) = bytes
                && (folder.is_empty() || folders.contains_key(folder))
            {
                let durable = Some(Arc::new(Mutex::new(Content::durable(bytes))));
                let later = Vec::new();
                names.insert(name.clone(), Versions { durable, later });
            }
        }
        Self {
            names,
            folders,
            ..Self::default()
        }
    }

    /// The moment of the oldest change that a crash may take back.
    fn first_unsynced(&self) -> u64 {
        let folders = self.folders.values().filter_map(|created| *created);
        let names = self.names.values().flat_map(|versions| {
            let contents = versions
                .later
                .iter()
                .filter_map(|(_, content)| content.as_ref());
            let first = |content: &Shared| lock_content(content).later.first().map(|(m, _)| *m);
            let bytes = versions.durable.iter().chain(contents).filter_map(first);
            let name = versions.later.first().map(|(moment, _)| *moment);
            name.into_iter().chain(bytes).collect::<Vec<u64>>()
        });
        folders.chain(names).min().unwrap_or(self.moment)
    }
}

/// The selected outcome of a crash.
struct Fate {
    kind: FateKind,
    random: Random,
}

enum FateKind {
    Nothing,
    Everything,
    Until(u64),
    /// Each change is whole or lost with a probability of this share of 256, or else torn.
    Scattered(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Whole,
    Torn,
    Lost,
}

impl Fate {
    fn draw(seed: u64, image: &Image) -> Self {
        let mut random = Random::new(seed);
        let kind = match random.below(8) {
            0 => FateKind::Nothing,
            1 => FateKind::Everything,
            2..=4 => {
                let first = image.first_unsynced();
                let span = image.moment.saturating_sub(first).saturating_add(1);
                let span = usize::try_from(span).unwrap_or(usize::MAX);
                let after = u64::try_from(random.below(span)).unwrap_or_default();
                FateKind::Until(first.saturating_add(after))
            }
            _ => FateKind::Scattered(random.below(128)),
        };
        Self { kind, random }
    }

    fn keeps(&mut self, moment: u64) -> Kept {
        match self.kind {
            FateKind::Nothing => Kept::Lost,
            FateKind::Everything => Kept::Whole,
            FateKind::Until(last) if moment < last => Kept::Whole,
            FateKind::Until(last) if moment == last => Kept::Torn,
            FateKind::Until(_) => Kept::Lost,
            FateKind::Scattered(share) if self.random.chance(share) => Kept::Lost,
            FateKind::Scattered(share) if self.random.chance(share) => Kept::Torn,
            FateKind::Scattered(_) => Kept::Whole,
        }
    }

    fn version<'a>(&mut self, versions: &'a Versions) -> Option<&'a Shared> {
        let count = versions.later.len();
        let kept = match self.kind {
            FateKind::Nothing => 0,
            FateKind::Everything => count,
            FateKind::Until(last) => versions.later.partition_point(|(m, _)| *m <= last),
            FateKind::Scattered(_) => self.random.below(count.saturating_add(1)),
        };
        let version = kept.checked_sub(1).and_then(|at| versions.later.get(at));
        version
            .map_or(&versions.durable, |(_, content)| content)
            .as_ref()
    }

    fn bytes(&mut self, content: &Content) -> Vec<u8> {
        let mut bytes = content.durable.clone();
        for (moment, change) in &content.later {
            match self.keeps(*moment) {
                Kept::Whole => change.apply(&mut bytes),
                Kept::Torn => change.tear(&mut bytes, &mut self.random),
                Kept::Lost => {}
            }
        }
        bytes
    }
}

impl Change {
    /// Applies a part of the change that a disk without power may have written.
    fn tear(&self, file: &mut Vec<u8>, random: &mut Random) {
        let Self::Write { offset, bytes } = self else {
            if random.chance(128) {
                self.apply(file);
            }
            return;
        };
        let end = offset.saturating_add(bytes.len());
        if random.chance(128) && file.len() < end {
            file.resize(end, 0);
        }
        let share = random.below(257);
        let first = SECTOR_BYTES
            .saturating_sub(offset % SECTOR_BYTES)
            .min(bytes.len());
        let (head, rest) = bytes.split_at_checked(first).unwrap_or((bytes, &[]));
        let mut at = *offset;
        for sector in std::iter::once(head).chain(rest.chunks(SECTOR_BYTES)) {
            if random.chance(share) {
                let torn = random.chance(16).then(|| random.below(sector.len()));
                let written = torn.and_then(|length| sector.get(..length));
                overwrite(file, at, written.unwrap_or(sector));
            }
            at = at.saturating_add(sector.len());
        }
    }
}
