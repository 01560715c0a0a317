//! The message of a command that the user has interrupted: what it has done, and how to go on.

use std::sync::atomic::Ordering::Relaxed;

use client::{ClientError, ErrorKind, Progress};

use crate::quantity;

/// Adds the committed part of a backup or an archive to the error of its interruption. Other errors
/// stay as they are.
pub(crate) fn interruption(error: ClientError, progress: &Progress) -> ClientError {
    if error.kind != ErrorKind::Interrupted {
        return error;
    }
    let message = match (progress.archive(), progress.committed_so_far()) {
        (Some(archive), committed) => {
            archive_message(archive, committed.map_or(0, |(objects, _)| objects))
        }
        (None, Some((objects, bytes))) => message(objects, bytes),
        (None, None) => return error,
    };
    ClientError::new(ErrorKind::Interrupted, message)
}

/// Adds the part that was done to the error of the interruption of a command that reads stored
/// objects. `next` is what the user may do. Other errors stay as they are.
pub(crate) fn interrupted_reading(
    error: ClientError,
    progress: &Progress,
    next: &str,
) -> ClientError {
    if error.kind != ErrorKind::Interrupted {
        return error;
    }
    let (done, all) = (progress.objects.load(Relaxed), progress.objects_expected.load(Relaxed));
    ClientError::new(ErrorKind::Interrupted, reading_message(done, all, next))
}

fn reading_message(done: u64, all: u64, next: &str) -> String {
    if done == 0 {
        return format!("interrupted before the first object was complete; {next}");
    }
    let all = if all > done { format!(" of {}", quantity::count(all)) } else { String::new() };
    let objects = if all.is_empty() && done == 1 { "object" } else { "objects" };
    format!("interrupted after {}{all} {objects}; {next}", quantity::count(done))
}

fn message(objects: u64, bytes: u64) -> String {
    if (objects, bytes) == (0, 0) {
        return "interrupted before anything was committed; run the same command again".to_owned();
    }
    format!(
        "interrupted; {} {} committed, and {} were sent; run the same command again: it goes \
         on from there",
        quantity::counted(objects, "object"),
        quantity::are(objects),
        quantity::bytes_with_unit(bytes),
    )
}

/// Returns the message for an archive with this number. The archive has all its objects if
/// `is_filled`.
fn archive_message((number, is_filled): (u64, bool), objects: u64) -> String {
    if is_filled {
        return format!(
            "interrupted; archive {number} is complete, but not all of its files are deleted on \
             this machine"
        );
    }
    format!(
        "interrupted; archive {number} is incomplete, with {}; run the same command again: it \
         makes a new archive, and does not send again what is stored",
        quantity::counted(objects, "object"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_says_what_is_committed() {
        for (objects, bytes, expected) in [
            (0, 0, "interrupted before anything was committed; run the same command again"),
            (
                1,
                2_048,
                "interrupted; 1 object is committed, and 2.00 KB were sent; run the same \
                 command again: it goes on from there",
            ),
            (
                1_234,
                3 << 20,
                "interrupted; 1,234 objects are committed, and 3.00 MB were sent; run the \
                 same command again: it goes on from there",
            ),
        ] {
            assert_eq!(message(objects, bytes), expected);
        }
    }

    #[test]
    fn an_interrupted_archive_is_named() {
        for (is_filled, objects, expected) in [
            (
                false,
                1,
                "interrupted; archive 7 is incomplete, with 1 object; run the same command again: \
                 it makes a new archive, and does not send again what is stored",
            ),
            (
                true,
                1_234,
                "interrupted; archive 7 is complete, but not all of its files are deleted on this \
                 machine",
            ),
        ] {
            assert_eq!(archive_message((7, is_filled), objects), expected);
        }
    }

    #[test]
    fn an_interrupted_restore_says_how_far_it_has_come() {
        for (done, all, expected) in [
            (0, 10, "interrupted before the first object was complete; go on"),
            (1, 10, "interrupted after 1 of 10 objects; go on"),
            (1, 0, "interrupted after 1 object; go on"),
            (1_234, 20_000, "interrupted after 1,234 of 20,000 objects; go on"),
        ] {
            assert_eq!(reading_message(done, all, "go on"), expected);
        }
    }
}
