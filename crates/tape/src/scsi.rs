//! Encoding of SCSI commands and parsing of answers, both big-endian. The code is pure: it does no
//! I/O and never waits.
//!
//! Section numbers refer to SPC-4 (all devices), SSC-4 (tapes) and SMC-3 (changers). Parsers take
//! the bytes that a device sent, of any length, and return a value or [`DamageError`].
//!
//! [`DamageError`]: format::DamageError

mod answer;
mod attribute;
mod cdb;
mod density;
mod element;
mod inquiry;
mod log;
mod mode;
mod opcodes;
mod position;
mod recommended;
mod sense;

pub use answer::Answer;
pub use attribute::{Attribute, attribute_id};
pub use cdb::{Cdb, SpaceCode, opcode};
pub use density::Density;
pub use element::{Element, ElementKind, ElementRange, elements, elements_answer_bytes};
pub use inquiry::{Designator, DeviceKind, Inquiry, designators, serial_number};
pub use log::{
    TapeAlert, TapeCapacity, log_page, log_parameters, supported_log_pages, tape_alerts,
    tape_capacity,
};
pub use mode::{
    BlockLimits, ElementAddresses, ModeHeader, Run, mode_select_variable, without_compression,
};
pub use opcodes::{SupportedCommand, supported_commands};
pub use position::{
    PhysicalPosition, WrapEnd, long_position, physical_position, short_position, wrap_ends,
};
pub use recommended::{Segment, SegmentLimits, recommended_order, segment_limits, segment_list};
pub use sense::{Attention, Condition, ReadinessFault, Refusal, Sense};
