//! A database is there whole or not at all, whatever ends the program that makes it.

use std::fs;
use std::time::Duration;

use probity_disguise::Database as _;
use probity_disguise::database::Sqlite;
use rustix::process::{Pid, Signal, kill_process};

use crate::Place;

/// What was there when a signal came stayed, intact in every way but for the rows that were missing.
#[test]
fn what_a_signal_cuts_short_leaves_no_database() {
    let place = Place::new();
    let mut database = Sqlite::open(&place.path("app.db")).unwrap();
    for sql in [
        "CREATE TABLE words (id INTEGER PRIMARY KEY, word VARCHAR(40) NOT NULL)",
        "INSERT INTO words WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) SELECT i, 'word ' || i FROM n",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    drop(database);
    let (mut begun, create) = (
        0,
        [
            "pocket",
            "create",
            "v",
            "--from",
            "sqlite:app.db",
            "--size",
            "64",
        ],
    );
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        for wait in [50, 100, 200, 400, 800] {
            let mut child = place.program(&create).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(wait));
            let parts = || {
                let names = fs::read_dir(place.folder.path()).unwrap();
                let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
                names
                    .filter(|name| name.contains(".part-"))
                    .collect::<Vec<_>>()
            };
            begun += usize::from(!parts().is_empty());
            kill_process(Pid::from_child(&child), signal).unwrap();
            let ended = child.wait().unwrap();
            if ended.success() {
                // It was faster than the signal.
                place.run(&["verify", "v"], 0);
                fs::remove_file(place.path("v")).unwrap();
                fs::remove_file(place.path("v.root")).unwrap();
                continue;
            }
            assert!(!place.path("v").exists(), "{signal:?} after {wait} ms");
            assert!(!place.path("v.root").exists(), "{signal:?} after {wait} ms");
            if signal != Signal::KILL {
                assert_eq!(parts(), [""; 0], "{signal:?} after {wait} ms");
            }
            for part in parts() {
                fs::remove_file(place.path(&part)).unwrap();
            }
        }
    }
    assert!(begun > 0, "no signal came while rows were taken over");
}
