//! Tables and documents of libraries, their drives and their elements.

use client::admin::{Element, ElementKind, Library, LibraryDrive, LibraryPlace};
use serde::Serialize;

use crate::context::Context;
use crate::moment::{self, shown};
use crate::quantity;
use crate::table::{self, Align};

/// `library list --json`, one document per line. Also `library show --json`, and a library after a
/// change or after some work.
#[derive(Serialize)]
pub(super) struct LibraryDocument<'a> {
    library: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    changer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity_bytes: Option<u64>,
    drive_addresses: &'a [String],
    mounts: u32,
    retain_secs: u32,
    optimised_only: bool,
    writers: u32,
    problem: Option<&'a str>,
    away_since: Option<String>,
    drives: Vec<DriveDocument<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elements: Vec<ElementDocument<'a>>,
}

#[derive(Serialize)]
struct DriveDocument<'a> {
    drive: u32,
    product: &'a str,
    serial: &'a str,
    state: &'a str,
    volume: Option<&'a str>,
    problem: Option<&'a str>,
    away_since: Option<String>,
    wants_cleaning: bool,
}

#[derive(Serialize)]
struct ElementDocument<'a> {
    element: u32,
    kind: &'a str,
    full: bool,
    barcode: Option<&'a str>,
}

impl<'a> LibraryDocument<'a> {
    pub(super) fn new(library: &'a Library) -> Self {
        let (changer, folder, capacity_bytes) = match &library.place {
            LibraryPlace::Changer { address } => (Some(address.as_str()), None, None),
            LibraryPlace::Folder { path, capacity_bytes } => {
                (None, Some(path.as_str()), *capacity_bytes)
            }
        };
        Self {
            library: &library.name,
            changer,
            folder,
            capacity_bytes,
            drive_addresses: &library.drive_addresses,
            mounts: library.mounts_max.unwrap_or(0),
            retain_secs: library.retain_secs,
            optimised_only: library.optimised_only,
            writers: library.writers_max.unwrap_or(0),
            problem: library.problem.as_deref(),
            away_since: library.away_since.map(moment::rfc3339),
            drives: library.drives.iter().map(DriveDocument::new).collect(),
            elements: library.elements.iter().map(ElementDocument::new).collect(),
        }
    }
}

impl<'a> DriveDocument<'a> {
    fn new(drive: &'a LibraryDrive) -> Self {
        Self {
            drive: drive.address,
            product: &drive.product,
            serial: &drive.serial,
            state: drive.state.word(),
            volume: drive.volume.as_deref(),
            problem: drive.problem.as_deref(),
            away_since: drive.away_since.map(moment::rfc3339),
            wants_cleaning: drive.wants_cleaning,
        }
    }
}

impl<'a> ElementDocument<'a> {
    fn new(element: &'a Element) -> Self {
        Self {
            element: element.address,
            kind: element.kind.word(),
            full: element.is_full,
            barcode: element.barcode.as_deref(),
        }
    }
}

/// Returns the message about a volume that was checked out.
pub(super) fn handed_over(library: &Library, volume: &str) -> String {
    let has_it = |element: &&Element| {
        element.kind == ElementKind::ImportExport
            && element.is_full
            && element.barcode.as_deref() == Some(volume)
    };
    match library.elements.iter().find(has_it) {
        Some(portal) => {
            let address = portal.address;
            format!("Volume {volume} is in import/export element {address}: take it out.")
        }
        None => format!("Volume {volume} is handed over: take it out."),
    }
}

pub(super) fn list(libraries: &[Library], context: &mut Context) {
    if context.output.is_json() {
        for library in libraries {
            context.output.json(&LibraryDocument::new(library));
        }
    } else if libraries.is_empty() {
        context
            .output
            .note("The server uses no library; add one with 'holdfast admin library add'.");
    } else {
        context.output.text(&libraries_table(libraries));
    }
}

fn libraries_table(libraries: &[Library]) -> String {
    let columns = [
        ("Library", Align::Left),
        ("Changer or folder", Align::Left),
        ("Drives", Align::Right),
        ("Mounts", Align::Right),
        ("Retain", Align::Right),
        ("Opens", Align::Left),
        ("State", Align::Left),
    ];
    let row = |library: &Library| {
        [
            library.name.clone(),
            place(library).to_owned(),
            library.drives.len().max(library.drive_addresses.len()).to_string(),
            library.mounts_max.unwrap_or(0).to_string(),
            format!("{} s", quantity::count(library.retain_secs.into())),
            if library.optimised_only { "refused" } else { "served" }.to_owned(),
            state(library),
        ]
    };
    table::render(columns, &libraries.iter().map(row).collect::<Vec<_>>())
}

fn place(library: &Library) -> &str {
    match &library.place {
        LibraryPlace::Changer { address } => address,
        LibraryPlace::Folder { path, .. } => path,
    }
}

fn state(library: &Library) -> String {
    let away: Vec<String> = library
        .drives
        .iter()
        .filter_map(|drive| Some((drive, drive.away_since?)))
        .map(|(drive, since)| format!("drive {} is away since {}", drive.address, shown(since)))
        .collect();
    match (&library.problem, library.away_since) {
        (Some(problem), Some(since)) => format!("away since {}: {problem}", shown(since)),
        (Some(problem), None) => format!("cannot be used: {problem}"),
        (None, _) if !away.is_empty() => away.join(", "),
        (None, _) => "ready".to_owned(),
    }
}

pub(super) fn show(library: &Library, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&LibraryDocument::new(library));
        return;
    }
    let mut text = head(library);
    if !library.drives.is_empty() {
        text.push_str(&["\n", &drives(&library.drives)].concat());
    }
    if !library.elements.is_empty() {
        text.push_str(&["\n", &elements(&library.elements)].concat());
    }
    context.output.text(&text);
}

fn head(library: &Library) -> String {
    let (kind, room) = match library.place {
        LibraryPlace::Changer { .. } => ("Changer", None),
        LibraryPlace::Folder { capacity_bytes, .. } => ("Folder", capacity_bytes),
    };
    let room = room.map_or_else(String::new, |bytes| {
        format!(", volumes of {}", quantity::bytes_with_unit(bytes))
    });
    format!(
        "Library:  {}\n{:<10}{}{room}\nState:    {}\nMounts:   {}\n\
         Retain:   {} s after the last use\nOpens:    {}\nWriters:  {}\n",
        library.name,
        format!("{kind}:"),
        place(library),
        state(library),
        match library.mounts_max {
            None => "as many as there are drives".to_owned(),
            Some(most) => format!("{most} at the same time"),
        },
        quantity::count(library.retain_secs.into()),
        if library.optimised_only { "refused" } else { "served" },
        match library.writers_max {
            None => "all drives but one".to_owned(),
            Some(most) => format!("{most} at the same time"),
        },
    )
}

fn drives(drives: &[LibraryDrive]) -> String {
    let columns = [
        ("Drive", Align::Right),
        ("Product", Align::Left),
        ("Serial", Align::Left),
        ("Volume", Align::Left),
        ("State", Align::Left),
    ];
    let row = |drive: &LibraryDrive| {
        [
            drive.address.to_string(),
            drive.product.clone(),
            drive.serial.clone(),
            drive.volume.as_deref().unwrap_or("-").to_owned(),
            drive_state(drive),
        ]
    };
    table::render(columns, &drives.iter().map(row).collect::<Vec<_>>())
}

fn drive_state(drive: &LibraryDrive) -> String {
    let cleaning = if drive.wants_cleaning { ", needs cleaning" } else { "" };
    let since = drive.away_since.map(|since| format!(" since {}", shown(since)));
    let problem = drive.problem.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    [drive.state.word(), since.as_deref().unwrap_or_default(), cleaning, &problem].concat()
}

fn elements(elements: &[Element]) -> String {
    let columns = [
        ("Element", Align::Right),
        ("Kind", Align::Left),
        ("State", Align::Left),
        ("Volume", Align::Left),
    ];
    let row = |element: &Element| {
        let state = match (element.is_full, &element.barcode) {
            (false, _) => "empty",
            (true, Some(_)) => "full",
            (true, None) => "full, no barcode",
        };
        [
            element.address.to_string(),
            element.kind.word().to_owned(),
            state.to_owned(),
            element.barcode.clone().unwrap_or_default(),
        ]
    };
    table::render(columns, &elements.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use client::admin::DriveState;

    use super::*;

    fn library() -> Library {
        let drive = LibraryDrive {
            address: 500,
            product: "ULT3580-TD8".to_owned(),
            serial: "10WT01".to_owned(),
            volume: Some("A00001L8".to_owned()),
            state: DriveState::Reading,
            problem: None,
            away_since: None,
            wants_cleaning: false,
        };
        let failed = LibraryDrive {
            address: 501,
            volume: None,
            state: DriveState::Failed,
            problem: Some("hardware error".to_owned()),
            wants_cleaning: true,
            ..drive.clone()
        };
        let element = |kind, address, barcode: Option<&str>| Element {
            kind,
            address,
            is_full: barcode.is_some(),
            barcode: barcode.map(str::to_owned),
        };
        Library {
            name: "vault".to_owned(),
            place: LibraryPlace::Changer { address: "/dev/sg5".to_owned() },
            drive_addresses: vec!["/dev/sg3".to_owned(), "/dev/sg4".to_owned()],
            mounts_max: Some(2),
            retain_secs: 300,
            optimised_only: false,
            writers_max: None,
            problem: None,
            away_since: None,
            drives: vec![drive, failed],
            elements: vec![
                element(ElementKind::Slot, 1000, None),
                element(ElementKind::ImportExport, 16, Some("A00007L8")),
                element(ElementKind::Drive, 500, Some("A00001L8")),
            ],
        }
    }

    fn folder() -> Library {
        let path = "/srv/tapes".to_owned();
        Library {
            name: "files".to_owned(),
            place: LibraryPlace::Folder { path, capacity_bytes: None },
            drive_addresses: Vec::new(),
            mounts_max: None,
            retain_secs: 0,
            drives: Vec::new(),
            elements: Vec::new(),
            ..library()
        }
    }

    #[test]
    fn libraries_stand_in_a_table() {
        let problem = Some("not mounted".to_owned());
        let away = Library { problem, optimised_only: true, ..folder() };
        insta::assert_snapshot!(libraries_table(&[library(), away]), @r"
        Library  Changer or folder  Drives  Mounts  Retain  Opens    State
        vault    /dev/sg5                2       2   300 s  served   ready
        files    /srv/tapes              0       0     0 s  refused  cannot be used: not mounted
        ");
    }

    #[test]
    fn a_library_is_shown_with_its_drives_and_elements() {
        let library = library();
        insta::assert_snapshot!(head(&library), @r"
        Library:  vault
        Changer:  /dev/sg5
        State:    ready
        Mounts:   2 at the same time
        Retain:   300 s after the last use
        Opens:    served
        Writers:  all drives but one
        ");
        insta::assert_snapshot!(drives(&library.drives), @r"
        Drive  Product      Serial  Volume    State
          500  ULT3580-TD8  10WT01  A00001L8  reading
          501  ULT3580-TD8  10WT01  -         failed, needs cleaning: hardware error
        ");
        insta::assert_snapshot!(elements(&library.elements), @r"
        Element  Kind           State  Volume
           1000  slot           empty
             16  import/export  full   A00007L8
            500  drive          full   A00001L8
        ");
    }

    #[test]
    fn a_volume_that_was_handed_over_is_looked_for_where_it_can_be_taken_from() {
        let library = library();
        let told = handed_over(&library, "A00007L8");
        assert_eq!(told, "Volume A00007L8 is in import/export element 16: take it out.");
        let told = handed_over(&library, "A00001L8");
        assert_eq!(told, "Volume A00001L8 is handed over: take it out.");
    }

    #[test]
    fn a_folder_has_no_changer_in_its_document() {
        let folder = folder();
        let document = serde_json::to_value(LibraryDocument::new(&folder)).expect("a document");
        assert_eq!(document["folder"], "/srv/tapes");
        assert_eq!((document.get("changer"), document.get("elements")), (None, None));
    }
}
