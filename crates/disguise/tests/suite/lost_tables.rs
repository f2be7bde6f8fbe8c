//! Tables of the engine that somebody dropped, or that a backup did not have.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Error, Value};

use super::society::{Society, description};

const TABLES: [&str; 8] = [
    "probity_settings",
    "probity_principals",
    "probity_locators",
    "probity_bags",
    "probity_credentials",
    "probity_shared",
    "probity_successions",
    "probity_operations",
];

/// Two people with a post each.
fn posts() -> Society {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT)",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO posts VALUES (10, 1), (20, 2)",
    ]
    .map(str::to_owned);
    let described = "[tables.posts]\nowners = [\"who\"]\n[[remove]]\ntable = \"posts\"\n";
    Society::of(&statements, &description(described), &[1, 2])
}

/// The advice was to install them first. New settings have a new salt: then nobody's records were found,
/// and a list was empty without a word.
pub(crate) fn a_table_of_disguises_that_is_gone_is_said_and_not_made_anew() {
    let mut society = posts();
    let mut gone = society.leave(1);
    for name in TABLES {
        society.sql(&format!("ALTER TABLE {name} RENAME TO away"));
        let is_lost =
            |error: &Error| matches!(error, Error::RecordsLost { table } if *table == name);
        let installed = society.engine.install();
        assert!(
            installed.as_ref().is_err_and(is_lost),
            "{name} {installed:?}"
        );
        let revealed = society.try_to_return(1, gone);
        society.sql(&format!("ALTER TABLE away RENAME TO {name}"));
        match revealed {
            // This reveal has no use for the table.
            Ok(revealed) => {
                assert!(revealed.is_complete(), "{name} {revealed:?}");
                gone = society.leave(1);
            }
            Err(error) => assert!(is_lost(&error), "{name} {error:?}"),
        }
    }
    society.reveal(1, gone);
    society.assert_as_before("the tables are back");
}

/// Under the salt of another database a hold bound nobody, and who left then never came back.
pub(crate) fn another_salt_than_the_databases_own_is_refused() {
    let mut society = posts();
    let gone = society.leave(1);
    let name = Value::Bytes(b"salt".to_vec());
    let sql = "SELECT value FROM probity_settings WHERE name = ?";
    let own = society
        .engine
        .database()
        .query(sql, std::slice::from_ref(&name));
    let own = own.unwrap().concat().remove(0);
    let put = |society: &mut Society, salt: Value| {
        let sql = "UPDATE probity_settings SET value = ? WHERE name = ?";
        let database = society.engine.database();
        database.execute(sql, &[salt, name.clone()]).unwrap();
    };
    for salt in [vec![7; 16], vec![7; 8]] {
        put(&mut society, Value::Bytes(salt));
        let is_it = |error: &Error| matches!(error, Error::DamagedRow { row, .. } if row == "salt");
        let installed = society.engine.install();
        assert!(installed.as_ref().is_err_and(is_it), "{installed:?}");
        let left = society.try_to_leave(Some(2), false, None);
        assert!(left.as_ref().is_err_and(is_it), "{left:?}");
        let revealed = society.try_to_return(1, gone);
        assert!(revealed.as_ref().is_err_and(is_it), "{revealed:?}");
    }
    put(&mut society, own);
    society.reveal(1, gone);
    society.assert_as_before("the salt is back");
}
