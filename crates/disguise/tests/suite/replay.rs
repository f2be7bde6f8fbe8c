//! After a backup was restored, what the log tells of is done again.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use probity_disguise::{
    Applied, ApplyRequest, Authority, Credential, DisguiseId, Error, Holding, LoggedOperation,
    MissingOperation, Protection, References, ReplayRequest, Replayability, SecretKey, Spec,
    SpecFile, Suite, Value,
};
use probity_format::Entry;

use super::forum::*;

/// Every table, parents first.
const TABLES: [&str; 21] = [
    "users",
    "stories",
    "moderations",
    "tags",
    "taggings",
    "probity_principals",
    "probity_locators",
    "probity_bags",
    "probity_forgotten",
    "probity_credentials",
    "probity_shared",
    "probity_holds",
    "probity_deadlines",
    "probity_fleeting",
    "probity_scheduled",
    "probity_decayed",
    "probity_operations",
    "probity_latest",
    "probity_intents",
    "probity_answers",
    "probity_successions",
];

/// The forum with a log, of which everything is remembered, and a backup.
pub(super) struct Station {
    pub(super) forum: Forum,
    pub(super) told: Rc<RefCell<Vec<LoggedOperation>>>,
    pub(super) texts: Rc<RefCell<Vec<String>>>,
    /// The most names of records that entries have from now on.
    names: Rc<Cell<usize>>,
    /// Entries of forgetting do not name the key from now on, as those of programs before did not.
    pub(super) keyless: Rc<Cell<bool>>,
    /// Entries do not say after which others they came from now on, as those of programs before did not.
    pub(super) unordered: Rc<Cell<bool>>,
    backup: Vec<Vec<Vec<Value>>>,
}

pub(super) fn station() -> Station {
    let mut station = Station {
        forum: forum(),
        told: Rc::default(),
        texts: Rc::default(),
        names: Rc::new(Cell::new(usize::MAX)),
        keyless: Rc::default(),
        unordered: Rc::default(),
        backup: Vec::new(),
    };
    station.tell_again();
    station.back_up();
    station
}

/// As if there had been more names than an entry holds.
fn cut_names(payload: &mut serde_json::Value, most: usize) {
    if let Some(names) = payload
        .get_mut("destroyed")
        .and_then(|it| it.as_array_mut())
        && names.len() > most
    {
        names.truncate(most);
        payload["destroyed_cut"] = true.into();
    }
}

impl Station {
    /// Lets the engine tell of its operations.
    pub(super) fn tell_again(&mut self) {
        let (seen, written) = (Rc::clone(&self.told), Rc::clone(&self.texts));
        let (named, is_keyless) = (Rc::clone(&self.names), Rc::clone(&self.keyless));
        let is_unordered = Rc::clone(&self.unordered);
        let sink = move |entry: &Entry<'_>| {
            let mut payload = serde_json::from_slice(entry.payload).unwrap_or_default();
            cut_names(&mut payload, named.get());
            if is_keyless.get()
                && entry.action == "disguise.forget"
                && let Some(facts) = payload.as_object_mut()
            {
                facts.remove("public_key");
            }
            if is_unordered.get()
                && let Some(facts) = payload.as_object_mut()
            {
                facts.remove("after");
            }
            let payload = payload.to_string();
            let entry = Entry {
                payload: payload.as_bytes(),
                ..*entry
            };
            seen.borrow_mut().extend(LoggedOperation::of(&entry));
            let payload = String::from_utf8(entry.payload.to_vec())?;
            let subjects: Vec<&str> = entry.subjects.iter().collect();
            written
                .borrow_mut()
                .push(format!("{} {subjects:?} {payload}", entry.action));
            Ok(())
        };
        self.forum.engine.set_sink(Box::new(sink));
    }

    pub(super) fn cut_names_to(&self, most: usize) {
        self.names.set(most);
    }

    pub(super) fn rows(&mut self, table: &str) -> Vec<Vec<Value>> {
        let sql = format!("SELECT * FROM {table}");
        self.forum.engine.database().query(&sql, &[]).unwrap()
    }

    pub(super) fn back_up(&mut self) {
        self.backup = self.state();
    }

    pub(super) fn restore(&mut self) {
        let backup = self.backup.clone();
        self.set_state(&backup);
    }

    /// The rows of every table.
    pub(super) fn state(&mut self) -> Vec<Vec<Vec<Value>>> {
        TABLES.iter().map(|table| self.rows(table)).collect()
    }

    pub(super) fn set_state(&mut self, state: &[Vec<Vec<Value>>]) {
        for table in TABLES.iter().rev() {
            self.forum.sql(&format!("DELETE FROM {table}"));
        }
        for (table, rows) in TABLES.iter().zip(state) {
            for row in rows {
                let marks = vec!["?"; row.len()].join(",");
                let sql = format!("INSERT INTO {table} VALUES ({marks})");
                self.forum.engine.database().execute(&sql, row).unwrap();
            }
        }
    }

    pub(super) fn replay(&mut self, specs: &[Spec], set: &[(&str, &str)]) -> Vec<MissingOperation> {
        self.replay_or_look(specs, set, true)
    }

    pub(super) fn replay_or_look(
        &mut self,
        specs: &[Spec],
        set: &[(&str, &str)],
        really: bool,
    ) -> Vec<MissingOperation> {
        let told = self.told.borrow().clone();
        let set = set
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        let request = ReplayRequest {
            told: &told,
            specs,
            parameters: set.collect(),
            time: time(),
        };
        let engine = &mut self.forum.engine;
        if really {
            engine.missed().replay(&request).unwrap()
        } else {
            engine.missed().list(&request).unwrap()
        }
    }

    pub(super) fn apply(&mut self, spec: &str, user: Option<i64>) -> Applied {
        self.forum.apply(spec, user, false).unwrap()
    }

    pub(super) fn forget(&mut self, user: i64, id: Option<DisguiseId>) {
        let credential = Credential::Key(&self.forum.keys[&user]);
        let (engine, user) = (&mut self.forum.engine, Value::Int(user));
        match id {
            Some(id) => engine.forget(&user, &credential, id, time()).unwrap(),
            None => engine
                .forget_everything(&user, &credential, time())
                .unwrap(),
        };
    }
}

pub(super) fn edna(text: &str) -> Spec {
    Spec::from_edna_json(text).unwrap()
}

pub(super) fn outlooks(missed: &[MissingOperation]) -> Vec<(&str, &Replayability)> {
    let all = missed.iter();
    all.map(|it| (it.action.as_str(), &it.outlook)).collect()
}

pub(super) fn why(missed: &MissingOperation) -> &str {
    match &missed.outlook {
        Replayability::Not(why) => why,
        _ => "",
    }
}

pub(crate) fn who_was_removed_since_the_backup_is_removed_again_and_can_return() {
    let mut station = station();
    let before = station.forum.everything();
    let gone = station.apply(GDPR, Some(1));
    let anonymous = station.apply(BLANK, None);
    let after = station.forum.everything();
    station.restore();
    assert_eq!(station.forum.everything(), before);
    let specs = [edna(BLANK), edna(GDPR)];
    let look = station.replay_or_look(&specs, &[], false);
    assert_eq!(
        outlooks(&look),
        [("disguise.apply", &Replayability::Possible); 2]
    );
    assert_eq!(look[0].key, gone.id.to_string());
    assert_eq!(station.forum.everything(), before);
    let done = station.replay(&specs, &[]);
    assert_eq!(
        outlooks(&done),
        [("disguise.apply", &Replayability::Done); 2]
    );
    assert_eq!(station.replay(&specs, &[]), []);
    let now = station.forum.everything();
    assert_eq!(now[0].len(), after[0].len());
    assert!(
        station
            .forum
            .numbers("SELECT id FROM users WHERE id = 1")
            .is_empty()
    );
    assert_eq!(
        station
            .forum
            .numbers("SELECT COUNT(*) FROM stories WHERE url IN ('url0', 'url1')"),
        [0]
    );
    // The handles are the ones that people know, and so are their keys.
    assert!(station.forum.reveal(1, gone.id).is_complete());
    for user in 1..=USERS {
        match station
            .forum
            .reveal_as(user, anonymous.id, References::Recorrelate)
        {
            Ok(revealed) => assert!(revealed.is_complete(), "{revealed:?}"),
            Err(error) => assert!(
                user == 1 && matches!(error, Error::NoSuchDisguise),
                "{error:?}"
            ),
        }
    }
    assert_eq!(station.forum.everything(), before);
    let texts = station.texts.borrow();
    let told = texts.iter().filter(|it| it.starts_with("disguise.replay"));
    assert_eq!(told.count(), 2);
    for text in texts.iter() {
        assert!(!text.contains("user1") && !text.contains("url0"), "{text}");
    }
}

pub(crate) fn a_second_restore_is_replayed_again_and_what_the_backup_knows_is_not() {
    let mut station = station();
    let first = station.apply(GDPR, Some(2));
    station.back_up();
    let second = station.apply(GDPR, Some(3));
    for _ in 0..2 {
        station.restore();
        let done = station.replay(&[edna(GDPR)], &[]);
        assert_eq!(done.len(), 1, "{done:?}");
        assert_eq!(
            (&done[0].key, &done[0].outlook),
            (&second.id.to_string(), &Replayability::Done)
        );
    }
    assert!(station.forum.reveal(3, second.id).is_complete());
    assert!(station.forum.reveal(2, first.id).is_complete());
    station.forum.assert_as_before();
}

pub(crate) fn what_was_forgotten_since_the_backup_is_forgotten_again() {
    let mut station = station();
    let early = station.apply(GDPR, Some(1));
    station.back_up();
    let late = station.apply(GDPR, Some(2));
    station.forget(1, Some(early.id));
    station.forget(2, None);
    station.restore();
    let credential = Credential::Key(&station.forum.keys[&1]);
    let listed = station
        .forum
        .engine
        .list(&Value::Int(1), &credential, time());
    assert_eq!(listed.unwrap().len(), 1, "the backup has it again");
    let done = station.replay(&[edna(GDPR)], &[]);
    let expected = [
        ("disguise.apply", &Replayability::Done),
        ("disguise.forget", &Replayability::Done),
        ("disguise.forget", &Replayability::Done),
    ];
    assert_eq!(outlooks(&done), expected);
    assert!(
        station
            .forum
            .numbers("SELECT id FROM users WHERE id IN (1, 2)")
            .is_empty()
    );
    for (user, id) in [(1, early.id), (2, late.id)] {
        let outcome = station.forum.reveal_as(user, id, References::Recorrelate);
        assert!(
            matches!(outcome, Err(Error::WrongCredential)),
            "{outcome:?}"
        );
    }
    for table in ["probity_locators", "probity_bags"] {
        let count = format!("SELECT COUNT(*) FROM {table}");
        assert_eq!(station.forum.numbers(&count), [0], "{table}");
    }
    // Passwords of those who forgot everything are gone with their key.
    let outcome = station.forum.engine.list(
        &Value::Int(2),
        &Credential::Password("secret words"),
        time(),
    );
    assert!(matches!(outcome, Err(Error::WrongCredential)));
}

pub(crate) fn what_cannot_be_replayed_is_named_with_its_reason() {
    let mut station = station();
    let removed = station.apply(GDPR, Some(1));
    station.back_up();
    assert!(station.forum.reveal(1, removed.id).is_complete());
    let key = Credential::Key(&station.forum.keys[&2]);
    let two = Value::Int(2);
    let new = station
        .forum
        .engine
        .people()
        .change_key(&two, &key, Protection::KeyAlone, time())
        .unwrap();
    station.forum.keys.insert(2, new.key);
    let over = station.forum.apply(BLANK, Some(2), true).unwrap();
    station.forget(2, Some(over.id));
    let named = "[parameters]\nwho = \"\"\n[[modify]]\ntable = \"stories\"\ncolumn = \"url\"\nvalue = { ConstStr = \"-\" }\nwhere = \"url = :who\"\n";
    let file = SpecFile::parse(named).unwrap();
    let request = ApplyRequest {
        spec: &file.spec,
        user: Some(Value::Int(3)),
        over: None,
        parameters: BTreeMap::from([("who".to_owned(), Value::from("url1"))]),
        expires: None,
        time: time(),
    };
    let parametric = station.forum.engine.apply(&request).unwrap();
    let unknown = station.apply(GROUPED, Some(4));
    station.restore();
    let specs = [edna(GDPR), edna(BLANK), file.spec.clone()];
    let missed = station.replay_or_look(&specs, &[("who", "url0")], false);
    for (found, (action, expected)) in missed.iter().zip([
        ("disguise.reveal", "credential: reveal it again"),
        (
            "disguise.key",
            "credential: rekey again with the one from before",
        ),
        ("disguise.apply", "credential: apply it again"),
        ("disguise.forget", "and not earlier, forget it again"),
        ("disguise.apply", "parameters are not given"),
        (
            "disguise.apply",
            "its specification is not given: the one with SHA-256",
        ),
    ]) {
        assert_eq!(found.action, action);
        assert!(why(found).contains(expected), "{found:?}");
    }
    assert_eq!(missed.len(), 6);
    // With what they need, two of them are done.
    let specs = [file.spec, edna(GROUPED)];
    let done = station.replay(&specs, &[("who", "url1")]);
    let done: Vec<&String> = done
        .iter()
        .filter(|it| it.outlook == Replayability::Done)
        .map(|it| &it.key)
        .collect();
    assert_eq!(done, [&parametric.id.to_string(), &unknown.id.to_string()]);
    assert_eq!(station.replay(&specs, &[("who", "url1")]).len(), 4);
    // What its person does again is not missing any more.
    assert!(station.forum.reveal(1, removed.id).is_complete());
    assert_eq!(station.replay(&specs, &[("who", "url1")]).len(), 3);
    assert!(station.forum.reveal(3, parametric.id).is_complete());
    assert!(station.forum.reveal(4, unknown.id).is_complete());
}

pub(crate) fn schedules_holds_and_registrations_are_replayed() {
    for suite in [Suite::X25519, Suite::XWing] {
        everything_is_replayed_with(suite);
    }
}

/// Registers a user and returns their key.
fn key_of(station: &mut Station, user: i64) -> SecretKey {
    let engine = &mut station.forum.engine;
    let made = engine
        .people()
        .register(&Value::Int(user), Protection::KeyAlone, time());
    made.unwrap().key
}

fn everything_is_replayed_with(suite: Suite) {
    let mut station = station();
    station.forum.engine.options().suite = Some(suite);
    station
        .forum
        .sql("INSERT INTO users VALUES (5, 'user5', 7)");
    station.back_up();
    assert_eq!(key_of(&mut station, 5).suite(), suite);
    let gone = station.apply(GDPR, Some(5));
    // Somebody comes to the id of a person who left.
    station.apply(GDPR, Some(3));
    station
        .forum
        .sql("INSERT INTO users VALUES (3, 'newcomer', 7)");
    let three = key_of(&mut station, 3);
    let authority = Authority {
        actor: "court",
        basis: "7 C 81/26",
        time: time(),
    };
    let engine = &mut station.forum.engine;
    let two = Value::Int(2);
    let held = engine
        .holds()
        .place(Holding::Person(&two), &authority)
        .unwrap();
    let lifted = engine
        .holds()
        .place(Holding::Disguise(gone.id), &authority)
        .unwrap();
    engine.holds().lift(lifted, &authority).unwrap();
    let spec = edna(GDPR);
    let request = ApplyRequest {
        spec: &spec,
        user: Some(Value::Int(4)),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    };
    let due = probity_format::Timestamp::from_nanoseconds(2_000_000_000_000_000_000).unwrap();
    let cancelled = engine.schedule().add(&request, due).unwrap();
    engine.schedule().cancel(cancelled, time()).unwrap();
    let waiting = engine.schedule().add(&request, due).unwrap();
    station.restore();
    let missed = station.replay(&[edna(GDPR)], &[]);
    let (left, done) = missed.split_at(2);
    assert!(why(&left[0]).contains("somebody else's row"), "{left:?}");
    assert!(why(&left[1]).contains("is not registered"), "{left:?}");
    assert!(
        done.iter().all(|it| it.outlook == Replayability::Done),
        "{done:?}"
    );
    assert_eq!(done.len(), 8);
    let credential = Credential::Key(&three);
    let engine = &mut station.forum.engine;
    engine.list(&Value::Int(3), &credential, time()).unwrap();
    let engine = &mut station.forum.engine;
    let scheduled = engine.schedule().list(None).unwrap();
    assert_eq!(scheduled.len(), 1);
    assert_eq!((scheduled[0].id, scheduled[0].due), (waiting, Some(due)));
    let holds = engine.holds().list(None).unwrap();
    assert_eq!(holds.len(), 1);
    assert_eq!((holds[0].id, holds[0].basis.as_str()), (held, "7 C 81/26"));
    let outcome = station.forum.apply(GDPR, Some(2), false);
    assert!(matches!(outcome, Err(Error::Held { .. })));
    // Who registered after the backup registers and leaves anew.
    let anew = key_of(&mut station, 5);
    station.forum.keys.insert(5, anew);
    let gone = station.apply(GDPR, Some(5));
    assert!(station.forum.reveal(5, gone.id).is_complete());
}

pub(crate) fn a_replay_cut_at_any_statement_is_finished_by_the_next() {
    let mut station = station();
    let ids: Vec<DisguiseId> = [1, 2, 3]
        .map(|user| station.apply(GDPR, Some(user)).id)
        .into();
    let specs = [edna(GDPR)];
    let mut cut = 3;
    station.restore();
    loop {
        let told = station.told.borrow().clone();
        let request = ReplayRequest {
            told: &told,
            specs: &specs,
            parameters: BTreeMap::new(),
            time: time(),
        };
        station.forum.left.set(cut);
        let outcome = station.forum.engine.missed().replay(&request);
        station.forum.left.set(u64::MAX);
        match outcome {
            Ok(_) => break,
            Err(error) => assert!(
                matches!(
                    error,
                    Error::Database { .. } | Error::Unsettled(_) | Error::NotInstalled
                ),
                "{error:?}"
            ),
        }
        cut += 7;
    }
    assert_eq!(station.replay(&specs, &[]), []);
    assert_eq!(
        station
            .forum
            .numbers("SELECT id FROM users WHERE id < 1000000"),
        [4]
    );
    for (user, id) in (1..).zip(ids) {
        station.forum.reveal(user, id);
    }
    station.forum.assert_as_before();
}

/// Whoever writes the database puts the records back of what was forgotten, and takes away what the database remembers of it.
/// The log says what was forgotten, so that a replay finds it and does it again.
pub(crate) fn what_was_forgotten_and_is_there_again_is_found_by_a_replay() {
    let mut station = station();
    let early = station.apply(GDPR, Some(1));
    let tables = ["probity_locators", "probity_bags"];
    let copies = tables.map(|table| station.rows(table));
    station.forget(1, Some(early.id));
    assert_eq!(station.replay(&[], &[]), []);
    station.forum.sql("DELETE FROM probity_forgotten");
    for (table, rows) in tables.iter().zip(copies) {
        for row in rows {
            let marks = vec!["?"; row.len()].join(",");
            let sql = format!("INSERT INTO {table} VALUES ({marks})");
            station.forum.engine.database().execute(&sql, &row).unwrap();
        }
    }
    let done = station.replay(&[], &[]);
    assert_eq!(outlooks(&done), [("disguise.forget", &Replayability::Done)]);
    assert_eq!(station.replay(&[], &[]), []);
    let outcome = station
        .forum
        .reveal_as(1, early.id, References::Recorrelate);
    assert!(
        matches!(outcome, Err(Error::WrongCredential)),
        "{outcome:?}"
    );
}
