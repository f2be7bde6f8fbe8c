//! Secrets that a closed database leaves in the memory of its program.

#![cfg(all(feature = "std", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use probity_pocketdb::flash::FileFlash;
use probity_pocketdb::secure::FileStore;
use probity_pocketdb::{Heading, Row, Sink, Store};
use zeroize::Zeroizing;

/// Small enough for the heap, whose freed pieces stay in the memory of the process.
const STORE_BYTES: usize = 96 * 1024;
const MEMORY: usize = 64 * 1024;
/// Bytes that are looked for of each secret.
const PIECE: usize = 16;
/// Changes what is looked for, so that it is not found in the test itself.
const MASK: u8 = 0x5A;

/// The secrets of "Secure store" in `docs/pocketdb-format.md`: where each begins in the root file.
const SECRETS: [(&str, u64); 3] = [("store", 16), ("generation", 208), ("chain", 336)];

struct Nothing;

impl Sink for Nothing {
    fn begin(&mut self, _columns: &[Heading<'_>]) -> probity_pocketdb::Result<()> {
        Ok(())
    }

    fn row(&mut self, _row: &Row<'_>) -> probity_pocketdb::Result<()> {
        Ok(())
    }
}

fn masked(root: &Path, at: u64) -> [u8; PIECE] {
    let file = File::open(root).unwrap();
    let mut bytes = Zeroizing::new([0; PIECE]);
    file.read_exact_at(&mut *bytes, at).unwrap();
    bytes.map(|byte| byte ^ MASK)
}

/// Counts how often `wanted` stands in the memory of this process; what is read of it is read in small pieces, each overwritten.
fn count(wanted: &[u8; PIECE]) -> usize {
    const WINDOW: usize = 4096;
    let memory = File::open("/proc/self/mem").unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut window = Zeroizing::new(vec![0; WINDOW + PIECE - 1]);
    let own = window.as_ptr().addr() as u64;
    let mut found = 0;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (range, rights) = (words.next().unwrap(), words.next().unwrap());
        if !rights.starts_with("rw") {
            continue;
        }
        let (begin, end) = range.split_once('-').unwrap();
        let address = |text| u64::from_str_radix(text, 16).unwrap();
        for at in (address(begin)..address(end)).step_by(WINDOW) {
            let read = memory.read_at(&mut window, at).unwrap_or(0);
            let is_own = |place: usize| {
                let place = at + place as u64;
                (own..own + window.len() as u64).contains(&place)
            };
            let pieces = window.get(..read).unwrap().windows(PIECE).enumerate();
            let same = |piece: &[u8]| piece.iter().zip(wanted).all(|(a, b)| a ^ MASK == *b);
            found += pieces
                .take(WINDOW)
                .filter(|(place, piece)| same(piece) && !is_own(*place))
                .count();
        }
    }
    found
}

/// The root file was held in memory that was given back as it was, with the secrets of all generations in it, among them those that a
/// reorganisation destroys. Whatever held a secret is overwritten when the database is closed.
#[test]
fn nothing_of_a_secret_stays_in_memory_once_a_database_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let (chip, root) = (folder.path().join("chip"), folder.path().join("root"));
    {
        let flash = FileFlash::create(&chip, 64, false).unwrap();
        let secure = FileStore::create(&root, STORE_BYTES).unwrap();
        let given = Zeroizing::new([7; 32]);
        let mut store = Store::create(flash, secure, &given, MEMORY).unwrap();
        let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER INDEXED)";
        store.execute(sql, &[], &mut Nothing).unwrap();
        store.close().unwrap();
    }
    let secrets = SECRETS.map(|(name, at)| (name, masked(&root, at)));
    {
        let flash = FileFlash::open(&chip, false).unwrap();
        let secure = FileStore::open(&root, STORE_BYTES).unwrap();
        let mut store = Store::open(flash, secure, MEMORY).unwrap();
        let sql = "INSERT INTO t (n) VALUES (5)";
        store.execute(sql, &[], &mut Nothing).unwrap();
        for (name, secret) in &secrets {
            assert!(
                count(secret) > 0,
                "the {name} secret was not found while it was used"
            );
        }
        store.close().unwrap();
    }
    for (name, secret) in &secrets {
        assert_eq!(count(secret), 0, "the {name} secret is still there");
    }
}
