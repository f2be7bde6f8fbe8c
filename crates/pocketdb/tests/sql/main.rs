//! Statements: the same answers as SQLite, and everything else refused by name.

#[cfg(test)]
mod choice;
#[cfg(test)]
mod equality;
#[cfg(test)]
mod pair;
#[cfg(test)]
mod query;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod statements;
