//! The report of a month as a page: one file without scripts, which prints well.

use std::fmt::Write as _;

use super::report::{MonthlyReport, NodeMonth, percent};
use crate::words::{bytes, count, time};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2733;--dim:#5b6b7b;--line:#d5dce3;
--good:#2f7d4f;--bad:#b3412e;--back:#fff}
@media (prefers-color-scheme:dark){:root{--ink:#e8edf2;--dim:#9fb0c0;--line:#3a4754;
--good:#6cc08b;--bad:#e58a78;--back:#151b21}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);
max-width:70rem;margin:2rem auto;padding:0 1.5rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem}
p{margin:.3rem 0}.dim{color:var(--dim)}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:1rem;margin:1.5rem 0}
dl div{border:1px solid var(--line);border-radius:.5rem;padding:.7rem .9rem}
dt{color:var(--dim);font-size:.85rem}dd{margin:0;font-size:1.45rem;font-weight:600}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.35rem .6rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}
th:first-child,td:first-child{text-align:left}thead th{color:var(--dim);font-weight:600;
font-size:.85rem}
tfoot td{font-weight:600;border-bottom:0}
.bad{color:var(--bad)}svg{width:100%;height:auto}svg text{fill:var(--dim);font-size:11px}
.scroll{overflow-x:auto}
@media print{:root{--ink:#000;--dim:#444;--line:#bbb;
--good:#2f7d4f;--bad:#b3412e;--back:#fff}
body{margin:0;max-width:none;padding:0;font-size:10pt}@page{size:A4 landscape;margin:15mm}
thead{display:table-header-group}tr,dl div{break-inside:avoid}}";

/// Returns the text with the characters that HTML gives a meaning escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

pub(super) fn page(report: &MonthlyReport) -> String {
    let (domain, total) = (escaped(&report.domain), report.total());
    let month = report.month;
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>Backup of {domain} in {month}</title>\n<style>\n{STYLE}\n</style>\n</head>\n\
         <body>\n\
         <h1>Backup of {domain} in {month}</h1>\n"
    );
    let made = time(&report.zone, report.made);
    writeln!(
        page,
        "<p class=\"dim\">Made on {made} at {}. What is stored is told as of \
         that time, with older versions and archives.</p>",
        escaped(&report.server)
    )
    .expect("is text");
    summary(&mut page, report, &total);
    days(&mut page, report);
    nodes(&mut page, report, &total);
    page.push_str("</body>\n</html>\n");
    page
}

fn summary(page: &mut String, report: &MonthlyReport, total: &NodeMonth) {
    let good = percent(u64::from(total.days_good), u64::from(total.days));
    let events = total.events_completed + total.events_failed + total.events_missed;
    let figures = [
        ("Nodes", count(report.nodes.len() as u64)),
        ("Days with a good backup", good),
        ("Events completed", percent(total.events_completed, events)),
        ("Stored data", bytes(total.bytes)),
        ("Stored objects", count(total.objects)),
        ("Sent by backups", bytes(total.bytes_sent)),
        ("Restores", count(total.restores)),
        ("Restored data", bytes(total.restored_bytes)),
    ];
    page.push_str("<dl>\n");
    for (name, value) in figures {
        writeln!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>").expect("is text");
    }
    page.push_str("</dl>\n");
}

/// Width and height of the chart of days, and the places of its bars.
const WIDTH: u32 = 930;
const HEIGHT: u32 = 120;
const STEP: u32 = 30;

/// Adds a bar for each day: the share of the nodes of that day with a good backup.
fn days(page: &mut String, report: &MonthlyReport) {
    page.push_str("<h2>Nodes with a good backup, by day</h2>\n");
    let high = HEIGHT + 30;
    writeln!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {high}\" role=\"img\" \
         aria-label=\"Number of nodes with a good backup on each day\">"
    )
    .expect("is text");
    let figures = report.good_nodes.iter().zip(&report.registered_nodes);
    for (index, (good, nodes)) in (0_u32..).zip(figures) {
        day(page, index, *good, *nodes);
    }
    page.push_str("</svg>\n");
}

/// Adds the bar of the day `index`. A day before all nodes has none.
fn day(page: &mut String, index: u32, good: u32, nodes: u32) {
    let (x, day) = (index * STEP, index + 1);
    let (what, bar) = match (good * HEIGHT).checked_div(nodes) {
        None => ("no node".to_owned(), String::new()),
        Some(tall) => {
            let tall = tall.min(HEIGHT);
            let color = if good < nodes { "var(--bad)" } else { "var(--good)" };
            let bar = format!(
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{tall}\" rx=\"2\" \
                 fill=\"{color}\"/>",
                x + 4,
                HEIGHT - tall + 10,
                STEP - 8,
            );
            (format!("{good} of {nodes}"), bar)
        }
    };
    writeln!(
        page,
        "<g><title>Day {day}: {what}</title>{bar}<text x=\"{}\" y=\"{}\" \
         text-anchor=\"middle\">{day}</text></g>",
        x + STEP / 2,
        HEIGHT + 26,
    )
    .expect("is text");
}

fn nodes(page: &mut String, report: &MonthlyReport, total: &NodeMonth) {
    page.push_str(
        "<h2>Nodes</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>Node</th>\
         <th>Days with a good backup</th><th>Backups</th><th>Partial</th>\
         <th>Events failed, missed</th><th>Last good backup</th><th>Objects</th><th>Data</th>\
         <th>Sent</th><th>Restores</th><th>Restored</th></tr></thead>\n<tbody>\n",
    );
    for node in &report.nodes {
        row(page, report, node, &escaped(&node.node));
    }
    page.push_str("</tbody>\n<tfoot>\n");
    row(page, report, total, "All");
    page.push_str("</tfoot>\n</table></div>\n");
}

fn row(page: &mut String, report: &MonthlyReport, node: &NodeMonth, name: &str) {
    let last = node.last_good.map(|last| time(&report.zone, last)).unwrap_or_default();
    let mark = |is_bad: bool| if is_bad { " class=\"bad\"" } else { "" };
    let bad_events = node.events_failed + node.events_missed;
    writeln!(
        page,
        "<tr><td>{name}</td><td{}>{} of {}</td><td>{}</td><td>{}</td><td{}>{}, {}</td>\
         <td>{last}</td>\
         <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        mark(node.days_good < node.days),
        node.days_good,
        node.days,
        count(node.backups_complete),
        count(node.backups_partial),
        mark(bad_events > 0),
        count(node.events_failed),
        count(node.events_missed),
        count(node.objects),
        bytes(node.bytes),
        bytes(node.bytes_sent),
        count(node.restores),
        bytes(node.restored_bytes),
    )
    .expect("is text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_taken_for_html() {
        assert_eq!(escaped("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
    }
}
