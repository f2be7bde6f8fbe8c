//! Tables whose rows may refer to each other in a circle that no row can come back to first.

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef as _;

use crate::schema::{ResolvedSchema, ResolvedTable};

impl ResolvedSchema {
    /// Returns a caution for each circle of tables by keys without which no row comes back, where
    /// `removes` says that a disguise removes rows of one of them.
    pub(super) fn of_closed_circles(&self, removes: &impl Fn(&str) -> bool) -> Vec<String> {
        let mut graph: DiGraph<&ResolvedTable, String> = DiGraph::new();
        let nodes: Vec<NodeIndex> = self.tables.values().map(|it| graph.add_node(it)).collect();
        let mut edges = Vec::new();
        for (from, table) in nodes.iter().zip(self.tables.values()) {
            let people = self.others(table).filter(|it| !table.may_lack(it));
            let people = people.map(|it| self.to_person(it));
            let keys = table.references.iter();
            let keys = keys.filter(|it| !self.may_come_before(table, it));
            for key in keys.cloned().chain(people) {
                let mut all = nodes.iter().zip(self.tables.values());
                let to = all.find(|(_, it)| it.name == key.to_table);
                let name = format!("{}.{}", table.name, key.columns.join("+"));
                edges.extend(to.map(|(to, _)| (*from, *to, name)));
            }
        }
        for (from, to, name) in edges {
            graph.add_edge(from, to, name);
        }
        let circles = kosaraju_scc(&graph).into_iter();
        let cautions = circles.filter_map(|circle| {
            let mut tables = circle.iter().filter_map(|at| graph.node_weight(*at));
            let edges = circle.iter().flat_map(|at| graph.edges(*at));
            let within = edges.filter(|edge| circle.contains(&edge.target()));
            let mut keys: Vec<&str> = within.map(|edge| edge.weight().as_str()).collect();
            keys.sort_unstable();
            (!keys.is_empty() && tables.any(|it| removes(&it.name))).then(|| caution(&keys))
        });
        cautions.collect()
    }
}

fn caution(keys: &[&str]) -> String {
    format!(
        "rows may refer to each other in a circle by {}, of which none may be missing: a disguise that would remove such a circle of rows of several people is refused, for none of them could come back first",
        keys.join(", ")
    )
}
