//! Coordinates, paths, bundles, growth and restoring.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;
use crate::proof::{consistency_proof, inclusion_proof, verify_consistency, verify_inclusion};
use crate::tree::{Frontier, leaf_hash, root_of};

type Files = BTreeMap<String, Vec<u8>>;

fn leaf(index: u64) -> Vec<u8> {
    format!("leaf {index}").into_bytes()
}

fn store(files: &mut Files, taken: TreeFiles) {
    for folder in taken.obsolete {
        files.retain(|path, _| !path.starts_with(&format!("{folder}/")));
    }
    for file in taken.write {
        let before = files.insert(file.path.clone(), file.bytes.clone());
        assert!(
            before.is_none_or(|before| before == file.bytes),
            "{} changed",
            file.path
        );
    }
}

fn read(files: &Files) -> impl FnMut(&str) -> Result<Option<Vec<u8>>, Infallible> {
    |path| Ok(files.get(path).cloned())
}

#[test]
fn paths_are_those_of_the_specification() {
    let cases = [
        ((0, 0, 256), "tile/0/000"),
        ((0, 273, 112), "tile/0/273.p/112"),
        ((1, 1, 17), "tile/1/001.p/17"),
        ((2, 0, 1), "tile/2/000.p/1"),
        ((0, 1_234_067, 256), "tile/0/x001/x234/067"),
        ((0, 1_000, 1), "tile/0/x001/000.p/1"),
        ((63, 0, 255), "tile/63/000.p/255"),
        (
            (0, u64::MAX / 256, 256),
            "tile/0/x072/x057/x594/x037/x927/935",
        ),
    ];
    for ((level, index, width), path) in cases {
        let tile = Tile::new(level, index, width).unwrap();
        assert_eq!(tile.path(), path);
        assert_eq!(Tile::parse(path), Ok(tile));
    }
    let bundle = Bundle::new(1_234_067, 9).unwrap();
    assert_eq!(bundle.path(), "tile/entries/x001/x234/067.p/9");
    assert_eq!(Bundle::parse(&bundle.path()), Ok(bundle));
}

#[test]
fn every_other_spelling_of_a_path_is_refused() {
    let bad = [
        "",
        "tile",
        "tile/0",
        "tile/0/",
        "tile/0/0",
        "tile/00/000",
        "tile/64/000",
        "tile/256/000",
        "tile/-1/000",
        "tile/+1/000",
        "tile/0/0000",
        "tile/0/x000/001",
        "tile/0/001/002",
        "tile/0/x001",
        "tile/0/x001/x002",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/0/000.p/",
        "tile/0/000.p",
        "tile/0/000.p/1/",
        "/tile/0/000",
        "tile/0/000 ",
        "tile/0/x999/x999/x999/x999/x999/x999/999",
        "tile/63/001",
        "tile/8/001",
        "tile/0/00\u{661}",
        "tile/entries/000",
        "tile/0/x072/x057/x594/x037/x927/936",
    ];
    for path in bad {
        assert!(Tile::parse(path).is_err(), "{path}");
    }
    for path in [
        "tile/entries/0",
        "tile/entries/000.p/256",
        "tile/0/000",
        "tile/entries/x000/000",
    ] {
        assert!(Bundle::parse(path).is_err(), "{path}");
    }
}

#[test]
fn a_tree_of_70000_leaves_has_the_tiles_of_the_specification() {
    let tiles: Vec<Tile> = tiles_grown(0, 70_000).collect();
    let count = |level| tiles.iter().filter(|tile| tile.level() == level).count();
    assert_eq!((count(0), count(1), count(2), count(3)), (274, 2, 1, 0));
    let partial: Vec<String> = tiles
        .iter()
        .filter(|tile| !tile.is_full())
        .map(|tile| tile.path())
        .collect();
    assert_eq!(
        partial,
        ["tile/0/273.p/112", "tile/1/001.p/17", "tile/2/000.p/1"]
    );
    let of_256: Vec<String> = tiles_grown(0, 256).map(Tile::path).collect();
    assert_eq!(of_256, ["tile/0/000", "tile/1/000.p/1"]);
    assert_eq!(bundles_grown(0, 70_000).count(), 274);
    assert_eq!(
        tiles_grown(70_000, 70_000).count() + bundles_grown(5, 4).count(),
        0
    );
}

#[test]
fn coordinates_hold_around_the_fourth_level() {
    let paths = |old, new| tiles_grown(old, new).map(Tile::path).collect::<Vec<_>>();
    assert_eq!(
        paths(16_777_215, 16_777_217),
        [
            "tile/0/x065/535",
            "tile/0/x065/536.p/1",
            "tile/1/255",
            "tile/2/000",
            "tile/3/000.p/1"
        ]
    );
    assert_eq!(Tile::of_tree(1, 255, 16_777_215), Tile::new(1, 255, 255));
    assert_eq!(Tile::of_tree(3, 0, 16_777_215), None);
    assert_eq!(Tile::of_tree(7, 0, u64::MAX), Tile::new(7, 0, 255));
    assert_eq!(Tile::of_tree(8, 0, u64::MAX), None);
}

#[test]
fn bundles_round_trip_and_refuse_every_truncation() {
    let leaves: [&[u8]; 3] = [b"", b"abc", &[7; 65_535]];
    let bytes = encode_bundle(leaves).unwrap();
    assert_eq!(decode_bundle(&bytes, 3).unwrap(), leaves);
    assert!(decode_bundle(&bytes, 2).is_err());
    assert!(decode_bundle(&bytes, 4).is_err());
    for end in (0..10).chain([bytes.len() - 1]) {
        assert!(decode_bundle(&bytes[..end], 3).is_err(), "{end}");
    }
    assert!(encode_bundle([&[0; 65_536][..]]).is_err());
}

#[test]
fn every_published_size_has_its_files_and_can_be_restored() {
    let mut files = Files::new();
    let mut writer = TreeWriter::new();
    let mut frontier = Frontier::new();
    let sizes = [
        0, 1, 2, 255, 256, 257, 300, 511, 512, 1_000, 65_535, 65_536, 65_537, 70_000,
    ];
    for size in sizes {
        while writer.size() < size {
            let leaf = leaf(writer.size());
            frontier.push(leaf_hash(&leaf));
            assert_eq!(writer.append(&leaf), Ok(frontier.size() - 1));
        }
        assert_eq!(writer.root(), frontier.root());
        store(&mut files, writer.take_files());
        assert_eq!(
            writer.take_files(),
            TreeFiles::default(),
            "nothing is given twice"
        );
        for tile in tiles_grown(0, size) {
            assert!(files.contains_key(&tile.path()), "{tile} at {size}");
        }
        let restored = TreeWriter::restore(size, read(&files)).unwrap();
        assert_eq!((restored.size(), restored.root()), (size, frontier.root()));
        writer = restored;
    }
    // Only the partials at the right edge remain: tiles of three levels and one bundle.
    assert_eq!(files.keys().filter(|path| path.contains(".p/")).count(), 4);
}

#[test]
fn a_tree_is_restored_from_full_files_where_its_partials_are_gone() {
    let mut files = Files::new();
    let mut writer = TreeWriter::new();
    for index in 0..256 {
        writer.append(&leaf(index)).unwrap();
    }
    store(&mut files, writer.take_files());
    let restored = TreeWriter::restore(200, read(&files)).unwrap();
    let hashes: Vec<Hash> = (0..200).map(|index| leaf_hash(&leaf(index))).collect();
    assert_eq!(restored.root(), root_of(&hashes));
    let mut regrown = restored;
    for index in 200..256 {
        regrown.append(&leaf(index)).unwrap();
    }
    store(&mut files, regrown.take_files());
    assert_eq!(regrown.root(), writer.root());
}

#[test]
fn damage_at_the_right_edge_is_named_when_restoring() {
    let mut files = Files::new();
    let mut writer = TreeWriter::new();
    for index in 0..300 {
        writer.append(&leaf(index)).unwrap();
    }
    store(&mut files, writer.take_files());
    for path in ["tile/0/001.p/44", "tile/1/000.p/1", "tile/entries/001.p/44"] {
        let mut missing = files.clone();
        missing.remove(path);
        assert!(
            TreeWriter::restore(300, read(&missing)).is_err(),
            "{path} missing"
        );
        let mut short = files.clone();
        short.get_mut(path).unwrap().pop();
        assert!(
            TreeWriter::restore(300, read(&short)).is_err(),
            "{path} short"
        );
        let mut flipped = files.clone();
        flipped.get_mut(path).unwrap()[3] ^= 1;
        let root = TreeWriter::restore(300, read(&flipped)).map(|restored| restored.root());
        assert!(root.is_err() || root != Ok(writer.root()), "{path} flipped");
    }
}

#[test]
fn a_leaf_that_is_too_long_changes_nothing() {
    let mut writer = TreeWriter::new();
    writer.append(b"one").unwrap();
    let (size, root) = (writer.size(), writer.root());
    assert!(writer.append(&[0; 65_536]).is_err());
    assert_eq!((writer.size(), writer.root()), (size, root));
    assert_eq!(writer.append(&[0; 65_535]), Ok(1));
}

#[test]
fn proofs_from_tiles_verify_at_every_boundary() {
    let mut files = Files::new();
    let mut writer = TreeWriter::new();
    let mut roots = BTreeMap::from([(0, writer.root())]);
    let sizes = [
        1, 2, 3, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, 70_000,
    ];
    for size in sizes {
        while writer.size() < size {
            writer.append(&leaf(writer.size())).unwrap();
        }
        roots.insert(size, writer.root());
    }
    store(&mut files, writer.take_files());
    let mut tiles = TileReader::new(70_000, read(&files));
    for (size, root) in roots.iter().skip(1) {
        for index in [0, 1, 254, 255, 256, 511, 512, 65_535, 65_536, size - 1] {
            let proof = inclusion_proof(index, *size, |level, node| tiles.node(level, node));
            if index >= *size {
                assert!(proof.is_err());
                continue;
            }
            let hash = leaf_hash(&leaf(index));
            assert_eq!(
                verify_inclusion(hash, index, *size, &proof.unwrap(), root),
                Ok(())
            );
        }
        for (old, old_root) in roots.range(..=size) {
            let proof = consistency_proof(*old, *size, |level, node| tiles.node(level, node));
            assert_eq!(
                verify_consistency(*old, *size, old_root, root, &proof.unwrap()),
                Ok(())
            );
        }
    }
}
