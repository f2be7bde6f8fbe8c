//! Credentials in requests and answers: the lines that people keep.

use probity_disguise::{
    Credential, CredentialLine, Protection, RecoveryToken, Registration, SecretKey, Suite,
    TokenShare,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::problem::{Kind, Problem};
use crate::secret::Secret;

/// The proof of a person's right: a line that they were given, two shares, or their password.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum CredentialForm {
    /// The private key.
    Key(Secret),
    /// The recovery token.
    Token(Secret),
    /// Two of three shares of the recovery token.
    Shares(Vec<Secret>),
    /// The password.
    Password(Secret),
}

/// A parsed credential; it has no `Debug`.
pub(crate) enum Brought<'a> {
    Key(SecretKey),
    Token(RecoveryToken),
    Password(&'a str),
}

impl CredentialForm {
    pub(crate) fn brought(&self) -> Result<Brought<'_>, Problem> {
        match self {
            Self::Key(line) => match CredentialLine::parse(line) {
                Ok(CredentialLine::Key(key)) => Ok(Brought::Key(key)),
                _ => Err(damaged("key")),
            },
            Self::Token(line) => match CredentialLine::parse(line) {
                Ok(CredentialLine::Token(token)) => Ok(Brought::Token(token)),
                _ => Err(damaged("token")),
            },
            Self::Shares(lines) => match lines.as_slice() {
                [first, second] => {
                    let token = RecoveryToken::join(&share(first)?, &share(second)?);
                    Ok(Brought::Token(token))
                }
                _ => Err(Problem::new(Kind::BadRequest, "two shares are needed")),
            },
            Self::Password(password) => Ok(Brought::Password(password)),
        }
    }
}

impl Brought<'_> {
    pub(crate) const fn credential(&self) -> Credential<'_> {
        match self {
            Self::Key(key) => Credential::Key(key),
            Self::Token(token) => Credential::Token(token),
            Self::Password(password) => Credential::Password(password),
        }
    }
}

fn share(line: &str) -> Result<TokenShare, Problem> {
    match CredentialLine::parse(line) {
        Ok(CredentialLine::Share(share)) => Ok(share),
        _ => Err(damaged("share")),
    }
}

/// Reports a damaged line without the reason, which could quote the secret.
fn damaged(what: &str) -> Problem {
    let detail = format!("the credential is not the line of a {what} as it was given out");
    Problem::new(Kind::BadRequest, detail)
}

/// Returns how a new credential is protected.
pub(crate) fn protection(
    password: Option<&Secret>,
    in_shares: bool,
) -> Result<Protection<'_>, Problem> {
    match password {
        Some(password) if password.is_empty() => {
            Err(Problem::new(Kind::BadRequest, "the password is empty"))
        }
        Some(password) => Ok(Protection::Password(password)),
        None if in_shares => Ok(Protection::Token),
        None => Ok(Protection::KeyAlone),
    }
}

/// New passwords of fewer characters are taken with a caution.
const PASSWORD_CHARS_FEW: usize = 12;

/// Returns what to know of a new password that is short, without what it is.
pub fn caution_of_password(password: &str) -> Option<String> {
    (password.chars().count() < PASSWORD_CHARS_FEW).then(|| {
        format!(
            "the password has fewer than {PASSWORD_CHARS_FEW} characters: the holder of a copy of the database can find it by trying, and open what is hidden"
        )
    })
}

/// Parses the kind of a new private key.
pub(crate) fn suite(name: &str) -> Result<Suite, Problem> {
    name.parse().map_err(|_unknown| {
        Problem::new(Kind::BadRequest, "the suite is neither x25519 nor x-wing")
    })
}

/// A new credential for its owner to keep, which the server does not: exactly one of the three.
#[derive(Serialize, ToSchema)]
pub(crate) struct GivenForm {
    /// The line with the private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Secret>,
    /// The line with the recovery token, beside the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<Secret>,
    /// Three lines with a share of the recovery token each; any two of them open what it opens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    shares: Vec<Secret>,
}

impl std::fmt::Debug for GivenForm {
    /// Writes nothing of the credential.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("GivenForm")
    }
}

impl GivenForm {
    pub(crate) fn new(made: &Registration, in_shares: bool) -> Result<Self, Problem> {
        let mut form = Self {
            key: None,
            token: None,
            shares: Vec::new(),
        };
        match &made.token {
            None => form.key = Some(made.line().into()),
            Some(_) if !in_shares => form.token = Some(made.line().into()),
            Some(token) => {
                let shares = token.split()?;
                form.shares = shares.iter().map(|it| it.line().into()).collect();
            }
        }
        Ok(form)
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Response;
    use axum::response::IntoResponse as _;
    use probity_disguise::database::Said;
    use probity_disguise::{DatabaseError, DatabaseErrorKind, Error};

    use super::*;

    const LINE: &str = "probity-disguise-key-v1 of nobody";
    const BYTES_MAX: usize = 4_096;

    fn lost() -> DatabaseError {
        DatabaseError {
            kind: DatabaseErrorKind::Other,
            message: "the connection was lost".to_owned(),
            said: Said::default(),
        }
    }

    fn document(answer: Response<Body>) -> serde_json::Value {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let body = to_bytes(answer.into_body(), BYTES_MAX);
        let body = runtime.unwrap().block_on(body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// Nothing claimed that a new credential is answered when it is not known whether it is in force: without
    /// it its person would be shut out by a commit that was done. No other refusal gives it.
    #[test]
    fn a_credential_that_may_be_in_force_is_answered() {
        let doing = "committing";
        let refusals = [
            (Error::Unsettled(lost()), true),
            (
                Error::Database {
                    doing,
                    source: lost(),
                },
                false,
            ),
            (Error::AlreadyRegistered, false),
        ];
        for (error, is_given) in refusals {
            let form = GivenForm {
                key: Some(LINE.to_owned().into()),
                token: None,
                shares: Vec::new(),
            };
            let answer = Problem::from(error).or_given(Some(form)).into_response();
            let document = document(answer);
            assert_eq!(
                document["credential"]["key"] == LINE,
                is_given,
                "{document}"
            );
            assert_eq!(
                document["type"] == "urn:probity:problem:unsettled",
                is_given
            );
            let remedy = document["remedy"].as_str().unwrap();
            assert_eq!(remedy.contains("try which one fits"), is_given, "{remedy}");
        }
    }
}
