//! Trees and proofs against a direct implementation of the definitions of RFC 6962.

#![expect(
    clippy::indexing_slicing,
    reason = "the definitions are written with slices"
)]

use probity_format::proof::{
    ProofError, TlogProof, consistency_proof, inclusion_proof, root_from_inclusion,
    verify_consistency, verify_inclusion,
};
use probity_format::tile::{Tile, bundles_grown, tiles_grown};
use probity_format::tree::{
    Frontier, Hash, inclusion_path_of, leaf_hash, leaf_hash_parts, node_hash, root_of,
};
use proptest::prelude::*;

/// Computes MTH of RFC 6962 section 2.1.
fn naive_root(leaves: &[Hash]) -> Hash {
    match leaves.len() {
        0 => root_of(&[]),
        1 => leaves[0],
        count => {
            let k = count.next_power_of_two() / 2;
            node_hash(&naive_root(&leaves[..k]), &naive_root(&leaves[k..]))
        }
    }
}

/// Computes PATH of RFC 6962 section 2.1.1.
fn naive_path(m: usize, leaves: &[Hash]) -> Vec<Hash> {
    let count = leaves.len();
    if count <= 1 {
        return Vec::new();
    }
    let k = count.next_power_of_two() / 2;
    let (mut path, sibling) = if m < k {
        (naive_path(m, &leaves[..k]), naive_root(&leaves[k..]))
    } else {
        (naive_path(m - k, &leaves[k..]), naive_root(&leaves[..k]))
    };
    path.push(sibling);
    path
}

/// Computes SUBPROOF of RFC 6962 section 2.1.2; `whole` is its `b`.
fn naive_subproof(m: usize, leaves: &[Hash], whole: bool) -> Vec<Hash> {
    let count = leaves.len();
    if m == count {
        return if whole {
            Vec::new()
        } else {
            vec![naive_root(leaves)]
        };
    }
    let k = count.next_power_of_two() / 2;
    let (mut path, sibling) = if m <= k {
        (
            naive_subproof(m, &leaves[..k], whole),
            naive_root(&leaves[k..]),
        )
    } else {
        (
            naive_subproof(m - k, &leaves[k..], false),
            naive_root(&leaves[..k]),
        )
    };
    path.push(sibling);
    path
}

fn leaves(count: usize) -> Vec<Hash> {
    (0..count)
        .map(|index| leaf_hash(&index.to_string().into_bytes()))
        .collect()
}

fn node(leaves: &[Hash]) -> impl FnMut(u8, u64) -> Result<Hash, ()> {
    |level, index| {
        let start = usize::try_from(index << level).map_err(|_too_large| ())?;
        // Only perfect subtrees within the tree may be requested.
        leaves
            .get(start..start + (1 << level))
            .map(root_of)
            .ok_or(())
    }
}

/// Returns a node of a tree with equal leaves: a perfect subtree depends only on its level.
fn uniform_node(level: u8) -> Hash {
    (0..level).fold(leaf_hash(b"same"), |below, _| node_hash(&below, &below))
}

fn uniform_root(size: u64) -> Hash {
    (0..64_u8)
        .filter(|level| size >> level & 1 == 1)
        .map(uniform_node)
        .reduce(|right, left| node_hash(&left, &right))
        .unwrap_or_else(|| root_of(&[]))
}

#[test]
fn every_small_tree_is_the_one_defined() {
    let leaves = leaves(130);
    for size in 0..leaves.len() {
        let tree = &leaves[..size];
        let root = root_of(tree);
        assert_eq!(root, naive_root(tree), "{size}");
        let size = size as u64;
        for index in 0..tree.len() {
            let path = naive_path(index, tree);
            assert_eq!(inclusion_path_of(tree, index).as_ref(), Some(&path));
            assert_eq!(
                inclusion_proof(index as u64, size, node(tree)).as_ref(),
                Ok(&path)
            );
            assert_eq!(
                verify_inclusion(tree[index], index as u64, size, &path, &root),
                Ok(())
            );
        }
        assert_eq!(inclusion_path_of(tree, tree.len()), None);
        assert!(inclusion_proof(size, size, node(tree)).is_err());
        for old in 1..tree.len() {
            let path = naive_subproof(old, tree, true);
            assert_eq!(
                consistency_proof(old as u64, size, node(tree)).as_ref(),
                Ok(&path)
            );
            let old_root = root_of(&tree[..old]);
            assert_eq!(
                verify_consistency(old as u64, size, &old_root, &root, &path),
                Ok(())
            );
        }
    }
}

/// Returns modified proofs: one hash changed, one removed, or one added at either end.
fn changed(path: &[Hash]) -> Vec<Vec<Hash>> {
    let mut changed = vec![[path, &[leaf_hash(b"more")]].concat()];
    changed.push([&[leaf_hash(b"more")], path].concat());
    for place in 0..path.len() {
        let mut flipped = path.to_vec();
        flipped[place] = leaf_hash(flipped[place].as_bytes());
        changed.push(flipped);
        let mut shorter = path.to_vec();
        shorter.remove(place);
        changed.push(shorter);
    }
    changed
}

#[test]
fn a_proof_of_another_length_order_or_content_is_refused() {
    let leaves = leaves(70);
    for size in 1..leaves.len() {
        let (tree, count) = (&leaves[..size], size as u64);
        let root = root_of(tree);
        for index in 0..size {
            let path = naive_path(index, tree);
            for bad in changed(&path) {
                let verdict = verify_inclusion(tree[index], index as u64, count, &bad, &root);
                assert!(verdict.is_err(), "{index} of {size}");
                if bad.len() != path.len() {
                    assert_eq!(verdict, Err(ProofError::WrongLength), "{index} of {size}");
                }
            }
        }
        for old in 1..size {
            let old_root = root_of(&tree[..old]);
            for bad in changed(&naive_subproof(old, tree, true)) {
                let verdict = verify_consistency(old as u64, count, &old_root, &root, &bad);
                assert!(verdict.is_err(), "{old} to {size}");
            }
        }
    }
}

#[test]
fn edges_of_consistency_are_decided() {
    let (empty, one, other) = (root_of(&[]), leaf_hash(b"1"), leaf_hash(b"2"));
    assert_eq!(verify_consistency(0, 0, &empty, &empty, &[]), Ok(()));
    assert_eq!(verify_consistency(0, 9, &empty, &one, &[]), Ok(()));
    assert_eq!(verify_consistency(9, 9, &one, &one, &[]), Ok(()));
    assert!(verify_consistency(0, 9, &one, &one, &[]).is_err());
    assert!(verify_consistency(0, 9, &empty, &one, &[one]).is_err());
    assert!(verify_consistency(9, 9, &one, &other, &[]).is_err());
    assert!(verify_consistency(9, 9, &one, &one, &[one]).is_err());
    assert!(verify_consistency(9, 8, &one, &one, &[]).is_err());
    assert!(verify_consistency(3, 9, &one, &one, &[]).is_err());
    assert!(verify_inclusion(one, 0, 0, &[], &one).is_err());
    assert!(verify_inclusion(one, u64::MAX, u64::MAX, &[], &one).is_err());
}

#[test]
fn proofs_hold_around_the_fourth_tile_level_and_at_the_largest_size() {
    let sizes = [
        16_777_215,
        16_777_216,
        16_777_217,
        (1 << 40) + 12_345,
        u64::MAX,
    ];
    let uniform = |level, _index| Ok::<_, ()>(uniform_node(level));
    for size in sizes {
        let root = uniform_root(size);
        for index in [0, 1, 255, 65_535, 65_536, size / 2, size - 2, size - 1] {
            let path = inclusion_proof(index, size, uniform).unwrap();
            assert!(path.len() <= 64);
            assert_eq!(
                root_from_inclusion(leaf_hash(b"same"), index, size, &path),
                Ok(root)
            );
        }
        for old in [1, 255, 256, 65_537, 16_777_214, 16_777_215, size - 1, size] {
            let path = consistency_proof(old, size, uniform).unwrap();
            let old_root = uniform_root(old);
            assert_eq!(
                verify_consistency(old, size, &old_root, &root, &path),
                Ok(())
            );
        }
    }
}

proptest! {
    #[test]
    fn roots_and_frontiers_are_those_defined(count in 0_usize..1_000) {
        let leaves = leaves(count);
        let mut frontier = Frontier::new();
        for leaf in &leaves {
            frontier.push(*leaf);
        }
        prop_assert_eq!(frontier.root(), naive_root(&leaves));
        prop_assert_eq!(root_of(&leaves), naive_root(&leaves));
    }

    #[test]
    fn a_leaf_hashes_the_same_however_it_is_cut(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        let mut start = 0;
        let mut parts = Vec::new();
        for end in ends {
            parts.push(&bytes[start..end]);
            start = end;
        }
        prop_assert_eq!(leaf_hash_parts(parts), leaf_hash(&bytes));
    }

    #[test]
    fn any_tile_reads_back_from_its_path(level in 0_u8..8, index in any::<u64>(), width in 1_u16..=256) {
        if let Some(tile) = Tile::new(level, index.checked_shr(8 * (u32::from(level) + 1)).unwrap_or(0), width) {
            prop_assert_eq!(Tile::parse(&tile.path()), Ok(tile));
        }
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in "\\PC{0,80}|tile/[0-9x/.p]{0,40}") {
        if let Ok(tile) = Tile::parse(&text) {
            prop_assert_eq!(tile.path(), text.clone());
        }
        if let Ok(proof) = TlogProof::parse(&text) {
            prop_assert_eq!(proof.encode(), text);
        }
    }

    #[test]
    fn growth_in_steps_names_what_growth_at_once_names(
        steps in proptest::collection::vec(0_u64..70_000, 1..6),
    ) {
        let mut sizes = vec![0];
        sizes.extend(steps.iter().scan(0, |size, step| { *size += step; Some(*size) }));
        let last = sizes[sizes.len() - 1];
        let full = |tiles: &mut dyn Iterator<Item = Tile>| -> Vec<Tile> {
            let mut full: Vec<Tile> = tiles.filter(|tile| tile.is_full()).collect();
            full.sort_unstable();
            full
        };
        let in_steps = full(&mut sizes.windows(2).flat_map(|pair| tiles_grown(pair[0], pair[1])));
        prop_assert_eq!(in_steps, full(&mut tiles_grown(0, last)));
        let partial = sizes.windows(2).flat_map(|pair| bundles_grown(pair[0], pair[1])).filter(|bundle| !bundle.is_full());
        prop_assert!(partial.count() < sizes.len());
    }
}
