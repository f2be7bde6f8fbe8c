//! The router and its state: a handler authorises a request and runs its operation on a thread that
//! may block.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response};
use axum::routing::{get, post};
use probity_disguise::SubjectKey;
use probity_format::note::SigningKey;
use probity_log::Log;
use probity_log::clock::{Clock as _, SystemClock};
use probity_log::reader::Reader;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::attempts::Attempts;
use crate::body::{self, Bytes};
use crate::config::Limits;
use crate::database_entry::DatabaseEntry;
use crate::document::openapi;
use crate::gate::{Caller, unauthorized};
use crate::operation::{self, Route};
use crate::pool::{ConnectionPermit, PooledConnection};
use crate::problem::{Kind, Problem};
use crate::repeat::{self, Repeat};
use crate::request_context::RequestContext;
use crate::token::Grant;

/// The state that all handlers share.
pub(crate) struct AppState {
    pub(crate) log: Log,
    pub(crate) reader: Reader,
    /// The key of the names that people have in the log.
    pub(crate) names: Arc<SubjectKey>,
    pub(crate) signer: Option<SigningKey>,
    pub(crate) databases: BTreeMap<String, DatabaseEntry>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) limits: Limits,
    /// The tokens that peers have shown.
    pub(crate) attempts: Attempts,
    /// A permit for each request that works on a database, held until the work has ended, even if
    /// nobody waits for the answer.
    pub(crate) permits: Arc<Semaphore>,
    /// Reports faults to the operator, without personal data.
    pub(crate) complain: fn(&str),
}

/// Returns the router of all paths.
pub(crate) fn router(state: Arc<AppState>) -> Router {
    let description: Arc<str> = openapi().into();
    let describe = move || {
        let description = Arc::clone(&description);
        async move { json(Body::from(description.to_string())) }
    };
    Router::new()
        .route(
            "/healthz",
            get(async || json(Body::from("{\"status\":\"ok\"}"))),
        )
        .route("/v1/openapi.json", get(describe))
        .route("/v1/disguise/{database}/{operation}", post(operate))
        .fallback(async || missing())
        .method_not_allowed_fallback(async || {
            Problem::new(Kind::WrongMethod, "the path is asked with another method")
        })
        .with_state(state)
}

async fn operate(
    State(state): State<Arc<AppState>>,
    caller: Option<Extension<Caller>>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, Problem> {
    let Extension(caller) = caller.ok_or_else(unauthorized)?;
    let grant = caller.grant(&state)?;
    let Path((database, name)) = path.map_err(|_form| missing())?;
    let route = operation::find(&name).ok_or_else(missing)?;
    let entry = state.databases.get(&database);
    // Only those who may use a database learn whether it exists.
    let Some(_entry) = entry.filter(|_entry| grant.allows(&database, route.name)) else {
        let detail = format!("the token {grant:?} has no right to {name} in this database");
        return Err(Problem::new(Kind::Forbidden, detail));
    };
    let limits = state.limits;
    let key = repeat::key(&headers)?;
    let body = body::read(&headers, body, limits.body_bytes, limits.read_time()).await?;
    let repeat = key.filter(|_key| route.is_kept);
    let task = Task {
        database,
        actor: grant.name.clone(),
        route,
        repeat: repeat.map(|key| Repeat::new(grant, key, route.name, &body)),
        body,
        caller: caller.clone(),
    };
    let answer = work(Arc::clone(&state), task).await;
    if let Err(problem) = &answer
        && let Some(line) = problem.line()
    {
        (state.complain)(&line);
    }
    Ok(json(Body::from(axum::body::Bytes::from_owner(answer?))))
}

/// An operation to run for a request.
struct Task {
    database: String,
    actor: String,
    route: &'static Route,
    repeat: Option<Repeat>,
    body: Bytes,
    /// Holds a permit of the token until the work has ended, even if nobody waits for the answer.
    caller: Caller,
}

/// Runs the operation on a thread that may block, once its permits are free. The connection is
/// opened before the permit to work is taken: a database that is slow to answer, or never does,
/// keeps no place from others.
async fn work(state: Arc<AppState>, task: Task) -> Result<Bytes, Problem> {
    let entry = state.databases.get(&task.database).ok_or_else(missing)?;
    let begun = task.repeat.as_ref().map(|it| entry.running.begin(it));
    let begun = begun.transpose()?;
    let deadline = Instant::now() + state.limits.wait_time();
    let Ok(Some(permit)) = timeout_at(deadline, entry.pool.acquire()).await else {
        return Err(entry.silence().unwrap_or_else(busy));
    };
    let opened = if task.route.connects {
        let opening = Arc::clone(&state);
        let (name, held) = (task.database.clone(), Arc::clone(&permit));
        Some(on_thread(move || connection(&opening, &name, &held)).await)
    } else {
        None
    };
    let work = Arc::clone(&state.permits).acquire_owned();
    let Ok(Ok(work)) = timeout_at(deadline, work).await else {
        return Err(busy());
    };
    on_thread(move || {
        let time = SystemClock::new().now();
        let context = RequestContext {
            database: state.databases.get(&task.database).ok_or_else(missing)?,
            permit: &permit,
            opened: Cell::new(opened),
            log: &state.log,
            reader: &state.reader,
            names: &state.names,
            signer: state.signer.as_ref(),
            actor: &task.actor,
            repeat: task.repeat.as_ref(),
            time,
            kept_until: state.limits.kept_until(time),
            complain: state.complain,
        };
        let answer = (task.route.perform)(&task.body, &context);
        drop(context);
        drop((permit, work, begun, task.caller.permit));
        answer
    })
    .await
}

/// Opens a connection to the database called `name`.
fn connection(
    state: &AppState,
    name: &str,
    permit: &Arc<ConnectionPermit>,
) -> Result<PooledConnection, Problem> {
    let entry = state.databases.get(name).ok_or_else(missing)?;
    entry.connect(permit, SystemClock::new().now())
}

/// Runs `work` on a thread that may block.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let worked = tokio::task::spawn_blocking(work).await;
    worked.unwrap_or_else(|panic| {
        Err(Problem::new(Kind::Defect, "an internal fault").because(&panic))
    })
}

fn busy() -> Problem {
    let detail = "as many requests as are allowed work on databases";
    Problem::new(Kind::Busy, detail)
}

fn missing() -> Problem {
    Problem::new(Kind::MissingPath, "nothing is found under this path")
}

fn json(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
