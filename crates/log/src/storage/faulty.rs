//! A storage that fails on command and records every call: for the tests of its users.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use probity_format::width::to_u64;
use rustix::io::Errno;

use super::random::Random;
use super::{File, Lock, Storage};

/// The calls of [`Storage`] and [`File`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Call {
    /// [`Storage::open`].
    Open,
    /// [`Storage::open_read`].
    OpenRead,
    /// [`Storage::read`].
    Read,
    /// [`Storage::replace`].
    Replace,
    /// [`Storage::place`].
    Place,
    /// [`Storage::remove`].
    Remove,
    /// [`Storage::list`].
    List,
    /// [`Storage::sync_folder`].
    SyncFolder,
    /// [`Storage::sweep`].
    Sweep,
    /// [`Storage::lock`].
    Lock,
    /// [`File::length`].
    Length,
    /// [`File::read_at`].
    ReadAt,
    /// [`File::write_at`].
    WriteAt,
    /// [`File::set_length`].
    SetLength,
    /// [`File::sync`].
    Sync,
}

impl Call {
    /// Every call.
    pub const ALL: [Self; 15] = [
        Self::Open,
        Self::OpenRead,
        Self::Read,
        Self::Replace,
        Self::Place,
        Self::Remove,
        Self::List,
        Self::SyncFolder,
        Self::Sweep,
        Self::Lock,
        Self::Length,
        Self::ReadAt,
        Self::WriteAt,
        Self::SetLength,
        Self::Sync,
    ];

    /// Returns whether it asks the medium to change something, so that a full or read-only one
    /// refuses.
    pub const fn changes(self) -> bool {
        matches!(
            self,
            Self::Open
                | Self::Replace
                | Self::Place
                | Self::Remove
                | Self::SyncFolder
                | Self::Sweep
                | Self::Lock
                | Self::WriteAt
                | Self::SetLength
                | Self::Sync
        )
    }
}

/// The error of a call, and the part of the call that was carried out all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    error: FaultError,
    effect: Effect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultError {
    Kind(ErrorKind),
    System(i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Nothing,
    Half,
    Everything,
}

impl Fault {
    /// No space left on the device.
    pub const FULL: Self = Self::system(Errno::NOSPC.raw_os_error());
    /// The device failed.
    pub const INPUT_OUTPUT: Self = Self::system(Errno::IO.raw_os_error());
    /// The file system is mounted read-only, or became so after an error.
    pub const READ_ONLY: Self = Self::system(Errno::ROFS.raw_os_error());
    /// Permission was denied.
    pub const DENIED: Self = Self::system(Errno::ACCESS.raw_os_error());
    /// A signal came in between; trying again helps.
    pub const INTERRUPTED: Self = Self::system(Errno::INTR.raw_os_error());
    /// Not now; trying again helps.
    pub const WOULD_BLOCK: Self = Self::system(Errno::AGAIN.raw_os_error());

    /// The system's error number `errno`; the call is not carried out.
    pub const fn system(errno: i32) -> Self {
        Self {
            error: FaultError::System(errno),
            effect: Effect::Nothing,
        }
    }

    /// An error of `kind`; the call is not carried out.
    pub const fn kind(kind: ErrorKind) -> Self {
        Self {
            error: FaultError::Kind(kind),
            effect: Effect::Nothing,
        }
    }

    /// Returns the same error for a call that was carried out in full.
    #[must_use]
    pub const fn persisted(self) -> Self {
        let effect = Effect::Everything;
        Self { effect, ..self }
    }

    /// Returns the same error for a [`File::write_at`] that wrote the first half of its bytes.
    ///
    /// Other calls have no halves and are not carried out.
    #[must_use]
    pub const fn half_persisted(self) -> Self {
        let effect = Effect::Half;
        Self { effect, ..self }
    }

    /// The error that the caller gets.
    pub fn error(self) -> io::Error {
        match self.error {
            FaultError::Kind(kind) => kind.into(),
            FaultError::System(errno) => io::Error::from_raw_os_error(errno),
        }
    }
}

/// The calls that fail, and their faults: any number of rules, of which the first that applies to a
/// call decides.
///
/// Each rule counts the calls that it applies to from the moment the plan is armed, the first as 0.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    fault: Fault,
    when: When,
    calls: Option<Vec<Call>>,
    name_part: Option<String>,
    seen: u64,
}

#[derive(Debug, Clone)]
enum When {
    /// From the first number up to, not including, the second.
    Between(u64, u64),
    /// About one call in this many.
    OneIn(usize, Random),
}

impl FaultPlan {
    /// Nothing fails.
    pub fn none() -> Self {
        Self::default()
    }

    /// Call number `number` fails, once.
    #[must_use]
    pub fn nth(number: u64, fault: Fault) -> Self {
        Self::rule(When::Between(number, number.saturating_add(1)), fault)
    }

    /// Every call from number `number` on fails.
    #[must_use]
    pub fn from(number: u64, fault: Fault) -> Self {
        Self::rule(When::Between(number, u64::MAX), fault)
    }

    /// Every call fails.
    #[must_use]
    pub fn every(fault: Fault) -> Self {
        Self::from(0, fault)
    }

    /// About one call in `calls` fails; `seed` selects them.
    #[must_use]
    pub fn sometimes(seed: u64, calls: usize, fault: Fault) -> Self {
        Self::rule(When::OneIn(calls, Random::new(seed)), fault)
    }

    /// Limits the last rule to calls of these kinds, and to counting them.
    #[must_use]
    pub fn of(mut self, calls: &[Call]) -> Self {
        if let Some(rule) = self.rules.last_mut() {
            rule.calls = Some(calls.to_vec());
        }
        self
    }

    /// Limits the last rule to names that contain `part`, and to counting these calls.
    #[must_use]
    pub fn on(mut self, part: &str) -> Self {
        if let Some(rule) = self.rules.last_mut() {
            rule.name_part = Some(part.to_owned());
        }
        self
    }

    /// The rules of this plan, then those of `other`.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.rules.extend(other.rules);
        self
    }

    fn rule(when: When, fault: Fault) -> Self {
        let rule = Rule {
            fault,
            when,
            calls: None,
            name_part: None,
            seen: 0,
        };
        Self { rules: vec![rule] }
    }

    /// Returns the fault of a call. Every rule counts it, even if another decides.
    fn decide(&mut self, call: Call, name: &str) -> Option<Fault> {
        let mut decided = None;
        for rule in &mut self.rules {
            let fault = rule.decide(call, name);
            decided = decided.or(fault);
        }
        decided
    }
}

impl Rule {
    fn decide(&mut self, call: Call, name: &str) -> Option<Fault> {
        let about = self
            .calls
            .as_ref()
            .is_none_or(|calls| calls.contains(&call))
            && self
                .name_part
                .as_ref()
                .is_none_or(|part| name.contains(part));
        if !about {
            return None;
        }
        let number = self.seen;
        self.seen = self.seen.saturating_add(1);
        let fails = match &mut self.when {
            When::Between(from, to) => *from <= number && number < *to,
            When::OneIn(calls, random) => random.below(*calls) == 0,
        };
        fails.then_some(self.fault)
    }
}

/// One recorded call, with its fault.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traced {
    /// The kind of call.
    pub call: Call,
    /// The file or folder.
    pub name: String,
    /// Offset in the file; 0 where there is none.
    pub offset: u64,
    /// Bytes read, written or asked for, or the length set; 0 where there is none.
    pub length: u64,
    /// The fault of the call.
    pub fault: Option<Fault>,
}

impl fmt::Display for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, name) = (self.call, &self.name);
        write!(
            f,
            "{call:?} {name:?} at {} length {}",
            self.offset, self.length
        )?;
        match &self.fault {
            None => Ok(()),
            Some(fault) => write!(f, ": {} ({:?} done)", fault.error(), fault.effect),
        }
    }
}

/// A [`Storage`] over another one that fails according to a [`FaultPlan`].
///
/// Calls are numbered from 0 in the order in which they come, over all threads.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    watch: Arc<Watch>,
}

impl<S: Storage> Faulty<S> {
    /// A storage over `inner` that fails according to `plan`.
    pub fn new(inner: S, plan: FaultPlan) -> Self {
        let state = State {
            plan,
            ..State::default()
        };
        Self {
            inner,
            watch: Arc::new(Watch(Mutex::new(state))),
        }
    }

    /// The storage below, which never fails on command.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Replaces the plan by `plan`, whose rules count from 0.
    pub fn arm(&self, plan: FaultPlan) {
        self.watch.lock().plan = plan;
    }

    /// Runs `callback` before call number `number` is carried out, on the thread that makes it.
    ///
    /// A copy made by it is the state in which a crash at that call finds the storage.
    pub fn before(&self, number: u64, callback: impl FnOnce() + Send + 'static) {
        let mut state = self.watch.lock();
        state.callbacks.insert(number, Callback(Box::new(callback)));
    }

    /// The number of calls so far.
    pub fn calls(&self) -> u64 {
        self.watch.lock().calls
    }

    /// The number of calls of one kind since the trace was last taken.
    pub fn count(&self, call: Call) -> usize {
        let state = self.watch.lock();
        state.trace.iter().filter(|t| t.call == call).count()
    }

    /// The number of calls that failed. A test that injects a fault asserts that it happened.
    pub fn faults(&self) -> u64 {
        self.watch.lock().faults
    }

    /// The calls since the trace was last taken.
    pub fn trace(&self) -> Vec<Traced> {
        self.watch.lock().trace.clone()
    }

    /// Takes the calls since the trace was last taken; the numbers of calls go on.
    pub fn take_trace(&self) -> Vec<Traced> {
        std::mem::take(&mut self.watch.lock().trace)
    }

    fn run<T>(
        &self,
        call: Call,
        name: &str,
        length: usize,
        carry_out: impl FnOnce(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        let length = to_u64(length);
        let fault = self.watch.meet(call, name, 0, length);
        outcome(fault, || carry_out(&self.inner))
    }

    fn watched(&self, name: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(WatchedFile {
            inner,
            name: name.to_owned(),
            watch: Arc::clone(&self.watch),
        })
    }
}

impl<S: Storage> Storage for Faulty<S> {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>> {
        let opened = self.run(Call::Open, name, 0, |inner| inner.open(name, create))?;
        Ok(self.watched(name, opened))
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let opened = self.run(Call::OpenRead, name, 0, |inner| inner.open_read(name))?;
        Ok(self.watched(name, opened))
    }

    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.run(Call::Read, name, 0, |inner| inner.read(name, bytes_max))
    }

    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.run(Call::Replace, name, content.len(), |inner| {
            inner.replace(name, content)
        })
    }

    fn place(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.run(Call::Place, name, content.len(), |inner| {
            inner.place(name, content)
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.run(Call::Remove, name, 0, |inner| inner.remove(name))
    }

    fn carry(&self, name: &str, to: &str) -> io::Result<()> {
        self.run(Call::Remove, name, 0, |inner| inner.carry(name, to))
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        self.run(Call::Remove, folder, 0, |inner| inner.remove_folder(folder))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.run(Call::List, folder, 0, |inner| inner.list(folder))
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        self.run(Call::SyncFolder, folder, 0, |inner| {
            inner.sync_folder(folder)
        })
    }

    fn leftovers(&self) -> io::Result<Vec<String>> {
        self.run(Call::List, "", 0, Storage::leftovers)
    }

    fn sweep(&self) -> io::Result<u64> {
        self.run(Call::Sweep, "", 0, Storage::sweep)
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.run(Call::Lock, name, 0, |inner| inner.lock(name))
    }
}

#[derive(Debug)]
struct WatchedFile {
    inner: Arc<dyn File>,
    name: String,
    watch: Arc<Watch>,
}

impl WatchedFile {
    fn meet(&self, call: Call, offset: u64, length: usize) -> Option<Fault> {
        let length = to_u64(length);
        self.watch.meet(call, &self.name, offset, length)
    }
}

impl File for WatchedFile {
    fn length(&self) -> io::Result<u64> {
        outcome(self.meet(Call::Length, 0, 0), || self.inner.length())
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.inner.next_data(offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let fault = self.meet(Call::ReadAt, offset, buffer.len());
        outcome(fault, || self.inner.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let fault = self.meet(Call::WriteAt, offset, bytes.len());
        if let Some(fault) = fault.filter(|fault| fault.effect == Effect::Half) {
            let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
            self.inner.write_at(half, offset)?;
            return Err(fault.error());
        }
        outcome(fault, || self.inner.write_at(bytes, offset))
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let fault = self.watch.meet(Call::SetLength, &self.name, 0, length);
        outcome(fault, || self.inner.set_length(length))
    }

    fn sync(&self) -> io::Result<()> {
        outcome(self.meet(Call::Sync, 0, 0), || self.inner.sync())
    }
}

/// Returns the result of a call with `fault`; an error of the call itself comes before the fault's.
fn outcome<T>(fault: Option<Fault>, carry_out: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    match fault {
        None => carry_out(),
        Some(fault) if fault.effect == Effect::Everything => {
            carry_out()?;
            Err(fault.error())
        }
        Some(fault) => Err(fault.error()),
    }
}

/// The shared state of a storage and its open files.
#[derive(Debug)]
struct Watch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    plan: FaultPlan,
    calls: u64,
    faults: u64,
    trace: Vec<Traced>,
    callbacks: BTreeMap<u64, Callback>,
}

struct Callback(Box<dyn FnOnce() + Send>);

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers and records a call, runs the callback waiting for it, and returns its fault.
    fn meet(&self, call: Call, name: &str, offset: u64, length: u64) -> Option<Fault> {
        let mut state = self.lock();
        let number = state.calls;
        state.calls = state.calls.saturating_add(1);
        let fault = state.plan.decide(call, name);
        if fault.is_some() {
            state.faults = state.faults.saturating_add(1);
        }
        state.trace.push(Traced {
            call,
            name: name.to_owned(),
            offset,
            length,
            fault,
        });
        let callback = state.callbacks.remove(&number);
        drop(state);
        // Unlocked, so that the callback may ask this storage for its trace.
        if let Some(Callback(callback)) = callback {
            callback();
        }
        fault
    }
}
