//! Files of `SQLite` whose texts are UTF-16. The engine reads UTF-8, into which `SQLite` converts
//! what is no UTF-16 as if it were some, so that every text is compared with its bytes.

use rusqlite::types::ValueRef;

/// The order of the bytes of a letter.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    /// Returns the order that the name of an encoding says, if it is one of UTF-16.
    pub(super) fn of(encoding: &str) -> Option<Self> {
        match encoding {
            "UTF-16le" => Some(Self::Little),
            "UTF-16be" => Some(Self::Big),
            _ => None,
        }
    }

    /// Returns whether `bytes`, as the file has them, are `text`.
    pub(super) fn is_of(self, text: &str, bytes: ValueRef<'_>) -> bool {
        let ValueRef::Blob(bytes) = bytes else {
            return false;
        };
        let letters = text.encode_utf16();
        let letters = letters.flat_map(|it| match self {
            Self::Little => it.to_le_bytes(),
            Self::Big => it.to_be_bytes(),
        });
        letters.eq(bytes.iter().copied())
    }
}

/// Returns whether a statement reads rows, so that it can be a part of another.
pub(super) fn is_read(sql: &str) -> bool {
    sql.starts_with("SELECT ") || sql.starts_with("WITH ")
}

/// Returns a query that adds the bytes of each column of `sql`, which are called so.
pub(super) fn with_bytes(sql: &str, called: &[&str]) -> String {
    let list = |one: &dyn Fn(usize, &str) -> String| -> String {
        let all = called.iter().enumerate();
        let all: Vec<String> = all.map(|(index, name)| one(index, name)).collect();
        all.join(",")
    };
    let names = list(&|index, _| format!("c{index}"));
    let read = list(&|index, name| format!("c{index} AS \"{}\"", name.replace('"', "\"\"")));
    let bytes = list(&|index, _| format!("CAST(c{index} AS BLOB)"));
    format!("WITH q({names}) AS ({sql}) SELECT {read},{bytes} FROM q")
}
