//! What recalling many copies takes: which volumes, in which order, how long; and doing it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use catalog::PageSpan;
use format::volume::Part;
use model::{BatchId, CopyId, FilespaceId, Object, PackNumber, PlaceCode as _};
use tape::operator::{Known, Operator};
use tape::schedule::VolumeId;
use tokio::sync::mpsc;
use tonic::Status;
use wire::proto;
use wire::proto::stage_reply::Message;

use super::fetch::{Ahead, Who};
use super::site::Site;
use crate::core::Core;
use crate::refusal::malformed;
use crate::restore::places;
use crate::select::{self, Selection, Which};

/// Of a copy in a request: its batch and its index there.
const COPY_BYTES: usize = 10;

pub(crate) type Replies = mpsc::Sender<Result<proto::StageReply, Status>>;

/// A copy that is wanted and there.
struct Wanted {
    index: u32,
    bytes: u64,
    /// In the order of its content.
    packs: Vec<PackNumber>,
    /// Where its content begins.
    first: u64,
}

/// Plans the recall; then has the volumes read, until all has come or nobody listens any more.
pub(crate) fn stage_copies(
    core: &Arc<Core>,
    filespace: FilespaceId,
    request: &proto::StageRequest,
    (who, replies): (Who, &Replies),
) -> Result<(), Status> {
    let copies = parse(&request.copies)?;
    let wanted = find(core, filespace, &copies)?;
    let found: BTreeSet<u32> = wanted.iter().map(|wanted| wanted.index).collect();
    let all = 0..u32::try_from(copies.len()).unwrap_or(u32::MAX);
    let mut plan = Plan::new(core, wanted)?;
    plan.reply.unknown = all.filter(|index| !found.contains(index)).collect();
    let packs = std::mem::take(&mut plan.packs);
    send(replies, Message::Plan(plan.reply))?;
    if request.preview || packs.is_empty() {
        return Ok(());
    }
    let mut ahead = Ahead::new(&core.volumes, who, packs);
    ahead.advance().map_err(Status::failed_precondition)?;
    let mut told = (u32::MAX, 0);
    while ahead.look_around().map_err(Status::failed_precondition)? {
        if ahead.progress() != told {
            told = ahead.progress();
            let (packs_done, packs) = told;
            send(replies, Message::Progress(proto::StageProgress { packs, packs_done }))?;
        } else if replies.is_closed() {
            return Err(Status::cancelled("the client is gone"));
        }
    }
    Ok(())
}

fn send(replies: &Replies, message: Message) -> Result<(), Status> {
    let reply = proto::StageReply { message: Some(message) };
    replies
        .blocking_send(Ok(reply))
        .map_err(|_| Status::cancelled("the client is gone"))
}

fn parse(bytes: &[u8]) -> Result<Vec<CopyId>, Status> {
    let mut copies = bytes.chunks_exact(COPY_BYTES);
    if !copies.remainder().is_empty() {
        return Err(malformed("a list of copies ends within one"));
    }
    let copy = |bytes: &[u8]| {
        let (batch, index) = bytes.split_first_chunk::<8>()?;
        let index = index.first_chunk::<2>()?;
        let batch = BatchId(u64::from_le_bytes(*batch));
        Some(CopyId { batch, index: u16::from_le_bytes(*index) })
    };
    Ok(copies.by_ref().filter_map(copy).collect())
}

/// Those of the copies that the server has.
fn find(core: &Core, filespace: FilespaceId, copies: &[CopyId]) -> Result<Vec<Wanted>, Status> {
    let mut by_batch: BTreeMap<BatchId, HashMap<u16, Vec<u32>>> = BTreeMap::new();
    for (index, copy) in (0..).zip(copies) {
        by_batch
            .entry(copy.batch)
            .or_default()
            .entry(copy.index)
            .or_default()
            .push(index);
    }
    let mut wanted = Vec::new();
    for (batch, of_batch) in by_batch {
        let span = PageSpan::Directory(batch.directory());
        let selection = Selection {
            filespace,
            // What was let go of for a time is there still.
            which: Which::Newest,
            parts: vec![select::Part { span, name: None }],
            range: 0..u64::MAX,
        };
        selection.walk(&*core.catalog, |found| {
            for object in found.versions.iter().map(|version| &version.object) {
                let indices = CopyId::index_of(&object.name).and_then(|index| of_batch.get(&index));
                let indices = indices.into_iter().flatten();
                wanted.extend(indices.map(|index| Wanted::new(*index, object)));
            }
            Ok(())
        })?;
    }
    Ok(wanted)
}

impl Wanted {
    fn new(index: u32, object: &Object) -> Self {
        let mut packs: Vec<PackNumber> = Vec::new();
        for place in places(object) {
            if packs.last() != Some(&place.pack()) {
                packs.push(place.pack());
            }
        }
        let first = places(object).next().map_or(0, |place| place.code());
        Self { index, bytes: object.stat.size, packs, first }
    }
}

/// A volume that is needed.
struct Needed {
    site: Arc<Site>,
    known: Known,
    packs: Vec<PackNumber>,
    parts: Vec<Part>,
    files: u64,
    bytes: u64,
}

/// Volumes in order, and the packs as they lie there.
struct Plan {
    reply: proto::RecallPlan,
    packs: Vec<(PackNumber, u64)>,
}

impl Plan {
    fn new(core: &Core, mut wanted: Vec<Wanted>) -> Result<Self, Status> {
        let mut needed: BTreeMap<VolumeId, Needed> = BTreeMap::new();
        let mut homes: HashMap<PackNumber, Option<VolumeId>> = HashMap::new();
        let mut problems: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut reply = proto::RecallPlan::default();
        for file in &wanted {
            let mut first = None;
            let mut problem = None;
            for pack in &file.packs {
                let home = match homes.get(pack) {
                    Some(home) => Ok(*home),
                    None => place(core, *pack, &mut needed),
                };
                match home {
                    Ok(home) => {
                        homes.insert(*pack, home);
                        first = first.or(home);
                    }
                    Err(reason) => problem = Some(reason),
                }
            }
            match (first.and_then(|volume| needed.get_mut(&volume)), problem) {
                (_, Some(problem)) => {
                    let (files, bytes) = problems.entry(problem).or_default();
                    (*files, *bytes) = (*files + 1, *bytes + file.bytes);
                }
                (Some(volume), None) => {
                    volume.files += 1;
                    volume.bytes += file.bytes;
                }
                (None, None) => {
                    reply.disk_files += 1;
                    reply.disk_bytes += file.bytes;
                }
            }
        }
        let mut ranks: HashMap<PackNumber, usize> = HashMap::new();
        let packs = read_in_order(&mut reply, needed, &mut ranks);
        let rank = |file: &Wanted| file.packs.iter().filter_map(|pack| ranks.get(pack)).min();
        wanted.sort_by_key(|file| (rank(file).map_or(0, |rank| rank + 1), file.first, file.index));
        reply.order = wanted.iter().map(|file| file.index).collect();
        reply.volumes.extend(problems.into_iter().map(|(problem, (files, bytes))| {
            proto::PlannedVolume { problem, files, bytes, ..proto::PlannedVolume::default() }
        }));
        let packs = packs.into_iter().map(|pack| (pack, core.pools.bytes_of(pack))).collect();
        Ok(Self { reply, packs })
    }
}

/// The volume that the pack begins on; `None` where it is on a disk. What is needed of volumes is
/// added to `needed`.
fn place(
    core: &Core,
    pack: PackNumber,
    needed: &mut BTreeMap<VolumeId, Needed>,
) -> Result<Option<VolumeId>, String> {
    if !core.pools.is_only_shelved(pack) || core.volumes.is_staged(pack) {
        return Ok(None);
    }
    let plans = core.volumes.plans(pack)?;
    let mut plan = None;
    let mut reason = "no volume has it".to_owned();
    for one in plans {
        match one.site.operator().map(drop) {
            Ok(()) => {
                plan = Some(one);
                break;
            }
            Err(problem) => reason = problem,
        }
    }
    let plan = plan.ok_or(reason)?;
    let mut first = None;
    for piece in plan.pieces {
        let Some((known, part)) = piece.copies.into_iter().next() else { continue };
        first = first.or(Some(known.id));
        let fresh = || Needed {
            site: Arc::clone(&plan.site),
            known: known.clone(),
            packs: Vec::new(),
            parts: Vec::new(),
            files: 0,
            bytes: 0,
        };
        let volume = needed.entry(known.id).or_insert_with(fresh);
        volume.packs.push(pack);
        volume.parts.push(part);
    }
    Ok(first)
}

/// Puts the volumes in order and their packs as they will be read by all drives at once; what is
/// mounted comes first, then what serves most files a second.
fn read_in_order(
    reply: &mut proto::RecallPlan,
    needed: BTreeMap<VolumeId, Needed>,
    ranks: &mut HashMap<PackNumber, usize>,
) -> Vec<PackNumber> {
    let preview = |needed: Needed| {
        let operator: &Operator = needed.site.operator.as_ref().ok()?;
        let preview = operator.preview(&needed.known, &needed.parts);
        Some((needed, preview))
    };
    let mut volumes: Vec<_> = needed.into_values().filter_map(preview).collect();
    let files_a_second = |files: u64, secs: f64| files as f64 / secs.max(1e-3);
    volumes.sort_by(|(a, of_a), (b, of_b)| {
        let by_speed =
            files_a_second(b.files, of_b.secs).total_cmp(&files_a_second(a.files, of_a.secs));
        of_b.is_mounted.cmp(&of_a.is_mounted).then(by_speed)
    });
    let drives = volumes.first().map_or(1, |(_, preview)| preview.drives);
    let mut busy = vec![0.0_f64; drives];
    // Each pack with the moment at which it is about to be read.
    let mut read: Vec<(f64, PackNumber)> = Vec::new();
    for (volume, preview) in volumes {
        let next = busy.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("a drive at least");
        let each = preview.secs / preview.order.len().max(1) as f64;
        let begins = *next;
        let moments = (1..).map(|count| begins + f64::from(count) * each);
        read.extend(moments.zip(preview.order.iter().map(|index| volume.packs[*index])));
        *next += preview.secs;
        reply.mounts += u32::from(!preview.is_mounted);
        reply.volumes.push(proto::PlannedVolume {
            library: volume.site.name.clone(),
            volume: volume.known.name.to_string(),
            is_mounted: preview.is_mounted,
            files: volume.files,
            bytes: volume.bytes,
            packs: volume.packs.len() as u64,
            estimate_secs: preview.secs,
            problem: String::new(),
        });
    }
    reply.estimate_secs = busy.into_iter().fold(0.0, f64::max);
    read.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut packs = Vec::new();
    for (_, pack) in read {
        // One that goes on here from another volume has its place already.
        ranks.entry(pack).or_insert_with(|| {
            packs.push(pack);
            packs.len() - 1
        });
    }
    packs
}
