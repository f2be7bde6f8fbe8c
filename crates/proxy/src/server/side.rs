//! The proxy's own questions while it runs: unknown commands, the arguments that are keys, the
//! time.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use super::clock::now;
use super::support::{Support, examine_again};
use super::upstream::{Line, connect_own, in_time, refused};
use crate::command::{Access, KeyUse, KnownCommands, Table};
use crate::config::{Backend, ProxyConfig};
use crate::resp::{Arguments, Frame, parse_canonical};

/// The answer to a question.
pub(super) enum Answer {
    /// The table knows the command now, or the server has none of that name.
    Learned,
    /// The server does not say now whether it has such a command.
    NotLearned,
    /// The keys of a command; `None` when the server does not say.
    Keys(Option<Vec<KeyUse>>),
    /// The keys of a command whose use of them the server does not describe.
    BareKeys(Option<Vec<KeyUse>>),
    /// The server's time in milliseconds since 1970; `None` if it does not say.
    Time(Option<i64>),
}

/// The connection beside the clients' connections, shared by the clients of one worker, and what
/// was learned of the server on it.
pub(super) struct Side {
    config: ProxyConfig,
    commands: RefCell<KnownCommands>,
    support: RefCell<Support>,
    line: tokio::sync::Mutex<Option<Line>>,
    /// The lead of the server's clock over the proxy's when it was asked last, in milliseconds.
    ahead: Cell<Option<i64>>,
}

/// A deadline further ahead than this is not asked about before the command: the answer after it tells.
const SURELY_AHEAD: i64 = 60_000;

impl Side {
    pub(super) fn new(config: &ProxyConfig, table: Arc<Table>, support: &Support) -> Rc<Self> {
        Rc::new(Self {
            config: config.clone(),
            commands: RefCell::new(KnownCommands::new(table)),
            support: RefCell::new(support.clone()),
            line: tokio::sync::Mutex::new(None),
            ahead: Cell::new(None),
        })
    }

    /// The table as it is known now.
    pub(super) fn table(&self) -> Arc<Table> {
        self.commands.borrow().table()
    }

    /// Returns whether the server said that it sends no client to another server.
    pub(super) fn is_alone(&self) -> bool {
        self.support.borrow().is_alone()
    }

    /// Makes sure that what is known is of the server that a client has just connected to. Any
    /// reply on the connection that it was learned on, even an error, shows that this server still
    /// runs; without one it is learned anew. What was learned since the start is asked for again.
    /// The embedded store stays the same.
    pub(super) async fn meet(&self) -> io::Result<()> {
        if matches!(self.config.backend, Backend::Store(_)) {
            return Ok(());
        }
        self.ask(&[b"PING"]).await?;
        self.commands.borrow_mut().forget();
        Ok(())
    }

    /// Asks about a command that the table does not have: of a module, or one that was given
    /// another name. An error is no answer.
    pub(super) async fn learn(&self, name: Vec<u8>) -> Answer {
        let reply = self.ask(&[b"COMMAND", b"INFO", &name]).await;
        let one = |reply: &Frame| reply.elements().is_some_and(|all| all.len() == 1);
        let table = reply.ok().filter(one).map(|it| Table::from_reply(&it));
        let Some(Ok(found)) = table else {
            return Answer::NotLearned;
        };
        self.commands.borrow_mut().learn(&name, found);
        Answer::Learned
    }

    /// Asks which of `arguments` are keys. An error is not the answer that there are none. One that
    /// the server gives to everything at the moment is no answer at all.
    pub(super) async fn keys(&self, asked: Asked) -> io::Result<Answer> {
        let of = |words: [&'static [u8]; 2]| {
            let mut command: Vec<&[u8]> = words.to_vec();
            command.extend(asked.0.iter().map(|(word, _)| word.as_slice()));
            command
        };
        let reply = self.ask(&of([b"COMMAND", b"GETKEYSANDFLAGS"])).await?;
        if let Some(keys) = keys_of(&reply, &asked) {
            return Ok(Answer::Keys(Some(keys)));
        }
        let reply = self.ask(&of([b"COMMAND", b"GETKEYS"])).await?;
        match &reply {
            Frame::Error(text) if !(text.starts_with(b"ERR ") || text.starts_with(b"NOPERM")) => {
                Err(refused(text))
            }
            reply => Ok(Answer::BareKeys(keys_of(reply, &asked))),
        }
    }

    /// Asks for the server's time. A missing answer leaves it unknown, which is no reason to refuse
    /// anything.
    pub(super) async fn time(&self) -> io::Result<Answer> {
        let reply = self.ask(&[b"TIME"]).await;
        let time = reply.ok().and_then(|reply| milliseconds(&reply));
        self.ahead
            .set(time.map(|time| time.saturating_sub(milliseconds_now())));
        Ok(Answer::Time(time))
    }

    /// Asks for the server's time as one that decides whether a key with the end `at` is gone. A
    /// server in import mode keeps keys that have ended: then, or where it does not say, no time does.
    pub(super) async fn ending_time(&self, at: i64) -> io::Result<Answer> {
        let answer = if at > 0 {
            self.time().await?
        } else {
            // No clock shows a time before 1970.
            Answer::Time(Some(1))
        };
        if !self.table().has_import_mode() {
            return Ok(answer);
        }
        let mode = self.ask(&[b"CONFIG", b"GET", b"import-mode"]).await;
        let ends = mode.is_ok_and(|mode| match mode.elements() {
            Some([_, value]) => value.text() == Some(b"no"),
            _ => false,
        });
        Ok(if ends { answer } else { Answer::Time(None) })
    }

    /// Returns whether the server's clock may have passed `deadline`, as far as the proxy can
    /// guess.
    pub(super) fn may_be_over(&self, deadline: i64) -> bool {
        let guess = |ahead: i64| {
            let soon = milliseconds_now().saturating_add(SURELY_AHEAD);
            deadline <= soon.saturating_add(ahead)
        };
        self.ahead.get().is_none_or(guess)
    }

    /// Asks; once more where a connection that was open before turns out to be dead.
    async fn ask(&self, command: &[&[u8]]) -> io::Result<Frame> {
        let asking = async {
            let mut place = self.line.lock().await;
            // A connection that failed once, or is given up, is not used again.
            if let Some(mut line) = place.take()
                && let Ok(reply) = line.ask(command).await
            {
                *place = Some(line);
                return Ok(reply);
            }
            let mut line = self.open().await?;
            let reply = line.ask(command).await?;
            *place = Some(line);
            Ok(reply)
        };
        in_time(self.config.answer_timeout, "no answer", asking).await
    }

    /// A new connection, which may lead to another server: then all is learned on it again.
    async fn open(&self) -> io::Result<Line> {
        let mut line = Line::new(connect_own(&self.config).await?);
        let known = self.support.borrow().clone();
        if let Some((table, support)) = examine_again(&self.config, &mut line, &known).await? {
            self.commands.replace(KnownCommands::new(Arc::new(table)));
            self.support.replace(support);
        }
        Ok(line)
    }
}

fn milliseconds_now() -> i64 {
    now().nanoseconds() / 1_000_000
}

/// The reply to TIME: seconds and microseconds.
fn milliseconds(reply: &Frame) -> Option<i64> {
    let [seconds, microseconds] = reply.elements()? else {
        return None;
    };
    let number = |frame: &Frame| parse_canonical(frame.text()?);
    number(seconds)?
        .checked_mul(1000)?
        .checked_add(number(microseconds)? / 1000)
}

/// The keys in a reply to `COMMAND GETKEYSANDFLAGS` or `COMMAND GETKEYS`; `None` when it names none that
/// stand among the arguments, or is an error, or where it could mean one of several that begin alike.
fn keys_of(reply: &Frame, asked: &Asked) -> Option<Vec<KeyUse>> {
    let words = asked.places();
    let mut keys: Vec<KeyUse> = Vec::new();
    for element in reply.elements()? {
        let (key, access) = match element.elements() {
            Some([key, flags]) => {
                let words = flags.elements()?.iter();
                let words = words.filter_map(|word| std::str::from_utf8(word.text()?).ok());
                (key.text()?, Access::from_words(words).logical())
            }
            Some(_) => return None,
            None => (element.text()?, Access::default()),
        };
        let after = keys.last().map_or(1, |last| last.argument + 1);
        let places = words.get(key)?;
        if places.all.len() > 1 && places.is_cut {
            return None;
        }
        let argument = places.from(after).or_else(|| places.from(1))?;
        keys.push(KeyUse { argument, access });
    }
    Some(keys)
}

/// The arguments of a command as they were kept, for a question.
pub(super) struct Asked(Vec<(Vec<u8>, Extent)>);

/// The kept part of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    Beginning,
}

impl Asked {
    pub(super) fn of(arguments: &Arguments) -> Self {
        let words = (0..arguments.len()).map(|index| {
            let extent = match arguments.whole(index) {
                Some(_) => Extent::Whole,
                None => Extent::Beginning,
            };
            (arguments.beginning(index).to_vec(), extent)
        });
        Self(words.collect())
    }

    /// The places of each word, so that none is looked for among all of them.
    fn places(&self) -> HashMap<&[u8], WordPositions> {
        let mut words = HashMap::<&[u8], WordPositions>::new();
        for (index, (word, extent)) in self.0.iter().enumerate() {
            let places = words.entry(word).or_default();
            places.all.push(index);
            places.is_cut |= *extent == Extent::Beginning;
        }
        words
    }
}

/// The places of a word among the arguments, in order.
#[derive(Default)]
struct WordPositions {
    all: Vec<usize>,
    /// True if it is the beginning of a longer one somewhere.
    is_cut: bool,
}

impl WordPositions {
    /// The first place from `index` on.
    fn from(&self, index: usize) -> Option<usize> {
        let next = self.all.partition_point(|place| *place < index);
        self.all.get(next).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[Vec<u8>]) -> Asked {
        let whole = |word: &Vec<u8>| (word.clone(), Extent::Whole);
        Asked(words.iter().map(whole).collect())
    }

    fn bare(keys: impl Iterator<Item = Vec<u8>>) -> Frame {
        Frame::Array(keys.map(Frame::Bulk).collect())
    }

    /// Each key that the server named of a module's command was looked for among all arguments, so that a command with 200,000 of them
    /// held up a worker for minutes. Each word is looked up, and the keys are those that were found before.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "looks at the clock")]
    fn the_keys_that_a_server_names_are_looked_up() {
        let begun = std::time::Instant::now();
        let word = |number: usize| format!("k{number}").into_bytes();
        let words: Vec<_> = (0..200_000).map(word).collect();
        let one: Vec<_> = vec![b"k".to_vec(); 200_000];
        for words in [words, one] {
            let reply = bare(words.iter().skip(1).rev().cloned());
            let keys = keys_of(&reply, &asked(&words)).unwrap();
            assert_eq!(keys.len(), words.len() - 1);
            let same = |key: &KeyUse, said: &Frame| Some(&*words[key.argument]) == said.text();
            let named = reply.elements().unwrap();
            assert!(keys.iter().zip(named).all(|(key, said)| same(key, said)));
        }
        assert!(begun.elapsed().as_secs() < 60);
    }

    #[test]
    fn a_key_stands_behind_the_one_before_or_anywhere_but_in_the_name() {
        let words: Vec<Vec<u8>> = [&b"a"[..], b"b", b"a", b"b", b"c"].map(Vec::from).into();
        let places = |keys: &[&[u8]]| {
            let reply = bare(keys.iter().map(|key| key.to_vec()));
            let found = keys_of(&reply, &asked(&words))?;
            Some(found.iter().map(|key| key.argument).collect::<Vec<_>>())
        };
        assert_eq!(places(&[b"b", b"b", b"b"]), Some(vec![1, 3, 1]));
        assert_eq!(places(&[b"c", b"a"]), Some(vec![4, 2]));
        assert_eq!(places(&[b"d"]), None);
        let mut cut = asked(&words);
        cut.0[1].1 = Extent::Beginning;
        let reply = |key: &[u8]| bare(std::iter::once(key.to_vec()));
        assert!(keys_of(&reply(b"b"), &cut).is_none());
        assert!(keys_of(&reply(b"c"), &cut).is_some());
    }
}
