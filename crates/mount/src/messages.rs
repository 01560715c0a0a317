//! Messages for people about what programs cannot be told.

use std::time::{Duration, Instant};

use sys::lock::Mutex;

/// Time within which a message is not repeated. After an error the kernel asks again at once: first
/// it reads ahead, then it reads what the program needs.
const REPEATED: Duration = Duration::from_secs(1);

/// Receiver of messages for people.
pub type Log = Box<dyn Fn(&str) + Send + Sync>;

/// Log that gets a message once, however often the kernel asks in vain.
pub(crate) struct Messages {
    log: Log,
    /// Message that was logged last, and when.
    last: Mutex<Option<(String, Instant)>>,
}

impl Messages {
    pub(crate) fn new(log: Log) -> Self {
        Self { log, last: Mutex::new(None) }
    }

    pub(crate) fn say(&self, message: String, now: Instant) {
        let mut last = self.last.lock();
        let is_repeated = last
            .as_ref()
            .is_some_and(|(said, at)| *said == message && now.duration_since(*at) < REPEATED);
        if !is_repeated {
            (self.log)(&message);
            *last = Some((message, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_message_is_not_repeated_at_once() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&said);
        let messages =
            Messages::new(Box::new(move |message: &str| kept.lock().push(message.to_owned())));
        let now = sys::clock::monotonic();
        let say = |message: &str, millis| {
            messages.say(message.to_owned(), now + Duration::from_millis(millis));
        };
        say("a is damaged", 0);
        say("a is damaged", 1);
        say("b is damaged", 2);
        say("b is damaged", 900);
        say("b is damaged", 1100);
        assert_eq!(*said.lock(), ["a is damaged", "b is damaged", "b is damaged"]);
    }
}
