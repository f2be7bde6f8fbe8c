//! Types of `SQLite`.

use super::dice::Dice;
use super::kinds::{
    Change, Key, Kind, in_capitals, key, kind, name, number, plain_name, uuid, wide, with_a_space,
};

fn text(dice: &mut Dice, n: u64) -> String {
    let some = format!("'text {n}'");
    let all = [
        "''",
        "'a''b\"c`\\'",
        "'\u{e9}\u{1f600}'",
        "'0012'",
        "'NULL'",
        "char(0) || 'x'",
        "'?'",
        " '  ' ",
        "'a@b.example'",
        some.as_str(),
    ];
    dice.word(&all)
}

fn integer(dice: &mut Dice, n: u64) -> String {
    let some = n.to_string();
    dice.word(&[
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775807 - 1",
        "1700000000",
        some.as_str(),
    ])
}

fn real(dice: &mut Dice, _: u64) -> String {
    dice.word(&[
        "0.0",
        "-0.0",
        "5e-324",
        "9e999",
        "-9e999",
        "0.1",
        "1.7976931348623157e308",
        "3.0",
        "1e15",
    ])
}

fn blob(dice: &mut Dice, _: u64) -> String {
    dice.word(&["x''", "x'00'", "x'00ff27'", "zeroblob(300)", "x'66696e65'"])
}

fn anything(dice: &mut Dice, n: u64) -> String {
    match dice.throw(4) {
        0 => text(dice, n),
        1 => integer(dice, n),
        2 => real(dice, n),
        _ => blob(dice, n),
    }
}

pub(crate) const KINDS: &[Kind] = &[
    kind("INTEGER", integer).change(Change::Number),
    kind("INT", integer).change(Change::Number),
    kind("TEXT", text).change(Change::Text),
    kind("REAL", real),
    kind("BLOB", blob),
    kind("VARCHAR(40)", text).change(Change::Text),
    kind("NUMERIC", anything),
    kind("DECIMAL(20, 5)", |d, _| {
        d.word(&["1.5", "'0.00001'", "'12345678901234567890.5'", "-3"])
    }),
    kind("", anything),
    kind("BOOLEAN", |d, _| d.word(&["TRUE", "FALSE"])),
    kind("DATETIME", |d, _| {
        d.word(&[
            "'2024-02-29 23:59:59.999'",
            "'0000-00-00'",
            "1700000000",
            "2460000.5",
        ])
    }),
    kind("JSON", |d, _| {
        d.word(&["'{\"b\": 1,  \"a\":1.0}'", "'null'", "'[]'"])
    }),
    kind("TEXT COLLATE NOCASE", text).change(Change::Text),
    kind("INTEGER", |d, _| d.throw(100).to_string()).check("{} BETWEEN 0 AND 100"),
    kind("TEXT", |d, _| d.word(&["'new'", "'old'"])).check("{} IN ('new', 'old')"),
    kind("TEXT", text).check("length({}) < 60"),
];

/// Types that a `STRICT` table takes.
pub(crate) const STRICT: &[Kind] = &[
    kind("INTEGER", integer).change(Change::Number),
    kind("INT", integer).change(Change::Number),
    kind("TEXT", text).change(Change::Text),
    kind("REAL", real),
    kind("BLOB", blob),
    kind("ANY", anything),
];

pub(crate) const IDS: &[Key] = &[
    key("INTEGER", "INTEGER", number),
    key("INTEGER", "INTEGER", number),
    key("INTEGER", "INT", wide),
    key("INT", "INT", number),
    key("TEXT", "TEXT", name),
    key("TEXT COLLATE NOCASE", "TEXT COLLATE NOCASE", plain_name).respelled(in_capitals),
    key("TEXT COLLATE RTRIM", "TEXT COLLATE RTRIM", plain_name).respelled(with_a_space),
    key("TEXT", "TEXT", uuid),
    key("BLOB", "BLOB", |n| format!("x'00ab{n:012x}'")),
];
