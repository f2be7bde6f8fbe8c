//! Circles of removed rows of several people: nobody has all of one, so somebody must begin without
//! the others.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef as _;

use super::unawaited::{Bags, Found, folded, removed_tables, rows_of};
use super::worked_out::{WorkedOut, removed_key};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::{Reference, ResolvedSchema, ResolvedTable};
use crate::statements::row::{encoded, picked};
use crate::statements::spelling::alike;

/// Removed rows, with the references among them.
type Graph<'n> = DiGraph<Node<'n>, Edge>;

/// A removed row in a graph of rows that refer to each other.
struct Node<'n> {
    table: &'n ResolvedTable,
    columns: &'n [String],
    row: &'n [Value],
    worked_out: &'n WorkedOut,
    /// The principals whose bags have it.
    holders: BTreeSet<&'n Vec<u8>>,
}

impl Node<'_> {
    /// Returns its values in `columns`, unless one is NULL.
    fn key(&self, columns: &[String]) -> Option<Vec<Value>> {
        let of = (self.table, self.worked_out);
        removed_key(of, (self.columns, self.row), columns)
    }
}

/// A reference of one removed row to another.
struct Edge {
    reference: Reference,
    /// True if it names a person: whether a row waits for people has rules of its own.
    is_to_person: bool,
    /// True if the keys are the same; otherwise the database may or may not treat them as equal.
    is_exact: bool,
}

/// Finds the references in circles of rows of which nobody has all. Each that may be empty for a
/// while, or lead nowhere, is one with which its row can begin.
///
/// # Errors
/// [`Error::Circle`] where such a circle has none: no order of reveals could bring it back.
pub(super) fn note_circles(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    (bags, worked_out): (&Bags, &WorkedOut),
    found: &mut Found,
) -> Result<(), Error> {
    if bags.len() < 2 {
        return Ok(());
    }
    let groups = circles_of_tables(live, bags);
    if groups.is_empty() {
        return Ok(());
    }
    let mut graph: Graph<'_> = DiGraph::new();
    let mut known: BTreeMap<(&str, Vec<u8>), NodeIndex> = BTreeMap::new();
    for table in groups.iter().flatten() {
        for (principal, columns, row) in rows_of(bags, &table.name) {
            let identity = encoded(&picked(columns, row, &table.identity));
            let node = *known.entry((&table.name, identity)).or_insert_with(|| {
                graph.add_node(Node {
                    table,
                    columns,
                    row,
                    worked_out,
                    holders: BTreeSet::new(),
                })
            });
            if let Some(node) = graph.node_weight_mut(node) {
                node.holders.insert(principal);
            }
        }
    }
    for group in &groups {
        connect(live, group, &mut graph);
    }
    while drop_unlike(database, live, &mut graph)? {}
    for circle in &circles_of_several(&graph) {
        note_circle(live, &graph, circle, found);
    }
    graph.retain_edges(|graph, edge| {
        let from = graph.edge_endpoints(edge).map(|(from, _)| from);
        let from = from.and_then(|from| graph.node_weight(from));
        let both = from.zip(graph.edge_weight(edge));
        both.is_some_and(|(from, it)| is_firm(live, from, it))
    });
    circles_of_several(&graph)
        .first()
        .map_or(Ok(()), |circle| Err(closed(&graph, circle)))
}

/// Returns the circles of rows of which nobody has all. The others wait for whoever has all of
/// them.
fn circles_of_several(graph: &Graph<'_>) -> Vec<Vec<NodeIndex>> {
    let mut circles = kosaraju_scc(graph);
    circles.retain(|circle| {
        let mut holders = circle.iter().filter_map(|at| graph.node_weight(*at));
        let all = holders.next().map(|first| {
            let rest = holders.map(|node| &node.holders);
            rest.fold(first.holders.clone(), |all, of| &all & of)
        });
        circle.len() > 1 && all.is_some_and(|all| all.is_empty())
    });
    circles
}

/// Asks the database about keys in circles of several people that are spelled in two ways, and drops
/// the references between those that it treats as different. Returns whether there were any.
fn drop_unlike(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    graph: &mut Graph<'_>,
) -> Result<bool, Error> {
    let mut doubtful = Vec::new();
    for circle in circles_of_several(graph) {
        let all: BTreeSet<NodeIndex> = circle.iter().copied().collect();
        let edges = circle.iter().flat_map(|at| graph.edges(*at));
        let edges = edges.filter(|it| all.contains(&it.target()) && !it.weight().is_exact);
        doubtful.extend(edges.map(|it| it.id()));
    }
    let mut unlike = BTreeSet::new();
    for edge in doubtful {
        let what = "a reference in a circle has no rows";
        let defect = || Error::Defect { what };
        let (from, to) = graph.edge_endpoints(edge).ok_or_else(defect)?;
        let both = graph.node_weight(from).zip(graph.node_weight(to));
        let ((from, to), it) = both.zip(graph.edge_weight(edge)).ok_or_else(defect)?;
        let by = it.reference.to_columns.as_slice();
        let key = from.key(&it.reference.columns);
        let (key, keys) = key.zip(to.key(by)).ok_or_else(defect)?;
        let to = live.table(&it.reference.to_table).ok_or_else(defect)?;
        if alike(database, (to, by), &[key], &[keys])?.is_empty() {
            unlike.insert(edge);
        } else if let Some(it) = graph.edge_weight_mut(edge) {
            it.is_exact = true;
        }
    }
    graph.retain_edges(|_, edge| !unlike.contains(&edge));
    Ok(!unlike.is_empty())
}

/// Returns whether a row of `table` may come back without this reference.
fn may_begin(live: &ResolvedSchema, table: &ResolvedTable, edge: &Edge) -> bool {
    !edge.is_to_person && live.may_come_before(table, &edge.reference)
}

/// Returns whether a row can come back only after the row to which this reference leads.
fn is_firm(live: &ResolvedSchema, from: &Node<'_>, edge: &Edge) -> bool {
    if !edge.is_to_person {
        return !may_begin(live, from.table, edge);
    }
    // A shared row comes back with the first of its owners, and placeholders for the others.
    let is_shared = from.holders.len() > 1;
    let may_lack = |it: &String| {
        from.table.may_lack(it) || (is_shared && from.table.owners.iter().any(|owner| owner == it))
    };
    !edge.reference.columns.iter().all(may_lack)
}

/// The refusal of a circle of which no row can come back first.
fn closed(graph: &Graph<'_>, circle: &[NodeIndex]) -> Error {
    let mut keys = BTreeSet::new();
    for at in circle {
        let from = graph.node_weight(*at);
        let edges = graph.edges(*at);
        let within = edges.filter(|edge| circle.contains(&edge.target()));
        keys.extend(within.filter_map(|edge| {
            let columns = edge.weight().reference.columns.join("+");
            from.map(|from| format!("{}.{columns}", from.table.name))
        }));
    }
    Error::Circle {
        rows: u64::try_from(circle.len()).unwrap_or(u64::MAX),
        keys: keys.into_iter().collect(),
    }
}

/// Adds the references among the rows of a group of tables.
fn connect(live: &ResolvedSchema, group: &[&ResolvedTable], graph: &mut Graph<'_>) {
    let is_of = |table: &ResolvedTable, name: &str| table.name == name;
    let mut edges = Vec::new();
    for table in group {
        for (reference, is_to_person) in references_of(live, table) {
            if !group.iter().any(|it| is_of(it, &reference.to_table)) {
                continue;
            }
            let mut targets: BTreeMap<Vec<u8>, Vec<(NodeIndex, Vec<u8>)>> = BTreeMap::new();
            for at in graph.node_indices() {
                let Some(node) = graph.node_weight(at) else {
                    continue;
                };
                if is_of(node.table, &reference.to_table)
                    && let Some(key) = node.key(&reference.to_columns)
                {
                    let named = targets.entry(folded(&key)).or_default();
                    named.push((at, encoded(&key)));
                }
            }
            for at in graph.node_indices() {
                let from = graph.node_weight(at);
                let from = from.filter(|node| is_of(node.table, &table.name));
                let key = from.and_then(|node| node.key(&reference.columns));
                let Some(key) = key else { continue };
                let name = encoded(&key);
                for (to, named) in targets.get(&folded(&key)).into_iter().flatten() {
                    let edge = Edge {
                        reference: reference.clone(),
                        is_to_person,
                        is_exact: *named == name,
                    };
                    edges.push((at, *to, edge));
                }
            }
        }
    }
    for (from, to, edge) in edges {
        graph.add_edge(from, to, edge);
    }
}

/// Notes the references with which rows of a circle can begin.
fn note_circle(live: &ResolvedSchema, graph: &Graph<'_>, circle: &[NodeIndex], found: &mut Found) {
    let all: BTreeSet<NodeIndex> = circle.iter().copied().collect();
    for at in circle {
        let Some(from) = graph.node_weight(*at) else {
            continue;
        };
        for edge in graph.edges(*at) {
            let reference = &edge.weight().reference;
            if !all.contains(&edge.target()) || !may_begin(live, from.table, edge.weight()) {
                continue;
            }
            let Some(key) = from.key(&reference.columns) else {
                continue;
            };
            // Rows that the same person has are waited for as long as that helps.
            for holder in &from.holders {
                found.add(holder, reference, key.clone());
            }
        }
    }
}

/// Returns the tables that lost rows and that refer to each other in a circle, or to themselves.
fn circles_of_tables<'l>(live: &'l ResolvedSchema, bags: &Bags) -> Vec<Vec<&'l ResolvedTable>> {
    let mut graph: DiGraph<&ResolvedTable, ()> = DiGraph::new();
    let nodes: Vec<NodeIndex> = removed_tables(live, bags)
        .into_iter()
        .map(|table| graph.add_node(table))
        .collect();
    let mut edges = Vec::new();
    for from in &nodes {
        let Some(table) = graph.node_weight(*from) else {
            continue;
        };
        for (reference, _) in references_of(live, table) {
            let is_it = |it: &NodeIndex| {
                let to = graph.node_weight(*it);
                to.is_some_and(|to| to.name == reference.to_table)
            };
            edges.extend(nodes.iter().copied().filter(is_it).map(|to| (*from, to)));
        }
    }
    for (from, to) in edges {
        graph.add_edge(from, to, ());
    }
    let circles = kosaraju_scc(&graph).into_iter();
    let circles = circles.filter(|circle| {
        let mut itself = circle.iter();
        circle.len() > 1 || itself.any(|it| graph.contains_edge(*it, *it))
    });
    let tables = |circle: Vec<NodeIndex>| {
        let tables = circle.into_iter();
        tables
            .filter_map(|it| graph.node_weight(it).copied())
            .collect()
    };
    circles.map(tables).collect()
}

/// Returns the references of a table, each with whether it names a person.
fn references_of(live: &ResolvedSchema, table: &ResolvedTable) -> Vec<(Reference, bool)> {
    let references = table.references.iter().map(|it| (it.clone(), false));
    let people = live.others(table);
    let people = people.map(|person| (live.to_person(person), true));
    references.chain(people).collect()
}
