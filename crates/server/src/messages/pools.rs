//! Pools.

use catalog::Collocation;
use store::StoreError;
use store::pools::{NewPool, PoolChange, PoolSettings, PoolSummary};
use wire::proto;

use super::{filled, positive};

pub(crate) fn pool(info: PoolSummary) -> proto::PoolInfo {
    let PoolSummary { row, next, usage, missing_packs, missing_bytes, library, .. } = info;
    proto::PoolInfo {
        name: row.name,
        url: row.url,
        is_copy: row.is_copy,
        next: next.unwrap_or_default(),
        capacity_bytes: row.capacity_bytes,
        high_percent: row.high_percent.into(),
        low_percent: row.low_percent.into(),
        delay_days: row.delay_days.into(),
        is_there: usage.is_there,
        packs: usage.packs,
        bytes: usage.bytes,
        bytes_max: usage.bytes_max,
        missing_packs,
        missing_bytes,
        library: library.unwrap_or_default(),
        collocation: collocation(row.collocation).into(),
        reclaim_percent: row.reclaim_percent.into(),
        reuse_delay_days: row.reuse_delay_days.into(),
        volumes: info.volumes,
        disk_errors: info.disk_errors,
    }
}

fn collocation(collocation: Collocation) -> proto::Collocation {
    match collocation {
        Collocation::No => proto::Collocation::No,
        Collocation::Group => proto::Collocation::Group,
        Collocation::Node => proto::Collocation::Node,
    }
}

fn parse_collocation(code: i32) -> Result<Collocation, StoreError> {
    match proto::Collocation::try_from(code) {
        Ok(proto::Collocation::No) => Ok(Collocation::No),
        Ok(proto::Collocation::Group) => Ok(Collocation::Group),
        Ok(proto::Collocation::Node) => Ok(Collocation::Node),
        Ok(proto::Collocation::Unspecified) | Err(_) => {
            Err(StoreError::usage("the collocation must be no, group or node"))
        }
    }
}

/// A request to make a pool, or to change one.
#[derive(Debug)]
pub(crate) enum PoolRequest {
    Add(NewPool),
    Change(PoolChange),
}

pub(crate) fn request(request: proto::PutPoolRequest) -> Result<PoolRequest, StoreError> {
    let settings = settings(&request)?;
    let proto::PutPoolRequest { name, is_new, url, is_copy, is_replaced, .. } = request;
    Ok(if is_new {
        PoolRequest::Add(NewPool { name, url, is_copy, settings })
    } else {
        PoolRequest::Change(PoolChange { name, is_replaced, settings })
    })
}

fn settings(request: &proto::PutPoolRequest) -> Result<PoolSettings, StoreError> {
    // Numbers that do not fit become the largest numbers, which the store refuses as too large.
    let percent = |percent: u32| u8::try_from(percent).unwrap_or(u8::MAX);
    let days = |days: u32| u16::try_from(days).unwrap_or(u16::MAX);
    Ok(PoolSettings {
        next: request.next.clone().map(filled),
        capacity: request.capacity_bytes.map(positive),
        high_percent: request.high_percent.map(percent),
        low_percent: request.low_percent.map(percent),
        delay_days: request.delay_days.map(days),
        collocation: request.collocation.map(parse_collocation).transpose()?,
        reclaim_percent: request.reclaim_percent.map(percent),
        reuse_delay_days: request.reuse_delay_days.map(days),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_an_empty_name_take_a_setting_away() {
        let message = proto::PutPoolRequest {
            next: Some(String::new()),
            capacity_bytes: Some(0),
            high_percent: Some(300),
            ..proto::PutPoolRequest::default()
        };
        let settings = settings(&message).expect("is well formed");
        assert_eq!((settings.next, settings.capacity), (Some(None), Some(None)));
        assert_eq!(settings.high_percent, Some(255), "the store refuses it");
        assert_eq!(settings.low_percent, None);
    }

    #[test]
    fn a_collocation_that_nobody_named_is_refused() {
        for each in [Collocation::No, Collocation::Group, Collocation::Node] {
            assert_eq!(parse_collocation(collocation(each).into()), Ok(each));
        }
        assert!(parse_collocation(0).is_err() && parse_collocation(99).is_err());
    }
}
