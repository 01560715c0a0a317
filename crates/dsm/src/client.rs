//! Commands of `dsmc`: their words, their options, and the objects that they name.
//!
//! ```text
//!   words -> command::parse -> Command (definition, operands, options)
//!                                 |
//!                 spec -> objects of the node, or stored ones
//!                 plan -> command lines of holdfast
//! ```
//!
//! Each word of a command may be abbreviated to the capital letters of its spelling. Options may
//! stand before and after the operands.

mod choice;
mod command;
mod message;
mod pathname;
mod plan;
mod spec;
mod table;
mod time_range;

pub use command::{Command, CommandError, is_about_cache, options_of, parse};
pub use message::{Message, message};
pub use pathname::{Placement, Preservation, placements};
pub use plan::{
    PathSource, archive, backup, expiry, image_backup, image_restore, node_read, preview, restore,
    retrieve,
};
pub use spec::{Last, Spec};
pub use table::{Action, CommandDefinition, commands};
pub use time_range::{RangeError, TimeRange, instant, point_in_time, range};
