//! Keys of type `DECIMAL` that statements cannot name exactly. `MariaDB` compares a text with decimal
//! numbers as a floating-point number; whole numbers of 64 bits are sent as such.

use super::step::Step;
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantScope;
use crate::database::{Column, Dialect};
use crate::schema::ResolvedTable;

/// The digits that every floating-point number keeps.
const EXACT_DIGITS: u32 = 15;

/// Returns the query for a row among those of a step whose key has too many digits, if the table may
/// have some.
pub(crate) fn of_many_digits(
    (dialect, tenancy): (Dialect, &TenantScope),
    table: &ResolvedTable,
    step: &Step,
) -> Option<Fragment> {
    if dialect != Dialect::Mysql {
        return None;
    }
    let keys = table.identity.iter();
    let columns = keys.filter_map(|key| table.catalog.column(key));
    let conditions = columns.filter_map(|column| condition(dialect, column));
    let conditions: Vec<String> = conditions.collect();
    if conditions.is_empty() {
        return None;
    }
    let mut asked = tenancy.bound(dialect, &table.name, &step.chosen);
    asked.sql = format!(
        "SELECT 1 FROM {} WHERE ({}) AND ({}) LIMIT 1",
        dialect.quote(&table.name),
        asked.sql,
        conditions.join(" OR ")
    );
    Some(asked)
}

/// Returns the condition for such a value of a column.
fn condition(dialect: Dialect, column: &Column) -> Option<String> {
    let (digits, decimals) = column.digits()?;
    let name = dialect.quote(&column.name);
    // Zeros in front make a text of a whole number, too.
    let is_whole = decimals == 0 && !column.declared.to_ascii_lowercase().contains("zerofill");
    if is_whole {
        let (least, greatest) = (i64::MIN, u64::MAX);
        return (digits > 18).then(|| format!("{name} > {greatest} OR {name} < {least}"));
    }
    if digits <= EXACT_DIGITS {
        return None;
    }
    let bound = match EXACT_DIGITS.checked_sub(decimals) {
        Some(whole) => format!("1{}", "0".repeat(usize::try_from(whole).ok()?)),
        None => "0".to_owned(),
    };
    Some(format!("{name} >= {bound} OR {name} <= -{bound}"))
}

/// Returns the refusal of such rows.
pub(crate) fn refusal(table: &ResolvedTable) -> String {
    format!(
        "rows of {} have keys ({}) of too many digits: MariaDB would compare them as floating-point numbers, and take a row for another; give the table a primary key of another type, or leave these rows out by a condition",
        table.name,
        table.identity.join(", ")
    )
}
