//! Parses the encoded bytes with third-party crates, `tlog_tiles` and `signed_note`.

#![expect(
    clippy::expect_used,
    reason = "what the other implementation refuses is a failure"
)]

use std::collections::BTreeMap;
use std::convert::Infallible;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use probity_format::checkpoint::Checkpoint;
use probity_format::note::{SignedNote, Signer as _, SigningKey, VerifierKey};
use probity_format::proof::{
    consistency_proof, inclusion_proof, verify_consistency, verify_inclusion,
};
use probity_format::tile::{Tile, TileReader, TreeWriter, tiles_grown};
use probity_format::tree::{Hash, leaf_hash};
use signed_note::{Note, StandardSigner, StandardVerifier, VerifierList};
use tlog_tiles::{Error, HashReader as _, TileHashReader};

const ORIGIN: &str = "example.com/compared";
const SEED: [u8; 32] = [42; 32];
const SIZES: [u64; 12] = [
    0, 1, 2, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, 70_000,
];

fn leaf(index: u64) -> Vec<u8> {
    format!("leaf {index}").into_bytes()
}

fn theirs(hash: &Hash) -> tlog_tiles::Hash {
    tlog_tiles::Hash(*hash.as_bytes())
}

/// A tree of this crate: its files, and its root at each of [`SIZES`].
struct Tree {
    files: BTreeMap<String, Vec<u8>>,
    roots: BTreeMap<u64, Hash>,
}

impl Tree {
    fn grow() -> Self {
        let mut writer = TreeWriter::new();
        let (mut files, mut roots) = (BTreeMap::new(), BTreeMap::new());
        for size in SIZES {
            while writer.size() < size {
                writer.append(&leaf(writer.size())).expect("a short leaf");
            }
            let taken = writer.take_files();
            files.extend(taken.write.into_iter().map(|file| (file.path, file.bytes)));
            roots.insert(size, writer.root());
        }
        Self { files, roots }
    }
}

/// Removes the height of tiles from the other implementation's path; tlog-tiles paths have none.
fn path_without_height(tile: &tlog_tiles::Tile) -> String {
    tile.path().replacen("tile/8/", "tile/", 1)
}

impl tlog_tiles::TileReader for Tree {
    fn height(&self) -> u8 {
        8
    }

    fn read_tiles(&self, tiles: &[tlog_tiles::Tile]) -> Result<Vec<Vec<u8>>, Error> {
        let read = |tile: &tlog_tiles::Tile| {
            let path = path_without_height(tile);
            self.files.get(&path).cloned().ok_or(Error::InvalidTile)
        };
        tiles.iter().map(read).collect()
    }

    fn save_tiles(&self, _tiles: &[tlog_tiles::Tile], _data: &[Vec<u8>]) {}
}

#[test]
fn their_reader_authenticates_our_tiles_and_finds_our_leaves() {
    let tree = Tree::grow();
    for (size, root) in tree.roots.iter().filter(|(size, _)| **size > 0) {
        let reader = TileHashReader::new(*size, theirs(root), &tree);
        let indices: Vec<u64> = (0..*size).step_by(251).chain([size - 1]).collect();
        let stored: Vec<u64> = indices
            .iter()
            .map(|index| tlog_tiles::stored_hash_index(0, *index))
            .collect();
        let hashes = reader
            .read_hashes(&stored)
            .expect("our tiles are authentic");
        for (index, hash) in indices.iter().zip(hashes) {
            assert_eq!(hash, theirs(&leaf_hash(&leaf(*index))), "{index} of {size}");
        }
        let found = tlog_tiles::tree_hash(*size, &reader).expect("the tiles hold the tree");
        assert_eq!(found, theirs(root));
    }
}

#[test]
fn proofs_are_the_same_and_verify_on_either_side() {
    let tree = Tree::grow();
    for (size, root) in tree.roots.iter().filter(|(size, _)| **size > 0) {
        let reader = TileHashReader::new(*size, theirs(root), &tree);
        let read = |path: &str| Ok::<_, Infallible>(tree.files.get(path).cloned());
        let mut tiles = TileReader::new(*size, read);
        for index in [0, 1, 200, 255, 256, 40_000, size - 1]
            .into_iter()
            .filter(|index| index < size)
        {
            let path = inclusion_proof(index, *size, |level, node| tiles.node(level, node))
                .expect("our tiles hold the proof");
            let their_path: Vec<tlog_tiles::Hash> = path.iter().map(theirs).collect();
            let proof = tlog_tiles::prove_record(*size, index, &reader).expect("as above");
            assert_eq!(proof, their_path);
            let hash = leaf_hash(&leaf(index));
            assert_eq!(verify_inclusion(hash, index, *size, &path, root), Ok(()));
            tlog_tiles::check_record(&proof, *size, theirs(root), index, theirs(&hash))
                .expect("they accept what we accept");
        }
        for (old, old_root) in tree.roots.range(1..=*size) {
            let path = consistency_proof(*old, *size, |level, node| tiles.node(level, node))
                .expect("our tiles hold the proof");
            let their_path: Vec<tlog_tiles::Hash> = path.iter().map(theirs).collect();
            let proof = tlog_tiles::prove_tree(*size, *old, &reader).expect("as above");
            assert_eq!(proof, their_path, "{old} to {size}");
            assert_eq!(
                verify_consistency(*old, *size, old_root, root, &path),
                Ok(())
            );
        }
    }
}

#[test]
fn the_same_tiles_are_new_when_a_tree_grows() {
    let sizes = SIZES.into_iter().chain([16_777_215, 16_777_217]);
    for old in sizes.clone() {
        for new in sizes.clone().filter(|new| *new >= old) {
            let mut ours: Vec<String> = tiles_grown(old, new).map(Tile::path).collect();
            let mut others: Vec<String> = tlog_tiles::Tile::new_tiles(8, old, new)
                .iter()
                .map(path_without_height)
                .collect();
            ours.sort_unstable();
            others.sort_unstable();
            assert_eq!(ours, others, "{old} to {new}");
        }
    }
}

fn their_key(vkey: &VerifierKey) -> VerifierList {
    let verifier = StandardVerifier::new(&vkey.encode()).expect("our key in text form");
    VerifierList::new(vec![Box::new(verifier)])
}

#[test]
fn they_open_our_checkpoints_and_we_open_theirs() {
    let key = SigningKey::from_seed(ORIGIN, &SEED).expect("a key name");
    let checkpoint = Checkpoint::new(ORIGIN, 7, leaf_hash(b"root")).expect("a checkpoint");
    let ours = checkpoint.sign(&[&key]).expect("signing");
    let note = Note::from_bytes(ours.as_bytes()).expect("a note");
    let (verified, unverified) = note
        .verify(&their_key(key.verifier_key()))
        .expect("they accept our signature");
    assert_eq!((verified.len(), unverified.len()), (1, 0));
    let read = tlog_tiles::Checkpoint::from_bytes(note.text()).expect("a checkpoint");
    assert_eq!((read.origin(), read.size()), (ORIGIN, 7));
    assert_eq!(*read.hash(), theirs(checkpoint.root()));

    let secret: Vec<u8> = [1].into_iter().chain(SEED).collect();
    let id = key.verifier_key().id();
    let text = format!("PRIVATE+KEY+{ORIGIN}+{id:08x}+{}", STANDARD.encode(secret));
    let signer = StandardSigner::new(&text).expect("the same key in their text form");
    let mut note = Note::new(checkpoint.encode().as_bytes(), &[]).expect("a text");
    note.add_sigs(&[&signer]).expect("signing");
    assert_eq!(
        note.to_bytes(),
        ours.as_bytes(),
        "Ed25519 has one signature for one text"
    );
    let keys = [key.verifier_key().clone()];
    assert_eq!(Checkpoint::open(&note.to_bytes(), &keys), Ok(checkpoint));
}

#[test]
fn no_flipped_bit_of_a_checkpoint_is_accepted_by_either() {
    let key = SigningKey::from_seed(ORIGIN, &SEED).expect("a key name");
    let checkpoint = Checkpoint::new(ORIGIN, 7, leaf_hash(b"root")).expect("a checkpoint");
    let signed = checkpoint.sign(&[&key]).expect("signing").into_bytes();
    let keys = [key.verifier_key().clone()];
    let known = their_key(key.verifier_key());
    for place in 0..signed.len() * 8 {
        let mut flipped = signed.clone();
        if let Some(byte) = flipped.get_mut(place / 8) {
            *byte ^= 1 << (place % 8);
        }
        assert!(Checkpoint::open(&flipped, &keys).is_err(), "bit {place}");
        let accepted = Note::from_bytes(&flipped).is_ok_and(|note| note.verify(&known).is_ok());
        assert!(!accepted, "bit {place} passes the other implementation");
        // A note that both parsers accept has the same text in both.
        let (ours, others) = (SignedNote::parse(&flipped), Note::from_bytes(&flipped));
        if let (Ok(ours), Ok(others)) = (ours, others) {
            assert_eq!(ours.text().as_bytes(), others.text());
        }
    }
}
