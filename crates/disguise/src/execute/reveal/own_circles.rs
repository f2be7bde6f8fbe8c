//! Rows of one table that refer to each other: each goes back after those to which it refers. One
//! statement takes a circle by keys which the database checks at the end of each statement.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::DfsPostOrder;

use super::circle::{Circles, Group, Spelled};
use super::put_back::Ready;
use super::report::KeptReason;
use super::savepoint::Savepoint;
use super::write_back::WriteBack;
use crate::database::Dialect;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::ResolvedTable;
use crate::statements::row::{encoded, whole_key};
use crate::statements::table::{Inserted, insert_together};

/// A row that the database did not take by itself.
pub(super) struct Left<'r> {
    /// The row as recorded.
    pub(super) original: &'r [Value],
    /// The row as it was to go back.
    pub(super) row: &'r [Value],
    pub(super) reason: KeptReason,
    /// The refusal in the database's words.
    pub(super) said: Option<String>,
}

impl WriteBack<'_> {
    /// Inserts the rows of each circle among those that are `left` in one statement, and the rows that
    /// refer to them. Takes those out of `left` that are in.
    pub(super) fn insert_circles(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        left: &mut Vec<Left<'_>>,
    ) -> Result<(), Error> {
        // Others check keys with each row, or at the commit alone.
        if self.database.dialect() != Dialect::Postgres || !table.refers_to_itself() {
            return Ok(());
        }
        let mut is_in: BTreeSet<usize> = BTreeSet::new();
        let refused = left.iter().enumerate();
        let refused = refused.filter(|(_, it)| it.reason == KeptReason::Refused);
        let refused = refused.map(|(at, it)| (at, it.row));
        for circle in parents_first((table, columns), refused, &Spelled::new()) {
            let all = circle.rows.iter().filter_map(|at| left.get(*at));
            let rows: Vec<Vec<Value>> = all.map(|it| it.row.to_vec()).collect();
            // A row alone was refused before, unless its parent has come since.
            if rows.len() < 2 && !circle.parents.iter().any(|at| is_in.contains(at)) {
                continue;
            }
            if insert_whole_circle(self.database, (table, columns), &rows)? {
                is_in.extend(circle.rows);
            }
        }
        let mut number = 0..;
        left.retain(|_| number.next().is_none_or(|at: usize| !is_in.contains(&at)));
        Ok(())
    }
}

impl Circles<'_, '_> {
    /// Inserts the rows of each circle within one table that are not in yet in one statement.
    /// Returns whether that brought any in.
    pub(super) fn insert_own_circles(
        &mut self,
        groups: &mut [Group<'_>],
        spelled: &Spelled,
    ) -> Result<bool, Error> {
        let mut helped = false;
        if self.work.owners.database.dialect() != Dialect::Postgres {
            return Ok(false);
        }
        for group in groups.iter_mut().filter(|it| it.table.refers_to_itself()) {
            let of = (group.table, group.columns.as_slice());
            let rows = group.rows.iter().enumerate();
            let rows = rows.filter(|(_, it)| !it.is_in);
            let rows = rows.map(|(at, it)| (at, it.row.as_slice()));
            let mut circles = parents_first(of, rows, spelled);
            circles.retain(|circle| circle.rows.len() > 1);
            let mut came = BTreeSet::new();
            for circle in circles {
                let all = circle.rows.iter().filter_map(|at| group.rows.get(*at));
                let rows: Vec<Vec<Value>> = all.map(|it| it.row.clone()).collect();
                if insert_whole_circle(self.work.owners.database, of, &rows)? {
                    came.extend(circle.rows);
                }
            }
            helped |= !came.is_empty();
            let rows = group.rows.iter_mut().enumerate();
            let rows = rows.filter(|(at, _)| came.contains(at));
            rows.for_each(|(_, it)| it.came_whole());
        }
        Ok(helped)
    }
}

/// Inserts the rows of a circle in one statement. Returns whether the database took them.
fn insert_whole_circle(
    database: &mut dyn TenantConnection,
    (table, columns): (&ResolvedTable, &[String]),
    rows: &[Vec<Value>],
) -> Result<bool, Error> {
    let doing = "putting back rows of a table in a circle";
    let point = Savepoint::set(database, "probity_own_circle", doing)?;
    let all = insert_together(database, table, columns, rows)? == Inserted::All;
    point.end(database, all)?;
    Ok(all)
}

/// Rows that refer to each other in a circle, or one row, by their numbers.
struct Circle {
    rows: Vec<usize>,
    /// The rows to which they refer.
    parents: BTreeSet<usize>,
}

/// Returns rows in an order in which each comes after those to which it refers, unless they make a
/// circle, and otherwise as they were recorded.
pub(super) fn in_order(table: &ResolvedTable, columns: &[String], ready: &Ready) -> Ready {
    if !table.refers_to_itself() {
        return ready.clone();
    }
    let rows = ready.iter().map(|(_, row)| row.as_slice()).enumerate();
    let graph = references((table, columns), rows, &Spelled::new());
    let mut ordered = Vec::with_capacity(ready.len());
    let mut walk = DfsPostOrder::empty(&graph);
    for start in graph.node_indices() {
        walk.move_to(start);
        while let Some(node) = walk.next(&graph) {
            let row = number(&graph, node).and_then(|at| ready.get(at));
            ordered.extend(row.cloned());
        }
    }
    ordered
}

/// Returns numbered rows in circles, each after those to which its rows refer. A column that the
/// database works out may lead to any of them.
fn parents_first<'r>(
    (table, columns): (&ResolvedTable, &[String]),
    rows: impl Iterator<Item = (usize, &'r [Value])>,
    spelled: &Spelled,
) -> Vec<Circle> {
    let rows: Vec<(usize, &[Value])> = rows.collect();
    let mut graph = references((table, columns), rows.iter().copied(), spelled);
    let own = table.catalog.foreign_keys.iter();
    let own = own.filter(|it| it.to_table == table.name && table.works_out(&it.to_columns));
    for key in own {
        // All edges lead over one node: there may be many rows.
        let any = graph.add_node(None);
        for (node, (_, row)) in graph.node_indices().zip(&rows) {
            graph.add_edge(any, node, ());
            if table.works_out(&key.columns) || whole_key(columns, row, &key.columns).is_some() {
                graph.add_edge(node, any, ());
            }
        }
    }
    let number = |node: NodeIndex| number(&graph, node);
    let circles = kosaraju_scc(&graph).into_iter();
    let circles = circles.map(|circle| Circle {
        parents: circle
            .iter()
            .flat_map(|it| graph.neighbors(*it))
            .filter_map(number)
            .collect(),
        rows: circle.into_iter().filter_map(number).collect(),
    });
    circles.collect()
}

/// Rows by their numbers, with their references to each other.
type References = DiGraph<Option<usize>, ()>;

fn number(graph: &References, node: NodeIndex) -> Option<usize> {
    graph.node_weight(node).copied().flatten()
}

/// Returns numbered rows with their references to each other, also those that are `spelled`
/// otherwise than the keys.
fn references<'r>(
    (table, columns): (&ResolvedTable, &[String]),
    rows: impl Iterator<Item = (usize, &'r [Value])>,
    spelled: &Spelled,
) -> References {
    let mut graph = References::new();
    let nodes: Vec<(NodeIndex, &[Value])> = rows
        .map(|(at, row)| (graph.add_node(Some(at)), row))
        .collect();
    let own = table.catalog.foreign_keys.iter();
    for key in own.filter(|it| it.to_table == table.name) {
        let name =
            |row: &[Value], by: &[String]| whole_key(columns, row, by).map(|it| encoded(&it));
        let named = nodes.iter();
        let named = named.filter_map(|(at, row)| Some((name(row, &key.to_columns)?, *at)));
        let named: BTreeMap<Vec<u8>, NodeIndex> = named.collect();
        let spelled = spelled.get(&(table.name.clone(), key.to_columns.clone()));
        for (from, row) in &nodes {
            let to = name(row, &key.columns);
            let otherwise = to.as_ref().and_then(|it| spelled?.get(it));
            let to = otherwise.or(to.as_ref()).and_then(|it| named.get(it));
            if let Some(to) = to {
                graph.update_edge(*from, *to, ());
            }
        }
    }
    graph
}
