//! Files of a pocket database whose end is gone, that are pipes, or whose disk is full.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::Place;

impl Place {
    /// Runs `script` with the program as `$0` and ends it after a while: status and standard error.
    fn shell(&self, script: &str) -> (Option<i32>, String) {
        let output = Command::new("timeout")
            .args(["60", "bash", "-c", script, env!("CARGO_BIN_EXE_probity")])
            .current_dir(self.folder.path())
            .env_remove("PROBITY_POCKET_ROOT")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    }

    /// Runs `args` with the first `len` bytes of `file` in its place, which is whole again afterwards.
    fn with_beginning(&self, file: &str, len: usize, args: &[&str]) -> (Option<i32>, String) {
        let whole = fs::read(self.path(file)).unwrap();
        fs::write(self.path(file), &whole[..len]).unwrap();
        let output = self.output(args, None);
        fs::write(self.path(file), whole).unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }
}

/// H2: in a database with few commits, a root file that was cut short was an older state. `verify`
/// called it intact, `exec` went on from it, and the rows since were gone. Every cut that takes
/// something ends with status 3, whichever file it is of.
#[test]
fn no_file_whose_end_is_gone_passes_for_an_older_one() {
    let place = Place::new();
    place.run(&["create", "v", "--schema", "vault.sql", "--size", "1"], 0);
    let insert = "INSERT INTO visits VALUES (NULL, 1, 7, 'x')";
    place.run(&["exec", "v", insert], 0);
    let root = fs::read(place.path("v.root")).unwrap();
    assert!(root.len() >= 512 + 64 * 384, "{}", root.len());
    let verify = ["verify", "v"];
    for len in (1..root.len()).step_by(1_021) {
        for args in [&verify[..], &["exec", "v", insert], &["reorganize", "v"]] {
            let (status, said) = place.with_beginning("v.root", len, args);
            assert_eq!(status, Some(3), "{len} {args:?} {said}");
        }
    }
    assert_eq!(place.count("v", "visits"), json!(1));

    let chip = fs::read(place.path("v")).unwrap();
    for len in (0..chip.len()).step_by(1_777) {
        let (status, said) = place.with_beginning("v", len, &verify);
        if status != Some(3) {
            // The lost bytes were of no committed row.
            assert_eq!(status, Some(0), "{len} {said}");
            fs::copy(place.path("v.root"), place.path("w.root")).unwrap();
            fs::write(place.path("w"), &chip[..len]).unwrap();
            assert_eq!(place.count("w", "visits"), json!(1), "{len}");
        }
    }

    place.run(&["reorganize", "v"], 0);
    place.run(&["sign", "v"], 0);
    place.run(&["extract", "v", "SELECT id FROM visits", "-o", "rows"], 0);
    let checks: [(&str, &[&str]); 2] = [
        ("v.digest", &["verify", "v", "--keyless", "v.vkey"]),
        ("rows", &["check", "rows", "--key", "v.vkey"]),
    ];
    for (file, check) in checks {
        let whole = fs::read(place.path(file)).unwrap().len();
        for len in (0..whole).step_by(7).chain([whole - 1]) {
            let (status, said) = place.with_beginning(file, len, check);
            assert_eq!(status, Some(3), "{file} {len} {said}");
        }
        place.run(check, 0);
    }
}

/// A pipe beside the chip under the name of its digest or verifier key, where nobody had named one, was waited for without end. What has
/// such a name is a file, or refused.
#[test]
fn a_pipe_under_a_name_that_nobody_gave_is_refused() {
    let place = Place::filled();
    place.run(&["reorganize", "v"], 0);
    place.run(&["sign", "v"], 0);
    for name in ["v.digest", "v.vkey"] {
        let script =
            format!("mv {name} kept; mkfifo {name}; \"$0\" pocket verify v --keyless v.vkey");
        let (status, said) = place.shell(&script);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains(&format!("{name} is no file")), "{said}");
        let (status, said) = place.shell("\"$0\" pocket sign v");
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("it is there already"), "{said}");
        place.shell(&format!("mv -f kept {name}"));
    }
    // One that is named is read.
    let named = "\"$0\" pocket verify v --keyless <(cat v.vkey) --digest <(cat v.digest)";
    let (status, said) = place.shell(named);
    assert_eq!(status, Some(0), "{said}");
    let select = "SELECT id FROM visits";
    for command in ["verify v".to_owned(), format!("simulate v '{select}'")] {
        let script = format!("mv v.root kept; mkfifo v.root; \"$0\" pocket {command}");
        let (status, said) = place.shell(&script);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("v.root is no file"), "{said}");
        place.shell("mv -f kept v.root");
    }
    place.run(&["verify", "v"], 0);
}

/// On a full disk `verify` said that the secure store cannot be read or written, without the cause, and no command said what to do. All
/// name the file, the system's cause and a remedy.
#[test]
fn a_full_disk_is_named_with_its_cause_and_a_remedy() {
    let place = Place::filled();
    let insert = "exec v \"INSERT INTO visits VALUES (NULL, 1, 7, 'x')\"";
    let query = "query v 'SELECT id FROM visits WHERE day = 0'";
    // A limit of files' sizes stands for a disk without room.
    for command in ["verify v", "stats v", "reorganize v", insert, query] {
        let (status, said) = place.shell(&format!("ulimit -f 0; \"$0\" pocket {command}"));
        assert_eq!(status, Some(1), "{command} {said}");
        assert!(
            said.contains("error: cannot read or write v.root: File too large"),
            "{command} {said}"
        );
        assert!(said.contains("help: make room on the disk"), "{said}");
    }
    assert_eq!(place.count("v", "visits"), json!(300));
    // The root file has its place, and the chip grows.
    let row = |n: u32| format!("1,{n},many\n");
    let rows: String = (0..9_000).map(row).collect();
    fs::write(place.path("more.csv"), format!("doctor,day,note\n{rows}")).unwrap();
    let script = "ulimit -f 700; \"$0\" pocket import v visits more.csv --rows-per-commit 100";
    let (status, said) = place.shell(script);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("cannot read or write v: File too large"),
        "{said}"
    );
    assert!(said.contains("help: make room on the disk"), "{said}");
    place.run(&["verify", "v"], 0);
    let (status, said) =
        place.shell("ulimit -f 100; \"$0\" pocket create w --schema vault.sql; ls w* v.root");
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("w: File too large"), "{said}");
    assert!(said.contains("help: make room on the disk"), "{said}");
}

/// A root file put back from a backup, beside a chip that went on, opened as an empty, intact
/// database, and the next command wrote over the rows. Once that was refused, a reorganisation before
/// the rows hid them all the same.
#[test]
fn an_older_root_file_beside_a_newer_chip_is_refused() {
    for reorganised in [false, true] {
        refuse_older(reorganised);
    }
}

/// A backup of both files that had only been asked once no longer was an older one: its root file opened
/// the newer chip, whose rows were gone and overwritten by the next command.
#[test]
fn the_root_file_of_a_backup_that_was_asked_is_refused_beside_the_newer_chip() {
    let place = Place::new();
    place.run(&["create", "v", "--schema", "vault.sql", "--size", "2"], 0);
    let insert = "INSERT INTO doctors VALUES (NULL, 'Rossi', 1.5)";
    place.run(&["exec", "v", insert], 0);
    for (file, copy) in [("v", "b"), ("v.root", "b.root")] {
        fs::copy(place.path(file), place.path(copy)).unwrap();
    }
    place.run(&["exec", "v", insert], 0);
    fs::copy(place.path("v.root"), place.path("newest")).unwrap();
    for _ in 0..3 {
        place.run(
            &[
                "query",
                "b",
                "SELECT * FROM doctors WHERE fee > 1 ORDER BY name",
            ],
            0,
        );
        place.run(&["verify", "b"], 0);
        fs::copy(place.path("b.root"), place.path("v.root")).unwrap();
        for args in [&["verify", "v"][..], &["exec", "v", insert]] {
            let (_, said) = place.run(args, 3);
            assert!(said.contains("older than what the chip holds"), "{said}");
        }
    }
    fs::copy(place.path("newest"), place.path("v.root")).unwrap();
    assert_eq!(place.count("v", "doctors"), json!(4));
}

fn refuse_older(reorganised: bool) {
    let place = Place::new();
    place.run(&["create", "v", "--schema", "vault.sql", "--size", "2"], 0);
    let older = fs::read(place.path("v.root")).unwrap();
    let insert = "INSERT INTO doctors VALUES (NULL, 'Rossi', 1.5)";
    if reorganised {
        place.run(&["reorganize", "v"], 0);
    }
    place.run(&["exec", "v", insert], 0);
    let newest = fs::read(place.path("v.root")).unwrap();
    let chip = fs::read(place.path("v")).unwrap();

    fs::write(place.path("v.root"), older).unwrap();
    let ask = ["query", "v", "SELECT COUNT(*) FROM doctors"];
    for args in [&["verify", "v"][..], &ask, &["exec", "v", insert]] {
        let (_, said) = place.run(args, 3);
        assert!(said.contains("older than what the chip holds"), "{said}");
        assert!(said.contains("put the newest root file back"), "{said}");
    }
    assert!(
        fs::read(place.path("v")).unwrap() == chip,
        "the chip is untouched"
    );

    fs::write(place.path("v.root"), newest).unwrap();
    assert_eq!(place.count("v", "doctors"), json!(3));
    place.run(&["verify", "v"], 0);
}
