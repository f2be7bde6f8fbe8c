//! Ids of bytes: how they are written, and that their people leave and return.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, Value};

use super::forum::time;
use super::member::{Member, NOTES};

/// A member with this id, in a column of bytes of this width.
fn member(id: &[u8]) -> Member {
    let mut database = crate::connect();
    let digits = Value::Bytes(id.to_vec());
    let (of_id, own) = match database.dialect() {
        Dialect::Sqlite => ("BLOB".to_owned(), format!("x'{digits}'")),
        Dialect::Postgres => ("BYTEA".to_owned(), format!("'\\x{digits}'")),
        _ => (format!("BINARY({})", id.len()), format!("x'{digits}'")),
    };
    for sql in [
        format!("CREATE TABLE members (id {of_id} PRIMARY KEY)"),
        format!("CREATE TABLE notes (id BIGINT PRIMARY KEY, member {of_id})"),
        format!("INSERT INTO members VALUES ({own})"),
        format!("INSERT INTO notes VALUES (1, {own}), (2, NULL)"),
    ] {
        database.execute(&sql, &[]).unwrap();
    }
    let number = "RandNum = { lb = 1000000, ub = 2000000000 }";
    let made = format!("RandStr = {{ len = {} }}", id.len());
    let described = NOTES.replacen(number, &made, 1);
    Member::called(Value::Bytes(id.to_vec()), database, &described)
}

/// Nobody could name such an id on the command line or over HTTP.
pub(crate) fn an_id_of_bytes_is_written_in_digits() {
    for id in [
        &[0, 1, 0xfe, 0xff][..],
        b"0x00",
        &[7, 0, 0xaa, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xf0],
    ] {
        let mut member = member(id);
        let written = Value::Bytes(id.to_vec()).written();
        assert!(written.starts_with("0x"), "{written}");
        let read = member.engine.user(&written).unwrap();
        assert_eq!(read, Value::Bytes(id.to_vec()));
        for wrong in ["0x0", "0xgg", "0x+1"] {
            let refused = member.engine.user(wrong).unwrap_err().to_string();
            assert!(refused.contains("hexadecimal digits"), "{refused}");
        }
        assert!(member.engine.people().rowless().unwrap().is_empty());
        member.leaves_and_returns(["members", "notes"]);
        if id.len() < 16 {
            member.sql(&["DELETE FROM notes", "DELETE FROM members"]);
            assert_eq!(
                member.engine.people().rowless().unwrap().users,
                [written.as_str()]
            );
            member
                .engine
                .people()
                .unregister(&read, None, time())
                .unwrap();
            assert!(member.engine.people().rowless().unwrap().is_empty());
        }
    }
}

/// An id that looks like digits of bytes is a text where the ids are texts.
pub(crate) fn an_id_of_text_is_never_read_as_bytes() {
    let types = ["VARCHAR(20)", "VARCHAR(20)"];
    let rows = ["('0x00'), ('eve')", "(1, '0x00')"];
    let mut member = super::whose_rows::member("0x00".into(), types, rows);
    assert_eq!(member.engine.user("0x00").unwrap(), Value::from("0x00"));
    member.leaves_and_returns(["members", "notes"]);
}
