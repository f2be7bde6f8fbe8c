//! Checks of every request before routing: one host, at most one token, and an announced end of the
//! connection.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::header::{AUTHORIZATION, CONNECTION, HOST, TRANSFER_ENCODING};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Request, Response, Version};
use axum::response::IntoResponse as _;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::app_state::AppState;
use crate::connections::Connection;
use crate::problem::{Kind, Problem};
use crate::token::{Grant, granted};

/// An authenticated client: the index of its grant, and the permit for its request.
#[derive(Clone)]
pub(crate) struct Caller {
    index: usize,
    pub(crate) permit: Arc<OwnedSemaphorePermit>,
}

/// The service between a connection and the router.
pub(crate) struct Gate {
    pub(crate) state: Arc<AppState>,
    pub(crate) paths: TowerToHyperService<Router>,
    pub(crate) connection: Connection,
}

impl Caller {
    pub(crate) fn grant<'a>(&self, state: &'a AppState) -> Result<&'a Grant, Problem> {
        state.grants.get(self.index).ok_or_else(unauthorized)
    }
}

impl Gate {
    /// Answers one request. Only a client that has shown a token, and whose request was read to its
    /// end, may send another one over the same connection.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let is_whole = Arc::new(AtomicBool::new(request.body().is_end_stream()));
        let (mut head, body) = request.into_parts();
        let caller = self.caller(head.version, &head.headers).await;
        let is_known = matches!(caller, Ok(Some(_)));
        let mut response = match caller {
            Err(problem) => problem.into_response(),
            Ok(caller) => {
                if let Some(caller) = caller {
                    head.extensions.insert(caller);
                }
                let body = Body::new(Seen {
                    body,
                    is_whole: Arc::clone(&is_whole),
                });
                let Ok(response) = self.paths.call(Request::from_parts(head, body)).await;
                response
            }
        };
        if !is_known || !is_whole.load(Ordering::Relaxed) {
            let headers = response.headers_mut();
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Authenticates the client; returns `None` where no token is shown.
    async fn caller(
        &self,
        version: Version,
        headers: &HeaderMap,
    ) -> Result<Option<Caller>, Problem> {
        check_host(version, headers)?;
        check_coding(headers)?;
        let Some(said) = authorization(headers)? else {
            return Ok(None);
        };
        let Self {
            state, connection, ..
        } = self;
        let found = bearer(said).and_then(|token| granted(&state.grants, token));
        let name = found.map(|(_, grant)| grant.name.as_str());
        if !state.attempts.note(connection.peer, name, Instant::now()) {
            let detail = "too many wrong tokens were shown from this address";
            return Err(Problem::new(Kind::TooManyAttempts, detail));
        }
        let (index, grant) = found.ok_or_else(unauthorized)?;
        let permit = Arc::clone(&grant.permits).try_acquire_owned();
        let permit = permit.map_err(|_none_left| {
            let detail = format!("the token {grant:?} has as many requests under way as it may");
            Problem::new(Kind::TooManyRequests, detail)
        })?;
        if !connection.admit(state.limits.wait_time()).await {
            let detail = "as many clients as are allowed are connected";
            return Err(Problem::new(Kind::Busy, detail));
        }
        let permit = Arc::new(permit);
        Ok(Some(Caller { index, permit }))
    }
}

/// Returns the permits for the concurrent requests of a token.
pub(crate) fn request_permits(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)))
}

/// Checks for one host (RFC 9112, section 3.2); a request before version 1.1 may have none.
fn check_host(version: Version, headers: &HeaderMap) -> Result<(), Problem> {
    let mut hosts = headers.get_all(HOST).iter();
    let refused = |detail: &str| Err(Problem::new(Kind::BadRequest, detail));
    match (hosts.next(), hosts.next()) {
        (None, _) if version < Version::HTTP_11 => Ok(()),
        (None, _) => refused("the header Host is missing"),
        (Some(_), Some(_)) => refused("the header Host is there more than once"),
        (Some(host), None) if is_host(host.as_bytes()) => Ok(()),
        (Some(_), None) => refused("the header Host names no host"),
    }
}

/// Accepts only one `chunked` coding, which is decoded once (RFC 9112, section 6.1). With any other
/// coding, the body and its end would depend on who reads.
fn check_coding(headers: &HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else {
        return Ok(());
    };
    let is_chunked = coding
        .as_bytes()
        .trim_ascii()
        .eq_ignore_ascii_case(b"chunked");
    if is_chunked && codings.next().is_none() {
        return Ok(());
    }
    let detail = "the header Transfer-Encoding says something else than chunked, once";
    Err(Problem::new(Kind::BadRequest, detail))
}

/// Returns whether the header is empty, as for an address without a host, or names a host without a
/// user.
fn is_host(host: &[u8]) -> bool {
    host.is_empty() || (!host.contains(&b'@') && Authority::try_from(host).is_ok())
}

/// Returns the header Authorization, which may be there once (RFC 9110, section 5.3). With two, the
/// one that counts would depend on who reads.
fn authorization(headers: &HeaderMap) -> Result<Option<&HeaderValue>, Problem> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let said = all.next();
    if all.next().is_some() {
        let detail = "the header Authorization is there more than once";
        return Err(Problem::new(Kind::BadRequest, detail));
    }
    Ok(said)
}

fn bearer(said: &HeaderValue) -> Option<&str> {
    let (scheme, token) = said.to_str().ok()?.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

/// Returns the problem for a missing token, which is the same for every unknown one.
pub(crate) fn unauthorized() -> Problem {
    Problem::new(
        Kind::Unauthorized,
        "there is no token, or it is not known here",
    )
}

/// A body that notes when it was read to its end.
struct Seen {
    body: Incoming,
    is_whole: Arc<AtomicBool>,
}

impl HttpBody for Seen {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let seen = self.get_mut();
        let frame = Pin::new(&mut seen.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || seen.body.is_end_stream() {
            seen.is_whole.store(true, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for good in ["", "probity", "a.example:80", "[::1]:8480", "127.0.0.1"] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in ["a b", "user@host", "a/b", "[::1", "a:b:c", "\u{e4}"] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }
}
