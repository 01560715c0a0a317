//! `compression.svg`: a panel for each link. A panel has a group for each set, and a group has a
//! bar for each choice.
//!
//! Every panel has its own linear scale, from zero.

use plotters::prelude::{
    BLACK, Color as _, DrawingArea, IntoDrawingArea as _, IntoFont as _, RGBColor, Rectangle,
    SVGBackend, Text, WHITE,
};

use super::contest::{CHOICES, ROADS, Results, Row};
use crate::trouble::{Context as _, Trouble};

const WIDTH: u32 = 960;
const PANEL_HEIGHT: u32 = 220;
/// Height of the title above the bars, in pixels.
const TITLE_HEIGHT: i32 = 34;
/// Height of the labels below the bars, in pixels.
const LABEL_HEIGHT: i32 = 24;
const MARGIN: i32 = 12;
/// Space between two groups, as a number of bars.
const GAP: usize = 2;

const COLORS: [RGBColor; CHOICES.len()] = [
    RGBColor(0xd8, 0xdd, 0xe2),
    RGBColor(0xb9, 0xc1, 0xc9),
    RGBColor(0x9a, 0xa5, 0xb1),
    RGBColor(0x7a, 0x86, 0x92),
    RGBColor(0x5b, 0x67, 0x73),
    RGBColor(0x5c, 0xa0, 0x3c),
    RGBColor(0x1b, 0x6e, 0xc2),
];

const MB: f64 = 1_000_000.0;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

pub(super) fn draw(results: &Results) -> Result<String, Trouble> {
    let mut text = String::new();
    {
        let height = PANEL_HEIGHT * u32::try_from(ROADS.len()).unwrap_or(1);
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        let what = || "draw compression.svg".to_owned();
        area.fill(&WHITE).while_doing(what)?;
        for (panel, road) in area.split_evenly((ROADS.len(), 1)).iter().zip(ROADS) {
            let rows: Vec<&Row> = results.rows.iter().filter(|row| row.road == road).collect();
            draw_panel(panel, &format!("over {}, MB/s", road.name), &rows)?;
        }
        area.present().while_doing(what)?;
    }
    Ok(text)
}

fn draw_panel(area: &Area<'_>, title: &str, rows: &[&Row]) -> Result<(), Trouble> {
    let what = || format!("draw {title}");
    let rate = |row: &Row, choice| row.rate(choice).map(|rate| rate.median / MB);
    let rates = rows.iter().flat_map(|row| (0..CHOICES.len()).filter_map(|at| rate(row, at)));
    let rate_max = rates.fold(f64::MIN_POSITIVE, f64::max);
    words(area, title, (MARGIN, 8), 16)?;
    draw_legend(area)?;
    let (width, height) = area.dim_in_pixel();
    let bottom = i32::try_from(height).unwrap_or(0) - LABEL_HEIGHT;
    let room = i32::try_from(width).unwrap_or(0) - 2 * MARGIN;
    let slots = pixels(rows.len() * (CHOICES.len() + GAP)).max(1);
    let bar = (room / slots).clamp(2, 40);
    for (index, row) in rows.iter().enumerate() {
        let left = MARGIN + bar * pixels(index * (CHOICES.len() + GAP));
        words(area, row.kind.name, (left, bottom + 6), 12)?;
        for (choice, color) in COLORS.iter().enumerate() {
            let Some(rate) = rate(row, choice) else { continue };
            let from = left + bar * pixels(choice);
            let top = bottom - length(rate / rate_max, bottom - TITLE_HEIGHT - 14);
            let corners = [(from, top), (from + bar - 1, bottom)];
            area.draw(&Rectangle::new(corners, color.filled())).while_doing(what)?;
            if rate >= rate_max {
                words(area, &format!("{rate:.1}"), (from, top - 13), 11)?;
            }
        }
    }
    Ok(())
}

fn draw_legend(area: &Area<'_>) -> Result<(), Trouble> {
    for (index, (choice, color)) in CHOICES.iter().zip(COLORS).enumerate() {
        let left = 330 + 88 * pixels(index);
        let square = Rectangle::new([(left, 9), (left + 12, 21)], color.filled());
        area.draw(&square).while_doing(|| "draw the legend".to_owned())?;
        words(area, choice.name, (left + 17, 9), 12)?;
    }
    Ok(())
}

fn words(area: &Area<'_>, text: &str, place: (i32, i32), size: i32) -> Result<(), Trouble> {
    let style = ("sans-serif", size).into_font().color(&BLACK);
    let drawn = area.draw(&Text::new(text.to_owned(), place, style));
    drawn.while_doing(|| format!("write {text}"))
}

fn pixels(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(0)
}

/// Returns the length of a bar in pixels: `share` of `most`, and at least 1.
#[expect(clippy::cast_possible_truncation, reason = "the length is at most a few hundred pixels")]
fn length(share: f64, most: i32) -> i32 {
    ((share.clamp(0.0, 1.0) * f64::from(most)).round() as i32).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::contest::tests::{results, row};
    use super::*;

    #[test]
    fn each_link_has_a_panel_and_each_choice_a_bar() {
        let rows =
            ROADS.map(|road| row(road, [Some(4), Some(9), Some(2), Some(8), Some(8), None, None]));
        let results = results(Err("there is none".to_owned()), rows.to_vec());
        let svg = draw(&results).unwrap();
        for word in ["<svg", "over 10 Mbit/s, MB/s", "strong", "1M"] {
            assert!(svg.contains(word), "{word} is not in {svg}");
        }
        // Each choice has a square in the legend of each panel. Only the choices that were not
        // refused have bars.
        assert_eq!(svg.matches("fill=\"#5B6773\"").count(), 3 + 3);
        assert_eq!(svg.matches("fill=\"#1B6EC2\"").count(), 3);
        assert_eq!(svg.matches("fill=\"#5CA03C\"").count(), 3);
    }
}
