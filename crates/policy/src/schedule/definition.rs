//! The definition of a schedule: what is done, when, and how often it is tried.

use jiff::tz::{self, TimeZone};
use model::{ServerTime, spelling};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::{Action, Place};
use super::timing::{Starts, Timing, WINDOW_MINUTES_MAX};

/// First character of the names of schedules that were made for one action. No other name begins
/// with it.
pub const ONCE_PREFIX: char = '@';
/// Order of a schedule whose definition names none.
pub const PRIORITY_DEFAULT: u8 = 5;
/// Number of further attempts of a schedule whose definition names none: TSM's MAXCMDRETRIES.
pub const RETRIES_DEFAULT: u32 = 2;
/// Pause before a further attempt, in minutes: TSM's RETRYPERIOD.
pub const RETRY_PAUSE_MINUTES_DEFAULT: u32 = 20;
/// Maximum number of further attempts, and of minutes between two: TSM's.
const RETRIES_MAX: u32 = 9999;
/// Maximum of the time after which an attempt is ended, in minutes: 30 days.
const DURATION_MINUTES_MAX: u32 = 30 * 1440;
/// Maximum length of a description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 255;

/// Definition of a schedule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Definition {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub action: Action,
    pub timing: Timing,
    /// Name of the time zone in the database of the IANA.
    pub zone: String,
    /// Order among schedules that are due at once: lower numbers come first.
    pub priority: u8,
    /// Number of further attempts after a failure.
    pub retries: u32,
    pub retry_pause_minutes: u32,
    /// Time after which an attempt is ended; without it, there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_max_minutes: Option<u32>,
    /// True if an event whose window has passed is made up for, once.
    #[serde(default)]
    pub runs_late: bool,
    /// True if nothing is due for the time being.
    #[serde(default)]
    pub is_suspended: bool,
}

/// A definition that cannot be carried out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DefinitionError {
    #[error("the time zone '{name}' is unknown; {advice}")]
    Zone { name: String, advice: String },
    #[error("a window has 1 minute to {} days", WINDOW_MINUTES_MAX / 1440)]
    Window,
    #[error("the spread is a part of the window, 0 to 100 percent")]
    Spread,
    #[error("the order is a number from 1 (first) to 10 (last)")]
    Priority,
    #[error(
        "a schedule has at most {RETRIES_MAX} further attempts, and as many minutes between two"
    )]
    Retries,
    #[error("an attempt may last 1 minute to {} days", DURATION_MINUTES_MAX / 1440)]
    Duration,
    #[error("an interval has at least one minute, day or month")]
    Interval,
    #[error("a description has at most {DESCRIPTION_BYTES_MAX} bytes")]
    Description,
    #[error("{0}")]
    Action(String),
}

/// Returns the time zone with this name. Fails if this program does not know it.
pub fn time_zone(name: &str) -> Result<TimeZone, DefinitionError> {
    TimeZone::get(name).map_err(|_| {
        let zones: Vec<_> = tz::db().available().collect();
        let known: Vec<&str> = zones.iter().map(|zone| zone.as_str()).collect();
        let question = spelling::question(name, &known);
        let any = || "give a name such as Europe/Berlin or UTC".to_owned();
        DefinitionError::Zone { name: name.to_owned(), advice: question.unwrap_or_else(any) }
    })
}

impl Definition {
    /// Makes the definition of a schedule that is due once, at `at`. Its action is tried once.
    pub fn once(action: Action, at: ServerTime, window_minutes: u32) -> Self {
        Self {
            description: String::new(),
            action,
            timing: Timing {
                starts: Starts::Once(at.0),
                window_minutes,
                spread_percent: 0,
                last_day: None,
                blackouts: Vec::new(),
            },
            zone: "UTC".to_owned(),
            priority: PRIORITY_DEFAULT,
            retries: 0,
            retry_pause_minutes: RETRY_PAUSE_MINUTES_DEFAULT,
            duration_max_minutes: None,
            runs_late: false,
            is_suspended: false,
        }
    }

    /// Returns the time zone. Fails if this program does not know it.
    pub fn time_zone(&self) -> Result<TimeZone, DefinitionError> {
        time_zone(&self.zone)
    }

    /// Returns whether nodes or the server carry out the schedule.
    pub fn place(&self) -> Place {
        self.action.work.place()
    }

    /// Fails if the definition cannot be carried out.
    pub fn check(&self) -> Result<(), DefinitionError> {
        self.time_zone()?;
        let Timing { window_minutes, spread_percent, ref starts, .. } = self.timing;
        if !(1..=WINDOW_MINUTES_MAX).contains(&window_minutes) {
            return Err(DefinitionError::Window);
        }
        if spread_percent > 100 {
            return Err(DefinitionError::Spread);
        }
        if matches!(starts, Starts::Interval(interval) if interval.every.is_zero()) {
            return Err(DefinitionError::Interval);
        }
        if !(1..=10).contains(&self.priority) {
            return Err(DefinitionError::Priority);
        }
        if self.retries > RETRIES_MAX || self.retry_pause_minutes > RETRIES_MAX {
            return Err(DefinitionError::Retries);
        }
        if self
            .duration_max_minutes
            .is_some_and(|most| !(1..=DURATION_MINUTES_MAX).contains(&most))
        {
            return Err(DefinitionError::Duration);
        }
        if self.description.len() > DESCRIPTION_BYTES_MAX {
            return Err(DefinitionError::Description);
        }
        self.action.check().map_err(DefinitionError::Action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::action::{Word, Work};

    fn nightly() -> Definition {
        let text = r#"{"action":{"work":"incremental"},
            "timing":{"starts":{"calendar":{"times":"22:00"}},"window_minutes":60,
                "spread_percent":25},
            "zone":"Europe/Berlin","priority":5,"retries":2,"retry_pause_minutes":20}"#;
        serde_json::from_str(text).expect("is a definition")
    }

    #[test]
    fn a_definition_survives_as_json_and_unknown_fields_are_left_out() {
        let definition = nightly();
        let text = serde_json::to_string(&definition).expect("is text");
        assert_eq!(serde_json::from_str::<Definition>(&text).expect("is read"), definition);
        let newer = text.replacen('{', r#"{"from_the_future":7,"#, 1);
        assert_eq!(serde_json::from_str::<Definition>(&newer).expect("is read"), definition);
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused() {
        assert_eq!(nightly().check(), Ok(()));
        let refusal = |change: fn(&mut Definition)| {
            let mut definition = nightly();
            change(&mut definition);
            definition.check().expect_err("is refused").to_string()
        };
        assert_eq!(
            refusal(|of| of.zone = "Mars/Olympus".to_owned()),
            "the time zone 'Mars/Olympus' is unknown; give a name such as Europe/Berlin or UTC"
        );
        assert_eq!(
            refusal(|of| of.zone = "Europe/Belrin".to_owned()),
            "the time zone 'Europe/Belrin' is unknown; did you mean 'Europe/Berlin'?"
        );
        assert_eq!(refusal(|of| of.timing.window_minutes = 0), "a window has 1 minute to 30 days");
        assert!(refusal(|of| of.timing.spread_percent = 101).starts_with("the spread"));
        assert!(refusal(|of| of.priority = 0).starts_with("the order"));
        assert!(refusal(|of| of.retries = 10_000).starts_with("a schedule has"));
        for minutes in [0, 30 * 1440 + 1] {
            let mut endless = nightly();
            endless.duration_max_minutes = Some(minutes);
            assert_eq!(endless.check(), Err(DefinitionError::Duration));
        }
        assert!(refusal(|of| of.description = "x".repeat(256)).starts_with("a description"));
        assert_eq!(
            refusal(|of| of.action.work = Work::Selective),
            "a selective backup needs objects: name the files or directories"
        );
        assert_eq!(
            refusal(|of| {
                of.action.work = Work::Expire;
                of.action.objects = vec![Word::from(b"/etc".to_vec())];
            }),
            "this action takes no objects"
        );
    }
}
