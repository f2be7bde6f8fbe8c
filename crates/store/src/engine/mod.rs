//! The thread that carries out commands: one after the other, those that arrive together in one
//! transaction of the file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use redb::WriteTransaction;

use crate::clock::Stopwatch;
use crate::command::execute;
use crate::directory::{Data, Directory};
use crate::facts::Facts;
use crate::fail::Fail;
use crate::limits::{
    ANSWER_BYTES_MAX, FREE_BYTES, GROUP_MILLISECONDS, GROUP_REQUESTS_MAX, SWEEP_MILLISECONDS,
    SYNC_MILLISECONDS, TURN_MILLISECONDS,
};
use crate::live::FORM_UNKNOWN;
use crate::mark;
use crate::open_error::{OpenError, is_damage};
use crate::owners::Owners;
use crate::random::unguessable;
use crate::reply::Reply;
use crate::rewrite::Source;
use crate::room::Room;
use crate::space::{Begun, Shared, Space};
use crate::store::{Answer, Answering, Message, Options, Request, RewriteError, Sync};
use crate::wiping::Wiping;

/// The state of the store's thread. However it ends, the directory's lock goes last: until then no
/// other process opens the files.
pub(crate) struct Engine {
    data: Data,
    options: Options,
    receiver: Receiver<Message>,
    /// True once nothing that waits may begin.
    closing: Arc<AtomicBool>,
    facts: Facts,
    shared: Shared,
    last_sweep: Stopwatch,
    wiping: Wiping,
    directory: Directory,
}

/// The end of a transaction.
enum End {
    /// Changes are made durable.
    Commit,
    /// Nothing was changed, and free blocks are to be wiped.
    Wipe,
    /// Changes are made durable, and then the file is rewritten.
    Rewrite(Sender<Result<(), RewriteError>>),
    /// Changes are made durable, and then the thread ends.
    Close,
}

/// Reason why the store carries out nothing more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// The file failed.
    #[error(transparent)]
    File(#[from] redb::Error),
    /// The file failed before changes that may have been answered were durable.
    #[error(transparent)]
    Unsaved(redb::Error),
    /// Removed data could not be left behind in an old file.
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    /// Removed data could not be overwritten.
    #[error(
        "what was removed was not overwritten: {0}; repair the disk, or put the files of the store back from a backup, all of one time, and start again"
    )]
    Wiping(io::Error),
    /// The mark may name the old file or the new one.
    #[error(
        "the mark of the store was not replaced; free space or repair the disk, and start again"
    )]
    Mark,
}

impl EngineError {
    /// Returns whether what is stored is damaged, or the keys of subjects are.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::File(redb::Error::Io(error))
            | Self::Unsaved(redb::Error::Io(error))
            | Self::Wiping(error) => is_damage(error.kind()),
            Self::File(redb::Error::Corrupted(_)) | Self::Unsaved(redb::Error::Corrupted(_)) => {
                true
            }
            Self::File(_) | Self::Unsaved(_) | Self::Mark => false,
            Self::Rewrite(error) => error.is_damage(),
        }
    }

    /// Returns whether every change that was answered is durable.
    pub(crate) const fn is_kept(&self) -> bool {
        !matches!(self, Self::Unsaved(_))
    }
}

/// The failure that ends the thread.
struct Stopped {
    fail: Fail,
    /// True if the command that failed had changed nothing, so that what was done before can be
    /// made durable.
    is_whole: bool,
}

/// Says of a failure whether the command had changed anything.
fn stopped<T>(done: Result<T, Fail>, space: &Space<'_>) -> Result<T, Stopped> {
    let is_whole = space.changes() == space.begun.command;
    done.map_err(|fail| Stopped { fail, is_whole })
}

/// Answers that wait until their changes are durable.
type Held = Vec<(Answering, Answer)>;

impl Engine {
    pub(crate) fn new(
        (directory, data): (Directory, Data),
        options: Options,
        (receiver, closing): (Receiver<Message>, Arc<AtomicBool>),
    ) -> Result<Self, OpenError> {
        let prepared = prepare(&data, &options);
        let (facts, shared) = prepared.map_err(OpenError::of_file(&directory.path))?;
        Ok(Self {
            data,
            options,
            receiver,
            closing,
            facts,
            shared,
            last_sweep: Stopwatch::start(),
            wiping: Wiping::new(),
            directory,
        })
    }

    /// Serves until the store is closed.
    ///
    /// # Errors
    /// When the file failed. Changes that were answered as durable are durable. Requests are dropped
    /// from then on, and each is answered with whether it had begun.
    pub(crate) fn run(mut self) -> Result<(), EngineError> {
        loop {
            self.wipe()?;
            let begun = self.data.database.begin_write();
            let mut transaction = begun.map_err(redb::Error::from)?;
            // A file that is synced once a second also keeps the map of its free pages, so that
            // after a crash it is open at once; where every change waits that would cost too much.
            transaction.set_quick_repair(self.options.sync == Sync::EverySecond);
            // A commit counts once all its blocks are synced. So none of them is ever torn, and one that does not open
            // is damage, and not taken for a commit that was cut off.
            transaction.set_two_phase_commit(true);
            let mut held = Held::new();
            let end = self.serve(&transaction, self.sync(), &mut held);
            let end = match end {
                Ok(end) => end,
                Err(stopped) => {
                    let error = failure(stopped.fail);
                    // A file that takes nothing more keeps what it has.
                    if stopped.is_whole && self.commit(transaction).is_ok() {
                        tell(held);
                        return Err(EngineError::File(error));
                    }
                    return Err(EngineError::Unsaved(error));
                }
            };
            if matches!(end, End::Wipe) {
                transaction.abort().map_err(redb::Error::from)?;
                continue;
            }
            self.commit(transaction).map_err(EngineError::Unsaved)?;
            if self.facts.is_removing.take() {
                self.wiping.ask();
            }
            tell(held);
            match end {
                End::Commit | End::Wipe => {}
                End::Rewrite(sender) => {
                    let _gone = sender.send(self.rewrite());
                    if self.directory.is_unsure() {
                        return Err(EngineError::Mark);
                    }
                }
                End::Close => return self.close(),
            }
        }
    }

    /// Makes changes durable, and then destroys the keys of subjects that have none left.
    fn commit(&mut self, transaction: WriteTransaction) -> Result<(), redb::Error> {
        let slots = Some(&self.data.slots);
        let mut owners = Owners::new(&transaction, slots, &mut self.facts.erasures);
        let ended = owners.end().map_err(failure)?;
        drop(owners);
        transaction.commit()?;
        // A client that is told of an erasure may rely on it.
        self.data.slots.destroy(&ended).map_err(redb::Error::Io)?;
        self.facts.erasures.destroyed = ended;
        Ok(())
    }

    /// Goes on with the wiping of free blocks. Where the form of the file is not known, a rewriting takes removed data off the
    /// disk. A disk without room for that keeps nobody from the data, or from removing more of it: it is done later.
    fn wipe(&mut self) -> Result<(), EngineError> {
        let Err(error) = self.wiping.go_on(&self.data.database, &self.data.file) else {
            return Ok(());
        };
        match error.kind() {
            io::ErrorKind::StorageFull => {}
            FORM_UNKNOWN => match self.rewrite() {
                Ok(()) => return Ok(()),
                Err(_) if self.directory.is_unsure() => return Err(EngineError::Mark),
                Err(error) if error.is_full => {
                    let halves = self.directory.wipe();
                    halves.map_err(|error| EngineError::Wiping(io::Error::other(error)))?;
                }
                Err(error) => return Err(error.into()),
            },
            _ => return Err(EngineError::Wiping(error)),
        }
        self.wiping.put_off();
        Ok(())
    }

    /// Closes the file, wipes the blocks that its last commits freed, and gives up unused slots.
    fn close(self) -> Result<(), EngineError> {
        // The fields that are not taken out are dropped afterwards, the directory last.
        let Self {
            data:
                Data {
                    database,
                    file,
                    slots,
                },
            mut wiping,
            ..
        } = self;
        drop(database);
        let wiped = wiping.end(&file);
        // Slots that are not given back cost room and nothing else.
        let _kept = slots.give_back();
        match wiped {
            // The next opening does it.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
            wiped => wiped.map_err(EngineError::Wiping),
        }
    }

    /// Goes on in a file that holds nothing that was removed.
    fn rewrite(&mut self) -> Result<(), RewriteError> {
        // A copy reads less than a wiping: what that met would be gone with the file, untold.
        if let Err(error) = self.wiping.finish()
            && !is_mended_by_rewriting(error.kind())
        {
            self.wiping.put_off();
            return Err(RewriteError::damage(format!(
                "its file is damaged, and stays as it is: {error}"
            )));
        }
        let files = (&self.data.file, &self.data.slots);
        let old = self.directory.old(files)?;
        let old = old.map_err(|path| RewriteError::of_link(&path))?;
        let path = mark::data_path(&self.directory.path, self.directory.generation);
        let source = Source::new(&self.data.database, Some(&self.data.slots), path);
        let advanced = self.directory.advance(Some(source));
        self.data = advanced.inspect_err(|_refused| self.directory.clear_halves())?;
        // The slots that were destroyed are those of the file before.
        self.facts.erasures.destroyed.clear();
        self.wiping = Wiping::new();
        Ok(self.directory.wipe_old(&old)?)
    }

    /// Returns when changes are to be durable. Until all blocks were read once, a command may meet
    /// damage after which the database commits nothing: by then what was answered must be durable.
    fn sync(&self) -> Sync {
        if self.wiping.has_read_all() {
            self.options.sync
        } else {
            Sync::Always
        }
    }

    /// Carries out requests until their changes are to be made durable.
    fn serve(
        &mut self,
        transaction: &WriteTransaction,
        sync: Sync,
        held: &mut Held,
    ) -> Result<End, Stopped> {
        let Self {
            data,
            options,
            receiver,
            closing,
            facts,
            shared,
            last_sweep,
            wiping,
            ..
        } = self;
        let closes = || closing.load(Ordering::Acquire);
        let (records, rows) = facts.tables(transaction, Some(&data.slots));
        let mut space = Space {
            records,
            rows,
            shared,
            db: 0,
            now: 0,
            room: Room::new(options.reply_bytes_max),
            begun: Begun::default(),
        };
        let mut changed_at: Option<Stopwatch> = None;
        let mut requests = 0;
        loop {
            let is_group_open = sync == Sync::Always && is_changed(&space);
            let wait = if is_group_open {
                // Only requests that are there already share the wait for the disk.
                Duration::ZERO
            } else {
                Duration::from_millis(SWEEP_MILLISECONDS).saturating_sub(last_sweep.elapsed())
            };
            let message = receiver.recv_timeout(wait);
            space.now = options.clock.now();
            // Waiting requests are dropped, which answers them.
            if closes() {
                return Ok(End::Close);
            }
            match message {
                Ok(Message::Request(request)) => {
                    requests += 1;
                    let turn = Turn {
                        reply_bytes_max: options.reply_bytes_max,
                        closes: &closes,
                    };
                    let (answering, answer) = stopped(answer(*request, &mut space, &turn), &space)?;
                    if sync == Sync::Always && is_changed(&space) {
                        held.push((answering, answer));
                    } else {
                        answering.tell(answer);
                    }
                }
                Err(RecvTimeoutError::Timeout) if is_group_open => return Ok(End::Commit),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Rewrite(sender)) => return Ok(End::Rewrite(sender)),
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => return Ok(End::Close),
            }
            if last_sweep.elapsed() >= Duration::from_millis(SWEEP_MILLISECONDS) {
                stopped(space.sweep(), &space)?;
                *last_sweep = Stopwatch::start();
            }
            if is_changed(&space) {
                let since = *changed_at.get_or_insert_with(Stopwatch::start);
                if is_due(sync, since, requests) {
                    return Ok(End::Commit);
                }
            } else if wiping.is_ready() {
                return Ok(End::Wipe);
            }
        }
    }
}

/// Returns whether a wiping that failed so comes to its aim by a rewriting: it needs no knowledge of
/// the file's form, and finds out itself whether there is room.
const fn is_mended_by_rewriting(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | FORM_UNKNOWN)
}

/// Returns whether anything was written.
const fn is_changed(space: &Space<'_>) -> bool {
    space.changes() > 0
}

/// Returns whether changes since then, by `requests` requests, are to be made durable.
fn is_due(sync: Sync, since: Stopwatch, requests: usize) -> bool {
    let (most, requests_max) = match sync {
        Sync::Always => (GROUP_MILLISECONDS, GROUP_REQUESTS_MAX),
        Sync::EverySecond => (SYNC_MILLISECONDS, usize::MAX),
    };
    since.elapsed() >= Duration::from_millis(most) || requests >= requests_max
}

/// Writes the facts of a new store, or reads those of an old one.
fn prepare(data: &Data, options: &Options) -> Result<(Facts, Shared), redb::Error> {
    let mut transaction = data.database.begin_write()?;
    transaction.set_two_phase_commit(true);
    let is_begun = Owners::are_known(&transaction)?;
    let mut facts = match Facts::load(&transaction, [unguessable(0), unguessable(1)]) {
        Ok(facts) => facts,
        Err(fail) => return Err(failure(fail)),
    };
    let owners = Owners::new(&transaction, Some(&data.slots), &mut facts.erasures);
    let noted = owners.left_undestroyed().map_err(failure)?;
    let unused = owners.unused().map_err(failure)?;
    drop(owners);
    if is_begun {
        // Nothing was written: a full disk keeps nobody from the data.
        transaction.abort()?;
    } else {
        transaction.commit()?;
    }
    // Not only what a crash left: an older file of keys beside newer data would bring erased ones back.
    let destroyed = data.slots.destroy_left(&unused);
    destroyed.map_err(redb::Error::Io)?;
    facts.erasures.destroyed = noted;
    let mut shared = Shared {
        sync: options.sync,
        ..Shared::default()
    };
    shared.totals.opened = options.clock.now();
    Ok((facts, shared))
}

/// Answers what waited until it was durable.
fn tell(held: Held) {
    for (answering, answer) in held {
        answering.tell(answer);
    }
}

/// Returns the failure of the file; an error for a client is damage here.
fn failure(fail: Fail) -> redb::Error {
    match fail {
        Fail::Store(error) => error,
        Fail::Said(text) => redb::Error::Corrupted(String::from_utf8_lossy(&text).into_owned()),
        Fail::Damaged(what) => redb::Error::Corrupted(what),
    }
}

/// The bounds of one request's turn, beside its time.
struct Turn<'a> {
    reply_bytes_max: usize,
    closes: &'a dyn Fn() -> bool,
}

/// Carries out the commands of a request, as many as one answer and one turn take.
fn answer(
    request: Request,
    space: &mut Space<'_>,
    turn: &Turn<'_>,
) -> Result<(Answering, Answer), Fail> {
    let Request {
        mut client,
        mut commands,
        mut answer,
    } = request;
    answer.begin();
    if client.presence.is_none() {
        client.connected = space.now;
        space.shared.totals.connections += 1;
        client.presence = Some(space.shared.totals.clients.enter());
    }
    let mut reply = Reply::new(turn.reply_bytes_max);
    let begun = Stopwatch::start();
    let mut is_over = false;
    while !client.closing && !is_over {
        // Short replies are given even where hardly any memory is left, one after the other.
        let room = client.memory.free().saturating_sub(reply.len());
        if reply.len() >= ANSWER_BYTES_MAX.min(room.max(FREE_BYTES)) {
            break;
        }
        let Some(command) = commands.pop() else { break };
        reply.limit(room.max(FREE_BYTES), client.memory.full());
        execute(command, &mut client, space, &mut reply)?;
        is_over = begun.elapsed() >= Duration::from_millis(TURN_MILLISECONDS) || (turn.closes)();
    }
    let closes = client.closing;
    let bytes = reply.take();
    let held = bytes.capacity();
    let share = (held > FREE_BYTES).then(|| client.memory.taken(held));
    let answered = Answer {
        client,
        rest: commands,
        bytes,
        share,
        closes,
    };
    Ok((answer, answered))
}

#[cfg(test)]
mod tests;
