//! Sorted sets made of several: unions, intersections, differences.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::range::{Growth, store_scored};
use super::sorted_set::{Scores, reply_scored};
use super::{Call, Spec};
use crate::fail::Fail;
use crate::number::{parse_double, parse_integer};
use crate::record::{Body, Kind, Value};
use crate::rows::Rows;
use crate::sorted_set::{Scored, decode};

pub(super) const SPECS: &[Spec] = &[
    Spec::new("zunion", -3, |call| answer(call, Way::Union)),
    Spec::new("zinter", -3, |call| answer(call, Way::Inter)),
    Spec::new("zdiff", -3, |call| answer(call, Way::Diff)),
    Spec::new("zunionstore", -4, |call| store(call, Way::Union)),
    Spec::new("zinterstore", -4, |call| store(call, Way::Inter)),
    Spec::new("zdiffstore", -4, |call| store(call, Way::Diff)),
    Spec::new("zintercard", -3, zintercard),
];

/// The way in which sorted sets become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Union,
    Inter,
    Diff,
}

/// The combination of a member's scores in several sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

/// A set or a sorted set that takes part; none where there is no such key.
#[derive(Debug, Clone, Copy)]
struct Source {
    body: Option<Body>,
    weight: f64,
}

/// The arguments of a command.
struct Said {
    sources: Vec<Source>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: u64,
}

impl Source {
    fn len(&self) -> u64 {
        self.body.map_or(0, |body| body.count)
    }

    /// The weighted score of a member; one in a set, where it has none.
    fn score(&self, rows: &Rows<'_>, member: &[u8]) -> Result<Option<f64>, Fail> {
        let Some(body) = self.body else {
            return Ok(None);
        };
        let value = rows.element(body.id, member)?;
        value.map(|value| self.weighted(&body, &value)).transpose()
    }

    fn weighted(&self, body: &Body, value: &[u8]) -> Result<f64, Fail> {
        let score = match body.kind {
            Kind::Set => 1.0,
            _ => decode(value)?,
        };
        Ok(self.weight * score)
    }

    /// Every member with its weighted score, which is a number here; where sets are intersected
    /// that holds for the first alone, and what the others add up to is made one.
    fn each(
        &self,
        rows: &Rows<'_>,
        mut take: impl FnMut(&[u8], f64) -> Result<(), Fail>,
    ) -> Result<(), Fail> {
        let Some(body) = self.body else { return Ok(()) };
        for row in rows.elements(body.id, 0)? {
            let row = row?;
            take(row.name(), number(self.weighted(&body, row.value())?))?;
        }
        Ok(())
    }
}

impl Aggregate {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Sum => number(left + right),
            Self::Min => left.min(right),
            Self::Max => left.max(right),
        }
    }
}

/// Counts a value that is no number, like infinity less infinity, as zero.
const fn number(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

/// Reads the command from its number of keys at `index` on.
fn read(call: &mut Call<'_, '_>, index: usize, way: Way, mode: Mode) -> Result<Said, Fail> {
    let count = call.integer(index)?;
    let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
        let text = format!(
            "ERR at least 1 input key is needed for '{}' command",
            call.name()
        );
        return Err(Fail::said(&text));
    };
    let keys = call.rest(index + 1).get(..count).ok_or_else(Fail::syntax)?;
    let mut said = Said {
        sources: Vec::new(),
        aggregate: Aggregate::Sum,
        with_scores: false,
        limit: 0,
    };
    for key in keys {
        let found = call.space.look_up(key)?;
        let body = match found.map(|record| record.value) {
            None => None,
            Some(Value::Rows(body)) if matches!(body.kind, Kind::Set | Kind::SortedSet) => {
                Some(body)
            }
            Some(_) => return Err(Fail::wrong_type()),
        };
        said.sources.push(Source { body, weight: 1.0 });
    }
    read_options(call, index + 1 + count, way, mode, &mut said)?;
    if way != Way::Diff {
        // Redis takes the smallest first, which shows in sums that are rounded.
        said.sources.sort_by_key(Source::len);
    }
    Ok(said)
}

/// The use of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Answer,
    Store,
    Count,
}

fn read_options(
    call: &Call<'_, '_>,
    mut index: usize,
    way: Way,
    mode: Mode,
    said: &mut Said,
) -> Result<(), Fail> {
    let weighs = way != Way::Diff && mode != Mode::Count;
    while index < call.args.len() {
        let behind = call.rest(index + 1);
        match super::word(call.arg(index)).as_slice() {
            b"weights" if weighs && behind.len() >= said.sources.len() => {
                for (source, text) in said.sources.iter_mut().zip(behind) {
                    let weight = parse_double(text);
                    source.weight =
                        weight.ok_or_else(|| Fail::said("ERR weight value is not a float"))?;
                }
                index += said.sources.len();
            }
            b"aggregate" if weighs && !behind.is_empty() => {
                said.aggregate = match super::word(call.arg(index + 1)).as_slice() {
                    b"sum" => Aggregate::Sum,
                    b"min" => Aggregate::Min,
                    b"max" => Aggregate::Max,
                    _ => return Err(Fail::syntax()),
                };
                index += 1;
            }
            b"withscores" if mode == Mode::Answer => said.with_scores = true,
            b"limit" if mode == Mode::Count && !behind.is_empty() => {
                let limit = parse_integer(call.arg(index + 1));
                let limit = limit.and_then(|limit| u64::try_from(limit).ok());
                said.limit = limit.ok_or_else(|| Fail::said("ERR LIMIT can't be negative"))?;
                index += 1;
            }
            _ => return Err(Fail::syntax()),
        }
        index += 1;
    }
    Ok(())
}

/// The members that result, in order.
fn members(call: &Call<'_, '_>, way: Way, said: &Said) -> Result<Vec<Scored>, Fail> {
    let rows = &call.space.rows;
    let Some((first, others)) = said.sources.split_first() else {
        return Ok(Vec::new());
    };
    let mut found: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
    match way {
        Way::Union => {
            for source in &said.sources {
                source.each(rows, |member, score| {
                    let kept = found.get(member).copied();
                    if kept.is_none() {
                        call.space.room.take(member.len())?;
                    }
                    let score = kept.map_or(score, |kept| said.aggregate.of(kept, score));
                    found.insert(member.to_vec(), score);
                    Ok(())
                })?;
            }
        }
        Way::Inter => first.each(rows, |member, score| {
            let mut sum = score;
            for other in others {
                let Some(score) = other.score(rows, member)? else {
                    return Ok(());
                };
                sum = said.aggregate.of(sum, score);
            }
            call.space.room.take(member.len())?;
            found.insert(member.to_vec(), sum);
            Ok(())
        })?,
        Way::Diff => first.each(rows, |member, score| {
            for other in others {
                if other.score(rows, member)?.is_some() {
                    return Ok(());
                }
            }
            call.space.room.take(member.len())?;
            found.insert(member.to_vec(), score);
            Ok(())
        })?,
    }
    let mut scored: Vec<Scored> = found
        .into_iter()
        .map(|(member, score)| Scored { member, score })
        .collect();
    // Members are in order already; the sort keeps that among equal scores.
    scored.sort_by(|left, right| {
        left.score
            .partial_cmp(&right.score)
            .unwrap_or(Ordering::Equal)
    });
    Ok(scored)
}

fn answer(call: &mut Call<'_, '_>, way: Way) -> Result<(), Fail> {
    let said = read(call, 1, way, Mode::Answer)?;
    let scored = members(call, way, &said)?;
    let scores = Scores::wanted(call, said.with_scores);
    reply_scored(call, &scored, scores);
    Ok(())
}

fn store(call: &mut Call<'_, '_>, way: Way) -> Result<(), Fail> {
    let said = read(call, 2, way, Mode::Store)?;
    let scored = members(call, way, &said)?;
    store_scored(call, &scored, Growth::AtOnce)
}

fn zintercard(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let said = read(call, 1, Way::Inter, Mode::Count)?;
    let count = members(call, Way::Inter, &said)?.len() as u64;
    let most = if said.limit == 0 {
        u64::MAX
    } else {
        said.limit
    };
    call.reply.count(count.min(most));
    Ok(())
}
