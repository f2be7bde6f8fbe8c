//! Disguises in the model: one row at a time.

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::DisguiseId;

use super::{Cell, Holding, Model, Placeholder, Row, Step, Table, Undo};

/// A disguise being applied to a copy of the model.
pub(super) struct Apply<'a> {
    pub(super) model: &'a mut Model,
    pub(super) id: DisguiseId,
    pub(super) user: Option<i64>,
    pub(super) own: Option<BTreeSet<Cell>>,
    /// Symbols after this one were drawn by this disguise.
    pub(super) first: usize,
}

impl Apply<'_> {
    pub(super) fn step(&mut self, step: &Step) -> Option<()> {
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

    /// Returns the keeper of a row's record: the user meant, or the first owner who is no
    /// placeholder, or the person behind the first.
    fn keeper(&self, table: Table, row: &Row) -> Option<i64> {
        let first = |is_drawn: bool| {
            let owners = table.owners().iter().map(|it| &row[*it]);
            let mut owners = owners.filter(|it| matches!(it, Cell::Drawn(_)) == is_drawn);
            owners.find_map(|it| self.model.person(it))
        };
        self.user.or_else(|| first(false)).or_else(|| first(true))
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
            retained: false,
            successor: None,
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

    fn replace(
        &mut self,
        keys: &[(Table, i64)],
        column: usize,
        group: Option<usize>,
    ) -> Option<()> {
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
        let dangles = self.model.dangles(key.0, &row);
        let undo = Undo::Row(key.0, key.1, row, dangles);
        self.note(keeper).undo.push(undo);
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
            let dangles = self.model.dangles(key.0, &row);
            self.model.hidden.insert(key, (row, dangles));
        }
        Some(())
    }

    fn remove_accounts(&mut self) -> Option<()> {
        let own: Vec<Cell> = self.own.iter().flatten().cloned().collect();
        for id in own {
            if !self.model.has_account(&id) || self.model.is_departed(&id) || !self.is_old(&id) {
                continue;
            }
            let referred =
                self.model.rows.iter().any(|((table, _), row)| {
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
