//! The `OpenAPI` 3.1 description of all paths, made from the types that are read and written.

use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, Content, Info, ObjectBuilder, OpenApi, Paths, Ref, Required, Type,
};

use crate::operation::{ROUTES, Route, add};
use crate::problem::{KINDS, ProblemDocument};

/// The name of the token scheme in the description.
const SCHEME: &str = "token";

/// Returns the description as JSON.
pub fn openapi() -> String {
    document().to_json().unwrap_or_default()
}

fn document() -> OpenApi {
    let mut components = Components::new();
    let problem = add::<ProblemDocument>(&mut components);
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme(SCHEME, bearer);
    let mut paths = Paths::new();
    for route in &ROUTES {
        let path = format!("/v1/disguise/{{database}}/{}", route.name);
        let operation = operation(route, &mut components, &problem);
        paths.add_path_operation(path, vec![HttpMethod::Post], operation);
    }
    for (path, what) in [
        ("/healthz", "Says that the server answers"),
        ("/v1/openapi.json", "Describes all paths"),
    ] {
        let answer = ResponseBuilder::new().description("It does.");
        let answer = answer.content("application/json", Content::default());
        let operation = OperationBuilder::new()
            .summary(Some(what))
            .response("200", answer.build());
        paths.add_path_operation(path, vec![HttpMethod::Get], operation.build());
    }
    let mut info = Info::new("Probity", env!("CARGO_PKG_VERSION"));
    info.description = Some("Disguises of people in SQL databases.".to_owned());
    let mut document = OpenApi::new(info, paths);
    document.components = Some(components);
    document
}

fn operation(
    route: &Route,
    components: &mut Components,
    problem: &str,
) -> utoipa::openapi::path::Operation {
    let [request, answer] = (route.describe)(components);
    let database = ParameterBuilder::new()
        .name("database")
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(
            "The database, by its name in the server's configuration.",
        ))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)));
    let body = RequestBodyBuilder::new()
        .content("application/json", of(&request))
        .required(Some(Required::True));
    let done = ResponseBuilder::new()
        .description("Done.")
        .content("application/json", of(&answer));
    let refused = ResponseBuilder::new()
        .description(format!("Refused; the type is one of {}.", slugs()))
        .content("application/problem+json", of(problem));
    let mut operation = OperationBuilder::new();
    if route.is_kept {
        operation = operation.parameter(key());
    }
    operation
        .operation_id(Some(route.name))
        .summary(Some(route.summary))
        .parameter(database)
        .request_body(Some(body.build()))
        .response("200", done.build())
        .response("default", refused.build())
        .security(SecurityRequirement::new(SCHEME, Vec::<String>::new()))
        .build()
}

/// Describes the header that lets a request be repeated.
fn key() -> ParameterBuilder {
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "A string in quotation marks of the client's choice: the same request with the same key gets the same answer, and nothing is done twice.",
        ))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
}

fn of(schema: &str) -> Content {
    Content::new(Some(Ref::from_schema_name(schema)))
}

fn slugs() -> String {
    KINDS.map(|said| said.slug).join(", ")
}
