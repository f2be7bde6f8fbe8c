//! The person whom an export of hidden rows names.

use probity_vault::{Attribution, ExportFault, Person, VaultError};

use crate::{pocket, rows};

const NONCE: &str = "000102030405060708090a0b0c0d0e0f";
/// The hashes of the id 19, of the same id of the tenant 7, and of the bytes 00 and ff.
const OF_19: &str = "b6528e797b35b28df03f0736822de01890a4be9ee45e72e97e38f2b135210d17";
const OF_19_OF_7: &str = "c41d1b143c4da81051517859a194757fb68fa22fee53ebfca24199b502fe75ac";
const OF_BYTES: &str = "97e21575f7d10ec21342bf5597d8ec97f3424501ae74977344c9d05b27b9c6ca";

const ROWS: &str = r#""rows":[{"disguise":1,"table":"t","row":"1","values":{}}]"#;

fn export(hash: &str) -> String {
    format!(r#"{{"form":2,"person":{{"nonce":"{NONCE}","hash":"{hash}"}},{ROWS}}}"#)
}

/// Imports an export for a subject with these ids.
fn taken(
    subject: &str,
    (users, tenant): (&[&str], Option<&str>),
    export: &str,
) -> Result<Attribution, VaultError> {
    let mut store = pocket();
    let mut person = Person::new(&mut store, subject)?;
    let users: Vec<String> = users.iter().map(|user| (*user).to_owned()).collect();
    person.known_as(&users, tenant)?;
    person.hidden_rows(export.as_bytes())
}

/// A copy took the export of whomever the file was, for it named nobody. It names its person now, by a
/// hash with a nonce.
#[test]
fn an_export_is_taken_for_its_own_person_alone() {
    for (subject, known, hash) in [
        ("19", (&[][..], None), OF_19),
        ("ada", (&["3", "19"][..], None), OF_19),
        ("19", (&[][..], Some("7")), OF_19_OF_7),
        ("ada", (&["0x00ff"][..], None), OF_BYTES),
    ] {
        let named = taken(subject, known, &export(hash)).unwrap();
        assert_eq!(named, Attribution::Named, "{subject} {known:?}");
    }
    for (subject, known, hash) in [
        ("20", (&[][..], None), OF_19),
        ("19", (&["20"][..], None), OF_19),
        ("19", (&[][..], Some("7")), OF_19),
        ("19", (&[][..], None), OF_19_OF_7),
        ("19", (&[][..], Some("8")), OF_19_OF_7),
    ] {
        let refused = taken(subject, known, &export(hash));
        let is_refused = matches!(refused, Err(VaultError::OtherPerson));
        assert!(is_refused, "{subject} {known:?}: {refused:?}");
    }
}

/// The form was taken out of an export, and its person was not looked at: the copy of somebody else took it
/// with a warning. A person that is named is compared, and a form that is none is named as it stands.
#[test]
fn an_export_without_its_form_is_that_of_the_person_that_it_names() {
    let formless = export(OF_19).replace("\"form\":2,", "");
    let own = taken("19", (&[], None), &formless).unwrap();
    assert_eq!(own, Attribution::Named);
    let refused = taken("20", (&[], None), &formless);
    assert!(
        matches!(refused, Err(VaultError::OtherPerson)),
        "{refused:?}"
    );
    let fault = |export: &str| match taken("19", (&[], None), export) {
        Err(VaultError::NoExport(fault)) => fault,
        other => unreachable!("{export}: {other:?}"),
    };
    let nobody = fault(&format!(r#"{{"person":null,{ROWS}}}"#));
    assert_eq!(nobody, ExportFault::NoPerson);
    let null = fault(&format!(r#"{{"form":null,{ROWS}}}"#));
    assert_eq!(null, ExportFault::Form("null".to_owned()));
}

#[test]
fn of_several_documents_each_names_the_person() {
    let earlier = format!("{{{ROWS}}}");
    let both = |second: &str| format!("{}\n{second}", export(OF_19));
    let own = (&[][..], None);
    assert_eq!(taken("19", own, &earlier).unwrap(), Attribution::Unnamed);
    let mixed = taken("19", own, &both(&earlier)).unwrap();
    assert_eq!(mixed, Attribution::Unnamed);
    let same = taken("19", own, &both(&export(OF_19))).unwrap();
    assert_eq!(same, Attribution::Named);
    let others = taken("19", own, &both(&export(OF_BYTES)));
    assert!(matches!(others, Err(VaultError::OtherPerson)));
}

#[test]
fn an_export_of_a_later_form_or_without_its_person_is_refused() {
    let form = |form: &str| format!(r#"{{"form":{form},{ROWS}}}"#);
    let longer = export(&format!("{OF_19}0"));
    let large = export(&OF_19.to_uppercase());
    for (export, fault) in [
        (form("3"), ExportFault::Form("3".to_owned())),
        (form("1"), ExportFault::Form("1".to_owned())),
        (form("\"2\""), ExportFault::Form("2".to_owned())),
        (form("2"), ExportFault::NoPerson),
        (longer, ExportFault::NoPerson),
        (large, ExportFault::NoPerson),
    ] {
        match taken("19", (&[], None), &export) {
            Err(VaultError::NoExport(found)) => assert_eq!(found, fault, "{export}"),
            other => unreachable!("{export}: {other:?}"),
        }
    }
}

#[test]
fn a_copy_notes_the_ids_by_which_the_person_is_known() {
    let mut store = pocket();
    let mut person = Person::new(&mut store, "ada").unwrap();
    person.known_as(&["19".to_owned()], Some("7")).unwrap();
    person.finish().unwrap();
    assert_eq!(
        rows(&mut store, "SELECT name, value FROM about"),
        ["subject|ada", "tenant|7", "user|19"]
    );
}
