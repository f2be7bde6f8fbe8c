//! A loss of power that took a page and left one behind it, as a disk may that writes in any order.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "the files of a device are changed behind its back"
)]

use std::fs;
use std::path::Path;

use probity_pocketdb::flash::{FileFlash, PAGE_BYTES};
use probity_pocketdb::secure::FileStore;
use probity_pocketdb::{Extent, Store};

use crate::pair::Kept;

const MEMORY: usize = 65_536;
const STORE_BYTES: usize = 1 << 20;
const BLOCK: usize = 64 * PAGE_BYTES;
/// Far more operations than a whole reorganisation takes.
const OPERATIONS: u64 = 100_000;

type FileDatabase = Store<FileFlash, FileStore>;

fn opened(folder: &Path) -> FileDatabase {
    let flash = FileFlash::open(&folder.join("chip"), false).unwrap();
    let secure = FileStore::open(&folder.join("root"), STORE_BYTES).unwrap();
    Store::open(flash, secure, MEMORY).unwrap()
}

fn filled(folder: &Path) {
    let flash = FileFlash::create(&folder.join("chip"), 200, false).unwrap();
    let secure = FileStore::create(&folder.join("root"), STORE_BYTES).unwrap();
    let mut store = Store::create(flash, secure, &[7; 32], MEMORY).unwrap();
    let mut run = |text: &str| store.execute(text, &[], &mut Kept::default()).unwrap();
    run("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER INDEXED, name TEXT(40) INDEXED)");
    run("BEGIN");
    for number in 0..3_000 {
        let n = number * 7_919 % 997;
        run(&format!(
            "INSERT INTO t (n, name) VALUES ({n}, 'name {number}')"
        ));
    }
    run("COMMIT");
    store.close().unwrap();
}

/// Writes to `chip` what was programmed since `before`, without the first page in each block.
fn lose_first_pages(chip: &Path, before: &[u8]) -> usize {
    let mut after = fs::read(chip).unwrap();
    let blank = [0xFF; PAGE_BYTES];
    let erased = |at: usize| {
        before
            .get(at..at + PAGE_BYTES)
            .is_none_or(|it| *it == blank)
    };
    let mut lost = 0;
    // The head before the first block is one page.
    for block in (PAGE_BYTES..after.len()).step_by(BLOCK) {
        let mut pages = (block..after.len().min(block + BLOCK)).step_by(PAGE_BYTES);
        let is_new = |at: &usize| erased(*at) && after[*at..*at + PAGE_BYTES] != blank;
        let first = pages.find(is_new);
        if let Some(at) = first.filter(|_| pages.next().is_some()) {
            after[at..at + PAGE_BYTES].fill(0xFF);
            lost += 1;
        }
    }
    fs::write(chip, after).unwrap();
    lost
}

/// The task that met such a page began again in the same place, for good, and wrote all the while.
#[test]
fn a_reorganisation_goes_on_behind_a_page_that_outlived_one_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base");
    fs::create_dir(&base).unwrap();
    filled(&base);
    let mut gaps = 0;
    for tasks in 1..20 {
        let place = folder.path().join(format!("{tasks}"));
        fs::create_dir(&place).unwrap();
        let files = ["chip", "root"].map(|name| place.join(name));
        for (file, name) in files.iter().zip(["chip", "root"]) {
            fs::copy(base.join(name), file).unwrap();
        }
        let mut store = opened(&place);
        let progress = store.reorganize(Extent::Whole, tasks, OPERATIONS).unwrap();
        store.close().unwrap();
        if progress.finished {
            break;
        }
        let mut store = opened(&place);
        // An opening makes its numbers final before it programs anything, here a page of this query.
        let before = store.counters();
        let sorted = "SELECT name FROM t ORDER BY name";
        store.execute(sorted, &[], &mut Kept::default()).unwrap();
        assert!(store.counters().flash.programs > before.flash.programs);
        let [chip, root] = [0, 1].map(|file: usize| fs::read(&files[file]).unwrap());
        store.reorganize(Extent::Whole, 1, OPERATIONS).unwrap();
        drop(store);
        gaps += lose_first_pages(&files[0], &chip);
        fs::write(&files[1], root).unwrap();
        let mut store = opened(&place);
        let progress = store
            .reorganize(Extent::Whole, u32::MAX, OPERATIONS)
            .unwrap();
        assert!(progress.finished, "{tasks}: {progress:?}");
        let mut kept = Kept::default();
        let sql = "SELECT id FROM t WHERE n >= 0 AND name >= 'name'";
        store.execute(sql, &[], &mut kept).unwrap();
        assert_eq!(kept.rows.len(), 3_000, "{tasks}");
    }
    assert!(gaps > 3, "{gaps}");
}
