//! Commands about stored data, pools, volumes, libraries, the catalogue, and work under way.

use super::definition::{Action, Command, Request, command};
use super::parameter::{Noun, Parameter, ValueKind, WAIT, may, need};
use super::plan::{Line, Plan, Program, Work};
use crate::admin::abbreviation::stands_for;
use crate::admin::message::{Message, ReturnCode};

const BY_ITSELF: &str = "the server decides it by itself";
const POOL: Parameter = need("pool_name", ValueKind::One(Noun::Pool));
const VOLUME: Parameter = need("volume_name", ValueKind::Several(Noun::Volume));
const LIBRARY: Parameter = need("library_name", ValueKind::One(Noun::Library));
const DURATION: Parameter = may("DUration", ValueKind::Text)
    .accepted("a run goes to its end; the next one goes on where an interrupted one stopped");
const BARCODES: &str = "volumes are found by their barcodes";
const LABEL_CHECK: Parameter =
    may("CHECKLabel", ValueKind::Text).accepted("labels are checked when volumes are mounted");
const WAIT_TIME: Parameter = may("WAITTime", ValueKind::Text).accepted("no operator is waited for");

const fn program(
    verb: &'static str,
    parameters: &'static [Parameter],
    program: Program,
    becomes: &'static str,
) -> Command {
    Command { verb, noun: "", parameters, action: Action::Program(program), becomes, question: "" }
}

pub(super) static COMMANDS: &[Command] = &[
    command(
        "EXPIre",
        "Inventory",
        &[
            may("Quiet", ValueKind::Text).accepted("the report is short"),
            WAIT,
            may("Node", ValueKind::Several(Noun::Node)),
            may("DOmain", ValueKind::Text).refused("give the nodes by name or pattern"),
            may("Type", ValueKind::Word(&["ALl"])).accepted("versions and archive copies expire"),
            may("SKipdirs", ValueKind::Text).accepted("directories expire as any object"),
            may("REsource", ValueKind::Text).accepted(BY_ITSELF),
            DURATION,
        ],
        expire,
        "`admin expire`",
    ),
    command(
        "RECLaim",
        "STGpool",
        &[POOL, may("THreshold", ValueKind::Number), DURATION, WAIT],
        |request| {
            let percent = request.number("THreshold").map(u32::try_from).transpose();
            let dead_percent = percent.unwrap_or(Some(u32::MAX));
            Ok(Plan::Work(Work::Reclaim { pool: request.required("pool_name"), dead_percent }))
        },
        "`admin volume reclaim` for a pool on volumes, otherwise `admin reclaim`",
    ),
    command(
        "MIGrate",
        "STGpool",
        &[
            POOL,
            may("LOwmig", ValueKind::Number),
            may("REClaim", ValueKind::Text).accepted("reclamation runs by its own schedule"),
            DURATION,
            WAIT,
        ],
        migrate,
        "`admin pool drain`, with `--all` for LOWMIG=0",
    ),
    command(
        "BAckup",
        "STGpool",
        &[
            POOL,
            need("copy_pool_name", ValueKind::One(Noun::Pool)),
            may("MAXPRocess", ValueKind::Text).accepted(BY_ITSELF),
            may("Preview", ValueKind::Word(&["No"])).accepted("nothing is only tried"),
            may("SHREDTONOshred", ValueKind::Text).accepted("Holdfast does not shred"),
            WAIT,
        ],
        |request| {
            let copy = request.required("copy_pool_name");
            let text = format!("Pool {copy} has a copy of all packs.");
            let done = Message::done("ANR1214I", text);
            Ok(Line::admin(["pool", "copy", &copy], done).plan())
        },
        "`admin pool copy`",
    ),
    command(
        "UPDate",
        "STGpool",
        &[
            POOL,
            may("HIghmig", ValueKind::Number),
            may("LOwmig", ValueKind::Number),
            may("MIGDelay", ValueKind::Number),
            may("NEXTstgpool", ValueKind::Text),
            may("REClaim", ValueKind::Number),
            may("REUsedelay", ValueKind::Number),
            may("COLlocate", ValueKind::Word(&["No", "GRoup", "NODe"])),
            may("DESCription", ValueKind::Text).accepted("pools have no descriptions"),
            may("MAXSCRatch", ValueKind::Text)
                .accepted("a pool uses all scratch volumes of its library"),
            may("MIGPRocess", ValueKind::Text).accepted(BY_ITSELF),
            may("CRCData", ValueKind::Text).accepted("all data has checksums"),
            may("ACCess", ValueKind::Text).refused("set the access of volumes, or lock nodes"),
        ],
        update_pool,
        "`admin pool set`",
    ),
    Command {
        question: "Do you want to delete the storage pool?",
        ..command(
            "DELete",
            "STGpool",
            &[POOL],
            |request| {
                let pool = request.required("pool_name");
                let done = Message::done("ANR2201I", format!("Storage pool {pool} deleted."));
                Ok(Line::admin(["pool", "remove", &pool], done).plan())
            },
            "`admin pool remove`, which refuses a pool with data",
        )
    },
    command(
        "AUDit",
        "Volume",
        &[
            VOLUME,
            may("Fix", ValueKind::Text).accepted("damaged packs are repaired from other pools"),
            may("SKIPPartial", ValueKind::Text).accepted("the whole volume is read"),
            may("Quiet", ValueKind::Text).accepted("the report is short"),
            WAIT,
        ],
        |request| Ok(volume_line(request, "audit", "ANR2310I", "audited").plan()),
        "`admin volume audit`; `admin audit` reads pools outside of libraries",
    ),
    command(
        "MOVe",
        "Data",
        &[
            VOLUME,
            may("STGpool", ValueKind::Text).refused("data moves to other volumes of its pool"),
            may("SHREDTONOshred", ValueKind::Text).accepted("Holdfast does not shred"),
            may("RECONStruct", ValueKind::Text).accepted("only data that is needed moves"),
            WAIT,
        ],
        |request| Ok(volume_line(request, "move", "ANR1141I", "emptied").plan()),
        "`admin volume move`",
    ),
    Command {
        question: "Do you want to change the volume?",
        ..command(
            "UPDate",
            "Volume",
            &[
                VOLUME,
                need(
                    "ACCess",
                    ValueKind::Word(&[
                        "READWrite",
                        "READOnly",
                        "UNAVailable",
                        "DEStroyed",
                        "OFfsite",
                    ]),
                ),
                may("LOcation", ValueKind::Text),
                may("WHERESTGpool", ValueKind::Text).refused("give the volumes by name or pattern"),
                may("WHEREACCess", ValueKind::Text).refused("give the volumes by name or pattern"),
                may("WHERESTatus", ValueKind::Text).refused("give the volumes by name or pattern"),
            ],
            update_volume,
            "`admin volume set`, `admin volume offsite`",
        )
    },
    Command {
        question: "Do you want to delete the volume?",
        ..command(
            "DELete",
            "Volume",
            &[
                VOLUME,
                may("DISCARDdata", ValueKind::Word(&["No"])).accepted("data is never discarded"),
                WAIT,
            ],
            |request| Ok(volume_line(request, "remove", "ANR2208I", "deleted").plan()),
            "`admin volume remove`, which refuses a volume with data",
        )
    },
    command(
        "BAckup",
        "DB",
        &[
            may("DEVclass", ValueKind::Text).accepted("the copy goes to all pools"),
            may("Type", ValueKind::Word(&["Full", "Incremental", "DBSnapshot"]))
                .accepted("a copy sends only what the copy before lacks"),
            may("VOLumenames", ValueKind::Text).accepted("the copy goes to all pools"),
            may("NUMStreams", ValueKind::Text).accepted(BY_ITSELF),
            may("Scratch", ValueKind::Text).accepted(BY_ITSELF),
            may("COMPress", ValueKind::Text).accepted("copies are compressed"),
            may("PROTECTKeys", ValueKind::Text)
                .accepted("'holdfast server recovery' saves the keys"),
            may("PASSword", ValueKind::Text).accepted("'holdfast server recovery' saves the keys"),
            WAIT,
        ],
        |_| {
            let done = Message::done("ANR4550I", "Full database backup completed.");
            Ok(Line::admin(["catalog", "backup"], done).plan())
        },
        "`admin catalog backup`",
    ),
    command(
        "LABEl",
        "LIBVolume",
        &[
            LIBRARY,
            may("volume_name", ValueKind::Text),
            may("SEARCH", ValueKind::Word(&["Yes", "No", "Bulk"])),
            may("LABELSource", ValueKind::Text).accepted(BARCODES),
            may("CHECKIN", ValueKind::Word(&["SCRatch"])).accepted("a labelled volume is scratch"),
            may("OVERWRITE", ValueKind::YesNo),
            may("VOLList", ValueKind::List),
            may("VOLRange", ValueKind::Text).refused("give the volumes with VOLLIST"),
            WAIT_TIME,
        ],
        label,
        "`admin library checkin`, `admin volume label`",
    ),
    command(
        "CHECKIn",
        "LIBVolume",
        &[
            LIBRARY,
            may("volume_name", ValueKind::Text),
            may("STATus", ValueKind::Text).accepted("the label and the catalogue tell the status"),
            may("SEARCH", ValueKind::Word(&["Yes", "No", "Bulk"])),
            may("VOLList", ValueKind::List),
            may("VOLRange", ValueKind::Text).refused("give the volumes with VOLLIST"),
            LABEL_CHECK,
            may("DEVType", ValueKind::Text).accepted(BARCODES),
            may("SWAP", ValueKind::Text).accepted("volumes stay where they are"),
            may("OWNer", ValueKind::Text).accepted("every volume is the server's"),
            WAIT_TIME,
        ],
        check_in,
        "`admin library checkin` for volumes by name, and for all at the entry with SEARCH=BULK; \
         `admin library scan` with SEARCH=YES: volumes in slots are known by their barcodes",
    ),
    command(
        "CHECKOut",
        "LIBVolume",
        &[
            LIBRARY,
            need("volume_name", ValueKind::One(Noun::Volume)),
            may("REMove", ValueKind::Word(&["Yes", "Bulk"]))
                .accepted("the volume goes to the exit"),
            LABEL_CHECK,
            may("FORCE", ValueKind::Text).accepted(BARCODES),
        ],
        |request| {
            let library = request.required("library_name");
            let volume = request.required("volume_name");
            let text = format!("Volume {volume} checked out of library {library}.");
            let done = Message::done("ANR8438I", text);
            Ok(Line::admin(["library", "checkout", &library, &volume], done).plan())
        },
        "`admin library checkout`",
    ),
    command(
        "AUDit",
        "LIBRary",
        &[
            LIBRARY,
            may("CHECKLabel", ValueKind::Text).accepted(BARCODES),
            may("REFRESHstate", ValueKind::Text).accepted("the changer inspects every element"),
        ],
        |request| {
            let library = request.required("library_name");
            let text = format!("Library {library} audited.");
            let done = Message::done("ANR8461I", text);
            Ok(Line::admin(["library", "scan", &library], done).plan())
        },
        "`admin library scan`",
    ),
    command(
        "CLEAN",
        "DRIVE",
        &[LIBRARY, need("drive_name", ValueKind::Text)],
        |request| Ok(drive_line(request, "clean", "ANR8327I", "cleaned").plan()),
        "`admin library clean`",
    ),
    command(
        "UPDate",
        "DRive",
        &[
            LIBRARY,
            need("drive_name", ValueKind::Text),
            need("ONLine", ValueKind::Word(&["Yes"])),
            may("CLEANFREQuency", ValueKind::Text).accepted("a drive says when it wants cleaning"),
        ],
        |request| Ok(drive_line(request, "restore-drive", "ANR8465I", "updated").plan()),
        "`admin library restore-drive`",
    ),
    Command {
        question: "Do you want to delete the library?",
        ..command(
            "DELete",
            "LIBRary",
            &[LIBRARY],
            |request| {
                let library = request.required("library_name");
                let done = Message::done("ANR8410I", format!("Library {library} deleted."));
                Ok(Line::admin(["library", "remove", &library], done).plan())
            },
            "`admin library remove`",
        )
    },
    command(
        "CANcel",
        "SEssion",
        &[need("session_number", ValueKind::Text)],
        cancel_sessions,
        "`admin event cancel --node`; ALL stands for the sessions that run",
    ),
    command(
        "CANcel",
        "PRocess",
        &[need("process_number", ValueKind::Number)],
        |request| {
            let number = request.number("process_number").unwrap_or_default();
            Ok(Plan::Work(Work::CancelProcess { number }))
        },
        "`admin event cancel`",
    ),
    command(
        "CANcel",
        "REQuest",
        &[need("request_number", ValueKind::Text)],
        cancel_requests,
        "`admin queue cancel`; ALL stands for the requests that wait",
    ),
    Command {
        question: "Do you want to stop the server? Backups under way wait, and go on after it \
                   starts again.",
        ..command(
            "HALT",
            "",
            &[may("QUIesce", ValueKind::Text).accepted("the server stops in an orderly way")],
            |_| Ok(Plan::Work(Work::Halt)),
            "SIGTERM for `holdfast server run`, as its service manager sends it",
        )
    },
    program("Select", &[], Program::Select, "a database in memory, filled from `holdfast admin`"),
    program(
        "MACRO",
        &[
            need("file_name", ValueKind::Text),
            may("value_1", ValueKind::Text),
            may("value_2", ValueKind::Text),
            may("value_3", ValueKind::Text),
            may("value_4", ValueKind::Text),
            may("value_5", ValueKind::Text),
            may("value_6", ValueKind::Text),
            may("value_7", ValueKind::Text),
            may("value_8", ValueKind::Text),
            may("value_9", ValueKind::Text),
        ],
        Program::Macro,
        "the commands of a file, with %1 to %9 for the values",
    ),
    program(
        "Help",
        &[may("command", ValueKind::Text), may("subcommand", ValueKind::Text)],
        Program::Help,
        "a list of the commands, or of the parameters of one",
    ),
    program("QUIT", &[], Program::Quit, "ends the prompt"),
    program("LOGOff", &[], Program::Quit, "ends the prompt"),
    program("COMMIT", &[], Program::Commit, "nothing: each command is a transaction"),
    program("ROLLBack", &[], Program::Commit, "nothing: what a command has done stays done"),
    program("ITEMCommit", &[], Program::Commit, "nothing: each command is a transaction"),
];

/// Returns the number that a parameter has, or `None` for ALL.
fn number_or_all(request: &Request, name: &str) -> Result<Option<u64>, Message> {
    let given = request.required(name);
    if stands_for(&given, "ALl") {
        return Ok(None);
    }
    given.parse().map(Some).map_err(|_| {
        let (command, name) = (request.command.name(), name.to_uppercase());
        Message::invalid_value(&command, &name, &given, "a whole number, or ALL")
    })
}

fn cancel_sessions(request: &Request) -> Result<Plan, Message> {
    Ok(Plan::Work(match number_or_all(request, "session_number")? {
        Some(number) => Work::CancelSession { number },
        None => Work::CancelSessions,
    }))
}

fn cancel_requests(request: &Request) -> Result<Plan, Message> {
    let Some(number) = number_or_all(request, "request_number")? else {
        return Ok(Plan::Work(Work::CancelRequests));
    };
    let done = Message::done("ANR8348I", format!("Request {number} canceled."));
    Ok(Line::admin(["queue", "cancel", &number.to_string()], done).plan())
}

fn expire(request: &Request) -> Result<Plan, Message> {
    let line = |node: Option<&String>| {
        let whose = node.map_or_else(|| "all nodes".to_owned(), |node| format!("node {node}"));
        let done =
            Message::done("ANR0812I", format!("Inventory expiration completed for {whose}."));
        Line::admin(["expire"], done).option("--node", node.map(String::as_str))
    };
    let nodes = request.list("Node");
    if nodes.is_empty() {
        return Ok(line(None).plan());
    }
    Ok(Plan::Lines(nodes.iter().map(|node| line(Some(node))).collect()))
}

fn migrate(request: &Request) -> Result<Plan, Message> {
    let pool = request.required("pool_name");
    let low = request.number("LOwmig");
    if low.is_some_and(|low| low > 0) {
        let name = request.command.name();
        let reason = "give 0, or set the mark of the pool with UPDATE STGPOOL";
        return Err(Message::refused_parameter(&name, "LOWMIG", reason));
    }
    let done = Message::done("ANR1001I", format!("Migration of storage pool {pool} completed."));
    Ok(Line::admin(["pool", "drain", &pool], done)
        .switch("--all", low == Some(0))
        .plan())
}

fn update_pool(request: &Request) -> Result<Plan, Message> {
    let pool = request.required("pool_name");
    let done = Message::done("ANR2202I", format!("Storage pool {pool} updated."));
    let bare = Line::admin(["pool", "set", &pool], done.clone());
    let words = bare.words.len();
    let line = bare
        .option("--high", request.text("HIghmig"))
        .option("--low", request.text("LOwmig"))
        .option("--delay", request.text("MIGDelay"))
        .option("--next", request.text("NEXTstgpool"))
        .option("--reclaim", request.text("REClaim"))
        .option("--reuse-delay", request.text("REUsedelay"))
        .option("--collocate", request.text("COLlocate").map(str::to_lowercase));
    if line.words.len() == words { Ok(Plan::Nothing(done)) } else { Ok(line.plan()) }
}

/// Makes the line that works on the volumes of the request.
fn volume_line(request: &Request, verb: &str, number: &'static str, done: &str) -> Line {
    let volumes = request.list("volume_name");
    let noun = if volumes.len() == 1 { "Volume" } else { "Volumes" };
    let text = format!("{noun} {} {done}.", volumes.join(", "));
    let mut line = Line::admin(["volume", verb], Message::done(number, text));
    line.words.extend(volumes.iter().cloned());
    line
}

fn update_volume(request: &Request) -> Result<Plan, Message> {
    let access = request.required("ACCess");
    if access == "OFFSITE" {
        let line = volume_line(request, "offsite", "ANR2207I", "updated");
        return Ok(line.option("--location", request.text("LOcation")).plan());
    }
    if request.has("LOcation") {
        let reason = "only an offsite volume has a location: give ACCESS=OFFSITE";
        return Err(Message::refused_parameter(&request.command.name(), "LOCATION", reason));
    }
    let word = match access.as_str() {
        "READWRITE" => "read-write",
        "READONLY" => "read-only",
        "UNAVAILABLE" => "unavailable",
        _ => "destroyed",
    };
    let line = volume_line(request, "set", "ANR2207I", "updated").option("--access", Some(word));
    // The question of this command has been answered.
    Ok(line.switch("--confirm", word == "destroyed").plan())
}

fn label(request: &Request) -> Result<Plan, Message> {
    let library = request.required("library_name");
    let is_at_entry = request.text("SEARCH") == Some("BULK");
    let volumes = if is_at_entry { barcodes(request) } else { named_volumes(request) };
    let overwrites = request.is_yes("OVERWRITE");
    if overwrites && volumes.is_empty() {
        let name = request.command.name();
        let text = format!("{name}: Volumes are overwritten only by name; give VOLLIST.");
        return Err(Message::refusal("ANR2022E", ReturnCode::Syntax, text));
    }
    let mut lines = if is_at_entry { entry_lines(&library, &volumes) } else { Vec::new() };
    let done = Message::done("ANR8810I", format!("Volumes of library {library} labeled."));
    let mut line = Line::admin(["volume", "label", &library], done);
    line.words.extend(volumes);
    lines.push(line.switch("--overwrite", overwrites));
    Ok(Plan::Lines(lines))
}

/// Returns the volumes that the request names.
fn named_volumes(request: &Request) -> Vec<String> {
    let listed = request.list("VOLList").iter().map(String::as_str);
    listed.chain(request.text("volume_name")).map(str::to_owned).collect()
}

/// Returns the volumes that the request names, with the capital letters of barcodes.
fn barcodes(request: &Request) -> Vec<String> {
    named_volumes(request).iter().map(|volume| volume.to_uppercase()).collect()
}

/// Makes the lines that check in volumes at the entry of a library: all, if none is named.
fn entry_lines(library: &str, volumes: &[String]) -> Vec<Line> {
    if volumes.is_empty() {
        let text = format!("The volumes at the entry of library {library} are checked in.");
        let done = Message::done("ANR8427I", text);
        return vec![Line::admin(["library", "checkin", library], done)];
    }
    let line = |volume: &String| {
        let text = format!("Volume {volume} is checked in to library {library}.");
        let done = Message::done("ANR8427I", text);
        Line::admin(["library", "checkin", library, volume], done)
    };
    volumes.iter().map(line).collect()
}

/// Plans CHECKIN: volumes by name, or all at the entry, or all in slots.
fn check_in(request: &Request) -> Result<Plan, Message> {
    let (library, command) = (request.required("library_name"), request.command.name());
    let volumes = barcodes(request);
    match (request.text("SEARCH"), volumes.is_empty()) {
        (Some("YES"), true) => {
            let text = format!("The volumes in the slots of library {library} are checked in.");
            let done = Message::done("ANR8427I", text);
            Ok(Line::admin(["library", "scan", &library], done).plan())
        }
        (Some("YES"), false) => {
            let reason = "it is for all volumes in slots; a volume by name is taken from the entry";
            Err(Message::refused_parameter(&command, "SEARCH=YES", reason))
        }
        (None | Some("NO"), true) => {
            Err(Message::missing_parameter(&command, "VOLUME_NAME, or SEARCH=BULK"))
        }
        _ => Ok(Plan::Lines(entry_lines(&library, &volumes))),
    }
}

fn drive_line(request: &Request, verb: &str, number: &'static str, done: &str) -> Line {
    let (library, drive) = (request.required("library_name"), request.required("drive_name"));
    let text = format!("Drive {drive} of library {library} {done}.");
    Line::admin(["library", verb, &library, &drive], Message::done(number, text))
}
