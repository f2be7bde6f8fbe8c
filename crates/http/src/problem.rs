//! Refusals of requests in the form of RFC 9457: the kind, the details, and the remedy.

use std::error::Error as _;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use probity_disguise::{DatabaseErrorKind, DisguiseId, Error};
use serde::Serialize;
use utoipa::ToSchema;

use crate::credential::GivenForm;

/// The prefix of a problem's type.
const TYPES: &str = "urn:probity:problem:";
/// Seconds after which a client may retry.
const RETRY_SECONDS: &str = "1";

/// Seconds to wait after too many wrong tokens: the window in which they are counted together.
const RETRY_WINDOW_SECONDS: &str = "60";

/// The kind of a problem: who must act, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    AlreadyDisguised,
    AlreadyRegistered,
    AnswerWithheld,
    BadRequest,
    Busy,
    DatabaseFailed,
    Defect,
    Ended,
    Forbidden,
    Held,
    KeyReused,
    MissingPath,
    NoSuchDisguise,
    NoSuchHold,
    NoSuchUser,
    NotInstalled,
    NotRecorded,
    OtherLog,
    Slow,
    StillRunning,
    TooLarge,
    TooManyAttempts,
    TooManyRequests,
    Unauthorized,
    Unfit,
    Unregistered,
    Unsettled,
    WrongCredential,
    WrongMediaType,
    WrongMethod,
}

/// The description of a kind.
pub(crate) struct Said {
    kind: Kind,
    /// The suffix of its type.
    pub(crate) slug: &'static str,
    title: &'static str,
    status: StatusCode,
    remedy: &'static str,
}

/// Every kind.
pub(crate) const KINDS: [Said; 30] = [
    said(
        Kind::AlreadyDisguised,
        "already-disguised",
        "The user is away already",
        StatusCode::CONFLICT,
        "bring them back with reveal first",
    ),
    said(
        Kind::AlreadyRegistered,
        "already-registered",
        "The user is registered already",
        StatusCode::CONFLICT,
        "change the credential with rekey",
    ),
    said(
        Kind::AnswerWithheld,
        "answer-withheld",
        "It was done before, and its answer was not kept",
        StatusCode::CONFLICT,
        "it is done; where the answer held a credential that nobody has now, make a new one with rekey",
    ),
    said(
        Kind::BadRequest,
        "bad-request",
        "The request is not what the path takes",
        StatusCode::BAD_REQUEST,
        "send what /v1/openapi.json says",
    ),
    said(
        Kind::Busy,
        "busy",
        "There is no room now",
        StatusCode::SERVICE_UNAVAILABLE,
        "ask again later; nothing was changed",
    ),
    said(
        Kind::DatabaseFailed,
        "database-failed",
        "The database failed",
        StatusCode::SERVICE_UNAVAILABLE,
        "look at the server's messages and at the database, then ask again",
    ),
    said(
        Kind::Defect,
        "defect",
        "It could not be done here",
        StatusCode::INTERNAL_SERVER_ERROR,
        "look at the server's messages",
    ),
    said(
        Kind::Ended,
        "ended",
        "The disguise has ended",
        StatusCode::GONE,
        "nothing can bring it back",
    ),
    said(
        Kind::Forbidden,
        "forbidden",
        "The token may not do this",
        StatusCode::FORBIDDEN,
        "use a token with this right, or grant it in the server's configuration",
    ),
    said(
        Kind::Held,
        "held",
        "A legal hold stands in the way",
        StatusCode::CONFLICT,
        "see the holds in force with holds",
    ),
    said(
        Kind::KeyReused,
        "key-reused",
        "The Idempotency-Key stands for another request",
        StatusCode::UNPROCESSABLE_ENTITY,
        "send each request with a key of its own, and the same bytes with the same key",
    ),
    said(
        Kind::MissingPath,
        "missing-path",
        "There is no such path",
        StatusCode::NOT_FOUND,
        "see the paths in /v1/openapi.json",
    ),
    said(
        Kind::NoSuchDisguise,
        "no-such-disguise",
        "There is no such disguise",
        StatusCode::NOT_FOUND,
        "see what the credential opens with list",
    ),
    said(
        Kind::NoSuchHold,
        "no-such-hold",
        "There is no such hold",
        StatusCode::NOT_FOUND,
        "see the holds in force with holds",
    ),
    said(
        Kind::NoSuchUser,
        "no-such-user",
        "The users table has no row of this user",
        StatusCode::NOT_FOUND,
        "look at the id; who has left already comes back with reveal and their credential",
    ),
    said(
        Kind::NotInstalled,
        "not-installed",
        "The database is not prepared",
        StatusCode::CONFLICT,
        "where nothing was ever hidden in it, register somebody with a specification that says who the users are; where this is a restored backup, put a later one in its place",
    ),
    said(
        Kind::NotRecorded,
        "not-recorded",
        "The log did not take the entry",
        StatusCode::SERVICE_UNAVAILABLE,
        "nothing was changed; look at the log with: probity verify DIR",
    ),
    said(
        Kind::OtherLog,
        "other-log",
        "The database belongs to a log that this server does not write",
        StatusCode::CONFLICT,
        "nothing was changed; serve it with the log that records its operations. Where that log is gone for good, or this is a copy of another database: probity disguise separate --log NEW. Where it never had a log: probity disguise begin-log --log DIR",
    ),
    said(
        Kind::Slow,
        "slow",
        "The request did not arrive in time",
        StatusCode::REQUEST_TIMEOUT,
        "send head and body without pauses",
    ),
    said(
        Kind::StillRunning,
        "still-running",
        "The same request is being worked on",
        StatusCode::CONFLICT,
        "ask again later for its answer",
    ),
    said(
        Kind::TooLarge,
        "too-large",
        "The request is too large",
        StatusCode::PAYLOAD_TOO_LARGE,
        "send less, or raise body_bytes in the server's configuration",
    ),
    said(
        Kind::TooManyAttempts,
        "too-many-attempts",
        "Too many wrong tokens came from this address",
        StatusCode::TOO_MANY_REQUESTS,
        "ask again in a minute with a token that is known, or raise wrong_tokens in the server's configuration",
    ),
    said(
        Kind::TooManyRequests,
        "too-many-requests",
        "The token has too many requests under way",
        StatusCode::TOO_MANY_REQUESTS,
        "wait for answers before asking more, or raise token_requests in the server's configuration",
    ),
    said(
        Kind::Unauthorized,
        "unauthorized",
        "The request bears no token that is known",
        StatusCode::UNAUTHORIZED,
        "send the header Authorization: Bearer TOKEN",
    ),
    said(
        Kind::Unfit,
        "unfit",
        "The database or its specification does not allow it",
        StatusCode::UNPROCESSABLE_ENTITY,
        "change the specification, or the request",
    ),
    said(
        Kind::Unregistered,
        "unregistered",
        "Somebody has no credential yet",
        StatusCode::CONFLICT,
        "register them first",
    ),
    said(
        Kind::Unsettled,
        "unsettled",
        "Whether it was done is not known",
        StatusCode::SERVICE_UNAVAILABLE,
        "ask again with the same Idempotency-Key, or find out with list first",
    ),
    said(
        Kind::WrongCredential,
        "wrong-credential",
        "The credential does not fit",
        StatusCode::FORBIDDEN,
        "send the credential that this user keeps",
    ),
    said(
        Kind::WrongMediaType,
        "wrong-media-type",
        "The body is not JSON",
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "send the header Content-Type: application/json",
    ),
    said(
        Kind::WrongMethod,
        "wrong-method",
        "The path knows another method",
        StatusCode::METHOD_NOT_ALLOWED,
        "use the method that the header Allow names",
    ),
];

const fn said(
    kind: Kind,
    slug: &'static str,
    title: &'static str,
    status: StatusCode,
    remedy: &'static str,
) -> Said {
    Said {
        kind,
        slug,
        title,
        status,
        remedy,
    }
}

impl Kind {
    fn said(self) -> &'static Said {
        static ALL: [Said; KINDS.len()] = KINDS;
        let [first, ..] = &ALL;
        ALL.iter().find(|it| it.kind == self).unwrap_or(first)
    }
}

/// A refused request.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    detail: String,
    remedy: &'static str,
    /// The cause, which the operator must know and the client need not; without personal data.
    cause: Option<String>,
    /// True if the same request may succeed at once.
    is_passing: bool,
    /// A new credential that may be the one that fits.
    credential: Option<Box<GivenForm>>,
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
    /// The fault of this request.
    detail: String,
    /// The remedy.
    remedy: &'static str,
    /// The new credential that was asked for, where it is not known whether it is in force: keep it
    /// and the one before, and try which one fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<Box<GivenForm>>,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            remedy: kind.said().remedy,
            cause: None,
            is_passing: false,
            credential: None,
        }
    }

    /// Adds the new credential to the problem if it may be the one that fits; the server keeps none.
    pub(crate) fn or_given(self, credential: Option<GivenForm>) -> Self {
        let credential = credential.filter(|_| self.kind == Kind::Unsettled);
        Self {
            credential: credential.map(Box::new),
            ..self
        }
    }

    /// Adds a cause that only the operator is shown.
    pub(crate) fn because(self, cause: &impl ToString) -> Self {
        Self {
            cause: Some(cause.to_string()),
            ..self
        }
    }

    /// Adds that a disguise in chunks was begun: its finished part stays until resume or reveal.
    pub(crate) fn begun(self, id: DisguiseId) -> Self {
        self.after(&format!("disguise {id} was begun"))
    }

    /// Adds that a disguise in chunks was begun, if what is not known was done.
    pub(crate) fn begun_unless_undone(self, id: DisguiseId) -> Self {
        self.after(&format!("disguise {id} was begun, unless this was undone"))
    }

    /// Replaces the remedy of a problem of this kind by one for this operation.
    pub(crate) fn advised(self, kind: Kind, remedy: &'static str) -> Self {
        if self.kind == kind {
            Self { remedy, ..self }
        } else {
            self
        }
    }

    /// Changes the advice of a replay in a database that is not prepared: to prepare it now would
    /// make another one of it.
    pub(crate) fn of_early_backup(self) -> Self {
        match self.kind {
            Kind::NotInstalled => Self {
                remedy: "a backup that is older than the first registration cannot be brought to where the log is: restore a later one, and register and apply nothing in this one before, or the operations of the log are another database's for good",
                ..self
            },
            _ => self,
        }
    }

    fn after(self, what: &str) -> Self {
        let detail = format!("{what}: {}", self.detail);
        Self {
            detail,
            remedy: "go on with resume, end it with cancel, or take back what is hidden with reveal",
            is_passing: false,
            ..self
        }
    }

    /// Returns the fault of this request.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns whether it is about what was asked for, so that something else may be done.
    pub(crate) fn is_refusal(&self) -> bool {
        self.kind.said().status.is_client_error()
    }

    /// Returns whether the database said that the same may be tried again.
    pub(crate) const fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// Returns one line for the operator, if there is something to act upon.
    pub(crate) fn line(&self) -> Option<String> {
        let (said, cause) = (self.kind.said(), self.cause.as_deref()?);
        // A refusal of the database quotes no value to the client, and names the row to nobody else.
        let is_withheld = self.kind == Kind::Unfit && !self.detail.ends_with(cause);
        let is_for_operator = said.status.is_server_error() || is_withheld;
        is_for_operator.then(|| format!("{}: {}: {cause}", said.slug, self.detail))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::AlreadyDisguised { .. } => Kind::AlreadyDisguised,
            Error::AlreadyRegistered => Kind::AlreadyRegistered,
            Error::Audit(_) => Kind::NotRecorded,
            Error::Database { source, .. } => match source.kind {
                DatabaseErrorKind::Unique | DatabaseErrorKind::Constraint => Kind::Unfit,
                _ => Kind::DatabaseFailed,
            },
            Error::Ended => Kind::Ended,
            Error::EndedByAnother { .. } => Kind::AnswerWithheld,
            Error::Held { .. } => Kind::Held,
            Error::NoSuchDisguise => Kind::NoSuchDisguise,
            Error::NoSuchHold => Kind::NoSuchHold,
            Error::NoSuchUser { .. } => Kind::NoSuchUser,
            Error::NotInstalled => Kind::NotInstalled,
            Error::RecordsLost { .. } | Error::Unreadable { .. } | Error::DamagedRow { .. } => {
                Kind::DatabaseFailed
            }
            Error::OtherLog
            | Error::LogNeeded
            | Error::SameLog
            | Error::UnclearLog
            | Error::UnsaidLog => Kind::OtherLog,
            Error::OtherRequest => Kind::KeyReused,
            Error::Unregistered { .. } | Error::NotRegistered { .. } => Kind::Unregistered,
            Error::Unsettled(_) => Kind::Unsettled,
            Error::WrongCredential => Kind::WrongCredential,
            Error::Spec(_)
            | Error::WouldCascade { .. }
            | Error::WouldOrphan { .. }
            | Error::Circle { .. }
            | Error::WouldEmpty { .. }
            | Error::NoFreeId { .. }
            | Error::OverNeeded
            | Error::Placeholder { .. }
            | Error::Tenant { .. }
            | Error::Update { .. }
            | Error::Value { .. } => Kind::Unfit,
            _ => Kind::Defect,
        };
        let mut detail = error.to_string();
        let cause = error.source().map(ToString::to_string);
        // The client may know the fault of a specification, but not the database's own words.
        let is_of_database = matches!(error, Error::Database { .. });
        if let (Kind::Unfit, Some(cause), false) = (kind, &cause, is_of_database) {
            detail = format!("{detail}: {cause}");
        }
        let is_passing = error.is_passing();
        Self {
            cause,
            is_passing,
            ..Self::new(if is_passing { Kind::Busy } else { kind }, detail)
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let said = self.kind.said();
        let document = ProblemDocument {
            of: format!("{TYPES}{}", said.slug),
            title: said.title,
            status: said.status.as_u16(),
            detail: self.detail,
            remedy: match self.credential {
                Some(_) => "keep this credential and the one before, and try which one fits",
                None => self.remedy,
            },
            credential: self.credential,
        };
        // A value of texts and numbers alone can always be written.
        let text = serde_json::to_string(&document).unwrap_or_default();
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = said.status;
        let headers = response.headers_mut();
        let mut put = |name, value| headers.insert(name, HeaderValue::from_static(value));
        put(CONTENT_TYPE, "application/problem+json");
        put(CACHE_CONTROL, "no-store");
        match self.kind {
            Kind::Unauthorized => put(WWW_AUTHENTICATE, "Bearer realm=\"probity\""),
            Kind::Busy | Kind::StillRunning | Kind::TooManyRequests => {
                put(RETRY_AFTER, RETRY_SECONDS)
            }
            Kind::TooManyAttempts => put(RETRY_AFTER, RETRY_WINDOW_SECONDS),
            _ => None,
        };
        response
    }
}
