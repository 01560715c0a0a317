//! `holdfast admin policy`: drafts of policy sets, their effect, and their activation.

use client::admin::{
    Admin, ArchiveGroupChange, BackupGroupChange, ClassChange, Domain, ManagementClass,
    PolicyDifference, PolicyEdit, PolicyReview, PolicySet,
};
use model::ServerTime;
use policy::{Limit, Mode, RetentionStart, Serialization};
use serde::Serialize;
use serde_json::Value;

use super::expire::{OutcomeDocument, follow};
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::moment;
use crate::quantity;
use crate::table::{self, Align};

/// Edit a draft of a domain's policy, see its effect, and activate it
///
/// All edits go to a draft until 'activate'. Without --domain the domain is STANDARD.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast policy class STANDARD --retextra 90
  holdfast admin --server /srv/holdfast policy simulate
  holdfast admin --server /srv/holdfast policy activate")]
pub(crate) struct Args {
    /// The policy domain
    #[arg(long, value_name = "DOMAIN", global = true, default_value = "STANDARD")]
    domain: String,
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(clap::Subcommand, Debug)]
enum PolicyCommand {
    /// Show the classes of the active set, or of the draft
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast policy show --draft")]
    Show(ShowArgs),
    Class(Box<ClassArgs>),
    /// Remove a class from the draft; its objects go to the default class
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast policy remove-class OLD")]
    RemoveClass(NameArgs),
    /// Choose the class of the objects that no statement binds
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast policy default LONG")]
    Default(NameArgs),
    Grace(GraceArgs),
    /// Show how the draft differs from the active set
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast policy diff")]
    Diff,
    /// Count what would expire if the draft were active
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast policy simulate")]
    Simulate,
    Activate(ActivateArgs),
    /// Discard the draft
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast policy discard")]
    Discard,
}

#[derive(clap::Args, Debug)]
struct ShowArgs {
    /// Show the draft instead of the active set
    #[arg(long)]
    draft: bool,
}

/// Make a class in the draft, or change some of its rules
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast policy class LEGAL --retextra 3650 --retonly 3650

A number of days or versions is 0 to 30000, or NOLIMIT.")]
struct ClassArgs {
    /// The class
    #[arg(value_name = "NAME")]
    name: String,
    /// Number of versions kept while the file exists, including the active one
    #[arg(long, value_name = "N")]
    verexists: Option<Limit>,
    /// Number of versions kept after the file is gone
    #[arg(long, value_name = "N")]
    verdeleted: Option<Limit>,
    /// Number of days that a version is kept after it became inactive
    #[arg(long, value_name = "DAYS")]
    retextra: Option<Limit>,
    /// Number of days that the last version of a file is kept after the file is gone
    #[arg(long, value_name = "DAYS")]
    retonly: Option<Limit>,
    /// Objects that a backup sends: modified (only changed objects) or absolute (all objects each
    /// time)
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// Minimum number of days between two backups of a file that changes
    #[arg(long, value_name = "DAYS")]
    frequency: Option<u32>,
    /// Treatment of a file that changes while it is read: static, shrstatic, shrdynamic, dynamic
    #[arg(long, value_name = "HOW")]
    serialization: Option<Serialization>,
    /// Number of days that an archive copy is kept
    #[arg(long, value_name = "DAYS")]
    retver: Option<Limit>,
    /// Start of the days of --retver: the creation of the archive copy, or an event
    #[arg(long, value_name = "creation|event")]
    retinit: Option<RetentionStart>,
    /// Minimum number of days that an archive copy is kept, however early its event happens
    #[arg(long, value_name = "DAYS")]
    retmin: Option<u32>,
    /// Time until which nobody can shorten or remove the class after its activation
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    lock_until: Option<ServerTime>,
    /// Remove the backup copy group, so that files of the class are not backed up
    #[arg(long)]
    no_backup: bool,
    /// Remove the archive copy group, so that files of the class are not archived
    #[arg(long)]
    no_archive: bool,
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// The class
    #[arg(value_name = "NAME")]
    name: String,
}

/// Set how long objects of classes without a copy group are kept
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast policy grace --backretention 60")]
struct GraceArgs {
    /// Number of days that backup versions are kept
    #[arg(long, value_name = "DAYS", required_unless_present = "archretention")]
    backretention: Option<u32>,
    /// Number of days that archive copies are kept
    #[arg(long, value_name = "DAYS")]
    archretention: Option<u32>,
}

/// Make the draft the active set
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast policy activate")]
struct ActivateArgs {
    /// Activate the draft even if most versions would expire
    #[arg(long)]
    confirm: bool,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let Args { domain, command } = args;
    match command {
        PolicyCommand::Show(args) => show(&domain, &args, admin, context)?,
        PolicyCommand::Class(args) => class(&domain, *args, admin, context)?,
        PolicyCommand::RemoveClass(args) => {
            let edit = PolicyEdit::RemoveClass { class: args.name };
            review(&admin.edit_policy(&domain, edit)?, context);
        }
        PolicyCommand::Default(args) => {
            let edit = PolicyEdit::DefaultClass { class: args.name };
            review(&admin.edit_policy(&domain, edit)?, context);
        }
        PolicyCommand::Grace(args) => {
            let GraceArgs { backretention: backup_days, archretention: archive_days } = args;
            let edit = PolicyEdit::Grace { backup_days, archive_days };
            review(&admin.edit_policy(&domain, edit)?, context);
        }
        PolicyCommand::Diff => review(&admin.review_policy(&domain)?, context),
        PolicyCommand::Simulate => simulate(&domain, admin, context)?,
        PolicyCommand::Activate(args) => {
            let reviewed = admin.activate_policy(&domain, args.confirm)?;
            let text = format!("The policy of domain {} is active.", reviewed.domain);
            tell(&reviewed, &text, context);
        }
        PolicyCommand::Discard => {
            let reviewed = admin.edit_policy(&domain, PolicyEdit::Discard)?;
            tell(
                &reviewed,
                &format!("The draft of domain {} is discarded.", reviewed.domain),
                context,
            );
        }
    }
    Ok(DONE)
}

fn class(
    domain: &str,
    args: ClassArgs,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<(), CommandError> {
    let backup = BackupGroupChange {
        versions_existing: args.verexists,
        versions_deleted: args.verdeleted,
        extra_days: args.retextra,
        only_days: args.retonly,
        mode: args.mode,
        frequency_days: args.frequency,
        serialization: args.serialization,
    };
    let archive = ArchiveGroupChange {
        keep_days: args.retver,
        starts: args.retinit,
        minimum_days: args.retmin,
    };
    let (no_backup, no_archive) = (args.no_backup, args.no_archive);
    if (no_backup && backup != BackupGroupChange::default())
        || (no_archive && archive != ArchiveGroupChange::default())
    {
        let message = "a copy group can be changed or removed, not both";
        return Err(CommandError::usage(message, "holdfast admin policy class"));
    }
    let name = args.name.clone();
    let change = ClassChange { name, backup, archive, locked_until: args.lock_until };
    let mut reviewed = admin.edit_policy(domain, PolicyEdit::PutClass(change))?;
    if no_backup || no_archive {
        let edit =
            PolicyEdit::RemoveGroups { class: args.name, backup: no_backup, archive: no_archive };
        reviewed = admin.edit_policy(domain, edit)?;
    }
    review(&reviewed, context);
    Ok(())
}

/// `policy diff --json`, and the result of an edit.
#[derive(Serialize)]
struct ReviewDocument<'a> {
    domain: &'a str,
    differences: Vec<DifferenceDocument<'a>>,
    problem: Option<&'a str>,
}

#[derive(Serialize)]
struct DifferenceDocument<'a> {
    class: Option<&'a str>,
    what: &'a str,
    /// Absent if there was no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Value>,
    keeps_less: bool,
}

impl<'a> ReviewDocument<'a> {
    fn new(review: &'a PolicyReview) -> Self {
        let difference = |difference: &'a PolicyDifference| DifferenceDocument {
            class: difference.class.as_deref(),
            what: &difference.rule,
            from: difference.from.as_deref().map(value),
            to: difference.to.as_deref().map(value),
            keeps_less: difference.keeps_less,
        };
        Self {
            domain: &review.domain,
            differences: review.differences.iter().map(difference).collect(),
            problem: review.problem.as_deref(),
        }
    }
}

fn tell(reviewed: &PolicyReview, text: &str, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&ReviewDocument::new(reviewed));
    } else if !context.output.quiet {
        context.output.text(text);
    }
}

/// Shows the differences of the draft.
fn review(review: &PolicyReview, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&ReviewDocument::new(review));
        return;
    }
    if review.differences.is_empty() {
        context
            .output
            .note("There is no draft, or it does not differ from the active set.");
        return;
    }
    context.output.text(&differences(&review.differences));
    if let Some(problem) = &review.problem {
        context.output.text(&format!("\nThe draft cannot be activated: {problem}\n"));
    }
}

fn differences(differences: &[PolicyDifference]) -> String {
    let columns = [
        ("Class", Align::Left),
        ("What", Align::Left),
        ("Active", Align::Right),
        ("Draft", Align::Right),
        ("", Align::Left),
    ];
    let cell = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
    let row = |difference: &PolicyDifference| {
        [
            cell(&difference.class),
            difference.rule.clone(),
            cell(&difference.from),
            cell(&difference.to),
            if difference.keeps_less { "keeps less" } else { "" }.to_owned(),
        ]
    };
    table::render(columns, &differences.iter().map(row).collect::<Vec<_>>())
}

fn simulate(domain: &str, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let outcome = follow(context, |visit| admin.simulate_policy(domain, visit))?;
    if context.output.is_json() {
        context.output.json(&OutcomeDocument::new(&outcome, true));
        return Ok(());
    }
    let text = format!(
        "Activating the draft will expire {}, {}, of {}; {} of them {} due anyway.\n\
         {} {} examined.\n",
        quantity::counted(outcome.expired, "version"),
        quantity::bytes_with_unit(outcome.expired_bytes),
        quantity::counted(outcome.nodes, "node"),
        quantity::count(outcome.due_anyway),
        quantity::are(outcome.due_anyway),
        quantity::counted(outcome.examined, "inactive version"),
        if outcome.examined == 1 { "was" } else { "were" },
    );
    context.output.text(&text);
    Ok(())
}

/// `policy show --json`.
#[derive(Serialize)]
struct SetDocument<'a> {
    domain: &'a str,
    draft: bool,
    default_class: &'a str,
    backretention: u32,
    archretention: u32,
    classes: Vec<ClassDocument<'a>>,
}

#[derive(Serialize)]
struct ClassDocument<'a> {
    class: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<BackupDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<ArchiveDocument>,
    locked_until: Option<String>,
}

/// A limit in a document: a number, or null for NOLIMIT.
#[derive(Serialize)]
#[serde(transparent)]
struct LimitDocument(Option<u16>);

impl From<Limit> for LimitDocument {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::AtMost(number) => Self(Some(number)),
            Limit::Unlimited => Self(None),
        }
    }
}

/// A value of a rule in a document: a number, null for NOLIMIT, or a word.
fn value(text: &str) -> Value {
    match text.parse::<u64>() {
        Ok(number) => number.into(),
        Err(_) if text == Limit::Unlimited.to_string() => Value::Null,
        Err(_) => text.into(),
    }
}

#[derive(Serialize)]
struct BackupDocument {
    verexists: LimitDocument,
    verdeleted: LimitDocument,
    retextra: LimitDocument,
    retonly: LimitDocument,
    mode: String,
    frequency: u16,
    serialization: String,
}

#[derive(Serialize)]
struct ArchiveDocument {
    retver: LimitDocument,
    retinit: String,
    retmin: u16,
}

impl<'a> ClassDocument<'a> {
    fn new(class: &'a ManagementClass) -> Self {
        let backup = class.backup.as_ref().map(|group| BackupDocument {
            verexists: group.versions_existing_max.into(),
            verdeleted: group.versions_deleted_max.into(),
            retextra: group.extra_days.into(),
            retonly: group.only_days.into(),
            mode: group.mode.to_string(),
            frequency: group.frequency_days,
            serialization: group.serialization.to_string(),
        });
        let archive = class.archive.as_ref().map(|group| ArchiveDocument {
            retver: group.keep_days.into(),
            retinit: group.starts.to_string(),
            retmin: group.minimum_days,
        });
        Self {
            class: &class.name,
            backup,
            archive,
            locked_until: class.locked_until.map(moment::rfc3339),
        }
    }
}

fn show(
    domain: &str,
    args: &ShowArgs,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<(), CommandError> {
    for Domain { name, active, draft, .. } in admin.domains(Some(domain))? {
        let set = match (args.draft, draft) {
            (false, _) => active,
            (true, Some(draft)) => draft,
            (true, None) => {
                return Err(CommandError::new(format!("domain {name} has no draft")));
            }
        };
        if context.output.is_json() {
            context.output.json(&SetDocument {
                domain: &name,
                draft: args.draft,
                default_class: &set.default_class,
                backretention: set.backup_grace_days,
                archretention: set.archive_grace_days,
                classes: set.classes.iter().map(ClassDocument::new).collect(),
            });
        } else {
            context.output.text(&set_text(&name, &set));
        }
    }
    Ok(())
}

fn set_text(domain: &str, set: &PolicySet) -> String {
    let columns = [
        ("Class", Align::Left),
        ("VEREXISTS", Align::Right),
        ("VERDELETED", Align::Right),
        ("RETEXTRA", Align::Right),
        ("RETONLY", Align::Right),
        ("Mode", Align::Left),
        ("Frequency", Align::Right),
        ("Serialization", Align::Left),
        ("RETVER", Align::Right),
        ("RETINIT", Align::Left),
        ("RETMIN", Align::Right),
        ("Locked until", Align::Left),
    ];
    let cell = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let limit = |limit: Option<&LimitDocument>| match limit {
        None => "-".to_owned(),
        Some(LimitDocument(None)) => Limit::Unlimited.to_string(),
        Some(LimitDocument(Some(number))) => number.to_string(),
    };
    let row = |class: &ManagementClass| {
        let document = ClassDocument::new(class);
        let (backup, archive) = (document.backup.as_ref(), document.archive.as_ref());
        let frequency = backup.map(|group| group.frequency.to_string());
        let retmin = archive.map(|group| group.retmin.to_string());
        [
            class.name.clone(),
            limit(backup.map(|group| &group.verexists)),
            limit(backup.map(|group| &group.verdeleted)),
            limit(backup.map(|group| &group.retextra)),
            limit(backup.map(|group| &group.retonly)),
            cell(backup.map(|group| group.mode.as_str())),
            cell(frequency.as_deref()),
            cell(backup.map(|group| group.serialization.as_str())),
            limit(archive.map(|group| &group.retver)),
            cell(archive.map(|group| group.retinit.as_str())),
            cell(retmin.as_deref()),
            cell(document.locked_until.as_deref()),
        ]
    };
    let rows: Vec<_> = set.classes.iter().map(row).collect();
    format!(
        "Domain {domain}, default class {}; without a copy group backups are kept {}, \
         archives {}.\n\n{}",
        set.default_class,
        quantity::counted(set.backup_grace_days.into(), "day"),
        quantity::counted(set.archive_grace_days.into(), "day"),
        table::render(columns, &rows)
    )
}
