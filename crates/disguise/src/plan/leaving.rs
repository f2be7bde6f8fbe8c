//! References to people who leave: the steps that they add to a removal of users.

use super::step::{PlanContext, Step};
use crate::database::fragment::Fragment;
use crate::error::SpecError;
use crate::schema::ResolvedTable;
use crate::schema::leaving::OnLeave;
use crate::spec::redact::Names;
use crate::spec::{Kind, Spec, Transformation};

impl PlanContext<'_> {
    /// Returns the steps that `spec` does not name: changes of references to the users that
    /// `removal`, at its place among the transformations, removes.
    pub(crate) fn leaving(
        &self,
        spec: &Spec,
        removal: (&Transformation, &Step),
    ) -> Result<Vec<Step>, SpecError> {
        let users = &self.live.pseudo.table;
        let mut said: Vec<(OnLeave, &ResolvedTable, &String)> = Vec::new();
        for table in self.live.tables.values() {
            // Rows that another step removes are not searched again.
            let is_removed = removes_all(spec, &table.name);
            let meant = table.on_leave.iter();
            let meant = meant.filter(|(_, how)| **how != OnLeave::Remove || !is_removed);
            said.extend(meant.map(|(column, how)| (*how, table, column)));
        }
        said.sort_by_key(|(how, table, _)| (*how, table.name == *users));
        let mut steps = Vec::with_capacity(said.len());
        for (how, table, column) in said {
            let kind = match how {
                OnLeave::Remove => Kind::Remove,
                OnLeave::Null => Kind::Unlink {
                    column: column.clone(),
                },
                OnLeave::Placeholder => Kind::Decorrelate {
                    group_by: Vec::new(),
                    owners: vec![column.clone()],
                },
            };
            let wrong = |what| {
                let place = format!("table {}, on_leave of {column}", table.name);
                SpecError::new(place, what)
            };
            self.check_step(table, &kind).map_err(wrong)?;
            steps.push(Step {
                table: table.name.clone(),
                chosen: self.referring((table, column), removal),
                kind,
                names: Names::default(),
                of_going: false,
            });
        }
        Ok(steps)
    }

    /// Returns the condition that a row of `table` refers by `column` to a user whom `removal`
    /// takes, and is not taken itself.
    fn referring(
        &self,
        (table, column): (&ResolvedTable, &String),
        (removal, step): (&Transformation, &Step),
    ) -> Fragment {
        let dialect = self.dialect;
        let quoted = format!("{}.{}", dialect.quote(&table.name), dialect.quote(column));
        let users = dialect.quote(&step.table);
        let is_plain = removal.predicate.is_none() && removal.from.is_none();
        let mut chosen = match self.owners {
            Some(owners) if is_plain => self.among_owners((table, column), &quoted, owners),
            _ => {
                let bound = self.tenancy.bound(dialect, &step.table, &step.chosen);
                let query = format!(
                    "SELECT {users}.{} FROM {users} WHERE {}",
                    dialect.quote(&self.live.pseudo.id),
                    bound.sql
                );
                Fragment {
                    sql: format!("{quoted} IN {}", dialect.apart(&query)),
                    parameters: bound.parameters,
                }
            }
        };
        if table.name == step.table {
            chosen.sql = format!(
                "{} AND CASE WHEN ({}) THEN 0 ELSE 1 END = 1",
                chosen.sql, step.chosen.sql
            );
            chosen.parameters.extend_from_slice(&step.chosen.parameters);
        }
        chosen
    }
}

/// Returns whether all rows of a table are meant by a removal.
fn removes_all(spec: &Spec, table: &str) -> bool {
    let mut all = spec.transformations.iter();
    all.any(|it| {
        it.table == table && it.kind == Kind::Remove && it.predicate.is_none() && it.from.is_none()
    })
}
