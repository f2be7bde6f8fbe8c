//! Tables as they are drawn from a seed: what a stranger's schema may look like.

use probity_disguise::Dialect;

use super::dice::Dice;
use super::kinds::{self, Change, Key, Kind, Shown};
use super::mix;
use super::names::Names;

/// The relation of the rows of a table to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Users,
    /// One owner.
    Owned,
    /// Two people beside each other.
    Shared,
    /// Two people who are the key.
    Follows,
    /// Whoever owns the row that it refers to.
    Through,
    /// Rows without people.
    Lookup,
}

/// The storage form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    /// `SQLite`.
    Strict,
    /// `SQLite`.
    WithoutRowid,
    /// `MariaDB`.
    Versioned,
    /// `PostgreSQL`, by the hash of its key.
    Partitioned,
    /// `PostgreSQL`: another table inherits from it, and has rows.
    Inherited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// Writes to another table what happens.
    Audit,
    /// Counts in the row how often it changes.
    Stamp,
}

/// The source of a column's values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Values {
    Key(Key),
    Kind(Kind),
    /// Numbered within its owner.
    Part,
    /// Refers to the key of a table.
    Link(usize),
    /// Worked out by the database.
    Computed,
    /// Counted by a trigger.
    Stamp,
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) sql: String,
    pub(crate) nullable: bool,
    /// The SQL after its type.
    pub(crate) more: String,
    pub(crate) shown: Shown,
    pub(crate) change: Change,
    pub(crate) values: Values,
}

/// A foreign key.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) columns: Vec<usize>,
    pub(crate) to: usize,
    pub(crate) action: &'static str,
    pub(crate) is_deferrable: bool,
    /// True if it names the owner of the row, or another person of the row.
    pub(crate) names_owner: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) class: Class,
    pub(crate) form: Form,
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<usize>,
    pub(crate) links: Vec<Link>,
    pub(crate) unique: Vec<usize>,
    pub(crate) trigger: Option<Trigger>,
    /// True if it is in the second schema of the search path.
    pub(crate) is_second: bool,
}

/// The effect of a table outside the specification on the users table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    Nothing,
    /// A table that no specification reaches refers to it and would lose rows.
    Cascades,
}

#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) dialect: Dialect,
    /// The users table is the first.
    pub(crate) tables: Vec<Table>,
    /// Rows refer to rows of the same person alone.
    pub(crate) is_own: bool,
    pub(crate) people: usize,
    pub(crate) outside: Outside,
    pub(crate) has_second: bool,
}

pub(crate) fn drawn(dialect: Dialect, dice: &mut Dice) -> Layout {
    let mut draft = Drawing {
        dialect,
        names: Names::new(dialect),
        tables: Vec::new(),
        has_second: dialect == Dialect::Postgres && dice.in_a_hundred(mix::TWO_SCHEMAS),
        dice,
    };
    draft.users();
    let count = mix::TABLES_MIN + draft.dice.throw(mix::TABLES_MAX - mix::TABLES_MIN + 1);
    while draft.tables.len() < count {
        draft.table();
    }
    draft.more_links();
    draft.forms();
    let Drawing {
        tables,
        has_second,
        dice,
        ..
    } = draft;
    Layout {
        dialect,
        tables,
        is_own: dice.in_a_hundred(mix::OWN),
        people: 3 + dice.throw(3),
        outside: if dialect != Dialect::Sqlite && dice.in_a_hundred(mix::OUTSIDE) {
            Outside::Cascades
        } else {
            Outside::Nothing
        },
        has_second,
    }
}

struct Drawing<'d> {
    dialect: Dialect,
    names: Names,
    tables: Vec<Table>,
    has_second: bool,
    dice: &'d mut Dice,
}

impl Drawing<'_> {
    fn users(&mut self) {
        let class = Class::Users;
        let mut users = self.empty(class);
        let key = *self.dice.of_all(kinds::ids(self.dialect));
        if self.dice.in_a_hundred(mix::TWO_PART_IDS) {
            self.key_column(&mut users, key, true);
            self.part_column(&mut users);
        } else {
            self.key_column(&mut users, key, false);
        }
        let count = 2 + self.dice.throw(5);
        self.payload(&mut users, count);
        if self.dice.in_a_hundred(mix::SELF) && users.key.len() == 1 {
            let nullable = !self.dice.in_a_hundred(mix::MUST_REFER);
            let key = users.columns[0].clone();
            self.link(&mut users, (0, std::slice::from_ref(&key)), nullable, false);
        }
        self.tables.push(users);
    }

    fn empty(&mut self, class: Class) -> Table {
        Table {
            name: self.names.table(self.dice, class),
            class,
            form: Form::Plain,
            columns: Vec::new(),
            key: Vec::new(),
            links: Vec::new(),
            unique: Vec::new(),
            trigger: None,
            is_second: self.has_second && self.dice.in_a_hundred(50),
        }
    }

    /// A table beside that of the users.
    fn table(&mut self) {
        let owned: Vec<usize> = (0..self.tables.len())
            .filter(|at| matches!(self.tables[*at].class, Class::Owned | Class::Through))
            .collect();
        let naming = self.dice.in_a_hundred(mix::TO_NAMING_KEYS);
        let owned: Vec<usize> = owned
            .into_iter()
            .filter(|at| naming || !self.key_names_people(*at))
            .collect();
        let class = match self.dice.throw(100) {
            0..45 => Class::Owned,
            45..57 => Class::Shared,
            57..67 => Class::Follows,
            67..85 if !owned.is_empty() => Class::Through,
            67..85 => Class::Owned,
            _ => Class::Lookup,
        };
        let mut table = self.empty(class);
        let users = self.keys_of(0);
        match class {
            Class::Follows => {
                for _ in 0..2 {
                    self.link(&mut table, (0, &users), false, true);
                }
                table.key = (0..table.columns.len()).collect();
            }
            Class::Through => {
                let to = *self.dice.of_all(&owned);
                let keys = self.keys_of(to);
                if self.dice.in_a_hundred(30) {
                    self.link(&mut table, (to, &keys), false, true);
                    table.key = (0..table.columns.len()).collect();
                    self.part_column(&mut table);
                } else {
                    self.own_key(&mut table);
                    let nullable = self.dice.in_a_hundred(30);
                    self.link(&mut table, (to, &keys), nullable, true);
                }
            }
            Class::Owned if self.dice.in_a_hundred(mix::OWNER_IN_KEY) => {
                self.link(&mut table, (0, &users), false, true);
                table.key = (0..table.columns.len()).collect();
                self.part_column(&mut table);
            }
            Class::Owned => {
                self.own_key(&mut table);
                let nullable = self.dice.in_a_hundred(40);
                self.link(&mut table, (0, &users), nullable, true);
            }
            Class::Shared => {
                self.own_key(&mut table);
                for _ in 0..2 {
                    let nullable = self.dice.in_a_hundred(40);
                    self.link(&mut table, (0, &users), nullable, true);
                }
            }
            Class::Users | Class::Lookup => self.own_key(&mut table),
        }
        let count = 1 + self.dice.throw(6);
        self.payload(&mut table, count);
        self.tables.push(table);
    }

    /// References beside those by which rows have owners: to lookup tables, to rows of others, to the same table, in circles.
    fn more_links(&mut self) {
        for at in 1..self.tables.len() {
            let mut table = self.tables[at].clone();
            let may = |it: &mut Self, to: usize| {
                !it.key_names_people(to) || it.dice.in_a_hundred(mix::TO_NAMING_KEYS)
            };
            if self.dice.in_a_hundred(mix::SELF) && may(self, at) {
                let keys = self.keys_of(at);
                self.link(&mut table, (at, &keys), true, false);
            }
            if self.dice.in_a_hundred(mix::BESIDE) {
                let to = 1 + self.dice.throw(self.tables.len() - 1);
                let keys = self.keys_of(to);
                // A reference ahead may close a circle, in which one column must be nullable.
                let is_lookup =
                    self.tables[to].class == Class::Lookup && table.class != Class::Lookup;
                let nullable = !is_lookup || self.dice.in_a_hundred(60);
                if to != at && may(self, to) && (table.class != Class::Lookup || is_lookup) {
                    self.link(&mut table, (to, &keys), nullable, false);
                }
            }
            self.tables[at] = table;
        }
    }

    fn forms(&mut self) {
        for at in 0..self.tables.len() {
            let drawn = self.dice.throw(100);
            let forms = match self.dialect {
                Dialect::Sqlite => [Form::Strict, Form::WithoutRowid, Form::Plain],
                Dialect::Mysql => [Form::Versioned, Form::Plain, Form::Plain],
                _ => [Form::Partitioned, Form::Inherited, Form::Plain],
            };
            let form = match drawn {
                0..mix::FORM_FIRST => forms[0],
                mix::FORM_FIRST..mix::FORM_SECOND => forms[1],
                _ => Form::Plain,
            };
            let is_referred = self
                .tables
                .iter()
                .any(|it| it.links.iter().any(|link| link.to == at));
            let table = &mut self.tables[at];
            table.form = match form {
                // A table that others inherit from is left unchanged.
                Form::Inherited if is_referred || table.class != Class::Lookup => Form::Plain,
                form => form,
            };
            self.fit_to_form(at);
            if self.dice.in_a_hundred(mix::TRIGGER) {
                self.trigger(at);
            }
        }
    }

    /// Takes what the form does not let a column have.
    fn fit_to_form(&mut self, at: usize) {
        let table = &mut self.tables[at];
        match table.form {
            Form::Strict => {
                table.unique.clear();
                for column in &mut table.columns {
                    if let Values::Kind(kind) = column.values
                        && !super::kinds_sqlite::STRICT
                            .iter()
                            .any(|it| it.sql == kind.sql)
                    {
                        let kind = *self.dice.of_all(super::kinds_sqlite::STRICT);
                        kind.sql.clone_into(&mut column.sql);
                        column.change = kind.change;
                        column.values = Values::Kind(kind);
                        column.more = String::new();
                    }
                }
                let takes = |it: &Column| {
                    ["INTEGER", "INT", "TEXT", "REAL", "BLOB", "ANY"].contains(&it.sql.as_str())
                        || it.sql.starts_with("TEXT COLLATE")
                };
                if !table.columns.iter().all(takes) {
                    table.form = Form::Plain;
                }
            }
            // Keys of a partitioned table hold the whole of what parts it.
            Form::Partitioned => table.unique.clear(),
            _ => {}
        }
    }

    fn trigger(&mut self, at: usize) {
        let is_stamp = self.dice.in_a_hundred(50) && self.dialect != Dialect::Sqlite;
        let table = &mut self.tables[at];
        table.trigger = Some(if is_stamp {
            Trigger::Stamp
        } else {
            Trigger::Audit
        });
        if is_stamp {
            table.columns.push(Column {
                name: "stamped".to_owned(),
                sql: "INT".to_owned(),
                nullable: false,
                more: "DEFAULT 0".to_owned(),
                shown: Shown::Plain,
                change: Change::Nothing,
                values: Values::Stamp,
            });
        }
    }

    fn key_names_people(&self, at: usize) -> bool {
        let table = &self.tables[at];
        let mut key = table.key.iter().map(|it| &table.columns[*it].values);
        key.any(|it| matches!(it, Values::Link(0)))
    }

    fn keys_of(&self, at: usize) -> Vec<Column> {
        let table = &self.tables[at];
        table
            .key
            .iter()
            .map(|it| table.columns[*it].clone())
            .collect()
    }

    fn own_key(&mut self, table: &mut Table) {
        let key = *self.dice.of_all(kinds::ids(self.dialect));
        self.key_column(table, key, false);
    }

    fn key_column(&mut self, table: &mut Table, key: Key, is_part: bool) {
        let sql = if is_part { key.referring } else { key.sql };
        table.key.push(table.columns.len());
        table.columns.push(Column {
            name: self.names.column(self.dice, table, "id"),
            sql: sql.to_owned(),
            nullable: false,
            more: String::new(),
            shown: key.shown,
            change: Change::Nothing,
            values: Values::Key(key),
        });
    }

    fn part_column(&mut self, table: &mut Table) {
        table.key.push(table.columns.len());
        table.columns.push(Column {
            name: self.names.column(self.dice, table, "part"),
            sql: "INT".to_owned(),
            nullable: false,
            more: String::new(),
            shown: Shown::Plain,
            change: Change::Nothing,
            values: Values::Part,
        });
    }

    /// Adds a foreign key to the table at `to`, whose key has the columns `keys`.
    fn link(
        &mut self,
        table: &mut Table,
        (to, keys): (usize, &[Column]),
        nullable: bool,
        names_owner: bool,
    ) {
        let word = if to == 0 { "user" } else { "ref" };
        let mut columns = Vec::new();
        for key in keys {
            let sql = match key.values {
                Values::Key(it) => it.referring.to_owned(),
                _ => key.sql.clone(),
            };
            columns.push(table.columns.len());
            let name = self.names.column(self.dice, table, word);
            table.columns.push(Column {
                name,
                sql,
                nullable,
                more: String::new(),
                shown: key.shown,
                change: Change::Nothing,
                values: Values::Link(to),
            });
        }
        let all: &[&'static str] = &["", "", "CASCADE", "RESTRICT", "NO ACTION", "SET NULL"];
        let actions = if nullable { all } else { &all[..5] };
        table.links.push(Link {
            columns,
            to,
            action: actions[self.dice.throw(actions.len())],
            is_deferrable: self.dialect != Dialect::Mysql && self.dice.in_a_hundred(30),
            names_owner,
        });
    }

    /// Columns that refer to nothing.
    fn payload(&mut self, table: &mut Table, count: usize) {
        for _ in 0..count {
            let kind = *self.dice.of_all(kinds::kinds(self.dialect));
            let name = self.names.column(self.dice, table, "c");
            let quoted = self.dialect.quote(&name);
            let nullable = self.dice.in_a_hundred(60);
            let mut more = String::new();
            if self.dice.in_a_hundred(mix::DEFAULT) {
                more = format!("DEFAULT ({})", (kind.value)(self.dice, 0));
            }
            if let Some(check) = kind.check {
                more = format!("{more} CHECK ({})", check.replace("{}", &quoted));
            }
            let is_unique = kind.change == Change::Text
                && kind.check.is_none()
                && !kind.sql.contains("TEXT")
                && self.dice.in_a_hundred(mix::UNIQUE);
            if is_unique {
                table.unique.push(table.columns.len());
            }
            let change = if is_unique || kind.check.is_some() {
                Change::Nothing
            } else {
                kind.change
            };
            table.columns.push(Column {
                name,
                sql: kind.sql.to_owned(),
                nullable,
                more,
                shown: kind.shown,
                change,
                values: Values::Kind(kind),
            });
        }
        if self.dice.in_a_hundred(mix::COMPUTED) {
            self.computed(table);
        }
    }

    /// A column that the database works out from another.
    fn computed(&mut self, table: &mut Table) {
        let text = table
            .columns
            .iter()
            // `MariaDB` pads, or not, as a session wants it.
            .find(|it| it.change == Change::Text && !it.sql.starts_with("CHAR"))
            .map(|it| self.dialect.quote(&it.name));
        let Some(text) = text else { return };
        let length = match self.dialect {
            Dialect::Mysql => format!("char_length({text})"),
            _ => format!("length({text})"),
        };
        let kept = if self.dialect == Dialect::Postgres || self.dice.in_a_hundred(50) {
            "STORED"
        } else {
            "VIRTUAL"
        };
        let name = self.names.column(self.dice, table, "worked out");
        table.columns.push(Column {
            name,
            sql: "INT".to_owned(),
            nullable: true,
            more: format!("GENERATED ALWAYS AS ({length}) {kept}"),
            shown: Shown::Plain,
            change: Change::Nothing,
            values: Values::Computed,
        });
    }
}
