//! One client's state machine: bytes in, entries and permissions to forward out. No socket, no clock.
//!
//! What the session knows of the connection (who is logged in, which database, whether a transaction is
//! open, what the client wants to hear) follows from replies that were seen, never from what was sent.

mod aside;
mod awaited;
mod capture;
mod channels;
mod effect;
mod end;
mod exchange;
mod gate;
mod identity;
mod lost;
mod mark;
mod muted;
mod names;
mod pending;
mod perhaps;
mod question;
mod quoted;
mod record;
mod replies;
mod requests;
mod text;
mod verdict;

use std::sync::Arc;

use probity_policy::Policy;

use crate::audit::{EntryBatch, put_name};
use crate::command::{Access, Flags, KeyUse, Table};
use crate::resp::Arguments;
pub use end::End;
use exchange::Exchange;
use record::Time;
use replies::Replies;
use requests::Requests;

/// The next step after commands were taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Forward, then read on.
    Continue,
    /// Forward [`Session::take_replacement`] in place of the bytes that are held.
    Replace,
    /// Ask the server which arguments of [`Session::arguments`] are keys, then call [`Session::resolve`].
    Ask,
    /// Ask the server what the command is, then call [`Session::learn`].
    Learn,
    /// Ask the server for its time, which decides whether this one, in milliseconds since 1970, has passed; then call
    /// [`Session::timed`].
    Time(i64),
    /// Hold the command until [`Session::is_owed`] is false, then call [`Session::resume`].
    Wait,
    /// Forward nothing more; answer with this error after what is under way, then close.
    Refuse(Vec<u8>),
}

/// The result of taking commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of the input that were understood.
    pub consumed: usize,
    /// Bytes at the end of the understood ones that may not be forwarded yet.
    pub hold: usize,
    /// The next step.
    pub next: Next,
}

/// One client's session.
#[derive(Debug)]
pub struct Session {
    requests: Requests,
    replies: Replies,
    exchange: Exchange,
}

/// Bytes of one command that are held before a long argument streams.
const STREAM_BYTES: usize = 256 << 10;

impl Session {
    /// A session on a fresh connection to the server that is on `db`.
    pub fn new(policy: Arc<Policy>, db: u64) -> Self {
        Self {
            requests: Requests::new(),
            replies: Replies::new(),
            exchange: Exchange::new(policy, db),
        }
    }

    /// Says that what answers knows no users, so that nobody can have logged in.
    pub const fn without_users(&mut self) {
        self.exchange.identity.without_users();
    }

    /// Says that the server lets nobody in without a login, so that whoever it names has logged in.
    pub const fn locked(&mut self) {
        self.exchange.identity.lock();
    }

    /// Says that the server sends nobody to another one, so that a script's error is no redirect.
    pub const fn without_redirects(&mut self) {
        self.exchange.redirects = false;
    }

    /// Chooses `db` as soon as a login has succeeded: before, the server refused it.
    pub const fn owe_db(&mut self, db: u64) {
        self.exchange.identity.owe_db(db);
    }

    /// Understands commands in `input`, which continues the earlier input.
    pub fn take_commands(&mut self, table: &Table, input: &[u8]) -> Taken {
        self.requests.take(&mut self.exchange, table, input)
    }

    /// The arguments of the command that is asked about.
    pub const fn arguments(&self) -> &Arguments {
        self.requests.arguments()
    }

    /// Returns the bytes that replace the command that was admitted last.
    pub const fn take_replacement(&mut self) -> Option<Vec<u8>> {
        self.requests.take_replacement()
    }

    /// Questions of the proxy's own that go to the server behind all that was admitted.
    pub const fn take_question(&mut self) -> Option<Vec<u8>> {
        self.exchange.question.take()
    }

    /// Takes the keys of the command that was asked about, or that nobody can say them.
    pub fn resolve(&mut self, keys: Option<&[KeyUse]>) -> Next {
        let Some(facts) = self.requests.take_asked() else {
            return Next::Continue;
        };
        let known = keys.unwrap_or_default();
        let next = self
            .requests
            .admit(&mut self.exchange, Some(&*facts), known);
        if let (None, Some(pending)) = (keys, self.exchange.awaited.last_mut()) {
            pending.touches_unknown();
        }
        next
    }

    /// Takes the keys of the command that was asked about, of which nobody said what it does with them, or that nobody can say
    /// them. A command that writes may write any of them.
    pub fn resolve_bare(&mut self, keys: Option<&[KeyUse]>) -> Next {
        let writes =
            (self.requests.asked()).is_some_and(|facts| facts.flags.contains(Flags::WRITE));
        let access = if writes {
            Access::ACCESS.with(Access::UPDATE)
        } else {
            Access::ACCESS
        };
        let with_access = |key: &KeyUse| KeyUse { access, ..*key };
        let keys: Option<Vec<_>> = keys.map(|keys| keys.iter().map(with_access).collect());
        let next = self.resolve(keys.as_deref());
        if let (true, Some(pending)) = (writes, self.exchange.awaited.last_mut()) {
            pending.is_guessed = true;
        }
        next
    }

    /// Goes on with a command that was unknown, by a table that may know it now.
    pub fn learn(&mut self, table: &Table) -> Next {
        self.requests.learn(&mut self.exchange, table)
    }

    /// Goes on with a command whose deadline was asked about: what the server's clock shows, or that nobody knows.
    pub fn timed(&mut self, table: &Table, time: Option<i64>) -> Next {
        self.requests.tell_time(time);
        self.requests.command(&mut self.exchange, table)
    }

    /// Goes on with a command that waited until everything before it was answered.
    pub fn resume(&mut self, table: &Table) -> Next {
        self.requests.resume(&mut self.exchange, table)
    }

    /// Bytes of the commands under way, without those that a transaction holds back.
    pub const fn awaited_bytes(&self) -> usize {
        self.exchange.awaited.bytes()
    }

    /// Returns whether the server owes a reply.
    pub fn is_owed(&self) -> bool {
        self.exchange.is_owed()
    }

    /// Returns how many commands were sent, and how many of them are answered.
    pub fn counts(&self) -> (u64, u64) {
        self.exchange.awaited.counts()
    }

    /// Returns whether the server answers nothing until something happens elsewhere, as with
    /// `BLPOP`.
    pub fn is_blocked(&self) -> bool {
        self.exchange.is_blocked()
    }

    /// Returns whether a reply goes on behind [`Session::settled`].
    pub const fn is_midway(&self) -> bool {
        self.exchange.is_midway()
    }

    /// Returns the place in the server's bytes up to which the client may read once the entries so
    /// far are safe.
    pub const fn settled(&self) -> u64 {
        self.exchange.settled
    }

    /// Understands replies in `input`, which follows what was given before, and puts what the client
    /// may see into `out`. Gives how many bytes were taken: not all where [`Session::work`] is left to do.
    ///
    /// # Errors
    /// Why the session must end.
    pub fn take_replies(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        entries: &mut EntryBatch,
    ) -> Result<usize, End> {
        self.replies.take(&mut self.exchange, input, (out, entries))
    }

    /// Records commands that are still without a reply when none can come any more.
    pub fn server_lost(&mut self) {
        self.exchange.server_lost();
    }

    /// Returns whether entries are still to be made before anything else is looked at.
    pub fn has_work(&self) -> bool {
        self.exchange.has_work()
    }

    /// Makes entries until none is left to make or the batch is full.
    pub fn work(&mut self, entries: &mut EntryBatch) {
        self.exchange.work(entries);
    }

    /// Returns whether the work waits for the server's time, which [`Session::tell_time`] gives.
    pub fn wants_time(&self) -> bool {
        self.exchange.wants_time()
    }

    /// Takes what the server's clock shows, asked after all replies had come that were given so far: milliseconds since
    /// 1970, or that nobody knows.
    pub const fn tell_time(&mut self, time: Option<i64>) {
        self.exchange.time_after = Time::Asked(time);
    }

    /// Forgets what the clock showed, before more replies are given.
    pub const fn forget_time(&mut self) {
        self.exchange.time_after = Time::NotAsked;
    }
}

fn name_of(bytes: &[u8]) -> String {
    let mut name = String::new();
    put_name(&mut name, bytes);
    name
}
