//! Third-party verifiers, unmodified, on stream folders written by [`TreeWriter`].
//!
//! They are Tessera's `fsck` and a driver of golang.org/x/mod and transparency-dev's packages. Both
//! are built from `tests/foreign` with the Go tool chain. `docs/foreign-verifiers.md` lists the
//! defects that each of them does not detect.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that cannot write its files or start its programs has failed"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use probity_format::checkpoint::Checkpoint;
use probity_format::note::{Signer as _, SigningKey};
use probity_format::proof::{TlogProof, inclusion_proof};
use probity_format::tile::{TileReader, TreeWriter};
use probity_format::tree::Hash;

const ORIGIN: &str = "example.com/foreign";
const SIZES: [u64; 12] = [
    0, 1, 2, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, 70_000,
];
const RECORD_BYTES: usize = 190;

/// The verifier programs, built once.
struct Verifiers {
    fsck: PathBuf,
    driver: PathBuf,
}

/// The result of a verifier.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    Rejected(String),
}

impl Verdict {
    fn is_accepted(&self) -> bool {
        *self == Self::Accepted
    }
}

impl Verifiers {
    fn built() -> &'static Self {
        static BUILT: OnceLock<Verifiers> = OnceLock::new();
        BUILT.get_or_init(|| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign");
            let fsck = folder.join("fsck");
            let driver = folder.join("tlog");
            go_build(&fsck, "github.com/transparency-dev/tessera/cmd/fsck");
            go_build(&driver, ".");
            Self { fsck, driver }
        })
    }

    /// Runs Tessera's `fsck`. Its exit status is not reliable: it is 0 after a failed check too,
    /// and a damaged bundle can make it panic. Only the line with the size counts.
    fn fsck(&self, folder: &Path, size: u64) -> Verdict {
        let output = run(Command::new(&self.fsck)
            .arg(format!("--storage_url=file://{}", folder.display()))
            .arg(format!(
                "--public_key={}",
                folder.join("log.vkey").display()
            ))
            .arg(format!("--origin={ORIGIN}"))
            .args(["--N=2", "--ui=false"]));
        let said = String::from_utf8_lossy(&output.stderr);
        let success = format!("Successfully fsck'd log with size {size} and root");
        if said.contains(&success) && !said.contains("fsck failed") && output.status.success() {
            return Verdict::Accepted;
        }
        Verdict::Rejected(said.into_owned())
    }

    /// Runs the driver over x/mod and transparency-dev's packages.
    fn driver(&self, folder: &Path, size: u64) -> Verdict {
        let sizes: Vec<String> = SIZES.iter().map(u64::to_string).collect();
        let output = run(Command::new(&self.driver)
            .arg("tree")
            .arg(folder)
            .arg(folder.join("log.vkey"))
            .args([ORIGIN, &sizes.join(",")]));
        verdict(&output, &format!("accepted: size {size},"))
    }

    fn both(&self, folder: &Path, size: u64) -> [Verdict; 2] {
        [self.fsck(folder, size), self.driver(folder, size)]
    }
}

/// Builds a package of the module in `tests/foreign`, whose `go.sum` pins every byte of it.
fn go_build(program: &Path, package: &str) {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/foreign");
    let output = Command::new("go")
        .current_dir(module)
        .args(["build", "-buildvcs=false", "-o"])
        .arg(program)
        .arg(package)
        .output()
        .expect("the Go tool chain is installed; ./test installs it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "go build {package}: {said}");
}

fn run(command: &mut Command) -> Output {
    command.output().expect("the verifier can be started")
}

fn verdict(output: &Output, success: &str) -> Verdict {
    if output.status.success() && String::from_utf8_lossy(&output.stdout).starts_with(success) {
        return Verdict::Accepted;
    }
    Verdict::Rejected(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Returns reproducible bytes that compress no better than random ones.
fn record(index: u64) -> [u8; RECORD_BYTES] {
    let mut state = index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    std::array::from_fn(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
}

/// The folder of a growing stream.
struct Stream {
    folder: PathBuf,
    writer: TreeWriter,
    key: SigningKey,
}

impl Stream {
    fn new(folder: &Path) -> Self {
        let key = SigningKey::from_seed(ORIGIN, &[9; 32]).expect("a key name");
        fs::create_dir_all(folder).expect("a folder");
        let vkey = key.verifier_key().encode();
        fs::write(folder.join("log.vkey"), vkey).expect("a file");
        Self {
            folder: folder.to_owned(),
            writer: TreeWriter::new(),
            key,
        }
    }

    fn grow(&mut self, size: u64) {
        while self.writer.size() < size {
            let index = self.writer.size();
            self.writer.append(&record(index)).expect("a short record");
            if index.is_multiple_of(1 << 16) {
                self.write_files();
            }
        }
        self.write_files();
        let root = self.writer.root();
        self.write_checkpoint(&self.key, ORIGIN, size, root);
    }

    fn write_files(&mut self) {
        let taken = self.writer.take_files();
        for file in taken.write {
            let path = self.folder.join(file.path);
            let folder = path.parent().expect("a path below the folder");
            fs::create_dir_all(folder).expect("a folder");
            fs::write(path, file.bytes).expect("a file");
        }
        for folder in taken.obsolete {
            fs::remove_dir_all(self.folder.join(folder)).expect("a folder of partials");
        }
    }

    fn write_checkpoint(&self, key: &SigningKey, origin: &str, size: u64, root: Hash) {
        let checkpoint = Checkpoint::new(origin, size, root).expect("a checkpoint");
        let note = checkpoint.sign(&[key]).expect("signing");
        fs::write(self.folder.join("checkpoint"), note).expect("a file");
    }

    fn change(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.folder.join(path);
        let mut content = fs::read(&path).expect("the file to change is there");
        change(&mut content);
        fs::write(&path, content).expect("a file");
    }
}

fn flip(content: &mut [u8], place: usize) {
    if let Some(byte) = content.get_mut(place) {
        *byte ^= 1;
    }
}

#[test]
fn every_size_is_accepted_by_every_verifier() {
    let verifiers = Verifiers::built();
    let folder = tempfile::tempdir().expect("a folder");
    let mut stream = Stream::new(folder.path());
    for size in SIZES {
        stream.grow(size);
        let verdicts = verifiers.both(&stream.folder, size);
        assert_eq!(verdicts, [Verdict::Accepted, Verdict::Accepted], "{size}");
    }
}

#[test]
fn proofs_in_their_file_form_are_accepted_and_not_for_another_record() {
    let verifiers = Verifiers::built();
    let folder = tempfile::tempdir().expect("a folder");
    let mut stream = Stream::new(folder.path());
    stream.grow(513);
    let read = |path: &str| fs::read(folder.path().join(path)).map(Some);
    let mut tiles = TileReader::new(513, read);
    let checkpoint = fs::read_to_string(folder.path().join("checkpoint")).expect("a checkpoint");
    for index in [0, 255, 256, 511, 512] {
        let path = inclusion_proof(index, 513, |level, node| tiles.node(level, node))
            .expect("the tiles hold the proof");
        let proof = TlogProof::new(index, path, checkpoint.clone());
        let (file, leaf) = (folder.path().join("proof"), folder.path().join("leaf"));
        fs::write(&file, proof.encode()).expect("a file");
        for (shown, accepted) in [(index, true), (index ^ 1, false)] {
            fs::write(&leaf, record(shown)).expect("a file");
            let output = run(Command::new(&verifiers.driver)
                .arg("proof")
                .args([&file, &leaf, &folder.path().join("log.vkey")])
                .arg(ORIGIN));
            let verdict = verdict(&output, &format!("accepted: record {index} of 513"));
            assert_eq!(verdict.is_accepted(), accepted, "{shown}: {verdict:?}");
        }
    }
}

/// A change to a stream of 600 records, and whether `fsck` and the driver must reject it.
struct Mutation {
    name: &'static str,
    apply: fn(&Stream),
    rejected: [bool; 2],
}

const BOTH: [bool; 2] = [true, true];

const MUTATIONS: [Mutation; 25] = [
    Mutation {
        name: "bit of a record in a full bundle",
        apply: |s| s.change("tile/entries/000", |c| flip(c, 5_000)),
        rejected: BOTH,
    },
    Mutation {
        name: "bit of a record in a partial bundle",
        apply: |s| s.change("tile/entries/002.p/88", |c| flip(c, 300)),
        rejected: BOTH,
    },
    Mutation {
        name: "length of a record",
        apply: |s| s.change("tile/entries/001", |c| flip(c, 1)),
        rejected: BOTH,
    },
    Mutation {
        name: "length past the end of the bundle",
        apply: |s| s.change("tile/entries/001", |c| c.fill(0xFF)),
        rejected: BOTH,
    },
    Mutation {
        name: "two records exchanged",
        apply: |s| s.change("tile/entries/000", |c| c.rotate_left(RECORD_BYTES + 2)),
        rejected: BOTH,
    },
    Mutation {
        name: "full bundle cut",
        apply: |s| s.change("tile/entries/000", |c| c.truncate(10_000)),
        rejected: BOTH,
    },
    Mutation {
        name: "full bundle without its last record",
        apply: |s| s.change("tile/entries/000", |c| c.truncate(255 * (RECORD_BYTES + 2))),
        rejected: BOTH,
    },
    Mutation {
        name: "full bundle removed",
        apply: |s| remove(s, "tile/entries/001"),
        rejected: BOTH,
    },
    Mutation {
        name: "partial bundle removed",
        apply: |s| remove(s, "tile/entries/002.p/88"),
        rejected: BOTH,
    },
    Mutation {
        name: "bundles exchanged",
        apply: |s| exchange(s, "tile/entries/000", "tile/entries/001"),
        rejected: BOTH,
    },
    Mutation {
        name: "record added to a full bundle",
        apply: |s| s.change("tile/entries/000", |c| c.extend([0, 1, 7])),
        rejected: [false, true],
    },
    Mutation {
        name: "bit of a leaf hash in a full tile",
        apply: |s| s.change("tile/0/001", |c| flip(c, 40)),
        rejected: BOTH,
    },
    Mutation {
        name: "bit of a leaf hash in a partial tile",
        apply: |s| s.change("tile/0/002.p/88", |c| flip(c, 40)),
        rejected: BOTH,
    },
    Mutation {
        name: "bit of a hash of the upper level",
        apply: |s| s.change("tile/1/000.p/2", |c| flip(c, 40)),
        rejected: BOTH,
    },
    Mutation {
        name: "full tile cut",
        apply: |s| s.change("tile/0/000", |c| c.truncate(8_160)),
        rejected: BOTH,
    },
    Mutation {
        name: "full tile removed",
        apply: |s| remove(s, "tile/0/000"),
        rejected: BOTH,
    },
    Mutation {
        name: "tiles exchanged",
        apply: |s| exchange(s, "tile/0/000", "tile/0/001"),
        rejected: BOTH,
    },
    Mutation {
        name: "hash added to a partial tile",
        apply: |s| s.change("tile/0/002.p/88", |c| c.extend([7; 32])),
        rejected: [false, true],
    },
    Mutation {
        name: "bit of the signature",
        apply: |s| {
            s.change("checkpoint", |c| {
                let at = c.len() - 20;
                flip(c, at);
            });
        },
        rejected: BOTH,
    },
    Mutation {
        name: "bit of the signature's base64 that carries nothing",
        apply: |s| {
            s.change("checkpoint", |c| {
                let at = c.len() - 3;
                // The last letter has four bits of data, then two zero bits, which the next letter
                // changes.
                if let Some(letter) = c.get_mut(at) {
                    *letter += 1;
                }
            });
        },
        rejected: [false, false],
    },
    Mutation {
        name: "checkpoint removed",
        apply: |s| remove(s, "checkpoint"),
        rejected: BOTH,
    },
    Mutation {
        name: "checkpoint cut",
        apply: |s| s.change("checkpoint", |c| c.truncate(60)),
        rejected: BOTH,
    },
    Mutation {
        name: "checkpoint of another root",
        apply: |s| s.write_checkpoint(&s.key, ORIGIN, 600, Hash::new([7; 32])),
        rejected: BOTH,
    },
    Mutation {
        name: "checkpoint of another origin",
        apply: |s| s.write_checkpoint(&s.key, "example.com/other", 600, s.writer.root()),
        rejected: BOTH,
    },
    Mutation {
        name: "checkpoint by another key of the same name",
        apply: |s| s.write_checkpoint(&other_key(), ORIGIN, 600, s.writer.root()),
        rejected: BOTH,
    },
];

fn other_key() -> SigningKey {
    SigningKey::from_seed(ORIGIN, &[10; 32]).expect("a key name")
}

fn remove(stream: &Stream, path: &str) {
    fs::remove_file(stream.folder.join(path)).expect("the file to remove is there");
}

fn exchange(stream: &Stream, one: &str, other: &str) {
    let content = fs::read(stream.folder.join(one)).expect("the file to exchange is there");
    fs::copy(stream.folder.join(other), stream.folder.join(one)).expect("a file");
    fs::write(stream.folder.join(other), content).expect("a file");
}

#[test]
fn every_change_they_can_see_is_rejected() {
    let verifiers = Verifiers::built();
    let mut wrong = String::new();
    for mutation in MUTATIONS {
        let folder = tempfile::tempdir().expect("a folder");
        let mut stream = Stream::new(folder.path());
        stream.grow(600);
        (mutation.apply)(&stream);
        let verdicts = verifiers.both(&stream.folder, 600);
        if verdicts.each_ref().map(|verdict| !verdict.is_accepted()) != mutation.rejected {
            writeln!(wrong, "{}: {verdicts:?}", mutation.name).expect("memory");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
#[ignore = "writes 4 GB and takes minutes; docs/foreign-verifiers.md has the command"]
fn sizes_around_the_fourth_tile_level_are_accepted() {
    let verifiers = Verifiers::built();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut stream = Stream::new(folder.path());
    for size in [16_777_215, 16_777_217] {
        stream.grow(size);
        let verdicts = verifiers.both(&stream.folder, size);
        assert_eq!(verdicts, [Verdict::Accepted, Verdict::Accepted], "{size}");
    }
}
