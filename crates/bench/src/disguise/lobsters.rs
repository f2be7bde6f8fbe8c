//! Lobsters: a forum of links, with comments, votes and private messages.

use probity_disguise::Value;

use super::application::{Application, Disguise, Size, Step, Users};
use super::place::Filler;
use crate::command::BenchError;

const TABLES: [&str; 41] = [
    "CREATE TABLE users (id BIGINT NOT NULL PRIMARY KEY, username VARCHAR(60) NOT NULL, email VARCHAR(120), karma INTEGER NOT NULL, created_at VARCHAR(30) NOT NULL)",
    "CREATE TABLE stories (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, title VARCHAR(150) NOT NULL, url VARCHAR(250), description TEXT, created_at VARCHAR(30) NOT NULL)",
    "CREATE TABLE comments (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, story_id BIGINT NOT NULL, parent_comment_id BIGINT, comment TEXT NOT NULL, markeddown_comment TEXT, created_at VARCHAR(30) NOT NULL)",
    "CREATE TABLE votes (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, story_id BIGINT NOT NULL, comment_id BIGINT, vote INTEGER NOT NULL)",
    "CREATE TABLE messages (id BIGINT NOT NULL PRIMARY KEY, author_user_id BIGINT NOT NULL, recipient_user_id BIGINT NOT NULL, subject VARCHAR(100), body TEXT, created_at VARCHAR(30) NOT NULL)",
    "CREATE TABLE tags (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(25) NOT NULL)",
    "CREATE TABLE taggings (id BIGINT NOT NULL PRIMARY KEY, story_id BIGINT NOT NULL, tag_id BIGINT NOT NULL)",
    "CREATE TABLE hats (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, granted_by_user_id BIGINT NOT NULL, hat VARCHAR(60))",
    "CREATE TABLE hat_requests (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, hat VARCHAR(60))",
    "CREATE TABLE hidden_stories (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, story_id BIGINT NOT NULL)",
    "CREATE TABLE invitations (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, email VARCHAR(120))",
    "CREATE TABLE read_ribbons (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, story_id BIGINT NOT NULL)",
    "CREATE TABLE saved_stories (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, story_id BIGINT NOT NULL)",
    "CREATE TABLE suggested_taggings (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, story_id BIGINT NOT NULL, tag_id BIGINT)",
    "CREATE TABLE suggested_titles (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, story_id BIGINT NOT NULL, title VARCHAR(150))",
    "CREATE TABLE tag_filters (id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, tag_id BIGINT NOT NULL)",
    "CREATE TABLE mod_notes (id BIGINT NOT NULL PRIMARY KEY, moderator_user_id BIGINT NOT NULL, user_id BIGINT NOT NULL, note TEXT)",
    "CREATE TABLE moderations (id BIGINT NOT NULL PRIMARY KEY, moderator_user_id BIGINT NOT NULL, user_id BIGINT NOT NULL, story_id BIGINT, comment_id BIGINT, action TEXT)",
    "CREATE UNIQUE INDEX users_username ON users (username)",
    "CREATE INDEX stories_user ON stories (user_id)",
    "CREATE INDEX comments_user ON comments (user_id)",
    "CREATE INDEX comments_story ON comments (story_id)",
    "CREATE INDEX votes_user ON votes (user_id)",
    "CREATE INDEX votes_story ON votes (story_id)",
    "CREATE INDEX messages_author ON messages (author_user_id)",
    "CREATE INDEX messages_recipient ON messages (recipient_user_id)",
    "CREATE INDEX taggings_story ON taggings (story_id)",
    "CREATE INDEX hats_user ON hats (user_id)",
    "CREATE INDEX hats_granter ON hats (granted_by_user_id)",
    "CREATE INDEX hat_requests_user ON hat_requests (user_id)",
    "CREATE INDEX hidden_stories_user ON hidden_stories (user_id)",
    "CREATE INDEX invitations_user ON invitations (user_id)",
    "CREATE INDEX read_ribbons_user ON read_ribbons (user_id)",
    "CREATE INDEX saved_stories_user ON saved_stories (user_id)",
    "CREATE INDEX suggested_taggings_user ON suggested_taggings (user_id)",
    "CREATE INDEX suggested_titles_user ON suggested_titles (user_id)",
    "CREATE INDEX tag_filters_user ON tag_filters (user_id)",
    "CREATE INDEX mod_notes_moderator ON mod_notes (moderator_user_id)",
    "CREATE INDEX mod_notes_user ON mod_notes (user_id)",
    "CREATE INDEX moderations_moderator ON moderations (moderator_user_id)",
    "CREATE INDEX moderations_user ON moderations (user_id)",
];
const SINCE: &str = "2026-01-01 00:00:00";
/// Interval of the stories about the topic that users may leave.
const TOPIC_EVERY: i64 = 5;

const fn delete(table: &'static str) -> Step {
    Step::Delete {
        table,
        owner: "user_id",
    }
}

const fn overwrite(table: &'static str, columns: &'static [&'static str]) -> Step {
    Step::Overwrite {
        table,
        owner: "user_id",
        columns,
        condition: "",
    }
}

const fn scatter(table: &'static str, owners: &'static [&'static str]) -> Step {
    Step::Scatter {
        table,
        id: "id",
        owners,
    }
}

const REMOVE: [Step; 18] = [
    delete("hat_requests"),
    delete("hidden_stories"),
    delete("invitations"),
    delete("read_ribbons"),
    delete("saved_stories"),
    delete("suggested_taggings"),
    delete("suggested_titles"),
    delete("tag_filters"),
    delete("hats"),
    overwrite("comments", &["comment", "markeddown_comment"]),
    overwrite("stories", &["title", "url"]),
    scatter("messages", &["author_user_id", "recipient_user_id"]),
    scatter("comments", &["user_id"]),
    scatter("stories", &["user_id"]),
    scatter("mod_notes", &["moderator_user_id", "user_id"]),
    scatter("moderations", &["moderator_user_id", "user_id"]),
    scatter("votes", &["user_id"]),
    Step::Delete {
        table: "users",
        owner: "id",
    },
];

const DECAY: [Step; 16] = [
    delete("hat_requests"),
    delete("hidden_stories"),
    delete("invitations"),
    delete("read_ribbons"),
    delete("saved_stories"),
    delete("suggested_taggings"),
    delete("suggested_titles"),
    delete("tag_filters"),
    delete("hats"),
    scatter("messages", &["author_user_id", "recipient_user_id"]),
    scatter("comments", &["user_id"]),
    scatter("stories", &["user_id"]),
    scatter("mod_notes", &["moderator_user_id", "user_id"]),
    scatter("moderations", &["moderator_user_id", "user_id"]),
    scatter("votes", &["user_id"]),
    Step::Delete {
        table: "users",
        owner: "id",
    },
];

pub(super) const fn application() -> Application {
    Application {
        name: "Lobsters",
        tables: &TABLES,
        users: ("users", "id"),
        description: include_str!("specs/lobsters.toml"),
        owned: &[
            ("users", &["id"], &["id"]),
            ("stories", &["id"], &["user_id"]),
            ("comments", &["id"], &["user_id"]),
            ("votes", &["id"], &["user_id"]),
            (
                "messages",
                &["id"],
                &["author_user_id", "recipient_user_id"],
            ),
            ("read_ribbons", &["id"], &["user_id"]),
        ],
        personal: &[
            Disguise {
                name: "remove account",
                back: "restore account",
                spec: include_str!("specs/lobsters_remove.toml"),
                by_hand: &REMOVE,
            },
            Disguise {
                name: "leave a topic",
                back: "reclaim a topic",
                spec: include_str!("specs/lobsters_topic.toml"),
                by_hand: &[],
            },
            Disguise {
                name: "decay account",
                back: "restore decayed",
                spec: include_str!("specs/lobsters_decay.toml"),
                by_hand: &DECAY,
            },
        ],
        global: None,
        made_by_hand: "id >= 5000000000000000",
        fill,
    }
}

/// Returns the numbers of users, stories and comments.
const fn counts(size: Size) -> (i64, i64, i64) {
    match size {
        Size::Paper => (15_950, 111_787, 333_492),
        Size::Seed => (14_500, 40_000, 120_000),
        Size::Small => (30, 60, 150),
    }
}

fn fill(filler: &mut Filler<'_>, size: Size) -> Result<Users, BenchError> {
    let (users, stories, comments) = counts(size);
    let mut all = Vec::new();
    for user in 1..=users {
        let name = Value::Text(format!("user{user}"));
        let email = Value::Text(format!("user{user}@mail.org"));
        let row = [
            Value::Int(user),
            name,
            email,
            Value::Int(1),
            Value::from(SINCE),
        ];
        filler.row("users", row)?;
        all.push(Value::Int(user));
    }
    let authors = write_stories(filler, users, stories)?;
    let commenters = write_comments(filler, users, stories, comments)?;
    write_votes(filler, &authors, &commenters)?;
    write_messages(filler, &authors, &commenters)?;
    Ok(Users {
        measured: all.clone(),
        share: all.len(),
        all,
    })
}

/// Writes stories and their tags; returns the author of each.
fn write_stories(
    filler: &mut Filler<'_>,
    users: i64,
    stories: i64,
) -> Result<Vec<i64>, BenchError> {
    let mut authors = Vec::new();
    for story in 1..=stories {
        // The user with the highest id has the most stories.
        let author = users - filler.skewed(users);
        authors.push(author);
        let url = Value::Text(format!("https://example.org/{story}"));
        let (title, text) = (filler.text(6), filler.text(12));
        let row = [
            Value::Int(story),
            Value::Int(author),
            title,
            url,
            text,
            Value::from(SINCE),
        ];
        filler.row("stories", row)?;
    }
    for (number, tag) in [(1, "test"), (2, "starwars")] {
        filler.row("tags", [Value::Int(number), Value::from(tag)])?;
    }
    let mut tagging = 0;
    for story in 1..=stories {
        for tag in 1..=(1 + i64::from(story % TOPIC_EVERY == 0)) {
            tagging += 1;
            let row = [Value::Int(tagging), Value::Int(story), Value::Int(tag)];
            filler.row("taggings", row)?;
        }
    }
    Ok(authors)
}

/// Writes comments; returns author and story of each.
fn write_comments(
    filler: &mut Filler<'_>,
    users: i64,
    stories: i64,
    comments: i64,
) -> Result<Vec<(i64, i64)>, BenchError> {
    let mut commenters = Vec::new();
    for comment in 1..=comments {
        let (author, story) = (users - filler.skewed(users), 1 + comment % stories);
        commenters.push((author, story));
        let answers = has_parent(comment) && comment > stories;
        let text = filler.text(20);
        let row = [
            Value::Int(comment),
            Value::Int(author),
            Value::Int(story),
            if answers {
                Value::Int(comment - stories)
            } else {
                Value::Null
            },
            text.clone(),
            text,
            Value::from(SINCE),
        ];
        filler.row("comments", row)?;
    }
    Ok(commenters)
}

/// Returns whether a comment answers another one: every second one does, with a message to the
/// story's author.
const fn has_parent(comment: i64) -> bool {
    comment % 2 == 0
}

/// Writes each author's votes for their own stories and comments.
fn write_votes(
    filler: &mut Filler<'_>,
    authors: &[i64],
    commenters: &[(i64, i64)],
) -> Result<(), BenchError> {
    let stories = (1..)
        .zip(authors)
        .map(|(story, author)| (*author, story, Value::Null));
    let comments = (1..)
        .zip(commenters)
        .map(|(comment, (author, story))| (*author, *story, Value::Int(comment)));
    for (vote, (author, story, comment)) in (1..).zip(stories.chain(comments)) {
        let row = [
            Value::Int(vote),
            Value::Int(author),
            Value::Int(story),
            comment,
            Value::Int(1),
        ];
        filler.row("votes", row)?;
    }
    Ok(())
}

fn write_messages(
    filler: &mut Filler<'_>,
    authors: &[i64],
    commenters: &[(i64, i64)],
) -> Result<(), BenchError> {
    let answers = (1..)
        .zip(commenters)
        .filter(|(comment, _)| has_parent(*comment));
    for (message, (_, (author, story))) in (1..).zip(answers) {
        let place = usize::try_from(story - 1).unwrap_or_default();
        let recipient = authors.get(place).copied().unwrap_or(1);
        let (subject, body) = (filler.text(3), filler.text(20));
        let row = [
            Value::Int(message),
            Value::Int(*author),
            Value::Int(recipient),
            subject,
            body,
            Value::from(SINCE),
        ];
        filler.row("messages", row)?;
    }
    Ok(())
}
