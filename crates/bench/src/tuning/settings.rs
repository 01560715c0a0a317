//! The settings. In each measurement only one of them differs from the defaults.

/// A setting as a user would write it into `client.toml`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Setting {
    /// Line above all sections; empty for none.
    pub(super) line: &'static str,
    /// Line of the section `[tuning]`; empty for none.
    pub(super) tuning: &'static str,
}

impl Setting {
    const fn tuning(tuning: &'static str) -> Self {
        Self { line: "", tuning }
    }

    const fn line(line: &'static str) -> Self {
        Self { line, tuning: "" }
    }

    /// Returns the setting as the page shows it.
    pub(super) fn shown(&self) -> String {
        match (self.line, self.tuning) {
            ("", "") => "defaults".to_owned(),
            ("", tuning) => format!("`{tuning}`"),
            (line, _) => format!("`{line}`"),
        }
    }

    /// Returns `config` with the setting. A line with the same key is replaced.
    pub(super) fn added_to(&self, config: &str) -> String {
        let Self { line, tuning } = self;
        let key = |line: &str| line.split('=').next().map(|key| key.trim().to_owned());
        let others = config.lines().filter(|other| key(other) != key(line));
        let config: String = others.map(|other| format!("{other}\n")).collect();
        format!("{line}\n{config}[tuning]\n{tuning}\n")
    }
}

/// All settings. The defaults come first, because all others are compared with them.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::tuning(""),
    Setting::tuning("resource_utilization = 1"),
    Setting::tuning("resource_utilization = 8"),
    Setting::tuning("compression = \"none\""),
    Setting::tuning("compression = \"1\""),
    Setting::tuning("compression = \"9\""),
    Setting::tuning("compression = \"auto\""),
    Setting::tuning("deduplication = false"),
    Setting::tuning("transaction_bytes = 1048576"),
    Setting::tuning("transaction_bytes = 268435456"),
    Setting::tuning("transaction_objects = 256"),
    Setting::tuning("socket_buffer_bytes = 65536"),
    Setting::tuning("socket_buffer_bytes = 4194304"),
    Setting::line("dedup_cache_megabytes = 0"),
    Setting::line("dedup_cache_megabytes = 1"),
    Setting::line("dedup_cache_folder = \"/dev/shm\""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_stands_where_it_belongs() {
        let config = "server = \"a:1500\"\ndedup_cache_megabytes = 256\n";
        let tuned = Setting::tuning("compression = \"9\"").added_to(config);
        assert_eq!(tuned, format!("\n{config}[tuning]\ncompression = \"9\"\n"));
        let placed = Setting::line("dedup_cache_megabytes = 0").added_to(config);
        assert_eq!(placed, "dedup_cache_megabytes = 0\nserver = \"a:1500\"\n[tuning]\n\n");
    }

    #[test]
    fn the_defaults_come_first_and_once() {
        let defaults = SETTINGS.iter().position(|setting| setting.shown() == "defaults");
        assert_eq!(defaults, Some(0));
        assert_eq!(SETTINGS.iter().filter(|s| s.shown() == "defaults").count(), 1);
    }
}
