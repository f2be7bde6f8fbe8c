//! A damaged embedded store on the real program: what is left is served, rewritten and handed out, and what is not is said.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and damages files"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output};

use probity_testing::program::Program;

/// Lengths in the files, see docs/store-format.md.
const HEAD: usize = 4096;
const SEALED: usize = 16 + 8 + 16 + 4096;
const SLOT: usize = 128;

fn probity(folder: &Path, args: &[&str]) -> Command {
    Program::new(env!("CARGO_BIN_EXE_probity")).command(folder, args)
}

fn run(folder: &Path, args: &[&str]) -> Output {
    probity(folder, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The proxy before the store `data`.
struct Proxy(Child, u16);

impl Proxy {
    fn start(folder: &Path) -> Self {
        let args = "proxy --init --log audit --listen 127.0.0.1:0 --store data";
        let args: Vec<&str> = args.split(' ').collect();
        let mut child = probity(folder, &args).spawn().unwrap();
        let mut ready = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut ready).unwrap();
        let port = ready.strip_prefix("listening on 127.0.0.1:");
        let port = port.and_then(|rest| rest.split(';').next());
        let port = port.expect("the proxy is ready").parse().unwrap();
        Self(child, port)
    }

    fn ask(&self, lines: &str) -> String {
        let mut socket = TcpStream::connect(("127.0.0.1", self.1)).unwrap();
        let lines = format!("{}\r\nQUIT\r\n", lines.replace('\n', "\r\n"));
        socket.write_all(lines.as_bytes()).unwrap();
        let mut reply = Vec::new();
        socket.read_to_end(&mut reply).unwrap();
        text(&reply).replace("\r\n", " ")
    }

    /// Stops it; returns what it reported.
    fn stop(self) -> String {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(sent.success());
        let ended = self.0.wait_with_output().unwrap();
        assert!(ended.status.success());
        text(&ended.stderr)
    }
}

/// A store with three people.
fn filled(folder: &Path) {
    let proxy = Proxy::start(folder);
    let said = "SET user:1:x one\nSET user:2:x two\nSET user:3:x three";
    assert_eq!(proxy.ask(said), "+OK +OK +OK +OK ");
    proxy.stop();
}

/// A bit in the middle of the file at `path`, `at` bytes from its begin, is changed.
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// A read of one person whose slot was damaged ended the proxy, and changes of others that had been
/// answered were lost with it. That read is refused, with an entry, and the operator is told.
#[test]
fn a_damaged_key_of_one_person_ends_no_proxy_and_costs_nobody_elses_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    filled(path);
    flip(&path.join("data/store.1.subjects"), 2 * SLOT + 30);
    let proxy = Proxy::start(path);
    let mut reader = proxy.ask("GET user:2:x");
    assert!(reader.starts_with("-ERR the key of subject 2 was changed or is gone"));
    assert_eq!(proxy.ask("SET user:1:y kept"), "+OK +OK ");
    reader = proxy.ask("GET user:2:x\nSCAN 0\nDBSIZE\nGET user:1:y");
    assert!(reader.contains("user:3:x") && !reader.contains("user:2:x"));
    assert!(reader.ends_with(":4 $4 kept +OK "), "{reader}");
    // The operator is told within a fraction of a second.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let said = proxy.stop();
    assert!(
        said.contains("warning: the key of subject 2 in the store data is damaged"),
        "{said}"
    );
    let exported = run(path, &["export", "audit", "--format", "jsonl"]);
    let refused = r#""key":"user:2:x","subject":"2","actor":"default","outcome":"failed""#;
    assert_eq!(text(&exported.stdout).matches(refused).count(), 2);
    // Other people get their copy, and are told that it may lack something.
    let export = [
        "subject", "export", "audit", "1", "--store", "data", "--pocket", "one", "--json",
    ];
    let copied = run(path, &export);
    let said = text(&copied.stderr);
    assert_eq!(copied.status.code(), Some(3), "{said}");
    assert!(
        said.contains("1 key of a subject is damaged in data"),
        "{said}"
    );
    let query = ["pocket", "query", "one", "SELECT name, value FROM about"];
    assert!(text(&run(path, &query).stdout).contains("unreadable"));
    // Standard error and the database told it, and the document did not.
    let document: serde_json::Value = serde_json::from_slice(&copied.stdout).unwrap();
    assert!(document["unreadable"].as_u64() > Some(0), "{document}");
}

/// The advice for a store without one of its files was a command that is refused then. Both files are
/// put back from one backup, and that is all that is advised.
#[test]
fn a_store_without_one_of_its_files_is_not_led_to_a_rewriting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    filled(path);
    for file in ["data/store.1.sealed", "data/store.1.subjects"] {
        let (kept, gone) = (path.join("kept"), path.join(file));
        fs::rename(&gone, &kept).unwrap();
        let open = "proxy --log audit --listen 127.0.0.1:0 --store data";
        let open: Vec<&str> = open.split(' ').collect();
        for args in [
            &open[..],
            &["store", "rewrite", "data"],
            &["store", "rewrite", "data", "--damaged-too"],
        ] {
            let refused = run(path, args);
            let said = text(&refused.stderr);
            assert_eq!(refused.status.code(), Some(3), "{args:?}: {said}");
            assert!(said.contains(file), "{args:?}: {said}");
            assert!(said.contains("put them back from one backup"), "{said}");
            assert!(!said.contains("probity store rewrite"), "{said}");
            assert!(said.matches("was not rewritten").count() <= 1, "{said}");
        }
        fs::rename(&kept, &gone).unwrap();
    }
}

/// The refusal named the new file, which was not at fault, and said that nothing stored was lost.
/// It names the damaged one and the option; with that the others' data goes on, and the loss is
/// listed.
#[test]
fn a_rewriting_of_a_damaged_store_names_the_file_and_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    filled(path);
    flip(&path.join("data/store.1.subjects"), 2 * SLOT + 30);
    let refused = run(path, &["store", "rewrite", "data"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    for part in [
        "data/store.1.subjects",
        "the key of subject 2 was changed or is gone",
        "copy data and the key file",
        "probity store rewrite data --damaged-too",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(
        !said.contains(".new") && !said.contains("nothing stored is lost"),
        "{said}"
    );
    let rewrite = ["store", "rewrite", "data", "--damaged-too"];
    let done = run(path, &rewrite);
    assert_eq!(done.status.code(), Some(3), "{}", text(&done.stderr));
    let lost = "lost: the key of subject 2\nlost: database 0: a key of subject 2 without its name\n\
        data is rewritten; 2 lines above say what is missing\n";
    assert_eq!(text(&done.stdout), lost);
    let again = run(path, &rewrite);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stdout));
    let proxy = Proxy::start(path);
    let said = "GET user:1:x\nGET user:3:x\nGET user:2:x\nSET user:2:x new\nDBSIZE";
    assert_eq!(proxy.ask(said), "$3 one $5 three $-1 +OK :3 +OK ");
    proxy.stop();
}

/// One changed block kept the store from being opened, and every later change was lost with the
/// backup that was the only way out. What lies in other blocks is taken over.
#[test]
fn a_changed_block_is_named_with_the_way_out_and_costs_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    filled(path);
    let file = path.join("data/store.1.sealed");
    let whole = fs::read(&file).unwrap();
    let written = |at: &usize| whole[*at..*at + SEALED].iter().any(|byte| *byte != 0);
    let (mut refused, mut lost) = (0, 0);
    for at in (HEAD..whole.len()).step_by(SEALED).filter(written) {
        let copy = tempfile::tempdir().unwrap();
        let put = |name: &str| fs::copy(path.join(name), copy.path().join(name)).unwrap();
        fs::create_dir(copy.path().join("data")).unwrap();
        put("data.key");
        put("data/probity-store.toml");
        put("data/store.1.subjects");
        put("data/store.1.sealed");
        flip(&copy.path().join("data/store.1.sealed"), at + 2000);
        let plain = run(copy.path(), &["store", "rewrite", "data"]);
        if plain.status.success() {
            continue;
        }
        refused += 1;
        let said = text(&plain.stderr);
        for part in ["was changed", "probity store rewrite data --damaged-too"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let taken = run(copy.path(), &["store", "rewrite", "data", "--damaged-too"]);
        let (done, said) = (text(&taken.stdout), text(&taken.stderr));
        match taken.status.code() {
            Some(0) => assert!(done.contains("nothing is missing"), "{done}"),
            Some(3) => lost += usize::from(done.contains("lost: block ")),
            _ => assert!(
                said.contains("the list of its tables does not open"),
                "{said}"
            ),
        }
    }
    assert!(refused > 2 && lost > 1, "{refused} {lost}");
}
