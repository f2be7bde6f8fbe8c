//! The operations: each is the type of its request, and one line in the list makes it a path, a
//! right and a page of the documentation.

mod apply;
mod decay;
mod export;
mod forget;
mod hold;
mod look;
mod people;
mod receipt;
mod rekey;
mod replay;
mod reveal;
mod schedule;
mod subject_name;
mod unregister;
mod update;

use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;
use utoipa::openapi::{Components, RefOr, Schema};

use crate::body::Bytes;
use crate::problem::{Kind, Problem};
use crate::request_context::RequestContext;

/// The most attempts at an operation while the database says that another one is in the way.
const TRIES_MAX: u32 = 4;
/// Room for an answer with a secret, so that no reallocation leaves a copy of it behind.
const ANSWER_BYTES: usize = 4_096;

/// An operation on a database, read from the body of its request.
pub(crate) trait Operation: DeserializeOwned + ToSchema {
    /// The end of its path, and the name of the right to it.
    const NAME: &'static str;
    /// The summary, one sentence without a full stop.
    const SUMMARY: &'static str;
    /// True if its answer is kept for a repeated request; operations that only read, or that go on
    /// where they stood, need none.
    const IS_KEPT: bool = false;
    /// False if it asks nothing of the database.
    const CONNECTS: bool = true;
    /// The type of the answer.
    type Answer: Serialize + ToSchema;

    /// Runs the operation.
    fn run(&self, context: &RequestContext<'_>) -> Result<Self::Answer, Problem>;
}

/// An operation by name.
pub(crate) struct Route {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) is_kept: bool,
    pub(crate) connects: bool,
    /// Parses a body, runs the operation, and returns the body of the answer.
    pub(crate) perform: fn(&[u8], &RequestContext<'_>) -> Result<Bytes, Problem>,
    /// Adds the schemas of request and answer, and returns their names.
    pub(crate) describe: fn(&mut Components) -> [String; 2],
}

/// All operations.
pub(crate) const ROUTES: [Route; 26] = [
    route::<look::Draft>(),
    route::<look::Check>(),
    route::<look::Plan>(),
    route::<people::Register>(),
    route::<apply::Apply>(),
    route::<apply::ApplyEverybody>(),
    route::<schedule::Resume>(),
    route::<reveal::Reveal>(),
    route::<people::SpeaksFor>(),
    route::<people::List>(),
    route::<export::Export>(),
    route::<subject_name::SubjectName>(),
    route::<forget::Forget>(),
    route::<receipt::CheckReceipt>(),
    route::<rekey::Rekey>(),
    route::<unregister::Unregister>(),
    route::<hold::Hold>(),
    route::<hold::Lift>(),
    route::<hold::Holds>(),
    route::<schedule::Schedule>(),
    route::<schedule::Scheduled>(),
    route::<schedule::Cancel>(),
    route::<schedule::Sweep>(),
    route::<decay::Decay>(),
    route::<update::Update>(),
    route::<replay::Replay>(),
];

/// Returns the operation called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Route> {
    static ALL: [Route; ROUTES.len()] = ROUTES;
    ALL.iter().find(|route| route.name == name)
}

/// Returns the names of all operations, which are the rights that a token may have.
pub fn operations() -> impl Iterator<Item = &'static str> {
    ROUTES.iter().map(|route| route.name)
}

const fn route<O: Operation>() -> Route {
    Route {
        name: O::NAME,
        summary: O::SUMMARY,
        is_kept: O::IS_KEPT,
        connects: O::CONNECTS,
        perform: perform::<O>,
        describe: describe::<O>,
    }
}

fn perform<O: Operation>(body: &[u8], context: &RequestContext<'_>) -> Result<Bytes, Problem> {
    // A list of values would pass for an object with its fields in order.
    if !body.trim_ascii_start().starts_with(b"{") {
        let detail = "the body is no JSON object";
        return Err(Problem::new(Kind::BadRequest, detail));
    }
    let operation: O = serde_json::from_slice(body).map_err(|error| unread(&error))?;
    let mut tries = 1;
    let answer = loop {
        match operation.run(context) {
            Err(problem) if problem.is_passing() && tries < TRIES_MAX => tries += 1,
            Err(problem) if problem.kind == Kind::NotInstalled => {
                // An older database was put in place of the one that was prepared.
                context.database.uninstalled();
                return Err(problem);
            }
            done => break done?,
        }
    };
    let mut text = Bytes::new(Vec::with_capacity(ANSWER_BYTES));
    serde_json::to_writer(&mut *text, &answer).map_err(|error| {
        Problem::new(Kind::Defect, "the answer was not written").because(&error)
    })?;
    Ok(text)
}

/// Explains a malformed body. Fields are named; values are not quoted, because they may be secrets.
fn unread(error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let named = ["unknown field", "missing field", "duplicate field"];
    let what = if named.iter().any(|it| text.starts_with(it)) {
        let end = text.find(" at line ").unwrap_or(text.len());
        text.get(..end).unwrap_or_default()
    } else if error.is_data() {
        "a value is not of the form that the schema says"
    } else {
        "it is not JSON"
    };
    let detail = format!("line {line}, column {column} of the body: {what}");
    Problem::new(Kind::BadRequest, detail)
}

fn describe<O: Operation>(components: &mut Components) -> [String; 2] {
    [add::<O>(components), add::<O::Answer>(components)]
}

/// Adds the schema of a type and of the types within it, and returns its name.
pub(crate) fn add<T: ToSchema>(components: &mut Components) -> String {
    let name = T::name().into_owned();
    let mut all: Vec<(String, RefOr<Schema>)> = Vec::new();
    T::schemas(&mut all);
    all.push((name.clone(), T::schema()));
    components.schemas.extend(all);
    name
}
