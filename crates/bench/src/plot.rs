//! Plots as SVG: bars beside their ceiling.

use std::fmt::Write as _;

/// One bar and the line it is measured against.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) ceiling: f64,
}

const ROW: usize = 26;
const LEFT: usize = 300;
const WIDTH: usize = 460;
const TOP: usize = 56;

/// Horizontal bars, each with its ceiling behind it in grey and its value beside it.
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

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
