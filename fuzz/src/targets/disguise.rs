//! Specifications, migrations, credentials, receipts, and the records that a person's key opens.

use probity_disguise::{CredentialLine, Mapping, Receipt, SpecFile, fuzz};
use probity_format::note::{Signer as _, SigningKey};

use crate::Target;
use crate::targets::{is_accepted, text};

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "specification",
        seeds: specification_seeds,
        check: check_specification,
    },
    Target {
        name: "migration",
        seeds: migration_seeds,
        check: check_migration,
    },
    Target {
        name: "credential",
        seeds: credential_seeds,
        check: check_credential,
    },
    Target {
        name: "receipt",
        seeds: receipt_seeds,
        check: check_receipt,
    },
    Target {
        name: "bag",
        seeds: fuzz::bags,
        check: check_bag,
    },
    Target {
        name: "locator",
        seeds: fuzz::locators,
        check: check_locator,
    },
];

const NATIVE: &str = r#"
inactive = "seen < 20260101"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1, ub = 9 } }, name = { RandStr = { len = 20 } } }
[[decorrelate]]
table = "posts"
owners = ["author"]
where = "NOT (text LIKE '%draft%' OR id IN (1, 2))"
[[modify]]
table = "posts"
column = "text"
value = { ConstStr = "[removed]" }
[[remove]]
table = "people"
"#;

const EDNA: &str = r#"{"posts": [{"Decor": {"pred": "id > 3", "from": "posts",
    "group_by_cols": [], "user_fk_cols": ["author"]}}],
    "people": [{"Remove": {"pred": "True", "from": "people"}}]}"#;

fn specification_seeds() -> Vec<Vec<u8>> {
    vec![NATIVE.into(), EDNA.into()]
}

/// A file is a specification, or an error that names its place.
fn check_specification(data: &[u8]) -> bool {
    text(data).is_some_and(|text| is_accepted(&SpecFile::parse(text)))
}

const MIGRATION: &str = r#"
[[update]]
name = "0042 texts apart"
table = "stories"
[[update.into]]
table = "stories"
rest = true
drop = ["body"]
sql = { normal_url = "lower(url)" }
[[update.into]]
table = "story_texts"
columns = { story_id = "id", body = "body" }
values = { edited = 0, open = true, weight = 0.5, state = "new" }
where = "id > 0"
"#;

fn migration_seeds() -> Vec<Vec<u8>> {
    let json = br#"{"update": [{"name": "a", "table": "posts", "into": []}]}"#;
    vec![MIGRATION.into(), json.to_vec()]
}

fn check_migration(data: &[u8]) -> bool {
    text(data).is_some_and(|text| is_accepted(&Mapping::parse(text)))
}

fn credential_seeds() -> Vec<Vec<u8>> {
    let zeros = |bytes: usize| "A".repeat(bytes);
    vec![
        format!("probity-disguise-key-v1 {}", zeros(43)).into(),
        format!("probity-disguise-key-v2 x-wing {}", zeros(43)).into(),
        format!("probity-disguise-token-v1 {}", zeros(27)).into(),
        format!("probity-disguise-share-v1 AQ{}", zeros(26)).into(),
        b"correct horse".to_vec(),
    ]
}

/// A line with a label never becomes a password, and a password is the line itself.
fn check_credential(data: &[u8]) -> bool {
    let Some(line) = text(data) else { return false };
    let labelled = line.starts_with("probity-disguise-key-v1 ");
    match CredentialLine::parse(line) {
        Err(_) => false,
        Ok(CredentialLine::Password(password)) => {
            assert_eq!(&**password, line);
            assert!(!labelled);
            true
        }
        Ok(CredentialLine::Share(share)) => {
            let again = CredentialLine::parse(&share.line());
            assert!(
                matches!(again, Ok(CredentialLine::Share(it)) if it.expose() == share.expose())
            );
            true
        }
        Ok(_) => true,
    }
}

fn receipt_key() -> SigningKey {
    SigningKey::from_seed("example.com/receipts", &[1; 32]).expect("a name without spaces")
}

const RECEIPT: &str = "probity erasure receipt v1\ntime 1800000000000000000\n\
    forgotten everything\nbags 3\nnonce 00112233445566778899aabbccddeeff\n\
    person 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

fn receipt_seeds() -> Vec<Vec<u8>> {
    vec![RECEIPT.into()]
}

/// Signs the text, so that the parser behind the signature is fed; what it accepts is the text.
fn check_receipt(data: &[u8]) -> bool {
    let key = receipt_key();
    let signed = text(data).map(|text| probity_format::note::SignedNote::new(text.to_owned()));
    let Some(Ok(mut note)) = signed else {
        return false;
    };
    if note.sign(&key).is_err() {
        return false;
    }
    let known = [key.verifier_key().clone()];
    match Receipt::verified(note.encode().as_bytes(), &known) {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
        Ok(receipt) => {
            assert_eq!(receipt.text().as_bytes(), data);
            true
        }
    }
}

/// Checks that an accepted bag encodes to bytes that are read as the same bag.
fn check_bag(data: &[u8]) -> bool {
    let Some(encoded) = fuzz::bag(data) else {
        return false;
    };
    assert_eq!(fuzz::bag(&encoded).as_deref(), Some(&*encoded));
    true
}

fn check_locator(data: &[u8]) -> bool {
    let Some(encoded) = fuzz::locator(data) else {
        return false;
    };
    assert_eq!(fuzz::locator(&encoded).as_deref(), Some(&*encoded));
    true
}
