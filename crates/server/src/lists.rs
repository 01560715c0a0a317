//! Tests of lists that come in portions, over a real catalogue.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use catalog::{
    ArchivedRow, Catalog, EventRow, LibraryRow, Node, RestoreRow, SessionRow, TransferFigures,
    VolumeAccess, VolumeRow, VolumeState, Write,
};
use model::{NodeName, ServerTime, archive_filespace};
use prost::Message as _;
use store::Store;
use store::folder::Database;
use store::ownership::Ownership;
use tempfile::TempDir;
use tonic::{Request, Response, Status};
use wire::proto;
use wire::proto::admin_server::Admin as _;
use wire::proto::node_server::Node as _;

use crate::admin::AdminApi;
use crate::edge::Edge;
use crate::gate::Caller;
use crate::numbering::Numbering;
use crate::sessions::NodeSessions;

const NOW: ServerTime = ServerTime(1);

/// A server with one node, whose services are called without a network.
struct Bench {
    runtime: tokio::runtime::Runtime,
    admin: AdminApi,
    sessions: NodeSessions,
    catalog: Arc<dyn Catalog>,
    node: Node,
    _folder: TempDir,
}

impl Bench {
    /// Makes a server. `prepare` changes its catalogue before it starts.
    fn new(prepare: impl FnOnce(&dyn Catalog)) -> Self {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("server");
        let new = store::NewServer { listen: "127.0.0.1:0", pool: None, catalog: None, api: None };
        let config = crate::init(&folder, new).expect("a server");
        let database = Database::open(&config, &folder).expect("opens");
        let catalog = database.catalog();
        prepare(&*catalog);
        let node = add_node(&*catalog, "node-0");
        let ownership = Ownership::take(&folder).expect("nobody has it");
        let store = Store::open(&folder, &config, &database, None, ownership).expect("opens");
        let (_, stop) = tokio::sync::watch::channel(false);
        let edge = Arc::new(Edge::new(Arc::new(store), stop).expect("an edge"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let admin = AdminApi { edge: Arc::clone(&edge) };
        let sessions = NodeSessions { edge };
        Self { runtime, admin, sessions, catalog, node, _folder: parent }
    }

    /// Makes a request of the node.
    fn by_node<T>(&self, message: T) -> Request<T> {
        let caller = Caller::new(&self.sessions.edge, self.node.clone(), Vec::new())
            .expect("it is the first");
        let mut request = Request::new(message);
        request.extensions_mut().insert(caller);
        request
    }

    /// Waits for the answer to a call.
    fn reply<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> T {
        self.runtime.block_on(call).expect("is answered").into_inner()
    }
}

fn add_node(catalog: &dyn Catalog, name: &str) -> Node {
    let name = NodeName::new(name).expect("a name");
    catalog.add_node(&name, policy::STANDARD, NOW).expect("is added")
}

/// Items of a reply by a property, and the start of the next portion.
struct Reply<T> {
    items: Vec<T>,
    next: Bytes,
}

fn reply<I, T>(items: Vec<I>, property: impl Fn(I) -> T, next: Bytes) -> Reply<T> {
    Reply { items: items.into_iter().map(property).collect(), next }
}

/// Reads a list in portions of at most two items. Calls `change` after the first portion.
fn portions<T>(
    mut ask: impl FnMut(proto::Portion) -> Reply<T>,
    change: impl FnOnce(),
) -> Vec<Vec<T>> {
    let mut ask = |from| ask(proto::Portion { items_max: 2, from });
    let Reply { items, mut next } = ask(Bytes::new());
    let mut portions = vec![items];
    change();
    while !next.is_empty() {
        let reply = ask(next);
        portions.push(reply.items);
        next = reply.next;
    }
    portions
}

#[test]
fn nodes_come_in_portions() {
    let bench = Bench::new(|_| {});
    let nodes = [1, 2, 3, 4, 5].map(|i| add_node(&*bench.catalog, &format!("node-{i}")));
    let ask = |portion| {
        let request = proto::ListNodesRequest { portion, ..Default::default() };
        let answer = bench.reply(bench.admin.list_nodes(Request::new(request)));
        reply(answer.nodes, |node| node.name, answer.next)
    };
    let listed = portions(
        |portion| ask(Some(portion)),
        || {
            // The second portion would begin with a node that was removed.
            bench.catalog.remove_node(nodes[1].id).expect("is removed");
            for name in ["node-00", "node-35"] {
                add_node(&*bench.catalog, name);
            }
        },
    );
    let expected: [&[&str]; 3] =
        [&["node-0", "node-1"], &["node-3", "node-35"], &["node-4", "node-5"]];
    assert_eq!(listed, expected);
    assert_eq!(ask(None).items.len(), 7);
}

/// The numbers would tell how many nodes and filespaces others have.
#[test]
fn a_caller_who_does_not_see_all_domains_gets_no_numbers_of_nodes_and_filespaces() {
    let bench = Bench::new(|_| {});
    bench.catalog.open_filespace(bench.node.id, b"/", NOW).expect("is made");
    let numbers = |numbering: Numbering| {
        let mut request = Request::new(proto::ListNodesRequest::default());
        request.extensions_mut().insert(numbering);
        let node = bench.reply(bench.admin.list_nodes(request)).nodes.remove(0);
        (node.id, node.filespaces[0].id)
    };
    assert_eq!(numbers(Numbering::covered([7; 32])), (0, 0));
    let (node, filespace) = numbers(Numbering::plain(None));
    assert!(node > 0 && filespace > 0, "node {node}, filespace {filespace}");
}

#[test]
fn filespaces_come_in_portions() {
    let bench = Bench::new(|_| {});
    let open = |name: &[u8]| {
        bench.catalog.open_filespace(bench.node.id, name, NOW).expect("is made");
    };
    for name in [&b"/"[..], b"/home", b"/srv", &archive_filespace(1, b"/")] {
        open(name);
    }
    let ask = |archives, portion| {
        let request = proto::FilespacesRequest { archives, portion, ..Default::default() };
        let answer = bench.reply(bench.sessions.filespaces(bench.by_node(request)));
        reply(answer.filespaces, |filespace| filespace.name.to_vec(), answer.next)
    };
    let listed = portions(|portion| ask(false, Some(portion)), || open(b"/tmp"));
    let expected: [&[&[u8]]; 2] = [&[b"/", b"/home"], &[b"/srv", b"/tmp"]];
    assert_eq!(listed, expected);
    // A filespace whose name is less than the start of the next portion is not listed.
    let all = portions(|portion| ask(true, Some(portion)), || open(b"/a"));
    let expected: [&[&[u8]]; 3] =
        [&[&archive_filespace(1, b"/"), b"/"], &[b"/home", b"/srv"], &[b"/tmp"]];
    assert_eq!(all, expected);
    assert_eq!([false, true].map(|archives| ask(archives, None).items.len()), [5, 6]);
}

/// Another node sees the filespaces and the archives in which it may read something.
#[test]
fn lists_of_another_node_have_what_its_rules_allow() {
    let bench = Bench::new(|_| {});
    let owner = add_node(&*bench.catalog, "owner");
    let open = |name: &[u8]| bench.catalog.open_filespace(owner.id, name, NOW).expect("is made");
    for name in ["/", "/home", "/srv"] {
        open(name.as_bytes());
    }
    let archive = |mount_points: &[&str]| {
        let number = bench.catalog.add_archive(owner.id, "", NOW).expect("is made").number;
        mount_points
            .iter()
            .for_each(|name| drop(open(&archive_filespace(number, name.as_bytes()))));
        number
    };
    let (seen, _) = (archive(&["/home", "/srv"]), archive(&["/srv"]));
    let ask = |archives| {
        let node = "owner".to_owned();
        let request = proto::FilespacesRequest { archives, node, ..Default::default() };
        bench.runtime.block_on(bench.sessions.filespaces(bench.by_node(request)))
    };
    let names = |archives| {
        let answer = ask(archives).expect("is answered").into_inner();
        answer.filespaces.into_iter().map(|one| one.name.to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(ask(false).expect_err("no rule").code(), tonic::Code::NotFound);

    let allow = |is_archive, path: &str| {
        let reader = bench.node.name.to_string();
        let path = path.as_bytes().to_vec();
        let rule = catalog::ReadRule { reader, is_archive, path, since: NOW };
        bench.catalog.put_read_rule(owner.id, &rule).expect("is kept");
    };
    allow(true, "/home/ann");
    assert_eq!(names(true), [archive_filespace(seen, b"/home")]);
    assert_eq!(names(false), [b""; 0]);
    let request = proto::ArchivesRequest { portion: None, node: "owner".to_owned() };
    let archives = bench.reply(bench.sessions.archives(bench.by_node(request))).archives;
    assert_eq!(archives.len(), 1);
    assert_eq!(archives[0].filespaces, [archive_filespace(seen, b"/home")]);
    allow(false, "/srv");
    // The directory could be of the root file system.
    assert_eq!(names(false), [&b"/"[..], b"/srv"]);
}

#[test]
fn no_request_deletes_what_another_node_has_stored() {
    let bench = Bench::new(|_| {});
    let owner = add_node(&*bench.catalog, "owner");
    let rule = catalog::ReadRule {
        reader: bench.node.name.to_string(),
        is_archive: false,
        path: b"/".to_vec(),
        since: NOW,
    };
    bench.catalog.put_read_rule(owner.id, &rule).expect("is kept");
    let selection = proto::Selection { node: "owner".to_owned(), ..Default::default() };
    let request = proto::DeleteRequest { selection: Some(selection), ..Default::default() };
    let answer = bench.runtime.block_on(bench.sessions.delete(bench.by_node(request)));
    assert_eq!(answer.expect_err("is refused").code(), tonic::Code::PermissionDenied);
}

/// Regression: a filespace with a name of 30 MiB kept the list of all nodes from fitting into a
/// message for good.
#[test]
fn a_filespace_with_an_endless_name_hides_nothing_else() {
    let bench = Bench::new(|_| {});
    for name in [&b"/"[..], &vec![b'n'; 30 << 20], b"/srv"] {
        bench.catalog.open_filespace(bench.node.id, name, NOW).expect("is made");
    }
    let request = proto::ListNodesRequest::default();
    let listed = bench.reply(bench.admin.list_nodes(Request::new(request)));
    assert!(listed.encoded_len() < 1000, "{} bytes", listed.encoded_len());
    let names = listed.nodes.into_iter().flat_map(|node| node.filespaces);
    let names: Vec<Bytes> = names.map(|filespace| filespace.name).collect();
    assert_eq!(names, [&b"/"[..], b"/srv"]);
}

#[test]
fn archives_and_deletions_come_in_portions() {
    let bench = Bench::new(|_| {});
    let node = bench.node.id;
    let (numbers, deletion_numbers) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let add = || {
        let number = bench.catalog.add_archive(node, "", NOW).expect("is made").number;
        let name = archive_filespace(number, b"/home");
        bench.catalog.open_filespace(node, &name, NOW).expect("is made");
        numbers.borrow_mut().push(number);
        let deletion = bench.catalog.add_deletion(node, "", NOW).expect("is made");
        deletion_numbers.borrow_mut().push(deletion);
    };
    // Archives and deletions are named by their place in the order of their making, from 1.
    let place = |made: &RefCell<Vec<u64>>, number: u64| -> usize {
        made.borrow().iter().position(|one| *one == number).expect("is made") + 1
    };
    (0..5).for_each(|_| add());
    let archives = |portion| {
        let answer = bench.reply(
            bench
                .sessions
                .archives(bench.by_node(proto::ArchivesRequest { portion, node: String::new() })),
        );
        let own = |archive: &proto::Archive| archive_filespace(archive.number, b"/home");
        assert!(answer.archives.iter().all(|archive| archive.filespaces == [own(archive)]));
        reply(answer.archives, |archive| place(&numbers, archive.number), answer.next)
    };
    let deletions = |portion| {
        let answer = bench
            .reply(bench.sessions.deletions(bench.by_node(proto::DeletionsRequest { portion })));
        reply(answer.deletions, |deletion| place(&deletion_numbers, deletion.number), answer.next)
    };
    let listed = portions(
        |portion| archives(Some(portion)),
        || {
            let gone = numbers.borrow()[2];
            bench.catalog.remove_archive(node, gone).expect("is removed");
            add();
        },
    );
    assert_eq!(listed, [vec![5, 4], vec![2, 1]]);
    let listed = portions(
        |portion| deletions(Some(portion)),
        || {
            let gone = Write::EmptyTrash { deletion: deletion_numbers.borrow()[3] };
            bench.catalog.commit(vec![gone]).expect("is performed");
        },
    );
    assert_eq!(listed, [vec![6, 5], vec![3, 2], vec![1]]);
    assert_eq!(archives(None).items, [6, 5, 4, 2, 1]);
    assert_eq!(deletions(None).items, [6, 5, 3, 2, 1]);
}

#[test]
fn events_and_runs_come_in_portions() {
    let bench = Bench::new(|_| {});
    let add = || {
        let [actor, what, details] = ["server", "x", ""].map(str::to_owned);
        let event = Write::AddEvent(EventRow { time: NOW, actor, what, details });
        let begin = Write::BeginTask { task: "expire".to_owned(), due: NOW, started: NOW };
        bench.catalog.commit(vec![event, begin]).expect("is performed");
    };
    (0..5).for_each(|_| add());
    let events = |portion| {
        let request = proto::EventsRequest { portion: Some(portion), filter: None };
        let answer = bench.reply(bench.admin.events(Request::new(request)));
        reply(answer.events, |event| event.number, answer.next)
    };
    let runs = |portion| {
        let request = proto::TaskRunsRequest { portion: Some(portion) };
        let answer = bench.reply(bench.admin.task_runs(Request::new(request)));
        reply(answer.runs, |run| run.number, answer.next)
    };
    assert_eq!(portions(events, add), [vec![5, 4], vec![3, 2], vec![1]]);
    assert_eq!(portions(runs, add), [vec![6, 5], vec![4, 3], vec![2, 1]]);
}

#[test]
fn finished_backups_come_in_portions_and_end_at_a_time() {
    let bench = Bench::new(|_| {});
    let other = add_node(&*bench.catalog, "node-1");
    for (node, ended) in [(&bench.node, 1), (&other, 2), (&bench.node, 3), (&other, 4)] {
        let filespace = bench.catalog.open_filespace(node.id, b"/", NOW).expect("is made").id;
        let report = if ended == 3 { "x".repeat(5_000) } else { format!("ended {ended}") };
        let row = SessionRow {
            node: node.id,
            filespace,
            started: NOW,
            ended: ServerTime(ended),
            complete: true,
            report,
        };
        bench.catalog.commit(vec![Write::AddSession(row)]).expect("is added");
    }
    let ask = |since, portion| {
        let request = proto::FinishedBackupsRequest { portion: Some(portion), since };
        let answer = bench.reply(bench.admin.finished_backups(Request::new(request)));
        reply(answer.backups, |backup| (backup.node, backup.report), answer.next)
    };
    let told = |node: &str, report: &str| (node.to_owned(), report.to_owned());
    let (last, long) = (told("node-1", "ended 4"), told("node-0", ""));
    let (second, first) = (told("node-1", "ended 2"), told("node-0", "ended 1"));
    assert_eq!(
        portions(|portion| ask(0, portion), || {}),
        [vec![last.clone(), long.clone()], vec![second.clone(), first]]
    );
    let since: Vec<_> = portions(|portion| ask(2, portion), || {}).concat();
    assert_eq!(since, [last, long, second]);
}

#[test]
fn finished_archives_and_restores_come_in_portions_and_end_at_a_time() {
    let bench = Bench::new(|_| {});
    let filespace = bench.catalog.open_filespace(bench.node.id, b"/", NOW).expect("is made");
    let figures = TransferFigures { examined: 5, objects: 4, failed: 1, bytes: 40 };
    for ended in [1, 2, 3].map(ServerTime) {
        let (node, started) = (bench.node.id, NOW);
        let name = archive_filespace(7, b"/");
        let archived = ArchivedRow { node, filespace: name, started, ended, figures };
        bench.catalog.add_archived(&archived).expect("is recorded");
        let (filespace, objects, bytes) = (filespace.id, 6, 60);
        let restore = RestoreRow { node, filespace, started, ended, objects, bytes };
        bench.catalog.add_restore(&restore).expect("is recorded");
    }
    let told = |answer: proto::FinishedTransfersReply| {
        let property = |one: proto::FinishedTransfer| {
            (one.filespace.to_vec(), one.ended, one.objects, one.failed)
        };
        reply(answer.transfers, property, answer.next)
    };
    let request = |since, portion| {
        Request::new(proto::FinishedTransfersRequest { portion: Some(portion), since })
    };
    let archives = |portion| told(bench.reply(bench.admin.finished_archives(request(0, portion))));
    let archived = |ended: i64| (archive_filespace(7, b"/"), ended, 4_u64, 1_u64);
    assert_eq!(portions(archives, || {}), [vec![archived(3), archived(2)], vec![archived(1)]]);
    let restores = |portion| told(bench.reply(bench.admin.finished_restores(request(2, portion))));
    let restored = |ended: i64| (b"/".to_vec(), ended, 6_u64, 0_u64);
    assert_eq!(portions(restores, || {}), [vec![restored(3), restored(2)]]);
}

#[test]
fn volumes_come_in_portions() {
    let bench = Bench::new(|catalog| {
        for library in ["b", "a"] {
            catalog.put_library(&library_row(library)).expect("is made");
            for name in ["V2", "V1", "V3"] {
                catalog.add_volume(&volume_row(library, name)).expect("is made");
            }
        }
    });
    let ask = |volume: &str, portion| {
        let volume = volume.to_owned();
        let request = proto::VolumesRequest { volume, portion, ..Default::default() };
        let answer = bench.reply(bench.admin.volumes(Request::new(request)));
        reply(answer.volumes, |volume| volume.library + &volume.name, answer.next)
    };
    let listed = portions(|portion| ask("", Some(portion)), || {});
    assert_eq!(listed, [["aV1", "aV2"], ["aV3", "bV1"], ["bV2", "bV3"]]);
    assert_eq!(portions(|portion| ask("V2", Some(portion)), || {}), [["aV2", "bV2"]]);
    assert_eq!(ask("", None).items.len(), 6);
}

fn library_row(name: &str) -> LibraryRow {
    LibraryRow {
        name: name.to_owned(),
        changer: None,
        drives: Vec::new(),
        folder: Some("/nonexistent".to_owned()),
        capacity_bytes: None,
        drives_max: 1,
        retain_secs: 0,
        optimised_only: false,
        writers_max: 0,
    }
}

fn volume_row(library: &str, name: &str) -> VolumeRow {
    VolumeRow {
        id: 0,
        library: library.to_owned(),
        name: name.to_owned(),
        label: [0; 16],
        block_bytes: 1 << 16,
        pool: None,
        group: String::new(),
        state: VolumeState::Scratch,
        access: VolumeAccess::ReadWrite,
        location: String::new(),
        written_bytes: 0,
        errors: 0,
        changed: NOW,
    }
}
