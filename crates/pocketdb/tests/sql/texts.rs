//! Texts in statements: every byte that one may have, and quotes that have no end.

use probity_pocketdb::Error;

use crate::pair::Pair;

fn notes() -> Pair {
    let mut pair = Pair::new(65_536, 60);
    assert!(pair.change("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT(200))"));
    pair
}

fn refused(pair: &mut Pair, text: &str) -> (usize, String) {
    match pair.own(text) {
        Err(Error::Sql { at, what }) => (at, what),
        other => panic!("{text:?}: {other:?}"),
    }
}

/// A text with a doubled quote and U+0001 was refused, with an untrue reason.
#[test]
fn a_text_may_have_every_character_beside_quotes() {
    let mut pair = notes();
    let controls: String = (1..=0x7F_u8).map(char::from).collect();
    let texts = [
        "it's \u{1}",
        "\u{1}'\u{1}",
        "''",
        "\u{1}",
        "\u{2}'\u{1}\u{1}'",
        &controls,
        "\u{e9}'\u{1}'\u{df}",
    ];
    for text in texts {
        let text = text.replace('\'', "''");
        assert!(pair.change(&format!("INSERT INTO note (text) VALUES ('{text}')")));
        let sql = format!("SELECT id, text FROM note WHERE text = '{text}' AND id > 0");
        let (_, own) = pair.own(&sql).unwrap();
        assert_eq!(own.rows, pair.sqlite(&sql), "{text:?}");
        assert_eq!(own.rows.len(), 1, "{text:?}");
    }
}

/// A statement that was cut off within a text with a doubled quote lost the text's last character,
/// and changed the rows of another text.
#[test]
fn a_text_without_an_end_is_refused_with_its_place() {
    let mut pair = notes();
    assert!(pair.change("INSERT INTO note (text) VALUES ('it''s'), ('it''')"));
    for end in ["'it''s", "'it''s''", "'it''", "'it''sx", "'", "'''"] {
        for start in [
            "DELETE FROM note WHERE text = ",
            "SELECT id FROM note WHERE text = ",
        ] {
            let text = format!("{start}{end}");
            let reason = (start.len(), "a quote has no end".to_owned());
            assert_eq!(refused(&mut pair, &text), reason, "{text}");
        }
    }
    assert_eq!(pair.own("SELECT id FROM note").unwrap().1.rows.len(), 2);
}

#[test]
fn a_control_character_outside_texts_means_nothing() {
    let mut pair = notes();
    for (text, place) in [
        ("SELECT id FROM note WHERE text = \u{1}a\u{1}", 33),
        ("SELECT id FROM note WHERE text = 'it''s' \u{1} \u{2}", 41),
        (
            "SELECT id FROM note WHERE text = \u{1}\u{1}\u{0}a OR text = ''''",
            33,
        ),
        ("SELECT id \u{7f} FROM note", 10),
    ] {
        let reason = (place, "a control character means nothing".to_owned());
        assert_eq!(refused(&mut pair, text), reason, "{text:?}");
    }
    let commented = "SELECT id FROM note -- \u{1}'\n WHERE text = ''''";
    assert!(pair.own(commented).unwrap().1.rows.is_empty());
}
