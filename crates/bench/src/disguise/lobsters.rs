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
/// Every which story is about the topic that users may leave.
const TOPIC_EVERY: i64 = 5;

const fn delete(table: &'static str) -> Step {
    Step::Delete {
        table,
        owner: "user_id",
    }
}

const fn overwrite(table: &'static str, column: &'static str) -> Step {
    Step::Overwrite {
        table,
        owner: "user_id",
        column,
        condition: "",
    }
}

const fn scatter(table: &'static str, owner: &'static str) -> Step {
    Step::Scatter {
        table,
        id: "id",
        owner,
    }
}

const REMOVE: [Step; 23] = [
    delete("hat_requests"),
    delete("hidden_stories"),
    delete("invitations"),
    delete("read_ribbons"),
    delete("saved_stories"),
    delete("suggested_taggings"),
    delete("suggested_titles"),
    delete("tag_filters"),
    delete("hats"),
    overwrite("comments", "comment"),
    overwrite("comments", "markeddown_comment"),
    overwrite("stories", "title"),
    overwrite("stories", "url"),
    scatter("messages", "author_user_id"),
    scatter("messages", "recipient_user_id"),
    scatter("comments", "user_id"),
    scatter("stories", "user_id"),
    scatter("mod_notes", "moderator_user_id"),
    scatter("mod_notes", "user_id"),
    scatter("moderations", "moderator_user_id"),
    scatter("moderations", "user_id"),
    scatter("votes", "user_id"),
    Step::Delete {
        table: "users",
        owner: "id",
    },
];

const DECAY: [Step; 19] = [
    delete("hat_requests"),
    delete("hidden_stories"),
    delete("invitations"),
    delete("read_ribbons"),
    delete("saved_stories"),
    delete("suggested_taggings"),
    delete("suggested_titles"),
    delete("tag_filters"),
    delete("hats"),
    scatter("messages", "author_user_id"),
    scatter("messages", "recipient_user_id"),
    scatter("comments", "user_id"),
    scatter("stories", "user_id"),
    scatter("mod_notes", "moderator_user_id"),
    scatter("mod_notes", "user_id"),
    scatter("moderations", "moderator_user_id"),
    scatter("moderations", "user_id"),
    scatter("votes", "user_id"),
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

/// Users, stories and comments.
const fn counts(size: Size) -> (i64, i64, i64) {
    match size {
        Size::Paper => (15_950, 111_787, 333_492),
        Size::Seed => (14_500, 40_000, 120_000),
        Size::Small => (30, 60, 150),
    }
}

fn fill(filler: &mut Filler<'_>, size: Size) -> Result<Users, BenchError> {
    let (users, stories, comments) = counts(size);
    let (int, since) = (Value::Int, || Value::from(SINCE));
    let mut all = Vec::new();
    for user in 1..=users {
        let name = Value::Text(format!("user{user}"));
        let email = Value::Text(format!("user{user}@mail.org"));
        filler.row("users", [int(user), name, email, int(1), since()])?;
        all.push(int(user));
    }
    for (number, tag) in [(1, "test"), (2, "starwars")] {
        filler.row("tags", [int(number), Value::from(tag)])?;
    }
    let mut authors = Vec::new();
    for story in 1..=stories {
        // The user with the highest id has the most.
        let author = users - filler.skewed(users);
        authors.push(author);
        let url = Value::Text(format!("https://example.org/{story}"));
        let (title, text) = (filler.text(6), filler.text(12));
        filler.row("stories", [int(story), int(author), title, url, text, since()])?;
    }
    let mut tagging = 0;
    for story in 1..=stories {
        for tag in 1..=(1 + i64::from(story % TOPIC_EVERY == 0)) {
            tagging += 1;
            filler.row("taggings", [int(tagging), int(story), int(tag)])?;
        }
    }
    let author_of = |story: i64| {
        let place = usize::try_from(story - 1).unwrap_or_default();
        authors.get(place).copied().unwrap_or(1)
    };
    let mut messages = Vec::new();
    let mut commenters = Vec::new();
    for comment in 1..=comments {
        let (author, story) = (users - filler.skewed(users), 1 + comment % stories);
        commenters.push((author, story));
        let parent = if comment % 2 == 0 && comment > stories {
            messages.push((author, author_of(story)));
            int(comment - stories)
        } else {
            Value::Null
        };
        let text = filler.text(20);
        let row = [
            int(comment),
            int(author),
            int(story),
            parent,
            text.clone(),
            text,
            since(),
        ];
        filler.row("comments", row)?;
    }
    for (vote, (story, author)) in (1..).zip((1..).zip(&authors)) {
        let row = [int(vote), int(*author), int(story), Value::Null, int(1)];
        filler.row("votes", row)?;
    }
    for (comment, (author, story)) in (1..).zip(commenters) {
        let row = [
            int(stories + comment),
            int(author),
            int(story),
            int(comment),
            int(1),
        ];
        filler.row("votes", row)?;
    }
    for (message, (author, recipient)) in (1..).zip(messages) {
        let (subject, body) = (filler.text(3), filler.text(20));
        let row = [
            int(message),
            int(author),
            int(recipient),
            subject,
            body,
            since(),
        ];
        filler.row("messages", row)?;
    }
    Ok(Users {
        measured: all.clone(),
        share: all.len(),
        all,
    })
}
