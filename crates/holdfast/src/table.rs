//! Tables for people: columns as wide as their widest cell.
//!
//! Names of objects may hold wide characters, which take two columns of a terminal, and control
//! characters, which must not reach the terminal.

use std::borrow::Cow;

use model::printable;
use unicode_width::UnicodeWidthStr as _;

/// Side of a column on which its cells are aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

const GAP: &str = "  ";

/// Renders `rows` below the headings of `columns`; every row has a cell for each column.
pub(crate) fn render<const N: usize>(columns: [(&str, Align); N], rows: &[[String; N]]) -> String {
    let heading = columns.map(|(heading, _)| Cow::Borrowed(heading));
    let rows = rows.iter().map(|row| row.each_ref().map(|cell| printable(cell)));
    let lines: Vec<[Cow<'_, str>; N]> = std::iter::once(heading).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].width()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let text = |line: &[Cow<'_, str>; N]| {
        let cells = line.iter().zip(columns).zip(widths);
        let padded = cells.map(|((cell, (_, align)), width)| pad(cell, align, width));
        format!("{}\n", padded.collect::<Vec<_>>().join(GAP).trim_end())
    };
    lines.iter().map(text).collect()
}

fn pad(cell: &str, align: Align, width: usize) -> String {
    let space = " ".repeat(width - cell.width());
    match align {
        Align::Left => format!("{cell}{space}"),
        Align::Right => format!("{space}{cell}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["/home".to_owned(), "1,234".to_owned()], ["/".to_owned(), "5".to_owned()]];
        let text = render([("Filespace", Align::Left), ("Objects", Align::Right)], &rows);
        assert_eq!(text, "Filespace  Objects\n/home        1,234\n/                5\n");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let row = |name: &str| [name.to_owned(), "1".to_owned()];
        let columns = [("Name", Align::Left), ("N", Align::Right)];
        let text = render(columns, &[row("\u{5bb6}\u{65cf}\u{7167}"), row("ab")]);
        assert_eq!(text, "Name    N\n\u{5bb6}\u{65cf}\u{7167}  1\nab      1\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let text = render([("Name", Align::Left)], &[["a\u{1b}[2J\nb".to_owned()]]);
        assert_eq!(text, "Name\na\\x1b[2J\\x0ab\n");
    }
}
