//! Entries of commands during which the embedded store fails.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use probity_format::Outcome;
use probity_proxy::{Backend, Listen, Proxy, ProxyConfig};
use probity_store::{Options, Store, SubjectOf, Sync};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::support::{Recorder, script, start, talk, talk_only};

/// Starts a proxy before the store at `path`, in which each key is about a subject.
fn start_at(path: &Path) -> (Proxy, SocketAddr, Arc<Recorder>) {
    start_with(path, Sync::Always)
}

fn start_with(path: &Path, sync: Sync) -> (Proxy, SocketAddr, Arc<Recorder>) {
    let options = Options {
        sync,
        subject_of: SubjectOf::new(|key| Some(key.to_vec())),
        ..Options::default()
    };
    let store = Store::open(path, options).unwrap();
    let any_port = Listen::Tcp(([127, 0, 0, 1], 0).into());
    start(&ProxyConfig::new(any_port, Backend::Store(Arc::new(store))))
}

/// A store at `path` that holds `a` and `b`, and the place of the keys of its subjects, which lie in memory, where the system
/// refuses to write from a moment on.
fn keys_in_memory(path: &Path) -> (PathBuf, File, String) {
    let (proxy, address, _) = start_at(path);
    talk(address, &script("SET a 1\nSET b 2"), usize::MAX);
    proxy.stop();
    let keys = path.join("store.1.subjects");
    let file = memfd_create("keys", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    let mut file = File::from(file);
    file.write_all(&fs::read(&keys).unwrap()).unwrap();
    fs::remove_file(&keys).unwrap();
    let in_memory = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::os::unix::fs::symlink(&in_memory, &keys).unwrap();
    (keys, file, in_memory)
}

/// A deletion was on the disk when the store failed to overwrite the subject's key, and its client and the log were told that it
/// had failed and that nothing is done: an erasure that was done passed for one that was not. Of what had begun nobody is told a
/// result, and the log says that the reply was lost; what comes after is refused as before.
#[test]
fn what_a_failing_store_had_begun_is_lost_and_not_failed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (keys, file, in_memory) = keys_in_memory(&path);
    let (proxy, address, recorder) = start_at(&path);
    let heard = talk(address, &script("GET a"), usize::MAX);
    assert_eq!(String::from_utf8_lossy(&heard), "$1\r\n1\r\n+OK\r\n");
    fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
    let heard = talk_only(address, &script("DEL a"), usize::MAX);
    assert_eq!(String::from_utf8_lossy(&heard), "");
    let heard = talk_only(address, &script("DEL b"), usize::MAX);
    let refused = "-ERR probity: the store has failed; nothing is done any more\r\n";
    assert_eq!(String::from_utf8_lossy(&heard), refused);
    let entries = recorder.wait_for(3);
    assert_eq!(entries.len(), 3);
    let lost = |index: usize| entries[index].payload.contains("\"reply\":\"lost\"");
    assert_eq!((entries[1].outcome, lost(1)), (Outcome::Failed, true));
    assert_eq!((entries[2].outcome, lost(2)), (Outcome::Failed, false));
    proxy.stop();
    // The one was done, the other was not.
    let bytes = fs::read(&in_memory).unwrap();
    fs::remove_file(&keys).unwrap();
    fs::write(&keys, bytes).unwrap();
    let (proxy, address, _) = start_at(&path);
    let heard = talk(address, &script("GET a\nGET b"), usize::MAX);
    assert_eq!(String::from_utf8_lossy(&heard), "$-1\r\n$1\r\n2\r\n+OK\r\n");
    proxy.stop();
}

/// An open EXEC was told of a store that had failed with an error that no EXEC has, and the log said of honest clients that the
/// store's replies fit no commands. It is told that the transaction is discarded, whose commands the log says were not done.
#[test]
fn an_exec_that_a_failed_store_refuses_is_no_mismatch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (_, file, _) = keys_in_memory(&path);
    let (proxy, address, recorder) = start_at(&path);
    let mut open = TcpStream::connect(address).unwrap();
    open.write_all(&script("MULTI\nSET c 1")).unwrap();
    let mut heard = [0; 14];
    open.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"+OK\r\n+QUEUED\r\n");
    fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
    let heard = talk_only(address, &script("DEL a"), usize::MAX);
    assert_eq!(String::from_utf8_lossy(&heard), "");
    open.write_all(&script("EXEC")).unwrap();
    let mut heard = String::new();
    open.read_to_string(&mut heard).unwrap();
    assert_eq!(
        heard,
        "-EXECABORT Transaction discarded because of: probity: the store has failed; nothing is done any more\r\n"
    );
    let entries = recorder.wait_for(2);
    let actions: Vec<_> = entries.iter().map(|it| it.action.as_str()).collect();
    assert_eq!(actions, ["delete", "update"]);
    assert!(entries[1].payload.contains("\"exec\":\"aborted\""));
    proxy.stop();
}

/// A change that had been answered went with the transaction of the second in which another command
/// met a failure. Where that command had changed nothing, what was answered is made durable first.
#[test]
fn an_answered_change_outlives_the_failure_that_another_command_meets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (keys, file, in_memory) = keys_in_memory(&path);
    let (proxy, address, _) = start_with(&path, Sync::EverySecond);
    fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
    let heard = talk(address, &script("SET a changed"), usize::MAX);
    assert_eq!(String::from_utf8_lossy(&heard), "+OK\r\n+OK\r\n");
    // A new subject needs a slot, which cannot be written.
    let heard = talk_only(address, &script("SET d 1"), usize::MAX);
    assert_eq!(String::from_utf8_lossy(&heard), "");
    proxy.stop();
    let bytes = fs::read(&in_memory).unwrap();
    fs::remove_file(&keys).unwrap();
    fs::write(&keys, bytes).unwrap();
    let (proxy, address, _) = start_at(&path);
    let heard = talk(address, &script("GET a\nGET b\nEXISTS d"), usize::MAX);
    let kept = "$7\r\nchanged\r\n$1\r\n2\r\n:0\r\n+OK\r\n";
    assert_eq!(String::from_utf8_lossy(&heard), kept);
    proxy.stop();
}
