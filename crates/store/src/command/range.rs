//! ZRANGE and its kin: members of a sorted set by rank, score or text.

use super::list::index_range;
use super::sorted_set::{Scores, reply_scored};
use super::{Call, Spec};
use crate::fail::Fail;
use crate::limits::{LISTPACK_ENTRIES_MAX, LISTPACK_VALUE_BYTES_MAX};
use crate::number::parse_double;
use crate::record::Kind;
use crate::sorted_set::{self, Order, Range, ScoreRange, Scored, Text, TextRange};

pub(super) const SPECS: &[Spec] = &[
    Spec::new("zrange", -4, |call| range(call, By::Unsaid, None)),
    Spec::new("zrevrange", -4, |call| {
        range(call, By::Rank, Some(Order::Descending))
    }),
    Spec::new("zrangebyscore", -4, |call| {
        range(call, By::Score, Some(Order::Ascending))
    }),
    Spec::new("zrevrangebyscore", -4, |call| {
        range(call, By::Score, Some(Order::Descending))
    }),
    Spec::new("zrangebylex", -4, |call| {
        range(call, By::Text, Some(Order::Ascending))
    }),
    Spec::new("zrevrangebylex", -4, |call| {
        range(call, By::Text, Some(Order::Descending))
    }),
    Spec::new("zrangestore", -5, store),
];

/// The kind of a range's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Unsaid,
    Rank,
    Score,
    Text,
}

/// The options of a range.
struct Options {
    by: By,
    order: Order,
    with_scores: bool,
    offset: i64,
    /// Negative is no limit.
    limit: i64,
}

/// Reads the options from `index` on; an option that the command's name implies is refused.
fn options(
    call: &Call<'_, '_>,
    mut index: usize,
    by: By,
    order: Option<Order>,
    stores: bool,
) -> Result<Options, Fail> {
    let mut said = Options {
        by,
        order: order.unwrap_or(Order::Ascending),
        with_scores: false,
        offset: 0,
        limit: -1,
    };
    while index < call.args.len() {
        match super::word(call.arg(index)).as_slice() {
            b"withscores" if !stores => said.with_scores = true,
            b"limit" if index + 2 < call.args.len() => {
                said.offset = call.integer(index + 1)?;
                said.limit = call.integer(index + 2)?;
                index += 2;
            }
            b"rev" if order.is_none() && said.order == Order::Ascending => {
                said.order = Order::Descending;
            }
            b"bylex" if said.by == By::Unsaid => said.by = By::Text,
            b"byscore" if said.by == By::Unsaid => said.by = By::Score,
            _ => return Err(Fail::syntax()),
        }
        index += 1;
    }
    if said.by == By::Unsaid {
        said.by = By::Rank;
    }
    if said.limit != -1 && said.by == By::Rank {
        let text =
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
        return Err(Fail::said(text));
    }
    if said.with_scores && said.by == By::Text {
        let text = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
        return Err(Fail::said(text));
    }
    Ok(said)
}

/// The bounds of a range, before the set's length is known.
enum Bounds<'a> {
    Rank(i64, i64),
    Known(Range<'a>),
}

fn bounds<'a>(call: &Call<'a, '_>, index: usize, options: &Options) -> Result<Bounds<'a>, Fail> {
    let (mut least, mut most) = (call.arg(index), call.arg(index + 1));
    if options.by != By::Rank && options.order == Order::Descending {
        (least, most) = (most, least);
    }
    Ok(match options.by {
        By::Score => Bounds::Known(Range::Score(score_range(least, most)?)),
        By::Text => Bounds::Known(Range::Text(lex_range(least, most)?)),
        By::Rank | By::Unsaid => Bounds::Rank(call.integer(index)?, call.integer(index + 1)?),
    })
}

/// The members that the options mean; none where the key at `key` holds nothing.
fn members(
    call: &mut Call<'_, '_>,
    key: usize,
    options: &Options,
    bounds: Bounds<'_>,
) -> Result<Vec<Scored>, Fail> {
    let found = call.space.look_up_held(call.arg(key), Kind::SortedSet)?;
    let Some(set) = found else {
        return Ok(Vec::new());
    };
    let range = match bounds {
        Bounds::Known(range) => range,
        Bounds::Rank(start, end) => {
            let (start, end) = index_range(start, end, set.len()).unwrap_or_default();
            Range::Rank(start, end)
        }
    };
    // Passing over a negative number of members never ends, so that nothing is left.
    let offset = usize::try_from(options.offset).unwrap_or(usize::MAX);
    let most = usize::try_from(options.limit).unwrap_or(usize::MAX);
    sorted_set::scored(call.space, &set, &range, options.order, offset, most)
}

fn range(call: &mut Call<'_, '_>, by: By, order: Option<Order>) -> Result<(), Fail> {
    let options = options(call, 4, by, order, false)?;
    let bounds = bounds(call, 2, &options)?;
    let scored = members(call, 1, &options, bounds)?;
    let scores = Scores::wanted(call, options.with_scores);
    reply_scored(call, &scored, scores);
    Ok(())
}

fn store(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let options = options(call, 5, By::Unsaid, None, true)?;
    let bounds = bounds(call, 3, &options)?;
    let scored = members(call, 2, &options, bounds)?;
    store_scored(call, &scored, Growth::OneByOne)
}

/// The way in which Redis would build a sorted set, which decides whether it keeps minus zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// In the compact form as long as that takes the members.
    OneByOne,
    /// In the form that suits all of them.
    AtOnce,
}

/// Puts members under the command's first key, instead of whatever is there, and counts them.
pub(super) fn store_scored(
    call: &mut Call<'_, '_>,
    scored: &[Scored],
    growth: Growth,
) -> Result<(), Fail> {
    let key = call.arg(1);
    call.space.check(key)?;
    if let Some(old) = call.space.find(key)? {
        call.space.remove(key, &old)?;
    }
    if !scored.is_empty() {
        let mut set = call.space.new_held(key, Kind::SortedSet)?;
        let longest = scored.iter().map(|one| one.member.len()).max();
        set.body.large = growth == Growth::AtOnce
            && (scored.len() as u64 > LISTPACK_ENTRIES_MAX
                || longest > Some(LISTPACK_VALUE_BYTES_MAX));
        for one in scored {
            sorted_set::put_score(&mut call.space.rows, &mut set, &one.member, one.score)?;
        }
        call.space.save(&set)?;
    }
    call.reply.count(scored.len() as u64);
    Ok(())
}

pub(super) fn score_range(least: &[u8], most: &[u8]) -> Result<ScoreRange, Fail> {
    let wrong = || Fail::said("ERR min or max is not a float");
    let bound = |text: &[u8]| {
        let (text, excluded) = match text {
            [b'(', rest @ ..] => (rest, true),
            text => (text, false),
        };
        Some((parse_bound(text)?, excluded))
    };
    let (least, least_excluded) = bound(least).ok_or_else(wrong)?;
    let (most, most_excluded) = bound(most).ok_or_else(wrong)?;
    Ok(ScoreRange {
        least,
        least_excluded,
        most,
        most_excluded,
    })
}

/// Blanks that the C library passes over before a number.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\x0b', '\x0c', '\r'];

/// Reads a bound, less strictly than a score: up to the first NUL and behind blanks. An empty text is zero, and a too large number
/// is infinite.
fn parse_bound(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(super::c_string(text, usize::MAX)).ok()?;
    if text.is_empty() {
        return Some(0.0);
    }
    let text = text.trim_start_matches(BLANKS);
    if let Some(value) = parse_double(text.as_bytes()) {
        return Some(value);
    }
    let number: f64 = text.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

pub(super) fn lex_range<'a>(least: &'a [u8], most: &'a [u8]) -> Result<TextRange<'a>, Fail> {
    let wrong = || Fail::said("ERR min or max not valid string range item");
    let bound = |text: &'a [u8]| match text {
        b"-" => Some(Text::First),
        b"+" => Some(Text::Last),
        [b'[', rest @ ..] => Some(Text::Included(rest)),
        [b'(', rest @ ..] => Some(Text::Excluded(rest)),
        _ => None,
    };
    Ok(TextRange {
        least: bound(least).ok_or_else(wrong)?,
        most: bound(most).ok_or_else(wrong)?,
    })
}
