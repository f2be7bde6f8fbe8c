//! Undoes a disguise from its records, row by row, keeping disguised whatever can no longer be put back safely.

mod circle;
mod co_owned;
mod current_owner;
mod deletion;
mod joint_values;
mod layers;
mod meanwhile;
mod moved_key;
mod placeholders;
mod put_back;
mod rewrite;
mod spilled_bags;
mod undo;

use std::collections::{BTreeMap, BTreeSet};

use self::spilled_bags::Closed;
use crate::crypto::suite::PublicKey;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::execute::update::Updates;
use crate::records::bag::Bag;
use crate::records::credential::Credential;
use crate::records::principal::{Reach, Reached};
use crate::records::registry;
use crate::records::section::{Change, Section};
use crate::schema::References;
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::row::encoded;
use crate::statements::table::found;

/// Whether a row may come back in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Rows {
    /// Each column that is unchanged comes back.
    #[default]
    PerColumn,
    /// A row of which one column changed stays disguised whole.
    Whole,
}

/// What is asked of [`Engine::reveal`](crate::Engine::reveal).
pub struct RevealRequest<'a> {
    /// Who asks. NULL stands for whoever has the private key; with a password or a token it is refused.
    pub user: Value,
    /// What they prove it with.
    pub credential: Credential<'a>,
    /// Which disguise.
    pub id: DisguiseId,
    /// What happens to rows made meanwhile.
    pub references: References,
    /// Whether rows may come back in part.
    pub rows: Rows,
    /// The time of the entry.
    pub time: probity_format::Timestamp,
}

/// Why a row stayed disguised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KeptReason {
    /// A row with its identity exists again.
    RowExists,
    /// A unique key or another constraint refuses it.
    Refused,
    /// The row to change is not there; another disguise may have removed it.
    Absent,
    /// The application changed the value meanwhile, and wins.
    Changed,
    /// The row names nobody there now: the application emptied it, or somebody brought the row back without whom it named.
    Emptied,
    /// Another column of the row was changed, and whole rows were asked for.
    PartOfRow,
    /// A row that it refers to is not there.
    ParentMissing,
    /// Its owner is not there.
    OwnerMissing,
    /// Its owner's id belongs to somebody else now.
    OwnerReplaced,
    /// None of the people whom it names is the one who returns, or a placeholder of theirs.
    OtherOwner,
    /// The row is another tenant's now, or would become one's.
    OtherTenant,
    /// The table or a column is no longer there.
    SchemaChanged,
    /// The table has no identifying columns any more, or others than those of the record.
    KeyChanged,
    /// Other rows refer to what was to go, or be changed, with the placeholder.
    ReferredTo,
}

impl KeptReason {
    /// One clause for a person.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RowExists => "a row with its key exists again",
            Self::Refused => "a constraint of the database refuses it",
            Self::Absent => "the row is not there",
            Self::Changed => "the application changed it meanwhile",
            Self::Emptied => "the row names nobody there now",
            Self::PartOfRow => "another column of the row was changed meanwhile",
            Self::ParentMissing => "a row that it refers to is not there",
            Self::OwnerMissing => "its owner is not there",
            Self::OwnerReplaced => "its owner's id belongs to somebody else now",
            Self::OtherOwner => "it is somebody else's row",
            Self::OtherTenant => "the row is another tenant's now",
            Self::SchemaChanged => "its table or column is no longer there",
            Self::KeyChanged => {
                "its table has no identifying columns, or others than it had: give it a primary key, or record an update"
            }
            Self::ReferredTo => "other rows refer to it",
        }
    }
}

/// A row, a value or a placeholder that stayed; a later reveal tries it again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// Its table.
    pub table: String,
    /// Its identifying values.
    pub identity: String,
    /// The column, when it is about one.
    pub column: Option<String>,
    /// Why.
    pub reason: KeptReason,
    /// What the database says, without values, where it refuses it, or what refers to it.
    pub said: Option<String>,
}

/// What a reveal did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Revealed {
    /// Whether the disguise hid anything of the person that was still hidden: when it was revealed before, or found nothing of
    /// theirs, there is nothing to do.
    pub found: bool,
    /// Removed rows put back in each table.
    pub restored: BTreeMap<String, u64>,
    /// Overwritten values put back in each table, owners among them.
    pub values: BTreeMap<String, u64>,
    /// Rows made while placeholders owned them that were deleted from each table, as the policy says.
    pub deleted: BTreeMap<String, u64>,
    /// What stayed disguised.
    pub kept: Vec<Kept>,
}

impl Revealed {
    /// Whether everything came back.
    pub const fn is_complete(&self) -> bool {
        self.kept.is_empty()
    }
}

/// One reveal in progress.
pub(crate) struct Revealer<'a> {
    pub(crate) database: &'a mut dyn TenantConnection,
    pub(crate) live: &'a ResolvedSchema,
    pub(crate) salt: &'a [u8],
    pub(crate) reach: &'a Reach,
    /// Who asks, and their public key.
    pub(crate) person: (Vec<u8>, PublicKey),
    /// Whether that key is the one which is registered under their id.
    pub(crate) is_registered: bool,
    pub(crate) updates: Updates<'a>,
    pub(crate) references: References,
    pub(crate) rows: Rows,
    /// About how many bytes of removed rows and overwritten values are held in memory.
    pub(crate) room: usize,
    pub(crate) revealed: Revealed,
    /// The ids of records that went, because what they hid is back or because others hold what is left.
    pub(crate) destroyed: Vec<Vec<u8>>,
    /// Placeholders that kept records still need.
    pub(crate) needed: BTreeSet<Vec<u8>>,
    /// Those among them that rows name which somebody else may have taken away.
    pub(crate) taken: BTreeSet<Vec<u8>>,
    /// Placeholders that go with this reveal, as far as is known before the first of them does.
    pub(crate) going: BTreeSet<Vec<u8>>,
    /// Those of which a record has lost its row, which may be one of the rows that name them now.
    pub(crate) doubtful: BTreeSet<Vec<u8>>,
    /// Rows from before that records speak of which stay, by table and key, where a policy may delete rows.
    pub(crate) recorded: BTreeSet<Vec<u8>>,
    /// Whether owners that newer placeholders hold count as done.
    pub(crate) settle: bool,
    /// Placeholders that went in this reveal.
    pub(crate) cleared: BTreeSet<Vec<u8>>,
    /// Placeholders behind which those who left shared rows came back.
    pub(crate) returned: BTreeSet<Vec<u8>>,
    /// What the database said of rows and values that it refused, by row and column.
    pub(crate) refusals: BTreeMap<Vec<u8>, String>,
    /// What is still missing of rows that went back in the section at hand.
    pub(crate) missing: Vec<Change>,
    /// Accounts found to be those of the principals that the credential reaches, or put back in this reveal.
    pub(crate) rightful: BTreeSet<Vec<u8>>,
    /// Accounts that have the id of such a principal and are somebody else's.
    pub(crate) replaced: BTreeSet<Vec<u8>>,
    /// Ids in the spelling of the users table, by the names that rows have for them.
    pub(crate) spellings: BTreeMap<Vec<u8>, Value>,
    /// The locators of records whose end is over and that nothing holds.
    pub(crate) ended: BTreeSet<Vec<u8>>,
}

/// A bag being emptied.
struct Open<'a> {
    reached: &'a Reached,
    bag: Bag,
    /// Why it is open.
    due: Due,
    /// Something was changed in a bag of which nothing is due.
    changed: bool,
    /// A placeholder of this bag could not go yet.
    waiting: bool,
}

impl<'a> Open<'a> {
    const fn new(reached: &'a Reached, bag: Bag, due: Due) -> Self {
        Self {
            reached,
            bag,
            due,
            changed: false,
            waiting: false,
        }
    }
}

/// What of a bag is to be undone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    /// What its own disguise did, now or since an earlier reveal.
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
    /// Opens a bag, with its records as the updates since make them.
    fn open(&mut self, reached: &'a Reached, due: Due) -> Result<Open<'a>, Error> {
        let mut bag = reached.read(self.database)?;
        let known = reached.found.locator.origin.updates;
        self.updates.apply(self.database, &mut bag, known)?;
        Ok(Open::new(reached, bag, due))
    }

    /// Reveals `id`, and tries again what earlier reveals left. Where it hides nothing any more, or never did, nothing is done.
    pub(crate) fn run(&mut self, id: DisguiseId) -> Result<(), Error> {
        let meant =
            |it: &Reached| it.found.locator.changes && it.found.locator.origin.disguise == id.0;
        if !self.reach.bags.iter().any(meant) {
            return Ok(());
        }
        self.revealed.found = true;
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
        // A chunk that has nothing left to undo has placeholders still, which others of the disguise may need.
        let counts = |it: &Reached| it.found.locator.changes || it.found.locator.speaks_for;
        let changes = reach.bags.iter().filter(|it| counts(it) && !is_over(it));
        let mut opened = Vec::new();
        let per_column = self.rows == Rows::PerColumn;
        let updates = crate::execute::update::count(self.updates.recorded);
        let mut closed = Closed::new(self.room, per_column, updates);
        for reached in changes.filter(|it| due.contains(&it.found.locator.origin.disguise)) {
            let mut open = self.open(reached, Due::Changes)?;
            closed.take_rows(&mut open, opened.len());
            opened.push(open);
        }
        self.open_copies(&mut opened)?;
        self.open_values(&mut opened, closed.has_values())?;
        closed.reopen_layers(self.database, &mut opened)?;
        self.undo(&mut opened, closed)?;
        self.return_departed()?;
        let undone = |it: &&mut Open<'_>| matches!(it.due, Due::Changes | Due::All);
        for open in opened.iter_mut().filter(undone) {
            self.principals(&mut open.bag)?;
        }
        let away = self.away(&opened)?;
        if self.may_delete() {
            self.note_recorded(&opened)?;
            for open in opened.iter_mut().filter(undone) {
                let (going, _) = self.leaving(&mut open.bag, &away)?;
                self.going
                    .extend(going.iter().map(|(id, _)| id.principal()));
            }
        }
        for open in opened.iter_mut().filter(undone) {
            open.waiting = self.clear_placeholders(&mut open.bag, &away)?;
        }
        self.put_away(opened)
    }

    fn keep(&mut self, table: &str, identity: &[Value], column: Option<&str>, reason: KeptReason) {
        let said = match reason {
            KeptReason::Refused | KeptReason::ReferredTo => {
                self.refusals.get(&cell_name(table, identity, column))
            }
            _ => None,
        };
        self.revealed.kept.push(Kept {
            table: table.to_owned(),
            said: said.cloned(),
            identity: shown(identity),
            column: column.map(str::to_owned),
            reason,
        });
    }

    /// Remembers why the database has just refused a row or a value.
    fn note_refusal(&mut self, table: &str, identity: &[Value], column: Option<&str>) {
        if let Some(said) = self.database.refusal() {
            let name = cell_name(table, identity, column);
            self.refusals.insert(name, said.to_owned());
        }
    }

    fn count(&mut self, table: &str, rows: usize) {
        add(&mut self.revealed.restored, table, rows);
    }

    fn count_values(&mut self, table: &str, values: usize) {
        add(&mut self.revealed.values, table, values);
    }

    /// Which of these users there are. An account with the id of a principal of this person does not count when it is
    /// somebody else's: whoever came to the id while its owner was away must not get what was the owner's.
    fn users(&mut self, ids: &[Value]) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut seen = BTreeSet::new();
        let ids: Vec<Value> = ids
            .iter()
            .filter(|id| seen.insert(id.principal()))
            .cloned()
            .collect();
        // What went with a placeholder by the database's own rules is the database's to say.
        let is_sure = self.cleared.is_empty();
        let (sure, ids): (Vec<Value>, Vec<Value>) = ids
            .into_iter()
            .partition(|id| is_sure && self.rightful.contains(&id.principal()));
        let pseudo = &self.live.pseudo;
        let found = found(self.database, &pseudo.table, &pseudo.id, &ids)?;
        let mut there: BTreeSet<Vec<u8>> = sure.iter().map(Value::principal).collect();
        for (name, held) in found {
            if self.key_of(&name).is_none() && held.principal() != name {
                self.spellings.insert(name.clone(), held);
            }
            there.insert(name);
        }
        let meant: BTreeSet<Vec<u8>> = there.iter().map(|name| self.meant(name)).collect();
        let (person, _) = &self.person;
        if self.is_registered && meant.contains(person) {
            self.rightful.insert(person.clone());
        }
        let in_doubt = meant.into_iter();
        let in_doubt: Vec<Vec<u8>> = in_doubt
            .filter(|name| self.key_of(name).is_some() && !self.rightful.contains(name))
            .collect();
        if in_doubt.is_empty() {
            return Ok(there);
        }
        let registered = registry::principals(self.database, &in_doubt)?;
        let mut others = BTreeSet::new();
        for name in in_doubt {
            let public = registered.get(&name).map(|(public, _)| public.clone());
            if public.is_some() && public == self.key_of(&name) {
                self.rightful.insert(name);
            } else {
                self.replaced.insert(name.clone());
                others.insert(name);
            }
        }
        there.retain(|name| !others.contains(&self.meant(name)));
        Ok(there)
    }

    /// The name of whoever a row names so.
    pub(super) fn meant(&self, name: &[u8]) -> Vec<u8> {
        let spelled = self.spellings.get(name);
        spelled.map_or_else(|| name.to_vec(), Value::principal)
    }

    /// Whether `id`, which the records have for the person who returns or a placeholder of theirs, does not mean one of these: it is
    /// spelled as somebody is who came to it since.
    pub(super) fn means_another(&self, id: &Value) -> bool {
        id.has_spellings() && self.key_of(&self.meant(&id.principal())).is_none()
    }

    /// The public key that the person or one of their placeholders must have.
    fn key_of(&self, name: &[u8]) -> Option<PublicKey> {
        let (person, public) = &self.person;
        if name == person {
            return Some(public.clone());
        }
        self.reach.publics.get(name).cloned()
    }

    /// Why a row cannot go back to `owner`.
    pub(super) fn ownerless(&self, owner: &Value) -> KeptReason {
        let replaced = |id: &Value| self.replaced.contains(&self.meant(&id.principal()));
        if replaced(owner) || self.reach.behind(owner).any(replaced) {
            KeptReason::OwnerReplaced
        } else {
            KeptReason::OwnerMissing
        }
    }

    /// Check C4 for many owners: each itself, or the nearest principal behind it when placeholders on the way are
    /// gone for good. A placeholder that another disguise took away is waited for, so that nobody behind it shows.
    fn nearest(&mut self, owners: &[Value]) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
        let mut wanted = owners.to_vec();
        for owner in owners {
            wanted.extend(self.reach.behind(owner).cloned());
        }
        let there = self.users(&wanted)?;
        let mut nearest = BTreeMap::new();
        for owner in owners {
            let chain = std::iter::once(owner).chain(self.reach.behind(owner));
            for candidate in chain {
                if there.contains(&candidate.principal()) {
                    nearest.insert(owner.principal(), candidate.clone());
                    break;
                }
                if !self.is_gone(candidate) {
                    break;
                }
            }
        }
        Ok(nearest)
    }
}

/// Why no row of the change can go back: the table lacks what it speaks of.
fn unfit(table: Option<&ResolvedTable>, change: &Change) -> Option<KeptReason> {
    let Some(table) = table else {
        return Some(KeptReason::SchemaChanged);
    };
    let has = |column: &String| table.catalog.column(column).is_some();
    let (there, known) = match change {
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
        (false, _) => Some(KeptReason::SchemaChanged),
        (true, false) => Some(KeptReason::KeyChanged),
        (true, true) => None,
    }
}

/// Whether the table still has what the change speaks of.
fn fits(table: &ResolvedTable, change: &Change) -> bool {
    unfit(Some(table), change).is_none()
}

fn row_name(table: &ResolvedTable, identity: &[Value]) -> Vec<u8> {
    named_row(&table.name, identity)
}

fn named_row(table: &str, identity: &[Value]) -> Vec<u8> {
    let mut name = vec![Value::from(table)];
    name.extend_from_slice(identity);
    encoded(&name)
}

fn cell_name(table: &str, identity: &[Value], column: Option<&str>) -> Vec<u8> {
    let mut name = vec![Value::from(table), column.map_or(Value::Null, Value::from)];
    name.extend_from_slice(identity);
    encoded(&name)
}

fn shown(identity: &[Value]) -> String {
    let values: Vec<String> = identity.iter().map(ToString::to_string).collect();
    values.join(", ")
}

fn add(counts: &mut BTreeMap<String, u64>, table: &str, more: usize) {
    if more > 0 {
        let count = counts.entry(table.to_owned()).or_default();
        *count = count.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
    }
}
