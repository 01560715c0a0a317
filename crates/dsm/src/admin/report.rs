//! Answers to QUERY: each is a choice of a view's columns, with TSM's headings.

mod fields;

use jiff::civil::DateTime;

pub use self::fields::*;
use super::table::{Heading, Listing};
use super::view::{Records, Table, Value, View};

/// A column of an answer.
#[derive(Debug)]
pub struct Field {
    pub heading: &'static str,
    /// Columns of the view, with blanks between them. Their values are joined by blanks.
    pub columns: &'static str,
    pub width_max: usize,
    pub form: Form,
}

/// Form of the values of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Plain,
    /// A number with commas between thousands, and with this number of decimals.
    Count(u8),
    Time,
    /// Number of whole days since a time.
    DaysSince,
    /// Version, release, level and sublevel of a program, each in a column of its own.
    Version,
}

/// An answer to a query.
#[derive(Debug)]
pub struct Report {
    pub view: &'static View,
    pub standard: &'static [Field],
    /// Fields of FORMAT=DETAILED; empty if there are no others.
    pub detailed: &'static [Field],
    /// Column that sorts the rows; empty for the order of the view.
    pub order: &'static str,
    /// Answer if there is no row; empty for that of all queries.
    pub without_rows: &'static str,
}

impl Report {
    /// Makes the answer. `now` is the present time.
    pub fn listing(&self, table: &Table, is_detailed: bool, now: DateTime) -> Listing {
        let fields = self.fields(is_detailed);
        let rows = self.sorted(table);
        let cells =
            |row: &Vec<Value>| fields.iter().map(|field| self.cell(field, row, now)).collect();
        let heading = |field: &Field| Heading {
            text: field.heading.to_owned(),
            width_max: field.width_max,
            is_number: matches!(field.form, Form::Count(_) | Form::DaysSince),
        };
        Listing {
            headings: fields.iter().map(heading).collect(),
            rows: rows.into_iter().map(cells).collect(),
        }
    }

    /// Makes the answer for programs: the values of its columns, as SELECT has them.
    pub fn records(&self, table: &Table, is_detailed: bool) -> Records {
        let columns = self.fields(is_detailed).iter().flat_map(|field| field.columns.split(' '));
        let mut indexes: Vec<usize> = columns.map(|column| self.view.index(column)).collect();
        let mut seen = std::collections::BTreeSet::new();
        indexes.retain(|index| seen.insert(*index));
        let all: Vec<&str> = self.view.columns().map(|column| column.name).collect();
        let mut records = Records::new(indexes.iter().map(|index| all[*index].to_owned()));
        let values = |row: &Vec<Value>| indexes.iter().map(|index| row[*index].clone()).collect();
        records.rows = self.sorted(table).into_iter().map(values).collect();
        records
    }

    fn fields(&self, is_detailed: bool) -> &'static [Field] {
        if is_detailed && !self.detailed.is_empty() { self.detailed } else { self.standard }
    }

    fn sorted<'t>(&self, table: &'t Table) -> Vec<&'t Vec<Value>> {
        assert_eq!(table.view.name, self.view.name, "the rows are those of the report");
        let mut rows: Vec<&Vec<Value>> = table.rows.iter().collect();
        if !self.order.is_empty() {
            let index = self.view.index(self.order);
            rows.sort_by_key(|row| plain(&row[index]).to_lowercase());
        }
        rows
    }

    fn cell(&self, field: &Field, row: &[Value], now: DateTime) -> String {
        let values = field.columns.split(' ').map(|column| &row[self.view.index(column)]);
        if field.form == Form::Version {
            return version(&values.map(plain).collect::<Vec<_>>());
        }
        let shown = values.map(|value| match (field.form, value) {
            (Form::Plain | Form::Version, value) => plain(value),
            (Form::Count(decimals), value) => count(value, decimals),
            (Form::Time, Value::Text(text)) => shown_time(text),
            (Form::DaysSince, Value::Text(text)) => days_since(text, now),
            (Form::Time | Form::DaysSince, _) => String::new(),
        });
        let shown: Vec<String> = shown.filter(|cell| !cell.is_empty()).collect();
        shown.join(" ")
    }
}

/// Returns a value without any form.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Missing => String::new(),
        Value::Text(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
    }
}

/// Returns a version as TSM shows it; nothing if a part is missing.
fn version(parts: &[String]) -> String {
    let [version, release, level, sublevel] = parts else {
        unreachable!("a version has four columns")
    };
    if parts.iter().any(String::is_empty) {
        return String::new();
    }
    format!("Version {version}, release {release}, level {level}.{sublevel}")
}

fn count(value: &Value, decimals: u8) -> String {
    let text = match value {
        Value::Missing => return String::new(),
        Value::Text(text) => return text.clone(),
        Value::Integer(number) if decimals == 0 => number.to_string(),
        #[expect(clippy::cast_precision_loss, reason = "only a few digits are shown")]
        Value::Integer(number) => format!("{:.*}", usize::from(decimals), *number as f64),
        Value::Real(number) => format!("{number:.*}", usize::from(decimals)),
    };
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits.to_owned()),
        None => ("", text),
    };
    let (whole, rest) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.char_indices() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{grouped}{point}{rest}")
}

/// Returns a time as TSM shows it: `11/26/2026 15:20:30`.
pub fn shown_time(text: &str) -> String {
    match text.replacen(' ', "T", 1).parse::<DateTime>() {
        Ok(time) => time.strftime("%m/%d/%Y %H:%M:%S").to_string(),
        Err(_) => text.to_owned(),
    }
}

fn days_since(text: &str, now: DateTime) -> String {
    let Ok(time) = text.replacen(' ', "T", 1).parse::<DateTime>() else { return String::new() };
    let Ok(span) = time.until((jiff::Unit::Day, now)) else { return String::new() };
    match span.get_days() {
        ..1 => "<1".to_owned(),
        days => count(&Value::Integer(days.into()), 0),
    }
}

#[cfg(test)]
mod tests;
