//! Credentials that people keep: passwords, tokens, shares, and keys of either suite.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use probity_log::storage::SmallDisk;

use crate::place::{APPLY, Place, prepared};

#[test]
fn a_password_and_its_token_open_the_same_and_a_new_key_replaces_both() {
    let place = prepared();
    let applied = place.json(
        &["disguise", "apply", "--spec", "leave.toml", "--user", "19"],
        0,
    );
    let id = applied["id"].as_str().unwrap();
    for file in ["19.pw", "19.token"] {
        let listed = place.json(
            &["disguise", "list", "--user", "19", "--credential", file],
            0,
        );
        assert_eq!(listed["disguises"][0]["id"], id);
    }
    let rekey = [
        "disguise",
        "rekey",
        "--user",
        "19",
        "--credential",
        "19.token",
        "--new-key",
    ];
    let (_, said) = place.run(&[&rekey[..], &["--credential-out", "new.key"]].concat(), 0);
    let ended = "earlier keys, passwords, tokens and shares of 19 no longer work\n";
    assert_eq!(said, format!("{NO_ENTRY}{ended}"));
    for file in ["19.pw", "19.token"] {
        let reveal = [
            "disguise",
            "reveal",
            "--id",
            id,
            "--user",
            "19",
            "--credential",
            file,
        ];
        let (_, stderr) = place.run(&reveal, 1);
        assert!(stderr.contains("the credential does not fit"), "{stderr}");
    }
    place.json(
        &["disguise", "reveal", "--id", id, "--credential", "new.key"],
        0,
    );
    assert!(place.rows().concat().contains("Bea"));
}

/// The note of a change without a log.
const NO_ENTRY: &str =
    "warning: this operation leaves no entry; name the log that takes one with --log DIR\n";

/// A password of five characters, which alone opens what is hidden, was taken without a word. It is
/// taken with a warning that does not repeat it.
#[test]
fn a_short_password_is_taken_with_a_warning() {
    let place = prepared();
    let rekey = |password: &str, old: &str, token: &str| {
        fs::write(place.path("new.pw"), format!("{password}\n")).unwrap();
        let args = [
            "disguise",
            "rekey",
            "--user",
            "19",
            "--credential",
            old,
            "--password-file",
            "new.pw",
            "--credential-out",
            token,
        ];
        place.run(&args, 0).1
    };
    let said = rekey("short", "19.token", "second.token");
    assert!(
        said.contains("warning: the password has fewer than 12 characters"),
        "{said}"
    );
    assert!(!said.contains("short"), "{said}");
    assert!(
        said.contains("earlier passwords, tokens and shares of 19 no longer work"),
        "{said}"
    );
    let said = rekey("twelve chars", "second.token", "third.token");
    assert!(!said.contains("fewer than"), "{said}");
}

/// Places without room: standard output, and a file where a disk can be mounted.
struct Full {
    _disk: Option<SmallDisk>,
    file: Option<String>,
}

impl Full {
    fn new() -> Self {
        let disk = SmallDisk::mounted("a credential on a full disk", 64 << 10);
        let file = disk.as_ref().map(|disk| {
            let mut filling = fs::File::create(disk.path().join("filling")).unwrap();
            while filling.write_all(&[1; 512]).is_ok() {}
            disk.path().join("new").display().to_string()
        });
        Self { _disk: disk, file }
    }

    fn refuses(&self, place: &Place, args: &[&str]) {
        for form in [&[][..], &["--json"]] {
            let mut command = place.command(&[args, form].concat());
            let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
            let output = command.stdout(full).output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{stderr}");
            assert!(
                stderr.contains("cannot write to standard output"),
                "{stderr}"
            );
        }
        if let Some(full) = &self.file {
            let (_, stderr) = place.run(&[args, &["--credential-out", full]].concat(), 1);
            assert!(stderr.contains("No space left on device"), "{stderr}");
            assert!(!Path::new(full).exists());
        }
    }
}

/// M4: on a full disk everything was forgotten, and no receipt of it was ever to be had.
#[test]
fn nothing_is_forgotten_where_its_receipt_has_no_room() {
    let full = Full::new();
    let Some(receipt) = &full.file else {
        return;
    };
    let place = prepared();
    place.run(&APPLY, 0);
    let key = [
        "disguise",
        "receipt-key",
        "receipts.key",
        "--name",
        "receipts",
    ];
    place.run(&key, 0);
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    let forget = [&["disguise", "forget", "--everything"], &holder[..]].concat();
    let with = |receipt| {
        [
            &forget[..],
            &["--receipt-key", "receipts.key", "--receipt", receipt],
        ]
        .concat()
    };
    let (_, stderr) = place.run(&with(receipt), 1);
    assert!(!stderr.contains("forgotten for good"), "{stderr}");
    let listed = place.json(&[&["disguise", "list"], &holder[..]].concat(), 0);
    assert_eq!(listed["disguises"].as_array().unwrap().len(), 1, "{listed}");
    place.run(&with("19.receipt"), 0);
    let receipt = fs::read(place.path("19.receipt")).unwrap();
    assert!(!receipt.contains(&0) && receipt.len() < 1000);
}

/// A `rekey` without the file of the new password asked for `--new-key` alone, which voids the password
/// and the shares. It names all three, and what that one voids; nothing is changed.
#[test]
fn a_rekey_that_names_nothing_new_is_not_led_to_a_new_key() {
    let place = Place::sqlite();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    let credential = ["--user", "19", "--credential-out", "19.key"];
    place.run(&[&["disguise", "register"][..], &credential].concat(), 0);
    let rekey = [
        "disguise",
        "rekey",
        "--user",
        "19",
        "--credential",
        "19.key",
    ];
    let (out, said) = place.run(&rekey, 2);
    assert!(out.is_empty(), "{out}");
    let words = [
        "--password-file FILE",
        "--share-out FILE",
        "--new-key",
        "no longer work",
    ];
    let places: Option<Vec<usize>> = words.iter().map(|word| said.find(word)).collect();
    assert!(places.is_some_and(|places| places.is_sorted()), "{said}");
    place.run(
        &["disguise", "list", "--user", "19", "--credential", "19.key"],
        0,
    );
}

/// V10: a new key went to its file, or to standard output, only after everything was sealed under
/// it. It was lost where there was no room. Nobody is registered or sealed under a key that was not
/// written.
#[test]
fn a_credential_that_cannot_be_written_changes_nothing() {
    let place = Place::sqlite();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    let register = ["disguise", "register", "--user", "19"];
    let rekey = [
        "disguise",
        "rekey",
        "--user",
        "19",
        "--credential",
        "19.key",
    ];
    let new_key = [&rekey[..], &["--new-key"]].concat();
    let token = [
        &rekey[..],
        &["--share-out", "a", "--share-out", "b", "--share-out"],
    ]
    .concat();
    let full = Full::new();
    let refused = |args: &[&str]| full.refuses(&place, args);
    refused(&register);
    place.run(
        &[&register[..], &["--credential-out", "19.key"]].concat(),
        0,
    );
    place.run(
        &["disguise", "apply", "--spec", "leave.toml", "--user", "19"],
        0,
    );
    refused(&new_key);
    if let Some(full) = &full.file {
        place.run(&[&token[..], &[full]].concat(), 1);
        for share in ["a", "b"] {
            assert!(!place.path(share).exists());
        }
    }
    let list = ["disguise", "list", "--user", "19", "--credential", "19.key"];
    assert_eq!(
        place.json(&list, 0)["disguises"].as_array().unwrap().len(),
        1
    );
    // A registration refused for another reason leaves no file, either.
    place.run(
        &[&register[..], &["--credential-out", "again.key"]].concat(),
        1,
    );
    assert!(!place.path("again.key").exists());
    // On standard output, the document is whole and the key fits.
    let made = place.json(&new_key, 0);
    let line = made["credential"].as_str().unwrap();
    fs::write(place.path("new.key"), line).unwrap();
    let list = [
        "disguise",
        "list",
        "--user",
        "19",
        "--credential",
        "new.key",
    ];
    assert_eq!(
        place.json(&list, 0)["disguises"].as_array().unwrap().len(),
        1
    );
    place.run(
        &["disguise", "list", "--user", "19", "--credential", "19.key"],
        1,
    );
}

#[test]
fn two_of_three_shares_open_and_fewer_or_other_ones_do_not() {
    let place = Place::sqlite();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    let outs = |name: &str| -> Vec<String> {
        let files = ["a", "b", "c"].map(|it| format!("{name}.{it}"));
        files
            .iter()
            .flat_map(|file| ["--share-out".to_owned(), file.clone()])
            .collect()
    };
    for user in ["19", "20"] {
        let outs = outs(user);
        let mut register = vec!["disguise", "register", "--user", user, "--log", "audit"];
        register.extend(outs.iter().map(String::as_str));
        let (stdout, _) = place.run(&register, 0);
        assert!(
            stdout.starts_with(&format!("the credential of {user} is in {user}.a, ")),
            "{stdout}"
        );
        // One file too few: no file is left behind, and nobody is registered.
        let few = [&register[..4], &["--share-out", "x"]].concat();
        place.run(&few, 2);
        assert!(!place.path("x").exists());
    }
    let id = place.json(&APPLY, 0)["id"].as_str().unwrap().to_owned();
    let reveal = |files: &[&str], status| {
        let mut args = vec!["disguise", "reveal", "--id", &id, "--user", "19"];
        args.extend(["--log", "audit"]);
        for file in files {
            args.extend(["--credential", file]);
        }
        place.run(&args, status).1
    };
    assert!(reveal(&["19.a"], 2).contains("two are needed"));
    reveal(&["19.a", "19.b", "19.c"], 2);
    for (first, second) in [("19.a", "20.b"), ("19.b", "19.b"), ("20.a", "20.b")] {
        let stderr = reveal(&[first, second], 1);
        assert!(stderr.contains("the credential does not fit"), "{stderr}");
    }
    reveal(&["19.c", "19.a"], 0);
    assert!(place.rows().concat().contains("Bea"));
}

#[test]
fn a_person_with_a_hybrid_key_leaves_returns_and_changes_the_suite() {
    let place = Place::sqlite();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    let register = [
        "disguise",
        "register",
        "--spec",
        "leave.toml",
        "--user",
        "19",
    ];
    let (_, stderr) = place.run(&[&register[..], &["--suite", "kyber"]].concat(), 2);
    assert!(stderr.contains("suite kyber is not known"), "{stderr}");
    let hybrid = ["--suite", "x-wing", "--credential-out", "19.key"];
    place.run(&[&register[..], &hybrid].concat(), 0);
    let key = fs::read_to_string(place.path("19.key")).unwrap();
    assert!(key.starts_with("probity-disguise-key-v2 x-wing "));
    let before = place.rows();
    let apply = ["disguise", "apply", "--spec", "leave.toml", "--user", "19"];
    let id = place.json(&apply, 0)["id"].as_str().unwrap().to_owned();
    let reveal = |key: &str, status: i32| {
        let reveal = ["disguise", "reveal", "--id", &id, "--user", "19"];
        place.run(&[&reveal[..], &["--credential", key]].concat(), status)
    };
    // Gives the same bytes the name of another suite, and of one that nobody knows.
    let plain = key.replace("v2 x-wing", "v1");
    fs::write(place.path("plain.key"), plain).unwrap();
    fs::write(place.path("odd.key"), key.replace("x-wing", "kyber")).unwrap();
    let (_, stderr) = reveal("plain.key", 1);
    assert!(stderr.contains("the credential does not fit"), "{stderr}");
    let (_, stderr) = reveal("odd.key", 1);
    assert!(stderr.contains("suite kyber is not known"), "{stderr}");
    let rekey = [
        "disguise",
        "rekey",
        "--user",
        "19",
        "--credential",
        "19.key",
    ];
    let weaker = [
        "--new-key",
        "--suite",
        "x25519",
        "--credential-out",
        "new.key",
    ];
    place.run(&[&rekey[..], &weaker].concat(), 0);
    let key = fs::read_to_string(place.path("new.key")).unwrap();
    assert!(key.starts_with("probity-disguise-key-v1 "));
    reveal("19.key", 1);
    reveal("new.key", 0);
    assert_eq!(place.rows(), before);
}

/// A password file was cut at 4,096 bytes, so that what stood behind did not count.
#[test]
fn a_credential_that_is_too_long_is_refused_and_not_cut() {
    let place = prepared();
    let register = [
        "disguise",
        "register",
        "--user",
        "20",
        "--password-file",
        "20.pw",
        "--credential-out",
        "20.token",
    ];
    fs::write(place.path("20.pw"), "a".repeat(4_097)).unwrap();
    let (_, stderr) = place.run(&register, 2);
    assert!(stderr.contains("more than 4096 bytes"), "{stderr}");
    assert!(!place.path("20.token").exists());
    fs::write(
        place.path("20.pw"),
        ["a".repeat(4_096), "\r\n".into()].concat(),
    )
    .unwrap();
    place.run(&register, 0);
    let list = ["disguise", "list", "--user", "20", "--credential", "20.pw"];
    place.run(&list, 0);
    fs::write(
        place.path("20.pw"),
        ["a".repeat(4_096), "b".into()].concat(),
    )
    .unwrap();
    place.run(&list, 2);
}

/// A file that an editor of Windows had written gave another password than the one typed, and an empty file passed for an
/// empty password: the person was denied with nothing to show why.
#[test]
fn an_editor_changes_no_password_and_an_empty_file_is_none() {
    let place = Place::sqlite();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    fs::write(place.path("editor.pw"), "\u{feff}a long password\r\n").unwrap();
    fs::write(place.path("typed.pw"), "a long password").unwrap();
    let register = [
        "disguise",
        "register",
        "--spec",
        "leave.toml",
        "--user",
        "19",
    ];
    let files = [
        "--password-file",
        "editor.pw",
        "--credential-out",
        "19.token",
    ];
    place.run(&[&register[..], &files].concat(), 0);
    place.run(
        &["disguise", "apply", "--spec", "leave.toml", "--user", "19"],
        0,
    );
    let token = fs::read_to_string(place.path("19.token")).unwrap();
    let token = format!("\u{feff}{}\r\n", token.trim_end());
    fs::write(place.path("editor.token"), token).unwrap();
    let list = [
        "disguise",
        "list",
        "--user",
        "19",
        "--log",
        "audit",
        "--credential",
    ];
    for file in ["typed.pw", "editor.pw", "19.token", "editor.token"] {
        let listed = place.json(&[&list[..], &[file]].concat(), 0);
        assert_eq!(listed["disguises"].as_array().unwrap().len(), 1, "{file}");
    }
    for empty in ["", "\n", "\u{feff}\r\n"] {
        fs::write(place.path("empty"), empty).unwrap();
        let (_, stderr) = place.run(&[&list[..], &["empty"]].concat(), 1);
        assert!(
            stderr.contains("the first line of empty is empty"),
            "{stderr}"
        );
    }
    let url = format!("\u{feff}{}\r\n", place.url);
    fs::write(place.path("url"), url).unwrap();
    let by_file = ["--db-file", "url"];
    place.run(&[&list[..], &["typed.pw"], &by_file].concat(), 0);
}

/// Rows that only the credential opens were handed out through a redirection, into a file that everybody could read.
#[test]
fn exported_rows_go_to_a_file_of_their_owner_alone() {
    let place = prepared();
    place.run(
        &["disguise", "apply", "--spec", "leave.toml", "--user", "19"],
        0,
    );
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    let export = [&["disguise", "export", "-o", "19.json"], &holder[..]].concat();
    let (stdout, _) = place.run(&export, 0);
    assert!(stdout.contains(" in 19.json"), "{stdout}");
    let mode = fs::metadata(place.path("19.json")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let carry = [
        "pocket",
        "create",
        "c",
        "--subject",
        "19",
        "--disguises",
        "19.json",
    ];
    place.run(&carry, 0);
    let (_, stderr) = place.run(&export, 1);
    assert!(stderr.contains("it is there already"), "{stderr}");
}

/// A copy of one person took the export of another, with status 0, for the file named nobody. It names its
/// person by a hash, and each copy compares that with its own person.
#[test]
fn an_export_of_another_person_is_refused_by_a_copy() {
    let place = prepared();
    fs::write(place.path("20.pw"), "another long password\n").unwrap();
    let register = ["disguise", "register", "--user", "20"];
    let out = ["--password-file", "20.pw", "--credential-out", "20.token"];
    place.run(&[&register[..], &out].concat(), 0);
    for user in ["19", "20"] {
        let of = ["--spec", "leave.toml", "--user", user];
        place.run(&[&["disguise", "apply"], &of[..]].concat(), 0);
        let (password, file) = (format!("{user}.pw"), format!("{user}.json"));
        let export = ["disguise", "export", "--user", user, "-o", &file];
        place.run(&[&export[..], &["--credential", &password]].concat(), 0);
    }
    let text = fs::read_to_string(place.path("19.json")).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["form"], 2);
    let carry = |subject: &str, more: &[&str], status| {
        let create = [
            "pocket",
            "create",
            "c",
            "--size",
            "16",
            "--subject",
            subject,
        ];
        let (stdout, stderr) = place.run(&[&create[..], more].concat(), status);
        for file in ["c", "c.root"] {
            assert_eq!(place.path(file).exists(), status == 0, "{stderr}");
            drop(fs::remove_file(place.path(file)));
        }
        (stdout, stderr)
    };
    let own = ["--disguises", "19.json"];
    let others = ["--disguises", "19.json", "--disguises", "20.json"];
    let log = ["--log", "audit"];
    let as_19 = ["--user", "19"];
    for more in [&own[..], &[&own[..], &log].concat()] {
        let (_, stderr) = carry("19", more, 0);
        assert!(!stderr.contains("does not say whose"), "{stderr}");
        carry("bea", &[more, &as_19].concat(), 0);
        let (_, stderr) = carry("bea", more, 1);
        assert!(
            stderr.contains("19.json has the rows of another person than bea")
                && stderr.contains("--user"),
            "{stderr}"
        );
        let (_, stderr) = carry("bea", &[more, &["--user", "20"]].concat(), 1);
        assert!(stderr.contains("than bea, who is 20"), "{stderr}");
    }
    let (_, stderr) = carry("19", &others, 1);
    assert!(stderr.contains("20.json has the rows"), "{stderr}");
    carry("19", &[&log[..], &as_19].concat(), 2);
    // A file of an earlier version names nobody.
    for name in ["form", "person"] {
        document.as_object_mut().unwrap().remove(name);
    }
    fs::write(place.path("earlier.json"), document.to_string()).unwrap();
    let earlier = ["--disguises", "earlier.json", "--json"];
    let (stdout, stderr) = carry("20", &earlier, 0);
    assert!(
        stderr.contains("earlier.json does not say whose rows it has")
            && stderr.contains("those of 20"),
        "{stderr}"
    );
    let created: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(created["unnamed"], serde_json::json!(["earlier.json"]));
}
