//! The effect of a command on the session, once its reply says that it succeeded.

use super::capture::Capture;
use crate::audit::hex;
use crate::resp::{Arguments, Kind};

/// The change of the session by a pending command that succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Effect {
    #[default]
    None,
    Multi,
    Exec,
    Discard,
    Auth {
        user: Vec<u8>,
    },
    Hello {
        user: Option<Vec<u8>>,
        name: Option<Vec<u8>>,
        /// True if the login stands before every name.
        login_first: bool,
    },
    /// The proxy's own question who is logged in.
    WhoAmI,
    /// The proxy's own question which name the client has.
    GetName,
    SetName {
        name: Vec<u8>,
    },
    Select {
        db: u64,
    },
    /// A form of `AUTH` or `SELECT` that no server accepts: nobody would know what one did that
    /// did.
    Unknown,
    Reset,
    Quit,
    Monitor,
    /// `CLIENT REPLY` with a mode that the server knows.
    ReplyMode(ReplyMode),
    Subscribe {
        channels: usize,
    },
    Unsubscribe {
        channels: usize,
    },
}

/// The choice of a client which replies it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyMode {
    On,
    SkipNext,
    Off,
}

impl ReplyMode {
    pub(super) fn of(arguments: &Arguments) -> Option<Self> {
        match arguments.word(2).as_slice() {
            b"on" => Some(Self::On),
            b"skip" => Some(Self::SkipNext),
            b"off" => Some(Self::Off),
            _ => None,
        }
    }
}

impl Effect {
    /// Returns the effect of the command `name`.
    pub(super) fn of(name: &str, arguments: &Arguments) -> Self {
        let text = |index: usize| name_in(arguments, index);
        match name {
            "multi" => Self::Multi,
            "exec" => Self::Exec,
            "discard" => Self::Discard,
            "auth" if arguments.len() == 3 => Self::Auth { user: text(1) },
            "auth" if arguments.len() == 2 => Self::Auth {
                user: b"default".to_vec(),
            },
            "auth" => Self::Unknown,
            "hello" => hello(arguments),
            "client|setname" => Self::SetName { name: text(2) },
            "client|reply" if arguments.len() == 3 => {
                ReplyMode::of(arguments).map_or(Self::None, Self::ReplyMode)
            }
            "select" => arguments
                .whole(1)
                .and_then(|text| std::str::from_utf8(text).ok())
                .and_then(|text| text.parse().ok())
                .map_or(Self::Unknown, |db| Self::Select { db }),
            "reset" => Self::Reset,
            "quit" => Self::Quit,
            "monitor" => Self::Monitor,
            "subscribe" | "psubscribe" | "ssubscribe" if arguments.len() > 1 => Self::Subscribe {
                channels: arguments.len() - 1,
            },
            "unsubscribe" | "punsubscribe" | "sunsubscribe" => Self::Unsubscribe {
                channels: arguments.len() - 1,
            },
            _ => Self::None,
        }
    }

    /// Returns whether `reply`, which is no error, is a server's reply once the effect has come
    /// about.
    pub(super) fn is_confirmed_by(&self, reply: &Capture) -> bool {
        let head = &reply.head;
        let simple = |text: &[u8]| head.kind == Some(Kind::Simple) && head.text.is(text);
        match self {
            Self::None | Self::Exec => true,
            Self::Reset => simple(b"RESET"),
            Self::Hello { .. } => matches!(head.kind, Some(Kind::Array | Kind::Map)) && !head.null,
            Self::WhoAmI => matches!(head.kind, Some(Kind::Bulk | Kind::Verbatim)) && !head.null,
            Self::GetName => head.null || matches!(head.kind, Some(Kind::Bulk | Kind::Verbatim)),
            // Their confirmations are messages of their own.
            Self::Subscribe { .. } | Self::Unsubscribe { .. } | Self::Unknown => false,
            _ => simple(b"OK"),
        }
    }

    /// The user that the command logs in as.
    pub(super) fn user(&self) -> Option<&[u8]> {
        match self {
            Self::Auth { user }
            | Self::Hello {
                user: Some(user), ..
            } => Some(user),
            _ => None,
        }
    }

    /// The name that the command gives the client.
    pub(super) fn name(&self) -> Option<&[u8]> {
        match self {
            Self::SetName { name }
            | Self::Hello {
                name: Some(name), ..
            } => Some(name),
            _ => None,
        }
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Auth { user } => user.len(),
            Self::SetName { name } => name.len(),
            Self::Hello { user, name, .. } => {
                user.as_ref().map_or(0, Vec::len) + name.as_ref().map_or(0, Vec::len)
            }
            _ => 0,
        }
    }
}

/// A name; of one that is too long to be kept, its digest.
fn name_in(arguments: &Arguments, index: usize) -> Vec<u8> {
    match arguments.at(index).and_then(|argument| argument.digest) {
        Some(digest) => format!("sha256:{}", hex(&digest)).into_bytes(),
        None => arguments.beginning(index).to_vec(),
    }
}

/// Reads the options of `HELLO`. One without all its words is none to a server: behind `AUTH` a
/// word alone may be a password, and is no user's name.
fn hello(arguments: &Arguments) -> Effect {
    let (mut user, mut name, mut login_first) = (None, None, false);
    let mut index = 2;
    while index < arguments.len() {
        let option = arguments.word(index);
        let more = arguments.len() - 1 - index;
        if option == b"auth" && more >= 2 {
            user = Some(name_in(arguments, index + 1));
            login_first = name.is_none();
            index += 2;
        } else if option == b"setname" && more >= 1 {
            name = Some(name_in(arguments, index + 1));
            index += 1;
        }
        index += 1;
    }
    Effect::Hello {
        user,
        name,
        login_first,
    }
}
