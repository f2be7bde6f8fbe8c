//! The handle of a disguise, of which errors speak, too.

use std::fmt;
use std::str::FromStr;

use super::Error;

/// The handle of one disguise, random, shown as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DisguiseId(pub(crate) u64);

impl fmt::Display for DisguiseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for DisguiseId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Value {
            what: "a disguise id has 16 hexadecimal digits".to_owned(),
        };
        if text.len() != 16 {
            return Err(wrong());
        }
        u64::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_digits| wrong())
    }
}
