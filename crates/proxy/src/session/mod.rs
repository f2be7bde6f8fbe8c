//! One client's state machine: bytes in, entries and permissions to forward out. No socket, no clock.
//!
//! What the session knows of the connection (who is logged in, which database, whether a transaction is
//! open, what the client wants to hear) follows from replies that were seen, never from what was sent.

mod capture;
mod channels;
mod effect;
mod gate;
mod lost;
mod mark;
mod names;
mod pending;
mod perhaps;
mod question;
mod record;
mod reply;
mod text;
mod verdict;

use std::collections::VecDeque;
use std::sync::Arc;

use probity_format::Claimed;
use probity_policy::{Policy, Roles};

use crate::audit::{Actor, put_name};
use crate::command::{Access, CommandFacts, Deadline, Extraction, Flags, KeyUse, Table};
use crate::resp::{Arguments, CommandScanner, Limits, ReplyScanner};
use capture::Capture;
use channels::Channels;
use effect::Effect;
use gate::Gate;
use pending::{Pending, is_secret};
use record::Work;
pub use reply::End;

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
    Refuse(String),
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
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a mode of its own in the protocol"
)]
pub struct Session {
    policy: Arc<Policy>,
    commands: CommandScanner,
    replies: ReplyScanner,
    capture: Capture,
    keys: Vec<KeyUse>,
    /// The command whose keys are asked for.
    asked: Option<Arc<CommandFacts>>,
    /// Bytes of the command under way that are not forwarded.
    held: usize,
    /// The bytes that replace the command as the client wrote it.
    replacement: Option<Vec<u8>>,
    /// Questions of the proxy's own for the server, to be forwarded behind the admitted bytes.
    question: Option<Vec<u8>>,
    /// True once a command was forwarded that the server answers.
    spoke: bool,
    /// Commands `MULTI` without a reply yet.
    multis: usize,
    /// True while nothing is forwarded until everything is answered.
    fence: bool,
    /// The command whose beginning is on its way and whose end has not come.
    begun: Option<Begun>,
    pending: VecDeque<Pending>,
    queued: VecDeque<Pending>,
    pending_bytes: usize,
    queued_bytes: usize,
    in_multi: bool,
    /// Elements of an `EXEC` reply still to come.
    exec_left: u64,
    /// The reply under way, if it is recorded already.
    early: Option<reply::Early>,
    /// True while the rest of the reply under way is kept from the client.
    hiding: bool,
    /// Bytes of the value under way.
    value_bytes: usize,
    monitoring: bool,
    /// True if the connection speaks RESP3.
    resp3: bool,
    channels: Channels,
    muted: Muted,
    received: u64,
    settled: u64,
    work: VecDeque<Work>,
    /// The server's time before the command under way, once it was asked.
    time_before: Time,
    /// The server's time after the latest replies, once it was asked.
    time_after: Time,
    db: u64,
    /// The database to choose once the server lets the client in.
    db_owed: Option<u64>,
    /// True if the name is to be asked for once the server lets the client in.
    name_owed: bool,
    /// True if the name was asked for before the command under way.
    name_asked: bool,
    /// True once a login has succeeded, until what is owed is asked for.
    let_in: bool,
    /// True if the server let nobody in without a login when the connection began.
    locked: bool,
    /// A login of which only the server knows what became of it.
    doubt: Option<Pending>,
    /// True if the backend knows users at all.
    users: bool,
    /// True if the server may send the client to another one.
    redirects: bool,
    principal: Option<String>,
    name: Option<String>,
    actor: Actor,
}

/// The facts about a long command when its beginning went; they are not looked up again.
#[derive(Debug, Clone)]
struct Begun(Arc<CommandFacts>);

/// The server's time in milliseconds since 1970, if it was asked and answered.
#[derive(Debug, Clone, Copy, Default)]
enum Time {
    #[default]
    NotAsked,
    Asked(Option<i64>),
}

impl Time {
    const fn shown(self) -> Option<i64> {
        match self {
            Self::NotAsked => None,
            Self::Asked(time) => time,
        }
    }
}

/// The replies that the client does not want, by `CLIENT REPLY`.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the server's own"
)]
struct Muted {
    off: bool,
    /// The reply to the command that is answered next.
    skip: bool,
    skip_next: bool,
}

/// Bytes of one command that are held before a long argument streams.
const STREAM_BYTES: usize = 256 << 10;

const REFUSE_TOO_LARGE: &str = "the keys of this command are too many to record";
const REFUSE_TOO_LONG: &str = "this command is too long to be understood";

fn refuse(reason: &str) -> Next {
    Next::Refuse(format!("ERR probity: {reason}"))
}

impl Session {
    /// A session on a fresh connection to the server that is on `db`.
    pub fn new(policy: Arc<Policy>, db: u64) -> Self {
        let mut session = Self {
            policy,
            commands: CommandScanner::new(Limits::CLIENT),
            replies: ReplyScanner::new(Limits::SERVER),
            capture: Capture::default(),
            keys: Vec::new(),
            asked: None,
            held: 0,
            replacement: None,
            question: None,
            spoke: false,
            multis: 0,
            fence: false,
            begun: None,
            pending: VecDeque::new(),
            queued: VecDeque::new(),
            pending_bytes: 0,
            queued_bytes: 0,
            in_multi: false,
            exec_left: 0,
            early: None,
            hiding: false,
            value_bytes: 0,
            monitoring: false,
            resp3: false,
            channels: Channels::default(),
            muted: Muted::default(),
            received: 0,
            settled: 0,
            work: VecDeque::new(),
            time_before: Time::default(),
            time_after: Time::default(),
            db,
            db_owed: None,
            name_owed: false,
            name_asked: false,
            let_in: false,
            locked: false,
            doubt: None,
            users: true,
            redirects: true,
            principal: None,
            name: None,
            actor: Actor::default(),
        };
        session.refresh_actor();
        session
    }

    /// Says that what answers knows no users, so that nobody can have logged in.
    pub const fn without_users(&mut self) {
        self.users = false;
    }

    /// Says that the server lets nobody in without a login, so that whoever it names has logged in.
    pub const fn locked(&mut self) {
        self.locked = true;
    }

    /// Says that the server sends nobody to another one, so that a script's error is no redirect.
    pub const fn without_redirects(&mut self) {
        self.redirects = false;
    }

    /// Chooses `db` as soon as a login has succeeded: before, the server refused it.
    pub const fn owe_db(&mut self, db: u64) {
        self.db_owed = Some(db);
    }

    /// Understands commands in `input`, which continues the earlier input.
    pub fn take_commands(&mut self, table: &Table, input: &[u8]) -> Taken {
        let may_be_key = |arguments: &Arguments| {
            table
                .find(arguments)
                .is_none_or(|facts| facts.may_be_key(arguments))
        };
        let mut at = 0;
        loop {
            if self.commands.is_between_commands() {
                self.held = 0;
            }
            let rest = input.get(at..).unwrap_or_default();
            let scan = match self.commands.scan(rest, &may_be_key) {
                Ok(scan) => scan,
                Err((_, error)) => return self.broken(at, error),
            };
            at += scan.consumed;
            let hold = std::mem::take(&mut self.held) + scan.consumed;
            if !scan.complete {
                return self.incomplete(table, at, hold);
            }
            let next = if self.commands.arguments().is_empty() {
                self.blank();
                Next::Continue
            } else {
                self.command(table)
            };
            if next != Next::Continue {
                return Taken {
                    consumed: at,
                    hold,
                    next,
                };
            }
        }
    }

    /// The arguments of the command that is asked about.
    pub const fn arguments(&self) -> &Arguments {
        self.commands.arguments()
    }

    /// Returns the bytes that replace the command that was admitted last.
    pub const fn take_replacement(&mut self) -> Option<Vec<u8>> {
        self.replacement.take()
    }

    /// Questions of the proxy's own that go to the server behind all that was admitted.
    pub const fn take_question(&mut self) -> Option<Vec<u8>> {
        self.question.take()
    }

    /// Takes the keys of the command that was asked about, or that nobody can say them.
    pub fn resolve(&mut self, keys: Option<&[KeyUse]>) -> Next {
        let Some(facts) = self.asked.take() else {
            return Next::Continue;
        };
        let next = self.admit(Some(&*facts), keys.unwrap_or_default());
        if let (None, Some(pending)) = (keys, self.pending.back_mut()) {
            pending.touches_unknown();
        }
        next
    }

    /// Takes the keys of the command that was asked about, of which nobody said what it does with them, or that nobody can say
    /// them. A command that writes may write any of them.
    pub fn resolve_bare(&mut self, keys: Option<&[KeyUse]>) -> Next {
        let writes = (self.asked.as_ref()).is_some_and(|facts| facts.flags.contains(Flags::WRITE));
        let access = if writes {
            Access::ACCESS.with(Access::UPDATE)
        } else {
            Access::ACCESS
        };
        let with_access = |key: &KeyUse| KeyUse { access, ..*key };
        let keys: Option<Vec<_>> = keys.map(|keys| keys.iter().map(with_access).collect());
        let next = self.resolve(keys.as_deref());
        if let (true, Some(pending)) = (writes, self.pending.back_mut()) {
            pending.is_guessed = true;
        }
        next
    }

    /// Goes on with a command that was unknown, by a table that may know it now.
    pub fn learn(&mut self, table: &Table) -> Next {
        let facts = table.find(self.commands.arguments()).map(Arc::clone);
        if let Some(reason) = gate::refusal(facts.as_deref(), self.commands.arguments()) {
            return refuse(reason);
        }
        if !self.commands.is_between_commands() {
            return self.stream(facts);
        }
        match facts {
            Some(facts) => self.known(facts),
            None => self.unknown(),
        }
    }

    /// Goes on with a command whose deadline was asked about: what the server's clock shows, or that nobody knows.
    pub fn timed(&mut self, table: &Table, time: Option<i64>) -> Next {
        self.time_before = Time::Asked(time);
        self.command(table)
    }

    /// Goes on with a command that waited until everything before it was answered.
    pub fn resume(&mut self, table: &Table) -> Next {
        if self.commands.is_between_commands() {
            self.command(table)
        } else {
            self.begin(table)
        }
    }

    /// Lets the beginning of a long command go, of which more is to come. A question of the proxy's own
    /// may follow the replies that are awaited behind a fence, and would become a part of it.
    fn stream(&mut self, facts: Option<Arc<CommandFacts>>) -> Next {
        // The server may have learned a command by its end that it does not know now.
        let Some(facts) = facts.filter(|facts| gate::may_stream(facts)) else {
            return refuse(REFUSE_TOO_LONG);
        };
        if self.is_fenced() || self.awaits_name(Some(&*facts)) {
            return Next::Wait;
        }
        self.begun = Some(Begun(facts));
        Next::Continue
    }

    /// Lets the beginning of a long command go, if the table knows it; where that has changed
    /// meanwhile, it is asked for again.
    fn begin(&mut self, table: &Table) -> Next {
        match self.facts(table) {
            Some(facts) => self.stream(Some(facts)),
            None => self.learn_name(),
        }
    }

    /// Asks for a name that the table does not have, if all of it is there to ask for.
    fn learn_name(&self) -> Next {
        match self.commands.arguments().whole(0) {
            Some(_) => Next::Learn,
            None => refuse(REFUSE_TOO_LONG),
        }
    }

    /// The facts about the command under way, as they were when its beginning went.
    fn facts(&self, table: &Table) -> Option<Arc<CommandFacts>> {
        match &self.begun {
            Some(Begun(facts)) => Some(Arc::clone(facts)),
            None => table.find(self.commands.arguments()).map(Arc::clone),
        }
    }

    /// Returns whether replies are awaited before the next command may go.
    fn is_fenced(&mut self) -> bool {
        self.fence &= self.is_owed();
        self.fence
    }

    /// Bytes of the commands under way, without those that a transaction holds back.
    pub const fn awaited_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Returns whether the server owes a reply.
    pub fn is_owed(&self) -> bool {
        !self.pending.is_empty() || self.is_midway()
    }

    /// Returns whether the server answers nothing until something happens elsewhere, as with
    /// `BLPOP`.
    pub fn is_blocked(&self) -> bool {
        !self.in_multi && self.pending.front().is_some_and(|head| head.blocks)
    }

    /// Returns whether a reply goes on behind [`Session::settled`].
    pub const fn is_midway(&self) -> bool {
        self.early.is_some() || self.exec_left > 0
    }

    /// Returns the place in the server's bytes up to which the client may read once the entries so
    /// far are safe.
    pub const fn settled(&self) -> u64 {
        self.settled
    }

    /// Refuses what Redis refuses too, in its words; none of it is forwarded.
    fn broken(&self, at: usize, error: crate::resp::RespError) -> Taken {
        let next = match error {
            crate::resp::RespError::TooMuchKept(_) => refuse(REFUSE_TOO_LARGE),
            _ => Next::Refuse(self.commands.complaint(error)),
        };
        Taken {
            consumed: at,
            hold: self.held,
            next,
        }
    }

    /// Holds a command until it is understood; a long value streams, but for its end.
    fn incomplete(&mut self, table: &Table, at: usize, hold: usize) -> Taken {
        let taken = |hold, next| Taken {
            consumed: at,
            hold,
            next,
        };
        if self.commands.is_between_commands() {
            return taken(0, Next::Continue);
        }
        let named = self.commands.name_is_known();
        let facts = self.facts(table).filter(|_| named);
        let refusal = gate::refusal_of_name(facts.as_deref(), self.commands.arguments());
        if let (true, Some(reason)) = (named, refusal) {
            return taken(hold, refuse(reason));
        }
        if hold > STREAM_BYTES && !self.commands.is_inline() {
            let next = if named {
                self.begin(table)
            } else {
                refuse(REFUSE_TOO_LONG)
            };
            let hold = if next == Next::Continue { 0 } else { hold };
            return taken(hold, next);
        }
        self.held = hold;
        taken(hold, Next::Continue)
    }

    fn command(&mut self, table: &Table) -> Next {
        let facts = self.facts(table);
        if let Some(reason) = gate::refusal(facts.as_deref(), self.commands.arguments()) {
            return refuse(reason);
        }
        if self.is_fenced() || self.awaits_name(facts.as_deref()) {
            return Next::Wait;
        }
        match facts {
            Some(facts) => self.known(facts),
            None => self.learn_name(),
        }
    }

    /// Lets a command go that the server says it does not have.
    fn unknown(&mut self) -> Next {
        match self.gate("") {
            Gate::Refuse(reason) => refuse(reason),
            Gate::Wait => Next::Wait,
            Gate::Open => self.admit(None, &[]),
        }
    }

    fn known(&mut self, facts: Arc<CommandFacts>) -> Next {
        match self.gate(&facts.name) {
            Gate::Open => {}
            Gate::Wait => return Next::Wait,
            Gate::Refuse(reason) => return refuse(reason),
        }
        if let (Deadline::At(at), Time::NotAsked) = (
            Deadline::of(&facts.name, self.commands.arguments()),
            self.time_before,
        ) {
            return Next::Time(at);
        }
        let mut keys = std::mem::take(&mut self.keys);
        let next = if facts.extract(self.commands.arguments(), &mut keys) == Extraction::Ask {
            self.asked = Some(facts);
            Next::Ask
        } else {
            self.admit(Some(&*facts), &keys)
        };
        if keys.capacity() > 1 << 14 {
            keys = Vec::new();
        }
        self.keys = keys;
        next
    }

    fn admit(&mut self, facts: Option<&CommandFacts>, keys: &[KeyUse]) -> Next {
        let name = facts.map_or("", |facts| &*facts.name);
        let replacement = self.replace(name);
        if self.begun.take().is_some() && replacement.is_some() {
            // Its beginning has gone: the rest would be taken for a part of it.
            return refuse(REFUSE_TOO_LONG);
        }
        let mut pending = Pending::new(facts, self.commands.arguments(), keys);
        pending.time_before = std::mem::take(&mut self.time_before).shown();
        self.replacement = replacement;
        self.name_asked = false;
        self.commands.forget(is_secret(name));
        self.fence = match &pending.effect {
            Effect::Monitor | Effect::Hello { user: Some(_), .. } => true,
            // The store takes nothing of a command that it refuses.
            Effect::Hello { name: Some(_), .. } => self.users,
            Effect::Auth { .. } => self.owes(),
            Effect::Exec => self.owes() && self.transaction_logs_in(),
            _ => false,
        };
        self.multis += usize::from(pending.effect == Effect::Multi);
        self.spoke = true;
        self.await_reply(pending);
        if self.replacement.is_some() {
            Next::Replace
        } else {
            Next::Continue
        }
    }

    fn await_reply(&mut self, pending: Pending) {
        self.pending_bytes += pending.cost;
        self.pending.push_back(pending);
    }

    /// A command without words has no reply, but ends what `CLIENT REPLY SKIP` began.
    fn blank(&mut self) {
        match self.pending.back_mut() {
            Some(last) => last.blank_after = true,
            None => self.muted.skip = false,
        }
    }

    fn refresh_actor(&mut self) {
        let (principal, name) = (self.principal.as_deref(), self.name.as_deref());
        let proven = self.policy.actor(principal, None);
        let found = self.policy.actor(principal, name);
        let is_named = proven.is_none() && found.is_some_and(|it| it.roles != Roles::default());
        self.actor = Actor {
            name: principal.or(name).unwrap_or("default").to_owned(),
            submitter: principal.unwrap_or_default().to_owned(),
            claimed: Claimed {
                actor: principal.is_none() && name.is_some(),
                purpose: is_named,
            },
            roles: found.map(|actor| actor.roles.clone()).unwrap_or_default(),
        };
    }
}

fn name_of(bytes: &[u8]) -> String {
    let mut name = String::new();
    put_name(&mut name, bytes);
    name
}
