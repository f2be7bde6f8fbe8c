//! Random queries on a snowflake.

use crate::choice::Choice;
use crate::schema::{Column, Role, Schema, Type};

/// A query and how its answer is to be compared.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) text: String,
    /// Columns of the result that its order is known by.
    pub(crate) ordered_by: Vec<usize>,
}

struct Draft<'s> {
    schema: &'s Schema,
    tables: Vec<usize>,
}

impl Draft<'_> {
    fn columns(&self) -> Vec<(usize, Option<&Column>)> {
        let mut columns = Vec::new();
        for &table in &self.tables {
            columns.push((table, None));
            let own = self.schema.tables[table].columns.iter();
            columns.extend(own.map(|column| (table, Some(column))));
        }
        columns
    }

    fn name(&self, (table, column): (usize, Option<&Column>)) -> String {
        let column = column.map_or("id", |column| &column.name);
        format!("{}.{column}", self.schema.tables[table].name)
    }

    fn test(&self, choice: &mut Choice) -> String {
        let columns = self.columns();
        let chosen = *choice.of(&columns);
        let name = self.name(chosen);
        let mut literal = || match chosen.1 {
            Some(column) => column.literal(choice),
            None => format!("{}", choice.below(500)),
        };
        let [a, b, c] = [literal(), literal(), literal()];
        match choice.below(20) {
            0..=9 => format!("{name} = {a}"),
            10 => format!("{name} <> {a}"),
            11 => format!("{name} < {a}"),
            12 => format!("{name} >= {a}"),
            13 => format!("{name} > {a}"),
            14 | 15 => format!("{name} BETWEEN {a} AND {b}"),
            16 => format!("{name} NOT BETWEEN {a} AND {b}"),
            17 | 18 => format!("{name} IN ({a}, {b}, {c})"),
            _ => format!("NOT {name} = {a}"),
        }
    }

    fn condition(&self, choice: &mut Choice, depth: usize) -> String {
        if depth == 0 || choice.percent(40) {
            return self.test(choice);
        }
        let first = self.condition(choice, depth - 1);
        let second = self.condition(choice, depth - 1);
        match choice.below(5) {
            0 => format!("NOT ({first} OR {second})"),
            1 | 2 => format!("({first}) OR ({second})"),
            _ => format!("({first}) AND ({second})"),
        }
    }

    fn from(&self, choice: &mut Choice) -> (String, Vec<String>) {
        let name = |table: usize| &self.schema.tables[table].name;
        let root = self.tables[0];
        let mut text = name(root).clone();
        let mut conditions = Vec::new();
        let comma = choice.percent(50);
        for &table in &self.tables[1..] {
            let mut links = self.tables.iter().filter_map(|&from| {
                let (column, key) = self.schema.link(from, table)?;
                let own = self.name((from, Some(column)));
                Some(format!("{own} = {}.{key}", name(table)))
            });
            let link = links.next_back().unwrap();
            if comma {
                text += &format!(", {}", name(table));
                conditions.push(link);
            } else {
                text += &format!(" JOIN {} ON {link}", name(table));
            }
        }
        (text, conditions)
    }
}

/// A root and some of the tables that it references, each with all those between.
fn tables(schema: &Schema, choice: &mut Choice) -> Vec<usize> {
    let mut tables = vec![choice.below(schema.tables.len())];
    if choice.percent(50) {
        tables[0] = schema.tables.len() - 1;
    }
    let mut at = 0;
    while at < tables.len() {
        for column in &schema.tables[tables[at]].columns {
            if let Role::Reference { table, .. } = column.role
                && choice.percent(60)
            {
                tables.push(table);
            }
        }
        at += 1;
    }
    tables
}

pub(crate) fn random(schema: &Schema, choice: &mut Choice) -> Query {
    let draft = Draft {
        schema,
        tables: tables(schema, choice),
    };
    let (from, mut conditions) = draft.from(choice);
    if choice.percent(85) {
        let depth = choice.below(3);
        conditions.push(format!("({})", draft.condition(choice, depth)));
    }
    let conditions = if conditions.is_empty() {
        String::new()
    } else {
        format!(" WHERE {}", conditions.join(" AND "))
    };
    match choice.below(10) {
        0..=2 => groups(&draft, &from, &conditions, choice),
        _ => rows(&draft, &from, &conditions, choice),
    }
}

fn rows(draft: &Draft<'_>, from: &str, conditions: &str, choice: &mut Choice) -> Query {
    let columns = draft.columns();
    let count = 1 + choice.below(4);
    let mut shown: Vec<String> = (0..count)
        .map(|_| draft.name(*choice.of(&columns)))
        .collect();
    let distinct = choice.percent(20);
    let mut ordered_by = Vec::new();
    let mut tail = String::new();
    if choice.percent(40) {
        // The root's id makes the order total, so that a limit has one answer.
        if !distinct {
            shown.push(draft.name((draft.tables[0], None)));
        }
        let mut keys = Vec::new();
        ordered_by = (0..shown.len()).collect();
        if choice.percent(50) {
            ordered_by.reverse();
        }
        for &column in &ordered_by {
            let direction = choice.of(&["", " ASC", " DESC"]);
            let by_number = choice.percent(30);
            let name = if by_number {
                format!("{}", column + 1)
            } else {
                shown[column].clone()
            };
            keys.push(format!("{name}{direction}"));
        }
        tail = format!(" ORDER BY {}", keys.join(", "));
        if choice.percent(50) {
            tail += &format!(" LIMIT {}", choice.below(60));
            if choice.percent(50) {
                tail += &format!(" OFFSET {}", choice.below(20));
            }
        }
    }
    let distinct = if distinct { "DISTINCT " } else { "" };
    let shown = shown.join(", ");
    Query {
        text: format!("SELECT {distinct}{shown} FROM {from}{conditions}{tail}"),
        ordered_by,
    }
}

fn groups(draft: &Draft<'_>, from: &str, conditions: &str, choice: &mut Choice) -> Query {
    let columns = draft.columns();
    let mut keys: Vec<String> = Vec::new();
    for _ in 0..choice.below(3) {
        let name = draft.name(*choice.of(&columns));
        if !keys.contains(&name) {
            keys.push(name);
        }
    }
    let mut shown = keys.clone();
    for _ in 0..=choice.below(3) {
        let chosen = *choice.of(&columns);
        let name = draft.name(chosen);
        let text = chosen.1.is_some_and(|column| column.kind == Type::Text);
        let function = if text {
            *choice.of(&["COUNT", "MIN", "MAX"])
        } else {
            *choice.of(&["COUNT", "MIN", "MAX", "SUM", "AVG"])
        };
        shown.push(if choice.percent(20) {
            "COUNT(*)".to_owned()
        } else {
            format!("{function}({name})")
        });
    }
    let mut ordered_by = Vec::new();
    let mut tail = if keys.is_empty() {
        String::new()
    } else {
        format!(" GROUP BY {}", keys.join(", "))
    };
    if !keys.is_empty() && choice.percent(50) {
        ordered_by = (0..keys.len()).collect();
        tail += &format!(" ORDER BY {}", keys.join(", "));
        if choice.percent(50) {
            tail += &format!(" LIMIT {}", choice.below(20));
        }
    }
    let shown = shown.join(", ");
    Query {
        text: format!("SELECT {shown} FROM {from}{conditions}{tail}"),
        ordered_by,
    }
}
