//! Metrics in the text format of Prometheus. Labels are bounded: domains, pools, libraries,
//! drives, states and kinds, never nodes or people.

mod backups;
mod domains;
mod format;
mod nodes;
mod server;
mod storage;

use self::format::Text;
use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::desk::Desk;
use crate::download::Download;
use crate::fields::Empty;
use crate::operation::Operation;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Media type of the format.
const MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn add(routes: &mut Routes) {
    let summary = "Returns metrics in the format of Prometheus";
    let operation = Operation::read("metrics.get", "/metrics", Area::Tasks, summary);
    routes.stream(operation, MEDIA, get);
}

fn get(call: &mut Call<Empty, Empty, Empty>) -> Answer<Download> {
    call.caller.check(Area::Tasks, Right::Read, Subject::Service)?;
    let text = text(&call.desk)?;
    let bytes = Some(text.len() as u64);
    let source = Box::new(move |sink: &mut dyn std::io::Write| sink.write_all(text.as_bytes()));
    Ok(Download { media: MEDIA, bytes, name: None, node: None, source })
}

fn text(desk: &Desk) -> Answer<String> {
    let mut text = Text::default();
    nodes::add(desk, &mut text)?;
    backups::add(desk, &mut text);
    domains::add(desk, &mut text)?;
    storage::add(desk, &mut text)?;
    server::add(desk, &mut text)?;
    Ok(text.finish())
}
