//! Optional values. In messages, an empty text or a zero stands for `None`.

use model::ServerTime;

use crate::{ClientError, ErrorKind};

pub(super) fn text(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

pub(super) fn number(number: u64) -> Option<u64> {
    (number != 0).then_some(number)
}

pub(super) fn time(micros: i64) -> Option<ServerTime> {
    (micros != 0).then_some(ServerTime(micros))
}

/// Returns the error for a reply that lacks `what`, or has a `what` that this version does not
/// know.
pub(super) fn unreadable(what: &str) -> ClientError {
    let message = format!(
        "this version cannot read {what} in the server's reply; use the server's version of \
         this program"
    );
    ClientError::new(ErrorKind::Usage, message)
}

/// A change of an optional name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameChange {
    Remove,
    Set(String),
}

impl From<String> for NameChange {
    /// An empty name removes the old name.
    fn from(name: String) -> Self {
        text(name).map_or(Self::Remove, Self::Set)
    }
}

impl From<NameChange> for String {
    fn from(change: NameChange) -> Self {
        match change {
            NameChange::Remove => Self::new(),
            NameChange::Set(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_zero_stand_for_none() {
        assert_eq!(text(String::new()), None);
        assert_eq!(text("a".to_owned()).as_deref(), Some("a"));
        assert_eq!((number(0), number(7)), (None, Some(7)));
        assert_eq!((time(0), time(-1)), (None, Some(ServerTime(-1))));
    }

    #[test]
    fn an_empty_name_removes_the_old_one() {
        assert_eq!(NameChange::from(String::new()), NameChange::Remove);
        for name in ["", "GROUP"] {
            assert_eq!(String::from(NameChange::from(name.to_owned())), name);
        }
    }
}
