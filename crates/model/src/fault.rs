//! Errors as text.

use std::error::Error;

/// Returns the message of the error, followed by the messages of its causes. A message that an
/// earlier message contains is left out.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        source = inner.source();
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Fault(&'static str, Option<Box<Self>>);

    impl std::fmt::Display for Fault {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Fault {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|inner| inner as _)
        }
    }

    #[test]
    fn every_cause_is_said_once() {
        let inner = Fault("no such host", None);
        let middle = Fault("cannot connect: no such host", Some(Box::new(inner)));
        let outer = Fault("the database", Some(Box::new(middle)));
        assert_eq!(chain(&outer), "the database: cannot connect: no such host");
    }
}
