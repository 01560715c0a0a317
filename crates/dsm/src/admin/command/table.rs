//! Tables of commands, joined.

use super::definition::Command;
use super::{
    node_commands, option_commands, policy_commands, queries, refusals, schedule_commands,
    storage_commands,
};

/// All commands, in the order of the table in the guide.
pub fn all() -> impl Iterator<Item = &'static Command> + Clone {
    let tables: [&'static [Command]; 7] = [
        queries::QUERIES,
        node_commands::COMMANDS,
        policy_commands::COMMANDS,
        option_commands::COMMANDS,
        schedule_commands::COMMANDS,
        storage_commands::COMMANDS,
        refusals::COMMANDS,
    ];
    tables.into_iter().flatten()
}
