//! `holdfast admin policy`: drafts of policy sets, what they would do, and their activation.

use client::admin::{
    Admin, ArchiveCopyGroup, BackupCopyGroup, Domain, Edit, GraceDays, ManagementClass,
    PolicyDifference, PolicyReview, PolicySet, RemoveGroup,
};
use model::ServerTime;
use serde::Serialize;

use super::expire::{OutcomeDocument, hear};
use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::moment;
use crate::quantity;
use crate::table::{self, Align};

/// Edit a draft of a domain's policy, see what it would do, and activate it
///
/// Whatever is edited is a draft until 'activate'; without --domain it is the domain STANDARD.
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
    /// Remove a class from the draft; what is bound to it falls to the default class
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast policy remove-class OLD")]
    RemoveClass(NameArgs),
    /// Choose the class of what no statement binds
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
    /// Throw the draft away
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast policy discard")]
    Discard,
}

#[derive(clap::Args, Debug)]
struct ShowArgs {
    /// The draft instead of the active set
    #[arg(long)]
    draft: bool,
}

/// Make a class in the draft, or change what is given of one
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast policy class LEGAL --retextra 3650 --retonly 3650

A number of days or versions is 0 to 30000, or NOLIMIT.")]
struct ClassArgs {
    /// The class
    #[arg(value_name = "NAME")]
    name: String,
    /// Versions kept while the file exists, the active one included
    #[arg(long, value_name = "N")]
    verexists: Option<String>,
    /// Versions kept after the file is gone
    #[arg(long, value_name = "N")]
    verdeleted: Option<String>,
    /// Days that a version is kept after it became inactive
    #[arg(long, value_name = "DAYS")]
    retextra: Option<String>,
    /// The same for the last version of a file that is gone
    #[arg(long, value_name = "DAYS")]
    retonly: Option<String>,
    /// modified sends what has changed, absolute sends everything each time
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// A changed file is sent only so many days after it was sent last
    #[arg(long, value_name = "DAYS")]
    frequency: Option<u32>,
    /// What becomes of a file that changes while it is read: static, shrstatic, shrdynamic, dynamic
    #[arg(long, value_name = "HOW")]
    serialization: Option<String>,
    /// Days that an archive copy is kept
    #[arg(long, value_name = "DAYS")]
    retver: Option<String>,
    /// Whether those days begin with its creation or with an event
    #[arg(long, value_name = "creation|event")]
    retinit: Option<String>,
    /// Days that an archive copy is kept at least, whenever the event is
    #[arg(long, value_name = "DAYS")]
    retmin: Option<u32>,
    /// Once activated, nobody can shorten or remove the class before then
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    lock_until: Option<ServerTime>,
    /// Take the backup copy group away: its files are not backed up
    #[arg(long)]
    no_backup: bool,
    /// Take the archive copy group away: its files are not archived
    #[arg(long)]
    no_archive: bool,
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// The class
    #[arg(value_name = "NAME")]
    name: String,
}

/// Set how long is kept what no copy group is there for
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast policy grace --backretention 60")]
struct GraceArgs {
    /// Days for backup versions
    #[arg(long, value_name = "DAYS", required_unless_present = "archretention")]
    backretention: Option<u32>,
    /// Days for archive copies
    #[arg(long, value_name = "DAYS")]
    archretention: Option<u32>,
}

/// Make the draft the active set
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast policy activate")]
struct ActivateArgs {
    /// Also when most of what is kept would expire
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
            review(&admin.edit_policy(&domain, Edit::RemoveClass(args.name))?, context);
        }
        PolicyCommand::Default(args) => {
            review(&admin.edit_policy(&domain, Edit::DefaultClass(args.name))?, context);
        }
        PolicyCommand::Grace(args) => {
            let GraceArgs { backretention: backup, archretention: archive } = args;
            let grace = GraceDays { backup, archive };
            review(&admin.edit_policy(&domain, Edit::Grace(grace))?, context);
        }
        PolicyCommand::Diff => review(&admin.review_policy(&domain)?, context),
        PolicyCommand::Simulate => simulate(&domain, admin, context)?,
        PolicyCommand::Activate(args) => {
            let reviewed = admin.activate_policy(&domain, args.confirm)?;
            let text = format!("The policy of domain {} is active.", reviewed.domain);
            tell(&reviewed, &text, context);
        }
        PolicyCommand::Discard => {
            let reviewed = admin.edit_policy(&domain, Edit::Discard(true))?;
            tell(&reviewed, &format!("The draft of domain {} is gone.", reviewed.domain), context);
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
    let backup = BackupCopyGroup {
        versions_existing: args.verexists,
        versions_deleted: args.verdeleted,
        extra_days: args.retextra,
        only_days: args.retonly,
        mode: args.mode,
        frequency_days: args.frequency,
        serialization: args.serialization,
    };
    let archive = ArchiveCopyGroup {
        keep_days: args.retver,
        starts: args.retinit,
        minimum_days: args.retmin,
    };
    let (takes_backup, takes_archive) = (args.no_backup, args.no_archive);
    let given = ManagementClass {
        number: 0,
        name: args.name.clone(),
        backup: Some(backup).filter(|group| *group != BackupCopyGroup::default()),
        archive: Some(archive).filter(|group| *group != ArchiveCopyGroup::default()),
        locked_until: args.lock_until.map_or(0, |until| until.0),
    };
    if (takes_backup && given.backup.is_some()) || (takes_archive && given.archive.is_some()) {
        let message = "a copy group is set or taken away, not both";
        return Err(CommandError::usage(message, "holdfast admin policy class"));
    }
    let mut reviewed = admin.edit_policy(domain, Edit::PutClass(given))?;
    if takes_backup || takes_archive {
        let remove = RemoveGroup { class: args.name, backup: takes_backup, archive: takes_archive };
        reviewed = admin.edit_policy(domain, Edit::RemoveGroup(remove))?;
    }
    review(&reviewed, context);
    Ok(())
}

/// `policy diff --json`, and what an edit answers.
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
    from: Option<&'a str>,
    to: Option<&'a str>,
    keeps_less: bool,
}

fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

impl<'a> ReviewDocument<'a> {
    fn new(review: &'a PolicyReview) -> Self {
        let difference = |found: &'a PolicyDifference| DifferenceDocument {
            class: given(&found.class),
            what: &found.what,
            from: given(&found.from),
            to: given(&found.to),
            keeps_less: found.keeps_less,
        };
        Self {
            domain: &review.domain,
            differences: review.differences.iter().map(difference).collect(),
            problem: given(&review.problem),
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

/// Shows how the draft differs.
fn review(review: &PolicyReview, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&ReviewDocument::new(review));
        return;
    }
    if review.differences.is_empty() {
        context.output.note("There is no draft, or it is the same as the active set.");
        return;
    }
    context.output.text(&differences(&review.differences));
    if !review.problem.is_empty() {
        context.output.text(&format!("\nIt cannot be activated: {}\n", review.problem));
    }
}

fn differences(found: &[PolicyDifference]) -> String {
    let columns = [
        ("Class", Align::Left),
        ("What", Align::Left),
        ("Active", Align::Right),
        ("Draft", Align::Right),
        ("", Align::Left),
    ];
    let text = |text: &str| given(text).unwrap_or("-").to_owned();
    let row = |found: &PolicyDifference| {
        [
            text(&found.class),
            found.what.clone(),
            text(&found.from),
            text(&found.to),
            if found.keeps_less { "keeps less" } else { "" }.to_owned(),
        ]
    };
    table::render(columns, &found.iter().map(row).collect::<Vec<_>>())
}

fn simulate(domain: &str, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let outcome = hear(context, |visit| admin.simulate_policy(domain, visit))?;
    if context.output.is_json() {
        context.output.json(&OutcomeDocument::new(&outcome, true));
        return Ok(());
    }
    let text = format!(
        "Activating this will expire {} versions, {}, of {} nodes; {} of them are due anyway.\n\
         {} inactive versions were looked at.\n",
        quantity::count(outcome.expired),
        quantity::bytes_with_unit(outcome.expired_bytes),
        outcome.nodes,
        quantity::count(outcome.due_anyway),
        quantity::count(outcome.examined),
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
    backup: Option<BackupDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<ArchiveDocument<'a>>,
    locked_until: Option<String>,
}

#[derive(Serialize)]
struct BackupDocument<'a> {
    verexists: &'a str,
    verdeleted: &'a str,
    retextra: &'a str,
    retonly: &'a str,
    mode: &'a str,
    frequency: u32,
    serialization: &'a str,
}

#[derive(Serialize)]
struct ArchiveDocument<'a> {
    retver: &'a str,
    retinit: &'a str,
    retmin: u32,
}

fn word(word: Option<&String>) -> &str {
    word.map_or("", String::as_str)
}

impl<'a> ClassDocument<'a> {
    fn new(class: &'a ManagementClass) -> Self {
        let backup = class.backup.as_ref().map(|group| BackupDocument {
            verexists: word(group.versions_existing.as_ref()),
            verdeleted: word(group.versions_deleted.as_ref()),
            retextra: word(group.extra_days.as_ref()),
            retonly: word(group.only_days.as_ref()),
            mode: word(group.mode.as_ref()),
            frequency: group.frequency_days.unwrap_or(0),
            serialization: word(group.serialization.as_ref()),
        });
        let archive = class.archive.as_ref().map(|group| ArchiveDocument {
            retver: word(group.keep_days.as_ref()),
            retinit: word(group.starts.as_ref()),
            retmin: group.minimum_days.unwrap_or(0),
        });
        Self { class: &class.name, backup, archive, locked_until: locked(class) }
    }
}

fn locked(class: &ManagementClass) -> Option<String> {
    (class.locked_until != 0).then(|| moment::rfc3339(ServerTime(class.locked_until)))
}

fn show(
    domain: &str,
    args: &ShowArgs,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<(), CommandError> {
    for Domain { name, active, draft, .. } in admin.domains(Some(domain))? {
        let set = if args.draft { draft } else { active };
        let Some(set) = set else {
            return Err(CommandError::new(format!("domain {name} has no draft")));
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
    let row = |class: &ManagementClass| {
        let document = ClassDocument::new(class);
        let (backup, archive) = (document.backup.as_ref(), document.archive.as_ref());
        let frequency = backup.map(|group| group.frequency.to_string());
        let retmin = archive.map(|group| group.retmin.to_string());
        [
            class.name.clone(),
            cell(backup.map(|group| group.verexists)),
            cell(backup.map(|group| group.verdeleted)),
            cell(backup.map(|group| group.retextra)),
            cell(backup.map(|group| group.retonly)),
            cell(backup.map(|group| group.mode)),
            cell(frequency.as_deref()),
            cell(backup.map(|group| group.serialization)),
            cell(archive.map(|group| group.retver)),
            cell(archive.map(|group| group.retinit)),
            cell(retmin.as_deref()),
            cell(document.locked_until.as_deref()),
        ]
    };
    let rows: Vec<_> = set.classes.iter().map(row).collect();
    format!(
        "Domain {domain}, default class {}; without a copy group backups are kept {} days, \
         archives {} days.\n\n{}",
        set.default_class,
        set.backup_grace_days,
        set.archive_grace_days,
        table::render(columns, &rows)
    )
}
