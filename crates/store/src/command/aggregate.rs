//! Sorted sets made of several: unions, intersections, differences.

use std::collections::BTreeMap;

use super::range::store_scored;
use super::set::limit;
use super::sorted_set::reply_scored;
use super::{Call, Spec};
use crate::fail::Fail;
use crate::number::{parse_double, parse_integer};
use crate::record::{Kind, Value};
use crate::reply::Protocol;
use crate::rows::Rows;
use crate::sorted_set::{Order, Range, Scored};
use crate::space::Held;

pub(super) const SPECS: &[Spec] = &[
    Spec::new("zunion", -3, |call| answer(call, Way::Union)),
    Spec::new("zinter", -3, |call| answer(call, Way::Inter)),
    Spec::new("zdiff", -3, |call| answer(call, Way::Diff)),
    Spec::new("zunionstore", -4, |call| store(call, Way::Union)),
    Spec::new("zinterstore", -4, |call| store(call, Way::Inter)),
    Spec::new("zdiffstore", -4, |call| store(call, Way::Diff)),
    Spec::new("zintercard", -3, zintercard),
];
