//! Settings of the node's agent: how it hears from the server, and what the server may ask for.

use std::io;
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

impl AgentMode {
    /// The name of the way, as settings have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompted => "prompted",
            Self::Polling => "polling",
        }
    }
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

    /// Returns the commands that both rights allow.
    fn and(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Word(CommandWord::All), other) => other.clone(),
            (own, Self::Word(CommandWord::All)) => own,
            (Self::List(commands), Self::List(_)) => {
                let allowed = |command: &String| other.allows(command.as_bytes());
                Self::List(commands.into_iter().filter(allowed).collect())
            }
            _ => Self::Word(CommandWord::None),
        }
    }
}

/// Keeps the option set that the server has sent to the agent.
pub fn keep_option_set(folder: &Path, received: &ReceivedSet) -> io::Result<()> {
    received.keep(folder)
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

impl AgentConfig {
    /// Takes away the rights that `stored` does not give, too.
    fn restricted_by(self, stored: Self) -> Self {
        let Self { mut settings, mut sources, node, warnings } = self;
        let own = stored.settings;
        if settings.restores && !own.restores {
            (settings.restores, sources.restores) = (false, stored.sources.restores);
        }
        if settings.commands_around && !own.commands_around {
            settings.commands_around = false;
            sources.commands_around = stored.sources.commands_around;
        }
        let both = settings.commands.clone().and(&own.commands);
        if both != settings.commands {
            (settings.commands, sources.commands) = (both, stored.sources.commands);
        }
        Self { settings, sources, node, warnings }
    }
}

/// Reads the settings of the agent, and the name of the node, from the node's folder.
pub fn agent_config(folder: &Path) -> Result<AgentConfig, ClientError> {
    Home::load(folder).map(config_of)
}

/// Returns the settings of the agent with the option set `heard`, which could not be stored. Rights
/// that the stored option set takes away stay away.
pub fn agent_config_heard(folder: &Path, heard: &ReceivedSet) -> Result<AgentConfig, ClientError> {
    let heard = config_of(Home::load_with(folder, heard.clone())?);
    Ok(heard.restricted_by(agent_config(folder)?))
}

fn config_of(home: Home) -> AgentConfig {
    let Home { config, standing, .. } = home;
    let sources = RightSources::of(&standing);
    let warnings = standing.out_of_bounds().to_vec();
    AgentConfig { settings: config.agent, sources, node: config.node, warnings }
}

#[cfg(test)]
mod tests {
    use policy::settings::SetOption;

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

    #[test]
    fn two_rights_allow_what_each_allows() {
        let check = |one, other, expected| {
            assert_eq!(commands(one).and(&commands(other)), commands(expected), "{one} {other}");
        };
        check(r#""all""#, r#"["sync"]"#, r#"["sync"]"#);
        check(r#"["sync"]"#, r#""all""#, r#"["sync"]"#);
        check(r#"["sync", "ls"]"#, r#"["ls", "df"]"#, r#"["ls"]"#);
        check(r#"["sync"]"#, r#""none""#, r#""none""#);
        check(r#""none""#, r#""all""#, r#""none""#);
    }

    fn set(name: &str, options: &[(&str, &str)]) -> ReceivedSet {
        let option = |(name, value): &(&str, &str)| SetOption {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
            is_forced: true,
        };
        let options = options.iter().map(option).collect();
        ReceivedSet { name: name.to_owned(), version: 1, options, ..ReceivedSet::default() }
    }

    /// A right that was taken away came back on a node whose disk was full.
    #[test]
    fn rights_stay_away_while_the_option_set_cannot_be_stored() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name, text: &str| std::fs::write(folder.path().join(name), text);
        write("client.toml", "server = \"one:1\"\nnode = \"alpha\"\n").expect("written");
        write("node.pem", "").expect("written");
        let stored = set("OLD", &[("agent-commands-around", "no"), ("agent-log-days", "3")]);
        stored.keep(folder.path()).expect("written");
        let heard = set("NEW", &[("agent-restores", "no"), ("agent-commands", "none")]);
        let config = agent_config_heard(folder.path(), &heard).expect("is read");
        let AgentConfig { settings, sources, .. } = config;
        assert!(!settings.restores && !settings.commands_around);
        assert_eq!(settings.commands, CommandRight::Word(CommandWord::None));
        assert_eq!(settings.log_days, AgentSettings::default().log_days, "what is heard is newer");
        assert_eq!(sources.restores, "agent-restores of option set NEW version 1");
        assert_eq!(sources.commands_around, "agent-commands-around of option set OLD version 1");
    }
}
