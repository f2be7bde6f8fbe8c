//! Parts of a damaged store that a rewriting did not copy.

use std::fmt;

/// A part of a damaged store that does not open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// A block of the file. Other losses tell its content.
    Block(u64),
    /// Keys of a database whose names lay in such blocks.
    Keys {
        /// The number of the database.
        db: usize,
        /// The number of keys.
        count: u64,
    },
    /// Tables of keys whose place in the file is lost. Nobody knows how many keys they held.
    Unknown,
    /// The key of a subject's data, by the number of its slot in the file of subjects' keys.
    Subject(u64),
    /// The key of names of subjects. A subject without any by the policy goes on under a new name.
    Names,
    /// A key of a database whose name does not open.
    Unnamed {
        /// The number of the database.
        db: usize,
        /// The slot of its subject.
        subject: u64,
    },
    /// A key of a database, with its value.
    Key {
        /// The number of the database.
        db: usize,
        /// The name of the key.
        name: Vec<u8>,
    },
    /// Elements of the value of a key that was copied.
    Elements {
        /// The number of the database.
        db: usize,
        /// The name of the key.
        name: Vec<u8>,
        /// The number of elements that are missing.
        count: u64,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(number) => write!(f, "block {number} of the data"),
            Self::Keys { db, count } => {
                write!(f, "database {db}: {count} keys without their names")
            }
            Self::Unknown => write!(f, "an unknown number of keys"),
            Self::Subject(slot) => write!(f, "the key of subject {slot}"),
            Self::Names => write!(f, "the key under which names of subjects are found"),
            Self::Unnamed { db, subject } => {
                write!(
                    f,
                    "database {db}: a key of subject {subject} without its name"
                )
            }
            Self::Key { db, name } => write!(f, "database {db}: {}", name.escape_ascii()),
            Self::Elements { db, name, count } => {
                write!(
                    f,
                    "database {db}: {count} elements of {}",
                    name.escape_ascii()
                )
            }
        }
    }
}
