//! The kind of the server behind, and the commands that it has: learned on each new connection for
//! questions.

use std::fmt;
use std::io;

use super::upstream::{Line, connect_own, in_time, refused};
use crate::audit::put_name;
use crate::command::{Flags, Table};
use crate::config::{Backend, ProxyConfig};
use crate::resp::Frame;

/// The kind of the server, and the source of its command table: for the operator to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    server: Server,
    commands: Commands,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Server {
    /// Its kind and version.
    said: String,
    /// True if it says that it sends no client to another server.
    alone: bool,
    /// The name of its process, which it draws when it starts.
    process: Option<String>,
}

impl Support {
    /// Returns whether the server says that it is alone, so that it sends no client to another
    /// server.
    pub(super) const fn is_alone(&self) -> bool {
        self.server.alone
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Commands {
    /// The server tells its commands, and which arguments are keys.
    Served,
    /// The server tells its commands, but not which arguments are keys.
    Old,
    /// The server tells nothing.
    Builtin,
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commands = match self.commands {
            Commands::Served => "its own table of commands is used, those of modules included",
            Commands::Old => {
                "it is older than 7.0 and does not tell which arguments are keys: commands up to \
                 7.0 are known from a built-in table, others by their first and last key"
            }
            Commands::Builtin => {
                "it does not answer COMMAND: commands up to 7.0 are known from a built-in table, \
                 others are refused, and one that has the name of another is taken for that; \
                 let the user of --upstream run COMMAND"
            }
        };
        write!(f, "{}; {commands}", self.server.said)
    }
}

/// Learns what the server is and which commands it has.
///
/// # Errors
/// When it does not answer, or is of a kind that leads clients past the log.
pub(super) async fn examine(config: &ProxyConfig) -> io::Result<(Table, Support)> {
    let mut line = Line::new(connect_own(config).await?);
    examine_on(config, &mut line).await
}

/// Learns it on an open connection.
///
/// # Errors
/// As for [`examine`].
async fn examine_on(config: &ProxyConfig, line: &mut Line) -> io::Result<(Table, Support)> {
    let server = describe_on(config, line).await?;
    let (table, commands) = commands_on(config, line).await?;
    Ok((table, Support { server, commands }))
}

/// Learns on a new connection what may have changed since `known` was; nothing where the same
/// process still answers.
///
/// # Errors
/// As for [`examine`].
pub(super) async fn examine_again(
    config: &ProxyConfig,
    line: &mut Line,
    known: &Support,
) -> io::Result<Option<(Table, Support)>> {
    let server = describe_on(config, line).await?;
    if server.process.is_some() && server.process == known.server.process {
        return Ok(None);
    }
    let (table, commands) = commands_on(config, line).await?;
    Ok(Some((table, Support { server, commands })))
}

async fn describe_on(config: &ProxyConfig, line: &mut Line) -> io::Result<Server> {
    if matches!(config.backend, Backend::Store(_)) {
        return Ok(Server {
            said: "the embedded store".to_owned(),
            alone: true,
            process: None,
        });
    }
    let asking = line.ask(&[b"INFO", b"server"]);
    describe(in_time(config.answer_timeout, "no answer to INFO", asking).await?)
}

async fn commands_on(config: &ProxyConfig, line: &mut Line) -> io::Result<(Table, Commands)> {
    let learning = commands(config, line);
    in_time(config.answer_timeout, "no answer to COMMAND", learning).await
}

/// The commands, each under the name that it has now. `COMMAND` tells the names that they were
/// first called by. A server may have renamed any of them, also to a name of another.
async fn commands(config: &ProxyConfig, line: &mut Line) -> io::Result<(Table, Commands)> {
    let mut table = Table::builtin();
    let Some(reply) = answered(line.ask(&[b"COMMAND"]).await?)? else {
        return Ok((table, Commands::Builtin));
    };
    let served = Table::from_reply(&reply).map_err(io::Error::other)?;
    let is_store = matches!(config.backend, Backend::Store(_));
    if is_store {
        // A command that the store does not have cannot run in it.
        table.keep_families_of(&served);
    }
    table.merge(served);
    let old = reply.elements().is_some_and(|commands| {
        let fields = |command: &Frame| command.elements().map_or(0, <[Frame]>::len);
        commands.iter().all(|command| fields(command) < 9)
    });
    let commands = if old { Commands::Old } else { Commands::Served };
    if is_store {
        return Ok((table, commands));
    }
    let names = table.names();
    let question: Vec<&[u8]> = [&b"COMMAND"[..], b"INFO"]
        .into_iter()
        .chain(names.iter().copied())
        .collect();
    match answered(line.ask(&question).await?)? {
        Some(reply) => {
            let mut found = Table::under_names(&names, &reply).map_err(io::Error::other)?;
            if old {
                // There it is no command of the table, and can have no other name.
                found.merge(Table::builtin().family("quit"));
            }
            // Modules are loaded and exchanged while the server runs: each new client asks for theirs.
            found.leave_out(Flags::MODULE);
            Ok((found, commands))
        }
        None => Ok((Table::builtin(), Commands::Builtin)),
    }
}

/// The answer, or none from a server that never gives one. Any other error is of the moment, and
/// tells nothing.
fn answered(reply: Frame) -> io::Result<Option<Frame>> {
    match reply {
        Frame::Error(text)
            if text.starts_with(b"NOPERM") || text.starts_with(b"ERR unknown command") =>
        {
            Ok(None)
        }
        Frame::Error(text) => Err(refused(&text)),
        reply => Ok(Some(reply)),
    }
}

/// The server as it describes itself, unless it is one that cannot stand behind a proxy.
fn describe(reply: Frame) -> io::Result<Server> {
    let Some(info) = answered(reply)? else {
        return Ok(Server {
            said: "a server that does not tell its version and mode".to_owned(),
            alone: false,
            process: None,
        });
    };
    let text = info.text();
    let text = text.ok_or_else(|| io::Error::other("its answer to INFO is no text"))?;
    let text = String::from_utf8_lossy(text).into_owned();
    let field = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found.and_then(|rest| rest.strip_prefix(':'))
    };
    let mode = field("redis_mode").or_else(|| field("server_mode"));
    match mode {
        Some("cluster") => Err(io::Error::other(
            "it is a node of a cluster, which redirects clients to nodes where nothing is recorded; \
             put the proxy before a server without cluster mode",
        )),
        Some("sentinel") => Err(io::Error::other(
            "it is a sentinel, which leads clients to a server where nothing is recorded; \
             put the proxy before that server",
        )),
        _ => {
            let (name, version) = match field("valkey_version") {
                Some(version) => ("Valkey", version),
                None => ("Redis", field("redis_version").unwrap_or("of no version")),
            };
            let mut said = String::new();
            put_name(&mut said, version.as_bytes());
            Ok(Server {
                said: format!("{name} {said}"),
                alone: mode == Some("standalone"),
                process: field("run_id").map(str::to_owned),
            })
        }
    }
}
