//! Reads the catalogs of `PostgreSQL`: the tables of the current schemas and the tables that refer
//! to them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Postgres;
use crate::database::{
    Catalog, Column, Database as _, DatabaseError, ForeignKey, LateElsewhere, Matching, OnDelete,
    OnUpdate, Property, Referrer, Structure, note_constraints, note_primary_keys, note_triggers,
    note_unique_keys,
};

/// The name of a row's place.
const ROW_PLACE: &str = "ctid";

/// The schemas of the search path, the current one first: their tables are named without a schema.
macro_rules! schemas {
    () => {
        "(SELECT oid FROM pg_namespace WHERE nspname = ANY (current_schemas(false)))"
    };
}

/// Builds the condition that the name of a table alone refers to it, in one of the schemas.
macro_rules! named {
    ($table:literal) => {
        concat!(
            $table,
            ".relnamespace IN ",
            schemas!(),
            " AND pg_table_is_visible(",
            $table,
            ".oid)"
        )
    };
}

/// Builds the expression for the table that the rows of a table are shown under: of a partition the
/// highest one above it that is named, which may be the partition itself; where none is, its root.
macro_rules! whole {
    ($table:literal) => {
        concat!(
            "coalesce((SELECT w.oid FROM pg_partition_ancestors(",
            $table,
            ") WITH ORDINALITY p(oid, n) JOIN pg_class w ON w.oid = p.oid WHERE ",
            named!("w"),
            " ORDER BY p.n DESC LIMIT 1), pg_partition_root(",
            $table,
            "), ",
            $table,
            ")"
        )
    };
}

/// Builds the condition that a foreign key `k` is not the server's copy of another one of the same
/// table. A partition whose root is not named has a copy of the root's key, which is its own key. For
/// the partitions of its target a key has copies that lead to some of the rows.
macro_rules! is_own_key {
    () => {
        concat!(
            "(k.conparentid = 0 OR (EXISTS (SELECT FROM pg_constraint q WHERE q.oid = k.conparentid AND ",
            whole!("q.conrelid"),
            " <> ",
            whole!("k.conrelid"),
            ") AND k.confrelid = (WITH RECURSIVE u(parent, target) AS
                (SELECT k.conparentid, k.confrelid
                 UNION ALL SELECT q.conparentid, q.confrelid FROM u JOIN pg_constraint q ON q.oid = u.parent)
              SELECT target FROM u WHERE parent = 0)))"
        )
    };
}

/// Builds the subquery for what is under a domain `y`, which may be a domain over others.
macro_rules! under_domain {
    ($what:literal) => {
        concat!(
            "(WITH RECURSIVE d(base, modifier) AS
                (SELECT y.typbasetype, y.typtypmod
                 UNION ALL SELECT o.typbasetype, o.typtypmod FROM d JOIN pg_type o ON o.oid = d.base AND o.typtype = 'd')
              SELECT ",
            $what,
            " FROM d JOIN pg_type o ON o.oid = d.base AND o.typtype <> 'd')"
        )
    };
}

/// Columns of tables. A partition is part of the table above it that is named, if there is one.
const COLUMNS: &str = concat!("
    SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod)::text,
           (a.attnotnull OR y.typnotnull)::text,
           (a.atthasdef OR a.attidentity <> '' OR y.typdefault IS NOT NULL)::text, (a.attidentity = 'a')::text,
           CASE WHEN c.relkind = 'p' THEN 'parts'
                WHEN c.relhassubclass AND EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid) THEN 'heirs'
                ELSE '' END,
           row_security_active(c.oid)::text,
           CASE WHEN y.typtype = 'd' THEN ", under_domain!("format_type(d.base, d.modifier)::text"), " END,
           (SELECT (quote_ident(n.nspname) || '.' || quote_ident(l.collname))::text
              FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace WHERE l.oid = a.attcollation),
           (CASE WHEN y.typtype = 'd' THEN ", under_domain!("o.typtype"), " ELSE y.typtype END = 'c')::text
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type y ON y.oid = a.atttypid
     WHERE c.relkind IN ('r', 'p') AND ", named!("c"), "
       AND NOT (c.relispartition AND ", whole!("c.oid"), " <> c.oid)
       AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
     ORDER BY c.relname, a.attnum");

/// The values of the enumerations that columns are of.
const MEMBERS: &str = concat!(
    "
    SELECT c.relname::text, a.attname::text, e.enumlabel::text
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
      JOIN pg_type y ON y.oid = a.atttypid
      JOIN pg_enum e ON e.enumtypid = CASE y.typtype WHEN 'd' THEN ",
    under_domain!("d.base"),
    " ELSE y.oid END
     WHERE c.relkind IN ('r', 'p') AND ",
    named!("c"),
    "
     ORDER BY c.relname, a.attnum, e.enumsortorder"
);

/// Unique keys, conditions of tables and of the domains of their columns, and foreign keys. In a
/// domain, VALUE is the column.
const CONSTRAINTS: &str = concat!("
    SELECT c.relname::text, i.relname::text, a.attname::text, 'u', '', 1, i.oid, k.n
      FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
      JOIN unnest(x.indkey::int2[]) WITH ORDINALITY k(attnum, n) ON k.n <= x.indnkeyatts
      LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
     WHERE x.indisunique AND ", named!("c"), "
    UNION ALL
    SELECT c.relname::text, k.conname::text, a.attname::text,
           CASE k.contype WHEN 'x' THEN 'u' ELSE k.contype::text END,
           coalesce(pg_get_expr(k.conbin, k.conrelid), ''), 2, k.oid, u.n
      FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
      LEFT JOIN unnest(k.conkey) WITH ORDINALITY u(attnum, n) ON true
      LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.attnum
     WHERE k.contype IN ('c', 'f', 'x') AND ", named!("c"), "
    UNION ALL
    SELECT c.relname::text, k.conname::text, a.attname::text, 'c',
           regexp_replace(pg_get_expr(k.conbin, 0), '\\mVALUE\\M', quote_ident(a.attname), 'g'), 3, k.oid, a.attnum
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      JOIN pg_constraint k ON k.contypid = a.atttypid AND k.contype = 'c'
     WHERE c.relkind IN ('r', 'p') AND ", named!("c"), "
     ORDER BY 1, 6, 2, 7, 8");

const KEYS: &str = concat!(
    "
    SELECT c.relname::text, a.attname::text FROM pg_index i
      JOIN pg_class c ON c.oid = i.indrelid AND ",
    named!("c"),
    "
      JOIN unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, n) ON true
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
     WHERE i.indisprimary ORDER BY c.relname, k.n"
);

/// Keys that hold for all rows of a table, on columns with their own comparison: if a collation
/// treats several texts as equal, the key must have it too. Rows of inheriting tables are not
/// covered.
const UNIQUE_KEYS: &str = concat!(
    "
    SELECT c.relname::text, x.indexrelid::text, a.attname::text FROM pg_index x
      JOIN pg_class c ON c.oid = x.indrelid AND ",
    named!("c"),
    "
      JOIN unnest(x.indkey::int2[]) WITH ORDINALITY k(attnum, n) ON k.n <= x.indnkeyatts
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
     WHERE x.indisunique AND x.indisvalid AND x.indpred IS NULL AND x.indexprs IS NULL
       AND NOT EXISTS (SELECT FROM unnest(x.indkey::int2[], x.indcollation::oid[]) u(attnum, own)
                         JOIN pg_attribute b ON b.attrelid = c.oid AND b.attnum = u.attnum
                         JOIN pg_collation l ON l.oid = b.attcollation
                        WHERE NOT l.collisdeterministic AND u.own <> b.attcollation)
     ORDER BY c.relname, x.indexrelid, k.n"
);

/// Foreign keys to tables of the schemas, from any schema. One of a partition belongs to its table.
const FOREIGN_KEYS: &str = concat!("
    SELECT k.oid::text, c.relname::text, t.relname::text, k.confdeltype::text, a.attname::text, b.attname::text,
           format('%I.%I', n.nspname, c.relname), (", named!("c"), ")::text,
           (k.condeferrable AND k.confdeltype = 'a')::text, k.confupdtype::text, k.condeferrable::text,
           (k.confmatchtype = 'f')::text, k.convalidated::text
      FROM pg_constraint k
      JOIN pg_class c ON c.oid = ", whole!("k.conrelid"), "
      JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_class t ON t.oid = ", whole!("k.confrelid"), "
      JOIN unnest(k.conkey, k.confkey) WITH ORDINALITY u(own, other, n) ON true
      JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.own
      JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = u.other
     WHERE k.contype = 'f' AND ", named!("t"), " AND ", is_own_key!(), "
     ORDER BY c.relname, k.conname, k.oid, u.n");

/// The tables that refer to tables of other schemas, or to such as others inherit from, by keys that
/// may be deferred to the commit, each with the names of these keys. A query finds the rows of heirs
/// in their table, and a key to it does not. Only in one table a name is that of one key.
const REFERRING_ELSEWHERE: &str = concat!(
    "
    SELECT c.relname::text, string_agg(format('%I.%I', n.nspname, k.conname), ', '),
           bool_or(EXISTS (SELECT FROM pg_constraint o
                            WHERE o.connamespace = k.connamespace AND o.conname = k.conname
                              AND o.conparentid = 0 AND o.oid <> k.oid))::text
      FROM pg_constraint k
      JOIN pg_namespace n ON n.oid = k.connamespace
      JOIN pg_class c ON c.oid = ",
    whole!("k.conrelid"),
    "
      JOIN pg_class t ON t.oid = ",
    whole!("k.confrelid"),
    "
     WHERE k.contype = 'f' AND k.condeferrable AND ",
    is_own_key!(),
    "
       AND ",
    named!("c"),
    " AND (NOT (",
    named!("t"),
    ") OR (t.relkind <> 'p' AND EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = t.oid)))
     GROUP BY c.relname"
);

/// The names of the unique keys that may be deferred to the commit, as one list; NULL if there are
/// none.
pub(super) const DEFERRABLE_UNIQUE_KEYS: &str = concat!(
    "
    SELECT string_agg(format('%I.%I', n.nspname, k.conname), ', ')
      FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace
     WHERE k.condeferrable AND k.contype IN ('p', 'u', 'x') AND n.oid IN ",
    schemas!()
);

/// The constraints and constraint triggers that may be put off to the commit, as a statement names
/// each, and with its tables as a message does.
pub(super) const DEFERRABLE: &str = "
    SELECT format('%I.%I', n.nspname, k.conname),
           format('table %s, constraint %s', string_agg(DISTINCT k.conrelid::regclass::text, ' or '), k.conname)
      FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace
     WHERE k.condeferrable AND k.conrelid <> 0
     GROUP BY n.nspname, k.conname ORDER BY 1";

/// Triggers, and rules, which do as much.
const TRIGGERS: &str = concat!(
    "
    SELECT DISTINCT c.relname::text, g.tgname::text FROM pg_trigger g
      JOIN pg_class c ON c.oid = ",
    whole!("g.tgrelid"),
    "
     WHERE ",
    named!("c"),
    " AND NOT g.tgisinternal AND g.tgenabled <> 'D'
    UNION
    SELECT c.relname::text, 'rule ' || r.rulename::text FROM pg_rewrite r
      JOIN pg_class c ON c.oid = ",
    whole!("r.ev_class"),
    "
     WHERE c.relkind IN ('r', 'p') AND ",
    named!("c"),
    " AND r.ev_enabled <> 'D'
     ORDER BY 1, 2"
);

/// The transactions that last wrote rows of these catalogs: every change of a table writes such a
/// row. Objects that the server itself came with have ids below 16384. Last, whether anything may
/// be put off to the commit.
const VERSION: &str = concat!("
    WITH t AS MATERIALIZED
         (SELECT oid, xmin FROM pg_class
           WHERE oid >= 16384 AND relnamespace IN ", schemas!(), "
             AND relkind IN ('r', 'p') AND NOT starts_with(relname::text, 'probity_'))
    SELECT (SELECT sum(hashtextextended(concat_ws(' ', t.oid, t.xmin, row_security_active(t.oid)), 0))::text FROM t),
           (SELECT sum(hashtextextended(concat_ws(' ', a.attrelid, a.attnum, a.xmin, y.xmin), 0))::text
              FROM t JOIN pg_attribute a ON a.attrelid = t.oid
                LEFT JOIN pg_type y ON y.oid = a.atttypid AND y.oid >= 16384
             WHERE a.attnum > 0),
           (SELECT sum(hashtextextended(k.oid || ' ' || k.xmin, 0))::text
              FROM pg_constraint k
             WHERE k.oid >= 16384 AND (k.conrelid IN (SELECT oid FROM t) OR k.confrelid IN (SELECT oid FROM t))),
           (SELECT sum(hashtextextended(concat_ws(' ', i.indexrelid, i.xmin), 0))::text
              FROM pg_index i WHERE i.indisunique AND i.indrelid IN (SELECT oid FROM t)),
           (SELECT sum(hashtextextended(concat_ws(' ', g.oid, g.xmin), 0))::text
              FROM pg_trigger g WHERE NOT g.tgisinternal AND g.tgrelid IN (SELECT oid FROM t)),
           (SELECT sum(hashtextextended(concat_ws(' ', r.oid, r.xmin), 0))::text
              FROM pg_rewrite r WHERE r.ev_class IN (SELECT oid FROM t)),
           (SELECT sum(hashtextextended(e.oid || ' ' || e.xmin, 0))::text FROM pg_enum e),
           (SELECT EXISTS (SELECT FROM pg_constraint WHERE condeferrable AND conrelid <> 0))::text");

impl Postgres {
    pub(super) fn read_catalog(&mut self) -> Result<Catalog, DatabaseError> {
        let mut catalog = Catalog::new();
        for row in self.query(COLUMNS, &[])? {
            let [
                table,
                name,
                declared,
                not_null,
                filled,
                numbered,
                made_of,
                hides,
                base,
                collation,
                composed,
            ] = row.as_slice()
            else {
                continue;
            };
            let column = Column {
                name: name.to_string(),
                declared: declared.to_string(),
                nullable: not_null.to_string() != "true",
                has_default: filled.to_string() == "true",
                base: (!base.is_null()).then(|| base.to_string()),
                members: Vec::new(),
                collation: (!collation.is_null()).then(|| collation.to_string()),
                times: None,
                structure: if composed.to_string() == "true" {
                    Structure::Composed
                } else {
                    Structure::Single
                },
            };
            let table = catalog.entry(table.to_string()).or_default();
            if numbered.to_string() == "true" {
                table.numbered_by = Some(name.to_string());
            }
            table.columns.push(column);
            let made_of = made_of.to_string();
            // Rows of two partitions, or of two heirs, may be at the same place.
            table.row_place = made_of.is_empty().then(|| ROW_PLACE.to_owned());
            table.has_heirs = made_of == "heirs";
            let hides = hides.to_string() == "true";
            table.properties = hides.then_some(Property::HidesRows).into_iter().collect();
        }
        note_primary_keys(&mut catalog, &self.query(KEYS, &[])?);
        note_unique_keys(&mut catalog, &self.query(UNIQUE_KEYS, &[])?);
        note_triggers(&mut catalog, &self.query(TRIGGERS, &[])?);
        for row in self.query(MEMBERS, &[])? {
            if let [table, column, member] = row.as_slice()
                && let Some(table) = catalog.get_mut(&table.to_string())
                && let Some(column) =
                    (table.columns.iter_mut()).find(|it| it.name == column.to_string())
            {
                column.members.push(member.to_string());
            }
        }
        let mut constraints = self.query(CONSTRAINTS, &[])?;
        for row in &mut constraints {
            row.truncate(5);
        }
        note_constraints(&mut catalog, &constraints);
        self.read_foreign_keys(&mut catalog)?;
        self.note_referring_elsewhere(&mut catalog)?;
        Ok(catalog)
    }

    fn note_referring_elsewhere(&mut self, catalog: &mut Catalog) -> Result<(), DatabaseError> {
        for row in self.query(REFERRING_ELSEWHERE, &[])? {
            if let [table, keys, is_ambiguous] = row.as_slice()
                && let Some(table) = catalog.get_mut(&table.to_string())
            {
                table.late_elsewhere = match is_ambiguous.to_string().as_str() {
                    "false" => LateElsewhere::Named(keys.to_string()),
                    _ => LateElsewhere::Ambiguous,
                };
            }
        }
        Ok(())
    }

    fn read_foreign_keys(&mut self, catalog: &mut Catalog) -> Result<(), DatabaseError> {
        let mut last = None;
        for row in self.query(FOREIGN_KEYS, &[])? {
            let [
                id,
                table,
                target,
                action,
                own,
                other,
                full,
                is_own,
                rest @ ..,
            ] = row.as_slice()
            else {
                continue;
            };
            let [is_deferrable, on_update, is_late, is_full, is_valid] = rest else {
                continue;
            };
            let is_checked_late = is_late.to_string() == "true";
            let (to_table, is_own) = (target.to_string(), is_own.to_string() == "true");
            let holder = if is_own {
                table.to_string()
            } else {
                to_table.clone()
            };
            let Some(known) = catalog.get_mut(&holder) else {
                continue;
            };
            let is_new = last.replace(id.clone()).as_ref() != Some(id);
            let on_delete = OnDelete::of(&action.to_string());
            let on_update = OnUpdate::of(&on_update.to_string());
            let matching = match is_full.to_string().as_str() {
                "true" => Matching::Full,
                _ => Matching::Simple,
            };
            if is_new && is_own {
                known.foreign_keys.push(ForeignKey {
                    columns: Vec::new(),
                    to_table,
                    to_columns: Vec::new(),
                    on_delete,
                    is_deferrable: is_deferrable.to_string() == "true",
                    is_checked_late,
                    may_lead_nowhere: is_valid.to_string() != "true",
                    matching,
                    on_update,
                });
            } else if is_new {
                known.referrers.push(Referrer {
                    table: full.to_string(),
                    columns: Vec::new(),
                    to_columns: Vec::new(),
                    on_delete,
                    is_checked_late,
                    on_update,
                });
            }
            if !is_own {
                if let Some(key) = known.referrers.last_mut() {
                    key.columns.push(own.to_string());
                    key.to_columns.push(other.to_string());
                }
            } else if let Some(key) = known.foreign_keys.last_mut() {
                key.columns.push(own.to_string());
                key.to_columns.push(other.to_string());
            }
        }
        Ok(())
    }

    pub(super) fn read_catalog_version(&mut self) -> Result<i64, DatabaseError> {
        let rows = self.query(VERSION, &[])?;
        let last = rows.first().and_then(|row| row.last());
        self.may_defer = last.is_none_or(|it| it.to_string() != "false");
        let mut hash = DefaultHasher::new();
        for value in rows.iter().flatten() {
            value.to_string().hash(&mut hash);
        }
        Ok(hash.finish().cast_signed())
    }
}
