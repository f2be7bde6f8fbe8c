//! Tiles and bundles beyond the signed part: no opening leaves them to be found as damage once the
//! tree has grown past them.

use std::fs;
use std::path::Path;

use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, Options, StreamName};

use crate::{DEFAULT, append, closed, copy_folder, frames, intact, killed, options, root};

/// Bytes of a hash in a tile, and of a record in a bundle with its length.
const HASH_BYTES: usize = 32;
/// Hashes of a full tile.
const FULL: usize = 256;

/// Frames that the checkpoint of `stream` covers.
fn covered(path: &Path, stream: &str) -> usize {
    let note = fs::read_to_string(path.join(format!("streams/{stream}/checkpoint"))).unwrap();
    note.lines().nth(1).unwrap().parse().unwrap()
}

/// Appends `count` entries in an opening of its own, which one publication covers.
fn grow(path: &Path, count: usize, options: Options) {
    let log = Log::open(path, &root(), options).unwrap();
    for number in 0..count {
        append(&log, &StreamName::default(), &number.to_string());
    }
    log.close().unwrap();
}

/// A tile or bundle that begins with the signed part and goes on with other bytes is no fault: a
/// crash leaves one that is longer than the checkpoint. The next publication kept it, and an honest
/// log was broken for good.
#[test]
fn what_goes_beyond_the_checkpoint_is_gone_before_the_tree_grows_past_it() {
    let folder = tempfile::tempdir().unwrap();
    let honest = closed(folder.path());
    for stream in ["default", "journal", "heads"] {
        for kind in ["wider", "full", "folder"] {
            let base = folder.path().join(format!("{stream}-{kind}"));
            let path = base.join("log");
            copy_folder(&honest, &path);
            copy_folder(&honest.with_file_name("log.heads"), &base.join("log.heads"));
            let size = covered(&path, stream);
            for (level, length) in [("0", HASH_BYTES), ("entries", 2)] {
                let tiles = path.join(format!("streams/{stream}/tile/{level}"));
                let partial = tiles.join("000.p");
                let signed = fs::read(partial.join(size.to_string())).unwrap();
                let widened = |width: usize| {
                    let mut bytes = signed.clone();
                    bytes.resize(signed.len() + (width - size) * length, 0);
                    bytes
                };
                match kind {
                    "wider" => {
                        for width in size + 1..size + 12 {
                            fs::write(partial.join(width.to_string()), widened(width)).unwrap();
                        }
                    }
                    "full" => {
                        fs::remove_dir_all(&partial).unwrap();
                        fs::write(tiles.join("000"), widened(FULL)).unwrap();
                    }
                    _ => fs::create_dir(tiles.join("001")).unwrap(),
                }
            }
            intact(&path);
            for count in [0, 2, 9] {
                grow(&path, count, options());
                intact(&path);
            }
            let left = path.join(format!("streams/{stream}/tile/0"));
            assert!(!left.join("000").exists() && !left.join("001").exists());
        }
    }
}

/// A publisher died between its tiles and its second copy, the disk lost the frames, and their loss
/// was accepted as advised. The tiles stayed, and the honest log was broken for good once it grew
/// past them in one publication.
#[test]
fn tiles_of_frames_that_were_given_up_break_nothing_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let published = folder.path().join("log");
    assert!(covered(&published, "default") > covered(&path, "default"));
    let tiles = "streams/default/tile";
    fs::remove_dir_all(path.join(tiles)).unwrap();
    copy_folder(&published.join(tiles), &path.join(tiles));
    let whole = fs::read(path.join(DEFAULT)).unwrap();
    let (offset, _) = frames(&path.join(DEFAULT))[3];
    fs::write(path.join(DEFAULT), &whole[..offset]).unwrap();
    Log::open(&path, &root(), options()).unwrap_err();
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    grow(&path, 0, accepting);
    intact(&path);
    grow(&path, 9, options());
    intact(&path);
}

/// Changes one bit of a file.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[0] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// An opening reported that it rebuilds the tree from the segments, and wrote the wider form for
/// the next checkpoint beside the wrong one. Verification found the wrong form, as damage, until
/// one more opening compared it with the new one.
#[test]
fn a_form_that_is_wrong_is_gone_after_the_opening_that_rebuilt_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let honest = closed(folder.path());
    grow(&honest, 2, options());
    for stream in ["default", "journal", "heads"] {
        for kind in ["0", "entries"] {
            let size = covered(&honest, stream);
            let forms = honest.join(format!("streams/{stream}/tile/{kind}/000.p"));
            let names = fs::read_dir(&forms).unwrap();
            let narrower = names.map(|name| name.unwrap().file_name().into_string().unwrap());
            let narrower: Vec<String> = narrower.filter(|it| *it != size.to_string()).collect();
            assert!(!narrower.is_empty(), "{stream}");
            for wrong in [Vec::new(), narrower] {
                for count in [0, 3] {
                    let base = folder
                        .path()
                        .join(format!("{stream}-{kind}-{count}-{}", wrong.len()));
                    let path = base.join("log");
                    copy_folder(&honest, &path);
                    copy_folder(&honest.with_file_name("log.heads"), &base.join("log.heads"));
                    let forms = path.join(format!("streams/{stream}/tile/{kind}/000.p"));
                    flip(&forms.join(size.to_string()));
                    for name in &wrong {
                        flip(&forms.join(name));
                    }
                    grow(&path, count, options());
                    intact(&path);
                }
            }
        }
    }
}

/// A narrower form beside a full tile was checked by no opening, because a publication removes such
/// forms. A foreign one was damage to `verify` for good. An opening now compares it with the full
/// form, and removes it if it is no prefix of that.
#[test]
fn a_wrong_form_beside_a_full_tile_is_gone_after_an_opening() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    grow(&path, FULL, options());
    for kind in ["0", "entries"] {
        let full = path.join(format!("streams/default/tile/{kind}/000"));
        assert!(full.exists(), "{kind}");
        let forms = full.with_extension("p");
        assert!(!forms.exists(), "{kind}");
        fs::create_dir(&forms).unwrap();
        let hashes = fs::read(&full).unwrap();
        let (right, wrong) = (forms.join("4"), forms.join("5"));
        fs::write(&wrong, [7; 5 * 32]).unwrap();
        if kind == "0" {
            fs::write(&right, &hashes[..4 * 32]).unwrap();
        }
        let report = verify(&path, &VerifyOptions::default()).unwrap();
        assert_eq!(report.faults.len(), 1, "{:?}", report.faults);
        grow(&path, 0, options());
        assert!(!wrong.exists(), "{kind}");
        assert_eq!(right.exists(), kind == "0");
        intact(&path);
    }
}
