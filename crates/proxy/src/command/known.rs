//! The commands that are known: those of the table at the start, and those that the server was asked about since.

use std::sync::Arc;

use super::table::Table;

/// Most commands, subcommands among them, that are remembered beside those of the start.
const LEARNED_MAX: usize = 4096;

/// A table that grows by learned commands, up to a bound.
#[derive(Debug)]
pub struct KnownCommands {
    /// The table at the start.
    first: Arc<Table>,
    now: Arc<Table>,
    learned: usize,
}

impl KnownCommands {
    /// The commands of `table`.
    pub fn new(table: Arc<Table>) -> Self {
        Self {
            now: Arc::clone(&table),
            first: table,
            learned: 0,
        }
    }

    /// The table as it is now.
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.now)
    }

    /// Remembers what the server says of the command called `name`. Where that is more than is remembered, all that was
    /// learned before is forgotten, and asked for again when it is used.
    pub fn learn(&mut self, name: &[u8], found: Table) {
        let count = found.iter().count();
        if count == 0 {
            return;
        }
        if self.learned.saturating_add(count) > LEARNED_MAX {
            self.forget();
        }
        self.learned = self.learned.saturating_add(count);
        let name = name.to_ascii_lowercase();
        Arc::make_mut(&mut self.now).merge(found.renamed(&name));
    }

    /// Forgets what was learned, so that it is asked for again when it is used: the next server at the
    /// same address may know other commands by these names.
    pub fn forget(&mut self) {
        if self.learned > 0 {
            self.now = Arc::clone(&self.first);
            self.learned = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Arguments, Frame};

    fn get() -> Table {
        let head = [
            Frame::Bulk(b"get".to_vec()),
            Frame::Integer(2),
            Frame::Array(Vec::new()),
        ];
        let numbers = [1, 1, 1].map(Frame::Integer);
        let command = Frame::Array(head.into_iter().chain(numbers).collect());
        Table::from_reply(&Frame::Array(vec![command])).unwrap()
    }

    fn finds(known: &KnownCommands, name: &[u8]) -> bool {
        let mut arguments = Arguments::default();
        arguments.push(name);
        let table = known.table();
        let found = table.find(&arguments);
        found.is_some_and(|facts| &*facts.name == "get")
    }

    /// The table of a worker kept for ever each name under which a server knew a command, and a
    /// client could find any number. There is a bound, and the name that was learned last is known
    /// in any case.
    #[test]
    fn what_is_learned_is_bounded() {
        let mut known = KnownCommands::new(Arc::new(Table::default()));
        for number in 0..3 * LEARNED_MAX {
            let name = [b"\xffgEt", number.to_string().as_bytes(), &[b'x'; 100]].concat();
            known.learn(&name, get());
            assert!(known.table().iter().count() <= LEARNED_MAX);
            assert!(finds(&known, &name));
        }
        assert!(known.table().iter().count() > 1);
    }

    /// A server that was started anew behind the proxy had given a learned name to another command, and its deletions were recorded as
    /// reads. What is forgotten is asked for again.
    #[test]
    fn what_was_learned_is_asked_for_again() {
        let mut known = KnownCommands::new(Arc::new(get()));
        known.learn(b"foo", get());
        assert!(finds(&known, b"foo"));
        known.forget();
        assert!(!finds(&known, b"foo") && finds(&known, b"get"));
    }
}
