//! Page counts of the four indexes of the paper's figure 8, for eleven numbers of distinct values.
//! Counted are the reads of a lookup and of an insertion in a log of keys.
//!
//! This is a model, not the engine. It has KEY pages of 84 rows and pages of 12 Bloom filters.
//! Pointers have 12 bits with a bound of one filter page, or 8 bytes without a bound.

use probity_pocketdb::Operations;
use probity_pocketdb::flash::FlashCounters;

use super::Figure;
use super::data::mixed;

/// Number of rows of the paper's second data set.
const ROWS: u32 = 300_000;
/// Numbers of distinct values of its attributes.
const DISTINCT: [u32; 11] = [
    3, 15, 30, 150, 300, 1_000, 1_500, 3_000, 30_000, 150_000, 300_000,
];
/// Number of rows per KEY page.
const KEY_ROWS: u32 = 84;
/// Number of filters per page.
const FILTERS: u32 = 12;
/// Number of rows that one page of filters covers.
const FILTER_ROWS: u32 = KEY_ROWS * FILTERS;
/// Number of filter pages that an insertion with a bound searches.
const BOUND: u32 = 1;
/// Numbers of pointers per page, for 8 bytes and for 12 bits.
const WIDE_POINTERS: u32 = 254;
const NARROW_POINTERS: u32 = 762;
/// False positives per million of a filter with 16 bits per row and 4 hashes.
const FALSE_POSITIVES: u64 = 2_394;
const MILLION: u64 = 1_000_000;
/// Number of keys looked up per attribute.
const PROBES: u32 = 8;

/// The search for a row's predecessor: with or without a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chain {
    Unbounded,
    Bounded,
}

/// An attribute of the rows, with its number of distinct values.
#[derive(Debug, Clone, Copy)]
struct Attribute {
    distinct: u32,
}

impl Attribute {
    fn value(self, row: u32) -> u32 {
        let random = mixed(u64::from(self.distinct) << 32 | u64::from(row));
        u32::try_from(random % u64::from(self.distinct)).unwrap_or(0)
    }

    /// Returns whether the filter of KEY page `page` has a false positive for `value`.
    fn is_false(self, value: u32, page: u32) -> bool {
        let random =
            mixed(u64::from(value) << 32 | u64::from(page) ^ u64::from(self.distinct) << 20);
        random % MILLION < FALSE_POSITIVES
    }

    fn rows_of(self, value: u32) -> Vec<u32> {
        (0..ROWS).filter(|&row| self.value(row) == value).collect()
    }

    /// Reads filters from filter page `from` down to the newest row with `value`, among `rows`.
    /// Returns the number of pages read, and that row.
    fn search(self, value: u32, rows: &[u32], from: Option<u32>) -> (u64, Option<u32>) {
        let Some(from) = from else {
            return (0, None);
        };
        let below = (from + 1).saturating_mul(FILTER_ROWS);
        let found = rows.iter().rev().copied().find(|&row| row < below);
        let last = found.map_or(0, |row| row / KEY_ROWS);
        let newest = (below.min(ROWS) - 1) / KEY_ROWS;
        let wrong = (last..=newest).filter(|&page| self.is_false(value, page));
        let filters = u64::from(from - last / FILTERS) + 1;
        let reads = filters + wrong.count() as u64 + u64::from(found.is_some());
        (reads, found)
    }

    /// Returns the number of pages that a lookup along pointers reads.
    fn chained(self, value: u32, rows: &[u32], chain: Chain) -> u64 {
        let per_page = match chain {
            Chain::Unbounded => WIDE_POINTERS,
            Chain::Bounded => NARROW_POINTERS,
        };
        let (mut reads, mut row) = self.search(value, rows, Some((ROWS - 1) / FILTER_ROWS));
        let mut page = None;
        while let Some(at) = row {
            if page != Some(at / per_page) {
                page = Some(at / per_page);
                reads += 1;
            }
            let older = rows.partition_point(|&other| other < at);
            let before = older
                .checked_sub(1)
                .and_then(|place| rows.get(place).copied());
            let linked =
                before.filter(|&before| chain == Chain::Unbounded || is_linked(at, before));
            row = if linked.is_some() || chain == Chain::Unbounded {
                linked
            } else {
                let resume = (at / FILTER_ROWS).checked_sub(BOUND + 1);
                let (more, found) = self.search(value, rows, resume);
                reads += more;
                found
            };
        }
        reads
    }

    /// Returns the number of pages that all insertions together read to find the preceding row.
    fn inserted(self, chain: Chain) -> u64 {
        let mut last = vec![None; self.distinct as usize];
        let mut reads = 0;
        for row in 0..ROWS {
            let value = self.value(row);
            let Some(place) = last.get_mut(value as usize) else {
                continue;
            };
            reads += self.linking(row, value, *place, chain);
            *place = Some(row);
        }
        reads
    }

    /// Returns the number of pages that one insertion reads; buffered rows and filters cost
    /// nothing.
    fn linking(self, row: u32, value: u32, before: Option<u32>, chain: Chain) -> u64 {
        let page = row / KEY_ROWS;
        if before.is_some_and(|before| before / KEY_ROWS == page) {
            return 0;
        }
        let complete = row / FILTER_ROWS;
        if before.is_some_and(|before| before / FILTER_ROWS == complete) {
            return 1;
        }
        let lowest = match chain {
            Chain::Unbounded => 0,
            Chain::Bounded => complete.saturating_sub(BOUND),
        };
        let found = before.filter(|before| before / FILTER_ROWS >= lowest);
        let reached = found.map_or(lowest, |before| before / FILTER_ROWS);
        let pages = reached * FILTERS..complete * FILTERS;
        let wrong = pages.filter(|&page| self.is_false(value, page)).count() as u64;
        u64::from(complete - reached) + wrong + u64::from(found.is_some())
    }
}

/// Returns whether an insertion of `row` with a bound found `before`.
fn is_linked(row: u32, before: u32) -> bool {
    before / FILTER_ROWS + BOUND >= row / FILTER_ROWS
}

/// Returns the mean number of reads of a lookup: full scan, Bloom scan, Bloom skip, bounded skip.
fn lookups(attribute: Attribute) -> [u64; 4] {
    let mut sums = [0; 4];
    let pages = u64::from(ROWS.div_ceil(KEY_ROWS));
    for probe in 0..PROBES {
        let value = attribute.value(ROWS / PROBES * probe);
        let rows = attribute.rows_of(value);
        let mut holding: Vec<u32> = rows.iter().map(|row| row / KEY_ROWS).collect();
        holding.dedup();
        let wrong = (0..ROWS.div_ceil(KEY_ROWS)).filter(|&page| {
            attribute.is_false(value, page) && holding.binary_search(&page).is_err()
        });
        let scan =
            u64::from(ROWS.div_ceil(FILTER_ROWS)) + holding.len() as u64 + wrong.count() as u64;
        let found = [
            pages,
            scan,
            attribute.chained(value, &rows, Chain::Unbounded),
            attribute.chained(value, &rows, Chain::Bounded),
        ];
        for (sum, reads) in sums.iter_mut().zip(found) {
            *sum += reads;
        }
    }
    sums.map(|sum| sum / u64::from(PROBES))
}

/// Returns the figures of every lookup and insertion of figure 8.
pub(super) fn figures() -> Vec<Figure> {
    let mut figures = Vec::new();
    for distinct in DISTINCT {
        let attribute = Attribute { distinct };
        let names = [
            "full index scan",
            "Bloom scan",
            "Bloom skip",
            "Bloom bounded skip",
        ];
        for (name, reads) in names.into_iter().zip(lookups(attribute)) {
            figures.push(figure("index lookup", name, distinct, 1, reads));
        }
        for (name, chain) in [
            ("Bloom skip", Chain::Unbounded),
            ("Bloom bounded skip", Chain::Bounded),
        ] {
            let reads = attribute.inserted(chain);
            figures.push(figure(
                "index insertion",
                name,
                distinct,
                u64::from(ROWS),
                reads,
            ));
        }
    }
    figures
}

fn figure(kind: &'static str, name: &str, distinct: u32, rows: u64, reads: u64) -> Figure {
    Figure {
        kind,
        name: format!("{name}, {distinct} values"),
        rows,
        operations: Operations {
            flash: FlashCounters {
                page_reads: reads,
                sector_reads: reads
                    * (probity_pocketdb::flash::PAGE_BYTES / probity_pocketdb::flash::SECTOR_BYTES)
                        as u64,
                ..FlashCounters::default()
            },
            ..Operations::default()
        },
        seconds: 0.0,
        memory: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_have_the_shapes_of_the_figure() {
        // Full scan, Bloom scan, skip and bounded skip, from an independent model.
        let expected = [
            (3, [3_572, 3_870, 1_184, 396]),
            (300, [3_572, 1_177, 677, 408]),
            (3_000, [3_572, 405, 100, 322]),
        ];
        for (distinct, reads) in expected {
            let found = lookups(Attribute { distinct });
            for (found, expected) in found.into_iter().zip(reads) {
                let tolerance = expected / 5 + 10;
                assert!(
                    found.abs_diff(expected) <= tolerance,
                    "{distinct}: {found}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn a_bound_keeps_insertions_cheap_at_every_selectivity() {
        for distinct in [3, 300, 1_000, 300_000] {
            let reads = Attribute { distinct }.inserted(Chain::Bounded);
            assert!(reads * 10 <= u64::from(ROWS) * 14, "{distinct}: {reads}");
        }
        let rare = Attribute { distinct: 30_000 }.inserted(Chain::Unbounded);
        assert!(rare > 10 * u64::from(ROWS), "{rare}");
    }
}
