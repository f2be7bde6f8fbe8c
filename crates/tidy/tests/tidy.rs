//! Runs every check over this repository.

#![expect(clippy::expect_used, reason = "a check that cannot start has failed")]

use std::path::{Path, PathBuf};
use std::process::Command;

use probity_tidy::{
    Finding, Repository, claims, dependencies, documents, imports, layers, manifests, names, rust,
    text,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn repository() -> Repository {
    let repository = Repository::open(&root()).expect("the repository can be read");
    assert!(
        repository.files.len() > 20,
        "only {} files found",
        repository.files.len()
    );
    repository
}

fn holds(check: impl Fn(&Repository) -> Vec<Finding>) {
    let findings = check(&repository());
    let report: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(
        report.is_empty(),
        "{} to put right:\n{}\n",
        report.len(),
        report.join("\n")
    );
}

#[test]
fn crates_depend_on_lower_ranks_only() {
    holds(manifests::ranks);
}

#[test]
fn libraries_with_a_home_stay_there() {
    holds(manifests::homes);
}

#[test]
fn only_tests_depend_on_the_crate_for_tests() {
    holds(manifests::only_tests);
}

#[test]
fn versions_and_lints_are_said_in_the_root_manifest() {
    holds(manifests::inherit_from_root);
}

#[test]
fn every_dependency_is_used() {
    holds(manifests::dependencies_are_used);
}

#[test]
fn packages_come_from_one_registry() {
    holds(dependencies::sources);
}

#[test]
fn both_lock_files_hold_the_same_versions() {
    holds(dependencies::lock_files_agree);
}

/// Returns every package that is built for some platform: name and version, a tab, and its licence.
fn tree() -> String {
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args([
            "tree",
            "--workspace",
            "--locked",
            "--all-features",
            "--target",
            "all",
        ])
        .args([
            "--edges",
            "normal,build,dev",
            "--prefix",
            "none",
            "--format",
            "{p}\t{l}",
        ])
        .output()
        .expect("cargo can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree failed: {errors}");
    let tree = String::from_utf8(output.stdout).expect("cargo tree prints UTF-8");
    assert!(
        tree.contains("sha2 v"),
        "cargo tree lists no package that is known to be used"
    );
    tree
}

#[test]
fn no_banned_package_is_built() {
    holds(|repository| dependencies::bans(repository, &tree()));
}

#[test]
fn every_licence_is_allowed() {
    holds(|repository| dependencies::licences(repository, &tree()));
}

#[test]
fn names_say_what_is_inside() {
    holds(names::no_empty_words);
}

#[test]
fn files_are_of_known_kinds() {
    holds(names::known_kinds);
}

#[test]
fn files_are_small() {
    holds(names::sizes);
}

#[test]
fn scripts_and_nothing_else_may_be_executed() {
    holds(names::executable_bits);
}

#[test]
fn sources_are_ascii() {
    holds(text::ascii);
}

#[test]
fn lines_end_cleanly() {
    holds(text::blanks);
}

#[test]
fn nothing_is_left_for_later() {
    holds(text::nothing_unfinished);
}

#[test]
fn nothing_of_one_machine_is_named() {
    holds(text::nothing_of_one_machine);
}

#[test]
fn each_source_says_what_it_holds() {
    holds(rust::first_lines);
}

#[test]
fn comments_open_with_a_verb_or_a_noun() {
    holds(rust::openings);
}

#[test]
fn sources_are_of_readable_length() {
    holds(rust::lengths);
}

#[test]
fn the_list_of_long_files_shrinks() {
    holds(rust::long_files_shrink);
}

#[test]
fn no_macro_stands_for_missing_code() {
    holds(rust::no_unfinished_macros);
}

#[test]
fn unsafe_code_is_at_home() {
    holds(rust::unsafe_code_is_at_home);
}

#[test]
fn imports_come_in_three_blocks() {
    holds(imports::three_blocks);
}

#[test]
fn layers_of_a_crate_depend_on_lower_layers_only() {
    holds(layers::order);
}

#[test]
fn each_document_has_one_title() {
    holds(documents::one_title);
}

#[test]
fn prose_is_as_wide_as_a_page() {
    holds(documents::widths);
}

#[test]
fn links_lead_somewhere() {
    holds(documents::links);
}

#[test]
fn the_code_map_names_places_that_exist() {
    holds(documents::code_map);
}

#[test]
fn every_bound_is_in_the_format_document() {
    holds(documents::limits_are_documented);
}

#[test]
fn slow_tests_have_their_commands() {
    holds(documents::slow_tests_are_listed);
}

#[test]
fn tests_that_documents_name_exist() {
    holds(claims::named_tests_exist);
}

#[test]
fn tests_of_libraries_need_no_server() {
    holds(claims::tests_of_libraries_need_no_server);
}
