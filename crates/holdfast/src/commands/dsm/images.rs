//! `dsmc backup image` and `restore image`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use client::ErrorKind;
use dsm::client as plan;
use dsm::lines::{Totals, restore_report, session_report};
use serde_json::Value;

use super::child::{self, Child, Event, Outcome};
use super::errors::numbered;
use super::sending::{self, shown_path};
use super::session::Session;
use super::stored::Filter;
use super::{joining, questions, restoring};
use crate::commands::image::find_image;
use crate::error::{CommandError, DONE, FAILED, NOT_DONE};
use crate::output;

/// `dsmc backup image`.
pub(super) fn back_up(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let mut disks: Vec<OsString> = session
        .command
        .operands
        .iter()
        .map(|disk| OsString::from_vec(disk.clone()))
        .collect();
    if disks.is_empty() {
        let named = session.options().all("DOMAIN.IMAGE").into_iter();
        let words = named.flat_map(|entry| dsm::words::words(&entry.value).unwrap_or_default());
        disks = words.map(OsString::from_vec).collect();
    }
    if disks.is_empty() {
        return Err(CommandError::new("ANS1089E name a disk, or give DOMAIN.IMAGE"));
    }
    joining::connect(session)?;
    // The commands around a snapshot are for one disk.
    let options = session.options();
    let has_command = options.has("PRESNAPSHOTCMD") || options.has("POSTSNAPSHOTCMD");
    if !has_command || disks.len() == 1 {
        return back_up_together(session, &disks);
    }
    let mut code = DONE;
    for disk in &disks {
        // A disk that fails stops no other.
        let done = back_up_together(session, std::slice::from_ref(disk));
        code = code.max(done.unwrap_or_else(|error| {
            session.complain(&numbered(&error));
            NOT_DONE
        }));
        if child::is_interrupted() {
            break;
        }
    }
    Ok(code)
}

/// Backs up images with one command line.
fn back_up_together(session: &mut Session<'_>, disks: &[OsString]) -> Result<u8, CommandError> {
    let line = plan::image_backup(session.options(), disks);
    let home = session.home.clone();
    let child = Child { home: &home, words: &line, input: Vec::new(), tells_objects: false };
    let mut failed = false;
    let outcome = child::run(child, &mut |event| match event {
        Event::Document(document) if session.is_json() => session.context.output.json(&document),
        Event::Document(document) => failed |= !image_report(session, &document),
        Event::Object { path, .. } => output::say(&path),
        Event::Note { line: note, .. } => output::say(&note),
    })?;
    let code = Outcome::checked(outcome)?;
    Ok(if failed { code.max(FAILED) } else { code })
}

fn image_report(session: &mut Session<'_>, document: &Value) -> bool {
    let image = shown_path(&document["image"]);
    if let Some(error) = document["error"].as_str() {
        session.complain(&format!("ANS1228E Sending of image '{image}' failed: {error}"));
        return false;
    }
    session.say(&format!("Successful image backup of '{image}'"));
    session.say("");
    let lines = session_report(&image_totals(document), session.forms);
    session.say_all(lines);
    true
}

/// Returns the figures of the report of an image backup.
fn image_totals(document: &Value) -> Totals {
    let bytes = |key: &str| document[key].as_u64().unwrap_or(0);
    Totals {
        inspected: 1,
        backed_up: 1,
        bytes_inspected: bytes("bytes"),
        // All data of an image qualifies for deduplication.
        bytes_processed: bytes("bytes_after_dedup"),
        ..sending::totals(document)
    }
}

/// `dsmc restore image`: asks before it overwrites a disk.
pub(super) fn restore(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let (name, target) = match &session.command.operands[..] {
        [name] => (name.clone(), name.clone()),
        [name, target] => (name.clone(), target.clone()),
        _ => return Err(CommandError::new("ANS1089E name an image, and the disk to write")),
    };
    let client = joining::connect(session)?;
    let at = Filter::of(session)?.which.at;
    let name = OsString::from_vec(name);
    // Nobody has to decide about an image that is not there.
    find_image(&client, &name, at).map_err(|error| match error.kind {
        Some(ErrorKind::NotFound) => {
            CommandError { message: format!("ANS1302E {}", error.message), ..error }
        }
        _ => error,
    })?;
    let question = format!("Overwrite all content of {}?", model::escaped(&target));
    if !questions::is_agreed(session, &question)? {
        return Ok(NOT_DONE);
    }
    let at = at.map(crate::moment::rfc3339_to_second);
    let target = OsString::from_vec(target);
    let line = plan::image_restore(&name, &target, at.as_deref(), true);
    let home = session.home.clone();
    let child = Child { home: &home, words: &line, input: Vec::new(), tells_objects: false };
    let outcome = child::run(child, &mut |event| match event {
        Event::Document(document) if session.is_json() => session.context.output.json(&document),
        Event::Document(document) => {
            let image = shown_path(&document["image"]);
            let lost = lost_part(&image, &document);
            match &lost {
                Some(lost) => session.complain(lost),
                None => session.say(&format!("Successful restore of the image '{image}'")),
            }
            let failed = u64::from(lost.is_some());
            let totals = Totals { backed_up: 1 - failed, failed, ..restoring::totals(&document) };
            session.say("");
            session.say_all(restore_report(&totals, false, session.forms));
        }
        Event::Object { path, .. } => output::say(&path),
        Event::Note { line: note, .. } => output::say(&note),
    })?;
    Outcome::checked(outcome)
}

/// Says how much of the restored image is lost at the server, with the first reason; returns `None`
/// if nothing is.
fn lost_part(image: &str, document: &Value) -> Option<String> {
    let ranges = document["lost"].as_array()?;
    let reason = ranges.first()?["reason"].as_str().unwrap_or_default();
    let bytes: u64 = ranges.iter().filter_map(|range| range["bytes"].as_u64()).sum();
    Some(format!("ANS4005E {bytes} bytes of the image '{image}' did not come back: {reason}"))
}

#[cfg(test)]
mod tests {
    use dsm::forms::Forms;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_report_of_an_image_has_the_figures_of_its_transfer() {
        let totals = image_totals(&json!({
            "bytes": 4096, "data_bytes": 2048, "bytes_before_dedup": 1024, "bytes_after_dedup": 512,
            "bytes_transferred": 256, "data_transfer_secs": 0.5, "elapsed_secs": 1.5,
            "compressed_percent": 50.0,
        }));
        assert_eq!((totals.inspected, totals.backed_up, totals.failed), (1, 1, 0));
        assert_eq!((totals.bytes_inspected, totals.bytes_processed), (4096, 512));
        assert_eq!((totals.bytes_before_dedup, totals.bytes_after_dedup), (1024, 512));
        let lines = session_report(&totals, Forms::default());
        let has = |line: &str| lines.iter().any(|known| known == line);
        assert!(has("Data transfer time:                        0.50 sec"), "{lines:?}");
        assert!(has("Network data transfer rate:                0.50 KB/sec"), "{lines:?}");
        assert!(has("Objects compressed by:                       50%"), "{lines:?}");
    }

    #[test]
    fn what_is_lost_of_an_image_is_told() {
        let lost = |ranges: Value| lost_part("/dev/sda", &json!({ "lost": ranges }));
        assert_eq!(lost(json!([])), None);
        let ranges = json!([
            {"offset": 0, "bytes": 4096, "reason": "it is damaged"},
            {"offset": 8192, "bytes": 1, "reason": "it is gone"},
        ]);
        let told = "ANS4005E 4097 bytes of the image '/dev/sda' did not come back: it is damaged";
        assert_eq!(lost(ranges).as_deref(), Some(told));
    }
}
