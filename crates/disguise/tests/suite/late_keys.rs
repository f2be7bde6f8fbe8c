//! Keys that a database checks at the commit alone: they refuse nothing there that a reveal does.

use probity_disguise::{Database as _, Dialect, Kept, KeptReason, Revealed};

use super::society::Society;

/// Settings, and what else a test says, go under placeholders.
fn described(tables: &str) -> String {
    format!(
        r#"
[users]
table = "people"
id = "id"
placeholder = {{ id = {{ RandNum = {{ lb = 1000000, ub = 2000000000 }} }} }}
{tables}
[[decorrelate]]
table = "settings"
owners = ["person"]
"#
    )
}

/// Words behind a foreign key for each moment at which the database may check it.
fn moments() -> &'static [&'static str] {
    match crate::connect().dialect() {
        Dialect::Mysql => &[""],
        _ => &[
            "",
            "DEFERRABLE INITIALLY IMMEDIATE",
            "DEFERRABLE INITIALLY DEFERRED",
        ],
    }
}

fn kept(revealed: &Revealed) -> Vec<(&str, KeptReason)> {
    let told = |it: &'_ Kept| it.reason;
    let all = revealed.kept.iter();
    all.map(|it| (&*it.table, told(it))).collect()
}

/// U1: a row made meanwhile referred to one from before under its placeholder, by a key without an action. Where the database checks
/// such a key at the commit, that refused the whole reveal each time, and their person stayed away.
pub(crate) fn a_key_that_is_checked_at_the_commit_keeps_one_row_back() {
    for moment in moments() {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY)".to_owned(),
            "CREATE TABLE settings (person BIGINT NOT NULL REFERENCES people(id), k VARCHAR(20) NOT NULL, PRIMARY KEY (person, k))".to_owned(),
            format!("CREATE TABLE notes (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id), sp BIGINT, sk VARCHAR(20), FOREIGN KEY (sp, sk) REFERENCES settings (person, k) {moment})"),
            "INSERT INTO people VALUES (1), (2)".to_owned(),
            "INSERT INTO settings VALUES (1, 'a'), (1, 'b')".to_owned(),
        ];
        let tables = described("[tables.notes]\nowners = [\"author\"]");
        let mut society = Society::of(&statements, &tables, &[1, 2]);
        let id = society.leave(1);
        society.sql("INSERT INTO notes SELECT 5, 2, person, k FROM settings WHERE k = 'a'");
        let revealed = society.reveal(1, id);
        assert_eq!(
            kept(&revealed),
            [("settings", KeptReason::ReferredTo)],
            "{moment}"
        );
        let said = revealed.kept.first().and_then(|it| it.said.as_deref());
        assert_eq!(said, Some("table notes, columns sp, sk"));
        let back = society.numbers("SELECT COUNT(*) FROM settings WHERE person = 1");
        assert_eq!(back, [1], "{moment}");
        society.sql("DELETE FROM notes");
        let revealed = society.reveal(1, id);
        assert!(revealed.found && revealed.is_complete(), "{revealed:?}");
        society.assert_as_before(moment);
    }
}

/// U1: what an overwritten value refers to had gone meanwhile, and a key that is checked at the commit refused the whole reveal. The
/// value stays as it is, and everything else comes back.
pub(crate) fn a_value_that_would_refer_to_nothing_stays_alone() {
    for moment in moments() {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY)".to_owned(),
            "CREATE TABLE colours (id BIGINT PRIMARY KEY)".to_owned(),
            "CREATE TABLE settings (id BIGINT PRIMARY KEY, person BIGINT REFERENCES people(id))"
                .to_owned(),
            format!(
                "CREATE TABLE cups (id BIGINT PRIMARY KEY, person BIGINT REFERENCES people(id), colour BIGINT, FOREIGN KEY (colour) REFERENCES colours (id) {moment})"
            ),
            "INSERT INTO people VALUES (1), (2)".to_owned(),
            "INSERT INTO colours VALUES (7), (8), (9)".to_owned(),
            "INSERT INTO settings VALUES (1, 1)".to_owned(),
            "INSERT INTO cups VALUES (1, 1, 7), (2, 1, 8)".to_owned(),
        ];
        let step = "[[modify]]\ntable = \"cups\"\ncolumn = \"colour\"\nvalue = { ConstNum = 9 }\n";
        let mut society = Society::of(&statements, &format!("{}{step}", described("")), &[1, 2]);
        let id = society.leave(1);
        society.sql("DELETE FROM colours WHERE id = 8");
        let revealed = society.reveal(1, id);
        let reason = match crate::connect().dialect() {
            Dialect::Sqlite => KeptReason::ParentMissing,
            Dialect::Postgres if !moment.is_empty() => KeptReason::ParentMissing,
            _ => KeptReason::Refused,
        };
        assert_eq!(kept(&revealed), [("cups", reason)], "{moment}");
        let colours = society.numbers("SELECT colour FROM cups ORDER BY id");
        assert_eq!(colours, [7, 9], "{moment}");
        assert_eq!(society.numbers("SELECT person FROM settings"), [1]);
        society.sql("INSERT INTO colours VALUES (8)");
        let revealed = society.reveal(1, id);
        assert!(revealed.found && revealed.is_complete(), "{revealed:?}");
        society.assert_as_before(moment);
    }
}

/// U4: a reveal did not look how many rows went with a placeholder. Where ids are not unique, the account of somebody who has the same
/// one went with it, and nobody was told.
pub(crate) fn no_more_rows_go_with_a_placeholder_than_its_own() {
    let statements = [
        "CREATE TABLE people (pk BIGINT PRIMARY KEY, id BIGINT NOT NULL)",
        "CREATE TABLE settings (id BIGINT PRIMARY KEY, person BIGINT NOT NULL)",
        "CREATE UNIQUE INDEX one_id ON people (id)",
        "INSERT INTO people VALUES (1, 1), (2, 2)",
        "INSERT INTO settings VALUES (1, 1), (2, 1)",
    ];
    let tables = described("[tables.settings]\nowners = [\"person\"]");
    let placeholder = "{ pk = { RandNum = { lb = 1000000, ub = 2000000000 } }, ";
    let tables = tables.replacen(
        "placeholder = { ",
        &format!("placeholder = {placeholder}"),
        1,
    );
    let mut society = Society::of(&statements.map(str::to_owned), &tables, &[1, 2]);
    let id = society.leave(1);
    let gone = match society.engine.database().dialect() {
        Dialect::Mysql => "DROP INDEX one_id ON people",
        _ => "DROP INDEX one_id",
    };
    society.sql(gone);
    society.sql("INSERT INTO people SELECT 3, person FROM settings WHERE id = 2");
    let revealed = society.reveal(1, id);
    assert_eq!(kept(&revealed), [("people", KeptReason::Refused)]);
    let said = revealed.kept.first().and_then(|it| it.said.as_deref());
    assert_eq!(said, Some("table people, more rows than one have this key"));
    assert_eq!(society.numbers("SELECT person FROM settings"), [1, 1]);
    assert_eq!(society.numbers("SELECT COUNT(*) FROM people"), [4]);
    society.sql("DELETE FROM people WHERE pk = 3");
    let revealed = society.reveal(1, id);
    assert!(revealed.is_complete(), "{revealed:?}");
    society.assert_as_before("");
}
