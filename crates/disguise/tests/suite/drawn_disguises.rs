//! The disguises of which schedules are drawn, as the engine reads them and as the model does.

use super::forum::*;
use super::model::{Step, Table};

const MIXED: &str = r#"{"moderations": [
  {"Remove": {"pred": "(id & 1) = 1", "from": ""}},
  {"Decor": {"pred": "(id & 1) = 0", "from": "", "group_by_cols": [], "user_fk_cols": ["moderator_user_id", "user_id"]}}],
  "stories": [{"Modify": {"pred": "True", "from": "", "col": "is_moderated", "gen_value": {"ConstNum": 9}}}]}"#;

const fn every(_: i64) -> bool {
    true
}

const fn is_odd(id: i64) -> bool {
    id % 2 == 1
}

const fn is_even(id: i64) -> bool {
    id % 2 == 0
}

/// Stories with an even last digit carry the tag of the hobby.
const fn is_hobby(id: i64) -> bool {
    id < 100 && id % 10 % 2 == 0
}

/// The disguises of the forum as the engine reads them and as the model does.
pub(super) fn disguise(kind: usize) -> (&'static str, Vec<Step>) {
    use Step::{Overwrite, Remove, RemoveAccount, Replace};
    use Table::{Moderations, Stories};
    let both = &[0, 2];
    match kind {
        0 => (
            GDPR,
            vec![
                Remove(Stories, every),
                Replace(Moderations, both, None, every),
                RemoveAccount,
            ],
        ),
        1 => (
            GDPR_REMOVE,
            vec![
                Remove(Moderations, every),
                Remove(Stories, every),
                RemoveAccount,
            ],
        ),
        2 => (
            ANON,
            vec![
                Replace(Moderations, both, None, every),
                Replace(Stories, &[0], None, every),
            ],
        ),
        3 => (GROUPED, vec![Replace(Stories, &[0], Some(1), every)]),
        4 => (HOBBY, vec![Replace(Stories, &[0], None, is_hobby)]),
        5 => (BLANK, vec![Overwrite(Stories, 1, None, every)]),
        6 => (REMOVE_ALL, vec![Remove(Moderations, every)]),
        _ => (
            MIXED,
            vec![
                Remove(Moderations, is_odd),
                Replace(Moderations, both, None, is_even),
                Overwrite(Stories, 2, Some(9), every),
            ],
        ),
    }
}
