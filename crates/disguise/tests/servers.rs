//! All claims, on servers of Debian: each claim is a test on each server.

#![cfg(all(feature = "mysql", feature = "postgres"))]
#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::cell::RefCell;
use std::error::Error as _;
use std::sync::atomic::{AtomicU64, Ordering};

use probity_disguise::Database;
use probity_disguise::database::{Dialect, Mysql, Postgres};
use probity_testing::pool::Pool;
use probity_testing::{mariadb, postgres};

#[path = "peculiar/at_once.rs"]
mod of_at_once;
#[path = "peculiar/letters.rs"]
mod of_letters;
#[path = "peculiar/mariadb.rs"]
mod of_mariadb;
#[path = "peculiar/postgres.rs"]
mod of_postgres;
#[path = "peculiar/postgres_circles.rs"]
mod of_postgres_circles;
#[path = "peculiar/postgres_elsewhere.rs"]
mod of_postgres_elsewhere;
#[path = "peculiar/settings.rs"]
mod of_settings;
#[macro_use]
mod suite;

/// Random schedules tried; a server takes longer than memory does.
const SCHEDULES: u64 = 12;
/// One of so many places is tried where a disguise in chunks may be interrupted.
const CUTS: usize = 4;
/// One of so many cases of a claim is tried where they are many.
const ONE_OF: usize = 5;
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The server on which a thread tests the claims.
struct Place {
    socket: String,
    /// Connects to a new database or schema of this name.
    connect: fn(&str, &str) -> Box<dyn Database>,
    kinds: &'static [&'static str],
}

thread_local! {
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
    /// The databases that the claim at hand has made.
    static MADE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A table of awkward values; the key has two columns, one of them text of a collation of its own.
const OF_MARIADB: &[&str] = &[
    "CREATE TABLE kinds (owner BIGINT REFERENCES users(id), code VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin, part SMALLINT, a DECIMAL(40,20), b VARBINARY(10), c DOUBLE, d FLOAT, e DATETIME(6), f JSON, g TIMESTAMP(3) NULL, h BOOLEAN, i BIGINT UNSIGNED, j TIME(6), k CHAR(5) CHARACTER SET utf8mb4, l DATE, m YEAR, n BIT(17), o ENUM('a','b'), p SET('x','y'), q UUID, r LONGTEXT, s BLOB, t POINT, PRIMARY KEY (code, part)) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_unicode_ci",
    "INSERT INTO kinds VALUES (1, 'NULL', 1, 0.00000000000000000001, x'00ff', -0.0, 0.1, '2024-02-29 23:59:59.999999', '{\"b\": 1,  \"a\":1.0}', '2024-02-29 23:59:59.120', true, 18446744073709551615, '-838:59:58.000001', 'ab', '0000-00-00', 2026, b'10000000000000101', 'b', 'x,y', '00000000-0000-0000-0000-000000000001', 'a''b\"c`\\\\', x'ff00fe', POINT(1, 2.5))",
    "INSERT INTO kinds VALUES (1, 'null', 1, NULL, '', 5e-324, 3.4e38, '0001-01-01 00:00:00', 'null', NULL, false, 0, '838:59:59', NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, '', NULL)",
    "INSERT INTO kinds VALUES (1, 'x?', 3, -99999999999999999999.5, NULL, NULL, NULL, NULL, '[]', '1971-01-01 00:00:00', NULL, 9223372036854775808, NULL, '', '9999-12-31', 1901, b'0', 'a', 'y', NULL, _utf8mb4 x'f09f9880', NULL, NULL)",
];

/// A table of awkward values; the key has two columns, one of them a UUID.
const OF_POSTGRES: &[&str] = &[
    "CREATE TABLE kinds (owner BIGINT REFERENCES users(id), code UUID, part SMALLINT, a NUMERIC(40,20), b BYTEA, c DOUBLE PRECISION, d REAL, e TIMESTAMPTZ, f JSON, g JSONB, h BOOLEAN, i TEXT[], j INTERVAL, k CHAR(5), PRIMARY KEY (code, part))",
    "INSERT INTO kinds VALUES (1, '00000000-0000-0000-0000-000000000001', 1, 0.00000000000000000001, '\\x00ff', '-0', 0.1, '2024-02-29 23:59:59.999999+05', '{\"b\": 1,  \"a\":1.0}', '{\"b\": 1.00}', true, '{a,NULL,\"x y\"}', '1 mon 2 days 00:00:00.000001', 'ab')",
    "INSERT INTO kinds VALUES (1, '00000000-0000-0000-0000-000000000001', 2, NULL, '', 'NaN', '3.4e38', 'infinity', 'null', NULL, false, '{}', NULL, NULL)",
    "INSERT INTO kinds VALUES (1, '00000000-0000-0000-0000-000000000002', 1, -99999999999999999999.5, NULL, '5e-324', NULL, '0001-01-01 00:00:00 BC', NULL, '[]', NULL, NULL, '-1 year', '')",
];

fn mariadb_named(socket: &str, name: &str) -> Box<dyn Database> {
    let mut database = Mysql::connect(&mariadb::url(socket, "mysql")).unwrap();
    for sql in [format!("CREATE DATABASE {name}"), format!("USE {name}")] {
        database.execute(&sql, &[]).unwrap();
    }
    Box::new(database)
}

fn postgres_named(socket: &str, name: &str) -> Box<dyn Database> {
    let mut database = Postgres::connect(&postgres::url(socket)).unwrap();
    for sql in [
        format!("CREATE SCHEMA {name}"),
        format!("SET search_path = {name}"),
    ] {
        database.execute(&sql, &[]).unwrap();
    }
    Box::new(database)
}

/// A connection to an empty place on this thread's server.
fn connect() -> Box<dyn Database> {
    let name = new_name();
    MADE.with_borrow_mut(|made| made.push(name.clone()));
    connect_to(&name)
}

fn new_name() -> String {
    format!("forum{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn connect_to(name: &str) -> Box<dyn Database> {
    PLACE.with_borrow(|place| {
        let place = place.as_ref().unwrap();
        (place.connect)(&place.socket, name)
    })
}

/// Removes the databases of the claim before. Each database that stays makes the next reading of the catalog longer, since keys of
/// other schemas count.
fn clear() {
    let made = MADE.take();
    if made.is_empty() {
        return;
    }
    let own = new_name();
    let mut database = connect_to(&own);
    let (kind, how) = if database.dialect() == Dialect::Postgres {
        ("SCHEMA", " CASCADE")
    } else {
        let settings = "SET foreign_key_checks = 0, lock_wait_timeout = 20";
        database.execute(settings, &[]).unwrap();
        ("DATABASE", "")
    };
    for name in made.iter().chain([&own]) {
        database
            .execute(&format!("DROP {kind} {name}{how}"), &[])
            .unwrap();
    }
}

fn kinds() -> &'static [&'static str] {
    PLACE.with_borrow(|place| place.as_ref().unwrap().kinds)
}

/// Runs a claim on a server that no other claim has meanwhile.
fn on(kind: &'static Kind, claim: fn()) {
    kind.pool.lend(|socket| {
        PLACE.set(Some(Place {
            socket: socket.to_owned(),
            connect: kind.connect,
            kinds: kind.kinds,
        }));
        claim();
        clear();
    });
}

/// A kind of servers.
struct Kind {
    pool: Pool,
    connect: fn(&str, &str) -> Box<dyn Database>,
    kinds: &'static [&'static str],
}

impl Kind {
    const fn mariadb() -> Self {
        Self {
            pool: Pool::new(|| mariadb::running(|url| Mysql::connect(url).is_ok())),
            connect: mariadb_named,
            kinds: OF_MARIADB,
        }
    }

    const fn postgres() -> Self {
        Self {
            pool: Pool::new(|| postgres::running(|url| Postgres::connect(url).is_ok())),
            connect: postgres_named,
            kinds: OF_POSTGRES,
        }
    }
}

static MARIADB: Kind = Kind::mariadb();
static POSTGRES: Kind = Kind::postgres();
/// Servers of claims about tables that one database alone has, which may change settings of the server.
static MARIADB_ALONE: Kind = Kind::mariadb();
static POSTGRES_ALONE: Kind = Kind::postgres();

/// Makes a test of each of the claims of a module.
macro_rules! tests_on {
    ($kind:ident, $module:ident: $($claim:ident)*) => {
        $(#[test]
        fn $claim() {
            crate::on(&crate::$kind, crate::$module::$claim);
        })*
    };
}

macro_rules! claims_on_mariadb {
    ($($claim:ident)*) => { tests_on! { MARIADB, suite: $($claim)* } };
}

macro_rules! claims_on_postgres {
    ($($claim:ident)*) => { tests_on! { POSTGRES, suite: $($claim)* } };
}

mod on_mariadb {
    for_every_claim!(claims_on_mariadb);
}

mod on_postgres {
    for_every_claim!(claims_on_postgres);
}

mod on_mariadb_alone {
    tests_on! { MARIADB_ALONE, of_at_once:
        operations_at_once_are_both_named
    }
    tests_on! { MARIADB_ALONE, of_mariadb:
        keys_of_other_databases_are_not_overlooked
        an_account_that_sees_one_database_says_so
        columns_that_the_account_does_not_see_are_an_error
        times_of_updates_stay_as_they_were
        values_of_a_lax_mode_come_back_as_they_were
        versions_are_noted_and_their_tables_are_no_exception
        rows_with_an_enumeration_in_the_key_are_all_taken
        a_key_with_the_beginning_of_a_version_names_no_row
        nothing_is_written_into_a_table_without_transactions
    }
    tests_on! { MARIADB_ALONE, of_settings:
        no_setting_of_mariadb_hides_rows_or_lets_them_in
    }
    tests_on! { MARIADB_ALONE, of_letters:
        texts_without_a_way_back_are_refused
        a_key_without_a_way_back_names_no_other_row
        a_text_without_a_way_back_is_refused_through_another_row
    }
}

mod on_postgres_alone {
    tests_on! { POSTGRES_ALONE, of_at_once:
        operations_at_once_are_both_named
    }
    tests_on! { POSTGRES_ALONE, of_postgres:
        keys_of_other_schemas_are_not_overlooked
        keys_of_partitions_are_those_of_their_table
        schemas_of_any_name_are_drafted_and_described
        plans_follow_a_table_that_grows
        numbers_that_the_database_gives_come_back
        padded_ids_come_back
        a_column_of_a_type_without_ids_names_nobody
        many_owners_have_no_row_in_a_column_that_does_not_hold_their_id
        a_key_that_compares_otherwise_than_its_column_is_none
        rows_that_a_policy_hides_are_an_error
        keys_to_heirs_are_not_overlooked
        keys_of_other_schemas_that_are_checked_late_refuse_no_reveal
        unique_keys_that_are_checked_late_keep_one_value_back
        an_error_of_a_trigger_at_the_commit_changes_nothing
    }
    tests_on! { POSTGRES_ALONE, of_postgres_circles:
        a_refused_row_keeps_no_circle_of_other_rows_away
        a_circle_comes_back_to_a_table_with_a_trigger
        a_circle_by_keys_that_no_record_shows_comes_back
        of_two_reveals_at_once_one_is_tried_again
    }
    tests_on! { POSTGRES_ALONE, of_postgres_elsewhere:
        a_key_to_another_schema_that_is_checked_late_keeps_one_row_back
        a_key_to_another_schema_keeps_a_circle_back_and_nothing_else
        a_key_to_another_schema_with_the_name_of_another_key_keeps_no_circle_back
        a_deferred_trigger_waits_beside_a_key_to_another_schema
        a_row_of_an_heir_is_no_row_to_refer_to
    }
    tests_on! { POSTGRES_ALONE, of_settings:
        the_form_of_values_is_no_setting_of_postgres
    }
    tests_on! { POSTGRES_ALONE, of_letters:
        texts_of_a_database_without_a_way_back_are_refused
        values_are_read_as_their_type_writes_them
    }

    #[test]
    fn a_table_that_others_inherit_from_is_not_changed() {
        crate::on(
            &crate::POSTGRES_ALONE,
            crate::a_table_that_others_inherit_from_is_not_changed,
        );
    }
}

/// The member does not leave, for a key of a table elsewhere would be emptied; `check` notes it.
fn is_kept_by(member: &mut suite::member::Member, elsewhere: &str) {
    let noted = member.cautions().concat();
    let sentence = format!("rows of {elsewhere} would lose what they refer to");
    assert!(noted.contains(&sentence), "{noted}");
    let before = member.rows(["members", "notes"]);
    let refused = member.try_to_leave();
    let is_kept = matches!(refused, Err(probity_disguise::Error::WouldEmpty { .. }));
    assert!(is_kept, "{refused:?}");
    assert_eq!(member.rows(["members", "notes"]), before);
}

/// C4: a row of the heir would come back into the table that it inherits from, without what only the heir has, and one with the key
/// of a row of that table was overwritten and given away with it. Such a table is not changed, and a reveal tells the two apart.
fn a_table_that_others_inherit_from_is_not_changed() {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT, what BIGINT)",
        "CREATE TABLE letters (stamp BIGINT) INHERITS (notes)",
        "INSERT INTO members VALUES (1)",
        "INSERT INTO notes VALUES (6, 1, 8)",
        "INSERT INTO letters VALUES (7, 1, 8, 9)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let description = r#"
        [users]
        table = "members"
        id = "id"
        placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000000000 } } }
        [tables.notes]
        owners = ["member"]
        [[remove]]
        table = "notes"
    "#;
    let (users, _) = description.split_once("[[remove]]").unwrap();
    let blank = "[[modify]]\ntable = \"notes\"\ncolumn = \"what\"\nvalue = { ConstNum = 0 }\n";
    let replace = "[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n";
    let changing = [blank, replace].map(|step| format!("{users}{step}"));
    let mut member = suite::member::Member::of(database, description);
    for changing in [description, &changing[0], &changing[1]] {
        member = member.again(changing);
        let refused = member.try_to_leave().unwrap_err();
        let reason = refused.source().unwrap().to_string();
        assert!(reason.contains("inherit from notes"), "{reason}");
    }
    member.sql(&["DROP TABLE letters"]);
    for changing in [description, &changing[0], &changing[1]] {
        member = member.again(changing);
        let before = member.rows(["notes"]);
        let applied = member.leave();
        assert!(member.return_from(&applied).is_complete());
        assert_eq!(member.rows(["notes"]), before);
    }
    for changing in changing {
        member = member.again(&changing);
        let before = member.rows(["notes"]);
        let applied = member.leave();
        member.sql(&[
            "CREATE TABLE letters (stamp BIGINT) INHERITS (notes)",
            "INSERT INTO letters SELECT *, 9 FROM notes WHERE id = 6",
        ]);
        let hidden = member.rows(["notes", "letters"]);
        let revealed = member.return_from(&applied);
        let reasons: Vec<_> = revealed.kept.iter().map(|it| it.reason).collect();
        assert_eq!(reasons, [probity_disguise::KeptReason::RowExists]);
        assert_eq!(member.rows(["notes", "letters"]), hidden);
        member.sql(&["DROP TABLE letters"]);
        assert!(member.return_from(&applied).is_complete());
        assert_eq!(member.rows(["notes"]), before);
    }
}
