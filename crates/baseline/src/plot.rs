//! Plots as SVG: lines and bars, with both axes labelled. They are readable in print: lines differ
//! in their marks too, not only in colour.

use plotters::chart::{ChartBuilder, ChartContext, LabelAreaPosition, SeriesLabelPosition};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::element::{
    Circle, Cross, DynElement, IntoDynElement as _, PathElement, TriangleMarker,
};
use plotters::prelude::{
    BLACK, Cartesian2d, Color as _, DrawingArea, IntoDrawingArea as _, RGBColor, Rectangle,
    SVGBackend, WHITE,
};
use plotters::series::LineSeries;

const WIDTH: u32 = 640;
const HEIGHT: u32 = 320;

const COLORS: [RGBColor; 4] = [
    RGBColor(0x1b, 0x6e, 0xc2),
    RGBColor(0xc2, 0x4e, 0x1b),
    RGBColor(0x2b, 0x8a, 0x3e),
    RGBColor(0x6b, 0x3f, 0xa0),
];

/// Reason why a plot cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw {title}: {why}")]
pub struct PlotError {
    title: String,
    why: String,
}

/// How values stand on an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    Linear,
    /// Each step is twice as much.
    Doubling,
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Doubling => value.max(f64::MIN_POSITIVE).log2(),
        }
    }

    fn label(self, place: f64) -> String {
        match self {
            Self::Linear => short(place),
            Self::Doubling => short(place.exp2()),
        }
    }
}

/// An axis: what it shows, with the unit.
pub(crate) struct Axis<'a> {
    pub(crate) label: &'a str,
    pub(crate) scale: Scale,
}

/// A line with its name.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Writes a number for an axis: with three digits, and k, M or G.
pub(crate) fn short(value: f64) -> String {
    // Marks of an axis would all be 0.
    if (f64::MIN_POSITIVE..0.01).contains(&value.abs()) {
        return format!("{value:.1e}");
    }
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units.into_iter().find(|(size, _)| value.abs() >= *size);
    let (value, unit) = unit.map_or((value, ""), |(size, unit)| (value / size, unit));
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        0.1.. => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws with `paint` into a new picture. Returns it without the head of a file, for a page.
fn picture(
    title: &str,
    paint: impl FnOnce(&Area<'_>) -> Result<(), String>,
) -> Result<String, PlotError> {
    let failed = |why: String| PlotError { title: title.to_owned(), why };
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        area.fill(&WHITE).map_err(|error| failed(error.to_string()))?;
        paint(&area).map_err(failed)?;
        area.present().map_err(|error| failed(error.to_string()))?;
    }
    // A picture in a page fits into its column.
    let sized = format!("width=\"{WIDTH}\" height=\"{HEIGHT}\"");
    Ok(text.replacen(&sized, "role=\"img\"", 1))
}

/// Draws lines. The vertical axis begins at 0 if it is linear.
pub(crate) fn lines(
    title: &str,
    x: &Axis<'_>,
    y: &Axis<'_>,
    lines: &[Line],
) -> Result<String, PlotError> {
    picture(title, |area| {
        let placed: Vec<Vec<(f64, f64)>> = lines
            .iter()
            .map(|line| {
                line.points
                    .iter()
                    .map(|(a, b)| (x.scale.place(*a), y.scale.place(*b)))
                    .collect()
            })
            .collect();
        let all = || placed.iter().flatten();
        let (left, right) = bounds(all().map(|point| point.0));
        let (low, high) = bounds(all().map(|point| point.1));
        let low = if y.scale == Scale::Linear { 0.0 } else { low };
        let mut chart = frame(area, title, (left, right), (low, high + 0.05 * (high - low)))?;
        mesh(&mut chart, x, y)?;
        for (index, (line, points)) in lines.iter().zip(&placed).enumerate() {
            draw_line(&mut chart, index, &line.name, points)?;
        }
        if lines.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::LowerRight)
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK.mix(0.4))
                .label_font(("sans-serif", 14))
                .draw()
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    })
}

type Chart<'a, 'b> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn frame<'a, 'b>(
    area: &'b Area<'a>,
    title: &str,
    x: (f64, f64),
    y: (f64, f64),
) -> Result<Chart<'a, 'b>, String> {
    ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(8)
        .set_label_area_size(LabelAreaPosition::Left, 72)
        .set_label_area_size(LabelAreaPosition::Bottom, 48)
        .build_cartesian_2d(x.0..x.1, y.0..y.1)
        .map_err(|error| error.to_string())
}

fn mesh(chart: &mut Chart<'_, '_>, x: &Axis<'_>, y: &Axis<'_>) -> Result<(), String> {
    chart
        .configure_mesh()
        .x_desc(x.label)
        .y_desc(y.label)
        .x_labels(10)
        .y_labels(8)
        .light_line_style(WHITE)
        .x_label_formatter(&|place| x.scale.label(*place))
        .y_label_formatter(&|place| y.scale.label(*place))
        .axis_desc_style(("sans-serif", 16))
        .label_style(("sans-serif", 15))
        .draw()
        .map_err(|error| error.to_string())
}

fn draw_line(
    chart: &mut Chart<'_, '_>,
    index: usize,
    name: &str,
    points: &[(f64, f64)],
) -> Result<(), String> {
    let color = COLORS[index % COLORS.len()];
    let failed = |error: plotters::drawing::DrawingAreaErrorKind<std::io::Error>| error.to_string();
    chart
        .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))
        .map_err(failed)?
        .label(name)
        .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], color.stroke_width(2)));
    let mark = |point: (f64, f64)| -> DynElement<'static, SVGBackend<'_>, (f64, f64)> {
        match index % 3 {
            0 => Circle::new(point, 3, color.filled()).into_dyn(),
            1 => Cross::new(point, 4, color.stroke_width(2)).into_dyn(),
            _ => TriangleMarker::new(point, 5, color.filled()).into_dyn(),
        }
    };
    chart.draw_series(points.iter().copied().map(mark)).map_err(failed)?;
    Ok(())
}

/// Returns the least and the greatest of `values`, which differ.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let start = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold(start, |(low, high), value| (low.min(value), high.max(value)));
    if !low.is_finite() {
        return (0.0, 1.0);
    }
    if high > low { (low, high) } else { (low, low + 1.0) }
}

/// Draws a bar for each of `bars`, side by side, with its name below it.
pub(crate) fn bars(
    title: &str,
    x_label: &str,
    y_label: &str,
    bars: &[(String, f64)],
) -> Result<String, PlotError> {
    picture(title, |area| {
        let high = bars.iter().map(|bar| bar.1).fold(0.0, f64::max);
        let high = if high > 0.0 { high * 1.05 } else { 1.0 };
        let count = crate::to_f64(bars.len() as u64);
        let mut chart = frame(area, title, (-0.5, count - 0.5), (0.0, high))?;
        let name = |place: &f64| {
            let is_near = |(index, _): &(usize, &(String, f64))| {
                (crate::to_f64(*index as u64) - place).abs() < 0.01
            };
            let named = bars.iter().enumerate().find(is_near);
            named.map_or_else(String::new, |(_, bar)| bar.0.clone())
        };
        chart
            .configure_mesh()
            .x_desc(x_label)
            .y_desc(y_label)
            .x_labels(bars.len() * 2)
            .y_labels(8)
            .disable_x_mesh()
            .light_line_style(WHITE)
            .x_label_formatter(&name)
            .y_label_formatter(&|value| short(*value))
            .axis_desc_style(("sans-serif", 16))
            .label_style(("sans-serif", 13))
            .draw()
            .map_err(|error| error.to_string())?;
        let bar = |(index, bar): (usize, &(String, f64))| {
            let middle = crate::to_f64(index as u64);
            Rectangle::new([(middle - 0.4, 0.0), (middle + 0.4, bar.1)], COLORS[0].filled())
        };
        chart
            .draw_series(bars.iter().enumerate().map(bar))
            .map_err(|error| error.to_string())?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_are_short() {
        let cases = [(0.0, "0"), (0.25, "0.25"), (8.0, "8"), (128.0, "128"), (15_300.0, "15.3k")];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
        assert_eq!([2.5e9, 0.015, 2e-6].map(short), ["2.5G", "0.015", "2.0e-6"]);
    }

    #[test]
    fn a_plot_has_its_title_axes_and_names() {
        let x = Axis { label: "queue depth", scale: Scale::Doubling };
        let y = Axis { label: "reads per second", scale: Scale::Linear };
        let line =
            |name: &str| Line { name: name.to_owned(), points: vec![(1.0, 10.0), (128.0, 90.0)] };
        let svg = lines("Random reads", &x, &y, &[line("warm"), line("cold")]).expect("a plot");
        for word in
            ["<svg", "Random reads", "queue depth", "reads per second", "warm", "cold", "128"]
        {
            assert!(svg.contains(word), "{word} is not in {svg}");
        }
        let head = svg.split('>').next().unwrap_or_default();
        assert!(head.contains("viewBox") && !head.contains("width"), "{head}");
    }

    #[test]
    fn a_plot_of_nothing_is_drawn_too() {
        let axis = || Axis { label: "x", scale: Scale::Linear };
        assert!(lines("Nothing", &axis(), &axis(), &[]).is_ok());
        let bars =
            bars("Sizes", "size", "files", &[("1 K".to_owned(), 3.0), ("4 K".to_owned(), 0.0)]);
        let svg = bars.expect("a plot");
        assert!(svg.contains("1 K") && svg.contains("4 K"), "{svg}");
    }
}
