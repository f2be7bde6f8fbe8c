//! Signed extracts and digests.

use probity_format::Timestamp;
use probity_pocketdb::flash::Simulator;
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Extent, Store};
use probity_vault::{
    Draft, Evidence, EvidenceFault, EvidenceKind, VaultError, draft_digest, draft_extract,
    run_script, steady,
};

use crate::pocket;

const SCRIPT: &str = "CREATE TABLE visits (id INTEGER PRIMARY KEY, day INTEGER); \
                      INSERT INTO visits (day) VALUES (5); INSERT INTO visits (day) VALUES (6)";

fn now() -> Timestamp {
    Timestamp::from_nanoseconds(1_764_000_000_000_000_000).unwrap()
}

/// Returns the file of a draft.
fn file_of(draft: &Draft) -> String {
    let mut file = draft.lines().join("\n") + "\n";
    file.push_str(&draft.note().unwrap());
    file
}

fn parsed(file: &str) -> Evidence {
    Evidence::parse(file.as_bytes().to_vec()).unwrap()
}

#[test]
fn an_extract_is_believed_as_it_was_signed_and_not_otherwise() {
    let mut store = pocket();
    run_script(&mut store, SCRIPT).unwrap();
    let sql = "SELECT day FROM visits WHERE day = 5";
    let draft = draft_extract(&mut store, sql, now()).unwrap();
    assert_eq!(draft.lines(), ["{\"day\":5}"]);
    let file = file_of(&draft);
    let evidence = parsed(&file);
    evidence.verify(draft.verifier_key()).unwrap();
    assert_eq!(evidence.kind(), Some(EvidenceKind::Extract));
    let extract = evidence.extract().unwrap();
    assert_eq!((extract.statement, extract.rows), (sql, 1));
    let moment = extract.moment.unwrap();
    assert_eq!(
        (moment.state, moment.time.as_str()),
        (store.state(), "2025-11-24T16:00:00Z")
    );

    let changed = parsed(&file.replacen("{\"day\":5}", "{\"day\":6}", 1));
    changed.verify(draft.verifier_key()).unwrap();
    assert!(matches!(
        changed.extract(),
        Err(VaultError::NotEvidence(EvidenceFault::Differs))
    ));
    let resigned = parsed(&file.replacen("statement SELECT day", "statement SELECT id", 1));
    assert!(matches!(
        resigned.verify(draft.verifier_key()),
        Err(VaultError::NotEvidence(EvidenceFault::OtherKey(_)))
    ));
    for (bytes, is_text) in [(&b"{\"day\":5}\n"[..], true), (b"\xFF", false)] {
        let error = Evidence::parse(bytes.to_vec()).err().unwrap();
        assert!(match error {
            VaultError::NotEvidence(EvidenceFault::NoNote) => is_text,
            VaultError::NotEvidence(EvidenceFault::NoText) => !is_text,
            _ => false,
        });
    }
}

/// An honest extract was called one without a note where its statement ends with the title of one.
#[test]
fn a_statement_that_ends_with_a_title_is_no_note() {
    let mut store = pocket();
    run_script(&mut store, SCRIPT).unwrap();
    let first = draft_extract(&mut store, "SELECT day FROM visits", now()).unwrap();
    let file = file_of(&first);
    let evidence = parsed(&file);
    let body = first.lines().join("\n") + "\n";
    let title = file.strip_prefix(&body).unwrap().lines().next().unwrap();
    assert_eq!(evidence.kind(), Some(EvidenceKind::Extract));
    for sql in [
        format!("SELECT day FROM visits -- {title}"),
        format!("SELECT day FROM visits WHERE day = 7 -- {title}"),
    ] {
        let draft = draft_extract(&mut store, &sql, now()).unwrap();
        let lines = draft.lines();
        // An empty body has no line end either.
        let body = lines.iter().map(|line| format!("{line}\n"));
        let file = body.collect::<String>() + &draft.note().unwrap();
        let evidence = parsed(&file);
        evidence.verify(draft.verifier_key()).unwrap();
        let extract = evidence.extract().unwrap();
        assert_eq!(extract.statement, sql);
        assert_eq!(extract.rows, u64::try_from(lines.len()).unwrap());
    }
}

#[test]
fn statements_of_which_there_is_no_extract_are_refused() {
    let mut store = pocket();
    run_script(&mut store, SCRIPT).unwrap();
    let refused = |store: &mut _, sql| draft_extract(store, sql, now()).err().unwrap();
    assert!(matches!(
        refused(&mut store, "SELECT day\nFROM visits"),
        VaultError::ManyLines
    ));
    assert!(matches!(
        refused(&mut store, "DELETE FROM visits WHERE id = 1"),
        VaultError::NoSelect
    ));
    assert!(matches!(
        refused(&mut store, "SELECT day, day FROM visits"),
        VaultError::RepeatedColumn { column } if column == "day"
    ));
}

#[test]
fn a_digest_covers_the_pages_of_the_reorganised_part() {
    let (chip, secure) = (steady(Simulator::new(64)), MemoryStore::new(128 * 1024));
    let mut store = Store::create(chip, secure, &[7; 32], 64 * 1024).unwrap();
    run_script(&mut store, SCRIPT).unwrap();
    assert!(matches!(
        draft_digest(&mut store, now()),
        Err(VaultError::NoPart)
    ));
    assert!(
        store
            .reorganize(Extent::Whole, u32::MAX, u64::MAX)
            .unwrap()
            .finished
    );
    let draft = draft_digest(&mut store, now()).unwrap();
    let evidence = parsed(&file_of(&draft));
    evidence.verify(draft.verifier_key()).unwrap();
    assert_eq!(evidence.kind(), Some(EvidenceKind::Digest));
    assert!(matches!(
        evidence.extract(),
        Err(VaultError::NotEvidence(EvidenceFault::OtherKind))
    ));
    let runs = evidence.runs().unwrap();
    for (line, other) in [("", "+"), ("", "0"), (" ", " +"), (" ", " 0")] {
        let file = file_of(&draft).replacen(line, other, 1);
        let refused = parsed(&file).runs();
        assert!(
            matches!(
                refused,
                Err(VaultError::NotEvidence(EvidenceFault::NoPages))
            ),
            "{other:?}"
        );
    }
    let pages: u64 = runs.iter().map(|(_, pages)| u64::from(*pages)).sum();
    assert_eq!(pages, draft.leaves());
    // A chip on which nothing of it was ever written.
    assert!(matches!(
        evidence.digest(&runs, &mut Simulator::new(64)),
        Err(VaultError::NotEvidence(EvidenceFault::Differs))
    ));
}
