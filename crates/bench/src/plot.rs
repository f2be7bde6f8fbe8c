//! Plots as SVG: bars with their ceilings, and lines.

use std::fmt::Write as _;

/// One bar and its ceiling.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) ceiling: f64,
}

const ROW: usize = 26;
const LEFT: usize = 300;
const WIDTH: usize = 460;
const TOP: usize = 56;

/// Returns horizontal bars, each with its ceiling behind it in grey and its value beside it.
pub(crate) fn bars(title: &str, unit: &str, bars: &[Bar]) -> String {
    let most = bars.iter().fold(f64::MIN_POSITIVE, |most, bar| {
        most.max(bar.value).max(bar.ceiling)
    });
    let height = TOP + bars.len() * ROW + 40;
    let total = LEFT + WIDTH + 90;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"15\">{}</text>\n\
         <text x=\"12\" y=\"42\" fill=\"#555\">{}</text>\n",
        escape(title),
        escape(unit)
    );
    #[expect(clippy::cast_precision_loss, reason = "a few hundred pixels")]
    let length = |value: f64| value / most * WIDTH as f64;
    for (number, bar) in bars.iter().enumerate() {
        let y = TOP + number * ROW;
        // Writing to a string does not fail.
        let _infallible = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"18\" fill=\"#ddd\"/>\n\
             <rect x=\"{LEFT}\" y=\"{}\" width=\"{:.1}\" height=\"10\" fill=\"#2b6cb0\"/>\n\
             <text x=\"{:.1}\" y=\"{}\">{:.2}</text>\n",
            LEFT - 8,
            y + 13,
            escape(&bar.label),
            length(bar.ceiling),
            y + 4,
            length(bar.value),
            10.0 + f64::from(u32::try_from(LEFT).unwrap_or_default())
                + length(bar.value.max(bar.ceiling)),
            y + 13,
            bar.value,
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// One line of a plot: its name and its points, from left to right.
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Colours of lines.
const COLOURS: [&str; 6] = [
    "#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#4a5568",
];
const PLOT_HEIGHT: f64 = 320.0;
const PLOT_WIDTH: f64 = 560.0;
const PLOT_LEFT: f64 = 80.0;
const PLOT_TOP: f64 = 60.0;

/// Returns a plot of lines over two logarithmic axes; points that are not above zero are omitted.
pub(crate) fn lines(title: &str, axes: (&str, &str), lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let span = |values: &mut dyn Iterator<Item = f64>| {
        values.filter(|value| *value > 0.0).fold(
            (f64::INFINITY, f64::MIN_POSITIVE),
            |(least, most), value| (least.min(value), most.max(value)),
        )
    };
    let (left, right) = span(&mut points().map(|point| point.0));
    let (low, high) = span(&mut points().map(|point| point.1));
    let part = |value: f64, (least, most): (f64, f64)| {
        let whole = (most / least).ln();
        if whole > 0.0 {
            (value / least).ln() / whole
        } else {
            0.5
        }
    };
    let x = |value: f64| PLOT_LEFT + part(value, (left, right)) * PLOT_WIDTH;
    let y = |value: f64| PLOT_TOP + (1.0 - part(value, (low, high))) * PLOT_HEIGHT;
    let (total, height) = (
        PLOT_LEFT + PLOT_WIDTH + 220.0,
        PLOT_TOP + PLOT_HEIGHT + 60.0,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"15\">{}</text>\n\
         <text x=\"12\" y=\"42\" fill=\"#555\">{}, from {low:.2} to {high:.2}</text>\n\
         <text x=\"{PLOT_LEFT}\" y=\"{}\" fill=\"#555\">{}, from {left:.0} to {right:.0}</text>\n\
         <path d=\"M{PLOT_LEFT} {PLOT_TOP} v{PLOT_HEIGHT} h{PLOT_WIDTH}\" fill=\"none\" stroke=\"#999\"/>\n",
        escape(title),
        escape(axes.1),
        PLOT_TOP + PLOT_HEIGHT + 24.0,
        escape(axes.0),
    );
    let colours = COLOURS.iter().cycle();
    let mut beside = PLOT_TOP + 12.0;
    for (line, colour) in lines.iter().zip(colours) {
        let shown = line
            .points
            .iter()
            .filter(|point| point.0 > 0.0 && point.1 > 0.0);
        let path: Vec<String> = shown
            .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1)))
            .collect();
        // Writing to a string does not fail.
        let _infallible = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
             <text x=\"{}\" y=\"{beside}\" fill=\"{colour}\">{}</text>\n",
            path.join(" "),
            PLOT_LEFT + PLOT_WIDTH + 12.0,
            escape(&line.label),
        );
        beside += 18.0;
    }
    svg.push_str("</svg>\n");
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_between_the_axes_and_pass_over_what_has_no_logarithm() {
        let line = |label: &str, points: &[(f64, f64)]| Line {
            label: label.into(),
            points: points.to_vec(),
        };
        let drawn = [
            line("a", &[(1.0, 10.0), (10.0, 1.0), (100.0, 0.0)]),
            line("<b>", &[(10.0, 100.0)]),
        ];
        let svg = lines("t", ("x", "y"), &drawn);
        assert_eq!(svg.matches("<polyline").count(), 2);
        // The lowest and the highest visible points, the first and the last.
        assert!(svg.contains("points=\"80.0,220.0 360.0,380.0\""), "{svg}");
        assert!(svg.contains("points=\"360.0,60.0\"") && svg.contains("&lt;b&gt;"));
    }

    #[test]
    fn every_bar_is_drawn_and_labels_cannot_break_out() {
        let bar = |label: &str, value| Bar {
            label: label.into(),
            value,
            ceiling: 2.0,
        };
        let svg = bars("a & b", "units", &[bar("<x>", 1.0), bar("y", 0.0)]);
        assert_eq!(svg.matches("<rect").count(), 1 + 4);
        assert!(svg.contains("&lt;x&gt;") && svg.contains("a &amp; b"));
    }
}
