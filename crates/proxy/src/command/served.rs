//! A server's description of its commands: its replies to `COMMAND` and `COMMAND INFO`.

use super::table::{Access, BeginSearch, CommandFacts, FindKeys, Flags, KeySpec, Table};
use crate::resp::Frame;

/// A reply to COMMAND that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server's reply to COMMAND has no {0} where one is expected")]
pub struct TableError(&'static str);

impl Table {
    /// The commands in a reply to `COMMAND` or `COMMAND INFO`; what the server does not know is
    /// left out. Where a server before 7.0 does not say where keys are, the built-in copy does.
    ///
    /// # Errors
    /// When the reply is not of the documented form.
    pub fn from_reply(reply: &Frame) -> Result<Self, TableError> {
        let mut table = Self::default();
        let mut builtin = None;
        for command in reply.elements().ok_or(TableError("list"))? {
            table.merge(Self::of_one(command, &mut builtin)?);
        }
        Ok(table)
    }

    /// The commands that a server runs under `names`, by its reply to `COMMAND INFO` of them. Their
    /// facts keep the names that say what they do.
    ///
    /// # Errors
    /// When the reply is not of the documented form, or does not answer for each name.
    pub fn under_names(names: &[&[u8]], reply: &Frame) -> Result<Self, TableError> {
        let commands = reply.elements().ok_or(TableError("list"))?;
        if commands.len() != names.len() {
            return Err(TableError("command for each name"));
        }
        let mut table = Self::default();
        let mut builtin = None;
        for (name, command) in names.iter().zip(commands) {
            table.merge(Self::of_one(command, &mut builtin)?.renamed(name));
        }
        Ok(table)
    }

    /// One command of a reply and its subcommands; nothing where the server has none.
    fn of_one(command: &Frame, builtin: &mut Option<Self>) -> Result<Self, TableError> {
        let mut table = Self::default();
        let Some(fields) = command.elements() else {
            if *command == Frame::Null {
                return Ok(table);
            }
            return Err(TableError("command"));
        };
        let name = name_of(fields)?;
        if fields.get(8).and_then(Frame::elements).is_none() {
            table = builtin.get_or_insert_with(Self::builtin).family(&name);
        }
        if table.is_empty() {
            table.insert_reply(command)?;
        }
        Ok(table)
    }

    fn insert_reply(&mut self, command: &Frame) -> Result<(), TableError> {
        let fields = command.elements().ok_or(TableError("command"))?;
        let name = name_of(fields)?;
        let arity = fields
            .get(1)
            .and_then(Frame::integer)
            .ok_or(TableError("arity"))?;
        let words = fields
            .get(2)
            .and_then(Frame::elements)
            .ok_or(TableError("list of flags"))?;
        let flags = texts(words).fold(Flags::default(), Flags::named);
        let specs = match fields.get(8).and_then(Frame::elements) {
            Some(specs) => specs
                .iter()
                .map(spec_from_reply)
                .collect::<Result<_, _>>()?,
            // Servers before 7.0 name the first key, the last key and the step.
            None => old_specs(fields, flags)?,
        };
        self.insert(CommandFacts {
            name: name.into(),
            arity,
            flags,
            specs,
        });
        for subcommand in fields.get(9).and_then(Frame::elements).unwrap_or_default() {
            self.insert_reply(subcommand)?;
        }
        Ok(())
    }
}

/// The name of a command that a reply describes, in lower case.
fn name_of(fields: &[Frame]) -> Result<String, TableError> {
    let name = fields.first().and_then(Frame::text);
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    Ok(name.ok_or(TableError("name"))?.to_ascii_lowercase())
}

fn texts(words: &[Frame]) -> impl Iterator<Item = &str> {
    words
        .iter()
        .filter_map(|word| std::str::from_utf8(word.text()?).ok())
}

fn old_specs(fields: &[Frame], flags: Flags) -> Result<Box<[KeySpec]>, TableError> {
    let number = |index: usize| {
        let number = fields.get(index).and_then(Frame::integer);
        number.ok_or(TableError("place of keys"))
    };
    let (first, last, step) = (number(3)?, number(4)?, number(5)?);
    let write = flags.contains(Flags::WRITE);
    let access = if write {
        Access::ACCESS.with(Access::UPDATE)
    } else {
        Access::ACCESS
    };
    if flags.contains(Flags::MOVABLE_KEYS) {
        return Ok([KeySpec {
            access,
            begin: BeginSearch::Unknown,
            find: FindKeys::Unknown,
        }]
        .into());
    }
    if first <= 0 {
        return Ok([].into());
    }
    let last = if last < 0 { last } else { last - first };
    let find = FindKeys::Range {
        last,
        step: step.max(1),
        limit: 0,
    };
    Ok([KeySpec {
        access,
        begin: BeginSearch::Index(first),
        find,
    }]
    .into())
}

fn spec_from_reply(spec: &Frame) -> Result<KeySpec, TableError> {
    let words = spec.field(b"flags").and_then(Frame::elements);
    let words = words.ok_or(TableError("flags of keys"))?;
    let search = spec
        .field(b"begin_search")
        .ok_or(TableError("begin_search"))?;
    let find = spec.field(b"find_keys").ok_or(TableError("find_keys"))?;
    Ok(KeySpec {
        access: Access::from_words(texts(words)),
        begin: begin_from_reply(search)?,
        find: find_from_reply(find)?,
    })
}

fn begin_from_reply(search: &Frame) -> Result<BeginSearch, TableError> {
    let spec = search.field(b"spec");
    let number = |name: &[u8]| {
        spec.and_then(|spec| spec.field(name))
            .and_then(Frame::integer)
    };
    match search.field(b"type").and_then(Frame::text) {
        Some(b"index") => Ok(BeginSearch::Index(
            number(b"index").ok_or(TableError("index"))?,
        )),
        Some(b"keyword") => {
            let word = spec
                .and_then(|spec| spec.field(b"keyword"))
                .and_then(Frame::text);
            let word = word.and_then(|word| std::str::from_utf8(word).ok());
            let from = number(b"startfrom").ok_or(TableError("startfrom"))?;
            Ok(BeginSearch::Keyword(
                word.ok_or(TableError("keyword"))?.into(),
                from,
            ))
        }
        _ => Ok(BeginSearch::Unknown),
    }
}

fn find_from_reply(find: &Frame) -> Result<FindKeys, TableError> {
    let spec = find.field(b"spec");
    let number = |name: &'static str| {
        spec.and_then(|spec| spec.field(name.as_bytes()))
            .and_then(Frame::integer)
            .ok_or(TableError(name))
    };
    match find.field(b"type").and_then(Frame::text) {
        Some(b"range") => Ok(FindKeys::Range {
            last: number("lastkey")?,
            step: number("keystep")?.max(1),
            limit: number("limit")?,
        }),
        Some(b"keynum") => Ok(FindKeys::Count {
            index: number("keynumidx")?,
            first: number("firstkey")?,
            step: number("keystep")?.max(1),
        }),
        _ => Ok(FindKeys::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server before 7.0 names one first and one last key, and of ZUNIONSTORE none: whole
    /// commands had no entries (proxy 7). What the built-in copy knows comes from there,
    /// subcommands included.
    #[test]
    fn what_an_old_server_leaves_open_is_in_the_built_in_copy() {
        let old = |name: &str, first: i64| {
            let words = vec![Frame::Simple(b"write".to_vec())];
            let numbers = [first, first, 1].map(Frame::Integer);
            let head = [
                Frame::Bulk(name.as_bytes().to_vec()),
                Frame::Integer(-4),
                Frame::Array(words),
            ];
            Frame::Array(head.into_iter().chain(numbers).collect())
        };
        let reply = Frame::Array(vec![
            old("zunionstore", 0),
            old("client", 0),
            old("own.set", 1),
        ]);
        let table = Table::from_reply(&reply).unwrap();
        let builtin = Table::builtin();
        for name in ["zunionstore", "client|reply"] {
            assert_eq!(table.named(name), builtin.named(name), "{name}");
        }
        let begin = &table.named("own.set").unwrap().specs.first().unwrap().begin;
        assert_eq!(*begin, BeginSearch::Index(1));
    }
}
