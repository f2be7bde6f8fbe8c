//! Triggers that raise an error for one row, or give it another key.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, KeptReason};

use super::member::Member;

const HEAD: &str = r#"
[users]
table = "members"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 2000000000 } } }
[tables.names]
owners = ["member"]
"#;
const REMOVE: &str = "[[remove]]\ntable = \"names\"\n";
const RANDOM: &str =
    "[[modify]]\ntable = \"names\"\ncolumn = \"nick\"\nvalue = { RandStr = { len = 8 } }\n";
const DECORRELATE: &str = "[[decorrelate]]\ntable = \"names\"\nowners = [\"member\"]\n";

fn named(steps: &str) -> Member {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE names (id BIGINT PRIMARY KEY, member BIGINT NOT NULL REFERENCES members(id), nick VARCHAR(20))",
        "INSERT INTO members VALUES (1), (3)",
        "INSERT INTO names VALUES (1, 1, 'bob'), (2, 1, 'rob'), (3, 3, 'al'), (4, 1, 'ed')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    Member::of(database, &format!("{HEAD}{steps}"))
}

/// Statements that make each trigger of this database which raises an error for the second name.
fn raising(dialect: Dialect, event: &str) -> Vec<Vec<String>> {
    match dialect {
        Dialect::Sqlite => ["BEFORE", "AFTER"]
            .into_iter()
            .flat_map(|when| ["ABORT", "FAIL"].map(|how| (when, how)))
            .map(|(when, how)| {
                vec![format!(
                    "CREATE TRIGGER shut {when} {event} ON names WHEN NEW.id = 2 BEGIN SELECT RAISE({how}, 'shut'); END"
                )]
            })
            .collect(),
        Dialect::Mysql => [
            "'45000'",
            "'45000' SET MYSQL_ERRNO = 1099",
            "'23000' SET MYSQL_ERRNO = 1022",
        ]
            .map(|state| {
                vec![format!(
                    "CREATE TRIGGER shut AFTER {event} ON names FOR EACH ROW IF NEW.id = 2 THEN SIGNAL SQLSTATE {state}; END IF"
                )]
            })
            .to_vec(),
        _ => ["P0001", "P0002", "22P02"]
            .map(|code| {
                vec![
                    format!("CREATE FUNCTION shut() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''shut'' USING ERRCODE = ''{code}''; END'"),
                    format!(
                        "CREATE TRIGGER shut AFTER {event} ON names FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION shut()"
                    ),
                ]
            })
            .to_vec(),
    }
}

fn run(member: &mut Member, statements: &[String]) {
    let all: Vec<&str> = statements.iter().map(String::as_str).collect();
    member.sql(&all);
}

fn gone(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => "DROP FUNCTION shut() CASCADE",
        _ => "DROP TRIGGER shut",
    }
}

/// H3: an error that a trigger raised for one row ended the whole reveal, so that one row kept a person away. It counts as a refusal
/// of that row, and everything else comes back.
pub(crate) fn a_row_for_which_a_trigger_raises_an_error_stays_alone() {
    let dialect = crate::connect().dialect();
    for (steps, event) in [
        (REMOVE, "INSERT"),
        (RANDOM, "UPDATE"),
        (DECORRELATE, "UPDATE"),
    ] {
        for made in raising(dialect, event) {
            let mut member = named(steps);
            let [before] = member.rows(["names"]);
            let applied = member.leave();
            let [hidden] = member.rows(["names"]);
            run(&mut member, &made);
            let revealed = member.return_from(&applied);
            let reasons: Vec<_> = revealed.kept.iter().map(|it| it.reason).collect();
            assert_eq!(reasons, [KeptReason::Refused], "{made:?}");
            let [now] = member.rows(["names"]);
            assert_eq!(before.difference(&now).count(), 1, "{made:?}");
            let still_hidden = usize::from(steps != REMOVE);
            assert_eq!(
                now.intersection(&hidden).count(),
                1 + still_hidden,
                "{made:?}"
            );
            member.sql(&[gone(dialect)]);
            let revealed = member.return_from(&applied);
            assert!(revealed.is_complete(), "{made:?}: {revealed:?}");
            assert_eq!(member.rows(["names"]), [before], "{made:?}");
        }
    }
}

/// H2: a trigger that works the key out from the overwritten column left a record of the old key, which no reveal finds. The disguise
/// counts such a row as lost and changes nothing.
pub(crate) fn a_row_to_which_a_trigger_gives_another_key_is_not_said_to_be_hidden() {
    let dialect = crate::connect().dialect();
    let made: Vec<String> = match dialect {
        Dialect::Sqlite => vec![
            "CREATE TRIGGER shut AFTER UPDATE OF nick ON names BEGIN UPDATE names SET id = id + 100 WHERE id = NEW.id; END".to_owned(),
        ],
        Dialect::Mysql => vec![
            "CREATE TRIGGER shut BEFORE UPDATE ON names FOR EACH ROW SET NEW.id = OLD.id + 100".to_owned(),
        ],
        _ => vec![
            "CREATE FUNCTION shut() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.id := OLD.id + 100; RETURN NEW; END'".to_owned(),
            "CREATE TRIGGER shut BEFORE UPDATE ON names FOR EACH ROW EXECUTE FUNCTION shut()".to_owned(),
        ],
    };
    let constant =
        "[[modify]]\ntable = \"names\"\ncolumn = \"nick\"\nvalue = { ConstStr = \"x\" }\n";
    for steps in [RANDOM, constant, DECORRELATE] {
        if dialect == Dialect::Sqlite && steps == DECORRELATE {
            continue;
        }
        let mut member = named(steps);
        run(&mut member, &made);
        let before = member.rows(["members", "names"]);
        for refused in [member.try_to_leave(), member.try_in_chunks(2)] {
            let error = refused.unwrap_err();
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let told = format!("{error} {}", source.unwrap_or_default());
            assert!(told.contains("table names"), "{told}");
            assert!(told.contains("trigger"), "{told}");
        }
        assert_eq!(member.rows(["members", "names"]), before);
        assert_eq!(member.hidden_by(), 0);
    }
}
