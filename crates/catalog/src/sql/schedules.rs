//! Statements about schedules and labels.

use model::{DomainId, NodeId, ServerTime};
use policy::schedule::Occurrence;
use policy::schedule::event::EventState;

use super::{Engine, Row, Sql, nodes, params, require, require_new, scheduled_events};
use crate::{
    Association, CatalogError, Control, EventFilter, EventKey, EventProgress, EventReport,
    Follower, ScheduleRow, ScheduledEvent, Schedules,
};

impl<E: Engine> Schedules for E {
    fn schedules(&self) -> Result<Vec<ScheduleRow>, CatalogError> {
        self.read(schedules)
    }

    fn add_schedule(&self, schedule: &ScheduleRow) -> Result<(), CatalogError> {
        let schedule = schedule.clone();
        self.write(move |sql| add(sql, &schedule))
    }

    fn change_schedule(
        &self,
        found: &ScheduleRow,
        schedule: &ScheduleRow,
    ) -> Result<(), CatalogError> {
        let (found, schedule) = (found.clone(), schedule.clone());
        self.write(move |sql| change(sql, &found, &schedule))
    }

    fn remove_schedule(&self, found: &ScheduleRow) -> Result<(), CatalogError> {
        let found = found.clone();
        self.write(move |sql| remove(sql, &found))
    }

    fn associations(&self) -> Result<Vec<Association>, CatalogError> {
        self.read(associations)
    }

    fn associate(
        &self,
        found: &ScheduleRow,
        followers: &[Follower],
        since: ServerTime,
    ) -> Result<(), CatalogError> {
        let (found, followers) = (found.clone(), followers.to_vec());
        self.write(move |sql| {
            hold(sql, &found)?;
            followers
                .iter()
                .try_for_each(|follower| associate(sql, &found.name, follower, since))
        })
    }

    fn dissociate(
        &self,
        found: &ScheduleRow,
        followers: &[Follower],
    ) -> Result<usize, CatalogError> {
        let (found, followers) = (found.clone(), followers.to_vec());
        self.write(move |sql| {
            hold(sql, &found)?;
            let delete = "DELETE FROM association WHERE schedule = ? AND kind = ? AND target = ?";
            let ended = followers.iter().map(|follower| {
                let (kind, target) = follower_columns(follower);
                sql.execute(delete, params![found.name, kind, target])
            });
            ended.sum()
        })
    }

    fn labels(&self, node: Option<NodeId>) -> Result<Vec<(NodeId, String)>, CatalogError> {
        self.read(|sql| labels(sql, node))
    }

    fn label_times(&self) -> Result<Vec<(NodeId, String, ServerTime)>, CatalogError> {
        self.read(label_times)
    }

    fn change_labels(
        &self,
        node: NodeId,
        added: &[String],
        removed: &[String],
        now: ServerTime,
    ) -> Result<(), CatalogError> {
        let (added, removed) = (added.to_vec(), removed.to_vec());
        self.write(move |sql| change_labels(sql, node, &added, &removed, now))
    }

    fn scheduled_events(
        &self,
        filter: &EventFilter,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<ScheduledEvent>, CatalogError> {
        self.read(|sql| scheduled_events::list(sql, filter, from, limit))
    }

    fn scheduled_event(
        &self,
        key: &EventKey,
    ) -> Result<Option<(ScheduledEvent, Vec<u8>)>, CatalogError> {
        self.read(|sql| scheduled_events::find(sql, key))
    }

    fn open_events(&self, events: &[(EventKey, Occurrence)]) -> Result<(), CatalogError> {
        let events = events.to_vec();
        self.write(move |sql| scheduled_events::open(sql, &events))
    }

    fn close_events(&self, now: ServerTime) -> Result<usize, CatalogError> {
        self.write(move |sql| scheduled_events::close(sql, now))
    }

    fn explain_events(
        &self,
        state: EventState,
        reasons: &[(u64, String)],
    ) -> Result<(), CatalogError> {
        let reasons = reasons.to_vec();
        self.write(move |sql| scheduled_events::explain(sql, state, &reasons))
    }

    fn report_event(&self, report: &EventReport) -> Result<(), CatalogError> {
        let report = report.clone();
        self.write(move |sql| scheduled_events::report(sql, &report))
    }

    fn control_event(&self, key: &EventKey, control: Control) -> Result<(), CatalogError> {
        let key = key.clone();
        self.write(move |sql| scheduled_events::control(sql, &key, control))
    }

    fn watch_events(&self, keys: &[EventKey], until: ServerTime) -> Result<(), CatalogError> {
        let keys = keys.to_vec();
        self.write(move |sql| scheduled_events::watch(sql, &keys, until))
    }

    fn watched_events(&self, now: ServerTime) -> Result<Vec<EventKey>, CatalogError> {
        self.read(|sql| scheduled_events::watched(sql, now))
    }

    fn put_progress(&self, progress: &[EventProgress]) -> Result<(), CatalogError> {
        let progress = progress.to_vec();
        self.write(move |sql| scheduled_events::put_progress(sql, &progress))
    }

    fn sever_events(&self, node: NodeId, now: ServerTime) -> Result<(), CatalogError> {
        self.write(move |sql| scheduled_events::sever(sql, node, now))
    }

    fn sever_silent_events(
        &self,
        before: ServerTime,
        now: ServerTime,
    ) -> Result<usize, CatalogError> {
        self.write(move |sql| scheduled_events::sever_silent(sql, before, now))
    }

    fn give_events_up(&self, before: ServerTime) -> Result<usize, CatalogError> {
        self.write(move |sql| scheduled_events::give_up(sql, before))
    }

    fn withdraw_events(&self, after: ServerTime) -> Result<usize, CatalogError> {
        self.write(move |sql| scheduled_events::withdraw(sql, after))
    }

    fn forget_events(
        &self,
        before: ServerTime,
        logs_before: ServerTime,
    ) -> Result<(), CatalogError> {
        self.write(move |sql| scheduled_events::forget(sql, before, logs_before))
    }
}

fn schedules(sql: &dyn Sql) -> Result<Vec<ScheduleRow>, CatalogError> {
    let select = "SELECT name, body, since, changed, changed_by FROM schedule ORDER BY lower(name)";
    sql.all(select, &[], |row: &Row<'_>| {
        Ok(ScheduleRow {
            name: row.get(0)?,
            body: row.get(1)?,
            since: ServerTime(row.get(2)?),
            changed: ServerTime(row.get(3)?),
            changed_by: row.get(4)?,
        })
    })
}

fn add(sql: &dyn Sql, schedule: &ScheduleRow) -> Result<(), CatalogError> {
    let known = "SELECT 1 FROM schedule WHERE lower(name) = ?";
    let is_known = sql.exists(known, params![schedule.name.to_ascii_lowercase()])?;
    require_new(usize::from(!is_known), "a schedule of this name")?;
    let insert = "INSERT INTO schedule(name, body, since, changed, changed_by)
                  VALUES(?, ?, ?, ?, ?)";
    let ScheduleRow { name, body, since, changed, changed_by } = schedule;
    sql.execute(insert, params![name, body, since.0, changed.0, changed_by])
        .map(drop)
}

/// Fails unless the schedule is as it was found. It stays so until the end of the batch.
fn hold(sql: &dyn Sql, found: &ScheduleRow) -> Result<(), CatalogError> {
    let update = "UPDATE schedule SET body = body WHERE name = ? AND body = ?";
    require(sql.execute(update, params![found.name, found.body])?, "the schedule")
}

fn change(sql: &dyn Sql, found: &ScheduleRow, schedule: &ScheduleRow) -> Result<(), CatalogError> {
    let update = "UPDATE schedule SET body = ?, since = ?, changed = ?, changed_by = ?
                  WHERE name = ? AND body = ?";
    let ScheduleRow { body, since, changed, changed_by, .. } = schedule;
    let values = params![body, since.0, changed.0, changed_by, found.name, found.body];
    require(sql.execute(update, values)?, "the schedule")
}

fn remove(sql: &dyn Sql, found: &ScheduleRow) -> Result<(), CatalogError> {
    let delete = "DELETE FROM schedule WHERE name = ? AND body = ?";
    require(sql.execute(delete, params![found.name, found.body])?, "the schedule")?;
    let delete = "DELETE FROM association WHERE schedule = ?";
    sql.execute(delete, params![found.name]).map(drop)
}

/// Codes of the kinds of followers.
const NODE: u8 = 0;
const LABEL: u8 = 1;
const DOMAIN: u8 = 2;

/// Returns the kind of a follower, and its number or name as text.
fn follower_columns(follower: &Follower) -> (u8, String) {
    match follower {
        Follower::Node(node) => (NODE, node.0.to_string()),
        Follower::Label(label) => (LABEL, label.clone()),
        Follower::Domain(domain) => (DOMAIN, domain.0.to_string()),
    }
}

fn follower(row: &Row<'_>) -> Result<Follower, CatalogError> {
    let (kind, target): (u8, String) = (row.get(1)?, row.get(2)?);
    let damaged =
        || CatalogError::Damaged(format!("an association names the follower {kind} {target}"));
    let number = || target.parse::<u32>().map_err(|_| damaged());
    match kind {
        NODE => Ok(Follower::Node(NodeId(number()?))),
        LABEL => Ok(Follower::Label(target)),
        DOMAIN => Ok(Follower::Domain(DomainId(number()?))),
        _ => Err(damaged()),
    }
}

fn associations(sql: &dyn Sql) -> Result<Vec<Association>, CatalogError> {
    let select = "SELECT schedule, kind, target, since FROM association
                  ORDER BY lower(schedule), kind, target";
    sql.all(select, &[], |row: &Row<'_>| {
        let (schedule, since) = (row.get(0)?, ServerTime(row.get(3)?));
        Ok(Association { schedule, follower: follower(row)?, since })
    })
}

fn associate(
    sql: &dyn Sql,
    schedule: &str,
    follower: &Follower,
    since: ServerTime,
) -> Result<(), CatalogError> {
    match follower {
        Follower::Node(node) => nodes::find_node(sql, *node)?,
        Follower::Domain(domain) => {
            let known = sql.exists("SELECT 1 FROM domain WHERE id = ?", params![domain.0])?;
            require(usize::from(known), "the policy domain")?;
        }
        Follower::Label(_) => {}
    }
    let (kind, target) = follower_columns(follower);
    let insert = "INSERT INTO association(schedule, kind, target, since) VALUES(?, ?, ?, ?)
                  ON CONFLICT(schedule, kind, target) DO NOTHING";
    sql.execute(insert, params![schedule, kind, target, since.0]).map(drop)
}

/// Removes all that follows schedules as `node`, and its events.
pub(super) fn forget_node(sql: &dyn Sql, node: NodeId) -> Result<(), CatalogError> {
    end_associations(sql, &Follower::Node(node))?;
    sql.execute("DELETE FROM node_label WHERE node = ?", params![node.0])?;
    sql.execute("DELETE FROM scheduled_event WHERE node = ?", params![node.0])
        .map(drop)
}

/// Ends all associations of a follower that is removed.
pub(super) fn end_associations(sql: &dyn Sql, follower: &Follower) -> Result<(), CatalogError> {
    let (kind, target) = follower_columns(follower);
    let delete = "DELETE FROM association WHERE kind = ? AND target = ?";
    sql.execute(delete, params![kind, target]).map(drop)
}

/// Removes the schedules that belong to the domain. The number of a domain is used again, so none
/// of them may outlive it.
pub(super) fn forget_domain(sql: &dyn Sql, domain: DomainId) -> Result<(), CatalogError> {
    // The document of such a schedule begins with its domain.
    let own = format!("{{\"domain\":{},%", domain.0);
    let associations = "DELETE FROM association WHERE lower(schedule) IN
                        (SELECT lower(name) FROM schedule WHERE body LIKE ?)";
    sql.execute(associations, params![own])?;
    sql.execute("DELETE FROM schedule WHERE body LIKE ?", params![own]).map(drop)
}

fn labels(sql: &dyn Sql, node: Option<NodeId>) -> Result<Vec<(NodeId, String)>, CatalogError> {
    let (condition, node) = match node {
        Some(node) => ("node = ?", i64::from(node.0)),
        None => ("node > ?", -1),
    };
    let select =
        format!("SELECT node, label FROM node_label WHERE {condition} ORDER BY node, label");
    sql.all(&select, params![node], |row: &Row<'_>| Ok((NodeId(row.get(0)?), row.get(1)?)))
}

fn label_times(sql: &dyn Sql) -> Result<Vec<(NodeId, String, ServerTime)>, CatalogError> {
    let select = "SELECT node, label, since FROM node_label ORDER BY node, label";
    let columns = |row: &Row<'_>| Ok((NodeId(row.get(0)?), row.get(1)?, ServerTime(row.get(2)?)));
    sql.all(select, &[], columns)
}

pub(super) fn change_labels(
    sql: &dyn Sql,
    node: NodeId,
    added: &[String],
    removed: &[String],
    now: ServerTime,
) -> Result<(), CatalogError> {
    nodes::find_node(sql, node)?;
    for label in removed {
        sql.execute("DELETE FROM node_label WHERE node = ? AND label = ?", params![node.0, label])?;
    }
    for label in added {
        let insert = "INSERT INTO node_label(node, label, since) VALUES(?, ?, ?)
                      ON CONFLICT(node, label) DO NOTHING";
        sql.execute(insert, params![node.0, label, now.0])?;
    }
    Ok(())
}
