//! Plots as SVG: bars beside their ceilings, and lines over two logarithmic axes.

use std::fmt::Display;
use std::ops::Range;

use plotters::coord::ranged1d::{Ranged, SegmentedCoord, ValueFormatter};
use plotters::coord::types::RangedCoordusize;
use plotters::prelude::*;

use crate::command::BenchError;

/// One bar and its ceiling; a ceiling of zero is not drawn.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) ceiling: f64,
}

/// The names in the legend of [`bars`].
#[derive(Clone, Copy)]
pub(crate) struct Legend<'a> {
    /// The unit of the values, which is the name of their axis.
    pub(crate) unit: &'a str,
    pub(crate) value: &'a str,
    /// The name of the ceilings, if there are any.
    pub(crate) ceiling: Option<&'a str>,
}

/// One line of a plot: its name and its points, from left to right.
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Colours of lines.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x2b, 0x6c, 0xb0),
    RGBColor(0xc0, 0x56, 0x21),
    RGBColor(0x2f, 0x85, 0x5a),
    RGBColor(0x6b, 0x46, 0xc1),
    RGBColor(0xb8, 0x32, 0x80),
    RGBColor(0x4a, 0x55, 0x68),
];
const VALUE: RGBColor = COLOURS[0];
const CEILING: RGBColor = RGBColor(0xcc, 0xcc, 0xcc);
const WIDTH: u32 = 860;
/// Height of one bar with the space around it.
const ROW: u32 = 26;
/// Height of the title, the axis and its name.
const AROUND: u32 = 120;
const LINES_HEIGHT: u32 = 440;
const LABELS: u32 = 300;
const FONT: &str = "sans-serif";

/// Returns horizontal bars, each with its ceiling behind it in grey and its value beside it. The axis
/// is logarithmic where one value is more than a hundred times another.
pub(crate) fn bars(title: &str, legend: Legend<'_>, bars: &[Bar]) -> Result<String, BenchError> {
    let count = rows(bars);
    let height = AROUND + ROW * u32::try_from(count).unwrap_or(u32::MAX / ROW - AROUND);
    let all = bars.iter().flat_map(|bar| [bar.value, bar.ceiling]);
    let shown: Vec<f64> = all.filter(|it| is_drawn(*it)).collect();
    let most = shown.iter().copied().fold(0.0, f64::max);
    let least = shown.iter().copied().fold(most, f64::min);
    let draw = |area: &Area<'_>| {
        let mut builder = begin(area, title, LABELS);
        let rows = (0..count.saturating_sub(1)).into_segmented();
        let drawing = Bars { legend, bars };
        if most > least * 100.0 {
            let across = decades(shown.iter().copied().chain([most * 2.0]));
            let left = across.start;
            drawing.draw(builder.build_cartesian_2d(across.log_scale(), rows)?, left)
        } else {
            let right = if most > 0.0 { most * 1.12 } else { 1.0 };
            drawing.draw(builder.build_cartesian_2d(0.0..right, rows)?, 0.0)
        }
    };
    drawing((WIDTH, height), draw)
}

/// Returns the number of rows of a plot: a single one would have no height.
fn rows(bars: &[Bar]) -> usize {
    bars.len().max(2)
}

fn is_drawn(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Bars that are being drawn.
struct Bars<'a> {
    legend: Legend<'a>,
    bars: &'a [Bar],
}

impl Bars<'_> {
    /// Draws the bars, which begin at `left`.
    fn draw<'a, 'b: 'a, X>(&self, mut chart: Chart<'a, 'b, X, Rows>, left: f64) -> Drawn
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let label = |row: &SegmentValue<usize>| match row {
            SegmentValue::CenterOf(row) => self
                .bars
                .get(self.row(*row))
                .map_or_else(String::new, |bar| bar.label.clone()),
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .max_light_lines(1)
            .bold_line_style(BLACK.mix(0.15))
            .x_desc(self.legend.unit)
            .x_labels(8)
            .x_label_formatter(&number)
            .y_labels(rows(self.bars))
            .y_label_formatter(&label)
            .draw()?;
        if let Some(name) = self.legend.ceiling {
            let ceilings = self.parts(left, 4, CEILING, |bar| bar.ceiling);
            let drawn = chart.draw_series(ceilings)?;
            drawn.label(name).legend(sample(CEILING));
        }
        let values = self.parts(left, 8, VALUE, |bar| bar.value);
        let drawn = chart.draw_series(values)?;
        drawn.label(self.legend.value).legend(sample(VALUE));
        let beside = self.bars.iter().enumerate().map(|(row, bar)| {
            let ends = [bar.value, bar.ceiling];
            let end = ends.into_iter().filter(|it| is_drawn(*it));
            let at = (
                end.fold(left, f64::max),
                SegmentValue::CenterOf(self.row(row)),
            );
            EmptyElement::at(at) + Text::new(format!("{:.2}", bar.value), (6, -5), (FONT, 12))
        });
        chart.draw_series(beside)?;
        if self.legend.ceiling.is_some() {
            legend_of(&mut chart)?;
        }
        Ok(())
    }

    /// Returns the bars of one colour, `margin` pixels smaller than their row on either side.
    fn parts(
        &self,
        left: f64,
        margin: u32,
        colour: RGBColor,
        value: impl Fn(&Bar) -> f64,
    ) -> impl Iterator<Item = Rectangle<(f64, SegmentValue<usize>)>> {
        let rows = self.bars.iter().map(value).enumerate();
        rows.filter(|(_, value)| is_drawn(*value))
            .map(move |(row, value)| {
                let row = self.row(row);
                let near = (left, SegmentValue::Exact(row));
                let far = (value, SegmentValue::Exact(row + 1));
                let mut part = Rectangle::new([near, far], colour.filled());
                part.set_margin(margin, margin, 0, 0);
                part
            })
    }

    /// Returns the row of a bar, or the bar of a row: the first bar stands at the top.
    fn row(&self, number: usize) -> usize {
        rows(self.bars).saturating_sub(number + 1)
    }
}

/// Returns a plot of lines over two logarithmic axes with a mark at each point; points that are not
/// above zero have no logarithm and are left out.
pub(crate) fn lines(
    title: &str,
    (below, beside): (&str, &str),
    lines: &[Line],
) -> Result<String, BenchError> {
    let is_shown = |(x, y): &&(f64, f64)| is_drawn(*x) && is_drawn(*y);
    let shown =
        |line: &Line| -> Vec<(f64, f64)> { line.points.iter().filter(is_shown).copied().collect() };
    let points: Vec<(f64, f64)> = lines.iter().flat_map(shown).collect();
    let across = decades(points.iter().map(|it| it.0));
    let up = decades(points.iter().map(|it| it.1));
    let draw = |area: &Area<'_>| {
        let mut builder = begin(area, title, 70);
        let mut chart = builder.build_cartesian_2d(across.log_scale(), up.log_scale())?;
        chart
            .configure_mesh()
            .bold_line_style(BLACK.mix(0.25))
            .light_line_style(BLACK.mix(0.06))
            .x_desc(below)
            .y_desc(beside)
            .x_label_formatter(&number)
            .y_label_formatter(&number)
            .draw()?;
        for (line, colour) in lines.iter().zip(COLOURS.into_iter().cycle()) {
            let points = shown(line);
            let path = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
            let drawn = chart.draw_series(path)?;
            drawn.label(&line.label).legend(sample(colour));
            let marks = points.into_iter();
            chart.draw_series(marks.map(|at| Circle::new(at, 3, colour.filled())))?;
        }
        legend_of(&mut chart)
    };
    drawing((WIDTH, LINES_HEIGHT), draw)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;
type Rows = SegmentedCoord<RangedCoordusize>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Returns what `draw` draws on white ground.
fn drawing(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, BenchError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let drawn = area.fill(&WHITE).and_then(|()| draw(&area));
        drawn.and_then(|()| area.present()).map_err(undrawn)?;
    }
    Ok(svg)
}

fn undrawn(error: impl Display) -> BenchError {
    BenchError::Failed(format!("the plot cannot be drawn: {error}"))
}

/// Begins a chart with a title and `labels` pixels for the names beside it.
fn begin<'a, 'b>(
    area: &'a Area<'b>,
    title: &str,
    labels: u32,
) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(title, (FONT, 16))
        .margin(12)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(labels);
    builder
}

/// Draws the legend in a corner of the chart.
fn legend_of<'a, 'b: 'a, X: Ranged, Y: Ranged>(chart: &mut Chart<'a, 'b, X, Y>) -> Drawn {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()
}

/// Returns the legend's sample of a colour.
fn sample(colour: RGBColor) -> impl Fn((i32, i32)) -> Rectangle<(i32, i32)> {
    move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled())
}

/// Returns the powers of ten around `values`, at least one decade.
fn decades(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if high <= 0.0 {
        return 1.0..10.0;
    }
    let low = 10_f64.powf(low.log10().floor());
    let high = 10_f64.powf(high.log10().ceil());
    low..high.max(low * 10.0)
}

/// Returns a number of an axis: two digits behind the point at most, powers of ten where it is long.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "a formatter of the library"
)]
fn number(value: &f64) -> String {
    if *value != 0.0 && !(0.01..100_000.0).contains(value) {
        return format!("{value:e}");
    }
    let digits = format!("{value:.2}");
    digits
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEGEND: Legend<'_> = Legend {
        unit: "units",
        value: "ours",
        ceiling: Some("theirs"),
    };

    fn bar(label: &str, value: f64, ceiling: f64) -> Bar {
        Bar {
            label: label.into(),
            value,
            ceiling,
        }
    }

    #[test]
    fn every_bar_has_its_name_its_value_an_axis_and_a_legend() {
        let drawn = [bar("<x>", 1.0, 2.0), bar("y", 0.0, 0.0), bar("z", 1.5, 2.0)];
        let svg = bars("a & b", LEGEND, &drawn).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in [
            "a &amp; b",
            "&lt;x&gt;",
            "units",
            "ours",
            "theirs",
            "1.50",
            "0.00",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        let blue = svg.matches("fill=\"#2B6CB0\"").count();
        let grey = svg.matches("fill=\"#CCCCCC\"").count();
        // One each in the legend.
        assert_eq!((blue, grey), (2 + 1, 2 + 1), "{svg}");
        assert_eq!(svg.matches("&lt;x&gt;").count(), 1, "{svg}");
    }

    #[test]
    fn bars_of_very_different_lengths_have_decades_for_ticks() {
        let svg = bars("t", LEGEND, &[bar("x", 0.02, 0.0), bar("y", 30.0, 40.0)]).unwrap();
        for text in ["0.1", "1", "10", "100"] {
            assert!(svg.contains(&format!("\n{text}\n")), "{text}: {svg}");
        }
    }

    #[test]
    fn bars_without_ceilings_need_no_legend() {
        let legend = Legend {
            ceiling: None,
            ..LEGEND
        };
        let svg = bars("t", legend, &[bar("x", 1.0, 0.0)]).unwrap();
        assert!(!svg.contains("ours") && svg.contains("units"), "{svg}");
    }

    #[test]
    fn bars_of_nothing_or_of_no_number_are_drawn_as_an_empty_plot() {
        for drawn in [&[][..], &[bar("x", f64::NAN, f64::INFINITY)]] {
            let svg = bars("t", LEGEND, drawn).unwrap();
            assert!(!svg.contains("NaN\" ") && !svg.contains("inf\" "), "{svg}");
        }
    }

    #[test]
    fn lines_have_decades_for_ticks_and_leave_out_what_has_no_logarithm() {
        let line = |label: &str, points: &[(f64, f64)]| Line {
            label: label.into(),
            points: points.to_vec(),
        };
        let drawn = [
            line("a", &[(1.0, 10.0), (10.0, 1.0), (100.0, 0.0)]),
            line("<b>", &[(10.0, 300.0)]),
        ];
        let svg = lines("t", ("across", "up"), &drawn).unwrap();
        // Two lines of two and one points; the axes are polylines and lines of their own.
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
        for text in [
            "across",
            "up",
            "&lt;b&gt;",
            "\n1000\n",
            "\n100\n",
            "\n10\n",
            "\n1\n",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn ticks_are_short() {
        let ticks = [0.0, 0.600_000_000_000_001, 10.0, 0.25, 1e6];
        assert_eq!(
            ticks.map(|it| number(&it)),
            ["0", "0.6", "10", "0.25", "1e6"]
        );
    }

    #[test]
    fn decades_surround_the_values_and_are_never_empty() {
        assert_eq!(decades([3.0, 40.0].into_iter()), 1.0..100.0);
        assert_eq!(decades([10.0].into_iter()), 10.0..100.0);
        assert_eq!(decades(std::iter::empty()), 1.0..10.0);
    }
}
