//! Limits of the rows of a view.

use client::ClientError;
use client::admin::{Admin, Node};
use dsm::admin::calendar::Period;
use dsm::admin::command::QueryPlan;
use dsm::admin::dialect::Translation;
use dsm::admin::view::{ACTLOG, SUMMARY, SUMMARY_EXTENDED, View};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use model::ServerTime;

/// Maximum number of events, entries of the audit trail, and runs of tasks that a view has.
pub(super) const ROWS_MAX: u32 = 20_000;

/// Limits of the rows that a view needs.
#[derive(Clone, Debug, Default)]
pub(in crate::commands::dsmadmc) struct Bounds {
    period: Option<Period>,
    pub(super) node: Option<String>,
    pub(super) filespace: Option<String>,
    pub(super) volume: Option<String>,
    /// Kind of the data, as TSM calls it.
    pub(super) kind: Option<String>,
    pub(super) rows_max: Option<u64>,
    /// True if only what needs few requests counts, because the view is read again and again.
    pub(super) is_repeated: bool,
}

impl Bounds {
    /// Limits of a view that is read every few seconds.
    pub(in crate::commands::dsmadmc) fn repeated() -> Self {
        Self { is_repeated: true, ..Self::default() }
    }

    pub(in crate::commands::dsmadmc) fn of(show: &QueryPlan) -> Self {
        let only = |column: &str| show.only(column).map(str::to_owned);
        // The numbers of filespaces are no bounds.
        let is_bound = |column: &str| column != "FILESPACE_ID" && show.only(column).is_some();
        let is_exact = show.filters.iter().all(|filter| is_bound(filter.column));
        Self {
            period: show.period,
            node: only(node_column(show.report.view)),
            filespace: only("FILESPACE_NAME"),
            volume: only("VOLUME_NAME"),
            kind: only("TYPE"),
            // Rows that a pattern leaves out would count, too.
            rows_max: show.rows_max.filter(|_| is_exact),
            is_repeated: false,
        }
    }

    /// Limits of `view` in a statement.
    pub(in crate::commands::dsmadmc) fn of_statement(
        translation: &Translation,
        view: &View,
    ) -> Self {
        let bound = |column: &str| translation.bounds.of(view.name, column).map(str::to_owned);
        Self {
            period: None,
            node: bound(node_column(view)),
            filespace: bound("FILESPACE_NAME"),
            volume: bound("VOLUME_NAME"),
            kind: bound("TYPE"),
            rows_max: None,
            is_repeated: false,
        }
    }

    /// Returns the nodes that the rows may be about.
    pub(super) fn nodes(&self, admin: &mut Admin) -> Result<Vec<Node>, ClientError> {
        let mut nodes = admin.nodes(None)?;
        if let Some(name) = &self.node {
            nodes.retain(|node| node.name.eq_ignore_ascii_case(name));
        }
        Ok(nodes)
    }

    /// Returns the name of the only node that is asked for, as the server knows it. The server
    /// finds a node by its exact name only.
    pub(super) fn exact_node(&self, admin: &mut Admin) -> Result<Option<String>, ClientError> {
        let Some(name) = &self.node else { return Ok(None) };
        let mut nodes = admin.nodes(None)?.into_iter().map(|node| node.name);
        Ok(nodes.find(|known| known.eq_ignore_ascii_case(name)))
    }

    /// First and last time of the rows.
    pub(super) fn times(&self) -> (Option<ServerTime>, Option<ServerTime>) {
        let period = self.period;
        (
            period.and_then(|period| instant(period.from)),
            period.and_then(|period| instant(period.to)),
        )
    }
}

/// Returns the column with the names of nodes.
fn node_column(view: &View) -> &'static str {
    if view.name == ACTLOG.name {
        "NODENAME"
    } else if view.name == SUMMARY.name || view.name == SUMMARY_EXTENDED.name {
        "ENTITY"
    } else {
        "NODE_NAME"
    }
}

/// Returns the moment at which the clock on the wall shows `time`.
pub(super) fn instant(time: DateTime) -> Option<ServerTime> {
    let zoned = time.to_zoned(TimeZone::system()).ok()?;
    Some(ServerTime(zoned.timestamp().as_microsecond()))
}
