//! Appends entries to a log, reads them back, verifies the log, and proves one entry to a stranger.

use std::error::Error;
use std::fs;

use probity_examples::{new_folder, say};
use probity_format::keys::{RootKey, Secret};
use probity_format::note::VerifierKey;
use probity_format::proof::EntryProof;
use probity_format::{Entry, Timestamp};
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, Options, StreamConfig, StreamName};

fn main() -> Result<(), Box<dyn Error>> {
    let path = new_folder()?.join("audit");
    // The root key opens every entry: a service keeps it apart from the log.
    let secret = Secret::filled(aws_lc_rs::rand::fill).map_err(|_failed| "no randomness")?;
    let (root, stream) = (RootKey::new(secret), StreamName::default());
    let log = Log::create(
        &path,
        "example.com/audit",
        &root,
        StreamConfig::default(),
        Options::default(),
    )?;
    let mut appender = log.appender(&stream)?;
    let time = Timestamp::from_nanoseconds(1_764_000_000_000_000_000)?;
    for action in ["create", "read", "erase"] {
        // A receipt is given once the entry is durable.
        let receipt = appender.append_durable(&Entry::new(time, action, b"user:7"))?;
        say(format_args!("appended {action} as entry {}", receipt.index))?;
    }
    // Closing signs and publishes a checkpoint, which proofs need.
    log.close()?;

    let reader = Reader::open(&path, &root)?;
    for found in reader.iter(&Filter::default()) {
        // Damage ends the iterator with an error: entries are never left out silently.
        let found = found?;
        let entry = found.entry();
        let key = String::from_utf8_lossy(entry.key);
        say(format_args!("read back {} of {key}", entry.action))?;
    }
    let report = verify(&path, &VerifyOptions::default())?;
    say(if report.is_intact() {
        "the log is intact"
    } else {
        "the log is damaged"
    })?;

    // The recipient has the first verifier key of the log and this text, and no other access.
    let proof = reader.prove(&stream, 1, None)?.proof.encode()?;
    let key = fs::read_to_string(path.join("streams/default/log.vkey"))?;
    let proved = EntryProof::parse(&proof)?.check(&VerifierKey::parse(key.trim_end())?)?;
    say(format_args!(
        "a proof of {} bytes shows that entry {} is {}",
        proof.len(),
        proved.index,
        proved.entry()?.action
    ))?;
    Ok(())
}
