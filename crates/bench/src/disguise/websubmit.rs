//! `WebSubmit`: students hand in answers to the questions of lectures.

use probity_disguise::Value;

use super::application::{Application, Disguise, Size, Step, Users};
use super::place::Filler;
use crate::command::BenchError;

const TABLES: [&str; 5] = [
    "CREATE TABLE users (email VARCHAR(190) NOT NULL, apikey VARCHAR(64) NOT NULL PRIMARY KEY, is_admin INTEGER NOT NULL, is_anon INTEGER NOT NULL)",
    "CREATE TABLE lectures (id BIGINT NOT NULL PRIMARY KEY, label VARCHAR(100))",
    "CREATE TABLE questions (lec BIGINT NOT NULL, q BIGINT NOT NULL, question TEXT, PRIMARY KEY (lec, q))",
    "CREATE TABLE answers (email VARCHAR(190) NOT NULL, lec BIGINT NOT NULL, q BIGINT NOT NULL, answer TEXT, submitted_at VARCHAR(30), PRIMARY KEY (email, lec, q))",
    "CREATE UNIQUE INDEX users_email ON users (email)",
];
const QUESTIONS: i64 = 4;

pub(super) const fn application() -> Application {
    Application {
        name: "WebSubmit",
        tables: &TABLES,
        users: ("users", "email"),
        description: include_str!("specs/websubmit.toml"),
        owned: &[
            ("users", &["email"], &["email"]),
            ("answers", &["email", "lec", "q"], &["email"]),
        ],
        personal: &[Disguise {
            name: "remove account",
            back: "restore account",
            spec: include_str!("specs/websubmit_remove.toml"),
            by_hand: &[
                Step::Delete {
                    table: "users",
                    owner: "email",
                },
                Step::Delete {
                    table: "answers",
                    owner: "email",
                },
            ],
        }],
        global: Some(Disguise {
            name: "anonymise, per user",
            back: "",
            spec: include_str!("specs/websubmit_anonymise.toml"),
            by_hand: &[Step::Group {
                table: "answers",
                owner: "email",
                by: "lec",
            }],
        }),
        made_by_hand: "email LIKE 'm%@made.invalid'",
        fill,
    }
}

fn fill(filler: &mut Filler<'_>, size: Size) -> Result<Users, BenchError> {
    let (users, lectures) = match size {
        Size::Paper | Size::Seed => (2_000, 20),
        Size::Small => (12, 3),
    };
    for lecture in 0..lectures {
        let label = Value::Text(format!("lecture {lecture}"));
        filler.row("lectures", [Value::Int(lecture), label])?;
    }
    for lecture in 0..lectures {
        for question in 0..QUESTIONS {
            let text = filler.text(6);
            let row = [Value::Int(lecture), Value::Int(question), text];
            filler.row("questions", row)?;
        }
    }
    let mut all = Vec::new();
    for user in 0..=users {
        // The last user is the admin, who answers no questions.
        let email = Value::Text(if user == users {
            "admin@mail.edu".to_owned()
        } else {
            format!("{user}@mail.edu")
        });
        let key = format!("{:032x}{:032x}", filler.random.next(), user);
        let admin = Value::Int(i64::from(user == users));
        let row = [email.clone(), Value::Text(key), admin, Value::Int(0)];
        filler.row("users", row)?;
        all.push(email);
    }
    for email in all.iter().take(all.len().saturating_sub(1)) {
        for lecture in 0..lectures {
            for question in 0..QUESTIONS {
                let row = [
                    email.clone(),
                    Value::Int(lecture),
                    Value::Int(question),
                    filler.text(5),
                    Value::from("2026-01-01 00:00:00"),
                ];
                filler.row("answers", row)?;
            }
        }
    }
    let students = all.len().saturating_sub(1);
    Ok(Users {
        measured: all.iter().take(students).cloned().collect(),
        share: students,
        all,
    })
}
