//! References from one person to another wait for that person: a newcomer with the id is not who was invited, and invited nobody.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{KeptReason, SpecFile};

use super::known_readers::{FORMS, Form, reasons};
use super::sample::Sample;
use super::society::{Society, description};

impl Form {
    /// Person 1 invited person 2, and approved of their profile; the description, by which everybody leaves.
    fn inviting(self) -> (Society, String) {
        let statements = [
            self.made(
                "people",
                "id PERSON PRIMARY KEY, name VARCHAR(20), invited_by PERSON",
            ),
            self.made("profiles", "person PERSON PRIMARY KEY, approved_by PERSON"),
            self.row("people", &format!("{}, 'one', NULL", self.id(1))),
            self.row("people", &format!("{}, 'two', {}", self.id(2), self.id(1))),
            self.row("profiles", &format!("{}, {}", self.id(2), self.id(1))),
        ];
        let described = self.described(
            "[tables.people]\non_leave = { invited_by = \"null\" }\n\
             [tables.profiles]\nowners = [\"person\"]\non_leave = { approved_by = \"null\" }\n\
             [[remove]]\ntable = \"profiles\"\n",
        );
        (self.of(&statements, &described), described)
    }

    /// The application gives the id of person 2, with a profile, to somebody whom nobody invited.
    fn invites_newcomer(self, society: &mut Society, is_registered: bool) {
        let id = self.id(2);
        society.sql(&self.row("people", &format!("{id}, 'newcomer', NULL")));
        society.sql(&self.row("profiles", &format!("{id}, NULL")));
        if is_registered {
            drop(society.register_newcomer(2));
        }
    }
}

/// A person came back as invited by whoever had the id of their host by then.
pub(crate) fn a_newcomer_is_not_who_invited_somebody() {
    for how in ["null", "placeholder"] {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), invited_by BIGINT)",
            "INSERT INTO people VALUES (1, 'one', NULL), (2, 'two', 1)",
        ]
        .map(str::to_owned);
        let described = description(&format!(
            "[tables.people]\non_leave = {{ invited_by = \"{how}\" }}\n"
        ));
        let mut society = Society::of(&statements, &described, &[1, 2]);
        let invited = society.leave(2);
        let other = society.leave(1);
        society.sql("INSERT INTO people VALUES (1, 'newcomer', NULL)");
        for _ in 0..2 {
            society.reveal(2, invited);
            let named = society.numbers("SELECT invited_by FROM people WHERE id = 2");
            assert_eq!(named, [-1], "{how}");
        }
        society.sql("DELETE FROM people WHERE id = 1");
        society.reveal(1, other);
        let revealed = society.reveal(2, invited);
        assert!(revealed.is_complete(), "{revealed:?}");
        society.assert_as_before(how);
    }
}

/// A reference that was emptied when its person left was put back into whatever row had the id by then: a newcomer to the id of the
/// invited person became one whom the person had invited. As in a table whose key is the id of its owner.
pub(crate) fn an_emptied_reference_does_not_go_into_the_row_of_a_newcomer() {
    let mut sample = Sample::new();
    let all = [false, true];
    let cases = FORMS.into_iter().flat_map(|form| {
        let some = all.into_iter();
        let some =
            some.flat_map(move |everybody| all.map(|is_registered| (everybody, is_registered)));
        some.flat_map(move |(everybody, is_registered)| {
            [None, Some(1)].map(|chunk| (form, everybody, is_registered, chunk))
        })
    });
    for (at, (form, everybody, is_registered, chunk)) in cases.enumerate() {
        if sample.passes_over() {
            continue;
        }
        let what = format!("{form:?} {everybody} {is_registered} {chunk:?}");
        let (mut society, leaving) = form.inviting();
        let before = society.everything();
        if everybody {
            let first = leaving.replace("[[remove]]\ntable = \"profiles\"\n", "");
            let first = format!("{first}where = \"people.name = 'one'\"\n");
            society.spec = SpecFile::parse(&first).unwrap().spec;
        }
        let host = society
            .try_to_leave((!everybody).then_some(1), false, chunk)
            .unwrap()
            .id;
        society.spec = SpecFile::parse(&leaving).unwrap().spec;
        // A new key at home, away, or neither.
        let (home, away) = [(0, 0), (1, 0), (0, 2), (1, 1)][at % 4];
        (0..home).for_each(|_| society.rekey(2));
        let invited = society.leave(2);
        form.invites_newcomer(&mut society, is_registered);
        for _ in 0..2 {
            let kept = reasons(&society.reveal(1, host));
            assert_eq!(kept, [KeptReason::OwnerReplaced; 2], "{what}");
            let hosts = "SELECT COUNT(*) FROM people WHERE invited_by IS NOT NULL";
            assert_eq!(society.numbers(hosts), [0], "{what}");
            let approved = "SELECT COUNT(*) FROM profiles WHERE approved_by IS NOT NULL";
            assert_eq!(society.numbers(approved), [0], "{what}");
        }
        society.sql("DELETE FROM profiles");
        form.newcomer_goes(&mut society, 2, is_registered);
        (0..away).for_each(|_| society.rekey(2));
        let kept = reasons(&society.reveal(1, host));
        assert_eq!(kept, [KeptReason::Absent; 2], "{what}");
        let revealed = society.reveal(2, invited);
        assert!(revealed.is_complete(), "{what}: {revealed:?}");
        (0..home).for_each(|_| society.rekey(2));
        let revealed = society.reveal(1, host);
        assert!(revealed.is_complete(), "{what}: {revealed:?}");
        assert_eq!(society.everything(), before, "{what}");
        society.assert_as_before(&what);
    }
}

/// As above where a placeholder took the place in the reference: the newcomer is invited by somebody else, and the placeholder
/// waits for the row of the invited person.
pub(crate) fn a_placeholder_in_a_reference_waits_for_the_row_of_its_person() {
    for is_registered in [false, true] {
        for returning in [[1, 2], [2, 1]] {
            let what = format!("{is_registered} {returning:?}");
            let statements = [
                "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), invited_by BIGINT)",
                "INSERT INTO people VALUES (1, 'one', NULL), (2, 'two', 1), (4, 'four', NULL)",
            ]
            .map(str::to_owned);
            let described =
                description("[tables.people]\non_leave = { invited_by = \"placeholder\" }\n");
            let mut society = Society::of(&statements, &described, &[1, 2, 4]);
            let gone = [1, 2].map(|user| (user, society.leave(user)));
            society.sql("INSERT INTO people VALUES (2, 'newcomer', 4)");
            if is_registered {
                drop(society.register_newcomer(2));
            }
            let kept = reasons(&society.reveal(1, gone[0].1));
            assert_eq!(kept, [KeptReason::OwnerReplaced], "{what}");
            let hosts = "SELECT invited_by FROM people WHERE id = 2";
            assert_eq!(society.numbers(hosts), [4], "{what}");
            Form::Numbers.newcomer_goes(&mut society, 2, is_registered);
            for user in returning {
                society.reveal(user, gone[usize::try_from(user - 1).unwrap()].1);
            }
            society.try_again(&gone.into());
            society.assert_as_before(&what);
        }
    }
}

/// Somebody who was not registered when the person left is known by the id alone.
pub(crate) fn a_reference_of_somebody_without_a_key_is_known_by_the_id() {
    for form in FORMS {
        let (mut society, _) = form.inviting();
        let id = form.id(3);
        let host = form.id(1);
        society.sql(&form.row("people", &format!("{id}, 'three', {host}")));
        society.before = society.everything();
        let gone = society.leave(1);
        drop(society.register_newcomer(3));
        let revealed = society.reveal(1, gone);
        assert!(revealed.is_complete(), "{form:?}: {revealed:?}");
        assert_eq!(society.everything(), society.before, "{form:?}");
    }
}
