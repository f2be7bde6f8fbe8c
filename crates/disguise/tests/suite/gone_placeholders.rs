//! Placeholders that somebody else's hidden row names, and that go before the row is back.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{DisguiseId, SpecFile};

use super::sample::Sample;
use super::society::{Society, description};

/// A table that the application fills with a row of person 2 that names whoever is the author of a
/// post of person 1, and what the specifications say of it.
struct Case {
    table: &'static str,
    said: &'static str,
    removed: &'static str,
    values: &'static str,
}

const DOCS: &str = "[tables.docs]\nowners = [\"owner\"]\nreaders = [\"reader\"]\n";
const GO: &str = "[[remove]]\ntable = \"docs\"\n";
const KEYED: &str = "docs (owner BIGINT REFERENCES people(id), reader BIGINT REFERENCES people(id), PRIMARY KEY (owner, reader))";

const CASES: [Case; 4] = [
    Case {
        table: "docs (id BIGINT PRIMARY KEY, owner BIGINT NOT NULL REFERENCES people(id), reader BIGINT REFERENCES people(id))",
        said: DOCS,
        removed: GO,
        values: "7, 2, AUTHOR",
    },
    Case {
        table: "docs (id BIGINT PRIMARY KEY, owner BIGINT NOT NULL REFERENCES people(id), reader BIGINT NOT NULL REFERENCES people(id))",
        said: DOCS,
        removed: GO,
        values: "7, 2, AUTHOR",
    },
    Case {
        table: KEYED,
        said: "[tables.docs]\non_leave = { owner = \"remove\", reader = \"remove\" }\n",
        removed: "",
        values: "2, AUTHOR",
    },
    Case {
        table: KEYED,
        said: "",
        removed: GO,
        values: "2, AUTHOR",
    },
];

const ANONYMOUS: &str = "[[decorrelate]]\ntable = \"posts\"\nowners = [\"author\"]\n";

impl Case {
    /// Person 1 is anonymous, the application lets person 2 name the placeholder, and 2 leaves. Returns
    /// both disguises.
    fn begun(&self) -> (Society, DisguiseId, DisguiseId) {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id))"
                .to_owned(),
            format!("CREATE TABLE {}", self.table),
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
            "INSERT INTO posts VALUES (5, 1)".to_owned(),
        ];
        let leaving = description(&[self.said, self.removed, ANONYMOUS].concat());
        let mut society = Society::of(&statements, &leaving, &[1, 2]);
        let anonymous = description(&[self.said, ANONYMOUS].concat());
        let anonymous = anonymous.replace("[[remove]]\ntable = \"people\"", "");
        let anonymous = SpecFile::parse(&anonymous).unwrap().spec;
        let leaving = std::mem::replace(&mut society.spec, anonymous);
        let hidden = society.try_to_leave(Some(1), false, None).unwrap().id;
        society.spec = leaving;
        let author = society.numbers("SELECT author FROM posts")[0];
        let values = self.values.replace("AUTHOR", &author.to_string());
        society.sql(&format!("INSERT INTO docs VALUES ({values})"));
        let gone = society.try_to_leave(Some(2), false, None).unwrap().id;
        (society, hidden, gone)
    }
}

/// The application named a placeholder in a row of somebody who left with it. The placeholder went
/// once its person was back, and the row stayed away for good, or came back without its reader.
pub(crate) fn a_row_that_names_a_placeholder_which_went_comes_back_to_its_person() {
    let mut sample = Sample::new();
    for case in &CASES {
        for newer in [None, Some(1), Some(2)] {
            if sample.passes_over() {
                continue;
            }
            let what = format!("{} {newer:?}", case.table);
            let (mut society, hidden, gone) = case.begun();
            if let Some(person) = newer {
                society.rekey(person);
            }
            assert!(society.reveal(1, hidden).is_complete(), "{what}");
            if let Some(person) = newer {
                society.rekey(person);
            }
            assert!(society.reveal(2, gone).is_complete(), "{what}");
            let named = society.numbers("SELECT owner, reader FROM docs");
            assert_eq!(named, [2, 1], "{what}");
            society.sql("DELETE FROM docs");
            society.assert_as_before(&what);
        }
    }
}

/// The person of the placeholder leaves again before the row is back: it waits for them.
pub(crate) fn a_row_that_names_a_placeholder_which_went_waits_for_its_person() {
    for case in &CASES {
        let what = case.table;
        let (mut society, hidden, gone) = case.begun();
        assert!(society.reveal(1, hidden).is_complete(), "{what}");
        let again = society.try_to_leave(Some(1), false, None).unwrap().id;
        society.reveal(2, gone);
        society.reveal(1, again);
        society.try_again(&BTreeMap::from([(2, gone), (1, again)]));
        let named = society.numbers("SELECT owner, reader FROM docs");
        assert_eq!(named, [2, 1], "{what}");
    }
}
