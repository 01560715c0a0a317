//! `peers.svg`: a panel for each phase and one for the stored size. A panel has a bar for each
//! program.
//!
//! Every panel has its own linear scale from zero, so a bar of twice the length is twice as much.

use plotters::prelude::{
    BLACK, Color as _, DrawingArea, IntoDrawingArea as _, IntoFont as _, RGBColor, Rectangle,
    SVGBackend, Text, WHITE,
};

use super::contest::{Entry, Results};
use super::entrant::Standing;
use super::turn::Phase;
use crate::trouble::{Context as _, Trouble};

const WIDTH: u32 = 960;
const LABEL_WIDTH: i32 = 110;
/// Width of the figure after the longest bar, in pixels.
const FIGURE_WIDTH: i32 = 70;
const TITLE_HEIGHT: i32 = 34;
const BAR_HEIGHT: i32 = 20;
const PANEL_COLUMNS: usize = 2;
const PANEL_ROWS: usize = 2;

const OWN: RGBColor = RGBColor(0x1b, 0x6e, 0xc2);
const PEER: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);
const BASELINE: RGBColor = RGBColor(0xd8, 0xdd, 0xe2);

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

struct Bar<'a> {
    name: &'a str,
    standing: Standing,
    value: f64,
}

pub(crate) fn draw(results: &Results) -> Result<String, Trouble> {
    let rows = i32::try_from(results.entries.len()).unwrap_or(i32::MAX / BAR_HEIGHT);
    let panel_height = TITLE_HEIGHT + (rows + 1).saturating_mul(BAR_HEIGHT);
    let height = u32::try_from(panel_height).unwrap_or(0) * u32::try_from(PANEL_ROWS).unwrap_or(1);
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        let what = || "draw peers.svg".to_owned();
        area.fill(&WHITE).while_doing(what)?;
        let panels = area.split_evenly((PANEL_ROWS, PANEL_COLUMNS));
        let phases = Phase::ALL.map(|phase| {
            let wall = move |entry: &Entry| Some(entry.wall(phase)?.median);
            (format!("{}, s", phase.title()), bars(results, wall))
        });
        let mib = |entry: &Entry| Some(entry.stored()?.median / 1_048_576.0);
        let stored = ("stored, MiB".to_owned(), bars(results, mib));
        for (panel, (title, bars)) in panels.iter().zip(phases.into_iter().chain([stored])) {
            draw_panel(panel, &title, &bars)?;
        }
        area.present().while_doing(what)?;
    }
    Ok(text)
}

fn bars(results: &Results, figure: impl Fn(&Entry) -> Option<f64>) -> Vec<Bar<'_>> {
    results
        .entries
        .iter()
        .filter_map(|entry| {
            let value = figure(entry)?;
            let entrant = &entry.entrant;
            Some(Bar { name: &entrant.name, standing: entrant.standing(), value })
        })
        .collect()
}

fn draw_panel(area: &Area<'_>, title: &str, bars: &[Bar<'_>]) -> Result<(), Trouble> {
    let what = || format!("draw {title}");
    let (width, _) = area.dim_in_pixel();
    let width_max = i32::try_from(width).unwrap_or(0) - LABEL_WIDTH - FIGURE_WIDTH;
    let value_max = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let words = |text: String, place, size: i32| {
        let style = ("sans-serif", size).into_font().color(&BLACK);
        area.draw(&Text::new(text, place, style)).while_doing(what)
    };
    words(title.to_owned(), (8, 8), 16)?;
    let mut top = TITLE_HEIGHT;
    for bar in bars {
        let color = match bar.standing {
            Standing::Holdfast => OWN,
            Standing::Peer => PEER,
            Standing::Baseline => BASELINE,
        };
        let length = length(bar.value / value_max, width_max);
        let corners = [(LABEL_WIDTH, top + 2), (LABEL_WIDTH + length, top + BAR_HEIGHT - 2)];
        area.draw(&Rectangle::new(corners, color.filled())).while_doing(what)?;
        words(bar.name.to_owned(), (8, top + 4), 12)?;
        words(super::report::number(bar.value), (LABEL_WIDTH + length + 4, top + 4), 12)?;
        top += BAR_HEIGHT;
    }
    Ok(())
}

/// Returns the length of a bar in pixels: `share` of `most`, and at least 1.
#[expect(clippy::cast_possible_truncation, reason = "the length is at most a few hundred pixels")]
fn length(share: f64, most: i32) -> i32 {
    ((share.clamp(0.0, 1.0) * f64::from(most)).round() as i32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!([0.0, 0.25, 1.0, 2.0].map(|share| length(share, 200)), [1, 50, 200, 200]);
    }

    #[test]
    fn every_program_is_drawn_with_its_figure() {
        let svg = draw(&super::super::report::tests::results()).unwrap();
        for word in ["<svg", "holdfast", "restic", "creation-1", "first backup, s", "4000"] {
            assert!(svg.contains(word), "{word} is not in {svg}");
        }
    }
}
