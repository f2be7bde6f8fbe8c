//! A client that sends what it is told, byte by byte, and reads one answer.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The longest time for an answer before a test gives up.
const PATIENCE: Duration = Duration::from_mins(1);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the end of the type of a problem.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let document = self.json();
        assert_eq!(document["status"], self.status, "{self:?}");
        for member in ["title", "detail", "remedy"] {
            assert!(!document[member].as_str().unwrap().is_empty(), "{self:?}");
        }
        let of = document["type"].as_str().unwrap();
        of.strip_prefix("urn:probity:problem:").unwrap().to_owned()
    }
}

/// Connects to the server.
pub(crate) fn connected(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Returns the head and body of a request to POST `body`.
pub(crate) fn posted(path: &str, token: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: probity\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Sends `request` on a connection of its own and gives what comes back.
pub(crate) fn asked(address: SocketAddr, request: &str) -> Option<Answer> {
    let mut socket = connected(address);
    // A server that refuses early may close before everything is sent.
    drop(socket.write_all(request.as_bytes()));
    answer(&mut socket)
}

/// Reads until the server closes; nothing when it closed without an answer.
pub(crate) fn answer(socket: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    // After an early refusal the connection may be reset behind the answer.
    drop(socket.read_to_end(&mut bytes));
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let answer = Answer {
        status,
        headers,
        text: body.to_owned(),
    };
    let length = answer.header("content-length")?.parse::<usize>().ok()?;
    (body.len() == length).then_some(answer)
}
