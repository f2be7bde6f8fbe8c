//! The routes: a handler for each request.

use std::sync::Arc;

use axum::Form;
use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HeaderValue, SET_COOKIE,
};
use axum::http::request::Parts;
use axum::response::{AppendHeaders, IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use probity_disguise::DisguiseId;
use serde::Deserialize;

use crate::account::{Password, Person};
use crate::pages::{
    Answers, HiddenPage, Home, Leave, Message, Questions, Registered, Return, Welcome, page,
};
use crate::problem::Problem;
use crate::request_context::RequestContext;
use crate::site::Site;

const BODY_BYTES_MAX: usize = 64 * 1024;
const STYLE: &str = include_str!("../templates/style.css");
/// Nothing runs in these pages, and nothing comes from elsewhere.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
);

type Shared = State<Arc<Site>>;
type Answered = Result<Response, Problem>;

/// All pages.
pub(crate) fn routes(site: Arc<Site>) -> Router {
    Router::new()
        .route("/", get(home))
        .route("/style.css", get(style))
        .route("/register", post(register))
        .route("/signin", post(sign_in))
        .route("/signout", post(sign_out))
        .route("/lecture/{lecture}", get(questions))
        .route("/lecture/{lecture}/{number}", post(answer))
        .route("/answers/{lecture}", get(answers))
        .route("/close", post(close))
        .route("/hidden", get(ask_hidden).post(hidden))
        .route("/hidden/answer", post(edit_hidden))
        .route("/hidden/reveal", post(reveal))
        .route("/hidden/give-up", post(give_up))
        .route("/leave", get(ask_leave).post(leave))
        .route("/return", get(ask_return).post(come_back))
        .fallback(async || Problem::NotFound)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::map_response(guarded))
        .with_state(site)
}

async fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The session of a request.
struct Session {
    name: String,
    person: Person,
}

impl FromRequestParts<Arc<Site>> for Session {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Problem> {
        let cookies = parts.headers.get(COOKIE).and_then(|it| it.to_str().ok());
        let name = cookies
            .into_iter()
            .flat_map(|it| it.split(';'))
            .find_map(|it| it.trim().strip_prefix("session="))
            .ok_or(Problem::SignedOut)?;
        let person = site.sessions.find(name).ok_or(Problem::SignedOut)?;
        Ok(Self {
            name: name.to_owned(),
            person,
        })
    }
}

#[derive(Deserialize)]
struct SignIn {
    email: String,
    password: Password,
}

#[derive(Deserialize)]
struct Asked {
    password: Password,
}

#[derive(Deserialize)]
struct AskedOf {
    password: Password,
    id: String,
}

impl AskedOf {
    fn id(&self) -> Result<DisguiseId, Problem> {
        self.id.parse().map_err(|_form| Problem::NotFound)
    }
}

#[derive(Deserialize)]
struct Answer {
    answer: String,
}

#[derive(Deserialize)]
struct HiddenAnswer {
    password: Password,
    placeholder: String,
    lecture: i64,
    number: i64,
    answer: String,
}

async fn style() -> Response {
    ([(CONTENT_TYPE, "text/css")], STYLE).into_response()
}

async fn home(State(site): Shared, session: Result<Session, Problem>) -> Answered {
    let Ok(Session { person, .. }) = session else {
        return Ok(page(&Welcome));
    };
    let asking = person.clone();
    let lectures = site.at(move |context| context.lectures(&asking)).await?;
    Ok(page(&Home { person, lectures }))
}

async fn register(State(site): Shared, Form(form): Form<SignIn>) -> Answered {
    let token = site
        .at(move |context| context.register(&form.email, &form.password))
        .await?
        .ok_or(Problem::Broken("no recovery token"))?;
    Ok(page(&Registered {
        token: token.expose(),
    }))
}

async fn sign_in(State(site): Shared, Form(form): Form<SignIn>) -> Answered {
    let person = site
        .at(move |context| context.sign_in(&form.email, &form.password))
        .await?;
    entered(&site, person, Redirect::to("/").into_response())
}

/// Begins a session with this response.
fn entered(site: &Site, person: Person, response: Response) -> Answered {
    let name = site.sessions.begin(person)?;
    // Strict: no other site's page can send a request in this person's name.
    let cookie = format!("session={name}; HttpOnly; SameSite=Strict; Path=/");
    Ok((AppendHeaders([(SET_COOKIE, cookie)]), response).into_response())
}

async fn sign_out(State(site): Shared, session: Session) -> Redirect {
    site.sessions.end(&session.name);
    Redirect::to("/")
}

async fn questions(State(site): Shared, session: Session, Path(lecture): Path<i64>) -> Answered {
    let person = session.person;
    let work = move |context: &mut RequestContext| {
        Ok((
            context.lecture(lecture)?,
            context.questions(&person, lecture)?,
        ))
    };
    let (label, list) = site.at(work).await?;
    Ok(page(&Questions {
        lecture,
        label,
        list,
    }))
}

async fn answer(
    State(site): Shared,
    session: Session,
    Path(place): Path<(i64, i64)>,
    Form(form): Form<Answer>,
) -> Answered {
    let owner = session.person.id();
    site.at(move |context| context.answer(&owner, place, &form.answer))
        .await?;
    Ok(Redirect::to(&format!("/lecture/{}", place.0)).into_response())
}

async fn answers(State(site): Shared, session: Session, Path(lecture): Path<i64>) -> Answered {
    teacher(&session)?;
    let work = move |context: &mut RequestContext| {
        Ok((context.lecture(lecture)?, context.answers(lecture)?))
    };
    let (label, list) = site.at(work).await?;
    Ok(page(&Answers { label, list }))
}

async fn close(State(site): Shared, session: Session) -> Answered {
    teacher(&session)?;
    let rows = site.at(RequestContext::close_term).await?;
    let message = format!("The term is closed: {rows} answers are under placeholders now.");
    Ok(page(&Message { message }))
}

fn teacher(session: &Session) -> Result<(), Problem> {
    if session.person.is_teacher {
        Ok(())
    } else {
        Err(Problem::NotTeacher)
    }
}

async fn ask_hidden(_session: Session) -> Response {
    page(&HiddenPage { hidden: None })
}

async fn hidden(State(site): Shared, session: Session, Form(form): Form<Asked>) -> Answered {
    let person = session.person;
    let hidden = site
        .at(move |context| context.hidden(&person, &form.password))
        .await?;
    Ok(page(&HiddenPage {
        hidden: Some(hidden),
    }))
}

async fn edit_hidden(
    State(site): Shared,
    session: Session,
    Form(form): Form<HiddenAnswer>,
) -> Answered {
    let person = session.person;
    site.at(move |context| {
        let place = (form.lecture, form.number);
        context.edit_hidden(
            &person,
            &form.password,
            &form.placeholder,
            place,
            &form.answer,
        )
    })
    .await?;
    let message = "Your answer was changed, still under its placeholder.".to_owned();
    Ok(page(&Message { message }))
}

async fn reveal(State(site): Shared, session: Session, Form(form): Form<AskedOf>) -> Answered {
    let (user, id) = (session.person.id(), form.id()?);
    let revealed = site
        .at(move |context| context.reveal(&user, &form.password, id))
        .await?;
    // The page lists what is hidden: what is not was never offered.
    if !revealed.found {
        return Err(Problem::NotFound);
    }
    let message = brought_back(&revealed);
    Ok(page(&Message { message }))
}

async fn give_up(State(site): Shared, session: Session, Form(form): Form<AskedOf>) -> Answered {
    let (person, id) = (session.person, form.id()?);
    site.at(move |context| context.give_up(&person, &form.password, id))
        .await?;
    let message = "Nobody can bring this back any more, you included.".to_owned();
    Ok(page(&Message { message }))
}

async fn ask_leave(_session: Session) -> Response {
    page(&Leave)
}

async fn leave(State(site): Shared, session: Session, Form(form): Form<Asked>) -> Answered {
    let person = session.person;
    let email = person.email.clone();
    site.at(move |context| context.leave(&person, &form.password))
        .await?;
    site.sessions.end_all(&email);
    let message = "Your account and your answers are gone. With your password you can bring them back at any time.";
    Ok(page(&Message {
        message: message.to_owned(),
    }))
}

async fn ask_return() -> Response {
    page(&Return)
}

async fn come_back(State(site): Shared, Form(form): Form<SignIn>) -> Answered {
    let (person, revealed) = site
        .at(move |context| context.come_back(&form.email, &form.password))
        .await?;
    let message = format!("Welcome back. {}", brought_back(&revealed));
    entered(&site, person, page(&Message { message }))
}

/// Says how many rows came back, and why others did not.
fn brought_back(revealed: &probity_disguise::Revealed) -> String {
    let rows: u64 = revealed.restored.values().sum();
    match revealed.kept.len() {
        0 => format!("Everything is back: {rows} rows."),
        kept => format!(
            "{rows} rows are back; {kept} stay hidden, for something was changed meanwhile."
        ),
    }
}
