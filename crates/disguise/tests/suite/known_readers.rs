//! Readers and other owners of removed rows are who they were: an id that somebody else has by then names nobody there.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{DisguiseId, KeptReason, Revealed, SpecFile};

use super::sample::Sample;
use super::society::{Society, description};

/// The forms of ids, and of a person of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Numbers,
    Texts,
    OfTenant,
}

pub(super) const FORMS: [Form; 3] = [Form::Numbers, Form::Texts, Form::OfTenant];

const POSTS: &str = "[tables.posts]\nowners = [\"author\"]\nreaders = [\"editor\"]\n";
const REMOVED: &str = "[[remove]]\ntable = \"posts\"\n";

impl Form {
    pub(super) fn id(self, person: i64) -> String {
        match self {
            Self::Numbers | Self::OfTenant => person.to_string(),
            Self::Texts => format!("'u{person}'"),
        }
    }

    /// A description with these tables and steps; everybody who leaves leaves the users table, too.
    pub(super) fn described(self, tables: &str) -> String {
        let text = description(tables);
        match self {
            Self::Numbers => text,
            Self::Texts => text.replace(
                "{ RandNum = { lb = 1000000, ub = 2000000000 } }",
                "{ RandStr = { len = 16 } }",
            ),
            Self::OfTenant => format!("tenant = \"org\"\n{text}"),
        }
    }

    /// A row of a table, with the tenant where there is one.
    pub(super) fn row(self, table: &str, values: &str) -> String {
        let org = if self == Self::OfTenant { ", 7" } else { "" };
        format!("INSERT INTO {table} VALUES ({values}{org})")
    }

    pub(super) fn made(self, table: &str, columns: &str) -> String {
        let org = if self == Self::OfTenant {
            ", org BIGINT NOT NULL"
        } else {
            ""
        };
        let id = if self == Self::Texts {
            "VARCHAR(20)"
        } else {
            "BIGINT"
        };
        format!(
            "CREATE TABLE {table} ({}{org})",
            columns.replace("PERSON", id)
        )
    }

    /// A post of 2 that 1 edits, which no key of the database declares.
    fn society(self, tables: &str) -> Society {
        let statements = [
            self.made("people", "id PERSON PRIMARY KEY, name VARCHAR(20)"),
            self.made(
                "posts",
                "id BIGINT PRIMARY KEY, author PERSON, editor PERSON",
            ),
            self.row("people", &format!("{}, 'one'", self.id(1))),
            self.row("people", &format!("{}, 'two'", self.id(2))),
            self.row("posts", &format!("5, {}, {}", self.id(2), self.id(1))),
        ];
        self.of(&statements, &self.described(tables))
    }

    pub(super) fn of(self, statements: &[String], described: &str) -> Society {
        match self {
            Self::Numbers => Society::of(statements, described, &[1, 2]),
            Self::Texts => Society::of_texts(statements, described, &[1, 2]),
            Self::OfTenant => Society::of_tenant(7, statements, described, &[1, 2]),
        }
    }

    /// The application gives the id of a person who left to somebody else.
    fn newcomer(self, society: &mut Society, person: i64, is_registered: bool) {
        society.sql(&self.row("people", &format!("{}, 'newcomer'", self.id(person))));
        if is_registered {
            drop(society.register_newcomer(person));
        }
    }

    pub(super) fn newcomer_goes(self, society: &mut Society, person: i64, is_registered: bool) {
        let id = self.id(person);
        society.sql(&format!("DELETE FROM people WHERE id = {id}"));
        if is_registered {
            society.unregister(person);
        }
    }
}

pub(super) fn reasons(revealed: &Revealed) -> Vec<KeptReason> {
    revealed.kept.iter().map(|it| it.reason).collect()
}

/// The number of posts that name an editor.
fn edited(society: &mut Society) -> i64 {
    let sql = "SELECT COUNT(*) FROM posts WHERE editor IS NOT NULL";
    society.numbers(sql)[0]
}

/// A removed row had its reader by id alone. Whoever got the id while the reader was away became the reader of the row when its owner
/// came back, at once or with a second reveal.
pub(crate) fn a_newcomer_with_the_id_of_a_reader_does_not_read_the_row() {
    let mut sample = Sample::new();
    let all = [false, true];
    let cases = FORMS.into_iter().flat_map(|form| {
        let later = all.into_iter();
        later.flat_map(move |later| all.map(|is_registered| (form, later, is_registered)))
    });
    for (form, is_later, is_registered) in cases {
        for (everybody, chunk) in [
            (false, None),
            (false, Some(1)),
            (true, None),
            (true, Some(1)),
        ] {
            if sample.passes_over() {
                continue;
            }
            let what = format!("{form:?} {is_later} {is_registered} {everybody} {chunk:?}");
            let mut society = form.society(&format!("{POSTS}{REMOVED}"));
            let mut leave = |person: i64| -> DisguiseId {
                let whom = (!everybody).then_some(person);
                society.try_to_leave(whom, false, chunk).unwrap().id
            };
            let owner = leave(2);
            let reader = if everybody { owner } else { leave(1) };
            if is_later {
                let kept = reasons(&society.reveal(2, owner));
                assert_eq!(kept, [KeptReason::OwnerMissing], "{what}");
                assert_eq!(edited(&mut society), 0, "{what}");
            }
            form.newcomer(&mut society, 1, is_registered);
            for _ in 0..2 {
                let revealed = society.reveal(2, owner);
                assert_eq!(edited(&mut society), 0, "{what}: {revealed:?}");
                let posts = society.numbers("SELECT COUNT(*) FROM posts");
                assert_eq!(posts, [1], "{what}: {revealed:?}");
            }
            let kept = reasons(&society.reveal(2, owner));
            assert_eq!(kept, [KeptReason::OwnerReplaced], "{what}");
            form.newcomer_goes(&mut society, 1, is_registered);
            society.reveal(1, reader);
            let revealed = society.reveal(2, owner);
            assert!(revealed.is_complete(), "{what}: {revealed:?}");
            society.assert_as_before(&what);
        }
    }
}

/// A reader who changes the key, at home or away, once or more often, stays the reader.
pub(crate) fn a_reader_with_a_new_key_still_reads_the_row() {
    let mut sample = Sample::new();
    for form in FORMS {
        for changes in 1..=2 {
            let mut society = form.society(&format!("{POSTS}{REMOVED}"));
            let owner = society.leave(2);
            (0..changes).for_each(|_| society.rekey(1));
            let revealed = society.reveal(2, owner);
            assert!(revealed.is_complete(), "{form:?} {changes}: {revealed:?}");
            society.assert_as_before(&format!("{form:?} {changes}"));
        }
        for (home, away) in [(1, 0), (0, 1), (1, 1), (2, 0), (0, 2)] {
            if sample.passes_over() {
                continue;
            }
            let what = format!("{form:?} {home} {away}");
            let mut society = form.society(&format!("{POSTS}{REMOVED}"));
            let owner = society.leave(2);
            (0..home).for_each(|_| society.rekey(1));
            let reader = society.leave(1);
            (0..away).for_each(|_| society.rekey(1));
            let kept = reasons(&society.reveal(2, owner));
            assert_eq!(kept, [KeptReason::OwnerMissing], "{what}");
            assert_eq!(edited(&mut society), 0, "{what}");
            society.rekey(2);
            society.reveal(1, reader);
            society.rekey(1);
            let revealed = society.reveal(2, owner);
            assert!(revealed.is_complete(), "{what}: {revealed:?}");
            society.assert_as_before(&what);
        }
    }
}

/// A placeholder of a reader is known by its key, too, which follows that of its person.
pub(crate) fn a_placeholder_of_a_reader_is_known_by_its_key() {
    let mut sample = Sample::new();
    for form in FORMS {
        for changes in 0..=2 {
            for (is_replaced, is_forgotten) in [(false, false), (true, false), (false, true)] {
                if sample.passes_over() {
                    continue;
                }
                let what = format!("{form:?} {changes} {is_replaced} {is_forgotten}");
                let mut society = form.society(&format!(
                    "{POSTS}[[decorrelate]]\ntable = \"posts\"\nowners = [\"editor\"]\n"
                ));
                let reader = society.leave(1);
                society.spec = SpecFile::parse(&form.described(&format!("{POSTS}{REMOVED}")))
                    .unwrap()
                    .spec;
                let owner = society.leave(2);
                (0..changes).for_each(|_| society.rekey(1));
                if is_forgotten {
                    society.forget_everything(1);
                }
                if is_replaced {
                    // The application gives the id of the placeholder to somebody else, who does not register.
                    society.sql("DELETE FROM probity_principals WHERE standing = 1");
                    society.reveal(2, owner);
                    assert_eq!(edited(&mut society), 0, "{what}");
                    continue;
                }
                let revealed = society.reveal(2, owner);
                assert!(revealed.is_complete(), "{what}: {revealed:?}");
                assert_eq!(edited(&mut society), 1, "{what}");
                if is_forgotten {
                    continue;
                }
                let revealed = society.reveal(1, reader);
                assert!(revealed.is_complete(), "{what}: {revealed:?}");
                society.assert_as_before(&what);
            }
        }
    }
}

/// A row that went whole with one of its two people came back to whoever had the id of the other by then.
pub(crate) fn a_row_of_two_does_not_come_back_to_a_newcomer() {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE follows (follower BIGINT, followee BIGINT, PRIMARY KEY (follower, followee))",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO follows VALUES (2, 1)",
    ]
    .map(str::to_owned);
    let described = description(
        "[tables.follows]\nowners = [\"follower\", \"followee\"]\n\
         on_leave = { follower = \"remove\", followee = \"remove\" }\n",
    );
    for is_registered in [false, true] {
        for changes in 0..=1 {
            let mut society = Society::of(&statements, &described, &[1, 2]);
            let one = society.leave(2);
            let other = society.leave(1);
            Form::Numbers.newcomer(&mut society, 1, is_registered);
            let kept = reasons(&society.reveal(2, one));
            assert_eq!(kept, [KeptReason::OwnerReplaced]);
            let follows = society.numbers("SELECT COUNT(*) FROM follows");
            assert_eq!(follows, [0]);
            Form::Numbers.newcomer_goes(&mut society, 1, is_registered);
            (0..changes).for_each(|_| society.rekey(1));
            society.reveal(1, other);
            let revealed = society.reveal(2, one);
            assert!(revealed.is_complete(), "{revealed:?}");
            society.assert_as_before(&format!("{is_registered} {changes}"));
        }
    }
}

/// A row of several owners comes back from a copy, which names readers and placeholders of the others.
pub(crate) fn a_shared_row_does_not_come_back_to_a_newcomer() {
    let mut sample = Sample::new();
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT, proof BIGINT)",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        "INSERT INTO notes VALUES (1, 1, 2, 3), (2, 2, 1, 3)",
    ]
    .map(str::to_owned);
    let described = description(
        "[tables.notes]\nowners = [\"one\", \"two\"]\nreaders = [\"proof\"]\n\
         [[remove]]\ntable = \"notes\"\n",
    );
    for returning in [[1, 2], [2, 1]] {
        for changes in 0..=2 {
            if sample.passes_over() {
                continue;
            }
            let what = format!("{returning:?} {changes}");
            let mut society = Society::of(&statements, &described, &[1, 2, 3]);
            let gone = [1, 2, 3].map(|user| (user, society.leave(user)));
            Form::Numbers.newcomer(&mut society, 3, true);
            for user in 1..changes {
                society.rekey(user);
            }
            for user in returning {
                let (_, id) = gone[usize::try_from(user - 1).unwrap()];
                society.reveal(user, id);
                let read = "SELECT COUNT(*) FROM notes WHERE proof IS NOT NULL";
                assert_eq!(society.numbers(read), [0], "{what}");
                let all = society.numbers("SELECT COUNT(*) FROM notes");
                assert_eq!(all, [2], "{what}");
            }
            Form::Numbers.newcomer_goes(&mut society, 3, true);
            if changes > 0 {
                society.rekey(3);
            }
            society.reveal(3, gone[2].1);
            society.try_again(&gone.into());
            society.assert_as_before(&what);
        }
    }
}

/// One id may mean two people in the records of one person: that of a row, and later that of a copy.
pub(crate) fn one_id_may_mean_two_people_in_the_records_of_one() {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT, proof BIGINT)",
        "CREATE TABLE drafts (id BIGINT PRIMARY KEY, author BIGINT, proof BIGINT)",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        "INSERT INTO notes VALUES (1, 1, 2, 3)",
        "INSERT INTO drafts VALUES (1, 1, 3)",
    ]
    .map(str::to_owned);
    let described = description(
        "[tables.notes]\nowners = [\"one\", \"two\"]\nreaders = [\"proof\"]\n\
         [tables.drafts]\nowners = [\"author\"]\nreaders = [\"proof\"]\n\
         [[remove]]\ntable = \"notes\"\n[[remove]]\ntable = \"drafts\"\n",
    );
    let mut society = Society::of(&statements, &described, &[1, 2, 3]);
    let one = society.leave(1);
    let three = society.leave(3);
    Form::Numbers.newcomer(&mut society, 3, true);
    society.sql("UPDATE notes SET proof = 3");
    let two = society.leave(2);
    Form::Numbers.newcomer_goes(&mut society, 3, true);
    society.reveal(3, three);
    for (user, id) in [(1, one), (2, two), (1, one), (1, two)] {
        society.reveal(user, id);
        assert_eq!(society.numbers("SELECT proof FROM drafts"), [3]);
        assert_eq!(society.numbers("SELECT proof FROM notes"), [-1]);
    }
}

/// As for a row, where a value that names a reader was overwritten: it went back whoever had the id by then, and to nobody, for
/// whoever got the id later.
pub(crate) fn a_value_that_names_a_reader_waits_for_them() {
    let mut sample = Sample::new();
    let hidden = "[[modify]]\ntable = \"posts\"\ncolumn = \"editor\"\nvalue = \"Null\"\n";
    for form in FORMS {
        for is_there in [false, true] {
            if sample.passes_over() {
                continue;
            }
            let what = format!("{form:?} {is_there}");
            let mut society = form.society(POSTS);
            let without_account = form.described(&format!("{POSTS}{hidden}"));
            let (without_account, _) = without_account.rsplit_once("[[remove]]").unwrap();
            let leaving = std::mem::replace(
                &mut society.spec,
                SpecFile::parse(without_account).unwrap().spec,
            );
            let value = society.leave(2);
            society.spec = leaving;
            let reader = society.leave(1);
            if is_there {
                form.newcomer(&mut society, 1, true);
            }
            let kept = reasons(&society.reveal(2, value));
            let reason = if is_there {
                KeptReason::OwnerReplaced
            } else {
                KeptReason::OwnerMissing
            };
            assert_eq!(kept, [reason], "{what}");
            assert_eq!(edited(&mut society), 0, "{what}");
            if is_there {
                form.newcomer_goes(&mut society, 1, true);
            }
            society.reveal(1, reader);
            society.rekey(1);
            let revealed = society.reveal(2, value);
            assert!(revealed.is_complete(), "{what}: {revealed:?}");
            society.assert_as_before(&what);
        }
    }
}

/// The value of an older disguise moves into the record of a newer one, and with it whom it names.
pub(crate) fn a_reader_is_known_in_whatever_record_their_name_moved_to() {
    let hidden = |value: &str| {
        let step =
            format!("{POSTS}[[modify]]\ntable = \"posts\"\ncolumn = \"editor\"\nvalue = {value}\n");
        let described = description(&step);
        let (described, _) = described.rsplit_once("[[remove]]").unwrap();
        SpecFile::parse(described).unwrap().spec
    };
    for is_there in [false, true] {
        let mut society = Form::Numbers.society(POSTS);
        let leaving = std::mem::replace(&mut society.spec, hidden("{ ConstNum = 2 }"));
        let older = society.leave(2);
        society.spec = hidden("\"Null\"");
        let newer = society.leave(2);
        society.spec = leaving;
        let reader = society.leave(1);
        if is_there {
            Form::Numbers.newcomer(&mut society, 1, true);
        }
        society.reveal(2, older);
        let kept = reasons(&society.reveal(2, newer));
        let reason = if is_there {
            KeptReason::OwnerReplaced
        } else {
            KeptReason::OwnerMissing
        };
        assert_eq!(kept, [reason]);
        assert_eq!(edited(&mut society), 0);
        if is_there {
            Form::Numbers.newcomer_goes(&mut society, 1, true);
        }
        society.reveal(1, reader);
        let revealed = society.reveal(2, newer);
        assert!(revealed.is_complete(), "{revealed:?}");
        society.assert_as_before(&format!("{is_there}"));
    }
}

/// A reader who was never registered is known by the id alone, as everybody is in records of programs before.
pub(crate) fn a_reader_without_a_key_is_known_by_the_id() {
    for form in FORMS {
        let mut society = form.society(&format!("{POSTS}{REMOVED}"));
        let id = form.id(3);
        society.sql(&form.row("people", &format!("{id}, 'three'")));
        society.sql(&format!("UPDATE posts SET editor = {id}"));
        society.before = society.everything();
        let owner = society.leave(2);
        drop(society.register_newcomer(3));
        let revealed = society.reveal(2, owner);
        assert!(revealed.is_complete(), "{form:?}: {revealed:?}");
        assert_eq!(society.everything(), society.before, "{form:?}");
    }
}
