//! The logs that TSM's client writes: errors, and what schedules did.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use dsm::forms::{Day, Forms};
use dsm::log::{Retention, divide, newer_half};
use dsm::options::Options;

use super::clock;
use crate::output;

const MEBIBYTE: u64 = 1 << 20;
/// Maximum size of a log that is looked through for old lines.
const LOOKED_THROUGH_MAX: u64 = 256 << 20;
const DAY_SECS: i64 = 24 * 3600;

/// Names of a log and of the options about it.
struct Kind {
    file: &'static str,
    saved: &'static str,
    name: &'static str,
    retention: &'static str,
    max: &'static str,
}

const ERRORS: Kind = Kind {
    file: "dsmerror.log",
    saved: "dsmerlog.pru",
    name: "ERRORLOGNAME",
    retention: "ERRORLOGRETENTION",
    max: "ERRORLOGMAX",
};
const SCHEDULES: Kind = Kind {
    file: "dsmsched.log",
    saved: "dsmsched.pru",
    name: "SCHEDLOGNAME",
    retention: "SCHEDLOGRETENTION",
    max: "SCHEDLOGMAX",
};

/// The log of errors. Without a name, `DSM_LOG` has its folder; without that, there is none.
pub(super) struct ErrorLog(Option<Log>);

/// A log whose lines begin with the date and the time.
pub(super) struct Log {
    path: PathBuf,
    forms: Forms,
}

impl ErrorLog {
    /// Finds the log that the options name, and removes its old lines.
    pub(super) fn open(options: &Options, forms: Forms) -> Self {
        let log = Log::find(&ERRORS, options, forms);
        if let Some(log) = &log {
            log.prune(&ERRORS, options);
        }
        Self(log)
    }

    pub(super) fn add(&self, line: &str) {
        if let Some(log) = &self.0 {
            log.add(line);
        }
    }
}

impl Log {
    /// Finds the log of schedules, and removes its old lines.
    pub(super) fn of_schedules(options: &Options, forms: Forms) -> Option<Self> {
        let log = Self::find(&SCHEDULES, options, forms)?;
        log.prune(&SCHEDULES, options);
        Some(log)
    }

    fn find(kind: &Kind, options: &Options, forms: Forms) -> Option<Self> {
        let folder = || std::env::var_os("DSM_LOG").filter(|value| !value.is_empty());
        let path = match options.get(kind.name) {
            Some(entry) => {
                use std::os::unix::ffi::OsStrExt as _;
                PathBuf::from(std::ffi::OsStr::from_bytes(&entry.value))
            }
            None => PathBuf::from(folder()?).join(kind.file),
        };
        Some(Self { path, forms })
    }

    /// Adds a line with the present date and time. A log that cannot be written is told once.
    pub(super) fn add(&self, line: &str) {
        let now = self.forms.stamp(clock::moment(sys::clock::now()));
        let line = format!("{now} {}\n", model::printable(line));
        let written = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.path)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        if let Err(error) = written {
            output::say(&format!("cannot write the log {}: {error}", self.path.display()));
        }
    }

    /// Removes lines that are too old, and half of a log that is too large.
    fn prune(&self, kind: &Kind, options: &Options) {
        let Some(log) = read(&self.path) else { return };
        let retention = options.text(kind.retention).and_then(|value| Retention::of(&value));
        let mut kept: &[u8] = &log;
        if let Some(retention) = retention {
            let division = divide(&log, first_day(retention.days), self.forms);
            if retention.saves && !division.old.is_empty() {
                self.save(kind, division.old);
            }
            kept = division.kept;
        }
        let most = options.number(kind.max).filter(|most| *most > 0).map(|most| most * MEBIBYTE);
        if most.is_some_and(|most| kept.len() as u64 > most) {
            kept = newer_half(kept);
        }
        if kept.len() < log.len()
            && let Err(error) = sys::durable::write(&self.path, kept, 0o644)
        {
            output::say(&format!("cannot shorten the log {}: {error}", self.path.display()));
        }
    }

    fn save(&self, kind: &Kind, lines: &[u8]) {
        let path = self.path.with_file_name(kind.saved);
        let saved = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .and_then(|mut file| file.write_all(lines));
        if let Err(error) = saved {
            output::say(&format!("cannot save old lines in {}: {error}", path.display()));
        }
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    let bytes = file.metadata().ok()?.len();
    let mut log = Vec::new();
    if bytes == 0 || bytes > LOOKED_THROUGH_MAX || file.take(bytes).read_to_end(&mut log).is_err() {
        return None;
    }
    Some(log)
}

/// Returns the first day whose lines are kept.
fn first_day(days: u32) -> Day {
    let now = sys::clock::now().secs();
    let then = model::ServerTime::from_secs(now - i64::from(days) * DAY_SECS);
    let moment = clock::moment(then);
    Day { year: moment.year, month: moment.month, day: moment.day }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dsm::options::{System, parse};

    fn options(text: &str) -> Options {
        let (user, faults) = parse("dsm.sys", text.as_bytes());
        assert_eq!(faults, []);
        Options::new(&System::default(), None, &user, &[])
    }

    #[test]
    fn old_lines_are_saved_and_new_ones_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("errors.log");
        std::fs::write(&path, "01/02/2020 10:00:00 old\n  more\n").expect("written");
        let text = format!("errorlogname {}\nerrorlogretention 30 s", path.display());
        let log = ErrorLog::open(&options(&text), Forms::default());
        log.add("ANS1228E new");
        let kept = std::fs::read_to_string(&path).expect("there");
        assert!(kept.ends_with("ANS1228E new\n") && kept.lines().count() == 1, "{kept}");
        let saved = std::fs::read_to_string(folder.path().join("dsmerlog.pru")).expect("there");
        assert_eq!(saved, "01/02/2020 10:00:00 old\n  more\n");
        ErrorLog::open(&options(&text), Forms::default());
        assert_eq!(std::fs::read_to_string(&path).expect("there"), kept);
    }

    #[test]
    fn without_a_retention_nothing_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("errors.log");
        std::fs::write(&path, "01/02/2020 10:00:00 old\n").expect("written");
        let text = format!("errorlogname {}", path.display());
        ErrorLog::open(&options(&text), Forms::default());
        assert!(std::fs::read(&path).expect("there").ends_with(b"old\n"));
    }
}
