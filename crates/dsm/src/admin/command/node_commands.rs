//! Commands that change nodes.

use super::definition::{Action, Command, Request};
use super::parameter::{Noun, Parameter, ValueKind, WAIT, may, need};
use super::plan::{Line, Plan, Work};
use crate::admin::message::{Message, ReturnCode};

const CERTIFICATES: &str = "a password enrols a node, which has a certificate from then on";
/// Minimum number of bytes of a password that enrols a node.
const PASSWORD_BYTES_MIN: usize = 8;
/// Maximum number of days until a password, or the token in its place, ends.
const PASSWORD_DAYS_MAX: u64 = 30;
const CLIENT_DECIDES: &str = "the client chooses it for each backup";

const PASSWORD: Parameter = may("password", ValueKind::Text);
const DOMAIN: Parameter = may("DOmain", ValueKind::One(Noun::Domain));
const OPTION_SET: Parameter = may("CLOptset", ValueKind::Text);
const ARCHIVE_DELETE: Parameter = may("ARCHDELete", ValueKind::YesNo);
const BACKUP_DELETE: Parameter = may("BACKDELete", ValueKind::YesNo);

/// Parameters of nodes that need nothing here.
const CONTACT: Parameter = may("CONtact", ValueKind::Text)
    .accepted("nodes have labels and no contacts: 'holdfast admin node set NODE --label'");
const COMPRESSION: Parameter = may("COMPression", ValueKind::Text).accepted(CLIENT_DECIDES);
const EXPIRY: Parameter = may("PASSExp", ValueKind::Number);
const FORCE_RESET: Parameter = may("FORCEPwreset", ValueKind::Text).accepted(CERTIFICATES);
const MOUNTS: Parameter =
    may("MAXNUMMP", ValueKind::Text).accepted("the library limits its mounts");
const KEEP_MOUNT: Parameter =
    may("KEEPMP", ValueKind::Text).accepted("the library keeps its mounts");
const DEDUPLICATION: Parameter =
    may("DEDUPlication", ValueKind::Text).accepted("client and server deduplicate always");
const SECURITY: Parameter =
    may("SESSIONSECurity", ValueKind::Text).accepted("every session is encrypted with TLS 1.3");
const GROUP_MAX: Parameter = may("TXNGroupmax", ValueKind::Text).accepted(CLIENT_DECIDES);
const USER: Parameter =
    may("USerid", ValueKind::Text).accepted("no administrator belongs to a node");
const KIND: Parameter =
    may("Type", ValueKind::Word(&["Client"])).accepted("every node is a client");
const URL: Parameter = may("URL", ValueKind::Text).accepted("nodes have no page of their own");
const INITIATION: Parameter =
    may("SESSIONINITiation", ValueKind::Text).accepted("the agent keeps the connection open");
const COLLOCATION: Parameter = may("COLLOCGroup", ValueKind::Text);
const EMAIL: Parameter = may("EMAILADdress", ValueKind::Text);

pub(super) static COMMANDS: &[Command] = &[
    Command {
        verb: "REGister",
        noun: "Node",
        parameters: &[
            need("node_name", ValueKind::New(Noun::Node)),
            PASSWORD,
            DOMAIN,
            OPTION_SET,
            ARCHIVE_DELETE,
            BACKUP_DELETE,
            EMAIL,
            CONTACT,
            COMPRESSION,
            EXPIRY,
            FORCE_RESET,
            MOUNTS,
            KEEP_MOUNT,
            DEDUPLICATION,
            SECURITY,
            GROUP_MAX,
            USER,
            KIND,
            URL,
            INITIATION,
        ],
        action: Action::Order(register),
        becomes: "`admin node add --password`, with which the node enrols until PASSEXP, at most \
                  30 days; a shorter password than 8 characters gives a token; `admin node set`; \
                  `admin api PATCH` for EMAILADDRESS",
        question: "",
    },
    Command {
        verb: "UPDate",
        noun: "Node",
        parameters: &[
            need("node_name", ValueKind::Several(Noun::Node)),
            PASSWORD,
            DOMAIN,
            OPTION_SET,
            COLLOCATION,
            ARCHIVE_DELETE,
            BACKUP_DELETE,
            EMAIL,
            CONTACT,
            COMPRESSION,
            EXPIRY,
            FORCE_RESET,
            MOUNTS,
            KEEP_MOUNT,
            DEDUPLICATION,
            SECURITY,
            GROUP_MAX,
            URL,
            INITIATION,
        ],
        action: Action::Order(update),
        becomes: "`admin node set`; with a password `admin node add --again --password`, until \
                  PASSEXP, at most 30 days; `admin api PATCH` for EMAILADDRESS",
        question: "",
    },
    Command {
        verb: "REName",
        noun: "Node",
        parameters: &[
            need("node_name", ValueKind::One(Noun::Node)),
            need("new_node_name", ValueKind::New(Noun::Node)),
        ],
        action: Action::Order(|request| {
            let (old, new) = (request.required("node_name"), request.required("new_node_name"));
            let done = Message::done("ANR2062I", format!("Node {old} renamed to {new}."));
            Ok(Line::admin(["node", "rename", &old, &new], done).plan())
        }),
        becomes: "`admin node rename`",
        question: "",
    },
    Command {
        verb: "LOCK",
        noun: "Node",
        parameters: &[need("node_name", ValueKind::Several(Noun::Node))],
        action: Action::Order(|request| {
            each(request, "lock", |node| Message::done("ANR2064I", format!("Node {node} locked.")))
        }),
        becomes: "`admin node lock`",
        question: "",
    },
    Command {
        verb: "UNLOCK",
        noun: "Node",
        parameters: &[need("node_name", ValueKind::Several(Noun::Node))],
        action: Action::Order(|request| {
            each(request, "unlock", |node| {
                Message::done("ANR2065I", format!("Node {node} unlocked."))
            })
        }),
        becomes: "`admin node unlock`",
        question: "",
    },
    Command {
        verb: "REMove",
        noun: "Node",
        parameters: &[need("node_name", ValueKind::Several(Noun::Node))],
        action: Action::Order(|request| {
            each(request, "remove", |node| {
                Message::done("ANR2061I", format!("Node {node} removed."))
            })
        }),
        becomes: "`admin node remove`, which refuses a node that has data",
        question: "Do you want to remove the node?",
    },
    Command {
        verb: "DELete",
        noun: "FIlespace",
        parameters: &[
            need("node_name", ValueKind::One(Noun::Node)),
            need("filespace_name", ValueKind::List),
            may("Type", ValueKind::Word(&["ANY", "Backup", "Archive", "SPacemanaged"])),
            WAIT,
            may("NAMEType", ValueKind::Word(&["SERVER", "UNIcode", "FSID"])),
            may("CODEType", ValueKind::Text).accepted("a name is its bytes"),
            may("DAta", ValueKind::Word(&["ANY", "FIles", "IMages"])),
            may("OWNer", ValueKind::Text).refused("all backups of a filespace go together"),
        ],
        action: Action::Order(delete_filespaces),
        becomes: "`admin filespace remove`: all backups go, and archives stay",
        question: "Do you want to delete all backups of the filespace?",
    },
];

/// Makes a line for each node.
fn each(request: &Request, verb: &str, done: fn(&str) -> Message) -> Result<Plan, Message> {
    let nodes = request.list("node_name").iter();
    let lines = nodes.map(|node| Line::admin(["node", verb, node], done(node)));
    Ok(Plan::Lines(lines.collect()))
}

fn delete_filespaces(request: &Request) -> Result<Plan, Message> {
    if matches!(request.text("Type"), Some("ARCHIVE" | "SPACEMANAGED")) {
        let text = "DELETE FILESPACE: Only backups are deleted here; the node deletes its archives \
                    by 'holdfast delete --archive'.";
        return Err(Message::refusal("ANR2032E", ReturnCode::Failure, text));
    }
    if matches!(request.text("DAta"), Some("FILES" | "IMAGES")) {
        let text = "DELETE FILESPACE: All backups of a filespace go together: DATA=ANY.";
        return Err(Message::refusal("ANR2032E", ReturnCode::Failure, text));
    }
    Ok(Plan::Work(Work::RemoveFilespaces {
        node: request.required("node_name"),
        names: request.list("filespace_name").to_vec(),
        are_numbers: request.text("NAMEType") == Some("FSID"),
    }))
}

fn register(request: &Request) -> Result<Plan, Message> {
    let node = request.required("node_name");
    let domain = request.text("DOmain").unwrap_or("STANDARD");
    let password = request.text("password").filter(|password| is_long(password));
    let mut text = format!("Node {node} registered in policy domain {domain}.");
    if request.has("password") && password.is_none() {
        text.push_str(
            " The password is shorter than 8 characters; the node enrols with the token.",
        );
    }
    let add = Line::admin(["node", "add", &node], Message::done("ANR2060I", text))
        .option("--domain", request.text("DOmain"))
        .option("--expires", lifetime(request))
        .option("--password", password);
    let mut lines = vec![add.report()];
    lines.extend(settings(request, &node, false));
    lines.extend(mail(request, &node)?);
    Ok(Plan::Lines(lines))
}

fn update(request: &Request) -> Result<Plan, Message> {
    let nodes = request.list("node_name");
    let password = request.text("password");
    if password.is_some_and(|password| !is_long(password)) {
        let text = format!(
            "UPDATE NODE: The password must have at least {PASSWORD_BYTES_MIN} characters."
        );
        return Err(Message::refusal("ANR2020E", ReturnCode::Syntax, text));
    }
    let mut lines: Vec<Line> = Vec::new();
    for node in nodes {
        lines.extend(password.map(|password| renewed(request, node, password)));
        lines.extend(settings(request, node, true));
        lines.extend(mail(request, node)?);
    }
    if lines.is_empty() {
        let text = format!("Nothing of {} needs to be changed.", nodes.join(", "));
        return Ok(Plan::Nothing(Message::done("ANR2063I", text)));
    }
    Ok(Plan::Lines(lines))
}

/// Returns the line that gives a node its settings, if the request has any.
fn settings(request: &Request, node: &str, is_update: bool) -> Option<Line> {
    let done = Message::done("ANR2063I", format!("Node {node} updated."));
    let bare = Line::admin(["node", "set", node], done);
    let words = bare.words.len();
    let domain = if is_update { request.text("DOmain") } else { None };
    let group = if is_update { request.text("COLLOCGroup") } else { None };
    let line = bare
        .option("--domain", domain)
        .option("--optionset", request.text("CLOptset"))
        .option("--collocation-group", group)
        .option("--archdelete", request.text("ARCHDELete"))
        .option("--backdelete", request.text("BACKDELete"));
    (line.words.len() > words).then_some(line)
}

/// Returns the line that gives a node the address of its mail, if the request has one.
fn mail(request: &Request, node: &str) -> Result<Option<Line>, Message> {
    let Some(mail) = request.text("EMAILADdress") else { return Ok(None) };
    // The address stands in a JSON document as it is.
    let is_plain = |letter: char| !letter.is_control() && !matches!(letter, '"' | '\\');
    if !mail.chars().all(is_plain) {
        let text = "EMAILADDRESS: An address has no quotation marks and no backslashes.";
        return Err(Message::refusal("ANR2020E", ReturnCode::Syntax, text));
    }
    let done = Message::done("ANR2063I", format!("Node {node} updated."));
    let path = format!("/v1/nodes/{node}");
    let document = format!("{{\"mail\":\"{mail}\"}}");
    let line = Line::admin(["api", "PATCH", &path], done).option("--data", Some(document));
    Ok(Some(line.silent()))
}

/// Returns true if a password can enrol a node.
fn is_long(password: &str) -> bool {
    password.len() >= PASSWORD_BYTES_MIN
}

/// Returns the time until a password ends, if the request has one. The value 0 stands for no end.
fn lifetime(request: &Request) -> Option<String> {
    let days = match request.number("PASSExp")? {
        0 => PASSWORD_DAYS_MAX,
        days => days.min(PASSWORD_DAYS_MAX),
    };
    Some(format!("{days}d"))
}

/// Returns the line that lets a node enrol anew with a password.
fn renewed(request: &Request, node: &str, password: &str) -> Line {
    let done = Message::done("ANR2063I", format!("Node {node} updated."));
    Line::admin(["node", "add", node, "--again"], done)
        .option("--expires", lifetime(request))
        .option("--password", Some(password))
        .report()
}
