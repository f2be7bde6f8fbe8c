//! The parts of a benchmarked application: tables, disguises, a generator of its data, and
//! equivalent hand-written statements.

use clap::ValueEnum;
use probity_disguise::Value;

use super::place::Filler;
use crate::command::BenchError;

/// The amount of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Size {
    /// As published
    Paper,
    /// As in the draft
    Seed,
    /// For tests
    Small,
}

/// A benchmarked application.
pub(crate) struct Application {
    pub(crate) name: &'static str,
    /// Statements that create its tables and indexes.
    pub(crate) tables: &'static [&'static str],
    /// Table and id column of the users.
    pub(crate) users: (&'static str, &'static str),
    /// Users and tables, in the native specification format.
    pub(crate) description: &'static str,
    /// Tables with owners: table, identifying columns and owner columns.
    pub(crate) owned: &'static [(
        &'static str,
        &'static [&'static str],
        &'static [&'static str],
    )],
    /// Disguises that each affect one user.
    pub(crate) personal: &'static [Disguise],
    /// The disguise of all users, if there is one.
    pub(crate) global: Option<Disguise>,
    /// SQL condition that selects the users created by the hand-written statements.
    pub(crate) made_by_hand: &'static str,
    /// Fills the tables and returns the ids of users, with those that disguises are measured on
    /// first.
    pub(crate) fill: fn(&mut Filler<'_>, Size) -> Result<Users, BenchError>,
}

/// Users of a filled application.
pub(crate) struct Users {
    pub(crate) all: Vec<Value>,
    /// Users that are measured one by one.
    pub(crate) measured: Vec<Value>,
    /// Number of users by which the time of the disguise of all users is divided.
    pub(crate) share: usize,
}

/// A disguise and the equivalent hand-written statements.
pub(crate) struct Disguise {
    pub(crate) name: &'static str,
    /// Name of the reverse operation.
    pub(crate) back: &'static str,
    pub(crate) spec: &'static str,
    /// Hand-written steps, in a developer's order; empty if there are none.
    pub(crate) by_hand: &'static [Step],
}

/// A hand-written step for one user.
pub(crate) enum Step {
    /// `DELETE` of the user's rows.
    Delete {
        table: &'static str,
        owner: &'static str,
    },
    /// Overwrites columns of the user's rows.
    Overwrite {
        table: &'static str,
        owner: &'static str,
        columns: &'static [&'static str],
        /// Condition besides the owner; empty for all rows.
        condition: &'static str,
    },
    /// Assigns each of the user's rows to a new user, one for each column that names the user.
    Scatter {
        table: &'static str,
        id: &'static str,
        owners: &'static [&'static str],
    },
    /// Assigns each group of the user's rows to a new user.
    Group {
        table: &'static str,
        owner: &'static str,
        by: &'static str,
    },
}
