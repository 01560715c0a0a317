//! Command lines of `holdfast` for commands of `dsmc`.
//!
//! Each function returns the words after the name of the program. Lists of paths are not among
//! them: they go to the standard input of the command, each with a NUL at its end.

use std::ffi::OsString;
use std::path::Path;

use super::command::Command;
use crate::configuration::{self, Value};
use crate::options::Options;

/// The way in which a backup or an archive takes its paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathSource {
    /// Paths with everything in them, on the command line.
    Trees,
    /// Exactly the paths of a list on standard input.
    Listed,
}

fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.into_iter().map(OsString::from).collect()
}

fn pair(flag: &str, value: impl Into<OsString>) -> [OsString; 2] {
    [flag.into(), value.into()]
}

/// Returns the command line of an incremental or a selective backup. `list` is the file with the
/// translated statements.
pub fn backup(
    command: &Command,
    options: &Options,
    list: Option<&Path>,
    sending: PathSource,
    is_selective: bool,
) -> Vec<OsString> {
    let mut line = words(["backup", "--json"]);
    line.extend(sender_flags(options, list));
    if command.has("ABSOLUTE") || command.has("FULL") {
        line.push("--full".into());
    }
    if command.has("NOJOURNAL") {
        line.push("--no-journal".into());
    }
    let stillness = configuration::keys(options).into_iter().find(|key| key.name == "snapshot");
    if let Some(Value::Text(how)) = stillness.map(|key| key.value)
        && sending == PathSource::Trees
    {
        line.extend(pair("--snapshot", how));
    }
    match sending {
        PathSource::Listed => line.extend(words(["--filelist", "-", "--null"])),
        PathSource::Trees if is_selective => line.push("--selective".into()),
        PathSource::Trees => {}
    }
    line
}

/// Returns the command line that ends the active versions of a list on standard input, in one
/// filespace if it is named.
pub fn expiry(options: &Options, filespace: Option<&Path>) -> Vec<OsString> {
    let mut line = words(["expire", "--json", "--filelist", "-", "--null"]);
    line.extend(wait(options));
    if let Some(filespace) = filespace {
        line.extend(pair("--filespace", filespace.as_os_str()));
    }
    line
}

fn sender_flags(options: &Options, list: Option<&Path>) -> Vec<OsString> {
    let mut line = configuration::backup_flags(options);
    // The exit code depends on whether an excluded path was named, which only the command knows.
    line.push("--list-excluded".into());
    if let Some(list) = list {
        line.extend(pair("--inclexcl", list.as_os_str()));
    }
    line
}

/// Returns the command line of an archive. `description` is that of the command, or the usual one.
pub fn archive(
    command: &Command,
    options: &Options,
    list: Option<&Path>,
    sending: PathSource,
    description: &str,
) -> Vec<OsString> {
    let mut line = words(["archive", "--json"]);
    line.extend(sender_flags(options, list));
    line.push(format!("--description={description}").into());
    if let Some(class) = options.text("ARCHMC") {
        line.push(format!("--class={class}").into());
    }
    if command.has("DELETEFILES") {
        line.push("--delete".into());
    }
    if sending == PathSource::Listed {
        line.extend(words(["--filelist", "-", "--null"]));
    }
    line
}

/// Returns the command line of a preview of a backup or an archive, without its paths.
pub fn preview(options: &Options, list: Option<&Path>, is_archive: bool) -> Vec<OsString> {
    let mut line = words(["preview", "--json"]);
    line.extend(pair("--filter", options.text("FILTER").unwrap_or_else(|| "all".to_owned())));
    if is_archive {
        line.push("--archive".into());
        line.extend(options.text("ARCHMC").map(|class| format!("--class={class}").into()));
    }
    if let Some(list) = list {
        line.extend(pair("--inclexcl", list.as_os_str()));
    }
    line
}

/// Returns the value of `--replace`; `None` for a prompt.
fn replacement(command: &Command, options: &Options) -> Option<&'static str> {
    let replace = options.text("REPLACE");
    match replace.as_deref() {
        Some("no") => Some("no"),
        _ if command.has("IFNEWER") => Some("if-newer"),
        Some("all" | "yes") => Some("all"),
        _ => None,
    }
}

/// Returns the command line of a restore of a list on standard input. `at` is a moment in RFC 3339.
/// Without an answer about existing objects, they stay.
pub fn restore(
    command: &Command,
    options: &Options,
    at: Option<&str>,
    to: Option<&Path>,
) -> Vec<OsString> {
    let mut line = words(["restore", "--json", "--filelist", "-", "--null"]);
    if let Some(wait) = wait(options) {
        line.push(wait);
    }
    line.extend(other_node(options));
    if let Some(at) = at {
        line.extend(pair("--at", at));
    } else if command.has("LATEST") || command.has("INACTIVE") {
        line.push("--inactive".into());
    }
    if let Some(to) = to {
        line.extend(pair("--to", to.as_os_str()));
    }
    line.extend(pair("--replace", replacement(command, options).unwrap_or("no")));
    line
}

/// Returns the name of the node whose data is read, if it is another one. The server finds it
/// without regard to case.
pub fn node_read(options: &Options) -> Option<String> {
    options.text("FROMNODE")
}

fn other_node(options: &Options) -> Option<OsString> {
    node_read(options).map(|node| format!("--from-node={node}").into())
}

fn wait(options: &Options) -> Option<OsString> {
    let flags = configuration::backup_flags(options);
    flags.into_iter().find(|flag| flag.to_string_lossy().starts_with("--wait="))
}

/// Returns true if the command asks before it replaces an object.
pub(super) fn prompts(command: &Command, options: &Options) -> bool {
    replacement(command, options).is_none() && !command.has("NOPROMPT")
}

impl Command {
    /// Returns true if a person is asked before an object is replaced.
    pub fn prompts(&self, options: &Options) -> bool {
        prompts(self, options)
    }
}

/// Returns the command line of a retrieve of a list on standard input from one archive.
pub fn retrieve(
    command: &Command,
    options: &Options,
    archive: u64,
    to: Option<&Path>,
) -> Vec<OsString> {
    let mut line = words(["retrieve", "--json", "--filelist", "-", "--null"]);
    line.extend(pair("--archive", archive.to_string()));
    line.extend(other_node(options));
    if let Some(to) = to {
        line.extend(pair("--to", to.as_os_str()));
    }
    line.extend(pair("--replace", replacement(command, options).unwrap_or("no")));
    line
}

/// Returns the command line of an image backup of disks.
pub fn image_backup(options: &Options, disks: &[OsString]) -> Vec<OsString> {
    let mut line = words(["image", "backup", "--json"]);
    for key in configuration::keys(options) {
        match (key.name, key.value) {
            ("image_snapshot", Value::Text(how)) => line.extend(pair("--snapshot", how)),
            ("all_blocks", Value::Flag(true)) => line.push("--all-blocks".into()),
            ("freeze", Value::Text(freeze)) if disks.len() == 1 => {
                line.extend(pair("--freeze", freeze));
            }
            ("thaw", Value::Text(thaw)) if disks.len() == 1 => line.extend(pair("--thaw", thaw)),
            _ => {}
        }
    }
    line.extend(disks.iter().cloned());
    line
}

/// Returns the command line of the restore of an image to a disk.
pub fn image_restore(
    name: &OsString,
    target: &OsString,
    at: Option<&str>,
    is_confirmed: bool,
) -> Vec<OsString> {
    let mut line = words(["image", "restore", "--json"]);
    line.extend([name.clone(), target.clone()]);
    if let Some(at) = at {
        line.extend(pair("--at", at));
    }
    if is_confirmed {
        line.push("--confirm".into());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::super::command::parse;
    use super::*;
    use crate::options::{self, System};

    fn command(line: &str, file: &str) -> (Command, Options) {
        let words = crate::words::words(line.as_bytes()).expect("words");
        let command = parse(&words).expect("a command");
        let (user, faults) = options::parse("dsm.opt", file.as_bytes());
        assert_eq!(faults, []);
        let options = Options::new(&System::default(), None, &user, &command.options);
        (command, options)
    }

    fn shown(line: &[OsString]) -> String {
        line.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_backup_has_the_options_of_its_files() {
        let (command, options) =
            command("i -abs -nojournal", "compression no\nsnapshotproviderfs linux_lvm");
        let line = backup(&command, &options, Some(Path::new("/l")), PathSource::Trees, false);
        assert_eq!(
            shown(&line),
            "backup --json --compression=none --list-excluded --inclexcl /l --full --no-journal \
             --snapshot lvm"
        );
        let (full, _) = self::command("i -full", "");
        let line = backup(&full, &Options::default(), None, PathSource::Trees, false);
        assert!(shown(&line).contains(" --full"), "{line:?}");
        let line = backup(&command, &options, None, PathSource::Listed, true);
        assert_eq!(
            shown(&line),
            "backup --json --compression=none --list-excluded --full --no-journal --filelist - \
             --null"
        );
    }

    #[test]
    fn an_option_of_the_command_line_goes_before_a_file() {
        let (command, options) = command("sel -compression=yes", "compression no");
        let line = backup(&command, &options, None, PathSource::Trees, true);
        assert_eq!(
            shown(&line),
            "backup --json --compression=standard --list-excluded --selective"
        );
    }

    #[test]
    fn a_restore_replaces_what_it_is_told_to() {
        for (line, file, expected) in [
            ("rest /a", "", "no"),
            ("rest /a -replace=all", "", "all"),
            ("rest /a -ifnewer -replace=all", "", "if-newer"),
            ("rest /a -ifnewer", "", "if-newer"),
            ("rest /a -ifnewer -replace=no", "", "no"),
            ("rest /a", "replace yes", "all"),
            ("rest /a -replace=no", "replace yes", "no"),
        ] {
            let (command, options) = command(line, file);
            let words = shown(&restore(&command, &options, None, None));
            assert!(words.ends_with(&format!("--replace {expected}")), "{line}: {words}");
        }
        let (command_of_another, options) = command("rest /a -fromnode=ANNA", "");
        let line = shown(&restore(&command_of_another, &options, None, None));
        assert!(line.contains("--from-node=ANNA"), "{line}");
        let (command, options) = command("rest /a -latest -noprompt", "");
        assert!(shown(&restore(&command, &options, None, None)).contains("--inactive"));
        assert!(!command.prompts(&options));
        let at = shown(&restore(&command, &options, Some("2026-11-20T00:00:00Z"), None));
        assert!(at.contains("--at 2026-11-20T00:00:00Z") && !at.contains("--inactive"));
    }

    #[test]
    fn an_archive_has_its_class_and_its_description() {
        let (command, options) = command("archive /a -archmc=TEN -deletefiles", "");
        let line = archive(&command, &options, None, PathSource::Listed, "-x y");
        assert_eq!(
            shown(&line),
            "archive --json --list-excluded --description=-x y --class=TEN --delete --filelist - \
             --null"
        );
    }

    #[test]
    fn a_preview_of_an_archive_has_its_class() {
        let (_, options) = command("preview archive /a -archmc=TEN -filter=excl", "");
        let line = preview(&options, Some(Path::new("/l")), true);
        assert_eq!(
            shown(&line),
            "preview --json --filter excluded --archive --class=TEN --inclexcl /l"
        );
        let line = preview(&Options::default(), None, false);
        assert_eq!(shown(&line), "preview --json --filter all");
    }

    #[test]
    fn an_image_has_the_options_of_its_files() {
        let (_, options) = command("b image /dev/sda", "imagegapsize 0\npresnapshotcmd /stop");
        let disks = ["/dev/sda".into()];
        assert_eq!(
            shown(&image_backup(&options, &disks)),
            "image backup --json --all-blocks --freeze /stop /dev/sda"
        );
    }
}
