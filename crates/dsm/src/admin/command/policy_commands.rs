//! Commands that change policy. A domain of Holdfast has one draft; each name of a policy set but
//! ACTIVE means this draft.

use super::definition::{Command, Request, command};
use super::parameter::{Noun, Parameter, ValueKind, may, need};
use super::plan::{Condition, Line, Plan, Work};
use crate::admin::abbreviation::stands_for;
use crate::admin::message::{Message, ReturnCode};

const DOMAIN: Parameter = need("domain_name", ValueKind::One(Noun::Domain));
const SET: Parameter = need("policy_set_name", ValueKind::Text);
const CLASS: Parameter = need("class_name", ValueKind::Text);
const GROUP: Parameter =
    may("copygroup_name", ValueKind::Text).accepted("a class has one of each kind");
const NO_DESCRIPTIONS: &str = "objects of policy have no descriptions";
const DESCRIPTION: Parameter = may("DESCription", ValueKind::Text).accepted(NO_DESCRIPTIONS);
const POOLS: &str = "pools take data by themselves, in the order of 'holdfast admin pool list'";
const DESTINATION: Parameter = may("DESTination", ValueKind::Text).accepted(POOLS);
const KIND: Parameter = may("Type", ValueKind::Word(&["Backup", "Archive"]));
const MIGRATION: &str = "each managed file system has rules of its own: 'holdfast hsm policy'";
const TECHNIQUE: Parameter = may("SPACEMGTECHnique", ValueKind::Text).accepted(MIGRATION);
const NON_USE: Parameter = may("AUTOMIGNOnuse", ValueKind::Text).accepted(MIGRATION);
const NEEDS_BACKUP: Parameter = may("MIGREQUIRESBkup", ValueKind::Text).accepted(MIGRATION);
const MIGRATES_TO: Parameter = may("MIGDESTination", ValueKind::Text).accepted(POOLS);
const BACKUP_GRACE: Parameter = may("BACKRETention", ValueKind::Number);
const ARCHIVE_GRACE: Parameter = may("ARCHRETention", ValueKind::Number);

const COPY_GROUP: [Parameter; 18] = [
    DOMAIN,
    SET,
    CLASS,
    GROUP,
    KIND,
    DESTINATION,
    may("TOCDestination", ValueKind::Text).accepted(POOLS),
    may("FREQuency", ValueKind::Text),
    may("VERExists", ValueKind::Text),
    may("VERDeleted", ValueKind::Text),
    may("RETExtra", ValueKind::Text),
    may("RETOnly", ValueKind::Text),
    may("MODE", ValueKind::Word(&["MODified", "ABSolute"])),
    may("SERialization", ValueKind::Word(&["SHRSTatic", "STatic", "SHRDYnamic", "DYnamic"])),
    may("RETVer", ValueKind::Text),
    may("RETInit", ValueKind::Word(&["CREATion", "EVent"])),
    may("RETMin", ValueKind::Number),
    DESCRIPTION,
];

pub(super) static COMMANDS: &[Command] = &[
    command(
        "DEFine",
        "DOmain",
        &[
            need("domain_name", ValueKind::New(Noun::Domain)),
            DESCRIPTION,
            BACKUP_GRACE,
            ARCHIVE_GRACE,
            may("ACTIVEDESTination", ValueKind::Text).accepted(POOLS),
        ],
        define_domain,
        "`admin domain add`, `admin policy grace`",
    ),
    command(
        "UPDate",
        "DOmain",
        &[DOMAIN, DESCRIPTION, BACKUP_GRACE, ARCHIVE_GRACE],
        update_domain,
        "`admin policy grace`, in the draft",
    ),
    Command {
        question: "Do you want to delete the policy domain?",
        ..command(
            "DELete",
            "DOmain",
            &[DOMAIN],
            |request| {
                let domain = request.required("domain_name");
                let text = format!("Policy domain {domain} deleted.");
                let done = Message::done("ANR1501I", text);
                Ok(Line::admin(["domain", "remove", &domain], done).plan())
            },
            "`admin domain remove`",
        )
    },
    command(
        "COPy",
        "DOmain",
        &[
            need("from_domain", ValueKind::One(Noun::Domain)),
            need("to_domain", ValueKind::New(Noun::Domain)),
        ],
        |request| {
            let (from, to) = (request.required("from_domain"), request.required("to_domain"));
            Ok(Plan::Work(Work::CopyDomain { from, to }))
        },
        "`admin domain add`, and `admin policy class` for each class",
    ),
    command(
        "DEFine",
        "POlicyset",
        &[DOMAIN, SET, DESCRIPTION],
        |request| one_draft(request, "ANR1510I", "defined"),
        "nothing: the first change of a domain makes its draft",
    ),
    command(
        "UPDate",
        "POlicyset",
        &[DOMAIN, SET, DESCRIPTION],
        |request| one_draft(request, "ANR1512I", "updated"),
        "nothing: sets have no descriptions",
    ),
    command(
        "COPy",
        "POlicyset",
        &[DOMAIN, need("from_set", ValueKind::Text), SET],
        |request| one_draft(request, "ANR1513I", "copied"),
        "nothing: the draft begins as a copy of the active set",
    ),
    Command {
        question: "Do you want to discard the draft?",
        ..command(
            "DELete",
            "POlicyset",
            &[DOMAIN, SET],
            |request| {
                let (domain, _) = draft(request)?;
                let text = format!("The draft of policy domain {domain} is discarded.");
                let done = Message::done("ANR1511I", text);
                Ok(Line::admin(["policy", "discard"], done).option("--domain", Some(domain)).plan())
            },
            "`admin policy discard`",
        )
    },
    command(
        "VALidate",
        "POlicyset",
        &[DOMAIN, SET],
        |request| {
            let (domain, set) = draft(request)?;
            let text = format!("Policy set {set} validated in domain {domain}.");
            let done = Message::done("ANR1515I", text);
            let line = Line::admin(["policy", "diff"], done).option("--domain", Some(&domain));
            Ok(line.report().provided(Condition::Activatable { domain }).plan())
        },
        "`admin policy diff`; `admin policy simulate` counts what would expire",
    ),
    Command {
        question: "Do you want to activate the policy set?",
        ..command(
            "ACTivate",
            "POlicyset",
            &[DOMAIN, SET],
            |request| {
                let (domain, set) = draft(request)?;
                Ok(Plan::Work(Work::ActivateSet { domain, set }))
            },
            "`admin policy activate`, which refuses a draft that would expire most versions",
        )
    },
    command(
        "ASsign",
        "DEFMGmtclass",
        &[DOMAIN, SET, CLASS],
        |request| {
            let (domain, set) = draft(request)?;
            let class = request.required("class_name");
            let text = format!(
                "Default management class set to {class} for policy domain {domain}, set {set}."
            );
            let done = Message::done("ANR1538I", text);
            Ok(Line::admin(["policy", "default", &class], done)
                .option("--domain", Some(domain))
                .plan())
        },
        "`admin policy default`",
    ),
    command(
        "DEFine",
        "MGmtclass",
        &[DOMAIN, SET, CLASS, DESCRIPTION, TECHNIQUE, NON_USE, NEEDS_BACKUP, MIGRATES_TO],
        |request| {
            let (domain, set) = draft(request)?;
            let class = request.required("class_name");
            let text =
                format!("Management class {class} defined in policy domain {domain}, set {set}.");
            let line = class_line(&domain, &class, Message::done("ANR1520I", text));
            Ok(line.provided(Condition::NewClass { domain, class }).plan())
        },
        "`admin policy class`",
    ),
    command(
        "UPDate",
        "MGmtclass",
        &[DOMAIN, SET, CLASS, DESCRIPTION, TECHNIQUE, NON_USE, NEEDS_BACKUP, MIGRATES_TO],
        |request| {
            draft(request)?;
            let class = request.required("class_name");
            let text = format!("Nothing of management class {class} needs to be changed.");
            Ok(Plan::Nothing(Message::done("ANR1522I", text)))
        },
        "nothing: the rules of a class are in its copy groups",
    ),
    Command {
        question: "Do you want to delete the management class?",
        ..command(
            "DELete",
            "MGmtclass",
            &[DOMAIN, SET, CLASS],
            |request| {
                let (domain, set) = draft(request)?;
                let class = request.required("class_name");
                let text = format!(
                    "Management class {class} deleted from policy domain {domain}, set {set}."
                );
                let done = Message::done("ANR1521I", text);
                Ok(Line::admin(["policy", "remove-class", &class], done)
                    .option("--domain", Some(domain))
                    .plan())
            },
            "`admin policy remove-class`",
        )
    },
    command(
        "COPy",
        "MGmtclass",
        &[DOMAIN, SET, CLASS, need("new_class_name", ValueKind::Text)],
        |request| {
            let (domain, _) = draft(request)?;
            let from = request.required("class_name");
            let to = request.required("new_class_name");
            Ok(Plan::Work(Work::CopyClass { domain, from, to }))
        },
        "`admin policy class`",
    ),
    command(
        "DEFine",
        "COpygroup",
        &COPY_GROUP,
        |request| copy_group(request, true),
        "`admin policy class`",
    ),
    command(
        "UPDate",
        "COpygroup",
        &COPY_GROUP,
        |request| copy_group(request, false),
        "`admin policy class`",
    ),
    Command {
        question: "Do you want to delete the copy group?",
        ..command(
            "DELete",
            "COpygroup",
            &[DOMAIN, SET, CLASS, GROUP, KIND],
            delete_copy_group,
            "`admin policy class --no-backup`, `--no-archive`",
        )
    },
];

/// Returns the domain and the name of the set, which must not be the active one.
fn draft(request: &Request) -> Result<(String, String), Message> {
    let (domain, set) = (request.required("domain_name"), request.required("policy_set_name"));
    if set.eq_ignore_ascii_case("ACTIVE") {
        let text = format!(
            "{}: The set ACTIVE cannot be changed; change the draft, and activate it.",
            request.command.name()
        );
        return Err(Message::refusal("ANR1557E", ReturnCode::Failure, text));
    }
    Ok((domain, set.to_uppercase()))
}

fn one_draft(request: &Request, number: &'static str, verb: &str) -> Result<Plan, Message> {
    let (domain, set) = draft(request)?;
    let text = format!(
        "Policy set {set} {verb} in policy domain {domain}. It is the one draft of the domain."
    );
    Ok(Plan::Nothing(Message::done(number, text)))
}

fn grace(request: &Request, domain: &str, done: Message) -> Option<Line> {
    let days = |name| request.text(name).map(str::to_owned);
    let (backup, archive) = (days("BACKRETention"), days("ARCHRETention"));
    if backup.is_none() && archive.is_none() {
        return None;
    }
    let line = Line::admin(["policy", "grace"], done)
        .option("--domain", Some(domain))
        .option("--backretention", backup)
        .option("--archretention", archive);
    Some(line)
}

fn define_domain(request: &Request) -> Result<Plan, Message> {
    let domain = request.required("domain_name");
    let done = Message::done("ANR1500I", format!("Policy domain {domain} defined."));
    let mut lines = vec![Line::admin(["domain", "add", &domain], done)];
    let text = format!("The grace periods of policy domain {domain} are in its draft.");
    lines.extend(grace(request, &domain, Message::done("ANR1502I", text)));
    Ok(Plan::Lines(lines))
}

fn update_domain(request: &Request) -> Result<Plan, Message> {
    let domain = request.required("domain_name");
    let text = format!("Policy domain {domain} updated. The draft has the change.");
    let done = Message::done("ANR1502I", text);
    let nothing = format!("Nothing of policy domain {domain} needs to be changed.");
    let plan = grace(request, &domain, done).map(Line::plan);
    Ok(plan.unwrap_or_else(|| Plan::Nothing(Message::done("ANR1502I", nothing))))
}

fn class_line(domain: &str, class: &str, done: Message) -> Line {
    Line::admin(["policy", "class", class], done).option("--domain", Some(domain))
}

/// Rules of copy groups, with TSM's values for a group that is defined without them.
const BACKUP_RULES: [(&str, &str, &str); 7] = [
    ("VERExists", "--verexists", "2"),
    ("VERDeleted", "--verdeleted", "1"),
    ("RETExtra", "--retextra", "30"),
    ("RETOnly", "--retonly", "60"),
    ("MODE", "--mode", "modified"),
    ("SERialization", "--serialization", "shrstatic"),
    ("FREQuency", "--frequency", "0"),
];
const ARCHIVE_RULES: [(&str, &str, &str); 3] = [
    ("RETVer", "--retver", "365"),
    ("RETInit", "--retinit", "creation"),
    ("RETMin", "--retmin", "365"),
];

fn copy_group(request: &Request, is_new: bool) -> Result<Plan, Message> {
    let (domain, set) = draft(request)?;
    let class = request.required("class_name");
    let is_archive = request.text("Type") == Some("ARCHIVE");
    let (own, others): (&[_], &[_]) = match is_archive {
        true => (&ARCHIVE_RULES, &BACKUP_RULES),
        false => (&BACKUP_RULES, &ARCHIVE_RULES),
    };
    // An archive copy group has a mode and a serialization in TSM, which say nothing.
    let says_nothing =
        |name: &str| is_archive && matches!(name, "MODE" | "SERialization" | "FREQuency");
    if let Some((name, ..)) =
        others.iter().find(|(name, ..)| request.has(name) && !says_nothing(name))
    {
        return Err(Message::invalid_parameter(&request.command.name(), &name.to_uppercase()));
    }
    let (number, kind) = match (is_archive, is_new) {
        (false, true) => ("ANR1530I", "Backup"),
        (false, false) => ("ANR1532I", "Backup"),
        (true, true) => ("ANR1535I", "Archive"),
        (true, false) => ("ANR1537I", "Archive"),
    };
    let verb = if is_new { "defined" } else { "updated" };
    let text = format!(
        "{kind} copy group STANDARD {verb} in policy domain {domain}, set {set}, management class \
         {class}."
    );
    let mut line = class_line(&domain, &class, Message::done(number, text));
    for (name, option, default) in own {
        // RETMIN counts only with RETINIT=EVENT.
        let is_default = is_new && (*name != "RETMin" || request.text("RETInit") == Some("EVENT"));
        let value = request.text(name).or(is_default.then_some(*default));
        line = line.option(option, value.map(limit));
    }
    Ok(line.plan())
}

/// Returns the value of a rule in full.
fn limit(value: &str) -> String {
    if stands_for(value, "NOLimit") { "nolimit".to_owned() } else { value.to_lowercase() }
}

fn delete_copy_group(request: &Request) -> Result<Plan, Message> {
    let (domain, set) = draft(request)?;
    let class = request.required("class_name");
    let (number, kind, option) = match request.text("Type") {
        Some("ARCHIVE") => ("ANR1536I", "Archive", "--no-archive"),
        _ => ("ANR1531I", "Backup", "--no-backup"),
    };
    let text = format!(
        "{kind} copy group STANDARD deleted from policy domain {domain}, set {set}, management \
         class {class}."
    );
    Ok(class_line(&domain, &class, Message::done(number, text))
        .switch(option, true)
        .plan())
}
