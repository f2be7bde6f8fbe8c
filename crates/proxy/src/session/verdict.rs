//! The fate of one key, by the reply to its command.

use probity_format::Outcome;

use super::capture::{Capture, Value};
use super::pending::{Pending, PendingKey};
use super::text::Fit;
use crate::command::{Access, Meaning, Messages, Replaces, Rule, Sign};

/// The action and the outcome that an entry records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) action: &'static str,
    pub(super) outcome: Outcome,
    /// A member of the payload with a leading comma, or nothing.
    pub(super) note: &'static str,
}

/// The reply does not tell whether anything changed.
const UNTOLD: &str = ",\"changed\":\"perhaps\"";
/// The member of a payload that says that nothing changed.
const SAME: &str = ",\"changed\":\"nothing\"";
/// The reply was too long to be waited for, and its beginning does not tell.
const CUT: &str = ",\"reply\":\"cut\"";
/// The key has an end, which may have passed already: nobody can say what the server's clock showed.
const PERHAPS_ERASED: &str = ",\"erased\":\"perhaps\"";
const PERHAPS_CHANGED_OR_ERASED: &str = ",\"changed\":\"perhaps\",\"erased\":\"perhaps\"";

impl Verdict {
    const fn done(action: &'static str) -> Self {
        Self::of(action, Outcome::Ok)
    }

    pub(super) const fn of(action: &'static str, outcome: Outcome) -> Self {
        Self {
            action,
            outcome,
            note: "",
        }
    }

    /// Marks the verdict as one whose changes the reply cannot tell.
    pub(super) fn untold(mut self) -> Self {
        if !matches!(self.action, "read" | "look") {
            self.note = UNTOLD;
        }
        self
    }

    /// Marks the verdict as one that a reply gives of which only the beginning is known.
    fn cut(mut self) -> Self {
        if self.note.is_empty() {
            self.note = CUT;
        }
        self
    }

    fn same(mut self) -> Self {
        if !matches!(self.action, "read" | "look") {
            self.note = SAME;
        }
        self
    }
}

/// The word for the attempt: the strongest of delete, update, read, look.
pub(super) const fn action_of(access: Access) -> &'static str {
    if access.contains(Access::DELETE) {
        "delete"
    } else if access.contains(Access::UPDATE) || access.contains(Access::INSERT) {
        "update"
    } else if access.contains(Access::ACCESS) {
        "read"
    } else {
        "look"
    }
}

/// Returns the fate of key `index` of `pending`. It follows from a reply that is no error and that
/// the server wrote itself, and from the server's time after it.
pub(super) fn verdict(
    pending: &Pending,
    index: usize,
    reply: &Capture,
    time_after: Option<i64>,
) -> Verdict {
    let mut told = by_reply(pending, index, reply);
    if pending.is_guessed && told.outcome == Outcome::Ok {
        told = told.untold();
    }
    if !gives_an_end(&told) {
        return told;
    }
    // Of a key that was there the reply tells that it is gone.
    let was_there = matches!(pending.rule, Rule::Expires(_));
    match pending.deadline.is_over(pending.time_before, time_after) {
        Some(false) => told,
        Some(true) if was_there => Verdict::done("delete"),
        Some(true) => Verdict::done("delete").untold(),
        None => Verdict {
            note: if was_there {
                PERHAPS_ERASED
            } else {
                PERHAPS_CHANGED_OR_ERASED
            },
            ..Verdict::done("update")
        },
    }
}

/// Returns whether the fate of the keys of `pending` depends on the server's time after its reply.
pub(super) fn depends_on_time(pending: &Pending, reply: &Capture) -> bool {
    let told = pending.deadline.is_over(pending.time_before, None);
    told.is_none()
        && (0..pending.keys.len()).any(|index| gives_an_end(&by_reply(pending, index, reply)))
}

/// Returns whether the operation gives the key an end, if the command names one.
fn gives_an_end(told: &Verdict) -> bool {
    told.outcome == Outcome::Ok && matches!(told.action, "create" | "update")
}

fn by_reply(pending: &Pending, index: usize, reply: &Capture) -> Verdict {
    let Some(key) = pending.keys.at(index) else {
        return Verdict::done("look");
    };
    let action = action_of(key.access);
    let done = Verdict::done(action);
    let absent = Verdict::of(action, Outcome::Absent);
    let failed = Verdict::of(action, Outcome::Failed);
    let created = Verdict::done(if action == "update" { "create" } else { action });
    let either = |bad: bool, verdict: Verdict| if bad { verdict } else { done };
    let zero = reply.head.integer == Some(0);
    match pending.rule {
        Rule::Unknown => either(reply.head.null, absent).untold(),
        Rule::When(sign, meaning) if shows(reply, sign) => means(action, meaning),
        Rule::Creates(sign) if shows(reply, sign) => failed,
        Rule::PreviousTells | Rule::PreviousStays | Rule::PreviousPerhaps if reply.head.null => {
            created
        }
        Rule::Creates(_) => created,
        Rule::Sums(_) if reply.head.null => failed,
        Rule::Sums(by) => summed(done, by, reply),
        Rule::PreviousStays => Verdict::done("read"),
        Rule::PreviousPerhaps => done.untold(),
        Rule::Members(_) | Rule::FieldTimes(_) if is_cut(pending, reply) => done.cut(),
        Rule::Members(_) => either(all(reply, is_nothing), absent),
        Rule::MembersUntold(_) if all(reply, is_nothing) => absent,
        Rule::MembersUntold(_) => done.untold(),
        Rule::FieldCodes(_) => codes(action, reply),
        Rule::FieldTimes(_) => either(all(reply, |value| value.integer == Some(-2)), absent),
        Rule::Bitfield(_, 0) => done,
        // A value grows before the server looks whether its number fits, and a number may stay.
        Rule::Bitfield(_, writes) => {
            let refused = reply.elements.iter().filter(|value| value.null).count();
            either(refused >= writes, failed).untold()
        }
        Rule::PerKey if reply.has_no(index) => done.cut(),
        Rule::PerKey => either(reply.elements.get(index).is_some_and(|it| it.null), absent),
        Rule::Named | Rule::NamedEach | Rule::Delivers(_) => {
            let fit = fit(pending, &key, reply);
            let is_cut = fit == Fit::Perhaps && !reply.is_whole();
            let told = named(pending, fit, action);
            if is_cut { told.cut() } else { told }
        }
        _ if reply.head.null => absent,
        Rule::Untold => done.untold(),
        Rule::Idle if zero => absent,
        Rule::Idle => done.same(),
        Rule::Count => either(zero, absent),
        Rule::LengthTells(length) => {
            let is_new = reply.head.integer.and_then(|it| u64::try_from(it).ok()) == Some(length);
            if is_new { created } else { done }
        }
        Rule::Stores if action == "update" && shows(reply, Sign::ZeroOrEmpty) => {
            Verdict::done("delete").untold()
        }
        Rule::Stores => either(shows(reply, Sign::ZeroOrEmpty), absent),
        Rule::Moves if zero => absent,
        Rule::Moves if action == "update" => done.untold(),
        Rule::Expires(meaning) if zero => means(action, meaning),
        Rule::Restores(Replaces::No) => created,
        Rule::Migrates if reply.head.text.is(b"NOKEY") => absent,
        Rule::Migrates if pending.keys.len() > 1 => done.untold(),
        Rule::When(..)
        | Rule::PreviousTells
        | Rule::Moves
        | Rule::Expires(_)
        | Rule::Restores(_)
        | Rule::Migrates => done,
    }
}

/// Returns the outcome for a place that is no key, like the keys of a pattern.
pub(super) fn place_outcome(rule: Rule, reply: &Capture) -> Outcome {
    match rule {
        Rule::When(sign, Meaning::Absent) if shows(reply, sign) => Outcome::Absent,
        Rule::Stores if shows(reply, Sign::ZeroOrEmpty) => Outcome::Absent,
        _ => Outcome::Ok,
    }
}

/// Returns whether the sign is there. Nil is a sign of everything.
fn shows(reply: &Capture, sign: Sign) -> bool {
    let head = &reply.head;
    let element = |index: usize| reply.elements.get(index);
    head.null
        || match sign {
            Sign::Nil => false,
            Sign::Zero => head.integer == Some(0),
            Sign::NotPositive => head.integer.is_some_and(|number| number <= 0),
            Sign::Number(number) => head.integer == Some(number),
            Sign::MinusTwo => head.integer == Some(-2),
            Sign::NoneWord => head.text.is(b"none"),
            Sign::Empty => head.length == Some(0),
            Sign::ZeroOrEmpty => head.length == Some(0) || head.integer == Some(0),
            Sign::EmptyPage => element(1).is_some_and(|page| page.length == Some(0)),
            Sign::ZeroFirst => {
                head.length == Some(0) || element(0).is_some_and(|it| it.integer == Some(0))
            }
        }
}

fn means(action: &'static str, meaning: Meaning) -> Verdict {
    match meaning {
        Meaning::Absent => Verdict::of(action, Outcome::Absent),
        Meaning::AbsentUntold => Verdict::of(action, Outcome::Absent).untold(),
        Meaning::Failed => Verdict::of(action, Outcome::Failed),
        Meaning::Same => Verdict::done(action).same(),
        Meaning::Untold => Verdict::done(action).untold(),
    }
}

/// Reads the score that a command raised. A member whose score stays is not changed, but one with a
/// score of zero may be new.
#[expect(clippy::float_cmp, reason = "scores are the same or they are not")]
fn summed(done: Verdict, by: Option<u64>, reply: &Capture) -> Verdict {
    let text = reply.head.text.name();
    let score = text.and_then(|text| text.parse::<f64>().ok());
    match by.map(f64::from_bits).zip(score) {
        Some((0.0, score)) if score != 0.0 => done.same(),
        // A large score may have taken nothing of a small increment.
        Some((by, score)) if score + by != score && score - by != score => done,
        _ => done.untold(),
    }
}

/// Combines the numbers of all fields into one verdict.
fn codes(action: &'static str, reply: &Capture) -> Verdict {
    let any = |code: i64| reply.elements.iter().any(|it| it.integer == Some(code));
    if any(2) {
        Verdict::done("delete")
    } else if !reply.is_whole() {
        Verdict::done(action).untold()
    } else if any(1) {
        Verdict::done(action)
    } else if any(0) {
        Verdict::of(action, Outcome::Failed)
    } else {
        Verdict::of(action, Outcome::Absent)
    }
}

fn all(reply: &Capture, is: impl Fn(&Value) -> bool) -> bool {
    reply.head.null || reply.is_whole() && reply.elements.iter().all(is)
}

impl Capture {
    /// Returns whether element `index` is not in the beginning of a reply of which no more is known.
    fn has_no(&self, index: usize) -> bool {
        !self.is_whole() && self.elements.get(index).is_none()
    }
}

/// Returns whether the beginning of a reply shows no member, and the rest of it may.
fn is_cut(pending: &Pending, reply: &Capture) -> bool {
    let is_nothing: fn(&Value) -> bool = match pending.rule {
        Rule::FieldTimes(_) => |it| it.integer == Some(-2),
        _ => is_nothing,
    };
    !reply.head.null && !reply.is_whole() && reply.elements.iter().all(is_nothing)
}

fn is_nothing(value: &Value) -> bool {
    value.null || value.integer == Some(0)
}

/// Compares the key with the names in the reply.
fn fit(pending: &Pending, key: &PendingKey<'_>, reply: &Capture) -> Fit {
    if pending.rule == Rule::Named {
        let first = reply.elements.first();
        return first.map_or(Fit::No, |name| name.text.fits(&key.key));
    }
    match reply.names().fit(&key.key) {
        // More may be named than has come so far.
        Fit::No if !reply.is_whole() => Fit::Perhaps,
        fit => fit,
    }
}

/// Returns the fate of a key by whether the reply names it.
fn named(pending: &Pending, fit: Fit, action: &'static str) -> Verdict {
    let groups = matches!(pending.rule, Rule::Delivers(_));
    let is_certain = !groups || pending.rule == Rule::Delivers(Messages::New);
    match fit {
        Fit::Yes if is_certain => Verdict::done(action),
        Fit::Yes | Fit::Perhaps => Verdict::done(action).untold(),
        // The group may have a consumer more.
        Fit::No if groups => Verdict::of(action, Outcome::Absent).untold(),
        Fit::No => Verdict::of(action, Outcome::Absent),
    }
}
