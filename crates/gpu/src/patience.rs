//! Patience with the driver: calls of it that may have no end.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

/// Does `work` in a thread of its own, and waits for it up to `patience`. `what` completes "the
/// driver has".
///
/// A thread that does not return in time is left alone: nothing ends a call of the driver. If it
/// returns later, its result is dropped.
pub(crate) fn within<T: Send + 'static>(
    patience: Duration,
    what: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = channel();
    // Sending fails only if nobody waits any more.
    Builder::new().name("gpu".to_owned()).spawn(move || drop(sender.send(work())))?;
    match receiver.recv_timeout(patience) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => {
            let text = format!("the GPU's driver has not {what} within {} s", patience.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        }
        Err(RecvTimeoutError::Disconnected) => {
            Err(io::Error::other(format!("a thread ended before the GPU's driver had {what}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_the_driver_returns_is_returned() {
        assert_eq!(within(LONG, "given memory", || Ok(5)).expect("is done"), 5);
        let refused = within(LONG, "given memory", || Err::<u8, _>(io::Error::other("none left")));
        assert_eq!(refused.expect_err("is refused").to_string(), "none left");
    }

    #[test]
    fn nobody_waits_for_a_driver_that_does_not_return() {
        let (release, released) = channel::<()>();
        let stuck = move || {
            let _is_released = released.recv().is_err();
            Ok(())
        };
        let error = within(Duration::from_millis(20), "given memory", stuck).expect_err("hangs");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let text = error.to_string();
        assert!(text.starts_with("the GPU's driver has not given memory within"), "{text}");
        drop(release);
    }
}
