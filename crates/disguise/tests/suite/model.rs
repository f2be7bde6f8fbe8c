//! A reference model of disguises in plain data: no keys, no bags, no SQL, one record at a time.
//!
//! It says what the tables of the forum must hold after every step. What the engine draws at random appears as a
//! symbol, which takes the value that is first seen in its place and must keep it.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests stop at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::{DisguiseId, References};

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

/// Who speaks for placeholders whose records were forgotten.
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

/// A placeholder user.
#[derive(Debug, Clone)]
struct Placeholder {
    /// Who speaks for it.
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
}

/// What a reveal must undo.
#[derive(Debug, Clone)]
enum Undo {
    Account(Cell, Row),
    Row(Table, i64, Row),
    /// The last number is the record's age.
    Value(Table, i64, usize, Cell, Cell, usize),
    Owner(Table, i64, usize, Cell, Cell),
}

/// What a disguise hid from one person.
#[derive(Debug, Clone, Default)]
struct Holding {
    undo: Vec<Undo>,
    /// Accounts without registration since.
    accounts: Vec<Cell>,
    placeholders: Vec<usize>,
    pending: bool,
    waiting: bool,
}

/// How one record fared.
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
    /// Shared rows that nobody owns any more.
    hidden: BTreeMap<(Table, i64), Row>,
    holdings: BTreeMap<(i64, DisguiseId), Holding>,
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
        let mut work = Apply {
            first: next.symbols,
            model: &mut next,
            id,
            user,
            own,
        };
        for step in steps {
            work.step(step)?;
        }
        *self = next;
        Some(())
    }

    /// Whether `person` has anything of `id` to reveal.
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

    /// Reveals; gives the table and id of every row that stays disguised.
    pub(crate) fn reveal(
        &mut self,
        person: i64,
        id: DisguiseId,
        policy: References,
    ) -> BTreeSet<(&'static str, Cell)> {
        let due: Vec<DisguiseId> = self
            .holdings
            .iter()
            .filter(|((of, at), it)| {
                *of == person && (*at == id || it.pending) && it.counts()
            })
            .map(|((_, at), _)| *at)
            .collect();
        let mut undo: Vec<(DisguiseId, Undo)> = Vec::new();
        for at in &due {
            let holding = self.holdings.get_mut(&(person, *at)).unwrap();
            undo.extend(holding.undo.drain(..).rev().map(|it| (*at, it)));
        }
        let covered = self.merge(person, &mut undo);
        let mut settle = due.len() == 1;
        let mut hidden;
        loop {
            let mut left = Vec::new();
            let before = (undo.len(), self.hidden.len());
            hidden = self.put_hidden_back(person, &due);
            for (at, it) in undo {
                match self.undo(person, &it, settle) {
                    Fate::Done => {}
                    Fate::Settled if settle => {}
                    Fate::Kept | Fate::Settled => left.push((at, it)),
                }
            }
            undo = left;
            let helped = (undo.len(), self.hidden.len()) != before;
            if (undo.is_empty() && hidden.is_empty()) || (!helped && settle) {
                break;
            }
            settle |= !helped;
        }
        let mut needed = BTreeSet::new();
        let mut kept = BTreeSet::new();
        undo.extend(covered);
        for (table, id) in hidden {
            kept.insert((table.name(), Cell::Int(id)));
            let row = &self.hidden[&(table, id)];
            let owners = table.owners().iter().map(|column| &row[*column]);
            needed.extend(owners.filter_map(|it| match it {
                Cell::Drawn(symbol) => Some(*symbol),
                _ => None,
            }));
        }
        for (at, it) in undo.into_iter().rev() {
            kept.insert(it.row());
            needed.extend(self.needs(&it));
            let holding = self.holdings.get_mut(&(person, at)).unwrap();
            holding.undo.push(it);
        }
        for at in &due {
            self.register(person, *at);
        }
        for at in due {
            self.clear(person, at, policy, &needed);
        }
        self.holdings.retain(|_, it| it.counts());
        kept
    }

    /// What a value hid goes to the next newer record of the same cell, if the application did not come between;
    /// otherwise the record must stay.
    fn merge(
        &mut self,
        person: i64,
        due: &mut Vec<(DisguiseId, Undo)>,
    ) -> Vec<(DisguiseId, Undo)> {
        let mut covered = Vec::new();
        due.sort_by_key(|(_, it)| it.age());
        let mut place = 0;
        while place < due.len() {
            let (at, older) = due[place].clone();
            let held = self
                .holdings
                .iter_mut()
                .filter(|((of, _), _)| *of == person)
                .flat_map(|(_, it)| &mut it.undo);
            let (_, after) = due.split_at_mut(place + 1);
            let newer = after
                .iter_mut()
                .map(|(_, it)| it)
                .chain(held)
                .filter(|it| it.cell() == older.cell() && it.age() > older.age())
                .min_by_key(|it| it.age());
            let (
                Some(Undo::Value(_, _, _, newer, ..)),
                Undo::Value(_, _, _, before, hidden, _),
            ) = (newer, &older)
            else {
                place += 1;
                continue;
            };
            if newer == hidden {
                newer.clone_from(before);
            } else {
                covered.push((at, older.clone()));
            }
            due.remove(place);
        }
        due.reverse();
        covered
    }

    fn undo(&mut self, person: i64, undo: &Undo, settle: bool) -> Fate {
        let done = match undo {
            Undo::Account(id, row) => self.put_account_back(id, row),
            Undo::Row(table, id, row) => self.put_back(person, (*table, *id), row),
            Undo::Value(table, id, column, before, after, _) => {
                match self.rows.get_mut(&(*table, *id)).map(|row| &mut row[*column]) {
                    Some(now) if now == after => {
                        *now = before.clone();
                        true
                    }
                    Some(now) => now == before,
                    None => false,
                }
            }
            Undo::Owner(table, id, column, before, after) => {
                return self.undo_owner(person, (*table, *id, *column), (before, after), settle);
            }
        };
        if done { Fate::Done } else { Fate::Kept }
    }

    fn undo_owner(
        &mut self,
        person: i64,
        (table, id, column): (Table, i64, usize),
        (before, after): (&Cell, &Cell),
        settle: bool,
    ) -> Fate {
        let Cell::Drawn(symbol) = after else {
            panic!("{after:?} is no placeholder");
        };
        let left = self.placeholders[symbol].left;
        let Some(now) = self.rows.get(&(table, id)).map(|row| row[column].clone()) else {
            return Fate::Kept;
        };
        let Some(target) = self.nearest(person, before) else {
            return Fate::Kept;
        };
        if now == *after {
            self.rows.get_mut(&(table, id)).unwrap()[column] = target;
            return Fate::Done;
        }
        if now == target || self.behind(person, before).contains(&now) {
            return Fate::Done;
        }
        if self.behind(person, &now).contains(after) {
            if left && settle {
                self.returned(person, *symbol);
            }
            return Fate::Settled;
        }
        Fate::Kept
    }

    /// Puts back shared rows of which one of these disguises took `person` away; gives those that stay hidden.
    fn put_hidden_back(&mut self, person: i64, due: &[DisguiseId]) -> Vec<(Table, i64)> {
        let left: BTreeSet<Cell> = due
            .iter()
            .flat_map(|at| self.holdings[&(person, *at)].placeholders.clone())
            .filter(|symbol| self.placeholders[symbol].left)
            .map(Cell::Drawn)
            .collect();
        let mut still = Vec::new();
        for ((table, id), row) in self.hidden.clone() {
            let mut owners = table.owners().iter().map(|column| &row[*column]);
            // Who left the row once more since must take that back first.
            let mine = owners.any(|it| self.left(person, it).is_some_and(|it| left.contains(&it)));
            if !mine {
                continue;
            }
            // A row made anew by the application voids what was hidden.
            if self.rows.contains_key(&(table, id)) || self.put_back(person, (table, id), &row) {
                self.hidden.remove(&(table, id));
            } else {
                still.push((table, id));
            }
        }
        still
    }

    /// The nearest placeholder, from `owner` on, that was made for leaving a shared row.
    fn left(&self, person: i64, owner: &Cell) -> Option<Cell> {
        std::iter::once(owner.clone())
            .chain(self.behind(person, owner))
            .find(|it| {
                let placeholder = match it {
                    Cell::Drawn(symbol) => self.placeholders.get(symbol),
                    _ => None,
                };
                placeholder.is_some_and(|it| it.person == person && it.left)
            })
    }

    /// Placeholders made of one who had left count as somebody again.
    fn returned(&mut self, person: i64, symbol: usize) {
        let back: Vec<usize> = self
            .placeholders
            .iter()
            .filter(|(_, it)| it.person == person && !it.left)
            .filter(|(at, _)| {
                self.left(person, &Cell::Drawn(**at)) == Some(Cell::Drawn(symbol))
            })
            .map(|(at, _)| *at)
            .collect();
        for at in back {
            self.placeholders.get_mut(&at).unwrap().departed = false;
        }
    }

    fn put_account_back(&mut self, id: &Cell, row: &Row) -> bool {
        match id {
            Cell::Int(id) => {
                let taken = self.people.values().any(|other| other[0] == row[0]);
                if taken || self.people.contains_key(id) {
                    return false;
                }
                self.people.insert(*id, row.clone());
            }
            Cell::Drawn(symbol) => {
                let it = self.placeholders.get_mut(symbol).unwrap();
                it.present = !it.gone;
            }
            other => panic!("{other:?} is no user"),
        }
        true
    }

    fn put_back(&mut self, person: i64, (table, id): (Table, i64), row: &Row) -> bool {
        if self.rows.contains_key(&(table, id)) {
            return false;
        }
        let mut row = row.clone();
        for column in table.owners() {
            if row[*column] != Cell::Null {
                match self.nearest(person, &row[*column]) {
                    Some(owner) => row[*column] = owner,
                    None => return false,
                }
            }
        }
        if table == Table::Moderations
            && let Cell::Int(story) = row[1]
            && !self.rows.contains_key(&(Table::Stories, story))
        {
            return false;
        }
        self.rows.insert((table, id), row);
        true
    }

    /// The principals behind `owner` as far as `person` speaks for it, nearest first.
    fn behind(&self, person: i64, owner: &Cell) -> Vec<Cell> {
        let mut chain = Vec::new();
        let mut at = owner.clone();
        while let Cell::Drawn(symbol) = at {
            let Some(it) = self.placeholders.get(&symbol) else {
                break;
            };
            if it.person != person {
                break;
            }
            at = it.old.clone();
            chain.push(at.clone());
        }
        chain
    }

    fn nearest(&self, person: i64, owner: &Cell) -> Option<Cell> {
        let gone = |it: &Cell| matches!(it, Cell::Drawn(symbol) if self.placeholders[symbol].gone);
        std::iter::once(owner.clone())
            .chain(self.behind(person, owner))
            .find(|it| self.has_account(it) || !gone(it))
            .filter(|it| self.has_account(it))
    }

    /// The placeholder that must stay for the sake of a record that is kept.
    fn needs(&self, undo: &Undo) -> Option<usize> {
        let Undo::Owner(table, id, column, _, Cell::Drawn(after)) = undo else {
            return None;
        };
        let needed = match self.rows.get(&(*table, *id)) {
            // What the application changed no longer names it.
            Some(row) => row[*column] == Cell::Drawn(*after),
            None => self.placeholders[after].left && self.hidden.contains_key(&(*table, *id)),
        };
        needed.then_some(*after)
    }

    fn register(&mut self, person: i64, id: DisguiseId) {
        let mut holding = self.holdings.remove(&(person, id)).unwrap();
        holding.accounts.retain(|account| {
            if let Cell::Drawn(symbol) = account {
                let it = &self.placeholders[symbol];
                return !it.present && !it.gone;
            }
            let there = self.has_account(account);
            if let (true, Cell::Int(id)) = (there, account) {
                self.registered.insert(*id);
            }
            !there
        });
        holding.pending = true;
        self.holdings.insert((person, id), holding);
    }

    /// Takes away the placeholders of a disguise, under the policy.
    fn clear(&mut self, person: i64, id: DisguiseId, policy: References, needed: &BTreeSet<usize>) {
        let all = self.holdings[&(person, id)].placeholders.clone();
        let targets: Vec<Option<Cell>> = all
            .iter()
            .map(|symbol| self.nearest(person, &self.placeholders[symbol].old))
            .collect();
        let mut waiting = false;
        for (symbol, target) in all.iter().zip(targets) {
            if !self.placeholders[symbol].present {
                self.placeholders.get_mut(symbol).unwrap().gone = true;
                continue;
            }
            let Some(target) = target.filter(|_| !needed.contains(symbol)) else {
                waiting = true;
                continue;
            };
            if self.move_references(&Cell::Drawn(*symbol), &target, policy) {
                let it = self.placeholders.get_mut(symbol).unwrap();
                (it.present, it.gone) = (false, true);
            }
        }
        self.holdings.get_mut(&(person, id)).unwrap().waiting = waiting;
    }

    /// Whether the placeholder may go now.
    fn move_references(&mut self, placeholder: &Cell, target: &Cell, policy: References) -> bool {
        let names = |table: Table, row: &Row| {
            let owners = table.owners().iter();
            owners.filter(|it| row[**it] == *placeholder).count() > 0
        };
        match policy {
            References::Delete => self.rows.retain(|(table, _), row| !names(*table, row)),
            References::Retain => {
                return !self.rows.iter().any(|((table, _), row)| names(*table, row));
            }
            _ => {
                for ((table, _), row) in &mut self.rows {
                    for column in table.owners() {
                        if row[*column] == *placeholder {
                            row[*column] = target.clone();
                        }
                    }
                }
            }
        }
        true
    }
}

impl Holding {
    /// Whether there is anything to reveal.
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
            Self::Row(table, id, _)
            | Self::Value(table, id, ..)
            | Self::Owner(table, id, ..) => (table.name(), Cell::Int(*id)),
        }
    }
}

/// A disguise being applied to a copy of the model.
struct Apply<'a> {
    model: &'a mut Model,
    id: DisguiseId,
    user: Option<i64>,
    own: Option<BTreeSet<Cell>>,
    /// Symbols after this one were drawn by this disguise.
    first: usize,
}

impl Apply<'_> {
    fn step(&mut self, step: &Step) -> Option<()> {
        match step {
            Step::Remove(table, chosen) => {
                for key in self.chosen(*table, *chosen) {
                    self.remove(key)?;
                }
            }
            Step::Overwrite(table, column, value, chosen) => {
                for key in self.chosen(*table, *chosen) {
                    self.overwrite(key, *column, *value)?;
                }
            }
            Step::Replace(table, columns, group, chosen) => {
                let keys = self.chosen(*table, *chosen);
                for column in *columns {
                    self.replace(&keys, *column, *group)?;
                }
            }
            Step::RemoveAccount => self.remove_accounts()?,
        }
        Some(())
    }

    fn is_mine(&self, owner: &Cell) -> bool {
        match &self.own {
            Some(own) => own.contains(owner),
            None => !matches!(owner, Cell::Drawn(symbol) if *symbol > self.first),
        }
    }

    fn chosen(&self, table: Table, chosen: fn(i64) -> bool) -> Vec<(Table, i64)> {
        let mine = |row: &Row| {
            self.user.is_none() || table.owners().iter().any(|it| self.is_mine(&row[*it]))
        };
        self.model
            .rows
            .iter()
            .filter(|((of, id), row)| *of == table && chosen(*id) && mine(row))
            .map(|(key, _)| *key)
            .collect()
    }

    /// Who keeps the record of a row: the user meant, or the person behind its first owner.
    fn keeper(&self, table: Table, row: &Row) -> Option<i64> {
        self.user.or_else(|| {
            let mut owners = table.owners().iter();
            owners.find_map(|it| self.model.person(&row[*it]))
        })
    }

    fn note(&mut self, person: i64) -> &mut Holding {
        self.model.holdings.entry((person, self.id)).or_default()
    }

    fn make(&mut self, owner: &Cell, left: bool) -> Option<Cell> {
        let person = self.user.or_else(|| self.model.person(owner))?;
        let departed = left || self.model.is_departed(owner);
        let made = self.model.draw();
        let Cell::Drawn(symbol) = made else {
            panic!("a symbol is drawn");
        };
        let it = Placeholder {
            old: owner.clone(),
            person,
            left,
            departed,
            present: true,
            gone: false,
        };
        self.model.placeholders.insert(symbol, it);
        self.note(person).placeholders.push(symbol);
        Some(made)
    }

    fn overwrite(&mut self, key: (Table, i64), column: usize, value: Option<i64>) -> Option<()> {
        let row = self.model.rows[&key].clone();
        let keeper = self.keeper(key.0, &row)?;
        let after = match value {
            Some(value) => Cell::Int(value),
            None => self.model.draw(),
        };
        self.model.rows.get_mut(&key).unwrap()[column] = after.clone();
        self.model.ages += 1;
        let age = self.model.ages;
        let undo = Undo::Value(key.0, key.1, column, row[column].clone(), after, age);
        self.note(keeper).undo.push(undo);
        Some(())
    }

    fn replace(&mut self, keys: &[(Table, i64)], column: usize, group: Option<usize>) -> Option<()> {
        let mut groups: BTreeMap<(Cell, Cell), Cell> = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            let row = self.model.rows[key].clone();
            let owner = row[column].clone();
            if owner == Cell::Null || !self.is_mine(&owner) {
                continue;
            }
            let grouped = match group {
                Some(column) => row[column].clone(),
                None => Cell::Int(i64::try_from(place).unwrap()),
            };
            let made = match groups.get(&(owner.clone(), grouped.clone())) {
                Some(made) => made.clone(),
                None => self.make(&owner, false)?,
            };
            groups.insert((owner.clone(), grouped), made.clone());
            self.put_owner(*key, column, owner, made)?;
        }
        Some(())
    }

    fn put_owner(
        &mut self,
        key: (Table, i64),
        column: usize,
        before: Cell,
        after: Cell,
    ) -> Option<()> {
        let person = self.user.or_else(|| self.model.person(&before))?;
        self.model.rows.get_mut(&key).unwrap()[column] = after.clone();
        let undo = Undo::Owner(key.0, key.1, column, before, after);
        self.note(person).undo.push(undo);
        Some(())
    }

    fn remove(&mut self, key: (Table, i64)) -> Option<()> {
        let row = self.model.rows[&key].clone();
        let owners: BTreeSet<&Cell> = key
            .0
            .owners()
            .iter()
            .map(|it| &row[*it])
            .filter(|it| **it != Cell::Null)
            .collect();
        let shared = match self.user {
            Some(_) => !owners.iter().all(|it| self.is_mine(it)),
            None => owners.len() > 1,
        };
        if shared {
            return self.leave(key, &row);
        }
        let keeper = self.keeper(key.0, &row)?;
        self.model.rows.remove(&key);
        self.note(keeper).undo.push(Undo::Row(key.0, key.1, row));
        Some(())
    }

    fn leave(&mut self, key: (Table, i64), row: &Row) -> Option<()> {
        let (mut leaving, mut again, mut stays) = (Vec::new(), Vec::new(), false);
        for column in key.0.owners() {
            let owner = &row[*column];
            if *owner == Cell::Null {
                continue;
            }
            match (self.is_mine(owner), self.model.is_departed(owner)) {
                (true, true) => again.push(*column),
                (true, false) => leaving.push(*column),
                (false, departed) => stays |= !departed,
            }
        }
        if leaving.is_empty() && !stays {
            leaving = again;
        }
        if leaving.is_empty() {
            return Some(());
        }
        for column in leaving {
            let owner = row[column].clone();
            let made = self.make(&owner, true)?;
            self.put_owner(key, column, owner, made)?;
        }
        if !stays {
            let row = self.model.rows.remove(&key)?;
            self.model.hidden.insert(key, row);
        }
        Some(())
    }

    fn remove_accounts(&mut self) -> Option<()> {
        let own: Vec<Cell> = self.own.iter().flatten().cloned().collect();
        for id in own {
            if !self.model.has_account(&id) || self.model.is_departed(&id) || !self.is_old(&id) {
                continue;
            }
            let referred = self.model.rows.iter().any(|((table, _), row)| {
                table.owners().iter().any(|column| row[*column] == id)
            });
            if referred {
                return None;
            }
            let user = self.user?;
            let mut row = Vec::new();
            match &id {
                Cell::Int(person) => {
                    row = self.model.people.remove(person)?;
                    self.model.registered.remove(person);
                }
                Cell::Drawn(symbol) => {
                    self.model.placeholders.get_mut(symbol)?.present = false;
                }
                other => panic!("{other:?} is no user"),
            }
            let holding = self.note(user);
            holding.undo.push(Undo::Account(id.clone(), row));
            holding.accounts.push(id);
        }
        Some(())
    }

    fn is_old(&self, id: &Cell) -> bool {
        !matches!(id, Cell::Drawn(symbol) if *symbol > self.first)
    }
}
