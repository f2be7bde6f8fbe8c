//! Why a request was not done, and how that is said to the person.

use std::io::Write as _;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use probity_disguise::{DatabaseError, SpecError};
use probity_log::LogError;

use crate::pages::{Message, page};

/// Why a request was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("{0}")]
    Form(&'static str),
    #[error("Sign in first.")]
    SignedOut,
    #[error("The address or the password is wrong.")]
    WrongPassword,
    #[error("This account is away. Bring it back to sign in.")]
    Away,
    #[error("There is an account with this address already.")]
    Taken,
    #[error("Only a teacher may do this.")]
    NotTeacher,
    #[error("This answer is not yours.")]
    NotYours,
    #[error("There is no such page.")]
    NotFound,
    #[error("Too many people are signed in. Try again later.")]
    Busy,
    #[error("The program is stopping.")]
    Stopping,
    #[error("the program is broken: {0}")]
    Broken(&'static str),
    #[error("a disguise failed")]
    Disguise(#[source] probity_disguise::Error),
    #[error("a specification is wrong")]
    Spec(#[from] SpecError),
    #[error("the database failed")]
    Database(#[from] DatabaseError),
    #[error("the log failed")]
    Log(#[from] LogError),
}

impl From<probity_disguise::Error> for Problem {
    fn from(error: probity_disguise::Error) -> Self {
        match error {
            probity_disguise::Error::WrongCredential => Self::WrongPassword,
            probity_disguise::Error::AlreadyRegistered => Self::Taken,
            probity_disguise::Error::NoSuchDisguise => Self::NotFound,
            other => Self::Disguise(other),
        }
    }
}

impl Problem {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Form(_) => StatusCode::BAD_REQUEST,
            Self::SignedOut | Self::WrongPassword | Self::NotTeacher | Self::NotYours => {
                StatusCode::FORBIDDEN
            }
            Self::Away | Self::Taken => StatusCode::CONFLICT,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Busy | Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_)
            | Self::Disguise(_)
            | Self::Spec(_)
            | Self::Database(_)
            | Self::Log(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if matches!(self, Self::SignedOut) {
            return Redirect::to("/").into_response();
        }
        let status = self.status();
        let message = if status == StatusCode::INTERNAL_SERVER_ERROR {
            tell_operator(&self);
            "Something went wrong here, and nothing was changed.".to_owned()
        } else {
            self.to_string()
        };
        (status, page(&Message { message })).into_response()
    }
}

/// The whole story goes to whoever runs the program; the person learns nothing of the inside.
fn tell_operator(problem: &Problem) {
    let mut text = problem.to_string();
    let mut cause = std::error::Error::source(problem);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    // With nowhere to write to there is nobody to tell.
    writeln!(std::io::stderr(), "{text}").unwrap_or_default();
}
