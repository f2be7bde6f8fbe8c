//! Notes of a bag about the keys of people whom its records name: they go with the last record that
//! does.

use std::collections::BTreeSet;

use crate::database::value::Value;
use crate::records::bag::Bag;
use crate::records::section::Change;

impl Bag {
    /// Drops the notes about people whom no record of the bag names any more, and those about rows
    /// for which none waits. Those of nobody stay, since a row that is owned through others does not hold the names of its owners.
    pub(crate) fn drop_notes(&mut self) {
        self.drop_unawaited();
        if self.named.is_empty() {
            return;
        }
        let mut names = BTreeSet::new();
        let mut note = |value: &Value| {
            let name = value.principal();
            if self.named.contains_key(&name) {
                names.insert(name);
            }
        };
        for section in &self.sections {
            match &section.change {
                Change::Removed { rows, .. } => rows.iter().flatten().for_each(&mut note),
                Change::Copied { rows, .. } => {
                    rows.iter().flat_map(|it| &it.row).for_each(&mut note);
                }
                Change::Modified { rows, .. } | Change::Decorrelated { rows, .. } => {
                    let all = rows.iter();
                    all.flat_map(|it| it.identity.iter().chain([&it.before]))
                        .for_each(&mut note);
                }
            }
        }
        self.named.retain(|name, _| names.contains(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::samples::full_bag;
    use crate::records::section::Section;

    #[test]
    fn notes_go_with_the_last_record_that_names_their_person() {
        let mut bag = full_bag();
        let named = [1, 2, 3, 7].map(Value::Int);
        for id in &named {
            bag.named.insert(id.principal(), [0; 32]);
        }
        bag.drop_notes();
        let left = |bag: &Bag| {
            let is_left = |id: &&Value| bag.named.contains_key(&id.principal());
            named.iter().filter(is_left).cloned().collect::<Vec<_>>()
        };
        assert_eq!(left(&bag), [1, 2, 7].map(Value::Int));
        bag.sections.retain(Section::is_for_departed);
        bag.drop_notes();
        assert_eq!(left(&bag), [Value::Int(2)]);
        bag.sections.clear();
        bag.drop_notes();
        assert_eq!(left(&bag), []);
    }
}
