//! Preview: the decisions of a backup or an archive about objects, and the rules that decide.

use std::sync::Arc;

use model::{Kind, Name};
use policy::{BackupCopyGroup, Operation, Verdict};
use sys::{Dir, Listing};

use crate::backup::locate;
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::node::home::Home;
use crate::options::PreviewOptions;
use crate::path::{absolute, components, split};
use crate::report::Failure;
use crate::rules::{FileTreatment, Rules};

/// Decision of the rules about one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    pub path: Vec<u8>,
    /// Kind of the object; `None` if no object exists. Then the path counts as the path of a file,
    /// or of a directory if it ends with a slash.
    pub kind: Option<Kind>,
    pub bytes: u64,
    pub included: bool,
    pub class: String,
    /// Copy group of the class; `None` if its objects are not backed up.
    pub keeps: Option<BackupCopyGroup>,
    pub treatment: FileTreatment,
    /// Statement that decides; `None` if no statement matches.
    pub rule: Option<RuleSummary>,
    /// Virtual filespace to which an explained object belongs.
    pub virtual_filespace: Option<Vec<u8>>,
}

/// Statement, with the place where the user finds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleSummary {
    /// File and line, option set and line, or option of the command.
    pub source: String,
    pub text: String,
    /// Directory or file system above the object, if the statement excludes it as a whole.
    pub about: Option<Vec<u8>>,
}

/// Returns the decision about each path, even if no object exists there, and warnings about the
/// rules.
pub(crate) fn explain(
    link: &Link,
    home: &Home,
    options: &PreviewOptions,
) -> Result<(Vec<Decision>, Vec<String>), ClientError> {
    let rules = rules_of(link, home, options)?;
    let ruled = options
        .paths
        .iter()
        .map(|path| explain_one(&rules, path).map(|ruled| with_filespace(&rules, ruled)))
        .collect::<Result<_, _>>()?;
    Ok((ruled, rules.warnings))
}

fn rules_of(link: &Link, home: &Home, options: &PreviewOptions) -> Result<Rules, ClientError> {
    let operation = if options.is_archive { Operation::Archive } else { Operation::Backup };
    let list = options.inclexcl.as_deref();
    let mut rules = Rules::load(home, link.hello(), list, &options.excludes, operation)?;
    rules.warnings.extend(rules.virtual_filespaces.warnings());
    if let Some(class) = &options.class {
        rules.bind_all_to(class)?;
    }
    Ok(rules)
}

fn explain_one(rules: &Rules, path: &[u8]) -> Result<Decision, ClientError> {
    let found = rules
        .virtual_filespaces
        .locate(path)
        .ok()
        .and_then(|(filespace, target)| Some((stat(&filespace, &target)?, filespace, target)));
    let Some(((kind, bytes), filespace, target)) = found else {
        let is_directory = path.ends_with(b"/") && path != b"/";
        let kind = if is_directory { Kind::Directory } else { Kind::File };
        let path = if is_directory { &path[..path.len() - 1] } else { path };
        if !path.starts_with(b"/") {
            let message =
                format!("{} does not exist; give its absolute path", model::escaped(path));
            return Err(ClientError::new(ErrorKind::NotFound, message));
        }
        return Ok(Decision { kind: None, ..decide(rules, path, kind, 0) });
    };
    let path = absolute(&filespace, &target);
    let ruled = decide(rules, &path, kind, bytes);
    if !ruled.included {
        return Ok(ruled);
    }
    if let Some(index) = rules.excludes_filesystem(&filespace) {
        return Ok(left_out(rules, ruled, index, Some(filespace)));
    }
    Ok(match tag_above(rules, &filespace, &target) {
        Some((index, directory)) => left_out(rules, ruled, index, Some(directory)),
        None => ruled,
    })
}

fn with_filespace(rules: &Rules, ruled: Decision) -> Decision {
    let virtual_filespaces = &rules.virtual_filespaces;
    let found = virtual_filespaces.locate(&ruled.path).ok().map(|(filespace, _)| filespace);
    let virtual_filespace = found.filter(|path| virtual_filespaces.has(|| path.clone()));
    Decision { virtual_filespace, ..ruled }
}

fn stat(filespace: &[u8], target: &[u8]) -> Option<(Kind, u64)> {
    let root = Dir::open(filespace).ok()?;
    let Some((parent, name)) = split(target).filter(|(_, name)| *name != Name::root()) else {
        let found = root.stat_self().ok()?;
        return Some((found.stat.kind, found.stat.size));
    };
    let mut dir = root;
    for part in components(parent.as_bytes()) {
        dir = dir.open_dir(part).ok()?;
    }
    let found = dir.stat(name.as_bytes()).ok()??;
    Some((found.stat.kind, found.stat.size))
}

/// Finds a directory above `target` that is excluded because of a tag file in it. Returns the index
/// of the statement, and the directory.
fn tag_above(rules: &Rules, filespace: &[u8], target: &[u8]) -> Option<(usize, Vec<u8>)> {
    let mut dir = Dir::open(filespace).ok()?;
    let mut path = filespace.strip_suffix(b"/").unwrap_or(filespace).to_vec();
    let mut listing = Listing::default();
    for part in components(target) {
        dir.list(&mut listing).ok()?;
        let names = listing.entries().iter().map(|entry| listing.name(entry));
        if let Some((index, tag)) = rules.tag_in(&dir, names)
            && tag != part
        {
            return Some((index, path));
        }
        path.extend_from_slice(b"/");
        path.extend_from_slice(part);
        dir = dir.open_dir(part).ok()?;
    }
    None
}

fn left_out(rules: &Rules, ruled: Decision, index: usize, about: Option<Vec<u8>>) -> Decision {
    let (source, text) = rules.shown(index);
    Decision { included: false, rule: Some(RuleSummary { source, text, about }), ..ruled }
}

/// Decides about a path by the statements on it and on the directories above it.
fn decide(rules: &Rules, path: &[u8], kind: Kind, bytes: u64) -> Decision {
    let (verdict, about) = rules.selection.explain(path, kind, rules.operation);
    let about = Some(about).filter(|about| *about != path);
    ruled(rules, verdict, Candidate { path, kind, bytes }, about)
}

/// An object that statements decide about.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    path: &'a [u8],
    kind: Kind,
    bytes: u64,
}

fn ruled(
    rules: &Rules,
    verdict: Verdict,
    candidate: Candidate<'_>,
    about: Option<&[u8]>,
) -> Decision {
    let Candidate { path, kind, bytes } = candidate;
    let class = rules.ruling(|| path.to_vec(), kind).class;
    let shown = |index| {
        let (source, text) = rules.shown(index);
        RuleSummary { source, text, about: about.map(<[u8]>::to_vec) }
    };
    Decision {
        path: path.to_vec(),
        kind: Some(kind),
        bytes: if kind == Kind::File { bytes } else { 0 },
        included: verdict.is_included(),
        class: rules.class_name(class).to_owned(),
        keeps: rules.group(class).copied(),
        treatment: rules.treatment(|| path.to_vec()),
        rule: verdict.rule_index().map(shown),
        virtual_filespace: None,
    }
}

/// Calls `visit` with the decision about each object at and below the paths, until `visit` returns
/// false. Objects below an excluded directory are left out.
pub(crate) fn preview(
    link: &Link,
    home: &Home,
    options: &PreviewOptions,
    visit: &mut dyn FnMut(&Decision) -> bool,
) -> Result<PreviewSummary, ClientError> {
    let rules = rules_of(link, home, options)?;
    let mut previewed = PreviewSummary::default();
    for path in &options.paths {
        let top = explain_one(&rules, path)?;
        if top.kind.is_none() {
            let message = format!("{} does not exist", model::escaped(path));
            return Err(ClientError::new(ErrorKind::NotFound, message));
        }
        // A path that a backup refuses is refused here, too.
        if let Err(error) = locate(&top.path, &rules.virtual_filespaces, &options.managed) {
            let (path, error) = (top.path, error.to_string());
            if options.paths.len() == 1 {
                let message = format!("cannot preview {}: {error}", model::escaped(&path));
                return Err(ClientError::new(ErrorKind::NotFound, message));
            }
            previewed.failures.push(Failure { path, error });
            continue;
        }
        let descends = top.included && top.kind == Some(Kind::Directory);
        let path = top.path.clone();
        if !visit(&top) {
            break;
        }
        if descends && !below(&rules, &path, visit, &mut previewed)? {
            break;
        }
    }
    previewed.warnings = rules.warnings;
    Ok(previewed)
}

/// Summary of a preview.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PreviewSummary {
    /// Paths that a backup refuses, and directories that could not be listed.
    pub failures: Vec<Failure>,
    pub warnings: Vec<String>,
}

fn below(
    rules: &Rules,
    top: &[u8],
    visit: &mut dyn FnMut(&Decision) -> bool,
    previewed: &mut PreviewSummary,
) -> Result<bool, ClientError> {
    let mut listing = Listing::default();
    let opened = Dir::open(top).and_then(|dir| Ok((dir.stat_self()?.device_id, dir)));
    let (device_id, dir) = opened.map_err(|error| {
        let message = format!("cannot list {}: {error}", model::escaped(top));
        ClientError::new(ErrorKind::NotFound, message)
    })?;
    let top = top.strip_suffix(b"/").unwrap_or(top).to_vec();
    // Each directory is opened only when it is listed, from its parent directory.
    let mut waiting = vec![(top, Arc::new(dir), None::<Vec<u8>>)];
    while let Some((path, dir, name)) = waiting.pop() {
        let opened = match name {
            Some(name) => dir.open_dir(&name).map(Arc::new),
            None => Ok(dir),
        };
        let listed = opened.and_then(|dir| dir.list(&mut listing).map(|()| dir));
        let dir = match listed {
            Ok(dir) => dir,
            Err(error) => {
                previewed.failures.push(Failure { path, error: error.to_string() });
                continue;
            }
        };
        let names = listing.entries().iter().map(|entry| listing.name(entry));
        let tagged = rules.tag_in(&dir, names).map(|(index, tag)| (index, tag.to_vec()));
        let mut entries: Vec<_> = listing
            .entries()
            .iter()
            .map(|entry| (listing.name(entry).to_vec(), entry.found))
            .collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let mut children = Vec::new();
        for (name, found) in entries {
            let of_entry = [&path[..], b"/", &name].concat();
            let (kind, bytes) = (found.stat.kind, found.stat.size);
            let object = Candidate { path: &of_entry, kind, bytes };
            let ruling = rules.ruling(|| of_entry.clone(), found.stat.kind);
            let mut entry = ruled(rules, ruling.verdict, object, None);
            // As in `explain`, a statement that excludes the object has precedence over a tag file.
            if entry.included
                && let Some((index, tag)) = &tagged
                && *tag != name
            {
                entry = left_out(rules, entry, *index, Some(path.clone()));
            }
            let leaves = || rules.leaves_content(|| of_entry.clone());
            if entry.included
                && kind == Kind::Directory
                && let Some(index) = leaves()
            {
                entry = left_out(rules, entry, index, None);
            }
            let enters = entry.included
                && found.stat.kind == Kind::Directory
                && found.device_id == device_id
                && !rules.virtual_filespaces.has(|| of_entry.clone());
            if !visit(&entry) {
                return Ok(false);
            }
            if enters {
                children.push((of_entry, Arc::clone(&dir), Some(name)));
            }
        }
        waiting.extend(children.into_iter().rev());
    }
    Ok(true)
}
