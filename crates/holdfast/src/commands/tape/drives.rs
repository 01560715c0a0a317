//! `holdfast tape drives`: the abilities of each drive.

use std::ffi::OsString;

use ::tape::depot::Depot;
use ::tape::drive::{Abilities, LocateMethod, PositionMethod};
use ::tape::library::ListedDrive;
use ::tape::scsi::TapeAlert;
use serde::Serialize;

use super::site;
use super::trouble::{self, Failure};
use crate::context::Context;
use crate::error::CommandError;
use crate::quantity;

/// Show the abilities of each drive of a library
///
/// A tape in a drive is rewound and its first blocks are read, to find out how the drive positions
/// the tape. Alerts are shown once, because drives clear them when they are read.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape drives vault")]
pub(super) struct Args {
    /// The library, or the addresses of its changer and drives
    #[arg(value_name = "LIB")]
    library: OsString,
}

/// `tape drives --json`, one document per line.
#[derive(Serialize)]
struct DriveDocument {
    element: u16,
    product: String,
    serial: String,
    has_tape: bool,
    locate: &'static str,
    position: Option<&'static str>,
    block_bytes_min: Option<u32>,
    block_bytes_max: Option<u32>,
    recommended_order_blocks_max: u16,
    wrap_ends: bool,
    cartridge_memory: Option<bool>,
    log_pages: Vec<u8>,
    /// `None` from a drive that reports no alerts.
    alerts: Option<Vec<String>>,
    wants_cleaning: bool,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let site = site::of_word(&args.library, context)?;
    let mut depot = Depot::open(&site).map_err(|error| trouble::of_opening(&error))?;
    let library = depot.library().map_err(|error| trouble::of_depot(&error))?;
    let (mut failures, mut shown) = (Vec::new(), 0);
    for listed in library.drives() {
        let Some(drive) = library.free_drive(listed.address) else { continue };
        let asked = drive.abilities().and_then(|abilities| Ok((abilities, drive.alerts()?)));
        match asked {
            Ok((abilities, alerts)) => {
                let wants_cleaning = drive.wants_cleaning();
                let document = document(listed, abilities, &alerts, wants_cleaning);
                show(&document, shown == 0, context);
                shown += 1;
            }
            Err(error) => {
                let what = format!("drive {}", listed.address);
                failures.push(Failure { what: what.into(), why: CommandError::chain(&error) });
            }
        }
    }
    Ok(trouble::tell(&failures, &trouble::warnings(&mut depot), shown, context))
}

fn document(
    listed: ListedDrive,
    abilities: Abilities,
    alerts: &[TapeAlert],
    wants_cleaning: bool,
) -> DriveDocument {
    DriveDocument {
        element: listed.address,
        product: listed.product,
        serial: listed.serial,
        has_tape: abilities.is_ready,
        locate: match abilities.locate {
            LocateMethod::Sixteen => "LOCATE(16)",
            LocateMethod::Ten => "LOCATE(10)",
            LocateMethod::Space => "none",
        },
        position: abilities.tell.map(|tell| match tell {
            PositionMethod::Long => "long",
            PositionMethod::Short => "short",
            PositionMethod::Count => "none",
        }),
        block_bytes_min: abilities.block_limits.map(|limits| limits.bytes_min),
        block_bytes_max: abilities.block_limits.map(|limits| limits.bytes_max),
        recommended_order_blocks_max: abilities.order_blocks_max,
        wrap_ends: abilities.knows_wraps,
        cartridge_memory: abilities.reads_cartridge_memory,
        alerts: abilities.has_alerts().then(|| alerts.iter().map(ToString::to_string).collect()),
        log_pages: abilities.log_pages,
        wants_cleaning,
    }
}

fn show(drive: &DriveDocument, is_first: bool, context: &mut Context) {
    if context.output.is_json() {
        return context.output.json(drive);
    }
    let gap = if is_first { "" } else { "\n" };
    let title = format!("{gap}Drive {}: {} {}\n", drive.element, drive.product, drive.serial);
    let lines = lines(drive).map(|(what, answer)| format!("  {what:<24}{answer}\n"));
    context.output.text(&format!("{title}{}", lines.concat()));
}

fn lines(drive: &DriveDocument) -> [(&'static str, String); 10] {
    const UNKNOWN: &str = "unknown until a tape is mounted";
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let locate = match (drive.locate, drive.has_tape) {
        ("none", _) => "no: this program spaces to it block by block from the beginning".to_owned(),
        (method, true) => method.to_owned(),
        (method, false) => format!("{method}, not tried without a tape"),
    };
    let position = match drive.position {
        None => UNKNOWN.to_owned(),
        Some("none") => "no: this program counts the blocks".to_owned(),
        Some(form) => format!("READ POSITION, {form} form"),
    };
    let blocks = match (drive.block_bytes_min, drive.block_bytes_max) {
        (Some(min), Some(max)) => format!("{} to {} bytes", count(min), count(max)),
        _ => "not reported".to_owned(),
    };
    let order = match drive.recommended_order_blocks_max {
        0 => "no".to_owned(),
        max => format!("up to {} at once", quantity::counted(max.into(), "block")),
    };
    let pages: Vec<_> = drive.log_pages.iter().map(|page| format!("{page:02X}h")).collect();
    [
        ("Has a tape", yes_or_no(drive.has_tape)),
        ("Locates a block", locate),
        ("Reports its position", position),
        ("Block sizes", blocks),
        ("Recommends an order", order),
        ("Reports wrap ends", yes_or_no(drive.wrap_ends)),
        ("Cartridge memory", drive.cartridge_memory.map_or(UNKNOWN.to_owned(), yes_or_no)),
        ("Log pages", if pages.is_empty() { "none".to_owned() } else { pages.join(" ") }),
        ("Alerts", alerts(drive)),
        ("Needs cleaning", yes_or_no(drive.wants_cleaning)),
    ]
}

fn count(bytes: u32) -> String {
    quantity::count(bytes.into())
}

fn alerts(drive: &DriveDocument) -> String {
    match drive.alerts.as_deref() {
        None => "not reported by this drive".to_owned(),
        Some([]) => "none".to_owned(),
        Some(alerts) => alerts.join("; "),
    }
}
