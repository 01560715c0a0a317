//! Time that work in the process of the bench itself takes.

use std::time::Duration;

use e2e::clock;
use serde_json::{Value, json};

use crate::trouble::Trouble;

/// Time that work took: by the clock, and on the processors (all threads together).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Effort {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl Effort {
    /// Runs `work`, and adds the time of the work.
    pub(crate) fn timed<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = sys::process::cpu_time();
        let (result, wall) = clock::timed(work);
        self.wall += wall;
        self.cpu += sys::process::cpu_time().saturating_sub(before);
        result
    }

    pub(crate) fn mean(self, other: Self) -> Self {
        Self { wall: (self.wall + other.wall) / 2, cpu: (self.cpu + other.cpu) / 2 }
    }

    pub(crate) fn json(self) -> Value {
        json!({"wall_secs": self.wall.as_secs_f64(), "cpu_secs": self.cpu.as_secs_f64()})
    }

    /// Reads the value that [`Self::json`] wrote in another process.
    pub(crate) fn parse(value: &Value) -> Result<Self, Trouble> {
        let secs = |key: &str| {
            let duration = |secs: f64| Duration::try_from_secs_f64(secs).ok();
            let message = || Trouble::new(format!("a part of the bench returned no {key}"));
            value[key].as_f64().and_then(duration).ok_or_else(message)
        };
        Ok(Self { wall: secs("wall_secs")?, cpu: secs("cpu_secs")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_travel_between_processes() {
        let spent = Effort { wall: Duration::from_millis(1500), cpu: Duration::from_millis(2250) };
        assert_eq!(Effort::parse(&spent.json()), Ok(spent));
        let message = Effort::parse(&Value::Null).unwrap_err().to_string();
        assert_eq!(message, "a part of the bench returned no wall_secs");
    }
}
