//! Circles of removed rows of several people: nobody has all of one, so somebody must begin without
//! the others.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef as _;

use super::unawaited::{Bags, Found, folded, removed_tables, rows_of};
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::{Reference, ResolvedSchema, ResolvedTable};
use crate::statements::row::{encoded, picked, whole_key};

/// Removed rows, with the references among them; each reference with whether a row may begin
/// without it.
type Graph<'n> = DiGraph<Node<'n>, (Reference, bool)>;

/// A removed row in a graph of rows that refer to each other.
struct Node<'n> {
    table: &'n ResolvedTable,
    columns: &'n [String],
    row: &'n [Value],
    /// The principals whose bags have it.
    holders: BTreeSet<&'n Vec<u8>>,
}

/// Finds the references in circles of rows of which nobody has all. Each that may be empty for a
/// while, or lead nowhere, is one with which its row can begin.
///
/// # Errors
/// [`Error::Circle`] where such a circle has none: no order of reveals could bring it back.
pub(super) fn note_circles(
    live: &ResolvedSchema,
    bags: &Bags,
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
    for circle in &circles_of_several(&graph) {
        note_circle(live, &graph, circle, found);
    }
    graph.retain_edges(|graph, edge| {
        let from = graph.edge_endpoints(edge).map(|(from, _)| from);
        let from = from.and_then(|from| graph.node_weight(from));
        let both = from.zip(graph.edge_weight(edge));
        // Rows wait for no person in the one way in which they wait for rows.
        both.is_some_and(|(from, it)| it.1 && !may_begin(live, from.table, it))
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

/// Returns whether a row of `table` may come back without this reference.
fn may_begin(
    live: &ResolvedSchema,
    table: &ResolvedTable,
    (reference, counts): &(Reference, bool),
) -> bool {
    *counts && (!table.declares(reference) || live.emptiable(table, reference).is_some())
}

/// The refusal of a circle of which no row can come back first.
fn closed(graph: &Graph<'_>, circle: &[NodeIndex]) -> Error {
    let mut keys = BTreeSet::new();
    for at in circle {
        let from = graph.node_weight(*at);
        let edges = graph.edges(*at);
        let within = edges.filter(|edge| circle.contains(&edge.target()));
        keys.extend(within.filter_map(|edge| {
            let (reference, _) = edge.weight();
            from.map(|from| format!("{}.{}", from.table.name, reference.columns.join("+")))
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
        for (reference, counts) in references_of(live, table) {
            if !group.iter().any(|it| is_of(it, &reference.to_table)) {
                continue;
            }
            let mut targets: BTreeMap<Vec<u8>, Vec<NodeIndex>> = BTreeMap::new();
            for at in graph.node_indices() {
                let Some(node) = graph.node_weight(at) else {
                    continue;
                };
                if is_of(node.table, &reference.to_table)
                    && let Some(key) = whole_key(node.columns, node.row, &reference.to_columns)
                {
                    targets.entry(folded(&key)).or_default().push(at);
                }
            }
            for at in graph.node_indices() {
                let from = graph.node_weight(at);
                let from = from.filter(|node| is_of(node.table, &table.name));
                let to =
                    from.and_then(|node| whole_key(node.columns, node.row, &reference.columns));
                for to in to
                    .and_then(|key| targets.get(&folded(&key)))
                    .into_iter()
                    .flatten()
                {
                    edges.push((at, *to, (reference.clone(), counts)));
                }
            }
        }
    }
    for (from, to, reference) in edges {
        graph.add_edge(from, to, reference);
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
            let (reference, _) = edge.weight();
            if !all.contains(&edge.target()) || !may_begin(live, from.table, edge.weight()) {
                continue;
            }
            let Some(key) = whole_key(from.columns, from.row, &reference.columns) else {
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

/// Returns the references of a table, each with whether a row may begin without it. Those to people
/// have rules of their own.
fn references_of(live: &ResolvedSchema, table: &ResolvedTable) -> Vec<(Reference, bool)> {
    let references = table.references.iter().map(|it| (it.clone(), true));
    let people = live.others(table);
    let people = people.map(|person| (live.to_person(person), false));
    references.chain(people).collect()
}
