//! Legal holds: what they keep from happening, and what they do not.

use std::collections::BTreeMap;

use probity_disguise::{
    ApplyRequest, Authority, Credential, Database, Engine, Error, HoldId, Holding, Protection,
    SecretKey, SpecFile, Value,
};
use probity_format::Timestamp;

use super::forum::*;
use super::member::Member;

fn authority<'a>() -> Authority<'a> {
    Authority {
        actor: "legal office",
        basis: "file 12/2026",
        time: time(),
    }
}

/// Holds a person who has an account.
fn hold_of(engine: &mut Engine<Box<dyn Database>>, person: &Value) -> Result<HoldId, Error> {
    engine.holds().place(Holding::Person(person), &authority())
}

/// Lifts a hold.
fn lift_of(engine: &mut Engine<Box<dyn Database>>, hold: HoldId) -> Result<(), Error> {
    engine.holds().lift(hold, &authority())
}

fn is_held<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Held { .. }))
}

pub(crate) fn whoever_is_held_is_neither_hidden_nor_forgotten_until_it_is_lifted() {
    let mut forum = forum();
    let anon = forum.apply(GROUPED, Some(1), false).unwrap();
    let before = forum.everything();
    let user = Value::Int(1);
    let holds = [(); 2].map(|()| {
        let placed = hold_of(&mut forum.engine, &user);
        placed.unwrap()
    });
    let key = SecretKey::from_bytes(*forum.keys[&1].expose());
    for hold in holds {
        assert!(is_held(&forum.apply(GDPR, Some(1), false)));
        assert!(is_held(&forum.apply(REMOVE_ALL, None, false)));
        let credential = Credential::Key(&key);
        assert!(is_held(&forum.engine.forget(
            &user,
            &credential,
            anon.id,
            time()
        )));
        assert!(is_held(&forum.engine.forget_everything(
            &user,
            &credential,
            time()
        )));
        // Under another name the key is not the one of that person.
        for other in [2, 99] {
            let outcome = forum
                .engine
                .forget(&Value::Int(other), &credential, anon.id, time());
            assert!(matches!(outcome, Err(Error::WrongCredential)));
        }
        assert_eq!(forum.everything(), before);
        lift_of(&mut forum.engine, hold).unwrap();
    }
    // Others were never concerned.
    let other = forum.apply(GDPR, Some(2), false).unwrap();
    assert!(forum.reveal(2, other.id).is_complete());
    let gdpr = forum.apply(GDPR, Some(1), false).unwrap();
    let placed = forum
        .engine
        .holds()
        .place(Holding::Away(&user), &authority());
    placed.unwrap();
    // A reveal brings back what was there: nothing is destroyed by it.
    assert!(forum.reveal(1, gdpr.id).is_complete());
    assert!(forum.reveal(1, anon.id).is_complete());
    forum.assert_as_before();
}

/// V9: a hold on an id that nobody has was accepted and held nothing, so that its person was hidden and forgotten all the same. It
/// takes the row in the users table, or the word that the person is away.
pub(crate) fn a_hold_on_nobody_is_refused() {
    let mut forum = forum();
    let (nobody, there) = (Value::Int(77), Value::Int(1));
    let refused = hold_of(&mut forum.engine, &nobody);
    assert!(matches!(refused, Err(Error::NoSuchUser { .. })));
    let refused = forum
        .engine
        .holds()
        .place(Holding::Away(&there), &authority());
    assert!(matches!(refused, Err(Error::Value { .. })));
    assert!(forum.engine.holds().list(None).unwrap().is_empty());
    let gdpr = forum.apply(GDPR, Some(1), false).unwrap();
    let refused = hold_of(&mut forum.engine, &there);
    assert!(matches!(refused, Err(Error::NoSuchUser { .. })));
    let hold = forum
        .engine
        .holds()
        .place(Holding::Away(&there), &authority());
    let listed = forum
        .engine
        .holds()
        .list(Some(Holding::Person(&there)))
        .unwrap();
    assert_eq!(listed[0].id, hold.unwrap());
    let key = SecretKey::from_bytes(*forum.keys[&1].expose());
    let credential = Credential::Key(&key);
    let forgotten = forum.engine.forget(&there, &credential, gdpr.id, time());
    assert!(is_held(&forgotten));
}

pub(crate) fn whoever_is_held_while_away_cannot_be_forgotten_under_another_name() {
    let mut forum = forum();
    let gdpr = forum.apply(GDPR, Some(1), false).unwrap();
    let user = Value::Int(1);
    let hold = forum
        .engine
        .holds()
        .place(Holding::Away(&user), &authority());
    let key = SecretKey::from_bytes(*forum.keys[&1].expose());
    for name in [user.clone(), Value::Int(2), Value::Int(99), Value::Null] {
        let credential = Credential::Key(&key);
        let outcome = forum.engine.forget(&name, &credential, gdpr.id, time());
        assert!(matches!(
            outcome,
            Err(Error::Held { .. } | Error::WrongCredential)
        ));
        let outcome = forum.engine.forget_everything(&name, &credential, time());
        assert!(matches!(
            outcome,
            Err(Error::Held { .. } | Error::WrongCredential)
        ));
    }
    lift_of(&mut forum.engine, hold.unwrap()).unwrap();
    let credential = Credential::Key(&key);
    forum
        .engine
        .forget(&user, &credential, gdpr.id, time())
        .unwrap();
}

pub(crate) fn a_held_disguise_is_not_forgotten_and_its_holds_are_listed() {
    let mut forum = forum();
    let held = forum.apply(GDPR, Some(1), false).unwrap();
    let free = forum.apply(BLANK, Some(2), false).unwrap();
    let what = Holding::Disguise(held.id);
    let hold = forum.engine.holds().place(what, &authority()).unwrap();
    for (user, id, refused) in [(1, held.id, true), (2, free.id, false)] {
        let key = SecretKey::from_bytes(*forum.keys[&user].expose());
        let (user, key) = (Value::Int(user), Credential::Key(&key));
        let outcome = forum.engine.forget(&user, &key, id, time());
        assert_eq!(is_held(&outcome), refused);
    }
    let key = SecretKey::from_bytes(*forum.keys[&1].expose());
    let (user, key) = (Value::Int(1), Credential::Key(&key));
    assert!(is_held(&forum.engine.forget_everything(
        &user,
        &key,
        time()
    )));
    let listed = forum.engine.holds().list(Some(what)).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id, hold);
    assert_eq!(listed[0].actor, "legal office");
    assert_eq!(listed[0].basis, "file 12/2026");
    assert!(
        forum
            .engine
            .holds()
            .list(Some(Holding::Person(&user)))
            .unwrap()
            .is_empty()
    );
    assert_eq!(forum.engine.holds().list(None).unwrap(), listed);
    for (actor, basis) in [("", "x"), ("x", ""), ("x\n", "x"), ("x", &*"x".repeat(300))] {
        let authority = Authority {
            actor,
            basis,
            time: time(),
        };
        let refused = forum.engine.holds().place(what, &authority);
        assert!(matches!(refused, Err(Error::Value { .. })));
    }
    lift_of(&mut forum.engine, hold).unwrap();
    forum.engine.forget(&user, &key, held.id, time()).unwrap();
}

const HEAD: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000 } }, name = { RandStr = { len = 12 } } }
"#;

const TABLES: [&str; 4] = ["people", "notes", "follows", "posts"];

/// Requests of Dan whose rows name Ann or are hers, too.
const AT_STAKE: [&str; 6] = [
    "[tables.notes]\nowners = [\"author\", \"co\"]\non_leave = { author = \"remove\", co = \"remove\" }\n[[remove]]\ntable = \"notes\"\n",
    "[tables.follows]\nowners = [\"a\", \"b\"]\non_leave = { a = \"remove\", b = \"remove\" }\n[[remove]]\ntable = \"follows\"\n",
    "[tables.posts]\nowners = [\"author\"]\nreaders = [\"editor\"]\n[[remove]]\ntable = \"posts\"\n",
    "[tables.posts]\nowners = [\"editor\"]\nreaders = [\"author\"]\non_leave = { author = \"null\" }\n[[remove]]\ntable = \"posts\"\n",
    "[tables.notes]\nowners = [\"author\", \"co\"]\n[[modify]]\ntable = \"notes\"\ncolumn = \"text\"\nvalue = { ConstStr = \"-\" }\n",
    "[tables.people]\non_leave = { invited_by = \"null\" }\n[tables.notes]\nowners = [\"author\", \"co\"]\n[[remove]]\ntable = \"notes\"\n[[remove]]\ntable = \"follows\"\n[[remove]]\ntable = \"posts\"\n[[remove]]\ntable = \"people\"\n",
];

/// A hold on a person did not stand in the way of whoever owned a row with them: the row went with the other, and for good when the
/// other forgot. Whoever owns a row that goes, or that loses a value, is asked for, and of one that goes whoever reads it.
pub(crate) fn a_hold_keeps_what_others_would_take_along() {
    for asked in AT_STAKE {
        let mut dan = at_stake(asked);
        let ann = Value::Int(1);
        let before = dan.rows(TABLES);
        let hold = hold_of(&mut dan.engine, &ann);
        assert!(is_held(&dan.try_to_leave()), "{asked}");
        assert!(is_foreseen(&mut dan, asked), "{asked}");
        assert_eq!(dan.rows(TABLES), before);
        lift_of(&mut dan.engine, hold.unwrap()).unwrap();
        assert!(!is_foreseen(&mut dan, asked), "{asked}");
        let gone = dan.leave();
        assert_ne!(dan.rows(TABLES), before);
        assert!(dan.return_from(&gone).is_complete());
        assert_eq!(dan.rows(TABLES), before);
    }
}

/// Dan, and Ann whose rows he shares.
fn at_stake(asked: &str) -> Member {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40), invited_by BIGINT REFERENCES people(id))",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id), co BIGINT REFERENCES people(id), text VARCHAR(40))",
        "CREATE TABLE follows (a BIGINT REFERENCES people(id), b BIGINT REFERENCES people(id), PRIMARY KEY (a, b))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id), editor BIGINT REFERENCES people(id))",
        "INSERT INTO people VALUES (4, 'Dan', NULL)",
        "INSERT INTO people VALUES (1, 'Ann', 4)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mut dan = Member::called(Value::Int(4), database, &format!("{HEAD}{asked}"));
    let ann = Value::Int(1);
    let own = asked.contains("invited_by");
    if !own {
        dan.sql(&[
            "INSERT INTO notes VALUES (7, 1, 4, 'of both')",
            "INSERT INTO follows VALUES (4, 1)",
            "INSERT INTO posts VALUES (8, 4, 1)",
        ]);
    }
    dan.engine
        .people()
        .register(&ann, Protection::KeyAlone, time())
        .unwrap();
    dan
}

/// Returns whether a plan, a schedule and the beginning of a disguise in chunks refuse Dan because
/// of somebody held. Everything begun and scheduled is cancelled.
fn is_foreseen(dan: &mut Member, asked: &str) -> bool {
    let spec = SpecFile::parse(&format!("{HEAD}{asked}")).unwrap().spec;
    let user = Value::Int(4);
    let request = ApplyRequest {
        spec: &spec,
        user: Some(user.clone()),
        over: None,
        expires: None,
        parameters: BTreeMap::new(),
        time: time(),
    };
    let told = dan
        .engine
        .preview()
        .foretell(&spec, Some(&user), &BTreeMap::new());
    let told = told.unwrap().iter().any(|it| it.contains("legal hold"));
    let scheduled = dan.engine.schedule().add(&request, time());
    let is_scheduled_held = is_held(&scheduled);
    if let Ok(id) = scheduled {
        dan.engine.schedule().cancel(id, time()).unwrap();
    }
    let begun = dan.engine.chunks().begin(&request);
    assert_eq!([is_scheduled_held, is_held(&begun)], [told; 2], "{asked}");
    if let Ok(id) = begun {
        dan.engine.schedule().cancel(id, time()).unwrap();
    }
    told
}

/// Requests of Dan that are allowed although Ann is held.
const NOT_AT_STAKE: [&str; 4] = [
    "[tables.notes]\nowners = [\"author\", \"co\"]\n[[remove]]\ntable = \"notes\"\n",
    "[tables.notes]\nowners = [\"author\", \"co\"]\n[[decorrelate]]\ntable = \"notes\"\nowners = [\"co\"]\n",
    "[tables.posts]\nowners = [\"author\"]\nreaders = [\"editor\"]\n[[remove]]\ntable = \"posts\"\n",
    "[[modify]]\ntable = \"people\"\ncolumn = \"name\"\nvalue = { ConstStr = \"-\" }\n",
];

/// A hold on somebody else whose row would go was met in the middle of chunks, after others had gone, and neither a plan nor a
/// schedule told of it. It is looked for before anything begins, and whatever one go allows may begin.
pub(crate) fn a_hold_on_somebody_else_is_found_before_anything_begins() {
    for asked in NOT_AT_STAKE {
        let mut dan = dan_and_ann(asked);
        let hold = dan
            .engine
            .holds()
            .place(Holding::Person(&Value::Int(1)), &authority());
        assert!(!is_foreseen(&mut dan, asked), "{asked}");
        dan.leave();
        lift_of(&mut dan.engine, hold.unwrap()).unwrap();
    }
    // The last owner of a row would take it from whoever reads it.
    let asked = "[tables.notes]\nowners = [\"author\", \"co\"]\nreaders = [\"editor\"]\n[[remove]]\ntable = \"notes\"\n";
    let mut dan = dan_and_ann(asked);
    dan.sql(&["UPDATE notes SET author = 5, editor = 1"]);
    let hold = dan
        .engine
        .holds()
        .place(Holding::Person(&Value::Int(1)), &authority());
    assert!(!is_foreseen(&mut dan, asked));
    let eve = dan.apply(Some(Value::Int(5))).unwrap();
    assert_eq!(eve.rows["notes"], 1);
    let before = dan.rows(["people", "notes"]);
    assert!(is_held(&dan.try_to_leave()));
    assert!(is_foreseen(&mut dan, asked));
    assert_eq!(dan.rows(["people", "notes"]), before);
    lift_of(&mut dan.engine, hold.unwrap()).unwrap();
    dan.leave();
}

/// Dan, with a note of Ann and Dan, and a post of Ann that Dan edits.
fn dan_and_ann(asked: &str) -> Member {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40))",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id), co BIGINT REFERENCES people(id), editor BIGINT REFERENCES people(id), text VARCHAR(40))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id), editor BIGINT REFERENCES people(id))",
        "INSERT INTO people VALUES (1, 'Ann'), (4, 'Dan'), (5, 'Eve')",
        "INSERT INTO notes VALUES (7, 1, 4, NULL, 'of both')",
        "INSERT INTO posts VALUES (8, 1, 4)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mut dan = Member::called(Value::Int(4), database, &format!("{HEAD}{asked}"));
    for other in [1, 5] {
        let other = Value::Int(other);
        let registered = dan
            .engine
            .people()
            .register(&other, Protection::KeyAlone, time());
        registered.unwrap();
    }
    dan
}

/// A hold did not bind what a co-owner had already: whoever had taken a row along had it destroyed, with the row of whoever was
/// held, and so did a sweep once the disguise had ended. Whoever forgets is asked whose rows are in the records, a sweep looks at a
/// byte for each of these people, and what is kept so can be read.
pub(crate) fn a_hold_keeps_what_a_co_owner_took_along_before() {
    let days = |days: i64| {
        let day = 86_400_000_000_000;
        Timestamp::from_nanoseconds(time().nanoseconds() + days * day).unwrap()
    };
    let ann = Value::Int(1);
    for asked in AT_STAKE {
        let mut dan = at_stake(asked);
        let before = dan.rows(TABLES);
        let gone = dan.leave_until(days(30));
        for has_new_key in [false, true] {
            if has_new_key {
                dan.rekey();
            }
            let hold = hold_of(&mut dan.engine, &ann);
            assert!(is_held(&dan.forget(Some(gone.id))), "{asked}");
            assert!(is_held(&dan.forget(None)), "{asked}");
            let swept = dan.engine.schedule().sweep(days(31)).unwrap();
            assert!(swept.records == 0 && swept.held > 0, "{asked}: {swept:?}");
            assert!(dan.exported(gone.id, days(31)).unwrap() > 0, "{asked}");
            lift_of(&mut dan.engine, hold.unwrap()).unwrap();
        }
        let hold = hold_of(&mut dan.engine, &ann);
        let revealed = dan.return_at(gone.id, days(31)).unwrap();
        assert!(revealed.is_complete(), "{asked}: {revealed:?}");
        assert_eq!(dan.rows(TABLES), before, "{asked}");
        lift_of(&mut dan.engine, hold.unwrap()).unwrap();

        // Once it is lifted, both are as ever.
        let gone = dan.leave_until(days(30));
        assert!(
            dan.engine.schedule().sweep(days(31)).unwrap().records > 0,
            "{asked}"
        );
        let nothing = dan.return_at(gone.id, days(31));
        assert!(nothing.is_err() || !nothing.unwrap().found, "{asked}");
    }
    // Of very many people no byte stands beside the record: a hold on anybody keeps it from ending.
    let mut dan = at_stake(AT_STAKE[1]);
    for other in 100..164 {
        let [person, follows] = [
            format!("INSERT INTO people VALUES ({other}, 'somebody', NULL)"),
            format!("INSERT INTO follows VALUES (4, {other})"),
        ];
        dan.sql(&[&person, &follows]);
    }
    dan.sql(&["INSERT INTO people VALUES (200, 'Eve', NULL)"]);
    dan.leave_until(days(30));
    let eve = Value::Int(200);
    let hold = hold_of(&mut dan.engine, &eve);
    let swept = dan.engine.schedule().sweep(days(31)).unwrap();
    assert!(swept.records == 0 && swept.held > 0, "{swept:?}");
    lift_of(&mut dan.engine, hold.unwrap()).unwrap();
    assert!(dan.engine.schedule().sweep(days(31)).unwrap().records > 0);

    for asked in NOT_AT_STAKE {
        let mut dan = dan_and_ann(asked);
        let gone = dan.leave();
        let hold = hold_of(&mut dan.engine, &ann);
        dan.forget(Some(gone.id)).unwrap();
        hold.unwrap();
    }
}

/// C7: a record of a table or an owner column that has another name since, or of a row that has another key, concerned nobody, so that
/// what was left of a held person's row was destroyed. Where it cannot be told whom a record concerns, any hold on a person counts.
pub(crate) fn a_hold_counts_where_it_cannot_be_told_whose_a_record_is() {
    let follows = "[[remove]]\ntable = \"follows\"\n";
    for (asked, since) in [
        (follows, "ALTER TABLE follows RENAME TO edges"),
        (follows, "ALTER TABLE follows RENAME COLUMN b TO target"),
        (AT_STAKE[4], "UPDATE notes SET id = 100"),
        (AT_STAKE[4], "DELETE FROM notes"),
    ] {
        let mut dan = at_stake(asked);
        let gone = dan.leave();
        dan.sql(&[since]);
        let hold = dan
            .engine
            .holds()
            .place(Holding::Person(&Value::Int(1)), &authority());
        assert!(is_held(&dan.forget(Some(gone.id))), "{since}");
        assert!(is_held(&dan.forget(None)), "{since}");
        lift_of(&mut dan.engine, hold.unwrap()).unwrap();
        dan.forget(Some(gone.id)).unwrap();
    }
}

/// Ann and Dan, each with a post, and an answer under each that Dan has approved.
fn through_others(asked: &str) -> Member {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id))",
        "CREATE TABLE answers (id BIGINT PRIMARY KEY, post BIGINT REFERENCES posts(id), approved_by BIGINT REFERENCES people(id), text VARCHAR(40))",
        "INSERT INTO people VALUES (1, 'Ann'), (4, 'Dan')",
        "INSERT INTO posts VALUES (10, 1), (40, 4)",
        "INSERT INTO answers VALUES (11, 10, 4, 'under Ann'), (41, 40, 4, 'under Dan')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let description = format!("{HEAD}{OWNED_THROUGH}{asked}");
    let mut dan = Member::called(Value::Int(4), database, &description);
    dan.engine
        .people()
        .register(&Value::Int(1), Protection::KeyAlone, time())
        .unwrap();
    dan
}

const OWNED_THROUGH: &str = "[tables.posts]\nowners = [\"author\"]\n[tables.answers]\nthrough = [\"post\"]\non_leave = { approved_by = \"null\" }\n";
const OVERWRITE_ANSWERS: &str =
    "[[modify]]\ntable = \"answers\"\ncolumn = \"text\"\nvalue = { ConstStr = \"-\" }\n";
const REMOVE_POSTS: &str = "[[remove]]\ntable = \"answers\"\n[[remove]]\ntable = \"posts\"\n";
const LEAVE: &str =
    "[[decorrelate]]\ntable = \"posts\"\nowners = [\"author\"]\n[[remove]]\ntable = \"people\"\n";

/// C7: whose a row is was asked of its own owner columns alone, so that a hold did not reach what belongs to somebody through another
/// row: values of it were emptied while its person was held, and what was left of them was forgotten. The path to the owner is
/// followed wherever a hold is asked for.
pub(crate) fn a_hold_reaches_rows_that_are_owned_through_others() {
    let days = |days: i64| {
        let day = 86_400_000_000_000;
        Timestamp::from_nanoseconds(time().nanoseconds() + days * day).unwrap()
    };
    let ann = Value::Int(1);
    let described = format!("{OWNED_THROUGH}{LEAVE}");
    let tables = ["people", "posts", "answers"];
    let mut dan = through_others(LEAVE);
    let before = dan.rows(tables);
    let hold = hold_of(&mut dan.engine, &ann);
    assert!(is_held(&dan.try_to_leave()));
    assert!(is_foreseen(&mut dan, &described));
    assert_eq!(dan.rows(tables), before);
    lift_of(&mut dan.engine, hold.unwrap()).unwrap();
    assert!(!is_foreseen(&mut dan, &described));
    let gone = dan.leave_until(days(30));
    let hold = hold_of(&mut dan.engine, &ann);
    assert!(is_held(&dan.forget(Some(gone.id))));
    let swept = dan.engine.schedule().sweep(days(31)).unwrap();
    assert!(swept.records == 0 && swept.held > 0, "{swept:?}");
    hold.unwrap();
    assert!(dan.return_at(gone.id, days(31)).unwrap().is_complete());
    assert_eq!(dan.rows(tables), before);

    // A row comes to its person by what it belongs to.
    let mut dan = through_others(OVERWRITE_ANSWERS);
    let gone = dan.leave();
    dan.sql(&["UPDATE posts SET author = 1 WHERE id = 40"]);
    let hold = hold_of(&mut dan.engine, &ann);
    assert!(is_held(&dan.forget(Some(gone.id))));
    lift_of(&mut dan.engine, hold.unwrap()).unwrap();
    dan.forget(Some(gone.id)).unwrap();
}

/// A hold on a person who is not registered did not count when everybody was disguised: the row that they own with somebody else was
/// overwritten, though a disguise of that person alone was refused.
pub(crate) fn a_hold_on_an_unregistered_co_owner_counts_for_everybody() {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE people (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, one BIGINT, other BIGINT, what VARCHAR(20))",
        "INSERT INTO people VALUES (1), (2)",
        "INSERT INTO notes VALUES (1, 1, 2, 'theirs')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let description = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 2000000000 } } }
[tables.notes]
owners = ["one", "other"]
[[modify]]
table = "notes"
column = "what"
value = { ConstStr = "-" }
"#;
    let mut member = Member::of(database, description);
    let before = member.rows(["notes"]);
    let held = member
        .engine
        .holds()
        .place(Holding::Person(&Value::Int(2)), &authority());
    assert!(is_held(&member.try_to_leave()));
    assert!(is_held(&member.try_all_to_leave()));
    assert_eq!(member.rows(["notes"]), before);
    lift_of(&mut member.engine, held.unwrap()).unwrap();
    member.all_leave();
    assert_ne!(member.rows(["notes"]), before);
}

/// Not every row that is not there is in doubt: what a person removed of their own lies in their records, with whatever it belonged
/// to, and they may forget it while somebody else is held.
pub(crate) fn what_one_person_removed_of_their_own_is_forgotten_while_another_is_held() {
    let mut dan = through_others(OVERWRITE_ANSWERS);
    dan.sql(&["UPDATE answers SET approved_by = NULL WHERE id = 11"]);
    let overwritten = dan.leave();
    let mut dan = dan.again(&format!("{HEAD}{OWNED_THROUGH}{REMOVE_POSTS}"));
    let removed = dan.leave();
    let hold = dan
        .engine
        .holds()
        .place(Holding::Person(&Value::Int(1)), &authority());
    dan.forget(Some(overwritten.id)).unwrap();
    dan.forget(Some(removed.id)).unwrap();
    hold.unwrap();
}
