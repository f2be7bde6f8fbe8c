//! Disguises in chunks where rows depend on each other: threads, rings, keys that change, groups.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::{
    ApplyRequest, Dialect, DisguiseId, Error, Progress, References, SpecFile, Value,
};

use super::forum::*;

/// Chunks are tried with so many rows each.
const ROWS: [u32; 3] = [1, 3, 50];
/// The most chunks that a disguise here may take.
const CHUNKS_MAX: usize = 300;
const PLACEHOLDER_MIN: i64 = 1_000_000;

/// Comments with their authors and the comments that they reply to. In threads of several people
/// some reply before the comment they reply to, one replies to itself, two to each other.
const COMMENTS: [(i64, i64, Option<i64>); 16] = [
    (1, 1, None),
    (2, 2, Some(1)),
    (3, 1, Some(2)),
    (4, 3, Some(3)),
    (5, 2, Some(4)),
    (6, 2, None),
    (7, 2, Some(6)),
    (8, 2, Some(7)),
    (9, 1, Some(11)),
    (10, 1, Some(9)),
    (11, 1, None),
    (12, 4, Some(12)),
    (13, 4, Some(14)),
    (14, 4, Some(13)),
    (15, 4, Some(13)),
    (16, 3, Some(8)),
];

/// The forum with comments beside it, each person's own threads alone where `own` is set.
fn with_comments(own: bool) -> Forum {
    let mut forum = forum();
    forum.sql("CREATE TABLE comments (id BIGINT PRIMARY KEY, user_id BIGINT REFERENCES users(id), parent_id BIGINT REFERENCES comments(id), text VARCHAR(40))");
    let author: BTreeMap<i64, i64> = COMMENTS.iter().map(|(id, user, _)| (*id, *user)).collect();
    for (id, user, _) in COMMENTS {
        forum.sql(&format!(
            "INSERT INTO comments VALUES ({id}, {user}, NULL, 'comment {id}')"
        ));
    }
    for (id, user, parent) in COMMENTS {
        let parent = parent.filter(|parent| !own || author[parent] == user);
        if let Some(parent) = parent {
            forum.sql(&format!(
                "UPDATE comments SET parent_id = {parent} WHERE id = {id}"
            ));
        }
    }
    forum
}

fn rows(forum: &mut Forum, table: &str) -> BTreeSet<String> {
    let rows = forum.engine.preview().rows(table).unwrap();
    rows.iter().map(|row| format!("{row:?}")).collect()
}

fn asked(file: &SpecFile, user: Option<i64>) -> ApplyRequest<'_> {
    ApplyRequest {
        spec: &file.spec,
        user: user.map(Value::Int),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    }
}

fn begin(forum: &mut Forum, spec: &str, user: Option<i64>) -> DisguiseId {
    let file = SpecFile::parse(spec).unwrap();
    forum.engine.chunks().begin(&asked(&file, user)).unwrap()
}

fn finish(forum: &mut Forum, id: DisguiseId, rows: u32) -> usize {
    for chunks in 1..CHUNKS_MAX {
        let progress = forum.engine.chunks().proceed(id, rows, time()).unwrap();
        if matches!(progress, Progress::Done(_)) {
            return chunks;
        }
    }
    panic!("there is no end to it");
}

/// Everybody who has something of a disguise reveals it, as often as threads go from one to another.
fn reveal(forum: &mut Forum, id: DisguiseId) {
    for _ in 0..4 {
        for person in 1..=USERS {
            match forum.reveal_as(person, id, References::Recorrelate) {
                Ok(_) | Err(Error::NoSuchDisguise) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    forum.assert_as_before();
}

const NO_COMMENTS: &str = "[[remove]]\ntable = \"comments\"\n";

pub(crate) fn rows_that_refer_to_each_other_leave_in_chunks_and_come_back() {
    for user in [None, Some(1), Some(2), Some(4)] {
        let mut forum = with_comments(user.is_some());
        for most in ROWS {
            let before = rows(&mut forum, "comments");
            let id = begin(&mut forum, NO_COMMENTS, user);
            finish(&mut forum, id, most);
            let left = match user {
                None => 0,
                Some(user) => COMMENTS.iter().filter(|(_, of, _)| *of != user).count(),
            };
            assert_eq!(rows(&mut forum, "comments").len(), left, "{user:?} {most}");
            reveal(&mut forum, id);
            assert_eq!(rows(&mut forum, "comments"), before, "{user:?} {most}");
        }
    }
    let mut forum = with_comments(false);
    for chunks in 1..CHUNKS_MAX {
        let before = rows(&mut forum, "comments");
        let id = begin(&mut forum, NO_COMMENTS, None);
        let done = (0..chunks).any(|_| {
            let progress = forum.engine.chunks().proceed(id, 2, time()).unwrap();
            matches!(progress, Progress::Done(_))
        });
        reveal(&mut forum, id);
        assert_eq!(rows(&mut forum, "comments"), before, "after {chunks}");
        if done {
            break;
        }
        finish(&mut forum, id, 2);
        assert_eq!(rows(&mut forum, "comments"), before, "after {chunks}");
    }
}

pub(crate) fn whoever_came_back_does_not_hold_up_the_rows_of_others() {
    // What of the comments of person 2 does not reply to anybody who is away.
    let own: BTreeSet<i64> = BTreeSet::from([6, 7, 8]);
    let mut forum = with_comments(false);
    for chunks in (0..CHUNKS_MAX).step_by(crate::CUTS) {
        let before = rows(&mut forum, "comments");
        let id = begin(&mut forum, NO_COMMENTS, None);
        let done = (0..chunks).any(|_| {
            let progress = forum.engine.chunks().proceed(id, 2, time()).unwrap();
            matches!(progress, Progress::Done(_))
        });
        forum.reveal_as(2, id, References::Recorrelate).unwrap();
        if !done {
            finish(&mut forum, id, 2);
        }
        // What came back under rows that went since goes back there with them.
        drop(forum.reveal_as(2, id, References::Recorrelate));
        let there = forum.numbers("SELECT id FROM comments ORDER BY id");
        assert_eq!(
            there.into_iter().collect::<BTreeSet<i64>>(),
            own,
            "after {chunks}"
        );
        reveal(&mut forum, id);
        assert_eq!(rows(&mut forum, "comments"), before, "after {chunks}");
        if done {
            break;
        }
    }
}

pub(crate) fn a_ring_of_rows_leaves_in_one_chunk_where_the_database_lets_it() {
    let mut forum = forum();
    let dialect = forum.engine.database().dialect();
    let deferrable = match dialect {
        Dialect::Mysql => "",
        _ => " DEFERRABLE INITIALLY IMMEDIATE",
    };
    forum.sql(&format!("CREATE TABLE links (id BIGINT PRIMARY KEY, user_id BIGINT REFERENCES users(id), next_id BIGINT NOT NULL REFERENCES links(id){deferrable})"));
    for sql in [
        "INSERT INTO links VALUES (1, 1, 1)",
        "INSERT INTO links VALUES (2, 1, 1)",
        "INSERT INTO links VALUES (3, 1, 2)",
        "INSERT INTO links VALUES (4, 1, 3)",
        "INSERT INTO links VALUES (5, 1, 4)",
        "UPDATE links SET next_id = 3 WHERE id = 1",
    ] {
        forum.sql(sql);
    }
    let before = rows(&mut forum, "links");
    let id = begin(&mut forum, "[[remove]]\ntable = \"links\"\n", Some(1));
    // The rows that lead into the ring go one by one, youngest first.
    for left in [4, 3] {
        forum.engine.chunks().proceed(id, 1, time()).unwrap();
        assert_eq!(rows(&mut forum, "links").len(), left);
    }
    let ring = forum.engine.chunks().proceed(id, 1, time());
    if dialect == Dialect::Mysql {
        // It checks row by row, and refuses the first.
        assert!(matches!(ring, Err(Error::Database { .. })), "{ring:?}");
        assert_eq!(rows(&mut forum, "links").len(), 3);
    } else {
        assert!(rows(&mut forum, "links").is_empty());
        assert!(forum.engine.chunks().unfinished().unwrap().is_empty());
    }
    reveal(&mut forum, id);
    assert_eq!(rows(&mut forum, "links"), before);
}

/// Rows whose key holds their owner, or a code that is overwritten.
const KEYED: [&str; 7] = [
    "CREATE TABLE badges (code VARCHAR(30), part BIGINT, user_id BIGINT REFERENCES users(id), PRIMARY KEY (code, part))",
    "INSERT INTO badges VALUES ('a', 1, 1), ('a', 2, 1), ('b', 1, 1), ('m', 1, 1), ('z', 1, 1), ('~', 9, 1)",
    "INSERT INTO badges VALUES ('a', 3, 2), ('c', 1, 2), ('y', 1, 3), ('{', 1, 4)",
    "CREATE TABLE votes (user_id BIGINT REFERENCES users(id), story_id BIGINT, weight BIGINT, PRIMARY KEY (user_id, story_id))",
    "INSERT INTO votes VALUES (1, 10, 1), (1, 11, 1), (1, 12, 2), (1, 20, 2), (1, 21, 1)",
    "INSERT INTO votes VALUES (2, 10, 1), (2, 11, 2), (3, 10, 1), (4, 10, 1)",
    "INSERT INTO votes VALUES (3, 11, 7), (4, 11, 7), (4, 12, 7)",
];

const RENAMED: &str =
    "[[modify]]\ntable = \"badges\"\ncolumn = \"code\"\nvalue = { RandStr = { len = 20 } }\n";
const UNOWNED: &str = "[[decorrelate]]\ntable = \"votes\"\nowners = [\"user_id\"]\n";
const UNOWNED_BY_WEIGHT: &str =
    "[[decorrelate]]\ntable = \"votes\"\nowners = [\"user_id\"]\ngroup_by = [\"weight\"]\n";

pub(crate) fn keys_that_change_are_gone_through_once() {
    let (mut forum, mut twin) = (forum(), forum());
    for sql in KEYED {
        forum.sql(sql);
        twin.sql(sql);
    }
    for user in [None, Some(1)] {
        for most in ROWS {
            for spec in [RENAMED, UNOWNED, UNOWNED_BY_WEIGHT] {
                let before = [rows(&mut forum, "badges"), rows(&mut forum, "votes")];
                let file = SpecFile::parse(spec).unwrap();
                let id = begin(&mut forum, spec, user);
                let applied = loop {
                    match forum.engine.chunks().proceed(id, most, time()).unwrap() {
                        Progress::Done(applied) => break applied,
                        Progress::Going(so_far) => {
                            let touched: u64 = so_far.rows.values().sum();
                            assert!(touched <= 12, "{so_far:?}");
                        }
                        other => panic!("{other:?}"),
                    }
                };
                let whole = twin.engine.apply(&asked(&file, user)).unwrap();
                assert_eq!(
                    applied.pseudoprincipals, whole.pseudoprincipals,
                    "{spec} {user:?} {most}"
                );
                assert_eq!(applied.rows, whole.rows, "{spec} {user:?} {most}");
                assert_eq!(forum.numbers("SELECT COUNT(*) FROM probity_intents"), [0]);
                let after = [rows(&mut forum, "badges"), rows(&mut forum, "votes")];
                let kept: Vec<usize> = after
                    .iter()
                    .zip(&before)
                    .map(|(a, b)| a.intersection(b).count())
                    .collect();
                let changed = usize::try_from(applied.rows.values().sum::<u64>()).unwrap();
                assert_eq!(
                    kept.iter().sum::<usize>() + changed,
                    10 + 12,
                    "{spec} {user:?} {most}"
                );
                reveal(&mut forum, id);
                reveal(&mut twin, whole.id);
                assert_eq!(
                    [rows(&mut forum, "badges"), rows(&mut forum, "votes")],
                    before
                );
            }
        }
    }
}

pub(crate) fn groups_of_any_size_have_one_placeholder_each_in_chunks() {
    let spec = "[[decorrelate]]\ntable = \"stories\"\nowners = [\"user_id\"]\ngroup_by = [\"url\", \"is_moderated\"]\n";
    let mut forum = forum();
    for id in 100..108 {
        forum.sql(&format!(
            "INSERT INTO stories VALUES ({id}, 1, 'long', NULL)"
        ));
    }
    forum.sql("UPDATE stories SET url = NULL WHERE id IN (10, 12, 20)");
    forum.before = forum.everything();
    for user in [None, Some(1)] {
        for most in ROWS {
            let groups = |forum: &mut Forum| -> BTreeSet<Vec<i64>> {
                let mut of: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
                for row in forum.engine.preview().rows("stories").unwrap() {
                    if let [Value::Int(id), Value::Int(user), ..] = row.as_slice()
                        && *user >= PLACEHOLDER_MIN
                    {
                        of.entry(*user).or_default().push(*id);
                    }
                }
                of.into_values().collect()
            };
            let id = begin(&mut forum, spec, user);
            finish(&mut forum, id, most);
            let mut expected = BTreeSet::from([vec![10, 12], vec![11], (100..108).collect()]);
            if user.is_none() {
                let others = [
                    vec![20],
                    vec![21],
                    vec![22],
                    vec![30, 31],
                    vec![32],
                    vec![40, 41],
                    vec![42],
                ];
                expected.extend(others);
            }
            assert_eq!(groups(&mut forum), expected, "{user:?} {most}");
            reveal(&mut forum, id);
        }
    }
}
