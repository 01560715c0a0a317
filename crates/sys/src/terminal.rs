//! A terminal that does not show what a person types, such as a password.

use std::os::fd::AsFd;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// A terminal that shows nothing of what is typed but the end of the line, until this value is
/// dropped.
pub struct HiddenInput<T: AsFd> {
    terminal: T,
    /// Modes to which the terminal returns.
    before: Termios,
}

impl<T: AsFd> HiddenInput<T> {
    /// Hides what is typed from now on. Returns `None` if `terminal` is no terminal.
    pub fn begin(terminal: T) -> Option<Self> {
        let before = tcgetattr(&terminal).ok()?;
        let mut hidden = before.clone();
        // A signal would leave the terminal as it is now.
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        hidden.local_modes.insert(LocalModes::ECHONL);
        // The line that was typed ahead is kept.
        tcsetattr(&terminal, OptionalActions::Now, &hidden).ok()?;
        Some(Self { terminal, before })
    }
}

impl<T: AsFd> Drop for HiddenInput<T> {
    fn drop(&mut self) {
        // This fails only for a terminal that is gone.
        tcsetattr(&self.terminal, OptionalActions::Now, &self.before).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_hides_what_is_typed_for_a_while() {
        let options = || std::fs::File::options().read(true).write(true).clone();
        let terminal = options().open("/dev/ptmx").expect("a terminal");
        let shows = || {
            let modes = tcgetattr(&terminal).expect("modes").local_modes;
            modes.contains(LocalModes::ECHO)
        };
        assert!(shows());
        let hidden = HiddenInput::begin(&terminal).expect("it is a terminal");
        assert!(!shows());
        drop(hidden);
        assert!(shows());
        let null = options().open("/dev/null").expect("a file");
        assert!(HiddenInput::begin(&null).is_none());
    }
}
