//! Slots: which tasks of a node may run at once.
//!
//! Work with the server's data waits for the server while it is away, so it must not hold up shell
//! commands, which need no server.

use policy::schedule::{Definition, ONCE_PREFIX, Work};

/// Tasks that share a limit on how many of them run at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    /// Actions that an administrator has asked for once.
    Once,
    /// Shell commands of schedules.
    Command,
    /// All other work of schedules.
    Work,
}

impl Slot {
    /// Returns the slot of a task by the definition of its schedule, as JSON.
    pub(crate) fn of(schedule: &str, definition: &str) -> Self {
        if schedule.starts_with(ONCE_PREFIX) {
            return Self::Once;
        }
        // A definition that cannot be read starts nothing.
        match serde_json::from_str::<Definition>(definition) {
            Ok(definition) if definition.action.work == Work::Command => Self::Command,
            _ => Self::Work,
        }
    }

    /// Returns true if another task of this slot may run beside tasks of the slots `running`.
    pub(crate) fn is_free(self, running: impl IntoIterator<Item = Self>) -> bool {
        running.into_iter().filter(|slot| *slot == self).count() < self.tasks_max()
    }

    fn tasks_max(self) -> usize {
        match self {
            Self::Once => 4,
            Self::Command | Self::Work => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(schedule: &str, work: &str) -> Slot {
        let definition = format!(
            r#"{{"action":{{"work":"{work}"}},
                "timing":{{"starts":{{"calendar":{{"times":"22:00"}}}},"window_minutes":60,
                    "spread_percent":25}},
                "zone":"UTC","priority":5,"retries":2,"retry_pause_minutes":20}}"#
        );
        Slot::of(schedule, &definition)
    }

    /// A backup that waited for the server held up the commands of its node.
    #[test]
    fn a_command_runs_beside_a_backup() {
        let (command, backup) = (slot("dump", "command"), slot("nightly", "incremental"));
        assert_eq!((command, backup), (Slot::Command, Slot::Work));
        assert!(command.is_free([backup]) && backup.is_free([command]));
        assert!(!command.is_free([backup, command]) && !backup.is_free([backup]));
    }

    #[test]
    fn actions_that_are_asked_for_once_wait_for_no_schedule() {
        let once = slot("@7", "command");
        assert_eq!(once, Slot::Once);
        assert!(once.is_free([Slot::Work, Slot::Command, once, once, once]));
        assert!(!once.is_free([once; 4]));
    }
}
