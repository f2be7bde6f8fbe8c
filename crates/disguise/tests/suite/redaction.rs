//! Redactions of texts: the found parts are hidden, and the rest of the text stays.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;
use std::ops::Range;

use probity_disguise::{
    Applied, ApplyRequest, DisguiseId, Engine, Error, KeptReason, KeyCost, Redactor, SpecFile,
    Value,
};

use super::forum::*;

const USERS_PART: &str = r#"
[users]
table = "users"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000000000 } }, username = { RandStr = { len = 30 } }, karma = { ConstNum = 0 } }
"#;
const REDACT: &str = r#"
[parameters]
nicknames = "Bobby, the boss"
[[modify]]
table = "posts"
column = "text"
redact = { emails = true, phones = true, names = ["Eve Example", ":nicknames"], own_names = ["username"] }
[[modify]]
table = "users"
column = "username"
value = { RandStr = { len = 20 } }
"#;
const TEXTS: [&str; 5] = [
    "user1 is bobby; write to user1@example.org or +49 170 1234567 \u{fc}",
    "nothing to see",
    "The BOSS met eve  example and user2",
    "",
    "\u{e9} user1, USER1 & user11",
];
const HIDDEN: [&str; 5] = [
    "[redacted] is [redacted]; write to [redacted] or [redacted] \u{fc}",
    "nothing to see",
    "[redacted] met [redacted] and user2",
    "",
    "\u{e9} [redacted], [redacted] & user11",
];

/// Finds numbers of cases, like `#12`.
struct Cases;

impl Redactor for Cases {
    fn name(&self) -> &'static str {
        "cases"
    }

    fn find(&self, text: &str) -> Vec<Range<usize>> {
        let cases = text.match_indices('#');
        cases
            .map(|(start, _)| {
                let digits = text.get(start..).unwrap_or_default().chars().skip(1);
                let digits = digits.take_while(char::is_ascii_digit).count();
                start..start + 1 + digits
            })
            .collect()
    }
}

struct Board {
    forum: Forum,
    before: Vec<String>,
}

fn board() -> Board {
    let mut forum = forum();
    forum.sql("CREATE TABLE posts (id BIGINT PRIMARY KEY, user_id BIGINT REFERENCES users(id), text VARCHAR(90), note TEXT)");
    for (id, text) in (1_i64..).zip(TEXTS) {
        let sql = "INSERT INTO posts VALUES (?, 1, ?, '#12 and #x')";
        let row = [Value::Int(id), Value::from(text)];
        forum.engine.database().execute(sql, &row).unwrap();
    }
    forum.sql("INSERT INTO posts VALUES (6, 2, 'user2 and user1', NULL)");
    let file = SpecFile::parse(USERS_PART).unwrap();
    forum.engine = Engine::new(forum.database.boxed(), file.schema, file.pseudo.unwrap());
    forum.engine.options().key_cost = KeyCost::DANGER_LEAST;
    forum.engine.install().unwrap();
    let mut board = Board {
        forum,
        before: Vec::new(),
    };
    board.before = board.everything();
    board
}

impl Board {
    fn everything(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for table in ["users", "posts"] {
            let rows = self.forum.engine.preview().rows(table).unwrap();
            all.extend(rows.iter().map(|row| format!("{row:?}")));
        }
        all.sort();
        all
    }

    fn texts(&mut self, user: i64) -> Vec<String> {
        let sql = format!("SELECT text FROM posts WHERE user_id = {user} ORDER BY id");
        let rows = self.forum.engine.database().query(&sql, &[]).unwrap();
        rows.iter().flatten().map(ToString::to_string).collect()
    }

    fn apply(&mut self, spec: &str, user: Option<i64>) -> Result<Applied, Error> {
        let file = SpecFile::parse(spec).unwrap();
        self.forum.engine.apply(&ApplyRequest {
            spec: &file.spec,
            user: user.map(Value::Int),
            over: None,
            parameters: BTreeMap::new(),
            expires: None,
            time: time(),
        })
    }

    fn assert_returned(&mut self, user: i64, id: DisguiseId) {
        assert!(self.forum.reveal(user, id).is_complete());
        let now = self.everything();
        assert_eq!(now, self.before);
    }
}

pub(crate) fn what_a_text_says_of_people_is_hidden_and_comes_back() {
    let mut board = board();
    let applied = board.apply(REDACT, Some(1)).unwrap();
    assert_eq!(board.texts(1), HIDDEN);
    // Three of the texts had something in them, and the rest is not recorded.
    assert_eq!(applied.rows.get("posts"), Some(&3));
    assert_eq!(board.texts(2), ["user2 and user1"]);
    board.assert_returned(1, applied.id);
    let everybody = board.apply(REDACT, None).unwrap();
    // Each text loses the names of its own owner.
    assert_eq!(board.texts(1), HIDDEN);
    assert_eq!(board.texts(2), ["[redacted] and user1"]);
    for user in 2..=USERS {
        assert!(board.forum.reveal(user, everybody.id).is_complete());
    }
    board.assert_returned(1, everybody.id);
}

pub(crate) fn a_redacted_text_follows_the_checks_of_a_reveal_and_composes() {
    let mut board = board();
    let first = board.apply(REDACT, Some(1)).unwrap();
    let blank = "[[modify]]\ntable = \"posts\"\ncolumn = \"text\"\nvalue = { ConstStr = \"-\" }\n";
    let second = board.apply(blank, Some(1)).unwrap();
    board.forum.reveal(1, first.id);
    assert_eq!(board.texts(1), ["-"; 5]);
    assert!(board.forum.reveal(1, second.id).is_complete());
    let now = board.everything();
    assert_eq!(now, board.before);
    let third = board.apply(REDACT, Some(1)).unwrap();
    board
        .forum
        .sql("UPDATE posts SET text = 'written anew' WHERE id = 1");
    let revealed = board.forum.reveal(1, third.id);
    let reasons: Vec<KeptReason> = revealed.kept.iter().map(|it| it.reason).collect();
    assert_eq!(reasons, [KeptReason::Changed]);
    let mut expected = TEXTS;
    expected[0] = "written anew";
    assert_eq!(board.texts(1), expected);
}

pub(crate) fn a_redactor_by_code_is_asked_for_until_the_program_has_it() {
    let spec = "[[modify]]\ntable = \"posts\"\ncolumn = \"note\"\nredact = { code = [\"cases\"], mark = \"*\" }\n";
    let mut board = board();
    let Err(Error::Spec(error)) = board.apply(spec, Some(1)) else {
        panic!("it must be refused");
    };
    assert_eq!(error.what, "there is no code for redactor cases");
    board.forum.engine.options().set_redactor(Box::new(Cases));
    let applied = board.apply(spec, Some(1)).unwrap();
    assert_eq!(
        board
            .forum
            .numbers("SELECT COUNT(*) FROM posts WHERE note = '* and *x'"),
        [5]
    );
    board.assert_returned(1, applied.id);
}

pub(crate) fn a_redacted_text_fits_its_column_and_the_whole_one_comes_back() {
    let mut board = board();
    let long = "user1 ".repeat(15);
    let row = [Value::from(long.trim_end())];
    let sql = "UPDATE posts SET text = ? WHERE id = 2";
    board.forum.engine.database().execute(sql, &row).unwrap();
    board.before = board.everything();
    let applied = board.apply(REDACT, Some(1)).unwrap();
    let hidden = board.texts(1).remove(1);
    assert!(hidden.starts_with("[redacted] [redacted] "), "{hidden}");
    assert!(!hidden.contains("user1"), "{hidden}");
    board.assert_returned(1, applied.id);
}

pub(crate) fn redactions_that_do_not_fit_are_refused() {
    let mut board = board();
    for (column, redact, expected) in [
        (
            "text",
            "{}",
            "column text: says nothing that is to be redacted",
        ),
        (
            "user_id",
            "{ emails = true }",
            "column user_id of posts is no text that could be redacted",
        ),
        (
            "nothing",
            "{ emails = true }",
            "table posts has no column nothing",
        ),
        (
            "text",
            "{ own_names = [\"nothing\"] }",
            "the users table has no column nothing",
        ),
        (
            "text",
            "{ names = [\":nothing\"] }",
            "parameter nothing is not given",
        ),
        (
            "text",
            "{ names = [\"x\"] }",
            "a name has 2 to 100 characters",
        ),
    ] {
        let spec =
            format!("[[modify]]\ntable = \"posts\"\ncolumn = \"{column}\"\nredact = {redact}\n");
        match board.apply(&spec, Some(1)) {
            Err(Error::Spec(error)) => assert_eq!(error.what, expected),
            other => panic!("{redact}: {other:?}"),
        }
    }
    let both = "[[modify]]\ntable = \"posts\"\ncolumn = \"text\"\nvalue = \"Null\"\nredact = { emails = true }\n";
    assert_eq!(
        SpecFile::parse(both).unwrap_err().what,
        "takes no value beside redact"
    );
}
