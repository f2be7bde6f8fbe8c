//! The arguments that choose entries.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args as ClapArgs;
use probity_format::time::format_time;
use probity_format::{Outcome, Timestamp};
use probity_log::StreamName;
use probity_log::reader::Filter;

use super::time;
use crate::failure::Failure;

/// The filter of the entries; everything given must match.
#[derive(Default, ClapArgs)]
pub struct FilterChoice {
    /// Only this stream [default: all but the log's own, journal and heads]
    #[arg(long, value_name = "S", value_parser = StreamName::new)]
    pub stream: Option<StreamName>,
    /// Only entries that concern this subject
    #[arg(long, value_name = "S", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub subject: Option<String>,
    /// Only entries with exactly this key
    #[arg(long, value_name = "K")]
    pub entry_key: Option<String>,
    /// Only this binary key, in base64
    #[arg(long, alias = "key-base64", value_name = "K", conflicts_with = "entry_key", value_parser = parse_base64)]
    pub entry_key_base64: Option<Base64Bytes>,
    /// Only this action
    #[arg(long, value_name = "A")]
    pub action: Option<String>,
    /// Only this actor
    #[arg(long, value_name = "A")]
    pub actor: Option<String>,
    /// Only this purpose
    #[arg(long, value_name = "P")]
    pub purpose: Option<String>,
    /// Only this outcome: ok, denied, failed or absent
    #[arg(long, value_name = "O", value_parser = parse_outcome)]
    pub outcome: Option<Outcome>,
    /// Only at or after this time: 2026-01-31, 2026-01-31T12:00:00Z, or -7d for a week ago
    #[arg(long, value_name = "T", value_parser = time, allow_hyphen_values = true)]
    pub from: Option<Timestamp>,
    /// Only before this time, written likewise
    #[arg(long, value_name = "T", value_parser = time, allow_hyphen_values = true)]
    pub to: Option<Timestamp>,
}

/// Bytes that were written as base64.
#[derive(Debug, Clone)]
pub struct Base64Bytes(Vec<u8>);

impl FilterChoice {
    /// Refuses a time that ends before it begins, of which no entry can be.
    ///
    /// # Errors
    /// When `--from` is not before `--to`.
    pub fn check(&self) -> Result<(), Failure> {
        match (self.from, self.to) {
            (Some(from), Some(to)) if from >= to => {
                Err(Failure::usage("--from is not before --to"))
            }
            _ => Ok(()),
        }
    }

    /// Describes the entries that are meant, as words that follow their number: nothing where all
    /// are. A number of some must not pass for one of all.
    pub fn described(&self) -> String {
        let text = |word: &str, value: &Option<String>| {
            let value = value.as_ref();
            value.map_or_else(String::new, |value| format!(" {word} {value}"))
        };
        let time = |word: &str, value: Option<Timestamp>| {
            value.map_or_else(String::new, |value| {
                format!(" {word} {}", format_time(value))
            })
        };
        let outcome = self.outcome.map(|outcome| outcome.as_str().to_owned());
        let stream = self.stream.as_ref().map(ToString::to_string);
        let binary = if self.entry_key_base64.is_some() {
            " with this binary key"
        } else {
            ""
        };
        [
            text("about", &self.subject),
            text("with key", &self.entry_key),
            binary.to_owned(),
            text("with action", &self.action),
            text("by", &self.actor),
            text("for purpose", &self.purpose),
            text("with outcome", &outcome),
            time("from", self.from),
            time("before", self.to),
            text("in stream", &stream),
        ]
        .concat()
    }

    /// Returns the chosen filter.
    pub fn filter(&self) -> Filter {
        let key = self.entry_key.as_ref();
        let key = key.map(|key| key.as_bytes().to_vec());
        Filter {
            stream: self.stream.clone(),
            subject: self.subject.clone(),
            key: key.or_else(|| self.entry_key_base64.as_ref().map(|key| key.0.clone())),
            action: self.action.clone(),
            actor: self.actor.clone(),
            purpose: self.purpose.clone(),
            outcome: self.outcome,
            from: self.from.map(Timestamp::nanoseconds),
            to: self.to.map(Timestamp::nanoseconds),
        }
    }
}

fn parse_outcome(word: &str) -> Result<Outcome, &'static str> {
    Outcome::from_word(word).ok_or("use ok, denied, failed or absent")
}

fn parse_base64(text: &str) -> Result<Base64Bytes, &'static str> {
    STANDARD
        .decode(text)
        .map(Base64Bytes)
        .map_err(|_where| "use the standard base64 alphabet with padding")
}
