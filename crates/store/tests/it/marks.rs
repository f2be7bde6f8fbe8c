//! A writer of the folder without the key cannot pass the store off as another. The mark is proven
//! before any file is touched, and files that do not fit it are refused by name.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and damages files"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use probity_store::{Command, Commands, OpenError, Options, Store, SubjectOf};

const MARK: &str = "probity-store.toml";
const CLEAR_MARK: &str = "version = 1\n";
/// A store of version 1, its file alone: as runs of bytes that are not zero, each behind its place and length.
const CLEAR: &[u8] = include_bytes!("../../testdata/unsealed-store.runs");
/// A store of version 3.
const UNBOUND: &[u8] = include_bytes!("../../testdata/unbound-store.runs");
const UNBOUND_SLOTS: &[u8] = include_bytes!("../../testdata/unbound-store.subjects.runs");
const UNBOUND_MARK: &str = include_str!("../../testdata/unbound-store.toml");
const UNBOUND_KEY: &str = include_str!("../../testdata/unbound-store.key");

fn bytes_of(runs: &[u8]) -> Vec<u8> {
    let (length, mut runs) = runs.split_first_chunk::<4>().unwrap();
    let mut bytes = vec![0; usize::try_from(u32::from_be_bytes(*length)).unwrap()];
    while let Some((head, rest)) = runs.split_first_chunk::<6>() {
        let place = usize::try_from(u32::from_be_bytes(head[..4].try_into().unwrap())).unwrap();
        let length = usize::from(u16::from_be_bytes(head[4..].try_into().unwrap()));
        let (run, after) = rest.split_at(length);
        bytes[place..place + length].copy_from_slice(run);
        runs = after;
    }
    bytes
}

fn options() -> Options {
    Options {
        subject_of: SubjectOf::new(|key| Some(key.strip_prefix(b"user:7:")?.to_vec())),
        ..Options::default()
    }
}

fn ask(store: &Store, lines: &[&str]) -> String {
    let mut commands = Commands::default();
    for line in lines {
        let mut command = Command::default();
        line.split(' ')
            .for_each(|word| command.push(word.as_bytes()));
        commands.push(command);
    }
    let (mut client, mut replies) = (store.client(), Vec::new());
    while !commands.is_empty() {
        let (sender, receiver) = channel();
        store.ask(client, commands, move |answer| {
            drop(sender.send(answer));
        });
        let answer = receiver.recv().unwrap().unwrap();
        replies.extend_from_slice(&answer.bytes);
        (client, commands) = (answer.client, answer.rest);
    }
    String::from_utf8(replies).unwrap()
}

/// A closed store that holds something, in `folder/data`.
fn stored(folder: &Path, lines: &[&str]) -> PathBuf {
    let path = folder.join("data");
    let store = Store::open(&path, options()).unwrap();
    ask(&store, lines);
    store.close().unwrap();
    path
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|it| it.unwrap().path());
    let read = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
    paths.filter(|path| path.is_file()).map(read).collect()
}

/// Expects a refusal that touches no file, and gives it.
fn refused(path: &Path) -> OpenError {
    let before = (files(path), files(path.parent().unwrap()));
    let error = Store::open(path, options()).unwrap_err();
    let after = (files(path), files(path.parent().unwrap()));
    assert!(before == after, "{error}");
    assert!(error.to_string().contains("nothing was changed"), "{error}");
    error
}

fn change_mark(path: &Path, change: impl Fn(&str) -> String) {
    let text = fs::read_to_string(path.join(MARK)).unwrap();
    let changed = change(&text);
    assert_ne!(text, changed);
    fs::write(path.join(MARK), changed).unwrap();
}

const LINES: [&str; 3] = ["SET user:7:iban genuine", "SET plain z", "HSET h f v"];

/// A forged mark of version 1 and a file in clear were served, and the genuine data was
/// overwritten. A sealed file or a key of the store beside them has them refused.
#[test]
fn a_file_in_clear_never_takes_the_place_of_a_sealed_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = stored(folder.path(), &LINES);
    let mark = fs::read(path.join(MARK)).unwrap();
    fs::write(path.join("store.redb"), bytes_of(CLEAR)).unwrap();
    fs::write(path.join(MARK), CLEAR_MARK).unwrap();
    assert!(matches!(refused(&path), OpenError::Newer { .. }));
    let trusting = Options {
        is_clear_trusted: true,
        ..options()
    };
    let error = Store::open(&path, trusting.clone()).unwrap_err();
    assert!(matches!(error, OpenError::Newer { .. }), "whoever asks");
    // The genuine files are taken away: the key tells that they were there.
    let aside = folder.path().join("aside");
    fs::create_dir(&aside).unwrap();
    for name in ["store.1.sealed", "store.1.subjects"] {
        fs::rename(path.join(name), aside.join(name)).unwrap();
    }
    assert!(matches!(refused(&path), OpenError::Clear { .. }));
    fs::remove_file(path.join("store.redb")).unwrap();
    assert!(matches!(refused(&path), OpenError::Clear { .. }));
    for name in ["store.1.sealed", "store.1.subjects"] {
        fs::rename(aside.join(name), path.join(name)).unwrap();
    }
    fs::write(path.join(MARK), mark).unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(ask(&store, &["GET user:7:iban"]), "$7\r\ngenuine\r\n");
    store.close().unwrap();
    // A store of version 1 beside a key, converted because its owner says so.
    let clear = folder.path().join("clear");
    fs::create_dir(&clear).unwrap();
    fs::write(clear.join("store.redb"), bytes_of(CLEAR)).unwrap();
    fs::write(clear.join(MARK), CLEAR_MARK).unwrap();
    fs::copy(
        folder.path().join("data.key"),
        folder.path().join("clear.key"),
    )
    .unwrap();
    assert!(matches!(refused(&clear), OpenError::Clear { .. }));
    let store = Store::open(&clear, trusting).unwrap();
    assert_eq!(
        ask(&store, &["GET user:7:marker-key"]),
        "$12\r\nmarker-short\r\n"
    );
}

/// A mark cut to its first lines was taken for one of a store that never held anything, and the data was truncated: one
/// damaged text file destroyed everything. However a mark is damaged, it is named, and its own bytes put back open all.
#[test]
fn a_damaged_mark_is_named_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = stored(folder.path(), &LINES);
    let mark = fs::read(path.join(MARK)).unwrap();
    // Without its last line end and quote it says the same.
    for length in 0..mark.len() - 2 {
        fs::write(path.join(MARK), &mark[..length]).unwrap();
        let error = refused(&path).to_string();
        assert!(
            error.contains(MARK) || error.contains("data.key"),
            "{length}: {error}"
        );
    }
    for index in 0..mark.len() {
        let mut changed = mark.clone();
        changed[index] ^= 4;
        fs::write(path.join(MARK), &changed).unwrap();
        let opened = Store::open(&path, options());
        // The comment says nothing to the program.
        let is_comment = index < mark.iter().position(|byte| *byte == b'\n').unwrap();
        if let Ok(store) = opened {
            assert!(is_comment, "{index}");
            assert_eq!(ask(&store, &["DBSIZE"]), ":3\r\n");
        }
    }
    for wrong in [
        &b"version = 3\n"[..],
        b"version = 2\n",
        b"version = 0\n",
        b"version = 5\n",
        b"\xff",
        &[0; 5000],
    ] {
        fs::write(path.join(MARK), wrong).unwrap();
        let error = refused(&path);
        let named = matches!(error, OpenError::Mark { .. } | OpenError::Newer { .. });
        assert!(named, "{error}");
    }
    fs::write(path.join(MARK), [&mark[..], b"version = 5\n"].concat()).unwrap();
    assert!(
        matches!(refused(&path), OpenError::Mark { .. }),
        "a line twice"
    );
    fs::remove_file(path.join(MARK)).unwrap();
    assert!(matches!(refused(&path), OpenError::Mark { .. }));
    fs::create_dir(path.join(MARK)).unwrap();
    assert!(matches!(refused(&path), OpenError::Mark { .. }));
    fs::remove_dir(path.join(MARK)).unwrap();
    fs::write(path.join(MARK), mark).unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(ask(&store, &["DBSIZE", "GET plain"]), ":3\r\n$1\r\nz\r\n");
}

/// The mark said version 2 of a store that was written as version 3: it was "converted", each key got another name, and the
/// file before was removed. The key in the mark opens now for the version and the generation alone for which it was sealed.
#[test]
fn a_store_is_taken_for_no_other_version_and_no_other_generation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = Store::open(&path, Options::default()).unwrap();
    ask(&store, &LINES);
    store.rewrite().unwrap();
    store.close().unwrap();
    let mark = fs::read(path.join(MARK)).unwrap();
    for version in ["1", "2", "3", "4"] {
        let changed = format!("version = {version}");
        change_mark(&path, |text| text.replace("version = 5", &changed));
        let error = refused(&path);
        assert!(matches!(error, OpenError::Mark { .. }), "{error}");
        fs::write(path.join(MARK), &mark).unwrap();
    }
    // Nor with the file away that tells a store of version 3 from one of version 2.
    let slots = path.join("store.2.subjects");
    let subjects = fs::read(&slots).unwrap();
    fs::remove_file(&slots).unwrap();
    change_mark(&path, |text| text.replace("version = 5", "version = 2"));
    assert!(matches!(refused(&path), OpenError::WrongKey(_)));
    fs::write(&slots, subjects).unwrap();
    fs::write(path.join(MARK), &mark).unwrap();
    for kind in ["sealed", "subjects"] {
        let names = [2, 3].map(|it| path.join(format!("store.{it}.{kind}")));
        fs::rename(&names[0], &names[1]).unwrap();
    }
    assert!(matches!(refused(&path), OpenError::Newer { .. }));
    change_mark(&path, |text| {
        text.replace("generation = 2", "generation = 3")
    });
    let error = refused(&path);
    assert!(matches!(error, OpenError::Mark { .. }), "{error}");
}

/// The folder of a store of version 3, whose mark is bound to nothing.
fn unbound(folder: &Path) -> PathBuf {
    let path = folder.join("data");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("store.1.sealed"), bytes_of(UNBOUND)).unwrap();
    fs::write(path.join("store.1.subjects"), bytes_of(UNBOUND_SLOTS)).unwrap();
    fs::write(path.join(MARK), UNBOUND_MARK).unwrap();
    fs::write(folder.join("data.key"), UNBOUND_KEY).unwrap();
    path
}

/// A store of version 3 is bound when it is opened, whole; until then what it holds tells it from one of version 2.
#[test]
fn a_store_whose_mark_was_bound_to_nothing_is_converted_whole_and_as_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = unbound(folder.path());
    change_mark(&path, |text| text.replace("version = 3", "version = 2"));
    assert!(matches!(refused(&path), OpenError::Mark { .. }));
    // Without the keys of subjects the tables tell.
    let slots = fs::read(path.join("store.1.subjects")).unwrap();
    fs::remove_file(path.join("store.1.subjects")).unwrap();
    let error = Store::open(&path, options()).unwrap_err();
    assert!(matches!(error, OpenError::Mark { .. }), "{error}");
    fs::write(path.join("store.1.subjects"), slots).unwrap();
    fs::write(path.join(MARK), UNBOUND_MARK).unwrap();
    for _ in 0..2 {
        let store = Store::open(&path, options()).unwrap();
        let lines = ["DBSIZE", "GET user:7:marker-key", "LRANGE list:marker 0 -1"];
        let expected = ":7\r\n$12\r\nmarker-short\r\n*2\r\n$11\r\nmarker-item\r\n$5\r\nother\r\n";
        assert_eq!(ask(&store, &lines), expected);
        store.close().unwrap();
        let names: Vec<_> = files(&path).into_keys().collect();
        let names: Vec<_> = names.iter().map(|it| it.file_name().unwrap()).collect();
        assert_eq!(names, [MARK, "store.2.sealed", "store.2.subjects"]);
    }
    // The mark of before opens nothing any more.
    fs::write(path.join(MARK), UNBOUND_MARK).unwrap();
    assert!(matches!(refused(&path), OpenError::Newer { .. }));
}

/// A key beside an empty folder says that there was a store: it was begun anew without a word.
#[test]
fn a_key_without_its_store_begins_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = stored(folder.path(), &LINES);
    for name in files(&path).keys() {
        fs::remove_file(name).unwrap();
    }
    assert!(matches!(refused(&path), OpenError::NoStore { .. }));
    fs::write(path.join(MARK), "version = 3\n").unwrap();
    assert!(matches!(refused(&path), OpenError::NoStore { .. }));
    fs::remove_file(path.join(MARK)).unwrap();
    // A key that its owner names may be older than the store.
    let named = Options {
        key_file: Some(folder.path().join("data.key")),
        ..options()
    };
    assert_eq!(
        ask(&Store::open(&path, named).unwrap(), &["DBSIZE"]),
        ":0\r\n"
    );
}

/// The database takes a file of no length for one that it is to begin, and its header is in clear: a store whose file was cut
/// to nothing, or whose header named no table, was empty and said nothing. One that was cut shorter, or gone, was called an error
/// of the disk, without advice.
#[test]
fn data_that_was_cut_to_nothing_is_damage_and_no_empty_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = stored(folder.path(), &LINES);
    let data = path.join("store.1.sealed");
    let whole = fs::read(&data).unwrap();
    let empty = stored(&folder.path().join("other"), &[]);
    let other = fs::read(empty.join("store.1.sealed")).unwrap();
    let is_damage = || {
        let error = Store::open(&path, options()).unwrap_err();
        assert!(matches!(error, OpenError::Data { .. }), "{error}");
        assert!(error.to_string().contains("from a backup"));
    };
    let cut = whole.len() - 1;
    for bytes in [
        &[][..],
        &whole[..4096],
        &whole[..4097],
        &other,
        &whole[..cut],
        &whole[..cut / 2],
    ] {
        fs::write(&data, bytes).unwrap();
        is_damage();
    }
    // Nor is what the mark names the name of something else, or of nothing, an error of the disk.
    fs::remove_file(&data).unwrap();
    is_damage();
    fs::create_dir(&data).unwrap();
    is_damage();
    fs::remove_dir(&data).unwrap();
    fs::write(&data, whole).unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(ask(&store, &["DBSIZE"]), ":3\r\n");
}

/// Files that the store makes anew, or overwrites before it removes them, were followed where they were links. None of
/// them leads anywhere now.
#[test]
fn no_link_in_the_folder_leads_to_a_file_that_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = stored(folder.path(), &LINES);
    let store = Store::open(&path, options()).unwrap();
    store.rewrite().unwrap();
    store.close().unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let names = [
        "store.1.sealed",
        "store.2.sealed.new",
        "store.3.sealed.new",
        "store.3.subjects.new",
        "store.redb",
        "probity-store.toml.new",
    ];
    for name in names {
        symlink(&victim, path.join(name)).unwrap();
    }
    let store = Store::open(&path, options()).unwrap();
    for name in &names[2..] {
        symlink(&victim, path.join(name)).unwrap();
    }
    store.rewrite().unwrap();
    assert_eq!(ask(&store, &["DBSIZE"]), ":3\r\n");
    store.close().unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    for name in names {
        assert!(path.join(name).symlink_metadata().is_err(), "{name}");
    }
}

/// A process can be killed between any two steps by which a store comes to be, or goes on in other files: what it leaves opens
/// as the store before or the one after, and nothing that is half made is taken for data.
#[test]
fn what_a_kill_leaves_of_new_files_opens_as_the_store_before_or_after() {
    let folder = tempfile::tempdir().unwrap();
    let path = stored(folder.path(), &LINES);
    let (kept_bytes, key) = (
        files(&path),
        fs::read(folder.path().join("data.key")).unwrap(),
    );
    let names = [MARK, "store.1.sealed", "store.1.subjects"];
    for renamed in 0..8_u8 {
        let case = folder.path().join(format!("case{renamed}"));
        fs::create_dir_all(case.join("data")).unwrap();
        // Of a new store: the mark in force, the others under their own names or the ones before.
        for (number, name) in names.iter().enumerate() {
            let is_new = number > 0 && renamed & (1 << (number - 1)) != 0;
            let ending = if is_new { ".new" } else { "" };
            let to = case.join("data").join(format!("{name}{ending}"));
            fs::write(to, &kept_bytes[&path.join(name)]).unwrap();
        }
        let ending = if renamed & 4 == 0 { "" } else { ".new" };
        fs::write(case.join(format!("data.key{ending}")), &key).unwrap();
        let store = Store::open(&case.join("data"), options()).unwrap();
        assert_eq!(
            ask(&store, &["DBSIZE", "GET user:7:iban"]),
            ":3\r\n$7\r\ngenuine\r\n"
        );
        store.close().unwrap();
        assert!(!case.join("data.key.new").exists());
        let left: Vec<_> = files(&case.join("data")).into_keys().collect();
        assert_eq!(left.len(), 3, "{left:?}");
    }
    // Before the first mark: the store is begun.
    let case = folder.path().join("before");
    fs::create_dir_all(case.join("data")).unwrap();
    for name in names {
        let half = &kept_bytes[&path.join(name)];
        let to = case.join("data").join(format!("{name}.new"));
        fs::write(to, &half[..half.len() / 2]).unwrap();
    }
    fs::write(case.join("data.key.new"), "half").unwrap();
    let store = Store::open(&case.join("data"), options()).unwrap();
    assert_eq!(ask(&store, &["DBSIZE"]), ":0\r\n");
    store.close().unwrap();
    assert!(case.join("data.key").exists() && !case.join("data.key.new").exists());
    // Nothing proves that the others were no store's.
    let kept = |name: &str| fs::read(case.join(format!("{name}.new.kept.1"))).unwrap();
    assert_eq!(kept("data.key"), b"half");
    for name in names {
        let half = &kept_bytes[&path.join(name)];
        assert_eq!(kept(&format!("data/{name}")), half[..half.len() / 2]);
    }
    let store = Store::open(&case.join("data"), options()).unwrap();
    store.rewrite().unwrap();
    store.close().unwrap();
    assert_eq!(kept("data.key"), b"half");
    assert_eq!(files(&case.join("data")).len(), 6);
}

/// A thief renamed the files of a store to names that end in `.new` and took the mark, or renamed it too: the program said that
/// there was no store, and the start that it advised, or any with `--store-key`, removed them. They are refused by name.
#[test]
fn files_whose_mark_is_gone_are_removed_under_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = stored(folder.path(), &LINES);
    for generation in [1, 2] {
        let (data, slots) = (
            format!("store.{generation}.sealed"),
            format!("store.{generation}.subjects"),
        );
        let key = folder.path().join("data.key");
        let named = Options {
            key_file: Some(folder.path().join("data.key")),
            ..options()
        };
        let whole = files(&path);
        let to_half = |name: &str| {
            let half = path.join(format!("{name}.new"));
            fs::rename(path.join(name), half).unwrap();
        };
        for renamed in [
            &[data.as_str()][..],
            &[&data, &slots],
            &[MARK, &data, &slots],
            &[MARK],
        ] {
            for name in renamed {
                to_half(name);
            }
            for bare in [None, Some("version = 3\n")] {
                fs::remove_file(path.join(MARK)).unwrap_or_default();
                if let Some(bare) = bare {
                    fs::write(path.join(MARK), bare).unwrap();
                }
                let error = refused(&path);
                let is_refused = matches!(
                    error,
                    OpenError::Unnamed { .. } | OpenError::Mark { .. } | OpenError::Newer { .. }
                );
                assert!(is_refused, "{error}");
                Store::open(&path, named.clone()).unwrap_err();
                if generation > 1 {
                    // Nor does it help to take the key away.
                    let away = folder.path().join("away");
                    fs::rename(&key, &away).unwrap();
                    refused(&path);
                    fs::rename(&away, &key).unwrap();
                }
            }
            for name in files(&path).keys() {
                fs::remove_file(name).unwrap();
            }
            for (name, bytes) in &whole {
                fs::write(name, bytes).unwrap();
            }
        }
        // One of a generation that no crash leaves beside this mark.
        fs::write(path.join("store.9.sealed.new"), "of a newer store").unwrap();
        assert!(matches!(refused(&path), OpenError::Newer { .. }));
        fs::remove_file(path.join("store.9.sealed.new")).unwrap();
        let store = Store::open(&path, options()).unwrap();
        assert_eq!(ask(&store, &["DBSIZE"]), ":3\r\n");
        store.rewrite().unwrap();
        store.close().unwrap();
    }
}

/// A link under the name of an older generation led to another's file, which the opening overwrote
/// with zeros. Its name alone is removed.
#[test]
fn no_link_under_the_name_of_an_older_file_costs_what_it_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = stored(folder.path(), &["SET plain there"]);
    let foreign = folder.path().join("evidence");
    fs::write(&foreign, "of somebody else").unwrap();
    fs::hard_link(&foreign, path.join("store.0.sealed")).unwrap();
    symlink(&foreign, path.join("store.0.subjects")).unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert!(ask(&store, &["GET plain"]).contains("there"));
    drop(store);
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "of somebody else");
    assert!(path.join("store.0.sealed").symlink_metadata().is_err());
}

/// A pipe in the place of the key had the proxy wait without a word, and one under the name of a file of the store did so where the
/// key in the mark did not open. Nothing but plain files is read.
#[test]
fn a_pipe_in_the_place_of_a_file_is_waited_for_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = stored(folder.path(), &LINES);
    let pipe = |at: &Path| {
        let made = std::process::Command::new("mkfifo")
            .arg(at)
            .status()
            .unwrap();
        assert!(made.success());
    };
    let key = folder.path().join("data.key");
    let away = folder.path().join("away");
    fs::rename(&key, &away).unwrap();
    pipe(&key);
    let error = Store::open(&path, options()).unwrap_err();
    assert!(matches!(error, OpenError::NoKey { .. }), "{error}");
    fs::remove_file(&key).unwrap();
    fs::rename(&away, &key).unwrap();
    let mark = fs::read(path.join(MARK)).unwrap();
    change_mark(&path, |text| text.replace("version = 5", "version = 3"));
    pipe(&path.join("store.0.sealed"));
    let error = Store::open(&path, options()).unwrap_err();
    assert!(matches!(error, OpenError::Mark { .. }), "{error}");
    fs::write(path.join(MARK), &mark).unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(ask(&store, &["DBSIZE"]), ":3\r\n");
    pipe(&path.join("store.1.sealed.new"));
    fs::remove_file(path.join(MARK)).unwrap();
    pipe(&path.join(MARK));
    store.rewrite().unwrap_err();
    fs::remove_file(path.join(MARK)).unwrap();
    fs::write(path.join(MARK), mark).unwrap();
    store.rewrite().unwrap();
    assert_eq!(ask(&store, &["DBSIZE"]), ":3\r\n");
}
