//! Runs every benchmark with small sizes, and checks its output and the consistency of its figures.
//!
//! Tests do not check speed.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_probity-bench"))
        .args(arguments)
        .output()
        .unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = bench(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(of: &Value, name: &str) -> f64 {
    of[name]
        .as_f64()
        .unwrap_or_else(|| panic!("{name} in {of}"))
}

fn results(arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["ingest", "--small", "--json"];
    all.extend(arguments);
    match &mut json(&all)["results"] {
        Value::Array(results) => std::mem::take(results),
        other => panic!("results are {other}"),
    }
}

/// Checks relations between the figures of one result that hold at any speed.
fn assert_consistent(result: &Value) {
    let entries = number(result, "entries");
    assert!((entries / 500.0 / number(result, "producers") - 1.0).abs() < 1e-6);
    let rate = entries / number(result, "seconds");
    assert!((rate / number(result, "entries_per_second") - 1.0).abs() < 1e-6);
    let ceiling = number(result, "ceiling_entries_per_second");
    assert!((rate / ceiling / number(result, "ceiling_share") - 1.0).abs() < 1e-6);
    let input = number(result, "input_bytes");
    assert!(input > entries * 28.0, "a row is longer than its header");
    let stored = number(result, "stored_bytes");
    assert!((stored / input / number(result, "stored_share") - 1.0).abs() < 1e-6);
    assert!(stored > entries, "an entry takes at least a byte");
    assert!(number(result, "peak_memory_bytes") > 0.0);
}

#[test]
fn every_preset_runs_and_its_figures_agree() {
    let presets = [
        ("main", 1),
        ("scaling", 2),
        ("performance", 6),
        ("compression", 6),
        ("table", 4),
    ];
    for (preset, at_least) in presets {
        let results = results(&["--preset", preset]);
        assert!(results.len() >= at_least, "{preset}: {}", results.len());
        results.iter().for_each(assert_consistent);
    }
}

#[test]
fn a_flag_changes_the_setting_it_names() {
    let flags = [
        "--producers=3",
        "--writers=1",
        "--payload=100",
        "--compression=zstd:3",
        "--encryption=off",
        "--proofs=entry",
        "--durability=strict",
        "--destinations=2",
        "--repeats=2",
        "--entries=500",
        "--erasable",
    ];
    let results = results(&flags);
    let [result] = results.as_slice() else {
        panic!("{results:?}")
    };
    assert_consistent(result);
    assert_eq!(result["writers"], 1);
    assert_eq!(result["payload_bytes"], 100);
    assert_eq!(result["compression"], "zstd:3");
    assert_eq!(result["encrypted"], false);
    assert_eq!(result["proofs"], "entry");
    assert_eq!(result["durability"], "strict");
    assert_eq!(result["destinations"], 2);
    assert_eq!(result["erasable"], true);
}

#[test]
fn higher_levels_and_compression_store_less() {
    let stored = |level| {
        let flag = format!("--compression={level}");
        let results = results(&[&flag, "--payload=1000", "--mixed"]);
        number(&results[0], "stored_bytes")
    };
    let (none, fast, slow) = (stored("none"), stored("zstd:1"), stored("zstd:9"));
    assert!(none > fast, "{none} {fast}");
    assert!(fast > slow, "{fast} {slow}");
}

#[test]
fn tables_and_plots_hold_a_line_and_a_bar_for_each_result() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, plot) = (folder.path().join("out.csv"), folder.path().join("out.svg"));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let results = results(&[
        "--preset=table",
        "--csv",
        &text(&csv),
        "--plot",
        &text(&plot),
    ]);
    let table = std::fs::read_to_string(csv).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), results.len() + 1);
    for line in &lines {
        assert_eq!(line.split(',').count(), lines[0].split(',').count());
    }
    let drawing = std::fs::read_to_string(plot).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.trim_end().ends_with("</svg>"));
    for result in &results {
        assert!(drawing.contains(result["name"].as_str().unwrap()));
    }
}

#[test]
fn verification_and_latency_report_what_they_measured() {
    let verify = json(&["verify", "--entries=20000", "--repeats=2", "--json"]);
    assert_eq!(verify["entries"], 20_000);
    assert!(number(&verify, "stored_bytes") > 20_000.0);
    assert!(number(&verify, "sha256_share") > 0.0);

    let latency = json(&[
        "latency",
        "--entries=20000",
        "--threads=3",
        "--durable=10",
        "--json",
    ]);
    let in_order = |names: &[&str]| {
        let values: Vec<f64> = names.iter().map(|name| number(&latency, name)).collect();
        assert!(values.is_sorted(), "{names:?} {values:?}");
    };
    in_order(&[
        "append_p50_ns",
        "append_p99_ns",
        "append_p999_ns",
        "append_max_ns",
    ]);
    in_order(&[
        "sealed_after_p50_us",
        "sealed_after_p99_us",
        "sealed_after_max_us",
    ]);
    assert!(number(&latency, "frames") >= 1.0);
    assert!(number(&latency, "durable_appends_per_second") > 0.0);
}

#[test]
fn the_proxy_is_compared_with_the_server_and_everything_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, plot) = (folder.path().join("out.csv"), folder.path().join("out.svg"));
    let document = json(&[
        "proxy",
        "--small",
        "--json",
        "--clients=4",
        "--csv",
        csv.to_str().unwrap(),
        "--plot",
        plot.to_str().unwrap(),
    ]);
    let results = document["results"].as_array().unwrap();
    let stages = [
        "server",
        "proxy, relaxed",
        "proxy, group",
        "proxy, strict",
        "store, group",
        "store, strict",
    ];
    assert_eq!(results.len(), stages.len() * 4);
    let drawing = std::fs::read_to_string(plot).unwrap();
    for (result, stage) in results
        .iter()
        .zip(stages.iter().flat_map(|stage| [stage; 4]))
    {
        assert_eq!(result["stage"], *stage);
        assert!(drawing.contains(result["name"].as_str().unwrap()));
        // 20 keys are filled first, and a run is of 100 pipelines.
        let sent = 100.0 * number(result, "pipeline");
        let expected = if *stage == "server" { 0.0 } else { sent + 20.0 };
        assert!(
            (number(result, "entries") - expected).abs() < 0.5,
            "{result}"
        );
        assert!(number(result, "p50_us") <= number(result, "p99_us"));
        let share = number(result, "share_of_server");
        assert!(share > 0.0 && (*stage != "server" || (share - 1.0).abs() < 1e-9));
    }
    let table = std::fs::read_to_string(csv).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), results.len() + 1);
    for line in &lines {
        assert_eq!(line.split(',').count(), lines[0].split(',').count());
    }
    let wrong = bench(&["proxy", "--small", "--upstream", "redis://:secret@h"]);
    let errors = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        !wrong.status.success() && errors.contains("do not log in"),
        "{errors}"
    );
}

#[test]
fn disguises_come_back_and_their_figures_agree() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, plot) = (folder.path().join("out.csv"), folder.path().join("out.svg"));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let arguments = [
        "disguise",
        "--small",
        "--json",
        "--csv",
        &text(&csv),
        "--plot",
        &text(&plot),
    ];
    let found = json(&arguments);
    let results = found["results"].as_array().unwrap();
    for (application, operations) in [
        (
            "WebSubmit",
            &["remove account", "restore account", "anonymise, per user"][..],
        ),
        (
            "HotCRP",
            &[
                "remove account",
                "remove account over anonymise, per reviewer",
            ],
        ),
        (
            "Lobsters",
            &["remove account", "leave a topic", "restore decayed"],
        ),
    ] {
        for operation in operations {
            let result = results.iter().find(|it| {
                it["application"] == application
                    && it["operation"] == *operation
                    && it["way"] == "disguise"
            });
            let result = result.unwrap_or_else(|| panic!("{application}: {operation}"));
            let order = ["p5", "p50", "p95"].map(|name| number(result, name));
            assert!(order.is_sorted() && order[0] > 0.0, "{result}");
        }
    }
    for result in results.iter().filter(|it| it["over_m1"].is_number()) {
        let by_hand = results.iter().find(|it| {
            it["way"] == "M1 rows"
                && it["application"] == result["application"]
                && it["operation"] == result["operation"]
        });
        let ratio = number(result, "p50") / number(by_hand.unwrap(), "p50");
        assert!((ratio - number(result, "over_m1")).abs() < 1e-9);
    }
    let lines = std::fs::read_to_string(csv).unwrap();
    assert_eq!(lines.lines().count(), results.len() + 1);
    assert!(
        std::fs::read_to_string(plot)
            .unwrap()
            .contains("HotCRP remove account")
    );
}

#[test]
fn a_wrong_flag_is_refused_by_name() {
    for (flag, expected) in [
        ("--compression=gzip", "zstd:1 to zstd:19 or none"),
        ("--proofs=all", "entry or section"),
        ("--durability=maybe", "strict, group or relaxed"),
        ("--encryption=perhaps", "on or off"),
        ("--preset=fastest", "possible values"),
    ] {
        let output = bench(&["ingest", flag]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn the_pocket_database_is_measured_in_every_state() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, svg) = (folder.path().join("p.csv"), folder.path().join("p.svg"));
    let measured = json(&[
        "pocketdb",
        "--rows",
        "2000",
        "--changes",
        "50",
        "--lifetime-limit",
        "700",
        "--json",
        "--csv",
        csv.to_str().unwrap(),
        "--plot",
        svg.to_str().unwrap(),
        "--plots",
        folder.path().join("plots").to_str().unwrap(),
    ]);
    for number in 7..=10 {
        let plot = folder.path().join(format!("plots/figure{number}.svg"));
        let plot = std::fs::read_to_string(plot).unwrap();
        assert!(plot.matches("<polyline").count() + plot.matches("<rect").count() > 4);
    }
    let results = measured["results"].as_array().unwrap();
    let of = |kind: &'static str| results.iter().filter(move |result| result["kind"] == kind);
    // B+-trees for the same indexes cost many times as much, and so does SQLite with fewer indexes.
    let programs = |kind, name: &str| {
        let mut found =
            of(kind).filter(|result| result["name"].as_str().unwrap().starts_with(name));
        number(found.next().unwrap(), "programs_per_row")
    };
    let own = programs("insertion", "T0, each row");
    assert!(programs("comparison", "T0, 29 B+-trees") > 15.0 * own);
    assert!(programs("comparison", "T0, SQLite") > 3.0 * own);
    assert_eq!(of("comparison").count(), 7);
    assert_eq!(of("query").count(), 6 * 18);
    let total = |state: &str| -> f64 {
        let asked = of("query").filter(|result| result["name"].as_str().unwrap().ends_with(state));
        asked.map(|result| number(result, "page_reads")).sum()
    };
    assert!(total(", reorganised") < total(", log only"));
    // Equal queries return equal numbers of rows in both forms.
    let rows = |state: &str| -> Vec<u64> {
        let asked = of("query").filter(|result| result["name"].as_str().unwrap().ends_with(state));
        asked
            .map(|result| result["rows"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(rows(", reorganised"), rows(", log only"));
    assert_eq!(rows(", reorganised again"), rows(", with changes"));
    let single = of("insertion")
        .find(|result| result["name"] == "T0, each row a commit")
        .unwrap();
    assert!(number(single, "programs_per_row") <= 2.0, "{single}");
    assert_eq!(of("lifetime").count(), 1);
    assert_eq!(
        std::fs::read_to_string(csv).unwrap().lines().count(),
        results.len() + 1
    );
    assert_eq!(
        std::fs::read_to_string(svg)
            .unwrap()
            .matches("fill=\"#2B6CB0\"")
            .count(),
        108
    );
}

#[test]
fn the_pocket_database_answers_as_sqlite_does_in_every_state_with_little_memory() {
    let measured = json(&[
        "pocketdb",
        "--rows",
        "2000",
        "--changes",
        "200",
        "--ram",
        "32768",
        "--part",
        "answers",
        "--json",
    ]);
    let results = measured["results"].as_array().unwrap();
    assert_eq!(results.len(), 6);
    for result in results {
        assert_eq!(result["kind"], "answers");
        let name = result["name"].as_str().unwrap();
        assert!(name.starts_with("24 queries equal"), "{name}");
        assert!(number(result, "rows") > 10_000.0, "{result}");
        assert!(number(result, "memory_bytes") <= 32_768.0, "{result}");
    }
}

#[test]
fn a_part_of_the_pocket_databases_series_is_run_alone() {
    for (part, kinds) in [
        ("insertion", &["insertion"][..]),
        ("queries", &["query", "change"]),
        ("reorganisation", &["reorganisation", "change"]),
        ("growth", &["reorganisation"]),
        ("lifetimes", &["insertion", "reorganisation", "lifetime"]),
        ("others", &["comparison"]),
    ] {
        let measured = json(&[
            "pocketdb",
            "--rows",
            "1000",
            "--changes",
            "20",
            "--part",
            part,
            "--json",
        ]);
        let results = measured["results"].as_array().unwrap();
        assert!(!results.is_empty(), "{part}");
        for result in results {
            let kind = result["kind"].as_str().unwrap();
            assert!(kinds.contains(&kind), "{part}: {kind}");
        }
    }
}

#[test]
fn requests_go_on_while_people_leave_and_return() {
    let arguments = [
        "concurrency",
        "--small",
        "--json",
        "--seconds",
        "0.3",
        "--repeats",
        "2",
        "--disguisers",
        "2",
    ];
    let found = json(&arguments);
    let results = found["results"].as_array().unwrap();
    for (application, beside) in [
        ("Lobsters", "beside nobody"),
        ("Lobsters", "beside a user at random"),
        ("Lobsters", "beside the heaviest user"),
        ("WebSubmit", "beside those who leave and return"),
    ] {
        for what in ["requests", "a request", "leaving", "returning"] {
            let operation = format!("{what} {beside}");
            let result = results
                .iter()
                .find(|it| it["application"] == application && it["operation"] == *operation);
            let expected = beside != "beside nobody" || what.contains("request");
            assert_eq!(result.is_some(), expected, "{application}: {operation}");
            assert!(result.is_none_or(|it| number(it, "p50") > 0.0));
        }
        let of_losses = |it: &&Value| {
            let operation = it["operation"].as_str().unwrap();
            let is_loss = operation.starts_with("fewer requests") && operation.ends_with(beside);
            it["application"] == application && is_loss
        };
        // One loss per round, and the bounds of their median.
        let losses: Vec<_> = results.iter().filter(of_losses).collect();
        let expected = if beside == "beside nobody" { 0 } else { 2 };
        assert_eq!(losses.len(), expected, "{application} {beside}");
        assert!(
            losses
                .iter()
                .all(|it| it["samples"] == 2 && number(it, "p50") < 100.0)
        );
    }
}

/// Existing files are not overwritten, and the error comes before the measurement.
#[test]
fn a_file_that_is_there_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    std::fs::write(&there, "before").unwrap();
    // Would run far longer than the test, if it started.
    for option in ["--csv", "--plot"] {
        let path = there.to_str().unwrap();
        let output = bench(&["ingest", "--entries", "100000000000", option, path]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("cannot write"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "before");
}
