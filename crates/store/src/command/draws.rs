//! The arguments that HRANDFIELD, SRANDMEMBER and ZRANDMEMBER share: a count, and whether elements
//! may repeat.

use super::Call;
use crate::collection::Element;
use crate::fail::Fail;
use crate::limits::DRAWN_MAX;
use crate::number::parse_integer;
use crate::space::Held;

/// The arguments of a command that draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Draw {
    count: u64,
    /// True if an element may be drawn several times.
    again: bool,
}

impl Draw {
    /// Reads how many are wanted; a negative number lets elements come again.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Fail> {
        let number = parse_integer(text).ok_or_else(Fail::not_integer)?;
        if number == i64::MIN {
            return Err(Fail::out_of_bounds(-i64::MAX, i64::MAX));
        }
        let (count, again) = (number.unsigned_abs(), number < 0);
        if again && count > DRAWN_MAX {
            return Err(Fail::said("ERR value is out of range"));
        }
        Ok(Self { count, again })
    }

    /// Refuses a number whose pairs of element and value Redis could not count.
    pub(super) fn in_pairs(self) -> Result<Self, Fail> {
        if self.count > i64::MAX.unsigned_abs() / 2 {
            return Err(Fail::said("ERR value is out of range"));
        }
        Ok(self)
    }

    pub(super) fn draw(self, call: &mut Call<'_, '_>, held: &Held) -> Result<Vec<Element>, Fail> {
        if !self.again {
            return call.space.draw_different(held, self.count);
        }
        call.space.draw_again(held, self.count)
    }
}
