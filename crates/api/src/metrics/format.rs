//! The text format of Prometheus.

use std::fmt::{Display, Write as _};

/// Text of metrics.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// Begins a family of metrics.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("is text");
    }

    /// Adds a value of the family.
    pub(super) fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (number, (label, text)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            write!(self.0, "{before}{label}=\"{}\"", escaped(text)).expect("is text");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        writeln!(self.0, " {value}").expect("is text");
    }

    /// Adds a family of one value that goes up and down.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.value(name, &[], value);
    }

    /// Adds a family of one value that only grows while the server runs.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.value(name, &[], value);
    }

    /// Adds a family whose values differ in one label.
    pub(super) fn labelled<V: Display>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        label: &str,
        values: impl IntoIterator<Item = (impl AsRef<str>, V)>,
    ) {
        self.family(name, kind, help);
        for (text, value) in values {
            self.value(name, &[(label, text.as_ref())], value);
        }
    }

    /// Adds a histogram. `classes` are upper bounds with the numbers of values up to each.
    pub(super) fn histogram(
        &mut self,
        (name, help): (&str, &str),
        classes: &[(String, u64)],
        (sum, count): (impl Display, u64),
    ) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (bound, count) in classes {
            self.value(&bucket, &[("le", bound)], count);
        }
        self.value(&bucket, &[("le", "+Inf")], count);
        self.value(&format!("{name}_sum"), &[], sum);
        self.value(&format!("{name}_count"), &[], count);
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Returns the value of a label with the escapes of the format.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_form_of_the_format() {
        let mut text = Text::default();
        text.family("a", "gauge", "Help.");
        text.value("a", &[("pool", "x\"y\\z\n"), ("b", "c")], 7);
        text.gauge("d", "More.", 1);
        text.labelled(("e", "gauge", "Most."), "state", [("on", 1), ("off", 0)]);
        let expected = "# HELP a Help.\n# TYPE a gauge\na{pool=\"x\\\"y\\\\z\\n\",b=\"c\"} 7\n\
                        # HELP d More.\n# TYPE d gauge\nd 1\n\
                        # HELP e Most.\n# TYPE e gauge\ne{state=\"on\"} 1\ne{state=\"off\"} 0\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn a_histogram_has_all_its_parts() {
        let mut text = Text::default();
        text.histogram(("h", "Times."), &[("0.1".to_owned(), 2)], (1.5, 3));
        let expected = "# HELP h Times.\n# TYPE h histogram\nh_bucket{le=\"0.1\"} 2\n\
                        h_bucket{le=\"+Inf\"} 3\nh_sum 1.5\nh_count 3\n";
        assert_eq!(text.finish(), expected);
    }
}
