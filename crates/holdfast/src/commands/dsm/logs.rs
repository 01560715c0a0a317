//! The logs that TSM's client writes: errors, and what schedules did.

use std::fs::{File, OpenOptions};
use std::io::{
    self, BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _,
};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use dsm::forms::{Day, Forms};
use dsm::log::{Retention, Search, newer_part};
use dsm::options::Options;

use super::clock;
use crate::output;

const MEBIBYTE: u64 = 1 << 20;
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
    retention: Option<Retention>,
    bytes_max: Option<u64>,
    /// Name of the file that gets old lines.
    saved: &'static str,
}

impl ErrorLog {
    /// Finds the log that the options name, and removes its old lines.
    pub(super) fn open(options: &Options, forms: Forms) -> Self {
        let log = Self::find(options, forms);
        log.prune();
        log
    }

    /// Finds the log that the options name, and changes nothing.
    pub(super) fn find(options: &Options, forms: Forms) -> Self {
        Self(Log::find(&ERRORS, options, forms))
    }

    pub(super) fn add(&self, line: &str) {
        if let Some(log) = &self.0 {
            log.add(line);
        }
    }

    /// Returns the line about a log that cannot be written.
    pub(super) fn fault(&self) -> Option<String> {
        let log = self.0.as_ref()?;
        let error = log.written_to().err()?;
        let path = log.path.display();
        Some(format!("ANS1398E the log {path} cannot be written: {error}"))
    }

    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Removes old lines.
    pub(super) fn prune(&self) {
        if let Some(log) = &self.0 {
            log.prune();
        }
    }
}

impl Log {
    /// Finds the log of schedules, and removes its old lines.
    pub(super) fn of_schedules(options: &Options, forms: Forms) -> Option<Self> {
        let log = Self::find(&SCHEDULES, options, forms)?;
        log.prune();
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
        let retention = options.text(kind.retention).and_then(|value| Retention::of(&value));
        let most = options.number(kind.max).filter(|most| *most > 0);
        let bytes_max = most.map(|most| most * MEBIBYTE);
        Some(Self { path, forms, retention, bytes_max, saved: kind.saved })
    }

    /// Fails if lines cannot be added. A log that is not there is not made.
    fn written_to(&self) -> io::Result<()> {
        match OpenOptions::new().append(true).open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = std::fs::metadata(folder.unwrap_or(Path::new(".")))?;
                let is_open = folder.is_dir() && !folder.permissions().readonly();
                if is_open { Ok(()) } else { Err(error) }
            }
            opened => opened.map(drop),
        }
    }

    /// Adds a line with the present date and time. A line that cannot be added is told.
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

    /// Removes lines that are too old, and the older part of a log that is too large.
    pub(super) fn prune(&self) {
        if self.retention.is_none() && self.bytes_max.is_none() {
            return;
        }
        match self.shorten() {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                output::say(&format!("cannot shorten the log {}: {error}", self.path.display()));
            }
            _ => {}
        }
    }

    fn shorten(&self) -> io::Result<()> {
        let mut file = File::open(&self.path)?;
        let bytes = file.metadata()?.len();
        let mut start = 0;
        if let Some(retention) = self.retention {
            start = first_kept(&mut file, first_day(retention.days), self.forms)?;
            if retention.saves && start > 0 {
                self.save(&mut file, start)?;
            }
        }
        if let Some(part) = self.bytes_max.and_then(|most| newer_part(bytes - start, most)) {
            start = next_line(&mut file, start + part)?;
        }
        if start > 0 {
            self.keep_from(&mut file, start)?;
        }
        Ok(())
    }

    /// Replaces the log by its part from `start` on.
    fn keep_from(&self, file: &mut File, start: u64) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let new = PathBuf::from(name);
        let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata()?) & 0o7777;
        let mut kept = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&new)?;
        file.seek(SeekFrom::Start(start))?;
        io::copy(file, &mut kept)?;
        kept.sync_all()?;
        std::fs::rename(&new, &self.path)
    }

    /// Adds the first `bytes` of the log to the file of old lines.
    fn save(&self, file: &mut File, bytes: u64) -> io::Result<()> {
        let path = self.path.with_file_name(self.saved);
        let mut saved = OpenOptions::new().append(true).create(true).open(path)?;
        file.seek(SeekFrom::Start(0))?;
        io::copy(&mut file.take(bytes), &mut saved).map(drop)
    }
}

/// Returns the place of the first line that is kept.
fn first_kept(file: &mut File, first: Day, forms: Forms) -> io::Result<u64> {
    let mut search = Search::new(first, forms);
    let mut reader = BufReader::new(file);
    loop {
        let part = reader.fill_buf()?;
        if part.is_empty() || search.read(part) {
            return Ok(search.end());
        }
        let bytes = part.len();
        reader.consume(bytes);
    }
}

/// Returns the place of the first line that begins after `place`.
fn next_line(file: &mut File, place: u64) -> io::Result<u64> {
    file.seek(SeekFrom::Start(place))?;
    let mut reader = BufReader::new(file);
    Ok(place + reader.skip_until(b'\n')? as u64)
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

    /// The logs of a program that runs for months are shortened while it runs.
    #[test]
    fn a_log_is_never_much_larger_than_its_maximum() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("schedules.log");
        let text = format!("schedlogname {}\nschedlogmax 1", path.display());
        let log = Log::of_schedules(&options(&text), Forms::default()).expect("a log");
        let line = "x".repeat(1 << 18);
        let mut lines = Vec::new();
        for number in 0..20 {
            log.add(&format!("{number} {line}"));
            log.prune();
            let kept = std::fs::read_to_string(&path).expect("there");
            assert!(kept.len() as u64 <= MEBIBYTE, "{} bytes", kept.len());
            lines = kept.lines().map(str::len).collect();
            assert!(kept.ends_with("x\n") && kept.contains(&format!(" {number} x")));
        }
        assert!(lines.len() >= 2 && lines.iter().all(|bytes| *bytes > line.len()), "{lines:?}");
    }

    #[test]
    fn the_kept_part_of_a_log_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("schedules.log");
        std::fs::write(&path, "01/02/2020 10:00:00 old\n").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("set");
        let text = format!("schedlogname {}\nschedlogretention 7 d", path.display());
        let log = Log::of_schedules(&options(&text), Forms::default()).expect("a log");
        log.add("new");
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let kept = std::fs::read_to_string(&path).expect("there");
        assert!(kept.ends_with(" new\n") && kept.lines().count() == 1, "{kept}");
        assert!(!folder.path().join("dsmsched.pru").try_exists().expect("is looked for"));
    }

    #[test]
    fn a_log_that_cannot_be_written_is_told_and_none_is_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = |path: &Path| {
            let text = format!("errorlogname {}", path.display());
            ErrorLog::open(&options(&text), Forms::default())
        };
        let path = folder.path().join("errors.log");
        assert_eq!(log(&path).fault(), None);
        assert!(!path.try_exists().expect("is looked for"));
        for wrong in [folder.path().join("absent/errors.log"), folder.path().to_owned()] {
            let fault = log(&wrong).fault().expect("a fault");
            assert!(fault.starts_with("ANS1398E the log "), "{fault}");
        }
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
