//! Rows of several people that refer to each other: nobody has all of a circle.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use probity_disguise::{Dialect, DisguiseId, Error, KeptReason, Mapping};

use super::forum::time;
use super::sample::Sample;
use super::society::{Society, description};

/// The way in which the references among albums, photos and labels are known.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Known {
    Said,
    /// Said, in columns that may not be NULL.
    SaidNotNull,
    Declared,
    /// Declared, in columns that may not be NULL: not among those that come back.
    DeclaredNotNull,
}

impl Known {
    fn is_declared(self) -> bool {
        matches!(self, Self::Declared | Self::DeclaredNotNull)
    }
}

const KNOWN: [Known; 3] = [Known::Said, Known::SaidNotNull, Known::Declared];

const ORDERS: [[i64; 3]; 3] = [[1, 2, 3], [3, 2, 1], [2, 3, 1]];

const REMOVALS: &str = "[[remove]]\ntable = \"albums\"\n[[remove]]\ntable = \"labels\"\n\
    [[remove]]\ntable = \"photos\"\n";

/// Albums have a cover, photos a label, and labels lie in an album.
fn society(known: Known, rows: &[&str]) -> Society {
    let kind = match known {
        Known::SaidNotNull | Known::DeclaredNotNull => "BIGINT NOT NULL",
        Known::Said | Known::Declared => "BIGINT",
    };
    let mut statements = vec![
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three')".to_owned(),
    ];
    let references = [
        ("albums", "cover", "photos"),
        ("photos", "label", "labels"),
        ("labels", "album", "albums"),
    ];
    let is_at_once = crate::connect().dialect() == Dialect::Sqlite;
    let (mut said, mut later) = (String::new(), Vec::new());
    for (table, column, to) in references {
        let key = format!("REFERENCES {to} (id) DEFERRABLE INITIALLY DEFERRED");
        let key = if known.is_declared() && is_at_once {
            &key
        } else {
            ""
        };
        statements.push(format!(
            "CREATE TABLE {table} (id BIGINT PRIMARY KEY, who BIGINT, {column} {kind} {key})"
        ));
        if known.is_declared() && !is_at_once {
            later.push(format!(
                "ALTER TABLE {table} ADD FOREIGN KEY ({column}) REFERENCES {to} (id) DEFERRABLE INITIALLY DEFERRED"
            ));
        }
        writeln!(said, "[tables.{table}]\nowners = [\"who\"]").unwrap();
        if !known.is_declared() {
            writeln!(
                said,
                "references = [{{ columns = [\"{column}\"], table = \"{to}\", to = [\"id\"] }}]"
            )
            .unwrap();
        }
    }
    // Whichever row of a circle comes first refers to one that is not there yet.
    let (off, on) = if is_at_once {
        ("PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys = ON")
    } else {
        ("SELECT 1", "SELECT 1")
    };
    let rows = [&[off], rows, &[on]].concat();
    statements.extend(rows.into_iter().map(str::to_owned));
    statements.extend(later);
    Society::of(
        &statements,
        &description(&format!("{said}{REMOVALS}")),
        &[1, 2, 3],
    )
}

/// One circle of rows of three people.
const CIRCLE: [&str; 3] = [
    "INSERT INTO albums VALUES (10, 1, 20)",
    "INSERT INTO photos VALUES (20, 2, 30)",
    "INSERT INTO labels VALUES (30, 3, 10)",
];

/// Has all three leave: one after the other, all at once, or all in chunks.
fn all_leave(society: &mut Society, way: usize) -> BTreeMap<i64, DisguiseId> {
    let chunk = (way == 2).then_some(1);
    if way == 0 {
        return [1, 2, 3].map(|user| (user, society.leave(user))).into();
    }
    let gone = society.try_to_leave(None, false, chunk);
    let gone = gone.unwrap_or_else(|error| panic!("{error:?}")).id;
    [1, 2, 3].map(|user| (user, gone)).into()
}

/// Declared keys let nobody of a circle leave alone, and `MariaDB` looks at them row by row.
fn ways(known: Known) -> &'static [usize] {
    match known {
        Known::Declared | Known::DeclaredNotNull
            if crate::connect().dialect() == Dialect::Mysql =>
        {
            &[]
        }
        Known::Declared | Known::DeclaredNotNull => &[1],
        Known::Said | Known::SaidNotNull => &[0, 1, 2],
    }
}

/// Each waited for the others, for good, whoever returned first and however often.
pub(crate) fn rows_of_several_people_in_a_circle_come_back() {
    let mut sample = Sample::new();
    for known in KNOWN {
        for way in ways(known) {
            for order in ORDERS {
                if sample.passes_over() {
                    continue;
                }
                let what = format!("{known:?} {way} {order:?}");
                let mut society = society(known, &CIRCLE);
                let gone = all_leave(&mut society, *way);
                for user in order {
                    society.reveal(user, gone[&user]);
                }
                // Each may wait for one of the others who was tried after them.
                for user in order.into_iter().chain(order) {
                    society.try_again(&[(user, gone[&user])].into());
                }
                society.assert_as_before(&what);
            }
        }
    }
}

/// Rows of several people left that no order of reveals could bring back, and nobody was told.
pub(crate) fn a_circle_that_could_never_come_back_is_refused() {
    for way in ways(Known::DeclaredNotNull) {
        assert!(noted(&mut society(Known::Declared, &[])).is_empty());
        let keys = ["albums.cover", "labels.album", "photos.label"];
        let mut of_three = society(Known::DeclaredNotNull, &CIRCLE);
        let said = noted(&mut of_three);
        assert!(said.contains(&keys.join(", ")), "{said}");
        let refused = of_three.try_to_leave(None, false, None).unwrap_err();
        let Error::Circle {
            rows: 3,
            keys: said,
        } = &refused
        else {
            panic!("{way}: {refused:?}");
        };
        assert_eq!(*said, keys);
        of_three.assert_as_before("refused");
        // A circle of one person goes and comes back whole.
        let mut of_one = society(Known::DeclaredNotNull, &OF_ONE);
        let gone = all_leave(&mut of_one, *way);
        for user in [1, 2, 3] {
            of_one.reveal(user, gone[&user]);
        }
        of_one.assert_as_before("of one person");
    }
}

/// The notes of a check before a disguise of the society.
fn noted(society: &mut Society) -> String {
    let mut preview = society.engine.preview();
    preview.cautions(&society.spec).unwrap().join("\n")
}

/// One circle of rows of one person.
const OF_ONE: [&str; 3] = [
    "INSERT INTO albums VALUES (10, 1, 20)",
    "INSERT INTO photos VALUES (20, 1, 30)",
    "INSERT INTO labels VALUES (30, 1, 10)",
];

/// A person who returns alone has their row, without what is not there where the database insists on it, and
/// is told so until it is.
pub(crate) fn a_row_of_a_circle_begins_without_the_others() {
    for known in KNOWN {
        if !ways(known).contains(&1) {
            continue;
        }
        let mut society = society(known, &CIRCLE);
        let gone = all_leave(&mut society, 1);
        for _ in 0..2 {
            let revealed = society.reveal(2, gone[&2]);
            let label = society.numbers("SELECT label FROM photos WHERE id = 20");
            if known == Known::Declared {
                assert_eq!(label, [-1]);
                let kept: Vec<_> = revealed.kept.iter().collect();
                let [kept] = kept.as_slice() else {
                    panic!("{revealed:?}")
                };
                assert_eq!(kept.column.as_deref(), Some("label"));
                assert_eq!(kept.reason, KeptReason::ParentMissing);
            } else {
                assert_eq!(label, [30], "{known:?}");
                assert!(revealed.is_complete(), "{known:?} {revealed:?}");
                break;
            }
        }
    }
}

/// Rows that only refer to somebody else's wait for them, though their tables make a circle.
pub(crate) fn a_row_waits_where_its_tables_alone_make_a_circle() {
    let rows = [
        "INSERT INTO albums VALUES (10, 1, NULL)",
        "INSERT INTO photos VALUES (20, 2, 30)",
        "INSERT INTO labels VALUES (30, 3, 10)",
    ];
    for known in [Known::Said, Known::Declared] {
        if !ways(known).contains(&1) {
            continue;
        }
        let mut society = society(known, &rows);
        let gone = all_leave(&mut society, 1);
        for user in [2, 3] {
            let revealed = society.reveal(user, gone[&user]);
            let kept: Vec<KeptReason> = revealed.kept.iter().map(|it| it.reason).collect();
            assert_eq!(kept, [KeptReason::ParentMissing], "{known:?} {user}");
        }
        assert!(society.reveal(1, gone[&1]).is_complete());
        assert!(society.reveal(3, gone[&3]).is_complete());
        assert!(society.reveal(2, gone[&2]).is_complete());
        society.assert_as_before(&format!("{known:?}"));
    }
}

/// A reference that the description alone says led nowhere when its row went, and kept the row away
/// for good.
pub(crate) fn a_reference_that_led_nowhere_keeps_no_row_away() {
    for (known, way) in [(Known::Said, 0), (Known::SaidNotNull, 1), (Known::Said, 2)] {
        let rows = [
            "INSERT INTO albums VALUES (10, 1, 99), (11, 1, 20)",
            "INSERT INTO photos VALUES (20, 1, 98), (21, 2, 97)",
        ];
        let mut society = society(known, &rows);
        let gone = all_leave(&mut society, way);
        for user in [2, 1, 3] {
            let revealed = society.reveal(user, gone[&user]);
            assert!(
                revealed.is_complete(),
                "{known:?} {way} {user} {revealed:?}"
            );
        }
        society.assert_as_before(&format!("{known:?} {way}"));
    }
}

/// A row returns as it went: without one that somebody had taken away before.
pub(crate) fn a_row_returns_before_one_that_went_before_it() {
    let rows = [
        "INSERT INTO albums VALUES (10, 1, NULL)",
        "INSERT INTO labels VALUES (30, 3, 10), (31, 1, 10)",
    ];
    let mut society = society(Known::Said, &rows);
    let gone: BTreeMap<_, _> = [1, 3].map(|user| (user, society.leave(user))).into();
    let revealed = society.reveal(3, gone[&3]);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_eq!(
        society.numbers("SELECT album FROM labels WHERE id = 30"),
        [10]
    );
    assert!(society.reveal(1, gone[&1]).is_complete());
    society.assert_as_before("one went before the other");
}

/// The rows for which none waits are known by their new columns after an update.
pub(crate) fn an_update_keeps_who_begins_a_circle() {
    if !ways(Known::Declared).contains(&1) {
        return;
    }
    let mut society = society(Known::Declared, &CIRCLE);
    let gone = all_leave(&mut society, 1);
    society.sql("ALTER TABLE labels ADD COLUMN kind BIGINT");
    let mapping = "[[update]]\nname = \"kinds\"\ntable = \"labels\"\n[[update.into]]\n\
                   table = \"labels\"\nrest = true\nvalues = { kind = 3 }\n";
    let mappings = Mapping::parse(mapping).unwrap_or_else(|error| panic!("{error:?}"));
    let recorded = society.engine.updates().record(&mappings, time());
    assert!(recorded.is_ok(), "{recorded:?}");
    for user in [2, 3, 1, 2] {
        society.reveal(user, gone[&user]);
    }
    assert_eq!(society.numbers("SELECT label FROM photos"), [30]);
    assert_eq!(society.numbers("SELECT kind FROM labels"), [3]);
    assert_eq!(society.numbers("SELECT cover FROM albums"), [20]);
}

/// A database holds a number equal to the same one in another column of another type, and a text to
/// another spelling: such rows were taken for no circle, and waited for each other for good.
pub(crate) fn rows_in_a_circle_of_other_spellings_come_back() {
    let columns = match crate::connect().dialect() {
        Dialect::Sqlite => vec![
            ("TEXT", "INTEGER", "'20'", "20"),
            ("REAL", "INTEGER", "20", "20"),
            ("", "TEXT COLLATE NOCASE", "'zoe'", "'ZOE'"),
            ("", "TEXT", "20", "'20'"),
            ("", "INTEGER", "'20'", "20"),
            ("INTEGER", "TEXT", "20", "'20'"),
            ("INTEGER", "REAL", "20", "20.0"),
        ],
        Dialect::Postgres => vec![
            ("NUMERIC", "NUMERIC", "20", "20.00"),
            ("INTEGER", "NUMERIC(10,2)", "20", "20"),
        ],
        // Keys in a circle are refused there.
        _ => vec![],
    };
    for (from, to, cover, photo) in columns {
        let what = format!("{from} {to}");
        let is_at_once = crate::connect().dialect() == Dialect::Sqlite;
        let late = "DEFERRABLE INITIALLY DEFERRED";
        let (key, off, on) = if is_at_once {
            let key = format!("REFERENCES photos(id) {late}");
            (
                key,
                "PRAGMA foreign_keys = OFF".to_owned(),
                "PRAGMA foreign_keys = ON".to_owned(),
            )
        } else {
            let later =
                format!("ALTER TABLE albums ADD FOREIGN KEY (cover) REFERENCES photos(id) {late}");
            (String::new(), "SELECT 1".to_owned(), later)
        };
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
            format!("CREATE TABLE albums (id BIGINT PRIMARY KEY, who BIGINT, cover {from} {key})"),
            format!(
                "CREATE TABLE photos (id {to} PRIMARY KEY, who BIGINT, \
                 album BIGINT NOT NULL REFERENCES albums(id) {late})"
            ),
            off,
            format!("INSERT INTO albums VALUES (10, 1, {cover})"),
            format!("INSERT INTO photos VALUES ({photo}, 2, 10)"),
            on,
        ];
        let of_one = statements
            .clone()
            .map(|sql| sql.replace(", 2, 10)", ", 1, 10)"));
        let described = description(
            "[tables.albums]\nowners = [\"who\"]\n[tables.photos]\nowners = [\"who\"]\n\
             [[remove]]\ntable = \"albums\"\n[[remove]]\ntable = \"photos\"\n",
        );
        for order in [[1, 2], [2, 1]] {
            let mut society = Society::of(&statements, &described, &[1, 2]);
            let gone = society.try_to_leave(None, false, None);
            let gone = gone.unwrap_or_else(|error| panic!("{what} {error:?}")).id;
            for user in order.into_iter().chain(order) {
                society.try_again(&[(user, gone)].into());
            }
            society.assert_as_before(&format!("{what} {order:?}"));
        }
        let mut society = Society::of(&of_one, &described, &[1, 2]);
        let gone = society.leave(1);
        society.reveal(1, gone);
        society.assert_as_before(&format!("{what}, of one"));
    }
}

/// A column of two declared references, and one to which others refer, may be empty for a while:
/// rows of two people that needed it waited for each other for good.
pub(crate) fn a_column_of_several_references_is_empty_for_a_while() {
    if crate::connect().dialect() == Dialect::Mysql {
        return;
    }
    let late = "DEFERRABLE INITIALLY DEFERRED";
    let keys = [
        vec![
            "FOREIGN KEY (cover) REFERENCES photos(id)",
            "FOREIGN KEY (cover, kind) REFERENCES photos(id, kind)",
        ],
        vec!["FOREIGN KEY (cover) REFERENCES photos(id)"],
    ];
    for keys in keys {
        for order in [[1, 2], [2, 1]] {
            let what = format!("{keys:?} {order:?}");
            let is_at_once = crate::connect().dialect() == Dialect::Sqlite;
            let (mut inner, mut later) = (String::new(), Vec::new());
            for key in &keys {
                if is_at_once {
                    write!(inner, ", {key} {late}").unwrap();
                } else {
                    later.push(format!("ALTER TABLE albums ADD {key} {late}"));
                }
            }
            let off = ["SELECT 1", "PRAGMA foreign_keys = OFF"][usize::from(is_at_once)];
            let on = ["SELECT 1", "PRAGMA foreign_keys = ON"][usize::from(is_at_once)];
            let mut statements = vec![
                "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
                "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
                format!(
                    "CREATE TABLE albums (id BIGINT PRIMARY KEY, who BIGINT, \
                     cover BIGINT UNIQUE, kind BIGINT{inner})"
                ),
                format!(
                    "CREATE TABLE photos (id BIGINT PRIMARY KEY, who BIGINT, kind BIGINT, \
                     album BIGINT NOT NULL REFERENCES albums(id) {late}, UNIQUE (id, kind))"
                ),
                format!(
                    "CREATE TABLE frames (id BIGINT PRIMARY KEY, who BIGINT, \
                     cover BIGINT REFERENCES albums(cover) {late})"
                ),
                off.to_owned(),
                "INSERT INTO albums VALUES (10, 1, 20, 5)".to_owned(),
                "INSERT INTO photos VALUES (20, 2, 5, 10)".to_owned(),
                on.to_owned(),
            ];
            statements.extend(later);
            let owned = ["albums", "photos", "frames"]
                .map(|it| format!("[tables.{it}]\nowners = [\"who\"]\n"));
            let removed =
                ["frames", "albums", "photos"].map(|it| format!("[[remove]]\ntable = \"{it}\"\n"));
            let described = description(&format!("{}{}", owned.concat(), removed.concat()));
            let mut society = Society::of(&statements, &described, &[1, 2]);
            let gone = society.try_to_leave(None, false, None);
            let gone = gone.unwrap_or_else(|error| panic!("{what} {error:?}")).id;
            for user in order.into_iter().chain(order) {
                society.try_again(&[(user, gone)].into());
            }
            society.assert_as_before(&what);
        }
    }
}
