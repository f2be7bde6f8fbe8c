//! The reasons for which a session ends with what the server said.

use super::awaited;
use crate::resp::RespError;

/// Why a session ends with what the server said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum End {
    /// The server does not speak the protocol.
    #[error("the server does not speak the protocol: {0}")]
    Protocol(#[from] RespError),
    /// The reply fits nothing that the server was asked.
    #[error("the server's replies do not fit the commands ({0}); the connection ends")]
    Mismatch(&'static str),
    /// The server sends the client to another server.
    #[error("the server redirects to another one, where nothing would be recorded; {REMEDY}")]
    Redirect,
    /// The user may not ask who is logged in.
    #[error(
        "a HELLO that failed may have logged in, and the server does not let its user ask who is logged in \
         now; give the user the right +acl|whoami"
    )]
    Identity,
    /// The server cannot say who is logged in.
    #[error(
        "a HELLO that failed may have logged in, and the server does not say who is logged in now; let the \
         server have the command ACL under this name"
    )]
    NoIdentity,
    /// The user may not choose the database that the proxy was told to choose.
    #[error(
        "the server does not let the user choose the database of --upstream; give the user the right +select"
    )]
    NoSelect,
    /// The server cannot choose the database that the proxy was told to choose.
    #[error("the server does not choose the database of --upstream; name one that it has")]
    NoDatabase,
    /// The server answers the proxy's questions with an error of the moment.
    #[error("the server does not say now who the client is; connect again")]
    NotNow,
    /// A transaction holds more than can be remembered.
    #[error("a transaction may hold commands of {} MiB; send it in parts", awaited::QUEUED_BYTES_MAX >> 20)]
    TooMuch,
    /// The server's last word, before it closes the connection.
    #[error("the server ends the connection")]
    LastWord,
}

const REMEDY: &str = "put the proxy before a primary without cluster mode";
