//! The program under test, with an environment and signals that do not depend on who runs the test.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Variables that the program reads begin so.
const VARIABLES: &str = "PROBITY_";

/// A program under test.
#[derive(Debug, Clone, Copy)]
pub struct Program(&'static str);

impl Program {
    /// The program at `path`: `env!("CARGO_BIN_EXE_...")` of the test.
    pub const fn new(path: &'static str) -> Self {
        Self(path)
    }

    /// A command in `folder`, with a pipe for each of its streams and without the variables that
    /// the program reads.
    pub fn command(self, folder: &Path, args: &[&str]) -> Command {
        // With signals as a terminal leaves them: a shell in the background has some ignored, and
        // so have its children. By its path: a test may take the search path away.
        let mut command = Command::new("/usr/bin/env");
        command.args(["--default-signal", "--", self.0]).args(args);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(VARIABLES) {
                command.env_remove(name);
            }
        }
        command
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it with `input` until it ends.
    pub fn run(self, folder: &Path, args: &[&str], input: &[u8]) -> Output {
        let mut child = self.command(folder, args).spawn().unwrap();
        // A program that refuses does not read to the end.
        drop(child.stdin.take().unwrap().write_all(input));
        child.wait_with_output().unwrap()
    }

    /// Runs it with `input` until it ends with `status`. Returns standard output and standard error.
    pub fn ends(self, folder: &Path, args: &[&str], input: &str, status: i32) -> (String, String) {
        let output = self.run(folder, args, input.as_bytes());
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let code = output.status.code();
        assert_eq!(code, Some(status), "{args:?}: {stdout}{stderr}");
        (stdout, stderr)
    }
}
