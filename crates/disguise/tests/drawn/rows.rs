//! Rows of the drawn tables, as literals.

use probity_disguise::Dialect;

use super::dice::Dice;
use super::layout::{Class, Layout, Link, Table, Values};
use super::mix;

/// The most rows of one person in one table.
const OF_A_PERSON_MAX: usize = 3;

#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) cells: Vec<String>,
    /// The owner, if one person owns the row.
    pub(crate) owner: Option<usize>,
    /// True if the row is of the table that inherits.
    pub(crate) is_heir: bool,
}

/// The rows of each table, in the order of the tables.
pub(crate) type Rows = Vec<Vec<Row>>;

pub(crate) fn drawn(layout: &Layout, dice: &mut Dice) -> Rows {
    let mut filling = Filling {
        layout,
        dice,
        rows: Vec::new(),
    };
    for table in &layout.tables {
        filling.begin(table);
    }
    for at in 0..layout.tables.len() {
        filling.fill(at);
    }
    filling.rows
}

struct Filling<'a> {
    layout: &'a Layout,
    dice: &'a mut Dice,
    rows: Rows,
}

impl Filling<'_> {
    /// The rows of a table with their keys and owners.
    fn begin(&mut self, table: &Table) {
        self.rows.push(Vec::new());
        let people = self.layout.people;
        match table.class {
            Class::Users => {
                for person in 0..people {
                    self.add(table, Some(person), &[]);
                }
            }
            Class::Lookup => {
                for _ in 0..3 {
                    self.add(table, None, &[]);
                }
            }
            Class::Owned => {
                for person in 0..people {
                    for _ in 0..self.dice.throw(OF_A_PERSON_MAX + 1) {
                        self.add(table, Some(person), &[Some(person)]);
                    }
                }
                if Self::is_open(table, 0) {
                    self.add(table, None, &[None]);
                }
            }
            Class::Shared | Class::Follows => self.begin_shared(table),
            Class::Through => {
                let to = table.links[0].to;
                let parents = self.rows[to].len();
                for _ in 0..if parents == 0 {
                    0
                } else {
                    self.dice.throw(2 * people)
                } {
                    let parent = self.dice.throw(parents);
                    let owner = self.rows[to][parent].owner;
                    self.add(table, owner, &[Some(parent)]);
                }
                if Self::is_open(table, 0) {
                    self.add(table, None, &[None]);
                }
            }
        }
    }

    fn begin_shared(&mut self, table: &Table) {
        let people = self.layout.people;
        let mut seen = Vec::new();
        for _ in 0..2 * people {
            let mut pair = [0, 1].map(|_| Some(self.dice.throw(people)));
            for (at, person) in pair.iter_mut().enumerate() {
                if Self::is_open(table, at) && self.dice.in_a_hundred(mix::NULL) {
                    *person = None;
                }
            }
            if table.class == Class::Follows && seen.contains(&pair) {
                continue;
            }
            seen.push(pair);
            self.add(table, None, &pair);
        }
    }

    fn is_open(table: &Table, link: usize) -> bool {
        let columns = &table.links[link].columns;
        columns.iter().all(|it| table.columns[*it].nullable)
    }

    /// A row that names these rows, by the first references of the table.
    fn add(&mut self, table: &Table, owner: Option<usize>, named: &[Option<usize>]) {
        let at = self.rows.len() - 1;
        let number = u64::try_from(self.rows[at].len() + 1).unwrap();
        let mut cells: Vec<String> = Vec::with_capacity(table.columns.len());
        for column in &table.columns {
            cells.push(match column.values {
                Values::Key(key) => (key.value)(number),
                Values::Part => number.to_string(),
                _ => "NULL".to_owned(),
            });
        }
        let of_owners = table.links.iter().filter(|it| it.names_owner);
        for (link, named) in of_owners.zip(named) {
            if let Some(named) = named {
                let is_key = link.columns.iter().any(|it| table.key.contains(it));
                self.refer(table, link, *named, (&mut cells, is_key));
            }
        }
        let is_heir = table.form == super::layout::Form::Inherited && self.dice.in_a_hundred(30);
        self.rows[at].push(Row {
            cells,
            owner,
            is_heir,
        });
    }

    /// Writes the key of the row `named` of the table that `link` leads to.
    fn refer(
        &mut self,
        table: &Table,
        link: &Link,
        named: usize,
        (cells, as_it_is): (&mut [String], bool),
    ) {
        let to = &self.layout.tables[link.to];
        let target = self.rows[link.to][named].cells.clone();
        let respelled = !as_it_is && self.dice.in_a_hundred(mix::RESPELLED);
        for (column, key) in link.columns.iter().zip(&to.key) {
            let literal = &target[*key];
            cells[*column] = match (self.root(link.to, *key), respelled) {
                (Some(respell), true) => respell(literal),
                _ => literal.clone(),
            };
        }
        debug_assert!(table.columns.len() == cells.len());
    }

    /// Returns the function that respells a key; a key that refers to another's is spelled like it.
    fn root(&self, table: usize, column: usize) -> Option<fn(&str) -> String> {
        match self.layout.tables[table].columns[column].values {
            Values::Key(key) => Some(key.respelled),
            _ => None,
        }
    }

    /// The rest of the columns.
    fn fill(&mut self, at: usize) {
        let table = &self.layout.tables[at];
        for row in 0..self.rows[at].len() {
            let mut cells = self.rows[at][row].cells.clone();
            let owner = self.rows[at][row].owner;
            let rest = table.links.iter();
            let mut rest: Vec<&Link> = rest.filter(|it| !it.names_owner).collect();
            if table.class == Class::Users {
                rest = table.links.iter().collect();
            }
            for link in rest {
                let is_open = link.columns.iter().all(|it| table.columns[*it].nullable);
                let targets = self.targets(table, link, owner);
                let left_open = is_open && self.dice.in_a_hundred(mix::NULL);
                if !targets.is_empty() && !left_open {
                    let named = *self.dice.of_all(&targets);
                    // `SQLite` lets no row refer to itself in another spelling.
                    let is_itself = link.to == at && named == row;
                    let as_it_is = is_itself && self.layout.dialect == Dialect::Sqlite;
                    self.refer(table, link, named, (&mut cells, as_it_is));
                }
            }
            let number = u64::try_from(row).unwrap();
            for (place, column) in table.columns.iter().enumerate() {
                match column.values {
                    Values::Kind(kind) => {
                        let is_unique = table.unique.contains(&place);
                        cells[place] = if column.nullable && self.dice.in_a_hundred(mix::NULL) {
                            "NULL".to_owned()
                        } else if is_unique {
                            format!("'own {number}'")
                        } else {
                            (kind.value)(self.dice, number)
                        };
                    }
                    Values::Stamp => "0".clone_into(&mut cells[place]),
                    _ => {}
                }
            }
            self.rows[at][row].cells = cells;
        }
    }

    /// The rows that a row of `owner` may refer to.
    fn targets(&self, table: &Table, link: &Link, owner: Option<usize>) -> Vec<usize> {
        let to = &self.layout.tables[link.to];
        let all = self.rows[link.to].iter().enumerate();
        let free = !self.layout.is_own || matches!(to.class, Class::Lookup | Class::Users);
        let of_one = |it: &Table| matches!(it.class, Class::Owned | Class::Through);
        let is_between_owned = of_one(table) && of_one(to);
        if !(free || is_between_owned) {
            return Vec::new();
        }
        let may = all.filter(|(_, row)| !row.is_heir && (free || row.owner == owner));
        may.map(|(at, _)| at).collect()
    }
}
