//! SQL statements: parsing and execution.

mod change;
mod conditions;
mod create;
mod definition;
pub(crate) mod explain;
mod parser;
mod script;
mod select;
mod token;

use alloc::string::String;

use crate::error::{Error, Result};
use crate::limits::{OUTPUTS_MAX, STATEMENT_BYTES_MAX};
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::series::Series;
use crate::query::pipeline::run_select;
use crate::query::select::{Heading, Sink};
use crate::query::sql::change::{Change, Insertion};
use crate::query::sql::parser::Parser;
use crate::query::sql::select::{Query, Title};
use crate::query::stream::Candidates;
use crate::tables::catalogue::{Catalogue, TableDefinition};
use crate::tables::store::Store;
use crate::tables::value::Value;

pub use script::Statements;

/// The result of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A table was created.
    Created,
    /// Number of rows inserted, updated or deleted, without those that cascaded.
    Changed(u64),
    /// Number of rows shown.
    Shown(u64),
    /// A transaction was begun, committed or rolled back.
    Transaction,
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Runs one statement; `parameters` are the values of its question marks.
    ///
    /// Outside a transaction a change is committed at once, or not made at all. Inside one, a
    /// statement that fails rolls the whole transaction back.
    ///
    /// # Errors
    /// [`Error::Sql`] with the byte offset for a malformed or unsupported statement, and the errors
    /// of the operations.
    pub fn execute(
        &mut self,
        text: &str,
        parameters: &[Value<'_>],
        sink: &mut impl Sink,
    ) -> Result<Outcome> {
        self.usable()?;
        self.tables.base.pager.drop_temporary()?;
        if text.len() > STATEMENT_BYTES_MAX {
            return Err(Error::Limit("the length of a statement"));
        }
        let copy: Option<String> = token::without_doubled_quotes(text);
        let text = copy.as_deref().unwrap_or(text);
        let result = Statement { store: self }.run(text, parameters, sink);
        if result.is_err()
            && self.tables.base.has_changes()
            && self.tables.base.pager.usable().is_ok()
        {
            self.in_transaction = false;
            // A rollback that fails poisons the store; the first error says more.
            let _poisons = self.rollback();
        }
        let dropped = self.tables.base.pager.drop_temporary();
        result.and_then(|outcome| Ok(dropped.map(|()| outcome)?))
    }
}

/// A statement as its text says it, bound to tables and columns.
#[derive(Debug)]
enum Parsed<'a> {
    Query(Query<'a>),
    Explanation(Query<'a>),
    Insertion(Insertion<'a>),
    Change(Change<'a>),
    /// `CREATE`, which is parsed while it is carried out.
    Table,
    /// A statement about the transaction, or none at all.
    Other,
}

/// A statement that is being carried out.
struct Statement<'s, F: Nand, S: SecureStore> {
    store: &'s mut Store<F, S>,
}

impl<F: Nand, S: SecureStore> Statement<'_, F, S> {
    /// Parses a statement and carries it out.
    fn run(
        &mut self,
        text: &str,
        parameters: &[Value<'_>],
        sink: &mut impl Sink,
    ) -> Result<Outcome> {
        // In its place from the start, because a statement that is moved takes its stack twice.
        let mut parsed = Parsed::Other;
        self.parse(text, parameters, &mut parsed)?;
        match &parsed {
            Parsed::Query(query) => self.run_query(query, sink).map(Outcome::Shown),
            Parsed::Explanation(query) => self.run_explain(query, sink).map(Outcome::Shown),
            Parsed::Insertion(insertion) => self.run_insertion(insertion),
            Parsed::Change(change) => self.run_change(change),
            Parsed::Table => self.create_table(text, parameters),
            Parsed::Other => self.transaction(text),
        }
    }

    /// Parses a statement up to its end. The parser and what it needs are gone when the statement is
    /// carried out.
    #[inline(never)] // Keeps its local variables off the stack of the statement.
    fn parse<'a>(
        &self,
        text: &'a str,
        parameters: &'a [Value<'a>],
        parsed: &mut Parsed<'a>,
    ) -> Result<()> {
        let mut parser = Parser::new(text, parameters, &self.store.tables.base.catalogue)?;
        if parser.pass("SELECT")? {
            *parsed = Parsed::Query(parser.select()?);
            parser.end()?;
        } else if parser.pass("EXPLAIN")? {
            parser.expect("SELECT")?;
            *parsed = Parsed::Explanation(parser.select()?);
            parser.end()?;
        } else if parser.pass("INSERT")? {
            *parsed = Parsed::Insertion(parser.insertion()?);
        } else if parser.pass("UPDATE")? {
            *parsed = Parsed::Change(parser.update()?);
        } else if parser.pass("DELETE")? {
            *parsed = Parsed::Change(parser.delete()?);
        } else if parser.pass("CREATE")? {
            *parsed = Parsed::Table;
        }
        Ok(())
    }

    #[inline(never)] // Keeps its local variables off the stack of the other statements.
    fn create_table(&mut self, text: &str, parameters: &[Value<'_>]) -> Result<Outcome> {
        // A definition is parsed without the catalogue, which is then changed.
        let none = Catalogue::new()?;
        let mut parser = Parser::new(text, parameters, &none)?;
        parser.expect("CREATE")?;
        parser.refuse(&["INDEX", "UNIQUE", "VIEW", "TRIGGER", "TEMP", "TEMPORARY"])?;
        parser.expect("TABLE")?;
        parser.create_table(|definition| {
            self.check_whole_row(definition)?;
            self.store.create_table(definition).map(drop)
        })?;
        Ok(Outcome::Created)
    }

    #[inline(never)] // Keeps its local variables off the stack of the other statements.
    fn transaction(&mut self, text: &str) -> Result<Outcome> {
        let mut parser = Parser::new(text, &[], &self.store.tables.base.catalogue)?;
        let wrong = |parser: &Parser<'_, '_>, what: &str| Err(parser.tokens.error(what));
        if parser.pass("BEGIN")? {
            parser.pass("TRANSACTION")?;
            parser.end()?;
            if self.store.in_transaction {
                return wrong(&parser, "a transaction is open already");
            }
            self.store.in_transaction = true;
            return Ok(Outcome::Transaction);
        }
        let commit = parser.pass("COMMIT")? || parser.pass("END")?;
        let rollback = !commit && parser.pass("ROLLBACK")?;
        if !commit && !rollback {
            return Err(parser.unknown_statement());
        }
        parser.pass("TRANSACTION")?;
        parser.end()?;
        if !self.store.in_transaction {
            return wrong(&parser, "no transaction is open");
        }
        self.store.in_transaction = false;
        if commit {
            self.store.commit()?;
        } else {
            self.store.rollback()?;
        }
        Ok(Outcome::Transaction)
    }

    #[inline(never)] // Keeps its local variables off the stack of the other statements.
    fn run_insertion(&mut self, insertion: &Insertion<'_>) -> Result<Outcome> {
        self.check_memory(insertion.values.memory_bytes())?;
        self.store.tables.prepare_change()?;
        let rows = insertion.run(&mut self.store.tables)?;
        self.changed(rows)
    }

    #[inline(never)]
    fn run_change(&mut self, change: &Change<'_>) -> Result<Outcome> {
        self.check_memory(change.select.memory_bytes() + change.columns.memory_bytes())?;
        self.store.tables.prepare_change()?;
        let rows = change.run(&mut self.store.tables)?;
        self.changed(rows)
    }

    /// Returns an error if a statement needs more memory than available.
    pub(super) fn check_memory(&self, bytes: usize) -> Result<()> {
        let given = self.store.budget.statement;
        if bytes > given {
            return Err(Error::Share {
                needed: bytes,
                given,
            });
        }
        Ok(())
    }

    /// Returns an error if the memory of a statement does not suffice to show whole rows of a new
    /// table.
    #[inline(never)] // Keeps its local variables off the stack of the statement.
    fn check_whole_row(&self, definition: &TableDefinition<'_>) -> Result<()> {
        let mut catalogue = self.store.tables.base.catalogue.clone();
        catalogue.add(definition)?;
        let text = alloc::format!("SELECT * FROM \"{}\"", definition.name);
        let mut parser = Parser::new(&text, &[], &catalogue)?;
        parser.expect("SELECT")?;
        let (needed, given) = (parser.select()?.memory_bytes(), self.store.budget.statement);
        if needed > given {
            return Err(Error::Refused(alloc::format!(
                "a table whose rows take {needed} bytes of the memory of a statement, which has {given},"
            )));
        }
        Ok(())
    }

    fn changed(&mut self, rows: u64) -> Result<Outcome> {
        if !self.store.in_transaction {
            self.store.commit()?;
        }
        Ok(Outcome::Changed(rows))
    }

    #[inline(never)] // Keeps its local variables off the stack of the other statements.
    fn run_query(&mut self, query: &Query<'_>, sink: &mut impl Sink) -> Result<u64> {
        self.check_memory(query.memory_bytes())?;
        self.show_headings(query, sink)?;
        let select = &query.select;
        let mut candidates =
            Candidates::new(&mut self.store.tables, select.table, &select.condition)?;
        run_select(&mut self.store.tables, select, &mut candidates, sink)
    }

    #[inline(never)] // Keeps its local variables off the stack of the query.
    fn show_headings(&self, query: &Query<'_>, sink: &mut impl Sink) -> Result<()> {
        let mut headings: Series<Heading<'_>, OUTPUTS_MAX> = Series::new();
        let shown = query.titles.iter().zip(query.select.outputs.iter());
        for (title, output) in shown.take(query.select.shown) {
            let name = match title {
                Title::Hidden => "",
                Title::Text(text) => text,
                Title::Column(table, column) => self
                    .store
                    .tables
                    .base
                    .catalogue
                    .column_name(*table, *column),
            };
            let kind = output.kind;
            headings.push(Heading { name, kind }, "the number of columns of a query")?;
        }
        sink.begin(&headings)
    }
}
