//! Libraries, their drives and their elements, as they are shown.

use client::admin::{Library, LibraryDrive, LibraryElement};
use serde::Serialize;

use crate::commands::Context;
use crate::quantity;
use crate::table::{self, Align};

/// `library list --json`, one a line; `library show --json`; and what became of one that was
/// changed or served.
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
    problem: Option<&'a str>,
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
    wants_cleaning: bool,
}

#[derive(Serialize)]
struct ElementDocument<'a> {
    element: u32,
    kind: &'a str,
    full: bool,
    barcode: Option<&'a str>,
}

fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

impl<'a> LibraryDocument<'a> {
    pub(super) fn new(library: &'a Library) -> Self {
        Self {
            library: &library.name,
            changer: given(&library.changer),
            folder: given(&library.folder),
            capacity_bytes: library.capacity_bytes,
            drive_addresses: &library.drive_addresses,
            mounts: library.drives_max,
            retain_secs: library.retain_secs,
            optimised_only: library.optimised_only,
            problem: given(&library.problem),
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
            state: &drive.state,
            volume: given(&drive.volume),
            problem: given(&drive.problem),
            wants_cleaning: drive.wants_cleaning,
        }
    }
}

impl<'a> ElementDocument<'a> {
    fn new(element: &'a LibraryElement) -> Self {
        Self {
            element: element.address,
            kind: &element.kind,
            full: element.is_full,
            barcode: given(&element.barcode),
        }
    }
}

/// What is said of a volume that was checked out.
pub(super) fn handed_over(library: &Library, volume: &str) -> String {
    let has_it = |element: &&LibraryElement| {
        element.kind == "import/export" && element.is_full && element.barcode == volume
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
            .note("The server uses no library; 'holdfast admin library add' gives it one.");
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
            library.drives_max.to_string(),
            format!("{} s", quantity::count(library.retain_secs.into())),
            if library.optimised_only { "refused" } else { "served" }.to_owned(),
            state(library),
        ]
    };
    table::render(columns, &libraries.iter().map(row).collect::<Vec<_>>())
}

fn place(library: &Library) -> &str {
    given(&library.changer).unwrap_or(&library.folder)
}

fn state(library: &Library) -> String {
    given(&library.problem)
        .map_or_else(|| "ready".to_owned(), |problem| format!("cannot be used: {problem}"))
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
    let room = library.capacity_bytes.map_or_else(String::new, |bytes| {
        format!(", volumes of {}", quantity::bytes_with_unit(bytes))
    });
    let kind = if library.changer.is_empty() { "Folder" } else { "Changer" };
    format!(
        "Library:  {}\n{:<10}{}{room}\nState:    {}\nMounts:   {}\n\
         Retain:   {} s after the last use\nOpens:    {}\n",
        library.name,
        format!("{kind}:"),
        place(library),
        state(library),
        match library.drives_max {
            0 => "as many as there are drives".to_owned(),
            most => format!("{most} at the same time"),
        },
        quantity::count(library.retain_secs.into()),
        if library.optimised_only { "refused" } else { "served" },
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
            given(&drive.volume).unwrap_or("-").to_owned(),
            drive_state(drive),
        ]
    };
    table::render(columns, &drives.iter().map(row).collect::<Vec<_>>())
}

fn drive_state(drive: &LibraryDrive) -> String {
    let cleaning = if drive.wants_cleaning { ", wants cleaning" } else { "" };
    let problem = given(&drive.problem).map_or_else(String::new, |why| format!(": {why}"));
    [&drive.state, cleaning, &problem].concat()
}

fn elements(elements: &[LibraryElement]) -> String {
    let columns = [
        ("Element", Align::Right),
        ("Kind", Align::Left),
        ("State", Align::Left),
        ("Volume", Align::Left),
    ];
    let row = |element: &LibraryElement| {
        let state = match (element.is_full, given(&element.barcode)) {
            (false, _) => "empty",
            (true, Some(_)) => "full",
            (true, None) => "full, no barcode",
        };
        [
            element.address.to_string(),
            element.kind.clone(),
            state.to_owned(),
            element.barcode.clone(),
        ]
    };
    table::render(columns, &elements.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> Library {
        let drive = LibraryDrive {
            address: 500,
            product: "ULT3580-TD8".to_owned(),
            serial: "10WT01".to_owned(),
            volume: "A00001L8".to_owned(),
            state: "reading".to_owned(),
            ..LibraryDrive::default()
        };
        let failed = LibraryDrive {
            address: 501,
            volume: String::new(),
            state: "failed".to_owned(),
            problem: "hardware error".to_owned(),
            wants_cleaning: true,
            ..drive.clone()
        };
        let element = |kind: &str, address, barcode: &str| LibraryElement {
            kind: kind.to_owned(),
            address,
            is_full: !barcode.is_empty(),
            barcode: barcode.to_owned(),
        };
        Library {
            name: "vault".to_owned(),
            changer: "/dev/sg5".to_owned(),
            drive_addresses: vec!["/dev/sg3".to_owned(), "/dev/sg4".to_owned()],
            drives_max: 2,
            retain_secs: 300,
            drives: vec![drive, failed],
            elements: vec![
                element("slot", 1000, ""),
                element("import/export", 16, "A00007L8"),
                element("drive", 500, "A00001L8"),
            ],
            ..Library::default()
        }
    }

    #[test]
    fn libraries_stand_in_a_table() {
        let away = Library {
            name: "files".to_owned(),
            folder: "/srv/tapes".to_owned(),
            problem: "not mounted".to_owned(),
            optimised_only: true,
            ..Library::default()
        };
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
        ");
        insta::assert_snapshot!(drives(&library.drives), @r"
        Drive  Product      Serial  Volume    State
          500  ULT3580-TD8  10WT01  A00001L8  reading
          501  ULT3580-TD8  10WT01  -         failed, wants cleaning: hardware error
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
        let folder = Library { folder: "/srv/tapes".to_owned(), ..Library::default() };
        let document = serde_json::to_value(LibraryDocument::new(&folder)).expect("a document");
        assert_eq!(document["folder"], "/srv/tapes");
        assert_eq!((document.get("changer"), document.get("elements")), (None, None));
    }
}
