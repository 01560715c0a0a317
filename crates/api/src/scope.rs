//! Calls of administrators of domains: each names objects of the domain, or lists what the caller
//! may see.
//!
//! ```text
//!   call -> table -> its object, from the message -> may the caller? -> the server's own call
//! ```
//!
//! 1. An object of others is answered as one that does not exist, as the operations of REST do.
//! 2. A list is cut into portions after the objects of others are gone. So neither a portion nor
//!    the key of the next one tells of them.
//! 3. The server gets what was found, where it would look for a name once more: that may be the
//!    name of another object by then.

use std::collections::BTreeSet;

use policy::schedule::Definition;
use policy::settings::SetOption;
use prost::{DecodeError, Message};
use server::{FoundKey, FoundNodes, KeySight, OptionSetSight, ScheduleSight, Sight};
use store::schedules::{self, OwnedBy};
use wire::proto::{self, follower::Follower};

use crate::call::Answer;
use crate::caller::{Caller, Subject};
use crate::desk::Desk;
use crate::problem::{Kind, Problem};
use crate::resources::{
    area_of_run, check_change, check_commands, check_end, check_handover, check_reach,
    check_reach_in, check_removal, check_return, check_seen, check_spread, domains_seen,
    find_domain, find_node, guard_move, keys_seen, node_sight, nodes_seen, option_sets_seen,
    require_event, schedules_seen,
};
use crate::roles::{Area, Right};

/// Maximum length of a message whose object is looked at.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Length of what comes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The object of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Object {
    Nodes(Vec<String>),
    /// Work that begins at nodes now; `None` for nodes that it does not name one by one.
    Run {
        names: Option<Vec<String>>,
        definition: String,
    },
    /// A change of a node, which may also move it to another domain, or give it an option set.
    ChangedNode {
        name: String,
        domain: Option<String>,
        /// Option set that the node gets; an empty one takes the present one from it.
        option_set: Option<String>,
        /// True if nothing changes but the domain.
        is_alone: bool,
    },
    Schedule(ScheduleChange),
    /// Options that an option set gets, by name or by a return to a version.
    Options {
        set: String,
        options: Vec<SetOption>,
        revert_to: u64,
    },
    /// A new node, or a new token for one that exists.
    NewNode(proto::AddNodeRequest),
    Domain(String),
    /// An edit of the draft of a domain; a lock is for those who run the service.
    Edit {
        domain: String,
        is_lock: bool,
    },
    /// The event with this number, as the caller gives it.
    Event(u64),
    /// The nodes, the domains or the events that the caller may see.
    List,
    /// The schedules that the caller may see.
    Schedules,
    /// A new enrolment key for nodes of a domain, which get an option set unless it is empty.
    NewKey {
        domain: String,
        option_set: String,
    },
    /// The enrolment key of this name.
    Key(String),
    /// The enrolment keys that the caller may see.
    Keys,
    /// The option sets that the caller may see, with their versions.
    OptionSets,
    /// Everything of the service.
    Service,
}

/// A change of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ScheduleChange {
    /// A new schedule, of a domain or of the service.
    New {
        domain: Option<String>,
        definition: String,
    },
    Definition {
        name: String,
        definition: String,
    },
    /// These nodes and the nodes of these domains follow, or follow no longer.
    Followers {
        name: String,
        nodes: Vec<String>,
        domains: Vec<String>,
        ends: bool,
    },
    Removal(String),
}

/// A call that a caller with roles in domains may make.
#[derive(Debug)]
pub(crate) struct ScopedCall {
    name: &'static str,
    object: fn(&[u8]) -> Result<Object, DecodeError>,
    /// True if the message decides which right the call needs, whoever makes it.
    pub(crate) needs_look: bool,
}

/// Condition under which the server carries out a call that the caller may make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Permit {
    /// The call as it came.
    Call,
    /// The call with this body.
    Body(Vec<u8>),
    /// The call, if the nodes that it names are these.
    Nodes(FoundNodes),
    /// The call, which lists no other objects.
    Sight(Sight),
    /// The call, which lists these schedules.
    Schedules(ScheduleSight),
    /// The call, if the schedule that it changes has this owner.
    Schedule(OwnedBy),
    /// The call, which lists these enrolment keys.
    Keys(KeySight),
    /// The call, which lists these option sets, or versions of one of them.
    OptionSets(OptionSetSight),
    /// The call, if the enrolment key that it ends is this one.
    Key(FoundKey),
}

/// The calls.
const CALLS: [ScopedCall; 28] = [
    scoped("ListNodes", |message| Ok(listed(read::<proto::ListNodesRequest>(message)?.name))),
    scoped("AddNode", |message| Ok(Object::NewNode(read(message)?))),
    looked_at("SetNode", |message| {
        let request: proto::SetNodeRequest = read(message)?;
        let (name, domain) = (request.name.clone(), request.domain.clone());
        let alone = proto::SetNodeRequest { name, domain, ..Default::default() };
        let is_alone = request == alone;
        let proto::SetNodeRequest { name, domain, option_set, .. } = request;
        Ok(Object::ChangedNode { name, domain, option_set, is_alone })
    }),
    scoped("RemoveNode", |message| Ok(node(read::<proto::RemoveNodeRequest>(message)?.name))),
    scoped("RevokeNode", |message| Ok(node(read::<proto::RevokeNodeRequest>(message)?.name))),
    scoped("AddEnrolmentKey", |message| {
        let request: proto::AddEnrolmentKeyRequest = read(message)?;
        let proto::AddEnrolmentKeyRequest { domain, option_set, .. } = request;
        Ok(Object::NewKey { domain, option_set })
    }),
    scoped("EnrolmentKeys", |_| Ok(Object::Keys)),
    scoped("RevokeEnrolmentKey", |message| {
        Ok(Object::Key(read::<proto::EnrolmentKeysRequest>(message)?.name))
    }),
    scoped("Domains", |message| {
        let name = read::<proto::DomainsRequest>(message)?.name;
        Ok(if name.is_empty() { Object::List } else { Object::Domain(name) })
    }),
    scoped("EditPolicy", |message| {
        use proto::edit_policy_request::Edit;
        let proto::EditPolicyRequest { domain, edit } = read(message)?;
        let is_lock = matches!(edit, Some(Edit::PutClass(class)) if class.locked_until != 0);
        Ok(Object::Edit { domain, is_lock })
    }),
    scoped("ReviewPolicy", |message| {
        Ok(Object::Domain(read::<proto::DomainRequest>(message)?.name))
    }),
    scoped("SimulatePolicy", |message| {
        Ok(Object::Domain(read::<proto::DomainRequest>(message)?.name))
    }),
    scoped("ActivatePolicy", |message| {
        Ok(Object::Domain(read::<proto::ActivatePolicyRequest>(message)?.domain))
    }),
    looked_at("RunAction", |message| {
        let proto::RunActionRequest { nodes: followers, definition } = read(message)?;
        let name = |follower: proto::Follower| match follower.follower {
            Some(Follower::Node(name)) => Some(name),
            _ => None,
        };
        let names: Option<Vec<String>> = followers.into_iter().map(name).collect();
        Ok(Object::Run { names: names.filter(|names| !names.is_empty()), definition })
    }),
    scoped("Schedules", |_| Ok(Object::Schedules)),
    looked_at("PutSchedule", |message| {
        let proto::PutScheduleRequest { name, definition, is_new, domain } = read(message)?;
        let domain = Some(domain).filter(|domain| !domain.is_empty());
        Ok(Object::Schedule(match is_new {
            true => ScheduleChange::New { domain, definition },
            false => ScheduleChange::Definition { name, definition },
        }))
    }),
    scoped("RemoveSchedule", |message| {
        let name = read::<proto::SchedulesRequest>(message)?.name;
        Ok(Object::Schedule(ScheduleChange::Removal(name)))
    }),
    looked_at("FollowSchedule", |message| {
        let proto::FollowScheduleRequest { name, followers, ends } = read(message)?;
        let (mut nodes, mut domains) = (Vec::new(), Vec::new());
        for follower in followers {
            match follower.follower {
                Some(Follower::Node(name)) => nodes.push(name),
                Some(Follower::Domain(name)) => domains.push(name),
                Some(Follower::Label(_)) | None => {}
            }
        }
        Ok(Object::Schedule(ScheduleChange::Followers { name, nodes, domains, ends }))
    }),
    scoped("OptionSets", |_| Ok(Object::OptionSets)),
    scoped("OptionSetUses", |_| Ok(Object::OptionSets)),
    scoped("OptionSetVersions", |_| Ok(Object::OptionSets)),
    looked_at("ChangeOptionSet", |message| {
        let option = |one: proto::SetOption| SetOption {
            name: one.name,
            value: one.value,
            is_forced: one.forced,
        };
        let request = read::<proto::ChangeOptionSetRequest>(message)?;
        Ok(Object::Options {
            set: request.name,
            options: request.set.into_iter().map(option).collect(),
            revert_to: request.revert_to,
        })
    }),
    scoped("ScheduledEvents", |message| {
        Ok(listed(read::<proto::ScheduledEventsRequest>(message)?.node))
    }),
    scoped("ScheduledEventLog", |message| {
        Ok(Object::Event(read::<proto::ScheduledEventLogRequest>(message)?.number))
    }),
    scoped("ControlEvents", |message| Ok(node(read::<proto::ControlEventsRequest>(message)?.node))),
    scoped("Stats", |message| Ok(node(read::<proto::StatsRequest>(message)?.node))),
    scoped("NodeVersions", |message| Ok(node(read::<proto::NodeVersionsRequest>(message)?.node))),
    scoped("NodeArchives", |message| Ok(node(read::<proto::NodeArchivesRequest>(message)?.node))),
];

const fn scoped(
    name: &'static str,
    object: fn(&[u8]) -> Result<Object, DecodeError>,
) -> ScopedCall {
    ScopedCall { name, object, needs_look: false }
}

const fn looked_at(
    name: &'static str,
    object: fn(&[u8]) -> Result<Object, DecodeError>,
) -> ScopedCall {
    ScopedCall { name, object, needs_look: true }
}

/// Returns the call at `path`, if callers with roles in domains may make it.
pub(crate) fn find(path: &str) -> Option<&'static ScopedCall> {
    let name = path.rsplit('/').next()?;
    CALLS.iter().find(|call| call.name == name)
}

/// The problem of a call about the whole service.
pub(crate) fn of_service(caller: &Caller) -> Problem {
    if caller.is_staff() {
        return Problem::forbidden();
    }
    let text = "this command is about the whole service, and your roles are in domains; name your \
                domain or a node of it, or use 'holdfast admin node', 'domain list', 'policy', \
                'run', 'event', 'schedule', 'enrolment-key', 'optionset list', 'stats', 'user', \
                'key', 'alert', 'filespace', 'report' or 'api'";
    Problem::new(Kind::Forbidden, text)
}

fn read<M: Message + Default>(message: &[u8]) -> Result<M, DecodeError> {
    M::decode(message)
}

/// The node of a call that is about all nodes if it names none.
fn node(name: String) -> Object {
    if name.is_empty() { Object::Service } else { Object::Nodes(vec![name]) }
}

/// The node of a list, which may name one.
fn listed(name: String) -> Object {
    if name.is_empty() { Object::List } else { Object::Nodes(vec![name]) }
}

/// Returns the message in the body of a call.
pub(crate) fn message(body: &[u8]) -> Answer<&[u8]> {
    let wrong = || Problem::invalid("the call is malformed");
    let (prefix, message) = body.split_at_checked(PREFIX_BYTES).ok_or_else(wrong)?;
    let length = u32::from_be_bytes(prefix[1..].try_into().expect("four bytes"));
    let is_whole = prefix[0] == 0 && usize::try_from(length) == Ok(message.len());
    if is_whole { Ok(message) } else { Err(wrong()) }
}

/// Returns the body of a call with this message.
fn body(message: &impl Message) -> Vec<u8> {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).expect("a call is not that long");
    [&[0][..], &length.to_be_bytes(), &message].concat()
}

/// Fails unless the caller may make the call with this body.
pub(crate) fn check(
    desk: &Desk,
    caller: &Caller,
    call: &ScopedCall,
    (area, right): (Area, Right),
    body: &[u8],
) -> Answer<Permit> {
    let wrong = |error: DecodeError| Problem::invalid(format!("the call is malformed: {error}"));
    let object = (call.object)(message(body)?).map_err(wrong)?;
    let domain = |name: &str| {
        let name = if name.is_empty() { policy::STANDARD } else { name };
        let found = find_domain(desk, caller, name)?;
        caller.check(area, right, Subject::Domain(found.id)).map(|()| found)
    };
    match object {
        Object::Service => check_service(caller, (area, right))?,
        Object::Schedule(change) => return check_schedule(desk, caller, (area, right), change),
        Object::Options { set, options, revert_to } => {
            check_service(caller, (area, right))?;
            check_commands(caller, &options)?;
            check_return(desk.store(), caller, &set, Some(revert_to).filter(|&number| number > 0))?;
        }
        Object::List => return sight(desk, caller).map(Permit::Sight),
        Object::Schedules => {
            return schedules_seen(desk, caller).map(|all| Permit::Schedules(ScheduleSight(all)));
        }
        Object::Nodes(names) => {
            return find_nodes(desk, caller, &names, (area, right)).map(Permit::Nodes);
        }
        Object::Run { names, definition } => {
            let area = area_of_run(&parse_definition(&definition)?);
            match names {
                Some(names) => {
                    return find_nodes(desk, caller, &names, (area, right)).map(Permit::Nodes);
                }
                None if caller.may(area, right, Subject::Service) => {}
                None => return Err(of_service(caller)),
            }
        }
        Object::ChangedNode { name, domain: new, option_set, is_alone } => {
            let found = find_node(desk, caller, &name, (area, right))?;
            caller.check(area, right, Subject::Domain(found.node.domain))?;
            if let Some(set) = option_set.filter(|set| !set.is_empty()) {
                check_seen(desk, caller, &set)?;
            }
            if let Some(new) = new {
                check_handover(caller, found.node.domain)?;
                guard_move(desk, caller, (&found.node, &domain(&new)?), is_alone)?;
            }
            return Ok(Permit::Nodes(FoundNodes(BTreeSet::from([found.node.id]))));
        }
        Object::NewNode(request) if request.again => {
            return again(desk, caller, (area, right), request);
        }
        Object::NewNode(request) => drop(domain(&request.domain)?),
        Object::NewKey { domain: name, option_set } => {
            domain(&name)?;
            if !option_set.is_empty() {
                check_seen(desk, caller, &option_set)?;
            }
        }
        Object::Key(name) => return check_end(desk, caller, &name).map(Permit::Key),
        Object::Keys => return keys_seen(desk, caller).map(|all| Permit::Keys(KeySight(all))),
        Object::OptionSets => {
            let all = option_sets_seen(desk, caller)?;
            return Ok(Permit::OptionSets(OptionSetSight(all)));
        }
        Object::Domain(name) => drop(domain(&name)?),
        Object::Edit { domain: name, is_lock } => {
            domain(&name)?;
            if is_lock {
                // Nobody can undo a lock, so it is for those who run the service.
                caller.check(area, right, Subject::Service)?;
            }
        }
        Object::Event(number) => require_event(desk, caller, number)?,
    }
    Ok(Permit::Call)
}

/// Fails unless the caller may do this with the whole service.
fn check_service(caller: &Caller, (area, right): (Area, Right)) -> Answer<()> {
    if caller.may(area, right, Subject::Service) { Ok(()) } else { Err(of_service(caller)) }
}

fn parse_definition(text: &str) -> Answer<Definition> {
    let wrong = |error| Problem::invalid(format!("the definition is wrong: {error}"));
    serde_json::from_str(text).map_err(wrong)
}

/// Fails unless the caller may change schedules so. Those who have the right in domains have it for
/// the schedules of these domains, and name only nodes and domains that they may see. The schedule
/// may be another one when the server carries out the call, so the call gets the owner of this one.
fn check_schedule(
    desk: &Desk,
    caller: &Caller,
    (area, right): (Area, Right),
    change: ScheduleChange,
) -> Answer<Permit> {
    let is_everywhere = caller.may(area, right, Subject::Service);
    match change {
        ScheduleChange::New { domain: None, definition } => {
            check_service(caller, (area, right))?;
            check_reach(caller, &parse_definition(&definition)?)?;
        }
        ScheduleChange::New { domain: Some(name), definition } => {
            let subject = Subject::Domain(find_domain(desk, caller, &name)?.id);
            caller.check(area, right, subject)?;
            check_reach_in(caller, &parse_definition(&definition)?, subject)?;
        }
        ScheduleChange::Definition { name, definition } => {
            let definition = parse_definition(&definition)?;
            match is_everywhere {
                true => check_reach(caller, &definition)?,
                false => {
                    let owner = check_change(desk, caller, &name, &definition)?;
                    return Ok(Permit::Schedule(owner));
                }
            }
        }
        ScheduleChange::Followers { ends: true, .. } | ScheduleChange::Removal(_)
            if is_everywhere => {}
        ScheduleChange::Followers { name, .. } if is_everywhere => {
            if let Some(owner) = check_work(desk, caller, &name)? {
                return Ok(Permit::Schedule(owner));
            }
        }
        ScheduleChange::Followers { name, nodes, domains, ends } => {
            find_nodes(desk, caller, &nodes, (Area::Nodes, Right::Read))?;
            let mut domains = domains.iter();
            domains.try_for_each(|name| find_domain(desk, caller, name).map(drop))?;
            let owner = match ends {
                true => check_removal(desk, caller, &name)?,
                false => check_spread(desk, caller, &name)?,
            };
            return Ok(Permit::Schedule(owner));
        }
        ScheduleChange::Removal(name) => {
            return check_removal(desk, caller, &name).map(Permit::Schedule);
        }
    }
    Ok(Permit::Call)
}

/// Fails unless the caller may let any nodes do the work of the schedule `name`. Returns its owner.
/// A schedule that does not exist is the server's to refuse.
fn check_work(desk: &Desk, caller: &Caller, name: &str) -> Answer<Option<OwnedBy>> {
    let all = schedules::readable(desk.store())?;
    let found = all.iter().find(|one| one.row.name.eq_ignore_ascii_case(name));
    let Some(schedule) = found else { return Ok(None) };
    check_reach(caller, &schedule.definition)?;
    Ok(Some(OwnedBy::of(schedule.owner)))
}

/// Finds the nodes of these names. Fails unless the caller may do what needs the rights with all of
/// them.
fn find_nodes(
    desk: &Desk,
    caller: &Caller,
    names: &[String],
    rights: (Area, Right),
) -> Answer<FoundNodes> {
    let found = names
        .iter()
        .map(|name| find_node(desk, caller, name, rights).map(|found| found.node.id));
    Ok(FoundNodes(found.collect::<Result<_, _>>()?))
}

/// Permits a new token for a node. The server makes a node that does not exist, so the call gets
/// the domain of the node: a removal meanwhile leads to no node in a domain of others.
fn again(
    desk: &Desk,
    caller: &Caller,
    rights: (Area, Right),
    request: proto::AddNodeRequest,
) -> Answer<Permit> {
    let domain = find_node(desk, caller, &request.name, rights)?.node.domain_name;
    Ok(Permit::Body(body(&proto::AddNodeRequest { domain, ..request })))
}

/// Returns the nodes, the domains and the events that the caller may see.
fn sight(desk: &Desk, caller: &Caller) -> Answer<Sight> {
    let nodes = nodes_seen(desk, caller, (Area::Nodes, Right::Read))?;
    let nodes = nodes.into_iter().map(|node| node.id).collect();
    let (domains, events) = (domains_seen(desk, caller)?, node_sight(desk, caller, Area::Work)?);
    Ok(Sight { nodes, domains, events })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_whole_and_not_compressed() {
        let body = body(&proto::StatsRequest { node: "a".to_owned() });
        assert_eq!(message(&body), Ok(&b"\x0a\x01a"[..]));
        for bad in [&body[..7], &[], &[1, 0, 0, 0, 0], &[&body[..], b"d"].concat()] {
            assert!(message(bad).is_err());
        }
    }

    #[track_caller]
    fn check_object(name: &str, message: &impl Message, expected: &Object) {
        let call = find(&format!("/holdfast.v1.Admin/{name}")).expect("is known");
        assert_eq!((call.object)(&message.encode_to_vec()).as_ref(), Ok(expected));
    }

    #[test]
    fn a_call_about_everything_is_of_the_service() {
        let stats = |node: &str| proto::StatsRequest { node: node.to_owned() };
        check_object("Stats", &stats(""), &Object::Service);
        check_object("Stats", &stats("a"), &Object::Nodes(vec!["a".to_owned()]));
        check_object("ListNodes", &proto::ListNodesRequest::default(), &Object::List);
        check_object("Domains", &proto::DomainsRequest::default(), &Object::List);
        let events = proto::ScheduledEventsRequest::default();
        check_object("ScheduledEvents", &events, &Object::List);
        check_object("ControlEvents", &proto::ControlEventsRequest::default(), &Object::Service);
        assert!(find("/holdfast.v1.Admin/PutPool").is_none());
    }

    #[test]
    fn a_move_of_a_node_is_alone_or_not() {
        let (name, domain) = ("a".to_owned(), Some("LAB".to_owned()));
        for (locked, is_alone) in [(None, true), (Some(false), false)] {
            let (name, domain) = (name.clone(), domain.clone());
            let change = proto::SetNodeRequest {
                name: name.clone(),
                domain: domain.clone(),
                locked,
                ..Default::default()
            };
            let expected = Object::ChangedNode { name, domain, option_set: None, is_alone };
            check_object("SetNode", &change, &expected);
        }
    }

    #[test]
    fn a_new_schedule_belongs_to_the_domain_that_it_names() {
        let put = |domain: &str, is_new| proto::PutScheduleRequest {
            name: "x".to_owned(),
            definition: "{}".to_owned(),
            is_new,
            domain: domain.to_owned(),
        };
        let definition = || "{}".to_owned();
        let new = |domain: Option<&str>| {
            let domain = domain.map(str::to_owned);
            Object::Schedule(ScheduleChange::New { domain, definition: definition() })
        };
        check_object("PutSchedule", &put("", true), &new(None));
        check_object("PutSchedule", &put("LAB", true), &new(Some("LAB")));
        let change = ScheduleChange::Definition { name: "x".to_owned(), definition: definition() };
        check_object("PutSchedule", &put("LAB", false), &Object::Schedule(change));
    }

    #[test]
    fn a_run_names_its_nodes() {
        let node = |name: &str| Follower::Node(name.to_owned());
        let check = |followers: Vec<Follower>, expected: Option<&[&str]>| {
            let follower = |one| proto::Follower { follower: Some(one) };
            let nodes = followers.into_iter().map(follower).collect();
            let definition = "{}".to_owned();
            let run = proto::RunActionRequest { nodes, definition: definition.clone() };
            let names = expected.map(|all| all.iter().map(|name| (*name).to_owned()).collect());
            check_object("RunAction", &run, &Object::Run { names, definition });
        };
        check(vec![node("a"), node("b")], Some(&["a", "b"]));
        check(vec![node("a"), Follower::Label("web".to_owned())], None);
        check(vec![Follower::Domain("LAB".to_owned())], None);
        check(Vec::new(), None);
    }

    #[test]
    fn a_lock_of_a_class_is_told_from_other_edits() {
        use proto::edit_policy_request::Edit;
        let edit = |locked_until| {
            let class = proto::ManagementClass { locked_until, ..Default::default() };
            let edit = Some(Edit::PutClass(class));
            proto::EditPolicyRequest { domain: "LAB".to_owned(), edit }
        };
        let expected = |is_lock| Object::Edit { domain: "LAB".to_owned(), is_lock };
        check_object("EditPolicy", &edit(0), &expected(false));
        check_object("EditPolicy", &edit(7), &expected(true));
    }
}
