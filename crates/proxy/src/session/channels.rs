//! The number of channels that a connection hears, counted from the server's own confirmations.

use super::capture::Capture;

/// Channels, patterns and shard channels.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Channels([u64; 3]);

impl Channels {
    pub(super) fn any(self) -> bool {
        self.0.iter().any(|count| *count > 0)
    }

    /// Returns the number of channels of the kind that `command` is about.
    pub(super) fn of(self, command: &str) -> u64 {
        self.0.get(kind(command)).copied().unwrap_or_default()
    }

    /// Takes a confirmation of `command`; false if its count does not follow from those before.
    pub(super) fn confirm(&mut self, command: &str, confirmation: &Capture) -> bool {
        let said = confirmation
            .elements
            .get(2)
            .and_then(|count| count.integer)
            .and_then(|count| u64::try_from(count).ok());
        let kind = kind(command);
        let [channels, patterns, shards] = self.0;
        // The server counts channels and patterns together.
        let before = if kind == 2 {
            shards
        } else {
            channels + patterns
        };
        let Some(count) = self.0.get_mut(kind) else {
            return false;
        };
        let begins = !command.contains("unsubscribe");
        match said {
            Some(said) if said == before => true,
            Some(said) if begins && said == before + 1 => {
                *count += 1;
                true
            }
            Some(said) if !begins && said + 1 == before && *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}

fn kind(command: &str) -> usize {
    match command.as_bytes().first() {
        Some(b'p') => 1,
        // `subscribe` and `ssubscribe` begin alike.
        Some(b's') if command.starts_with("ss") || command.starts_with("sun") => 2,
        _ => 0,
    }
}
