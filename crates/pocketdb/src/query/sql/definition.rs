//! The statement that creates a table as it is defined.

use alloc::string::String;

use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::query::sql::parser::is_reserved;
use crate::tables::catalogue::{ColumnDefinition, Kind, Layout};
use crate::tables::id::TableId;
use crate::tables::store::Store;

/// Words that begin something else than a name where a definition has one.
const LEADING: [&str; 3] = ["IF", "CHECK", "CONSTRAINT"];

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Returns the `CREATE TABLE` statement of a table, a column a line.
    pub fn creation(&self, table: TableId) -> String {
        let mut tables = self.tables();
        let name = tables.find(|(found, _)| *found == table);
        let mut text = alloc::format!(
            "CREATE TABLE {} (",
            written(name.map_or("", |(_, name)| name))
        );
        for (number, (column, kind)) in self.definitions(table).enumerate() {
            text.push_str(if number == 0 { "\n  " } else { ",\n  " });
            for part in parts(&column, kind) {
                text.push_str(&part);
            }
        }
        text.push_str("\n)");
        text.push_str(match self.layout(table) {
            Layout::Keyed => "",
            Layout::Rows => " STORED AS ROWS",
            Layout::Columns => " STORED AS COLUMNS",
        });
        text.push(';');
        text
    }
}

/// Returns the parts of a column's definition: its name, type, key and target.
fn parts(column: &ColumnDefinition<'_>, kind: Kind) -> [String; 4] {
    let kind = match kind {
        Kind::Position | Kind::Integer | Kind::Reference => " INTEGER".into(),
        Kind::Real => " REAL".into(),
        Kind::Text(bytes) => alloc::format!(" TEXT({bytes})"),
    };
    let key = if column.kind == Kind::Position {
        " PRIMARY KEY"
    } else if column.unique {
        " UNIQUE"
    } else if column.indexed {
        " INDEXED"
    } else {
        ""
    };
    let target = match column.reference {
        None => String::new(),
        Some((table, "")) => alloc::format!(" REFERENCES {}", written(table)),
        Some((table, key)) => alloc::format!(" REFERENCES {}({})", written(table), written(key)),
    };
    [written(column.name), kind, key.into(), target]
}

/// Returns a name as a statement has it: in quotes where it is a word of the language.
fn written(name: &str) -> String {
    let leads = LEADING.iter().any(|word| name.eq_ignore_ascii_case(word));
    if leads || is_reserved(name) {
        alloc::format!("\"{name}\"")
    } else {
        name.into()
    }
}
