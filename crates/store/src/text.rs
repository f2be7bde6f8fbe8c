//! Strings: short ones beside their key, long ones in chunks, of which those full of zeros may be missing.

use crate::fail::Fail;
use crate::limits::{CHUNK_BYTES, SHORT_BYTES_MAX, VALUE_BYTES_MAX};
use crate::record::{Body, Form, Kind, Record, Value};
use crate::space::Space;

impl Space<'_> {
    /// The string under a key with its record.
    pub(crate) fn find_text(&mut self, key: &[u8]) -> Result<Option<Record>, Fail> {
        let found = self.find(key)?;
        check_is_text(found.as_ref())?;
        Ok(found)
    }

    /// As [`Self::find_text`], and counts whether it was there.
    pub(crate) fn look_up_text(&mut self, key: &[u8]) -> Result<Option<Record>, Fail> {
        let found = self.look_up(key)?;
        check_is_text(found.as_ref())?;
        Ok(found)
    }

    /// A new string value for `key`.
    pub(crate) fn new_text(&mut self, key: &[u8], bytes: &[u8], form: Form) -> Result<Value, Fail> {
        if bytes.len() <= SHORT_BYTES_MAX {
            return Ok(Value::Short {
                bytes: bytes.to_vec(),
                form,
            });
        }
        let mut body = self.new_chunks(key)?;
        self.write_chunks(&mut body, 0, bytes)?;
        Ok(Value::Rows(body))
    }

    /// All of a string.
    pub(crate) fn text(&self, value: &Value) -> Result<Vec<u8>, Fail> {
        match value {
            Value::Short { bytes, .. } => Ok(bytes.clone()),
            Value::Rows(body) => self.read_chunks(body, 0, body.count),
        }
    }

    /// Reads a string of at most `most` bytes; none of a longer one.
    pub(crate) fn short_text(&self, value: &Value, most: u64) -> Result<Option<Vec<u8>>, Fail> {
        let is_short = text_len(value) <= most;
        is_short.then(|| self.text(value)).transpose()
    }

    /// Counts the ones in the bits of the bytes from `start` to before `end`. Zeros that no chunk
    /// holds take no time.
    pub(crate) fn ones(&self, value: &Value, start: u64, end: u64) -> Result<u64, Fail> {
        match value {
            Value::Short { .. } => Ok(ones(&self.text_part(value, start, end)?)),
            Value::Rows(body) => {
                let mut count = 0;
                self.each_chunk(body, start, end, |_, chunk| count += ones(chunk))?;
                Ok(count)
            }
        }
    }

    /// The bytes of a string from `start` to before `end`, which lie within it.
    pub(crate) fn text_part(&self, value: &Value, start: u64, end: u64) -> Result<Vec<u8>, Fail> {
        match value {
            Value::Short { bytes, .. } => {
                let range = place(start)..place(end).min(bytes.len());
                Ok(bytes.get(range).unwrap_or_default().to_vec())
            }
            Value::Rows(body) => self.read_chunks(body, start, end),
        }
    }

    /// Writes `bytes` at `start` of the string under `key`; what lies between the old end and there becomes zeros.
    pub(crate) fn write_text(
        &mut self,
        key: &[u8],
        value: &mut Value,
        start: u64,
        bytes: &[u8],
    ) -> Result<(), Fail> {
        let end = start + bytes.len() as u64;
        if let Value::Short { bytes: old, form } = value {
            if end <= SHORT_BYTES_MAX as u64 {
                old.resize(old.len().max(place(end)), 0);
                if let Some(part) = old.get_mut(place(start)..place(end)) {
                    part.copy_from_slice(bytes);
                }
                *form = Form::Edited;
                return Ok(());
            }
            let mut body = self.new_chunks(key)?;
            self.write_chunks(&mut body, 0, old)?;
            *value = Value::Rows(body);
        }
        match value {
            Value::Rows(body) => self.write_chunks(body, start, bytes),
            Value::Short { .. } => Ok(()),
        }
    }

    fn new_chunks(&mut self, key: &[u8]) -> Result<Body, Fail> {
        Ok(Body {
            kind: Kind::Text,
            id: self.new_id(key)?,
            count: 0,
            first: 0,
            large: false,
        })
    }

    fn read_chunks(&self, body: &Body, start: u64, end: u64) -> Result<Vec<u8>, Fail> {
        let mut text = vec![0; place(end.saturating_sub(start))];
        self.each_chunk(body, start, end, |at, chunk| {
            let room = text.get_mut(at..).unwrap_or_default();
            let count = chunk.len().min(room.len());
            if let (Some(to), Some(from)) = (room.get_mut(..count), chunk.get(..count)) {
                to.copy_from_slice(from);
            }
        })?;
        Ok(text)
    }

    /// Passes on the stored parts of the bytes from `start` to before `end`, each with its place
    /// behind `start`.
    fn each_chunk(
        &self,
        body: &Body,
        start: u64,
        end: u64,
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<(), Fail> {
        let first = start / CHUNK_BYTES;
        for row in self.rows.items(body.id, first)? {
            let row = row?;
            let chunk_start = row.place() * CHUNK_BYTES;
            if chunk_start >= end {
                break;
            }
            let skipped = start.saturating_sub(chunk_start);
            let chunk = row.value().get(place(skipped)..).unwrap_or_default();
            let at = (chunk_start + skipped).saturating_sub(start);
            let left = place(end.saturating_sub(start).saturating_sub(at));
            take(place(at), chunk.get(..left).unwrap_or(chunk));
        }
        Ok(())
    }

    fn write_chunks(&mut self, body: &mut Body, start: u64, bytes: &[u8]) -> Result<(), Fail> {
        let mut rest = bytes;
        let mut at = start;
        while !rest.is_empty() {
            let number = at / CHUNK_BYTES;
            let skipped = place(at % CHUNK_BYTES);
            let room = place(CHUNK_BYTES) - skipped;
            let (part, after) = rest.split_at(room.min(rest.len()));
            if part.len() as u64 == CHUNK_BYTES {
                self.rows.put_item(body.id, number, part)?;
            } else {
                let mut chunk = self.rows.item(body.id, number)?.unwrap_or_default();
                chunk.resize(chunk.len().max(skipped + part.len()), 0);
                if let Some(to) = chunk.get_mut(skipped..skipped + part.len()) {
                    to.copy_from_slice(part);
                }
                self.rows.put_item(body.id, number, &chunk)?;
            }
            at += part.len() as u64;
            rest = after;
        }
        body.count = body.count.max(at);
        Ok(())
    }
}

/// Counts the bits that are ones, eight bytes at a time.
fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let of_words = words
        .iter()
        .map(|word| u64::from_be_bytes(*word).count_ones());
    let of_rest = rest.iter().map(|byte| byte.count_ones());
    of_words.chain(of_rest).map(u64::from).sum()
}

/// Returns the length of a string in bytes.
pub(crate) const fn text_len(value: &Value) -> u64 {
    match value {
        Value::Short { bytes, .. } => bytes.len() as u64,
        Value::Rows(body) => body.count,
    }
}

/// Refuses a string that would become longer than one may be.
pub(crate) fn check_length(length: u64) -> Result<(), Fail> {
    if length > VALUE_BYTES_MAX {
        let text = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
        return Err(Fail::said(text));
    }
    Ok(())
}

fn check_is_text(found: Option<&Record>) -> Result<(), Fail> {
    match found {
        Some(record) if record.value.kind() != Kind::Text => Err(Fail::wrong_type()),
        _ => Ok(()),
    }
}

/// A place within a string, which is bounded far below what memory can hold.
fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
