//! A connection to the embedded store: to the rest of the proxy it is a socket like a server's.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use probity_store::limits::FREE_BYTES;
use probity_store::{Answer, Client, Command, Commands, Share, Store, Unanswered};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::upstream::Socket;
use crate::resp::{Arguments, CommandScanner, Limits};

/// Bytes of memory of commands that wait while others are carried out before no more are taken.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// The reply to a command that the store did not begin.
const FAILED: &[u8] = b"-ERR probity: the store has failed; nothing is done any more\r\n";
/// The reply to an EXEC that the store did not begin, whose transaction ends with it. Any other
/// error would leave it open.
const FAILED_EXEC: &[u8] = b"-EXECABORT Transaction discarded because of: probity: the store has failed; nothing is done any more\r\n";

/// One client's connection to the store.
pub(super) struct StoreSocket {
    store: Arc<Store>,
    scanner: CommandScanner,
    /// The share that the command under way takes of the memory of all clients.
    share: Option<Share>,
    /// The refusal that replaces the command under way once nothing more of it is kept.
    refusal: Option<Command>,
    /// Whole commands that were not handed over yet.
    commands: Commands,
    /// The client's state, while it is not with the store.
    client: Option<Client>,
    /// True if the first command with the store is EXEC.
    asks_exec: bool,
    slot: Arc<Mutex<Slot>>,
    /// Replies, of which the first `read` bytes were read.
    replies: Vec<u8>,
    /// The share that the replies take of the memory of all clients.
    replies_share: Option<Share>,
    read: usize,
    /// The error that ends the connection once everything before it is answered.
    complaint: Option<Vec<u8>>,
    peer: Peer,
    /// True once nothing more comes from the store.
    closed: bool,
}

/// The client, as far as it is told of here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    Talks,
    /// Nothing more comes from it.
    Listens,
    /// Nor does it read replies any more: what the store has not begun is not carried out.
    Gone,
}

/// The place where the store's thread leaves an answer.
#[derive(Default)]
struct Slot {
    answer: Option<Result<Answer, Unanswered>>,
    waker: Option<Waker>,
}

impl StoreSocket {
    pub(super) fn new(store: Arc<Store>) -> Self {
        let client = store.client();
        Self {
            store,
            scanner: CommandScanner::keeping_all(Limits::STORE),
            share: None,
            refusal: None,
            commands: Commands::default(),
            client: Some(client),
            asks_exec: false,
            slot: Arc::default(),
            replies: Vec::new(),
            replies_share: None,
            read: 0,
            complaint: None,
            peer: Peer::Talks,
            closed: false,
        }
    }

    fn scan(&mut self, input: &[u8]) {
        let mut rest = input;
        while !rest.is_empty() {
            match self.scanner.scan(rest, &|_: &Arguments| true) {
                Ok(scan) => {
                    rest = rest.get(scan.consumed..).unwrap_or_default();
                    self.take_memory();
                    if scan.complete {
                        self.complete();
                    }
                }
                Err((_, error)) => {
                    self.complaint = Some(self.scanner.complaint(error));
                    return;
                }
            }
        }
    }

    /// Takes memory for the command under way; where there is none, nothing more of it is kept.
    fn take_memory(&mut self) {
        let bytes = self.scanner.arguments().bytes_kept();
        if bytes <= FREE_BYTES || self.refusal.is_some() {
            return;
        }
        let memory = self.store.memory();
        let share = self.share.get_or_insert_with(|| memory.share());
        if let Err(full) = share.hold(bytes) {
            let name = self.scanner.arguments().whole(0).unwrap_or_default();
            self.refusal = Some(Command::refused(full, name));
            self.share = None;
            self.scanner.skip();
        }
    }

    fn complete(&mut self) {
        if let Some(refused) = self.refusal.take() {
            self.commands.push(refused);
        } else if !self.scanner.arguments().is_empty() {
            let mut command = command(self.scanner.arguments());
            if let Some(share) = self.share.take() {
                command.keep(share);
            }
            self.commands.push(command);
        }
        self.scanner.forget(false);
    }

    /// Hands over what waits, unless the store has the client already.
    fn hand_over(&mut self) {
        if self.commands.is_empty() {
            return;
        }
        let Some(client) = self.client.take() else {
            return;
        };
        let slot = Arc::clone(&self.slot);
        let commands = std::mem::take(&mut self.commands);
        self.asks_exec = commands.begin_with(b"exec");
        self.store.ask(client, commands, move |answer| {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.answer = Some(answer);
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        });
    }

    /// Takes what the store answered; false if nothing is there, and then the task is woken later.
    fn take_answer(&mut self, context: &Context<'_>) -> bool {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(answer) = slot.answer.take() else {
            slot.waker = Some(context.waker().clone());
            return false;
        };
        drop(slot);
        self.read = 0;
        match answer {
            Ok(answer) => self.take_replies(answer),
            Err(Unanswered::Unbegun) => {
                let said = if self.asks_exec { FAILED_EXEC } else { FAILED };
                self.replies = said.to_vec();
                self.closed = true;
            }
            // It may have been done. As with a server that has gone, there is no reply, and the log
            // says so.
            Err(Unanswered::Unsure) => self.closed = true,
        }
        true
    }

    fn take_replies(&mut self, answer: Answer) {
        self.client = Some(answer.client);
        self.replies = answer.bytes;
        self.replies_share = answer.share;
        self.closed = answer.closes;
        let mut commands = answer.rest;
        commands.append(&mut self.commands);
        // Commands of a client that has gone are dropped if they had no turn yet.
        self.commands = if self.peer == Peer::Gone {
            Commands::default()
        } else {
            commands
        };
    }
}

impl Socket for StoreSocket {
    fn has_hung_up(&self) -> bool {
        self.closed
    }

    fn forsake(self: Pin<&mut Self>) {
        let this = self.get_mut();
        this.peer = Peer::Gone;
        this.commands = Commands::default();
        this.share = None;
    }
}

impl AsyncRead for StoreSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let unread = this.replies.get(this.read..).unwrap_or_default();
            if !unread.is_empty() {
                let count = unread.len().min(buffer.remaining());
                buffer.put_slice(unread.get(..count).unwrap_or_default());
                this.read += count;
                if this.read == this.replies.len() {
                    this.read = 0;
                    this.replies = Vec::new();
                    this.replies_share = None;
                }
                return Poll::Ready(Ok(()));
            }
            if this.closed {
                return Poll::Ready(Ok(()));
            }
            this.hand_over();
            if this.client.is_some() {
                if let Some(complaint) = this.complaint.take() {
                    this.replies = [b"-", &complaint[..], b"\r\n"].concat();
                    this.read = 0;
                    this.closed = true;
                    continue;
                }
                if this.peer != Peer::Talks {
                    return Poll::Ready(Ok(()));
                }
            }
            if !this.take_answer(context) {
                return Poll::Pending;
            }
        }
    }
}

impl AsyncWrite for StoreSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        input: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.closed || this.peer == Peer::Gone || this.complaint.is_some() {
            // As with a server that is about to close, what still comes is not done.
            return Poll::Ready(Ok(input.len()));
        }
        if this.client.is_none() && this.commands.bytes() >= WAITING_BYTES_MAX {
            let mut slot = this.slot.lock().unwrap_or_else(PoisonError::into_inner);
            if slot.answer.is_none() {
                slot.waker = Some(context.waker().clone());
            }
            return Poll::Pending;
        }
        this.scan(input);
        this.hand_over();
        Poll::Ready(Ok(input.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.peer == Peer::Talks {
            this.peer = Peer::Listens;
        }
        Poll::Ready(Ok(()))
    }
}

fn command(arguments: &Arguments) -> Command {
    let all = || (0..arguments.len()).map(|index| arguments.beginning(index));
    let bytes = all().map(<[u8]>::len).sum();
    let mut command = Command::with_room(arguments.len(), bytes);
    all().for_each(|argument| command.push(argument));
    command
}
