//! Rows for the tests, and names for the errors that they expect.

use std::fmt::Debug;

use catalog::{
    AlertChanges, AlertRow, AnswerRow, ApiKeyRow, ApprovalRow, ApprovalState, ArchivedRow, Catalog,
    CatalogError, Collocation, ContactRow, Day, DrillRow, EnrolmentKeyRow, EventRow, Growth,
    IdentityRow, KeyRedemption, LibraryRow, NewPerson, Node, NodeDetails, NoticeRow, PackRow,
    PackState, PageKey, PageRow, PartRow, PollRow, PoolRow, ReadRule, RestoreRow, RoleRow,
    SessionRow, SignInRow, StoredPack, TokenError, TokenRow, TransferFigures, UsageDay,
    UsageSubject, VersionRow, VolumeAccess, VolumeRow, VolumeState, Write,
};
use model::{
    DirPath, DirectoryDigest, DomainId, FilespaceId, Name, NodeId, NodeName, PackNumber, PersonId,
    PoolId, ServerTime,
};

pub(crate) const NOW: ServerTime = ServerTime(1_700_000_000_000_000);

/// The domain that a new catalogue has.
pub(crate) const DOMAIN: &str = "STANDARD";

/// A filespace that no catalogue of these tests has.
pub(crate) const NO_FILESPACE: FilespaceId = FilespaceId(77_777);

/// A node that no catalogue of these tests has.
pub(crate) const NO_NODE: NodeId = NodeId(77_777);

/// Directories that are neighbours in byte order; some are within others.
pub(crate) fn directories() -> Vec<DirPath> {
    let paths: [&[u8]; 13] = [
        b"",
        b"/",
        b"/\x01/",
        b"/A/",
        b"/a/",
        b"/a/b/",
        b"/a/\xff/",
        b"/a-b/",
        b"/a b/",
        b"/a0/",
        b"/aa/",
        b"/a\xff/",
        b"/\xff\xff/",
    ];
    paths.map(|path| DirPath::new(path).expect("a directory path")).to_vec()
}

/// The time `seconds` after [`NOW`].
pub(crate) fn at(seconds: i64) -> ServerTime {
    ServerTime(NOW.0 + seconds * 1_000_000)
}

pub(crate) fn dir(path: &str) -> DirPath {
    DirPath::new(path.as_bytes()).expect("a directory path")
}

pub(crate) fn name(bytes: &[u8]) -> Name {
    Name::new(bytes).expect("a name")
}

pub(crate) fn node_name(name: &str) -> NodeName {
    NodeName::new(name).expect("a node's name")
}

pub(crate) fn key(directory: &DirPath, first: &[u8]) -> PageKey {
    PageKey { directory: directory.clone(), first: first.to_vec() }
}

/// A page whose body and digest differ for each key and `state`.
pub(crate) fn page(key: &PageKey, state: u8) -> PageRow {
    let body = [key.directory.as_bytes(), &key.first, &[0, state]].concat();
    PageRow {
        key: key.clone(),
        object_count: u32::from(state),
        digest: Some(DirectoryDigest([state; 16])),
        body,
    }
}

/// A version that lived from `inserted` to `deactivated`, in seconds from [`NOW`].
pub(crate) fn version(
    directory: &DirPath,
    object: &[u8],
    inserted: i64,
    deactivated: i64,
) -> VersionRow {
    let times = format!("{inserted} {deactivated}");
    VersionRow {
        directory: directory.clone(),
        name: name(object),
        inserted: at(inserted),
        deactivated: at(deactivated),
        body: [directory.as_bytes(), object, times.as_bytes()].concat(),
    }
}

pub(crate) fn pack(number: PackNumber, domain: DomainId, state: PackState) -> PackRow {
    PackRow { number, domain, state, bytes: number.0 * 1000, node: None }
}

pub(crate) fn pool(name: &str) -> PoolRow {
    PoolRow {
        id: PoolId(0),
        name: name.to_owned(),
        url: format!("file:///{name}"),
        is_copy: false,
        mark: [7; 16],
        next: None,
        capacity_bytes: None,
        high_percent: 90,
        low_percent: 70,
        delay_days: 0,
        collocation: Collocation::No,
        reclaim_percent: 60,
        reuse_delay_days: 0,
    }
}

/// A library with a changer and two drives.
pub(crate) fn library(name: &str) -> LibraryRow {
    LibraryRow {
        name: name.to_owned(),
        changer: Some("/dev/changer".to_owned()),
        drives: vec!["/dev/drive \"1\"".to_owned(), "/dev/drive-2".to_owned()],
        folder: None,
        capacity_bytes: None,
        drives_max: 2,
        retain_secs: 60,
        optimised_only: false,
        writers_max: 0,
    }
}

/// A new volume.
pub(crate) fn volume(library: &str, name: &str) -> VolumeRow {
    VolumeRow {
        id: 0,
        library: library.to_owned(),
        name: name.to_owned(),
        label: [3; 16],
        block_bytes: 1 << 18,
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

/// A part at `position` that is a whole pack.
pub(crate) fn part(volume: u64, position: u64) -> PartRow {
    PartRow {
        volume,
        object: [5; 16],
        object_sequence: 1,
        position,
        block_count: 1,
        first_sequence: 0,
        offset: 0,
        bytes: position * 1000,
        is_last: true,
    }
}

/// A write that stores the pack in `parts`; see [`stored`].
pub(crate) fn put_parts(pool: PoolId, pack: u64, parts: &[PartRow]) -> Write {
    Write::PutParts { pool, stored: stored(pack, parts), parts: parts.to_vec() }
}

/// A pack that was stored before [`NOW`], by as many seconds as its number.
pub(crate) fn stored(pack: u64, parts: &[PartRow]) -> StoredPack {
    let bytes = parts.iter().map(|part| part.bytes).sum();
    let seconds = i64::try_from(pack).expect("a small number");
    StoredPack { pack: PackNumber(pack), bytes, stored: at(-seconds) }
}

pub(crate) fn session(
    node: &Node,
    filespace: FilespaceId,
    started: i64,
    complete: bool,
) -> SessionRow {
    SessionRow {
        node: node.id,
        filespace,
        started: at(started),
        ended: at(started + 1),
        complete,
        report: format!("started {started}"),
    }
}

pub(crate) fn token(node: &Node, secret: u8) -> TokenRow {
    TokenRow { hash: [secret; 32], node: node.id, expires: at(60) }
}

pub(crate) fn read_rule(reader: &str, is_archive: bool, path: &str) -> ReadRule {
    ReadRule { reader: reader.to_owned(), is_archive, path: path.into(), since: NOW }
}

pub(crate) fn add_node(catalog: &dyn Catalog, name: &str) -> Node {
    catalog.add_node(&node_name(name), DOMAIN, NOW).expect("a node is added")
}

/// Adds a node with the filespace `/home`.
pub(crate) fn add_filespace(catalog: &dyn Catalog, name: &str) -> (Node, FilespaceId) {
    let node = add_node(catalog, name);
    let filespace = catalog.open_filespace(node.id, b"/home", NOW).expect("a filespace is made");
    (node, filespace.id)
}

pub(crate) fn put(filespace: FilespaceId, page: PageRow) -> Write {
    Write::PutPage { filespace, page }
}

/// A write that passes all checks before its statement fails: SQL has no number of that size.
pub(crate) fn unstorable(domain: DomainId) -> Write {
    let pack = pack(PackNumber(1 << 20), domain, PackState::Open);
    Write::PutPack(PackRow { bytes: u64::MAX, ..pack })
}

pub(crate) fn add_version(filespace: FilespaceId, version: VersionRow) -> Write {
    Write::AddVersion { filespace, version }
}

/// Adds a node with rows in every table of filespaces. The rows differ for each `state`.
pub(crate) fn fill(catalog: &dyn Catalog, node_name: &str, state: u8) -> Node {
    let node = add_node(catalog, node_name);
    catalog.add_token(&token(&node, state)).expect("a token is stored");
    catalog
        .redeem_token(&[state; 32], &[state, 1], at(60), NOW, &enrolled())
        .expect("the token is good");
    catalog.add_token(&token(&node, state + 100)).expect("a second token is stored");
    for number in 1..=2 {
        let document = [state, number];
        catalog.add_baseline(node.id, at(state.into()), &document).expect("is kept");
    }
    catalog.put_drill(&drill(node.id, state.into())).expect("is kept");
    catalog
        .put_read_rule(node.id, &read_rule("reader", state.is_multiple_of(2), "/home"))
        .expect("is kept");
    add_alert(catalog, state.into());
    catalog.add_enrolment_key(&enrolment_key(state)).expect("is stored");
    add_owner(catalog, &node, state);
    for mount in [&b"/home"[..], b"/srv"] {
        let filespace = catalog.open_filespace(node.id, mount, NOW).expect("a filespace").id;
        let mut writes = Vec::new();
        for directory in &directories() {
            writes.push(put(filespace, page(&key(directory, b""), state)));
            writes.push(put(filespace, page(&key(directory, b"m"), state + 1)));
            writes.push(add_version(filespace, version(directory, b"old", 1, i64::from(state))));
        }
        writes.push(Write::AddSession(session(&node, filespace, i64::from(state), true)));
        let growth = Growth { objects: 9, bytes: i64::from(state) << 32 };
        writes.push(Write::Grow { filespace, growth });
        let number = catalog.next_pack().expect("a pack's number");
        writes.push(Write::PutPack(pack(number, node.domain, PackState::Sealed)));
        catalog.commit(writes).expect("the batch is performed");
    }
    node
}

/// Adds an alert with a notice, and the space of a day.
fn add_alert(catalog: &dyn Catalog, number: i64) {
    let changes = AlertChanges {
        opened: vec![alert(&number.to_string())],
        notices: vec![notice(number)],
        ..AlertChanges::none(NOW)
    };
    catalog.change_alerts(&changes).expect("is opened");
    let subject = UsageSubject::Pool(PoolId(1));
    let day = UsageDay { subject, day: Day(number), bytes: 7, bytes_max: 9 };
    catalog.put_usage_days(&[day]).expect("is kept");
    let (node, filespace) = (NodeId(1), FilespaceId(1));
    let (started, ended) = (at(number), at(number + 1));
    let restore = RestoreRow { node, filespace, started, ended, objects: 1, bytes: 2 };
    catalog.add_restore(&restore).expect("is recorded");
    catalog.add_archived(&archived(node, number)).expect("is recorded");
}

/// A session of an archive that ended after `number` more seconds.
pub(crate) fn archived(node: NodeId, number: i64) -> ArchivedRow {
    let figures = TransferFigures { examined: 9, objects: 7, failed: 1, bytes: 700 };
    let filespace = model::archive_filespace(3, b"/home");
    ArchivedRow { node, filespace, started: at(1), ended: at(number), figures }
}

pub(crate) fn contact(node: NodeId) -> ContactRow {
    let (address, host) = ("192.0.2.7".to_owned(), "web-1".to_owned());
    ContactRow { node, at: NOW, address, host }
}

pub(crate) fn poll(node: NodeId) -> PollRow {
    PollRow { node, at: NOW, minutes: 240 }
}

/// Adds an owner of the node, who has a row in each table of the service.
fn add_owner(catalog: &dyn Catalog, node: &Node, state: u8) {
    let person = NewPerson {
        login: format!("owner-{state}"),
        name: "An owner".to_owned(),
        mail: "owner@example.org".to_owned(),
        cost_centres: vec!["C1".to_owned()],
        password: Some("hash".to_owned()),
        roles: Vec::new(),
        made: NOW,
        made_by: "administrator".to_owned(),
    };
    let person = catalog.add_person(&person).expect("is added").id;
    let role = RoleRow { person, role: "tenant".to_owned(), domain: Some(node.domain) };
    catalog.set_roles(person, &[role]).expect("are set");
    catalog
        .add_api_key(&api_key(&format!("key-{state}"), person))
        .expect("is stored");
    catalog.add_sign_in(&sign_in(state, person)).expect("is stored");
    let (issuer, subject) = ("https://id.example.org".to_owned(), format!("subject-{state}"));
    let identity = IdentityRow { issuer, subject, person, made: NOW };
    catalog.add_identity(&identity).expect("is added");
    let details = NodeDetails { owner: Some(person), ..NodeDetails::default() };
    catalog.put_node_details(node.id, &details).expect("are kept");
    catalog.put_contacts(&[contact(node.id)]).expect("is kept");
    catalog.put_polls(&[poll(node.id)]).expect("is kept");
    let details = catalog::DomainDetails { nodes_max: Some(1 << 20), ..Default::default() };
    catalog.put_domain_details(node.domain, &details).expect("are kept");
    let caller = format!("owner-{state}");
    assert_eq!(catalog.claim_answer(&answer(&caller, "k")).expect("is claimed"), None);
    catalog.add_approval(&approval(state.into())).expect("is added");
}

pub(crate) fn api_key(id: &str, person: PersonId) -> ApiKeyRow {
    ApiKeyRow {
        id: id.to_owned(),
        hash: [5; 32],
        person,
        kind: "full".to_owned(),
        description: String::new(),
        uses_max: None,
        uses: 0,
        made: NOW,
        made_by: "administrator".to_owned(),
        expires: Some(at(60)),
        revoked: None,
    }
}

/// A sign-in that ends after a minute.
pub(crate) fn sign_in(number: u8, person: PersonId) -> SignInRow {
    SignInRow {
        hash: [number; 32],
        person,
        guard: [number; 16],
        made: NOW,
        used: NOW,
        expires: at(60),
        origin: "192.0.2.7".to_owned(),
    }
}

/// The claim of a key by a caller.
pub(crate) fn answer(caller: &str, key: &str) -> AnswerRow {
    AnswerRow {
        caller: caller.to_owned(),
        key: key.to_owned(),
        request: [6; 32],
        made: NOW,
        status: 0,
        body: Vec::new(),
    }
}

/// An open alert of which nobody was told.
pub(crate) fn alert(object: &str) -> AlertRow {
    AlertRow {
        number: 0,
        kind: "no-backup".to_owned(),
        object: object.to_owned(),
        domain: Some(DomainId(1)),
        node: Some(NodeId(1)),
        is_urgent: true,
        text: "a node has no backup".to_owned(),
        opened: NOW,
        ended: None,
        told: None,
        end_told: None,
        acknowledged: None,
        acknowledged_by: String::new(),
        note: String::new(),
    }
}

/// A notice that waits since the second `number`.
pub(crate) fn notice(number: i64) -> NoticeRow {
    NoticeRow {
        number: 0,
        channel: "mail".to_owned(),
        address: "anna@example.org".to_owned(),
        subject: format!("notice {number}"),
        body: "text\n".to_owned(),
        made: at(number),
        due: at(number),
        attempts: 0,
        error: String::new(),
        sent: None,
    }
}

pub(crate) fn approval(number: i64) -> ApprovalRow {
    ApprovalRow {
        number: 0,
        operation: "nodes.remove".to_owned(),
        request: format!("{{\"number\":{number}}}"),
        summary: "removes a node".to_owned(),
        asked_by: "anna".to_owned(),
        asked: at(number),
        decided_by: String::new(),
        decided: None,
        state: ApprovalState::Waiting,
        reason: String::new(),
    }
}

/// Result of a good drill, which ended at `number`.
pub(crate) fn drill(node: NodeId, number: u64) -> DrillRow {
    DrillRow {
        node,
        is_good: true,
        at: at(i64::try_from(number).expect("a small number")),
        objects: number,
        bytes: number << 40,
        damaged: 0,
        reason: String::new(),
    }
}

/// A key for two nodes.
pub(crate) fn enrolment_key(number: u8) -> EnrolmentKeyRow {
    EnrolmentKeyRow {
        name: format!("key-{number}"),
        hash: [number; 32],
        nodes_max: 2,
        nodes: 0,
        made: at(1),
        made_by: "administrator".to_owned(),
        expires: at(9),
        revoked: None,
        domain: DOMAIN.to_owned(),
        option_set: None,
        names: "web-*".to_owned(),
        labels: vec!["web".to_owned(), "prod".to_owned()],
    }
}

/// Entry in the audit trail about a node that a token has enrolled.
pub(crate) fn enrolled() -> EventRow {
    let [actor, what, details] = ["node a", "node enrolled", "a by token"].map(str::to_owned);
    EventRow { time: NOW, actor, what, details }
}

/// Redemption of the key of this number by the node `name`.
pub(crate) fn key_redemption(number: u8, name: &str, now: ServerTime) -> KeyRedemption {
    KeyRedemption {
        hash: [number; 32],
        name: node_name(name),
        serial: name.into(),
        expires: at(9),
        now,
        event: EventRow {
            time: now,
            actor: "server".to_owned(),
            what: "node enrolled".to_owned(),
            details: name.to_owned(),
        },
    }
}

/// Name of the error in `answer`.
#[track_caller]
pub(crate) fn refusal<T: Debug, E: Into<TokenError> + Debug>(answer: Result<T, E>) -> &'static str {
    let error = match answer.expect_err("a refusal").into() {
        TokenError::Invalid(_) => return "token",
        TokenError::Catalog(error) => error,
    };
    match error {
        CatalogError::NotFound { .. } => "not found",
        CatalogError::Exists { .. } => "exists",
        CatalogError::Limit { .. } => "limit",
        CatalogError::NoSpace => "no space",
        CatalogError::Damaged(_) => "damaged",
        CatalogError::Away(_) => "away",
        CatalogError::Fenced => "fenced",
        CatalogError::Database(_) => "database",
        CatalogError::Unusable(_) => "unusable",
    }
}
