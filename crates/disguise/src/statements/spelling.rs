//! Spellings of one key, as the columns of a table compare them.

use std::collections::BTreeMap;

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::schema::ResolvedTable;
use crate::statements::row::encoded;

/// The most keys that one question compares with.
const KEYS_MAX: usize = 256;

/// Returns those of `names` that the columns `by` of `table` treat as equal to one of `keys`, which
/// they do not have: each name encoded, with the key.
pub(crate) fn alike(
    database: &mut dyn TenantConnection,
    (table, by): (&ResolvedTable, &[String]),
    names: &[Vec<Value>],
    keys: &[Vec<Value>],
) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
    let dialect = database.dialect();
    let called: Vec<String> = (0..by.len()).map(|place| format!("k{place}")).collect();
    let columns = by.iter().zip(&called);
    let columns = columns.map(|(column, name)| format!("{} AS {name}", dialect.quote(column)));
    // The first of the queries gives all of them the collations of the columns.
    let none = format!(
        "SELECT {} FROM {} WHERE 1=0",
        columns.collect::<Vec<_>>().join(", "),
        dialect.quote(&table.name)
    );
    let one = format!(" UNION ALL SELECT {}", vec!["?"; by.len()].join(", "));
    let equal = called.iter().map(|name| format!("q.{name} = ?"));
    let equal = equal.collect::<Vec<_>>().join(" AND ");
    let found = called.iter().map(|name| format!("q.{name}"));
    let found = found.collect::<Vec<_>>().join(", ");
    let mut alike = BTreeMap::new();
    for name in names {
        for some in keys.chunks(KEYS_MAX) {
            let more = one.repeat(some.len());
            let sql = format!("SELECT {found} FROM ({none}{more}) AS q WHERE {equal}");
            let mut parameters = some.concat();
            let compared = by.iter().zip(name);
            parameters.extend(compared.flat_map(|(column, value)| {
                let one = std::slice::from_ref(value);
                table.catalog.compared(dialect, column, one)
            }));
            let key = database.query(&sql, &parameters);
            let key = key
                .doing("looking for another spelling")?
                .into_iter()
                .next();
            alike.extend(key.map(|key| (encoded(name), encoded(&key))));
        }
    }
    Ok(alike)
}
