//! The website as a browser meets it: a process, a port, forms and pages.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]
#![expect(
    clippy::disallowed_methods,
    reason = "the root key is a file that the operator writes"
)]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use probity_format::keys::Secret;
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, LogError, Options, RootKey, StreamConfig};
use tempfile::TempDir;

const PASSWORD: &str = "correct horse battery";

/// The program over data of its own, stopped when it goes out of scope.
struct Website {
    folder: TempDir,
    program: Child,
    address: String,
}

/// The response to one request.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

/// Somebody with a browser.
struct Visitor<'a> {
    website: &'a Website,
    cookie: Option<String>,
}

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_websubmit"));
    command.arg("--database").arg(folder.join("term.db"));
    command.arg("--log").arg(folder.join("audit"));
    command
}

impl Website {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = root();
        std::fs::write(folder.path().join("audit.key"), root.to_text().as_bytes()).unwrap();
        let log = folder.path().join("audit");
        let config = StreamConfig::default();
        Log::create(
            &log,
            "example.com/websubmit",
            &root,
            config,
            Options::default(),
        )
        .unwrap()
        .close()
        .unwrap();
        let mut program = program(folder.path())
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = program.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let address = line.trim().rsplit('/').next().unwrap().to_owned();
        Self {
            folder,
            program,
            address,
        }
    }

    fn visitor(&self) -> Visitor<'_> {
        Visitor {
            website: self,
            cookie: None,
        }
    }

    fn make_teacher(&self, email: &str) {
        let arguments = ["--make-teacher", email];
        let made = program(self.folder.path())
            .args(arguments)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    }

    /// Returns the bytes of the database file.
    fn database(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("term.db")).unwrap()
    }

    /// Tells the program to stop and waits for it.
    fn stop(&mut self) {
        let id = self.program.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(self.program.wait().unwrap().success());
    }
}

impl Drop for Website {
    fn drop(&mut self) {
        // Already stopped when a test went well.
        self.program.kill().unwrap_or_default();
        self.program.wait().map(drop).unwrap_or_default();
    }
}

impl Visitor<'_> {
    fn ask(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
        let body: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", escaped(value)))
            .collect();
        let body = body.join("&");
        let cookie = self
            .cookie
            .as_ref()
            .map_or_else(String::new, |it| format!("Cookie: session={it}\r\n"));
        let mut stream = TcpStream::connect(&self.website.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: websubmit\r\nConnection: close\r\n{cookie}\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        if let Some((_, rest)) = head.split_once("session=") {
            self.cookie = rest.split(';').next().map(ToOwned::to_owned);
        }
        Reply {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    fn see(&mut self, path: &str) -> String {
        let reply = self.ask("GET", path, &[]);
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.body
    }

    fn send(&mut self, path: &str, fields: &[(&str, &str)]) -> Reply {
        self.ask("POST", path, fields)
    }

    fn register(&mut self, email: &str) {
        let made = self.send("/register", &[("email", email), ("password", PASSWORD)]);
        assert_eq!(made.status, 200, "{}", made.body);
    }

    fn sign_in(&mut self, email: &str) -> u16 {
        self.send("/signin", &[("email", email), ("password", PASSWORD)])
            .status
    }
}

fn escaped(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        write!(text, "%{byte:02X}").unwrap();
    }
    text
}

/// The value of a hidden field in a page.
fn field(page: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let (_, rest) = page
        .split_once(&start)
        .unwrap_or_else(|| panic!("no {name} in {page}"));
    rest.split('"').next().unwrap().to_owned()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|it| it == text.as_bytes())
}

#[test]
fn a_student_leaves_without_a_trace_and_comes_back_whole() {
    let mut website = Website::start();
    let mut ada = website.visitor();
    ada.register("ada@example.com");
    assert_eq!(ada.sign_in("ada@example.com"), 303);
    ada.send("/lecture/1/1", &[("answer", "gait, birthday and postcode")]);
    assert!(
        ada.see("/lecture/1")
            .contains("gait, birthday and postcode")
    );

    assert_eq!(
        ada.send("/leave", &[("password", "not my password")])
            .status,
        403
    );
    assert!(
        ada.see("/lecture/1").contains("gait"),
        "a wrong password changes nothing"
    );
    assert_eq!(ada.send("/leave", &[("password", PASSWORD)]).status, 200);
    assert_eq!(
        ada.ask("GET", "/lecture/1", &[]).status,
        303,
        "every session has ended"
    );
    assert_eq!(ada.sign_in("ada@example.com"), 409);

    let wrong = [
        ("email", "ada@example.com"),
        ("password", "another password"),
    ];
    assert_eq!(ada.send("/return", &wrong).status, 403);
    let right = [("email", "ada@example.com"), ("password", PASSWORD)];
    assert!(
        ada.send("/return", &right)
            .body
            .contains("Everything is back: 2 rows.")
    );
    assert!(
        ada.see("/lecture/1")
            .contains("gait, birthday and postcode")
    );
    website.stop();
}

#[test]
fn whoever_takes_an_address_meanwhile_gets_nothing_of_its_owner() {
    let mut website = Website::start();
    let mut ada = website.visitor();
    ada.register("ada@example.com");
    ada.sign_in("ada@example.com");
    ada.send("/lecture/1/1", &[("answer", "gait, birthday and postcode")]);
    ada.send("/leave", &[("password", PASSWORD)]);

    let mut other = website.visitor();
    let theirs = [
        ("email", "ada@example.com"),
        ("password", "another password"),
    ];
    assert_eq!(other.send("/register", &theirs).status, 200);
    assert_eq!(other.send("/signin", &theirs).status, 303);
    assert!(!other.see("/lecture/1").contains("gait"));
    let hidden = other
        .send("/hidden", &[("password", "another password")])
        .body;
    assert!(hidden.contains("Nothing of yours is hidden"));
    let right = [("email", "ada@example.com"), ("password", PASSWORD)];
    assert_eq!(ada.send("/return", &right).status, 400);
    assert!(!other.see("/lecture/1").contains("gait"));

    assert_eq!(
        other
            .send("/leave", &[("password", "another password")])
            .status,
        200
    );
    assert!(
        ada.send("/return", &right)
            .body
            .contains("Everything is back: 2 rows.")
    );
    assert!(ada.see("/lecture/1").contains("gait"));
    website.stop();
}

#[test]
fn an_answer_under_a_placeholder_is_edited_by_its_author_alone() {
    let mut website = Website::start();
    let mut ada = website.visitor();
    let mut bob = website.visitor();
    let mut teacher = website.visitor();
    ada.register("ada@example.com");
    bob.register("bob@example.com");
    teacher.register("teacher@example.com");
    website.make_teacher("teacher@example.com");
    ada.sign_in("ada@example.com");
    bob.sign_in("bob@example.com");
    teacher.sign_in("teacher@example.com");

    ada.send("/lecture/2/1", &[("answer", "invoices")]);
    assert_eq!(
        ada.send("/close", &[]).status,
        403,
        "students do not close terms"
    );
    assert_eq!(ada.ask("GET", "/answers/2", &[]).status, 403);
    assert!(teacher.see("/answers/2").contains("ada@example.com"));
    assert!(
        teacher
            .send("/close", &[])
            .body
            .contains("1 answers are under placeholders")
    );
    let answers = teacher.see("/answers/2");
    assert!(answers.contains("invoices") && !answers.contains("ada@example.com"));

    let hidden = ada.send("/hidden", &[("password", PASSWORD)]).body;
    let placeholder = field(&hidden, "placeholder");
    let id = field(&hidden, "id");
    let edit = [
        ("password", PASSWORD),
        ("placeholder", placeholder.as_str()),
        ("lecture", "2"),
        ("number", "1"),
        ("answer", "invoices, ten years"),
    ];
    assert_eq!(bob.send("/hidden/answer", &edit).status, 403);
    assert!(teacher.see("/answers/2").contains("<td>invoices</td>"));
    assert_eq!(ada.send("/hidden/answer", &edit).status, 200);
    assert!(teacher.see("/answers/2").contains("invoices, ten years"));

    let asked = [("password", PASSWORD), ("id", id.as_str())];
    assert_eq!(bob.send("/hidden/reveal", &asked).status, 404);
    assert!(
        ada.send("/hidden/reveal", &asked)
            .body
            .contains("Everything is back")
    );
    assert!(teacher.see("/answers/2").contains("ada@example.com"));
    website.stop();
}

#[test]
fn whoever_leaves_after_the_term_takes_hidden_answers_along_and_what_is_given_up_stays_hidden() {
    let mut website = Website::start();
    let mut ada = website.visitor();
    let mut teacher = website.visitor();
    ada.register("ada@example.com");
    teacher.register("teacher@example.com");
    website.make_teacher("teacher@example.com");
    ada.sign_in("ada@example.com");
    teacher.sign_in("teacher@example.com");
    ada.send("/lecture/1/1", &[("answer", "first answer")]);
    teacher.send("/close", &[]);
    ada.send("/leave", &[("password", PASSWORD)]);
    assert!(!teacher.see("/answers/1").contains("first answer"));
    assert!(!holds(&website.database(), "ada@example.com"));

    let right = [("email", "ada@example.com"), ("password", PASSWORD)];
    assert!(
        ada.send("/return", &right)
            .body
            .contains("Everything is back")
    );
    assert!(teacher.see("/answers/1").contains("first answer"));
    let hidden = ada.send("/hidden", &[("password", PASSWORD)]).body;
    let id = field(&hidden, "id");
    let asked = [("password", PASSWORD), ("id", id.as_str())];
    assert_eq!(ada.send("/hidden/give-up", &asked).status, 200);
    assert_eq!(ada.send("/hidden/reveal", &asked).status, 404);
    assert!(!teacher.see("/answers/1").contains("ada@example.com"));
    website.stop();
}

#[test]
fn the_log_tells_of_every_disguise_and_names_nobody() {
    let mut website = Website::start();
    let mut student = website.visitor();
    student.register("wilhelmina@example.com");
    student.sign_in("wilhelmina@example.com");
    student.send("/leave", &[("password", "not my password")]);
    student.send("/leave", &[("password", PASSWORD)]);
    student.send(
        "/return",
        &[("email", "wilhelmina@example.com"), ("password", PASSWORD)],
    );
    website.stop();

    let log = website.folder.path().join("audit");
    assert!(verify(&log, &VerifyOptions::default()).unwrap().is_intact());
    let reader = Reader::open(&log, &root()).unwrap();
    let mut told = Vec::new();
    reader
        .read::<LogError>(&Filter::default(), &mut |found| {
            let entry = found.entry;
            told.push(format!("{} {}", entry.action, entry.outcome.as_str()));
            for text in [
                entry.key,
                entry.subjects.as_joined().as_bytes(),
                entry.payload,
            ] {
                assert!(!holds(text, "wilhelmina"), "{told:?}");
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(
        told,
        [
            "disguise.register ok",
            "disguise.apply denied",
            "disguise.apply ok",
            "disguise.reveal ok"
        ]
    );
}

#[test]
fn nonsense_is_refused_and_nothing_is_said_about_who_exists() {
    let mut website = Website::start();
    let mut ada = website.visitor();
    ada.register("ada@example.com");
    let mut thief = website.visitor();
    let known = thief.send(
        "/signin",
        &[("email", "ada@example.com"), ("password", "some other one")],
    );
    let unknown = thief.send(
        "/signin",
        &[("email", "eve@example.com"), ("password", "some other one")],
    );
    assert_eq!((known.status, &known.body), (unknown.status, &unknown.body));
    for (email, password) in [
        ("ada", PASSWORD),
        ("a b@example.com", PASSWORD),
        ("b@example.com", "short"),
    ] {
        let refused = thief.send("/register", &[("email", email), ("password", password)]);
        assert_eq!(refused.status, 400, "{email}");
    }
    assert_eq!(thief.ask("GET", "/lecture/1", &[]).status, 303);
    assert_eq!(thief.ask("GET", "/nowhere", &[]).status, 404);
    ada.sign_in("ada@example.com");
    assert_eq!(ada.ask("GET", "/lecture/77", &[]).status, 404);
    assert_eq!(ada.send("/lecture/1/77", &[("answer", "x")]).status, 404);
    assert_eq!(
        ada.send("/lecture/1/1", &[("answer", &"x".repeat(10_001))])
            .status,
        400
    );
    assert_eq!(
        ada.send("/lecture/1/1", &[("answer", &"x".repeat(30_000))])
            .status,
        413
    );
    ada.send(
        "/lecture/1/1",
        &[(
            "answer",
            "<script>alert(1)</script>'); DROP TABLE users; --",
        )],
    );
    let page = ada.ask("GET", "/lecture/1", &[]);
    assert!(!page.body.contains("<script>") && page.body.contains("DROP TABLE users"));
    assert!(page.head.contains("default-src 'none'"));
    website.stop();
}
