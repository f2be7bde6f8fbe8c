//! A day of a small shop, said to the proxy over real connections: who touches whose data.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use probity_proxy::resp::{Frame, FrameReader, Limits, put_command};

/// Persons whose data is handled.
const PERSONS: u32 = 150;
/// Commands sent at once before their replies are read.
const PIPELINE: usize = 64;
const REPLY_BYTES: usize = 64 * 1024;
const TIMEOUT: Duration = Duration::from_secs(10);

/// The policy the demo runs under.
pub(super) const POLICY: &str = r#"# Which keys hold whose data, and what the application is for.
version = 1

[defaults]
controller = "shop.example"
processor = "hosting.example"

[[key]]
pattern = "demo:user:{subject}:*"
purpose = "service"
basis = "contract"

[[key]]
pattern = "demo:order:{subject}:*"
purpose = "orders"
basis = "contract"

[[key]]
pattern = "demo:stock:*"
personal = false
purpose = "stock"

[[actor]]
client = "web"

[[actor]]
client = "billing"
purpose = "billing"

[[actor]]
client = "support"
purpose = "support"

[[actor]]
client = "erasure"
purpose = "erasure"
basis = "legal-obligation"
"#;

/// Plays the day; gives the number of commands and of those answered with an error.
pub(super) fn play(proxy: SocketAddr) -> io::Result<(u64, u64)> {
    let mut sent: u64 = 0;
    let mut refused: u64 = 0;
    for (actor, scene) in SCENES {
        let mut client = Client::connect(proxy)?;
        client.say(&["CLIENT", "SETNAME", actor])?;
        for person in 0..PERSONS {
            scene(&mut client, &person.to_string())?;
        }
        client.settle()?;
        sent = sent.saturating_add(client.sent);
        refused = refused.saturating_add(client.refused);
    }
    Ok((sent, refused))
}

/// What one actor does with one person's data.
type Scene = fn(&mut Client, &str) -> io::Result<()>;

const SCENES: [(&str, Scene); 5] = [
    ("web", sign_up),
    ("web", shop),
    ("billing", bill),
    ("support", look_up),
    ("erasure", forget),
];

fn sign_up(client: &mut Client, person: &str) -> io::Result<()> {
    let profile = format!("demo:user:{person}:profile");
    let mail = format!("person{person}@example.com");
    client.say(&[
        "HSET",
        &profile,
        "name",
        "A. Person",
        "mail",
        &mail,
        "city",
        "Lisbon",
    ])?;
    let session = format!("demo:user:{person}:session");
    client.say(&["SET", &session, "token"])?;
    client.say(&["EXPIRE", &session, "3600"])?;
    client.say(&["GET", &format!("demo:user:{person}:cart")])
}

fn shop(client: &mut Client, person: &str) -> io::Result<()> {
    let cart = format!("demo:user:{person}:cart");
    client.say(&["GET", &format!("demo:user:{person}:session")])?;
    client.say(&["RPUSH", &cart, "book", "lamp"])?;
    client.say(&["INCRBY", "demo:stock:book", "-1"])?;
    client.say(&["LRANGE", &cart, "0", "-1"])?;
    client.say(&[
        "ZADD",
        &format!("demo:order:{person}:open"),
        "1",
        "book",
        "2",
        "lamp",
    ])?;
    client.say(&[
        "SADD",
        &format!("demo:user:{person}:interests"),
        "reading",
        "light",
    ])?;
    client.say(&["DEL", &cart])
}

fn bill(client: &mut Client, person: &str) -> io::Result<()> {
    let invoice = format!("demo:order:{person}:invoice");
    client.say(&["ZRANGE", &format!("demo:order:{person}:open"), "0", "-1"])?;
    client.say(&["HGET", &format!("demo:user:{person}:profile"), "mail"])?;
    client.say(&["SET", &invoice, "paid"])?;
    client.say(&["GET", &invoice])?;
    // A wrong type: the operation fails, and that is recorded too.
    client.say(&["LPUSH", &invoice, "again"])
}

fn look_up(client: &mut Client, person: &str) -> io::Result<()> {
    client.say(&["HGETALL", &format!("demo:user:{person}:profile")])?;
    client.say(&["SMEMBERS", &format!("demo:user:{person}:interests")])?;
    client.say(&[
        "MGET",
        &format!("demo:order:{person}:invoice"),
        &format!("demo:user:{person}:session"),
    ])?;
    client.say(&[
        "HSET",
        &format!("demo:user:{person}:profile"),
        "city",
        "Porto",
    ])
}

fn forget(client: &mut Client, person: &str) -> io::Result<()> {
    for name in ["profile", "session", "interests", "cart"] {
        client.say(&["DEL", &format!("demo:user:{person}:{name}")])?;
    }
    for name in ["open", "invoice"] {
        client.say(&["DEL", &format!("demo:order:{person}:{name}")])?;
    }
    client.say(&["DEL", "demo:stock:book"])
}

/// One connection that sends several commands before it reads their replies.
struct Client {
    socket: TcpStream,
    reader: FrameReader,
    out: Vec<u8>,
    buffer: Vec<u8>,
    /// Commands whose replies are still to come.
    waiting: usize,
    sent: u64,
    refused: u64,
}

impl Client {
    fn connect(proxy: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&proxy, TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self {
            socket,
            reader: FrameReader::new(Limits::SERVER),
            out: Vec::new(),
            buffer: vec![0; REPLY_BYTES],
            waiting: 0,
            sent: 0,
            refused: 0,
        })
    }

    fn say(&mut self, words: &[&str]) -> io::Result<()> {
        let arguments: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        put_command(&mut self.out, &arguments);
        self.sent = self.sent.saturating_add(1);
        self.waiting = self.waiting.saturating_add(1);
        if self.waiting >= PIPELINE {
            self.settle()
        } else {
            Ok(())
        }
    }

    /// Sends what was said and reads every reply.
    fn settle(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.out)?;
        self.out.clear();
        while self.waiting > 0 {
            let length = self.socket.read(&mut self.buffer)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut rest = self.buffer.get(..length).unwrap_or_default();
            while !rest.is_empty() {
                let (used, frame) = self.reader.read(rest).map_err(io::Error::other)?;
                rest = rest.get(used..).unwrap_or_default();
                if let Some(frame) = frame {
                    self.waiting = self.waiting.saturating_sub(1);
                    let refused = matches!(frame, Frame::Error(_));
                    self.refused = self.refused.saturating_add(u64::from(refused));
                }
            }
        }
        Ok(())
    }
}
