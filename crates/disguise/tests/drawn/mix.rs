//! The shares in which the generator mixes what a schema may have, in percent unless it is said otherwise.
//!
//! `docs/disguise-tests.md` prints them; a change here is a change there.

use super::wish::Style;

/// Tables of a schema.
pub(crate) const TABLES_MIN: usize = 3;
pub(crate) const TABLES_MAX: usize = 8;
/// Schemas on `PostgreSQL` that lie in two schemas of the search path.
pub(crate) const TWO_SCHEMAS: usize = 20;
/// Schemas in which rows refer to rows of the same person alone, so that all may be removed.
pub(crate) const OWN: usize = 45;
/// Users tables whose key has two columns.
pub(crate) const TWO_PART_IDS: usize = 1;
/// Schemas on servers with a table out of reach that refers to users and would lose rows by itself.
pub(crate) const OUTSIDE: usize = 1;
/// Tables that refer to themselves.
pub(crate) const SELF: usize = 30;
/// References of users to users that may not be NULL.
pub(crate) const MUST_REFER: usize = 3;
/// Tables that refer to one more table, whichever it is.
pub(crate) const BESIDE: usize = 60;
/// References, of those that are drawn, that stay where the key that they lead to names people.
pub(crate) const TO_NAMING_KEYS: usize = 10;
/// Tables of one owner whose owner is a part of the key.
pub(crate) const OWNER_IN_KEY: usize = 20;
/// Tables of the first form of the engine: `STRICT`, with system versions, partitioned.
pub(crate) const FORM_FIRST: usize = 15;
/// Tables up to the second form: `WITHOUT ROWID`, inherited from.
pub(crate) const FORM_SECOND: usize = 25;
/// Tables with a trigger.
pub(crate) const TRIGGER: usize = 6;
/// Columns with a default.
pub(crate) const DEFAULT: usize = 20;
/// Columns of texts of bounded length that are unique.
pub(crate) const UNIQUE: usize = 25;
/// Tables with a column that the database works out.
pub(crate) const COMPUTED: usize = 30;
/// Names that need quotes.
pub(crate) const STRANGE_NAMES: usize = 30;
/// Columns that are NULL where they may be.
pub(crate) const NULL: usize = 25;
/// References that spell the key in another way.
pub(crate) const RESPELLED: usize = 40;
/// Specifications.
pub(crate) const STYLES: &[(Style, usize)] = &[
    (Style::Drafted, 35),
    (Style::Removing, 25),
    (Style::Keeping, 10),
    (Style::Mixed, 20),
    (Style::Staying, 10),
];
/// Decorrelations in which rows of a group share a placeholder.
pub(crate) const GROUPED: usize = 20;
/// Schemas whose people leave all at once.
pub(crate) const EVERYBODY: usize = 15;
/// Schemas of which few rows are held in memory.
pub(crate) const FEW_ROWS: usize = 30;
/// Schedules over one schema.
pub(crate) const SCHEDULES_A_SCHEMA: u64 = 10;
/// Steps of a schedule before everybody comes back.
pub(crate) const STEPS: usize = 8;
/// Steps, in which somebody leaves or changes, somebody comes back, and somebody leaves whose records are destroyed at once where
/// nobody is away.
pub(crate) const STEP: [usize; 3] = [60, 35, 5];
/// Disguises with the credential, which reach what others hid.
pub(crate) const OVER: usize = 30;
