//! Requests to the applications, in the proportions of the published mixes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use probity_disguise::{Database, DatabaseError, Value};

use crate::workload::Random;

/// Unit of a student's think time, which is ten to twenty of it.
const THOUGHT: Duration = Duration::from_millis(25);
const THOUGHTS_LEAST: u64 = 10;
const QUESTIONS: u64 = 4;
/// First id of rows that requests create; the generated data has lower ids.
const NEW_IDS: u64 = 1 << 40;

/// Requests of users who are not disguised.
pub(crate) struct Requests {
    users: Vec<Value>,
    kind: Kind,
}

enum Kind {
    /// Reads and writes in a forum with this many stories.
    Forum { stories: u64, ids: AtomicU64 },
    /// Edits of answers, with think times.
    Homework { lectures: u64 },
}

/// Requests of the forum, with their frequency in 100,000 (Edna's evaluation, section 5 of its
/// draft).
const MIX: [(u64, Ask); 8] = [
    (55_842, read_story),
    (30_105, front_page),
    (6_702, profile),
    (4_674, recent_comments),
    (967, recent_stories),
    (1_180, vote),
    (387, comment),
    (143, story),
];

type Ask = fn(&mut Asking<'_>) -> Result<(), DatabaseError>;

/// A request of the forum: database, user and object.
struct Asking<'a> {
    database: &'a mut dyn Database,
    random: &'a mut Random,
    user: &'a Value,
    stories: u64,
    ids: &'a AtomicU64,
}

impl Asking<'_> {
    fn story(&mut self) -> Value {
        number(1 + self.random.below(self.stories.max(1)))
    }

    fn new_id(&self) -> Value {
        // Relaxed: only the number matters.
        number(self.ids.fetch_add(1, Ordering::Relaxed))
    }
}

impl Requests {
    pub(crate) const fn forum(users: Vec<Value>, stories: u64) -> Self {
        let ids = AtomicU64::new(NEW_IDS);
        let kind = Kind::Forum { stories, ids };
        Self { users, kind }
    }

    pub(crate) const fn homework(users: Vec<Value>, lectures: u64) -> Self {
        let kind = Kind::Homework { lectures };
        Self { users, kind }
    }

    /// Waits for a person's think time before the next request.
    #[expect(clippy::disallowed_methods, reason = "people do not look at a clock")]
    pub(crate) fn pause(&self, random: &mut Random, over: &AtomicBool) {
        if !matches!(self.kind, Kind::Homework { .. }) {
            return;
        }
        for _ in 0..THOUGHTS_LEAST + random.below(THOUGHTS_LEAST + 1) {
            if over.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(THOUGHT);
        }
    }

    /// Makes the next request of connection `number`.
    pub(crate) fn ask(
        &self,
        number: usize,
        random: &mut Random,
        database: &mut dyn Database,
    ) -> Result<(), DatabaseError> {
        let everybody = u64::try_from(self.users.len()).unwrap_or(u64::MAX).max(1);
        let any =
            |random: &mut Random| usize::try_from(random.below(everybody)).unwrap_or_default();
        match &self.kind {
            Kind::Forum { stories, ids } => {
                let user = self.users.get(any(random)).unwrap_or(&Value::Null);
                let mut drawn = random.below(100_000);
                let mut asking = Asking {
                    database,
                    random,
                    user,
                    stories: *stories,
                    ids,
                };
                for (share, ask) in MIX {
                    match drawn.checked_sub(share) {
                        Some(rest) => drawn = rest,
                        None => return ask(&mut asking),
                    }
                }
                read_story(&mut asking)
            }
            Kind::Homework { lectures } => {
                let place = number % self.users.len().max(1);
                let user = self.users.get(place).unwrap_or(&Value::Null);
                edit(database, random, user, *lectures)
            }
        }
    }
}

fn number(value: u64) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn read_story(asking: &mut Asking<'_>) -> Result<(), DatabaseError> {
    let story = [asking.story()];
    asking.database.query(
        "SELECT stories.title, stories.url, users.username FROM stories JOIN users ON users.id = stories.user_id WHERE stories.id = ?",
        &story,
    )?;
    asking.database.query(
        "SELECT comments.id, comments.markeddown_comment, users.username FROM comments JOIN users ON users.id = comments.user_id WHERE comments.story_id = ? ORDER BY comments.id",
        &story,
    )?;
    let votes = "SELECT COUNT(*), SUM(vote) FROM votes WHERE story_id = ?";
    asking.database.query(votes, &story)?;
    Ok(())
}

fn front_page(asking: &mut Asking<'_>) -> Result<(), DatabaseError> {
    let newest = asking.database.query(
        "SELECT newest.id, newest.title, users.username FROM (SELECT id, title, user_id FROM stories ORDER BY id DESC LIMIT 25) AS newest JOIN users ON users.id = newest.user_id",
        &[],
    )?;
    let ids: Vec<Value> = newest
        .into_iter()
        .filter_map(|row| row.into_iter().next())
        .collect();
    let marks = vec!["?"; ids.len().max(1)].join(",");
    let ids = if ids.is_empty() {
        vec![Value::Null]
    } else {
        ids
    };
    let sql = format!(
        "SELECT taggings.story_id, tags.tag FROM taggings JOIN tags ON tags.id = taggings.tag_id WHERE taggings.story_id IN ({marks})"
    );
    asking.database.query(&sql, &ids)?;
    Ok(())
}

fn profile(asking: &mut Asking<'_>) -> Result<(), DatabaseError> {
    let user = std::slice::from_ref(asking.user);
    asking.database.query(
        "SELECT username, karma, created_at FROM users WHERE id = ?",
        user,
    )?;
    asking
        .database
        .query("SELECT COUNT(*) FROM stories WHERE user_id = ?", user)?;
    asking
        .database
        .query("SELECT COUNT(*) FROM comments WHERE user_id = ?", user)?;
    Ok(())
}

fn recent_comments(asking: &mut Asking<'_>) -> Result<(), DatabaseError> {
    asking.database.query(
        "SELECT newest.id, newest.markeddown_comment, users.username FROM (SELECT id, markeddown_comment, user_id FROM comments ORDER BY id DESC LIMIT 40) AS newest JOIN users ON users.id = newest.user_id",
        &[],
    )?;
    Ok(())
}

fn recent_stories(asking: &mut Asking<'_>) -> Result<(), DatabaseError> {
    let sql = "SELECT id, title, url FROM stories ORDER BY id DESC LIMIT 25";
    asking.database.query(sql, &[])?;
    Ok(())
}

fn vote(asking: &mut Asking<'_>) -> Result<(), DatabaseError> {
    let row = [
        asking.new_id(),
        asking.user.clone(),
        asking.story(),
        Value::Null,
        Value::Int(1),
    ];
    asking
        .database
        .execute("INSERT INTO votes VALUES (?, ?, ?, ?, ?)", &row)?;
    Ok(())
}

fn comment(asking: &mut Asking<'_>) -> Result<(), DatabaseError> {
    let text = Value::from("an answer of the usual length, written while others leave and return");
    let row = [
        asking.new_id(),
        asking.user.clone(),
        asking.story(),
        Value::Null,
        text.clone(),
        text,
        Value::from("2026-01-02 00:00:00"),
    ];
    asking
        .database
        .execute("INSERT INTO comments VALUES (?, ?, ?, ?, ?, ?, ?)", &row)?;
    Ok(())
}

fn story(asking: &mut Asking<'_>) -> Result<(), DatabaseError> {
    let row = [
        asking.new_id(),
        asking.user.clone(),
        Value::from("a story"),
        Value::from("https://example.org/new"),
        Value::from("what it is about"),
        Value::from("2026-01-02 00:00:00"),
    ];
    asking
        .database
        .execute("INSERT INTO stories VALUES (?, ?, ?, ?, ?, ?)", &row)?;
    Ok(())
}

fn edit(
    database: &mut dyn Database,
    random: &mut Random,
    user: &Value,
    lectures: u64,
) -> Result<(), DatabaseError> {
    let row = [
        Value::from("a better answer"),
        user.clone(),
        number(random.below(lectures)),
        number(random.below(QUESTIONS)),
    ];
    let sql = "UPDATE answers SET answer = ? WHERE email = ? AND lec = ? AND q = ?";
    database.execute(sql, &row)?;
    Ok(())
}
