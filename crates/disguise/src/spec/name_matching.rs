//! The names of a specification, brought into line with those of a database.

use super::{Kind, Spec};
use crate::schema::name_matching::Fitting;

impl Fitting<'_> {
    /// Returns the specification with the names of the database.
    pub(crate) fn spec(&mut self, said: &Spec) -> Spec {
        self.names = self.names.of_edna(said.of_edna);
        let mut spec = said.clone();
        for it in &mut spec.transformations {
            it.table = self.table(&it.place, &it.table);
            let Some(table) = self.names.catalog.get(&it.table) else {
                continue;
            };
            let place = &it.place;
            match &mut it.kind {
                Kind::Remove => {}
                Kind::Modify { column, .. } | Kind::Unlink { column } => {
                    *column = self.column(place, table, column);
                }
                Kind::Decorrelate { group_by, owners } => {
                    *group_by = self.columns(place, table, group_by);
                    *owners = self.columns(place, table, owners);
                }
            }
        }
        spec
    }
}
