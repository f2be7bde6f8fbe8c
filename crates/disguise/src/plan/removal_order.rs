//! The order in which tables lose rows: those that refer to others come first.

use std::collections::{BTreeMap, BTreeSet};

use crate::schema::ResolvedSchema;

/// The tables to which each table refers.
type Edges<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Returns all tables, each before those it refers to, as far as there are no circles. Declared keys
/// decide, because the database enforces them: a reference that the description alone says counts
/// where it makes no circle with them. The users table, whose rows go last whatever refers to it,
/// decides nothing.
pub(crate) fn removal_order(live: &ResolvedSchema) -> Vec<&str> {
    let users = live.pseudo.table.as_str();
    let mut edges = Edges::new();
    let tables = || live.tables.iter().filter(|(name, _)| *name != users);
    for (name, table) in tables() {
        let keys = table.catalog.foreign_keys.iter();
        let to = keys.map(|key| key.to_table.as_str());
        let to = to.filter(|to| *to != users && live.table(to).is_some());
        edges.entry(name).or_default().extend(to);
    }
    for (name, table) in tables() {
        for reference in &table.references {
            let to = reference.to_table.as_str();
            if to != users && !leads(&edges, to, name) {
                edges.entry(name).or_default().push(to);
            }
        }
    }
    let mut order = Vec::with_capacity(live.tables.len());
    let mut met = BTreeSet::new();
    for name in live.tables.keys() {
        visit(&edges, name, &mut met, &mut order);
    }
    order.reverse();
    order
}

/// Adds a table behind all that it refers to.
fn visit<'a>(
    edges: &Edges<'a>,
    name: &'a str,
    met: &mut BTreeSet<&'a str>,
    order: &mut Vec<&'a str>,
) {
    if !met.insert(name) {
        return;
    }
    for to in edges.get(name).into_iter().flatten() {
        visit(edges, to, met, order);
    }
    order.push(name);
}

/// Returns whether a way leads from one table to another.
fn leads(edges: &Edges<'_>, from: &str, to: &str) -> bool {
    let (mut met, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(name) = open.pop() {
        if name == to {
            return true;
        }
        if met.insert(name) {
            open.extend(edges.get(name).into_iter().flatten());
        }
    }
    false
}
