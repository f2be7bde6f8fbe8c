//! The real program is killed while it hides and reveals: nothing is lost, nothing doubled, nothing unreadable.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test may fail loudly, and chooses the moment of a kill itself"
)]

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use probity_disguise::database::{Sqlite, connect};
use probity_disguise::{
    ApplyRequest, Credential, Database, Dialect, DisguiseId, Engine, Protection, References,
    RevealRequest, Rows, SecretKey, SpecFile, Value,
};
use probity_format::Timestamp;
use probity_testing::{mariadb, postgres};
use tempfile::TempDir;

/// Kills in the gate.
const KILLS: u32 = 12;
/// Kills of the slow form.
const KILLS_SLOW: u32 = 1_000;
/// Kills after which a machine that is always faster than they are fails the test.
const KILLS_MOST: u32 = 200;
/// Kills after which it is measured again how long the program takes: a database in use changes its pace.
const KILLS_A_PACE: u32 = 25;
/// The longest that a server may take for what a killed program had asked of it.
const SERVER_TIME_MOST: Duration = Duration::from_mins(1);
const SEED: u64 = 1;
/// When everybody registered: later than the program's own clock, which so seems to be put back between disguises.
const FIRST_TIME: i64 = 1_800_000_000_000_000_000;
const PEOPLE: i64 = 3;
/// Rows of each person in each table: enough for a kill to fall between statements and between commits of pages.
const ROWS: i64 = 300;

/// Referring columns are indexed, as in any database that people leave. Otherwise each of hundreds
/// of removed placeholders would be looked for in whole tables.
const TABLES: [&str; 9] = [
    "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL)",
    "CREATE TABLE posts (id BIGINT PRIMARY KEY, author_id BIGINT REFERENCES people(id), text VARCHAR(80))",
    "CREATE TABLE likes (id BIGINT PRIMARY KEY, user_id BIGINT REFERENCES people(id), post_id BIGINT REFERENCES posts(id))",
    "CREATE TABLE messages (id BIGINT PRIMARY KEY, sender_id BIGINT REFERENCES people(id), recipient_id BIGINT REFERENCES people(id), text VARCHAR(80))",
    "CREATE INDEX posts_author ON posts (author_id)",
    "CREATE INDEX likes_user ON likes (user_id)",
    "CREATE INDEX likes_post ON likes (post_id)",
    "CREATE INDEX messages_sender ON messages (sender_id)",
    "CREATE INDEX messages_recipient ON messages (recipient_id)",
];

const SPEC: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000000, ub = 9000000000000 } }, name = { RandStr = { len = 20 } } }

[[remove]]
table = "likes"
[[modify]]
table = "posts"
column = "text"
value = { RandStr = { len = 12 } }
[[decorrelate]]
table = "posts"
owners = ["author_id"]
[[remove]]
table = "messages"
[[remove]]
table = "people"
"#;

/// Rows of a chunk: a person has dozens of them.
const CHUNK_ROWS: u32 = 40;

/// A command of the program during which it is killed.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Apply(i64),
    Reveal(i64, DisguiseId),
    Chunks(i64),
    ChunksOfEverybody,
}

impl Deed {
    const KINDS: [&str; 4] = ["apply", "reveal", "chunks", "chunks of everybody"];

    const fn kind(self) -> usize {
        match self {
            Self::Apply(_) => 0,
            Self::Reveal(..) => 1,
            Self::Chunks(_) => 2,
            Self::ChunksOfEverybody => 3,
        }
    }
}

/// A database with people in it, who are killed over.
struct Scene {
    folder: TempDir,
    url: String,
    engine: Engine<Box<dyn Database>>,
    spec: SpecFile,
    keys: BTreeMap<i64, SecretKey>,
    before: Vec<String>,
    random: u64,
    time: i64,
}

impl Scene {
    fn new(url: impl FnOnce(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = url(folder.path());
        let mut database: Box<dyn Database> = connect(&url).unwrap();
        fill(database.as_mut());
        let spec = SpecFile::parse(SPEC).unwrap();
        std::fs::write(folder.path().join("leave.toml"), SPEC).unwrap();
        let mut engine = Engine::new(database, spec.schema.clone(), spec.pseudo.clone().unwrap());
        engine.install().unwrap();
        let first = Timestamp::from_nanoseconds(FIRST_TIME).unwrap();
        let mut keys = BTreeMap::new();
        for person in 1..=PEOPLE {
            let key = engine
                .people()
                .register(&Value::Int(person), Protection::KeyAlone, first)
                .unwrap()
                .key;
            let line = format!(
                "probity-disguise-key-v1 {}\n",
                URL_SAFE_NO_PAD.encode(key.expose())
            );
            std::fs::write(folder.path().join(format!("{person}.key")), line).unwrap();
            keys.insert(person, key);
        }
        let mut scene = Self {
            folder,
            url,
            engine,
            spec,
            keys,
            before: Vec::new(),
            random: seed(),
            time: FIRST_TIME,
        };
        scene.before = scene.everything();
        scene
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % bound
    }

    fn now(&mut self) -> Timestamp {
        self.time += 1;
        Timestamp::from_nanoseconds(self.time).unwrap()
    }

    fn everything(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for table in ["people", "posts", "likes", "messages"] {
            let sql = format!("SELECT * FROM {table} ORDER BY id");
            let rows = self.engine.database().query(&sql, &[]).unwrap();
            all.extend(rows.iter().map(|row| format!("{table} {row:?}")));
        }
        all
    }

    fn apply(&mut self, person: i64) {
        let time = self.now();
        self.engine
            .apply(&ApplyRequest {
                spec: &self.spec.spec,
                user: Some(Value::Int(person)),
                over: None,
                parameters: BTreeMap::new(),
                expires: None,
                time,
            })
            .unwrap();
    }

    fn listed(&mut self, person: i64) -> Vec<DisguiseId> {
        let time = self.now();
        let credential = Credential::Key(self.keys.get(&person).unwrap());
        let listed = self
            .engine
            .list(&Value::Int(person), &credential, time)
            .unwrap();
        listed.iter().map(|it| it.id).collect()
    }

    fn reveal(&mut self, person: i64, id: DisguiseId) {
        let time = self.now();
        self.engine
            .reveal(&RevealRequest {
                user: Value::Int(person),
                credential: Credential::Key(self.keys.get(&person).unwrap()),
                id,
                references: References::Recorrelate,
                rows: Rows::PerColumn,
                time,
            })
            .unwrap();
    }

    fn program(&self, deed: Deed) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
        let rows = CHUNK_ROWS.to_string();
        let apply = ["disguise", "apply", "--spec", "leave.toml"];
        match deed {
            Deed::Apply(person) => {
                command.args(apply).args(["--user", &person.to_string()]);
            }
            Deed::Chunks(person) => {
                command.args(apply).args(["--user", &person.to_string()]);
                command.args(["--chunk-rows", &rows]);
            }
            Deed::ChunksOfEverybody => {
                command.args(apply).arg("--everybody");
                command.args(["--chunk-rows", &rows]);
            }
            Deed::Reveal(person, id) => {
                command.args(["disguise", "reveal", "--user", &person.to_string()]);
                command.args(["--id", &id.to_string()]);
                command.args(["--credential", &format!("{person}.key")]);
            }
        }
        command
            .current_dir(self.folder.path())
            .env("PROBITY_DB", &self.url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Waits until the server is done with the connection of a program that was killed: it may be at a commit still.
    fn wait_for_server(&mut self) {
        let sql = match self.engine.database().dialect() {
            Dialect::Mysql => {
                "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            }
            Dialect::Postgres => {
                "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            }
            // A file has no server.
            _ => return,
        };
        let started = Instant::now();
        while self.engine.database().query(sql, &[]).unwrap() != [[Value::Int(0)]] {
            assert!(started.elapsed() < SERVER_TIME_MOST, "a connection stays");
            sleep(Duration::from_millis(1));
        }
    }

    /// Goes on with what was begun in chunks and not done, or ends it.
    fn settle(&mut self, deed: Deed, story: &str) {
        let begun = self.engine.chunks().unfinished().unwrap();
        assert!(begun.len() <= 1, "{story}");
        for id in begun {
            let time = self.now();
            match (self.below(2), deed) {
                (0, _) => drop(
                    self.engine
                        .chunks()
                        .finish(id, CHUNK_ROWS, || time)
                        .unwrap(),
                ),
                (_, Deed::Chunks(person)) => self.reveal(person, id),
                _ => self.engine.schedule().cancel(id, time).unwrap(),
            }
        }
        assert_eq!(self.engine.chunks().unfinished().unwrap(), [], "{story}");
    }

    /// Checks that everybody comes back, and nothing is left of any disguise.
    fn assert_all_comes_back(&mut self, story: &str) {
        // Rows that people share come back with the last of them.
        for _ in 0..PEOPLE {
            for person in 1..=PEOPLE {
                for id in self.listed(person) {
                    self.reveal(person, id);
                }
            }
        }
        assert_eq!(self.everything(), self.before, "{story}");
        for (table, rows) in [
            ("bags", 0),
            ("locators", 0),
            ("shared", 0),
            ("intents", 0),
            ("principals", PEOPLE),
        ] {
            let sql = format!("SELECT COUNT(*) FROM probity_{table}");
            let counted = self.engine.database().query(&sql, &[]).unwrap();
            assert_eq!(counted, [[Value::Int(rows)]], "{story}: {table}");
        }
    }
}

fn fill(database: &mut dyn Database) {
    for sql in TABLES {
        database.execute(sql, &[]).unwrap();
    }
    database.begin().unwrap();
    for person in 1..=PEOPLE {
        let sql = format!("INSERT INTO people VALUES ({person}, 'person {person}')");
        database.execute(&sql, &[]).unwrap();
    }
    for row in 0..PEOPLE * ROWS {
        let (person, next) = (row % PEOPLE + 1, (row + 1) % PEOPLE + 1);
        for sql in [
            format!("INSERT INTO posts VALUES ({row}, {person}, 'post {row}')"),
            format!("INSERT INTO likes VALUES ({row}, {next}, {row})"),
            format!("INSERT INTO messages VALUES ({row}, {person}, {next}, 'message {row}')"),
        ] {
            database.execute(&sql, &[]).unwrap();
        }
    }
    database.commit().unwrap();
}

/// Returns the seed of the moments of the kills.
fn seed() -> u64 {
    let seed: u64 = std::env::var("PROBITY_SEED").map_or(SEED, |seed| seed.parse().unwrap());
    eprintln!("seed {seed}: PROBITY_SEED changes it");
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

/// Measures the time that the program takes without a kill.
fn unhindered(scene: &Scene, deed: Deed) -> Duration {
    let started = Instant::now();
    assert!(scene.program(deed).status().unwrap().success(), "{deed:?}");
    started.elapsed()
}

/// Measures the time that each kind of deed takes without a kill.
fn pace(scene: &mut Scene) -> [Duration; Deed::KINDS.len()] {
    let apply = unhindered(scene, Deed::Apply(1));
    let id = scene.listed(1).pop().unwrap();
    let reveal = unhindered(scene, Deed::Reveal(1, id));
    let chunks = unhindered(scene, Deed::Chunks(1));
    scene.assert_all_comes_back("without a kill");
    let everybody = unhindered(scene, Deed::ChunksOfEverybody);
    scene.assert_all_comes_back("everybody without a kill");
    [apply, reveal, chunks, everybody]
}

/// Kills the program `kills` times at any moment, and more often as long as every kill of a kind came too late.
fn everything_survives(scene: &mut Scene, kills: u32) {
    let mut pace_of = pace(scene);
    let mut cut = [0_u32; Deed::KINDS.len()];
    for kill in 0..KILLS_MOST.max(kills) {
        if kill >= kills && cut.iter().all(|cut| *cut > 0) {
            break;
        }
        if kill > 0 && kill % KILLS_A_PACE == 0 {
            pace_of = pace(scene);
        }
        let person = 1 + i64::try_from(scene.below(3)).unwrap();
        if scene.below(2) == 0 {
            // Somebody who shares rows is away.
            scene.apply(person % PEOPLE + 1);
        }
        let deed = match kill % 4 {
            0 => Deed::Apply(person),
            1 => {
                scene.apply(person);
                Deed::Reveal(person, scene.listed(person).pop().unwrap())
            }
            2 => Deed::Chunks(person),
            _ => Deed::ChunksOfEverybody,
        };
        let longest = pace_of.get(deed.kind()).unwrap();
        let moment = scene.below(u64::try_from(longest.as_micros()).unwrap());
        let mut child = scene.program(deed).spawn().unwrap();
        sleep(Duration::from_micros(moment));
        child.kill().unwrap();
        let ended = child.wait().unwrap();
        let story = format!("kill {kill} of {deed:?} after {moment} us: {ended}");
        assert!(ended.success() || ended.signal().is_some(), "{story}");
        if !ended.success() {
            *cut.get_mut(deed.kind()).unwrap() += 1;
        }
        scene.wait_for_server();
        scene.settle(deed, &story);
        assert!(scene.listed(person).len() <= 1, "{story}");
        scene.assert_all_comes_back(&story);
    }
    eprintln!("ended in the middle: {cut:?} of {:?}", Deed::KINDS);
    assert!(
        cut.iter().all(|cut| *cut > 0),
        "no kill came in time: {cut:?}"
    );
}

fn sqlite() -> Scene {
    Scene::new(|folder| {
        let file: PathBuf = folder.join("app.db");
        drop(Sqlite::open(&file).unwrap());
        format!("sqlite:{}", file.display())
    })
}

fn on_postgres(kills: u32) {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    everything_survives(&mut Scene::new(|_| postgres::url(&socket)), kills);
}

fn on_mariadb(kills: u32) {
    let (_server, socket) = mariadb::running(|url| connect(url).is_ok());
    let mut database = connect(&mariadb::url(&socket, "mysql")).unwrap();
    database.execute("CREATE DATABASE app", &[]).unwrap();
    let url = mariadb::url(&socket, "app");
    everything_survives(&mut Scene::new(|_| url), kills);
}

#[test]
fn everything_survives_kills_on_sqlite() {
    everything_survives(&mut sqlite(), KILLS);
}

#[test]
fn everything_survives_kills_on_postgres() {
    on_postgres(KILLS);
}

#[test]
fn everything_survives_kills_on_mariadb() {
    on_mariadb(KILLS);
}

#[test]
#[ignore = "takes minutes"]
fn everything_survives_a_thousand_kills_on_sqlite() {
    everything_survives(&mut sqlite(), KILLS_SLOW);
}

#[test]
#[ignore = "takes minutes"]
fn everything_survives_a_thousand_kills_on_postgres() {
    on_postgres(KILLS_SLOW);
}

#[test]
#[ignore = "takes minutes"]
fn everything_survives_a_thousand_kills_on_mariadb() {
    on_mariadb(KILLS_SLOW);
}
