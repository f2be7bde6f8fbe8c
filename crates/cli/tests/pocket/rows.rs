//! Files of rows that are damaged, and imports that a signal stops.

use std::fs;

use crate::Place;

/// A CSV file that was cut inside of a quoted text, and an object with a member twice, were taken
/// for whole.
#[test]
fn a_damaged_file_of_rows_is_refused_with_its_line() {
    let place = Place::filled();
    let cut = "doctor,day,note\n1,1,\"first\"\n2,2,\"a \"\"b\"\"\nc\"\n1,3,\"cut here\nand on";
    let twice = "{\"doctor\": 1, \"day\": 5, \"note\": \"a\"}\n{\"doctor\": 1, \"day\": 6, \"day\": 7, \"note\": \"b\"}\n";
    for (name, content, said) in [
        (
            "cut.csv",
            cut,
            "the quote that line 5 opens is never closed",
        ),
        ("twice.json", twice, "the member day twice at line 2"),
        ("seven.json", "[{\"day\": 1},\n 7]", "line 2"),
    ] {
        fs::write(place.path(name), content).unwrap();
        let (_, stderr) = place.run(&["import", "v", "visits", name], 1);
        assert!(stderr.contains(said), "{name}: {stderr}");
        assert!(stderr.contains("0 rows were imported"), "{name}: {stderr}");
        assert_eq!(place.count("v", "visits"), 300);
    }
    let whole =
        "doctor,day,note\n1,1,\"first\"\n2,2,\"a \"\"b\"\"\nc\"\n1,3,plain \"quote\n1,4,\"\"";
    fs::write(place.path("whole.csv"), format!("\u{feff}{whole}")).unwrap();
    place.run(&["import", "v", "visits", "whole.csv"], 0);
    assert_eq!(place.count("v", "visits"), 304);
}

/// A value was refused with a byte of a statement that nobody had written.
#[test]
fn a_value_that_does_not_fit_is_named_by_line_and_column() {
    let place = Place::filled();
    fs::write(
        place.path("r.json"),
        "{\"doctor\": 1, \"day\": \"x\", \"note\": \"a\"}",
    )
    .unwrap();
    let (_, stderr) = place.run(&["import", "v", "visits", "r.json"], 1);
    assert!(!stderr.contains("of the statement"), "{stderr}");
    assert!(
        stderr.contains("day") && stderr.contains("object 1"),
        "{stderr}"
    );
}

/// An import that a signal stopped said nothing of the rows that stay.
#[test]
fn an_import_that_a_signal_stops_says_how_many_rows_stay() {
    let place = Place::filled();
    for format in ["csv", "json"] {
        let args = [
            "pocket", "import", "v", "visits", "pipe", "--format", format,
        ];
        let ended = place.ended_by(&args, "INT");
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(
            said.contains("0 rows were imported, then a signal asked to stop"),
            "{format}: {said}"
        );
    }
    place.run(&["verify", "v"], 0);
    assert_eq!(place.count("v", "visits"), 300);
}
