//! Tests of answers: the columns of each in all forms.

use super::*;
use crate::admin::table::{Form as Shape, Layout, render};
use crate::admin::view::Kind;

fn now() -> DateTime {
    "2026-11-26T15:20:30".parse().expect("a time")
}

/// Returns two rows with a value of its own in each column, and one without any.
fn rows(view: &'static View) -> Table {
    let mut table = Table::new(view);
    for number in 1..=2_u8 {
        let value = |(index, column): (usize, super::super::view::Column)| {
            let index = index + 1;
            match column.kind {
                Kind::Time => Value::Text(format!("2026-11-{index:02} 0{number}:00:00.000000")),
                Kind::Integer => Value::from((index as u64) * 1000 * u64::from(number)),
                Kind::Decimal(_) => Value::Real(index as f64 * 10.25),
                Kind::Name => Value::Text(format!("N{index}-{number}")),
                Kind::Text => Value::Text(format!("t{index}, {number}")),
            }
        };
        table.rows.push(view.columns().enumerate().map(value).collect());
    }
    table.rows.push(vec![Value::Missing; view.columns().count()]);
    table
}

fn shown(report: &Report, is_detailed: bool, form: Shape) -> String {
    let listing = report.listing(&rows(report.view), is_detailed, now());
    render(&listing, Layout { form: Some(form), width: 80, has_headings: true })
}

#[test]
fn each_answer_has_its_columns_in_their_order() {
    for report in REPORTS {
        let name = format!("report_{}_{}", report.view.name, report.standard.len());
        let text = format!(
            "-- table\n{}\n-- list\n{}\n-- comma\n{}\n-- tab, detailed\n{}",
            shown(report, false, Shape::Table),
            shown(report, true, Shape::List),
            shown(report, false, Shape::Comma),
            shown(report, true, Shape::Tab),
        );
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn numbers_have_commas_and_days_are_whole() {
    let count = |number: i64| count(&Value::Integer(number), 0);
    assert_eq!(
        [count(0), count(999), count(1000), count(-1_234_567)],
        ["0", "999", "1,000", "-1,234,567"]
    );
    assert_eq!(super::count(&Value::Real(1234.567), 2), "1,234.57");
    for (time, expected) in [
        ("2026-11-26 00:00:00.000000", "<1"),
        ("2026-11-25 15:20:31.000000", "<1"),
        ("2026-11-25 15:20:30.000000", "1"),
        ("2021-11-26 00:00:00.000000", "1,826"),
        ("2027-11-26 00:00:00.000000", "<1"),
        ("never", ""),
    ] {
        assert_eq!(days_since(time, now()), expected, "{time}");
    }
    assert_eq!(shown_time("2026-11-26 01:02:03.000000"), "11/26/2026 01:02:03");
}

#[test]
fn rows_come_in_the_order_of_a_name() {
    let mut table = Table::new(&super::super::view::NODES);
    for name in ["web", "Anna", "bert"] {
        table.add([("NODE_NAME", name.into())]);
    }
    let listing = NODE.listing(&table, false, now());
    let names: Vec<&str> = listing.rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["Anna", "bert", "web"]);
}

#[test]
fn programs_get_the_values_of_columns() {
    let mut table = Table::new(&super::super::view::NODES);
    table.add([("NODE_NAME", "anna".into()), ("LASTSESS_RECVD", 1_234_u64.into())]);
    let standard = NODE.records(&table, false);
    let expected =
        ["NODE_NAME", "PLATFORM_NAME", "DOMAIN_NAME", "LASTACC_TIME", "PWSET_TIME", "LOCKED"];
    assert_eq!(standard.names, expected);
    assert_eq!(standard.rows[0][..2], [Value::Text("anna".to_owned()), Value::Missing]);
    let detailed = NODE.records(&table, true);
    let column = detailed.names.iter().position(|name| name == "LASTSESS_RECVD");
    assert_eq!(detailed.rows[0][column.expect("is shown")], Value::Integer(1_234));
    assert_eq!(detailed.names.len(), detailed.rows[0].len());
}
