//! Operations that look before anything is changed: `draft`, `check`, `plan`.

use probity_disguise::PlannedStep;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use super::apply::{Parameters, values};
use crate::database_entry::LoadedSpec;
use crate::problem::Problem;
use crate::request_context::{RequestContext, Session};

/// From what a first specification is proposed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Draft {
    /// The users table, when it cannot be guessed.
    #[serde(default)]
    users: Option<String>,
}

/// A first specification; read every line before it is used.
#[derive(Serialize, ToSchema)]
pub(super) struct DraftedForm {
    /// The specification, TOML with comments.
    specification: String,
}

impl Operation for Draft {
    const NAME: &'static str = "draft";
    const SUMMARY: &'static str = "Proposes a first specification from the live schema";
    type Answer = DraftedForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<DraftedForm, Problem> {
        context.of_all_tenants()?;
        let mut database = context.connection()?;
        let made = probity_disguise::draft(&mut database, self.users.as_deref())?;
        Ok(DraftedForm {
            specification: made.text,
        })
    }
}

/// A specification with its user and the values of its parameters.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Check {
    /// The specification, by its name in the server's configuration.
    spec: String,
    /// Id of the user whose rows are meant; everybody when absent.
    #[serde(default)]
    user: Option<String>,
    /// Values of the specification's parameters: texts, numbers and null.
    #[serde(default)]
    #[schema(value_type = Object, required = false)]
    parameters: Parameters,
}

impl Check {
    fn steps(&self, spec: &LoadedSpec, session: &mut Session) -> Result<Vec<PlannedStep>, Problem> {
        let user = self.user.as_deref().map(|user| session.user(user));
        let (user, parameters) = (user.transpose()?, values(&self.parameters)?);
        let planned = session
            .engine
            .preview()
            .plan(&spec.file.spec, user.as_ref(), &parameters);
        Ok(planned?)
    }

    /// Returns what there is to know of the rows before everybody is disguised.
    fn of_nobody(&self, spec: &LoadedSpec, session: &mut Session) -> Result<Vec<String>, Problem> {
        if self.user.is_some() {
            return Ok(Vec::new());
        }
        let parameters = values(&self.parameters)?;
        let engine = &mut session.engine;
        Ok(engine
            .preview()
            .cautions_of_nobody(&spec.file.spec, &parameters)?)
    }

    fn of_everybody(
        &self,
        spec: &LoadedSpec,
        session: &mut Session,
    ) -> Result<Vec<String>, Problem> {
        if self.user.is_some() {
            return Ok(Vec::new());
        }
        let caution = session.engine.preview().caution_of_everybody()?;
        let mut cautions: Vec<String> = caution.into_iter().collect();
        cautions.extend(self.of_nobody(spec, session)?);
        Ok(cautions)
    }

    fn refusals(&self, spec: &LoadedSpec, session: &mut Session) -> Result<Vec<String>, Problem> {
        let user = self.user.as_deref().map(|user| session.user(user));
        let (user, parameters) = (user.transpose()?, values(&self.parameters)?);
        let refusals =
            session
                .engine
                .preview()
                .foretell(&spec.file.spec, user.as_ref(), &parameters);
        Ok(refusals?)
    }
}

/// The result of a check that found no fault.
#[derive(Serialize, ToSchema)]
pub(super) struct CheckedForm {
    /// The tables that the specification names.
    tables: Vec<String>,
    /// Cautions to know before it is applied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cautions: Vec<String>,
    /// Refusals if it were applied now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refusals: Vec<String>,
}

impl Operation for Check {
    const NAME: &'static str = "check";
    const SUMMARY: &'static str =
        "Checks a specification against the live schema, changing nothing";
    type Answer = CheckedForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<CheckedForm, Problem> {
        // A plan checks everything against the database, where a check alone would trust the file.
        let spec = context.database.spec(&self.spec)?;
        let mut session = context.described(spec)?;
        self.steps(spec, &mut session)?;
        let tables = spec.file.spec.tables();
        let mut cautions = session.engine.preview().cautions(&spec.file.spec)?;
        cautions.extend(session.engine.preview().caution_of_rowless()?);
        cautions.extend(self.of_nobody(spec, &mut session)?);
        Ok(CheckedForm {
            tables: tables.into_iter().map(str::to_owned).collect(),
            cautions,
            refusals: self.refusals(spec, &mut session)?,
        })
    }
}

/// A specification with its user and the values of its parameters.
#[derive(Deserialize, ToSchema)]
#[serde(transparent)]
pub(super) struct Plan(Check);

/// The effects that a disguise would have.
#[derive(Serialize, ToSchema)]
pub(super) struct PlannedForm {
    /// Its steps, in order.
    steps: Vec<StepForm>,
    /// Cautions to know before everybody is disguised.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cautions: Vec<String>,
    /// Refusals if it were applied now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refusals: Vec<String>,
}

/// One step.
#[derive(Serialize, ToSchema)]
struct StepForm {
    /// The table.
    table: String,
    /// The action: remove, modify, redact or decorrelate.
    action: &'static str,
    /// The number of rows that the statement chooses now.
    rows: u64,
    /// The number of placeholder users that would be made.
    placeholders: u64,
    /// The query that chooses the rows, with ? for each bound value.
    statement: String,
    /// The database's plan to find the rows, in its own words.
    access: Vec<String>,
    /// Rows that refer to those of this step and for which the database refuses it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<RefusedForm>,
}

/// Rows for which a step is refused.
#[derive(Serialize, ToSchema)]
struct RefusedForm {
    /// Their table.
    table: String,
    /// The columns with which they refer.
    columns: Vec<String>,
    /// The number of them now.
    rows: u64,
}

impl From<PlannedStep> for StepForm {
    fn from(step: PlannedStep) -> Self {
        Self {
            table: step.table,
            action: step.action,
            rows: step.rows,
            placeholders: step.placeholders,
            statement: step.statement,
            access: step.access,
            refused: step
                .refused
                .into_iter()
                .map(|it| RefusedForm {
                    table: it.table,
                    columns: it.columns,
                    rows: it.rows,
                })
                .collect(),
        }
    }
}

impl Operation for Plan {
    const NAME: &'static str = "plan";
    const SUMMARY: &'static str =
        "Shows what a disguise would do: statements, rows and how they are found";
    type Answer = PlannedForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<PlannedForm, Problem> {
        let spec = context.database.spec(&self.0.spec)?;
        let mut session = context.described(spec)?;
        let steps = self.0.steps(spec, &mut session)?;
        let cautions = self.0.of_everybody(spec, &mut session)?;
        Ok(PlannedForm {
            steps: steps.into_iter().map(StepForm::from).collect(),
            cautions,
            refusals: self.0.refusals(spec, &mut session)?,
        })
    }
}
