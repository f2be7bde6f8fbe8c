//! Why a request was refused, as RFC 9457 has it: what, the details, and what to do.

use std::error::Error as _;

use axum::body::Body;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use probity_disguise::{DatabaseErrorKind, DisguiseId, Error};
use serde::Serialize;
use utoipa::ToSchema;

/// What a problem's type begins with.
const TYPES: &str = "urn:probity:problem:";
/// Seconds after which a client may ask again.
const RETRY_SECONDS: &str = "1";

/// What kind of problem it is: who must act, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    AlreadyRegistered,
    BadRequest,
    Busy,
    DatabaseFailed,
    Defect,
    Ended,
    Forbidden,
    Held,
    MissingPath,
    NoSuchDisguise,
    NoSuchHold,
    NotInstalled,
    NotRecorded,
    Slow,
    TooLarge,
    Unauthorized,
    Unfit,
    Unregistered,
    WrongCredential,
    WrongMediaType,
    WrongMethod,
}

impl Kind {
    /// Every kind, for the documentation.
    pub(crate) const ALL: [Self; 21] = [
        Self::AlreadyRegistered,
        Self::BadRequest,
        Self::Busy,
        Self::DatabaseFailed,
        Self::Defect,
        Self::Ended,
        Self::Forbidden,
        Self::Held,
        Self::MissingPath,
        Self::NoSuchDisguise,
        Self::NoSuchHold,
        Self::NotInstalled,
        Self::NotRecorded,
        Self::Slow,
        Self::TooLarge,
        Self::Unauthorized,
        Self::Unfit,
        Self::Unregistered,
        Self::WrongCredential,
        Self::WrongMediaType,
        Self::WrongMethod,
    ];

    /// The end of its type, its title and its status.
    pub(crate) const fn said(self) -> (&'static str, &'static str, StatusCode) {
        use StatusCode as S;
        match self {
            Self::AlreadyRegistered => (
                "already-registered",
                "The user is registered already",
                S::CONFLICT,
            ),
            Self::BadRequest => (
                "bad-request",
                "The request is not what the path takes",
                S::BAD_REQUEST,
            ),
            Self::Busy => ("busy", "There is no room now", S::SERVICE_UNAVAILABLE),
            Self::DatabaseFailed => (
                "database-failed",
                "The database failed",
                S::SERVICE_UNAVAILABLE,
            ),
            Self::Defect => (
                "defect",
                "It could not be done here",
                S::INTERNAL_SERVER_ERROR,
            ),
            Self::Ended => ("ended", "The disguise has ended", S::GONE),
            Self::Forbidden => ("forbidden", "The token may not do this", S::FORBIDDEN),
            Self::Held => ("held", "A legal hold stands in the way", S::CONFLICT),
            Self::MissingPath => ("missing-path", "There is no such path", S::NOT_FOUND),
            Self::NoSuchDisguise => (
                "no-such-disguise",
                "There is no such disguise",
                S::NOT_FOUND,
            ),
            Self::NoSuchHold => ("no-such-hold", "There is no such hold", S::NOT_FOUND),
            Self::NotInstalled => (
                "not-installed",
                "The database is not prepared",
                S::CONFLICT,
            ),
            Self::NotRecorded => (
                "not-recorded",
                "The log did not take the entry",
                S::SERVICE_UNAVAILABLE,
            ),
            Self::Slow => (
                "slow",
                "The request did not arrive in time",
                S::REQUEST_TIMEOUT,
            ),
            Self::TooLarge => (
                "too-large",
                "The request is too large",
                S::PAYLOAD_TOO_LARGE,
            ),
            Self::Unauthorized => (
                "unauthorized",
                "The request bears no token that is known",
                S::UNAUTHORIZED,
            ),
            Self::Unfit => (
                "unfit",
                "The database or its specification does not allow it",
                S::UNPROCESSABLE_ENTITY,
            ),
            Self::Unregistered => (
                "unregistered",
                "Somebody has no credential yet",
                S::CONFLICT,
            ),
            Self::WrongCredential => (
                "wrong-credential",
                "The credential does not fit",
                S::FORBIDDEN,
            ),
            Self::WrongMediaType => (
                "wrong-media-type",
                "The body is not JSON",
                S::UNSUPPORTED_MEDIA_TYPE,
            ),
            Self::WrongMethod => (
                "wrong-method",
                "The path knows another method",
                S::METHOD_NOT_ALLOWED,
            ),
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::AlreadyRegistered => "change the credential with rekey",
            Self::BadRequest => "send what /v1/openapi.json says",
            Self::Busy => "ask again later; nothing was changed",
            Self::DatabaseFailed => {
                "look at the server's messages and at the database, then ask again"
            }
            Self::Defect => "look at the server's messages",
            Self::Ended => "nothing can bring it back",
            Self::Forbidden => {
                "use a token with this right, or grant it in the server's configuration"
            }
            Self::Held => "see the holds in force with holds",
            Self::MissingPath => "see the paths in /v1/openapi.json",
            Self::NoSuchDisguise => "see what the credential opens with list",
            Self::NoSuchHold => "see the holds in force with holds",
            Self::NotInstalled => "name a specification that says who the users are",
            Self::NotRecorded => {
                "nothing was changed; look at the log with: probity verify DIR"
            }
            Self::Slow => "send head and body without pauses",
            Self::TooLarge => "send less, or raise body_bytes in the server's configuration",
            Self::Unauthorized => "send the header Authorization: Bearer TOKEN",
            Self::Unfit => "change the specification, or the request",
            Self::Unregistered => "register them first",
            Self::WrongCredential => "send the credential that this user keeps",
            Self::WrongMediaType => "send the header Content-Type: application/json",
            Self::WrongMethod => "use the method that the header Allow names",
        }
    }
}

/// A refused request.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    detail: String,
    remedy: &'static str,
    /// What the operator must know and the client need not; without personal data.
    cause: Option<String>,
    /// The same request may well succeed at once.
    is_passing: bool,
}

/// The form in which a problem is told.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProblemDocument {
    /// A URN that says what kind of problem it is.
    #[serde(rename = "type")]
    of: String,
    /// The kind in words, always the same for a type.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What was wrong with this request.
    detail: String,
    /// What to do about it.
    remedy: &'static str,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            remedy: kind.remedy(),
            cause: None,
            is_passing: false,
        }
    }

    /// The same with what only the operator is told.
    pub(crate) fn because(self, cause: impl ToString) -> Self {
        Self {
            cause: Some(cause.to_string()),
            ..self
        }
    }

    /// The same for a disguise in chunks that was begun: what is done of it stays until resume or reveal.
    pub(crate) fn begun(self, id: DisguiseId) -> Self {
        let detail = format!("disguise {id} was begun: {}", self.detail);
        Self {
            detail,
            remedy: "go on with resume, or take it back with reveal",
            is_passing: false,
            ..self
        }
    }

    /// Whether the database said that the same may be tried again.
    pub(crate) const fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// One line for the operator, when there is something to act upon.
    pub(crate) fn line(&self) -> Option<String> {
        let (slug, _, status) = self.kind.said();
        let cause = self.cause.as_deref()?;
        status
            .is_server_error()
            .then(|| format!("{slug}: {}: {cause}", self.detail))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::AlreadyRegistered => Kind::AlreadyRegistered,
            Error::Audit(_) => Kind::NotRecorded,
            Error::Database { .. } => Kind::DatabaseFailed,
            Error::Ended => Kind::Ended,
            Error::Held { .. } => Kind::Held,
            Error::NoSuchDisguise => Kind::NoSuchDisguise,
            Error::NoSuchHold => Kind::NoSuchHold,
            Error::NotInstalled => Kind::NotInstalled,
            Error::Unregistered { .. } => Kind::Unregistered,
            Error::WrongCredential => Kind::WrongCredential,
            Error::Spec(_)
            | Error::WouldCascade { .. }
            | Error::NoFreeId { .. }
            | Error::Update { .. }
            | Error::Value { .. } => Kind::Unfit,
            _ => Kind::Defect,
        };
        let mut detail = error.to_string();
        let cause = error.source().map(ToString::to_string);
        // A specification's fault is the client's to know, the database's own words are not.
        if let (Kind::Unfit, Some(cause)) = (kind, &cause) {
            detail = format!("{detail}: {cause}");
        }
        let is_passing = matches!(
            &error,
            Error::Database { source, .. } if source.kind == DatabaseErrorKind::Busy
        );
        Self {
            cause,
            is_passing,
            ..Self::new(if is_passing { Kind::Busy } else { kind }, detail)
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let (slug, title, status) = self.kind.said();
        let document = ProblemDocument {
            of: format!("{TYPES}{slug}"),
            title,
            status: status.as_u16(),
            detail: self.detail,
            remedy: self.remedy,
        };
        let text = serde_json::to_string(&document).unwrap_or_default();
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let mut put = |name, value| headers.insert(name, HeaderValue::from_static(value));
        put(CONTENT_TYPE, "application/problem+json");
        put(CACHE_CONTROL, "no-store");
        match self.kind {
            Kind::Unauthorized => put(WWW_AUTHENTICATE, "Bearer realm=\"probity\""),
            Kind::WrongMethod => put(ALLOW, "GET, POST"),
            Kind::Busy => put(RETRY_AFTER, RETRY_SECONDS),
            _ => None,
        };
        response
    }
}
