//! A person takes away what is hidden of them, and nothing changes.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use probity_disguise::{
    Credential, DisguiseId, Error, Hidden, HiddenChange, Mapping, SecretKey, Value,
};
use probity_format::{Entry, Outcome};

use super::forum::*;

fn export(forum: &mut Forum, user: i64, id: Option<DisguiseId>) -> Vec<Hidden> {
    let credential = Credential::Key(&forum.keys[&user]);
    let hidden = forum
        .engine
        .export(&Value::Int(user), &credential, id, time());
    hidden.unwrap().hidden
}

/// Everything in the tables of the application and of the engine.
fn state(forum: &mut Forum) -> Vec<String> {
    let mut all: Vec<String> = forum.everything().into_iter().flatten().collect();
    for table in ["probity_bags", "probity_locators", "probity_shared"] {
        let sql = format!("SELECT * FROM {table}");
        let rows = forum.engine.database().query(&sql, &[]).unwrap();
        all.extend(rows.iter().map(|row| format!("{row:?}")));
    }
    all.sort();
    all
}

pub(crate) fn whoever_has_the_credential_takes_away_what_is_hidden_and_nothing_changes() {
    let mut forum = forum();
    let stories: BTreeSet<String> = forum.before[1]
        .iter()
        .filter(|row| row.starts_with("[Int(1"))
        .cloned()
        .collect();
    let blank = forum.apply(BLANK, Some(1), false).unwrap();
    let gone = forum.apply(GDPR_REMOVE, Some(1), false).unwrap();
    let anonymous = forum.apply(ANON, None, false).unwrap();
    let before = state(&mut forum);
    let hidden = export(&mut forum, 1, None);
    assert_eq!(state(&mut forum), before);
    let order: Vec<DisguiseId> = hidden.iter().map(|it| it.disguise).collect();
    let mut disguises = order;
    disguises.dedup();
    // Nothing of theirs was left to anonymise but the rows that others share.
    assert_eq!(disguises.first(), Some(&blank.id));
    assert_eq!(disguises.get(1), Some(&gone.id));
    let removed = hidden.iter().filter_map(|it| match &it.change {
        HiddenChange::Removed(row) if it.table == "stories" => {
            let row: Vec<&Value> = row.iter().map(|(_, value)| value).collect();
            assert_eq!(it.identity.len(), 1);
            Some(format!("{row:?}"))
        }
        _ => None,
    });
    assert_eq!(removed.count(), stories.len());
    // The values that were overwritten first are what the rows really held.
    let mut values = BTreeSet::new();
    for it in export(&mut forum, 1, Some(blank.id)) {
        if let HiddenChange::Modified { column, before, .. } = it.change {
            assert_eq!((it.disguise, column.as_str()), (blank.id, "url"));
            values.insert(before.to_string());
        }
    }
    assert_eq!(values, ["url0", "url1"].map(str::to_owned).into());
    // What lies behind placeholders is handed out too.
    let shared = export(&mut forum, 2, Some(anonymous.id));
    assert!(shared.iter().any(|it| matches!(&it.change,
        HiddenChange::Decorrelated { before, .. } if *before == Value::Int(2))));
    assert!(forum.reveal(1, gone.id).restored.contains_key("stories"));
}

pub(crate) fn a_wrong_credential_exports_nothing_with_the_same_work_and_error() {
    let mut forum = forum();
    let applied = forum.apply(GDPR_REMOVE, Some(1), false).unwrap();
    let stranger = SecretKey::generate().unwrap();
    let mut work = Vec::new();
    for (user, password) in [(1, "wrong"), (2, "wrong"), (777, "secret words")] {
        work.push(forum.work(|engine| {
            let credential = Credential::Password(password);
            let outcome = engine.export(&Value::Int(user), &credential, None, time());
            assert!(matches!(outcome, Err(Error::WrongCredential)));
        }));
    }
    work.dedup();
    assert_eq!(work.len(), 1, "{work:?}");
    for key in [&stranger, &forum.keys[&2]] {
        let credential = Credential::Key(key);
        let one = Value::Int(1);
        let outcome = forum
            .engine
            .export(&one, &credential, Some(applied.id), time());
        assert!(matches!(outcome, Err(Error::WrongCredential)));
    }
    let credential = Credential::Key(&forum.keys[&2]);
    let outcome = forum
        .engine
        .export(&Value::Int(2), &credential, Some(applied.id), time());
    assert!(matches!(outcome, Err(Error::NoSuchDisguise)));
}

pub(crate) fn an_export_is_told_and_gives_rows_as_updates_since_make_them() {
    let mut forum = forum();
    let applied = forum.apply(GDPR_REMOVE, Some(1), false).unwrap();
    forum.apply(GDPR_REMOVE, Some(2), false).unwrap();
    forum.sql("ALTER TABLE moderations ADD COLUMN weight BIGINT");
    let update = "[[update]]\nname = \"weights\"\ntable = \"moderations\"\n[[update.into]]\ntable = \"moderations\"\nrest = true\nvalues = { weight = 3 }\n";
    let update = Mapping::parse(update).unwrap();
    forum.engine.updates().record(&update, time()).unwrap();
    let told: Rc<RefCell<Vec<(String, String, Outcome)>>> = Rc::default();
    let seen = Rc::clone(&told);
    forum.engine.set_sink(Box::new(move |entry: &Entry<'_>| {
        let payload = String::from_utf8(entry.payload.to_vec())?;
        seen.borrow_mut()
            .push((entry.action.to_owned(), payload, entry.outcome));
        Ok(())
    }));
    let before = state(&mut forum);
    let hidden = export(&mut forum, 1, None);
    assert_eq!(state(&mut forum), before);
    let left: Vec<&Hidden> = hidden
        .iter()
        .filter(|it| matches!(it.change, HiddenChange::Left(_)))
        .collect();
    assert!(!left.is_empty());
    for it in left {
        let HiddenChange::Left(row) = &it.change else {
            continue;
        };
        assert!(
            row.contains(&("weight".to_owned(), Value::Int(3))),
            "{row:?}"
        );
    }
    let told = told.take();
    let [(action, payload, Outcome::Ok)] = told.as_slice() else {
        assert_eq!(told.len(), 1);
        return;
    };
    assert_eq!(action, "disguise.export");
    assert!(
        payload.contains("\"stories\":3") && !payload.contains("url"),
        "{payload}"
    );
    assert!(forum.reveal(1, applied.id).restored.contains_key("users"));
}
