//! Figures of disguises: percentiles, ratios to the hand-written statements, and output.

use std::io::Write;

use serde_json::{Value, json};

use crate::command::{BenchError, OutputArguments};
use crate::output::{Document, write_document};
use crate::plot::{Bar, Legend};

/// The implementation that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// Hand-written, row by row, as in Edna's baselines.
    Rows,
    /// Hand-written, one statement for all rows.
    Sets,
    /// A disguise.
    Disguise,
}

impl Way {
    /// Returns all ways, rotated by `turn`, so that each is first in every third turn.
    pub(crate) fn from_turn(turn: usize) -> [Self; 3] {
        let mut ways = [Self::Rows, Self::Sets, Self::Disguise];
        ways.rotate_left(turn % 3);
        ways
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Rows => "M1 rows",
            Self::Sets => "M2 sets",
            Self::Disguise => "disguise",
        }
    }
}

/// The measurements of one operation.
pub(crate) struct Figure {
    pub(crate) database: &'static str,
    pub(crate) application: &'static str,
    pub(crate) operation: String,
    pub(crate) way: Way,
    pub(crate) unit: &'static str,
    /// Measured values, sorted.
    pub(crate) samples: Vec<f64>,
}

impl Figure {
    /// Returns the value below which the fraction `share` of the samples lie.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place within the samples"
    )]
    pub(crate) fn at(&self, share: f64) -> f64 {
        let place = (self.samples.len().saturating_sub(1) as f64 * share).round() as usize;
        self.samples.get(place).copied().unwrap_or(f64::NAN)
    }
}

/// Returns the figure of the same operation by hand, for comparison.
fn baseline<'f>(figures: &'f [Figure], figure: &Figure, way: Way) -> Option<&'f Figure> {
    figures.iter().find(|other| {
        other.way == way
            && other.database == figure.database
            && other.application == figure.application
            && other.operation == figure.operation
    })
}

fn row(figures: &[Figure], figure: &Figure) -> Value {
    let against = |way| {
        baseline(figures, figure, way)
            .map_or(Value::Null, |other| json!(figure.at(0.5) / other.at(0.5)))
    };
    json!({
        "database": figure.database,
        "application": figure.application,
        "operation": figure.operation,
        "way": figure.way.as_str(),
        "unit": figure.unit,
        "samples": figure.samples.len(),
        "p5": figure.at(0.05),
        "p50": figure.at(0.5),
        "p95": figure.at(0.95),
        "over_m1": against(Way::Rows),
        "over_m2": against(Way::Sets),
    })
}

/// Writes `figures` in every form that `arguments` request.
pub(crate) fn write(
    figures: &[Figure],
    arguments: &OutputArguments,
    out: &mut dyn Write,
) -> Result<(), BenchError> {
    let rows: Vec<Value> = figures.iter().map(|it| row(figures, it)).collect();
    let document = Document {
        rows: &rows,
        bars: &shown(figures),
        title: "Disguises, median",
        legend: Legend {
            unit: "milliseconds",
            value: "the disguise",
            ceiling: Some("row by row by hand"),
        },
    };
    write_document(&document, arguments, out, &|out| table(figures, out))
}

fn table(figures: &[Figure], out: &mut dyn Write) -> Result<(), BenchError> {
    writeln!(
        out,
        "| database | application | operation | by | p5 | p50 | p95 | unit | over M1 | over M2 |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    for figure in figures {
        let against = |way| match baseline(figures, figure, way) {
            Some(other) if figure.way != way => format!("{:.2}", figure.at(0.5) / other.at(0.5)),
            _ => String::new(),
        };
        writeln!(
            out,
            "| {} | {} | {} | {} | {:.3} | {:.3} | {:.3} | {} | {} | {} |",
            figure.database,
            figure.application,
            figure.operation,
            figure.way.as_str(),
            figure.at(0.05),
            figure.at(0.5),
            figure.at(0.95),
            figure.unit,
            against(Way::Rows),
            against(Way::Sets),
        )?;
    }
    Ok(())
}

fn shown(figures: &[Figure]) -> Vec<Bar> {
    figures
        .iter()
        .filter(|it| it.way == Way::Disguise && it.unit == "ms")
        .map(|it| Bar {
            label: format!("{} {} ({})", it.application, it.operation, it.database),
            value: it.at(0.5),
            ceiling: baseline(figures, it, Way::Rows).map_or(0.0, |other| other.at(0.5)),
        })
        .collect()
}
