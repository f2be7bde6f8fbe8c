//! A server that answers what a test tells it, in place of a real one.
#![expect(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a test may fail loudly"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use probity_proxy::{Backend, Listen, ProxyConfig, Upstream};

/// The INFO of a server that is alone.
const INFO: &str = "redis_version:7.0.15\r\nredis_mode:standalone\r\n";

/// The configuration of a proxy before a server that answers each command as `answer` says, its words in capitals with blanks
/// between them; what it answers with nothing, as one that is alone and describes nothing.
pub fn before(answer: fn(&str) -> Vec<u8>) -> ProxyConfig {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(move || serve(socket, answer));
        }
    });
    let upstream = Upstream::parse(&format!("redis://127.0.0.1:{port}")).unwrap();
    let any_port = Listen::Tcp(([127, 0, 0, 1], 0).into());
    ProxyConfig::new(any_port, Backend::Upstream(upstream))
}

/// Answers until the other side goes.
fn serve(mut socket: TcpStream, answer: fn(&str) -> Vec<u8>) -> Option<()> {
    let mut reader = BufReader::new(socket.try_clone().ok()?);
    loop {
        let mut words = Vec::new();
        for _ in 0..number(&mut reader)? {
            let mut word = vec![0; number(&mut reader)? + 2];
            reader.read_exact(&mut word).ok()?;
            words.push(String::from_utf8_lossy(&word).trim_end().to_uppercase());
        }
        let asked = words.join(" ");
        let told = answer(&asked);
        let reply = match &*asked {
            "QUIT" => return None,
            _ if !told.is_empty() => told,
            "INFO SERVER" => format!("${}\r\n{INFO}\r\n", INFO.len()).into_bytes(),
            _ => b"-ERR unknown command\r\n".to_vec(),
        };
        socket.write_all(&reply).ok()?;
    }
}

/// The number of a line `*N` or `$N`.
fn number(reader: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim_end().get(1..)?.parse().ok()
}
