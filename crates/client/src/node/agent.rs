//! Settings of the node's agent: how it hears from the server, and what the server may ask for.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::home::Home;
use super::standing::{ReceivedSet, Standing};
use crate::error::ClientError;

/// Section `[agent]` of `client.toml`. What a node forbids here, no server can allow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentSettings {
    /// Way in which the agent hears from the server: `prompted`, by a connection that stays open,
    /// or `polling`, by a connection from time to time.
    pub mode: AgentMode,
    /// Minutes between two connections of an agent that polls, from 1 to 44640. A number outside
    /// counts as the nearest of these.
    pub poll_minutes: u32,
    /// Shell commands that the server may start: `all`, `none`, or a list of the exact commands.
    pub commands: CommandRight,
    /// True if the server may start restores.
    pub restores: bool,
    /// True if the server may ask for commands before and after a backup or archive.
    pub commands_around: bool,
    /// True if tasks give way to other programs of the machine, as with `--priority low`.
    pub low_priority: bool,
    /// Days for which the records and logs of ended events are kept on this machine.
    pub log_days: u16,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            mode: AgentMode::Prompted,
            poll_minutes: 240,
            commands: CommandRight::Word(CommandWord::All),
            restores: true,
            commands_around: true,
            low_priority: true,
            log_days: 14,
        }
    }
}

/// Way in which an agent hears from the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentMode {
    Prompted,
    Polling,
}

/// Shell commands that the server may start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CommandRight {
    Word(CommandWord),
    /// Exactly these commands.
    List(Vec<String>),
}

/// All commands, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandWord {
    All,
    None,
}

impl CommandRight {
    /// Returns true if the server may start `command`.
    pub fn allows(&self, command: &[u8]) -> bool {
        match self {
            Self::Word(CommandWord::All) => true,
            Self::Word(CommandWord::None) => false,
            Self::List(commands) => commands.iter().any(|known| known.as_bytes() == command),
        }
    }
}

/// Keeps the option set that the server has sent to the agent.
pub fn keep_option_set(folder: &Path, received: &ReceivedSet) {
    received.keep(folder);
}

/// Places where the rights of the server at this node are set, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RightSources {
    pub commands: String,
    pub restores: String,
    pub commands_around: String,
}

impl RightSources {
    fn of(standing: &Standing) -> Self {
        let source = |setting: &str, own: String| match standing.is_of_set(setting) {
            true => format!("{setting} of {}", standing.received().shown()),
            false => own,
        };
        let own = Self::default();
        Self {
            commands: source("agent-commands", own.commands),
            restores: source("agent-restores", own.restores),
            commands_around: source("agent-commands-around", own.commands_around),
        }
    }
}

impl Default for RightSources {
    /// Returns the places in the node's file.
    fn default() -> Self {
        let of_file = |key: &str| format!("{key} in client.toml");
        let [commands, restores, commands_around] =
            ["commands", "restores", "commands_around"].map(of_file);
        Self { commands, restores, commands_around }
    }
}

/// Configuration of the node's agent, as the node's folder has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentConfig {
    pub settings: AgentSettings,
    pub sources: RightSources,
    /// Name of the node.
    pub node: String,
    /// Warnings about values of the node's file that are out of their bounds.
    pub warnings: Vec<String>,
}

/// Reads the settings of the agent, and the name of the node, from the node's folder.
pub fn agent_config(folder: &Path) -> Result<AgentConfig, ClientError> {
    let Home { config, standing, .. } = Home::load(folder)?;
    let sources = RightSources::of(&standing);
    let warnings = standing.out_of_bounds().to_vec();
    Ok(AgentConfig { settings: config.agent, sources, node: config.node, warnings })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(text: &str) -> CommandRight {
        toml::from_str::<AgentSettings>(&format!("commands = {text}"))
            .expect("is read")
            .commands
    }

    #[test]
    fn commands_are_all_none_or_those_listed() {
        let listed = commands(r#"["/usr/bin/true", "sync"]"#);
        assert!(listed.allows(b"sync") && !listed.allows(b"sync; reboot"));
        assert!(commands(r#""all""#).allows(b"reboot"));
        assert!(!commands(r#""none""#).allows(b"sync"));
        assert!(toml::from_str::<AgentSettings>("commands = \"some\"").is_err());
        assert!(toml::from_str::<AgentSettings>("command = \"all\"").is_err());
    }
}
