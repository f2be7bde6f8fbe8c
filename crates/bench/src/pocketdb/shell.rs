//! The shell of another database as a child process; an echoed mark tells that all statements are
//! done.

use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use probity_disguise::Value;

/// A running shell.
pub(super) struct Shell {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Number of marks requested.
    marks: u64,
}

impl Shell {
    /// Starts a shell on the database `file`; the shell exits at the first statement that fails.
    pub(super) fn start(mut command: Command, file: &Path) -> io::Result<Self> {
        let arguments: [&OsStr; 3] = ["-batch".as_ref(), "-bail".as_ref(), file.as_ref()];
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let ended = || io::Error::from(io::ErrorKind::BrokenPipe);
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(ended)?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
            marks: 0,
        })
    }

    /// Sends a statement whose question marks are replaced by `values`; does not wait for it.
    pub(super) fn send(&mut self, statement: &str, values: &[Value]) -> io::Result<()> {
        let mut text = String::with_capacity(statement.len());
        let mut parts = statement.split('?');
        text.push_str(parts.next().unwrap_or(""));
        for (part, value) in parts.zip(values) {
            text.push_str(&literal(value)?);
            text.push_str(part);
        }
        text.push_str(";\n");
        let ended = || io::Error::from(io::ErrorKind::BrokenPipe);
        let input = self.input.as_mut().ok_or_else(ended)?;
        input.write_all(text.as_bytes())
    }

    /// Waits until all statements sent are done.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.marks += 1;
        let mark = format!("mark {}", self.marks);
        self.send(&format!("SELECT '{mark}'"), &[])?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line)? == 0 {
                let what = "the shell refused a statement and ended";
                return Err(io::Error::other(what));
            }
            if line.trim_end() == mark {
                return Ok(());
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Closing its input ends the shell.
        self.input = None;
        let _status = self.child.wait();
    }
}

fn literal(value: &Value) -> io::Result<String> {
    match value {
        Value::Int(number) => Ok(number.to_string()),
        Value::Text(text) => Ok(format!("'{}'", text.replace('\'', "''"))),
        _ => Err(io::Error::other("a value has no literal")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_does_what_it_is_sent_and_tells_when_it_ended() {
        // A script in place of a database: it reads lines and answers the mark.
        let folder = tempfile::tempdir().unwrap();
        let script = "while IFS= read -r line; do\n  case \"$line\" in\n    SELECT*) line=${line#*\\'}; \
             echo \"${line%%\\'*}\" ;;\n    STOP*) exit 1 ;;\n    *) echo \"$line\" >> \"$2\" ;;\n  esac\ndone\n";
        let file = folder.path().join("seen");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let mut shell = Shell::start(command, &file).unwrap();
        let values = [Value::Int(7), Value::Text("it's".into())];
        shell.send("INSERT INTO t VALUES (?, ?)", &values).unwrap();
        shell.wait().unwrap();
        let seen = std::fs::read_to_string(&file).unwrap();
        assert_eq!(seen, "INSERT INTO t VALUES (7, 'it''s');\n");
        shell.send("STOP", &[]).unwrap();
        assert!(shell.wait().is_err());
    }
}
