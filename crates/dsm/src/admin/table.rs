//! Forms of answers: a table, a list, or values with tabs or commas between them.

use unicode_width::UnicodeWidthStr as _;

/// Form of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Table,
    List,
    Tab,
    Comma,
}

impl Form {
    /// Returns true for a form that programs read.
    pub fn is_delimited(self) -> bool {
        matches!(self, Self::Tab | Self::Comma)
    }
}

/// A column of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heading {
    pub text: String,
    /// Maximum number of columns of the terminal that a table gives it.
    pub width_max: usize,
    /// True for numbers, which are aligned on the right.
    pub is_number: bool,
}

/// An answer: headings, and rows with a cell for each of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    pub headings: Vec<Heading>,
    pub rows: Vec<Vec<String>>,
}

/// Layout of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Form that is asked for; `None` for a table if it fits, and otherwise a list.
    pub form: Option<Form>,
    /// Number of columns of the terminal.
    pub width: usize,
    /// True if a table has headings.
    pub has_headings: bool,
}

/// Width of a terminal that nobody knows.
pub const WIDTH_DEFAULT: usize = 80;
/// Maximum width of a heading of texts that stays on one line.
const HEADING_WHOLE_MAX: usize = 14;
/// Gaps between the columns of a table: the first one that fits.
const GAPS: [usize; 3] = [5, 2, 1];

/// Returns the answer in its form, each line with its end.
pub fn render(listing: &Listing, layout: Layout) -> String {
    let printed = printable(listing);
    let Layout { form, width, has_headings } = layout;
    let columns = Columns::of(&printed);
    let gap = GAPS.into_iter().find(|gap| columns.width(*gap) <= width);
    match (form, gap) {
        (Some(Form::Tab), _) => delimited(&printed, '\t'),
        (Some(Form::Comma), _) => delimited(&printed, ','),
        (None, None) | (Some(Form::List), _) => list(&printed),
        (None | Some(Form::Table), gap) => {
            table(&printed, &columns, gap.unwrap_or(1), has_headings)
        }
    }
}

/// Returns the listing with cells that a terminal obeys in no way.
fn printable(listing: &Listing) -> Listing {
    let shown = |cell: &String| model::printable(cell).into_owned();
    let rows = listing.rows.iter().map(|row| row.iter().map(shown).collect());
    Listing { headings: listing.headings.clone(), rows: rows.collect() }
}

fn delimited(listing: &Listing, mark: char) -> String {
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().map(|cell| quoted(cell, mark)).collect();
        format!("{}\n", cells.join(&mark.to_string()))
    };
    listing.rows.iter().map(line).collect()
}

/// Puts a cell into quotes if it has the mark or a quote in it.
fn quoted(cell: &str, mark: char) -> String {
    if cell.contains([mark, '"']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

fn list(listing: &Listing) -> String {
    let widest = listing.headings.iter().map(|heading| heading.text.width()).max().unwrap_or(0);
    let record = |row: &Vec<String>| {
        let lines = listing.headings.iter().zip(row).map(|(heading, cell)| {
            let space = " ".repeat(widest - heading.text.width());
            format!("{space}{}: {cell}", heading.text).trim_end().to_owned() + "\n"
        });
        lines.collect::<String>()
    };
    listing.rows.iter().map(record).collect::<Vec<_>>().join("\n")
}

/// Widths of the columns of a table.
struct Columns(Vec<usize>);

impl Columns {
    fn of(listing: &Listing) -> Self {
        let width = |(index, heading): (usize, &Heading)| {
            let is_short = !heading.is_number && heading.text.width() <= HEADING_WHOLE_MAX;
            let words = match is_short {
                true => heading.text.width(),
                false => heading.text.split(' ').map(|word| word.width()).max().unwrap_or(0),
            };
            let cells = listing.rows.iter().map(|row| row[index].width()).max().unwrap_or(0);
            let max = heading.width_max.max(1);
            cells.max(words).clamp(1, max)
        };
        Self(listing.headings.iter().enumerate().map(width).collect())
    }

    /// Returns the width of the whole table with this gap between columns.
    fn width(&self, gap: usize) -> usize {
        self.0.iter().sum::<usize>() + gap * self.0.len().saturating_sub(1)
    }
}

fn table(listing: &Listing, columns: &Columns, gap: usize, has_headings: bool) -> String {
    let mut text = String::new();
    if has_headings {
        let headings: Vec<String> =
            listing.headings.iter().map(|heading| heading.text.clone()).collect();
        text.push_str(&lines(&headings, listing, columns, gap));
        let rules: Vec<String> = columns.0.iter().map(|width| "-".repeat(*width)).collect();
        text.push_str(&rules.join(&" ".repeat(gap)));
        text.push('\n');
    }
    for row in &listing.rows {
        text.push_str(&lines(row, listing, columns, gap));
    }
    text
}

/// Returns one row of a table, which has as many lines as its longest cell.
fn lines(cells: &[String], listing: &Listing, columns: &Columns, gap: usize) -> String {
    let wrapped: Vec<Vec<String>> =
        cells.iter().zip(&columns.0).map(|(cell, width)| wrap(cell, *width)).collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
    let line = |number: usize| {
        let parts = wrapped.iter().zip(&columns.0).zip(&listing.headings);
        let parts = parts.map(|((cell, width), heading)| {
            let part = cell.get(number).map_or("", String::as_str);
            let space = " ".repeat(width.saturating_sub(part.width()));
            if heading.is_number { format!("{space}{part}") } else { format!("{part}{space}") }
        });
        format!("{}\n", parts.collect::<Vec<_>>().join(&" ".repeat(gap)).trim_end())
    };
    (0..height).map(line).collect()
}

/// Divides a cell into lines of at most `width` columns: between words, and within a word that is
/// too long, with a hyphen.
fn wrap(cell: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in cell.split(' ') {
        let last = lines.last_mut().expect("there is a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.width() + 1 + word.width() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
        while lines.last().is_some_and(|last| last.width() > width) && width > 1 {
            let last = lines.pop().expect("there is a line");
            let end = end_of(&last, width - 1);
            if end == 0 {
                lines.push(last);
                break;
            }
            lines.push(format!("{}-", &last[..end]));
            lines.push(last[end..].to_owned());
        }
    }
    lines
}

/// Returns the number of bytes of `text` that take at most `width` columns.
fn end_of(text: &str, width: usize) -> usize {
    let mut end = 0;
    for (at, letter) in text.char_indices() {
        let next = at + letter.len_utf8();
        if text[..next].width() > width {
            break;
        }
        end = next;
    }
    end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listing() -> Listing {
        let heading = |text: &str, width_max, is_number| Heading {
            text: text.to_owned(),
            width_max,
            is_number,
        };
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        Listing {
            headings: vec![
                heading("Node Name", 25, false),
                heading("Policy Domain Name", 12, false),
                heading("Days Since Last Access", 10, true),
            ],
            rows: vec![
                row(["anna", "STANDARD", "<1"]),
                row(["a-node-with-a-rather-long-name", "LONG, \"x\"", "1,234"]),
            ],
        }
    }

    #[track_caller]
    fn shown(form: Option<Form>, width: usize) -> String {
        render(&listing(), Layout { form, width, has_headings: true })
    }

    #[test]
    fn a_table_wraps_headings_and_long_names() {
        insta::assert_snapshot!(shown(None, 80), @r#"
        Node Name                     Policy          Days
                                      Domain         Since
                                      Name            Last
                                                    Access
        -------------------------     ---------     ------
        anna                          STANDARD          <1
        a-node-with-a-rather-lon-     LONG, "x"      1,234
        g-name
        "#);
    }

    #[test]
    fn a_table_that_does_not_fit_is_a_list() {
        insta::assert_snapshot!(shown(None, 20), @r#"
                     Node Name: anna
            Policy Domain Name: STANDARD
        Days Since Last Access: <1

                     Node Name: a-node-with-a-rather-long-name
            Policy Domain Name: LONG, "x"
        Days Since Last Access: 1,234
        "#);
    }

    #[test]
    fn programs_get_one_line_for_each_row() {
        assert_eq!(
            shown(Some(Form::Comma), 20),
            "anna,STANDARD,<1\na-node-with-a-rather-long-name,\"LONG, \"\"x\"\"\",\"1,234\"\n"
        );
        let tabs = shown(Some(Form::Tab), 20);
        assert!(tabs.starts_with("anna\tSTANDARD\t<1\na-node-"), "{tabs}");
    }

    #[test]
    fn a_terminal_obeys_no_cell() {
        let mut listing = listing();
        listing.rows[0][0] = "a\u{1b}[2J\n\tb".to_owned();
        let layout = Layout { form: Some(Form::Tab), width: 80, has_headings: false };
        let text = render(&listing, layout);
        assert!(text.starts_with("a\\x1b[2J\\x0a\\x09b\tSTANDARD"), "{text}");
    }

    proptest! {
        #[test]
        fn wrapping_keeps_every_letter(cell in "[a-z ]{0,60}", width in 2_usize..20) {
            let lines = wrap(&cell, width);
            prop_assert!(lines.iter().all(|line| line.len() <= width), "{:?}", lines);
            let kept: String = lines.concat().chars().filter(|letter| *letter != '-').collect();
            prop_assert_eq!(kept.replace(' ', ""), cell.replace(' ', ""));
        }

        #[test]
        fn cells_of_any_width_are_wrapped(cell in any::<String>(), width in 1_usize..9) {
            prop_assert!(!wrap(&cell, width).is_empty());
        }
    }
}
