//! A real process that writes is killed at any moment, opening included: every receipt it gave is
//! there afterwards.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and these are processes of their own"
)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use probity_format::entry::idempotency_digest;
use probity_format::keys::{RootKey, Secret};
use probity_format::{Entry, Subjects, Timestamp};
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{
    Appender, Durability, Log, LogError, Options, Proofs, StreamConfig, StreamName, Ticket,
};

/// The seed of the moments; `KILL_SEED` takes its place.
const SEED: u64 = 20_260_802;
/// Names the log to the process that writes, its durability, and the number of its first entry.
const WRITER: &str = "PROBITY_KILL_WRITER";
/// Kills after which a new log is begun, so that checking stays cheap.
const KILLS_PER_LOG: u64 = 40;
/// Entries each appender hands in before it waits for the first.
const AHEAD: usize = 16;
/// Numbers of one process, more than it lives to use.
const NUMBERS: u64 = 1 << 32;
/// The amount that a writer of one stream adds to its numbers.
const NUMBERS_OF_STREAM: u64 = 1 << 28;
/// Longest that a process writes before it is killed.
const LIFE: Duration = Duration::from_millis(250);
/// The signal of kill -9.
const KILLED: i32 = 9;

const MODES: [Durability; 3] = [Durability::Strict, Durability::Group, Durability::Relaxed];

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn options(durability: Durability) -> Options {
    Options {
        durability,
        group_interval: Duration::from_millis(2),
        checkpoint_interval: Duration::from_millis(50),
        segment_bytes_max: 16 << 10,
        // The signing key moves on while the process runs, so that kills meet it.
        key_publications_max: 2,
        frame_entries_max: 8,
        open_files_max: 2,
        ..Options::default()
    }
}

fn streams() -> [(StreamName, StreamConfig); 3] {
    let name = |name| StreamName::new(name).unwrap();
    let base = StreamConfig::default();
    [
        (
            StreamName::default(),
            StreamConfig {
                erasable: true,
                ..base
            },
        ),
        (
            name("entries"),
            StreamConfig {
                proofs: Proofs::Entry,
                ..base
            },
        ),
        (name("second"), base),
    ]
}

/// The payload and the subject of an entry, from its number.
fn content(number: u64) -> (Vec<u8>, String) {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let noise = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    });
    let length = 8 + usize::try_from(number % 300).unwrap();
    let payload = number.to_le_bytes().into_iter().chain(noise);
    (
        payload.take(length).collect(),
        format!("subject-{}", number % 97),
    )
}

fn append(appender: &mut Appender, number: u64) -> Ticket {
    let (payload, subject) = content(number);
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let digest = idempotency_digest(&number.to_string()).unwrap();
    let entry = Entry {
        subjects: Subjects::joined(&subject),
        payload: &payload,
        idempotency: Some(&digest),
        ..Entry::new(time, "write", b"key")
    };
    appender.append(&entry).unwrap()
}

/// Not a test: the process that is killed. It opens the log, reports that, and appends to every
/// stream, printing receipts, until it is killed.
#[test]
fn the_process_that_is_killed() {
    let Ok(said) = std::env::var(WRITER) else {
        return;
    };
    let [path, mode, first] = said.split('|').collect::<Vec<_>>().try_into().unwrap();
    let mode = MODES.into_iter().find(|known| known.as_str() == mode);
    let mode = mode.unwrap();
    let first: u64 = first.parse().unwrap();
    let log = Log::open(Path::new(path), &root(), options(mode)).unwrap();
    say("open");
    std::thread::scope(|scope| {
        for (place, (stream, _)) in (0..).zip(streams()) {
            let log = &log;
            scope.spawn(move || write(log, &stream, mode, first + place * NUMBERS_OF_STREAM));
        }
    });
}

fn write(log: &Log, stream: &StreamName, mode: Durability, first: u64) {
    let mut appender = log.appender(stream).unwrap();
    let mut waiting = VecDeque::new();
    for number in first.. {
        waiting.push_back((number, append(&mut appender, number)));
        let ahead = if mode == Durability::Strict { 0 } else { AHEAD };
        while waiting.len() > ahead {
            let (number, ticket) = waiting.pop_front().unwrap();
            let receipt = appender.wait(ticket).unwrap();
            say(&format!("receipt {stream} {} {number}", receipt.index));
        }
    }
}

/// One line, in one piece: the bytes in the pipe outlive the process.
fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    output.write_all(format!("|{line}\n").as_bytes()).unwrap();
    output.flush().unwrap();
}

/// The promises of the processes for one log.
#[derive(Default)]
struct Promised {
    /// Entries by stream and index.
    receipts: BTreeMap<(String, u64), u64>,
}

/// The counts for the report.
#[derive(Default)]
struct Figures {
    kills: u64,
    while_opening: u64,
    receipts: usize,
    entries: u64,
    recoveries: Vec<Duration>,
    repairs: u64,
}

struct Campaign {
    folder: tempfile::TempDir,
    random: u64,
    logs: u64,
    promised: Promised,
    figures: Figures,
}

impl Campaign {
    fn new() -> Self {
        let seed = std::env::var("KILL_SEED").map_or(SEED, |seed| seed.parse().unwrap());
        println!("KILL_SEED={seed}");
        Self {
            folder: tempfile::tempdir().unwrap(),
            random: seed | 1,
            logs: 0,
            promised: Promised::default(),
            figures: Figures::default(),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(format!("log-{}", self.logs))
    }

    fn begin_log(&mut self, mode: Durability) {
        self.logs += 1;
        self.promised = Promised::default();
        let path = self.path();
        let [(_, config), others @ ..] = streams();
        let log = Log::create(&path, "example.com/kill", &root(), config, options(mode)).unwrap();
        for (name, config) in others {
            log.create_stream(&name, config).unwrap();
        }
        log.close().unwrap();
    }

    /// Kills `kills` processes that write with `mode`, checking after each.
    fn run(&mut self, mode: Durability, kills: u64) {
        for kill in 0..kills {
            if kill % KILLS_PER_LOG == 0 {
                self.begin_log(mode);
            }
            self.kill_one(mode);
            self.check_as_found();
            // Otherwise the next process finds this one's leftovers, and may be killed while it
            // repairs them.
            if self.below(2) == 0 || kill + 1 == kills || (kill + 1) % KILLS_PER_LOG == 0 {
                self.recover(mode);
            }
        }
    }

    fn kill_one(&mut self, mode: Durability) {
        let first = (self.figures.kills + 1) * NUMBERS;
        let said = format!("{}|{}|{first}", self.path().display(), mode.as_str());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["the_process_that_is_killed", "--exact", "--nocapture"])
            .env(WRITER, said)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let life = u64::try_from(LIFE.as_micros()).unwrap();
        // Every fourth is killed early, while it opens the log.
        let young = self.below(4) == 0;
        let micros = self.below(if young { life / 4 } else { life });
        std::thread::sleep(Duration::from_micros(micros));
        // As kill -9 does.
        child.kill().unwrap();
        let opened = self.take_receipts(&mut child);
        let ended = child.wait().unwrap();
        assert_eq!(ended.signal(), Some(KILLED), "it ended by itself: {ended}");
        self.figures.kills += 1;
        self.figures.while_opening += u64::from(!opened);
    }

    /// Reads the output of the killed process from the pipe; an unfinished line promises nothing.
    fn take_receipts(&mut self, child: &mut Child) -> bool {
        let mut opened = false;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            // The harness of the tests writes to the same output.
            let Some((_, said)) = line.split_once('|') else {
                continue;
            };
            match said.split(' ').collect::<Vec<_>>()[..] {
                ["open"] => opened = true,
                ["receipt", stream, index, number] => {
                    let place = (stream.to_owned(), index.parse().unwrap());
                    let number = number.parse().unwrap();
                    let before = self.promised.receipts.insert(place, number);
                    assert_eq!(before, None, "given twice: {said}");
                    self.figures.receipts += 1;
                }
                _ => assert!(said.is_empty(), "{said:?}"),
            }
        }
        opened
    }

    /// Before any repair: no false alarm, and a reader finds the promised entries.
    fn check_as_found(&self) {
        assert_intact(&self.path(), "as found");
        self.read_all();
    }

    fn recover(&mut self, mode: Durability) {
        let path = self.path();
        let start = Instant::now();
        let log = Log::open(&path, &root(), options(mode)).unwrap();
        self.figures.recoveries.push(start.elapsed());
        let repairs = log.repairs().to_vec();
        self.figures.repairs += u64::from(!repairs.is_empty());
        let said = journal(&path);
        assert!(
            repairs.iter().all(|repair| said.contains(&repair.line())),
            "{repairs:?} in {said}"
        );
        let counts = self.read_all();
        let first = (self.figures.kills + 1) * NUMBERS - NUMBERS_OF_STREAM;
        for (place, (name, _)) in (0..).zip(streams()) {
            let mut appender = log.appender(&name).unwrap();
            let found = counts.get(name.as_str()).copied().unwrap_or_default();
            let end = found + self.append_again(&mut appender, &name);
            let ticket = append(&mut appender, first + place);
            let index = appender.wait(ticket).unwrap().index;
            assert_eq!(index, end, "{name}");
            let known = (name.to_string(), index);
            assert_eq!(self.promised.receipts.insert(known, first + place), None);
        }
        log.close().unwrap();
        assert_intact(&path, "after recovery");
        self.figures.entries += self.read_all().values().sum::<u64>();
    }

    /// Acts as a caller after a kill: appends once more the last entries with receipts, and those
    /// behind them, whose fate is unknown. Returns how many were not there. A later reading of all
    /// shows that none is there twice.
    fn append_again(&self, appender: &mut Appender, stream: &StreamName) -> u64 {
        let of_stream = |place: &(String, u64)| place.0 == stream.as_str();
        let promised = self.promised.receipts.iter();
        let last: Vec<(u64, u64)> = promised
            .rev()
            .filter(|(place, _)| of_stream(place))
            .map(|((_, index), number)| (*index, *number))
            .take(AHEAD)
            .collect();
        for (index, number) in &last {
            let ticket = append(appender, *number);
            assert!(appender.is_repeat(ticket), "{stream}, entry {number}");
            assert_eq!(appender.wait(ticket).unwrap().index, *index);
        }
        // A recovery waits for its own, and nothing is behind it.
        let of_process = |number: &u64| number % NUMBERS < NUMBERS - NUMBERS_OF_STREAM;
        let Some((_, newest)) = last.first().filter(|(_, number)| of_process(number)) else {
            return 0;
        };
        let unknown = (newest + 1..).take(2 * AHEAD);
        let tickets: Vec<Ticket> = unknown.map(|number| append(appender, number)).collect();
        let written = tickets
            .into_iter()
            .filter(|ticket| !appender.is_repeat(*ticket));
        u64::try_from(written.count()).unwrap()
    }

    /// Reads every entry: the promised ones are there, each as it was appended, none twice. Returns
    /// the number of entries of each stream.
    fn read_all(&self) -> BTreeMap<String, u64> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut kept = 0;
        Reader::open(&self.path(), &root())
            .unwrap()
            .read::<LogError>(&Filter::default(), &mut |found| {
                let (number, _) = found.entry.payload.split_first_chunk().unwrap();
                let number = u64::from_le_bytes(*number);
                let (payload, subject) = content(number);
                assert_eq!(found.entry.payload, payload);
                assert_eq!(found.entry.subjects.as_joined(), subject);
                assert!(seen.insert(number), "entry {number} is there twice");
                let count = counts.entry(found.stream.to_string()).or_default();
                assert_eq!(found.index, *count);
                *count += 1;
                let place = (found.stream.to_string(), found.index);
                if let Some(promised) = self.promised.receipts.get(&place) {
                    assert_eq!(number, *promised, "{place:?}");
                    kept += 1;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(
            kept,
            self.promised.receipts.len(),
            "receipts without their entries"
        );
        counts
    }

    fn report(mut self) {
        self.figures.recoveries.sort();
        let recoveries = &self.figures.recoveries;
        let at = |share: usize| {
            recoveries.get((recoveries.len() * share / 100).min(recoveries.len() - 1))
        };
        let Figures {
            kills,
            while_opening,
            receipts,
            entries,
            repairs,
            ..
        } = &self.figures;
        println!(
            "{kills} kills, {while_opening} of them before the log was open; {receipts} receipts, all kept; \
             {entries} entries read back after recovery; {} recoveries, {repairs} with repairs, took {:?} in the \
             median, {:?} in 99 of 100, {:?} at most",
            recoveries.len(),
            at(50).unwrap(),
            at(99).unwrap(),
            recoveries.last().unwrap(),
        );
    }
}

fn assert_intact(path: &Path, when: &str) {
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    assert_eq!(verify(path, &options).unwrap().faults, [], "{when}");
}

/// The repairs that the journal records.
fn journal(path: &Path) -> String {
    let filter = Filter {
        stream: Some(StreamName::journal()),
        action: Some("recover".into()),
        ..Filter::default()
    };
    let mut said = String::new();
    Reader::open(path, &root())
        .unwrap()
        .read::<LogError>(&filter, &mut |found| {
            said.push_str(std::str::from_utf8(found.entry.payload).unwrap());
            Ok(())
        })
        .unwrap();
    said
}

fn campaign(kills: u64) {
    let mut campaign = Campaign::new();
    for mode in MODES {
        campaign.run(mode, kills);
    }
    campaign.report();
}

#[test]
fn every_receipt_survives_a_kill_at_any_moment() {
    campaign(7);
}

#[test]
#[ignore = "takes a quarter of an hour; the test above is its short form"]
fn every_receipt_survives_a_thousand_kills() {
    campaign(334);
}
