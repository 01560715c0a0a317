//! Option sets and their versions.

use catalog::OptionSetVersion;
use policy::settings::{SetOption, Share};
use store::StoreError;
use store::option_sets::{ChangeReport, OptionSetChange, OptionSetUse};
use wire::proto;

/// The option set as a node gets it.
pub(crate) fn of_node(of_node: Option<(String, OptionSetVersion)>) -> proto::OptionSet {
    let Some((name, version)) = of_node else { return proto::OptionSet::default() };
    let OptionSetVersion { number, text, options, changed, author, .. } = version;
    proto::OptionSet {
        name,
        text: text.into(),
        version: number,
        options: options.into_iter().map(option).collect(),
        changed: changed.0,
        author,
    }
}

pub(crate) fn uses(uses: OptionSetUse) -> proto::OptionSetUse {
    let OptionSetUse { set, nodes, first } = uses;
    let share = set.stage.as_ref().map_or(0, |stage| stage.share.hundredths());
    proto::OptionSetUse {
        name: set.name,
        current: Some(version(set.current)),
        staged: set.stage.map(|stage| version(stage.version)),
        share,
        nodes,
        first_nodes: first,
    }
}

pub(crate) fn version(version: OptionSetVersion) -> proto::OptionSetVersion {
    let OptionSetVersion { number, text, options, changed, author, comment, in_force } = version;
    proto::OptionSetVersion {
        number,
        text: text.into(),
        options: options.into_iter().map(option).collect(),
        changed: changed.0,
        author,
        comment,
        in_force: in_force.map(|time| time.0),
    }
}

fn option(option: SetOption) -> proto::SetOption {
    proto::SetOption { name: option.name, value: option.value, forced: option.is_forced }
}

/// Parses the change that a request asks for.
pub(crate) fn change(
    request: proto::ChangeOptionSetRequest,
) -> Result<OptionSetChange, StoreError> {
    let option = |option: proto::SetOption| SetOption {
        name: option.name,
        value: option.value,
        is_forced: option.forced,
    };
    let share = super::positive(request.share).map(Share::of_hundredths).transpose();
    Ok(OptionSetChange {
        set: request.set.into_iter().map(option).collect(),
        unset: request.unset,
        text: request.text.map(|text| text.to_vec()),
        revert_to: Some(request.revert_to).filter(|number| *number > 0),
        comment: request.comment,
        share: share.map_err(|error| StoreError::usage(error.to_string()))?,
    })
}

pub(crate) fn report(report: ChangeReport) -> proto::ChangeOptionSetReply {
    let ChangeReport { name, before, after, is_change, first, nodes } = report;
    proto::ChangeOptionSetReply {
        name,
        before: before.map(version),
        after: Some(version(after)),
        changed: is_change,
        is_staged: first.is_some(),
        first_nodes: first.unwrap_or_default(),
        nodes: u32::try_from(nodes).unwrap_or(u32::MAX),
    }
}
