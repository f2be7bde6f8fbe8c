//! Conditions on rows: a tree of tests on single columns.

use core::cmp::Ordering;

use crate::catalogue::{ID, Kind};
use crate::error::Result;
use crate::flash::Nand;
use crate::limits::{TESTS_MAX, VALUES_MAX};
use crate::root::SecureStore;
use crate::scratch::Scratch;
use crate::series::Series;
use crate::store::Store;
use crate::value::{Value, ValueType, decode, encode_integer};

/// How a test compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Comparison {
    #[default]
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Between the first and the second value, both included.
    Between,
    NotBetween,
    /// One of the values.
    Among,
    NotAmong,
}

impl Comparison {
    /// Its sign.
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

    /// What holds exactly when this does not.
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

/// A column as a query reaches it from its root table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reach {
    /// The slot of the root's join row, or [`crate::catalogue::OWN`] for the root itself.
    pub(crate) slot: u8,
    /// The table there.
    pub(crate) table: u8,
    /// The column there, or [`ID`] for the row's id.
    pub(crate) column: u8,
    pub(crate) kind: ValueType,
    /// Bytes of an encoded value.
    pub(crate) width: u16,
}

/// A comparison of one column with values.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Test {
    pub(crate) reach: Reach,
    pub(crate) comparison: Comparison,
    /// The values in the condition's list.
    pub(crate) first: u16,
    pub(crate) count: u16,
}

/// A node of the tree; the numbers are those of other nodes, or of a test.
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
        Ok(u16::try_from(self.nodes.len() - 1).unwrap_or(u16::MAX))
    }

    /// Adds a test and its node.
    pub(crate) fn add_test(&mut self, test: Test) -> Result<u16> {
        self.tests.push(test, "the length of a condition")?;
        let number = u16::try_from(self.tests.len() - 1).unwrap_or(u16::MAX);
        self.add(Node::Test(number))
    }

    /// Requires `node` besides what is required already.
    pub(crate) fn require(&mut self, node: u16) -> Result<()> {
        let root = match self.root {
            Some(root) => self.add(Node::And(root, node))?,
            None => node,
        };
        self.root = Some(root);
        Ok(())
    }

    /// The tests that every row must pass, one bit each.
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

    /// A node by its number.
    pub(crate) fn node(&self, number: u16) -> Node {
        self.nodes
            .get(usize::from(number))
            .copied()
            .unwrap_or_default()
    }

    /// A test by its number.
    pub(crate) fn test(&self, number: u16) -> Test {
        self.tests
            .get(usize::from(number))
            .copied()
            .unwrap_or_default()
    }

    /// The values of a test.
    pub(crate) fn values_of(&self, test: &Test) -> &[Value<'a>] {
        let first = usize::from(test.first);
        self.values
            .get(first..first + usize::from(test.count))
            .unwrap_or(&[])
    }

    /// Whether `found` passes `test`.
    pub(crate) fn passes(&self, test: &Test, found: &Value<'_>) -> bool {
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

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Copies the present value of a column of the row `id`, encoded; `id` is one of the table
    /// that `reach` leads to.
    pub(crate) fn fetch_value(&mut self, reach: Reach, id: u32, out: &mut [u8]) -> Result<()> {
        let table = usize::from(reach.table);
        if reach.column == ID {
            out.copy_from_slice(&encode_integer(i64::from(id)));
            return Ok(());
        }
        let number = usize::from(reach.column);
        let column = self.catalogue.column_at(table, number)?;
        debug_assert!(!matches!(column.kind, Kind::Position | Kind::Reference));
        self.latest(table, id, number, &column, out)
    }

    /// Whether the row with the ids that `ids` gives for each slot fulfils a part of a condition;
    /// it passes the tests in `known`, one bit each.
    pub(crate) fn fulfils(
        &mut self,
        condition: &Condition<'_>,
        node: u16,
        known: u32,
        ids: &mut dyn FnMut(&mut Self, u8) -> Result<u32>,
    ) -> Result<bool> {
        match condition.node(node) {
            Node::Always => Ok(true),
            Node::And(a, b) => Ok(self.fulfils(condition, a, known, ids)?
                && self.fulfils(condition, b, known, ids)?),
            Node::Or(a, b) => Ok(self.fulfils(condition, a, known, ids)?
                || self.fulfils(condition, b, known, ids)?),
            Node::Test(number) if known >> number & 1 == 1 => Ok(true),
            Node::Test(number) => {
                let test = condition.test(number);
                let id = ids(self, test.reach.slot)?;
                self.passes(condition, &test, id)
            }
        }
    }

    /// Whether the row `id` of the table that a test reaches passes it.
    ///
    /// It stands alone, so that the value takes no room on the way through the tree.
    #[inline(never)]
    pub(crate) fn passes(
        &mut self,
        condition: &Condition<'_>,
        test: &Test,
        id: u32,
    ) -> Result<bool> {
        let mut value = Scratch::new(usize::from(test.reach.width));
        self.fetch_value(test.reach, id, &mut value)?;
        let found = decode(test.reach.kind, &value);
        Ok(condition.passes(test, &found))
    }
}
