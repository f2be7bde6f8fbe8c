//! Reading of entries: up to the first damage, or past it where a person asks for it.

use std::path::Path;

use probity_log::reader::{Damage, Filter, Found, Reader};
use probity_log::{AcceptedLoss, RepairKind};
use serde::Serialize;

use super::copies::reading_places;
use super::{check_is_log, read_root_of};
use crate::config::Environment;
use crate::entry_json::format_time;
use crate::failure::{Failure, LOG_NAMED, ROOT_KEY_USED, Status};
use crate::output::{counted, note};
use crate::shell::quoted;

/// The most faults and gaps that are shown one by one.
const SHOWN_MAX: usize = 100;

/// The words of faults by which a log is an older copy of itself.
const OLDER_COPY: &str = "an older copy of the log was put back";

/// The treatment of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDamage {
    /// Nothing is read.
    Refuse,
    /// Everything left is read, and what is missing is reported.
    ReadOn,
}

impl OnDamage {
    /// Returns the treatment for the option `--damaged-too`.
    pub(super) const fn of(damaged_too: bool) -> Self {
        if damaged_too {
            Self::ReadOn
        } else {
            Self::Refuse
        }
    }

    /// Adds to a failure of reading how the damage is seen, and how what is left is read.
    pub(super) fn offer(self, failure: Failure) -> Failure {
        if self == Self::ReadOn || failure.status() != Status::Broken {
            return failure;
        }
        older_copy(failure.remedy(format!(
            "see all faults with: probity verify {LOG_NAMED}{ROOT_KEY_USED}; take what is left with --damaged-too, which ends with \
             status 3 too",
        )))
    }
}

/// Opens the log at `dir` for reading, even while somebody writes to it.
pub(super) fn open(
    dir: &Path,
    key: Option<&Path>,
    environment: &Environment,
    on_damage: OnDamage,
) -> Result<Reader, Failure> {
    check_is_log(dir)?;
    let root = read_root_of(dir, key, environment)?;
    let places = reading_places(dir, None, environment)?;
    let reader = match on_damage {
        OnDamage::Refuse => Reader::open_at(&places, &root),
        OnDamage::ReadOn => Reader::open_damaged(&places, &root),
    }?;
    // If the unknown streams cannot be listed, reading reports why.
    for name in reader
        .unknown_streams()
        .unwrap_or_default()
        .iter()
        .take(SHOWN_MAX)
    {
        note(&format!(
            "warning: streams/{name} belongs to no stream that the journal created, and is not read; see: probity verify {}",
            quoted(dir)
        ));
    }
    Ok(reader)
}

/// Calls `visit` for each entry that `filter` accepts; returns what was left out because of damage.
pub(super) fn read(
    reader: &Reader,
    filter: &Filter,
    on_damage: OnDamage,
    visit: &mut dyn FnMut(&Found<'_>) -> Result<(), Failure>,
) -> Result<Damage, Failure> {
    told(reader, filter, || match on_damage {
        OnDamage::Refuse => {
            let read = reader.read(filter, visit);
            read.map_err(|failure| on_damage.offer(failure))?;
            Ok(Damage::default())
        }
        OnDamage::ReadOn => reader.read_damaged(filter, visit),
    })
}

/// Runs `read`, which reads the entries that `filter` accepts, and reports what it leaves out.
pub(super) fn told(
    reader: &Reader,
    filter: &Filter,
    read: impl FnOnce() -> Result<Damage, Failure>,
) -> Result<Damage, Failure> {
    tell_unsigned(reader, filter)?;
    tell_lost_frames(reader, filter);
    let damage = read()?;
    show(&damage);
    // What of the given up sections is read again, or is about others, is not left out.
    for met in reader.losses_met() {
        note(&format!("left out: {}", met.loss));
    }
    Ok(damage)
}

/// Adds, where newer second copies show an older copy of the log, how it is read on purpose.
pub(super) fn older_copy(failure: Failure) -> Failure {
    if !failure.clause().contains(OLDER_COPY) {
        return failure;
    }
    failure.also(
        "an older copy that is meant is read in a folder of its own, without DIR.heads beside it and with PROBITY_HEADS unset",
    )
}

/// Returns the status of a command that otherwise succeeds.
pub(super) fn status_after(damage: &Damage) -> Status {
    if damage.is_none() {
        Status::Done
    } else {
        Status::Broken
    }
}

/// Reports that a log holds no entry about `subject`, who may be mistyped or known by another
/// name.
pub(super) fn nothing_about(subject: &str, log: &Path) {
    nothing_found(&format!(" about {subject}"), true, log);
}

/// Reports that a log holds none of the entries that `described` says; where they are those about
/// a person, who may be mistyped or known by another name, names that of disguises.
pub(super) fn nothing_found(described: &str, are_about_one: bool, log: &Path) {
    let name = if are_about_one {
        "; entries of disguises name the person otherwise: see probity disguise subject-name"
    } else {
        ""
    };
    note(&format!(
        "0 entries{described} found in {}{name}",
        log.display()
    ));
}

/// Reports frames that are not read because nothing says who wrote them.
pub(super) fn tell_unsigned(reader: &Reader, filter: &Filter) -> Result<(), Failure> {
    for unsigned in reader.unsigned(filter)? {
        note(&format!("left out: {unsigned}"));
    }
    Ok(())
}

/// A loss that was accepted, as documents show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct LostForm {
    stream: String,
    kind: &'static str,
    from_frame: u64,
    to_frame: u64,
    /// The time at which it was accepted.
    accepted: String,
}

impl From<&AcceptedLoss> for LostForm {
    fn from(AcceptedLoss { loss, time, .. }: &AcceptedLoss) -> Self {
        Self {
            stream: loss.stream.to_string(),
            kind: loss.lost_part(),
            from_frame: loss.from,
            to_frame: loss.to,
            accepted: format_time(*time),
        }
    }
}

/// Reports frames whose loss was accepted: no entry stands in their place.
fn tell_lost_frames(reader: &Reader, filter: &Filter) {
    let is_of_frames = |it: &&AcceptedLoss| it.loss.kind == RepairKind::Lost;
    for it in wanted_losses(reader, filter).filter(is_of_frames) {
        note(&format!("not in the log any more: {}", it.loss));
    }
}

/// The accepted losses of the streams that are read.
fn wanted_losses<'a>(
    reader: &'a Reader,
    filter: &'a Filter,
) -> impl Iterator<Item = &'a AcceptedLoss> {
    let wanted = filter.stream.as_ref();
    let losses = reader.accepted_losses();
    losses.filter(move |it| wanted.is_none_or(|stream| it.loss.stream == *stream))
}

/// Reports losses that were accepted: no entry stands in their place. Returns them.
pub(super) fn tell_losses(reader: &Reader, filter: &Filter) -> Vec<LostForm> {
    wanted_losses(reader, filter)
        .inspect(|it| note(&format!("not in the log any more: {}", it.loss)))
        .map(LostForm::from)
        .collect()
}

/// Prints the faults and the gaps.
fn show(damage: &Damage) {
    for fault in damage.faults.iter().take(SHOWN_MAX) {
        note(&format!("fault {fault}"));
    }
    let others = damage.faults.len().saturating_sub(SHOWN_MAX);
    let others = u64::try_from(others).unwrap_or(u64::MAX);
    let others = others.saturating_add(damage.faults_unlisted);
    if others > 0 {
        let others = counted(others, "fault", "faults");
        note(&format!("and {others} more: see them with probity verify"));
    }
    for gap in damage.gaps.iter().take(SHOWN_MAX) {
        note(&format!("left out: {gap}"));
    }
    if let Some(others) = damage.gaps.get(SHOWN_MAX..).filter(|gaps| !gaps.is_empty()) {
        let others = u64::try_from(others.len()).unwrap_or(u64::MAX);
        note(&format!("and {} more", counted(others, "gap", "gaps")));
    }
    if !damage.is_none() {
        note(&format!("the log is damaged: {}", damage.missing()));
    }
}
