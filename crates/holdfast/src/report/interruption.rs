//! The message of a backup that the user has interrupted: the committed part of it.

use client::{ClientError, ErrorKind, Progress};

use crate::quantity;

/// Adds the committed part of a backup to the error of its interruption. Other errors stay as they
/// are.
pub(crate) fn interruption(error: ClientError, progress: &Progress) -> ClientError {
    match (error.kind, progress.committed_so_far()) {
        (ErrorKind::Interrupted, Some((objects, bytes))) => {
            ClientError::new(ErrorKind::Interrupted, message(objects, bytes))
        }
        _ => error,
    }
}

fn message(objects: u64, bytes: u64) -> String {
    if (objects, bytes) == (0, 0) {
        return "interrupted before anything was committed; run the same command again".to_owned();
    }
    format!(
        "interrupted; {} {} committed, for which {} were sent; run the same command again: it goes \
         on from there",
        quantity::counted(objects, "object"),
        quantity::are(objects),
        quantity::bytes_with_unit(bytes),
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
                "interrupted; 1 object is committed, for which 2.00 KB were sent; run the same \
                 command again: it goes on from there",
            ),
            (
                1_234,
                3 << 20,
                "interrupted; 1,234 objects are committed, for which 3.00 MB were sent; run the \
                 same command again: it goes on from there",
            ),
        ] {
            assert_eq!(message(objects, bytes), expected);
        }
    }
}
