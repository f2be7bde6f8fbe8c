//! The data set of the paper: six tables linked by foreign keys, with every value a function of its
//! row.
//!
//! Sizes and labels are those derived in the reference. A keyed permutation of the rows gives each
//! label its exact number of rows. So neither the generator nor the engine stores anything.

use probity_disguise::Value;

/// Numbers of rows of T0 to T5 at full size.
const FULL: [u32; 6] = [1_000_000, 100_000, 10_000, 125_000, 1_667, 33_333];
/// Length of a row without its foreign keys, in bytes.
const ROW_BYTES: usize = 160;
/// Length of an indexed value, in bytes.
pub(super) const LABEL_BYTES: usize = 10;
/// Number of rounds of the permutation.
const ROUNDS: u64 = 4;
/// The columns besides the id, each with its code in the permutation.
const COLUMNS: [(&str, u64); 4] = [("dup10", 10), ("dup100", 11), ("ms1", 12), ("ms10", 13)];

/// A table of the data set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub(super) number: usize,
    /// The tables it references, in the order of its columns.
    pub(super) references: &'static [usize],
}

/// The tables, referenced ones first.
pub(super) const TABLES: [Table; 6] = [
    table(2, &[]),
    table(1, &[2]),
    table(4, &[]),
    table(5, &[]),
    table(3, &[4, 5]),
    table(0, &[1, 3]),
];

const fn table(number: usize, references: &'static [usize]) -> Table {
    Table { number, references }
}

/// The data set at one size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Data {
    rows: [u32; 6],
    seed: u64,
}

impl Data {
    /// Creates the data set with `rows` rows of T0 and the other tables in proportion.
    pub(super) fn new(rows: u32, seed: u64) -> Self {
        let [full, ..] = FULL;
        let scaled = FULL.map(|of| {
            let scaled = u64::from(of) * u64::from(rows) / u64::from(full);
            u32::try_from(scaled).unwrap_or(u32::MAX).max(20)
        });
        Self { rows: scaled, seed }
    }

    /// Returns the number of rows of a table.
    pub(super) fn rows(&self, table: usize) -> u32 {
        self.rows.get(table).copied().unwrap_or(0)
    }

    /// Returns the `CREATE TABLE` statement of a table.
    pub(super) fn definition(table: &Table) -> String {
        let columns = COLUMNS.map(|(name, _)| format!("{name} CHAR({LABEL_BYTES}) INDEXED"));
        let keys = table.references.iter();
        let keys: Vec<String> = keys
            .map(|to| format!("t{to} INTEGER REFERENCES T{to}(id), "))
            .collect();
        format!(
            "CREATE TABLE T{} (id INTEGER PRIMARY KEY, {}{}, a1 CHAR({LABEL_BYTES}), filler CHAR({}))",
            table.number,
            keys.concat(),
            columns.join(", "),
            ROW_BYTES - 5 * LABEL_BYTES - 4 * table.references.len(),
        )
    }

    /// Returns the stored columns of row `row`, counted from zero.
    pub(super) fn row(&self, table: &Table, row: u32, out: &mut Vec<u8>) {
        out.clear();
        for (column, code) in COLUMNS {
            let label = self.label(table.number, column, code, row);
            let start = out.len();
            out.extend_from_slice(format!("VAL_{label}").as_bytes());
            out.resize(start + LABEL_BYTES, 0);
        }
        let place = self.permuted(table.number, 14, row);
        out.extend_from_slice(format!("A{place:09}").as_bytes());
        let filler = ROW_BYTES - 5 * LABEL_BYTES - 4 * table.references.len();
        let start = out.len();
        out.extend_from_slice(format!("row {row} of table {}", table.number).as_bytes());
        out.resize(start + filler, b'.');
    }

    /// Returns the ids that row `row` refers to.
    pub(super) fn references(&self, table: &Table, row: u32, out: &mut Vec<u32>) {
        out.clear();
        for &to in table.references {
            let code = u64::try_from(to).unwrap_or(0);
            out.push(self.permuted(table.number, code, row) % self.rows(to).max(1) + 1);
        }
    }

    /// Returns the values of row `row` for another database, its id first. Rows beyond the data set
    /// repeat it.
    pub(super) fn values(&self, table: &Table, row: u32) -> Vec<Value> {
        let source = row % self.rows(table.number).max(1);
        let (mut bytes, mut references) = (Vec::new(), Vec::new());
        self.row(table, source, &mut bytes);
        self.references(table, source, &mut references);
        let mut values = vec![Value::Int(i64::from(row) + 1)];
        values.extend(references.iter().map(|&id| Value::Int(i64::from(id))));
        values.extend(Self::texts(&bytes).map(Value::Text));
        values
    }

    /// Returns the keys of row `row` in all indexes of a table. They are its own labels, the labels
    /// of all rows that it refers to, and those rows' ids.
    pub(super) fn keys(&self, table: &Table, row: u32, out: &mut Vec<u32>) {
        out.clear();
        self.labels_of(table.number, row, out);
        self.keys_below(table, row, out);
    }

    fn labels_of(&self, table: usize, row: u32, out: &mut Vec<u32>) {
        let labels = COLUMNS.map(|(column, code)| self.label(table, column, code, row));
        out.extend(labels);
    }

    fn keys_below(&self, table: &Table, row: u32, out: &mut Vec<u32>) {
        let mut references = Vec::new();
        self.references(table, row, &mut references);
        for (&to, id) in table.references.iter().zip(references) {
            out.push(id);
            self.labels_of(to, id - 1, out);
            if let Some(below) = TABLES.iter().find(|table| table.number == to) {
                self.keys_below(below, id - 1, out);
            }
        }
    }

    /// Returns the `CREATE TABLE` statement of a table for another database, and its indexes.
    pub(super) fn plain_definition(table: &Table) -> Vec<String> {
        let number = table.number;
        let keys = table.references.iter().map(|to| format!("t{to}"));
        let labels = COLUMNS.iter().map(|(name, _)| (*name).to_owned());
        let indexed: Vec<String> = labels.chain(keys.clone()).collect();
        let keys: Vec<String> = keys
            .zip(table.references)
            .map(|(key, to)| format!("{key} INTEGER REFERENCES T{to}(id), "))
            .collect();
        let create = format!(
            "CREATE TABLE T{number} (id INTEGER PRIMARY KEY, {}dup10 TEXT, dup100 TEXT, ms1 TEXT, \
             ms10 TEXT, a1 TEXT, filler TEXT)",
            keys.concat()
        );
        let index = |column| format!("CREATE INDEX T{number}_{column} ON T{number}({column})");
        [create]
            .into_iter()
            .chain(indexed.into_iter().map(index))
            .collect()
    }

    /// Returns the `INSERT` statement of a row into that table.
    pub(super) fn insertion(table: &Table) -> String {
        let values = vec!["?"; 1 + table.references.len() + COLUMNS.len() + 2];
        format!(
            "INSERT INTO T{} VALUES ({})",
            table.number,
            values.join(", ")
        )
    }

    /// Returns the texts of a row.
    pub(super) fn texts(row: &[u8]) -> impl Iterator<Item = String> {
        let (labels, filler) = row.split_at((COLUMNS.len() + 1) * LABEL_BYTES);
        let texts = labels.chunks(LABEL_BYTES).chain([filler]);
        texts.map(|text| {
            String::from_utf8_lossy(text)
                .trim_end_matches('\0')
                .to_owned()
        })
    }

    fn label(&self, table: usize, column: &str, code: u64, row: u32) -> u32 {
        let place = self.permuted(table, code, row);
        match column {
            "dup10" => place / 10 + 1,
            "dup100" => place / 100 + 1,
            "ms1" => place % 100 + 1,
            _ => place % 10 + 1,
        }
    }

    /// Returns the number of distinct labels of a column.
    pub(super) fn labels(&self, table: usize, rows_each: u32) -> u32 {
        self.rows(table).div_ceil(rows_each)
    }

    /// Returns the label with exactly `count` labels of the column at or after it, in the order of
    /// texts.
    pub(super) fn label_from_end(&self, table: usize, rows_each: u32, count: usize) -> String {
        let labels = 1..=self.labels(table, rows_each);
        let mut labels: Vec<String> = labels.map(|label| format!("VAL_{label}")).collect();
        labels.sort_unstable();
        let at = labels.len().saturating_sub(count);
        labels.get(at).cloned().unwrap_or_default()
    }

    /// Returns the image of `row` under a keyed permutation of a table's rows.
    fn permuted(&self, table: usize, code: u64, row: u32) -> u32 {
        let rows = u64::from(self.rows(table));
        let bits = (64 - (rows - 1).leading_zeros()).next_multiple_of(2).max(2);
        let half = bits / 2;
        let mask = (1u64 << half) - 1;
        let column = 101u64.wrapping_mul(table as u64).wrapping_add(code);
        let key = mixed(mixed(
            self.seed.wrapping_mul(1_000_003).wrapping_add(column),
        ));
        let mut place = u64::from(row);
        loop {
            let (mut left, mut right) = (place >> half, place & mask);
            for round in 0..ROUNDS {
                let key = mixed(7_919u64.wrapping_mul(key).wrapping_add(round));
                (left, right) = (right, left ^ mixed(key ^ right) & mask);
            }
            place = left << half | right;
            if place < rows {
                return u32::try_from(place).unwrap_or(0);
            }
        }
    }
}

/// Returns the splitmix64 finaliser of `number`.
pub(super) fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_has_its_rows_and_every_row_its_place() {
        let data = Data::new(10_000, 1);
        let table = TABLES.iter().find(|table| table.number == 3).unwrap();
        let mut places: Vec<u32> = (0..data.rows(3))
            .map(|row| data.permuted(3, 10, row))
            .collect();
        places.sort_unstable();
        assert!(places.iter().copied().eq(0..data.rows(3)));
        let (mut row, mut tens) = (Vec::new(), 0);
        for number in 0..data.rows(3) {
            data.row(table, number, &mut row);
            assert_eq!(row.len(), ROW_BYTES - 8);
            tens += u32::from(row.starts_with(b"VAL_7\0"));
        }
        assert_eq!(tens, 10);
        assert_eq!(data.label_from_end(5, 10, 1), "VAL_9");
        // The number of keys is that of the indexes.
        let mut keys = Vec::new();
        for (table, indexes) in [(0, 29), (1, 9), (2, 4), (3, 14), (4, 4), (5, 4)] {
            let table = TABLES.iter().find(|found| found.number == table).unwrap();
            data.keys(table, 5, &mut keys);
            assert_eq!(keys.len(), indexes);
        }
    }
}
