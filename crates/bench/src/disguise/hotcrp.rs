//! `HotCRP`: papers, their authors, and the reviewers of a conference.

use probity_disguise::Value;

use super::application::{Application, Disguise, Size, Step, Users};
use super::place::Filler;
use crate::command::BenchError;

const TABLES: [&str; 32] = [
    "CREATE TABLE contact_info (contact_id BIGINT NOT NULL PRIMARY KEY, first_name VARCHAR(60), last_name VARCHAR(60), email VARCHAR(120) NOT NULL, roles INTEGER NOT NULL, disabled INTEGER NOT NULL)",
    "CREATE TABLE paper (paper_id BIGINT NOT NULL PRIMARY KEY, title VARCHAR(200), abstract TEXT, outcome INTEGER NOT NULL, lead_contact_id BIGINT NOT NULL, manager_contact_id BIGINT NOT NULL, shepherd_contact_id BIGINT NOT NULL)",
    "CREATE TABLE paper_review (review_id BIGINT NOT NULL PRIMARY KEY, paper_id BIGINT NOT NULL, contact_id BIGINT NOT NULL, requested_by BIGINT NOT NULL, review_type INTEGER NOT NULL, review_data TEXT)",
    "CREATE TABLE paper_comment (comment_id BIGINT NOT NULL PRIMARY KEY, paper_id BIGINT NOT NULL, contact_id BIGINT NOT NULL, comment_text TEXT)",
    "CREATE TABLE paper_conflict (paper_conflict_id BIGINT NOT NULL PRIMARY KEY, paper_id BIGINT NOT NULL, contact_id BIGINT NOT NULL, conflict_type INTEGER NOT NULL)",
    "CREATE TABLE paper_watch (paper_watch_id BIGINT NOT NULL PRIMARY KEY, paper_id BIGINT NOT NULL, contact_id BIGINT NOT NULL, watch INTEGER NOT NULL)",
    "CREATE TABLE paper_review_preference (paper_rev_pref_id BIGINT NOT NULL PRIMARY KEY, paper_id BIGINT NOT NULL, contact_id BIGINT NOT NULL, preference INTEGER NOT NULL)",
    "CREATE TABLE review_rating (paper_id BIGINT NOT NULL, review_id BIGINT NOT NULL, contact_id BIGINT NOT NULL, rating INTEGER NOT NULL, PRIMARY KEY (paper_id, review_id, contact_id))",
    "CREATE TABLE topic_interest (topic_interest_id BIGINT NOT NULL PRIMARY KEY, contact_id BIGINT NOT NULL, topic_id BIGINT NOT NULL, interest INTEGER)",
    "CREATE TABLE capability (salt VARCHAR(100) NOT NULL PRIMARY KEY, contact_id BIGINT NOT NULL, paper_id BIGINT NOT NULL)",
    "CREATE TABLE paper_review_refused (paper_id BIGINT NOT NULL, email VARCHAR(120) NOT NULL, refused_by BIGINT NOT NULL, requested_by BIGINT NOT NULL, reason TEXT, PRIMARY KEY (paper_id, email))",
    "CREATE TABLE action_log (log_id BIGINT NOT NULL PRIMARY KEY, contact_id BIGINT NOT NULL, dest_contact_id BIGINT NOT NULL, true_contact_id BIGINT NOT NULL, action TEXT)",
    "CREATE TABLE review_request (paper_id BIGINT NOT NULL, email VARCHAR(120) NOT NULL, requested_by BIGINT NOT NULL, PRIMARY KEY (paper_id, email))",
    "CREATE UNIQUE INDEX contact_email ON contact_info (email)",
    "CREATE INDEX paper_lead ON paper (lead_contact_id)",
    "CREATE INDEX paper_manager ON paper (manager_contact_id)",
    "CREATE INDEX paper_shepherd ON paper (shepherd_contact_id)",
    "CREATE INDEX review_contact ON paper_review (contact_id)",
    "CREATE INDEX review_requester ON paper_review (requested_by)",
    "CREATE INDEX comment_contact ON paper_comment (contact_id)",
    "CREATE INDEX conflict_contact ON paper_conflict (contact_id)",
    "CREATE INDEX watch_contact ON paper_watch (contact_id)",
    "CREATE INDEX preference_contact ON paper_review_preference (contact_id)",
    "CREATE INDEX rating_contact ON review_rating (contact_id)",
    "CREATE INDEX interest_contact ON topic_interest (contact_id)",
    "CREATE INDEX capability_contact ON capability (contact_id)",
    "CREATE INDEX refused_contact ON paper_review_refused (refused_by)",
    "CREATE INDEX refused_requester ON paper_review_refused (requested_by)",
    "CREATE INDEX log_contact ON action_log (contact_id)",
    "CREATE INDEX log_dest ON action_log (dest_contact_id)",
    "CREATE INDEX log_true ON action_log (true_contact_id)",
    "CREATE INDEX request_requester ON review_request (requested_by)",
];

const fn delete(table: &'static str) -> Step {
    Step::Delete {
        table,
        owner: "contact_id",
    }
}

const fn scatter(table: &'static str, id: &'static str, owners: &'static [&'static str]) -> Step {
    Step::Scatter { table, id, owners }
}

const PAPER: Step = scatter(
    "paper",
    "paper_id",
    &[
        "lead_contact_id",
        "manager_contact_id",
        "shepherd_contact_id",
    ],
);

const ACTION_LOG: Step = scatter(
    "action_log",
    "log_id",
    &["contact_id", "dest_contact_id", "true_contact_id"],
);

const REMOVE: [Step; 11] = [
    delete("paper_review_preference"),
    delete("paper_watch"),
    delete("paper_conflict"),
    delete("topic_interest"),
    delete("review_rating"),
    delete("capability"),
    delete("contact_info"),
    scatter("paper_comment", "comment_id", &["contact_id"]),
    scatter("paper_review", "review_id", &["contact_id", "requested_by"]),
    PAPER,
    ACTION_LOG,
];

const ANONYMISE: [Step; 9] = [
    Step::Overwrite {
        table: "contact_info",
        owner: "contact_id",
        columns: &["email"],
        condition: "roles & 1 = 1",
    },
    scatter(
        "paper_review_preference",
        "paper_rev_pref_id",
        &["contact_id"],
    ),
    scatter("paper_watch", "paper_watch_id", &["contact_id"]),
    scatter("paper_conflict", "paper_conflict_id", &["contact_id"]),
    scatter("topic_interest", "topic_interest_id", &["contact_id"]),
    scatter("paper_comment", "comment_id", &["contact_id"]),
    scatter("paper_review", "review_id", &["contact_id"]),
    PAPER,
    ACTION_LOG,
];

pub(super) const fn application() -> Application {
    Application {
        name: "HotCRP",
        tables: &TABLES,
        users: ("contact_info", "contact_id"),
        description: include_str!("specs/hotcrp.toml"),
        owned: &[
            ("contact_info", &["contact_id"], &["contact_id"]),
            (
                "paper",
                &["paper_id"],
                &[
                    "lead_contact_id",
                    "manager_contact_id",
                    "shepherd_contact_id",
                ],
            ),
            (
                "paper_review",
                &["review_id"],
                &["contact_id", "requested_by"],
            ),
            ("paper_comment", &["comment_id"], &["contact_id"]),
            ("paper_conflict", &["paper_conflict_id"], &["contact_id"]),
            ("paper_watch", &["paper_watch_id"], &["contact_id"]),
            (
                "paper_review_preference",
                &["paper_rev_pref_id"],
                &["contact_id"],
            ),
        ],
        personal: &[Disguise {
            name: "remove account",
            back: "restore account",
            spec: include_str!("specs/hotcrp_remove.toml"),
            by_hand: &REMOVE,
        }],
        global: Some(Disguise {
            name: "anonymise, per reviewer",
            back: "",
            spec: include_str!("specs/hotcrp_anonymise.toml"),
            by_hand: &ANONYMISE,
        }),
        made_by_hand: "contact_id >= 5000000000000000",
        fill,
    }
}

/// The size of a conference.
struct Conference {
    authors: i64,
    reviewers: i64,
    papers: i64,
    accepted: i64,
    reviews: i64,
    comments: i64,
}

const fn conference(size: Size) -> Conference {
    match size {
        Size::Paper => Conference {
            authors: 3_000,
            reviewers: 80,
            papers: 550,
            accepted: 50,
            reviews: 8,
            comments: 3,
        },
        Size::Seed => Conference {
            authors: 400,
            reviewers: 50,
            papers: 450,
            accepted: 50,
            reviews: 4,
            comments: 2,
        },
        Size::Small => Conference {
            authors: 20,
            reviewers: 6,
            papers: 8,
            accepted: 2,
            reviews: 3,
            comments: 1,
        },
    }
}

/// Rows that refer to a paper and a person, collected to be written table by table.
#[derive(Default)]
struct Referring {
    reviews: Vec<(i64, i64)>,
    comments: Vec<(i64, i64)>,
    conflicts: Vec<(i64, i64, i64)>,
    watches: Vec<(i64, i64)>,
    preferences: Vec<(i64, i64)>,
}

fn fill(filler: &mut Filler<'_>, size: Size) -> Result<Users, BenchError> {
    let of = conference(size);
    let mut all = Vec::new();
    for person in 1..=of.reviewers + of.authors {
        let reviewer = i64::from(person <= of.reviewers);
        let word = |what: &str| Value::Text(format!("{what}{person}"));
        let row = [
            Value::Int(person),
            word("first"),
            word("last"),
            Value::Text(format!("{person}@mail.edu")),
            Value::Int(reviewer),
            Value::Int(0),
        ];
        filler.row("contact_info", row)?;
        all.push(Value::Int(person));
    }
    let mut referring = Referring::default();
    for paper in 1..=of.papers {
        submit(filler, &of, paper, &mut referring)?;
    }
    write(filler, referring)?;
    let reviewers = usize::try_from(of.reviewers).unwrap_or_default();
    // The published evaluation does not measure the first and the last reviewer.
    let measured = all.iter().take(reviewers.saturating_sub(1)).skip(1);
    Ok(Users {
        measured: measured.cloned().collect(),
        share: reviewers,
        all,
    })
}

/// Writes one paper and collects the rows that refer to it.
fn submit(
    filler: &mut Filler<'_>,
    of: &Conference,
    paper: i64,
    referring: &mut Referring,
) -> Result<(), BenchError> {
    let author = |filler: &mut Filler<'_>| of.reviewers + 1 + filler.below(of.authors);
    let reviewer = |filler: &mut Filler<'_>| 1 + filler.below(of.reviewers);
    let (lead, second) = (author(filler), author(filler));
    let (manager, shepherd) = (reviewer(filler), reviewer(filler));
    let accepted = paper <= of.accepted;
    let row = [
        Value::Int(paper),
        filler.text(6),
        filler.text(60),
        Value::Int(i64::from(accepted)),
        Value::Int(lead),
        Value::Int(manager),
        Value::Int(if accepted { shepherd } else { 0 }),
    ];
    filler.row("paper", row)?;
    for person in [lead, second] {
        referring.conflicts.push((paper, person, 32));
        referring.watches.push((paper, person));
    }
    for _ in 0..2 {
        referring.conflicts.push((paper, reviewer(filler), 31));
    }
    let first = filler.below(of.reviewers);
    for review in 0..of.reviews {
        let person = 1 + (first + review) % of.reviewers;
        referring.reviews.push((paper, person));
        referring.watches.push((paper, person));
        referring.preferences.push((paper, person));
    }
    for _ in 0..of.comments {
        referring.comments.push((paper, lead));
        referring.comments.push((paper, reviewer(filler)));
    }
    Ok(())
}

fn write(filler: &mut Filler<'_>, of: Referring) -> Result<(), BenchError> {
    let int = Value::Int;
    for (number, (paper, person)) in (1..).zip(of.reviews) {
        let text = filler.text(80);
        let row = [
            int(number),
            int(paper),
            int(person),
            int(person),
            int(3),
            text,
        ];
        filler.row("paper_review", row)?;
    }
    for (number, (paper, person)) in (1..).zip(of.comments) {
        let text = filler.text(20);
        filler.row(
            "paper_comment",
            [int(number), int(paper), int(person), text],
        )?;
    }
    for (number, (paper, person, kind)) in (1..).zip(of.conflicts) {
        let row = [int(number), int(paper), int(person), int(kind)];
        filler.row("paper_conflict", row)?;
    }
    for (number, (paper, person)) in (1..).zip(of.watches) {
        filler.row(
            "paper_watch",
            [int(number), int(paper), int(person), int(2)],
        )?;
    }
    for (number, (paper, person)) in (1..).zip(of.preferences) {
        let row = [int(number), int(paper), int(person), int(1)];
        filler.row("paper_review_preference", row)?;
    }
    Ok(())
}
