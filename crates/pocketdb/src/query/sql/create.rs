//! `CREATE TABLE`.

use crate::error::{Error, Result};
use crate::limits::COLUMNS_MAX;
use crate::pager::series::Series;
use crate::query::sql::parser::Parser;
use crate::query::sql::token::Token;
use crate::tables::catalogue::{ColumnDefinition, Kind, Layout, TableDefinition};

/// A column without properties.
const BLANK: ColumnDefinition<'static> = ColumnDefinition {
    name: "",
    kind: Kind::Integer,
    indexed: false,
    unique: false,
    reference: None,
};

/// Columns during parsing.
type Drafts<'a> = Series<ColumnDefinition<'a>, COLUMNS_MAX>;

/// Notes that the table has a primary key.
struct Keyed(bool);

impl<'a> Parser<'a, '_> {
    /// Parses the rest of `CREATE TABLE` and passes the definition to `create`.
    pub(crate) fn create_table(
        &mut self,
        create: impl FnOnce(&TableDefinition<'_>) -> Result<()>,
    ) -> Result<()> {
        self.refuse(&["IF"])?;
        let name = self.name()?;
        self.expect("(")?;
        let mut drafts = Drafts::new();
        let mut key = Keyed(false);
        loop {
            if !self.table_constraint(&mut drafts, &mut key)? {
                let draft = self.column_definition(&mut key)?;
                drafts.push(draft, "the number of columns")?;
            }
            if !self.pass(",")? {
                break;
            }
        }
        self.expect(")")?;
        let layout = self.layout()?;
        self.end()?;
        create(&TableDefinition {
            name,
            columns: &drafts,
            layout,
        })
    }

    fn layout(&mut self) -> Result<Layout> {
        self.refuse(&["WITHOUT", "STRICT"])?;
        if !self.pass("STORED")? {
            return Ok(Layout::default());
        }
        self.expect("AS")?;
        if self.pass("ROWS")? {
            return Ok(Layout::Rows);
        }
        self.expect("COLUMNS")?;
        Ok(Layout::Columns)
    }

    fn column_definition(&mut self, key: &mut Keyed) -> Result<ColumnDefinition<'a>> {
        let name = self.name()?;
        let mut column = ColumnDefinition {
            name,
            kind: self.column_type()?,
            ..BLANK
        };
        loop {
            self.refuse(&["DEFAULT", "CHECK", "COLLATE", "GENERATED", "AUTOINCREMENT"])?;
            if self.is("PRIMARY") {
                self.primary_key(key)?;
                make_key(&mut column);
            } else if self.pass("UNIQUE")? {
                column.unique = true;
            } else if self.pass("INDEXED")? {
                column.indexed = true;
            } else if self.pass("NOT")? {
                self.expect("NULL")?;
            } else if self.pass("REFERENCES")? {
                self.target(&mut column)?;
            } else {
                return Ok(column);
            }
        }
    }

    fn column_type(&mut self) -> Result<Kind> {
        let at = self.tokens.at;
        let name = self.name()?;
        let is = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
        if is(&["INTEGER", "INT", "BIGINT", "SMALLINT"]) {
            return Ok(Kind::Integer);
        }
        if is(&["REAL", "FLOAT"]) {
            return Ok(Kind::Real);
        }
        if is(&["DOUBLE"]) {
            self.pass("PRECISION")?;
            return Ok(Kind::Real);
        }
        if !is(&["CHAR", "CHARACTER", "VARCHAR", "TEXT"]) {
            let what = alloc::format!("the type {name} is not supported");
            return Err(Error::Sql { at, what });
        }
        if !self.is("(") {
            return Err(self
                .tokens
                .error("a text needs its largest length in bytes"));
        }
        self.expect("(")?;
        let error = self.tokens.error("the length of a text is not possible");
        let length = u16::try_from(self.number()?)
            .ok()
            .filter(|&length| length > 0);
        self.expect(")")?;
        length.map(Kind::Text).ok_or(error)
    }

    /// Parses `PRIMARY KEY`, of which a table has one: of two, one would be lost without a word.
    fn primary_key(&mut self, key: &mut Keyed) -> Result<()> {
        if key.0 {
            return Err(self.tokens.error("the table has a primary key already"));
        }
        key.0 = true;
        self.expect("PRIMARY")?;
        self.expect("KEY")
    }

    /// Parses the table and column after `REFERENCES`.
    fn target(&mut self, column: &mut ColumnDefinition<'a>) -> Result<()> {
        if let Some((table, _)) = column.reference {
            let what = alloc::format!("{} refers to {table} already", column.name);
            return Err(self.tokens.error(what));
        }
        let table = self.name()?;
        let mut key = "";
        if self.pass("(")? {
            key = self.name()?;
            self.expect(")")?;
        }
        // The primary key of such a table is a unique reference, and no position.
        column.unique |= column.kind == Kind::Position;
        column.kind = Kind::Reference;
        column.reference = Some((table, key));
        if self.pass("ON")? {
            self.expect("DELETE")?;
            self.expect("CASCADE")?;
        }
        self.refuse(&["ON", "DEFERRABLE", "MATCH"])
    }

    /// Parses a table constraint, if there is one here.
    fn table_constraint(&mut self, drafts: &mut Drafts<'a>, key: &mut Keyed) -> Result<bool> {
        self.refuse(&["CHECK", "CONSTRAINT"])?;
        let mut ahead = self.tokens;
        ahead.advance()?;
        // A column may be named like a constraint; then its type follows instead.
        let followed = match ahead.token {
            Token::Word(word) => word.eq_ignore_ascii_case("KEY"),
            Token::Symbol(symbol) => symbol == "(",
            _ => false,
        };
        if !followed {
            return Ok(false);
        }
        if self.pass("FOREIGN")? {
            self.expect("KEY")?;
            self.expect("(")?;
            let number = self.draft(drafts)?;
            self.expect(")")?;
            self.expect("REFERENCES")?;
            if let Some(draft) = drafts.get_mut(number) {
                self.target(draft)?;
            }
            return Ok(true);
        }
        let primary = self.is("PRIMARY");
        if primary {
            self.primary_key(key)?;
        }
        let unique = !primary && self.pass("UNIQUE")?;
        if !primary && !unique && !self.pass("INDEX")? {
            return Ok(false);
        }
        self.expect("(")?;
        loop {
            let number = self.draft(drafts)?;
            if let Some(column) = drafts.get_mut(number) {
                column.indexed |= !primary;
                column.unique |= unique;
                if primary {
                    make_key(column);
                }
            }
            if !self.is(",") {
                break;
            }
            if primary || unique {
                return Err(self
                    .tokens
                    .error("a key of several columns is not supported"));
            }
            self.expect(",")?;
        }
        self.expect(")")?;
        Ok(true)
    }

    /// Parses the name of a column defined before; returns its number.
    fn draft(&mut self, drafts: &Drafts<'a>) -> Result<usize> {
        let error = self.tokens.error("this is not a column defined before");
        let name = self.name()?;
        let mut known = drafts.iter();
        let found = known.position(|draft| draft.name.eq_ignore_ascii_case(name));
        found.ok_or(error)
    }
}

/// Makes a column the primary key: an integer one is the row id, any other a unique value.
fn make_key(column: &mut ColumnDefinition<'_>) {
    if column.kind == Kind::Integer {
        column.kind = Kind::Position;
    } else {
        column.unique = true;
    }
}
