//! Commands on the members of one sorted set.

use super::draws::Draw;
use super::hash::scan_elements;
use super::list::index_range;
use super::range::{lex_range, score_range};
use super::set::positive;
use super::{Call, Spec};
use crate::fail::Fail;
use crate::number::{format_double, format_whole};
use crate::record::Kind;
use crate::reply::Protocol;
use crate::sorted_set::{self, Order, Range, Scored};
use crate::space::Held;

pub(super) const SPECS: &[Spec] = &[
    Spec::new("zadd", -4, |call| zadd(call, false)),
    Spec::new("zincrby", 4, |call| zadd(call, true)),
    Spec::new("zrem", -3, zrem),
    Spec::new("zscore", 3, zscore),
    Spec::new("zmscore", -3, zmscore),
    Spec::new("zcard", 2, zcard),
    Spec::new("zcount", 4, zcount),
    Spec::new("zlexcount", 4, zlexcount),
    Spec::new("zrank", 3, |call| zrank(call, Order::Ascending)),
    Spec::new("zrevrank", 3, |call| zrank(call, Order::Descending)),
    Spec::new("zpopmin", -2, |call| zpop(call, Order::Ascending)),
    Spec::new("zpopmax", -2, |call| zpop(call, Order::Descending)),
    Spec::new("zremrangebyrank", 4, zremrangebyrank),
    Spec::new("zremrangebyscore", 4, zremrangebyscore),
    Spec::new("zremrangebylex", 4, zremrangebylex),
    Spec::new("zrandmember", -2, zrandmember),
    Spec::new("zscan", -3, zscan),
];

fn held(call: &mut Call<'_, '_>) -> Result<Option<Held>, Fail> {
    call.space.look_up_held(call.arg(1), Kind::SortedSet)
}

/// The conditions under which ZADD changes a score, and the form of its answer.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of the command"
)]
struct Conditions {
    only_new: bool,
    only_old: bool,
    greater: bool,
    less: bool,
    changed: bool,
    increment: bool,
}

fn conditions(call: &Call<'_, '_>, increment: bool) -> (Conditions, usize) {
    let mut conditions = Conditions {
        increment,
        ..Conditions::default()
    };
    let mut index = 2;
    while index < call.args.len() {
        match super::word(call.arg(index)).as_slice() {
            b"nx" => conditions.only_new = true,
            b"xx" => conditions.only_old = true,
            b"gt" => conditions.greater = true,
            b"lt" => conditions.less = true,
            b"ch" => conditions.changed = true,
            b"incr" => conditions.increment = true,
            _ => break,
        }
        index += 1;
    }
    (conditions, index)
}

impl Conditions {
    fn check(&self, pairs: usize) -> Result<(), Fail> {
        if self.only_new && self.only_old {
            let text = "ERR XX and NX options at the same time are not compatible";
            return Err(Fail::said(text));
        }
        let one_way = self.greater || self.less;
        if (one_way && self.only_new) || (self.greater && self.less) {
            let text = "ERR GT, LT, and/or NX options at the same time are not compatible";
            return Err(Fail::said(text));
        }
        if self.increment && pairs > 1 {
            let text = "ERR INCR option supports a single increment-element pair";
            return Err(Fail::said(text));
        }
        Ok(())
    }

    /// Returns the new score of a member; none if its score stays.
    fn resulting(&self, old: Option<f64>, score: f64) -> Result<Option<f64>, Fail> {
        let Some(old) = old else {
            return Ok((!self.only_old).then_some(score));
        };
        if self.only_new {
            return Ok(None);
        }
        let score = if self.increment { old + score } else { score };
        if score.is_nan() {
            let text = "ERR resulting score is not a number (NaN)";
            return Err(Fail::said(text));
        }
        let kept = (self.less && score >= old) || (self.greater && score <= old);
        Ok((!kept).then_some(score))
    }
}

fn zadd(call: &mut Call<'_, '_>, increment: bool) -> Result<(), Fail> {
    let (conditions, index) = conditions(call, increment);
    let (pairs, odd) = call.rest(index).as_chunks::<2>();
    if !odd.is_empty() || pairs.is_empty() {
        return Err(Fail::syntax());
    }
    conditions.check(pairs.len())?;
    let scores = (0..pairs.len()).map(|pair| call.double(index + pair * 2));
    let scores: Vec<f64> = scores.collect::<Result<_, _>>()?;
    let found = call.space.held(call.arg(1), Kind::SortedSet)?;
    let mut set = match found {
        Some(set) => set,
        None if conditions.only_old => {
            if conditions.increment {
                call.reply.null();
            } else {
                call.reply.integer(0);
            }
            return Ok(());
        }
        None => call.space.new_held(call.arg(1), Kind::SortedSet)?,
    };
    let (mut added, mut updated, mut result) = (0, 0, None);
    for ([_, member], score) in pairs.iter().zip(scores) {
        let old = sorted_set::score_of(&call.space.rows, &set, member)?;
        result = conditions.resulting(old, score)?;
        let Some(score) = result else { continue };
        match old {
            None => added += 1,
            Some(old) if same(old, score) => continue,
            Some(_) => updated += 1,
        }
        sorted_set::put_score(&mut call.space.rows, &mut set, member, score)?;
    }
    call.space.save(&set)?;
    match result {
        Some(score) if conditions.increment => call.reply.double(score),
        None if conditions.increment => call.reply.null(),
        _ if conditions.changed => call.reply.integer(added + updated),
        _ => call.reply.integer(added),
    }
    Ok(())
}

/// Returns whether two scores are one number; both zeros are.
#[expect(clippy::float_cmp, reason = "scores are the same or they are not")]
fn same(left: f64, right: f64) -> bool {
    left == right
}

fn zrem(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let mut count = 0;
    if let Some(mut set) = call.space.held(call.arg(1), Kind::SortedSet)? {
        for member in call.rest(2) {
            count += i64::from(sorted_set::remove_scored(
                &mut call.space.rows,
                &mut set,
                member,
            )?);
        }
        call.space.save(&set)?;
    }
    call.reply.integer(count);
    Ok(())
}

fn zscore(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let score = match held(call)? {
        Some(set) => sorted_set::score_of(&call.space.rows, &set, call.arg(2))?,
        None => None,
    };
    match score {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

fn zmscore(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let set = held(call)?;
    let members = call.rest(2);
    call.reply.array(members.len());
    for member in members {
        let score = match &set {
            Some(set) => sorted_set::score_of(&call.space.rows, set, member)?,
            None => None,
        };
        match score {
            Some(score) => call.reply.double(score),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn zcard(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let set = held(call)?;
    call.reply.count(set.map_or(0, |set| set.len()));
    Ok(())
}

fn zcount(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let range = Range::Score(score_range(call.arg(2), call.arg(3))?);
    count(call, &range)
}

fn zlexcount(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let range = Range::Text(lex_range(call.arg(2), call.arg(3))?);
    count(call, &range)
}

fn count(call: &mut Call<'_, '_>, range: &Range<'_>) -> Result<(), Fail> {
    let count = match held(call)? {
        Some(set) => sorted_set::count_scored(call.space, &set, range)?,
        None => 0,
    };
    call.reply.count(count);
    Ok(())
}

fn zrank(call: &mut Call<'_, '_>, order: Order) -> Result<(), Fail> {
    let rank = match held(call)? {
        Some(set) => sorted_set::rank(&call.space.rows, &set, call.arg(2), order)?,
        None => None,
    };
    match rank {
        Some(rank) => call.reply.count(rank),
        None => call.reply.null(),
    }
    Ok(())
}

fn zpop(call: &mut Call<'_, '_>, order: Order) -> Result<(), Fail> {
    let count = match call.args.len() {
        2 => None,
        3 => Some(positive(call.arg(2))?),
        _ => return Err(Fail::syntax()),
    };
    let set = call.space.held(call.arg(1), Kind::SortedSet)?;
    let Some(mut set) = set else {
        call.reply.array(0);
        return Ok(());
    };
    let popped = Range::Rank(0, count.unwrap_or(1).min(set.len()));
    let popped = sorted_set::scored(call.space, &set, &popped, order, 0, usize::MAX)?;
    let scores = match count {
        // One popped without a count is told as two things.
        None => Scores::Flat,
        Some(_) => Scores::wanted(call, true),
    };
    reply_scored(call, &popped, scores);
    call.reply.check_whole()?;
    remove_all(call, &mut set, &popped)
}

/// The form of scores beside their members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scores {
    Untold,
    /// Behind each member.
    Flat,
    /// Each member and its score in an array of their own.
    Nested,
}

impl Scores {
    /// Returns the form of scores for this client.
    pub(super) fn wanted(call: &Call<'_, '_>, with_scores: bool) -> Self {
        match call.client.protocol {
            _ if !with_scores => Self::Untold,
            Protocol::Resp2 => Self::Flat,
            Protocol::Resp3 => Self::Nested,
        }
    }
}

/// Answers with members.
pub(super) fn reply_scored(call: &mut Call<'_, '_>, scored: &[Scored], scores: Scores) {
    let each = if scores == Scores::Flat { 2 } else { 1 };
    call.reply.array(scored.len() * each);
    for one in scored {
        if scores == Scores::Nested {
            call.reply.array(2);
        }
        call.reply.bulk(&one.member);
        if scores != Scores::Untold {
            call.reply.double(one.score);
        }
    }
}

fn remove_all(call: &mut Call<'_, '_>, set: &mut Held, members: &[Scored]) -> Result<(), Fail> {
    for one in members {
        sorted_set::remove_scored(&mut call.space.rows, set, &one.member)?;
    }
    call.space.save(set)
}

fn zremrangebyrank(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let set = call.space.held(call.arg(1), Kind::SortedSet)?;
    let range = set
        .as_ref()
        .and_then(|set| index_range(start, end, set.len()));
    let (start, end) = range.unwrap_or_default();
    remove_range(call, set, &Range::Rank(start, end))
}

fn zremrangebyscore(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let range = Range::Score(score_range(call.arg(2), call.arg(3))?);
    let set = call.space.held(call.arg(1), Kind::SortedSet)?;
    remove_range(call, set, &range)
}

fn zremrangebylex(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let range = Range::Text(lex_range(call.arg(2), call.arg(3))?);
    let set = call.space.held(call.arg(1), Kind::SortedSet)?;
    remove_range(call, set, &range)
}

fn remove_range(call: &mut Call<'_, '_>, set: Option<Held>, range: &Range<'_>) -> Result<(), Fail> {
    let mut removed = Vec::new();
    if let Some(mut set) = set {
        removed = sorted_set::scored(call.space, &set, range, Order::Ascending, 0, usize::MAX)?;
        remove_all(call, &mut set, &removed)?;
    }
    call.reply.count(removed.len() as u64);
    Ok(())
}

fn zrandmember(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    if call.args.len() == 2 {
        let drawn = match held(call)? {
            Some(set) => call.space.draw_element(&set)?,
            None => None,
        };
        let member = drawn.map(|element| element.name);
        call.reply.bulk_or_null(member.as_deref());
        return Ok(());
    }
    let mut draw = Draw::parse(call.arg(2))?;
    let with_scores = call.args.len() == 4;
    if call.args.len() > 4 || (with_scores && !call.is_word(3, "withscores")) {
        return Err(Fail::syntax());
    }
    if with_scores {
        draw = draw.in_pairs()?;
    }
    let drawn = match held(call)? {
        Some(set) => draw.draw(call, &set)?,
        None => Vec::new(),
    };
    let scored = drawn.into_iter().map(|element| {
        let score = sorted_set::decode(&element.value)?;
        let member = element.name;
        Ok(Scored { member, score })
    });
    let scored: Vec<Scored> = scored.collect::<Result<_, Fail>>()?;
    let scores = Scores::wanted(call, with_scores);
    reply_scored(call, &scored, scores);
    Ok(())
}

fn zscan(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    scan_elements(call, Kind::SortedSet, |set, row, found| {
        let score = sorted_set::decode(row.value())?;
        // In its compact form Redis keeps whole scores as integers, and here it shows.
        let whole = (!set.body.large).then(|| format_whole(score)).flatten();
        found.push(row.name().to_vec());
        found.push(whole.unwrap_or_else(|| format_double(score)).into_bytes());
        Ok(())
    })
}
