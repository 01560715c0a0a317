//! Priority of the process, by the command line and the settings of the node.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use client::Standing;

use crate::options::Priority;
use crate::output;

/// Lowers the priority of the process if the command line or the settings ask for that. A process
/// cannot raise its priority again.
pub(crate) fn heed(given: Option<Priority>, standing: Option<&Standing>) {
    static FAILED: AtomicBool = AtomicBool::new(false);
    if chosen(given, standing) == Priority::Normal || FAILED.load(Relaxed) {
        return;
    }
    if let Err(error) = sys::priority::lower() {
        FAILED.store(true, Relaxed);
        output::say(&format!("cannot lower the priority: {error}; going on with the usual one"));
    }
}

fn chosen(given: Option<Priority>, standing: Option<&Standing>) -> Priority {
    let Some(standing) = standing else { return given.unwrap_or(Priority::Normal) };
    let own = match standing.value("priority") {
        Some("low") => Priority::Low,
        _ => Priority::Normal,
    };
    standing.heed("priority", given).unwrap_or(own)
}
