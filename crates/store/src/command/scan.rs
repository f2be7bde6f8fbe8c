//! SCAN and its kin: the cursor is a place in the order of hashes, so nothing is remembered here.

use super::{Call, Spec};
use crate::fail::Fail;
use crate::glob::matches;
use crate::limits::SCAN_COUNT;
use crate::record::Kind;

pub(super) const SPECS: &[Spec] = &[Spec::new("scan", -2, scan)];

/// The arguments of a scan.
pub(super) struct Scan<'a> {
    pub(super) place: u64,
    pub(super) count: u64,
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

impl Scan<'_> {
    pub(super) fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| matches(pattern, name))
    }
}

/// The place that a cursor stands for: a number as the C library reads it.
pub(super) fn cursor(text: &[u8]) -> Result<u64, Fail> {
    let wrong = || Fail::said("ERR invalid cursor");
    let text =
        std::str::from_utf8(super::c_string(text, usize::MAX)).map_err(|_not_text| wrong())?;
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if text.is_empty() {
        return Ok(0);
    }
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = digits.parse().map_err(|_too_large| wrong())?;
    Ok(if negative {
        number.wrapping_neg()
    } else {
        number
    })
}

/// The options from `index` on; the cursor has been read.
pub(super) fn options<'a>(
    call: &Call<'a, '_>,
    place: u64,
    mut index: usize,
    typed: bool,
) -> Result<Scan<'a>, Fail> {
    let mut scan = Scan {
        place,
        count: SCAN_COUNT,
        pattern: None,
        kind: None,
    };
    while index < call.args.len() {
        let has_value = index + 1 < call.args.len();
        if call.is_word(index, "count") && has_value {
            let count = call.integer(index + 1)?;
            let positive = u64::try_from(count).ok().filter(|count| *count > 0);
            scan.count = positive.ok_or_else(Fail::syntax)?;
        } else if call.is_word(index, "match") && has_value {
            scan.pattern = Some(call.arg(index + 1));
        } else if typed && call.is_word(index, "type") && has_value {
            scan.kind = Some(call.arg(index + 1));
        } else {
            return Err(Fail::syntax());
        }
        index += 2;
    }
    Ok(scan)
}

fn scan(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let scan = options(call, cursor(call.arg(1))?, 2, true)?;
    let now = call.space.now;
    let rows = call.space.records.keys_from(call.space.db, scan.place)?;
    let mut walk = Walk::new(scan.count);
    let mut found = Vec::new();
    for row in rows {
        let row = row?;
        if !walk.goes_on(row.hash()) {
            break;
        }
        let record = row.record()?;
        let of_kind = scan
            .kind
            .is_none_or(|kind| is_kind(kind, record.value.kind()));
        if of_kind && scan.wants(row.key()) && !record.is_expired(now) {
            call.space.room.take(row.key().len())?;
            found.push(row.key().to_vec());
        }
    }
    call.reply.array(2);
    call.reply.bulk(walk.next().to_string().as_bytes());
    call.reply.array(found.len());
    for key in found {
        call.reply.bulk(&key);
    }
    Ok(())
}

fn is_kind(word: &[u8], kind: Kind) -> bool {
    super::word(word) == kind.name().to_ascii_lowercase().as_bytes()
}

/// The end of a scan: after the wanted number of rows, and those with the same hash as the last.
pub(super) struct Walk {
    left: u64,
    last: Option<u64>,
    stopped: bool,
}

impl Walk {
    pub(super) const fn new(count: u64) -> Self {
        Self {
            left: count,
            last: None,
            stopped: false,
        }
    }

    /// Returns whether the row with this hash still belongs to the answer.
    pub(super) fn goes_on(&mut self, hash: u64) -> bool {
        if self.left == 0 && self.last != Some(hash) {
            self.stopped = true;
            return false;
        }
        self.left = self.left.saturating_sub(1);
        self.last = Some(hash);
        true
    }

    /// The next cursor; zero at the end.
    pub(super) fn next(&self) -> u64 {
        if self.stopped {
            self.last.map_or(0, |last| last.wrapping_add(1))
        } else {
            0
        }
    }
}
