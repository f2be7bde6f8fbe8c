//! The effect of a command on the session, once its reply says that it succeeded.

use super::capture::Capture;
use super::name_of;
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
        user: String,
    },
    Hello {
        user: Option<String>,
        name: Option<String>,
        /// True if the login stands before every name.
        login_first: bool,
        /// True if an option stands where the password belongs, so that the user may be the password.
        is_slip: bool,
    },
    /// The proxy's own question who is logged in.
    WhoAmI,
    /// The proxy's own question which name the client has.
    GetName,
    SetName {
        name: String,
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
                user: "default".to_owned(),
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
            Self::Hello { .. } => {
                let first = reply.elements.first();
                let tells = first.is_some_and(|name| name.text.is(b"server"));
                matches!(head.kind, Some(Kind::Array | Kind::Map)) && tells
            }
            Self::WhoAmI => matches!(head.kind, Some(Kind::Bulk | Kind::Verbatim)) && !head.null,
            Self::GetName => head.null || matches!(head.kind, Some(Kind::Bulk | Kind::Verbatim)),
            // Their confirmations are messages of their own.
            Self::Subscribe { .. } | Self::Unsubscribe { .. } | Self::Unknown => false,
            _ => simple(b"OK"),
        }
    }

    /// The user that the command logs in as.
    pub(super) fn user(&self) -> Option<&str> {
        match self {
            Self::Auth { user }
            | Self::Hello {
                user: Some(user), ..
            } => Some(user),
            _ => None,
        }
    }

    /// Returns whether the user may be a password, for all that is known before a reply.
    pub(super) const fn is_slip(&self) -> bool {
        matches!(self, Self::Hello { is_slip: true, .. })
    }

    /// The name that the command gives the client.
    pub(super) fn name(&self) -> Option<&str> {
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
                user.as_ref().map_or(0, String::len) + name.as_ref().map_or(0, String::len)
            }
            _ => 0,
        }
    }
}

/// A name as entries have it.
fn name_in(arguments: &Arguments, index: usize) -> String {
    match arguments.at(index).and_then(|argument| argument.digest) {
        Some(digest) => format!("sha256:{}", hex(&digest)),
        None => name_of(arguments.beginning(index)),
    }
}

/// Reads the options of `HELLO`. One without all its words is none to a server: behind `AUTH` a
/// word alone may be a password, and is no user's name.
fn hello(arguments: &Arguments) -> Effect {
    let (mut user, mut name) = (None, None);
    let (mut login_first, mut is_slip) = (false, false);
    let mut index = 2;
    while index < arguments.len() {
        let option = arguments.word(index);
        let more = arguments.len() - 1 - index;
        if option == b"auth" && more >= 2 {
            let password = arguments.word(index + 2);
            let is_option = [&b"auth"[..], b"setname"].contains(&password.as_slice());
            is_slip = is_option;
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
        is_slip,
    }
}
