//! The contents of a catalogue, to be compared as a whole.

use catalog::{
    AlertFilter, AlertRow, Amount, ApiKeyRow, ApprovalRow, Association, BaselineRow, Catalog,
    CatalogError, ContactRow, Day, DomainDetails, DrillRow, EnrolmentKeyRow, EventFilter,
    Filespace, FinishedTransfer, IdentityRow, LoggedRun, Node, NodeDetails, NoticeRow, PackRow,
    PageDigest, PageRow, PageSpan, Person, PollRow, ReadRule, RestoreRow, RoleRow, ScheduleRow,
    ScheduledEvent, SessionRow, SignInRow, UsageDay, UsageSubject, VersionRow,
};
use model::{DirPath, DomainId, FilespaceId, NodeId, PackNumber, PoolId, ServerTime};

/// The rows of a filespace.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct FilespaceContents {
    pub(crate) pages: Vec<PageRow>,
    /// Digests sorted by value, because the catalogue returns them in no order.
    pub(crate) digests: Vec<PageDigest>,
    pub(crate) digest_sum: u128,
    pub(crate) versions: Vec<VersionRow>,
    pub(crate) object_count: u64,
}

/// The rows of a node.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct NodeContents {
    pub(crate) filespaces: Vec<(Filespace, FilespaceContents)>,
    pub(crate) sessions: Vec<SessionRow>,
    pub(crate) baselines: Vec<BaselineRow>,
    pub(crate) read_rules: Vec<ReadRule>,
    pub(crate) is_enrolled: bool,
    pub(crate) contact: Option<ContactRow>,
    pub(crate) poll: Option<PollRow>,
}

/// The rows of a catalogue, except tokens and certificates, which cannot be listed.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Contents {
    pub(crate) nodes: Vec<(Node, NodeContents)>,
    pub(crate) packs: Vec<PackRow>,
    pub(crate) next_pack: PackNumber,
    pub(crate) task_runs: Vec<LoggedRun>,
    pub(crate) schedules: Vec<ScheduleRow>,
    pub(crate) associations: Vec<Association>,
    pub(crate) labels: Vec<(NodeId, String)>,
    pub(crate) drills: Vec<DrillRow>,
    pub(crate) enrolment_keys: Vec<EnrolmentKeyRow>,
    pub(crate) people: Vec<Person>,
    pub(crate) roles: Vec<RoleRow>,
    pub(crate) api_keys: Vec<ApiKeyRow>,
    pub(crate) sign_ins: Vec<SignInRow>,
    pub(crate) identities: Vec<IdentityRow>,
    pub(crate) node_details: Vec<(NodeId, NodeDetails)>,
    pub(crate) domain_details: Vec<DomainDetails>,
    pub(crate) approvals: Vec<ApprovalRow>,
    pub(crate) amounts: Vec<(DomainId, Amount)>,
    pub(crate) alerts: Vec<AlertRow>,
    pub(crate) notices: Vec<NoticeRow>,
    pub(crate) usage_days: Vec<UsageDay>,
    pub(crate) restores: Vec<RestoreRow>,
    pub(crate) archived: Vec<FinishedTransfer>,
    pub(crate) scheduled_events: Vec<ScheduledEvent>,
}

pub(crate) fn of_catalog(catalog: &dyn Catalog) -> Result<Contents, CatalogError> {
    let people = catalog.people()?;
    let (mut sign_ins, mut identities) = (Vec::new(), Vec::new());
    for person in &people {
        sign_ins.extend(catalog.sign_ins(person.id)?);
        identities.extend(catalog.identities(person.id)?);
    }
    let details = |domain: policy::PolicyDomain| catalog.domain_details(domain.id);
    let belongings = |node: Node| of_node(catalog, node.id).map(|has| (node, has));
    Ok(Contents {
        nodes: catalog.nodes()?.into_iter().map(belongings).collect::<Result<_, _>>()?,
        packs: catalog.packs()?,
        next_pack: catalog.next_pack()?,
        task_runs: catalog.task_runs(None, usize::MAX)?,
        schedules: catalog.schedules()?,
        associations: catalog.associations()?,
        labels: catalog.labels(None)?,
        drills: catalog.drills(None)?,
        enrolment_keys: catalog.enrolment_keys()?,
        people,
        roles: catalog.roles(None)?,
        api_keys: catalog.api_keys(None)?,
        sign_ins,
        identities,
        node_details: catalog.all_node_details()?,
        domain_details: catalog.domains()?.into_iter().map(details).collect::<Result<_, _>>()?,
        approvals: catalog.approvals(None, usize::MAX)?,
        amounts: catalog.amounts()?,
        alerts: catalog.alerts(&AlertFilter::default(), None, usize::MAX)?,
        notices: catalog.notices(None, usize::MAX)?,
        usage_days: catalog
            .usage_days(UsageSubject::Pool(PoolId(1)), (Day(i64::MIN), Day(i64::MAX)))?,
        restores: catalog.restores((ServerTime(i64::MIN), ServerTime(i64::MAX)))?,
        archived: catalog.finished_archives(None, usize::MAX)?,
        scheduled_events: catalog.scheduled_events(&EventFilter::default(), None, usize::MAX)?,
    })
}

pub(crate) fn of_node(catalog: &dyn Catalog, node: NodeId) -> Result<NodeContents, CatalogError> {
    let holding = |space: Filespace| of_filespace(catalog, space.id).map(|holds| (space, holds));
    Ok(NodeContents {
        filespaces: catalog.filespaces(node)?.into_iter().map(holding).collect::<Result<_, _>>()?,
        sessions: catalog.sessions(node, usize::MAX)?,
        baselines: catalog.baselines(node, None, usize::MAX)?,
        read_rules: catalog.read_rules(node)?,
        is_enrolled: catalog.is_enrolled(node)?,
        contact: catalog.contact(node)?,
        poll: catalog.poll(node)?,
    })
}

pub(crate) fn of_filespace(
    catalog: &dyn Catalog,
    filespace: FilespaceId,
) -> Result<FilespaceContents, CatalogError> {
    let above_root = DirPath::above_root();
    let all = PageSpan::Subtree(above_root.clone());
    let mut versions = Vec::new();
    for directory in catalog.version_directories(filespace, &all, None, usize::MAX)? {
        versions.extend(catalog.versions(filespace, &directory)?);
    }
    Ok(FilespaceContents {
        pages: catalog.pages(filespace, &all, None, usize::MAX)?,
        digests: digests(catalog, filespace, &above_root)?,
        digest_sum: catalog.digest_sum(filespace)?,
        versions,
        object_count: catalog.count_objects(filespace, &above_root)?,
    })
}

/// The digests at or below `within`, sorted.
pub(crate) fn digests(
    catalog: &dyn Catalog,
    filespace: FilespaceId,
    within: &DirPath,
) -> Result<Vec<PageDigest>, CatalogError> {
    let mut digests = Vec::new();
    catalog.digests(filespace, within, &mut |digest| {
        digests.push(digest.clone());
        true
    })?;
    sort_digests(&mut digests);
    Ok(digests)
}

pub(crate) fn sort_digests(digests: &mut [PageDigest]) {
    digests.sort_by(|a, b| (a.hash, &a.first, a.digest).cmp(&(b.hash, &b.first, b.digest)));
}
