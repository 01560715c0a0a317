//! The tables of SELECT, and their columns.

use dsm::admin::view::{Kind, Table, VIEWS, Value};

/// Schema of all tables, as TSM calls it.
const SCHEMA: &str = "TSMDB1";

pub(super) fn tables(table: &mut Table) {
    for view in VIEWS {
        let count = (1_u64..).zip(view.columns()).last().map(|(number, _)| number);
        table.add([
            ("TABSCHEMA", SCHEMA.into()),
            ("TABNAME", view.name.into()),
            ("COLCOUNT", count.into()),
            ("REMARKS", view.source.into()),
        ]);
    }
}

pub(super) fn columns(table: &mut Table) {
    for view in VIEWS {
        for (number, column) in (0_u64..).zip(view.columns()) {
            let (kind, scale) = kind(column.kind);
            table.add([
                ("TABSCHEMA", SCHEMA.into()),
                ("TABNAME", view.name.into()),
                ("COLNAME", column.name.into()),
                ("COLNO", number.into()),
                ("TYPENAME", kind.into()),
                ("SCALE", scale),
            ]);
        }
    }
}

/// Returns the type of values in DB2's words, and its number of decimals.
fn kind(kind: Kind) -> (&'static str, Value) {
    match kind {
        Kind::Text | Kind::Name => ("VARCHAR", Value::Missing),
        Kind::Time => ("TIMESTAMP", Value::Missing),
        Kind::Integer => ("BIGINT", Value::Missing),
        Kind::Decimal(decimals) => ("DECIMAL", u64::from(decimals).into()),
    }
}
