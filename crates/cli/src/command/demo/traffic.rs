//! A day of a small shop, sent to the proxy over real connections: who touches whose data.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use probity_proxy::resp::{Frame, FrameReader, Limits, put_command};

/// Persons whose data is handled.
const PERSONS: usize = 150;
/// One person in this many asks to be forgotten.
const FORGOTTEN: usize = 3;
/// Commands sent at once before their replies are read.
const PIPELINE: usize = 64;
const PHOTO_BYTES: usize = 2048;
const REPLY_BYTES: usize = 64 * 1024;
const TIMEOUT: Duration = Duration::from_secs(10);

/// The policy the demo runs under.
pub(super) const POLICY: &str = r#"# Which keys hold whose data, and what the application is for.
version = 1

[defaults]
controller = "shop.example"
processor = "hosting.example"

[[key]]
pattern = "user:{subject}:*"
purpose = "service"
basis = "contract"

[[key]]
pattern = "order:{subject}:*"
purpose = "orders"
basis = "contract"

[[key]]
pattern = "stock:*"
personal = false

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

/// The counts of the day.
#[derive(Default)]
pub(super) struct Day {
    pub(super) clients: u64,
    pub(super) commands: u64,
    /// Commands that were answered with an error.
    pub(super) refused: u64,
}

/// Plays the day: its parts run one after another, the clients of a part at the same time.
pub(super) fn play(proxy: SocketAddr) -> io::Result<Day> {
    let mut day = Day::default();
    for part in PARTS {
        let played: Vec<io::Result<Client>> = thread::scope(|scope| {
            let shifts = part.iter().map(|shift| scope.spawn(|| shift.work(proxy)));
            let working: Vec<_> = shifts.collect();
            let ended = working.into_iter().map(thread::ScopedJoinHandle::join);
            ended
                .map(|end| end.unwrap_or_else(|_| Err(io::Error::other("a client panicked"))))
                .collect()
        });
        for client in played {
            let client = client?;
            day.clients = day.clients.saturating_add(1);
            day.commands = day.commands.saturating_add(client.sent);
            day.refused = day.refused.saturating_add(client.refused);
        }
    }
    Ok(day)
}

/// The commands of one client for one person's data.
type Scene = fn(&mut Client, &str) -> io::Result<()>;

/// One connection of an application, for some of the persons.
struct Shift {
    greeting: &'static [&'static str],
    /// The first of its persons; the others follow every `step`.
    first: usize,
    step: usize,
    scenes: &'static [Scene],
}

const fn web(first: usize) -> Shift {
    Shift {
        greeting: &["CLIENT", "SETNAME", "web"],
        first,
        step: 3,
        scenes: &[sign_up, shop],
    }
}

const PARTS: [&[Shift]; 3] = [
    &[web(0), web(1), web(2)],
    &[
        Shift {
            greeting: &["CLIENT", "SETNAME", "billing"],
            first: 0,
            step: 1,
            scenes: &[bill],
        },
        Shift {
            greeting: &["HELLO", "3", "SETNAME", "support"],
            first: 0,
            step: 1,
            scenes: &[look_up],
        },
    ],
    &[Shift {
        greeting: &["CLIENT", "SETNAME", "erasure"],
        first: 0,
        step: FORGOTTEN,
        scenes: &[forget],
    }],
];

impl Shift {
    fn work(&self, proxy: SocketAddr) -> io::Result<Client> {
        let mut client = Client::connect(proxy)?;
        client.say(self.greeting)?;
        for person in (self.first..PERSONS).step_by(self.step) {
            for scene in self.scenes {
                scene(&mut client, &person.to_string())?;
            }
        }
        client.settle()?;
        Ok(client)
    }
}

fn sign_up(client: &mut Client, person: &str) -> io::Result<()> {
    let profile = format!("user:{person}:profile");
    let mail = format!("person{person}@example.com");
    let fields = ["name", "A. Person", "mail", &mail, "city", "Lisbon"];
    client.say(&[&["HSET", profile.as_str()], fields.as_slice()].concat())?;
    let session = format!("user:{person}:session");
    client.say(&["SET", &session, "token"])?;
    client.say(&["EXPIRE", &session, "3600"])?;
    let photo: Vec<u8> = (0..=u8::MAX).cycle().take(PHOTO_BYTES).collect();
    let key = format!("user:{person}:photo");
    client.say_bytes(&[b"SET", key.as_bytes(), &photo])?;
    client.say(&["GET", &format!("user:{person}:cart")])
}

fn shop(client: &mut Client, person: &str) -> io::Result<()> {
    let cart = format!("user:{person}:cart");
    client.say(&["GET", &format!("user:{person}:session")])?;
    client.say(&["INCR", &format!("user:{person}:visits")])?;
    let interests = format!("user:{person}:interests");
    client.say(&["SADD", &interests, "reading", "light"])?;
    client.say(&["RPUSH", &cart, "book", "lamp"])?;
    client.say(&["LRANGE", &cart, "0", "-1"])?;
    client.say(&["MULTI"])?;
    client.say(&["INCRBY", "stock:book", "-1"])?;
    let open = format!("order:{person}:open");
    client.say(&["ZADD", &open, "1", "book", "2", "lamp"])?;
    client.say(&["DEL", &cart])?;
    client.say(&["EXEC"])
}

fn bill(client: &mut Client, person: &str) -> io::Result<()> {
    let invoice = format!("order:{person}:invoice");
    client.say(&["ZRANGE", &format!("order:{person}:open"), "0", "-1"])?;
    client.say(&["HGET", &format!("user:{person}:profile"), "mail"])?;
    client.say(&["SET", &invoice, "paid"])?;
    client.say(&["GET", &invoice])?;
    // A wrong type: the operation fails, and the failure is recorded too.
    client.say(&["LPUSH", &invoice, "again"])
}

fn look_up(client: &mut Client, person: &str) -> io::Result<()> {
    let profile = format!("user:{person}:profile");
    client.say(&["HGETALL", &profile])?;
    client.say(&["SMEMBERS", &format!("user:{person}:interests")])?;
    client.say(&[
        "MGET",
        &format!("user:{person}:visits"),
        &format!("user:{person}:session"),
    ])?;
    client.say(&["HSET", &profile, "city", "Porto"])
}

fn forget(client: &mut Client, person: &str) -> io::Result<()> {
    for name in ["profile", "session", "photo", "visits", "interests", "cart"] {
        client.say(&["DEL", &format!("user:{person}:{name}")])?;
    }
    for name in ["open", "invoice"] {
        client.say(&["DEL", &format!("order:{person}:{name}")])?;
    }
    Ok(())
}

/// One connection that sends several commands before it reads their replies.
struct Client {
    socket: TcpStream,
    reader: FrameReader,
    out: Vec<u8>,
    buffer: Vec<u8>,
    /// Commands whose replies are outstanding.
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
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.say_bytes(&words)
    }

    fn say_bytes(&mut self, words: &[&[u8]]) -> io::Result<()> {
        put_command(&mut self.out, words);
        self.sent = self.sent.saturating_add(1);
        self.waiting = self.waiting.saturating_add(1);
        if self.waiting >= PIPELINE {
            self.settle()
        } else {
            Ok(())
        }
    }

    /// Sends the pending commands and reads every reply.
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
