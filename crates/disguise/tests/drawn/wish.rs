//! Specifications for a drawn schema: the draft of the product, or a random one derived from it.

use std::collections::BTreeSet;

use toml::Value as Toml;

use super::dice::Dice;
use super::kinds::Change;
use super::layout::{Class, Column, Layout, Table};
use super::mix;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// As the product proposes it.
    Drafted,
    /// Everything that may go goes.
    Removing,
    /// All rows stay, under placeholders.
    Keeping,
    /// Some of each.
    Mixed,
    /// The person stays, and some rows of theirs go or change.
    Staying,
}

pub(crate) fn style(dice: &mut Dice) -> Style {
    let drawn = dice.throw(100);
    let mut most = 0;
    for (style, share) in mix::STYLES {
        most += share;
        if drawn < *share || drawn < most {
            return *style;
        }
    }
    Style::Drafted
}

/// The specification, from the text of the draft.
pub(crate) fn wished(layout: &Layout, draft: &str, style: Style, dice: &mut Dice) -> String {
    if style == Style::Drafted {
        return draft.to_owned();
    }
    let mut file: toml::Table = toml::from_str(draft).unwrap();
    let owned = owned(layout, &file);
    let mut going: BTreeSet<usize> = match style {
        Style::Keeping => BTreeSet::new(),
        Style::Removing => owned.clone(),
        _ => owned
            .iter()
            .copied()
            .filter(|_| dice.in_a_hundred(60))
            .collect(),
    };
    // Two people who are the key leave with the row.
    let follows = |it: &&usize| layout.tables[**it].class == Class::Follows;
    if style != Style::Staying {
        going.extend(owned.iter().filter(follows));
    }
    only_those_that_may(layout, &mut going);
    let mut steps = Steps::default();
    for at in owned {
        let table = &layout.tables[at];
        if going.contains(&at) {
            steps.remove.push(of(table));
            continue;
        }
        if dice.in_a_hundred(40) {
            steps.modify.extend(overwritten(table, dice));
        }
        if table.class != Class::Through && (style != Style::Staying || dice.in_a_hundred(60)) {
            steps.decorrelate.push(kept(table, dice));
        }
    }
    if style == Style::Staying {
        steps.modify.extend(overwritten(&layout.tables[0], dice));
    } else {
        steps.remove.push(of(&layout.tables[0]));
    }
    for (word, steps) in [
        ("remove", steps.remove),
        ("modify", steps.modify),
        ("decorrelate", steps.decorrelate),
    ] {
        file.insert(word.to_owned(), Toml::Array(steps));
    }
    file.to_string()
}

/// The tables that a specification decorrelates.
pub(crate) fn decorrelated(text: &str) -> BTreeSet<String> {
    let file: toml::Table = toml::from_str(text).unwrap();
    let steps = file.get("decorrelate").and_then(Toml::as_array);
    let tables = steps.into_iter().flatten();
    tables
        .map(|it| it["table"].as_str().unwrap().to_owned())
        .collect()
}

#[derive(Default)]
struct Steps {
    remove: Vec<Toml>,
    modify: Vec<Toml>,
    decorrelate: Vec<Toml>,
}

/// The tables whose rows are somebody's, by what the draft says of them.
fn owned(layout: &Layout, file: &toml::Table) -> BTreeSet<usize> {
    let tables = layout.tables.iter().enumerate().skip(1);
    let is_owned = |table: &Table| match table.class {
        Class::Users | Class::Lookup => false,
        Class::Owned | Class::Shared | Class::Follows => true,
        Class::Through => file
            .get("tables")
            .and_then(|it| it.get(&table.name)?.get("through"))
            .is_some(),
    };
    tables
        .filter(|(_, it)| is_owned(it))
        .map(|(at, _)| at)
        .collect()
}

/// Takes away those to which rows refer that stay.
fn only_those_that_may(layout: &Layout, going: &mut BTreeSet<usize>) {
    loop {
        let stays = |at: &usize| {
            layout.tables.iter().enumerate().any(|(child, table)| {
                let links = table.links.iter().filter(|link| link.to == *at);
                links.into_iter().any(|link| {
                    !going.contains(&child)
                        || !(layout.is_own || (link.names_owner && table.class == Class::Through))
                })
            })
        };
        let staying: Vec<usize> = going.iter().copied().filter(|it| stays(it)).collect();
        if staying.is_empty() {
            return;
        }
        going.retain(|it| !staying.contains(it));
    }
}

fn of(table: &Table) -> Toml {
    let entry = [("table".to_owned(), Toml::from(table.name.as_str()))];
    Toml::Table(entry.into_iter().collect())
}

fn with(mut entry: Toml, name: &str, value: Toml) -> Toml {
    if let Toml::Table(entry) = &mut entry {
        entry.insert(name.to_owned(), value);
    }
    entry
}

/// A value of a column, if one may be overwritten.
fn overwritten(table: &Table, dice: &mut Dice) -> Option<Toml> {
    let may = |it: &&Column| it.change != Change::Nothing;
    let columns: Vec<&Column> = table.columns.iter().filter(may).collect();
    if columns.is_empty() {
        return None;
    }
    let column = *dice.of_all(&columns);
    let word = match column.change {
        _ if column.nullable && dice.in_a_hundred(30) => "\"Null\"",
        Change::Text => *dice.of_all(&[
            "{ ConstStr = \"\" }",
            "{ RandStr = { len = 8 } }",
            "{ Prefix = { keep = 1 } }",
        ]),
        _ => *dice.of_all(&["{ ConstNum = 1 }", "{ RandNum = { lb = 1, ub = 99 } }"]),
    };
    let value: toml::Table = toml::from_str(&format!("value = {word}")).unwrap();
    let entry = with(of(table), "column", Toml::from(column.name.as_str()));
    Some(with(entry, "value", value["value"].clone()))
}

/// Placeholders for all owners of a table.
fn kept(table: &Table, dice: &mut Dice) -> Toml {
    let owners = table.links.iter().filter(|it| it.names_owner);
    let owners = owners.flat_map(|it| &it.columns);
    let owners = owners.map(|it| Toml::from(table.columns[*it].name.as_str()));
    let entry = with(of(table), "owners", Toml::Array(owners.collect()));
    let may = |it: &&Column| it.change != Change::Nothing;
    let groups: Vec<&Column> = table.columns.iter().filter(may).collect();
    if groups.is_empty() || !dice.in_a_hundred(mix::GROUPED) {
        return entry;
    }
    let group = Toml::from(dice.of_all(&groups).name.as_str());
    with(entry, "group_by", Toml::Array(vec![group]))
}
