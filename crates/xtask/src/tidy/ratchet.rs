//! The ratchet: findings that are allowed for now, by file or by crate, in numbers that may only
//! shrink.
//!
//! ```text
//!   ["crates/pool/src/pack.rs"]
//!   file-lines = 912
//!   columns = 3
//!
//!   ["crates/tape"]
//!   headless = 40
//! ```
//!
//! A number is the amount of findings of one rule that is allowed in a file, or in all files of a
//! crate that have no number of their own. If there are more, all findings of the rule are
//! reported. A file's number that is too high is itself a finding, so that a corrected fault stays
//! corrected. A crate's number may be too high for a time: several people may correct the crate
//! together, and [`Ratchet::lowered`] lowers the number afterwards.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::finding::{Finding, Rule};

/// Path of the ratchet in the tree.
pub(crate) const PATH: &str = "crates/xtask/ratchet.toml";

/// The allowed amounts, by file or crate and by rule.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Ratchet {
    allowed: BTreeMap<(String, Rule), Allowance>,
}

/// An allowed amount of findings.
#[derive(PartialEq, Eq, Debug)]
struct Allowance {
    amount: u64,
    /// Line of the ratchet that has the number, counted from 1.
    line: usize,
}

impl Ratchet {
    /// Parses the ratchet; an error is the finding to report.
    pub(crate) fn parse(text: &str) -> Result<Self, Finding> {
        let broken = |line, message: &str| Finding::new(PATH, line, Rule::Ratchet, message);
        let table: Table =
            text.parse().map_err(|_| broken(1, "the file is not TOML, see ratchet.rs"))?;
        let mut allowed = BTreeMap::new();
        for (path, rules) in &table {
            let header = line_from(text, 0, &format!("[\"{path}\"]"));
            let rules = rules
                .as_table()
                .ok_or_else(|| broken(header, "not a table, write '[\"FILE\"]' and 'RULE = N'"))?;
            for (name, amount) in rules {
                let line = line_from(text, header, name);
                let rule = Rule::from_name(name)
                    .ok_or_else(|| broken(line, "unknown rule, see finding.rs for their names"))?;
                let amount = amount_of(amount)
                    .ok_or_else(|| broken(line, "not a number of at least 1, write 'RULE = N'"))?;
                allowed.insert((path.clone(), rule), Allowance { amount, line });
            }
        }
        Ok(Self { allowed })
    }

    /// Removes the allowed findings from `found`, and adds a finding for each number that is too
    /// high.
    pub(crate) fn apply(&self, found: Vec<Finding>) -> Vec<Finding> {
        let amounts = self.amounts(&found);
        let exceeds = |finding: &Finding| {
            let key = self.key(finding);
            self.allowed.get(&key).is_none_or(|allowed| amounts[&key] > allowed.amount)
        };
        let mut left: Vec<Finding> = found.into_iter().filter(exceeds).collect();
        for (key, allowed) in &self.allowed {
            let amount = amounts.get(key).copied().unwrap_or(0);
            let (path, rule) = key;
            if amount < allowed.amount && !is_crate(path) {
                left.push(slack(path, *rule, allowed, amount));
            }
        }
        left
    }

    /// Adds up the amounts of the findings, by the entry that each finding counts for.
    fn amounts(&self, found: &[Finding]) -> BTreeMap<(String, Rule), u64> {
        let mut amounts = BTreeMap::new();
        for finding in found {
            *amounts.entry(self.key(finding)).or_default() += finding.amount;
        }
        amounts
    }

    /// Returns the entry that `finding` counts for: the entry of its file or, if the file has none,
    /// the entry of its crate.
    fn key(&self, finding: &Finding) -> (String, Rule) {
        let own = (finding.path.clone(), finding.rule);
        let folder = finding.path.split('/').take(2).collect::<Vec<_>>().join("/");
        let of_crate = (folder, finding.rule);
        if !self.allowed.contains_key(&own) && self.allowed.contains_key(&of_crate) {
            of_crate
        } else {
            own
        }
    }

    /// Returns the text of the ratchet, with each number lowered to what `found` needs.
    pub(crate) fn lowered(&self, text: &str, found: &[Finding]) -> String {
        let amounts = self.amounts(found);
        let mut lines: Vec<String> = text
            .lines()
            .take_while(|line| line.starts_with('#'))
            .map(str::to_owned)
            .collect();
        let mut path_before = "";
        for (key, allowed) in &self.allowed {
            let (path, rule) = key;
            let amount = amounts.get(key).copied().unwrap_or(0).min(allowed.amount);
            if amount > 0 {
                if path != path_before {
                    lines.extend([String::new(), format!("[\"{path}\"]")]);
                    path_before = path;
                }
                lines.push(format!("{} = {amount}", rule.name()));
            }
        }
        lines.join("\n") + "\n"
    }
}

/// Returns true for the folder of a crate, `crates/NAME`.
fn is_crate(path: &str) -> bool {
    path.starts_with("crates/") && path.matches('/').count() == 1
}

fn slack(path: &str, rule: Rule, allowed: &Allowance, amount: u64) -> Finding {
    let name = rule.name();
    let message = match amount {
        0 => format!("{path} has no finding of {name}, remove the line"),
        _ => format!("{path} has {amount} of {name}, not {}: lower it to {amount}", allowed.amount),
    };
    Finding::new(PATH, allowed.line, Rule::Ratchet, message)
}

fn amount_of(value: &Value) -> Option<u64> {
    let amount = u64::try_from(value.as_integer()?).ok()?;
    (amount > 0).then_some(amount)
}

/// Returns the number of the first line after line `after` that starts with `start`; `after` itself
/// if there is none.
fn line_from(text: &str, after: usize, start: &str) -> usize {
    let place = text.lines().skip(after).position(|line| line.trim_start().starts_with(start));
    place.map_or(after.max(1), |index| after + index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(line: usize, rule: Rule) -> Finding {
        Finding::new("a.rs", line, rule, "wrong")
    }

    /// `expected` has the line and the rule of each finding that is left.
    #[track_caller]
    fn check(ratchet: &str, found: Vec<Finding>, expected: &[(usize, Rule)]) {
        let left = Ratchet::parse(ratchet).expect("parses").apply(found);
        let left: Vec<_> = left.iter().map(|finding| (finding.line, finding.rule)).collect();
        assert_eq!(left, expected, "{ratchet}");
    }

    #[test]
    fn what_is_allowed_is_silent() {
        let found = vec![finding(1, Rule::Columns), finding(2, Rule::Columns)];
        check("[\"a.rs\"]\ncolumns = 2\n", found, &[]);
    }

    #[test]
    fn above_the_number_everything_is_said() {
        let found = vec![finding(1, Rule::Columns), finding(2, Rule::Columns)];
        let expected = [(1, Rule::Columns), (2, Rule::Columns)];
        check("[\"a.rs\"]\ncolumns = 1\n", found.clone(), &expected);
        check("[\"b.rs\"]\n", found.clone(), &expected);
        check("", found, &expected);
    }

    #[test]
    fn the_lines_of_a_file_count_as_they_are() {
        let long = Finding { amount: 912, ..finding(801, Rule::FileLines) };
        check("[\"a.rs\"]\nfile-lines = 912\n", vec![long.clone()], &[]);
        check("[\"a.rs\"]\nfile-lines = 911\n", vec![long], &[(801, Rule::FileLines)]);
    }

    #[test]
    fn a_number_without_need_is_to_be_lowered() {
        let ratchet = Ratchet::parse("[\"a.rs\"]\nheader = 1\ncolumns = 3\n").expect("parses");
        let left = ratchet.apply(vec![finding(9, Rule::Columns)]);
        let said: Vec<_> = left.iter().map(ToString::to_string).collect();
        let expected = [
            "crates/xtask/ratchet.toml:3: a.rs has 1 of columns, not 3: lower it to 1 [ratchet]",
            "crates/xtask/ratchet.toml:2: a.rs has no finding of header, remove the line [ratchet]",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_crates_number_is_a_ceiling_for_its_files() {
        let at = |path: &str| Finding::new(path, 1, Rule::Headless, "wrong");
        let found = vec![at("crates/a/src/b.rs"), at("crates/a/src/c.rs"), at("crates/ab/d.rs")];
        let left = |ratchet: &str| {
            let left = Ratchet::parse(ratchet).expect("parses").apply(found.clone());
            left.into_iter().map(|finding| finding.path).collect::<Vec<_>>()
        };
        assert_eq!(left("[\"crates/a\"]\nheadless = 9\n"), ["crates/ab/d.rs"]);
        assert_eq!(left("[\"crates/a\"]\nheadless = 1\n").len(), 3);
        let own = "[\"crates/a\"]\nheadless = 1\n[\"crates/a/src/b.rs\"]\nheadless = 1\n";
        assert_eq!(left(own), ["crates/ab/d.rs"]);
    }

    #[test]
    fn numbers_are_lowered_to_what_is_found_and_never_raised() {
        let text = "# Head.\n[\"a.rs\"]\ncolumns = 3\nheader = 1\n[\"crates/b\"]\nedge = 2\n\
                    [\"c.rs\"]\ncolumns = 1\n";
        let columns = |path: &str| Finding::new(path, 1, Rule::Columns, "wrong");
        let found = [columns("a.rs"), columns("c.rs"), columns("c.rs")];
        let lowered = Ratchet::parse(text).expect("parses").lowered(text, &found);
        let expected = "# Head.\n\n[\"a.rs\"]\ncolumns = 1\n\n[\"c.rs\"]\ncolumns = 1\n";
        assert_eq!(lowered, expected);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (text, line) in [
            ("[", 1),
            ("a = 1\n", 1),
            ("\n[\"a.rs\"]\nnovel = 1\n", 3),
            ("[\"a.rs\"]\ncolumns = 0\n", 2),
            ("[\"a.rs\"]\ncolumns = \"1\"\n", 2),
        ] {
            let broken = Ratchet::parse(text).expect_err("is broken");
            assert_eq!((broken.line, broken.rule), (line, Rule::Ratchet), "{text}");
        }
    }
}
