//! The socket of one client: writes are limited in time, and the end of a connection does not
//! destroy the last answer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// The time and the bytes for reading on after the last answer. A connection that is closed over
/// unread bytes is reset, and the client may lose the answer.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 16 << 20;
/// Bytes that are discarded at once.
const DISCARD_BYTES: usize = 16 * 1024;

/// The longest times that a client may take to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// The longest time in which nothing of an answer is taken.
    pub(crate) stall: Duration,
    /// The longest time for a whole answer.
    pub(crate) answer: Duration,
}

/// A socket that ends with an error when its client reads too slowly.
pub(crate) struct Socket {
    stream: TcpStream,
    patience: Patience,
    /// The time at which the answer under way first had to wait for the client.
    waiting_since: Option<Instant>,
    /// The end of the write under way; `None` while nothing waits.
    limit: Option<Pin<Box<Sleep>>>,
    linger: Option<Linger>,
}

/// The state of a connection after its last answer.
struct Linger {
    until: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl Socket {
    pub(crate) const fn new(stream: TcpStream, patience: Patience) -> Self {
        Self {
            stream,
            patience,
            waiting_since: None,
            limit: None,
            linger: None,
        }
    }

    /// Returns the result of a write, or an error once the client has taken too long.
    fn watched(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.limit = None;
            // A client that takes a little at a time is not stopped by the first limit.
            return match self.waiting_since {
                Some(since) if since.elapsed() >= self.patience.answer => Poll::Ready(Err(slow())),
                _ => written,
            };
        }
        let now = Instant::now();
        let since = *self.waiting_since.get_or_insert(now);
        let end = (now + self.patience.stall).min(since + self.patience.answer);
        let limit = self.limit.get_or_insert_with(|| Box::pin(sleep_until(end)));
        ready!(limit.as_mut().poll(context));
        Poll::Ready(Err(slow()))
    }

    /// Reads and discards until the client closes its side, or has sent enough or long enough.
    fn discard(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let linger = self.linger.get_or_insert_with(|| Linger {
            until: Box::pin(sleep_until(Instant::now() + LINGER)),
            bytes_left: LINGER_BYTES_MAX,
        });
        if linger.until.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut bytes = [0; DISCARD_BYTES];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
            let count = ready!(read).map_or(0, |()| buffer.filled().len());
            linger.bytes_left = linger.bytes_left.saturating_sub(count);
            if count == 0 || linger.bytes_left == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

fn slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the client does not read")
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        let written = Pin::new(&mut socket.stream).poll_write(context, bytes);
        socket.watched(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        let written = Pin::new(&mut socket.stream).poll_write_vectored(context, parts);
        socket.watched(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Resets the limits once everything has been written: the next answer has its own time.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        ready!(Pin::new(&mut socket.stream).poll_flush(context))?;
        (socket.waiting_since, socket.limit) = (None, None);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        if socket.linger.is_none() {
            ready!(Pin::new(&mut socket.stream).poll_shutdown(context))?;
        }
        socket.discard(context)
    }
}
