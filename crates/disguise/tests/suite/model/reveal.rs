//! Reveals in the model: one record at a time, repeated while that helps.

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::{DisguiseId, References};

use super::{Cell, Fate, Model, Row, Table, Undo};

impl Model {
    /// Reveals; gives the table and id of every row that stays disguised.
    pub(crate) fn reveal(
        &mut self,
        person: i64,
        id: DisguiseId,
        policy: References,
    ) -> BTreeSet<(&'static str, Cell)> {
        let (due, mut undo) = self.take_due(person, id);
        let stories = undo.iter().filter_map(|(_, it)| match it {
            Undo::Row(Table::Stories, story, ..) => Some(*story),
            _ => None,
        });
        self.awaited = stories.collect();
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
            let is_done = undo.is_empty() && hidden.is_empty();
            if !helped && !is_done && !self.awaited.is_empty() {
                // Nothing else helps: rows begin without those that could not come back.
                self.awaited.clear();
                continue;
            }
            if is_done || (!helped && settle) {
                break;
            }
            settle |= !helped;
        }
        let mut needed = BTreeSet::new();
        let mut doubtful = BTreeSet::new();
        let mut kept = BTreeSet::new();
        undo.extend(covered);
        for (table, id) in hidden {
            kept.insert((table.name(), Cell::Int(id)));
            let (row, _) = &self.hidden[&(table, id)];
            let owners = table.owners().iter().map(|column| &row[*column]);
            needed.extend(owners.filter_map(|it| match it {
                Cell::Drawn(symbol) => Some(*symbol),
                _ => None,
            }));
        }
        for (at, it) in undo.into_iter().rev() {
            kept.insert(it.row());
            needed.extend(self.needs(&it));
            doubtful.extend(self.loses(&it));
            let holding = self.holdings.get_mut(&(person, at)).unwrap();
            holding.undo.push(it);
        }
        for at in &due {
            self.register(person, *at);
        }
        let all = due
            .iter()
            .flat_map(|at| &self.holdings[&(person, *at)].placeholders);
        let may_go = |symbol: &&usize| {
            let it = &self.placeholders[*symbol];
            let is_there = it.present && !it.retained && !needed.contains(*symbol);
            is_there && self.nearest(person, &it.old).is_some()
        };
        let going: BTreeSet<usize> = all.filter(may_go).copied().collect();
        let alone = &going - &doubtful;
        for at in due {
            self.clear((person, at), policy, &needed, &alone);
        }
        self.holdings.retain(|_, it| it.counts());
        kept
    }

    /// Takes what a reveal undoes out of its records; gives these records' disguises as well.
    fn take_due(
        &mut self,
        person: i64,
        id: DisguiseId,
    ) -> (Vec<DisguiseId>, Vec<(DisguiseId, Undo)>) {
        let is_due = |at: &DisguiseId| {
            let it = self.holdings.get(&(person, *at));
            it.is_some_and(|it| (*at == id || it.pending) && it.counts())
        };
        let due: Vec<DisguiseId> = self.disguises.iter().copied().filter(is_due).collect();
        let mut undo = Vec::new();
        for at in &due {
            let holding = self.holdings.get_mut(&(person, *at)).unwrap();
            undo.extend(holding.undo.drain(..).map(|it| (*at, it)));
        }
        (due, undo)
    }

    /// Hands each hidden value to the next newer record of the same cell, unless the application
    /// wrote in between; then the record must stay. Leaves the newest first.
    fn merge(&mut self, person: i64, due: &mut Vec<(DisguiseId, Undo)>) -> Vec<(DisguiseId, Undo)> {
        let mut covered = Vec::new();
        let ranks = self.ranks(person, due);
        let rank = |it: &Undo| ranks.get(&it.age()).copied().unwrap_or_else(|| it.age());
        due.sort_by_key(|(_, it)| rank(it));
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
                .filter(|it| it.cell() == older.cell() && rank(it) > rank(&older))
                .min_by_key(|it| rank(it));
            let (Some(Undo::Value(_, _, _, newer, ..)), Undo::Value(_, _, _, before, hidden, _)) =
                (newer, &older)
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

    /// The ages of records which the values put in another order than time does, each with the age that it counts
    /// for: what the last hid must lie on what the one before put there, without a choice, and the row must hold what
    /// the last put there.
    fn ranks(&self, person: i64, due: &[(DisguiseId, Undo)]) -> BTreeMap<usize, usize> {
        let held = self.holdings.iter().filter(|((of, _), _)| *of == person);
        let held: Vec<&Undo> = held.flat_map(|(_, it)| &it.undo).collect();
        let cells: BTreeSet<(Table, i64, usize)> =
            due.iter().filter_map(|(_, it)| it.cell()).collect();
        let mut ranks = BTreeMap::new();
        for (table, id, column) in cells {
            let all = due.iter().map(|(_, it)| it).chain(held.iter().copied());
            let mut by_age: Vec<(usize, &Cell, &Cell)> = all
                .filter(|it| it.cell() == Some((table, id, column)))
                .filter_map(|it| match it {
                    Undo::Value(_, _, _, before, after, age) => Some((*age, before, after)),
                    _ => None,
                })
                .collect();
            by_age.sort_unstable();
            let Some(by_values) = by_values(&by_age) else {
                continue;
            };
            let now = self.rows.get(&(table, id)).map(|row| &row[column]);
            if now == by_values.last().map(|(_, _, after)| *after) {
                let ages = by_age.iter().map(|(age, ..)| *age);
                ranks.extend(by_values.iter().map(|(age, ..)| *age).zip(ages));
            }
        }
        ranks
    }

    fn undo(&mut self, person: i64, undo: &Undo, settle: bool) -> Fate {
        let done = match undo {
            Undo::Account(id, row) => self.put_account_back(id, row),
            Undo::Row(table, id, row, dangles) => {
                self.put_back(person, (*table, *id), (row, *dangles))
            }
            // What is somebody else's row by now gets nothing.
            Undo::Value(table, id, ..) if !self.owns(person, (*table, *id)) => false,
            Undo::Value(table, id, column, before, after, _) => {
                match self
                    .rows
                    .get_mut(&(*table, *id))
                    .map(|row| &mut row[*column])
                {
                    Some(now) if now == after => {
                        *now = before.clone();
                        true
                    }
                    // What was there already is hidden by nothing.
                    Some(now) => now == before || before == after,
                    None => false,
                }
            }
            Undo::Owner(table, id, column, before, after) => {
                return self.undo_owner(person, (*table, *id, *column), (before, after), settle);
            }
        };
        if done { Fate::Done } else { Fate::Kept }
    }

    /// Returns whether the row is there and names `person`, or a placeholder that they speak for,
    /// as an owner.
    fn owns(&self, person: i64, (table, id): (Table, i64)) -> bool {
        let is_own = |owner: &Cell| match owner {
            Cell::Int(id) => *id == person,
            Cell::Drawn(symbol) => {
                let placeholder = self.placeholders.get(symbol);
                placeholder.is_some_and(|it| it.person == person)
            }
            _ => false,
        };
        let row = self.rows.get(&(table, id));
        row.is_some_and(|row| table.owners().iter().any(|column| is_own(&row[*column])))
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
        for ((table, id), (row, dangles)) in self.hidden.clone() {
            let mut owners = table.owners().iter().map(|column| &row[*column]);
            // Who left the row once more since must take that back first.
            let mine = owners.any(|it| self.left(person, it).is_some_and(|it| left.contains(&it)));
            if !mine {
                continue;
            }
            // A row made anew by the application voids what was hidden.
            let is_anew = self.rows.contains_key(&(table, id));
            if is_anew || self.put_back(person, (table, id), (&row, dangles)) {
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
            .filter(|(at, _)| self.left(person, &Cell::Drawn(**at)) == Some(Cell::Drawn(symbol)))
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

    fn put_back(
        &mut self,
        person: i64,
        (table, id): (Table, i64),
        (row, dangled): (&Row, bool),
    ) -> bool {
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
        let is_awaited = matches!(row[1], Cell::Int(story) if self.awaited.contains(&story));
        if self.dangles(table, &row) && (!dangled || is_awaited) {
            return false;
        }
        self.rows.insert((table, id), row);
        true
    }

    /// Returns whether a row refers to a story that is not there.
    pub(super) fn dangles(&self, table: Table, row: &Row) -> bool {
        matches!((table, &row[1]), (Table::Moderations, Cell::Int(story))
            if !self.rows.contains_key(&(Table::Stories, *story)))
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
            .or_else(|| self.successor(person, owner))
    }

    /// Returns the person, of those who are there, who took the place of somebody else's placeholder.
    fn successor(&self, person: i64, owner: &Cell) -> Option<Cell> {
        let mut now = owner.clone();
        while let Cell::Drawn(symbol) = now {
            let it = &self.placeholders[&symbol];
            if it.person == person {
                return None;
            }
            now = it.successor.clone()?;
            if self.has_account(&now) {
                return Some(now);
            }
        }
        None
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

    /// The placeholder whose row is not where the record has it.
    fn loses(&self, undo: &Undo) -> Option<usize> {
        match undo {
            Undo::Owner(table, id, _, _, Cell::Drawn(after)) => {
                (!self.rows.contains_key(&(*table, *id))).then_some(*after)
            }
            _ => None,
        }
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

    /// Takes away the placeholders of a disguise, under the policy. Rows of those alone who are `alone` may be deleted.
    fn clear(
        &mut self,
        (person, id): (i64, DisguiseId),
        policy: References,
        needed: &BTreeSet<usize>,
        alone: &BTreeSet<usize>,
    ) {
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
            if self.placeholders[symbol].retained {
                continue;
            }
            let Some(target) = target.filter(|_| !needed.contains(symbol)) else {
                waiting = true;
                continue;
            };
            if self.move_references(&Cell::Drawn(*symbol), &target, policy, alone) {
                let it = self.placeholders.get_mut(symbol).unwrap();
                (it.present, it.gone) = (false, true);
                it.successor = Some(target);
            } else {
                self.placeholders.get_mut(symbol).unwrap().retained = true;
            }
        }
        self.holdings.get_mut(&(person, id)).unwrap().waiting = waiting;
    }

    /// Returns whether the placeholder may go now.
    fn move_references(
        &mut self,
        placeholder: &Cell,
        target: &Cell,
        policy: References,
        alone: &BTreeSet<usize>,
    ) -> bool {
        let names = |table: Table, row: &Row| {
            let owners = table.owners().iter();
            owners.filter(|it| row[**it] == *placeholder).count() > 0
        };
        let is_alone = |table: Table, row: &Row| {
            table.owners().iter().all(|column| match &row[*column] {
                Cell::Drawn(symbol) => alone.contains(symbol),
                other => *other == Cell::Null,
            })
        };
        if policy == References::Retain {
            return !self.rows.iter().any(|((table, _), row)| names(*table, row));
        }
        if policy == References::Delete {
            self.rows
                .retain(|(table, _), row| !(names(*table, row) && is_alone(*table, row)));
        }
        for ((table, _), row) in &mut self.rows {
            for column in table.owners() {
                if row[*column] == *placeholder {
                    row[*column] = target.clone();
                }
            }
        }
        true
    }
}

/// Records of one cell, each with what it hid and put there, in the only order in which each lies on the one before, if
/// that is not the order of their ages.
fn by_values<'m>(
    by_age: &[(usize, &'m Cell, &'m Cell)],
) -> Option<Vec<(usize, &'m Cell, &'m Cell)>> {
    let lies_on = |upper: &(usize, &Cell, &Cell), lower: &(usize, &Cell, &Cell)| upper.1 == lower.2;
    if by_age.windows(2).all(|it| lies_on(&it[1], &it[0])) {
        return None;
    }
    let mut left = by_age.to_vec();
    let mut order: Vec<(usize, &Cell, &Cell)> = Vec::new();
    while !left.is_empty() {
        let is_next = |it: &(usize, &Cell, &Cell)| match order.last() {
            Some(last) => lies_on(it, last),
            None => !left.iter().any(|other| other != it && lies_on(it, other)),
        };
        let next: Vec<usize> = (0..left.len()).filter(|at| is_next(&left[*at])).collect();
        let [only] = next[..] else { return None };
        order.push(left.remove(only));
    }
    Some(order)
}
