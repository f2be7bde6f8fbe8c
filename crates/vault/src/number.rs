//! Texts of numbers.

/// Returns whether a text that reads as 0 is the text of another number.
pub(crate) fn is_lost(text: &str) -> bool {
    let mut letters = text.chars();
    let digits = letters.by_ref().take_while(|&it| !matches!(it, 'e' | 'E'));
    digits.into_iter().any(|it| matches!(it, '1'..='9'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_lost_whose_digits_are_not_all_zeros() {
        for lost in ["1e-400", "-0.01E-500", "0000.000001e-4000", "9e-324"] {
            assert!(is_lost(lost), "{lost}");
        }
        for zero in ["0", "-0", "0.000", "0e5", "-0.0e-400", "+0E99"] {
            assert!(!is_lost(zero), "{zero}");
        }
    }
}
