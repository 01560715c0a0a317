//! The decision which source of a setting wins.

use super::table::{Setting, Sway};

/// Source of a value, from the first in precedence to the last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rank {
    /// Option on a command that a schedule of the server has started.
    Schedule,
    /// Option set, with force.
    Forced,
    /// Option on a command that a person has started.
    CommandLine,
    /// The node's own file.
    Node,
    /// Option set, for nodes that have no value of their own.
    IfNotSet,
    Default,
}

/// Values that the sources of a setting offer, as text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Offers {
    pub schedule: Option<String>,
    pub forced: Option<String>,
    pub command_line: Option<String>,
    pub node: Option<String>,
    pub if_not_set: Option<String>,
}

impl Offers {
    /// Returns the source that wins, and its value; the default has none. `runs_around` is true if
    /// the node lets the server ask for commands before and after a backup.
    pub fn winner(&self, setting: &Setting, runs_around: bool) -> (Rank, Option<&str>) {
        let is_heard = match setting.sway {
            Sway::Open => true,
            Sway::Around => runs_around,
            Sway::Node(_) => false,
            Sway::Tightening => {
                let strict = setting.strict_value().expect("a right has a strictest value");
                return self.strictest(strict);
            }
        };
        let of_server = |value: &'_ Option<String>| value.is_some() && is_heard;
        let candidates = [
            (Rank::Schedule, &self.schedule, self.schedule.is_some()),
            (Rank::Forced, &self.forced, of_server(&self.forced)),
            (Rank::CommandLine, &self.command_line, self.command_line.is_some()),
            (Rank::Node, &self.node, self.node.is_some()),
            (Rank::IfNotSet, &self.if_not_set, of_server(&self.if_not_set)),
        ];
        let won = candidates.into_iter().find(|(_, _, counts)| *counts);
        won.map_or((Rank::Default, None), |(rank, value, _)| (rank, value.as_deref()))
    }

    /// Decides about a right of the server. A value from the server counts only if it takes the
    /// right away, even if it is not forced: the node has not asked to keep the right.
    fn strictest(&self, strict: &str) -> (Rank, Option<&str>) {
        let is_strict = |value: &Option<String>| value.as_deref() == Some(strict);
        let of_node = self.node.as_deref();
        if of_node != Some(strict) && is_strict(&self.forced) {
            return (Rank::Forced, self.forced.as_deref());
        }
        match of_node {
            Some(value) => (Rank::Node, Some(value)),
            None if is_strict(&self.if_not_set) => (Rank::IfNotSet, self.if_not_set.as_deref()),
            None => (Rank::Default, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::settings::table::{SETTINGS, find};
    use crate::settings::value::Kind;

    /// Offers of the sources whose letters are in `from`: s, f, c, n and i.
    fn offers(from: &str) -> Offers {
        let offer = |letter: char| from.contains(letter).then(|| letter.to_string());
        Offers {
            schedule: offer('s'),
            forced: offer('f'),
            command_line: offer('c'),
            node: offer('n'),
            if_not_set: offer('i'),
        }
    }

    #[track_caller]
    fn check(name: &str, from: &str, runs_around: bool, expected: &str) {
        let setting = find(name).expect("a setting");
        let offers = offers(from);
        let (_, value) = offers.winner(setting, runs_around);
        assert_eq!(value.unwrap_or("default"), expected, "{name} {from}");
    }

    #[test]
    fn the_order_is_that_of_tsm() {
        for (from, expected) in
            [("sfcni", "s"), ("fcni", "f"), ("cni", "c"), ("ni", "n"), ("i", "i"), ("", "default")]
        {
            check("compression", from, true, expected);
        }
        check("compression", "fi", true, "f");
        check("compression", "si", true, "s");
    }

    #[test]
    fn commands_of_the_server_run_only_where_the_node_allows_them() {
        check("pre-command", "fcni", true, "f");
        check("pre-command", "fcni", false, "c");
        check("pre-command", "i", false, "default");
        check("encryption-keys", "fi", true, "default");
        check("encryption-keys", "fni", true, "n");
    }

    #[test]
    fn a_right_of_the_server_is_only_taken_away() {
        let right = find("agent-restores").expect("a setting");
        let of = |forced: Option<&str>, node: Option<&str>, if_not_set: Option<&str>| Offers {
            forced: forced.map(str::to_owned),
            node: node.map(str::to_owned),
            if_not_set: if_not_set.map(str::to_owned),
            ..Offers::default()
        };
        for (forced, node, if_not_set, expected) in [
            (Some("yes"), Some("no"), None, (Rank::Node, Some("no"))),
            (Some("no"), Some("yes"), None, (Rank::Forced, Some("no"))),
            (Some("no"), None, None, (Rank::Forced, Some("no"))),
            (Some("yes"), None, None, (Rank::Default, None)),
            (None, None, Some("no"), (Rank::IfNotSet, Some("no"))),
            (None, Some("yes"), Some("no"), (Rank::Node, Some("yes"))),
            (None, Some("no"), Some("yes"), (Rank::Node, Some("no"))),
        ] {
            let offers = of(forced, node, if_not_set);
            assert_eq!(offers.winner(right, true), expected, "{offers:?}");
        }
        let commands = find("agent-commands").expect("a setting");
        let offers = of(Some("none"), Some("sync"), None);
        assert_eq!(offers.winner(commands, true), (Rank::Forced, Some("none")));
        let offers = of(Some("all"), Some("sync"), None);
        assert_eq!(offers.winner(commands, true), (Rank::Node, Some("sync")));
    }

    fn any_offers() -> impl Strategy<Value = Offers> {
        let word =
            || proptest::option::of(proptest::sample::select(vec!["yes", "no", "x", "none"]));
        (word(), word(), word(), word(), word()).prop_map(|(s, f, c, n, i)| {
            let own = |value: Option<&str>| value.map(str::to_owned);
            Offers {
                schedule: own(s),
                forced: own(f),
                command_line: own(c),
                node: own(n),
                if_not_set: own(i),
            }
        })
    }

    proptest! {
        /// The winner offers the value that is in force, and nothing that comes before it offers
        /// one that counts.
        #[test]
        fn the_winner_has_offered_the_value(
            offers in any_offers(),
            index in 0..SETTINGS.len(),
            runs_around: bool,
        ) {
            let (rank, value) = offers.winner(&SETTINGS[index], runs_around);
            let offered = match rank {
                Rank::Schedule => &offers.schedule,
                Rank::Forced => &offers.forced,
                Rank::CommandLine => &offers.command_line,
                Rank::Node => &offers.node,
                Rank::IfNotSet => &offers.if_not_set,
                Rank::Default => &None,
            };
            prop_assert_eq!(value, offered.as_deref());
            if matches!(SETTINGS[index].sway, Sway::Open) {
                let before = [&offers.schedule, &offers.forced, &offers.command_line, &offers.node];
                let ranks = [Rank::Schedule, Rank::Forced, Rank::CommandLine, Rank::Node];
                for (value, of) in before.into_iter().zip(ranks) {
                    prop_assert!(of >= rank || value.is_none());
                }
            }
        }

        /// No option set gives the server a right that it would not have without the option set.
        #[test]
        fn no_option_set_loosens_a_right(
            offers in any_offers(),
            index in 0..SETTINGS.len(),
            runs_around: bool,
        ) {
            let setting = &SETTINGS[index];
            let without = Offers { forced: None, if_not_set: None, ..offers.clone() };
            let with = offers.winner(setting, runs_around).1;
            match setting.sway {
                Sway::Tightening => {
                    let strict = if setting.kind == Kind::Commands { "none" } else { "no" };
                    prop_assert!(with == Some(strict) || with == without.winner(setting, true).1);
                }
                Sway::Node(_) => prop_assert_eq!(with, without.winner(setting, true).1),
                Sway::Around if !runs_around => {
                    prop_assert_eq!(with, without.winner(setting, false).1);
                }
                Sway::Around | Sway::Open => {}
            }
        }
    }
}
