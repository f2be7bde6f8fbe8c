//! Numbers as Redis reads and writes them.

use std::fmt::Write as _;

/// An integer in its one canonical form: no sign but a minus, no leading zeros, no spaces.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [] => return None,
        [b'0'] => return (text == b"0").then_some(0),
        [b'0', ..] => return None,
        _ => {}
    }
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A double as the C library reads it, without spaces around it; no NaN, and nothing that a
/// double cannot hold.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned.starts_with(['+', '-']) {
        return None;
    }
    if let Some(digits) = unsigned
        .strip_prefix("0x")
        .or_else(|| unsigned.strip_prefix("0X"))
    {
        let value = parse_hexadecimal(digits)?;
        return Some(if text.starts_with('-') { -value } else { value });
    }
    if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity") {
        let infinity = f64::INFINITY;
        return Some(if text.starts_with('-') {
            -infinity
        } else {
            infinity
        });
    }
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or_default();
    if !mantissa.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    let zero = mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let out_of_range = value.is_infinite() || (value == 0.0 && !zero);
    (!out_of_range && !value.is_nan()).then_some(value)
}

/// Digits, perhaps with a point, and perhaps `p` and an exponent to base two.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0_f64;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value.mul_add(16.0, f64::from(digit.to_digit(16)?));
    }
    let shift = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
    let scaled = value * 2.0_f64.powi(exponent.checked_sub(shift)?);
    let out_of_range = scaled.is_infinite() || (scaled == 0.0 && value != 0.0);
    (!out_of_range).then_some(scaled)
}

/// A double as `%.17g` writes it.
pub(crate) fn format_double(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{:.16e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    let mut text = String::new();
    if value < 0.0 {
        text.push('-');
    }
    put_general(&mut text, digits, exponent);
    text
}

/// A whole number that is far enough from what 64 bits hold, in all its digits.
pub(crate) fn format_whole(value: f64) -> Option<String> {
    (value.abs() <= WHOLE_MAX && value.fract() == 0.0).then(|| format!("{value:.0}"))
}

/// Half of the range of a signed integer of 64 bits.
const WHOLE_MAX: f64 = (1_u32 << 31) as f64 * (1_u32 << 31) as f64;

/// Puts significant digits in the form that `%g` chooses for 17 of them.
fn put_general(text: &mut String, digits: &str, exponent: i32) {
    let (first, rest) = digits.split_at_checked(1).unwrap_or(("0", ""));
    if !(-4..17).contains(&exponent) {
        text.push_str(first);
        if !rest.is_empty() {
            text.push('.');
            text.push_str(rest);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to a string cannot fail.
        let _infallible = write!(text, "e{sign}{:02}", exponent.abs());
        return;
    }
    let Ok(whole) = usize::try_from(exponent) else {
        text.push_str("0.");
        let zeros = usize::try_from(-1 - exponent).unwrap_or_default();
        text.extend(std::iter::repeat_n('0', zeros));
        text.push_str(digits);
        return;
    };
    let point = whole + 1;
    if digits.len() <= point {
        text.push_str(digits);
        text.extend(std::iter::repeat_n('0', point - digits.len()));
    } else {
        let (whole, fraction) = digits.split_at_checked(point).unwrap_or((digits, ""));
        text.push_str(whole);
        text.push('.');
        text.push_str(fraction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_form() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("", None),
            ("-", None),
            ("1.0", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn doubles_are_read_as_the_c_library_reads_them() {
        for (text, value) in [
            ("1", Some(1.0)),
            ("+1.5e3", Some(1500.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("Infinity", Some(f64::INFINITY)),
            ("0x10", Some(16.0)),
            ("-0x1.8p1", Some(-3.0)),
            ("nan", None),
            ("1e400", None),
            ("1e-400", None),
            ("0e-400", Some(0.0)),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("e5", None),
            (".", None),
            ("++1", None),
        ] {
            assert_eq!(parse_double(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn doubles_are_written_with_seventeen_digits() {
        for (value, text) in [
            (0.1, "0.10000000000000001"),
            (1.5, "1.5"),
            (-3.0, "-3"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (1.5e300, "1.5000000000000001e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (-0.0, "-0"),
            (f64::NEG_INFINITY, "-inf"),
            (5e-324, "4.9406564584124654e-324"),
        ] {
            assert_eq!(format_double(value), text);
        }
    }
}
