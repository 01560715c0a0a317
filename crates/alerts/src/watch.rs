//! The work of a running server: it looks at its state, opens and ends alerts, and delivers
//! notices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use catalog::actor::SERVER;
use catalog::{AlertChanges, AlertFilter, AlertRow, Day, EventRow, NoticeRow, Write};
use model::{DomainId, NodeId, ServerTime};
use store::folder::AlertSettings;
use store::{Store, StoreError};
use tokio::sync::watch;

use crate::audience::{Address, Audience, Owner, audiences, owners};
use crate::book;
use crate::collect::{self, Memory};
use crate::delivery::{AWAY_PAUSE, Means, blocking, deliver_due, problems};
use crate::digest::{self, Digest};
use crate::facts::{Facts, NodeFacts};
use crate::monthly::{self, Month, letter};
use crate::notices::{self, Heard};
use crate::outbox::{self, PATIENCE_MICROS};
use crate::rules::{self, DAY_MICROS};

/// Interval in microseconds between two records of the space that is taken.
const USAGE_MICROS: i64 = 3_600_000_000;
/// Number of days for which the space of each day and the record of each restore are kept: five
/// years.
const USAGE_DAYS: i64 = 5 * 366;
/// Maximum number of ended alerts that are read for the digests, and for the notices to the people
/// of domains and to owners.
const OVER_MAX: usize = 1_000;

/// Marks in the catalogue: the last finished backup that was examined, and the times of the last
/// notice to those who run the service and the last digest.
const LAST_SESSION: &str = "alerts session";
const LAST_NOTICE: &str = "alerts notice";
const LAST_DIGEST: &str = "alerts digest";
/// Prefixes of the marks of what the people of a domain, or an owner, have heard of. The word
/// `domain` or `owner` and the number follow.
const NOTICE_TO: &str = "alerts notice to ";
const URGENT_TO: &str = "alerts urgent notice to ";
/// Mark of the last month whose report was sent.
const LAST_MONTH: &str = "alerts month";

/// Looks and delivers until the server stops. Only the server that keeps house works.
pub async fn run_by_itself(store: Arc<Store>, stop: watch::Receiver<bool>) {
    say_problems(&store).await;
    tokio::join!(
        look_by_itself(&store, stop.clone()),
        deliver_by_itself(&store, Means::Mail, stop.clone()),
        deliver_by_itself(&store, Means::Webhooks, stop),
    );
}

/// Says at the start which ways of notices cannot be used, and not only when there is a notice, and
/// which ones do not prove from whom a notice is.
async fn say_problems(store: &Arc<Store>) {
    for webhook in &store.config.alerts.webhooks {
        if webhook.secret_file.is_none() {
            tracing::warn!(
                webhook = webhook.name,
                "notices are not signed, because this webhook has no 'secret_file'"
            );
        }
    }
    let find = |store: &Store| Ok(problems(&store.config.alerts, &store.folder));
    match blocking(store, find).await {
        Ok(found) => found.into_iter().for_each(|error| {
            tracing::warn!(error, "a way of notices cannot be used");
        }),
        Err(error) => {
            let error = model::chain(&error);
            tracing::warn!(error, "cannot look at the ways of notices");
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender the process ends.
    drop(stop.wait_for(|is_set| *is_set).await);
}

async fn look_by_itself(store: &Arc<Store>, mut stop: watch::Receiver<bool>) {
    let pause = Duration::from_secs(u64::from(store.config.alerts.look_secs.get()));
    let mut watcher = Watcher::default();
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stopped(&mut stop) => return,
        }
        if !store.keeps_house() {
            continue;
        }
        let mut looking = std::mem::take(&mut watcher);
        let look = move |store: &Store| {
            let looked = looking.look(store, &sys::net::host_name());
            Ok((looking, looked))
        };
        match blocking(store, look).await {
            Ok((looked, outcome)) => {
                watcher = looked;
                if let Err(error) = outcome {
                    tracing::warn!(error = model::chain(&error), "cannot look for alerts");
                }
            }
            Err(error) => tracing::error!(%error, "looking for alerts failed"),
        }
    }
}

/// Delivers the notices of one means. A mail server that is slow or away thus holds up no webhook.
async fn deliver_by_itself(store: &Arc<Store>, means: Means, mut stop: watch::Receiver<bool>) {
    let mut pause = means.pause(false);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stopped(&mut stop) => return,
        }
        if !store.keeps_house() {
            continue;
        }
        tokio::select! {
            delivered = deliver_due(store, means) => match delivered {
                Ok(has_failed) => pause = means.pause(has_failed),
                // A notice that was sent, but cannot be noted, is sent again, and not at once.
                Err(error) => {
                    pause = AWAY_PAUSE;
                    tracing::warn!(error = model::chain(&error), "cannot deliver notices");
                }
            },
            // A notice that was sent, but not noted, is sent again after the start.
            () = stopped(&mut stop) => return,
        }
    }
}

/// The looks of one server.
#[derive(Debug, Default)]
struct Watcher {
    memory: Memory,
    /// Time of the last record of the space that is taken.
    recorded: Option<ServerTime>,
}

impl Watcher {
    /// Looks once at the state of the server, and makes the notices that are due.
    fn look(&mut self, store: &Store, host: &str) -> Result<(), StoreError> {
        let settings = &store.config.alerts;
        let sessions = self.new_sessions(store)?;
        let facts = collect::collect(store, &mut self.memory, &sessions)?;
        let assessment = rules::assess(&facts, settings);
        let before = store.catalog.pending_alerts()?;
        let told = store.catalog.marks_of(book::DAMAGE)?;
        let mut changes = book::reconcile(&before, &assessment, &told, facts.now);
        if let Some((last, _)) = sessions.last() {
            changes
                .marks
                .push((LAST_SESSION.to_owned(), i64::try_from(*last).unwrap_or(i64::MAX)));
        }
        commit(store, &changes)?;
        let audiences = audiences(&*store.catalog, settings)?;
        let owners = owners(&*store.catalog, settings)?;
        if !audiences.is_empty() || !owners.is_empty() {
            tell(store, settings, (&audiences, &owners), (&facts, host))?;
            send_digest(store, settings, &audiences, (&facts, host))?;
            send_reports(store, settings, &audiences, facts.now)?;
        }
        self.record(store, facts.now)
    }

    /// Returns the backups that no look has examined. The first look of a server examines none.
    fn new_sessions(&self, store: &Store) -> Result<Vec<(u64, catalog::SessionRow)>, StoreError> {
        let mark = store.catalog.mark(LAST_SESSION)?;
        let Some(last) = mark.and_then(|last| u64::try_from(last).ok()) else {
            let last = i64::try_from(store.catalog.last_session()?).unwrap_or(i64::MAX);
            let mark = Write::SetMark { name: LAST_SESSION, value: last };
            store.catalog.commit(vec![mark]).map_err(StoreError::from)?;
            return Ok(Vec::new());
        };
        collect::new_sessions(store, last)
    }

    /// Records once an hour the space that is taken, and removes what is old.
    fn record(&mut self, store: &Store, now: ServerTime) -> Result<(), StoreError> {
        if self.recorded.is_some_and(|last| now.0 - last.0 < USAGE_MICROS) {
            return Ok(());
        }
        let days = collect::usage_of_today(store, now)?;
        store.catalog.put_usage_days(&days)?;
        store.catalog.forget_usage_days(Day(Day::of(now).0 - USAGE_DAYS))?;
        store.catalog.forget_restores(ServerTime(now.0 - USAGE_DAYS * DAY_MICROS))?;
        forget(store, now)?;
        self.recorded = Some(now);
        Ok(())
    }
}

fn commit(store: &Store, changes: &AlertChanges) -> Result<(), StoreError> {
    if *changes != AlertChanges::none(changes.at) {
        store.catalog.change_alerts(changes)?;
    }
    Ok(())
}

/// Removes old alerts, notices and records of archives. A notice that nobody took is named in the
/// activity log.
fn forget(store: &Store, now: ServerTime) -> Result<(), StoreError> {
    let kept = i64::from(store.config.event_days) * DAY_MICROS;
    let (ended, made) = (ServerTime(now.0 - kept), ServerTime(now.0 - PATIENCE_MICROS));
    store.catalog.forget_archived(ended)?;
    let lost = store.catalog.forget_alerts(ended, made)?;
    for notice in lost {
        let NoticeRow { channel, address, subject, error, .. } = notice;
        let details = format!("{channel} to {address}: {subject}; {error}");
        let event = EventRow {
            time: now,
            actor: SERVER.to_owned(),
            what: "notice given up".to_owned(),
            details,
        };
        store.catalog.commit(vec![Write::AddEvent(event)]).map_err(StoreError::from)?;
    }
    Ok(())
}

/// Gives each alert of a node the domain that the node has now. A node that has moved to another
/// domain takes its alerts with it, as in the REST API.
fn with_present_domains(mut alerts: Vec<AlertRow>, nodes: &[NodeFacts]) -> Vec<AlertRow> {
    let domains: BTreeMap<NodeId, DomainId> =
        nodes.iter().map(|node| (node.id, node.domain)).collect();
    for alert in &mut alerts {
        let present = alert.node.and_then(|node| domains.get(&node));
        alert.domain = present.copied().or(alert.domain);
    }
    alerts
}

/// Returns the newest alerts that are over, with the present domains of their nodes.
fn last_ended(store: &Store, nodes: &[NodeFacts]) -> Result<Vec<AlertRow>, StoreError> {
    let ended = AlertFilter { is_open: Some(false), ..AlertFilter::default() };
    Ok(with_present_domains(store.catalog.alerts(&ended, None, OVER_MAX)?, nodes))
}

/// Makes the notices about alerts that are due. Each audience has pauses of its own.
fn tell(
    store: &Store,
    settings: &AlertSettings,
    (audiences, owners): (&[Audience], &[Owner]),
    (facts, host): (&Facts, &str),
) -> Result<(), StoreError> {
    let now = facts.now;
    let pending = with_present_domains(store.catalog.pending_alerts()?, &facts.nodes);
    let last = store.catalog.mark(LAST_NOTICE)?.map(ServerTime);
    tell_some(store, settings, (audiences, owners), (facts, host), (pending.as_slice(), last))?;
    let Some(news) = notices::due(&pending, settings, now, last) else { return Ok(()) };
    let numbers = |alerts: &[&AlertRow]| alerts.iter().map(|alert| alert.number).collect();
    let mut changes = AlertChanges {
        told: numbers(&news.opened),
        ends_told: numbers(&news.ended),
        marks: vec![(LAST_NOTICE.to_owned(), now.0)],
        ..AlertChanges::none(now)
    };
    for audience in audiences.iter().filter(|one| one.domain.is_none()) {
        changes
            .notices
            .extend(outbox::rows(&news.notice(host), &audience.addresses, now));
    }
    commit(store, &changes)
}

/// Makes the notices that are due to the people of each domain and to the owners of nodes. Those to
/// some do not hold up those to others. `last` is the time of the last notice to those who run the
/// service.
fn tell_some(
    store: &Store,
    settings: &AlertSettings,
    (audiences, owners): (&[Audience], &[Owner]),
    (facts, host): (&Facts, &str),
    (pending, last): (&[AlertRow], Option<ServerTime>),
) -> Result<(), StoreError> {
    if owners.is_empty() && audiences.iter().all(|audience| audience.domain.is_none()) {
        return Ok(());
    }
    // The people who run the service may have heard of an end before.
    let over = last_ended(store, &facts.nodes)?;
    let open = pending.iter().filter(|alert| alert.ended.is_none()).cloned();
    let round = NoticeRound {
        settings,
        host,
        now: facts.now,
        last,
        alerts: open.chain(over).collect(),
        heard: store.catalog.marks_of(NOTICE_TO)?,
        urgent_heard: store.catalog.marks_of(URGENT_TO)?,
    };
    let mut changes = AlertChanges::none(facts.now);
    for audience in audiences {
        let Some(domain) = audience.domain else { continue };
        let hears = |alert: &AlertRow| alert.domain == Some(domain);
        round.tell(&format!("domain {}", domain.0), &audience.addresses, hears, &mut changes);
    }
    for Owner { person, address, nodes } in owners {
        let hears = |alert: &AlertRow| alert.node.is_some_and(|node| nodes.contains(&node));
        let addresses = std::slice::from_ref(address);
        round.tell(&format!("owner {}", person.0), addresses, hears, &mut changes);
    }
    commit(store, &changes)
}

/// Facts for the notices to people who hear of some alerts only.
struct NoticeRound<'a> {
    settings: &'a AlertSettings,
    host: &'a str,
    now: ServerTime,
    /// Time of the last notice to those who run the service.
    last: Option<ServerTime>,
    /// Alerts that are open, and those that are over.
    alerts: Vec<AlertRow>,
    /// Marks of what people have heard of.
    heard: BTreeMap<String, i64>,
    urgent_heard: BTreeMap<String, i64>,
}

impl NoticeRound<'_> {
    /// Adds the notice that is due to `people`, as marks name them.
    fn tell(
        &self,
        people: &str,
        addresses: &[Address],
        hears: impl Fn(&AlertRow) -> bool,
        changes: &mut AlertChanges,
    ) {
        let Self { settings, now, .. } = *self;
        let [all, urgent] = [NOTICE_TO, URGENT_TO].map(|prefix| format!("{prefix}{people}"));
        let known = match (self.heard.get(&all), self.urgent_heard.get(&urgent)) {
            (Some(&all), Some(&urgent)) => {
                Some(Heard { all: ServerTime(all), urgent: ServerTime(urgent) })
            }
            _ => None,
        };
        // People without marks have heard what those who run the service have heard.
        let heard = known.unwrap_or(Heard::up_to(self.last.unwrap_or(ServerTime(0)))).set_back(now);
        let news = notices::due_of(&self.alerts, hears, settings, now, heard);
        let next = if news.is_some() { heard.with_notice(settings, now) } else { heard };
        if let Some(news) = news {
            changes.notices.extend(outbox::rows(&news.notice(self.host), addresses, now));
        }
        if known != Some(next) {
            changes.marks.extend([(all, next.all.0), (urgent, next.urgent.0)]);
        }
    }
}

/// Makes the digest of the day if it is due. A server that has just got its settings begins with
/// the next day's.
fn send_digest(
    store: &Store,
    settings: &AlertSettings,
    audiences: &[Audience],
    (facts, host): (&Facts, &str),
) -> Result<(), StoreError> {
    let now = facts.now;
    let mut changes =
        AlertChanges { marks: vec![(LAST_DIGEST.to_owned(), now.0)], ..AlertChanges::none(now) };
    let Some(last) = store.catalog.mark(LAST_DIGEST)?.map(ServerTime) else {
        return commit(store, &changes);
    };
    if !digest::is_due(settings, now, last) {
        return Ok(());
    }
    let open = with_present_domains(store.catalog.pending_alerts()?, &facts.nodes);
    let over = last_ended(store, &facts.nodes)?;
    for audience in audiences {
        let hears = |alert: &&AlertRow| audience.hears_of(alert.domain);
        let open: Vec<&AlertRow> =
            open.iter().filter(|alert| alert.ended.is_none()).filter(hears).collect();
        // An alert that has begun again is not over.
        let is_open = |alert: &&AlertRow| {
            open.iter().any(|one| one.kind == alert.kind && one.object == alert.object)
        };
        let is_new =
            |alert: &&AlertRow| alert.ended.is_some_and(|end| end > last) && !is_open(alert);
        let over: Vec<&AlertRow> = over.iter().filter(is_new).filter(hears).collect();
        let part = part(facts, audience);
        let facts = part.as_ref().unwrap_or(facts);
        let digest =
            Digest { facts, open: &open, over: &over, has_server: audience.domain.is_none() };
        changes.notices.extend(outbox::rows(
            &digest.notice(settings, host),
            &audience.addresses,
            now,
        ));
    }
    commit(store, &changes)
}

/// Makes the mails with the reports of last month, once: each domain's to its own people and to
/// those who run the service. A server that has just got its settings begins with this month's.
fn send_reports(
    store: &Store,
    settings: &AlertSettings,
    audiences: &[Audience],
    now: ServerTime,
) -> Result<(), StoreError> {
    if !settings.monthly_report {
        return Ok(());
    }
    let present = Month::of(now, &settings.zone);
    let mut changes = AlertChanges {
        marks: vec![(LAST_MONTH.to_owned(), present.before().number())],
        ..AlertChanges::none(now)
    };
    let Some(last) = store.catalog.mark(LAST_MONTH)? else { return commit(store, &changes) };
    let Some(month) = letter::due(present, last) else { return Ok(()) };
    for domain in store.catalog.domains()? {
        let report = monthly::read(store, &domain, month)?;
        if report.nodes.is_empty() {
            continue;
        }
        for audience in audiences.iter().filter(|one| one.hears_of(Some(domain.id))) {
            changes.notices.extend(letter::rows(&report, audience));
        }
    }
    commit(store, &changes)
}

/// Returns the facts of the audience's domain; `None` for an audience that hears of everything.
fn part(facts: &Facts, audience: &Audience) -> Option<Facts> {
    let domain = audience.domain?;
    let mut part = facts.clone();
    part.nodes.retain(|node| node.domain == domain);
    let own: Vec<_> = part.nodes.iter().map(|node| node.id).collect();
    part.outcomes
        .retain(|outcome| outcome.node.is_some_and(|node| own.contains(&node)));
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;
    use crate::rules::Finding;

    #[test]
    fn a_node_takes_its_alerts_into_its_new_domain() {
        let at = ServerTime(7);
        let alert = |domain: u32, node: Option<u32>| {
            let finding = Finding {
                kind: Kind::NoBackup,
                object: "web-1".to_owned(),
                domain: Some(DomainId(domain)),
                node: node.map(NodeId),
                text: String::new(),
                amount: None,
            };
            book::row(&finding, at)
        };
        let node = NodeFacts {
            id: NodeId(4),
            name: "web-1".to_owned(),
            domain: DomainId(2),
            registered: at,
            is_locked: false,
            last_backup: None,
            old_filespaces: Vec::new(),
            certificate_end: None,
            good_drill: None,
            failed_drill: None,
            lost_versions: 0,
        };
        let alerts = vec![alert(1, Some(4)), alert(1, Some(5)), alert(1, None)];
        let found = with_present_domains(alerts, &[node]);
        let domains: Vec<_> = found.iter().map(|alert| alert.domain).collect();
        assert_eq!(domains, [2, 1, 1].map(|domain| Some(DomainId(domain))));
    }
}
