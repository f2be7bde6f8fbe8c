//! The store as others see it: opened in a directory, asked by clients, closed.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::client::Client;
use crate::clock::Clock;
use crate::commands::Commands;
use crate::directory::open;
use crate::engine::{Engine, EngineError};
use crate::limits::{CACHE_BYTES, REPLY_BYTES_MAX, WAITING_BYTES_MAX};
use crate::loss::Loss;
use crate::memory::{Memory, Share};
use crate::open_error::OpenError;
use crate::slots::DamagedSubjects;
use crate::subject::SubjectOf;

/// The moment at which a change is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum Sync {
    /// Before it is answered; changes that arrive together share the wait.
    #[default]
    Always,
    /// At most [`SYNC_MILLISECONDS`](crate::limits::SYNC_MILLISECONDS) after it is answered.
    EverySecond,
}

impl Sync {
    /// Returns the word of Redis' `appendfsync` for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySecond => "everysec",
        }
    }
}

/// Options for opening a store.
#[derive(Debug, Clone)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over the default"
)]
pub struct Options {
    /// The moment at which a change is on the disk.
    pub sync: Sync,
    /// Memory for pages of the file, in bytes.
    pub cache_bytes: usize,
    /// Bytes of one reply after which nothing more is put into it, see
    /// [`REPLY_BYTES_MAX`].
    pub reply_bytes_max: usize,
    /// Bytes of the transactions, long commands, watched keys and unread replies of all clients
    /// together. Commands that would take more are refused.
    pub waiting_bytes_max: usize,
    /// The file with the store's key, by default the directory's path with `.key` behind it. It is
    /// made with the store.
    pub key_file: Option<PathBuf>,
    /// True to convert a store of version 1, which is in clear, even if its key file exists.
    /// Nothing proves such a store: an attacker without the key can put it in the place of a sealed
    /// one.
    pub is_clear_trusted: bool,
    /// The subject of a key. Its value is sealed under that subject's own key, which is destroyed
    /// with the subject's last key.
    pub subject_of: SubjectOf,
    /// The clock by which keys expire.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sync: Sync::default(),
            cache_bytes: CACHE_BYTES,
            reply_bytes_max: REPLY_BYTES_MAX,
            waiting_bytes_max: WAITING_BYTES_MAX,
            key_file: None,
            is_clear_trusted: false,
            subject_of: SubjectOf::default(),
            clock: Clock::System,
        }
    }
}

/// An open store; commands are carried out one after the other on a thread of its own.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    kept_elsewhere: Vec<PathBuf>,
    unopened_blocks: usize,
    damaged: DamagedSubjects,
    sender: Sender<Message>,
    engine: Option<JoinHandle<Result<(), EngineError>>>,
    /// True once nothing more may begin.
    closing: Arc<AtomicBool>,
    clients: Arc<AtomicU64>,
    memory: Memory,
}

/// Messages to the store's thread.
pub(crate) enum Message {
    Request(Box<Request>),
    /// Rewrites the file, so that removed data leaves the disk.
    Rewrite(Sender<Result<(), RewriteError>>),
    Close,
}

/// Commands of a client, and the receiver of their answer.
pub(crate) struct Request {
    pub(crate) client: Client,
    pub(crate) commands: Commands,
    pub(crate) answer: Answering,
}

/// The answer to a request.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a plain record")]
pub struct Answer {
    /// The client, with its new state.
    pub client: Client,
    /// Commands that wait for their next turn. Send them again, or drop them if the client has
    /// gone.
    pub rest: Commands,
    /// The replies, in order.
    pub bytes: Vec<u8>,
    /// The replies' share of the memory of all clients, if they count. Keep it until they are read.
    pub share: Option<Share>,
    /// True if the connection ends after the replies.
    pub closes: bool,
}

/// Reason why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "it was begun or it was not")]
pub enum Unanswered {
    /// Nothing of it was done.
    #[error("the store has failed or was closed; nothing of it was done")]
    Unbegun,
    /// The store failed after it had begun. Its change may be on the disk or not.
    #[error("the store has failed; nobody knows whether it was done")]
    Unsure,
}

type Callback = Box<dyn FnOnce(Result<Answer, Unanswered>) + Send>;

/// The callback of a request, which is called even if the store's thread is gone.
pub(crate) struct Answering {
    callback: Option<Callback>,
    /// The reason that is given without an answer.
    otherwise: Unanswered,
}

impl Answering {
    pub(crate) fn new(callback: Callback) -> Self {
        Self {
            callback: Some(callback),
            otherwise: Unanswered::Unbegun,
        }
    }

    /// Marks the request as begun: even a commit that fails may have reached the disk.
    pub(crate) const fn begin(&mut self) {
        self.otherwise = Unanswered::Unsure;
    }

    pub(crate) fn tell(mut self, answer: Answer) {
        if let Some(callback) = self.callback.take() {
            callback(Ok(answer));
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(callback) = self.callback.take() {
            callback(Err(self.otherwise));
        }
    }
}

impl Store {
    /// Opens the store in `directory`, which is made if there is none.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        let path = directory.to_owned();
        let (mut directory, data) = open(directory, &options)?;
        let kept_elsewhere = directory.take_kept_elsewhere();
        let unopened_blocks = directory.unopened_blocks();
        let damaged = directory.damaged.clone();
        let (sender, receiver): (_, Receiver<Message>) = channel();
        let memory = Memory::new(options.waiting_bytes_max);
        let closing = Arc::<AtomicBool>::default();
        let requests = (receiver, Arc::clone(&closing));
        let engine = Engine::new((directory, data), options, requests)?;
        let thread = std::thread::Builder::new().name("probity-store".into());
        let engine = thread
            .spawn(move || engine.run())
            .map_err(OpenError::Thread)?;
        Ok(Self {
            path,
            kept_elsewhere,
            unopened_blocks,
            damaged,
            sender,
            engine: Some(engine),
            closing,
            clients: Arc::default(),
            memory,
        })
    }

    /// Returns the path of the key file where [`Options::key_file`] names none.
    pub fn key_file(directory: &Path) -> PathBuf {
        crate::key_file::beside(directory)
    }

    /// Returns whether a store lies in `directory`, even a damaged one. Opening begins a store only
    /// in a directory without any of its files.
    pub fn is_there(directory: &Path) -> bool {
        crate::directory::is_there(directory)
    }

    /// Returns a new client, which has gone when it is dropped.
    pub fn client(&self) -> Client {
        Client {
            id: self.clients.fetch_add(1, Ordering::Relaxed) + 1,
            memory: self.memory.clone(),
            ..Client::default()
        }
    }

    /// Returns the memory that all clients share, for a caller that parses their commands.
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Has commands carried out, as many as one turn takes; `answer` is called once, most likely from another thread.
    pub fn ask(
        &self,
        client: Client,
        commands: Commands,
        answer: impl FnOnce(Result<Answer, Unanswered>) + Send + 'static,
    ) {
        let answer = Answering::new(Box::new(answer));
        // A request that is not taken tells so when it is dropped.
        let request = Box::new(Request {
            client,
            commands,
            answer,
        });
        let _dropped = self.sender.send(Message::Request(request));
    }

    /// Returns old files that the opening removed and did not overwrite, because they are links or
    /// have other names. Their content stays under those.
    pub fn kept_elsewhere(&self) -> &[PathBuf] {
        &self.kept_elsewhere
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of blocks that did not open while a store of an older format was repaired after a crash: torn
    /// by a power cut, or damaged. The last change before the crash may be missing where there are any.
    pub const fn unopened_blocks(&self) -> usize {
        self.unopened_blocks
    }

    /// Returns whether an open store carries out nothing more, because its files failed.
    /// [`Self::close`] returns the reason.
    pub fn has_failed(&self) -> bool {
        // Before a closing, nothing but a failure or a panic ends the thread.
        self.engine.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Returns the numbers of the subjects whose keys were met damaged: what belongs to them does not
    /// open, and commands that need it are refused.
    pub fn damaged_subjects(&self) -> Vec<u64> {
        self.damaged.all().iter().map(|slot| slot.0).collect()
    }

    /// Rewrites the damaged store in `directory` as [`Self::rewrite`] does one that is whole: what
    /// opens is copied, and the old files are overwritten and removed. `tell` is called with each
    /// loss, before the files are changed. Takes room for what is stored twice.
    ///
    /// # Errors
    /// When there is no room for it, when the list of tables does not open, and as for
    /// [`Self::open`]. The store is as it was then.
    pub fn rewrite_damaged(
        directory: &Path,
        options: &Options,
        tell: &mut dyn FnMut(Loss),
    ) -> Result<(), RewriteError> {
        crate::salvage::rewrite(directory, options, tell)
    }

    /// Copies the content into a file with a new key, and overwrites and removes the old file.
    /// Removed data cannot be read from the disk afterwards, not even with the key file. Clients
    /// wait meanwhile, in proportion to the stored data.
    ///
    /// # Errors
    /// When there is no room for it, or the store has failed. Whatever became of it, nothing stored is lost.
    pub fn rewrite(&self) -> Result<(), RewriteError> {
        let (sender, receiver) = channel();
        let gone = || RewriteError::new("the store has failed or was closed".to_owned());
        let sent = self.sender.send(Message::Rewrite(sender));
        sent.map_err(|_closed| gone())?;
        receiver.recv().map_err(|_closed| gone())?
    }

    /// Makes everything durable and closes the file. Waiting requests get [`Unanswered::Unbegun`];
    /// one whose turn had begun gets its rest back.
    ///
    /// # Errors
    /// When something answered could not be made durable, or the store had failed before.
    pub fn close(mut self) -> Result<(), CloseError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), CloseError> {
        self.closing.store(true, Ordering::Release);
        // The engine may be waiting for a message.
        let _closed = self.sender.send(Message::Close);
        let (cause, is_damage, is_kept) = match self.engine.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => (error.to_string(), error.is_damage(), error.is_kept()),
            Some(Err(_panic)) => ("its thread ended".to_owned(), false, false),
            _ => return Ok(()),
        };
        Err(CloseError {
            path: self.path.clone(),
            cause,
            is_damage,
            is_kept,
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // A caller that needs the reason calls `close`.
        let _unreported = self.finish();
    }
}

/// The store was not rewritten: removed data may still be on the disk.
#[derive(Debug, thiserror::Error)]
#[error("the store was not rewritten: {cause}")]
pub struct RewriteError {
    pub(crate) cause: String,
    /// True if the disk is full.
    pub(crate) is_full: bool,
    is_damage: bool,
}

impl RewriteError {
    /// Returns whether the disk is full. The stored data is as it was.
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns whether the store is damaged.
    pub const fn is_damage(&self) -> bool {
        self.is_damage
    }

    pub(crate) const fn damage(cause: String) -> Self {
        Self {
            cause,
            is_full: false,
            is_damage: true,
        }
    }

    pub(crate) fn new(cause: String) -> Self {
        Self {
            cause,
            is_full: false,
            is_damage: false,
        }
    }

    /// Takes the path of a file that a rewriting cannot overwrite.
    pub(crate) fn of_link(path: &Path) -> Self {
        let text = "is gone, is a link or has another name, under which what was removed would stay; remove the other name, or put the file back, and try again";
        Self::new(format!("{} {text}", path.display()))
    }
}

impl From<OpenError> for RewriteError {
    fn from(error: OpenError) -> Self {
        let source = error.source().map(|source| format!(": {source}"));
        Self {
            is_full: error.is_full(),
            is_damage: error.is_damage(),
            cause: format!("{error}{}", source.unwrap_or_default()),
        }
    }
}

/// Reason why a store was not closed: it had failed, and may lack changes that were answered.
#[derive(Debug, thiserror::Error)]
#[error("the store in {} has failed: {cause}", .path.display())]
pub struct CloseError {
    path: PathBuf,
    cause: String,
    is_damage: bool,
    is_kept: bool,
}

impl CloseError {
    /// Returns the directory of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the reason is damage of what is stored, rather than the disk.
    pub const fn is_damage(&self) -> bool {
        self.is_damage
    }

    /// Returns whether every change that was answered is on the disk all the same.
    pub const fn is_kept(&self) -> bool {
        self.is_kept
    }
}
