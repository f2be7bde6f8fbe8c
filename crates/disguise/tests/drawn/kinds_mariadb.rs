//! Types of `MariaDB`.

use super::dice::Dice;
use super::kinds::{
    Change, Key, Kind, Shown, in_capitals, key, kind, name, number, plain_name, uuid, wide,
    with_a_space,
};

fn text(dice: &mut Dice, n: u64) -> String {
    let some = format!("'text {n}'");
    let all = [
        "''",
        "'a''b\"c`\\\\'",
        "'\u{e9}\u{1f600}'",
        "'0012'",
        "'NULL'",
        "'a\\0b'",
        "' x '",
        "'%_?'",
        some.as_str(),
    ];
    dice.word(&all)
}

fn latin(dice: &mut Dice, _: u64) -> String {
    dice.word(&["''", "'a''b'", "'\u{e9}'", "'A '"])
}

fn bytes(dice: &mut Dice, _: u64) -> String {
    dice.word(&["''", "x'00'", "x'00ff27'", "x'f0288c28'"])
}

pub(crate) const KINDS: &[Kind] = &[
    kind("TINYINT", |d, _| d.word(&["-128", "127", "0"])).change(Change::Number),
    kind("BOOLEAN", |d, _| d.word(&["TRUE", "FALSE"])),
    kind("SMALLINT UNSIGNED", |d, _| d.word(&["0", "65535"])),
    kind("MEDIUMINT", |d, _| d.word(&["-8388608", "8388607"])).change(Change::Number),
    kind("INT", |d, _| d.word(&["-2147483648", "2147483647", "0"])).change(Change::Number),
    kind("INT(8) UNSIGNED ZEROFILL", |d, _| {
        d.word(&["0", "42", "4294967295"])
    }),
    kind("BIGINT", |d, _| {
        d.word(&["-9223372036854775808", "9223372036854775807", "0"])
    })
    .change(Change::Number),
    kind("BIGINT UNSIGNED", |d, _| {
        d.word(&["0", "18446744073709551615"])
    }),
    kind("DECIMAL(40,20)", |d, _| {
        d.word(&["0.00000000000000000001", "-99999999999999999999.5", "0"])
    }),
    kind("DECIMAL(65,0)", |d, _| {
        d.word(&[
            "99999999999999999999999999999999999999999999999999999999999999999",
            "-1",
        ])
    }),
    kind("FLOAT", |d, _| d.word(&["0.1", "3.4e38", "-0.0", "1e-44"])).shown(Shown::Single),
    kind("DOUBLE", |d, _| {
        d.word(&["0.1", "5e-324", "-0.0", "1.7976931348623157e308"])
    }),
    kind("CHAR(12)", latin)
        .shown(Shown::Bytes)
        .change(Change::Text),
    kind("VARCHAR(60)", text)
        .shown(Shown::Bytes)
        .change(Change::Text),
    kind("VARCHAR(60) CHARACTER SET latin1", latin).shown(Shown::Bytes),
    kind("VARCHAR(60) CHARACTER SET utf16", text).shown(Shown::Bytes),
    kind("VARCHAR(60) COLLATE utf8mb4_bin", text)
        .shown(Shown::Bytes)
        .change(Change::Text),
    kind("BINARY(5)", bytes).shown(Shown::Bytes),
    kind("VARBINARY(40)", bytes).shown(Shown::Bytes),
    kind("TINYTEXT", text)
        .shown(Shown::Bytes)
        .change(Change::Text),
    kind("LONGTEXT", text)
        .shown(Shown::Bytes)
        .change(Change::Text),
    kind("TEXT CHARACTER SET ucs2", latin).shown(Shown::Bytes),
    kind("BLOB", bytes).shown(Shown::Bytes),
    kind("MEDIUMBLOB", bytes).shown(Shown::Bytes),
    kind("DATE", |d, _| {
        d.word(&["'1000-01-01'", "'9999-12-31'", "'2024-02-29'"])
    }),
    kind("TIME(6)", |d, _| {
        d.word(&["'-838:59:58.000001'", "'838:59:59'", "'00:00:00'"])
    }),
    kind("TIME", |d, _| d.word(&["'-00:00:01'", "'23:59:59'"])),
    kind("DATETIME", |d, _| {
        d.word(&["'0001-01-01 00:00:00'", "'9999-12-31 23:59:59'"])
    }),
    kind("DATETIME(6)", |d, _| {
        d.word(&[
            "'2024-02-29 23:59:59.999999'",
            "'1000-01-01 00:00:00.000001'",
        ])
    }),
    kind("TIMESTAMP(3) NULL", |d, _| {
        d.word(&[
            "'2024-02-29 23:59:59.120'",
            "'1971-01-01 00:00:00'",
            "'2038-01-18 00:00:00'",
        ])
    }),
    kind("DATETIME ON UPDATE CURRENT_TIMESTAMP", |d, _| {
        d.word(&["'2024-02-29 23:59:59'", "'1000-01-01 00:00:00'"])
    }),
    kind("YEAR", |d, _| d.word(&["1901", "2155", "0"])),
    kind("BIT(17)", |d, _| d.word(&["b'10000000000000101'", "b'0'"])).shown(Shown::Bytes),
    kind("BIT(1)", |d, _| d.word(&["b'1'", "b'0'"])).shown(Shown::Bytes),
    kind("BIT(64)", |d, _| d.word(&["x'ffffffffffffffff'", "b'1'"])).shown(Shown::Bytes),
    kind("ENUM('a','b''c','\u{e9}')", |d, _| {
        d.word(&["'a'", "'b''c'", "'\u{e9}'"])
    })
    .shown(Shown::Member),
    kind("SET('x','y','z')", |d, _| {
        d.word(&["''", "'x,z'", "'x,y,z'"])
    })
    .shown(Shown::Member),
    kind("JSON", |d, _| {
        d.word(&["'{\"b\": 1,  \"a\":1.0}'", "'null'", "'[]'"])
    })
    .shown(Shown::Bytes),
    kind("UUID", |_, n| uuid(n)),
    kind("INET6", |d, _| {
        d.word(&["'::'", "'2001:db8::1'", "'::ffff:192.0.2.1'"])
    }),
    kind("INET4", |d, _| d.word(&["'0.0.0.0'", "'255.255.255.255'"])),
    kind("POINT", |d, _| {
        d.word(&["POINT(1, 2.5)", "POINT(-0.0, 1e300)"])
    })
    .shown(Shown::Bytes),
    kind("GEOMETRY", |d, _| {
        d.word(&[
            "POINT(1, 2.5)",
            "ST_GeomFromText('LINESTRING(0 0,1 1)', 4326)",
        ])
    })
    .shown(Shown::Bytes),
    kind("INT", |d, _| d.throw(100).to_string()).check("{} BETWEEN 0 AND 100"),
    kind("VARCHAR(20)", |d, _| d.word(&["'new'", "'old'"]))
        .shown(Shown::Bytes)
        .check("{} IN ('new', 'old')"),
    kind("VARCHAR(60)", text)
        .shown(Shown::Bytes)
        .check("char_length({}) < 50"),
];

pub(crate) const IDS: &[Key] = &[
    key("INT AUTO_INCREMENT", "INT", number),
    key("INT AUTO_INCREMENT", "INT", number),
    key("BIGINT UNSIGNED AUTO_INCREMENT", "BIGINT UNSIGNED", wide),
    key("BIGINT", "BIGINT", wide),
    key(
        "MEDIUMINT UNSIGNED AUTO_INCREMENT",
        "MEDIUMINT UNSIGNED",
        number,
    ),
    key("SMALLINT", "SMALLINT", number),
    key("BIGINT", "BIGINT", number),
    key("VARCHAR(40)", "VARCHAR(40)", plain_name)
        .shown(Shown::Bytes)
        .respelled(in_capitals),
    key(
        "VARCHAR(40) COLLATE utf8mb4_unicode_ci",
        "VARCHAR(40) COLLATE utf8mb4_unicode_ci",
        |n| format!("'nn\u{e9} {n}'"),
    )
    .shown(Shown::Bytes)
    .respelled(|it| it.replace('\u{e9}', "E")),
    key(
        "VARCHAR(40) COLLATE utf8mb4_bin",
        "VARCHAR(40) COLLATE utf8mb4_bin",
        |n| name(n).replace('\\', "\\\\"),
    )
    .shown(Shown::Bytes),
    key("VARCHAR(40)", "VARCHAR(40)", plain_name)
        .shown(Shown::Bytes)
        .respelled(with_a_space),
    key("CHAR(12)", "CHAR(12)", plain_name).shown(Shown::Bytes),
    key("UUID", "UUID", uuid),
    key("BINARY(16)", "BINARY(16)", |n| format!("x'00ab{n:028x}'")).shown(Shown::Bytes),
    key("DECIMAL(20,0)", "DECIMAL(20,0)", wide),
];
