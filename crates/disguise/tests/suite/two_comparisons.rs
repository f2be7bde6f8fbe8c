//! Columns that name people by another comparison than the ids': pairs that overlap, many owners, tenants, holds and paths.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Authority, Dialect, Error, Holding, Protection, Value};

use super::forum::time;
use super::member::{Member, NOTES};
use super::whose_rows::{is_refused, member, texts};

/// Types of two comparisons of which neither contains the other, and two people and a value. The ids' comparison takes the value for
/// the first, the column's for the second.
fn overlapping(dialect: Dialect) -> ([&'static str; 2], [String; 3]) {
    let named = ["jose", "JOS\u{c9}", "jos\u{e9}"].map(str::to_owned);
    match dialect {
        Dialect::Sqlite => (
            ["VARCHAR(20) COLLATE RTRIM", "VARCHAR(20) COLLATE NOCASE"],
            ["Bob", "bob ", "Bob "].map(str::to_owned),
        ),
        Dialect::Postgres => (
            [
                "VARCHAR(20) COLLATE unaccented",
                "VARCHAR(20) COLLATE uncapital",
            ],
            named,
        ),
        _ => (
            [
                "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_cs",
                "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_as_ci",
            ],
            named,
        ),
    }
}

/// C4: a value that only the ids' comparison found was not asked for by the column's, so that a row of two people went with the one
/// who left. It goes with nobody, and neither does a row that the column alone takes for it.
pub(crate) fn a_row_that_each_comparison_gives_to_another_is_refused() {
    let (types, [one, two, value]) = overlapping(crate::connect().dialect());
    let members = format!("('{one}'), ('{two}'), ('eve')");
    let rows = format!("(1, '{value}'), (2, 'eve')");
    for id in [&one, &two] {
        let mut member = member(id.as_str().into(), types, [&members, &rows]);
        is_refused(&mut member, "belong to two people");
        let refused = member.try_all_to_leave().unwrap_err().to_string();
        assert!(refused.contains("belong to two people"), "{refused}");
    }
    let alone = format!("('{one}'), ('eve')");
    let mut alone = member(one.as_str().into(), types, [&alone, &rows]);
    alone.leaves_and_returns(["members", "notes"]);
    // By the column the two rows are of one person, by the ids of two.
    let other = one.to_uppercase();
    let members = format!("('{one}'), ('{other}'), ('eve')");
    let rows = format!("(1, '{value}'), (2, '{}')", value.to_uppercase());
    for id in [&one, &other] {
        let mut member = member(id.as_str().into(), types, [&members, &rows]);
        is_refused(&mut member, "belong to two people");
    }
}

/// H1: more than five hundred owners are listed in a table, whose text had the database's comparison and not the ids'. A person with
/// so many placeholders leaves over them and returns.
pub(crate) fn many_owners_leave_by_a_column_of_another_comparison() {
    let [strict, loose] = texts();
    let (bob, seven) = (Value::from("bob"), Value::Int(7));
    for (id, types) in [
        (bob.clone(), [strict, loose]),
        (bob, [loose, strict]),
        (seven, ["BIGINT", strict]),
    ] {
        let is_number = matches!(id, Value::Int(_));
        let others = if is_number {
            "(7), (8)"
        } else {
            "('bob'), ('eve')"
        };
        let rows: Vec<String> = (1..=502).map(|note| format!("({note}, '{id}')")).collect();
        let rows = format!("{}, (900, '8')", rows.join(", "));
        let mut removing = member(id, types, [others, &rows]);
        let before = removing.rows(["members", "notes"]);
        let number = "RandNum = { lb = 1000000, ub = 2000000000 }";
        let made = if is_number {
            number
        } else {
            "RandStr = { len = 8 }"
        };
        let notes = NOTES.replacen(number, made, 1);
        let (head, _) = notes.split_at(notes.find("[[remove]]").unwrap());
        let hide = format!("{head}[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n");
        let mut hiding = removing.again(&hide);
        let hidden = hiding.leave();
        let removed = hiding.apply_over(&notes);
        removing = hiding;
        assert_eq!(removing.rows(["notes"]).map(|it| it.len()), [1]);
        assert!(removing.return_from(&removed).is_complete());
        assert!(removing.return_from(&hidden).is_complete());
        assert_eq!(removing.rows(["members", "notes"]), before);
    }
}

/// M2: whose a row is was asked of a column with another comparison, and a person of another tenant must not answer. Of two tenants
/// with the same ids and rows, one leaves and returns beside the other.
pub(crate) fn a_person_of_another_tenant_makes_no_row_doubtful() {
    let [strict, loose] = texts();
    let mut database = crate::connect();
    if database.dialect() == Dialect::Postgres {
        let made = "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)";
        database.execute(made, &[]).unwrap();
    }
    for sql in [
        format!("CREATE TABLE members (org BIGINT, id {strict}, PRIMARY KEY (org, id))"),
        format!(
            "CREATE TABLE notes (org BIGINT, id BIGINT, member {loose}, PRIMARY KEY (org, id))"
        ),
        "INSERT INTO members VALUES (1, 'bob'), (1, 'eve'), (2, 'bob'), (2, 'BOB')".to_owned(),
        "INSERT INTO notes VALUES (1, 1, 'bob'), (1, 2, 'eve'), (2, 1, 'bob'), (2, 2, 'BOB')"
            .to_owned(),
    ] {
        database.execute(&sql, &[]).unwrap();
    }
    let number = "RandNum = { lb = 1000000, ub = 2000000000 }";
    let notes = NOTES.replacen(number, "RandStr = { len = 8 }", 1);
    let described = format!("tenant = \"org\"\n{notes}");
    let mut member = Member::of_tenant(Value::Int(1), "bob".into(), database, &described);
    member.leaves_and_returns(["members", "notes"]);
    let applied = member.leave();
    let theirs = "SELECT COUNT(*) FROM notes WHERE org = 2";
    let left = member.engine.database().query(theirs, &[]).unwrap();
    assert_eq!(left, [[Value::Int(2)]]);
    assert!(member.return_from(&applied).is_complete());
    member.sql(&["INSERT INTO members VALUES (1, 'BOB')"]);
    is_refused(&mut member, "belong to two people");
}

/// H4: a row names a person on hold in capitals that only the ids disregard. A disguise of everybody leaves it alone.
pub(crate) fn a_hold_counts_for_rows_that_name_its_person_otherwise() {
    let [strict, loose] = texts();
    let rows = "(1, 'Bob'), (2, 'eve')";
    let mut member = member("eve".into(), [loose, strict], ["('bob'), ('eve')", rows]);
    let before = member.rows(["members", "notes"]);
    let authority = Authority {
        actor: "legal office",
        basis: "file 12/2026",
        time: time(),
    };
    let bob = Value::from("bob");
    let registered = member
        .engine
        .people()
        .register(&bob, Protection::KeyAlone, time());
    registered.unwrap();
    let held = member
        .engine
        .holds()
        .place(Holding::Person(&bob), &authority);
    held.unwrap();
    let number = "RandNum = { lb = 1000000, ub = 2000000000 }";
    let notes = NOTES.replacen(number, "RandStr = { len = 8 }", 1);
    let (notes, _) = notes.rsplit_once("[[remove]]").unwrap();
    let mut member = member.again(notes);
    let refused = member.try_all_to_leave();
    assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
    assert_eq!(member.rows(["members", "notes"]), before);
}

/// C4: a step on the way to the owner that two comparisons see differently would lead to two people. It is refused.
pub(crate) fn a_path_whose_step_compares_otherwise_is_refused() {
    let [strict, loose] = texts();
    let mut member = member("bob".into(), [strict, strict], ["('bob')", "(1, 'bob')"]);
    let pages = format!("CREATE TABLE pages (id {strict} PRIMARY KEY, member {strict})");
    let verses = format!("CREATE TABLE verses (id BIGINT PRIMARY KEY, page {loose})");
    member.sql(&[&pages, &verses]);
    let described = "[users]\ntable = \"members\"\nid = \"id\"\nplaceholder = { id = { RandStr = { len = 8 } } }
[tables.pages]\nowners = [\"member\"]
[tables.verses]\nthrough = [\"page\"]\nreferences = [{ columns = [\"page\"], table = \"pages\", to = [\"id\"] }]
[[remove]]\ntable = \"verses\"\n[[remove]]\ntable = \"pages\"\n";
    let file = probity_disguise::SpecFile::parse(described).unwrap();
    let engine = member.described(file.schema, file.pseudo.unwrap());
    let mut member = member.over(engine).again(described);
    let refused = member.refusal();
    assert!(
        refused.contains("column page of verses compares otherwise than id of pages"),
        "{refused}"
    );
    assert!(member.try_to_leave().is_err());
}

/// C4: whoever came while a row was hidden has an id that its column takes for the same. The row comes back as it was and is told in
/// the export, and from then on it goes with neither.
pub(crate) fn a_row_that_became_two_peoples_while_it_was_hidden_comes_back_as_it_was() {
    let [strict, loose] = texts();
    let rows = "(1, 'bob'), (2, 'eve')";
    let mut member = member("bob".into(), [strict, loose], ["('bob'), ('eve')", rows]);
    let [before] = member.rows(["notes"]);
    let applied = member.leave();
    member.sql(&["INSERT INTO members VALUES ('BOB')"]);
    assert_eq!(member.exported(applied.id, time()).unwrap(), 2);
    let revealed = member.return_from(&applied);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_eq!(member.rows(["notes"]), [before]);
    is_refused(&mut member, "belong to two people");
}

/// Bob, and pairs of whom the second is named in capitals, which the ids regard.
fn pairs(people: &str, step: &str) -> Member {
    let [strict, loose] = texts();
    let rows = "(1, 'bob')";
    let mut member = member("bob".into(), [strict, strict], ["('bob'), ('eve')", rows]);
    let pairs = format!(
        "CREATE TABLE pairs (id BIGINT PRIMARY KEY, a {loose}, b {loose} NOT NULL, body VARCHAR(9))"
    );
    member.sql(&[
        &pairs,
        "INSERT INTO pairs VALUES (1, 'bob', 'EVE', 'x'), (2, 'bob', 'ann', 'y')",
    ]);
    let described = format!(
        "[users]\ntable = \"members\"\nid = \"id\"\nplaceholder = {{ id = {{ RandStr = {{ len = 8 }} }} }}\n[tables.pairs]\n{people}{step}"
    );
    let file = probity_disguise::SpecFile::parse(&described).unwrap();
    let engine = member.described(file.schema, file.pseudo.unwrap());
    member.over(engine).again(&described)
}

/// A row that named Eve in capitals, which the column disregards and the ids do not, went with Bob as if it named nobody beside him,
/// also while Eve was held. It is refused, as when Eve or everybody leaves, until it names her by her id; then the hold binds.
pub(crate) fn a_row_that_names_somebody_else_by_the_column_alone_is_refused() {
    let modify = "[[modify]]\ntable = \"pairs\"\ncolumn = \"body\"\nvalue = { ConstStr = \"-\" }\n";
    let remove = "[[remove]]\ntable = \"pairs\"\n";
    let both = "owners = [\"a\", \"b\"]\n";
    for (people, step, binds) in [
        (both.to_owned(), remove, false),
        (both.to_owned(), modify, true),
        (
            format!("{both}on_leave = {{ a = \"remove\", b = \"remove\" }}\n"),
            remove,
            true,
        ),
        (
            "owners = [\"a\"]\nreaders = [\"b\"]\n".to_owned(),
            remove,
            true,
        ),
    ] {
        let mut member = pairs(&people, step);
        let eve = Value::from("eve");
        let registered = member
            .engine
            .people()
            .register(&eve, Protection::KeyAlone, time());
        registered.unwrap();
        let authority = Authority {
            actor: "legal office",
            basis: "file 12/2026",
            time: time(),
        };
        let before = member.rows(["pairs"]);
        let held = member
            .engine
            .holds()
            .place(Holding::Person(&eve), &authority)
            .unwrap();
        for hold in [Some(held), None] {
            let words = "rows of pairs name nobody in column b";
            let told = member.foretold().concat();
            assert!(told.contains(words), "{people}{step}: {told}");
            for refused in [
                member.try_to_leave().map(drop).unwrap_err(),
                member.try_in_chunks(1).map(drop).unwrap_err(),
            ] {
                let refused = refused.to_string();
                assert!(refused.contains(words), "{people}{step}: {refused}");
            }
            if let Some(hold) = hold {
                member.engine.holds().lift(hold, &authority).unwrap();
            }
        }
        member.sql(&["UPDATE pairs SET b = 'eve' WHERE id = 1"]);
        let held = member
            .engine
            .holds()
            .place(Holding::Person(&eve), &authority)
            .unwrap();
        if binds {
            let refused = member.try_to_leave();
            assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
        }
        member.engine.holds().lift(held, &authority).unwrap();
        member.sql(&["UPDATE pairs SET b = 'EVE' WHERE id = 1"]);
        assert_eq!(member.rows(["pairs"]), before);
        member.sql(&["UPDATE pairs SET b = 'eve' WHERE id = 1"]);
        member.leaves_and_returns(["members", "pairs"]);
    }
}
