//! Statements: the same answers as `SQLite`, and everything else refused by name.

#![expect(
    clippy::format_push_string,
    reason = "statements are put together piece by piece"
)]

#[cfg(test)]
mod changes;
#[cfg(test)]
mod choice;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod definitions;
#[cfg(test)]
mod equality;
#[cfg(test)]
mod exact;
mod gaps;
#[cfg(test)]
mod openings;
#[cfg(test)]
mod pair;
#[cfg(test)]
mod query;
#[cfg(test)]
mod reads;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod statements;
#[cfg(test)]
mod texts;
