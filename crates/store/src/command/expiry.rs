//! Commands about when keys expire.

use super::{Call, Spec};
use crate::expire::Moment;
use crate::fail::Fail;

pub(super) const SPECS: &[Spec] = &[
    Spec::new("expire", -3, |call| expire(call, Moment::SECONDS)),
    Spec::new("pexpire", -3, |call| expire(call, Moment::MILLISECONDS)),
    Spec::new("expireat", -3, |call| expire(call, Moment::AT_SECOND)),
    Spec::new("pexpireat", -3, |call| expire(call, Moment::AT_MILLISECOND)),
    Spec::new("ttl", 2, |call| tell(call, Moment::SECONDS)),
    Spec::new("pttl", 2, |call| tell(call, Moment::MILLISECONDS)),
    Spec::new("expiretime", 2, |call| tell(call, Moment::AT_SECOND)),
    Spec::new("pexpiretime", 2, |call| tell(call, Moment::AT_MILLISECOND)),
    Spec::new("persist", 2, persist),
];

/// Under which condition a deadline is set.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of the command"
)]
struct Conditions {
    none_yet: bool,
    some_already: bool,
    later: bool,
    earlier: bool,
}

fn conditions(call: &Call<'_, '_>) -> Result<Conditions, Fail> {
    let mut conditions = Conditions::default();
    for word in call.rest(3) {
        match super::word(word).as_slice() {
            b"nx" => conditions.none_yet = true,
            b"xx" => conditions.some_already = true,
            b"gt" => conditions.later = true,
            b"lt" => conditions.earlier = true,
            _ => return Err(Fail::about("ERR Unsupported option ", word, "")),
        }
    }
    if conditions.none_yet && (conditions.some_already || conditions.later || conditions.earlier) {
        let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
        return Err(Fail::said(text));
    }
    if conditions.later && conditions.earlier {
        let text = "ERR GT and LT options at the same time are not compatible";
        return Err(Fail::said(text));
    }
    Ok(conditions)
}

impl Conditions {
    fn allow(&self, old: Option<u64>, new: i64) -> bool {
        // A key without a deadline counts as one that expires never.
        let old = old.map(|old| i64::try_from(old).unwrap_or(i64::MAX));
        !(self.none_yet && old.is_some()
            || self.some_already && old.is_none()
            || self.later && old.is_none_or(|old| new <= old)
            || self.earlier && old.is_some_and(|old| new >= old))
    }
}

fn expire(call: &mut Call<'_, '_>, moment: Moment) -> Result<(), Fail> {
    let conditions = conditions(call)?;
    let number = call.integer(2)?;
    let deadline = moment
        .resolve(number, call.space.now)
        .ok_or_else(|| Fail::invalid_expire(call.name()))?;
    let key = call.arg(1);
    let Some(old) = call.space.find(key)? else {
        call.reply.flag(false);
        return Ok(());
    };
    if !conditions.allow(old.deadline, deadline) {
        call.reply.flag(false);
        return Ok(());
    }
    call.reply.flag(true);
    match u64::try_from(deadline) {
        Ok(deadline) if deadline > call.space.now => {
            let mut new = old.clone();
            new.deadline = Some(deadline);
            call.space.put_over(key, Some(&old), &new)
        }
        _ => call.space.remove(key, &old),
    }
}

fn tell(call: &mut Call<'_, '_>, moment: Moment) -> Result<(), Fail> {
    let Some(record) = call.space.look_up(call.arg(1))? else {
        call.reply.integer(-2);
        return Ok(());
    };
    let Some(deadline) = record.deadline else {
        call.reply.integer(-1);
        return Ok(());
    };
    let time = if moment.absolute {
        deadline
    } else {
        deadline.saturating_sub(call.space.now)
    };
    call.reply.count(if moment.seconds {
        (time + 500) / 1000
    } else {
        time
    });
    Ok(())
}

fn persist(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let key = call.arg(1);
    let found = call.space.find(key)?;
    let Some(old) = found.filter(|record| record.deadline.is_some()) else {
        call.reply.flag(false);
        return Ok(());
    };
    let mut new = old.clone();
    new.deadline = None;
    call.space.put_over(key, Some(&old), &new)?;
    call.reply.flag(true);
    Ok(())
}
