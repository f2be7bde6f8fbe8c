//! A reference model of disguises in plain data: no keys, no bags, no SQL, one record at a time.
//!
//! Predicts the tables of the forum after every step. A random value of the engine appears as a
//! symbol. The symbol takes the value first seen in its place and must keep it.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests stop at the first surprise"
)]

mod apply;
mod reveal;

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::DisguiseId;

/// A value of a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
    /// A placeholder or a random text.
    Drawn(usize),
}

pub(crate) type Row = Vec<Cell>;

/// The person who speaks for placeholders whose records were forgotten.
const NOBODY: i64 = 0;

/// The tables with owners, other than that of the users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    Stories,
    Moderations,
}

impl Table {
    pub(crate) const ALL: [Self; 2] = [Self::Stories, Self::Moderations];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stories => "stories",
            Self::Moderations => "moderations",
        }
    }

    /// Columns after the id.
    pub(crate) const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Stories => &["user_id", "url", "is_moderated"],
            Self::Moderations => &["moderator_user_id", "story_id", "user_id", "action"],
        }
    }

    pub(crate) const fn owners(self) -> &'static [usize] {
        match self {
            Self::Stories => &[0],
            Self::Moderations => &[0, 2],
        }
    }
}

#[expect(clippy::struct_excessive_bools, reason = "they change one by one")]
/// A placeholder user.
#[derive(Debug, Clone)]
struct Placeholder {
    /// The owner who speaks for it.
    old: Cell,
    person: i64,
    /// Made because the owner left a shared row.
    left: bool,
    /// Stands for somebody who left what it owns.
    departed: bool,
    /// Has a row in the users table.
    present: bool,
    /// Will not come back.
    gone: bool,
    /// Was left where it is with the rows made meanwhile.
    retained: bool,
    /// The person who took its place when it went.
    successor: Option<Cell>,
}

/// A change that a reveal must undo.
#[derive(Debug, Clone)]
enum Undo {
    Account(Cell, Row),
    /// The last is true if the story of a moderation was not there any more.
    Row(Table, i64, Row, bool),
    /// The last number is the record's age.
    Value(Table, i64, usize, Cell, Cell, usize),
    Owner(Table, i64, usize, Cell, Cell),
}

/// The rows and values of one person that a disguise hid.
#[derive(Debug, Clone, Default)]
struct Holding {
    undo: Vec<Undo>,
    /// Accounts without registration since.
    accounts: Vec<Cell>,
    placeholders: Vec<usize>,
    pending: bool,
    waiting: bool,
}

/// The outcome for one record.
enum Fate {
    Done,
    /// Done unless a newer disguise is undone in the same reveal.
    Settled,
    Kept,
}

/// One step of a disguise; rows are chosen by the function.
pub(crate) enum Step {
    Remove(Table, fn(i64) -> bool),
    Overwrite(Table, usize, Option<i64>, fn(i64) -> bool),
    Replace(Table, &'static [usize], Option<usize>, fn(i64) -> bool),
    RemoveAccount,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) people: BTreeMap<i64, Row>,
    pub(crate) registered: BTreeSet<i64>,
    pub(crate) rows: BTreeMap<(Table, i64), Row>,
    placeholders: BTreeMap<usize, Placeholder>,
    /// Shared rows that nobody owns any more, each with whether its story was not there any more.
    hidden: BTreeMap<(Table, i64), (Row, bool)>,
    holdings: BTreeMap<(i64, DisguiseId), Holding>,
    /// Stories that the returning person holds, and for which their other rows wait.
    awaited: BTreeSet<i64>,
    /// All that were applied, the oldest first.
    disguises: Vec<DisguiseId>,
    symbols: usize,
    ages: usize,
    /// Persons whose links may be fewer than the model thinks.
    pub(crate) forgot: BTreeSet<i64>,
}

impl Model {
    pub(crate) fn draw(&mut self) -> Cell {
        self.symbols += 1;
        Cell::Drawn(self.symbols)
    }

    /// The placeholders with a row in the users table.
    pub(crate) fn present(&self) -> BTreeSet<usize> {
        let present = |it: &(&usize, &Placeholder)| it.1.present;
        self.placeholders
            .iter()
            .filter(present)
            .map(|(symbol, _)| *symbol)
            .collect()
    }

    /// The placeholders that `person` may act as.
    pub(crate) fn spoken_for(&self, person: i64) -> BTreeSet<usize> {
        self.placeholders
            .iter()
            .filter(|(_, it)| it.person == person && !it.gone)
            .map(|(symbol, _)| *symbol)
            .collect()
    }

    pub(crate) fn disguises_of(&self, person: i64) -> BTreeSet<DisguiseId> {
        self.holdings
            .iter()
            .filter(|((of, _), it)| *of == person && it.counts())
            .map(|((_, id), _)| *id)
            .collect()
    }

    fn person(&self, owner: &Cell) -> Option<i64> {
        match owner {
            Cell::Int(id) => self.registered.contains(id).then_some(*id),
            Cell::Drawn(symbol) => self.placeholders.get(symbol).map(|it| it.person),
            _ => None,
        }
    }

    fn is_departed(&self, owner: &Cell) -> bool {
        matches!(owner, Cell::Drawn(symbol) if self.placeholders[symbol].departed)
    }

    fn has_account(&self, owner: &Cell) -> bool {
        match owner {
            Cell::Int(id) => self.people.contains_key(id),
            Cell::Drawn(symbol) => self.placeholders[symbol].present,
            _ => false,
        }
    }

    /// Applies a disguise, or leaves everything as it is and gives nothing when it must be refused.
    pub(crate) fn apply(
        &mut self,
        id: DisguiseId,
        steps: &[Step],
        user: Option<i64>,
        over: bool,
    ) -> Option<()> {
        let mut next = self.clone();
        let mut own: Option<BTreeSet<Cell>> = None;
        if let Some(user) = user {
            if !self.registered.contains(&user) {
                return None;
            }
            let mut all = BTreeSet::from([Cell::Int(user)]);
            if over {
                all.extend(self.spoken_for(user).into_iter().map(Cell::Drawn));
            }
            own = Some(all);
        }
        let mut work = apply::Apply {
            first: next.symbols,
            model: &mut next,
            id,
            user,
            own,
        };
        for step in steps {
            work.step(step)?;
        }
        next.disguises.push(id);
        *self = next;
        Some(())
    }

    /// Returns whether `person` has anything of `id` to reveal.
    pub(crate) fn can_reveal(&self, person: i64, id: DisguiseId) -> bool {
        self.holdings
            .get(&(person, id))
            .is_some_and(Holding::counts)
    }

    pub(crate) fn forget(&mut self, person: i64, id: DisguiseId) {
        self.holdings.remove(&(person, id));
        self.forgot.insert(person);
    }

    /// Forgetting took the last links of `person`.
    pub(crate) fn speaks_for_nobody(&mut self, person: i64) {
        for it in self.placeholders.values_mut() {
            if it.person == person && !it.gone {
                it.person = NOBODY;
            }
        }
    }
}

impl Holding {
    /// Returns whether there is anything to reveal.
    fn counts(&self) -> bool {
        !self.undo.is_empty() || !self.accounts.is_empty() || self.waiting
    }
}

impl Undo {
    fn age(&self) -> usize {
        match self {
            Self::Value(.., age) => *age,
            _ => 0,
        }
    }

    fn cell(&self) -> Option<(Table, i64, usize)> {
        match self {
            Self::Value(table, id, column, ..) => Some((*table, *id, *column)),
            _ => None,
        }
    }

    fn row(&self) -> (&'static str, Cell) {
        match self {
            Self::Account(id, _) => ("users", id.clone()),
            Self::Row(table, id, ..) | Self::Value(table, id, ..) | Self::Owner(table, id, ..) => {
                (table.name(), Cell::Int(*id))
            }
        }
    }
}
