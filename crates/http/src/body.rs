//! Request bodies: read whole within limits of size and time, into memory that is overwritten
//! afterwards.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::problem::{Kind, Problem};

/// A body in memory.
pub(crate) type Bytes = Zeroizing<Vec<u8>>;

/// Reads a body of JSON.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    patience: Duration,
) -> Result<Bytes, Problem> {
    let media = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if !media.is_some_and(is_json) {
        return Err(Problem::new(
            Kind::WrongMediaType,
            "the body is not said to be application/json",
        ));
    }
    // One that is no number was refused before. Without one the bound counts the bytes as they come.
    let said = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    let said = said.and_then(|it| it.parse().ok()).unwrap_or(0);
    if said > bytes_max {
        return Err(too_large(bytes_max));
    }
    let read = timeout(patience, collect(body, said, bytes_max)).await;
    read.unwrap_or_else(|_late| {
        let seconds = patience.as_secs();
        let detail = format!("the body was not there within {seconds} seconds");
        Err(Problem::new(Kind::Slow, detail))
    })
}

fn is_json(media: &[u8]) -> bool {
    let kind = media.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

async fn collect(mut body: Body, said: usize, bytes_max: usize) -> Result<Bytes, Problem> {
    let mut all = Zeroizing::new(Vec::with_capacity(said));
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| {
            Problem::new(Kind::BadRequest, "the body broke off").because(&error)
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let length = all.len().saturating_add(data.len());
        if length > bytes_max {
            return Err(too_large(bytes_max));
        }
        if length > all.capacity() {
            // Growing in place would leave a copy of what was read so far.
            let capacity = length.saturating_mul(2).min(bytes_max);
            let mut larger = Zeroizing::new(Vec::with_capacity(capacity));
            larger.extend_from_slice(&all);
            all = larger;
        }
        all.extend_from_slice(&data);
    }
    Ok(all)
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("a body may have {bytes_max} bytes here");
    Problem::new(Kind::TooLarge, detail)
}
