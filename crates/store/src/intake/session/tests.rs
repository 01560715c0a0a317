//! Tests of backup sessions on a real server: commits, and rejected objects.

use catalog::change::PageStart;
use format::page;
use model::{
    ChunkRange, DirectoryDigest, Extent, GrantProof, Kind, NodeName, Object, PackNumber, Payload,
    SessionPlace,
};
use wire::Grant;

use super::*;
use crate::intake::{KnownContent, Reason, ReceivedQuantum, take_in};
use crate::places::places;
use crate::samples::{
    self, TestServer, bytes_of, chunk, directory, file, name, page_change, refused, sent_file,
    stored,
};

/// Returns the grants of the session for the quantum `number`.
fn grants(receipt: &CommitReceipt, quantum: &StoredQuantum, number: u64) -> Vec<Grant> {
    let of_quantum = receipt.grants.iter().find(|grants| grants.number == number);
    let bytes = &of_quantum.expect("each quantum has its grants").bytes;
    assert_eq!(bytes.len(), quantum.places.len() * 16);
    let grant = |(digest, bytes): (_, &[u8])| Grant {
        digest,
        proof: GrantProof(bytes.try_into().expect("16 bytes")),
    };
    quantum.digests.iter().copied().zip(bytes.chunks(16)).map(grant).collect()
}

fn commit(
    intake: &mut Intake,
    quanta: Vec<(u64, StoredQuantum)>,
    change: &PageChange,
) -> Result<CommitReceipt, StoreError> {
    intake.commit(quanta, &|_| Ok(vec![change.clone()]))
}

fn granted_file(text: &str, grant: u32, chunks: &[u64]) -> Object<SessionPlace> {
    let count = u32::try_from(chunks.len()).expect("few");
    let first = SessionPlace::Granted { grant };
    let extents = vec![Extent::Chunks(ChunkRange { first, count })];
    file(name(text), ClassId(1), bytes_of(chunks), extents)
}

#[test]
fn a_committed_file_survives_a_kill_with_its_data() {
    let mut server = TestServer::new();
    server.back_up("/a/", &[("x", &[1, 2, 3]), ("y", &[2])]);
    server.reopen();
    let objects = server.objects("/a/");
    let names: Vec<_> = objects.iter().map(|object| object.name.clone()).collect();
    assert_eq!(names, [name("x"), name("y")]);
    let digests = |object| {
        let of_place = |place| server.store.pools.chunk(place).expect("exists").1;
        places(object).map(of_place).collect::<Vec<_>>()
    };
    let expected = |numbers: &[u64]| {
        let of_chunk = |number: &u64| server.store.pools.digest_of(crate::DOMAIN, &chunk(*number));
        numbers.iter().map(of_chunk).collect::<Vec<_>>()
    };
    assert_eq!(digests(&objects[0]), expected(&[1, 2, 3]));
    assert_eq!(digests(&objects[1]), expected(&[2]));
    assert_eq!(places(&objects[1]).next(), places(&objects[0]).nth(1), "a chunk is stored once");
}

#[test]
fn a_filespace_has_one_session_at_a_time() {
    let server = TestServer::new();
    let first = server.intake();
    let second = Intake::open(&server.store, server.node.clone(), b"/");
    let error = refused(second, "another backup of this filespace is running");
    assert!(matches!(error, StoreError::Busy(_)), "{error:?}");
    let other = Intake::open(&server.store, server.node.clone(), b"/home");
    assert_ne!(other.expect("another filespace").id(), first.id());
    drop(first);
    drop(server.intake());
}

/// A file whose data the server does not have, or whose size is wrong.
struct Case {
    what: &'static str,
    file: Object<SessionPlace>,
    reason: Reason,
}

/// Returns files that cannot be resolved in a session that has sent chunks 1, 2 and 3 as quantum 1.
fn unresolvable() -> Vec<Case> {
    let sent = |quantum, index| SessionPlace::Sent { quantum, index };
    let run = |first, count| vec![Extent::Chunks(ChunkRange { first, count })];
    let of = |bytes, extents| file(name("bad"), ClassId(1), bytes, extents);
    let size = bytes_of(&[1, 2, 3]);
    let case = |what, file, reason| Case { what, file, reason };
    let holes = vec![Extent::Hole { bytes: u64::MAX }, Extent::Hole { bytes: 1 }];
    let sealed = |bytes| vec![Extent::Sealed { place: sent(1, 0), bytes }];
    vec![
        case("a quantum that was not sent", of(size, run(sent(2, 0), 3)), Reason::SendData),
        case("a chunk after the last", of(size, run(sent(1, 1), 3)), Reason::SendData),
        case("a grant that is missing", granted_file("bad", 0, &[1]), Reason::SendData),
        case("a size that is too large", of(size + 1, run(sent(1, 0), 3)), Reason::Size),
        case("a size that is too small", of(size - 1, run(sent(1, 0), 3)), Reason::Size),
        case("a size without data", of(1, Vec::new()), Reason::Size),
        case("holes beyond all sizes", of(0, holes), Reason::Size),
        case("sealed content beyond a chunk", of(0, sealed(u32::MAX)), Reason::Size),
    ]
}

#[test]
fn an_object_that_cannot_be_resolved_is_left_out_and_the_others_stay() {
    for Case { what, file, reason } in unresolvable() {
        let server = TestServer::new();
        let mut intake = server.intake();
        let quanta = vec![(1, stored(&server.store, &[1, 2, 3]))];
        let digest = Some(DirectoryDigest([7; 16]));
        let change = PageChange {
            backed_up: vec![sent_file(name("good"), 1, &[1, 2, 3]), file],
            pages: vec![PageStart { first: Vec::new(), digest }],
            ..page_change("/")
        };
        let receipt = commit(&mut intake, quanta, &change).expect("the rest is committed");
        let rejected: Vec<_> = receipt.rejected.iter().map(|one| (&one.name, one.reason)).collect();
        assert_eq!(rejected, [(&name("bad"), reason)], "{what}");
        let names: Vec<_> = server.objects("/").into_iter().map(|object| object.name).collect();
        assert_eq!(names, [name("good")], "{what}");
    }
}

#[test]
fn a_directory_with_a_rejected_object_has_no_digest_in_this_session() {
    let server = TestServer::new();
    let mut intake = server.intake();
    let digest = Some(DirectoryDigest([7; 16]));
    let pages = vec![PageStart { first: Vec::new(), digest }];
    let stored_digest = |path: &str| {
        let key = catalog::PageKey::first_of(directory(path));
        server
            .store
            .catalog
            .page(server.filespace, &key)
            .expect("is read")
            .expect("a page")
            .digest
    };
    let bad = file(name("bad"), ClassId(1), 1, Vec::new());
    let rejected = PageChange { backed_up: vec![bad], pages, ..page_change("/a/") };
    commit(&mut intake, Vec::new(), &rejected).expect("the page is committed");
    assert_eq!(stored_digest("/a/"), None);
    let whole = PageChange { backed_up: Vec::new(), ..rejected };
    commit(&mut intake, Vec::new(), &whole).expect("nothing is missing now");
    assert_eq!(stored_digest("/a/"), None, "an object of an earlier transaction is missing");
    let other = PageChange { key: catalog::PageKey::first_of(directory("/b/")), ..whole.clone() };
    commit(&mut intake, Vec::new(), &other).expect("another directory");
    assert_eq!(stored_digest("/b/"), digest);
    drop(intake);
    commit(&mut server.intake(), Vec::new(), &whole).expect("the next session compares again");
    assert_eq!(stored_digest("/a/"), digest);
}

#[test]
fn a_grant_holds_for_its_node_its_chunk_and_its_place_alone() {
    let server = TestServer::new();
    let quantum = stored(&server.store, &[1, 2]);
    let (digests, lengths) = (quantum.digests.clone(), quantum.lengths.clone());
    let kept = StoredQuantum { places: quantum.places.clone(), lengths, digests };
    let receipt = commit(&mut server.intake(), vec![(1, quantum)], &page_change("/"));
    let grants = grants(&receipt.expect("is committed"), &kept, 1);
    let other = another_node(&server);
    let check = |node: &Node, grants: Vec<Grant>, expected: &[Reason]| {
        let mut intake = Intake::open(&server.store, node.clone(), b"/").expect("is free");
        let backed_up = vec![granted_file("x", 0, &[1, 2])];
        let change = PageChange { backed_up, grants, ..page_change("/") };
        let receipt = commit(&mut intake, Vec::new(), &change).expect("is committed");
        let reasons: Vec<_> = receipt.rejected.iter().map(|one| one.reason).collect();
        assert_eq!(reasons, expected);
    };
    check(&server.node, grants.clone(), &[]);
    check(&other, grants.clone(), &[Reason::SendData]);
    let mut forged = grants.clone();
    forged[1].proof.0[8] ^= 1;
    check(&server.node, forged, &[Reason::SendData]);
    let mut moved = grants.clone();
    moved[0].proof = grants[1].proof;
    check(&server.node, moved, &[Reason::SendData]);
    let mut renamed = grants.clone();
    renamed[0].digest = grants[1].digest;
    check(&server.node, renamed, &[Reason::SendData]);
    check(&server.node, grants[..1].to_vec(), &[Reason::SendData]);
}

/// Adds another node to the server.
fn another_node(server: &TestServer) -> Node {
    let name = NodeName::new("b").expect("a name");
    let added = server.store.catalog.add_node(&name, policy::STANDARD, ServerTime(1));
    added.expect("added")
}

/// A server whose nodes share chunks of 64 KiB and more, as by default.
fn sharing_server() -> TestServer {
    TestServer::with(|config| config.shared_chunk_bytes_min = 64 << 10)
}

/// Regression: a node learned from its grants whether another node had a content, which it could
/// try for a content of five digits in seconds.
#[test]
fn nodes_share_no_chunk_that_can_be_guessed() {
    let server = sharing_server();
    let store = &server.store;
    let (one, other) = (server.node.id, another_node(&server).id);
    let contents = [vec![1; 64 << 10], vec![2; (64 << 10) - 1], b"secret 12345".to_vec()];
    let quantum = samples::quantum_of(store, &contents);
    let send = |node, is_encrypted| {
        let quantum = ReceivedQuantum { is_encrypted, ..samples::received(&quantum) };
        take_in(store, samples::origin(node), quantum).expect("is stored")
    };
    let [first, others, again, others_again] =
        [one, other, one, other].map(|node| send(node, false));
    assert_eq!(others.places[0], first.places[0], "the long chunk is stored once");
    assert!(others.places[1..].iter().all(|place| !first.places.contains(place)));
    assert_eq!(again.places, first.places, "a node knows its own chunks");
    assert_eq!(others_again.places, others.places);
    let [first, others, again] = [one, other, one].map(|node| send(node, true));
    assert_ne!(others.places[0], first.places[0], "a long chunk that is encrypted");
    assert_eq!(again.places, first.places);
}

/// The index entries that a reclamation or a rebuild makes serve grants alone.
#[test]
fn a_short_chunk_that_was_moved_is_found_by_its_grant_alone() {
    let server = sharing_server();
    let store = &server.store;
    let quantum = stored(store, &[1]);
    let (digests, lengths, places) =
        (quantum.digests.clone(), quantum.lengths.clone(), quantum.places.clone());
    let kept = StoredQuantum { places, lengths, digests };
    let mut intake = server.intake();
    let receipt = commit(&mut intake, vec![(1, quantum)], &page_change("/")).expect("committed");
    let grants = grants(&receipt, &kept, 1);
    server.seal();
    let sent = samples::quantum(store, &[1]);
    let send = |node| take_in(store, samples::origin(node), samples::received(&sent));
    let moved = send(another_node(&server).id).expect("is stored again");
    assert_ne!(moved.places, kept.places);
    condemn(&server, kept.places[0].pack());
    store.note(&[(kept.digests[0], moved.places[0])]);
    let again = send(server.node.id).expect("is stored");
    assert_ne!(again.places, moved.places, "a node without a grant finds no chunk of another");
    let backed_up = vec![granted_file("x", 0, &[1])];
    let change = PageChange { backed_up, grants, ..page_change("/") };
    let receipt = commit(&mut intake, Vec::new(), &change).expect("is committed");
    assert_eq!(receipt.rejected, []);
}

/// Condemns the pack, as a reclamation does after it has found nothing alive in the pack.
fn condemn(server: &TestServer, pack: PackNumber) {
    server.store.condemned_mut().packs.insert(pack, None);
}

#[test]
fn nothing_new_names_a_condemned_pack() {
    let server = TestServer::new();
    let mut intake = server.intake();
    let quantum = stored(&server.store, &[1, 2]);
    let pack = quantum.places[0].pack();
    commit(&mut intake, vec![(1, quantum)], &page_change("/")).expect("the data is durable");
    server.seal();
    condemn(&server, pack);
    let change =
        PageChange { backed_up: vec![sent_file(name("x"), 1, &[1, 2])], ..page_change("/") };
    let receipt = commit(&mut intake, Vec::new(), &change).expect("the page is committed");
    assert_eq!(receipt.rejected[0].reason, Reason::SendData);
    assert_eq!(server.objects("/"), []);
    // The node sends the data again, and the server stores it in another pack.
    server.store.forget_packs(&BTreeSet::from([pack]));
    let again = vec![(2, stored(&server.store, &[1, 2]))];
    let receipt = commit(&mut intake, again, &change).expect("is committed");
    assert_eq!(receipt.rejected, [], "the chunks have another place now");
    assert!(places(&server.objects("/")[0]).all(|place| place.pack() > pack));
}

#[test]
fn known_content_is_that_of_an_equal_active_file_of_the_node() {
    let server = TestServer::new();
    server.back_up("/a/", &[("x", &[1, 2])]);
    let equal = || sent_file(name("y"), 9, &[1, 2]);
    let mut larger = equal();
    larger.stat.size += 1;
    let mut newer = equal();
    newer.stat.mtime.secs += 1;
    let mut link = equal();
    link.stat.kind = Kind::Symlink;
    let known = KnownContent {
        name: name("y"),
        filespace: b"/".to_vec(),
        directory: directory("/a/"),
        of: name("x"),
    };
    let at = |filespace: &[u8], path: &str, of: &str| KnownContent {
        filespace: filespace.to_vec(),
        directory: directory(path),
        of: name(of),
        ..known.clone()
    };
    let cases = [
        (equal(), known.clone(), true),
        (larger, known.clone(), false),
        (newer, known.clone(), false),
        (link, known.clone(), false),
        (equal(), at(b"/", "/a/", "z"), false),
        (equal(), at(b"/", "/b/", "x"), false),
        (equal(), at(b"/home", "/a/", "x"), false),
    ];
    for (number, (object, known, is_taken)) in cases.into_iter().enumerate() {
        let path = format!("/new{number}/");
        let (backed_up, known) = (vec![object], vec![known]);
        let change = PageChange { backed_up, known, ..page_change(&path) };
        let receipt = commit(&mut server.intake(), Vec::new(), &change).expect("is committed");
        assert_eq!(receipt.rejected.is_empty(), is_taken, "case {number}");
        let payloads: Vec<_> = server.objects(&path).into_iter().map(|new| new.payload).collect();
        let expected = is_taken.then(|| server.objects("/a/")[0].payload.clone());
        assert_eq!(payloads, expected.into_iter().collect::<Vec<_>>(), "case {number}");
    }
}

#[test]
fn a_change_that_meets_another_page_than_it_was_made_for_changes_nothing() {
    let server = TestServer::new();
    server.back_up("/", &[("x", &[1])]);
    let before = server.objects("/");
    let mut resized = before[0].clone();
    resized.stat.size += 1;
    let mut absent = before[0].clone();
    absent.name = name("absent");
    for updated in [resized, absent] {
        let backed_up = vec![sent_file(name("new"), 1, &[2])];
        let change = PageChange { backed_up, updated: vec![updated], ..page_change("/") };
        let quanta = vec![(1, stored(&server.store, &[2]))];
        let error = refused(commit(&mut server.intake(), quanta, &change), "not active");
        assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
        assert_eq!(server.objects("/"), before, "no part of the change is applied");
    }
}

#[test]
fn everything_below_a_directory_that_is_gone_expires() {
    let server = TestServer::new();
    let mut folder = sent_file(name("d"), 1, &[]);
    (folder.stat.kind, folder.payload) = (Kind::Directory, Payload::Nothing);
    let change = PageChange { backed_up: vec![folder], ..page_change("/") };
    commit(&mut server.intake(), Vec::new(), &change).expect("is committed");
    let many: Vec<String> = (0..70).map(|number| format!("/d/{number}/")).collect();
    for path in many.iter().map(String::as_str).chain(["/d/", "/dd/"]) {
        server.back_up(path, &[("x", &[1])]);
    }
    let change = PageChange { expired: vec![name("d")], ..page_change("/") };
    let receipt = commit(&mut server.intake(), Vec::new(), &change).expect("is committed");
    assert_eq!(receipt.expired_objects, 72, "the directory, the file in it, and 70 below it");
    assert_eq!(server.objects("/d/"), []);
    assert_eq!(server.objects("/d/69/"), []);
    assert_eq!(server.objects("/dd/").len(), 1, "a directory with a longer name stays");
    let ended = server.store.catalog.versions(server.filespace, &directory("/d/7/"));
    assert_eq!(ended.expect("are read").len(), 1, "the file has become an inactive version");
}

#[test]
fn a_session_is_recorded_with_its_report() {
    let server = TestServer::new();
    let intake = server.intake();
    intake.close(false, "{\"files\": 3}").expect("is recorded");
    let sessions = server.store.catalog.sessions(server.node.id, 9).expect("are listed");
    let [row] = &sessions[..] else { panic!("{sessions:?}") };
    assert_eq!((row.complete, row.report.as_str()), (false, "{\"files\": 3}"));
    assert!(row.started <= row.ended && row.filespace == server.filespace);
}

/// Returns a quantum of the session `number` of `chunks` chunks that all have one place.
fn large_quantum(store: &Store, chunks: usize) -> StoredQuantum {
    let StoredQuantum { places, lengths, digests } = stored(store, &[1]);
    StoredQuantum {
        places: vec![places[0]; chunks],
        lengths: vec![lengths[0]; chunks],
        digests: vec![digests[0]; chunks],
    }
}

/// Regression: the quanta of the last 64 transactions were kept whatever number of chunks they had.
#[test]
fn a_session_keeps_chunks_up_to_its_limit() {
    let server = TestServer::new();
    let mut intake = server.intake();
    let no_change = page_change("/");
    for number in 0..5 {
        let quanta = vec![(number, large_quantum(&server.store, CHUNKS_KEPT / 2))];
        commit(&mut intake, quanta, &no_change).expect("is committed");
        let kept = intake.kept_chunks.own();
        assert!(kept <= CHUNKS_KEPT, "{kept} chunks are kept");
    }
    assert!(intake.quanta.keys().eq(&[3, 4]));
    // The last transaction is kept even if it is too large: the next changes name its chunks.
    let quanta = vec![(5, large_quantum(&server.store, CHUNKS_KEPT + 1))];
    commit(&mut intake, quanta, &no_change).expect("is committed");
    assert!(intake.quanta.keys().eq(&[5]));
    commit(&mut intake, Vec::new(), &no_change).expect("is committed");
    assert!(intake.quanta.is_empty());
}

/// Each of 64 backups of a node kept chunks up to its own limit, and its last transaction.
#[test]
fn the_backups_of_a_node_keep_chunks_up_to_a_common_limit() {
    let server = TestServer::new();
    let mut intake = server.intake();
    let no_change = page_change("/");
    let mut others = server.store.kept_chunks.share(server.node.id);
    others.add(CHUNKS_OF_NODE_KEPT);
    let quanta = vec![(1, large_quantum(&server.store, CHUNKS_KEPT_OF_MANY + 1))];
    commit(&mut intake, quanta, &no_change).expect("is committed");
    assert!(intake.quanta.is_empty(), "the node has too many");
    let quanta = vec![(2, large_quantum(&server.store, CHUNKS_KEPT_OF_MANY))];
    commit(&mut intake, quanta, &no_change).expect("is committed");
    assert!(intake.quanta.keys().eq(&[2]), "each backup keeps some");
    drop(others);
    let quanta = vec![(3, large_quantum(&server.store, CHUNKS_KEPT_OF_MANY + 1))];
    commit(&mut intake, quanta, &no_change).expect("is committed");
    assert!(intake.quanta.keys().eq(&[2, 3]));
    assert_eq!(intake.kept_chunks.of_node(), 2 * CHUNKS_KEPT_OF_MANY + 1);
}

#[test]
fn a_session_keeps_many_small_transactions() {
    let server = TestServer::new();
    let mut intake = server.intake();
    for number in 0..100 {
        let quanta = vec![(number, stored(&server.store, &[1]))];
        commit(&mut intake, quanta, &page_change("/")).expect("is committed");
    }
    assert_eq!(intake.quanta.len(), 100, "a large file without grants names its first chunk");
}

#[test]
fn a_quantum_has_a_number_of_its_own() {
    let server = TestServer::new();
    let mut intake = server.intake();
    let quanta = || vec![(7, stored(&server.store, &[1]))];
    commit(&mut intake, quanta(), &page_change("/")).expect("is committed");
    let again = commit(&mut intake, quanta(), &page_change("/"));
    refused(again, "two quanta of a session have one number");
}

/// Regression: a page of 61 bytes named the chunks of a quantum 50 times, which became 105 million
/// extents.
#[test]
fn a_run_that_is_too_long_for_a_transaction_is_refused_before_it_expands() {
    let server = TestServer::new();
    let mut intake = server.intake();
    let count = 105_000_000;
    let first = SessionPlace::Sent { quantum: 1, index: 0 };
    let extents = vec![Extent::Chunks(ChunkRange { first, count })];
    let bomb = file(name("bomb"), ClassId(1), u64::from(count), extents);
    let change = PageChange { backed_up: vec![bomb], ..page_change("/") };
    let quanta = vec![(1, stored(&server.store, &[1]))];
    let error = refused(commit(&mut intake, quanta, &change), "more memory");
    assert!(matches!(error, StoreError::Usage(_)), "{error:?}");
    assert_eq!(server.objects("/"), []);
}

#[test]
fn the_content_of_another_object_counts_like_the_object_itself() {
    let server = TestServer::new();
    server.back_up("/a/", &[("x", &[1])]);
    let budget = Budget::new(page::EXTENT_BYTES);
    let condemned = server.store.condemned();
    let quanta = Quanta::new();
    let resolver = Resolver::new(&server.store, &server.node, &quanta, &condemned, &budget);
    let change = |path: &str| {
        let hole = vec![Extent::Hole { bytes: bytes_of(&[1]) }];
        let object = file(name("copy"), ClassId(1), bytes_of(&[1]), hole);
        let known = KnownContent {
            name: name("copy"),
            filespace: b"/".to_vec(),
            directory: directory("/a/"),
            of: name("x"),
        };
        PageChange { backed_up: vec![object], known: vec![known], ..page_change(path) }
    };
    let resolved = resolver.resolve(change("/b/")).expect("there is memory for one extent");
    assert_eq!(resolved.rejected, []);
    refused(resolver.resolve(change("/c/")).map(|_| ()), "more memory");
}

/// Regression: a page that became too large for its format was a panic of the server.
#[test]
fn an_object_for_which_its_page_has_no_room_is_rejected() {
    let server = TestServer::new();
    let mut intake = server.intake();
    let empty = |text: &str| {
        let mut object = sent_file(name(text), 1, &[]);
        object.payload = Payload::Nothing;
        object
    };
    let large = |text: &str| {
        let xattr =
            model::Xattr { name: b"user.a".to_vec(), value: vec![text.as_bytes()[0]; 17 << 20] };
        let mut object = empty(text);
        let xattrs = vec![xattr];
        object.attributes = Arc::new(model::Attributes { xattrs, flags: 0 });
        object
    };
    let digest = Some(DirectoryDigest([7; 16]));
    let pages = || vec![PageStart { first: Vec::new(), digest }];
    let backed_up = ["a", "b", "c"].map(large).to_vec();
    let change = PageChange { backed_up, pages: pages(), ..page_change("/") };
    let receipt = commit(&mut intake, Vec::new(), &change).expect("is committed");
    assert_eq!(receipt.rejected, []);
    let change = PageChange {
        backed_up: vec![large("d"), empty("e")],
        expired: vec![name("b")],
        pages: pages(),
        ..page_change("/")
    };
    let three = PageChange { expired: Vec::new(), ..change.clone() };
    let receipt = commit(&mut intake, Vec::new(), &three).expect("is committed");
    let rejected: Vec<_> = receipt.rejected.iter().map(|one| (&one.name, one.reason)).collect();
    assert_eq!(rejected, [(&name("d"), Reason::PageFull), (&name("e"), Reason::PageFull)]);
    let names = || server.objects("/").into_iter().map(|object| object.name).collect::<Vec<_>>();
    assert_eq!(names(), ["a", "b", "c"].map(name));
    let row = server
        .store
        .catalog
        .page(server.filespace, &catalog::PageKey::first_of(directory("/")));
    let row = row.expect("is read").expect("exists");
    assert_eq!(row.digest, None, "the next backup examines the page again");
    // An object that expires makes room.
    let receipt = commit(&mut intake, Vec::new(), &change).expect("is committed");
    assert_eq!(receipt.rejected, []);
    assert_eq!(names(), ["a", "c", "d", "e"].map(name));
}

#[test]
fn a_filespace_has_a_short_name() {
    let server = TestServer::new();
    let open = |bytes| Intake::open(&server.store, server.node.clone(), &vec![b'n'; bytes]);
    refused(open(FILESPACE_BYTES_MAX + 1), "may have at most 4096");
    open(FILESPACE_BYTES_MAX).expect("a long name");
}
