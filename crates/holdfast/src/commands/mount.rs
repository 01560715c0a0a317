//! `holdfast mount`: shows the stored files as files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use client::{Connector, LinkChoice};
use jiff::Zoned;
use model::ServerTime;
use mount::{MountSettings, StoredMount, Times};

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::waiter::{LimitArgs, Waiter};
use crate::{home, moment, output};

/// Time for which programs wait, unless the user sets another. They cannot be stopped meanwhile as
/// a command can, so it is short.
const PATIENCE: Duration = Duration::from_secs(5 * 60);
/// Time for which memory that is free is kept. Contents of files come and go all the time: what was
/// freed within a second is as much again as what is in use.
const FREE_MEMORY_KEPT: Duration = Duration::from_millis(10);
/// Pause between two looks at whether the mount is to end.
const PAUSE: Duration = Duration::from_millis(100);

/// Show the backed-up files and images of this node as files, until Ctrl-C or 'umount'
///
/// DIR gets these directories, all read-only:
///
///   latest/               the files as they were backed up last
///   at/TIME/              the files at a time, as in at/2026-11-20T18:00; any time may be named
///   versions/PATH/TIME    all versions of each file
///   images/NAME/TIME.img  images of disks
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
#[command(after_help = "\
Example:
  holdfast mount /mnt &
  cp -a /mnt/at/2026-11-20/home/ann/letters /home/ann
  diff /mnt/latest/etc/fstab /etc/fstab
  umount /mnt")]
pub(crate) struct Args {
    /// An empty directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Let other users in, too. Each sees what the permissions of the files let him see
    #[arg(long)]
    allow_other: bool,
    /// Time for which programs wait for a server that is away; then they get an error. The mount
    /// itself waits as long at its start [default: wait in client.toml, otherwise 5m]
    #[arg(long, value_name = "LENGTH", value_parser = model::parse_length)]
    wait: Option<Duration>,
    #[command(flatten)]
    limits: LimitArgs,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<u8, CommandError> {
    sys::allocator::give_back_after(FREE_MEMORY_KEPT);
    sys::process::raise_open_files();
    let path = std::path::absolute(&args.directory)
        .map_err(|error| CommandError::new(format!("{}: {error}", args.directory.display())))?;
    let choice = LinkChoice {
        is_scheduled: home::is_scheduled(),
        wait: args.wait,
        limits: args.limits.limits(),
        reading: None,
    };
    let connector = Arc::new(Connector::new(&context.home()?, choice)?.waiting(PATIENCE));
    let progress = context.progress()?;
    let waiter = Waiter::new(Arc::clone(&connector), Arc::clone(&progress), &context.global)
        .recorded_in(context.running());
    connector.keep(waiter.client()?);
    let settings = MountSettings {
        path: path.clone(),
        patience: connector.wait(),
        for_all: args.allow_other,
        times: Times { show: time_name, parse: parse_time_name },
    };
    let stop = Arc::clone(&progress);
    let opener = Box::new(move || connector.connect(&stop, Duration::MAX));
    let mount = StoredMount::start(settings, opener, Box::new(output::say))
        .map_err(|error| CommandError::new(error.to_string()))?;
    context.output.note(&format!("The files are at {}.", path.display()));
    while !progress.is_stopped() && !mount.has_ended() {
        sys::clock::sleep(PAUSE);
    }
    drop(mount);
    Ok(DONE)
}

/// Returns a time as the name of a directory: local time, as in `2026-11-20T18:00:03`.
fn time_name(time: ServerTime) -> String {
    name_of(&moment::zoned(time)).unwrap_or_else(|| moment::shown(time).replace(' ', "T"))
}

/// Returns the name of a time in the hour that comes twice when summer time ends: with its offset,
/// as in `2026-10-25T02:30:00+01:00`. `None` if the time of day is enough.
fn name_of(time: &Zoned) -> Option<String> {
    let comes_twice = time.time_zone().to_ambiguous_timestamp(time.datetime()).is_ambiguous();
    comes_twice.then(|| time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
}

/// Reads a time that begins with a date. Other times, such as `3d`, would mean another time at each
/// look.
fn parse_time_name(name: &str) -> Option<ServerTime> {
    let is_date = name.len() >= 10 && name.as_bytes()[..4].iter().all(u8::is_ascii_digit);
    if is_date { moment::parse(name).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_times_are_dates() {
        let time = parse_time_name("2026-11-20T18:00:03").expect("a time");
        assert_eq!(time_name(time), "2026-11-20T18:00:03");
        assert!(parse_time_name("2026-11-20").is_some());
        for name in ["3d", "now", "yesterday", "2026-11-99", "", "latest"] {
            assert_eq!(parse_time_name(name), None, "{name}");
        }
    }

    #[test]
    fn an_hour_that_comes_twice_has_its_offset() {
        let berlin = jiff::tz::TimeZone::get("Europe/Berlin").expect("a zone");
        let names = ["00:30", "01:30", "02:30"].map(|utc| {
            let time: jiff::Timestamp = format!("2026-10-25T{utc}:00Z").parse().expect("a time");
            (time, name_of(&time.to_zoned(berlin.clone())))
        });
        let expected = [Some("2026-10-25T02:30:00+02:00"), Some("2026-10-25T02:30:00+01:00"), None];
        assert_eq!(names.each_ref().map(|(_, name)| name.as_deref()), expected);
        for (time, name) in names.into_iter().filter_map(|(time, name)| Some((time, name?))) {
            let parsed = parse_time_name(&name).expect("a time");
            assert_eq!(parsed.secs(), time.as_second(), "{name}");
        }
    }
}
