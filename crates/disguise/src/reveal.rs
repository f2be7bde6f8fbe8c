//! Undoes a disguise from its records, row by row, keeping disguised whatever can no longer be put back safely.

use std::collections::{BTreeMap, BTreeSet};

use crate::apply::{at, encoded, picked, put};
use crate::database::{Database, DatabaseErrorKind};
use crate::error::Error;
use crate::principal::{Reach, Reached};
use crate::record::{Bag, Change, Modified, Section};
use crate::schema::{Known, Live};
use crate::store::{self, DisguiseId, Found, Stored};
use crate::table::{
    Inserted, Write, delete_keys, existing, insert, runs, select_keys, update_keys,
};
use crate::value::Value;

/// What happens to rows made while a placeholder owned things, when it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum References {
    /// They go to the returning owner.
    #[default]
    Recorrelate,
    /// They are deleted.
    Delete,
    /// They and the placeholder stay.
    Retain,
}

/// Whether a row may come back in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Rows {
    /// Each column that is unchanged comes back.
    #[default]
    PerColumn,
    /// A row of which one column changed stays disguised whole.
    Whole,
}

/// What is asked of [`Engine::reveal`](crate::Engine::reveal).
pub struct RevealRequest<'a> {
    /// Who asks; needed for a password or a token.
    pub user: Value,
    /// What they prove it with.
    pub credential: crate::Credential<'a>,
    /// Which disguise.
    pub id: DisguiseId,
    /// What happens to rows made meanwhile.
    pub references: References,
    /// Whether rows may come back in part.
    pub rows: Rows,
    /// The time of the entry.
    pub time: probity_format::Timestamp,
}

/// Why a row stayed disguised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeptReason {
    /// A row with its identity exists again.
    RowExists,
    /// A unique key or another constraint refuses it.
    Refused,
    /// The row to change is not there; another disguise may have removed it.
    Absent,
    /// The application changed the value meanwhile, and wins.
    Changed,
    /// Another column of the row was changed, and whole rows were asked for.
    PartOfRow,
    /// A row that it refers to is not there.
    ParentMissing,
    /// Its owner is not there.
    OwnerMissing,
    /// The table or a column is no longer there.
    SchemaChanged,
}

impl KeptReason {
    /// One clause for a person.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RowExists => "a row with its key exists again",
            Self::Refused => "a constraint of the database refuses it",
            Self::Absent => "the row is not there",
            Self::Changed => "the application changed it meanwhile",
            Self::PartOfRow => "another column of the row was changed meanwhile",
            Self::ParentMissing => "a row that it refers to is not there",
            Self::OwnerMissing => "its owner is not there",
            Self::SchemaChanged => "its table or column is no longer there",
        }
    }
}

/// A row or value that stayed disguised; a later reveal tries it again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// Its table.
    pub table: String,
    /// Its identifying values.
    pub identity: String,
    /// The column, when it is about one.
    pub column: Option<String>,
    /// Why.
    pub reason: KeptReason,
}

/// What a reveal did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Revealed {
    /// Rows and values put back in each table.
    pub restored: BTreeMap<String, u64>,
    /// What stayed disguised.
    pub kept: Vec<Kept>,
}

impl Revealed {
    /// Whether everything came back.
    pub const fn is_complete(&self) -> bool {
        self.kept.is_empty()
    }
}

/// One reveal in progress.
pub(crate) struct Work<'a> {
    pub(crate) database: &'a mut dyn Database,
    pub(crate) live: &'a Live,
    pub(crate) salt: &'a [u8],
    pub(crate) reach: &'a Reach,
    pub(crate) references: References,
    pub(crate) rows: Rows,
    pub(crate) revealed: Revealed,
    /// Placeholders that kept records still need.
    pub(crate) needed: BTreeSet<Vec<u8>>,
}

/// A bag being emptied.
struct Open<'a> {
    reached: &'a Reached,
    bag: Bag,
}

impl Work<'_> {
    /// Reveals `id`, and tries again what earlier reveals left.
    pub(crate) fn run(&mut self, id: DisguiseId) -> Result<(), Error> {
        let meant = |it: &&Reached| it.found.locator.changes && it.found.locator.disguise == id.0;
        if !self.reach.bags.iter().any(|it| meant(&it)) {
            return Err(Error::NoSuchDisguise);
        }
        self.database
            .defer_foreign_keys()
            .map_err(|source| Error::Database {
                doing: "deferring foreign keys",
                source,
            })?;
        let mut opened = self.open(|it| meant(&it))?;
        self.undo(&mut opened)?;
        let mut again = self.open(|it| it.found.locator.pending && !meant(&it))?;
        self.undo(&mut again)?;
        opened.append(&mut again);
        for open in &mut opened {
            self.principals(&mut open.bag)?;
        }
        for open in &mut opened {
            self.clear_placeholders(&mut open.bag)?;
        }
        self.put_away(&opened)
    }

    fn open<'r>(&mut self, meant: impl Fn(&'r Reached) -> bool) -> Result<Vec<Open<'r>>, Error>
    where
        Self: 'r,
    {
        let reach: &'r Reach = unborrowed(self.reach);
        let mut opened = Vec::new();
        for reached in reach
            .bags
            .iter()
            .filter(|it| it.found.locator.changes && meant(it))
        {
            let bag = match &reached.bag {
                Some(bag) => bag.clone(),
                None => store::read_bag(self.database, &reached.found.locator)?,
            };
            opened.push(Open { reached, bag });
        }
        Ok(opened)
    }

    /// Undoes all changes in the opposite order of the steps; what cannot be undone stays in the bags.
    fn undo(&mut self, opened: &mut [Open<'_>]) -> Result<(), Error> {
        let mut sections: Vec<(usize, Section)> = Vec::new();
        for (index, open) in opened.iter_mut().enumerate() {
            sections.extend(
                std::mem::take(&mut open.bag.sections)
                    .into_iter()
                    .map(|it| (index, it)),
            );
        }
        let barred = match self.rows {
            Rows::PerColumn => BTreeSet::new(),
            Rows::Whole => self.barred(&sections)?,
        };
        sections.sort_by_key(|(_, section)| std::cmp::Reverse(section.step));
        for (index, section) in sections {
            let left = self.section(section, &barred)?;
            if let (Some(open), Some(left)) = (opened.get_mut(index), left) {
                open.bag.sections.insert(0, left);
            }
        }
        Ok(())
    }

    fn section(
        &mut self,
        section: Section,
        barred: &BTreeSet<Vec<u8>>,
    ) -> Result<Option<Section>, Error> {
        let Section {
            step,
            table: name,
            change,
        } = section;
        let live = self.live;
        let known = live.table(&name);
        let fits = known.is_some_and(|table| fits(table, &change));
        let left = match (known, change) {
            (
                Some(table),
                Change::Removed {
                    shared,
                    columns,
                    rows,
                },
            ) if fits => {
                let rows = self.put_back(table, shared, &columns, rows)?;
                Change::Removed {
                    shared,
                    columns,
                    rows,
                }
            }
            (
                Some(table),
                Change::Modified {
                    identity,
                    column,
                    rows,
                },
            ) if fits => {
                let rows = self.rewrite(table, &column, rows, barred, false)?;
                Change::Modified {
                    identity,
                    column,
                    rows,
                }
            }
            (
                Some(table),
                Change::Decorrelated {
                    identity,
                    column,
                    rows,
                },
            ) if fits => {
                let rows = self.rewrite(table, &column, rows, barred, true)?;
                Change::Decorrelated {
                    identity,
                    column,
                    rows,
                }
            }
            (_, change) => {
                self.keep_all(&name, &change);
                change
            }
        };
        Ok((left.rows() > 0).then_some(Section {
            step,
            table: name,
            change: left,
        }))
    }

    fn keep_all(&mut self, table: &str, change: &Change) {
        for _ in 0..change.rows() {
            self.keep(table, &[], None, KeptReason::SchemaChanged);
        }
    }

    fn keep(&mut self, table: &str, identity: &[Value], column: Option<&str>, reason: KeptReason) {
        let identity = identity
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        let column = column.map(str::to_owned);
        self.revealed.kept.push(Kept {
            table: table.to_owned(),
            identity,
            column,
            reason,
        });
    }

    fn count(&mut self, table: &str, rows: usize) {
        if rows > 0 {
            let count = self.revealed.restored.entry(table.to_owned()).or_default();
            *count = count.saturating_add(u64::try_from(rows).unwrap_or(u64::MAX));
        }
    }

    /// Which of `ids` have a row in the users table.
    fn users(&mut self, ids: &[Value]) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut seen = BTreeSet::new();
        let ids: Vec<Value> = ids
            .iter()
            .filter(|id| seen.insert(id.principal()))
            .cloned()
            .collect();
        existing(
            self.database,
            &self.live.pseudo.table,
            &self.live.pseudo.id,
            &ids,
        )
    }

    /// Check C4 for many owners: each itself, or the nearest principal behind it that still has a row.
    fn nearest(&mut self, owners: &[Value]) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
        let mut wanted = owners.to_vec();
        for owner in owners {
            wanted.extend(self.reach.behind(owner).cloned());
        }
        let there = self.users(&wanted)?;
        let mut nearest = BTreeMap::new();
        for owner in owners {
            let chain = std::iter::once(owner).chain(self.reach.behind(owner));
            for candidate in chain {
                if there.contains(&candidate.principal()) {
                    nearest.insert(owner.principal(), candidate.clone());
                    break;
                }
            }
        }
        Ok(nearest)
    }

    /// Inserts removed rows; gives those that stay.
    fn put_back(
        &mut self,
        table: &Known,
        shared: bool,
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let mut kept: Vec<(Vec<Value>, KeptReason)> = Vec::new();
        let mut rows = rows;
        if shared {
            let keys: Vec<Vec<Value>> = rows
                .iter()
                .map(|row| picked(columns, row, &table.identity))
                .collect();
            let there = self.identities(table, &keys)?;
            rows.retain(|row| !there.contains(&encoded(&picked(columns, row, &table.identity))));
        }
        let mut ready: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
        let owned = self.owners_back(table, columns, &rows)?;
        for (row, owned) in rows.into_iter().zip(owned) {
            match owned {
                Some(owned) => ready.push((row, owned)),
                None => kept.push((row, KeptReason::OwnerMissing)),
            }
        }
        self.drop_orphans(table, columns, &mut ready, &mut kept)?;
        let done = self.insert_ready(table, columns, &ready, &mut kept)?;
        self.count(&table.name, done);
        for (row, reason) in &kept {
            let identity = picked(columns, row, &table.identity);
            self.keep(&table.name, &identity, None, *reason);
        }
        Ok(kept.into_iter().map(|(row, _)| row).collect())
    }

    /// Each row with owners that exist, or nothing when an owner is missing (C4).
    fn owners_back(
        &mut self,
        table: &Known,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<Option<Vec<Value>>>, Error> {
        if table.name == self.live.pseudo.table {
            return Ok(rows.iter().cloned().map(Some).collect());
        }
        let owners: Vec<Value> = rows
            .iter()
            .flat_map(|row| table.owners.iter().filter_map(|it| at(columns, row, it)))
            .filter(|owner| !owner.is_nobody())
            .cloned()
            .collect();
        let nearest = self.nearest(&owners)?;
        let owned = |row: &Vec<Value>| {
            let mut row = row.clone();
            for column in &table.owners {
                let owner = at(columns, &row, column)
                    .filter(|it| !it.is_nobody())
                    .cloned();
                if let Some(owner) = owner {
                    put(
                        columns,
                        &mut row,
                        column,
                        nearest.get(&owner.principal())?.clone(),
                    );
                }
            }
            Some(row)
        };
        Ok(rows.iter().map(owned).collect())
    }

    /// Check C3: moves rows whose parents are missing to `kept`; parents may be among the rows themselves.
    fn drop_orphans(
        &mut self,
        table: &Known,
        columns: &[String],
        ready: &mut Vec<(Vec<Value>, Vec<Value>)>,
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<(), Error> {
        for reference in &table.references {
            let key = |row: &[Value]| {
                let key = picked(columns, row, &reference.columns);
                (!key.iter().any(Value::is_null)).then_some(key)
            };
            let mut seen = BTreeSet::new();
            let keys: Vec<Vec<Value>> = ready
                .iter()
                .filter_map(|(_, row)| key(row))
                .filter(|key| seen.insert(encoded(key)))
                .collect();
            let by = &reference.to_columns;
            let found = select_keys(self.database, &reference.to_table, by, by, &keys)?;
            let found: BTreeSet<Vec<u8>> = found.iter().map(|row| encoded(row)).collect();
            loop {
                let own: BTreeSet<Vec<u8>> = if reference.to_table == table.name {
                    ready
                        .iter()
                        .map(|(_, row)| encoded(&picked(columns, row, by)))
                        .collect()
                } else {
                    BTreeSet::new()
                };
                let before = ready.len();
                let holds = |row: &[Value]| {
                    key(row).is_none_or(|key| {
                        found.contains(&encoded(&key)) || own.contains(&encoded(&key))
                    })
                };
                let (stay, gone): (Vec<_>, Vec<_>) = std::mem::take(ready)
                    .into_iter()
                    .partition(|(_, row)| holds(row));
                *ready = stay;
                kept.extend(
                    gone.into_iter()
                        .map(|(row, _)| (row, KeptReason::ParentMissing)),
                );
                if own.is_empty() || ready.len() == before {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Check C1 by the database's own keys: a run that is refused is tried row by row.
    fn insert_ready(
        &mut self,
        table: &Known,
        columns: &[String],
        ready: &[(Vec<Value>, Vec<Value>)],
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<usize, Error> {
        let rows: Vec<Vec<Value>> = ready.iter().map(|(_, row)| row.clone()).collect();
        let mut originals = ready.iter();
        let mut done: usize = 0;
        for run in runs(&rows, columns.len()) {
            let run_of: Vec<&(Vec<Value>, Vec<Value>)> =
                originals.by_ref().take(run.len()).collect();
            if insert(self.database, &table.name, columns, run)? == Inserted::All {
                done = done.saturating_add(run.len());
                continue;
            }
            for (original, row) in run_of {
                let one = std::slice::from_ref(row);
                if insert(self.database, &table.name, columns, one)? == Inserted::All {
                    done = done.saturating_add(1);
                    continue;
                }
                let key = picked(columns, row, &table.identity);
                let there = self.identities(table, &[key])?;
                let reason = if there.is_empty() {
                    KeptReason::Refused
                } else {
                    KeptReason::RowExists
                };
                kept.push((original.clone(), reason));
            }
        }
        Ok(done)
    }

    fn identities(
        &mut self,
        table: &Known,
        keys: &[Vec<Value>],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let by = &table.identity;
        let rows = select_keys(self.database, &table.name, by, by, keys)?;
        Ok(rows.iter().map(|row| encoded(row)).collect())
    }

    /// The values that rows hold now, by identity.
    fn current(
        &mut self,
        table: &Known,
        column: &str,
        rows: &[Modified],
    ) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
        let keys: Vec<Vec<Value>> = rows.iter().map(|row| row.identity.clone()).collect();
        let mut columns = table.identity.clone();
        columns.push(column.to_owned());
        let found = select_keys(self.database, &table.name, &columns, &table.identity, &keys)?;
        let mut current = BTreeMap::new();
        for mut row in found {
            if let Some(value) = row.pop() {
                current.insert(encoded(&row), value);
            }
        }
        Ok(current)
    }

    /// Rows of which some column can no longer come back (for whole rows).
    fn barred(&mut self, sections: &[(usize, Section)]) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut barred = BTreeSet::new();
        let live = self.live;
        for (_, section) in sections {
            let (Change::Modified { column, rows, .. } | Change::Decorrelated { column, rows, .. }) =
                &section.change
            else {
                continue;
            };
            let Some(table) = live
                .table(&section.table)
                .filter(|it| fits(it, &section.change))
            else {
                continue;
            };
            let current = self.current(table, column, rows)?;
            for row in rows {
                let now = current.get(&encoded(&row.identity));
                let safe = now.is_none_or(|now| now.same(&row.after) || now.same(&row.before));
                if !safe {
                    barred.insert(row_name(table, &row.identity));
                }
            }
        }
        Ok(barred)
    }

    /// Check C2: writes back what still holds the disguised value; gives the records that stay.
    fn rewrite(
        &mut self,
        table: &Known,
        column: &str,
        rows: Vec<Modified>,
        barred: &BTreeSet<Vec<u8>>,
        owner: bool,
    ) -> Result<Vec<Modified>, Error> {
        let current = self.current(table, column, &rows)?;
        let nearest = if owner {
            let owners: Vec<Value> = rows.iter().map(|row| row.before.clone()).collect();
            self.nearest(&owners)?
        } else {
            BTreeMap::new()
        };
        let mut kept: Vec<(Modified, KeptReason)> = Vec::new();
        let mut ready: Vec<(Modified, Value)> = Vec::new();
        for row in rows {
            let target = if owner {
                nearest.get(&row.before.principal()).cloned()
            } else {
                Some(row.before.clone())
            };
            match (current.get(&encoded(&row.identity)), target) {
                (None, _) => kept.push((row, KeptReason::Absent)),
                (Some(_), _) if barred.contains(&row_name(table, &row.identity)) => {
                    kept.push((row, KeptReason::PartOfRow));
                }
                (Some(_), None) => kept.push((row, KeptReason::OwnerMissing)),
                (Some(now), Some(target)) if now.same(&row.after) => ready.push((row, target)),
                (Some(now), Some(target)) if now.same(&target) => {}
                // A later decorrelation holds; its own reveal finds the way back along the chain.
                (Some(now), _) if owner && self.reach.behind(now).any(|it| it.same(&row.after)) => {
                }
                (Some(_), _) => kept.push((row, KeptReason::Changed)),
            }
        }
        let done = self.write(table, column, ready, &mut kept)?;
        self.count(&table.name, done);
        for (row, reason) in &kept {
            self.keep(&table.name, &row.identity, Some(column), *reason);
            if owner && !matches!(reason, KeptReason::Absent | KeptReason::Changed) {
                self.needed.insert(row.after.principal());
            }
        }
        Ok(kept.into_iter().map(|(row, _)| row).collect())
    }

    fn write(
        &mut self,
        table: &Known,
        column: &str,
        ready: Vec<(Modified, Value)>,
        kept: &mut Vec<(Modified, KeptReason)>,
    ) -> Result<usize, Error> {
        let all: Vec<Write<'_>> = ready
            .iter()
            .map(|(row, target)| write(row, target))
            .collect();
        match update_keys(self.database, table, column, &all) {
            Ok(_) => return Ok(all.len()),
            Err(error) if is_constraint(&error) => {}
            Err(error) => return Err(error),
        }
        // Some rows of the set may have been written by earlier runs; writing them again changes nothing.
        let mut done: usize = 0;
        for (row, target) in ready {
            match update_keys(self.database, table, column, &[write(&row, &target)]) {
                Ok(_) => done = done.saturating_add(1),
                Err(error) if is_constraint(&error) => kept.push((row, KeptReason::Refused)),
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Registers principals whose rows are back.
    fn principals(&mut self, bag: &mut Bag) -> Result<(), Error> {
        let ids: Vec<Value> = bag.principals.iter().map(|(id, _, _)| id.clone()).collect();
        let there = self.users(&ids)?;
        let names: Vec<Vec<u8>> = ids.iter().map(Value::principal).collect();
        let registered = store::principals(self.database, &names)?;
        for (id, public, pseudo) in std::mem::take(&mut bag.principals) {
            let name = id.principal();
            if !there.contains(&name) {
                bag.principals.push((id, public, pseudo));
            } else if !registered.contains_key(&name) {
                store::register(self.database, &[(name, public)], pseudo)?;
            }
        }
        Ok(())
    }

    /// Takes the placeholders of a revealed disguise out of the users table, under the reference policy.
    fn clear_placeholders(&mut self, bag: &mut Bag) -> Result<(), Error> {
        let all: Vec<Value> = bag.speaks_for.iter().map(|link| link.new.clone()).collect();
        let there = self.users(&all)?;
        let nearest = {
            let owners: Vec<Value> = bag.speaks_for.iter().map(|link| link.old.clone()).collect();
            self.nearest(&owners)?
        };
        let mut going: Vec<(Value, Value)> = Vec::new();
        for link in &mut bag.speaks_for {
            let name = link.new.principal();
            let target = nearest.get(&link.old.principal());
            match target {
                _ if !there.contains(&name) => link.gone = true,
                Some(target) if !self.needed.contains(&name) => {
                    going.push((link.new.clone(), target.clone()));
                }
                _ => link.gone = false,
            }
        }
        if going.is_empty() {
            return Ok(());
        }
        self.move_references(&mut going)?;
        let keys: Vec<Vec<Value>> = going.iter().map(|(id, _)| vec![id.clone()]).collect();
        let pseudo = &self.live.pseudo;
        delete_keys(
            self.database,
            &pseudo.table,
            std::slice::from_ref(&pseudo.id),
            &keys,
        )?;
        let names: Vec<Vec<u8>> = going.iter().map(|(id, _)| id.principal()).collect();
        store::unregister(self.database, &names)?;
        let gone: BTreeSet<Vec<u8>> = names.into_iter().collect();
        for link in &mut bag.speaks_for {
            link.gone |= gone.contains(&link.new.principal());
        }
        Ok(())
    }

    /// Applies the reference policy to the rows that still name a placeholder about to go.
    fn move_references(&mut self, going: &mut Vec<(Value, Value)>) -> Result<(), Error> {
        let live = self.live;
        for (table, column) in live.owner_columns() {
            let by = [column.to_owned()];
            let keys: Vec<Vec<Value>> = going.iter().map(|(id, _)| vec![id.clone()]).collect();
            match self.references {
                References::Delete => {
                    delete_keys(self.database, &table.name, &by, &keys)?;
                }
                References::Retain => {
                    let found = select_keys(self.database, &table.name, &by, &by, &keys)?;
                    let used: BTreeSet<Vec<u8>> =
                        found.iter().flatten().map(Value::principal).collect();
                    going.retain(|(id, _)| !used.contains(&id.principal()));
                }
                References::Recorrelate => {
                    let identities: Vec<[Value; 1]> =
                        going.iter().map(|(id, _)| [id.clone()]).collect();
                    let writes: Vec<Write<'_>> = identities
                        .iter()
                        .zip(going.iter())
                        .map(|(identity, (_, target))| Write {
                            identity,
                            guard: None,
                            value: target,
                        })
                        .collect();
                    let by_owner = Known {
                        identity: by.to_vec(),
                        ..table.clone()
                    };
                    update_keys(self.database, &by_owner, column, &writes)?;
                }
            }
        }
        Ok(())
    }

    /// Stores what is left of the bags, and forgets links that nothing hangs behind any more.
    fn put_away(&mut self, opened: &[Open<'_>]) -> Result<(), Error> {
        let rows: BTreeSet<&[u8]> = opened
            .iter()
            .map(|it| it.reached.found.row.as_slice())
            .collect();
        let untouched = self
            .reach
            .bags
            .iter()
            .filter(|it| !rows.contains(it.found.row.as_slice()));
        let holds = |bag: &Bag| !bag.sections.is_empty() || !bag.principals.is_empty();
        let more = opened.iter().any(|it| holds(&it.bag));
        let hanging = more || untouched.clone().any(|it| it.found.locator.changes);
        let mut gone: Vec<&Found> = opened.iter().map(|it| &it.reached.found).collect();
        let mut stored = Vec::new();
        for Open { reached, bag } in opened {
            let linked = bag.speaks_for.iter().any(|link| !link.gone);
            if holds(bag) || linked || (hanging && !bag.speaks_for.is_empty()) {
                stored.push(Stored {
                    bag,
                    public: reached.public,
                    pseudo: reached.pseudo,
                    disguise: reached.found.locator.disguise,
                    updates: reached.found.locator.updates,
                    pending: true,
                });
            }
        }
        if !hanging {
            let links_only = untouched.filter(|it| {
                it.bag
                    .as_ref()
                    .is_some_and(|bag| bag.speaks_for.iter().all(|link| link.gone))
            });
            gone.extend(links_only.map(|it| &it.found));
        }
        store::remove_bags(self.database, &gone)?;
        store::put_bags(self.database, self.salt, &stored)
    }
}

/// The reach outlives the work that borrows it.
const fn unborrowed(reach: &Reach) -> &Reach {
    reach
}

fn write<'r>(row: &'r Modified, target: &'r Value) -> Write<'r> {
    Write {
        identity: &row.identity,
        guard: None,
        value: target,
    }
}

fn is_constraint(error: &Error) -> bool {
    matches!(
        error,
        Error::Database { source, .. }
            if matches!(source.kind, DatabaseErrorKind::Unique | DatabaseErrorKind::Constraint)
    )
}

/// Whether the table still has what the change speaks of.
fn fits(table: &Known, change: &Change) -> bool {
    let has = |column: &String| table.catalog.column(column).is_some();
    match change {
        Change::Removed { columns, .. } => columns.iter().all(has) && !table.identity.is_empty(),
        Change::Modified {
            identity, column, ..
        }
        | Change::Decorrelated {
            identity, column, ..
        } => *identity == table.identity && has(column),
    }
}

fn row_name(table: &Known, identity: &[Value]) -> Vec<u8> {
    let mut name = vec![Value::from(table.name.as_str())];
    name.extend_from_slice(identity);
    encoded(&name)
}
