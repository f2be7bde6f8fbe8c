//! The pages; their text is in `templates/`.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};

use crate::account::Person;
use crate::answers::{Answer, Lecture, Question};
use crate::hidden::Hidden;

/// For people who are not signed in.
#[derive(Template)]
#[template(path = "welcome.html")]
pub(crate) struct Welcome;

/// Somebody has just made an account.
#[derive(Template)]
#[template(path = "registered.html")]
pub(crate) struct Registered {
    pub(crate) token: String,
}

/// All lectures.
#[derive(Template)]
#[template(path = "home.html")]
pub(crate) struct Home {
    pub(crate) person: Person,
    pub(crate) lectures: Vec<Lecture>,
}

/// The questions of one lecture.
#[derive(Template)]
#[template(path = "questions.html")]
pub(crate) struct Questions {
    pub(crate) lecture: i64,
    pub(crate) label: String,
    pub(crate) list: Vec<Question>,
}

/// The page of everybody's answers.
#[derive(Template)]
#[template(path = "answers.html")]
pub(crate) struct Answers {
    pub(crate) label: String,
    pub(crate) list: Vec<Answer>,
}

/// The page of a person's disguises.
#[derive(Template)]
#[template(path = "hidden.html")]
pub(crate) struct HiddenPage {
    /// Absent before the password was given.
    pub(crate) hidden: Option<Hidden>,
}

/// A form for going away.
#[derive(Template)]
#[template(path = "leave.html")]
pub(crate) struct Leave;

/// A form for coming back.
#[derive(Template)]
#[template(path = "return.html")]
pub(crate) struct Return;

/// One sentence.
#[derive(Template)]
#[template(path = "message.html")]
pub(crate) struct Message {
    pub(crate) message: String,
}

/// A page as a response.
pub(crate) fn page(template: &impl Template) -> Response {
    template.render().map_or_else(
        |_error| StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        |text| Html(text).into_response(),
    )
}
