//! A socket between a client and a server, which can be cut where the client commits.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// Bytes that are passed on at once.
const PIECE_BYTES: usize = 64 * 1024;

/// The moment of the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Before the commit reaches the server.
    Question,
    /// Once the server has answered it.
    Answer,
}

#[derive(Default)]
struct State {
    cut: Mutex<Option<Cut>>,
    /// True if no connection gets through after the cut.
    closes: AtomicBool,
    is_closed: AtomicBool,
}

/// A socket in a folder of its own; its threads end with the test.
pub(crate) struct Wire {
    state: Arc<State>,
    folder: tempfile::TempDir,
}

impl Wire {
    /// A socket called `name` that leads to the one at `server`.
    pub(crate) fn to(server: &Path, name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(name)).unwrap();
        let (state, server) = (Arc::new(State::default()), server.to_owned());
        let shared = Arc::clone(&state);
        thread::spawn(move || listen(&listener, &server, &shared));
        Self { state, folder }
    }

    pub(crate) fn folder(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    /// Cuts whichever connection commits next.
    pub(crate) fn cut_at_commit(&self, cut: Cut) {
        *self.state.cut.lock().unwrap() = Some(cut);
    }

    /// Sets whether the next cut closes the connection for good; until then it is open again.
    pub(crate) fn close_after_cut(&self, closes: bool) {
        self.state.closes.store(closes, Ordering::SeqCst);
        self.state.is_closed.store(false, Ordering::SeqCst);
    }
}

fn listen(listener: &UnixListener, server: &Path, state: &Arc<State>) {
    for client in listener.incoming() {
        let client = client.unwrap();
        if state.is_closed.load(Ordering::SeqCst) {
            continue;
        }
        let server = UnixStream::connect(server).unwrap();
        let silent = Arc::new(AtomicBool::new(false));
        let (answered, answer) = channel();
        let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let quiet = Arc::clone(&silent);
        thread::spawn(move || answers(from, to, &quiet, &answered));
        let state = Arc::clone(state);
        thread::spawn(move || {
            questions(client, server, &state, || {
                silent.store(true, Ordering::SeqCst);
                move || answer.recv().unwrap_or_default()
            });
        });
    }
}

/// Passes on what the server says, until its answers are no longer to be heard.
fn answers(mut from: UnixStream, mut to: UnixStream, silent: &AtomicBool, answered: &Sender<()>) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        if silent.load(Ordering::SeqCst) {
            // Nobody may wait for it.
            answered.send(()).unwrap_or_default();
        } else if to.write_all(&piece[..count]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
}

/// Passes on what the client says, and cuts the wire at the commit that was named.
fn questions<W: FnOnce()>(
    mut from: UnixStream,
    mut to: UnixStream,
    state: &State,
    silence: impl FnOnce() -> W,
) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        let said = &piece[..count];
        let commits = said.windows(6).any(|word| word == b"COMMIT");
        let cut = commits.then(|| state.cut.lock().unwrap().take()).flatten();
        let Some(cut) = cut else {
            if to.write_all(said).is_err() {
                break;
            }
            continue;
        };
        if cut == Cut::Answer {
            let answered = silence();
            to.write_all(said).unwrap();
            answered();
        }
        let closes = state.closes.load(Ordering::SeqCst);
        state.is_closed.store(closes, Ordering::SeqCst);
        break;
    }
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}
