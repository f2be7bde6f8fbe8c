//! Evaluates licence expressions of packages against the allowed licences.

/// Returns whether the licences in `allowed` satisfy `expression`, an SPDX expression or the older
/// form with slashes. An exception after `WITH` counts as a part of its licence's name.
///
/// # Errors
/// The reason why `expression` is malformed.
pub(crate) fn is_satisfied(expression: &str, allowed: &[&str]) -> Result<bool, &'static str> {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser {
        words: &words,
        allowed,
    };
    let satisfied = parser.alternatives()?;
    if parser.words.is_empty() {
        Ok(satisfied)
    } else {
        Err("words are left over")
    }
}

struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn alternatives(&mut self) -> Result<bool, &'static str> {
        let mut satisfied = self.conjunction()?;
        while self.skip("OR") {
            satisfied |= self.conjunction()?;
        }
        Ok(satisfied)
    }

    fn conjunction(&mut self) -> Result<bool, &'static str> {
        let mut satisfied = self.one()?;
        while self.skip("AND") {
            satisfied &= self.one()?;
        }
        Ok(satisfied)
    }

    fn one(&mut self) -> Result<bool, &'static str> {
        if self.skip("(") {
            let satisfied = self.alternatives()?;
            return if self.skip(")") {
                Ok(satisfied)
            } else {
                Err("a bracket is not closed")
            };
        }
        let name = self.name()?;
        if !self.skip("WITH") {
            return Ok(self.allowed.contains(&name));
        }
        let name = format!("{name} WITH {}", self.name()?);
        Ok(self.allowed.contains(&name.as_str()))
    }

    fn name(&mut self) -> Result<&'a str, &'static str> {
        let (name, rest) = self.words.split_first().ok_or("ends too early")?;
        if ["OR", "AND", "WITH", "(", ")"].contains(name) {
            return Err("a licence is missing");
        }
        self.words = rest;
        Ok(name)
    }

    fn skip(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if *first == word => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_satisfied;

    const ALLOWED: [&str; 3] = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];

    #[test]
    fn one_of_several_is_enough_and_all_of_several_are_needed() {
        let cases = [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("MIT AND (GPL-3.0 OR ISC)", true),
            ("MIT OR ISC AND GPL-3.0", true),
            ("(MIT OR ISC) AND GPL-3.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0", false),
        ];
        for (expression, satisfied) in cases {
            assert_eq!(
                is_satisfied(expression, &ALLOWED),
                Ok(satisfied),
                "{expression}"
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for expression in ["", "OR", "MIT OR", "MIT ISC", "(MIT", "MIT)", "AND MIT"] {
            assert!(is_satisfied(expression, &ALLOWED).is_err(), "{expression}");
        }
    }
}
