//! Undoes a disguise from its records, row by row; whatever cannot be put back safely stays
//! disguised.

mod circle;
mod circle_insertion;
mod co_owned;
mod current_owner;
mod deletion;
mod insertion;
mod joint_values;
mod late_keys;
mod layers;
mod leaving;
mod meanwhile;
mod moved_key;
mod orphans;
mod others;
mod own_circles;
mod owners;
mod people;
mod placeholder_notes;
mod placeholders;
mod put_back;
mod report;
mod rewrite;
mod savepoint;
mod spilled_bags;
mod stored_rows;
mod unawaited;
mod undo;
mod unseen_keys;
mod write_back;

use std::collections::{BTreeMap, BTreeSet};

use self::co_owned::Copies;
use self::meanwhile::Placeholders;
use self::others::Others;
use self::people::People;
use self::placeholder_notes::PlaceholderNotes;
use self::report::Report;
pub use self::report::{Kept, KeptReason, Revealed};
use self::spilled_bags::Closed;
use self::unawaited::Waits;
use crate::crypto::suite::PublicKey;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::execute::update::Updates;
use crate::records::bag::Bag;
use crate::records::credential::Credential;
use crate::records::principal::{Reach, Reached};
use crate::records::section::{Change, Section};
use crate::schema::References;
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::row::encoded;

/// True if a row may come back in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Rows {
    /// Each column that is unchanged comes back.
    #[default]
    PerColumn,
    /// A row of which one column changed stays disguised whole.
    Whole,
}

/// A request of [`Engine::reveal`](crate::Engine::reveal).
pub struct RevealRequest<'a> {
    /// The person who asks. NULL stands for the holder of the private key; it is refused with a
    /// password or a token.
    pub user: Value,
    /// Their credential.
    pub credential: Credential<'a>,
    /// The disguise to reveal.
    pub id: DisguiseId,
    /// The policy for rows made meanwhile.
    pub references: References,
    /// True if rows may come back in part.
    pub rows: Rows,
    /// The time of the entry.
    pub time: probity_format::Timestamp,
}

/// The inputs of a reveal.
pub(crate) struct Inputs<'a> {
    pub(crate) database: &'a mut dyn TenantConnection,
    pub(crate) live: &'a ResolvedSchema,
    pub(crate) salt: &'a [u8],
    pub(crate) reach: &'a Reach,
    /// The person who asks, and their public key.
    pub(crate) person: (Vec<u8>, PublicKey),
    /// True if the key is the one registered under their id.
    pub(crate) is_registered: bool,
    pub(crate) updates: Updates<'a>,
    pub(crate) references: References,
    pub(crate) rows: Rows,
    /// The approximate bytes of removed rows and overwritten values held in memory.
    pub(crate) room: usize,
    /// The locators of records that have ended and that nothing holds.
    pub(crate) ended: BTreeSet<Vec<u8>>,
}

/// One reveal in progress: it opens the bags, takes their sections in turn, and stores the rest.
pub(crate) struct Revealer<'a> {
    database: &'a mut dyn TenantConnection,
    live: &'a ResolvedSchema,
    salt: &'a [u8],
    reach: &'a Reach,
    people: People<'a>,
    updates: Updates<'a>,
    references: References,
    rows: Rows,
    /// The approximate bytes of removed rows and overwritten values held in memory.
    room: usize,
    report: Report,
    /// The ids of records that were destroyed, because their rows are back or other records hold
    /// the rest.
    destroyed: Vec<Vec<u8>>,
    notes: PlaceholderNotes,
    /// Placeholders that go with this reveal, as far as known before the first of them goes.
    going: BTreeSet<Vec<u8>>,
    /// Older rows that records describe and that stay, by table and key, if a policy may delete
    /// rows.
    recorded: BTreeSet<Vec<u8>>,
    /// True if owners that newer placeholders hold count as done.
    settle: bool,
    /// The rows for which removed rows do not wait.
    waits: Waits,
    /// Whom the records name beside the returning person.
    others: Others,
    /// The changes still missing from rows that were put back in the current section.
    missing: Vec<Change>,
    /// The locators of records that have ended and that nothing holds.
    ended: BTreeSet<Vec<u8>>,
    /// The locators of records that cannot be read, with their disguises.
    unreadable: BTreeMap<Vec<u8>, DisguiseId>,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "what happened to the bag, each by itself"
)]
/// A bag being emptied.
struct Open<'a> {
    reached: &'a Reached,
    bag: Bag,
    /// The part of it to undo.
    due: Due,
    /// True if something was changed in a bag of which nothing is due.
    changed: bool,
    /// True if a placeholder of this bag could not go yet.
    waiting: bool,
    /// True if a section of it was held, and met updates again.
    was_held: bool,
}

impl<'a> Open<'a> {
    const fn new(reached: &'a Reached, bag: Bag, due: Due) -> Self {
        Self {
            reached,
            bag,
            due,
            changed: false,
            waiting: false,
            was_held: false,
        }
    }
}

/// The part of a bag to undo.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    /// The changes of its own disguise, now or left by an earlier reveal.
    Changes,
    /// The copies of rows that its principal had left before.
    Copies,
    /// Both.
    All,
    /// Nothing; it may hold newer values of the same cells.
    Nothing,
}

impl Due {
    fn holds(self, section: &Section) -> bool {
        match self {
            Self::Changes => !section.is_for_departed(),
            Self::Copies => section.is_for_departed(),
            Self::All => true,
            Self::Nothing => false,
        }
    }
}

/// Sections, each with the number of the open bag that it comes from.
type Sections = Vec<(usize, Section)>;

impl<'a> Revealer<'a> {
    pub(crate) fn new(inputs: Inputs<'a>) -> Self {
        let (live, reach) = (inputs.live, inputs.reach);
        Self {
            database: inputs.database,
            live,
            salt: inputs.salt,
            reach,
            people: People::new(live, reach, inputs.person, inputs.is_registered),
            updates: inputs.updates,
            references: inputs.references,
            rows: inputs.rows,
            room: inputs.room,
            report: Report::default(),
            destroyed: Vec::new(),
            notes: PlaceholderNotes::default(),
            going: BTreeSet::new(),
            recorded: BTreeSet::new(),
            settle: false,
            waits: Waits::default(),
            others: Others::default(),
            missing: Vec::new(),
            ended: inputs.ended,
            unreadable: BTreeMap::new(),
        }
    }

    /// Opens a bag, with its records in the form that later updates give them. One that cannot be
    /// read is noted, and stays.
    fn open(&mut self, reached: &'a Reached, due: Due) -> Result<Option<Open<'a>>, Error> {
        let Some(mut bag) = reached.read(self.database)? else {
            let row = reached.found.row.clone();
            self.unreadable.insert(row, reached.disguise());
            return Ok(None);
        };
        let known = reached.found.locator.origin.updates;
        let was_held = bag.sections.iter().any(|it| it.held.is_some());
        self.updates.apply(self.database, &mut bag, known)?;
        let open = Open::new(reached, bag, due);
        Ok(Some(Open { was_held, ..open }))
    }

    /// Reveals `id`, and tries again what earlier reveals left. Does nothing if the disguise hides
    /// nothing. Returns the report, and the ids of the records that were destroyed.
    pub(crate) fn run(mut self, id: DisguiseId) -> Result<(Revealed, Vec<Vec<u8>>), Error> {
        self.reveal(id)?;
        for disguise in self.unreadable.values() {
            self.report.keep_record(*disguise);
        }
        Ok((self.report.revealed, self.destroyed))
    }

    fn reveal(&mut self, id: DisguiseId) -> Result<(), Error> {
        // Damaged links may lead to records with changes.
        let meant =
            |it: &Reached| it.disguise() == id && (it.found.locator.changes || it.is_damaged);
        if !self.reach.bags.iter().any(meant) {
            return Ok(());
        }
        self.report.revealed.found = true;
        self.live.defer_foreign_keys(self.database)?;
        let reach = self.reach;
        let pending = |it: &Reached| it.found.locator.changes && it.found.locator.pending;
        let ended = self.ended.clone();
        let is_over = |it: &Reached| ended.contains(&it.found.row);
        let due: BTreeSet<u64> = reach
            .bags
            .iter()
            .filter(|it| meant(it) || (pending(it) && !is_over(it)))
            .map(|it| it.found.locator.origin.disguise)
            .collect();
        // A chunk with nothing left to undo still has placeholders, which others of the disguise
        // may need.
        let counts = |it: &Reached| it.found.locator.changes || it.found.locator.speaks_for;
        let changes = reach.bags.iter().filter(|it| counts(it) && !is_over(it));
        let mut opened = Vec::new();
        let per_column = self.rows == Rows::PerColumn;
        let updates = crate::execute::update::count(self.updates.recorded);
        let mut closed = Closed::new(self.live, self.room, per_column, updates);
        for reached in changes.filter(|it| due.contains(&it.found.locator.origin.disguise)) {
            if let Some(mut open) = self.open(reached, Due::Changes)? {
                closed.take_rows(&mut open, opened.len());
                opened.push(open);
            }
        }
        Copies { work: self }.open(&mut opened)?;
        self.open_values(&mut opened, closed.has_values())?;
        closed.reopen_layers(self.database, &mut opened)?;
        self.undo(&mut opened, closed)?;
        Copies { work: self }.return_departed()?;
        let undone = |it: &&mut Open<'_>| matches!(it.due, Due::Changes | Due::All);
        for open in opened.iter_mut().filter(undone) {
            self.principals(&mut open.bag)?;
        }
        let away = Placeholders { work: self }.away(&opened)?;
        if (Placeholders { work: self }).may_delete() && self.note_recorded(&opened)? {
            for open in opened.iter_mut().filter(undone) {
                let (going, _) = Placeholders { work: self }.leaving(&mut open.bag, &away)?;
                self.going
                    .extend(going.iter().map(|(id, _)| id.principal()));
            }
        }
        for open in opened.iter_mut().filter(undone) {
            open.waiting = Placeholders { work: self }.clear_placeholders(&mut open.bag, &away)?;
        }
        self.put_away(opened)
    }
}

/// Returns why no row of the section can go back: an update cannot tell what it became, a table or
/// column is gone, it has no transactions, or the key changed, or the family of a column's type.
fn unfit(table: Option<&ResolvedTable>, section: &Section) -> Option<KeptReason> {
    if section.held.is_some() {
        return Some(KeptReason::Undecided);
    }
    let Some(table) = table else {
        return Some(KeptReason::SchemaChanged);
    };
    let has = |column: &String| table.catalog.column(column).is_some();
    let (there, known) = match &section.change {
        Change::Removed { columns, .. } | Change::Copied { columns, .. } => {
            (columns.iter().all(has), !table.identity.is_empty())
        }
        Change::Modified {
            identity, column, ..
        }
        | Change::Decorrelated {
            identity, column, ..
        } => (has(column), *identity == table.identity),
    };
    match (there, known) {
        _ if !table.catalog.is_transactional => Some(KeptReason::WithoutTransactions),
        (false, _) => Some(KeptReason::SchemaChanged),
        (true, false) => Some(KeptReason::KeyChanged),
        (true, true) => section
            .waits_by(table)
            .map(|_column| KeptReason::KindChanged),
    }
}

/// Returns whether the table still has the columns of the section, as they were.
fn fits(table: &ResolvedTable, section: &Section) -> bool {
    unfit(Some(table), section).is_none()
}

fn row_name(table: &ResolvedTable, identity: &[Value]) -> Vec<u8> {
    named_row(&table.name, identity)
}

fn named_row(table: &str, identity: &[Value]) -> Vec<u8> {
    let mut name = vec![Value::from(table)];
    name.extend_from_slice(identity);
    encoded(&name)
}
