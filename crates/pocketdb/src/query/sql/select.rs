//! `SELECT`: parsing and binding of a query.

use crate::error::{Error, Result};
use crate::limits::OUTPUTS_MAX;
use crate::pager::series::Series;
use crate::query::select::{Function, Key, Select};
use crate::query::sql::parser::{Bound, Parser};
use crate::query::sql::token::{Token, Tokens};
use crate::tables::catalogue::{Kind, OWN};
use crate::tables::id::{ColumnId, TableId};
use crate::tables::value::{Value, ValueType};

/// The functions that a query may use.
const FUNCTIONS: [(&str, Function); 5] = [
    ("COUNT", Function::Count),
    ("SUM", Function::Sum),
    ("MIN", Function::Minimum),
    ("MAX", Function::Maximum),
    ("AVG", Function::Average),
];

/// The name of a column of the result.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Title<'a> {
    #[default]
    Hidden,
    /// A text of the statement.
    Text(&'a str),
    /// The name in the catalogue.
    Column(TableId, ColumnId),
}

/// A bound query with the titles of its columns.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    pub(crate) select: Select<'a>,
    pub(crate) titles: Series<Title<'a>, OUTPUTS_MAX>,
}

impl Query<'_> {
    /// Returns the bytes of memory of the query.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.select.memory_bytes() + self.titles.memory_bytes()
    }
}

/// A column, or a function of one.
#[derive(Debug, Clone, Copy)]
struct Item<'a> {
    function: Function,
    source: Option<u8>,
    title: Title<'a>,
}

impl<'a> Parser<'a, '_> {
    /// Parses a query after `SELECT`.
    pub(crate) fn select(&mut self) -> Result<Query<'a>> {
        let distinct = self.pass("DISTINCT")?;
        if !distinct {
            self.pass("ALL")?;
        }
        let items = self.tokens;
        self.skip_to("FROM")?;
        self.expect("FROM")?;
        let from = self.tokens;
        self.collect_tables()?;
        let mut selection = Selection {
            query: Query {
                select: Select::new(self.bind_tables()?),
                titles: Series::new(),
            },
            parser: self,
        };
        selection.query.select.distinct = distinct;
        selection.parse(items, from)?;
        Ok(selection.query)
    }

    /// Skips to `word` outside of parentheses.
    fn skip_to(&mut self, word: &str) -> Result<()> {
        let mut depth = 0u32;
        while self.tokens.token != Token::End && !(depth == 0 && self.is(word)) {
            match self.tokens.advance()? {
                Token::Symbol("(") => depth += 1,
                Token::Symbol(")") => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        Ok(())
    }

    /// Parses the names of the tables; skips their conditions, which need the root.
    fn collect_tables(&mut self) -> Result<()> {
        loop {
            self.refuse(&["("])?;
            let at = self.tokens.at;
            let table = self.table()?;
            let mut name = self.name_behind(at);
            if self.pass("AS")? || self.is_name() {
                name = self.name()?;
            }
            if self.tables.iter().any(|bound| bound.table == table) {
                return Err(Error::Sql {
                    at,
                    what: "a table cannot be joined to itself".into(),
                });
            }
            let bound = Bound {
                table,
                slot: OWN,
                name,
                at,
                joined: false,
            };
            self.tables.push(bound, "the number of tables")?;
            self.refuse(&[
                "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "USING",
            ])?;
            if self.is("ON") {
                self.skip_condition()?;
            }
            if !(self.pass(",")? || self.pass_join()?) {
                return Ok(());
            }
        }
    }

    fn pass_join(&mut self) -> Result<bool> {
        self.refuse(&["LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL"])?;
        if self.pass("INNER")? {
            self.expect("JOIN")?;
            return Ok(true);
        }
        self.pass("JOIN")
    }

    /// Returns the name at byte offset `at` of the statement.
    fn name_behind(&self, at: usize) -> &'a str {
        let text = self.tokens.text_from(at);
        let quoted = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        quoted.unwrap_or(text)
    }

    fn skip_condition(&mut self) -> Result<()> {
        let ends = [
            "JOIN", "INNER", "WHERE", "GROUP", "ORDER", "LIMIT", ",", ";",
        ];
        let mut depth = 0u32;
        while self.tokens.token != Token::End
            && !(depth == 0 && ends.iter().any(|end| self.is(end)))
        {
            match self.tokens.advance()? {
                Token::Symbol("(") => depth += 1,
                Token::Symbol(")") => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        Ok(())
    }

    /// Finds the table that references all others, and sets the slots of these.
    fn bind_tables(&mut self) -> Result<TableId> {
        let reaches = |root: TableId, table: TableId| {
            let mut slots = self.catalogue.slots_of(root).iter();
            root == table || slots.any(|slot| slot.table == table)
        };
        let all = |root: &TableId| self.tables.iter().all(|bound| reaches(*root, bound.table));
        let Some(root) = self.tables.iter().map(|bound| bound.table).find(all) else {
            let text = "no table of the query references all the others";
            return Err(self.tokens.error(text));
        };
        let catalogue = self.catalogue;
        for bound in self.tables.iter_mut().filter(|bound| bound.table != root) {
            let mut slots = (0u8..).zip(catalogue.slots_of(root));
            let found = slots.find(|(_, slot)| slot.table == bound.table);
            bound.slot = found.map_or(OWN, |(number, _)| number);
        }
        Ok(root)
    }

    /// Parses the condition of a statement on one table, which is bound already.
    pub(crate) fn where_clause(&mut self, select: &mut Select<'a>) -> Result<()> {
        if self.pass("WHERE")? {
            self.condition(&mut select.condition)?;
        }
        Ok(())
    }

    /// Parses and binds the only table of a statement.
    pub(crate) fn bind_one(&mut self) -> Result<TableId> {
        let at = self.tokens.at;
        let table = self.table()?;
        let bound = Bound {
            table,
            slot: OWN,
            name: self.name_behind(at),
            at,
            joined: true,
        };
        self.tables.push(bound, "the number of tables")?;
        Ok(table)
    }

    /// Returns whether an update may change a column's values.
    pub(crate) fn is_changeable(&self, table: TableId, column: ColumnId) -> Result<bool> {
        let entry = self.catalogue.column_at(table, column)?;
        let stored = !matches!(entry.kind, Kind::Position | Kind::Reference);
        Ok(stored && !entry.unique)
    }
}

/// The parsing of a query whose tables are known.
struct Selection<'p, 'a, 'c> {
    parser: &'p mut Parser<'a, 'c>,
    query: Query<'a>,
}

impl<'a> Selection<'_, 'a, '_> {
    /// Parses what stands before and after the tables, each at its place.
    fn parse(&mut self, items: Tokens<'a>, from: Tokens<'a>) -> Result<()> {
        self.parser.tokens = from;
        self.join_conditions()?;
        self.parser.where_clause(&mut self.query.select)?;
        self.check_joined()?;
        let behind = self.parser.tokens;
        self.parser.tokens = items;
        self.items()?;
        if !self.parser.is("FROM") {
            return Err(self.parser.tokens.error("FROM is expected"));
        }
        self.parser.tokens = behind;
        self.groups()?;
        self.order()?;
        self.bounds()
    }

    /// Parses the tables again, now with the conditions after `ON`.
    fn join_conditions(&mut self) -> Result<()> {
        loop {
            self.parser.name()?;
            if self.parser.pass("AS")? || self.parser.is_name() {
                self.parser.name()?;
            }
            if self.parser.pass("ON")? {
                self.parser.condition(&mut self.query.select.condition)?;
            }
            if !(self.parser.pass(",")? || self.parser.pass_join()?) {
                return Ok(());
            }
        }
    }

    fn check_joined(&self) -> Result<()> {
        let lonely = |bound: &&Bound<'_>| bound.slot != OWN && !bound.joined;
        match self.parser.tables.iter().find(lonely) {
            Some(bound) => Err(Error::Sql {
                at: bound.at,
                what: alloc::format!("{} is not joined along its foreign key", bound.name),
            }),
            None => Ok(()),
        }
    }

    fn items(&mut self) -> Result<()> {
        loop {
            if self.parser.pass("*")? {
                let tables = self.parser.tables.clone();
                for bound in tables.iter() {
                    self.all_columns(bound)?;
                }
            } else if let Some(bound) = self.whole_table()? {
                self.all_columns(&bound)?;
            } else {
                let mut item = self.item()?;
                if self.parser.pass("AS")? || self.parser.is_name() {
                    item.title = Title::Text(self.parser.name()?);
                }
                add_item(&mut self.query, &item)?;
            }
            if !self.parser.pass(",")? {
                self.query.select.shown = self.query.select.outputs.len();
                return Ok(());
            }
        }
    }

    /// Parses `t.*`, if it is here.
    fn whole_table(&mut self) -> Result<Option<Bound<'a>>> {
        let mut ahead = self.parser.tokens;
        let (Token::Word(name) | Token::Name(name)) = ahead.advance()? else {
            return Ok(None);
        };
        if ahead.advance()? != Token::Symbol(".") || ahead.advance()? != Token::Symbol("*") {
            return Ok(None);
        }
        let mut tables = self.parser.tables.iter();
        let found = tables.find(|bound| bound.name.eq_ignore_ascii_case(name));
        let unknown = alloc::format!("{name} is not a table of the statement");
        let bound = *found.ok_or_else(|| self.parser.tokens.error(unknown))?;
        self.parser.tokens = ahead;
        Ok(Some(bound))
    }

    fn all_columns(&mut self, bound: &Bound<'a>) -> Result<()> {
        for column in self.parser.catalogue.column_ids(bound.table) {
            let reach = self.parser.reach(bound, column)?;
            let item = Item {
                function: Function::Value,
                source: Some(self.query.select.add_source(reach)?),
                title: Title::Column(bound.table, column),
            };
            add_item(&mut self.query, &item)?;
        }
        Ok(())
    }

    fn item(&mut self) -> Result<Item<'a>> {
        let at = self.parser.tokens.at;
        self.parser
            .refuse(&["CASE", "CAST", "(", "EXISTS", "-", "+"])?;
        if !self.parser.is_name() {
            return Err(self.parser.tokens.error("a column is expected"));
        }
        if let Some(function) = self.function()? {
            let source = self.argument(function)?;
            let title = Title::Text(self.parser.tokens.text_from(at));
            return Ok(Item {
                function,
                source,
                title,
            });
        }
        let (bound, column) = self.parser.column()?;
        self.parser.refuse(&["+", "-", "*", "(", "COLLATE"])?;
        let reach = self.parser.reach(&bound, column)?;
        Ok(Item {
            function: Function::Value,
            source: Some(self.query.select.add_source(reach)?),
            title: Title::Column(bound.table, column),
        })
    }

    /// Parses a function's name and its parenthesis, if they are here.
    fn function(&mut self) -> Result<Option<Function>> {
        let mut ahead = self.parser.tokens;
        let Token::Word(name) = ahead.advance()? else {
            return Ok(None);
        };
        if ahead.token != Token::Symbol("(") {
            return Ok(None);
        }
        let mut known = FUNCTIONS.iter();
        let found = known.find(|(word, _)| name.eq_ignore_ascii_case(word));
        let Some((_, function)) = found else {
            let text = alloc::format!("the function {name} is not supported");
            return Err(self.parser.tokens.error(text));
        };
        ahead.advance()?;
        self.parser.tokens = ahead;
        Ok(Some(*function))
    }

    fn argument(&mut self, function: Function) -> Result<Option<u8>> {
        self.parser.refuse(&["DISTINCT"])?;
        if function == Function::Count && self.parser.pass("*")? {
            self.parser.expect(")")?;
            return Ok(None);
        }
        let at = self.parser.tokens.at;
        let (bound, column) = self.parser.column()?;
        let reach = self.parser.reach(&bound, column)?;
        self.parser.expect(")")?;
        let adds = matches!(function, Function::Sum | Function::Average);
        if adds && reach.kind == ValueType::Text {
            return Err(Error::Sql {
                at,
                what: "a text cannot be added".into(),
            });
        }
        self.query.select.add_source(reach).map(Some)
    }

    fn groups(&mut self) -> Result<()> {
        if self.parser.pass("GROUP")? {
            self.parser.expect("BY")?;
            self.query.select.grouped = true;
            loop {
                let (bound, column) = self.parser.column()?;
                let source = self
                    .query
                    .select
                    .add_source(self.parser.reach(&bound, column)?)?;
                if !self.query.select.groups.contains(&source) {
                    self.query
                        .select
                        .groups
                        .push(source, "the number of columns to group by")?;
                }
                if !self.parser.pass(",")? {
                    break;
                }
            }
        }
        self.parser.refuse(&["HAVING"])?;
        if self.query.select.grouped {
            let groups = self.query.select.groups;
            let single = |source: Option<u8>| source.is_some_and(|source| groups.contains(&source));
            let mut outputs = self.query.select.outputs.iter();
            if outputs.any(|output| output.function == Function::Value && !single(output.source)) {
                let text = "a column shown beside groups is not among them";
                return Err(self.parser.tokens.error(text));
            }
        }
        Ok(())
    }

    fn order(&mut self) -> Result<()> {
        if !self.parser.pass("ORDER")? {
            return Ok(());
        }
        self.parser.expect("BY")?;
        loop {
            let output = self.order_output()?;
            let descending = self.parser.pass("DESC")?;
            if !descending {
                self.parser.pass("ASC")?;
            }
            self.parser.refuse(&["NULLS", "COLLATE"])?;
            let key = Key { output, descending };
            self.query
                .select
                .order
                .push(key, "the number of columns to order by")?;
            if !self.parser.pass(",")? {
                return Ok(());
            }
        }
    }

    /// Parses an item of `ORDER BY`; returns its output: by position, by title or by expression.
    fn order_output(&mut self) -> Result<u8> {
        let at = self.parser.tokens.at;
        let error = |what: &str| {
            Err(Error::Sql {
                at,
                what: what.into(),
            })
        };
        if let Token::Integer(number) = self.parser.tokens.token {
            self.parser.tokens.advance()?;
            let shown = self.query.select.shown;
            let found = usize::try_from(number)
                .ok()
                .filter(|number| (1..=shown).contains(number));
            return match found.and_then(|number| u8::try_from(number - 1).ok()) {
                Some(output) => Ok(output),
                None => error("there is no such column of the result"),
            };
        }
        if let Some(output) = self.titled()? {
            return Ok(output);
        }
        let grouped = self.query.select.grouped;
        let item = self.item()?;
        let mut outputs = (0u8..).zip(self.query.select.outputs.iter());
        let same = outputs
            .find(|(_, output)| output.function == item.function && output.source == item.source);
        if let Some((output, _)) = same {
            return Ok(output);
        }
        if self.query.select.distinct {
            return error("a distinct result cannot be ordered by what it does not show");
        }
        let key = item
            .source
            .is_some_and(|source| self.query.select.groups.contains(&source));
        if grouped && item.function == Function::Value && !key {
            return error("groups cannot be ordered by what is not among them");
        }
        if !grouped && item.function != Function::Value {
            return error("single rows cannot be ordered by an aggregate");
        }
        let hidden = Item {
            title: Title::Hidden,
            ..item
        };
        add_item(&mut self.query, &hidden)
    }

    /// Parses the alias of an output, if one is here.
    fn titled(&mut self) -> Result<Option<u8>> {
        let mut ahead: Tokens<'a> = self.parser.tokens;
        let (Token::Word(word) | Token::Name(word)) = ahead.advance()? else {
            return Ok(None);
        };
        if matches!(ahead.token, Token::Symbol("." | "(")) {
            return Ok(None);
        }
        let mut titles = (0u8..).zip(self.query.titles.iter());
        let found = titles.find(
            |(_, title)| matches!(title, Title::Text(text) if text.eq_ignore_ascii_case(word)),
        );
        if found.is_some() {
            self.parser.tokens = ahead;
        }
        Ok(found.map(|(number, _)| number))
    }

    fn bounds(&mut self) -> Result<()> {
        if self.parser.pass("LIMIT")? {
            let at = self.parser.tokens.at;
            self.query.select.limit = match self.parser.value()? {
                // As in SQLite, a negative limit means no limit.
                Value::Integer(number) => u64::try_from(number).ok(),
                _ => {
                    return Err(Error::Sql {
                        at,
                        what: "a whole number is expected".into(),
                    });
                }
            };
            if self.parser.pass("OFFSET")? {
                self.query.select.offset = self.parser.number()?;
            }
        }
        Ok(())
    }
}

fn add_item<'a>(query: &mut Query<'a>, item: &Item<'a>) -> Result<u8> {
    let number = query.select.add_output(item.function, item.source)?;
    query.select.grouped |= item.function != Function::Value;
    query
        .titles
        .push(item.title, "the number of columns of a query")?;
    Ok(number)
}
