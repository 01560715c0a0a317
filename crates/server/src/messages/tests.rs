//! Any bytes of a peer are parsed into a request, or refused.

use model::FilespaceId;
use prost::Message as _;
use wire::proto::edit_policy_request::Edit;

use super::*;

/// Memory that a change may take, in bytes.
const MEMORY_MAX: usize = 16 << 20;

fn check<T: prost::Message + Default>(input: &[u8], parse: impl FnOnce(T) -> bool) -> bool {
    T::decode(input).is_ok_and(parse)
}

/// Gives the input to each parser as a message of its kind. Returns true if one of them parsed it.
fn parse_any(input: &[u8]) -> bool {
    let parsed = [
        check(input, |change: proto::PageChange| {
            changes::parse(&change, &format::Budget::new(MEMORY_MAX)).is_ok()
        }),
        check(input, |message: proto::Selection| {
            let selection = selection::parse(&message, FilespaceId(1));
            selection.is_ok_and(|selection| selection.range.start <= selection.range.end)
        }),
        check(input, |message: proto::EditPolicyRequest| domains::edit(message.edit).is_ok()),
        check(input, |message: proto::ServeLibraryRequest| libraries::work(message.work).is_ok()),
        check(input, |message: proto::PutLibraryRequest| libraries::new_library(message).is_ok()),
        check(input, |message: proto::PutPoolRequest| pools::request(message).is_ok()),
        check(input, |message: proto::StageRequest| recall::order(&message).is_ok()),
        check(input, |message: proto::Portion| {
            let portion = portions::Portion::parse(Some(message));
            assert!(portion.read_max() <= wire::PORTION_ITEMS_MAX as usize + 1);
            [portion.first_number().is_ok(), portion.first_volume().is_ok()].contains(&true)
        }),
    ];
    parsed.contains(&true)
}

fn page() -> Vec<u8> {
    let object = model::Object {
        name: model::Name::new(b"file").expect("a name"),
        stat: model::Stat {
            kind: model::Kind::File,
            mode: 0o644,
            uid: 1000,
            gid: 100,
            size: 10,
            mtime: model::Timestamp::default(),
            ctime: model::Timestamp::default(),
            inode: 7,
            linked: false,
            device: 0,
        },
        attributes: std::sync::Arc::default(),
        class: model::ClassId(1),
        inserted: model::ServerTime(0),
        payload: model::Payload::Extents(vec![model::Extent::Chunks(model::ChunkRange {
            first: model::Place::new(model::PackNumber(1), 0),
            count: 1,
        })]),
    };
    format::page::encode(&[object])
}

fn seeds() -> Vec<Vec<u8>> {
    let change = proto::PageChange {
        directory: "/home/".into(),
        backed_up: page().into(),
        expired: vec!["gone".into()],
        grants: vec![0; wire::GRANT_BYTES].into(),
        pages: vec![proto::PageKey { digest: vec![3; 16].into(), ..proto::PageKey::default() }],
        ..proto::PageChange::default()
    };
    let selection = proto::Selection {
        directory: "/home/".into(),
        name: "anna".into(),
        recursive: true,
        from: 5,
        bytes: 10,
        ..proto::Selection::default()
    };
    let group = proto::BackupCopyGroup {
        versions_existing: Some("NOLIMIT".to_owned()),
        mode: Some("absolute".to_owned()),
        ..proto::BackupCopyGroup::default()
    };
    let class = proto::ManagementClass { backup: Some(group), ..proto::ManagementClass::default() };
    let edit = proto::EditPolicyRequest {
        edit: Some(Edit::PutClass(class)),
        ..proto::EditPolicyRequest::default()
    };
    let library = proto::PutLibraryRequest {
        name: "big".to_owned(),
        folder: "/srv".to_owned(),
        ..proto::PutLibraryRequest::default()
    };
    let stage = proto::StageRequest { copies: vec![1; 20].into(), ..Default::default() };
    let portion = proto::Portion { items_max: 9, from: "library\0volume".into() };
    vec![
        change.encode_to_vec(),
        selection.encode_to_vec(),
        edit.encode_to_vec(),
        library.encode_to_vec(),
        stage.encode_to_vec(),
        portion.encode_to_vec(),
    ]
}

#[test]
fn any_message_is_parsed_or_refused() {
    let seeds = seeds();
    assert!(seeds.iter().all(|seed| parse_any(seed)), "each seed is a request");
    fuzz::exercise("server_messages", &seeds, &|input| {
        let _ = parse_any(input);
    });
}

#[test]
fn an_effort_of_recompression_is_standard_or_a_level_from_1_to_19() {
    let parse = |level| recompression(Some(proto::Recompression { level }), true);
    assert_eq!(parse(0), Ok(Some(Recompression::STANDARD)));
    assert_eq!(parse(19), Ok(Recompression::of_level(19).ok()));
    assert!(parse(20).is_err() && parse(u32::MAX).is_err());
}

#[test]
fn a_request_that_writes_nothing_again_names_no_effort_of_recompression() {
    assert_eq!(recompression(None, false), Ok(None));
    let refused = recompression(Some(proto::Recompression { level: 9 }), false);
    assert!(matches!(refused, Err(StoreError::Usage(_))), "{refused:?}");
}
