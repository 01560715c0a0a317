//! Lines of `dsmc` and of the commands of space management, by TSM's columns.
//!
//! Each function makes lines of plain values. No line ends with a newline.

use crate::forms::{Forms, Moment, grouped};
use crate::selection::ListedStatement;

/// Width of a size. Larger sizes have a larger unit.
const SIZE_COLUMNS: usize = 14;
const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];
const UNIT: u64 = 1 << 10;
/// Column after the number of a line of a report.
const REPORT_COLUMNS: usize = 47;

/// Returns a size with its unit in the smallest unit that its column has room for.
fn size(bytes: u64, forms: Forms) -> String {
    let (mut number, mut unit) = (bytes, 0);
    while grouped(number).len() > SIZE_COLUMNS && unit + 1 < UNITS.len() {
        number = number.div_ceil(UNIT);
        unit += 1;
    }
    format!("{:>SIZE_COLUMNS$} {:>2}", forms.count(number), UNITS[unit])
}

/// A stored version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version<'a> {
    pub bytes: u64,
    pub stored: Moment,
    pub class: &'a str,
    pub is_active: bool,
    /// Path in its escaped form.
    pub path: &'a str,
}

/// Heading of the versions of backups.
pub fn backup_heading() -> [String; 2] {
    [
        "           Size        Backup Date                Mgmt Class           A/I File"
            .to_owned(),
        "           ----        -----------                ----------           --- ----"
            .to_owned(),
    ]
}

pub fn backup_line(version: &Version<'_>, forms: Forms) -> String {
    let state = if version.is_active { "A" } else { "I" };
    // A class of an earlier policy domain has no name in this one. A line needs all its columns.
    let class = if version.class.is_empty() { "DEFAULT" } else { version.class };
    format!(
        "{}  {:<32}{class:<20} {state}  {}",
        size(version.bytes, forms),
        forms.stamp(version.stored),
        version.path
    )
}

/// Facts about a version that a query with details shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Details {
    pub modified: Moment,
    /// Time of the last change of the inode.
    pub changed: Moment,
    pub inode: u64,
}

/// Returns the line of details, which follows that of its version.
pub fn detail_line(details: &Details, forms: Forms) -> String {
    format!(
        "{:19}Modified: {}  Inode changed: {}  Inode#: {}",
        "",
        forms.stamp(details.modified),
        forms.stamp(details.changed),
        details.inode
    )
}

/// Heading of the objects of archives.
pub fn archive_heading() -> [String; 2] {
    [
        "             Size  Archive Date - Time    File - Expires on - Description".to_owned(),
        "             ----  -------------------    -------------------------------".to_owned(),
    ]
}

/// Returns the line of an archived object. `expires` is `Never`, or the day.
pub fn archive_line(
    version: &Version<'_>,
    expires: &str,
    description: &str,
    forms: Forms,
) -> String {
    format!(
        "{}  {:<22} {} {expires} {description}",
        size(version.bytes, forms),
        forms.stamp(version.stored),
        version.path
    )
}

/// Heading of the file spaces.
pub fn filespace_heading() -> [String; 2] {
    ["  #     Last Incr Date          Type    File Space Name".to_owned(), "-".repeat(80)]
}

/// Text in place of the date of a file space that was never backed up as a whole.
const NEVER: &str = "00/00/0   00:00:00";

pub fn filespace_line(
    number: usize,
    last: Option<Moment>,
    kind: &str,
    name: &str,
    forms: Forms,
) -> String {
    // TSM's text for no date is one letter shorter than a date, and so is its column.
    let (last, room) = last.map_or((NEVER.to_owned(), 22), |last| (forms.stamp(last), 23));
    format!("{number:>3}     {last:<room$} {:<7} {name}", kind.to_ascii_uppercase())
}

/// Returns the lines of `query inclexcl`.
pub fn statement_lines(statements: &[ListedStatement]) -> Vec<String> {
    let mut lines = vec![
        "*** FILE INCLUDE/EXCLUDE ***".to_owned(),
        "Mode Function  Pattern (match from top down)  Source File".to_owned(),
        "---- --------- ------------------------------ -----------------".to_owned(),
    ];
    if statements.is_empty() {
        lines.push("No include/exclude statements are defined.".to_owned());
    }
    lines.extend(statements.iter().map(|statement| {
        let ListedStatement { mode, function, pattern, source, class } = statement;
        let class = class.as_ref().map(|class| format!(" ({class})")).unwrap_or_default();
        format!("{mode} {function:<9} {pattern:<30} {source}{class}")
    }));
    lines
}

/// Figures of a session.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Totals {
    pub inspected: u64,
    pub backed_up: u64,
    pub updated: u64,
    pub rebound: u64,
    pub deleted: u64,
    pub expired: u64,
    pub failed: u64,
    pub encrypted: u64,
    pub deduplicated: u64,
    pub grew: u64,
    pub retries: u64,
    pub bytes_inspected: u64,
    pub bytes_processed: u64,
    pub bytes_before_dedup: u64,
    pub bytes_after_dedup: u64,
    pub bytes_transferred: u64,
    pub transfer_secs: f64,
    pub elapsed_secs: f64,
    pub compressed_percent: f64,
    /// True for an archive, whose objects are archived and not backed up.
    pub is_archive: bool,
}

impl Totals {
    /// Adds the figures of another part of the same command.
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.inspected, other.inspected),
            (&mut self.backed_up, other.backed_up),
            (&mut self.updated, other.updated),
            (&mut self.rebound, other.rebound),
            (&mut self.deleted, other.deleted),
            (&mut self.expired, other.expired),
            (&mut self.failed, other.failed),
            (&mut self.encrypted, other.encrypted),
            (&mut self.deduplicated, other.deduplicated),
            (&mut self.grew, other.grew),
            (&mut self.retries, other.retries),
            (&mut self.bytes_inspected, other.bytes_inspected),
            (&mut self.bytes_processed, other.bytes_processed),
            (&mut self.bytes_before_dedup, other.bytes_before_dedup),
            (&mut self.bytes_after_dedup, other.bytes_after_dedup),
            (&mut self.bytes_transferred, other.bytes_transferred),
        ];
        for (sum, figure) in pairs {
            *sum = sum.saturating_add(figure);
        }
        self.transfer_secs += other.transfer_secs;
        self.elapsed_secs += other.elapsed_secs;
        self.compressed_percent = self.compressed_percent.max(other.compressed_percent);
    }
}

fn report_line(label: &str, value: &str, unit: &str, forms: Forms) -> String {
    let room = REPORT_COLUMNS.saturating_sub(label.len());
    forms.marked(&format!("{label}{value:>room$}{unit}"))
}

fn count_line(label: &str, count: u64, forms: Forms) -> String {
    report_line(label, &grouped(count), "", forms)
}

#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
fn bytes_line(label: &str, bytes: u64, forms: Forms) -> String {
    let (mut number, mut unit) = (bytes as f64, 0);
    while number >= UNIT as f64 && unit + 1 < UNITS.len() {
        number /= UNIT as f64;
        unit += 1;
    }
    if unit == 0 {
        return report_line(label, &grouped(bytes), "  B", forms);
    }
    report_line(label, &hundredths(number), &format!(" {}", UNITS[unit]), forms)
}

/// Returns a number with two decimals and the marks of thousands.
fn hundredths(number: f64) -> String {
    let text = format!("{number:.2}");
    let (whole, rest) = text.split_at(text.len() - 3);
    let whole = whole.parse::<u64>().map_or_else(|_| whole.to_owned(), grouped);
    format!("{whole}{rest}")
}

#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
fn rate(bytes: u64, secs: f64) -> String {
    hundredths(if secs > 0.0 { bytes as f64 / UNIT as f64 / secs } else { 0.0 })
}

#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
fn reduction(after: u64, before: u64) -> f64 {
    if before == 0 { 0.0 } else { (100.0 * (1.0 - after as f64 / before as f64)).max(0.0) }
}

/// Returns a number of seconds as `hh:mm:ss`.
fn clock(secs: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a negative number and one that is too large become a bound"
    )]
    let secs = secs.round() as u64;
    format!("{:02}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60)
}

/// Returns the report of a backup or an archive.
pub fn session_report(totals: &Totals, forms: Forms) -> Vec<String> {
    let taken = match totals.is_archive {
        true => "Total number of objects archived:",
        false => "Total number of objects backed up:",
    };
    let mut lines: Vec<String> = [
        ("Total number of objects inspected:", totals.inspected),
        (taken, totals.backed_up),
        ("Total number of objects updated:", totals.updated),
        ("Total number of objects rebound:", totals.rebound),
        ("Total number of objects deleted:", totals.deleted),
        ("Total number of objects expired:", totals.expired),
        ("Total number of objects failed:", totals.failed),
        ("Total number of objects encrypted:", totals.encrypted),
        ("Total objects deduplicated:", totals.deduplicated),
        ("Total number of objects grew:", totals.grew),
        ("Total number of retries:", totals.retries),
    ]
    .into_iter()
    .map(|(label, count)| count_line(label, count, forms))
    .collect();
    lines.extend([
        bytes_line("Total number of bytes inspected:", totals.bytes_inspected, forms),
        bytes_line("Total number of bytes processed:", totals.bytes_processed, forms),
        bytes_line("Total bytes before deduplication:", totals.bytes_before_dedup, forms),
        bytes_line("Total bytes after deduplication:", totals.bytes_after_dedup, forms),
    ]);
    lines.extend(transfer_lines(totals, forms));
    let percent = |label, number: String| report_line(label, &number, "%", forms);
    let dedup = reduction(totals.bytes_after_dedup, totals.bytes_before_dedup);
    let total = reduction(totals.bytes_transferred, totals.bytes_inspected);
    lines.extend([
        percent("Objects compressed by:", format!("{:.0}", totals.compressed_percent.max(0.0))),
        percent("Deduplication reduction:", format!("{dedup:.2}")),
        percent("Total data reduction ratio:", format!("{total:.2}")),
        report_line("Elapsed processing time:", &clock(totals.elapsed_secs), "", forms),
    ]);
    lines
}

/// Returns a line of the report of Holdfast's own commands as `dsmc` writes it.
pub fn of_report(line: &str, forms: Forms) -> String {
    let Some((label, rest)) = line.split_once(": ") else { return line.to_owned() };
    let label = format!("{label}:");
    let mut words = rest.split_whitespace();
    let (Some(value), unit, None) = (words.next(), words.next(), words.next()) else {
        return line.to_owned();
    };
    match (value.strip_suffix('%'), unit) {
        (Some(number), None) => report_line(&label, number, "%", forms),
        (_, None) => report_line(&label, value, "", forms),
        (_, Some("B")) => report_line(&label, value, "  B", forms),
        (_, Some(unit)) => report_line(&label, value, &format!(" {unit}"), forms),
    }
}

fn transfer_lines(totals: &Totals, forms: Forms) -> Vec<String> {
    let bytes = totals.bytes_transferred;
    vec![
        bytes_line("Total number of bytes transferred:", bytes, forms),
        report_line("Data transfer time:", &hundredths(totals.transfer_secs), " sec", forms),
        report_line(
            "Network data transfer rate:",
            &rate(bytes, totals.transfer_secs),
            " KB/sec",
            forms,
        ),
        report_line(
            "Aggregate data transfer rate:",
            &rate(bytes, totals.elapsed_secs),
            " KB/sec",
            forms,
        ),
    ]
}

/// Returns the report of a restore or a retrieve.
pub fn restore_report(totals: &Totals, is_retrieve: bool, forms: Forms) -> Vec<String> {
    let label = match is_retrieve {
        true => "Total number of objects retrieved:",
        false => "Total number of objects restored:",
    };
    let mut lines = vec![
        count_line(label, totals.backed_up, forms),
        count_line("Total number of objects failed:", totals.failed, forms),
    ];
    lines.extend(transfer_lines(totals, forms));
    lines.push(report_line("Elapsed processing time:", &clock(totals.elapsed_secs), "", forms));
    lines
}

/// A file of `dsmls`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceFile<'a> {
    pub bytes: u64,
    pub resident_bytes: u64,
    pub allocated_bytes: u64,
    /// State: `r`, `p`, `m`, or `-`.
    pub state: &'a str,
    pub name: &'a str,
}

/// Heading of `dsmls`: the actual size, the resident size, the resident kilobytes, the state, and
/// the name.
pub fn space_heading() -> String {
    format!("{:>15} {:>15} {:>10}   {:<5} FName", "ActS", "ResS", "ResB", "FSt")
}

pub fn space_line(file: &SpaceFile<'_>) -> String {
    format!(
        "{:>15} {:>15} {:>10}   {:<5} {}",
        file.bytes,
        file.resident_bytes,
        file.allocated_bytes.div_ceil(UNIT),
        file.state,
        file.name
    )
}

/// A file system of `dsmdf`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpaceFilesystem<'a> {
    pub name: &'a str,
    /// State: `a` active, or `i` if it is not mounted.
    pub state: &'a str,
    pub migrated_bytes: u64,
    pub premigrated_bytes: u64,
    pub migrated_files: u64,
    pub premigrated_files: u64,
    pub free_inodes: Option<u64>,
    pub free_bytes: u64,
}

/// Heading of `dsmdf`.
pub fn filesystem_heading() -> [String; 2] {
    let line = |words: [&str; 8]| {
        let [name, state, migrated, premigrated, files, others, inodes, free] = words;
        format!(
            "{name:<20} {state:<5} {migrated:>14} {premigrated:>14} {files:>9} {others:>9} \
             {inodes:>12} {free:>14}"
        )
    };
    [
        line(["FS", "Mgrtd", "Migrated", "Pmigrated", "Mgrtd", "Pmgrtd", "Unused", "Free"]),
        line(["", "State", "Size(KB)", "Size(KB)", "Files", "Files", "Inodes", "Size(KB)"]),
    ]
}

pub fn filesystem_line(filesystem: &SpaceFilesystem<'_>) -> String {
    let inodes = filesystem.free_inodes.map_or_else(|| "-".to_owned(), |free| free.to_string());
    format!(
        "{:<20} {:<5} {:>14} {:>14} {:>9} {:>9} {inodes:>12} {:>14}",
        filesystem.name,
        filesystem.state,
        filesystem.migrated_bytes.div_ceil(UNIT),
        filesystem.premigrated_bytes.div_ceil(UNIT),
        filesystem.migrated_files,
        filesystem.premigrated_files,
        filesystem.free_bytes / UNIT
    )
}

/// Settings of a managed file system, of `dsmmigfs query`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceSettings<'a> {
    pub name: &'a str,
    /// State: `a` active, or `i`.
    pub state: &'a str,
    pub high_percent: u64,
    pub low_percent: u64,
    pub premigrated_percent: u64,
    /// Size of the smallest file that migrates.
    pub file_bytes_min: u64,
    /// Size above which a file comes back part by part; `None` if none does.
    pub whole_bytes_max: Option<u64>,
}

/// TSM's settings of a file system, in its order: the two parts of the name, and the width of the
/// column. Sizes are bytes.
const SETTINGS: [(&str, &str, usize); 13] = [
    ("High", "Threshold", 9),
    ("Low", "Threshold", 9),
    ("Premig", "Percent", 7),
    ("Age", "Factor", 6),
    ("Size", "Factor", 6),
    ("Stub", "Size", 5),
    ("Preview", "Size", 7),
    ("Quota", "", 5),
    ("Max", "Files", 5),
    ("Min-Stream", "Size", 10),
    ("Min-Partial", "Size", 14),
    ("Min-Migrate", "Size", 14),
    ("Read-Starts", "Recall", 11),
];

impl SpaceSettings<'_> {
    /// Returns the values of [`SETTINGS`]. A setting without a counterpart has a dash.
    fn values(&self) -> [String; 13] {
        let none = || "-".to_owned();
        [
            self.high_percent.to_string(),
            self.low_percent.to_string(),
            self.premigrated_percent.to_string(),
            none(),
            none(),
            // A stub has no part of its file.
            "0".to_owned(),
            "0".to_owned(),
            none(),
            none(),
            none(),
            self.whole_bytes_max.map_or_else(none, |bytes| bytes.to_string()),
            self.file_bytes_min.to_string(),
            none(),
        ]
    }
}

/// Heading of `dsmmigfs query`.
pub fn settings_heading() -> [String; 2] {
    let first = SETTINGS.map(|(first, _, width)| format!(" {first:>width$}"));
    let second = SETTINGS.map(|(_, second, width)| format!(" {second:>width$}"));
    let line =
        |name, state, words: [String; 13]| format!("{name:<20} {state:<5}{}", words.concat());
    [line("FS", "FS", first), line("", "State", second)]
}

pub fn settings_line(settings: &SpaceSettings<'_>) -> String {
    let columns = SETTINGS.iter().zip(settings.values());
    let columns = columns.map(|(&(_, _, width), value)| format!(" {value:>width$}"));
    format!("{:<20} {:<5}{}", settings.name, settings.state, columns.collect::<String>())
}

/// Returns the lines of `dsmmigfs query -detail`, with an empty one at the end.
pub fn settings_details(settings: &SpaceSettings<'_>) -> Vec<String> {
    let line = |name: &str, value: &str| {
        let name = format!("{}:", name.trim_end());
        format!("{name:<20} {value}")
    };
    let mut lines = vec![line("File System", settings.name), line("State", settings.state)];
    for ((first, second, _), value) in SETTINGS.iter().zip(settings.values()) {
        lines.push(line(&format!("{first} {second}"), &value));
    }
    lines.push(String::new());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Definition, Entry, Options, Place, System, find_exactly};

    #[test]
    fn a_line_has_a_class_even_if_its_name_is_not_known() {
        let line = backup_line(&Version { class: "", ..version(5) }, Forms::default());
        let columns: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(columns[2..6], ["07/12/2020", "14:09:12", "DEFAULT", "A"]);
    }

    const STORED: Moment =
        Moment { year: 2020, month: 7, day: 12, hour: 14, minute: 9, second: 12 };

    fn version(bytes: u64) -> Version<'static> {
        Version { bytes, stored: STORED, class: "STANDARD", is_active: true, path: "/backup/a b" }
    }

    /// The expected lines have the columns of public samples of dsmc 8.1.
    #[test]
    fn columns_are_those_of_tsm() {
        let forms = Forms::default();
        assert_eq!(
            backup_line(&version(4096), forms),
            "         4,096  B  07/12/2020 14:09:12             STANDARD             A  /backup/a b"
        );
        assert_eq!(
            archive_line(&version(43_868_543_141), "Never", "Archive Date: 03/28/2022", forms),
            "43,868,543,141  B  07/12/2020 14:09:12    /backup/a b Never Archive Date: 03/28/2022"
        );
        let details = Details { modified: STORED, changed: STORED, inode: 77 };
        assert_eq!(
            detail_line(&details, forms).trim_start(),
            "Modified: 07/12/2020 14:09:12  Inode changed: 07/12/2020 14:09:12  Inode#: 77"
        );
        assert_eq!(
            filespace_line(1, Some(STORED), "ext4", "/", forms),
            "  1     07/12/2020 14:09:12     EXT4    /"
        );
        assert_eq!(
            filespace_line(2, None, "xfs", "/b", forms),
            "  2     00/00/0   00:00:00     XFS     /b"
        );
        let [heading, _] = backup_heading();
        let line = backup_line(&version(1), forms);
        assert_eq!(line.find("/backup"), heading.find("File"));
    }

    #[test]
    fn columns_have_room_for_each_form_of_times() {
        let (date, time) = (find_exactly("DATEFORMAT"), find_exactly("TIMEFORMAT"));
        let option = |definition: Option<&'static Definition>, value: u8| Entry {
            place: Place::CommandLine,
            definition: definition.expect("the table has it"),
            value: value.to_string().into_bytes(),
        };
        for time_form in 0..=7 {
            let line = [option(date, 2), option(time, time_form)];
            let forms = Forms::of(&Options::new(&System::default(), None, &[], &line));
            let line = backup_line(&version(1), forms);
            let [heading, _] = backup_heading();
            assert_eq!(line.find("/backup"), heading.find("File"), "{line}");
            let line = archive_line(&version(1), "Never", "x", forms);
            assert_eq!(line.find("/backup"), archive_heading()[0].find("File"), "{line}");
        }
    }

    #[test]
    fn a_report_of_a_schedule_is_that_of_a_command() {
        let forms = Forms::default();
        let totals = Totals { bytes_inspected: 5, bytes_processed: 3 << 20, ..Totals::default() };
        for expected in session_report(&totals, forms) {
            // Holdfast's own commands have other columns, and a blank before each unit.
            let words: Vec<&str> = expected.split_whitespace().collect();
            assert_eq!(of_report(&words.join(" "), forms), expected);
        }
        assert_eq!(of_report("no report", forms), "no report");
    }

    #[test]
    fn a_size_without_room_has_a_larger_unit() {
        let forms = Forms::default();
        assert_eq!(size(1_274_877_270_016, forms), " 1,244,997,334 KB");
        assert_eq!(size(99_999_999_999, forms), "99,999,999,999  B");
        assert_eq!(size(0, forms), "             0  B");
        assert_eq!(size(u64::MAX, forms).len(), 17);
    }

    #[test]
    fn a_report_has_the_classic_lines() {
        let totals = Totals {
            inspected: 16_376,
            backed_up: 77,
            bytes_inspected: 4096,
            bytes_before_dedup: 1000,
            bytes_after_dedup: 250,
            elapsed_secs: 19.2,
            ..Totals::default()
        };
        let lines = session_report(&totals, Forms::default());
        for expected in [
            "Total number of objects inspected:       16,376",
            "Total number of objects backed up:           77",
            "Total number of bytes inspected:           4.00 KB",
            "Total number of bytes transferred:            0  B",
            "Data transfer time:                        0.00 sec",
            "Network data transfer rate:                0.00 KB/sec",
            "Objects compressed by:                        0%",
            "Deduplication reduction:                  75.00%",
            "Total data reduction ratio:              100.00%",
            "Elapsed processing time:               00:00:19",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:#?}");
        }
        let order: Vec<_> = lines.iter().map(|line| line.split(':').next().unwrap_or("")).collect();
        assert_eq!(order[0], "Total number of objects inspected");
        assert_eq!(order[22], "Elapsed processing time");
    }

    #[test]
    fn parts_of_a_command_add_up() {
        let mut totals = Totals { inspected: 1, elapsed_secs: 1.5, ..Totals::default() };
        totals.add(&Totals {
            inspected: 2,
            failed: u64::MAX,
            elapsed_secs: 2.0,
            ..Totals::default()
        });
        totals.add(&Totals { failed: 1, ..Totals::default() });
        assert_eq!((totals.inspected, totals.failed), (3, u64::MAX));
        assert!((totals.elapsed_secs - 3.5).abs() < 1e-9);
    }

    #[test]
    fn a_restore_reports_what_came_back() {
        let totals = Totals { backed_up: 3, bytes_transferred: 1096, ..Totals::default() };
        let lines = restore_report(&totals, false, Forms::default());
        assert_eq!(lines[0], "Total number of objects restored:             3");
        assert_eq!(lines[2], "Total number of bytes transferred:         1.07 KB");
        assert!(restore_report(&totals, true, Forms::default())[0].contains("retrieved"));
    }

    #[test]
    fn space_management_has_its_columns() {
        let file = SpaceFile {
            bytes: 1_048_576,
            resident_bytes: 0,
            allocated_bytes: 0,
            state: "m",
            name: "run-17",
        };
        let (heading, line) = (space_heading(), space_line(&file));
        assert_eq!(line, "        1048576               0          0   m     run-17");
        assert_eq!(heading.find("FName"), line.find("run-17"));
        let filesystem = SpaceFilesystem {
            name: "/data",
            state: "a",
            migrated_bytes: 2048,
            free_bytes: 4096,
            ..SpaceFilesystem::default()
        };
        let line = filesystem_line(&filesystem);
        assert_eq!(filesystem_heading()[0].len(), line.len());
        assert!(line.starts_with("/data                a                  2"), "{line}");
        let settings = SpaceSettings {
            name: "/data",
            state: "a",
            high_percent: 90,
            low_percent: 80,
            premigrated_percent: 10,
            file_bytes_min: 65_536,
            whole_bytes_max: None,
        };
        let line = settings_line(&settings);
        assert!(settings_heading().iter().all(|heading| heading.len() == line.len()));
        let columns: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(columns[..7], ["/data", "a", "90", "80", "10", "-", "-"]);
        assert_eq!(columns[7..], ["0", "0", "-", "-", "-", "-", "65536", "-"]);
        let details = settings_details(&SpaceSettings { whole_bytes_max: Some(9), ..settings });
        assert_eq!(details[2], "High Threshold:      90");
        assert_eq!(details[9], "Quota:               -");
        assert_eq!(details[12], "Min-Partial Size:    9");
    }
}
