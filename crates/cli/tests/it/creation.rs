//! Creations that fail or meet another one: no key that somebody may use is taken away, and no file of
//! somebody else.

#![expect(clippy::disallowed_methods, reason = "a test prepares files")]

use std::fs;
use std::process::Child;

use probity_testing::program::Program;

const PROBITY: Program = Program::new(env!("CARGO_BIN_EXE_probity"));
const LINE: &str = "{\"action\":\"read\"}\n";
/// Creations at once.
const CREATIONS: usize = 6;
const ROUNDS: usize = 5;

/// A creation that failed removed the root key that it had made. Another creation had read it
/// meanwhile and ended with status 0: nothing could ever be appended to its log or read of it.
#[test]
fn a_creation_that_fails_leaves_its_root_key_to_whoever_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // Nobody makes a folder for the second copies there.
    let fails = |log: &str| {
        let mut init = PROBITY.command(at, &["init", log, "--key", "team.key"]);
        let ended = init.env("PROBITY_HEADS", "/proc/heads").output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        said
    };
    let said = fails("one");
    let told = "the new root key stays in team.key, and the next try uses it";
    assert!(said.contains(told), "{said}");
    let key = fs::read(at.join("team.key")).unwrap();
    let (said, _) = PROBITY.ends(at, &["init", "two", "--key", "team.key"], "", 0);
    assert!(said.contains("root key used: team.key"), "{said}");
    // This one did not make the key, and says nothing of it.
    let said = fails("three");
    assert!(!said.contains("root key"), "{said}");
    // A name that no log can have is refused before a key is made.
    let misnamed = ["init", "four", "--origin", "no name"];
    let (_, said) = PROBITY.ends(at, &misnamed, "", 1);
    assert!(!said.contains("root key"), "{said}");
    assert!(!at.join("four.key").exists());
    assert_eq!(fs::read(at.join("team.key")).unwrap(), key);
    PROBITY.ends(at, &["append", "two", "--key", "team.key"], LINE, 0);
}

/// Of two creations of one folder, the one that came second removed the key of the first. A key file
/// is whole as soon as it has its name, so that none reads half of one.
#[test]
fn of_many_creations_of_one_log_one_makes_it_and_its_key_opens_it() {
    for round in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let begin = |_| PROBITY.command(at, &["init", "log"]).spawn().unwrap();
        let children: Vec<Child> = (0..CREATIONS).map(begin).collect();
        let mut made = 0;
        for child in children {
            let ended = child.wait_with_output().unwrap();
            let said = String::from_utf8(ended.stderr).unwrap();
            assert!(!said.contains("is no key file"), "round {round}: {said}");
            assert!(ended.status.code() < Some(2), "round {round}: {said}");
            made += usize::from(ended.status.success());
        }
        if made == 0 {
            // Each made way for another; the key is there for the next try.
            PROBITY.ends(at, &["init", "log"], "", 0);
        }
        assert!(made <= 1, "round {round}");
        PROBITY.ends(at, &["append", "log"], LINE, 0);
        PROBITY.ends(at, &["verify", "log", "--key", "log.vkey"], "", 0);
    }
}

/// A creation in a folder of other files made a root key before it looked.
#[test]
fn a_place_with_other_files_is_refused_before_a_key_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("taken")).unwrap();
    fs::write(at.join("taken/notes"), "precious").unwrap();
    let of_proxy = ["proxy", "--log", "taken", "--init", "--store", "s"];
    let made: [&[&str]; 2] = [&["init", "taken"], &of_proxy];
    for args in made {
        let (_, said) = PROBITY.ends(at, args, "", 1);
        assert!(said.contains("taken holds other files already"), "{said}");
        assert!(!at.join("taken.key").exists(), "{args:?}");
    }
}

/// A creation, and every opening, removed files of other people whose names begin as those of
/// temporary files do.
#[test]
fn files_whose_names_only_begin_as_temporary_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for place in ["taken", "shared"] {
        fs::create_dir(at.join(place)).unwrap();
        fs::write(at.join(place).join(".tmp-notes"), "precious").unwrap();
    }
    let (_, said) = PROBITY.ends(at, &["init", "taken"], "", 1);
    assert!(said.contains("taken holds other files already"), "{said}");
    for args in [["init", "log"], ["append", "log"]] {
        let mut command = PROBITY.command(at, &args);
        command.env("PROBITY_HEADS", "shared");
        let ended = command.output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }
    assert!(at.join("shared/.tmp-notes").exists());
    assert!(at.join("taken/.tmp-notes").exists());
}

/// A link that leads nowhere, named with a slash at its end, was found only by the creation: the new
/// root key stayed behind.
#[test]
fn a_link_that_leads_nowhere_is_refused_before_a_key_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::os::unix::fs::symlink("nowhere", at.join("link")).unwrap();
    for dir in ["link", "link/"] {
        let (_, said) = PROBITY.ends(at, &["init", dir], "", 1);
        assert!(said.contains("which is no folder"), "{said}");
        assert!(!at.join("link.key").exists(), "{dir}");
    }
}
