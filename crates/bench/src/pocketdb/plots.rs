//! Plots in the form of the paper's figures 7 to 10.

use std::path::Path;

use super::Figure;
use crate::command::BenchError;
use crate::output::{make_folder, write_new};
use crate::plot::{Bar, Legend, Line, bars, lines};

/// The names of the bars of queries.
pub(super) const QUERIES: Legend<'_> = Legend {
    unit: "milliseconds on the token's flash chip, simulated",
    value: "a query",
    ceiling: None,
};

/// Writes `figure7.svg` to `figure10.svg` to `folder`.
pub(super) fn write(figures: &[Figure], folder: &Path) -> Result<(), BenchError> {
    make_folder(folder)?;
    let plots = [
        ("figure7.svg", insertions(figures)?),
        ("figure8.svg", indexes(figures)?),
        ("figure9.svg", queries(figures)?),
        ("figure10.svg", reorganisations(figures)?),
    ];
    for (name, svg) in plots {
        write_new(&folder.join(name), &svg)?;
    }
    Ok(())
}

/// Plots milliseconds per inserted row of each table, for this engine and for B+-trees.
fn insertions(figures: &[Figure]) -> Result<String, BenchError> {
    let single = |figure: &&Figure| {
        figure.kind == "comparison"
            || figure.kind == "insertion" && figure.name.ends_with("each row a commit")
    };
    let mut shown: Vec<Bar> = figures
        .iter()
        .filter(single)
        .map(|figure| bar(figure, figure.milliseconds_per_row()))
        .collect();
    shown.sort_by(|a, b| a.label.cmp(&b.label));
    let legend = Legend {
        unit: "milliseconds of a committed row on the token's flash chip, simulated",
        value: "a row",
        ceiling: None,
    };
    bars("Figure 7: insertions", legend, &shown)
}

/// Plots the pages that a lookup reads, by the number of distinct values.
fn indexes(figures: &[Figure]) -> Result<String, BenchError> {
    let mut drawn: Vec<Line> = Vec::new();
    let found = figures
        .iter()
        .filter(|figure| figure.kind == "index lookup");
    for figure in found {
        let Some((name, values)) = figure.name.split_once(", ") else {
            continue;
        };
        let digits = values.split(' ').next().unwrap_or("");
        let point = (digits.parse().unwrap_or(0.0), figure.page_reads());
        match drawn.iter_mut().find(|line| line.label == name) {
            Some(line) => line.points.push(point),
            None => drawn.push(Line {
                label: name.to_owned(),
                points: vec![point],
            }),
        }
    }
    let axes = ("different values", "pages that a lookup reads");
    lines("Figure 8: four indexes over 300,000 keys", axes, &drawn)
}

/// Plots milliseconds of the 18 queries in every state.
fn queries(figures: &[Figure]) -> Result<String, BenchError> {
    let shown = figures.iter().filter(|figure| figure.kind == "query");
    let mut shown: Vec<Bar> = shown
        .map(|figure| bar(figure, figure.milliseconds()))
        .collect();
    // Groups the states of each query, in the order of the queries.
    let order: Vec<String> = shown
        .iter()
        .map(|bar| query_of(&bar.label).to_owned())
        .collect();
    let place = |bar: &Bar| order.iter().position(|name| name == query_of(&bar.label));
    shown.sort_by_key(place);
    bars("Figure 9: the 18 queries", QUERIES, &shown)
}

/// Plots seconds of every whole reorganisation.
fn reorganisations(figures: &[Figure]) -> Result<String, BenchError> {
    let shown = figures
        .iter()
        .filter(|figure| figure.kind == "reorganisation" && !figure.name.contains("of them new"));
    let shown: Vec<Bar> = shown
        .map(|figure| bar(figure, figure.milliseconds() / 1e3))
        .collect();
    let legend = Legend {
        unit: "seconds on the token's flash chip, simulated",
        value: "a reorganisation",
        ceiling: None,
    };
    bars("Figure 10: reorganisations", legend, &shown)
}

fn query_of(label: &str) -> &str {
    label.split(',').next().unwrap_or("")
}

fn bar(figure: &Figure, value: f64) -> Bar {
    Bar {
        label: figure.name.clone(),
        value,
        ceiling: 0.0,
    }
}
