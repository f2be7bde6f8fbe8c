//! Writes stream directories of given sizes, for verifiers we did not write: `stream_directory FOLDER SIZE...`.

#![expect(
    clippy::disallowed_methods,
    reason = "a tool for tests writes files of its own"
)]

use std::error::Error;
use std::fs;
use std::path::Path;

use probity_format::checkpoint::Checkpoint;
use probity_format::note::{Signer as _, SigningKey};
use probity_format::record::RECORD_BYTES;
use probity_format::tile::TreeWriter;

const ORIGIN: &str = "foreign.example/streams/default";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: stream_directory FOLDER SIZE...")?;
    for size in arguments {
        write(&Path::new(&folder).join(&size), size.parse()?)?;
    }
    Ok(())
}

/// Writes a tree of `size` leaves as long as frame records, published once at half its size.
fn write(folder: &Path, size: u64) -> Result<(), Box<dyn Error>> {
    let key = SigningKey::from_seed(ORIGIN, &[7; 32])?;
    let mut tree = TreeWriter::new();
    let mut state = size | 1;
    fs::create_dir_all(folder)?;
    for index in 0..size {
        let mut leaf = [0; RECORD_BYTES];
        for byte in &mut leaf {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(index | 1);
            *byte = state.to_le_bytes()[7];
        }
        tree.append(&leaf)?;
        if index == size / 2 {
            place(folder, &mut tree)?;
        }
    }
    place(folder, &mut tree)?;
    let note = Checkpoint::new(ORIGIN, tree.size(), tree.root())?.sign(&[&key])?;
    fs::write(folder.join("checkpoint"), note)?;
    fs::write(folder.join("log.vkey"), key.verifier_key().encode() + "\n")?;
    Ok(())
}

fn place(folder: &Path, tree: &mut TreeWriter) -> Result<(), Box<dyn Error>> {
    for file in tree.take_files().write {
        let path = folder.join(file.path);
        fs::create_dir_all(path.parent().ok_or("a tile has a folder")?)?;
        fs::write(path, file.bytes)?;
    }
    Ok(())
}
