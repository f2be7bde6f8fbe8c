//! Types of `PostgreSQL`.

use super::dice::Dice;
use super::kinds::{
    Change, Key, Kind, in_capitals, key, kind, name, number, plain_name, uuid, wide, with_a_space,
};

/// Types that are made before the tables.
pub(crate) const MADE: &[&str] = &[
    "CREATE TYPE mood AS ENUM ('sad', 'o''k', 'H\u{e4}ppy')",
    "CREATE DOMAIN postcode AS VARCHAR(9) CHECK (VALUE ~ '^[0-9]{5}$')",
    "CREATE DOMAIN share AS INT CHECK (VALUE BETWEEN 40 AND 60)",
    "CREATE TYPE pair AS (a INT, b TEXT)",
    "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    "CREATE COLLATION any_accent (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
];

fn text(dice: &mut Dice, n: u64) -> String {
    let some = format!("'text {n}'");
    let all = [
        "''",
        "'a''b\"c`\\'",
        "'\u{e9}\u{1f600}'",
        "'0012'",
        "'NULL'",
        "E'\\t\\n\\u0001'",
        "' x '",
        "'%_?$1'",
        some.as_str(),
    ];
    dice.word(&all)
}

pub(crate) const KINDS: &[Kind] = &[
    kind("SMALLINT", |d, _| d.word(&["-32768", "32767"])).change(Change::Number),
    kind("INT", |d, _| d.word(&["-2147483648", "2147483647", "0"])).change(Change::Number),
    kind("BIGINT", |d, _| {
        d.word(&["-9223372036854775808", "9223372036854775807"])
    })
    .change(Change::Number),
    kind("NUMERIC", |d, _| {
        d.word(&[
            "'NaN'",
            "'Infinity'",
            "1e-400",
            "-12345678901234567890.0900",
            "1e300",
        ])
    }),
    kind("NUMERIC(40,20)", |d, _| {
        d.word(&["0.00000000000000000001", "-99999999999999999999.5"])
    }),
    kind("REAL", |d, _| {
        d.word(&["0.1", "'-0'", "'NaN'", "'-Infinity'", "1e-45", "3.4e38"])
    }),
    kind("DOUBLE PRECISION", |d, _| {
        d.word(&["0.1", "'-0'", "'NaN'", "'Infinity'", "5e-324"])
    }),
    kind("MONEY", |d, _| {
        d.word(&["'12.34'", "'-92233720368547758.08'"])
    }),
    kind("TEXT", text).change(Change::Text),
    kind("VARCHAR(60)", text).change(Change::Text),
    kind("CHAR(20)", text).change(Change::Text),
    kind("TEXT COLLATE \"C\"", text).change(Change::Text),
    kind("NAME", |d, _| d.word(&["'a name'", "''"])),
    kind("\"char\"", |d, _| d.word(&["'x'", "''"])),
    kind("BYTEA", |d, _| d.word(&["''", "'\\x00'", "'\\x00ff275c'"])),
    kind("DATE", |d, _| {
        d.word(&[
            "'infinity'",
            "'-infinity'",
            "'4713-01-01 BC'",
            "'5874897-12-31'",
            "'2024-02-29'",
        ])
    }),
    kind("TIME(3)", |d, _| d.word(&["'24:00:00'", "'23:59:59.999'"])),
    kind("TIMETZ", |d, _| {
        d.word(&["'23:59:59.999999+15:59'", "'00:00:00-12'"])
    }),
    kind("TIMESTAMP", |d, _| {
        d.word(&[
            "'infinity'",
            "'0001-01-01 00:00:00 BC'",
            "'294276-12-31 23:59:59.999999'",
        ])
    }),
    kind("TIMESTAMPTZ", |d, _| {
        d.word(&[
            "'-infinity'",
            "'2024-02-29 23:59:59.999999+05'",
            "'1900-01-01 00:00:00+00'",
        ])
    }),
    kind("INTERVAL", |d, _| {
        d.word(&[
            "'1 mon -2 days 00:00:00.000001'",
            "'-1 year'",
            "'178000000 years'",
        ])
    }),
    kind("JSON", |d, _| {
        d.word(&["'{\"b\": 1,  \"a\":1.0, \"a\":2}'", "'null'", "'[]'"])
    }),
    kind("JSONB", |d, _| {
        d.word(&["'{\"b\": 1.00}'", "'null'", "'\"x\"'"])
    }),
    kind("BOOLEAN", |d, _| d.word(&["true", "false"])),
    kind("UUID", |_, n| uuid(n)),
    kind("INET", |d, _| d.word(&["'::1/64'", "'10.1.2.3/8'"])),
    kind("CIDR", |d, _| d.word(&["'10.0.0.0/8'", "'2001:db8::/32'"])),
    kind("MACADDR", |d, _| d.word(&["'08:00:2b:01:02:03'"])),
    kind("MACADDR8", |d, _| d.word(&["'08:00:2b:01:02:03:04:05'"])),
    kind("BIT(5)", |d, _| d.word(&["B'10101'", "B'00000'"])),
    kind("BIT VARYING(12)", |d, _| d.word(&["B''", "B'101'"])),
    kind("INT[]", |d, _| {
        d.word(&["'{}'", "'{1,NULL,-3}'", "'[0:1]={7,8}'", "'{{1,2},{3,4}}'"])
    }),
    kind("TEXT[]", |d, _| {
        d.word(&["'{a,NULL,\"x y\",\"\"}'", "'{\"a\\\"b\",\"c,d\"}'"])
    }),
    kind("mood", |d, _| d.word(&["'sad'", "'o''k'", "'H\u{e4}ppy'"])),
    kind("mood[]", |d, _| d.word(&["'{sad}'", "'{}'"])),
    kind("postcode", |d, _| d.word(&["'01234'", "'99999'"])),
    kind("share", |d, _| d.word(&["40", "60"])),
    kind("pair", |d, _| {
        d.word(&[
            "ROW(1, 'x,\"y')::pair",
            "ROW(NULL, '')::pair",
            "ROW(NULL, NULL)::pair",
        ])
    }),
    kind("INT4RANGE", |d, _| {
        d.word(&["'empty'", "'[1,10)'", "'(,5]'"])
    }),
    kind("TSTZRANGE", |d, _| {
        d.word(&["'[2024-01-01,infinity]'", "'empty'"])
    }),
    kind("TSVECTOR", |d, _| d.word(&["'a:1 b:2,3A'", "''"])),
    kind("XML", |d, _| d.word(&["'<a b=\"c\">x</a>'", "'text'"])),
    kind("POINT", |d, _| d.word(&["'(1,2.5)'", "'(NaN,-0)'"])),
    kind("POLYGON", |d, _| d.word(&["'((0,0),(1,1),(1,0))'"])),
    kind("OID", |d, _| d.word(&["0", "4294967295"])),
    kind("PG_LSN", |d, _| d.word(&["'16/B374D848'"])),
    kind("INT", |d, _| d.throw(100).to_string()).check("{} BETWEEN 0 AND 100"),
    kind("TEXT", |d, _| d.word(&["'new'", "'old'"])).check("{} IN ('new', 'old')"),
    kind("TEXT", text).check("length({}) < 60"),
];

pub(crate) const IDS: &[Key] = &[
    key("INT GENERATED BY DEFAULT AS IDENTITY", "INT", number),
    key("INT GENERATED ALWAYS AS IDENTITY", "INT", number),
    key("BIGINT GENERATED ALWAYS AS IDENTITY", "BIGINT", wide),
    key("SERIAL", "INT", number),
    key("BIGSERIAL", "BIGINT", wide),
    key("SMALLINT", "SMALLINT", number),
    key("BIGINT", "INT", number),
    key("INT", "BIGINT", number),
    key("TEXT", "TEXT", name),
    key("VARCHAR(40)", "TEXT", name),
    key("TEXT COLLATE any_case", "TEXT COLLATE any_case", plain_name).respelled(in_capitals),
    key("TEXT COLLATE any_accent", "TEXT COLLATE any_accent", |n| {
        format!("'nn\u{e9} {n}'")
    })
    .respelled(|it| it.replace('\u{e9}', "e")),
    key("CHAR(12)", "CHAR(12)", plain_name).respelled(with_a_space),
    key("UUID", "UUID", uuid),
    key("BYTEA", "BYTEA", |n| format!("'\\x00ab{n:012x}'")),
    key("NUMERIC(20,0)", "NUMERIC(20,0)", wide),
];
