//! Differences between two definitions of a schedule, in words for the audit trail.

use std::collections::{BTreeMap, BTreeSet};

use policy::schedule::Definition;
use serde_json::Value;

/// Maximum length of a value in the words of a change, in characters.
const VALUE_CHARS_MAX: usize = 80;

/// Returns the settings that differ, as in `times 22:00 -> 23:00`; empty if none does.
pub(super) fn differences(old: &Definition, new: &Definition) -> String {
    let (old, new) = (settings(old), settings(new));
    let places: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let words = places.into_iter().filter_map(|place| {
        let (before, after) = (old.get(place), new.get(place));
        let name = place.rsplit('.').next().unwrap_or(place).replace('_', " ");
        (before != after).then(|| format!("{name} {} -> {}", shown(before), shown(after)))
    });
    words.collect::<Vec<_>>().join(", ")
}

fn shown(value: Option<&String>) -> String {
    value.map_or_else(|| "none".to_owned(), |text| text.chars().take(VALUE_CHARS_MAX).collect())
}

/// Returns the settings of a definition by their places, as in `timing.window_minutes`.
fn settings(definition: &Definition) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    // A definition that is stored can be written as JSON.
    let document = serde_json::to_value(definition).unwrap_or_default();
    collect(&document, "", &mut settings);
    settings
}

fn collect(value: &Value, place: &str, settings: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                collect(field, &format!("{place}.{name}"), settings);
            }
        }
        Value::String(text) => drop(settings.insert(place.to_owned(), text.clone())),
        other => drop(settings.insert(place.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_named() {
        let text = r#"{"action":{"work":"incremental"},
            "timing":{"starts":{"calendar":{"times":"22:00"}},"window_minutes":60,
                "spread_percent":25},
            "zone":"UTC","priority":5,"retries":2,"retry_pause_minutes":20}"#;
        let old: Definition = serde_json::from_str(text).expect("is a definition");
        assert_eq!(differences(&old, &old), "");
        let mut new = old.clone();
        new.timing.window_minutes = 240;
        new.is_suspended = true;
        new.action.objects = vec![b"/home".to_vec().into()];
        assert_eq!(
            differences(&old, &new),
            "objects none -> [\"/home\"], is suspended false -> true, window minutes 60 -> 240"
        );
    }
}
