//! The formats shared with other logs: notes, checkpoints, keys, tiles, bundles, proofs.

use probity_format::checkpoint::Checkpoint;
use probity_format::note::{SignedNote, Signer as _, SigningKey, VerifierKey};
use probity_format::proof::{TlogProof, verify_consistency, verify_inclusion};
use probity_format::tile::{Bundle, Tile, decode_bundle, decode_tile, encode_bundle, encode_tile};
use probity_format::tree::{Hash, inclusion_path_of, leaf_hash, root_of};

use crate::Target;
use crate::targets::text;

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "note",
        seeds: note_seeds,
        check: check_note,
    },
    Target {
        name: "checkpoint",
        seeds: checkpoint_seeds,
        check: check_checkpoint,
    },
    Target {
        name: "verifier_key",
        seeds: key_seeds,
        check: check_key,
    },
    Target {
        name: "tile_path",
        seeds: path_seeds,
        check: check_path,
    },
    Target {
        name: "tile",
        seeds: tile_seeds,
        check: check_tile,
    },
    Target {
        name: "bundle",
        seeds: bundle_seeds,
        check: check_bundle,
    },
    Target {
        name: "proof",
        seeds: proof_seeds,
        check: check_proof,
    },
    Target {
        name: "path",
        seeds: hash_seeds,
        check: check_hashes,
    },
];

const ORIGIN: &str = "example.com/log";

fn signer() -> SigningKey {
    SigningKey::from_seed(ORIGIN, &[1; 32]).expect("the name is a key name")
}

fn leaves() -> Vec<Hash> {
    (0..7_u8).map(|leaf| leaf_hash(&[leaf])).collect()
}

fn checkpoint() -> Checkpoint {
    Checkpoint::new(ORIGIN, 7, root_of(&leaves())).expect("the parts fit")
}

fn signed() -> String {
    checkpoint()
        .sign(&[&signer()])
        .expect("the checkpoint is signed")
}

fn note_seeds() -> Vec<Vec<u8>> {
    vec![signed().into_bytes()]
}

/// A note has one form, and only its own key verifies it.
fn check_note(data: &[u8]) -> bool {
    let Ok(note) = SignedNote::parse(data) else {
        return false;
    };
    assert_eq!(note.encode().as_bytes(), data);
    let keys = [signer().verifier_key().clone()];
    if note.verify(&keys).is_ok() {
        assert_eq!(note.text(), checkpoint().encode());
    }
    if let Ok(opened) = Checkpoint::open(data, &keys) {
        assert_eq!(opened, checkpoint());
    }
    true
}

fn checkpoint_seeds() -> Vec<Vec<u8>> {
    vec![checkpoint().encode().into_bytes()]
}

fn check_checkpoint(data: &[u8]) -> bool {
    let Some(Ok(checkpoint)) = text(data).map(Checkpoint::parse) else {
        return false;
    };
    assert_eq!(checkpoint.encode().as_bytes(), data);
    true
}

fn key_seeds() -> Vec<Vec<u8>> {
    vec![signer().verifier_key().encode().into_bytes()]
}

fn check_key(data: &[u8]) -> bool {
    let Some(Ok(key)) = text(data).map(VerifierKey::parse) else {
        return false;
    };
    assert_eq!(key.encode().as_bytes(), data);
    true
}

fn path_seeds() -> Vec<Vec<u8>> {
    let tiles = [(0, 0, 256), (1, 1_234_067, 8), (5, 0, 1)];
    let mut seeds: Vec<Vec<u8>> = tiles
        .into_iter()
        .filter_map(|(level, index, width)| Tile::new(level, index, width))
        .map(|tile| tile.path().into_bytes())
        .collect();
    seeds.extend(Bundle::new(1_234_067, 9).map(|bundle| bundle.path().into_bytes()));
    seeds
}

fn check_path(data: &[u8]) -> bool {
    let Some(path) = text(data) else { return false };
    let tile = Tile::parse(path);
    let bundle = Bundle::parse(path);
    assert!(tile.is_err() || bundle.is_err());
    if let Ok(tile) = &tile {
        assert_eq!(tile.path(), path);
    }
    if let Ok(bundle) = &bundle {
        assert_eq!(bundle.path(), path);
    }
    tile.is_ok() || bundle.is_ok()
}

/// A tile and a bundle: the width in two bytes, then the file.
fn tile_seeds() -> Vec<Vec<u8>> {
    vec![[&[7, 0], encode_tile(&leaves()).as_slice()].concat()]
}

fn check_tile(data: &[u8]) -> bool {
    let Some((width, file)) = data.split_first_chunk::<2>() else {
        return false;
    };
    let Ok(hashes) = decode_tile(file, u16::from_le_bytes(*width)) else {
        return false;
    };
    assert_eq!(encode_tile(&hashes), file);
    true
}

fn bundle_seeds() -> Vec<Vec<u8>> {
    let file = encode_bundle([b"one".as_slice(), b"", b"three"]).expect("the leaves are short");
    vec![[&[3, 0], file.as_slice()].concat()]
}

fn check_bundle(data: &[u8]) -> bool {
    let Some((width, file)) = data.split_first_chunk::<2>() else {
        return false;
    };
    let Ok(leaves) = decode_bundle(file, u16::from_le_bytes(*width)) else {
        return false;
    };
    assert_eq!(encode_bundle(leaves).as_deref(), Ok(file));
    true
}

fn proof_seeds() -> Vec<Vec<u8>> {
    let mut proof = TlogProof::new(3, leaves(), signed());
    let plain = proof.encode().into_bytes();
    proof.extra = Some(b"extra".to_vec());
    vec![plain, proof.encode().into_bytes()]
}

fn check_proof(data: &[u8]) -> bool {
    let Some(Ok(proof)) = text(data).map(TlogProof::parse) else {
        return false;
    };
    assert_eq!(proof.encode().as_bytes(), data);
    true
}

/// An index, a size, and the hashes of a proof.
fn hash_seeds() -> Vec<Vec<u8>> {
    let leaves = leaves();
    let path = inclusion_path_of(&leaves, 3).expect("the leaf exists");
    vec![[&[3, 7], encode_tile(&path).as_slice()].concat()]
}

/// No hashes but the right ones show that a leaf is in the tree, and at no other index. The size
/// is bound by the checkpoint alone: every size with a tree of that shape is accepted.
fn check_hashes(data: &[u8]) -> bool {
    let Some(([index, size], rest)) = data.split_first_chunk::<2>() else {
        return false;
    };
    let width = u16::try_from(rest.len() / 32).unwrap_or(u16::MAX);
    let Ok(path) = decode_tile(rest, width) else {
        return false;
    };
    let leaves = leaves();
    let root = root_of(&leaves);
    let (index, size) = (u64::from(*index), u64::from(*size));
    let included = verify_inclusion(leaves[3], index, size, &path, &root).is_ok();
    if included {
        assert_eq!(
            Some(path.as_slice()),
            inclusion_path_of(&leaves, 3).as_deref()
        );
        assert!(index == 3 && (5..=8).contains(&size));
    }
    if verify_consistency(index, size, &leaves[0], &root, &path).is_ok() {
        assert!(index > 0 && index < size);
    }
    included
}
