//! Commands to try next in the demo's folder, ready to copy.

use std::path::Path;

use super::{LogLocation, PERSON};
use crate::config::{Environment, verifier_path_beside};
use crate::failure::Failure;
use crate::output::Output;
use crate::shell::quoted;

/// Prints the commands, each below its purpose.
pub(super) fn show(
    places: &LogLocation,
    environment: &Environment,
    output: &mut Output,
) -> Result<(), Failure> {
    let program = environment.program.as_deref();
    let program = quoted(program.unwrap_or_else(|| Path::new("probity")));
    let log = quoted(&places.log);
    let tampered = quoted(&places.tampered);
    let proof = quoted(&places.folder.join("entry.tlog-proof"));
    let verifier = quoted(&verifier_path_beside(&places.log));
    let store = quoted(&places.store);
    let policy = quoted(&places.policy);
    let shown = [
        (
            "verify the log without any secret, and the changed copy (exit status 3)",
            vec![format!("verify {log}"), format!("verify {tampered}")],
        ),
        (
            "read what was recorded: about a person, by an actor",
            vec![
                format!("export {log} --format jsonl --subject {PERSON}"),
                format!("export {log} --format csv --actor support"),
            ],
        ),
        (
            "prove one entry to somebody who has nothing else of the log",
            vec![
                format!("prove {log} --index 0 -o {proof}"),
                format!("check-proof {proof} --key {verifier}"),
            ],
        ),
        (
            "go on recording: any Redis client at port 6380 is served from the same store",
            vec![format!(
                "proxy --log {log} --store {store} --policy {policy} --listen 127.0.0.1:6380"
            )],
        ),
    ];
    output.line("next, try:")?;
    for (purpose, commands) in shown {
        output.line(&format!("  # {purpose}"))?;
        for command in commands {
            output.line(&format!("  {program} {command}"))?;
        }
    }
    Ok(())
}
