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
