//! Proposals for what each column of a placeholder holds, from its type and the keys that it is part of.

use crate::database::{CatalogTable, Column, Dialect, Rule};
use crate::schema::generate::Generator;

/// The longest text that placeholders get by default.
const TEXT_CHARACTERS: usize = 24;
/// Characters of a random address, and of random digits.
const EMAIL_CHARACTERS: usize = 42;
const PHONE_CHARACTERS: usize = 9;
/// Ids of placeholders begin far above those of people, and stay exact in a double.
const WIDE_IDS: Generator = Generator::RandNum {
    lb: 1 << 40,
    ub: (1 << 53) - 1,
};
const NARROW_IDS: Generator = Generator::RandNum {
    lb: 1_000_000_000,
    ub: 2_147_483_647,
};
const SMALL_IDS: Generator = Generator::RandNum { lb: 1, ub: 32_767 };
const MEDIUM_IDS: Generator = Generator::RandNum {
    lb: 1_000_000,
    ub: 8_388_607,
};
const TINY_IDS: Generator = Generator::RandNum { lb: 1, ub: 127 };
/// A moment of no meaning: the times of placeholders that are made together would tell that they are of one person.
const MOMENT: &str = "2000-01-01 00:00:00";
const DAY: &str = "2000-01-01";
const HOUR: &str = "00:00:00";
const YEAR: i64 = 2000;
/// That moment in seconds since 1970.
const MOMENT_SECONDS: i64 = 946_684_800;
/// A point at zero as `MariaDB` holds it, which takes no text for a geometry.
const POINT: &str = "\0\0\0\0\u{1}\u{1}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// Words in the names of numbers that are times.
const MOMENTS: [&str; 6] = ["_at", "created", "updated", "joined", "registered", "seen"];

/// Returns the generator of each column of a placeholder. Columns that the database fills itself
/// are left out, but for times.
pub(crate) fn of(
    dialect: Dialect,
    table: &CatalogTable,
    id: &str,
    of_tenant: Option<&str>,
) -> Vec<(String, Generator)> {
    let mut columns = Vec::new();
    for column in &table.columns {
        if of_tenant == Some(&column.name) {
            continue;
        }
        let is_demanded = !column.nullable && !column.has_default;
        // A default would be the same in each row, but for numbers that the database counts.
        let is_repeated = column.has_default && !column.is_integer();
        if column.name == id || ((is_demanded || is_repeated) && is_unique(table, column)) {
            columns.push((column.name.clone(), id_of(dialect, column)));
        } else if is_demanded || (column.has_default && is_time(column)) {
            let value = match (dialect, column.kind()) {
                (Dialect::Mysql, kind) if kind.starts_with("bit(") => Generator::ConstNum(0),
                (Dialect::Mysql, "point" | "geometry") => Generator::ConstStr(POINT.to_owned()),
                _ => value_of(column),
            };
            columns.push((column.name.clone(), value));
        }
    }
    columns
}

/// Lets the ids of placeholders fit into `referring` columns, too.
pub(crate) fn narrow<'c>(
    dialect: Dialect,
    generator: &mut Generator,
    referring: impl Iterator<Item = &'c Column>,
) {
    let fitting = referring.map(|column| id_of(dialect, column));
    for other in fitting.filter(|_| dialect != Dialect::Sqlite) {
        if let (Generator::RandNum { ub, .. }, Generator::RandNum { ub: most, .. }) =
            (&*generator, &other)
            && most < ub
        {
            *generator = other;
        }
    }
}

/// Returns whether no two rows may have the same value in the column alone.
pub(crate) fn is_unique(table: &CatalogTable, column: &Column) -> bool {
    let mut all = table.constraints.iter();
    all.any(|it| it.rule == Rule::Unique && it.columns.as_slice() == [column.name.clone()])
}

/// A value that no other row has.
fn id_of(dialect: Dialect, column: &Column) -> Generator {
    let kind = column.kind().to_ascii_uppercase();
    let is = |words: &[&str]| words.iter().any(|word| kind.contains(word));
    if !column.is_integer() {
        let bytes = is(&["BYTEA"]).then_some(Generator::RandStr {
            len: TEXT_CHARACTERS,
        });
        return match value_of(column) {
            Generator::ConstNum(_) => NARROW_IDS,
            other => bytes.unwrap_or(other),
        };
    }
    if dialect == Dialect::Sqlite || is(&["BIG", "INT8"]) {
        WIDE_IDS
    } else if is(&["MEDIUM"]) {
        MEDIUM_IDS
    } else if is(&["TINY"]) {
        TINY_IDS
    } else if is(&["SMALL", "INT2"]) {
        SMALL_IDS
    } else {
        NARROW_IDS
    }
}

/// Returns whether it tells when the row came about: by its type, or a number by its name.
pub(crate) fn is_time(column: &Column) -> bool {
    let kind = column.kind().to_ascii_uppercase();
    let name = column.name.to_ascii_lowercase();
    let is_number = column.is_integer() && MOMENTS.iter().any(|word| name.contains(word));
    let is_moment = ["DATE", "TIME", "YEAR"]
        .iter()
        .any(|word| kind.contains(word));
    is_number || (is_moment && !is_composed(&kind))
}

/// Returns whether values have parts: a list or a range.
fn is_composed(kind: &str) -> bool {
    kind.contains("[]") || kind.contains("RANGE")
}

/// A value of the type of the column.
pub(crate) fn value_of(column: &Column) -> Generator {
    let name = column.name.to_ascii_lowercase();
    let kind = column.kind().to_ascii_uppercase();
    let is = |words: &[&str]| words.iter().any(|word| kind.contains(word));
    let text = |text: &str| Generator::ConstStr(text.to_owned());
    if let Some(first) = column.members.first() {
        return text(first);
    }
    if kind.contains("[]") {
        return text("{}");
    }
    if kind.contains("RANGE") {
        return text("empty");
    }
    if is_time(column) && !column.is_integer() {
        return match () {
            () if is(&["TIMESTAMP", "DATETIME"]) => text(MOMENT),
            () if is(&["DATE"]) => text(DAY),
            () if is(&["TIME"]) => text(HOUR),
            () => Generator::ConstNum(YEAR),
        };
    }
    let bits = column.length_max().unwrap_or(1);
    match () {
        () if is(&["BOOL"]) => Generator::Bool(false),
        () if is_time(column) => Generator::ConstNum(MOMENT_SECONDS),
        () if is(&["INTERVAL"]) => text("0"),
        () if column.is_integer() => Generator::ConstNum(0),
        () if is(&["NUM", "DEC", "REAL", "FLOAT", "DOUBLE", "MONEY"]) => Generator::ConstNum(0),
        () if is(&["UUID"]) => Generator::RandUuid,
        () if is(&["JSON"]) => text("{}"),
        () if is(&["INET6"]) => text("::"),
        () if is(&["INET", "CIDR"]) => text("0.0.0.0"),
        () if kind.starts_with("BIT VARYING") || kind.starts_with("SET(") => text(""),
        () if kind.starts_with("BIT(") && column.declared.starts_with("bit(") => {
            Generator::ConstStr("0".repeat(bits))
        }
        () if kind == "BIT" => text("0"),
        () if kind == "MACADDR" => text("00:00:00:00:00:00"),
        () if kind == "MACADDR8" => text("00:00:00:00:00:00:00:00"),
        () if kind == "OID" => Generator::ConstNum(0),
        () if is(&["XML", "TSVECTOR", "BYTEA"]) => text(""),
        () => words_of(&name, column.length_max()),
    }
}

/// A text by the name of its column, as long as the column lets it be.
fn words_of(name: &str, most: Option<usize>) -> Generator {
    let most = most.unwrap_or(usize::MAX);
    if name.contains("mail") && most >= EMAIL_CHARACTERS {
        Generator::RandEmail
    } else if name.contains("phone") && most >= PHONE_CHARACTERS {
        Generator::RandPhone
    } else {
        Generator::RandStr {
            len: most.min(TEXT_CHARACTERS),
        }
    }
}
