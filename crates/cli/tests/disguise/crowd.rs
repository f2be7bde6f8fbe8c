//! Many processes that come to a fresh database at once.

use std::process::Child;

use probity_disguise::database::connect;

use crate::place::Place;
use crate::{mariadb, postgres};

/// Processes that begin at once.
const PROCESSES: i64 = 8;
/// The first of as many people.
const FIRST: i64 = 100;

fn everybody_is_registered_and_leaves_at_once(place: &Place) {
    let mut database = place.database();
    for id in FIRST..FIRST + PROCESSES {
        for sql in [
            format!("INSERT INTO people VALUES ({id}, 'N{id}')"),
            format!("INSERT INTO posts VALUES ({id}, {id}, 'P{id}')"),
        ] {
            database.execute(&sql, &[]).unwrap();
        }
    }
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    for command in ["register", "apply"] {
        // Nobody has prepared the database before the first of them.
        let begun: Vec<Child> = (FIRST..FIRST + PROCESSES)
            .map(|id| {
                let (id, key) = (id.to_string(), format!("{id}.key"));
                let mut args = vec!["disguise", command, "--spec", "leave.toml", "--user", &id];
                if command == "register" {
                    args.extend(["--credential-out", &key]);
                }
                place.command(&args).spawn().unwrap()
            })
            .collect();
        for child in begun {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{command} {output:?}");
        }
    }
    let count = "SELECT COUNT(*) FROM people WHERE id >= 100 AND id < 108";
    let rows = database.query(count, &[]).unwrap();
    assert_eq!(rows[0][0].to_string(), "0");
    // Salt, tables and description, and that no log tells of it; the shapes of tables have longer names.
    let salts = "SELECT COUNT(*) FROM probity_settings WHERE length(name) < 30";
    let rows = database.query(salts, &[]).unwrap();
    assert_eq!(rows[0][0].to_string(), "4");
}

#[test]
fn many_processes_at_once_prepare_a_fresh_database_of_sqlite() {
    everybody_is_registered_and_leaves_at_once(&Place::sqlite());
}

#[test]
fn many_processes_at_once_prepare_a_fresh_database_of_mariadb() {
    let (_server, socket) = mariadb::running(|url| connect(url).is_ok());
    let mut database = connect(&mariadb::url(&socket, "mysql")).unwrap();
    for round in 0..3 {
        let name = format!("app{round}");
        let sql = format!("CREATE DATABASE {name}");
        database.execute(&sql, &[]).unwrap();
        let place = Place::new(|_| mariadb::url(&socket, &name));
        everybody_is_registered_and_leaves_at_once(&place);
    }
}

#[test]
fn many_processes_at_once_prepare_a_fresh_database_of_postgres() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut database = connect(&url).unwrap();
    for round in 0..3 {
        let sql = format!("CREATE DATABASE app{round}");
        database.execute(&sql, &[]).unwrap();
        let of_round = format!("{}/app{round}", url.trim_end_matches("/postgres"));
        everybody_is_registered_and_leaves_at_once(&Place::new(|_| of_round));
    }
}
