//! Triggers and rules that leave rows out, or put back what was written, without an error.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Database as _, Dialect, KeptReason, Revealed};

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
const CONSTANT: &str =
    "[[modify]]\ntable = \"names\"\ncolumn = \"since\"\nvalue = { ConstStr = \"2000-01-01\" }\n";
const DECORRELATE: &str = "[[decorrelate]]\ntable = \"names\"\nowners = [\"member\"]\n";

/// A person with two names, the first of which triggers are about, and another one.
fn named(steps: &str) -> Member {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE names (id BIGINT PRIMARY KEY, member BIGINT NOT NULL REFERENCES members(id), nick VARCHAR(20), since TIMESTAMP NULL)",
        "INSERT INTO members VALUES (1), (3)",
        "INSERT INTO names VALUES (1, 1, 'bob', '2024-02-29 10:00:00'), (2, 1, 'rob', '2024-02-29 10:00:00'), (3, 3, 'al', '2024-02-29 10:00:00')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    Member::of(database, &format!("{HEAD}{steps}"))
}

/// Obstacles for an event on a table: statements that create them, and statements that drop them.
type Hindrance = (Vec<String>, Vec<String>);

fn one(made: &str, gone: &str) -> Hindrance {
    (vec![made.to_owned()], vec![gone.to_owned()])
}

/// All that leaves out rows of `table` on this database, where `condition` holds of the row called `row`.
fn leaving_out(dialect: Dialect, table: &str, event: &str, condition: &str) -> Vec<Hindrance> {
    let row = if event == "INSERT" { "NEW" } else { "OLD" };
    let condition = condition.replace("row.", &format!("{row}."));
    match dialect {
        Dialect::Sqlite => vec![one(
            &format!(
                "CREATE TRIGGER shut BEFORE {event} ON {table} WHEN {condition} BEGIN SELECT RAISE(IGNORE); END"
            ),
            "DROP TRIGGER shut",
        )],
        // A trigger leaves nothing out there, and there are no rules.
        Dialect::Mysql => Vec::new(),
        _ => {
            let none = "CREATE FUNCTION shut() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'";
            let trigger = format!(
                "CREATE TRIGGER shut BEFORE {event} ON {table} FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION shut()"
            );
            let rule = format!(
                "CREATE RULE shut AS ON {event} TO {table} WHERE {condition} DO INSTEAD NOTHING"
            );
            let gone = ["DROP FUNCTION shut() CASCADE".to_owned()];
            vec![
                (vec![none.to_owned(), trigger], gone.to_vec()),
                one(&rule, &format!("DROP RULE shut ON {table}")),
            ]
        }
    }
}

/// All that puts back what an update of the first name writes.
fn putting_back(dialect: Dialect, column: &str) -> Vec<Hindrance> {
    match dialect {
        Dialect::Sqlite => vec![one(
            &format!(
                "CREATE TRIGGER shut AFTER UPDATE ON names WHEN OLD.id = 1 BEGIN UPDATE names SET {column} = OLD.{column} WHERE id = 1; END"
            ),
            "DROP TRIGGER shut",
        )],
        Dialect::Mysql => vec![one(
            &format!(
                "CREATE TRIGGER shut BEFORE UPDATE ON names FOR EACH ROW IF OLD.id = 1 THEN SET NEW.{column} = OLD.{column}; END IF"
            ),
            "DROP TRIGGER shut",
        )],
        _ => vec![(
            vec![
                format!(
                    "CREATE FUNCTION shut() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.{column} := OLD.{column}; RETURN NEW; END'"
                ),
                "CREATE TRIGGER shut BEFORE UPDATE ON names FOR EACH ROW WHEN (OLD.id = 1) EXECUTE FUNCTION shut()".to_owned(),
            ],
            vec!["DROP FUNCTION shut() CASCADE".to_owned()],
        )],
    }
}

/// All that keeps an update of the first name from changing `column`.
fn holding(dialect: Dialect, column: &str) -> Vec<Hindrance> {
    let mut all = leaving_out(dialect, "names", "UPDATE", "row.id = 1");
    all.extend(putting_back(dialect, column));
    all
}

fn run(member: &mut Member, statements: &[String]) {
    let all: Vec<&str> = statements.iter().map(String::as_str).collect();
    member.sql(&all);
}

fn dialect() -> Dialect {
    crate::connect().dialect()
}

#[track_caller]
fn assert_kept(revealed: &Revealed) {
    let kept: Vec<_> = revealed
        .kept
        .iter()
        .map(|it| (&*it.identity, it.reason))
        .collect();
    assert_eq!(kept, [("1", KeptReason::Refused)]);
    let said = revealed.kept.first().unwrap().said.as_deref().unwrap();
    assert!(said.contains("passed over 1 row"), "{said}");
}

/// C3: a trigger or a rule may leave a row or a value out without an error, and the reveal told of it as put back and destroyed its
/// record. How many rows a statement changed was not looked at, nor what triggers make of them.
pub(crate) fn what_a_trigger_keeps_from_coming_back_stays_hidden() {
    let mut tried = leaving_out(dialect(), "names", "INSERT", "row.id = 1");
    let mut tried: Vec<_> = tried.drain(..).map(|it| (REMOVE, it)).collect();
    tried.extend(
        holding(dialect(), "nick")
            .into_iter()
            .map(|it| (RANDOM, it)),
    );
    tried.extend(
        holding(dialect(), "member")
            .into_iter()
            .map(|it| (DECORRELATE, it)),
    );
    for (steps, (made, gone)) in tried {
        let mut member = named(steps);
        let before = member.rows(["members", "names"]);
        let applied = member.leave();
        run(&mut member, &made);
        for _ in 0..2 {
            assert_kept(&member.return_from(&applied));
            assert_eq!(member.hidden_by(), 1, "{made:?}");
        }
        run(&mut member, &gone);
        let revealed = member.return_from(&applied);
        assert!(revealed.is_complete(), "{made:?}: {revealed:?}");
        assert_eq!(member.rows(["members", "names"]), before, "{made:?}");
        assert_eq!(member.hidden_by(), 0);
    }
}

/// C3: a disguise counted rows as hidden that a trigger or a rule had left in clear, removed, overwritten or under a placeholder.
/// What is not done is refused, and nothing is changed.
pub(crate) fn what_a_trigger_keeps_from_being_hidden_is_refused() {
    let it = dialect();
    let mut tried = Vec::new();
    for out in leaving_out(it, "names", "DELETE", "row.id = 1") {
        tried.push((REMOVE, out));
    }
    if it == Dialect::Sqlite {
        let soft = "CREATE TRIGGER shut BEFORE DELETE ON names BEGIN UPDATE names SET nick = 'deleted' WHERE id = OLD.id; SELECT RAISE(IGNORE); END";
        tried.push((REMOVE, one(soft, "DROP TRIGGER shut")));
        let again = "CREATE TRIGGER shut AFTER DELETE ON names BEGIN INSERT INTO names VALUES (OLD.id, OLD.member, OLD.nick, OLD.since); END";
        tried.push((REMOVE, one(again, "DROP TRIGGER shut")));
    }
    for (steps, column) in [
        (RANDOM, "nick"),
        (CONSTANT, "since"),
        (DECORRELATE, "member"),
    ] {
        tried.extend(holding(it, column).into_iter().map(|out| (steps, out)));
    }
    let placeholders = leaving_out(it, "members", "INSERT", "row.id > 3");
    tried.extend(placeholders.into_iter().map(|out| (DECORRELATE, out)));
    for (steps, (made, gone)) in tried {
        let mut member = named(steps);
        run(&mut member, &made);
        let before = member.rows(["members", "names"]);
        let refused = member.try_to_leave();
        let refused = format!("{:?}", refused.unwrap_err());
        assert!(refused.contains("passed over"), "{made:?}: {refused}");
        assert_eq!(member.rows(["members", "names"]), before, "{made:?}");
        assert_eq!(member.hidden_by(), 0);
        run(&mut member, &gone);
        member.leaves_and_returns(["members", "names"]);
    }
}

/// C3: a table with triggers is looked at more closely, and what it holds is no reason to refuse where nothing is put back: a value
/// that was hidden before is hidden again by the same, whatever it looks like in the specification.
pub(crate) fn a_trigger_that_only_takes_notes_is_in_nobodys_way() {
    let noting: &[&str] = match dialect() {
        Dialect::Sqlite => &[
            "CREATE TRIGGER noted AFTER UPDATE ON names BEGIN INSERT INTO notes VALUES (OLD.id); END",
        ],
        Dialect::Mysql => &[
            "CREATE TRIGGER noted AFTER UPDATE ON names FOR EACH ROW INSERT INTO notes VALUES (OLD.id)",
        ],
        _ => &[
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO notes VALUES (OLD.id); RETURN NULL; END'",
            "CREATE TRIGGER noted AFTER UPDATE ON names FOR EACH ROW EXECUTE FUNCTION note()",
            "CREATE RULE seen AS ON UPDATE TO names DO ALSO NOTHING",
        ],
    };
    let mut member = named(CONSTANT);
    member.sql(&["CREATE TABLE notes (id BIGINT)"]);
    member.sql(noting);
    let before = member.rows(["members", "names"]);
    let (first, second) = (member.leave(), member.leave());
    assert!(member.return_from(&second).is_complete());
    assert!(member.return_from(&first).is_complete());
    assert_eq!(member.rows(["members", "names"]), before);
    for steps in [REMOVE, RANDOM, DECORRELATE] {
        member = member.again(&format!("{HEAD}{steps}"));
        member.leaves_and_returns(["members", "names"]);
    }
}
