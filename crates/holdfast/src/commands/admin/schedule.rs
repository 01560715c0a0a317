//! `holdfast admin schedule`: what nodes and the server do by themselves.

mod action;
mod timing;

use std::collections::BTreeSet;

use client::admin::{Admin, Follower, Node, PollingAgent, Schedule, VolumeFilter};
use model::{ServerTime, printable};
use policy::schedule::{
    Action, Definition, ONCE_PREFIX, Occurrence, PRIORITY_DEFAULT, Place, RETRIES_DEFAULT,
    RETRY_PAUSE_MINUTES_DEFAULT, Work,
};
use serde::Serialize;

pub(super) use self::action::{parse_work, words_to_action};
pub(super) use self::timing::{local_zone, minutes};
use super::polling::{agent_of, call_words};
use super::volume::is_pool;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::table::{self, Align};
use crate::{moment, quantity, values};

/// Number of runs that are shown.
const RUNS_SHOWN: usize = 20;
/// Number of nodes that are named in text, and in a document.
const NODES_SHOWN: usize = 20;
const NODES_LISTED: usize = 100;

/// Say what nodes and the server do by themselves, and when
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast schedule define nightly --action incremental --time 22:00
  holdfast admin --server /srv/holdfast schedule associate nightly --label web
  holdfast admin --server /srv/holdfast schedule show nightly")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ScheduleCommand,
}

#[derive(clap::Subcommand, Debug)]
enum ScheduleCommand {
    /// Define a schedule, and print its next twenty runs
    #[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast schedule define nightly --action incremental \\
    --time 22:00 --days mon-fri --window 4h --blackout 2026-12-24..2026-12-26
  holdfast admin --server /srv/holdfast schedule define hourly --action incremental --every 1h
  holdfast admin --server /srv/holdfast schedule define expiry --action expire --time 09:00
  holdfast admin schedule define lab-noon --domain LAB --action incremental --time 12:00")]
    Define(Box<DefineArgs>),
    /// Change a schedule, and print its next twenty runs
    ///
    /// Settings that are not named stay as they are.
    #[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast schedule update nightly --time 23:00 --dry-run
  holdfast admin --server /srv/holdfast schedule update nightly --suspended yes")]
    Update(Box<PutArgs>),
    /// Remove a schedule; work that is under way goes on
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast schedule delete nightly")]
    Delete(NameArgs),
    List(ListArgs),
    /// Show a schedule, the nodes that follow it, and its next twenty runs
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast schedule show nightly")]
    Show(NameArgs),
    /// Let nodes follow a schedule
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast schedule associate nightly --label db")]
    Associate(FollowArgs),
    /// Let nodes follow a schedule no longer
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast schedule dissociate nightly --label db")]
    Dissociate(FollowArgs),
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// The schedule
    #[arg(value_name = "NAME")]
    name: String,
}

/// List schedules
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast schedule list
  holdfast admin --server /srv/holdfast schedule list --node web-01")]
struct ListArgs {
    /// Also list the schedules that 'holdfast admin run' makes; their names begin with @
    #[arg(long)]
    all: bool,
    /// Only schedules that this node follows, by its name, a label or its policy domain
    #[arg(long, value_name = "NODE", value_parser = values::not_empty)]
    node: Option<String>,
}

impl ListArgs {
    /// `node` is the node whose schedules are wanted, if one is named.
    fn shows(&self, schedule: &Schedule, node: Option<&Node>) -> bool {
        let is_wanted = self.all || !schedule.name.starts_with(ONCE_PREFIX);
        is_wanted && node.is_none_or(|node| schedule.is_followed_by(node))
    }
}

/// A schedule that is defined
#[derive(clap::Args, Debug)]
struct DefineArgs {
    #[command(flatten)]
    put: PutArgs,
    /// The policy domain that the schedule belongs to: only its nodes follow, and those who
    /// administer the domain change the schedule [default: none]
    #[arg(long, value_name = "DOMAIN", value_parser = values::not_empty)]
    domain: Option<String>,
}

/// A schedule that is defined or changed
#[derive(clap::Args, Debug)]
struct PutArgs {
    /// The schedule: 1 to 64 letters, digits, '.', '-' or '_'
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    action: action::ActionArgs,
    #[command(flatten)]
    timing: timing::TimingArgs,
    #[command(flatten)]
    conduct: ConductArgs,
    /// Print the next twenty runs, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// How a schedule is carried out
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Conduct")]
struct ConductArgs {
    /// Order among schedules that are due at once, 1 (first) to 10 (last) [default: 5]
    #[arg(long, value_name = "N")]
    order: Option<u8>,
    /// Number of further attempts after a failure [default: 2]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Pause before a further attempt [default: 20m]
    #[arg(long, value_name = "TIME", value_parser = moment::parse_length)]
    retry_pause: Option<i64>,
    /// Time after which an attempt is ended and has failed, without its pauses, as in 8h; none for
    /// no limit [default: none]
    #[arg(long, value_name = "TIME", value_parser = duration_max)]
    duration_max: Option<DurationMax>,
    /// Make up for an event whose window has passed while the machine was off or asleep, once
    /// [default: no]
    #[arg(long, value_name = "YES|NO", value_parser = values::yes_or_no)]
    late: Option<bool>,
    /// Let nothing be due for the time being [default: no]
    #[arg(long, value_name = "YES|NO", value_parser = values::yes_or_no)]
    suspended: Option<bool>,
    /// Purpose of the schedule
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

/// Time in seconds after which an attempt is ended; `None` for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct DurationMax(Option<i64>);

fn duration_max(text: &str) -> Result<DurationMax, moment::LengthError> {
    match text {
        "none" => Ok(DurationMax(None)),
        _ => moment::parse_length(text).map(|secs| DurationMax(Some(secs))),
    }
}

/// Nodes that follow a schedule
#[derive(clap::Args, Debug)]
pub(super) struct FollowerArgs {
    /// A node; may be given several times
    #[arg(long, value_name = "NODE")]
    node: Vec<String>,
    /// All nodes with this label; may be given several times
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
    /// All nodes of this domain; may be given several times
    #[arg(long, value_name = "DOMAIN")]
    domain: Vec<String>,
}

#[derive(clap::Args, Debug)]
struct FollowArgs {
    /// The schedule
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    followers: FollowerArgs,
}

impl FollowerArgs {
    /// Returns the followers. Fails if there is none.
    pub(super) fn followers(self, nodes: Vec<String>) -> Result<Vec<Follower>, CommandError> {
        let nodes = nodes.into_iter().chain(self.node).map(Follower::Node);
        let labels = self.label.into_iter().map(Follower::Label);
        let domains = self.domain.into_iter().map(Follower::Domain);
        let all: Vec<Follower> = nodes.chain(labels).chain(domains).collect();
        if all.is_empty() {
            return Err(CommandError::new("name nodes, or give --label or --domain"));
        }
        Ok(all)
    }
}

impl ConductArgs {
    fn apply(self, definition: &mut Definition) -> Result<(), CommandError> {
        let Self { order, retries, retry_pause, duration_max, late, suspended, description } = self;
        definition.priority = order.unwrap_or(definition.priority);
        definition.retries = retries.unwrap_or(definition.retries);
        if let Some(secs) = retry_pause {
            definition.retry_pause_minutes = minutes(secs, "--retry-pause")?;
        }
        if let Some(DurationMax(most)) = duration_max {
            let most = most.map(|secs| minutes(secs, "--duration-max")).transpose()?;
            definition.duration_max_minutes = most;
        }
        definition.runs_late = late.unwrap_or(definition.runs_late);
        definition.is_suspended = suspended.unwrap_or(definition.is_suspended);
        if let Some(description) = description {
            definition.description = description;
        }
        Ok(())
    }
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        ScheduleCommand::Define(args) => {
            let DefineArgs { put: args, domain } = *args;
            let mut definition = Definition {
                description: String::new(),
                action: args.action.action()?,
                timing: args.timing.timing()?,
                zone: args.timing.zone()?,
                priority: PRIORITY_DEFAULT,
                retries: RETRIES_DEFAULT,
                retry_pause_minutes: RETRY_PAUSE_MINUTES_DEFAULT,
                duration_max_minutes: None,
                runs_late: false,
                is_suspended: false,
            };
            args.conduct.apply(&mut definition)?;
            put((&args.name, domain.as_deref()), &definition, None, args.dry_run, admin, context)
        }
        ScheduleCommand::Update(args) => {
            let known = one(admin, &args.name)?;
            let mut definition = known.definition.clone();
            args.action.change(&mut definition.action)?;
            args.timing.change(&mut definition)?;
            args.conduct.apply(&mut definition)?;
            if definition == known.definition {
                let message =
                    format!("nothing changes: schedule {} has these settings already", known.name);
                return Err(CommandError::new(message)
                    .with_hint("name what changes, as in --time 23:00; --help lists all options"));
            }
            let old = Some(&known.definition);
            put((&known.name, None), &definition, old, args.dry_run, admin, context)
        }
        ScheduleCommand::Delete(args) => {
            let schedule = admin.remove_schedule(&args.name)?;
            let text = format!("Schedule {} is removed.", schedule.name);
            tell(&schedule, &[], &text, context);
            Ok(DONE)
        }
        ScheduleCommand::List(args) => {
            let node = match &args.node {
                Some(name) => admin.nodes(Some(name))?.pop(),
                None => None,
            };
            let mut schedules = admin.schedules(None)?;
            schedules.retain(|schedule| args.shows(schedule, node.as_ref()));
            list(&schedules, context);
            Ok(DONE)
        }
        ScheduleCommand::Show(args) => {
            let schedule = one(admin, &args.name)?;
            let runs = runs(&schedule.definition)?;
            let nodes = match schedule.followers.is_empty() {
                true => Vec::new(),
                false => admin.nodes(None)?,
            };
            let nodes = nodes.iter().filter(|node| schedule.is_followed_by(node));
            let nodes: Vec<&str> = nodes.map(|node| node.name.as_str()).collect();
            show(&schedule, &nodes, &runs, context);
            Ok(DONE)
        }
        ScheduleCommand::Associate(args) => follow(args, false, admin, context),
        ScheduleCommand::Dissociate(args) => follow(args, true, admin, context),
    }
}

fn one(admin: &mut Admin, name: &str) -> Result<Schedule, CommandError> {
    let found = admin.schedules(Some(name))?.pop();
    found.ok_or_else(|| CommandError::new(format!("there is no schedule {name}")))
}

/// Fails if a schedule that was defined for a domain belongs to none.
fn check_domain(schedule: &Schedule) -> Result<(), CommandError> {
    if schedule.domain.is_some() {
        return Ok(());
    }
    let message = format!(
        "schedule {} belongs to the service and to no domain, because the server is older than \
         this program",
        schedule.name
    );
    Err(CommandError::new(message)
        .with_hint("remove it by 'holdfast admin schedule delete', and update the server"))
}

/// Stores a definition, unless the run is dry, after it has shown the next runs. `old` is the
/// definition that it replaces, and `domain` the domain to which a new schedule belongs.
fn put(
    (name, domain): (&str, Option<&str>),
    definition: &Definition,
    old: Option<&Definition>,
    is_dry: bool,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let is_new = old.is_none();
    let whole = whole_note(definition, old);
    definition.check().map_err(|error| CommandError::new(error.to_string()))?;
    if is_new {
        let checked = store::check_name(name, "a schedule");
        checked.map_err(|error| CommandError::new(error.to_string()))?;
        if admin.schedules(None)?.iter().any(|one| one.name.eq_ignore_ascii_case(name)) {
            return Err(CommandError::new(format!("schedule {name} exists already"))
                .with_hint("'holdfast admin schedule update' changes it"));
        }
    }
    // An agent that has not heard of the change goes by the old definition.
    let old = old.and_then(|old| runs(old).ok()).unwrap_or_default();
    let runs = runs(definition)?;
    if is_dry {
        check_objects(definition, admin)?;
        let schedule = Schedule {
            name: name.to_owned(),
            definition: definition.clone(),
            followers: Vec::new(),
            domain: domain.map(str::to_owned),
            since: sys::clock::now(),
            changed: sys::clock::now(),
            changed_by: String::new(),
        };
        show(&schedule, &[], &runs, context);
        whole.into_iter().for_each(|note| context.output.note(note));
        context.output.note("Nothing was changed (--dry-run).");
        return Ok(DONE);
    }
    if !context.output.is_json() && !context.output.quiet {
        context.output.text(&runs_text(&runs, &definition.zone));
    }
    let schedule = match domain {
        Some(domain) => {
            let schedule = admin.add_schedule_of(domain, name, definition)?;
            check_domain(&schedule)?;
            schedule
        }
        None => admin.put_schedule(name, definition, is_new)?,
    };
    let verb = if is_new { "defined" } else { "changed" };
    let mut text = format!("Schedule {} is {verb}.", schedule.name);
    if is_new && definition.place() == Place::Node {
        let help = " No node follows it yet: 'holdfast admin schedule associate' lets nodes do so.";
        text.push_str(help);
    }
    if runs.is_empty() && !definition.is_suspended {
        text.push_str(" It never runs: its times are over, or no run is allowed at them.");
    }
    tell(&schedule, &runs, &text, context);
    whole.into_iter().for_each(|note| context.output.note(note));
    // The nodes are asked for a note only: the schedule is stored without it.
    if !schedule.followers.is_empty()
        && let Ok(nodes) = admin.nodes(None)
    {
        note_late(&nodes, (&schedule, &schedule.followers), old.iter().chain(&runs).min(), context);
    }
    Ok(DONE)
}

/// Returns what is said about backups that name nothing, unless `old`, the definition before, named
/// nothing either.
fn whole_note(definition: &Definition, old: Option<&Definition>) -> Option<&'static str> {
    let names_nothing = |definition: &Definition| {
        let Action { work, objects, .. } = &definition.action;
        matches!(work, Work::Incremental | Work::Selective | Work::Full) && objects.is_empty()
    };
    let is_known = old.is_some_and(names_nothing);
    (names_nothing(definition) && !is_known).then_some(
        "The schedule names no object: each node backs up what 'holdfast backup' without a path \
         would, by default all of its local file systems.",
    )
}

/// Says which of the nodes among `followers` hear of a change too late for the next run.
fn note_late(
    nodes: &[Node],
    (schedule, followers): (&Schedule, &[Follower]),
    next: Option<&Occurrence>,
    context: &Context,
) {
    let followers = nodes.iter().filter(|node| schedule.reaches(node, followers));
    let agents: Vec<PollingAgent> = followers.filter_map(agent_of).collect();
    if let Some(note) = late_note(&agents, next, sys::clock::now()) {
        context.output.note(&note);
    }
}

/// Returns what is said about agents that may hear of a change only after the window of the next
/// run has closed.
fn late_note(
    agents: &[PollingAgent],
    next: Option<&Occurrence>,
    now: ServerTime,
) -> Option<String> {
    let closes = next?.closes;
    let late = agents.iter().filter(|agent| agent.next > closes);
    let late: Vec<String> = late.map(|agent| call_words(agent, now)).collect();
    let names: Vec<&str> = late.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| {
        format!(
            "These poll, and may hear of this only after the window of the next run has closed. \
             Until their next call they go on as before: {}.",
            nodes_words(&names)
        )
    })
}

/// Fails if the schedule is about a pool or a volume that does not exist, or drains a pool that has
/// no next pool. The server refuses these when a schedule is stored.
fn check_objects(definition: &Definition, admin: &mut Admin) -> Result<(), CommandError> {
    let Action { work, objects, .. } = &definition.action;
    let library = definition.action.library();
    let names = objects.iter().map(|word| String::from_utf8_lossy(&word.0).into_owned());
    match work {
        Work::Drain | Work::CopyPools => {
            let Some(name) = names.into_iter().next() else { return Ok(()) };
            let pools = admin.pools(Some(&name))?;
            let has_next = pools.iter().any(|pool| pool.next.is_some());
            if *work == Work::Drain && !has_next {
                let message = format!("pool {name} has no next pool to which it could be drained");
                let hint = format!("'holdfast admin pool set {name} --next POOL' gives it one");
                return Err(CommandError::new(message).with_hint(hint));
            }
        }
        Work::ReclaimVolumes | Work::MoveVolumes | Work::AuditVolumes => {
            let is_single = objects.len() == 1 && library.is_none();
            let may_be_pool = *work == Work::ReclaimVolumes && is_single;
            for name in names {
                if may_be_pool && is_pool(&name, admin)? {
                    continue;
                }
                let filter = VolumeFilter {
                    library: library.map(str::to_owned),
                    volume: Some(name.clone()),
                    ..VolumeFilter::default()
                };
                check_volume(&name, admin.volumes(&filter)?.len())?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Fails unless one volume has this name.
fn check_volume(name: &str, found: usize) -> Result<(), CommandError> {
    match found {
        1 => Ok(()),
        0 => Err(CommandError::new(format!("there is no volume {name}"))
            .with_hint("'holdfast admin volume list' shows all volumes")),
        _ => Err(CommandError::new(format!("several libraries have a volume {name}"))
            .with_hint("choose one with --option=--library=LIBRARY")),
    }
}

fn follow(
    args: FollowArgs,
    ends: bool,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let followers = args.followers.followers(Vec::new())?;
    let schedule = admin.follow_schedule(&args.name, &followers, ends)?;
    let names: Vec<String> = schedule.followers.iter().map(follower_words).collect();
    let text = match names.is_empty() {
        true => format!("Nobody follows schedule {} now.", schedule.name),
        false => format!("Schedule {} is followed by {}.", schedule.name, names.join(", ")),
    };
    let runs = runs(&schedule.definition).unwrap_or_default();
    tell(&schedule, &runs, &text, context);
    // The nodes are asked for notes only: the association is there without them.
    if !ends && let Ok(nodes) = admin.nodes(None) {
        note_late(&nodes, (&schedule, &followers), runs.first(), context);
        let known: BTreeSet<String> = nodes.into_iter().flat_map(|node| node.labels).collect();
        for label in labels_of_nobody(&followers, &known) {
            context.output.note(&format!(
                "No node has the label {label} now; nodes that get it later will run the schedule."
            ));
        }
    }
    Ok(DONE)
}

/// Returns the labels among `followers` that are not among the labels `known` of nodes.
fn labels_of_nobody<'a>(followers: &'a [Follower], known: &BTreeSet<String>) -> Vec<&'a str> {
    let label = |follower: &'a Follower| match follower {
        Follower::Label(label) => Some(label.as_str()),
        Follower::Node(_) | Follower::Domain(_) => None,
    };
    followers
        .iter()
        .filter_map(label)
        .filter(|label| !known.contains(*label))
        .collect()
}

/// Returns the next runs.
fn runs(definition: &Definition) -> Result<Vec<Occurrence>, CommandError> {
    let zone = definition.time_zone().map_err(|error| CommandError::new(error.to_string()))?;
    if definition.is_suspended {
        return Ok(Vec::new());
    }
    let now = sys::clock::now();
    Ok(definition.timing.occurrences(&zone, now).take(RUNS_SHOWN).collect())
}

/// Returns nodes in words: their number, and the first names.
pub(super) fn nodes_words(nodes: &[&str]) -> String {
    let total = quantity::counted(nodes.len() as u64, "node");
    let named = nodes[..nodes.len().min(NODES_SHOWN)].join(", ");
    match nodes.len().saturating_sub(NODES_SHOWN) {
        _ if nodes.is_empty() => "none now".to_owned(),
        0 => format!("{total}: {named}"),
        more => format!("{total}: {named} and {more} more"),
    }
}

fn follower_words(follower: &Follower) -> String {
    match follower {
        Follower::Node(name) => format!("node {name}"),
        Follower::Label(label) => format!("label {label}"),
        Follower::Domain(name) => format!("domain {name}"),
    }
}

/// `schedule list --json`, one document per line.
#[derive(Serialize)]
struct ScheduleDocument<'a> {
    schedule: &'a str,
    #[serde(flatten)]
    definition: &'a Definition,
    nodes: Vec<&'a str>,
    labels: Vec<&'a str>,
    domains: Vec<&'a str>,
    /// Domain that the schedule belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<&'a str>,
    changed: String,
    changed_by: &'a str,
    next_run: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next_runs: Vec<String>,
    /// The first nodes that follow the schedule now, by name or otherwise, and their number.
    #[serde(skip_serializing_if = "Option::is_none")]
    followed_by: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    followed_by_total: Option<usize>,
}

fn document<'a>(schedule: &'a Schedule, runs: &[Occurrence]) -> ScheduleDocument<'a> {
    let mut document = ScheduleDocument {
        schedule: &schedule.name,
        definition: &schedule.definition,
        nodes: Vec::new(),
        labels: Vec::new(),
        domains: Vec::new(),
        domain: schedule.domain.as_deref(),
        changed: moment::rfc3339(schedule.changed),
        changed_by: &schedule.changed_by,
        next_run: runs.first().map(|run| moment::rfc3339(run.opens)),
        next_runs: runs.iter().map(|run| moment::rfc3339(run.opens)).collect(),
        followed_by: None,
        followed_by_total: None,
    };
    for follower in &schedule.followers {
        match follower {
            Follower::Node(name) => document.nodes.push(name),
            Follower::Label(label) => document.labels.push(label),
            Follower::Domain(name) => document.domains.push(name),
        }
    }
    document
}

fn tell(schedule: &Schedule, runs: &[Occurrence], text: &str, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&document(schedule, runs));
    } else if !context.output.quiet {
        context.output.text(text);
    }
}

fn list(schedules: &[Schedule], context: &mut Context) {
    if context.output.is_json() {
        for schedule in schedules {
            // The table has no next run, either, in a zone that this machine does not know.
            let runs = runs(&schedule.definition).unwrap_or_default();
            let document = document(schedule, &runs);
            context.output.json(&ScheduleDocument { next_runs: Vec::new(), ..document });
        }
        return;
    }
    if schedules.is_empty() {
        context.output.note("There is no schedule.");
        return;
    }
    context.output.text(&table_text(schedules));
}

fn table_text(schedules: &[Schedule]) -> String {
    let columns = [
        ("Schedule", Align::Left),
        ("Domain", Align::Left),
        ("Action", Align::Left),
        ("Times", Align::Left),
        ("Zone", Align::Left),
        ("Window", Align::Right),
        ("Next run", Align::Left),
        ("Followed by", Align::Left),
    ];
    table::render(columns, &schedules.iter().map(row).collect::<Vec<_>>())
}

fn row(schedule: &Schedule) -> [String; 8] {
    let definition = &schedule.definition;
    let next = match runs(definition) {
        Ok(runs) => next_words(definition, runs.first()),
        Err(_) => "unknown time zone".to_owned(),
    };
    let followers = match definition.place() {
        Place::Server => "the server".to_owned(),
        Place::Node => {
            let names: Vec<String> = schedule.followers.iter().map(follower_words).collect();
            names.join(", ")
        }
    };
    [
        schedule.name.clone(),
        schedule.domain.clone().unwrap_or_default(),
        definition.action.work.name().to_owned(),
        timing::starts_words(&definition.timing.starts),
        definition.zone.clone(),
        timing::minutes_words(definition.timing.window_minutes),
        next,
        followers,
    ]
}

/// Returns when a schedule runs next, by the same clock as its times.
fn next_words(definition: &Definition, next: Option<&Occurrence>) -> String {
    match next {
        Some(run) => moment::in_zone(run.opens, &definition.zone),
        None if definition.is_suspended => "suspended".to_owned(),
        None => "none".to_owned(),
    }
}

fn show(schedule: &Schedule, nodes: &[&str], runs: &[Occurrence], context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&ScheduleDocument {
            followed_by: Some(nodes.iter().copied().take(NODES_LISTED).collect()),
            followed_by_total: Some(nodes.len()),
            ..document(schedule, runs)
        });
        return;
    }
    let Schedule { definition, .. } = schedule;
    let yes = |is: bool| if is { "yes" } else { "no" };
    let followers: Vec<String> = schedule.followers.iter().map(follower_words).collect();
    let blackouts: Vec<String> =
        definition.timing.blackouts.iter().map(ToString::to_string).collect();
    // Work of the server is not spread, and a line without a value is left out.
    let spread = match definition.place() {
        Place::Node => format!("{} % of the window", definition.timing.spread_percent),
        Place::Server => String::new(),
    };
    let mut lines = vec![
        ("Schedule", schedule.name.clone()),
        ("Domain", schedule.domain.clone().unwrap_or_default()),
        ("Description", definition.description.clone()),
        ("Action", definition.action.words()),
        ("Times", timing::starts_words(&definition.timing.starts)),
        ("Time zone", definition.zone.clone()),
        ("Window", timing::minutes_words(definition.timing.window_minutes)),
        ("Spread", spread),
        ("Blackouts", blackouts.join("; ")),
        ("Order", definition.priority.to_string()),
        (
            "Retries",
            format!(
                "{}, after {}",
                definition.retries,
                timing::minutes_words(definition.retry_pause_minutes)
            ),
        ),
        (
            "Longest",
            definition
                .duration_max_minutes
                .map_or_else(|| "none".to_owned(), timing::minutes_words),
        ),
        ("Late", yes(definition.runs_late).to_owned()),
        ("Suspended", yes(definition.is_suspended).to_owned()),
    ];
    if definition.place() == Place::Node {
        lines.push(("Followed by", followers.join(", ")));
    }
    if !followers.is_empty() {
        lines.push(("Nodes", nodes_words(nodes)));
    }
    if let Some(day) = definition.timing.last_day {
        lines.push(("Last day", day.to_string()));
    }
    if !schedule.changed_by.is_empty() {
        let changed = format!("{} by {}", moment::shown(schedule.changed), schedule.changed_by);
        lines.push(("Changed", changed));
    }
    let text = lines_text(lines);
    context.output.text(&format!("{text}\n{}", runs_text(runs, &definition.zone)));
}

/// Returns a line for each value that is not empty.
fn lines_text(lines: Vec<(&str, String)>) -> String {
    let lines = lines.into_iter().filter(|(_, value)| !value.is_empty());
    lines
        .map(|(name, value)| format!("{name:<12} {}\n", printable(&value)))
        .collect()
}

/// The next runs, by the clock on the wall of the schedule's time zone.
fn runs_text(runs: &[Occurrence], zone: &str) -> String {
    if runs.is_empty() {
        return "No run follows.\n".to_owned();
    }
    let columns = [("Next runs", Align::Left), ("Window ends", Align::Left)];
    let shown = |at| moment::in_zone(at, zone);
    let rows: Vec<[String; 2]> =
        runs.iter().map(|run| [shown(run.opens), shown(run.closes)]).collect();
    format!("{}({zone})\n", table::render(columns, &rows))
}

#[cfg(test)]
mod tests;
