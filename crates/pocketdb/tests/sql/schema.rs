//! Random snowflakes: tables that reference earlier ones along at most one path.

use crate::choice::Choice;

const WORDS: [&str; 12] = [
    "ada", "bob", "cyd", "dan", "eve", "O'Brien", "zoe", "", "a b", "VAL_10", "VAL_9", "nine",
];

const STORED: [&str; 3] = ["", " STORED AS ROWS", " STORED AS COLUMNS"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Integer,
    Real,
    Text,
}

#[derive(Debug, Clone)]
pub(crate) enum Role {
    /// A stored value.
    Plain,
    /// A stored value that occurs once.
    Unique,
    /// A reference to a table, to its id or to its unique column.
    Reference { table: usize, key: Option<usize> },
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) role: Role,
    indexed: bool,
    /// Distinct values.
    variety: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// Every table that this one references, directly or not.
    pub(crate) closure: Vec<usize>,
    stored: &'static str,
}

#[derive(Debug, Clone)]
pub(crate) struct Schema {
    pub(crate) tables: Vec<Table>,
}

impl Schema {
    pub(crate) fn random(choice: &mut Choice) -> Self {
        let mut tables: Vec<Table> = Vec::new();
        for number in 0..2 + choice.below(5) {
            let mut columns = Vec::new();
            let mut closure: Vec<usize> = Vec::new();
            for target in 0..tables.len() {
                let reached: Vec<usize> = std::iter::once(target)
                    .chain(tables[target].closure.iter().copied())
                    .collect();
                if choice.percent(60) && reached.iter().all(|table| !closure.contains(table)) {
                    closure.extend(reached);
                    columns.push(reference(&tables, target, choice));
                }
            }
            for _ in 0..=choice.below(4) {
                columns.push(stored(columns.len(), choice));
            }
            if choice.percent(25) {
                let name = format!("key{}", columns.len());
                let kind = *choice.of(&[Type::Integer, Type::Text]);
                columns.push(Column {
                    name,
                    kind,
                    role: Role::Unique,
                    indexed: true,
                    variety: usize::MAX,
                });
            }
            tables.push(Table {
                name: format!("t{number}"),
                columns,
                closure,
                stored: STORED[choice.below(STORED.len())],
            });
        }
        Self { tables }
    }

    /// `CREATE TABLE` for this engine and for `SQLite`.
    pub(crate) fn create(&self, number: usize) -> [String; 2] {
        let table = &self.tables[number];
        let mut own = vec!["id INTEGER PRIMARY KEY".to_owned()];
        let mut other = own.clone();
        for column in &table.columns {
            let kind = match column.kind {
                Type::Integer => "INTEGER",
                Type::Real => "REAL",
                Type::Text => "VARCHAR(31)",
            };
            let name = &column.name;
            match &column.role {
                Role::Plain => {
                    let indexed = if column.indexed { " INDEXED" } else { "" };
                    own.push(format!("{name} {kind}{indexed}"));
                    other.push(format!("{name} {kind}"));
                }
                Role::Unique => {
                    own.push(format!("{name} {kind} UNIQUE"));
                    other.push(format!("{name} {kind} UNIQUE"));
                }
                Role::Reference { table, key } => {
                    let target = &self.tables[*table];
                    let key = key.map_or("id", |key| &target.columns[key].name);
                    let text = format!(
                        "{name} {kind} REFERENCES {}({key}) ON DELETE CASCADE",
                        target.name
                    );
                    own.push(text.clone());
                    other.push(text);
                }
            }
        }
        let text = |columns: Vec<String>| format!("({})", columns.join(", "));
        [
            format!("CREATE TABLE {} {}{}", table.name, text(own), table.stored),
            format!("CREATE TABLE {} {}", table.name, text(other)),
        ]
    }

    /// The column by which one table references another directly.
    pub(crate) fn link(&self, from: usize, to: usize) -> Option<(&Column, &str)> {
        let leads =
            |column: &&Column| matches!(column.role, Role::Reference { table, .. } if table == to);
        let column = self.tables[from].columns.iter().find(leads)?;
        let Role::Reference { key, .. } = column.role else {
            return None;
        };
        Some((
            column,
            key.map_or("id", |key| &self.tables[to].columns[key].name),
        ))
    }
}

impl Column {
    /// A literal that the column may hold, or is at least of its type.
    pub(crate) fn literal(&self, choice: &mut Choice) -> String {
        let number = choice.below(self.variety.min(100_000));
        literal(self.kind, number)
    }
}

/// The literal that stands for `number` in columns of a type.
pub(crate) fn literal(kind: Type, number: usize) -> String {
    match kind {
        Type::Integer => format!("{}", i64::try_from(number).unwrap() - 3),
        // Quarters, whose sums are exact in any order.
        Type::Real => format!(
            "{:?}",
            f64::from(u32::try_from(number).unwrap()) / 4.0 - 1.0
        ),
        Type::Text if number < WORDS.len() => format!("'{}'", WORDS[number].replace('\'', "''")),
        Type::Text => format!("'w{number}'"),
    }
}

fn reference(tables: &[Table], target: usize, choice: &mut Choice) -> Column {
    let columns = &tables[target].columns;
    let unique = columns
        .iter()
        .position(|column| matches!(column.role, Role::Unique));
    let key = unique.filter(|_| choice.percent(60));
    Column {
        name: format!("r{target}"),
        kind: key.map_or(Type::Integer, |key| columns[key].kind),
        role: Role::Reference { table: target, key },
        indexed: true,
        variety: 600,
    }
}

fn stored(number: usize, choice: &mut Choice) -> Column {
    Column {
        name: format!("c{number}"),
        kind: *choice.of(&[Type::Integer, Type::Text, Type::Text, Type::Real]),
        role: Role::Plain,
        indexed: choice.percent(65),
        variety: *choice.of(&[1, 2, 5, 12, 40, 300]),
    }
}
