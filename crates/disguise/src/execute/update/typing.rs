//! The conversions that an expression brings about: by its comparisons and functions, and by the
//! column into which its value goes.

use std::collections::BTreeSet;

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    UnaryOperator, Value as Literal,
};

use super::conversion::{
    Need, common, has_cases, has_letters, has_zone, is_number, is_plain, is_rounded, lengths,
    needs, numbers, truths,
};
use crate::database::Dialect;
use crate::spec::predicate::with_parsed;

/// A conversion between two classes of types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conversion {
    pub(super) from: String,
    pub(super) into: String,
    /// True if values of both are compared, so that the database converts either.
    pub(super) is_of_two: bool,
}

impl Conversion {
    /// Returns what its result depends on; nothing where it has no certain one.
    pub(super) fn needs(&self, dialect: Dialect) -> Option<Vec<Need>> {
        let Self { from, into, .. } = self;
        if !self.is_of_two {
            return needs(dialect, from, into);
        }
        let ways = [(from, into), (into, from)].map(|(from, into)| needs(dialect, from, into));
        if from != into && ways.iter().all(Option::is_none) {
            return None;
        }
        let mut all: Vec<Need> = ways.into_iter().flatten().flatten().collect();
        if from == into {
            all.clear();
        }
        if has_zone(from) || has_zone(into) {
            all.push(Need::Zone);
        }
        Some(all)
    }
}

/// The class of a part of an expression.
#[derive(Debug, Clone)]
enum Part {
    /// A text as it is written, which takes the class of what it stands beside.
    Written(Letters),
    /// A text of no column, which has the collation of the connection on `MariaDB`.
    Made(Letters),
    /// That which the database makes of a number, a time or another value without letters.
    Shown,
    Of(String),
    /// NULL, or a column of which no type is known.
    Unknown,
}

/// The letters of a text that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letters {
    /// Those of ASCII alone, which have the same bytes in the character sets of clients.
    Ascii,
    Any,
}

impl Letters {
    pub(super) const fn of(text: &str) -> Self {
        if text.is_ascii() {
            Self::Ascii
        } else {
            Self::Any
        }
    }

    fn or(self, other: Self) -> Self {
        if self == Self::Ascii { other } else { self }
    }
}

impl Part {
    /// Returns the letters of a text that is of no column; nothing where the part is none.
    fn letters(&self) -> Option<Letters> {
        match self {
            Self::Written(letters) | Self::Made(letters) => Some(*letters),
            Self::Shown => Some(Letters::Ascii),
            Self::Of(_) | Self::Unknown => None,
        }
    }

    /// Returns the text that a function of texts makes of one of no column.
    fn worked_on(self) -> Self {
        match self {
            Self::Written(letters) => Self::Made(letters),
            other => other,
        }
    }
}

/// Says the class of a column, if its type is known.
type ClassOf<'c> = dyn Fn(&Ident) -> Option<String> + Sync + 'c;

#[expect(
    clippy::struct_excessive_bools,
    reason = "what an expression does, each by itself"
)]
/// An expression, as far as types have a part in it.
#[derive(Debug, Default)]
pub(super) struct Typing {
    pub(super) conversions: Vec<Conversion>,
    /// The classes of the columns that it names, and of that into which its value goes; none where it
    /// passes on a constant or a column.
    classes: BTreeSet<String>,
    /// True if texts of no column are compared with one another.
    compares_made: bool,
    /// True if the bytes of a text, its length or the case of its letters may be another one by the
    /// character set of the connection.
    spells: bool,
    /// True if it writes a text with letters beyond ASCII.
    has_any_letters: bool,
    /// True if `LIKE` is in it.
    likes: bool,
    /// True if something is compared with NULL by `=`.
    equals_null: bool,
    /// True if it names a column of which no type is known.
    has_unknown: bool,
}

impl Typing {
    /// Reads an expression.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn of(
        dialect: Dialect,
        (expression, into): (&str, Option<&str>),
        class_of: &ClassOf<'_>,
    ) -> Result<Self, String> {
        with_parsed(expression, |expression| {
            let mut reading = Reading {
                dialect,
                class_of,
                typing: Self::default(),
            };
            let part = reading.part(expression);
            reading.typing.assign(part, into);
            if is_name(expression) {
                reading.typing.classes.clear();
            }
            reading.typing
        })
    }

    /// Returns that of a constant of this class; of a text with its letters.
    pub(super) fn of_constant(class: &str, letters: Option<Letters>, into: &str) -> Self {
        let mut typing = Self::default();
        let part = letters.map_or_else(|| Part::Of(class.to_owned()), Part::Written);
        typing.assign(part, Some(into));
        typing.classes.clear();
        typing
    }

    /// Returns whether a setting of the session may have a part in the value: by a conversion, or
    /// since the database looks at values of a type that has such settings.
    pub(super) fn may_depend(&self, dialect: Dialect) -> bool {
        if dialect == Dialect::Sqlite {
            return self.likes;
        }
        let mut conversions = self.conversions.iter();
        self.has_unknown
            || conversions.any(|it| it.needs(dialect).is_none_or(|needs| !needs.is_empty()))
            || !self.classes.iter().all(|it| is_plain(dialect, it))
    }

    /// Returns whether `LIKE` is in it.
    pub(super) const fn likes(&self) -> bool {
        self.likes
    }

    /// Returns whether the collation of the connection decides: texts of no column have it on
    /// `MariaDB`.
    pub(super) fn compares_made(&self, dialect: Dialect) -> bool {
        self.compares_made && dialect == Dialect::Mysql
    }

    /// Returns whether the character set of the connection decides, in which texts of no column are
    /// on `MariaDB`.
    pub(super) fn spells(&self, dialect: Dialect) -> bool {
        self.spells && dialect == Dialect::Mysql
    }

    /// Returns whether `=` beside NULL decides, which a setting of `PostgreSQL` takes for `IS NULL`.
    pub(super) fn equals_null(&self, dialect: Dialect) -> bool {
        self.equals_null && dialect == Dialect::Postgres
    }

    /// Returns whether a value of this class is made, or one of a list of such.
    pub(super) fn makes(&self, class: &str) -> bool {
        let mut conversions = self.conversions.iter();
        conversions.any(|it| it.into.trim_end_matches("[]") == class)
    }

    fn add(&mut self, from: &str, into: &str, is_of_two: bool) {
        let conversion = Conversion {
            from: from.to_owned(),
            into: into.to_owned(),
            is_of_two,
        };
        if !self.conversions.contains(&conversion) {
            self.conversions.push(conversion);
        }
    }

    fn assign(&mut self, part: Part, into: Option<&str>) {
        self.classes.extend(into.map(str::to_owned));
        match (part, into) {
            (Part::Written(letters), Some(into)) => {
                self.spells |= into == "bytes" && letters == Letters::Any;
                self.add("text", into, false);
            }
            (Part::Made(_) | Part::Shown, Some(into)) => {
                self.spells |= into == "bytes";
                self.add("text", into, false);
            }
            (Part::Of(class), Some(into)) => {
                let becomes_bytes =
                    into == "bytes" && matches!(&*class, "text" | "char" | "member");
                self.spells |= becomes_bytes && self.has_any_letters;
                self.add(&class, into, false);
            }
            (Part::Unknown, _) | (_, None) => {}
        }
    }
}

fn is_name(expression: &Expr) -> bool {
    match expression {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Nested(inner) => is_name(inner),
        _ => false,
    }
}

fn is_null(expression: &Expr) -> bool {
    match expression {
        Expr::Value(literal) => literal.value == Literal::Null,
        Expr::Nested(inner) => is_null(inner),
        _ => false,
    }
}

/// An expression that is read.
struct Reading<'c> {
    dialect: Dialect,
    class_of: &'c ClassOf<'c>,
    typing: Typing,
}

impl Reading<'_> {
    fn part(&mut self, whole: &Expr) -> Part {
        match whole {
            Expr::Identifier(name) => self.column(name),
            Expr::CompoundIdentifier(parts) => match parts.last() {
                Some(name) => self.column(name),
                None => Part::Unknown,
            },
            Expr::Value(literal) => match &literal.value {
                Literal::Number(..) => self.number(),
                Literal::Boolean(_) => self.truth(),
                Literal::Null => Part::Unknown,
                Literal::SingleQuotedString(text) | Literal::DoubleQuotedString(text) => {
                    let letters = Letters::of(text);
                    self.typing.has_any_letters |= letters == Letters::Any;
                    Part::Written(letters)
                }
                _ => Part::Written(Letters::Any),
            },
            Expr::Nested(inner) => self.part(inner),
            Expr::UnaryOp { op, expr } => {
                let part = self.part(expr);
                match op {
                    UnaryOperator::Minus => self.calculated([part]),
                    _ => self.truth(),
                }
            }
            Expr::BinaryOp { .. } => self.chain(whole),
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
                if !matches!(**inner, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
                    self.part(inner);
                }
                self.truth()
            }
            Expr::InList { expr, list, .. } => {
                let part = self.part(expr);
                for other in list {
                    let other = self.part(other);
                    self.compare(&part, &other);
                }
                self.truth()
            }
            Expr::Between {
                expr, low, high, ..
            } => {
                let part = self.part(expr);
                for bound in [low, high] {
                    let bound = self.part(bound);
                    self.compare(&part, &bound);
                }
                self.truth()
            }
            Expr::Like { expr, pattern, .. } => {
                self.typing.likes = true;
                let [one, other] = [expr, pattern].map(|it| match self.part(it) {
                    part @ Part::Written(_) if self.dialect == Dialect::Mysql => part,
                    part => self.text_of(part),
                });
                self.compare(&one, &other);
                self.truth()
            }
            Expr::Function(function) => self.function(function),
            other => self.text_function(other),
        }
    }

    fn text_function(&mut self, whole: &Expr) -> Part {
        match whole {
            Expr::Trim { expr, .. } => {
                let part = self.part(expr);
                self.text_of(part)
            }
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                ..
            } => {
                for place in [substring_from, substring_for].into_iter().flatten() {
                    let part = self.part(place);
                    self.calculated([part]);
                }
                let part = self.part(expr);
                let part = self.text_of(part);
                self.typing.spells |= part.letters() == Some(Letters::Any);
                part
            }
            _ => Part::Unknown,
        }
    }

    /// A chain leans to the left, as deep as it is long: it is followed without recursion.
    fn chain(&mut self, whole: &Expr) -> Part {
        let (mut links, mut first) = (Vec::new(), whole);
        while let Expr::BinaryOp { left, op, right } = first {
            links.push((op, right));
            first = left;
        }
        let mut part = self.part(first);
        let mut is_null = is_null(first);
        for (operator, right) in links.into_iter().rev() {
            is_null |= self::is_null(right);
            self.typing.equals_null |= is_null && *operator == BinaryOperator::Eq;
            is_null = false;
            let right = self.part(right);
            part = match operator {
                BinaryOperator::And | BinaryOperator::Or => self.truth(),
                BinaryOperator::Plus
                | BinaryOperator::Minus
                | BinaryOperator::Multiply
                | BinaryOperator::BitwiseAnd => self.calculated([part, right]),
                _ => {
                    self.compare(&part, &right);
                    self.truth()
                }
            };
        }
        part
    }

    fn function(&mut self, function: &Function) -> Part {
        let FunctionArguments::List(list) = &function.args else {
            return Part::Unknown;
        };
        let arguments = list.args.iter().filter_map(|it| match it {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(it)) => Some(it),
            _ => None,
        });
        let parts: Vec<Part> = arguments.map(|it| self.part(it)).collect();
        let name = function.name.to_string().to_ascii_lowercase();
        match name.as_str() {
            "coalesce" => self.either(parts),
            "abs" | "round" => self.calculated(parts),
            "lower" | "upper" => {
                let is_upper = name == "upper";
                let mut texts = parts.into_iter().map(|it| {
                    self.typing.spells |= match &it {
                        Part::Written(_) | Part::Made(_) => true,
                        Part::Shown => is_upper,
                        Part::Of(class) => is_upper && has_cases(class),
                        Part::Unknown => false,
                    };
                    self.text_of(it)
                });
                texts.next_back().unwrap_or(Part::Unknown)
            }
            _ => {
                let is_of_bytes = name == "octet_length";
                for part in parts {
                    let text = self.text_of(part);
                    self.typing.spells |= match text.letters() {
                        Some(letters) => is_of_bytes || letters == Letters::Any,
                        None => is_of_bytes && self.typing.has_any_letters,
                    };
                }
                Part::Of(lengths(self.dialect).to_owned())
            }
        }
    }

    fn column(&mut self, name: &Ident) -> Part {
        let class = (self.class_of)(name);
        self.typing.has_unknown |= class.is_none();
        self.typing.classes.extend(class.clone());
        class.map_or(Part::Unknown, Part::Of)
    }

    fn number(&self) -> Part {
        Part::Of(numbers(self.dialect).to_owned())
    }

    fn truth(&self) -> Part {
        Part::Of(truths(self.dialect).to_owned())
    }

    fn compare(&mut self, one: &Part, other: &Part) {
        match (one, other) {
            (Part::Of(one), Part::Of(other)) => self.typing.add(one, other, true),
            (Part::Of(class), Part::Written(letters))
            | (Part::Written(letters), Part::Of(class)) => {
                self.typing.spells |= class == "bytes" && *letters == Letters::Any;
                self.typing.add("text", class, false);
            }
            (Part::Of(class), Part::Made(_) | Part::Shown)
            | (Part::Made(_) | Part::Shown, Part::Of(class)) => {
                self.typing.spells |= class == "bytes";
                self.typing.add("text", class, true);
            }
            (Part::Unknown, _) | (_, Part::Unknown) => {}
            _ => self.typing.compares_made = true,
        }
    }

    /// The value of the first part that is not NULL, of the class of all of them.
    fn either(&mut self, parts: Vec<Part>) -> Part {
        let mut all = Part::Unknown;
        for part in parts {
            self.compare(&all, &part);
            all = match (all, part) {
                (Part::Unknown, part) => part,
                (all, Part::Unknown) => all,
                (Part::Of(one), Part::Of(other)) => Part::Of(common(&one, &other).to_owned()),
                (Part::Of(class), text) | (text, Part::Of(class)) => {
                    if self.dialect == Dialect::Mysql && !has_letters(&class) {
                        text.worked_on()
                    } else {
                        Part::Of(class)
                    }
                }
                (Part::Shown, Part::Shown) => Part::Shown,
                (one, other) => {
                    let letters = [one, other].map(|it| it.letters().unwrap_or(Letters::Any));
                    Part::Made(letters[0].or(letters[1]))
                }
            };
        }
        all
    }

    fn text_of(&mut self, part: Part) -> Part {
        // Functions of texts take bytes, too, and on `PostgreSQL` bits.
        let kept = |class: &str| match self.dialect {
            Dialect::Postgres => matches!(class, "bytes" | "bit"),
            Dialect::Mysql => class == "bytes",
            Dialect::Sqlite => false,
        };
        match part {
            Part::Of(class) if kept(&class) => Part::Of(class),
            Part::Of(class) => {
                self.typing.add(&class, "text", false);
                if has_letters(&class) {
                    Part::Of("text".to_owned())
                } else {
                    Part::Shown
                }
            }
            other => other.worked_on(),
        }
    }

    fn calculated(&mut self, parts: impl IntoIterator<Item = Part>) -> Part {
        let mut has_rounded = false;
        for part in parts {
            match part {
                Part::Of(class) if is_number(&class) => {
                    has_rounded |= is_rounded(&class);
                }
                Part::Of(class) => {
                    self.typing.add(&class, "double", false);
                    has_rounded = true;
                }
                Part::Written(_) | Part::Made(_) | Part::Shown => {
                    self.typing.add("text", numbers(self.dialect), false);
                }
                Part::Unknown => {}
            }
        }
        if has_rounded {
            Part::Of("double".to_owned())
        } else {
            self.number()
        }
    }
}
