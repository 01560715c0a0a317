//! Keeps locks behind methods: a lock that other modules take has no order that anybody can check.

use super::finding::{Finding, Rule};
use crate::source::Split;

/// Types of locks.
const LOCKS: [&str; 2] = ["Mutex<", "RwLock<"];

/// Checks that no field with a lock can be named outside its module.
pub(crate) fn check(path: &str, split: &Split) -> Vec<Finding> {
    let message = "a lock that others can take, make the field private and give it a method";
    let lines = split.code.lines().enumerate().filter(|(_, line)| is_public_lock(line));
    lines
        .map(|(index, _)| Finding::new(path, index + 1, Rule::Locks, message))
        .collect()
}

fn is_public_lock(line: &str) -> bool {
    let line = line.trim_start();
    let field = line.strip_prefix("pub ").or_else(|| {
        let (within, field) = line.strip_prefix("pub(")?.split_once(") ")?;
        (within != "self").then_some(field)
    });
    let Some((name, kind)) = field.and_then(|field| field.split_once(": ")) else { return false };
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name && LOCKS.iter().any(|lock| kind.starts_with(lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_locks_are_private() {
        let check = |line: &str| !check("a.rs", &Split::new(line)).is_empty();
        assert!(check("    pub(crate) state: Mutex<State>,"));
        assert!(check("    pub(super) state: RwLock<State>,"));
        assert!(check("    pub state: Mutex<()>,"));
        assert!(!check("    state: Mutex<State>,"));
        assert!(!check("    pub(crate) state: State,"));
        assert!(!check("    pub(crate) fn state(&self) -> MutexGuard<'_, State> {"));
        assert!(!check("    pub(crate) fn f(lock: Mutex<State>) {"));
    }
}
