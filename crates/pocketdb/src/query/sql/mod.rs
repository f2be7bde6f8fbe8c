//! SQL statements: parsing and execution.

mod change;
mod create;
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
use crate::query::sql::change::Change;
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
        let result = self.dispatch(text, parameters, sink);
        if result.is_err()
            && self.tables.base.has_changes()
            && self.tables.base.pager.usable().is_ok()
        {
            self.rollback()?;
            self.in_transaction = false;
        }
        let dropped = self.tables.base.pager.drop_temporary();
        result.and_then(|outcome| Ok(dropped.map(|()| outcome)?))
    }

    fn dispatch(
        &mut self,
        text: &str,
        parameters: &[Value<'_>],
        sink: &mut impl Sink,
    ) -> Result<Outcome> {
        let mut parser = Parser::new(text, parameters, &self.tables.base.catalogue)?;
        if parser.pass("SELECT")? {
            let query = parser.select()?;
            parser.end()?;
            self.check_memory(query.memory_bytes())?;
            return self.run_query(&query, sink).map(Outcome::Shown);
        }
        if parser.pass("EXPLAIN")? {
            parser.expect("SELECT")?;
            let query = parser.select()?;
            parser.end()?;
            self.check_memory(query.memory_bytes())?;
            return self.run_explain(&query, sink).map(Outcome::Shown);
        }
        if parser.pass("INSERT")? {
            let insertion = parser.insertion()?;
            self.check_memory(insertion.values.memory_bytes())?;
            self.tables.prepare_change()?;
            let rows = self.tables.run_insertion(&insertion)?;
            return self.changed(rows);
        }
        if parser.pass("UPDATE")? {
            let change = parser.update()?;
            return self.run_and_commit(&change);
        }
        if parser.pass("DELETE")? {
            let change = parser.delete()?;
            return self.run_and_commit(&change);
        }
        if parser.pass("CREATE")? {
            parser.refuse(&["INDEX", "UNIQUE", "VIEW", "TRIGGER", "TEMP", "TEMPORARY"])?;
            parser.expect("TABLE")?;
            // A definition is parsed without the catalogue, which is then changed.
            let none = Catalogue::new()?;
            let mut parser = parser.with_catalogue(&none);
            parser.create_table(|definition| {
                self.check_whole_row(definition)?;
                self.create_table(definition).map(drop)
            })?;
            return Ok(Outcome::Created);
        }
        self.transaction(text)
    }

    fn transaction(&mut self, text: &str) -> Result<Outcome> {
        let mut parser = Parser::new(text, &[], &self.tables.base.catalogue)?;
        let wrong = |parser: &Parser<'_, '_>, what: &str| Err(parser.tokens.error(what));
        if parser.pass("BEGIN")? {
            parser.pass("TRANSACTION")?;
            parser.end()?;
            if self.in_transaction {
                return wrong(&parser, "a transaction is open already");
            }
            self.in_transaction = true;
            return Ok(Outcome::Transaction);
        }
        let commit = parser.pass("COMMIT")? || parser.pass("END")?;
        let rollback = !commit && parser.pass("ROLLBACK")?;
        if !commit && !rollback {
            return Err(parser.unknown_statement());
        }
        parser.pass("TRANSACTION")?;
        parser.end()?;
        if !self.in_transaction {
            return wrong(&parser, "no transaction is open");
        }
        self.in_transaction = false;
        if commit {
            self.commit()?;
        } else {
            self.rollback()?;
        }
        Ok(Outcome::Transaction)
    }

    fn run_and_commit(&mut self, change: &Change<'_>) -> Result<Outcome> {
        self.check_memory(change.select.memory_bytes() + change.columns.memory_bytes())?;
        self.tables.prepare_change()?;
        let rows = self.tables.run_change(change)?;
        self.changed(rows)
    }

    /// Returns an error if a statement needs more memory than available.
    fn check_memory(&self, bytes: usize) -> Result<()> {
        let given = self.budget.statement;
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
        let mut catalogue = self.tables.base.catalogue.clone();
        catalogue.add(definition)?;
        let text = alloc::format!("SELECT * FROM \"{}\"", definition.name);
        let mut parser = Parser::new(&text, &[], &catalogue)?;
        parser.expect("SELECT")?;
        let (needed, given) = (parser.select()?.memory_bytes(), self.budget.statement);
        if needed > given {
            return Err(Error::Refused(alloc::format!(
                "a table whose rows take {needed} bytes of the memory of a statement, which has {given},"
            )));
        }
        Ok(())
    }

    fn changed(&mut self, rows: u64) -> Result<Outcome> {
        if !self.in_transaction {
            self.commit()?;
        }
        Ok(Outcome::Changed(rows))
    }

    fn run_query(&mut self, query: &Query<'_>, sink: &mut impl Sink) -> Result<u64> {
        self.show_headings(query, sink)?;
        let select = &query.select;
        let mut candidates = Candidates::new(&mut self.tables, select.table, &select.condition)?;
        run_select(&mut self.tables, select, &mut candidates, sink)
    }

    #[inline(never)] // Keeps its local variables off the stack of the query.
    fn show_headings(&self, query: &Query<'_>, sink: &mut impl Sink) -> Result<()> {
        let mut headings: Series<Heading<'_>, OUTPUTS_MAX> = Series::new();
        let shown = query.titles.iter().zip(query.select.outputs.iter());
        for (title, output) in shown.take(query.select.shown) {
            let name = match title {
                Title::Hidden => "",
                Title::Text(text) => text,
                Title::Column(table, column) => {
                    self.tables.base.catalogue.column_name(*table, *column)
                }
            };
            let kind = output.kind;
            headings.push(Heading { name, kind }, "the number of columns of a query")?;
        }
        sink.begin(&headings)
    }
}
