//! Changes of rows while they are disguised.

use probity_disguise::Mapping;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use crate::problem::{Kind, Problem};
use crate::request_context::{EntryForm, RequestContext};

/// Mappings of rows by a migration, for those that are disguised: to be asked for after the migration, before anybody
/// disguises anything again.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Update {
    /// Files of mappings, TOML or JSON, in order; none to learn only which updates there are.
    #[serde(default)]
    #[schema(required = false)]
    mappings: Vec<String>,
    /// Put the mappings in the place of recorded ones of the same names, which do not fit.
    #[serde(default)]
    #[schema(required = false)]
    replace: bool,
    /// The specification that says who users and owners are since the migration, by its name in the server's
    /// configuration; what the database holds when absent.
    #[serde(default)]
    spec: Option<String>,
}

/// The names of all updates, the oldest first.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct UpdatesForm {
    /// The names.
    updates: Vec<String>,
    /// Its entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryForm>,
}

impl Operation for Update {
    const NAME: &'static str = "update";
    const SUMMARY: &'static str = "Records how rows change by a migration while they are disguised";
    const IS_KEPT: bool = true;
    type Answer = UpdatesForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<UpdatesForm, Problem> {
        context.of_all_tenants()?;
        let mut mappings = Vec::new();
        for text in &self.mappings {
            let some = Mapping::parse(text)
                .map_err(|error| Problem::new(Kind::Unfit, error.to_string()))?;
            mappings.extend(some);
        }
        let spec = self.spec.as_ref().map(|name| context.database.spec(name));
        let spec = spec.transpose()?;
        let mut session = spec.map_or_else(|| context.stored(), |spec| context.described(spec))?;
        // The tables may have new names by now, so the description is stored again.
        context.database.uninstalled();
        context.database.install(&mut session.engine, spec)?;
        context.once(&mut session, |engine, entries| {
            if self.replace {
                for mapping in &mappings {
                    engine.updates().replace(mapping, context.time)?;
                }
            } else if !mappings.is_empty() {
                engine.updates().record(&mappings, context.time)?;
            }
            Ok(UpdatesForm {
                updates: engine.updates().names()?,
                entry: entries.entry(),
            })
        })
    }
}
