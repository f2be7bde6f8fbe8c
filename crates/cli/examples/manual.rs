//! Writes the manual pages and shell completions of `probity` into a folder, from its own arguments.
//!
//! Run with `cargo run -p probity-cli --example manual -- FOLDER`; `./package` does.
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own, which writes no file of a log"
)]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_complete::Shell;
use probity_cli::args::Args;

/// The folders of a Debian system that each shell reads, with the name of the file there.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/probity"),
    (Shell::Zsh, "zsh/vendor-completions/_probity"),
    (Shell::Fish, "fish/vendor_completions.d/probity.fish"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or("names no folder to write to")?;
    pages(&folder.join("man/man1"))?;
    completions(&folder)
}

/// Writes a page for the program and for each command, `probity-disguise-apply.1` and so on.
fn pages(folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Args::command(), folder)?;
    Ok(())
}

fn completions(folder: &Path) -> Result<(), Box<dyn Error>> {
    for (shell, place) in SHELLS {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), "probity", &mut script);
        let path = folder.join(place);
        fs::create_dir_all(path.parent().ok_or("no folder")?)?;
        fs::write(path, script)?;
    }
    Ok(())
}
