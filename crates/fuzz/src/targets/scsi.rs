//! Answers of drives and changers.

use tape::scsi::{
    Attribute, BlockLimits, Density, ElementAddresses, ElementKind, ElementRange, Inquiry,
    ModeHeader, Sense, designators, elements, elements_answer_bytes, log_parameters, long_position,
    physical_position, recommended_order, segment_limits, serial_number, short_position,
    supported_commands, supported_log_pages, tape_alerts, tape_capacity, without_compression,
    wrap_ends,
};

use crate::{PLAIN_BYTES_MAX, Target};

pub(super) const SCSI_ANSWER: Target = Target {
    name: "scsi_answer",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds,
    check: check_answer,
};

/// Returns an answer of each kind, as the tests of the parsers have them.
fn seeds() -> Vec<Vec<u8>> {
    let inquiry = [&[0x01, 0x80, 6, 2, 91, 0, 0, 2], &b"IBM     ULT3580-TD8     0001"[..]].concat();
    let addresses = b"\x17\0\0\0\x1d\x12\0\x01\0\x01\x03\xe8\0\x0a\x02\xbc\0\x02\x01\xf4\0\x02\0\0";
    let compression =
        b"\x1b\0\x10\x08\x5e\0\0\0\0\0\0\0\x8f\x0e\xc0\x80\0\0\0\x01\0\0\0\x01\0\0\0\0";
    let sense = b"\x70\0\x83\0\0\x01\0\x0a\0\0\0\0\0\x01\0\0\0\0";
    let descriptors = b"\x72\x03\x11\0\0\0\0\x0c\0\x0a\x80\0\0\0\0\0\0\0\0\x05";
    let mut elements = vec![0x03, 0xe8, 0, 1, 0, 0, 0, 60, 2, 0x80, 0, 52, 0, 0, 0, 52];
    elements.extend([0x03, 0xe8, 0x09, 0, 0, 0, 0, 0, 0, 0x80, 0x03, 0xe9]);
    elements.extend(b"A00001L8                            ");
    elements.extend([0; 4]);
    let attributes = b"\0\0\0\x0d\x08\x06\x01\0\x08A00001L8\0\0\0\0";
    let log = b"\x11\0\0\x0c\0\x01\x03\x04\0\0\x10\0\0\x03\x03\x04\0\0\x20\0";
    let designators = b"\x01\x83\0\x0e\x02\x01\0\x02AB\x01\x03\0\x04\x50\x01\x02\x03";
    let position = b"\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0";
    let ends = b"\0\x1a\0\0\0\0\0\0\0\0\0\0\0\x10\0\x01\0\0\0\0\0\0\0\x20\0\0\0\0";
    let order = b"\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02";
    let commands = b"\0\0\0\x14\x08\0\0\0\0\x02\0\x06\0\x0a\0\0\0\0\0\x10\0\0\0\x20";
    let others: [&[u8]; 11] = [
        addresses,
        compression,
        sense,
        descriptors,
        attributes,
        log,
        designators,
        position,
        ends,
        order,
        commands,
    ];
    let others = others.into_iter().map(<[u8]>::to_vec);
    [inquiry, elements].into_iter().chain(others).collect()
}

/// Each parser gets the input, because a broken device may answer with anything.
fn check_answer(input: &[u8]) {
    check_identity(input);
    check_modes(input);
    check_sense(input);
    check_media(input);
    check_elements(input);
}

fn check_identity(input: &[u8]) {
    drop(Inquiry::parse(input));
    drop(serial_number(input));
    for designator in designators(input).unwrap_or_default() {
        assert!(designator.text().len() <= 3 * designator.bytes.len(), "a text has no more");
    }
    drop(supported_commands(input));
}

fn check_modes(input: &[u8]) {
    let _ = ModeHeader::parse(input);
    let _ = ElementAddresses::parse(input);
    if let Ok(limits) = BlockLimits::parse(input) {
        assert!(limits.bytes_max > 0, "a drive takes some block");
    }
    if let Ok(Some(select)) = without_compression(input) {
        assert!(select.len() >= 12, "a selection has a header and a descriptor");
    }
}

fn check_sense(input: &[u8]) {
    if let Ok(sense) = Sense::parse(input) {
        sense.condition();
        sense.end_of_medium();
        sense.wants_cleaning();
    }
    let _ = physical_position(input);
    let _ = short_position(input);
    let _ = long_position(input);
}

fn check_media(input: &[u8]) {
    let attributes = Attribute::parse_all(input).unwrap_or_default();
    for attribute in &attributes {
        assert_eq!(attribute.number().is_some(), attribute.value.len() <= 8, "{attribute:?}");
    }
    let again = Attribute::parse_all(&Attribute::encode_texts(&attributes));
    assert_eq!(again, Ok(attributes));
    drop(Density::parse_all(input));
    drop(log_parameters(input));
    drop(supported_log_pages(input));
    drop(tape_alerts(input));
    let _ = tape_capacity(input);
    drop(wrap_ends(input));
    drop(recommended_order(input));
    let _ = segment_limits(input);
}

fn check_elements(input: &[u8]) {
    use ElementKind::{Changer, Drive, ImportExport, Slot};
    for kind in [Changer, Slot, ImportExport, Drive] {
        for count in [0, 1, 1000, u16::MAX] {
            let range = ElementRange { kind, first: 1, count };
            let found = elements(input, range).unwrap_or_default();
            assert!(found.len() <= usize::from(count), "no more elements than were asked for");
            assert!(elements_answer_bytes(count) >= 16);
        }
    }
}
