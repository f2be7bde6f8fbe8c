//! Refusals that follow from the present database, reported before anybody is disguised.

use std::collections::BTreeMap;

use probity_format::Timestamp;

use super::accounts;
use super::disguiser::Disguiser;
use super::preview::{Preview, placeholders};
use super::unregister::rowless;
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantScope;
use crate::database::value::Value;
use crate::database::{Database, ForeignKey, OnDelete};
use crate::error::{DisguiseId, Error};
use crate::execute::apply::ApplyRequest;
use crate::plan::likeness::Spellings;
use crate::plan::step::{PlanContext, Step};
use crate::records::section::PrincipalKind;
use crate::records::tables::{PRINCIPALS, uninstalled};
use crate::schema::ResolvedTable;
use crate::schema::generate::Generator;
use crate::spec::{Kind, Spec};
use crate::statements::table::counted;

impl<D: Database> Preview<'_, D> {
    /// Returns a caution if the generator of placeholders' ids has no more values than there are
    /// people, so that a disguise may find no free one.
    pub(super) fn scarce_ids(&mut self) -> Result<Option<String>, Error> {
        let pseudo = self.transactions.application.pseudo();
        let (table, id) = (&pseudo.table, &pseudo.id);
        let mut columns = pseudo.columns.iter();
        let generator = columns.find(|(column, _)| column == id);
        let Some(count) = generator.and_then(|(_, it)| it.count()) else {
            return Ok(None);
        };
        let dialect = self.transactions.database.dialect();
        let own = self
            .transactions
            .database
            .tenancy
            .and(dialect, table, table);
        let sql = format!(
            "SELECT COUNT(*) FROM {} WHERE 1 = 1{}",
            dialect.quote(table),
            own.sql
        );
        let people = counted(&mut self.transactions.database, &sql, &own.parameters)?;
        Ok((count <= people.max(1)).then(|| {
            format!(
                "column {id} of {table} is to hold the ids of placeholders, of which the specification can make {count}, while the table has {people} rows: a disguise that finds no unused id is refused; draw from a greater range"
            )
        }))
    }

    /// Returns a caution that names who is registered and has no row in the users table, if anybody
    /// is.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Spec`].
    pub fn caution_of_rowless(&mut self) -> Result<Option<String>, Error> {
        match rowless(self.transactions) {
            Ok(rowless) => Ok(rowless.caution()),
            // Nobody is registered yet.
            Err(Error::NotInstalled) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns a caution about disguises of everybody if placeholders are there. Nothing in the
    /// database tells whether anybody is behind one still.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn caution_of_everybody(&mut self) -> Result<Option<String>, Error> {
        let person = PrincipalKind::Person.code();
        let sql = format!("SELECT standing FROM {PRINCIPALS} WHERE standing <> {person} LIMIT 1");
        let there = match self
            .transactions
            .database
            .query(&sql, &[])
            .map_err(uninstalled)
        {
            Ok(rows) => !rows.is_empty(),
            // Nobody is registered yet.
            Err(Error::NotInstalled) => false,
            Err(error) => return Err(error),
        };
        let users = &self.transactions.application.pseudo().table;
        Ok(there.then(|| {
            format!(
                "there are placeholders in {users}: a disguise of everybody takes the rows under them, too, and only the person behind a placeholder brings these back; where that person had everything forgotten, nobody does"
            )
        }))
    }

    /// Returns the refusals expected if `spec` were applied now, to `user` or to everybody, one
    /// sentence each; changes nothing. Rows that refer to rows of their own table are not checked.
    ///
    /// # Errors
    /// [`Error::Spec`], [`Error::Database`].
    pub fn foretell(
        &mut self,
        spec: &Spec,
        user: Option<&Value>,
        named: &BTreeMap<String, Value>,
    ) -> Result<Vec<String>, Error> {
        spec.refuse_unknown(named, None)?;
        self.transactions.refresh()?;
        self.transactions.need_tenant()?;
        let mut told = Vec::new();
        if let Err(empty) = spec.refuse_empty() {
            told.push(empty.to_string());
        }
        if user.is_none() {
            match accounts::refuse_namesakes(self.transactions, None) {
                Err(Error::Value { what }) => told.push(what),
                outcome => outcome?,
            }
            told.extend(accounts::nobodys(self.transactions)?);
        }
        if let Some(user) = user {
            told.extend(self.standing_of(user)?);
            if told.is_empty() {
                told.extend(self.held_with(spec, user, named)?);
            }
        }
        let owners = user.map(std::slice::from_ref);
        let none = Spellings::new();
        let steps = match self.planner().planned(spec, named, owners) {
            // Nothing is known of the rows then but that they are refused.
            Err(Error::Value { what }) => {
                told.push(what);
                self.planner().planned_by_id(spec, (named, &none), owners)?
            }
            steps => steps?,
        };
        let dialect = self.transactions.database.dialect();
        let (catalog, live) = self.transactions.application.described()?;
        let aim = PlanContext {
            dialect,
            catalog,
            live,
            named,
            owners,
            spellings: &none,
            redactors: &self.options.redactors,
            tenancy: &self.transactions.database.tenancy,
        };
        let questions = left_to_others(&aim, &steps);
        for (step, left) in steps.iter().zip(self.planner().left_behind(&steps, user)?) {
            let what = match step.kind {
                Kind::Remove => "removing",
                _ => "changing the key of",
            };
            let table = &step.table;
            told.extend(
                left.iter()
                    .map(|it| format!("{what} rows of {table}: {it}")),
            );
        }
        for (question, sentence) in questions {
            let count = counted(
                &mut self.transactions.database,
                &question.sql,
                &question.parameters,
            )?;
            if count > 0 {
                told.push(sentence.replacen("{}", &count.to_string(), 1));
            }
        }
        if user.is_none() {
            told.extend(self.keyless_rows(&steps)?);
        }
        told.extend(self.short_of_ids(&steps, user)?);
        told.extend(self.unchangeable_rows(&steps)?);
        Ok(told)
    }

    /// Returns the reason why this user would be refused, whatever the rows.
    fn standing_of(&mut self, user: &Value) -> Result<Option<String>, Error> {
        match accounts::refuse_without(self.transactions, user) {
            Ok(()) => {}
            Err(error @ (Error::NoSuchUser { .. } | Error::Value { .. })) => {
                return Ok(Some(error.to_string()));
            }
            Err(error) => return Err(error),
        }
        let options = self.options;
        let looked = self.transactions.transaction(|open| {
            let mut disguiser = Disguiser { open, options };
            let context = disguiser.context(Some(user))?;
            disguiser.may_be_hidden(&context, Some(user)).map(drop)
        });
        match looked {
            Ok(()) => Ok(None),
            Err(Error::NotInstalled) => {
                let table = self.transactions.application.pseudo().table.clone();
                Ok(Some(Error::NotRegistered { table }.to_string()))
            }
            Err(error @ (Error::NotRegistered { .. } | Error::Held { .. })) => {
                Ok(Some(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether a hold is on somebody whose rows would go or change with those of this user.
    fn held_with(
        &mut self,
        spec: &Spec,
        user: &Value,
        named: &BTreeMap<String, Value>,
    ) -> Result<Option<String>, Error> {
        // Nothing with this time is written.
        let time = Timestamp::from_nanoseconds(0).map_err(|_range| Error::Forged)?;
        let request = ApplyRequest {
            spec,
            user: Some(user.clone()),
            over: None,
            parameters: named.clone(),
            expires: None,
            time,
        };
        let options = self.options;
        let looked = self.transactions.transaction(|open| {
            let mut disguiser = Disguiser { open, options };
            let context = disguiser.context(Some(user))?;
            let owners = disguiser.owners(&context, &request)?;
            let disguise = (DisguiseId(0), &request);
            disguiser.refuse_stakes(&context, disguise, owners.as_deref())
        });
        match looked {
            Ok(()) => Ok(None),
            Err(error @ Error::Held { .. }) => Ok(Some(error.to_string())),
            // Rows of doubtful owners, which the plan tells of.
            Err(Error::Value { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether more placeholders are needed than the free ids of their generator.
    fn short_of_ids(
        &mut self,
        steps: &[Step],
        user: Option<&Value>,
    ) -> Result<Option<String>, Error> {
        let pseudo = self.transactions.application.pseudo().clone();
        let own = pseudo
            .columns
            .iter()
            .find(|(column, _)| *column == pseudo.id);
        let Some((_, Generator::RandNum { lb, ub })) = own else {
            return Ok(None);
        };
        let mut needed: u64 = 0;
        for step in steps {
            needed =
                needed.saturating_add(placeholders(&mut self.transactions.database, step, user)?);
        }
        let width = lb.abs_diff(*ub).saturating_add(1);
        if needed == 0 || width.checked_div(needed).is_some_and(|times| times > 1_000) {
            return Ok(None);
        }
        let dialect = self.transactions.database.dialect();
        let (table, id) = (dialect.quote(&pseudo.table), dialect.quote(&pseudo.id));
        let sql = format!("SELECT COUNT(*) FROM {table} WHERE {id} BETWEEN ? AND ?");
        let taken = counted(
            &mut self.transactions.database,
            &sql,
            &[Value::Int(*lb), Value::Int(*ub)],
        )?;
        let free = width.saturating_sub(taken);
        Ok((needed > free).then(|| {
            format!(
                "{needed} placeholders are needed, and the generator of {} has {free} ids left",
                pseudo.table
            )
        }))
    }
}

/// Returns queries for rows of people who stay longer than the rows to which theirs refer, each
/// with the sentence to report if there are some.
fn left_to_others(aim: &PlanContext<'_>, steps: &[Step]) -> Vec<(Fragment, String)> {
    let mut questions = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        if step.kind != Kind::Remove || aim.owners.is_some() {
            continue;
        }
        for (child, known) in &aim.live.tables {
            let keys = known.catalog.foreign_keys.iter();
            for key in keys.filter(|key| key.to_table == step.table && *child != step.table) {
                let question = Question {
                    aim,
                    steps,
                    at,
                    step,
                    known,
                    key,
                };
                questions.extend(question.of_rows_of_others());
            }
        }
    }
    questions
}

/// Rows of a table that refer by a key to rows that a step removes.
struct Question<'a> {
    aim: &'a PlanContext<'a>,
    steps: &'a [Step],
    at: usize,
    step: &'a Step,
    known: &'a ResolvedTable,
    key: &'a ForeignKey,
}

impl Question<'_> {
    /// Returns the steps after which a row no longer refers. Changes of the database itself happen
    /// at once.
    fn freeing(&self) -> impl Iterator<Item = &Step> {
        let before = match self.key.on_delete {
            OnDelete::Change => self.at,
            OnDelete::Refuse => self.steps.len(),
        };
        let own = self
            .steps
            .iter()
            .take(before)
            .filter(|it| it.table == self.known.name);
        own.filter(|it| match &it.kind {
            Kind::Remove => true,
            Kind::Decorrelate { owners, .. } => {
                self.key.columns.iter().any(|it| owners.contains(it))
            }
            Kind::Unlink { column } => self.key.columns.contains(column),
            Kind::Modify { .. } => false,
        })
    }

    /// Joins the referring rows with the rows they refer to, and selects `more` as well.
    fn joined(&self, more: &str) -> Fragment {
        let (dialect, table) = (self.aim.dialect, &self.step.table);
        let bound = |tenancy: &TenantScope| tenancy.bound(dialect, table, &self.step.chosen);
        let chosen = bound(self.aim.tenancy);
        let to = self.key.to_columns.iter().enumerate();
        let to: Vec<String> = to
            .map(|(at, column)| format!("{} AS probity_{at}", dialect.quote(column)))
            .collect();
        let child = dialect.quote(&self.known.name);
        let from = self.key.columns.iter().enumerate();
        let same: Vec<String> = from
            .map(|(at, column)| {
                format!(
                    "probity_gone.probity_{at} = {child}.{}",
                    dialect.quote(column)
                )
            })
            .collect();
        Fragment {
            sql: format!(
                "SELECT COUNT(*) FROM (SELECT {}{more} FROM {} WHERE {}) AS probity_gone JOIN {child} ON {}",
                to.join(", "),
                dialect.quote(table),
                chosen.sql,
                same.join(" AND ")
            ),
            parameters: chosen.parameters,
        }
    }

    /// Narrows `joined` to rows that `others` selects and whose reference no step removes.
    fn left(&self, joined: Fragment, others: Option<String>) -> Fragment {
        let Fragment {
            mut sql,
            mut parameters,
        } = joined;
        let mut freed: Vec<String> = Vec::new();
        for step in self.freeing() {
            freed.push(format!("({})", step.chosen.sql));
            parameters.extend_from_slice(&step.chosen.parameters);
        }
        let freed = match freed.as_slice() {
            [] => "1=0".to_owned(),
            some => some.join(" OR "),
        };
        let is_free = others.map_or_else(
            || freed.clone(),
            |others| format!("({freed}) AND NOT ({others})"),
        );
        sql = format!("{sql} WHERE CASE WHEN {is_free} THEN 0 ELSE 1 END = 1");
        Fragment { sql, parameters }
    }

    fn columns(&self) -> String {
        self.key.columns.join(", ")
    }

    fn what_happens(&self) -> &'static str {
        match self.key.on_delete {
            OnDelete::Change => "which the database would remove or change unseen",
            OnDelete::Refuse => "for which the database refuses it",
        }
    }

    /// Selects rows of somebody else, who stays when the owner of the referred row leaves.
    fn of_rows_of_others(&self) -> Option<(Fragment, String)> {
        let parent = self.aim.live.table(&self.step.table)?;
        let ([theirs], [own]) = (parent.owners.as_slice(), self.known.owners.as_slice()) else {
            return None;
        };
        // A person named in a row leaves it by its own rules.
        if self
            .key
            .columns
            .iter()
            .any(|it| self.known.people().any(|person| person == it))
        {
            return None;
        }
        let dialect = self.aim.dialect;
        let joined = self.joined(&format!(", {} AS probity_owner", dialect.quote(theirs)));
        let own = format!("{}.{}", dialect.quote(&self.known.name), dialect.quote(own));
        let others = format!(
            "probity_gone.probity_owner IS NOT NULL AND ({own} IS NULL OR {own} <> probity_gone.probity_owner)"
        );
        let sentence = format!(
            "when the owner of rows of {} leaves, {{}} rows of {} that belong to somebody else refer to them by foreign key ({}), {}",
            self.step.table,
            self.known.name,
            self.columns(),
            self.what_happens()
        );
        Some((self.left(joined, Some(others)), sentence))
    }
}
