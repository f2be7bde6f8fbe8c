//! A recovery token in three shares of which any two give it back (Shamir 1979, over GF(2^8)).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::{Zeroize as _, Zeroizing};

use crate::crypto::random;
use crate::error::Error;
use crate::records::credential::{RecoveryToken, TOKEN_BYTES};

/// The number of shares of a token.
pub const SHARES: usize = 3;
/// The field's polynomial without its highest term, x^8 + x^4 + x^3 + x + 1 (FIPS 197, 4.2).
const POLYNOMIAL: u8 = 0x1b;

/// One of three shares of a recovery token; alone it tells nothing about the token.
pub struct TokenShare {
    /// The point of the shares' polynomial: 1, 2 or 3.
    place: u8,
    values: [u8; TOKEN_BYTES],
}

impl Drop for TokenShare {
    fn drop(&mut self) {
        self.values.zeroize();
    }
}

impl TokenShare {
    /// Returns the share in the form that its holder keeps.
    pub fn expose(&self) -> String {
        let mut raw = Zeroizing::new([0; TOKEN_BYTES + 1]);
        let all = std::iter::once(&self.place).chain(&self.values);
        for (to, from) in raw.iter_mut().zip(all) {
            *to = *from;
        }
        URL_SAFE_NO_PAD.encode(raw.as_slice())
    }

    /// Parses the share in the form that its holder kept.
    ///
    /// # Errors
    /// [`Error::WrongCredential`] when it has another form.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let raw = URL_SAFE_NO_PAD.decode(text.trim());
        let raw = Zeroizing::new(raw.map_err(|_form| Error::WrongCredential)?);
        let Some((place, values)) = raw.split_first() else {
            return Err(Error::WrongCredential);
        };
        if !(1..=SHARES).contains(&usize::from(*place)) {
            return Err(Error::WrongCredential);
        }
        Ok(Self {
            place: *place,
            values: values
                .try_into()
                .map_err(|_length| Error::WrongCredential)?,
        })
    }
}

impl RecoveryToken {
    /// Splits the token into three shares, any two of which restore it.
    ///
    /// # Errors
    /// [`Error::Crypto`] when the system has no randomness.
    pub fn split(&self) -> Result<[TokenShare; SHARES], Error> {
        // Every value is as likely as any other, zero among them: anything else would leak.
        let slopes = Zeroizing::new(random::<TOKEN_BYTES>()?);
        Ok([1, 2, 3].map(|place| {
            let mut values = [0; TOKEN_BYTES];
            for (value, (secret, slope)) in values.iter_mut().zip(self.0.iter().zip(&*slopes)) {
                *value = secret ^ product(*slope, place);
            }
            TokenShare { place, values }
        }))
    }

    /// Joins the token from two shares. Shares that do not belong together, or one share twice,
    /// give a token that opens nothing. The fault shows only when the credential is tried.
    pub fn join(first: &TokenShare, second: &TokenShare) -> Self {
        // The line through both points, read at 0. Two equal places have no line; 0 stands for their inverse.
        let span = inverse(first.place ^ second.place);
        let (one, two) = (product(second.place, span), product(first.place, span));
        let mut token = [0; TOKEN_BYTES];
        for (out, (left, right)) in token
            .iter_mut()
            .zip(first.values.iter().zip(&second.values))
        {
            *out = product(*left, one) ^ product(*right, two);
        }
        Self(token)
    }
}

/// Returns the product of two elements, in the same steps whatever they are.
fn product(left: u8, right: u8) -> u8 {
    let (mut power, mut sum) = (left, 0);
    for bit in 0..8 {
        sum ^= power & 0_u8.wrapping_sub(right >> bit & 1);
        let over = 0_u8.wrapping_sub(power >> 7);
        power = power << 1 ^ POLYNOMIAL & over;
    }
    sum
}

/// Returns the inverse of an element, its 254th power; of 0 it is 0.
fn inverse(of: u8) -> u8 {
    let (mut power, mut out) = (of, 1);
    for _ in 0..7 {
        power = product(power, power);
        out = product(out, power);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_the_one_of_fips_197() {
        assert_eq!(product(0x57, 0x83), 0xc1);
        assert_eq!(product(0x57, 0x13), 0xfe);
        assert_eq!(inverse(0), 0);
        for of in 1..=255 {
            assert_eq!(product(of, inverse(of)), 1);
        }
    }

    #[test]
    fn any_two_shares_give_the_token_in_either_order() {
        let token = RecoveryToken::generate().unwrap();
        let shares = token.split().unwrap();
        for (one, first) in shares.iter().enumerate() {
            for (two, second) in shares.iter().enumerate() {
                let joined = RecoveryToken::join(first, second);
                assert_eq!(joined.0 == token.0, one != two, "{one} {two}");
            }
        }
        let kept = TokenShare::parse(&shares[2].expose()).unwrap();
        assert!(RecoveryToken::join(&shares[0], &kept).0 == token.0);
    }

    #[test]
    fn one_share_tells_nothing() {
        // For every share there is exactly one slope for each secret, so with equally likely slopes all secrets are.
        for place in 1..=3 {
            let mut seen = [false; 256];
            for slope in 0..=255 {
                seen[usize::from(product(slope, place))] = true;
            }
            assert!(seen.iter().all(|it| *it), "place {place}");
        }
    }

    #[test]
    fn slopes_take_every_value_zero_among_them() {
        // 4,096 tokens have 81,920 slopes: that one of 256 values is missing has a chance below 2^-450.
        let mut seen = [false; 256];
        for _ in 0..4_096 {
            let token = RecoveryToken([0; TOKEN_BYTES]);
            for value in token.split().unwrap()[0].values {
                seen[usize::from(value)] = true;
            }
        }
        assert!(seen.iter().all(|it| *it));
    }

    #[test]
    fn another_form_is_no_share() {
        let share = RecoveryToken::generate().unwrap().split().unwrap()[0].expose();
        let (_, rest) = share.split_at(1);
        for wrong in ["", "AA", rest, &format!("B{rest}")] {
            assert!(TokenShare::parse(wrong).is_err(), "{wrong}");
        }
    }
}
