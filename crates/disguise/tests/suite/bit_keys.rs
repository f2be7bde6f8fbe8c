//! Keys of type `BIT` of `MariaDB`: the server compares bytes with them as it compares texts with numbers.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, SpecFile, Value};

use super::society::{Society, description};

fn photos() -> Society {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE albums (id BIT(8) PRIMARY KEY, who BIGINT)",
        "CREATE TABLE photos (id BIT(8) PRIMARY KEY, t VARCHAR(9), flags BIT(64), nxt BIT(8), album BIT(8) NOT NULL, FOREIGN KEY (nxt) REFERENCES photos(id), FOREIGN KEY (album) REFERENCES albums(id))",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO albums VALUES (50, 1), (2, 2), (200, 1)",
        "INSERT INTO photos VALUES (1, 'a', 1, NULL, 2), (49, 'b', b'0', NULL, 50), (50, 'c', x'ffffffffffffffff', 49, 50), (51, 'd', 3, 51, 50), (209, 'e', NULL, 50, 200)",
    ]
    .map(str::to_owned);
    let described = "[tables.albums]\nowners = [\"who\"]\n[tables.photos]\nthrough = [\"album\"]\n\
        [[remove]]\ntable = \"photos\"\n[[remove]]\ntable = \"albums\"\n";
    Society::of(&statements, &description(described), &[1, 2])
}

/// A removal took somebody else's row, left those of who went, and reported success; chunks never ended.
pub(crate) fn rows_with_bits_as_keys_are_found_by_them() {
    if crate::connect().dialect() != Dialect::Mysql {
        return;
    }
    for chunk in [None, Some(1), Some(2)] {
        let mut society = photos();
        let gone = society.try_to_leave(Some(1), false, chunk).unwrap();
        assert_eq!(gone.rows["photos"], 4);
        assert_eq!(society.numbers("SELECT id + 0 FROM photos"), [1]);
        assert_eq!(society.numbers("SELECT id + 0 FROM albums"), [2]);
        society.reveal(1, gone.id);
        society.assert_as_before(&format!("removed {chunk:?}"));
        let all = society.try_to_leave(None, false, chunk).unwrap().id;
        assert_eq!(society.numbers("SELECT COUNT(*) FROM photos"), [0]);
        for user in [1, 2] {
            society.reveal(user, all);
        }
        society.assert_as_before(&format!("everybody {chunk:?}"));

        let all = description(
            "[tables.albums]\nowners = [\"who\"]\n[tables.photos]\nthrough = [\"album\"]\n",
        );
        let (head, _) = all.split_at(all.find("[[remove]]").unwrap());
        let hidden = ["t", "flags"].map(|it| {
            format!("[[modify]]\ntable = \"photos\"\ncolumn = \"{it}\"\nvalue = \"Null\"\n")
        });
        let hiding = SpecFile::parse(&format!("{head}{}", hidden.concat()));
        society.spec = hiding.unwrap().spec;
        for user in [Some(1), None] {
            let id = society.try_to_leave(user, false, chunk).unwrap().id;
            let left = society.numbers("SELECT id + 0 FROM photos WHERE t IS NOT NULL");
            assert_eq!(left, if user.is_some() { vec![1] } else { vec![] });
            for user in [1, 2] {
                society.try_again(&[(user, id)].into());
            }
            society.assert_as_before(&format!("overwritten {user:?} {chunk:?}"));
        }
    }
}

/// Nobody could be registered under such an id.
pub(crate) fn bits_are_ids_like_other_numbers() {
    if crate::connect().dialect() != Dialect::Mysql {
        return;
    }
    let statements = [
        "CREATE TABLE people (id BIT(16) PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIT(16))",
        "INSERT INTO people VALUES (1, 'one'), (300, 'two')",
        "INSERT INTO posts VALUES (10, 1), (20, 300)",
    ]
    .map(str::to_owned);
    let described =
        description("[tables.posts]\nowners = [\"who\"]\n[[remove]]\ntable = \"posts\"\n");
    let described = described.replace("lb = 1000000, ub = 2000000000", "lb = 1000, ub = 65000");
    let mut society = Society::of(&statements, &described, &[1, 300]);
    let all = society.try_to_leave(None, false, None).unwrap().id;
    assert_eq!(society.numbers("SELECT COUNT(*) FROM posts"), [0]);
    for user in [300, 1] {
        society.reveal(user, all);
    }
    society.assert_as_before("ids");
    let ids = society
        .engine
        .database()
        .query("SELECT id FROM people", &[]);
    assert_eq!(ids.unwrap().concat(), [Value::Int(1), Value::Int(300)]);
}

/// A placeholder was made in another tenant, whose number the bytes of the text make.
pub(crate) fn bits_are_tenants_like_other_numbers() {
    if crate::connect().dialect() != Dialect::Mysql {
        return;
    }
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), org BIT(64))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, org BIT(64))",
        "INSERT INTO people VALUES (1, 'one', 49), (2, 'two', 13369)",
        "INSERT INTO posts VALUES (10, 1, 49), (20, 2, 13369)",
    ]
    .map(str::to_owned);
    let described = description(
        "[tables.posts]\nowners = [\"who\"]\n[[decorrelate]]\ntable = \"posts\"\nowners = [\"who\"]\n",
    );
    let (head, _) = described.split_at(described.find("[[remove]]").unwrap());
    let described = format!("tenant = \"org\"\n{head}");
    let mut society = Society::of_tenant(49, &statements, &described, &[1]);
    let written = society.engine.tenant("49").unwrap();
    assert_eq!(written, Value::Int(49));
    let gone = society.leave(1);
    let orgs = "SELECT org + 0 FROM people ORDER BY org + 0";
    assert_eq!(society.numbers(orgs), [49, 49, 13369]);
    society.reveal(1, gone);
    assert_eq!(society.numbers(orgs), [49, 13369]);
}
