//! Pages open only under their own identity, and only unmodified.

use super::*;

fn identity() -> PageIdentity {
    PageIdentity {
        page: 3,
        epoch: 9,
        role: ROLE_DATA,
        owner: 1,
        number: 2,
    }
}

fn seal_of(secret: u8) -> Seal {
    let mut seal = Seal::new(&[secret; 32], Since::default());
    seal.set_side(0, Some(&[secret + 1; 32]));
    seal
}

#[test]
fn generations_are_read_under_their_own_keys_alone() {
    let mut seal = seal_of(5);
    let sealed = |seal: &mut Seal, epoch| {
        let mut page = [0x41u8; PAGE_BYTES];
        let identity = PageIdentity {
            epoch,
            ..identity()
        };
        seal.close(&identity, &mut page);
        (identity, page)
    };
    let (old, old_page) = sealed(&mut seal, 9);
    let old_tag = seal.tag(&[1; 16], 9);
    let [next, _] = next_secrets(&[6; 32]);
    seal.set_side(1, Some(&next));
    let mut generations = Generations::default();
    generations.spans[0] = (10, 1);
    seal.turn(generations);
    let (new, new_page) = sealed(&mut seal, 10);
    assert!(seal.open(&old, &mut old_page.clone()).is_ok());
    assert!(seal.open(&new, &mut new_page.clone()).is_ok());
    generations.present = 1;
    seal.turn(generations);
    seal.set_side(0, None);
    assert!(seal.open(&new, &mut new_page.clone()).is_ok());
    assert!(seal.open(&old, &mut old_page.clone()).is_err());
    assert_ne!(seal.tag(&[1; 16], 9), old_tag);
}

#[test]
fn a_page_opens_only_under_its_own_identity() {
    let mut seal = seal_of(5);
    let mut page = [0x41u8; PAGE_BYTES];
    let code = seal.close(&identity(), &mut page);
    assert!(page.windows(8).all(|part| part != [0x41; 8]));
    let sealed = page;
    assert_eq!(seal.open(&identity(), &mut page), Ok(code));
    assert!(page[..PAYLOAD_BYTES].iter().all(|&byte| byte == 0x41));
    let others = [
        PageIdentity {
            page: 4,
            ..identity()
        },
        PageIdentity {
            epoch: 8,
            ..identity()
        },
        PageIdentity {
            role: ROLE_JOIN,
            ..identity()
        },
        PageIdentity {
            owner: 0,
            ..identity()
        },
        PageIdentity {
            number: 3,
            ..identity()
        },
    ];
    for other in others {
        let mut copy = sealed;
        assert!(matches!(
            seal.open(&other, &mut copy),
            Err(Error::Tampered { .. })
        ));
    }
    assert!(seal_of(6).open(&identity(), &mut sealed.clone()).is_err());
}

#[test]
fn every_flipped_bit_of_a_page_is_detected() {
    let mut seal = seal_of(5);
    let mut page = [0u8; PAGE_BYTES];
    seal.close(&identity(), &mut page);
    for bit in 0..PAGE_BYTES * 8 {
        let mut copy = page;
        copy[bit / 8] ^= 1 << (bit % 8);
        assert!(seal.open(&identity(), &mut copy).is_err(), "bit {bit}");
    }
}

/// A page says its number to whoever has its keys, and to nobody else.
#[test]
fn the_number_of_every_kind_of_page_is_found_under_its_own_keys() {
    let mut seal = seal_of(5);
    let kinds = [
        (ROLE_BUFFER, 0, 0, Sealed::Buffer(77)),
        (ROLE_CATALOGUE, 0, 0, Sealed::Lasting(77)),
        (ROLE_TEMPORARY, 30, 64, Sealed::Temporary(77)),
        (ROLE_DATA, 17, 5, Sealed::Lasting(77)),
        (ROLE_JOIN, 2, 130_000, Sealed::Lasting(77)),
        (ROLE_KEY, 3, 0, Sealed::Lasting(77)),
        (ROLE_FILTER, 0, 1, Sealed::Lasting(77)),
        (ROLE_PART, 18, 0, Sealed::Lasting(77)),
        (ROLE_LIST, 22, 640, Sealed::Lasting(77)),
    ];
    for filling in 0..40u8 {
        for (role, owner, number, due) in kinds {
            let identity = PageIdentity {
                page: 128,
                epoch: 77,
                role,
                owner,
                number,
            };
            let mut page = [filling; PAGE_BYTES];
            seal.close(&identity, &mut page);
            let sealed = page;
            assert_eq!(seal.number_of(128, &mut page, &[9; 32], 0), Some(due));
            assert_eq!(page, sealed);
            assert_eq!(seal.number_of(192, &mut page, &[9; 32], 1), None);
            let mut others = seal_of(8);
            assert_eq!(others.number_of(128, &mut page, &[9; 32], 3), None);
        }
    }
    let (mut chain, mut page) = ([9; 32], [3; PAGE_BYTES]);
    for _ in 0..3 {
        let [next, following] = next_secrets(&chain);
        seal.set_side(0, Some(&next));
        chain = *following;
    }
    let buffer = PageIdentity {
        page: 128,
        role: ROLE_BUFFER,
        owner: 0,
        number: 0,
        ..identity()
    };
    seal.close(&buffer, &mut page);
    let mut older = seal_of(5);
    assert_eq!(older.number_of(128, &mut page, &[9; 32], 2), None);
    let found = older.number_of(128, &mut page, &[9; 32], 3);
    assert_eq!(found, Some(Sealed::Buffer(9)));
}
