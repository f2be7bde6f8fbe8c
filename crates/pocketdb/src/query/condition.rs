//! Conditions on rows: a tree of tests on single columns.

#![expect(
    clippy::indexing_slicing,
    reason = "a node that is not there is a defect; one that is always true in its place would show wrong rows"
)]

use core::cmp::Ordering;

use crate::error::Result;
use crate::limits::{TESTS_MAX, VALUES_MAX};
use crate::pager::bytes::short;
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::scratch::Scratch;
use crate::pager::series::Series;
use crate::tables::catalogue::{ID, Kind};
use crate::tables::change::Tables;
use crate::tables::id::{ColumnId, RowId, TableId};
use crate::tables::value::{Value, ValueType, decode, encode_integer};

/// The comparison of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Comparison {
    #[default]
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Between the first and the second value, both inclusive.
    Between,
    NotBetween,
    /// One of the values.
    Among,
    NotAmong,
}

impl Comparison {
    /// Returns the comparison's sign.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Between => "BETWEEN",
            Self::NotBetween => "NOT BETWEEN",
            Self::Among => "IN",
            Self::NotAmong => "NOT IN",
        }
    }

    /// Returns the comparison that is true exactly if this one is false.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
            Self::Between => Self::NotBetween,
            Self::NotBetween => Self::Between,
            Self::Among => Self::NotAmong,
            Self::NotAmong => Self::Among,
        }
    }
}

/// A column of a query and its path from the root table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The slot of the root's join row, or [`crate::tables::catalogue::OWN`] for the root itself.
    pub(crate) slot: u8,
    /// The table in that slot.
    pub(crate) table: TableId,
    /// The column of that table, or [`ID`] for the row's id.
    pub(crate) column: ColumnId,
    pub(crate) kind: ValueType,
    /// Length of an encoded value in bytes.
    pub(crate) width: u16,
}

impl Reach {
    /// Copies the current value of the column, encoded, of the row `id` of its table.
    pub(crate) fn fetch<F: Nand, S: SecureStore>(
        self,
        tables: &mut Tables<F, S>,
        id: RowId,
        out: &mut [u8],
    ) -> Result<()> {
        if self.column == ID {
            out.copy_from_slice(&encode_integer(i64::from(id.number())));
            return Ok(());
        }
        let column = tables.base.catalogue.column_at(self.table, self.column)?;
        debug_assert!(!matches!(column.kind, Kind::Position | Kind::Reference));
        tables.latest(self.table, id, self.column, &column, out)
    }
}

/// A comparison of one column with values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Test {
    pub(crate) reach: Reach,
    pub(crate) comparison: Comparison,
    /// The range of its values in the condition's list.
    pub(crate) first: u16,
    pub(crate) count: u16,
}

/// A node of the tree; the numbers refer to other nodes, or to a test.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Node {
    /// Every row.
    #[default]
    Always,
    Test(u16),
    And(u16, u16),
    Or(u16, u16),
}

/// A condition.
#[derive(Debug, Default)]
pub(crate) struct Condition<'a> {
    pub(crate) nodes: Series<Node, { 2 * TESTS_MAX }>,
    pub(crate) tests: Series<Test, TESTS_MAX>,
    pub(crate) values: Series<Value<'a>, VALUES_MAX>,
    /// The topmost node, if there is a condition.
    pub(crate) root: Option<u16>,
}

impl<'a> Condition<'a> {
    /// Adds a node and returns its number.
    pub(crate) fn add(&mut self, node: Node) -> Result<u16> {
        self.nodes.push(node, "the length of a condition")?;
        Ok(short(self.nodes.len() - 1))
    }

    /// Adds a test and its node.
    pub(crate) fn add_test(&mut self, test: Test) -> Result<u16> {
        self.tests.push(test, "the length of a condition")?;
        let number = short(self.tests.len() - 1);
        self.add(Node::Test(number))
    }

    /// Adds `node` to the condition with AND.
    pub(crate) fn require(&mut self, node: u16) -> Result<()> {
        let root = match self.root {
            Some(root) => self.add(Node::And(root, node))?,
            None => node,
        };
        self.root = Some(root);
        Ok(())
    }

    /// Returns the tests that every row must pass, as a bit set.
    pub(crate) fn required(&self) -> u32 {
        self.root.map_or(0, |root| self.required_by(root))
    }

    fn required_by(&self, node: u16) -> u32 {
        match self.node(node) {
            Node::Test(number) => 1 << number,
            Node::And(a, b) => self.required_by(a) | self.required_by(b),
            Node::Always | Node::Or(..) => 0,
        }
    }

    /// Returns a node by its number.
    pub(crate) fn node(&self, number: u16) -> Node {
        self.nodes[usize::from(number)]
    }

    /// Returns a test by its number.
    pub(crate) fn test(&self, number: u16) -> Test {
        self.tests[usize::from(number)]
    }

    /// Returns the values of a test.
    pub(crate) fn values_of(&self, test: &Test) -> &[Value<'a>] {
        let first = usize::from(test.first);
        &self.values[first..first + usize::from(test.count)]
    }

    /// Returns whether the row `id` of the tested table passes a test.
    ///
    /// It is a function of its own, so that the value takes no stack during the walk of the tree.
    #[inline(never)]
    pub(crate) fn row_passes<F: Nand, S: SecureStore>(
        &self,
        tables: &mut Tables<F, S>,
        test: &Test,
        id: RowId,
    ) -> Result<bool> {
        let mut value = Scratch::new(usize::from(test.reach.width));
        test.reach.fetch(tables, id, &mut value)?;
        let found = decode(test.reach.kind, &value);
        Ok(self.passes(test, &found))
    }

    /// Returns whether `found` passes `test`.
    fn passes(&self, test: &Test, found: &Value<'_>) -> bool {
        let values = self.values_of(test);
        let order = |number: usize| values.get(number).and_then(|value| found.order(value));
        let among = || {
            values
                .iter()
                .any(|value| found.order(value) == Some(Ordering::Equal))
        };
        let between =
            || order(0).is_some_and(Ordering::is_ge) && order(1).is_some_and(Ordering::is_le);
        match test.comparison {
            Comparison::Equal => order(0) == Some(Ordering::Equal),
            Comparison::NotEqual => order(0) != Some(Ordering::Equal),
            Comparison::Less => order(0).is_some_and(Ordering::is_lt),
            Comparison::LessOrEqual => order(0).is_some_and(Ordering::is_le),
            Comparison::Greater => order(0).is_some_and(Ordering::is_gt),
            Comparison::GreaterOrEqual => order(0).is_some_and(Ordering::is_ge),
            Comparison::Between => between(),
            Comparison::NotBetween => !between(),
            Comparison::Among => among(),
            Comparison::NotAmong => !among(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::catalogue::OWN;

    /// A node that was not there counted as one that every row fulfils.
    #[test]
    #[should_panic(expected = "out of bounds")]
    fn a_part_of_a_condition_that_is_not_there_lets_no_row_pass() {
        let mut condition = Condition::default();
        let reach = Reach {
            slot: OWN,
            table: TableId::new(2),
            column: ID,
            kind: ValueType::Integer,
            width: 8,
        };
        let test = Test {
            reach,
            comparison: Comparison::Equal,
            first: 0,
            count: 0,
        };
        let node = condition.add_test(test).unwrap();
        assert!(matches!(condition.node(node), Node::Test(0)));
        condition.node(node + 1);
    }
}
