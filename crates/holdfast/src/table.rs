//! Tables for people: columns as wide as their widest cell.

/// How the cells of a column stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

const GAP: &str = "  ";

/// Renders `rows` below the headings of `columns`; every row has a cell for each column.
pub(crate) fn render<const N: usize>(columns: [(&str, Align); N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([columns[column].0.chars().count()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line =
        |cells: [&str; N]| {
            let padded = cells.iter().zip(columns).zip(widths).map(
                |((cell, (_, align)), width)| match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                },
            );
            let line = padded.collect::<Vec<_>>().join(GAP);
            format!("{}\n", line.trim_end())
        };
    let heading = line(columns.map(|(heading, _)| heading));
    let lines = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    std::iter::once(heading).chain(lines).collect()
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
}
