//! What an application consists of: tables, disguises, a generator of its data, and the disguises by hand.

use clap::ValueEnum;
use probity_disguise::Value;

use super::place::Filler;
use crate::command::BenchError;

/// How much data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Size {
    /// As published
    Paper,
    /// As in the draft
    Seed,
    /// For tests
    Small,
}

/// One application.
pub(crate) struct Application {
    pub(crate) name: &'static str,
    /// Statements that make its tables and indexes.
    pub(crate) tables: &'static [&'static str],
    /// Table and id column of the users.
    pub(crate) users: (&'static str, &'static str),
    /// Users and tables, in the native form.
    pub(crate) description: &'static str,
    /// Tables with owners: identifying columns and owner columns.
    pub(crate) owned: &'static [(
        &'static str,
        &'static [&'static str],
        &'static [&'static str],
    )],
    /// Disguises of one user.
    pub(crate) personal: &'static [Disguise],
    /// The disguise of everybody, if there is one.
    pub(crate) global: Option<Disguise>,
    /// Which users made by hand are there, as a condition.
    pub(crate) made_by_hand: &'static str,
    /// Fills the tables and gives the ids of users, those that disguises are measured on first.
    pub(crate) fill: fn(&mut Filler<'_>, Size) -> Result<Users, BenchError>,
}

/// Who is there.
pub(crate) struct Users {
    pub(crate) all: Vec<Value>,
    /// Users that are measured one by one.
    pub(crate) measured: Vec<Value>,
    /// By how many users the time of the disguise of everybody is divided.
    pub(crate) share: usize,
}

/// One disguise, with the same by hand.
pub(crate) struct Disguise {
    pub(crate) name: &'static str,
    /// What coming back is called.
    pub(crate) back: &'static str,
    pub(crate) spec: &'static str,
    /// In the order in which a developer would write it; empty when nobody did.
    pub(crate) by_hand: &'static [Step],
}

/// A step by hand, for one user.
pub(crate) enum Step {
    /// `DELETE` of the user's rows.
    Delete {
        table: &'static str,
        owner: &'static str,
    },
    /// A column of the user's rows overwritten.
    Overwrite {
        table: &'static str,
        owner: &'static str,
        column: &'static str,
        /// Beside the owner; empty for all rows.
        condition: &'static str,
    },
    /// The user's rows given to new users, one a row.
    Scatter {
        table: &'static str,
        id: &'static str,
        owner: &'static str,
    },
    /// The user's rows given to new users, one a group.
    Group {
        table: &'static str,
        owner: &'static str,
        by: &'static str,
    },
}
