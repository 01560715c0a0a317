//! Tests that every parser returns a value or an error for any answer of a device.

use format::volume::{BlockHeader, ForeignContent, Index, Label};
use proptest::collection::vec;
use proptest::prelude::*;
use tape::scsi::{
    Attribute, BlockLimits, Density, ElementAddresses, ElementKind, ElementRange, Inquiry,
    ModeHeader, Sense, designators, elements, long_position, physical_position, recommended_order,
    segment_limits, serial_number, short_position, supported_commands, supported_log_pages,
    tape_alerts, tape_capacity, without_compression, wrap_ends,
};

/// Returns the number of parsers that accept `bytes`.
fn parse_all(bytes: &[u8]) -> usize {
    let range = ElementRange { kind: ElementKind::Slot, first: 0, count: u16::MAX };
    let parsed = [
        Inquiry::parse(bytes).is_ok(),
        serial_number(bytes).is_ok(),
        designators(bytes).is_ok(),
        Sense::parse(bytes).is_ok_and(|sense| !sense.to_string().is_empty()),
        Sense::parse(bytes).map(|sense| sense.condition()).is_ok(),
        ModeHeader::parse(bytes).is_ok(),
        without_compression(bytes).is_ok(),
        BlockLimits::parse(bytes).is_ok(),
        ElementAddresses::parse(bytes).is_ok(),
        elements(bytes, range).is_ok(),
        supported_commands(bytes).is_ok(),
        supported_log_pages(bytes).is_ok(),
        tape_alerts(bytes).is_ok(),
        tape_capacity(bytes).is_ok(),
        short_position(bytes).is_ok(),
        long_position(bytes).is_ok(),
        physical_position(bytes).is_ok(),
        wrap_ends(bytes).is_ok(),
        recommended_order(bytes).is_ok(),
        segment_limits(bytes).is_ok(),
        Attribute::parse_all(bytes).is_ok(),
        Density::parse_all(bytes).is_ok(),
        BlockHeader::open(bytes).is_ok(),
        Label::decode(bytes).is_ok(),
        Index::decode(bytes).is_ok(),
        ForeignContent::of(bytes).is_some(),
    ];
    parsed.into_iter().filter(|is_parsed| *is_parsed).count()
}

proptest! {
    #[test]
    fn no_answer_is_too_strange(bytes in vec(any::<u8>(), 0..400)) {
        prop_assert!(parse_all(&bytes) < 26);
    }

    /// Small numbers are often valid as lengths and counts.
    #[test]
    fn no_answer_of_small_numbers_is_too_strange(bytes in vec(0..20_u8, 0..400)) {
        prop_assert!(parse_all(&bytes) < 26);
    }
}
